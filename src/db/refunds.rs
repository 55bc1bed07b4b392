//! The table `refunds`. How much may be refunded is kept in `orders`.

use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, Row};
use uuid::Uuid;

use super::orders::{amount, both, currency, number, unknown};
use super::{DbError, clock_of_those_with};
use crate::domain::id::{MerchantId, RefundNo, TradeNo};
use crate::domain::number::MerchantNumber;
use crate::domain::order::Failure;
use crate::domain::refund::{Refund, RefundStatus, Settlement};

macro_rules! select {
    ($($rest:literal),*) => { concat!("SELECT ", columns!(), " FROM refunds ", $($rest),*) };
}
macro_rules! columns {
    () => {
        "merchant_id, refund_no, out_refund_no, trade_no, out_trade_no, amount, currency, reason, notify_url, \
         metadata, status, failure_code, failure_message, created_at, succeeded_at, settles_at, settles_as"
    };
}

super::declare_statements! {
    INSERT = "
        INSERT INTO refunds (merchant_id, refund_no, out_refund_no, trade_no, out_trade_no, amount, currency,
                             reason, notify_url, metadata, status, created_at, succeeded_at, settles_at,
                             settles_as, failure_code, failure_message)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
        ON CONFLICT (merchant_id, out_refund_no) DO NOTHING";

    BY_REFUND_NO = select!("WHERE merchant_id = $1 AND refund_no = $2");
    BY_OUT_REFUND_NO = select!("WHERE merchant_id = $1 AND out_refund_no = $2");

    LIST = select!("WHERE merchant_id = $1 AND refund_no < $2 ORDER BY refund_no DESC LIMIT $3");
    LIST_OF_ORDER = select!("
        WHERE merchant_id = $1 AND trade_no = $4 AND refund_no < $2 ORDER BY refund_no DESC LIMIT $3");

    /// Ends what is due, whoever's it is; two instances share the work.
    SETTLE = concat!(clock_of_those_with!("refunds", "status = 'pending'"), "
        UPDATE refunds SET status = settles_as,
                           succeeded_at = CASE settles_as WHEN 'succeeded' THEN settles_at END,
                           failure_code = CASE settles_as WHEN 'failed' THEN $2 END,
                           failure_message = CASE settles_as WHEN 'failed' THEN $3 END
        WHERE (merchant_id, refund_no) IN (
            SELECT due.merchant_id, due.refund_no FROM clock, LATERAL (
                SELECT merchant_id, refund_no FROM refunds
                WHERE merchant_id = clock.merchant_id AND status = 'pending' AND settles_at <= clock.now
                ORDER BY settles_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED) due
            LIMIT $1)
            AND status = 'pending'
        RETURNING ", columns!());
}

impl FromRow<'_, PgRow> for Refund {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            merchant: MerchantId::from_uuid(row.try_get("merchant_id")?),
            refund_no: RefundNo::from_uuid(row.try_get("refund_no")?),
            out_refund_no: number(row, "out_refund_no")?,
            trade_no: TradeNo::from_uuid(row.try_get("trade_no")?),
            out_trade_no: number(row, "out_trade_no")?,
            amount: amount(row)?,
            currency: currency(row)?,
            reason: row.try_get("reason")?,
            notify_url: row.try_get("notify_url")?,
            metadata: row.try_get::<Json<_>, _>("metadata")?.0,
            status: RefundStatus::from_code(row.try_get("status")?)
                .ok_or_else(|| unknown("refund status"))?,
            failure: both(row, "failure_code", "failure_message")?
                .map(|(code, message)| Failure { code, message }),
            created_at: row.try_get("created_at")?,
            succeeded_at: row.try_get("succeeded_at")?,
            settlement: settlement(row)?,
        })
    }
}

