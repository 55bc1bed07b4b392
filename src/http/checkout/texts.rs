//! The texts of the checkout pages, in both languages. A missing translation does not compile.

use crate::domain::code::Code;
use crate::domain::payment::card::{CardOutcome, Decline, RefundCourse, TestCard};
use crate::domain::payment::checkout::{CardFieldError, CheckoutState};
use crate::domain::payment::order::{Failure, Locale};

/// The texts in one language.
pub(super) struct Texts {
    /// The language, for browsers and screen readers.
    pub(super) language: &'static str,
    pub(super) product: &'static str,
    pub(super) sandbox: &'static str,
    pub(super) sandbox_note: &'static str,
    pub(super) skip: &'static str,

    pub(super) pay: &'static str,
    pub(super) order: &'static str,
    pub(super) order_number: &'static str,
    pub(super) refunded_amount: &'static str,
    pub(super) paid_with: &'static str,
    pub(super) pay_before: &'static str,
    pub(super) time_left: &'static str,

    pub(super) card: &'static str,
    pub(super) number: &'static str,
    pub(super) number_hint: &'static str,
    pub(super) expiry: &'static str,
    pub(super) expiry_hint: &'static str,
    pub(super) cvc: &'static str,
    pub(super) cvc_hint: &'static str,
    pub(super) paying: &'static str,
    pub(super) no_money: &'static str,

    pub(super) test_cards: &'static str,
    pub(super) test_cards_hint: &'static str,
    pub(super) group_paid: &'static str,
    pub(super) group_authentication: &'static str,
    pub(super) group_declined: &'static str,
    pub(super) group_refunds: &'static str,

    pub(super) failed: &'static str,
    pub(super) try_again: &'static str,
    pub(super) check_fields: &'static str,

    pub(super) authentication: &'static str,
    pub(super) authentication_note: &'static str,
    pub(super) authorise: &'static str,
    pub(super) fail: &'static str,
    pub(super) back: &'static str,

    pub(super) to_shop: &'static str,
    pub(super) may_close: &'static str,
    pub(super) reference: &'static str,
}

const EN: Texts = Texts {
    language: "en",
    product: "KukoPay",
    sandbox: "Sandbox",
    sandbox_note: "Only test cards work here, and no money moves. Never enter a real card.",
    skip: "Skip to payment",

    pay: "Pay",
    order: "Order",
    order_number: "Order number",
    refunded_amount: "Refunded",
    paid_with: "Paid with",
    pay_before: "Pay before",
    time_left: "Time left",

    card: "Card details",
    number: "Card number",
    number_hint: "One of the test cards",
    expiry: "Expiry",
    expiry_hint: "MM/YY, any future month",
    cvc: "CVC",
    cvc_hint: "Any 3 or 4 digits",
    paying: "Paying…",
    no_money: "This is a test. No money moves.",

    test_cards: "Test cards",
    test_cards_hint: "Choose one to fill in the form.",
    group_paid: "Payment succeeds",
    group_authentication: "Asks the buyer",
    group_declined: "Payment is declined",
    group_refunds: "Refunds take time",

    failed: "The payment did not go through",
    try_again: "You have not been charged. Try again, or use another card.",
    check_fields: "Please check the card details",

    authentication: "Confirm this payment",
    authentication_note: "Your bank would ask you here to confirm the payment (3-D Secure). In the sandbox you decide \
                          what happens.",
    authorise: "Authorise",
    fail: "Fail",
    back: "Use another card",

    to_shop: "Return to the shop",
    may_close: "You may close this page.",
    reference: "Reference",
};

