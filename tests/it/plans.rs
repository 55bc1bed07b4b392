//! The SQL on tables that have rows: what each statement looks at is bounded by what it returns or works on, not by
//! what a merchant has, how many merchants there are, or what the planner knows of either. All rows are written in one
//! transaction, which is rolled back.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use futures_util::future::join_all;
use kukopay_sandbox::db::{self, Database, PgConnection, ServerUrl, Storage};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, Row};

use crate::support::process::database_beside;
use crate::support::wait::wait_while;
use crate::support::{Merchant, Process, server};

/// What a limit says, and every other number.
const LIMIT: u64 = 100;

/// How many rows a statement may look at: a few for each one up to the limit, since what it has found it may
/// read again, join and look up in other tables.
const LOOKED_AT: u64 = 20 * LIMIT;

/// How many blocks a statement may read: an index that is read from end to end has more.
const BLOCKS: u64 = 40 * LIMIT;

/// Statements that may look at a whole journal, which is bounded by `--journal-size` and its bytes.
const OF_A_JOURNAL: [(&str, &str); 1] = [("requests", "LIST")];
/// As large as that journal is here.
const JOURNAL: u64 = 2_000;

/// How many of the first rows there are before all others.
const FIRST: u64 = 400;

/// The rows: of one merchant, `big()`, many, of which few are what a filter or a worker looks for, the oldest; and of
/// many merchants, `other(n)`, a few each. `id(n)` is an identifier, `no(n)` a number.
const ROWS: &[&str] = &[
    "INSERT INTO merchants (merchant_id, due_at, delivery_due_at, called_at)
     SELECT other(n), CASE WHEN n <= 200 THEN now() - n * interval '1 s' ELSE 'infinity' END, 'infinity',
            now() - n * interval '1 min'
     FROM generate_series(1, 3000) n",
    "INSERT INTO merchants (merchant_id, webhook_url) VALUES (big(), 'http://127.0.0.1:1/')",
    "INSERT INTO orders (merchant_id, trade_no, out_trade_no, amount, currency, subject, metadata, status,
                         checkout_secret, created_at, expires_at)
     SELECT big(), id(n), no(n), 100, 'USD', 's', '{}', CASE WHEN n <= 3000 THEN 'pending' ELSE 'paid' END, 'c',
            now(), now() - interval '1 h' + n * interval '1 s'
     FROM generate_series(1, 100000) n",
    "INSERT INTO orders (merchant_id, trade_no, out_trade_no, amount, currency, subject, metadata, status,
                         checkout_secret, created_at, expires_at)
     SELECT other(n), id(m), no(m), 100, 'USD', 's', '{}', 'pending', 'c', now(), now()
     FROM generate_series(1, 3000) n, generate_series(1, 3) m",
    "INSERT INTO refunds (merchant_id, refund_no, out_refund_no, trade_no, out_trade_no, amount, currency,
                          metadata, status, created_at, settles_at, settles_as)
     SELECT big(), id(n), no(n), id(n), no(n), 1, 'USD', '{}',
            CASE WHEN n <= 3000 THEN 'pending' ELSE 'succeeded' END, now(),
            now() - interval '1 h' + n * interval '1 s', 'succeeded'
     FROM generate_series(1, 30000) n",
    "INSERT INTO refunds (merchant_id, refund_no, out_refund_no, trade_no, out_trade_no, amount, currency,
                          metadata, status, created_at, settles_at, settles_as)
     SELECT other(n), id(1), no(1), id(1), no(1), 1, 'USD', '{}', 'pending', now(), now(), 'succeeded'
     FROM generate_series(1, 3000) n",
    "INSERT INTO events (merchant_id, event_id, event_type, trade_no, payload, created_at, status, attempts,
                         position)
     SELECT big(), id(n), CASE WHEN n <= 20 THEN 'refund.failed' ELSE 'payment.succeeded' END, id(n), '{}', now(),
            CASE WHEN n <= 3000 THEN 'failed' ELSE 'no_url' END, CASE WHEN n <= 3000 THEN 8 ELSE 0 END, 1
     FROM generate_series(1, 50000) n",
    "INSERT INTO deliveries (merchant_id, event_id, attempt, at, url, signature, error, duration_ms)
     SELECT big(), id(n), m, now(), 'http://127.0.0.1:1/', 's', 'e', 1
     FROM generate_series(1, 3000) n, generate_series(1, 8) m",
    "INSERT INTO idempotency_keys (merchant_id, key, fingerprint, method, path, request_body, state, lease_until,
                                   request_id, status, response_body, created_at)
     SELECT big(), no(n), '\\x00', 'POST', '/v1/orders', '', 'completed', now(), id(n), 201, '', now() - interval '25 h' + n * interval '1 s'
     FROM generate_series(1, 30000) n",
    "INSERT INTO requests (merchant_id, request_id, at, received_at, duration_ms, method, path, request_headers,
                           request_body, order_nos, refund_nos, outcome, response_body, answered, client_hung_up,
                           bytes)
     SELECT big(), id(n), now(), now(), 1, 'POST', '/v1/orders', '{}', '', ARRAY[no(n)], '{}', 'executed', '', true,
            false, 100
     FROM generate_series(1, 2000) n",
    "INSERT INTO journals (merchant_id, entries, bytes, dropped) SELECT other(n), 1, 1, 0 FROM generate_series(1, 3000) n",
    "INSERT INTO journals (merchant_id, entries, bytes, dropped) VALUES (big(), 2000, 200000, 0)",
    "INSERT INTO instances (instance_id, written_through, alive_until)
     SELECT id(n), now(), now() + n * interval '1 min' FROM generate_series(1, 50) n",
    "INSERT INTO journal_writers (merchant_id, instance_id, opening, announced_at)
     SELECT other(n), id(1 + n % 50), id(n), now() FROM generate_series(1, 3000) n",
    "INSERT INTO faults (merchant_id, fault_id, kind, times, seed, created_at)
     SELECT big(), id(n), 'request_lost', 1, 1, now() FROM generate_series(1, 99) n",
    "INSERT INTO stuck (merchant_id, kind, id, since, cause)
     SELECT big(), 'order', id(n), now(), 'c' FROM generate_series(1, 50) n",
    "INSERT INTO stuck (merchant_id, kind, id, since, cause)
     SELECT other(n), 'refund', id(n), now(), 'c' FROM generate_series(1, 3000) n",
];

