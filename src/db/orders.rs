//! The table `orders`. A status changes only by an update that names the status it changes from, so
//! that of two racing changes one finds nothing to do.

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, Postgres, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::idempotency_keys::Completion;
use super::{DbError, clock_of_those_with};
use crate::domain::card::Card;
use crate::domain::id::{MerchantId, TradeNo};
use crate::domain::money::{Amount, Currency};
use crate::domain::number::MerchantNumber;
use crate::domain::order::{Failure, Locale, Order, OrderContent, OrderStatus};

macro_rules! select {
    ($($rest:literal),*) => { concat!("SELECT ", columns!(), " FROM orders ", $($rest),*) };
}
macro_rules! inserted {
    () => {
        "(merchant_id, trade_no, out_trade_no, amount, currency, subject, return_url, notify_url, locale, \
          metadata, status, checkout_secret, created_at, expires_at)"
    };
}
macro_rules! values {
    () => {
        "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14"
    };
}
macro_rules! columns {
    () => {
        "merchant_id, trade_no, out_trade_no, amount, amount_refunded, currency, subject, return_url, \
         notify_url, locale, metadata, status, checkout_secret, card_brand, card_last4, failure_code, \
         failure_message, created_at, paid_at, closed_at, expires_at"
    };
}

super::declare_statements! {
    INSERT = concat!("
        INSERT INTO orders ", inserted!(), " VALUES (", values!(), ")
        ON CONFLICT (merchant_id, out_trade_no) DO NOTHING");

    /// A new order and the response that tells it, under a claimed key: the whole T2 of the hot path in
    /// one statement, and so in one round trip. The claim is locked first, so that without it no order
    /// is written; the response is stored only with the order. Both, or nothing.
    INSERT_COMPLETING = concat!("
        WITH claim AS (
            SELECT FROM idempotency_keys
            WHERE merchant_id = $1 AND key = $15 AND fence = $16 AND state = 'in_progress'
            FOR NO KEY UPDATE),
        made AS (
            INSERT INTO orders ", inserted!(), " SELECT ", values!(), " FROM claim
            ON CONFLICT (merchant_id, out_trade_no) DO NOTHING
            RETURNING merchant_id)
        UPDATE idempotency_keys k SET state = 'completed', status = $17, response_body = $18
        FROM made WHERE k.merchant_id = $1 AND k.key = $15");

    BY_TRADE_NO = select!("WHERE merchant_id = $1 AND trade_no = $2");
    BY_OUT_TRADE_NO = select!("WHERE merchant_id = $1 AND out_trade_no = $2");
    LOCK = select!("WHERE merchant_id = $1 AND trade_no = $2 FOR NO KEY UPDATE");

    LIST = select!("
        WHERE merchant_id = $1 AND trade_no < $2 AND ($3::text IS NULL OR status = $3)
        ORDER BY trade_no DESC LIMIT $4");

    PAY = concat!("
        UPDATE orders SET status = 'paid', paid_at = $3, card_brand = $4, card_last4 = $5,
                          failure_code = NULL, failure_message = NULL
        WHERE merchant_id = $1 AND trade_no = $2 AND status = 'pending' AND expires_at > $3
        RETURNING ", columns!());

    FAIL_PAYMENT = concat!("
        UPDATE orders SET failure_code = $3, failure_message = $4
        WHERE merchant_id = $1 AND trade_no = $2 AND status = 'pending'
        RETURNING ", columns!());

    CLOSE = concat!("
        UPDATE orders SET status = 'closed', closed_at = $3
        WHERE merchant_id = $1 AND trade_no = $2 AND status = 'pending'
        RETURNING ", columns!());

    /// The condition repeats what the caller has checked under the row's lock: money is guarded here.
    ADD_REFUND = "
        UPDATE orders SET amount_refunded = amount_refunded + $3
        WHERE merchant_id = $1 AND trade_no = $2 AND status = 'paid' AND amount_refunded + $3 <= amount";

    /// A failed refund gives its amount back.
    TAKE_BACK_REFUND = "
        UPDATE orders SET amount_refunded = amount_refunded - $3
        WHERE merchant_id = $1 AND trade_no = $2 AND status = 'paid' AND amount_refunded >= $3";

    /// An order is refunded when succeeded refunds make up all of its amount.
    REFUND_ALL = "
        UPDATE orders SET status = 'refunded'
        WHERE merchant_id = $1 AND trade_no = $2 AND status = 'paid' AND amount_refunded = amount
            AND NOT EXISTS (SELECT FROM refunds r
                            WHERE r.merchant_id = $1 AND r.trade_no = $2 AND r.status = 'pending')";

    /// Closes what is due, whoever's it is; two instances share the work.
    EXPIRE = concat!(clock_of_those_with!("orders", "status = 'pending'"), "
        UPDATE orders SET status = 'closed', closed_at = expires_at
        WHERE (merchant_id, trade_no) IN (
            SELECT due.merchant_id, due.trade_no FROM clock, LATERAL (
                SELECT merchant_id, trade_no FROM orders
                WHERE merchant_id = clock.merchant_id AND status = 'pending' AND expires_at <= clock.now
                ORDER BY expires_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED) due
            LIMIT $1)
            AND status = 'pending'
        RETURNING ", columns!());
}

impl FromRow<'_, PgRow> for Order {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            merchant: MerchantId::from_uuid(row.try_get("merchant_id")?),
            trade_no: TradeNo::from_uuid(row.try_get("trade_no")?),
            content: content(row)?,
            amount_refunded: row.try_get("amount_refunded")?,
            status: OrderStatus::from_code(row.try_get("status")?).ok_or_else(|| unknown("order status"))?,
            checkout_secret: row.try_get("checkout_secret")?,
            card: both(row, "card_brand", "card_last4")?.map(|(brand, last4)| Card { brand, last4 }),
            failure: both(row, "failure_code", "failure_message")?
                .map(|(code, message)| Failure { code, message }),
            created_at: row.try_get("created_at")?,
            paid_at: row.try_get("paid_at")?,
            closed_at: row.try_get("closed_at")?,
            expires_at: row.try_get("expires_at")?,
        })
    }
}

fn content(row: &PgRow) -> sqlx::Result<OrderContent> {
    Ok(OrderContent {
        out_trade_no: number(row, "out_trade_no")?,
        amount: amount(row)?,
        currency: currency(row)?,
        subject: row.try_get("subject")?,
        return_url: row.try_get("return_url")?,
        notify_url: row.try_get("notify_url")?,
        locale: row.try_get::<Option<&str>, _>("locale")?.and_then(Locale::from_code),
        metadata: row.try_get::<Json<_>, _>("metadata")?.0,
    })
}

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

pub(super) fn unknown(what: &'static str) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(DbError::Corrupt(what)))
}

/// Writes a new order. False where its `out_trade_no` is taken.
///
/// # Errors
/// Those of the database.
pub async fn insert(conn: &mut PgConnection, order: &Order) -> Result<bool, DbError> {
    let insert = bind(sqlx::query(INSERT), order);
    Ok(insert.execute(conn).await?.rows_affected() == 1)
}

/// Writes a new order, and stores the response that tells it under a claimed key. False where its
/// `out_trade_no` is taken or the claim is no longer ours; then nothing is written.
///
/// # Errors
/// Those of the database.
pub async fn insert_completing(
    conn: &mut PgConnection,
    order: &Order,
    completion: &Completion<'_>,
) -> Result<bool, DbError> {
    let insert = completion.bind(bind(sqlx::query(INSERT_COMPLETING), order));
    Ok(insert.execute(conn).await?.rows_affected() == 1)
}

fn bind<'q>(insert: Query<'q, Postgres, PgArguments>, order: &'q Order) -> Query<'q, Postgres, PgArguments> {
    let content = &order.content;
    insert
        .bind(order.merchant.uuid())
        .bind(order.trade_no.uuid())
        .bind(content.out_trade_no.as_str())
        .bind(content.amount.minor_units())
        .bind(content.currency.code())
        .bind(&content.subject)
        .bind(&content.return_url)
        .bind(&content.notify_url)
        .bind(content.locale.map(Locale::code))
        .bind(Json(&content.metadata))
        .bind(order.status.code())
        .bind(&order.checkout_secret)
        .bind(order.created_at)
        .bind(order.expires_at)
}

/// The order that the gateway gave a number.
///
/// # Errors
/// Those of the database.
pub async fn by_trade_no(
    conn: &mut PgConnection,
    merchant: MerchantId,
    trade_no: TradeNo,
) -> Result<Option<Order>, DbError> {
    Ok(sqlx::query_as(BY_TRADE_NO).bind(merchant.uuid()).bind(trade_no.uuid()).fetch_optional(conn).await?)
}

/// The order that the merchant gave a number.
///
/// # Errors
/// Those of the database.
pub async fn by_out_trade_no(
    conn: &mut PgConnection,
    merchant: MerchantId,
    number: &MerchantNumber,
) -> Result<Option<Order>, DbError> {
    let find = sqlx::query_as(BY_OUT_TRADE_NO).bind(merchant.uuid()).bind(number.as_str());
    Ok(find.fetch_optional(conn).await?)
}

/// The order that a number means, whichever of the two kinds it is: a `trade_no` before an
/// `out_trade_no` (contract, section 2).
///
/// # Errors
/// Those of the database.
pub async fn by_any_no(
    conn: &mut PgConnection,
    merchant: MerchantId,
    no: &str,
) -> Result<Option<Order>, DbError> {
    if let Ok(trade_no) = no.parse()
        && let Some(order) = by_trade_no(conn, merchant, trade_no).await?
    {
        return Ok(Some(order));
    }
    match MerchantNumber::new(no) {
        Some(number) => by_out_trade_no(conn, merchant, &number).await,
        None => Ok(None),
    }
}

/// Reads an order again and locks its row until the end of the transaction.
///
/// # Errors
/// Those of the database.
pub async fn lock(
    conn: &mut PgConnection,
    merchant: MerchantId,
    trade_no: TradeNo,
) -> Result<Option<Order>, DbError> {
    Ok(sqlx::query_as(LOCK).bind(merchant.uuid()).bind(trade_no.uuid()).fetch_optional(conn).await?)
}

/// A merchant's orders from the newest on, or from the one after `before` on, at most `limit`.
///
/// # Errors
/// Those of the database.
pub async fn list(
    conn: &mut PgConnection,
    merchant: MerchantId,
    before: Option<TradeNo>,
    status: Option<OrderStatus>,
    limit: i64,
) -> Result<Vec<Order>, DbError> {
    let list = sqlx::query_as(LIST)
        .bind(merchant.uuid())
        .bind(before.map_or(Uuid::max(), TradeNo::uuid))
        .bind(status.map(OrderStatus::code))
        .bind(limit);
    Ok(list.fetch_all(conn).await?)
}

/// Marks a pending order that has not expired as paid. `None` where it is not payable.
///
/// # Errors
/// Those of the database.
pub async fn pay(
    conn: &mut PgConnection,
    merchant: MerchantId,
    trade_no: TradeNo,
    card: &Card,
    now: OffsetDateTime,
) -> Result<Option<Order>, DbError> {
    let update = sqlx::query_as(PAY)
        .bind(merchant.uuid())
        .bind(trade_no.uuid())
        .bind(now)
        .bind(&card.brand)
        .bind(&card.last4);
    Ok(update.fetch_optional(conn).await?)
}

/// Notes why the last attempt to pay a pending order failed. `None` where it is not pending.
///
/// # Errors
/// Those of the database.
pub async fn fail_payment(
    conn: &mut PgConnection,
    merchant: MerchantId,
    trade_no: TradeNo,
    failure: &Failure,
) -> Result<Option<Order>, DbError> {
    let update = sqlx::query_as(FAIL_PAYMENT)
        .bind(merchant.uuid())
        .bind(trade_no.uuid())
        .bind(&failure.code)
        .bind(&failure.message);
    Ok(update.fetch_optional(conn).await?)
}

/// Closes a pending order. `None` where it is not pending.
///
/// # Errors
/// Those of the database.
pub async fn close(
    conn: &mut PgConnection,
    merchant: MerchantId,
    trade_no: TradeNo,
    now: OffsetDateTime,
) -> Result<Option<Order>, DbError> {
    let update = sqlx::query_as(CLOSE).bind(merchant.uuid()).bind(trade_no.uuid()).bind(now);
    Ok(update.fetch_optional(conn).await?)
}

/// Takes an amount off what can be refunded of a paid order. False where that is not enough.
///
/// # Errors
/// Those of the database.
pub async fn add_refund(
    conn: &mut PgConnection,
    merchant: MerchantId,
    trade_no: TradeNo,
    amount: Amount,
) -> Result<bool, DbError> {
    let update =
        sqlx::query(ADD_REFUND).bind(merchant.uuid()).bind(trade_no.uuid()).bind(amount.minor_units());
    Ok(update.execute(conn).await?.rows_affected() == 1)
}

/// Gives the amount of a failed refund back to what can be refunded. False where it was never taken.
///
/// # Errors
/// Those of the database.
pub async fn take_back_refund(
    conn: &mut PgConnection,
    merchant: MerchantId,
    trade_no: TradeNo,
    amount: Amount,
) -> Result<bool, DbError> {
    let update =
        sqlx::query(TAKE_BACK_REFUND).bind(merchant.uuid()).bind(trade_no.uuid()).bind(amount.minor_units());
    Ok(update.execute(conn).await?.rows_affected() == 1)
}

/// Makes an order `refunded` if succeeded refunds make up all of it. Asked after each refund that
/// succeeded.
///
/// # Errors
/// Those of the database.
pub async fn refund_all(
    conn: &mut PgConnection,
    merchant: MerchantId,
    trade_no: TradeNo,
) -> Result<(), DbError> {
    sqlx::query(REFUND_ALL).bind(merchant.uuid()).bind(trade_no.uuid()).execute(conn).await?;
    Ok(())
}

/// Closes at most `limit` pending orders whose time is over, and returns them.
///
/// # Errors
/// Those of the database.
pub async fn expire(conn: &mut PgConnection, limit: i64) -> Result<Vec<Order>, DbError> {
    Ok(sqlx::query_as(EXPIRE).bind(limit).fetch_all(conn).await?)
}
