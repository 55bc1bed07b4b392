//! A merchant's clock: real time, shifted or frozen, so that a test need not wait for a day (contract, section 7).
//! `db` compares times by it.

use serde::Serialize;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

/// The years that a clock may be set to.
const EARLIEST: OffsetDateTime = datetime!(2000-01-01 00:00 UTC);
const LATEST: OffsetDateTime = datetime!(2100-01-01 00:00 UTC);

/// A time outside the years 2000 to 2099, to which no clock may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange;

/// How a merchant's time comes from real time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// How far it is ahead of real time, in milliseconds; negative if it is behind.
    pub offset_ms: i64,
    /// The time at which it is frozen, if it is.
    pub frozen_at: Option<OffsetDateTime>,
}

impl Clock {
    /// The merchant's time at a moment of real time.
    #[must_use]
    pub fn now(&self, real: OffsetDateTime) -> OffsetDateTime {
        self.frozen_at.unwrap_or(real + Duration::milliseconds(self.offset_ms))
    }

    /// The clock after `by` has passed at once. A frozen clock stays frozen, at the later time.
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

    /// The clock moved forward to `to`; unchanged if it already shows a later time.
    ///
    /// # Errors
    /// See [`OutOfRange`].
    pub fn advanced_to(&self, to: OffsetDateTime, real: OffsetDateTime) -> Result<Self, OutOfRange> {
        checked(to)?;
        if to <= self.now(real) { Ok(*self) } else { self.set(Some(to), None, real) }
    }

    /// The clock set to `now`, if given, and frozen or running, if given.
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

/// A time that a clock can show. No deadline counted from it overflows.
///
/// # Errors
/// See [`OutOfRange`].
pub fn checked(now: OffsetDateTime) -> Result<OffsetDateTime, OutOfRange> {
    if (EARLIEST..LATEST).contains(&now) { Ok(now) } else { Err(OutOfRange) }
}

/// A clock on the wire.
#[derive(Debug, Serialize)]
struct ClockView {
    #[serde(with = "crate::domain::time::rfc3339")]
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
    fn a_clock_that_is_advanced_to_a_time_twice_shows_it_once() {
        let to = REAL + Duration::HOUR;
        let later = CLOCK.advanced_to(to, REAL).unwrap();
        assert_eq!(later, Clock { offset_ms: 3_600_000, frozen_at: None });
        assert_eq!(later.advanced_to(to, REAL + Duration::SECOND), Ok(later));
        let frozen = Clock { offset_ms: 0, frozen_at: Some(REAL) };
        assert_eq!(frozen.advanced_to(to, REAL).unwrap().frozen_at, Some(to));
        assert_eq!(frozen.advanced_to(datetime!(2100-01-01 00:00 UTC), REAL), Err(OutOfRange));
    }

    #[test]
    fn no_clock_leaves_the_century() {
        assert_eq!(CLOCK.set(Some(datetime!(1999-12-31 23:59 UTC)), None, REAL), Err(OutOfRange));
        assert_eq!(CLOCK.advanced(Duration::days(365 * 80), REAL), Err(OutOfRange));
        assert_eq!(CLOCK.advanced(Duration::MAX, REAL), Err(OutOfRange));
    }
}