/// What a parameter of a type says where nothing else is named: something that is there, not at either end.
fn usual(kind: &str) -> String {
    let text = match kind {
        "uuid" => "id(1500)",
        "text" => "no(1500)",
        "uuid[]" => "ARRAY[id(1500), id(1501)]",
        "text[]" => "ARRAY[no(1500)]",
        "timestamp with time zone" => "now()",
        "timestamp with time zone[]" => "ARRAY[now()]",
        "interval" => "interval '1 day'",
        "boolean" => "true",
        "boolean[]" => "ARRAY[true]",
        "bytea" => "'\\x00'",
        "bytea[]" => "ARRAY['\\x00'::bytea]",
        "jsonb" => "'{}'",
        "bigint[]" | "integer[]" | "smallint[]" => "ARRAY[1]",
        _ => return LIMIT.to_string(),
    };
    text.to_owned()
}

/// What the parameters of a statement say besides, by their places.
type Arguments = &'static [(usize, &'static str)];

/// Filters that hardly anything fits, and what the columns' own rules ask for.
fn unusual(table: &str, name: &str) -> Vec<Arguments> {
    const LATEST: (usize, &str) = (2, "'ffffffff-ffff-ffff-ffff-ffffffffffff'");
    match (table, name) {
        ("orders", "LIST_IN_STATUS") => {
            vec![&[LATEST, (4, "'pending'")], &[LATEST, (4, "'refunded'")], &[(4, "'paid'")]]
        }
        ("events", "LIST_SOME") => vec![
            &[
                LATEST,
                (4, "ARRAY['refund.failed']"),
                (5, "ARRAY['delivered', 'failed', 'no_url', 'pending']"),
            ],
            &[LATEST, (4, "ARRAY['payment.succeeded', 'refund.failed']"), (5, "ARRAY['failed']")],
            &[LATEST, (4, "ARRAY['payment.succeeded']"), (5, "ARRAY['delivered']")],
            &[LATEST, (4, "ARRAY['payment.succeeded']"), (5, "ARRAY['no_url']")],
        ],
        ("orders", "INSERT") => vec![&[(2, "id(0)"), (3, "no(0)"), (10, "'{}'"), (11, "'pending'")]],
        ("orders", "INSERT_COMPLETING") => vec![&[
            (2, "ARRAY[no(1500)]"),
            (3, "ARRAY[id(1500)]"),
            (6, "ARRAY[id(0)]"),
            (7, "ARRAY[no(0)]"),
            (14, "ARRAY['{}'::jsonb]"),
            (15, "ARRAY['pending']"),
        ]],
        ("refunds", "INSERT") => {
            vec![&[(2, "id(0)"), (3, "no(0)"), (10, "'{}'"), (11, "'succeeded'"), (15, "'succeeded'")]]
        }
        ("events", "INSERT") => vec![&[(2, "id(0)"), (4, "id(0)")]],
        ("faults", "INSERT") => vec![&[(2, "id(0)"), (13, "0.5")]],
        ("stuck", "INSERT") => vec![&[(2, "'order'"), (3, "id(0)")]],
        ("idempotency_keys", "CLAIM") => {
            vec![&[(2, "ARRAY[no(0)]"), (7, "ARRAY[id(0)]")], &[(7, "ARRAY[id(1500)]")]]
        }
        ("deliveries", "RECORD") => vec![&[(4, "'failed'"), (5, "NULL")]],
        ("requests", "INSERT") => vec![&[(2, "ARRAY[id(0)]"), (8, "ARRAY['{}']")]],
        ("requests", "LIST") => vec![
            &[
                LATEST,
                (3, "ARRAY[no(7)]"),
                (4, "'{}'"),
                (5, "NULL"),
                (6, "NULL"),
                (7, "NULL"),
                (8, "NULL"),
                (9, "NULL"),
            ],
            &[LATEST, (3, "'{}'"), (4, "'{}'"), (6, "'%x'")],
        ],
        _ => vec![&[]],
    }
}

