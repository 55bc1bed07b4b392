//! The tables `journal_writers` and `instances`: which instances may have unwritten entries of a merchant, and how
//! far each instance has written.

use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::DbError;
use crate::domain::id::MerchantId;

super::declare_statements! {
    OPEN = "
        INSERT INTO journal_writers (merchant_id, instance_id, opening, announced_at)
        VALUES ($1, $2, $3, clock_timestamp())
        ON CONFLICT (merchant_id, instance_id) DO UPDATE SET opening = excluded.opening";

    CLOSE = "DELETE FROM journal_writers WHERE merchant_id = $1 AND instance_id = $2 AND opening = $3";

    /// Without `$2`, the published time stays. The instance counts as alive for five more seconds.
    PUBLISH = "
        INSERT INTO instances AS i (instance_id, written_through, alive_until)
        VALUES ($1, coalesce($2::timestamptz, 'epoch'), clock_timestamp() + interval '5 seconds')
        ON CONFLICT (instance_id) DO UPDATE
        SET written_through = coalesce($2, i.written_through), alive_until = excluded.alive_until
        RETURNING clock_timestamp()";

    LEAVE = "DELETE FROM instances WHERE instance_id = $1";

    DEAD = "
        SELECT instance_id, alive_until FROM instances
        WHERE alive_until < now() - interval '1 minute' ORDER BY alive_until LIMIT 16";

    MERCHANTS_OF = "SELECT merchant_id FROM journal_writers WHERE instance_id = $1 LIMIT $2";

    /// The last entries of an instance that died at `$3` may be missing, and it writes no more.
    BURY = "
        WITH closed AS (DELETE FROM journal_writers WHERE merchant_id = $1 AND instance_id = $2)
        INSERT INTO journals AS j (merchant_id, entries, bytes, dropped, missing_before)
        VALUES ($1, 0, 0, 0, $3)
        ON CONFLICT (merchant_id) DO UPDATE
        SET missing_before = greatest(j.missing_before, excluded.missing_before)";
}

/// How many merchants of a dead instance are handled at once.
const BURIED: i64 = 500;

/// Notes that an instance may have unwritten entries of a merchant.
pub async fn open(
    conn: &mut PgConnection,
    merchant: MerchantId,
    instance: Uuid,
    opening: Uuid,
) -> Result<(), DbError> {
    sqlx::query(OPEN).bind(merchant.uuid()).bind(instance).bind(opening).execute(conn).await?;
    Ok(())
}

/// Notes that all entries are written, unless the merchant was announced again.
pub async fn close(
    conn: &mut PgConnection,
    merchant: MerchantId,
    instance: Uuid,
    opening: Uuid,
) -> Result<(), DbError> {
    sqlx::query(CLOSE).bind(merchant.uuid()).bind(instance).bind(opening).execute(conn).await?;
    Ok(())
}

/// Notes that an instance is alive, and through which time it has written all journals. Returns the database's time.
pub async fn publish(
    conn: &mut PgConnection,
    instance: Uuid,
    written_through: Option<OffsetDateTime>,
) -> Result<OffsetDateTime, DbError> {
    Ok(sqlx::query_scalar(PUBLISH).bind(instance).bind(written_through).fetch_one(conn).await?)
}

/// Notes that an instance has no unwritten entries.
pub async fn leave(conn: &mut PgConnection, instance: Uuid) -> Result<(), DbError> {
    sqlx::query(LEAVE).bind(instance).execute(conn).await?;
    Ok(())
}

/// The instances that have died, each with the time until which it counted as alive.
pub async fn dead(conn: &mut PgConnection) -> Result<Vec<(Uuid, OffsetDateTime)>, DbError> {
    Ok(sqlx::query_as(DEAD).fetch_all(conn).await?)
}

/// Some of the merchants whose journal an instance was writing.
pub async fn merchants_of(conn: &mut PgConnection, instance: Uuid) -> Result<Vec<MerchantId>, DbError> {
    let merchants: Vec<Uuid> =
        sqlx::query_scalar(MERCHANTS_OF).bind(instance).bind(BURIED).fetch_all(conn).await?;
    Ok(merchants.into_iter().map(MerchantId::from_uuid).collect())
}

/// Notes in a merchant's journal that an instance that wrote it has died.
pub async fn bury(
    conn: &mut PgConnection,
    merchant: MerchantId,
    instance: Uuid,
    died_at: OffsetDateTime,
) -> Result<(), DbError> {
    sqlx::query(BURY).bind(merchant.uuid()).bind(instance).bind(died_at).execute(conn).await?;
    Ok(())
}
