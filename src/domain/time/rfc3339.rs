//! Time on the wire: RFC 3339 in UTC, always with milliseconds, so that a time reads the same in the first
//! response, in a replay and in a later look-up. The database truncates to milliseconds.

use serde::Serializer;
use serde_json::Value;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};

const MILLISECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// Serialises a moment in UTC, as `2026-11-04T08:30:00.000Z`.
///
/// # Errors
/// A time outside the years 0 to 9999, which no clock here shows.
pub fn serialize<S: Serializer>(moment: &OffsetDateTime, serializer: S) -> Result<S::Ok, S::Error> {
    let text = moment.to_offset(UtcOffset::UTC).format(MILLISECONDS);
    serializer.serialize_str(&text.map_err(serde::ser::Error::custom)?)
}

/// Reads a moment in RFC 3339, in any offset, to the millisecond.
///
/// # Errors
/// What is wrong with the value.
pub fn from_json(value: &Value) -> Result<OffsetDateTime, String> {
    let moment = value.as_str().and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
    let moment = moment.and_then(|moment| moment.truncate_to_millisecond().checked_to_offset(UtcOffset::UTC));
    moment.ok_or_else(|| "must be a time like \"2026-11-04T08:30:00Z\"".to_owned())
}

/// The same for a moment that may be absent (then null).
pub mod option {
    use super::{OffsetDateTime, Serializer};

    /// Serialises a moment or null.
    ///
    /// # Errors
    /// As for [`super::serialize`].
    pub fn serialize<S: Serializer>(
        moment: &Option<OffsetDateTime>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match moment {
            Some(moment) => super::serialize(moment, serializer),
            None => serializer.serialize_none(),
        }
    }
}