/// What the planner knows when it makes a plan, which is then kept.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Known {
    /// The few first rows of the first merchant, as the worker for statistics has them a moment after a start. The
    /// others come while the plan is kept.
    FirstRows,
    /// There are many rows, and statistics of the few first ones.
    Outdated,
    /// There are statistics of all rows.
    All,
    /// There are statistics, but not of this merchant.
    OtherMerchants,
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_looks_at_many_more_rows_than_it_works_on() {
    let database = Database::open(&own_storage().await, 1).await.unwrap();
    database.migrate().await.unwrap();
    let mut conn = database.acquire().await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    define(&mut tx).await;
    let mut seen = HashMap::new();
    let mut wrong = Vec::new();
    fill(&mut tx, ROWS.iter().filter(|sql| sql.contains("big()")), 1..=FIRST).await;
    for known in [Known::FirstRows, Known::Outdated, Known::All, Known::OtherMerchants] {
        match known {
            Known::FirstRows | Known::All => drop(tx.execute("ANALYZE").await.unwrap()),
            Known::Outdated => {}
            Known::OtherMerchants => add_merchant(&mut tx).await,
        }
        prepare_all(&mut tx).await;
        if known == Known::FirstRows {
            fill(&mut tx, ROWS.iter().filter(|sql| sql.contains("big()")), FIRST + 1..=u64::MAX).await;
            fill(&mut tx, ROWS.iter().filter(|sql| !sql.contains("big()")), 1..=u64::MAX).await;
        }
        for (table, name, _) in db::statements() {
            for arguments in unusual(table, name) {
                let plan = run(&mut tx, table, name, arguments).await;
                let plan = plan.unwrap_or_else(|error| panic!("{table}.{name} {arguments:?}: {error}"));
                if let Some(costs) = too_much(&plan, OF_A_JOURNAL.contains(&(table, name))) {
                    wrong.push(format!(
                        "{table}.{name} {arguments:?} ({known:?}) {costs}:{}",
                        shown(&plan, 1)
                    ));
                }
            }
            *seen.entry(table).or_insert(0) += 1;
        }
        tx.execute("DEALLOCATE ALL").await.unwrap();
    }
    tx.rollback().await.unwrap();
    drop(conn);
    database.close().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen.len() >= 10 && seen.values().all(|count| *count > 1), "{seen:?}");
}

