//! The table `stuck`: due work that failed, set aside with its cause.

use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};
use uuid::Uuid;

use super::row::unknown;
use super::{DbError, Tx};
use crate::domain::code::Code;
use crate::domain::id::MerchantId;
use crate::domain::stuck::{Stuck, StuckKind};

super::declare_statements! {
    INSERT = "
        INSERT INTO stuck (merchant_id, kind, id, since, cause) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT DO NOTHING";

    LIST = "
        SELECT kind, id, since, cause FROM stuck WHERE merchant_id = $1 AND id < $2
        ORDER BY id DESC LIMIT $3";
}

impl FromRow<'_, PgRow> for Stuck {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let kind = StuckKind::from_code(row.try_get("kind")?).ok_or_else(|| unknown("kind of stuck row"))?;
        Ok(Self { kind, id: row.try_get("id")?, since: row.try_get("since")?, cause: row.try_get("cause")? })
    }
}

/// Sets a row aside. Returns false if it was set aside before.
pub async fn insert(tx: &mut Tx<'_>, kind: StuckKind, id: Uuid, cause: &str) -> Result<bool, DbError> {
    let insert = sqlx::query(INSERT).bind(tx.merchant().uuid()).bind(kind.code()).bind(id);
    let insert = insert.bind(tx.now()).bind(cause);
    Ok(insert.execute(&mut **tx).await?.rows_affected() == 1)
}

/// The work of a merchant that was set aside, from the newest on, or from the one after `before` on, at most `limit`.
pub async fn list(
    conn: &mut PgConnection,
    merchant: MerchantId,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Stuck>, DbError> {
    let before = before.unwrap_or(Uuid::max());
    Ok(sqlx::query_as(LIST).bind(merchant.uuid()).bind(before).bind(limit).fetch_all(conn).await?)
}
