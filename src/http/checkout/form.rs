//! The card form: its fields, their errors, and how errors travel in the page's address. What the buyer typed does
//! not travel: only a chosen test card fills the form again.

use time::OffsetDateTime;
use url::form_urlencoded;

use super::page::{any_cvc, card_name, future_month, grouped};
use super::texts::Texts;
use crate::domain::code::Code;
use crate::domain::payment::card::{TEST_CARDS, TestCard};
use crate::domain::payment::checkout::{CardFieldError, CardFormErrors};

/// The form as its template needs it.
pub(super) struct CardForm {
    texts: &'static Texts,
    errors: CardFormErrors,
    chosen: Option<(&'static TestCard, String)>,
}

/// A field of the form.
pub(super) struct Field<'a> {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) hint: &'static str,
    pub(super) value: String,
    pub(super) max_length: usize,
    pub(super) error: Option<&'a str>,
}

impl CardForm {
    /// The form that the query of a page's address asks for.
    pub(super) fn from_query(texts: &'static Texts, query: &str, now: OffsetDateTime) -> Self {
        let value = |name: &str| pairs(query).find(|(found, _)| found == name).map(|(_, value)| value);
        let error = |name: &str| value(name).and_then(|code| CardFieldError::from_code(&code));
        let errors = CardFormErrors { number: error("number"), expiry: error("expiry"), cvc: error("cvc") };
        let chosen = value("card").and_then(|name| named(&name));
        Self { texts, errors, chosen: chosen.map(|card| (card, future_month(now))) }
    }

    /// Whether a field is wrong.
    pub(super) const fn has_errors(&self) -> bool {
        self.errors.number.is_some() || self.errors.expiry.is_some() || self.errors.cvc.is_some()
    }

    /// The fields in their order.
    pub(super) fn fields(&self) -> [Field<'static>; 3] {
        let (texts, errors) = (self.texts, self.errors);
        let chosen = self.chosen.as_ref();
        let value = |read: fn(&(&'static TestCard, String)) -> String| chosen.map(read).unwrap_or_default();
        [
            Field {
                name: "number",
                label: texts.number,
                hint: texts.number_hint,
                value: value(|(card, _)| grouped(card.number)),
                max_length: 23,
                error: errors.number.map(|error| texts.number_error(error)),
            },
            Field {
                name: "expiry",
                label: texts.expiry,
                hint: texts.expiry_hint,
                value: value(|(_, month)| month.clone()),
                max_length: 9,
                error: errors.expiry.map(|error| texts.expiry_error(error)),
            },
            Field {
                name: "cvc",
                label: texts.cvc,
                hint: texts.cvc_hint,
                value: value(|(card, _)| any_cvc(card).to_owned()),
                max_length: 4,
                error: errors.cvc.map(|error| texts.cvc_error(error)),
            },
        ]
    }
}

/// The query that carries the errors.
pub(super) fn query_of(errors: CardFormErrors) -> String {
    let all = [("number", errors.number), ("expiry", errors.expiry), ("cvc", errors.cvc)];
    let wrong = all.into_iter().filter_map(|(name, error)| Some((name, error?.code())));
    form_urlencoded::Serializer::new(String::new()).extend_pairs(wrong).finish()
}

/// The test card of a name, see [`card_name`].
pub(super) fn named(name: &str) -> Option<&'static TestCard> {
    TEST_CARDS.iter().find(|card| card_name(card) == name)
}

/// The pairs of a query or of a form's body.
pub(super) fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    form_urlencoded::parse(text.as_bytes()).into_owned()
}
