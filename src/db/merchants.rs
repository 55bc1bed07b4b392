//! The table `merchants`: one row for each API key that has written something, with its clock, its webhook
//! settings, and the time at which its next work is due. `tx` says how the row is locked.

use sqlx::postgres::PgRow;
use sqlx::{Connection, FromRow, PgConnection, Postgres, Row, Transaction};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{DbError, merchant_now, merchant_now_or_new, open_merchant, real_time};
use crate::domain::id::MerchantId;
use crate::domain::time::clock::Clock;
use crate::domain::webhook::settings::{Rotation, SettingsChange, WebhookSecret, WebhookSettings};

macro_rules! webhook {
    () => {
        "webhook_url, webhook_secret,
         CASE WHEN previous_secret_until > clock_timestamp() THEN previous_secret_until END AS until"
    };
}

super::declare_statements! {
    OPEN = concat!(open_merchant!(), " SELECT ", merchant_now_or_new!());

    SHARE = concat!("
        SELECT emptying, ", merchant_now!(), " AS now FROM merchants m WHERE merchant_id = $1 FOR KEY SHARE");

    NOW = concat!("
        SELECT emptying, ", merchant_now!(), " AS now FROM merchants m WHERE merchant_id = $1");

    HOLD = "SELECT FROM merchants WHERE merchant_id = $1 FOR UPDATE";

    CLOCK = "
        SELECT clock_offset_ms, clock_frozen_at, date_trunc('milliseconds', clock_timestamp()) AS real
        FROM merchants WHERE merchant_id = $1";

    /// Another clock makes other work due, so a worker looks at once.
    SET_CLOCK = "
        UPDATE merchants SET clock_offset_ms = $2, clock_frozen_at = $3, due_at = clock_timestamp(),
                             delivery_due_at = clock_timestamp()
        WHERE merchant_id = $1";

    SET_EMPTYING = "
        UPDATE merchants
        SET clock_offset_ms = 0, clock_frozen_at = NULL, webhook_url = NULL, webhook_secret = DEFAULT,
            previous_webhook_secret = NULL, previous_secret_until = NULL,
            emptying = $2, emptied_at = clock_timestamp(),
            due_at = clock_timestamp() + CASE WHEN $2 THEN $3 ELSE interval '1 day' END,
            delivery_due_at = 'infinity'
        WHERE merchant_id = $1";

    /// The merchants that came due first, first. A merchant that was served goes to the end of the queue.
    DUE = "
        SELECT merchant_id FROM merchants WHERE due_at <= now() AND due_at < 'infinity'
        ORDER BY due_at LIMIT $1";

    /// For this long, no other instance takes the merchant, even if this process ends.
    LEASE = "
        UPDATE merchants SET due_at = clock_timestamp() + $2
        WHERE merchant_id = $1 AND due_at <= clock_timestamp()";

    /// More work is due: the merchant goes to the end of the queue.
    REQUEUE = "UPDATE merchants SET due_at = clock_timestamp() WHERE merchant_id = $1";

    /// The remaining work decides when something is due again. `$2` is how many hours keys are kept; `$3` is the
    /// pause before work is tried again that could not be done yet. Claiming a key does not change this row, so a
    /// merchant that was called within the last day is looked at after a day.
    RAISE = concat!("
        UPDATE merchants m SET due_at = greatest(clock_timestamp() + $3, least(", real_time!("next.deadline"), ",
            CASE WHEN called_at > now() - interval '25 hours' THEN now() + interval '1 day'
                 ELSE 'infinity' END))
        FROM (SELECT least(
            (SELECT expires_at FROM orders
             WHERE merchant_id = $1 AND status = 'pending' AND trade_no <> ALL (
                 ARRAY(SELECT id FROM stuck WHERE merchant_id = $1 AND kind = 'order'))
             ORDER BY expires_at LIMIT 1),
            (SELECT settles_at FROM refunds
             WHERE merchant_id = $1 AND status = 'pending' AND refund_no <> ALL (
                 ARRAY(SELECT id FROM stuck WHERE merchant_id = $1 AND kind = 'refund'))
             ORDER BY settles_at LIMIT 1),
            (SELECT created_at FROM idempotency_keys WHERE merchant_id = $1 ORDER BY created_at LIMIT 1)
                + make_interval(hours => $2)) AS deadline) next
        WHERE m.merchant_id = $1");

    CALLED = "UPDATE merchants SET called_at = clock_timestamp() WHERE merchant_id = $1";

    /// Those of these merchants whose noted last call is older.
    CALLED_BEFORE = "
        SELECT merchant_id FROM merchants
        WHERE merchant_id = ANY($1) AND called_at < clock_timestamp() - $2::interval";

    /// The merchants without a call for this long, the longest first.
    FORGOTTEN = "
        SELECT merchant_id FROM merchants WHERE called_at < now() - $1::interval
        ORDER BY called_at LIMIT $2";

    IS_FORGOTTEN = "
        SELECT called_at < clock_timestamp() - $2::interval FROM merchants WHERE merchant_id = $1";

    DELETE = "DELETE FROM merchants WHERE merchant_id = $1";

    WEBHOOK = concat!("SELECT ", webhook!(), " FROM merchants WHERE merchant_id = $1");

    /// `$2` says whether the URL changes. A new secret signs alone, so it ends a rotation.
    SET_WEBHOOK = concat!("
        UPDATE merchants
        SET webhook_url = CASE WHEN $2 THEN $3 ELSE webhook_url END,
            webhook_secret = coalesce($4, webhook_secret),
            previous_webhook_secret = CASE WHEN $4 IS NULL THEN previous_webhook_secret END,
            previous_secret_until = CASE WHEN $4 IS NULL THEN previous_secret_until END
        WHERE merchant_id = $1
        RETURNING ", webhook!());

    ROTATE_SECRET = concat!("
        UPDATE merchants
        SET webhook_secret = $2, previous_webhook_secret = webhook_secret,
            previous_secret_until = date_trunc('milliseconds', clock_timestamp() + $3)
        WHERE merchant_id = $1
        RETURNING ", webhook!());
}

/// Creates the merchant if it is new, and returns its time.
pub async fn open(conn: &mut PgConnection, merchant: MerchantId) -> Result<OffsetDateTime, DbError> {
    Ok(sqlx::query_scalar(OPEN).bind(merchant.uuid()).fetch_one(conn).await?)
}

/// Locks a merchant's row FOR KEY SHARE until the end of the transaction, and returns the merchant's time. A new
/// merchant is created. Only for `Tx`.
///
/// # Errors
/// [`DbError::Emptying`] while the merchant is being emptied.
pub(super) async fn share(tx: &mut PgConnection, merchant: MerchantId) -> Result<OffsetDateTime, DbError> {
    loop {
        let share = sqlx::query_as::<_, (bool, OffsetDateTime)>(SHARE).bind(merchant.uuid());
        match share.fetch_optional(&mut *tx).await? {
            Some((false, now)) => return Ok(now),
            Some((true, _)) => return Err(DbError::Emptying),
            None => open(tx, merchant).await?,
        };
    }
}

/// A transaction that holds the row of a merchant alone: it waits for those that share it, and they wait for it.
#[derive(Debug)]
pub struct Alone<'c>(Transaction<'c, Postgres>, MerchantId);

impl<'c> Alone<'c> {
    /// Begins, and creates the merchant if it is new.
    pub async fn begin(conn: &'c mut PgConnection, merchant: MerchantId) -> Result<Self, DbError> {
        open(conn, merchant).await?;
        let mut tx = conn.begin().await?;
        sqlx::query(HOLD).bind(merchant.uuid()).execute(&mut *tx).await?;
        Ok(Self(tx, merchant))
    }

    /// Whose row it is.
    #[must_use]
    pub const fn merchant(&self) -> MerchantId {
        self.1
    }

    /// The connection.
    pub fn conn(&mut self) -> &mut PgConnection {
        &mut self.0
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// Those of the database; then it is unknown whether the commit succeeded.
    pub async fn commit(self) -> Result<(), DbError> {
        Ok(self.0.commit().await?)
    }

    /// Sets the merchant's clock.
    pub async fn set_clock(&mut self, clock: Clock) -> Result<(), DbError> {
        let update = sqlx::query(SET_CLOCK).bind(self.1.uuid()).bind(clock.offset_ms).bind(clock.frozen_at);
        update.execute(&mut *self.0).await?;
        Ok(())
    }

    /// Sets when the merchant's next work is due, at the earliest after a pause.
    pub async fn raise_due(&mut self, kept_hours: i32, pause: Duration) -> Result<(), DbError> {
        sqlx::query(RAISE).bind(self.1.uuid()).bind(kept_hours).bind(pause).execute(&mut *self.0).await?;
        Ok(())
    }

    /// Resets the merchant's settings to those of a new one. `emptying` says whether rows of it are left: then
    /// nothing is written until they are deleted, and a worker goes on after `patience` if nobody else does.
    pub async fn set_emptying(&mut self, emptying: bool, patience: Duration) -> Result<(), DbError> {
        let update = sqlx::query(SET_EMPTYING).bind(self.1.uuid()).bind(emptying).bind(patience);
        update.execute(&mut *self.0).await?;
        Ok(())
    }

    /// Whether the merchant is being emptied.
    pub async fn is_emptying(&mut self) -> Result<bool, DbError> {
        let found = sqlx::query_as::<_, (bool, OffsetDateTime)>(NOW).bind(self.1.uuid());
        Ok(found.fetch_optional(&mut *self.0).await?.is_some_and(|(emptying, _)| emptying))
    }

    /// Whether the merchant has not called for this long.
    pub async fn is_forgotten(&mut self, after: Duration) -> Result<bool, DbError> {
        let found = sqlx::query_scalar(IS_FORGOTTEN).bind(self.1.uuid()).bind(after);
        Ok(found.fetch_one(&mut *self.0).await?)
    }

    /// Deletes the merchant's row.
    pub async fn delete(&mut self) -> Result<(), DbError> {
        sqlx::query(DELETE).bind(self.1.uuid()).execute(&mut *self.0).await?;
        Ok(())
    }
}

/// A merchant's clock, and real time.
pub async fn clock(
    conn: &mut PgConnection,
    merchant: MerchantId,
) -> Result<(Clock, OffsetDateTime), DbError> {
    let row = sqlx::query(CLOCK).bind(merchant.uuid()).fetch_one(conn).await?;
    let (offset_ms, frozen_at) = (row.try_get("clock_offset_ms")?, row.try_get("clock_frozen_at")?);
    Ok((Clock { offset_ms, frozen_at }, row.try_get("real")?))
}

/// Whether a merchant is being emptied, and its time. `None` if there is no such merchant.
pub async fn now(
    conn: &mut PgConnection,
    merchant: MerchantId,
) -> Result<Option<(bool, OffsetDateTime)>, DbError> {
    Ok(sqlx::query_as(NOW).bind(merchant.uuid()).fetch_optional(conn).await?)
}

/// The merchants that have something due now, at most `limit`.
pub async fn due(conn: &mut PgConnection, limit: i64) -> Result<Vec<MerchantId>, DbError> {
    ids(sqlx::query_scalar(DUE).bind(limit).fetch_all(conn).await?)
}

/// Takes a merchant that has work due, for this long. Returns false if another instance has taken it.
pub async fn lease(conn: &mut PgConnection, merchant: MerchantId, lease: Duration) -> Result<bool, DbError> {
    let update = sqlx::query(LEASE).bind(merchant.uuid()).bind(lease);
    Ok(update.execute(conn).await?.rows_affected() == 1)
}

/// Lets a merchant with more work wait until others had their turn.
pub async fn requeue(conn: &mut PgConnection, merchant: MerchantId) -> Result<(), DbError> {
    sqlx::query(REQUEUE).bind(merchant.uuid()).execute(conn).await?;
    Ok(())
}

/// Notes that a merchant has called.
pub async fn called(conn: &mut PgConnection, merchant: MerchantId) -> Result<(), DbError> {
    sqlx::query(CALLED).bind(merchant.uuid()).execute(conn).await?;
    Ok(())
}

/// Those of these merchants whose noted last call is older.
pub async fn called_before(
    conn: &mut PgConnection,
    merchants: &[MerchantId],
    ago: Duration,
) -> Result<Vec<MerchantId>, DbError> {
    let merchants: Vec<_> = merchants.iter().map(|merchant| merchant.uuid()).collect();
    ids(sqlx::query_scalar(CALLED_BEFORE).bind(merchants).bind(ago).fetch_all(conn).await?)
}

/// At most `limit` merchants without a call for this long.
pub async fn forgotten(
    conn: &mut PgConnection,
    after: Duration,
    limit: i64,
) -> Result<Vec<MerchantId>, DbError> {
    ids(sqlx::query_scalar(FORGOTTEN).bind(after).bind(limit).fetch_all(conn).await?)
}

#[expect(clippy::unnecessary_wraps, reason = "ends the functions above")]
fn ids(rows: Vec<Uuid>) -> Result<Vec<MerchantId>, DbError> {
    Ok(rows.into_iter().map(MerchantId::from_uuid).collect())
}

impl FromRow<'_, PgRow> for WebhookSettings {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            url: row.try_get("webhook_url")?,
            secret: WebhookSecret::stored(row.try_get("webhook_secret")?),
            previous_secret_until: row.try_get("until")?,
        })
    }
}

/// A merchant's webhook settings.
pub async fn webhook(conn: &mut PgConnection, merchant: MerchantId) -> Result<WebhookSettings, DbError> {
    Ok(sqlx::query_as(WEBHOOK).bind(merchant.uuid()).fetch_one(conn).await?)
}

/// Changes a merchant's webhook settings, and returns them.
pub async fn set_webhook(
    conn: &mut PgConnection,
    merchant: MerchantId,
    change: &SettingsChange,
) -> Result<WebhookSettings, DbError> {
    let update = sqlx::query_as(SET_WEBHOOK)
        .bind(merchant.uuid())
        .bind(change.url.is_some())
        .bind(change.url.as_ref().and_then(Option::as_deref))
        .bind(change.secret.as_ref().map(WebhookSecret::as_str));
    Ok(update.fetch_one(conn).await?)
}

/// Gives a merchant a new secret beside the old one, and returns its settings.
pub async fn rotate_secret(
    conn: &mut PgConnection,
    merchant: MerchantId,
    rotation: &Rotation,
) -> Result<WebhookSettings, DbError> {
    let update = sqlx::query_as(ROTATE_SECRET)
        .bind(merchant.uuid())
        .bind(rotation.secret.as_str())
        .bind(rotation.overlap);
    Ok(update.fetch_one(conn).await?)
}