/// On a database server only.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_grows_from_nothing_has_statistics_a_moment_later() {
    let Some(url) = server::database_url() else { return };
    let url = database_beside(&url, "statistics").await;
    let process = Process::start(&["--database-url", &url]);
    let mut conn = PgConnection::connect(&url).await.unwrap();
    conn.execute("TRUNCATE orders, idempotency_keys").await.unwrap();
    let analysed = "SELECT analyze_count FROM pg_stat_user_tables WHERE relname = 'orders'";
    let before: i64 = sqlx::query_scalar(analysed).fetch_one(&mut conn).await.unwrap();
    let merchant = Merchant::at(&process.base_url);
    join_all((0..FIRST + 50).map(|n| {
        let merchant = &merchant;
        async move { merchant.order(&format!("N{n}"), 100).await }
    }))
    .await;
    wait_while("without statistics", async || {
        sqlx::query_scalar::<_, i64>(analysed).fetch_one(&mut conn).await.unwrap() == before
    })
    .await;
}

/// A database that no other test fills.
async fn own_storage() -> Storage {
    match server::database_url() {
        Some(url) => Storage::Server(ServerUrl::new(database_beside(&url, "plans").await, "this test")),
        None => Storage::Ephemeral,
    }
}

/// What a plan looked at, if that is more than it may be.
fn too_much(plan: &Value, is_of_a_journal: bool) -> Option<String> {
    let (looked_at, blocks) = cost(plan);
    let of_a_journal = if is_of_a_journal { 3 * JOURNAL } else { 0 };
    let is_too_much = looked_at > LOOKED_AT + of_a_journal || blocks > BLOCKS + of_a_journal;
    is_too_much.then(|| format!("looks at {looked_at} rows in {blocks} blocks"))
}

/// Gives the rows of the merchant to another one, too, whom the statistics do not know, and lets it take its place.
async fn add_merchant(tx: &mut PgConnection) {
    let big = "CREATE OR REPLACE FUNCTION big() RETURNS uuid LANGUAGE sql IMMUTABLE AS
                   $$ SELECT '66666666-6666-4666-8666-666666666666'::uuid $$";
    tx.execute(big).await.unwrap();
    fill(tx, ROWS.iter().filter(|sql| sql.contains("big()")), 1..=u64::MAX).await;
}

