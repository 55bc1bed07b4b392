//! The statistics of tables that grow fast. Plans are made by statistics and kept until there are new ones: those of a
//! table that was empty would read all of it. PostgreSQL's autovacuum looks once a minute, which is too late for a
//! sandbox that has just started.

use sqlx::{AssertSqlSafe, Executor};

use super::{DbError, PgConnection};

// It reads only the catalogue, so its plan is not tested.

/// The table that has grown most since its last statistics, if it has about doubled. Rows that come and go do not
/// count: no plan depends on them.
const OUTDATED: &str =
    "SELECT relid::regclass::text FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
     WHERE n_live_tup > 200 + 2 * greatest(c.reltuples, 0) AND n_mod_since_analyze > 200
         AND pg_has_role(c.relowner, 'USAGE')
     ORDER BY n_live_tup DESC LIMIT 1";

/// Renews the statistics of one table. Returns false if none needs it.
pub async fn step(conn: &mut PgConnection) -> Result<bool, DbError> {
    let table = sqlx::query_scalar::<_, String>(OUTDATED).fetch_optional(&mut *conn).await?;
    if let Some(table) = &table {
        // Another instance may be at it. The name comes from the catalogue, quoted if necessary.
        conn.execute(AssertSqlSafe(format!("ANALYZE (SKIP_LOCKED) {table}"))).await?;
    }
    Ok(table.is_some())
}
