//! The table `orders`. New rows are written in `new_orders`. A status changes only by an update that names the
//! status it changes from, so that of two racing changes one finds nothing to do.

use std::marker::PhantomData;
use std::ops::Deref;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, Postgres, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::new_orders::{column_names, new_order};
use super::row::{amount, both, currency, failure, number, unknown};
use super::{DbError, Tx};
use crate::domain::code::Code;
use crate::domain::id::{MerchantId, TradeNo};
use crate::domain::payment::card::Card;
use crate::domain::payment::money::Amount;
use crate::domain::payment::number::MerchantNumber;
use crate::domain::payment::order::{Failure, Locale, Order, OrderContent, OrderStatus};

macro_rules! select {
    ($($rest:literal),*) => { concat!("SELECT ", columns!(), " FROM orders ", $($rest),*) };
}
macro_rules! columns {
    () => {
        concat!(
            "merchant_id, ",
            new_order!(column_names!),
            ", amount_refunded, card_brand, card_last4, failure_code, failure_message, paid_at, closed_at"
        )
    };
}

super::declare_statements! {
    BY_TRADE_NO = select!("WHERE merchant_id = $1 AND trade_no = $2");
    BY_OUT_TRADE_NO = select!("WHERE merchant_id = $1 AND out_trade_no = $2");
    /// By numbers of the gateway and by numbers of the merchant.
    BY_ANY_NO = concat!(
        select!("WHERE merchant_id = $1 AND trade_no = ANY($2)"), " UNION ALL ",
        select!("WHERE merchant_id = $1 AND out_trade_no = ANY($3)"));
    LOCK = select!("WHERE merchant_id = $1 AND trade_no = $2 FOR NO KEY UPDATE");
    LOCK_ROWS = "
        SELECT FROM orders WHERE merchant_id = $1 AND trade_no = ANY($2)
        ORDER BY trade_no FOR NO KEY UPDATE";

    LIST = select!("WHERE merchant_id = $1 AND trade_no < $2 ORDER BY trade_no DESC LIMIT $3");

    /// A range of the index `orders_in_status`. With `status = $4`, the planner could use the primary key, which
    /// has the same order, and read all orders to find a rare status.
    LIST_IN_STATUS = select!("
        WHERE merchant_id = $1 AND (status, trade_no) < ($4, $2)
            AND (status, trade_no) > ($4, '00000000-0000-0000-0000-000000000000')
        ORDER BY status DESC, trade_no DESC LIMIT $3");

    /// (The `CASE` keeps the planner from using `orders_waiting`, by which it would read all pending orders.)
    PAY = concat!("
        UPDATE orders SET status = 'paid', paid_at = $3, card_brand = $4, card_last4 = $5,
                          failure_code = NULL, failure_message = NULL
        WHERE merchant_id = $1 AND trade_no = $2 AND CASE status WHEN 'pending' THEN expires_at > $3 END
        RETURNING ", columns!());

    /// (The `CASE` is for the same.)
    FAIL_PAYMENT = concat!("
        UPDATE orders SET failure_code = $3, failure_message = $4
        WHERE merchant_id = $1 AND trade_no = $2 AND CASE status WHEN 'pending' THEN true END
        RETURNING ", columns!());

    /// (The `CASE` is for the same.)
    CLOSE = concat!("
        UPDATE orders SET status = 'closed', closed_at = $3
        WHERE merchant_id = $1 AND trade_no = $2 AND CASE status WHEN 'pending' THEN true END
        RETURNING ", columns!());

    /// The condition repeats what the caller has checked under the row's lock: this is the last guard of the money.
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

    /// The rows set aside are a list, because a join would read all that is due.
    DUE = "
        SELECT trade_no FROM orders
        WHERE merchant_id = $1 AND status = 'pending' AND expires_at <= $2 AND trade_no <> ALL (
            ARRAY(SELECT id FROM stuck WHERE merchant_id = $1))
        ORDER BY expires_at LIMIT $3";

    LOCK_ALL = select!("WHERE merchant_id = $1 AND trade_no = ANY($2) ORDER BY trade_no FOR NO KEY UPDATE");

    /// (The `CASE` keeps the planner from using `orders_waiting`, by which it would read all that is due.)
    EXPIRE = concat!("
        UPDATE orders SET status = 'closed', closed_at = expires_at
        WHERE merchant_id = $1 AND trade_no = ANY($2)
            AND CASE status WHEN 'pending' THEN expires_at <= $3 END
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
            failure: failure(row)?,
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

/// An order whose row the transaction has locked until its end: meanwhile nobody else changes the order, creates or
/// settles a refund of it, or emits an event about it. Functions that need the lock take this type, and only this
/// file creates it.
#[derive(Debug)]
pub struct LockedOrder<'c> {
    order: Order,
    transaction: PhantomData<&'c mut PgConnection>,
}

impl<'c> LockedOrder<'c> {
    const fn of(_: &Tx<'c>, order: Order) -> Self {
        Self { order, transaction: PhantomData }
    }

    /// A statement about the order.
    fn bind(&self, sql: &'static str) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(sql).bind(self.order.merchant.uuid()).bind(self.order.trade_no.uuid())
    }

    /// The order, to be shown.
    #[must_use]
    pub fn into_order(self) -> Order {
        self.order
    }
}

impl Deref for LockedOrder<'_> {
    type Target = Order;

    fn deref(&self) -> &Order {
        &self.order
    }
}

/// The orders of a list that exist, all locked.
#[derive(Debug)]
pub struct LockedOrders<'c>(Vec<LockedOrder<'c>>);

impl<'c> LockedOrders<'c> {
    /// The order with this number.
    #[must_use]
    pub fn get(&self, trade_no: TradeNo) -> Option<&LockedOrder<'c>> {
        self.0.iter().find(|order| order.trade_no == trade_no)
    }
}

/// The order with this gateway's number.
pub async fn by_trade_no(
    conn: &mut PgConnection,
    merchant: MerchantId,
    trade_no: TradeNo,
) -> Result<Option<Order>, DbError> {
    Ok(sqlx::query_as(BY_TRADE_NO).bind(merchant.uuid()).bind(trade_no.uuid()).fetch_optional(conn).await?)
}

/// The order with this merchant's number.
pub async fn by_out_trade_no(
    conn: &mut PgConnection,
    merchant: MerchantId,
    number: &MerchantNumber,
) -> Result<Option<Order>, DbError> {
    let find = sqlx::query_as(BY_OUT_TRADE_NO).bind(merchant.uuid()).bind(number.as_str());
    Ok(find.fetch_optional(conn).await?)
}

/// The order with this number of either kind: a `trade_no` comes before an `out_trade_no` (contract, section 2).
pub async fn by_any_no(
    conn: &mut PgConnection,
    merchant: MerchantId,
    no: &str,
) -> Result<Option<Order>, DbError> {
    Ok(by_any_nos(conn, merchant, &[no]).await?.pop().flatten())
}

/// The order with each of these numbers of either kind.
pub async fn by_any_nos(
    conn: &mut PgConnection,
    merchant: MerchantId,
    nos: &[&str],
) -> Result<Vec<Option<Order>>, DbError> {
    let trade_nos: Vec<_> = nos.iter().filter_map(|no| no.parse().ok()).map(TradeNo::uuid).collect();
    let out_trade_nos: Vec<_> = nos.iter().copied().filter(|no| MerchantNumber::new(no).is_some()).collect();
    let find = sqlx::query_as(BY_ANY_NO).bind(merchant.uuid()).bind(trade_nos).bind(out_trade_nos);
    let found: Vec<Order> = find.fetch_all(conn).await?;
    let with = |no: &&str| {
        let trade_no = no.parse().ok();
        let gateways = found.iter().find(|order| Some(order.trade_no) == trade_no);
        let merchants = || found.iter().find(|order| order.content.out_trade_no.as_str() == *no);
        gateways.or_else(merchants).cloned()
    };
    Ok(nos.iter().map(with).collect())
}

/// Reads an order again and locks its row until the end of the transaction.
pub async fn lock<'c>(tx: &mut Tx<'c>, trade_no: TradeNo) -> Result<Option<LockedOrder<'c>>, DbError> {
    let lock = sqlx::query_as(LOCK).bind(tx.merchant().uuid()).bind(trade_no.uuid());
    let order = lock.fetch_optional(&mut **tx).await?;
    Ok(order.map(|order| LockedOrder::of(tx, order)))
}

