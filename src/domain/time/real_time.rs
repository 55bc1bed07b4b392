//! Real time by the database's clock. The hosts of several instances have different clocks, and their identifiers
//! must sort by time together, so each instance follows the clock of the database.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use time::{Duration, OffsetDateTime};
use uuid::timestamp::context::ContextV7;
use uuid::{Timestamp, Uuid};

/// How far the database's clock is ahead of this machine's, in microseconds. A process is on one database.
static AHEAD: AtomicI64 = AtomicI64::new(0);

/// Keeps identifiers of the same millisecond in order.
static IN_ONE_MILLISECOND: Mutex<ContextV7> = Mutex::new(ContextV7::new());

/// Real time now.
#[must_use]
pub fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc() + Duration::microseconds(AHEAD.load(Ordering::Relaxed))
}

/// An identifier that sorts by real time.
pub(in crate::domain) fn new_uuid() -> Uuid {
    let now = now();
    let seconds = u64::try_from(now.unix_timestamp()).unwrap_or_default();
    Uuid::new_v7(Timestamp::from_unix(&IN_ONE_MILLISECOND, seconds, now.nanosecond()))
}

/// Follows the database's clock, which showed `database` at some moment between two times of this machine. The
/// clock is corrected only as far as the duration of the answer cannot explain the difference, so a slow answer
/// does no harm.
pub fn follow(asked: OffsetDateTime, database: OffsetDateTime, answered: OffsetDateTime) {
    let at_least = microseconds(database - answered);
    let at_most = microseconds(database - asked).max(at_least);
    let ahead = AHEAD.load(Ordering::Relaxed).clamp(at_least, at_most);
    AHEAD.store(ahead, Ordering::Relaxed);
}

fn microseconds(duration: Duration) -> i64 {
    i64::try_from(duration.whole_microseconds()).unwrap_or_default()
}
