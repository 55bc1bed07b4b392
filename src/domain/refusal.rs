//! Refusals: why the gateway refuses an authenticated call, because of a field or a business rule. A refusal is an
//! outcome like any other and is stored under the key. Its HTTP status is in `http::error`.

use crate::domain::json::fields::FieldError;
use crate::domain::payment::money::Currency;

/// Why a call was refused, in the words that the client reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The body is not a JSON object.
    Malformed(String),
    /// Fields that are wrong; never empty.
    Fields(Vec<FieldError>),
    /// No order has this number.
    OrderNotFound(String),
    /// No refund has this number.
    RefundNotFound(String),
    /// No fault rule has this id.
    FaultNotFound(String),
    /// The journal has no request of this id.
    RequestNotFound(String),
    /// The merchant has as many fault rules as it may have.
    TooManyFaults(i64),
    /// No event has this identifier.
    EventNotFound(String),
    /// There is no URL to send a webhook to.
    WebhookUrlMissing,
    /// The order number was used with other content; the fields that differ.
    OutTradeNoConflict(Vec<FieldError>),
    /// The refund number was used with other content; the fields that differ.
    OutRefundNoConflict(Vec<FieldError>),
    /// The order is paid, and cannot be closed or paid again.
    OrderAlreadyPaid,
    /// The order is closed, and cannot be paid.
    OrderClosed,
    /// The order is not paid, and cannot be refunded.
    OrderNotPaid,
    /// More than can still be refunded; that amount, in minor units.
    RefundExceedsRemaining(i64, Currency),
    /// The number of a card is mistyped.
    InvalidCardNumber,
    /// The number may be a real card's.
    TestCardRequired,
    /// The card asks for authentication, and none was sent.
    AuthenticationRequired,
    /// The clock would leave its range; the field that asked for it.
    ClockOutOfRange(&'static str),
}

impl Refusal {
    /// The code, for programs.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Malformed(_) => "malformed_request",
            Self::Fields(errors) => errors.first().map_or("malformed_request", |error| error.code.as_str()),
            Self::OrderNotFound(_) => "order_not_found",
            Self::RefundNotFound(_) => "refund_not_found",
            Self::FaultNotFound(_) => "fault_not_found",
            Self::RequestNotFound(_) => "request_not_found",
            Self::TooManyFaults(_) => "too_many_faults",
            Self::EventNotFound(_) => "event_not_found",
            Self::WebhookUrlMissing => "webhook_url_missing",
            Self::OutTradeNoConflict(_) => "out_trade_no_conflict",
            Self::OutRefundNoConflict(_) => "out_refund_no_conflict",
            Self::OrderAlreadyPaid => "order_already_paid",
            Self::OrderClosed => "order_closed",
            Self::OrderNotPaid => "order_not_paid",
            Self::RefundExceedsRemaining(..) => "refund_exceeds_remaining",
            Self::InvalidCardNumber => "invalid_card_number",
            Self::TestCardRequired => "test_card_required",
            Self::AuthenticationRequired => "authentication_required",
            Self::ClockOutOfRange(_) => "clock_out_of_range",
        }
    }

    /// Whether what was asked for is not there.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(
            self,
            Self::OrderNotFound(_)
                | Self::RefundNotFound(_)
                | Self::EventNotFound(_)
                | Self::FaultNotFound(_)
                | Self::RequestNotFound(_)
        )
    }

    /// What is wrong and what to do, for people.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::Malformed(what) => format!("The request cannot be read: {what}."),
            Self::Fields(errors) => match errors.as_slice() {
                [one] => one.message.clone(),
                [first, rest @ ..] => format!("{} {} more in errors.", first.message, rest.len()),
                [] => String::new(),
            },
            Self::OrderNotFound(no) => {
                format!("No order of this merchant has the trade_no or out_trade_no \"{}\".", shown(no))
            }
            Self::RefundNotFound(no) => {
                format!("No refund of this merchant has the refund_no or out_refund_no \"{}\".", shown(no))
            }
            Self::FaultNotFound(id) => format!("No fault rule of this merchant has the id \"{}\".", shown(id)),
            Self::RequestNotFound(id) => {
                format!("The journal of this merchant has no request \"{}\".", shown(id))
            }
            Self::TooManyFaults(limit) => {
                format!("A merchant can have {limit} fault rules. Delete some with DELETE /sandbox/faults.")
            }
            Self::EventNotFound(id) => format!("No event of this merchant has the id \"{}\".", shown(id)),
            Self::WebhookUrlMissing => {
                "There is no URL to send to. Set one with PUT /sandbox/webhook, for example {\"url\": \
                 \"http://127.0.0.1:3000/hook\"}."
                    .to_owned()
            }
            Self::OutTradeNoConflict(errors) => conflict("out_trade_no", "order", errors),
            Self::OutRefundNoConflict(errors) => conflict("out_refund_no", "refund", errors),
            Self::OrderAlreadyPaid => {
                "The order is paid: it cannot be closed or paid again. Refund it with POST /v1/refunds.".to_owned()
            }
            Self::OrderClosed => "The order is closed and cannot be paid. Create a new order.".to_owned(),
            Self::OrderNotPaid => "The order is not paid, so there is nothing to refund.".to_owned(),
            Self::RefundExceedsRemaining(remaining, currency) => format!(
                "The refund exceeds what remains of the order: {remaining} minor units of {currency} can still be \
                 refunded."
            ),
            Self::InvalidCardNumber => {
                "The card number is not valid: send 12 to 19 digits as a string, with a right check digit.".to_owned()
            }
            Self::ClockOutOfRange(_) => "A clock can show times from 2000-01-01 to 2099-12-31.".to_owned(),
            Self::AuthenticationRequired => {
                "This card asks for 3-D Secure. Send \"authenticate\": \"authorised\" or \"failed\" with it, in place of \
                 the buyer."
                    .to_owned()
            }
            Self::TestCardRequired => {
                "Only test cards work in the sandbox; never type a real card number here. Use 4242424242424242."
                    .to_owned()
            }
        }
    }

    /// The fields that are at fault, if any.
    #[must_use]
    pub fn errors(&self) -> Vec<FieldError> {
        match self {
            Self::Fields(errors) | Self::OutTradeNoConflict(errors) | Self::OutRefundNoConflict(errors) => {
                errors.clone()
            }
            Self::RefundExceedsRemaining(..) => vec![self.about("amount")],
            Self::InvalidCardNumber | Self::TestCardRequired => vec![self.about("card")],
            Self::AuthenticationRequired => vec![self.about("authenticate")],
            Self::ClockOutOfRange(param) => vec![self.about(param)],
            _ => Vec::new(),
        }
    }

    fn about(&self, param: &str) -> FieldError {
        FieldError { param: param.to_owned(), code: self.code().to_owned(), message: self.message() }
    }
}

fn conflict(number: &str, object: &str, errors: &[FieldError]) -> String {
    let names: Vec<_> = errors.iter().map(|error| error.param.as_str()).collect();
    format!(
        "This {number} belongs to another {object}, which differs in: {}. Use a new {number} for a new {object}, or \
         send the first content again.",
        names.join(", ")
    )
}

/// A number as a message quotes it: shortened, without control characters.
fn shown(no: &str) -> String {
    let short: String = no.chars().take(80).collect();
    short.escape_debug().to_string()
}