/// Locks the rows of orders until the end of the transaction, whatever they hold.
pub(super) async fn lock_rows(
    tx: &mut Tx<'_>,
    trade_nos: impl Iterator<Item = TradeNo>,
) -> Result<(), DbError> {
    let trade_nos: Vec<_> = trade_nos.map(TradeNo::uuid).collect();
    if !trade_nos.is_empty() {
        sqlx::query(LOCK_ROWS).bind(tx.merchant().uuid()).bind(trade_nos).execute(&mut **tx).await?;
    }
    Ok(())
}

/// A merchant's orders from the newest on, or from the one after `before` on, at most `limit`.
pub async fn list(
    conn: &mut PgConnection,
    merchant: MerchantId,
    before: Option<TradeNo>,
    status: Option<OrderStatus>,
    limit: i64,
) -> Result<Vec<Order>, DbError> {
    let sql = if status.is_some() { LIST_IN_STATUS } else { LIST };
    let before = before.map_or(Uuid::max(), TradeNo::uuid);
    let mut list = sqlx::query_as(sql).bind(merchant.uuid()).bind(before).bind(limit);
    if let Some(status) = status {
        list = list.bind(status.code());
    }
    Ok(list.fetch_all(conn).await?)
}

/// Marks a pending order that has not expired as paid. `None` if it is not payable.
pub async fn pay<'c>(
    tx: &mut Tx<'c>,
    trade_no: TradeNo,
    card: &Card,
    at: OffsetDateTime,
) -> Result<Option<LockedOrder<'c>>, DbError> {
    let pay = sqlx::query_as(PAY).bind(tx.merchant().uuid()).bind(trade_no.uuid()).bind(at);
    let paid = pay.bind(&card.brand).bind(&card.last4).fetch_optional(&mut **tx).await?;
    Ok(paid.map(|order| LockedOrder::of(tx, order)))
}