const ZH: Texts = Texts {
    language: "zh-Hant",
    product: "KukoPay",
    sandbox: "測試環境",
    sandbox_note: "此處只接受測試卡，不會產生實際扣款。請勿輸入真實卡號。",
    skip: "跳至付款表單",

    pay: "付款",
    order: "訂單",
    order_number: "訂單編號",
    refunded_amount: "已退款",
    paid_with: "付款方式",
    pay_before: "付款期限",
    time_left: "剩餘時間",

    card: "卡片資料",
    number: "卡號",
    number_hint: "請使用測試卡",
    expiry: "有效期限",
    expiry_hint: "月/年，任何未來月份",
    cvc: "安全碼",
    cvc_hint: "任意 3 或 4 位數字",
    paying: "付款處理中…",
    no_money: "此為測試交易，不會實際扣款。",

    test_cards: "測試卡",
    test_cards_hint: "點選任一張卡，即可自動填入。",
    group_paid: "付款成功",
    group_authentication: "需要驗證",
    group_declined: "付款遭拒",
    group_refunds: "退款需時處理",

    failed: "付款未完成",
    try_again: "您並未被扣款。請再試一次，或改用其他卡片。",
    check_fields: "請檢查卡片資料",

    authentication: "確認付款",
    authentication_note: "實際付款時，發卡銀行會在此要求您驗證身分（3D 驗證）。在測試環境中，結果由您決定。",
    authorise: "授權付款",
    fail: "驗證失敗",
    back: "改用其他卡片",

    to_shop: "返回商店",
    may_close: "您可以關閉此頁面。",
    reference: "參考編號",
};

/// A heading and a sentence about an order that cannot be paid now, or about an error.
pub(super) struct Outcome {
    pub(super) heading: &'static str,
    pub(super) sentence: &'static str,
}

