//! Writes new orders into the table `orders`: one in a transaction, or many at once together with their responses.
//! Later changes, from payment to refund, are in `orders`.

use sqlx::PgConnection;
use sqlx::types::Json;

use super::idempotency_keys::Completion;
use super::{DbError, Tx, due_by, real_time};
use crate::domain::code::Code;
use crate::domain::id::MerchantId;
use crate::domain::payment::order::{Locale, Order};

/// The columns of a new order: name, type and value. This is the only list of them: it makes both statements here and
/// their binds, and `orders` reads the same columns.
macro_rules! new_order {
    ($then:ident! $($with:tt)*) => {
        $then! { $($with)*
            trade_no uuid = |order| order.trade_no.uuid(),
            out_trade_no text = |order| order.content.out_trade_no.as_str(),
            amount bigint = |order| order.content.amount.minor_units(),
            currency text = |order| order.content.currency.code(),
            subject text = |order| order.content.subject.as_str(),
            return_url text = |order| order.content.return_url.as_deref(),
            notify_url text = |order| order.content.notify_url.as_deref(),
            locale text = |order| order.content.locale.map(Locale::code),
            metadata jsonb = |order| Json(&order.content.metadata),
            status text = |order| order.status.code(),
            checkout_secret text = |order| order.checkout_secret.as_str(),
            created_at timestamptz = |order| order.created_at,
            expires_at timestamptz = |order| order.expires_at,
        }
    };
}

/// `trade_no, out_trade_no, …`
macro_rules! column_names {
    ($first:ident $type:ident = $value:expr, $($column:ident $types:ident = $values:expr,)*) => {
        concat!(stringify!($first), $(", ", stringify!($column)),*)
    };
}

/// `$2::uuid, $3::text, …`, or with `"[]"` their arrays; numbered from the first number on.
macro_rules! parameters {
    ($array:literal [$n:literal $($after:literal)*] $column:ident $type:ident = $value:expr,) => {
        concat!("$", $n, "::", stringify!($type), $array)
    };
    ($array:literal [$n:literal $($after:literal)*] $column:ident $type:ident = $value:expr, $($more:tt)+) => {
        concat!("$", $n, "::", stringify!($type), $array, ", ", parameters!($array [$($after)*] $($more)+))
    };
}

/// Binds the value of each column, as `$read` takes it from `$of`.
macro_rules! bind {
    ($query:expr, $read:ident($of:ident), $($column:ident $type:ident = $value:expr,)*) => {
        $query $(.bind($read($of, $value)))*
    };
}

pub(super) use {column_names, new_order};

super::declare_statements! {
    INSERT = concat!("
        WITH written AS (
            INSERT INTO orders (merchant_id, ", new_order!(column_names!), ")
            VALUES ($1, ", new_order!(parameters! "" [2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20]), ")
            ON CONFLICT (merchant_id, out_trade_no) DO NOTHING
            RETURNING expires_at),
        ", due_by!("written.expires_at"), "
        SELECT FROM written");

    /// Writes new orders and their responses, each under a claimed key: the whole T2 of the hot path in one round
    /// trip. It shares the merchant's row and locks the claims first. An order is written only under its claim, and
    /// a response only with its order. Returns the requests whose orders were written; of the others, nothing was.
    /// (The keys are named twice, so that no plan reads all keys of the merchant.)
    INSERT_COMPLETING = concat!("
        WITH merchant AS (
            SELECT clock_offset_ms, clock_frozen_at, due_at FROM merchants
            WHERE merchant_id = $1 AND NOT emptying FOR KEY SHARE),
        asked AS (
            SELECT * FROM unnest($2::text[], $3::uuid[], $4::smallint[], $5::bytea[], ",
                new_order!(parameters! "[]" [6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24]), ")
                AS asked (key, request_id, response_status, response_body, ", new_order!(column_names!), ")
            WHERE EXISTS (SELECT FROM merchant)),
        claimed AS (
            SELECT asked.* FROM asked, LATERAL (
                SELECT FROM idempotency_keys k
                WHERE k.merchant_id = $1 AND k.key = asked.key AND k.request_id = asked.request_id
                    AND k.state = 'in_progress'
                FOR NO KEY UPDATE) claim),
        written AS (
            INSERT INTO orders (merchant_id, ", new_order!(column_names!), ")
            SELECT $1, ", new_order!(column_names!), "
            FROM claimed ORDER BY out_trade_no
            ON CONFLICT (merchant_id, out_trade_no) DO NOTHING
            RETURNING trade_no, expires_at),
        lowered AS (
            UPDATE merchants SET due_at = ", real_time!("first.at"), "
            FROM merchant m, (SELECT min(expires_at) AS at FROM written) first
            WHERE merchants.merchant_id = $1 AND m.due_at > ", real_time!("first.at"), ")
        UPDATE idempotency_keys k
        SET state = 'completed', status = claimed.response_status, response_body = claimed.response_body
        FROM claimed JOIN written USING (trade_no)
        WHERE k.merchant_id = $1 AND k.key = ANY($2) AND k.key = claimed.key
        RETURNING k.request_id");
}

/// Writes a new order. Returns false if its `out_trade_no` is taken.
pub async fn insert(tx: &mut Tx<'_>, order: &Order) -> Result<bool, DbError> {
    let insert = sqlx::query(INSERT).bind(order.merchant.uuid());
    let insert = new_order!(bind! insert, one(order),);
    Ok(insert.fetch_optional(&mut **tx).await?.is_some())
}

/// A new order and its response.
#[derive(Debug)]
pub struct CompletedOrder {
    /// The order.
    pub order: Order,
    /// The response, to be stored under a claimed key.
    pub completion: Completion,
}

/// Writes new orders of a merchant, and stores their responses under claimed keys. Returns for each, in the same
/// order, whether it was written. If its `out_trade_no` is taken or its claim is lost, nothing is written of it.
///
/// # Errors
/// Those of the database; then nothing is written at all.
pub async fn insert_completing(
    conn: &mut PgConnection,
    merchant: MerchantId,
    orders: &[CompletedOrder],
) -> Result<Vec<bool>, DbError> {
    let insert = sqlx::query_scalar(INSERT_COMPLETING)
        .bind(merchant.uuid())
        .bind(responses(orders, |response| response.key.as_str()))
        .bind(responses(orders, |response| response.claim.request_id.uuid()))
        .bind(responses(orders, Completion::stored_status))
        .bind(responses(orders, |response| response.body.as_ref()));
    let written = new_order!(bind! insert, all(orders),).fetch_all(conn).await?;
    Ok(responses(orders, |response| written.contains(&response.claim.request_id.uuid())))
}

fn responses<'o, T>(orders: &'o [CompletedOrder], read: impl Fn(&'o Completion) -> T) -> Vec<T> {
    orders.iter().map(|completed| read(&completed.completion)).collect()
}

fn all<'o, T>(orders: &'o [CompletedOrder], read: impl Fn(&'o Order) -> T) -> Vec<T> {
    orders.iter().map(|completed| read(&completed.order)).collect()
}

fn one<'o, T>(order: &'o Order, read: impl Fn(&'o Order) -> T) -> T {
    read(order)
}