/// Notes why the last attempt to pay a pending order failed. `None` if it is not pending.
pub async fn fail_payment<'c>(
    tx: &mut Tx<'c>,
    trade_no: TradeNo,
    failure: &Failure,
) -> Result<Option<LockedOrder<'c>>, DbError> {
    let fail = sqlx::query_as(FAIL_PAYMENT).bind(tx.merchant().uuid()).bind(trade_no.uuid());
    let failed = fail.bind(&failure.code).bind(&failure.message).fetch_optional(&mut **tx).await?;
    Ok(failed.map(|order| LockedOrder::of(tx, order)))
}

/// Closes a pending order. `None` if it is not pending.
pub async fn close<'c>(
    tx: &mut Tx<'c>,
    trade_no: TradeNo,
    at: OffsetDateTime,
) -> Result<Option<LockedOrder<'c>>, DbError> {
    let close = sqlx::query_as(CLOSE).bind(tx.merchant().uuid()).bind(trade_no.uuid()).bind(at);
    let closed = close.fetch_optional(&mut **tx).await?;
    Ok(closed.map(|order| LockedOrder::of(tx, order)))
}

/// Reserves an amount of a paid order for a refund. Returns false if less can be refunded.
pub async fn add_refund<'c>(
    tx: &mut Tx<'c>,
    order: &LockedOrder<'c>,
    amount: Amount,
) -> Result<bool, DbError> {
    let add = order.bind(ADD_REFUND).bind(amount.minor_units());
    Ok(add.execute(&mut **tx).await?.rows_affected() == 1)
}

/// Returns the amount of a failed refund to what can be refunded. Returns false if it was not reserved.
pub async fn take_back_refund<'c>(
    tx: &mut Tx<'c>,
    order: &LockedOrder<'c>,
    amount: Amount,
) -> Result<bool, DbError> {
    let take_back = order.bind(TAKE_BACK_REFUND).bind(amount.minor_units());
    Ok(take_back.execute(&mut **tx).await?.rows_affected() == 1)
}

/// Makes an order `refunded` if succeeded refunds make up all of it. Called after each refund that succeeded.
pub async fn refund_all<'c>(tx: &mut Tx<'c>, order: &LockedOrder<'c>) -> Result<(), DbError> {
    order.bind(REFUND_ALL).execute(&mut **tx).await?;
    Ok(())
}

/// At most `limit` pending orders of a merchant that have expired at `now`.
pub async fn due(
    conn: &mut PgConnection,
    merchant: MerchantId,
    now: OffsetDateTime,
    limit: i64,
) -> Result<Vec<TradeNo>, DbError> {
    let due = sqlx::query_scalar(DUE).bind(merchant.uuid()).bind(now).bind(limit).fetch_all(conn).await?;
    Ok(due.into_iter().map(TradeNo::from_uuid).collect())
}

/// Closes those of these orders that have expired and are still pending, and returns them.
pub async fn expire<'c>(tx: &mut Tx<'c>, orders: &[TradeNo]) -> Result<Vec<LockedOrder<'c>>, DbError> {
    lock_all(tx, orders).await?;
    let expire = sqlx::query_as(EXPIRE).bind(tx.merchant().uuid()).bind(uuids(orders)).bind(tx.now());
    let expired = expire.fetch_all(&mut **tx).await?;
    Ok(expired.into_iter().map(|order| LockedOrder::of(tx, order)).collect())
}

/// Reads orders and locks their rows until the end of the transaction.
pub async fn lock_all<'c>(tx: &mut Tx<'c>, orders: &[TradeNo]) -> Result<LockedOrders<'c>, DbError> {
    let lock = sqlx::query_as(LOCK_ALL).bind(tx.merchant().uuid()).bind(uuids(orders));
    let locked = lock.fetch_all(&mut **tx).await?;
    Ok(LockedOrders(locked.into_iter().map(|order| LockedOrder::of(tx, order)).collect()))
}

fn uuids(orders: &[TradeNo]) -> Vec<Uuid> {
    orders.iter().map(|trade_no| trade_no.uuid()).collect()
}
