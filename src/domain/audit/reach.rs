//! How far the journal reaches, and what may be missing. A rule finds nothing that a missing call would explain.

use serde::{Serialize, Serializer};
use time::OffsetDateTime;

/// What may be missing in the journal that is judged.
#[derive(Debug, Clone)]
pub struct Reach {
    /// Calls received before this time may be missing: dropped under overload, deleted to keep the journal in its
    /// bounds, or lost with an instance that died.
    pub missing_before: Option<OffsetDateTime>,
    /// Calls answered after this time may be missing, because they are not written yet.
    pub missing_after: Option<OffsetDateTime>,
    /// How many entries were dropped under overload.
    pub dropped: u64,
    /// When the audit was asked for, by the database's clock.
    pub asked: OffsetDateTime,
}

impl Reach {
    /// A journal that has every call up to this moment.
    #[must_use]
    pub const fn whole(asked: OffsetDateTime) -> Self {
        Self { missing_before: None, missing_after: None, dropped: 0, asked }
    }
}

impl Serialize for Reach {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct View {
            complete: bool,
            dropped: u64,
            #[serde(with = "crate::domain::time::rfc3339")]
            through: OffsetDateTime,
        }
        let complete = self.missing_before.is_none() && self.missing_after.is_none();
        let through = self.missing_after.unwrap_or(self.asked);
        View { complete, dropped: self.dropped, through }.serialize(serializer)
    }
}
