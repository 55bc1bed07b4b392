//! The table `refunds`. How much may be refunded is kept in `orders`.

use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::orders::{LockedOrder, LockedOrders};
use super::row::{amount, currency, failure, number, unknown};
use super::{DbError, Tx, due_by};
use crate::domain::code::Code;
use crate::domain::id::{MerchantId, RefundNo, TradeNo};
use crate::domain::payment::number::MerchantNumber;
use crate::domain::payment::order::Failure;
use crate::domain::payment::refund::{Refund, RefundStatus, Settlement};

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
    INSERT = concat!("
        WITH written AS (
            INSERT INTO refunds (merchant_id, refund_no, out_refund_no, trade_no, out_trade_no, amount,
                                 currency, reason, notify_url, metadata, status, created_at, succeeded_at,
                                 settles_at, settles_as, failure_code, failure_message)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
            ON CONFLICT (merchant_id, out_refund_no) DO NOTHING
            RETURNING merchant_id),
        ", due_by!("$14::timestamptz"), "
        SELECT FROM written");

    BY_REFUND_NO = select!("WHERE merchant_id = $1 AND refund_no = $2");
    BY_OUT_REFUND_NO = select!("WHERE merchant_id = $1 AND out_refund_no = $2");

    LIST = select!("WHERE merchant_id = $1 AND refund_no < $2 ORDER BY refund_no DESC LIMIT $3");
    LIST_OF_ORDER = select!("
        WHERE merchant_id = $1 AND trade_no = $4 AND refund_no < $2 ORDER BY refund_no DESC LIMIT $3");

    /// The rows set aside are a list, because a join would read all that is due.
    DUE = "
        SELECT refund_no, trade_no FROM refunds
        WHERE merchant_id = $1 AND status = 'pending' AND settles_at <= $2 AND refund_no <> ALL (
            ARRAY(SELECT id FROM stuck WHERE merchant_id = $1))
        ORDER BY settles_at LIMIT $3";

    /// (The `CASE` keeps the planner from using `refunds_waiting`, by which it would read all that is due.)
    SETTLE = concat!("
        UPDATE refunds SET status = settles_as,
                           succeeded_at = CASE settles_as WHEN 'succeeded' THEN settles_at END,
                           failure_code = CASE settles_as WHEN 'failed' THEN $4 END,
                           failure_message = CASE settles_as WHEN 'failed' THEN $5 END
        WHERE merchant_id = $1 AND refund_no = $2
            AND CASE status WHEN 'pending' THEN settles_at <= $3 END
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
            failure: failure(row)?,
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

/// Writes a new refund of an order. Returns false if its `out_refund_no` is taken.
pub async fn insert<'c>(tx: &mut Tx<'c>, order: &LockedOrder<'c>, refund: &Refund) -> Result<bool, DbError> {
    let insert = sqlx::query(INSERT)
        .bind(refund.merchant.uuid())
        .bind(refund.refund_no.uuid())
        .bind(refund.out_refund_no.as_str())
        .bind(order.trade_no.uuid())
        .bind(order.content.out_trade_no.as_str())
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
    Ok(insert.fetch_optional(&mut **tx).await?.is_some())
}

/// The refund with this merchant's number.
pub async fn by_out_refund_no(
    conn: &mut PgConnection,
    merchant: MerchantId,
    number: &MerchantNumber,
) -> Result<Option<Refund>, DbError> {
    let find = sqlx::query_as(BY_OUT_REFUND_NO).bind(merchant.uuid()).bind(number.as_str());
    Ok(find.fetch_optional(conn).await?)
}

/// The refund with this number of either kind: a `refund_no` comes before an `out_refund_no`.
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

/// At most `limit` pending refunds of a merchant that settle by `now`, each with its order.
pub async fn due(
    conn: &mut PgConnection,
    merchant: MerchantId,
    now: OffsetDateTime,
    limit: i64,
) -> Result<Vec<(RefundNo, TradeNo)>, DbError> {
    let due = sqlx::query_as(DUE).bind(merchant.uuid()).bind(now).bind(limit).fetch_all(conn).await?;
    Ok(due
        .into_iter()
        .map(|(refund, order)| (RefundNo::from_uuid(refund), TradeNo::from_uuid(order)))
        .collect())
}

/// Settles a due, pending refund of one of these orders, and returns it with its order. If it fails, this is the
/// reason. `None` if it is not pending any more. All orders are locked before any refund: of two refunds that settle
/// at once, the lock decides which is the last of the order.
///
/// # Errors
/// Those of the database, or a refund whose order is missing.
pub async fn settle<'c, 'o>(
    tx: &mut Tx<'c>,
    orders: &'o LockedOrders<'c>,
    refund_no: RefundNo,
    failure: &Failure,
) -> Result<Option<(Refund, &'o LockedOrder<'c>)>, DbError> {
    let settle = sqlx::query_as(SETTLE).bind(tx.merchant().uuid()).bind(refund_no.uuid()).bind(tx.now());
    let settle = settle.bind(&failure.code).bind(&failure.message);
    let Some(refund) = settle.fetch_optional(&mut **tx).await? else { return Ok(None) };
    let refund: Refund = refund;
    let order = orders.get(refund.trade_no).ok_or(DbError::Corrupt("order of a refund"))?;
    Ok(Some((refund, order)))
}
