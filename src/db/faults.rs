//! The table `faults`: the rules of a merchant, and how often each has struck. The counts are exact, however many
//! calls arrive at once on however many instances.

use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};
use uuid::Uuid;

use super::row::unknown;
use super::{DbError, Tx};
use crate::domain::fault::Fault;
use crate::domain::fault::matcher::Matcher;
use crate::domain::fault::options::FaultOptions;
use crate::domain::fault::rule::{FaultRule, RuleContent};
use crate::domain::id::{FaultId, MerchantId};

macro_rules! columns {
    () => {
        "fault_id, kind, method, path, out_trade_no, out_refund_no, event_type, delay_ms, status, retry_after, \
         times, probability, seed, fired, created_at"
    };
}

super::declare_statements! {
    /// Nothing is written if the merchant already has `$16` rules.
    INSERT = concat!("
        INSERT INTO faults (merchant_id, ", columns!(), ")
        SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9::bigint, $10::bigint, $11::bigint, $12::bigint,
               $13::double precision, $14::bigint, 0, $15::timestamptz
        WHERE (SELECT count(*) FROM faults WHERE merchant_id = $1) < $16");

    FIND = concat!("SELECT ", columns!(), " FROM faults WHERE merchant_id = $1 AND fault_id = $2");

    LIST = concat!("
        SELECT ", columns!(), " FROM faults WHERE merchant_id = $1 AND fault_id < $2
        ORDER BY fault_id DESC LIMIT $3");

    /// The rules that may still strike, in the order in which they do.
    LIVE = concat!("
        SELECT ", columns!(), " FROM faults
        WHERE merchant_id = $1 AND (times IS NULL OR fired < times) ORDER BY fault_id");

    /// In one order, so that no two transactions wait for each other.
    LOCK = "
        SELECT FROM faults WHERE merchant_id = $1 AND fault_id = ANY($2) ORDER BY fault_id FOR NO KEY UPDATE";

    /// Deletes rules that may strike no more, the oldest first.
    FORGET = "
        DELETE FROM faults WHERE merchant_id = $1 AND fault_id = ANY(ARRAY(
            SELECT fault_id FROM faults WHERE merchant_id = $1 AND fired >= times
            ORDER BY fault_id LIMIT $2))";

    DRAW = "
        UPDATE faults SET drawn = drawn + 1
        WHERE merchant_id = $1 AND fault_id = $2 AND (times IS NULL OR fired < times)
        RETURNING drawn";

    FIRE = "
        UPDATE faults SET fired = fired + 1
        WHERE merchant_id = $1 AND fault_id = $2 AND (times IS NULL OR fired < times)";

    DELETE = "DELETE FROM faults WHERE merchant_id = $1 AND fault_id = $2";

    DELETE_ALL = "DELETE FROM faults WHERE merchant_id = $1";
}

impl FromRow<'_, PgRow> for FaultRule {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let unsigned = |name: &str| -> sqlx::Result<Option<u64>> {
            let number: Option<i64> = row.try_get(name)?;
            Ok(number.and_then(|number| u64::try_from(number).ok()))
        };
        let options = FaultOptions {
            delay_ms: unsigned("delay_ms")?,
            status: unsigned("status")?,
            retry_after: unsigned("retry_after")?,
        };
        let fault = Fault::new(row.try_get("kind")?, options).map_err(|_| unknown("fault"))?;
        let matcher = Matcher {
            method: row.try_get("method")?,
            path: row.try_get("path")?,
            out_trade_no: row.try_get("out_trade_no")?,
            out_refund_no: row.try_get("out_refund_no")?,
            event_type: row.try_get("event_type")?,
        };
        Ok(Self {
            fault_id: FaultId::from_uuid(row.try_get("fault_id")?),
            content: RuleContent {
                fault,
                matcher,
                times: row.try_get("times")?,
                probability: row.try_get("probability")?,
                seed: row.try_get("seed")?,
            },
            fired: row.try_get("fired")?,
            created_at: row.try_get("created_at")?,
        })
    }
}