fn settlement(row: &PgRow) -> sqlx::Result<Option<Settlement>> {
    let (at, status) = (row.try_get("settles_at")?, row.try_get::<Option<&str>, _>("settles_as")?);
    let status = status.and_then(RefundStatus::from_code);
    Ok(Option::zip(at, status).map(|(at, status)| Settlement { at, status }))
}

/// Writes a new refund. False where its `out_refund_no` is taken.
///
/// # Errors
/// Those of the database.
pub async fn insert(conn: &mut PgConnection, refund: &Refund) -> Result<bool, DbError> {
    let insert = sqlx::query(INSERT)
        .bind(refund.merchant.uuid())
        .bind(refund.refund_no.uuid())
        .bind(refund.out_refund_no.as_str())
        .bind(refund.trade_no.uuid())
        .bind(refund.out_trade_no.as_str())
        .bind(refund.amount.minor_units())
        .bind(refund.currency.code())
        .bind(&refund.reason)
        .bind(&refund.notify_url)
        .bind(Json(&refund.metadata))
        .bind(refund.status.code())
        .bind(refund.created_at)
        .bind(refund.succeeded_at)
        .bind(refund.settlement.map(|settlement| settlement.at))
        .bind(refund.settlement.map(|settlement| settlement.status.code()))
        .bind(refund.failure.as_ref().map(|failure| &failure.code))
        .bind(refund.failure.as_ref().map(|failure| &failure.message));
    Ok(insert.execute(conn).await?.rows_affected() == 1)
}

/// The refund that the merchant gave a number.
///
/// # Errors
/// Those of the database.
pub async fn by_out_refund_no(
    conn: &mut PgConnection,
    merchant: MerchantId,
    number: &MerchantNumber,
) -> Result<Option<Refund>, DbError> {
    let find = sqlx::query_as(BY_OUT_REFUND_NO).bind(merchant.uuid()).bind(number.as_str());
    Ok(find.fetch_optional(conn).await?)
}

/// The refund that a number means, whichever of the two kinds it is: a `refund_no` before an
/// `out_refund_no`.
///
/// # Errors
/// Those of the database.
pub async fn by_any_no(
    conn: &mut PgConnection,
    merchant: MerchantId,
    no: &str,
) -> Result<Option<Refund>, DbError> {
    if let Ok(refund_no) = no.parse::<RefundNo>() {
        let find = sqlx::query_as(BY_REFUND_NO).bind(merchant.uuid()).bind(refund_no.uuid());
        if let Some(refund) = find.fetch_optional(&mut *conn).await? {
            return Ok(Some(refund));
        }
    }
    match MerchantNumber::new(no) {
        Some(number) => by_out_refund_no(conn, merchant, &number).await,
        None => Ok(None),
    }
}

/// A merchant's refunds, or those of one order, from the newest on, or from the one after `before` on,
/// at most `limit`.
///
/// # Errors
/// Those of the database.
pub async fn list(
    conn: &mut PgConnection,
    merchant: MerchantId,
    order: Option<TradeNo>,
    before: Option<RefundNo>,
    limit: i64,
) -> Result<Vec<Refund>, DbError> {
    let before = before.map_or(Uuid::max(), RefundNo::uuid);
    let sql = if order.is_some() { LIST_OF_ORDER } else { LIST };
    let mut list = sqlx::query_as(sql).bind(merchant.uuid()).bind(before).bind(limit);
    if let Some(trade_no) = order {
        list = list.bind(trade_no.uuid());
    }
    Ok(list.fetch_all(conn).await?)
}

/// Ends at most `limit` pending refunds whose time has come, and returns them. Those that fail do so for
/// this reason.
///
/// # Errors
/// Those of the database.
pub async fn settle(conn: &mut PgConnection, limit: i64, failure: &Failure) -> Result<Vec<Refund>, DbError> {
    let settle = sqlx::query_as(SETTLE).bind(limit).bind(&failure.code).bind(&failure.message);
    Ok(settle.fetch_all(conn).await?)
}
