//! Due work that failed: it is set aside, so that it stops nothing else, and its merchant can see it (contract,
//! section 7).

use serde::Serialize;
use strum::{EnumString, IntoStaticStr, VariantArray};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::id::{EventId, RefundNo, TradeNo};
use crate::domain::view::View;

/// What kind of thing it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray, Serialize)]
#[strum(serialize_all = "lowercase")]
#[serde(into = "&'static str")]
pub enum StuckKind {
    /// An order that should be closed.
    Order,
    /// A refund that should settle.
    Refund,
    /// An event that should be sent.
    Event,
}

/// Something that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// What kind of thing it is.
    pub kind: StuckKind,
    /// Its identifier.
    pub id: Uuid,
    /// When it was set aside, in the merchant's time.
    pub since: OffsetDateTime,
    /// Why, for people.
    pub cause: String,
}

/// The same on the wire.
#[derive(Debug, Serialize)]
struct StuckView<'a> {
    kind: StuckKind,
    id: String,
    #[serde(with = "crate::domain::time::rfc3339")]
    since: OffsetDateTime,
    cause: &'a str,
}

impl Stuck {
    /// The identifier as the API shows it.
    #[must_use]
    pub fn id_text(&self) -> String {
        match self.kind {
            StuckKind::Order => TradeNo::from_uuid(self.id).to_string(),
            StuckKind::Refund => RefundNo::from_uuid(self.id).to_string(),
            StuckKind::Event => EventId::from_uuid(self.id).to_string(),
        }
    }
}

impl View for Stuck {
    fn view<'a>(&'a self, _public_url: &str) -> impl Serialize + use<'a> {
        StuckView { kind: self.kind, id: self.id_text(), since: self.since, cause: &self.cause }
    }
}