/// Writes a new rule. False where the merchant has `limit` rules already.
pub async fn insert(
    conn: &mut PgConnection,
    merchant: MerchantId,
    rule: &FaultRule,
    limit: i64,
) -> Result<bool, DbError> {
    let (content, matcher) = (&rule.content, &rule.content.matcher);
    let options = content.fault.options();
    let signed = |number: Option<u64>| number.and_then(|number| i64::try_from(number).ok());
    let insert = sqlx::query(INSERT)
        .bind(merchant.uuid())
        .bind(rule.fault_id.uuid())
        .bind(content.fault.kind())
        .bind(&matcher.method)
        .bind(&matcher.path)
        .bind(&matcher.out_trade_no)
        .bind(&matcher.out_refund_no)
        .bind(&matcher.event_type)
        .bind(signed(options.delay_ms))
        .bind(signed(options.status))
        .bind(signed(options.retry_after))
        .bind(content.times)
        .bind(content.probability)
        .bind(content.seed)
        .bind(rule.created_at)
        .bind(limit);
    Ok(insert.execute(conn).await?.rows_affected() == 1)
}

/// A rule by its id.
pub async fn find(
    conn: &mut PgConnection,
    merchant: MerchantId,
    fault_id: FaultId,
) -> Result<Option<FaultRule>, DbError> {
    let find = sqlx::query_as(FIND).bind(merchant.uuid()).bind(fault_id.uuid());
    Ok(find.fetch_optional(conn).await?)
}

/// A merchant's rules from the newest on, or from the one after `before` on, at most `limit`.
pub async fn list(
    conn: &mut PgConnection,
    merchant: MerchantId,
    before: Option<FaultId>,
    limit: i64,
) -> Result<Vec<FaultRule>, DbError> {
    let before = before.map_or(Uuid::max(), FaultId::uuid);
    Ok(sqlx::query_as(LIST).bind(merchant.uuid()).bind(before).bind(limit).fetch_all(conn).await?)
}

/// The rules that may still strike, the oldest first.
pub async fn live(conn: &mut PgConnection, merchant: MerchantId) -> Result<Vec<FaultRule>, DbError> {
    Ok(sqlx::query_as(LIVE).bind(merchant.uuid()).fetch_all(conn).await?)
}

/// Locks rules until the end of the transaction, for one that may let several of them strike.
pub async fn lock(tx: &mut Tx<'_>, rules: &[FaultRule]) -> Result<(), DbError> {
    let ids: Vec<_> = rules.iter().map(|rule| rule.fault_id.uuid()).collect();
    sqlx::query(LOCK).bind(tx.merchant().uuid()).bind(ids).execute(&mut **tx).await?;
    Ok(())
}

/// Deletes at most `limit` of the rules that may strike no more, the oldest first.
pub async fn forget(conn: &mut PgConnection, merchant: MerchantId, limit: i64) -> Result<(), DbError> {
    sqlx::query(FORGET).bind(merchant.uuid()).bind(limit).execute(conn).await?;
    Ok(())
}

/// Counts an occasion that matches a rule, and returns which one it is, from 1 on. `None` where the rule
/// may strike no more.
pub async fn draw(
    conn: &mut PgConnection,
    merchant: MerchantId,
    fault_id: FaultId,
) -> Result<Option<i64>, DbError> {
    let draw = sqlx::query_scalar(DRAW).bind(merchant.uuid()).bind(fault_id.uuid());
    Ok(draw.fetch_optional(conn).await?)
}

/// Lets a rule strike. False where it may no more.
pub async fn fire(conn: &mut PgConnection, merchant: MerchantId, fault_id: FaultId) -> Result<bool, DbError> {
    let fire = sqlx::query(FIRE).bind(merchant.uuid()).bind(fault_id.uuid());
    Ok(fire.execute(conn).await?.rows_affected() == 1)
}

/// Deletes a rule, or all of a merchant's, and returns how many.
pub async fn delete(
    conn: &mut PgConnection,
    merchant: MerchantId,
    fault_id: Option<FaultId>,
) -> Result<u64, DbError> {
    let delete = match fault_id {
        Some(fault_id) => sqlx::query(DELETE).bind(merchant.uuid()).bind(fault_id.uuid()),
        None => sqlx::query(DELETE_ALL).bind(merchant.uuid()),
    };
    Ok(delete.execute(conn).await?.rows_affected())
}
