//! Vacuum, statistics and checkpoints of the embedded database, which has no background processes. A server does
//! this by itself.

use sqlx::{AssertSqlSafe, Executor};

use super::{DbError, PgConnection};

// It reads only the catalogue, so its plan is not tested.

/// The table that needs a vacuum most. The thresholds are lower than those of PostgreSQL's autovacuum, because these
/// tables are emptied again and again, and a vacuum should be short.
const NEEDIEST: &str = "SELECT relid::regclass::text, vacuum > 1
     FROM pg_stat_user_tables, LATERAL (SELECT
            greatest(n_dead_tup / (1000 + 0.1 * n_live_tup), n_ins_since_vacuum / (10000 + 0.5 * n_live_tup)) AS vacuum,
            n_mod_since_analyze / (200 + 0.1 * n_live_tup) AS \"analyze\") need
     WHERE greatest(vacuum, \"analyze\") > 1
     ORDER BY greatest(vacuum, \"analyze\") DESC
     LIMIT 1";
/// How many bytes of log were written since the last checkpoint.
const LOGGED: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn)::bigint
     FROM pg_control_checkpoint()";

/// How many bytes of log may be written before a checkpoint. A start after a crash reads them again, and they take
/// space on the disk.
const CHECKPOINT_AFTER: i64 = 48 << 20;

/// Does the most urgent work on one table. Returns false if nothing is needed.
pub async fn step(conn: &mut PgConnection) -> Result<bool, DbError> {
    if let Some((table, vacuum)) =
        sqlx::query_as::<_, (String, bool)>(NEEDIEST).fetch_optional(&mut *conn).await?
    {
        let verb = if vacuum { "VACUUM (ANALYZE)" } else { "ANALYZE" };
        // The name comes from the catalogue, quoted if necessary.
        conn.execute(AssertSqlSafe(format!("{verb} {table}"))).await?;
        return Ok(true);
    }
    let logged: i64 = sqlx::query_scalar(LOGGED).fetch_one(&mut *conn).await?;
    if logged > CHECKPOINT_AFTER {
        conn.execute("CHECKPOINT").await?;
    }
    Ok(false)
}
