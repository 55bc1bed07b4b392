//! What becomes of the speed and of memory as the database fills: a million orders, a hundred thousand merchants.

use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};

use super::{MERCHANT, ROUNDS, all, round, warm};
use crate::Outcome;
use crate::load::{Numbers, Request};
use crate::postgres::Server;
use crate::sandbox::Sandbox;
use crate::table::Target::AtMost;
use crate::table::{Table, Unit, median};
use crate::usage;

const FEW: u32 = 10_000;
const MANY: u32 = 1_000_000;
const MERCHANTS: u32 = 100_000;
/// Before memory is read: what is not needed any more is given back meanwhile.
const SETTLE: Duration = Duration::from_secs(5);

pub(super) async fn measure(server: &Server, table: &mut Table) -> Outcome<()> {
    let empty = Sandbox::on(&server.database("empty").await?, &[]).await?;
    warm(empty.address).await?;

    let full = Sandbox::on(&server.database("full").await?, &[]).await?;
    let create = Request::create(MERCHANT);
    all(full.address, &create, 0, FEW).await?;
    let few = resident(&full).await;
    all(full.address, &create, FEW, MANY - FEW).await?;
    let many = resident(&full).await;
    let name = format!("memory after {MANY} orders ÷ after {FEW}");
    table.row(&name, Unit::Ratio, AtMost(1.2), many / few, format!("{many:.0} MB ÷ {few:.0} MB"));

    let name = format!("time of an order with {MANY} stored ÷ with few");
    compare(table, &name, &full, MANY, &empty, 0).await?;
    full.stop().await?;

    let url = server.database("merchants").await?;
    let crowded = Sandbox::on(&url, &[]).await?;
    warm(crowded.address).await?;
    add_merchants(&url).await?;
    let name = format!("time of an order with {MERCHANTS} merchants stored ÷ with few");
    compare(table, &name, &crowded, 0, &empty, MANY).await?;
    crowded.stop().await?;
    empty.stop().await
}

async fn resident(sandbox: &Sandbox) -> f64 {
    tokio::time::sleep(SETTLE).await;
    sandbox.id().and_then(usage::resident_megabytes).unwrap_or(f64::NAN)
}

/// Orders on the one and on the other in turns, each from a number on.
async fn compare(
    table: &mut Table,
    name: &str,
    full: &Sandbox,
    first_of_full: u32,
    empty: &Sandbox,
    first_of_empty: u32,
) -> Outcome<()> {
    let create = Request::create(MERCHANT);
    let (in_full, in_empty) = (Numbers::from(first_of_full), Numbers::from(first_of_empty));
    let (mut ratios, mut speeds) = (Vec::new(), (Vec::new(), Vec::new()));
    for _ in 0..ROUNDS {
        let of_full = round(full.address, &create, &in_full).await?.per_second();
        let of_empty = round(empty.address, &create, &in_empty).await?.per_second();
        ratios.push(of_empty / of_full);
        speeds.0.push(of_full);
        speeds.1.push(of_empty);
    }
    let note = format!("{:.0}/s and {:.0}/s", median(speeds.0), median(speeds.1));
    table.row(name, Unit::Ratio, AtMost(1.15), median(ratios), note);
    Ok(())
}

/// Copies the merchant that is there, with one of its orders, under new identifiers.
async fn add_merchants(url: &str) -> Outcome<()> {
    let mut conn = PgConnection::connect(url).await?;
    let added: [String; 3] = [
        format!(
            "CREATE TEMPORARY TABLE added AS SELECT gen_random_uuid() AS merchant_id FROM generate_series(1, {MERCHANTS})"
        ),
        "INSERT INTO merchants SELECT (jsonb_populate_record(m, jsonb_build_object('merchant_id', a.merchant_id))).* \
         FROM added a, (SELECT m FROM merchants m LIMIT 1) one"
            .to_owned(),
        "INSERT INTO orders SELECT (jsonb_populate_record(o, jsonb_build_object('merchant_id', a.merchant_id, \
         'trade_no', gen_random_uuid()))).* FROM added a, (SELECT o FROM orders o LIMIT 1) one"
            .to_owned(),
    ];
    for statement in added {
        conn.execute(sqlx::AssertSqlSafe(statement)).await?;
    }
    conn.execute("VACUUM ANALYZE").await?;
    conn.execute("CHECKPOINT").await?;
    conn.close().await?;
    Ok(())
}
