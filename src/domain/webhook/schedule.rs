//! The schedule of retries of a delivery, by the merchant's time (contract, section 6).

use time::Duration;

/// The pauses after the first failed attempt, the second, and so on. If the attempt after the last pause fails, the
/// event has failed.
pub const PAUSES: [Duration; 7] = [
    Duration::seconds(15),
    Duration::minutes(1),
    Duration::minutes(5),
    Duration::minutes(30),
    Duration::hours(2),
    Duration::hours(6),
    Duration::hours(24),
];

/// The pause before the next attempt, where `used` pauses are used up; `None` where none is left.
#[must_use]
pub fn pause_after(used: i32) -> Option<Duration> {
    usize::try_from(used).ok().and_then(|used| PAUSES.get(used)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_attempts_are_made_in_all() {
        assert_eq!(pause_after(0), Some(Duration::seconds(15)));
        assert_eq!(pause_after(6), Some(Duration::days(1)));
        assert_eq!(pause_after(7), None);
        assert!(PAUSES.is_sorted());
    }
}