/// The functions that rows and arguments are made of.
async fn define(tx: &mut PgConnection) {
    for sql in [
        "SET LOCAL statement_timeout = 0",
        "CREATE FUNCTION id(n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
            $$ SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$",
        "CREATE FUNCTION other(n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
            $$ SELECT ('77777777-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$",
        "CREATE FUNCTION no(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'N' || n $$",
        "CREATE FUNCTION big() RETURNS uuid LANGUAGE sql IMMUTABLE AS
            $$ SELECT '55555555-5555-4555-8555-555555555555'::uuid $$",
    ] {
        tx.execute(sql).await.unwrap();
    }
}

/// Writes these of the rows: of each series, those numbers. What is no series comes with the first ones.
async fn fill(
    tx: &mut PgConnection,
    rows: impl Iterator<Item = &'static &'static str>,
    numbers: RangeInclusive<u64>,
) {
    for sql in rows {
        if let Some((before, rest)) = sql.split_once("generate_series(1, ") {
            let (last, after) = rest.split_once(')').unwrap();
            let last = last.parse::<u64>().unwrap().min(*numbers.end());
            let sql = format!("{before}generate_series({}, {last}){after}", numbers.start());
            tx.execute(AssertSqlSafe(sql)).await.unwrap();
        } else if numbers.contains(&1) {
            tx.execute(*sql).await.unwrap();
        }
    }
}

/// Prepares every statement under its name, and lets it be planned.
async fn prepare_all(tx: &mut PgConnection) {
    for (table, name, sql) in db::statements() {
        tx.execute(AssertSqlSafe(format!("PREPARE {table}_{name} AS {sql}"))).await.unwrap();
        let execute = execute(tx, table, name, unusual(table, name)[0]).await.unwrap();
        tx.execute(AssertSqlSafe(format!("EXPLAIN {execute}"))).await.unwrap();
    }
}

/// Runs a statement, takes back what it has written, and returns its plan with what it looked at.
async fn run(tx: &mut PgConnection, table: &str, name: &str, arguments: Arguments) -> sqlx::Result<Value> {
    let execute = execute(tx, table, name, arguments).await?;
    tx.execute("SAVEPOINT before").await?;
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {execute}");
    let plan = tx.fetch_one(AssertSqlSafe(explain)).await;
    tx.execute("ROLLBACK TO before").await?;
    Ok(plan?.get::<Value, _>(0)[0]["Plan"].clone())
}

/// The call of a statement with these arguments, and for the others what is usual.
async fn execute(
    tx: &mut PgConnection,
    table: &str,
    name: &str,
    arguments: Arguments,
) -> sqlx::Result<String> {
    let kinds = "SELECT t::regtype::text FROM pg_prepared_statements, unnest(parameter_types) WITH ORDINALITY AS p (t, n)
                 WHERE name = lower($1) ORDER BY n";
    let kinds = sqlx::query(kinds).persistent(false).bind(format!("{table}_{name}")).fetch_all(tx).await?;
    let values = kinds.iter().enumerate().map(|(place, row)| {
        let kind: String = row.get(0);
        let named = arguments.iter().find(|(number, _)| *number == place + 1);
        match named {
            Some((_, value)) => (*value).to_owned(),
            None if place == 0 && kind == "uuid" => "big()".to_owned(),
            None => usual(&kind),
        }
    });
    let values = values.collect::<Vec<_>>().join(", ");
    let values = if values.is_empty() { values } else { format!("({values})") };
    Ok(format!("EXECUTE {table}_{name}{values}"))
}

/// How many rows of tables and indexes a plan has looked at, and how many blocks it has read.
fn cost(plan: &Value) -> (u64, u64) {
    let number = |name: &str| plan[name].as_f64().unwrap_or_default();
    let reads = plan.get("Index Name").is_some() || plan.get("Relation Name").is_some();
    let is_scan = plan["Node Type"].as_str().is_some_and(|kind| kind.ends_with("Scan"));
    let rows = if reads && is_scan {
        let each = number("Actual Rows")
            + number("Rows Removed by Filter")
            + number("Rows Removed by Index Recheck");
        each * number("Actual Loops")
    } else {
        0.0
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts of a small table")]
    let rows = rows.ceil() as u64;
    let parts = plan["Plans"].as_array().into_iter().flatten().map(|part| cost(part).0);
    let blocks =
        ["Shared Hit Blocks", "Shared Read Blocks"].map(|name| plan[name].as_u64().unwrap_or_default());
    (rows + parts.sum::<u64>(), blocks.iter().sum())
}

/// A plan as a person reads it: of each node, what it looked at and how.
fn shown(plan: &Value, depth: usize) -> String {
    let told = [
        "Node Type",
        "Relation Name",
        "Index Name",
        "Index Cond",
        "Filter",
        "Rows Removed by Filter",
        "Actual Rows",
        "Actual Loops",
    ];
    let told = told.iter().filter_map(|name| Some(format!("{name}: {}", plan.get(name)?)));
    let line = format!("\n{}{}", "  ".repeat(depth), told.collect::<Vec<_>>().join(", "));
    let parts = plan["Plans"].as_array().into_iter().flatten().map(|part| shown(part, depth + 1));
    line + &parts.collect::<String>()
}
