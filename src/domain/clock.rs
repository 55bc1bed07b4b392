//! A merchant's clock: real time, shifted or standing still, so that a test need not wait for a day
//! (contract, section 7). What follows it is said where times are compared, in `db`.

use serde::Serialize;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

/// The years that a clock may be set to.
const EARLIEST: OffsetDateTime = datetime!(2000-01-01 00:00 UTC);
const LATEST: OffsetDateTime = datetime!(2100-01-01 00:00 UTC);

/// A time that no clock may be set to: outside of the years 2000 to 2099.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange;

/// How a merchant's time comes from real time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// How far it is ahead, in milliseconds; behind, where negative.
    pub offset_ms: i64,
    /// When it stands still, where it does.
    pub frozen_at: Option<OffsetDateTime>,
}

impl Clock {
    /// The merchant's time at a moment of real time.
    #[must_use]
    pub fn now(&self, real: OffsetDateTime) -> OffsetDateTime {
        self.frozen_at.unwrap_or(real + Duration::milliseconds(self.offset_ms))
    }

    /// The clock after `by` has passed at once. One that stands still stands at the later time.
    ///
    /// # Errors
    /// See [`OutOfRange`].
    pub fn advanced(&self, by: Duration, real: OffsetDateTime) -> Result<Self, OutOfRange> {
        let now = self.now(real).checked_add(by).ok_or(OutOfRange)?;
        match self.frozen_at {
            Some(_) => Self::frozen(now),
            None => Self::running(now, real),
        }
    }

    /// The clock once it shows `now`, where that is given, and stands still or runs on, where that is
    /// given.
    ///
    /// # Errors
    /// See [`OutOfRange`].
    pub fn set(
        &self,
        now: Option<OffsetDateTime>,
        frozen: Option<bool>,
        real: OffsetDateTime,
    ) -> Result<Self, OutOfRange> {
        let now = now.unwrap_or_else(|| self.now(real));
        if frozen.unwrap_or(self.frozen_at.is_some()) { Self::frozen(now) } else { Self::running(now, real) }
    }

    fn frozen(now: OffsetDateTime) -> Result<Self, OutOfRange> {
        Ok(Self { offset_ms: 0, frozen_at: Some(checked(now)?) })
    }

    fn running(now: OffsetDateTime, real: OffsetDateTime) -> Result<Self, OutOfRange> {
        let offset_ms = (checked(now)? - real).whole_milliseconds();
        Ok(Self { offset_ms: i64::try_from(offset_ms).map_err(|_| OutOfRange)?, frozen_at: None })
    }

    /// The clock as a client sees it at a moment of real time.
    #[must_use]
    pub fn view(&self, real: OffsetDateTime) -> impl Serialize + use<> {
        let now = self.now(real);
        ClockView { now, offset_seconds: (now - real).whole_seconds(), frozen: self.frozen_at.is_some() }
    }
}

fn checked(now: OffsetDateTime) -> Result<OffsetDateTime, OutOfRange> {
    if (EARLIEST..LATEST).contains(&now) { Ok(now) } else { Err(OutOfRange) }
}

/// A clock on the wire.
#[derive(Debug, Serialize)]
struct ClockView {
    #[serde(with = "super::time")]
    now: OffsetDateTime,
    offset_seconds: i64,
    frozen: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAL: OffsetDateTime = datetime!(2026-11-04 08:30 UTC);
    const CLOCK: Clock = Clock { offset_ms: 0, frozen_at: None };

    #[test]
    fn a_clock_runs_ahead_or_stands_still() {
        let ahead = CLOCK.advanced(Duration::DAY, REAL).unwrap();
        assert_eq!(ahead, Clock { offset_ms: 86_400_000, frozen_at: None });
        let frozen = ahead.set(None, Some(true), REAL).unwrap();
        assert_eq!(frozen.now(REAL + Duration::HOUR), REAL + Duration::DAY);
        let later = frozen.advanced(Duration::MINUTE, REAL + Duration::HOUR).unwrap();
        assert_eq!(later.frozen_at, Some(REAL + Duration::DAY + Duration::MINUTE));
        let running = later.set(None, Some(false), REAL + Duration::DAY).unwrap();
        assert_eq!(running, Clock { offset_ms: 60_000, frozen_at: None });
    }

    #[test]
    fn no_clock_leaves_the_century() {
        assert_eq!(CLOCK.set(Some(datetime!(1999-12-31 23:59 UTC)), None, REAL), Err(OutOfRange));
        assert_eq!(CLOCK.advanced(Duration::days(365 * 80), REAL), Err(OutOfRange));
        assert_eq!(CLOCK.advanced(Duration::MAX, REAL), Err(OutOfRange));
    }
}
