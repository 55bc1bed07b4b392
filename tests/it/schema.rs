//! The SQL itself: every statement can be prepared on the migrated tables, and is answered from an
//! index. On a database server only, where the test can look into the database.

use std::collections::HashMap;

use kukopay_sandbox::db::{self, Database, ServerUrl, Storage};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

use crate::support::process::database_beside;
use crate::support::server;

#[tokio::test]
async fn every_statement_is_answered_from_an_index() {
    let Some(url) = server::database_url() else { return };
    // Its tables stay empty: statistics of what other tests write would change the plans.
    let url = database_beside(&url, "schema").await;
    let database =
        Database::open(&Storage::Server(ServerUrl::new(url.clone(), "this test")), 1).await.unwrap();
    database.migrate().await.unwrap();
    let mut conn = PgConnection::connect(&url).await.unwrap();
    // Small tables are read whole whatever the index; this shows what a large one would do.
    conn.execute("SET enable_seqscan = off").await.unwrap();
    conn.execute("SET plan_cache_mode = force_generic_plan").await.unwrap();
    let mut seen = HashMap::new();
    for (table, name, sql) in db::statements() {
        let plan = explain(&mut conn, sql).await;
        assert!(!plan.contains("Seq Scan"), "{table}.{name}:\n{plan}");
        // A bound on time that is only filtered by would read all rows to find the few that are due.
        let due = plan
            .lines()
            .filter(|line| line.contains("Index Cond"))
            .any(|line| line.contains("<= ") || line.contains("< (now()"));
        assert!(due || !["DUE", "SWEEP", "TAKE", "FORGOTTEN"].contains(&name), "{table}.{name}:\n{plan}");
        *seen.entry(table).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 13);
}

async fn explain(conn: &mut PgConnection, sql: &str) -> String {
    let parameters = (1..100).take_while(|n| sql.contains(&format!("${n}"))).count();
    let nulls = vec!["NULL"; parameters].join(", ");
    conn.execute(AssertSqlSafe(format!("PREPARE statement AS {sql}"))).await.unwrap();
    let call = if nulls.is_empty() { "statement".to_owned() } else { format!("statement({nulls})") };
    let rows = conn.fetch_all(AssertSqlSafe(format!("EXPLAIN EXECUTE {call}"))).await.unwrap();
    conn.execute("DEALLOCATE statement").await.unwrap();
    rows.iter().map(|row| row.get::<String, _>(0) + "\n").collect()
}
