//! The options of faults, and the range in which a kind takes one. Each option has a column in the table of rules,
//! and a member on the wire.

use std::ops::RangeInclusive;
use std::time::Duration;

use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::domain::code::Code;
use crate::domain::json::fields::FieldError;

/// An option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum FaultOption {
    /// How long something waits, in milliseconds.
    DelayMs,
    /// The status of an error.
    Status,
    /// What `Retry-After` says, in seconds.
    RetryAfter,
}

/// The value of each option that is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultOptions {
    /// `delay_ms`, in milliseconds.
    pub delay_ms: Option<u64>,
    /// `status`, of an error.
    pub status: Option<u64>,
    /// `retry_after`, in seconds.
    pub retry_after: Option<u64>,
}

impl FaultOptions {
    /// An option's value.
    #[must_use]
    pub const fn get(self, option: FaultOption) -> Option<u64> {
        match option {
            FaultOption::DelayMs => self.delay_ms,
            FaultOption::Status => self.status,
            FaultOption::RetryAfter => self.retry_after,
        }
    }

    /// Sets or clears an option.
    pub const fn set(&mut self, option: FaultOption, value: Option<u64>) {
        match option {
            FaultOption::DelayMs => self.delay_ms = value,
            FaultOption::Status => self.status = value,
            FaultOption::RetryAfter => self.retry_after = value,
        }
    }

    /// `delay_ms`; zero where it is not given.
    pub(super) fn delay(self) -> Duration {
        Duration::from_millis(self.delay_ms.unwrap_or_default())
    }

    /// `status`; its range keeps it small.
    pub(super) fn http_status(self) -> u16 {
        short(self.status)
    }

    /// `retry_after`, in seconds; its range keeps it small.
    pub(super) fn retry_after_seconds(self) -> u16 {
        short(self.retry_after)
    }
}

fn short(number: Option<u64>) -> u16 {
    number.map_or(0, |number| u16::try_from(number).unwrap_or(u16::MAX))
}

/// An option as a kind takes it.
#[derive(Debug)]
pub(super) struct Takes {
    pub(super) option: FaultOption,
    /// The least and the greatest value.
    pub(super) range: RangeInclusive<u64>,
    /// Its default; without one, the option is required.
    pub(super) default: Option<u64>,
}

impl Takes {
    /// The value of the option, or what is wrong with it.
    pub(super) fn read(&self, options: FaultOptions) -> Result<u64, FieldError> {
        let value = options.get(self.option).or(self.default).filter(|value| self.range.contains(value));
        value.ok_or_else(|| {
            let (start, end) = (self.range.start(), self.range.end());
            FieldError::invalid(self.option.code(), &format!("must be an integer from {start} to {end}"))
        })
    }
}
