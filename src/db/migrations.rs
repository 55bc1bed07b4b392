//! Bringing the tables up to date, under a lock, in a database that is the sandbox's own.

use std::sync::LazyLock;
use std::time::Duration;

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use super::{DbError, PgConnection};

/// The text of each migration by its name.
macro_rules! texts {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../../migrations/", $name, ".sql")))),*] };
}

/// All migrations, in their order. (`sqlx::migrate!` would find them by itself, but for it sqlx is compiled twice.)
const MIGRATIONS: &[(&str, &str)] = texts! {
    "0001_gateway"
    "0002_clock_and_settlement"
    "0003_webhooks"
    "0004_faults_and_journal"
    "0005_delayed_events"
    "0006_due_and_claims"
    "0007_deliveries"
    "0008_journal"
    "0010_lists"
    "0011_names"
    "0012_journal_writers"
};

static MIGRATOR: LazyLock<Migrator> =
    LazyLock::new(|| Migrator::with_migrations(MIGRATIONS.iter().filter_map(migration).collect()));

/// A migration as `sqlx::migrate!` reads it from its file. `None` if its name has no number; a test holds that each has.
fn migration(&(name, sql): &(&str, &'static str)) -> Option<Migration> {
    let (version, description) = name.split_once('_')?;
    let description = description.replace('_', " ").into();
    Some(Migration::new(version.parse().ok()?, description, MigrationType::Simple, sql.into_sql_str(), false))
}

/// After how long the log says what the start is waiting for.
const TELL_AFTER: Duration = Duration::from_secs(5);
/// How many foreign tables an error names.
const NAMED: usize = 3;

// It runs once at start and reads only the catalogue, so its plan is not tested.

/// The existing tables, without those of the server and of extensions.
const TABLES: &str = "SELECT n.nspname = 'public', n.nspname::text, c.relname::text
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relpersistence <> 't'
       AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass
                       AND d.objid = c.oid AND d.deptype = 'e')
     ORDER BY 1 DESC, 2, 3";
/// Whether the sandbox's first migration has run here.
const IS_OWN: &str = "SELECT EXISTS (SELECT FROM _sqlx_migrations WHERE version = $1 AND checksum = $2)";
/// The table that lists the migrations. Many applications have a table of this name.
const COUNTED: &str = "_sqlx_migrations";

/// Creates or changes the tables. Waits while another instance does so.
pub(super) async fn run(conn: &mut PgConnection) -> Result<(), DbError> {
    let mut run = std::pin::pin!(MIGRATOR.run(conn));
    let done = tokio::select! {
        done = &mut run => done,
        () = tokio::time::sleep(TELL_AFTER) => {
            tracing::info!("the tables are still being brought up to date, here or by another instance");
            run.await
        }
    };
    done.map_err(DbError::from_migration)
}

/// Refuses a database that holds foreign tables, before anything is created. `source` is the setting that names the
/// database.
pub(super) async fn refuse_others(conn: &mut PgConnection, source: &str) -> Result<(), DbError> {
    let tables: Vec<(bool, String, String)> = sqlx::query_as(TABLES).fetch_all(&mut *conn).await?;
    // Another instance may be about to create the tables: it creates this one first, alone and empty.
    if tables.iter().all(|(_, _, table)| table == COUNTED) {
        return Ok(());
    }
    // Checked last, so that the tables seen above are committed together with their migration.
    if tables.iter().any(|(_, _, table)| table == COUNTED) && is_own(conn).await? {
        return Ok(());
    }
    let name = |(public, schema, table): &(bool, String, String)| {
        if *public { table.clone() } else { format!("{schema}.{table}") }
    };
    let named: Vec<_> = tables.iter().take(NAMED).map(name).collect();
    let more = match tables.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(DbError::Setup(format!(
        "the database that {source} names holds tables of others: {}{more}; nothing was made there. Give the \
         sandbox a database of its own (KUKOPAY_DATABASE_URL or --database-url), or use the embedded one \
         (--ephemeral or --data-dir), which goes before {source}",
        named.join(", ")
    )))
}

async fn is_own(conn: &mut PgConnection) -> Result<bool, DbError> {
    let Some(first) = MIGRATOR.iter().next() else { return Ok(false) };
    let own = sqlx::query_scalar(IS_OWN).bind(first.version).bind(&*first.checksum).fetch_one(conn).await;
    match own {
        // A table of this name in another schema, or with other columns.
        Err(sqlx::Error::Database(refused)) if refused.code().is_some_and(|code| code.starts_with("42")) => {
            Ok(false)
        }
        own => Ok(own?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_run_in_the_order_of_its_number() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap();
        let mut files: Vec<_> = folder.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        let listed: Vec<_> = MIGRATIONS.iter().map(|(name, _)| format!("{name}.sql")).collect();
        assert_eq!(listed, files);
        let run: Vec<_> = MIGRATOR.iter().map(|migration| format!("{:04}", migration.version)).collect();
        let numbers: Vec<_> = files.iter().map(|file| file[..4].to_owned()).collect();
        assert_eq!(run, numbers);
    }
}