impl Texts {
    /// The texts of a language.
    pub(super) const fn of(locale: Locale) -> &'static Self {
        match locale {
            Locale::En => &EN,
            Locale::Zh => &ZH,
        }
    }

    /// Selects the text for this language.
    fn either<T>(&self, en: T, zh: T) -> T {
        if self.language == EN.language { en } else { zh }
    }

    /// The text about an order that cannot be paid now; `None` while it can.
    pub(super) fn outcome(&self, state: CheckoutState) -> Option<Outcome> {
        let (en, zh) = match state {
            CheckoutState::Payable(_) => return None,
            CheckoutState::Paid => (
                ("Payment complete", "This order is paid. It cannot be charged a second time."),
                ("付款完成", "此訂單已付款，不會重複扣款。"),
            ),
            CheckoutState::Refunded => (
                ("Refunded", "This order was paid, and all of it has been refunded."),
                ("已退款", "此訂單已付款，款項已全數退還。"),
            ),
            CheckoutState::Closed => (
                ("Order closed", "The shop has closed this order. It cannot be paid any more."),
                ("訂單已關閉", "商店已關閉此訂單，無法再付款。"),
            ),
            CheckoutState::Expired => (
                ("Order expired", "The time to pay this order is over. Please order again in the shop."),
                ("訂單已逾期", "此訂單已超過付款期限，請返回商店重新下單。"),
            ),
        };
        let (heading, sentence) = self.either(en, zh);
        Some(Outcome { heading, sentence })
    }

    /// The text of an error page, by HTTP status.
    pub(super) fn error(&self, status: u16) -> Outcome {
        let (en, zh) = match status {
            404 => (
                ("Page not found", "There is no payment page at this address. Please check the link."),
                ("找不到頁面", "此網址沒有付款頁面，請檢查連結是否正確。"),
            ),
            400..=499 => (
                (
                    "This did not work",
                    "The page could not read what was sent. Nothing has been charged. Please go back and try again.",
                ),
                ("無法處理", "無法讀取送出的內容，並未扣款。請返回上一頁再試一次。"),
            ),
            503 => (
                (
                    "One moment, please",
                    "The payment page is not available right now. Open it again in a moment to see whether the order \
                     is paid.",
                ),
                ("請稍候", "付款頁面暫時無法使用。請稍後重新開啟，以確認訂單是否已付款。"),
            ),
            _ => (
                (
                    "Something went wrong",
                    "The error is on our side. Open the payment page again to see whether the order is paid.",
                ),
                ("系統發生錯誤", "系統發生問題。請重新開啟付款頁面，以確認訂單是否已付款。"),
            ),
        };
        let (heading, sentence) = self.either(en, zh);
        Outcome { heading, sentence }
    }

    /// Why the last attempt to pay failed.
    pub(super) fn failure<'a>(&self, failure: &'a Failure) -> &'a str {
        match Decline::from_code(&failure.code) {
            Some(decline) => self.decline(decline),
            None => &failure.message,
        }
    }

    fn decline(&self, decline: Decline) -> &'static str {
        match decline {
            Decline::CardDeclined => self.either("The card was declined.", "卡片遭拒絕。"),
            Decline::InsufficientFunds => {
                self.either("There is not enough money on the card.", "卡片餘額或額度不足。")
            }
            Decline::LostCard => self.either("The card was reported lost.", "此卡已掛失。"),
            Decline::StolenCard => self.either("The card was reported stolen.", "此卡已通報失竊。"),
            Decline::ExpiredCard => self.either("The card has expired.", "卡片已過期。"),
            Decline::IncorrectCvc => self.either("The CVC is not correct.", "安全碼不正確。"),
            Decline::ProcessingError => {
                self.either("The bank could not process the card.", "銀行處理卡片時發生錯誤。")
            }
            Decline::AuthenticationFailed => {
                self.either("The payment was not confirmed (3-D Secure).", "未通過身分驗證（3D 驗證）。")
            }
        }
    }

    /// What a test card does, in a few words.
    pub(super) fn does(&self, card: &TestCard) -> &'static str {
        match (card.outcome, card.refund_course()) {
            (CardOutcome::Declined(decline), _) => match decline {
                Decline::CardDeclined => self.either("Declined", "拒絕交易"),
                Decline::InsufficientFunds => self.either("Insufficient funds", "餘額不足"),
                Decline::LostCard => self.either("Lost card", "掛失卡"),
                Decline::StolenCard => self.either("Stolen card", "失竊卡"),
                Decline::ExpiredCard => self.either("Expired card", "過期卡"),
                Decline::IncorrectCvc => self.either("Incorrect CVC", "安全碼錯誤"),
                Decline::ProcessingError => self.either("Processing error", "處理錯誤"),
                Decline::AuthenticationFailed => self.either("Not confirmed", "驗證失敗"),
            },
            (CardOutcome::Authentication, _) => self.either("3-D Secure", "3D 驗證"),
            (CardOutcome::Paid, RefundCourse::Immediate) => self.either("Paid", "付款成功"),
            (CardOutcome::Paid, RefundCourse::SucceedsLater) => {
                self.either("Paid; refunds succeed later", "退款稍後成功")
            }
            (CardOutcome::Paid, RefundCourse::FailsLater) => {
                self.either("Paid; refunds fail later", "退款稍後失敗")
            }
        }
    }

    /// What is wrong with the card number.
    pub(super) fn number_error(&self, error: CardFieldError) -> &'static str {
        match error {
            CardFieldError::Missing => self.either("Enter a card number.", "請輸入卡號。"),
            CardFieldError::NotATestCard => self.either(
                "This is not a test card. Never enter a real card here; choose one of the test cards.",
                "這不是測試卡。請勿輸入真實卡號，請選用測試卡。",
            ),
            CardFieldError::Invalid | CardFieldError::Past => {
                self.either("This card number is not valid.", "卡號不正確。")
            }
        }
    }

    /// What is wrong with the month of expiry.
    pub(super) fn expiry_error(&self, error: CardFieldError) -> &'static str {
        match error {
            CardFieldError::Missing => self.either("Enter the month and year of expiry.", "請輸入有效期限。"),
            CardFieldError::Past => {
                self.either("This month is over. Enter a future one.", "此日期已過，請輸入未來的月份。")
            }
            CardFieldError::Invalid | CardFieldError::NotATestCard => {
                self.either("Enter the expiry as MM/YY.", "請以「月/年」格式輸入有效期限。")
            }
        }
    }

    /// What is wrong with the check digits.
    pub(super) fn cvc_error(&self, error: CardFieldError) -> &'static str {
        match error {
            CardFieldError::Missing => self.either("Enter the CVC.", "請輸入安全碼。"),
            _ => self.either("The CVC has 3 or 4 digits.", "安全碼應為 3 或 4 位數字。"),
        }
    }
}

/// A card network's name, which is the same in both languages.
pub(super) fn brand(code: &str) -> &str {
    match code {
        "visa" => "Visa",
        "mastercard" => "Mastercard",
        "amex" => "American Express",
        "unionpay" => "UnionPay",
        "jcb" => "JCB",
        other => other,
    }
}
