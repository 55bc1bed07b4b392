//! Reads columns that several tables have. A value that the gateway never writes is an error, so that its row is set
//! aside.

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::DbError;
use crate::domain::code::Code;
use crate::domain::payment::money::{Amount, Currency};
use crate::domain::payment::number::MerchantNumber;
use crate::domain::payment::order::Failure;
use crate::domain::webhook::event::EventType;

pub(super) fn number(row: &PgRow, column: &'static str) -> sqlx::Result<MerchantNumber> {
    MerchantNumber::new(row.try_get(column)?).ok_or_else(|| unknown("merchant number"))
}

pub(super) fn amount(row: &PgRow) -> sqlx::Result<Amount> {
    Amount::new(row.try_get("amount")?).ok_or_else(|| unknown("amount"))
}

pub(super) fn currency(row: &PgRow) -> sqlx::Result<Currency> {
    Currency::from_code(row.try_get("currency")?).ok_or_else(|| unknown("currency"))
}

/// Two columns that are null together.
pub(super) fn both(row: &PgRow, first: &str, second: &str) -> sqlx::Result<Option<(String, String)>> {
    Ok(row.try_get::<Option<_>, _>(first)?.zip(row.try_get(second)?))
}

/// Why a payment or a refund failed.
pub(super) fn failure(row: &PgRow) -> sqlx::Result<Option<Failure>> {
    let columns = both(row, "failure_code", "failure_message")?;
    Ok(columns.map(|(code, message)| Failure { code, message }))
}

/// The error for a column that does not hold one of `what`.
pub(super) fn unknown(what: &'static str) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(DbError::Corrupt(what)))
}

pub(super) fn event_type(row: &PgRow) -> sqlx::Result<EventType> {
    EventType::from_code(row.try_get("event_type")?).ok_or_else(|| unknown("event type"))
}
