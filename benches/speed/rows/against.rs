//! This build beside another, in turns: for whoever changes something and wants to know what it brought.

use std::path::Path;

use super::{HAS_EMBEDDED, MERCHANT, alone, round, warm};
use crate::Outcome;
use crate::load::{Numbers, Request};
use crate::postgres::Server;
use crate::sandbox::{Sandbox, this_build};
use crate::table::Target::None as NoTarget;
use crate::table::{Table, Unit, median};
use crate::usage;

/// More than elsewhere, since the differences are small.
const ROUNDS: usize = 5;

#[derive(Default)]
struct Figures {
    creates: Vec<f64>,
    replays: Vec<f64>,
    alone: Vec<f64>,
}

pub(super) async fn measure(server: &Server, other: &Path, table: &mut Table) -> Outcome<()> {
    let (on_this, on_that) = (server.database("this").await?, server.database("that").await?);
    let this = Sandbox::start(&this_build(), &["--database-url", &on_this]).await?;
    let that = Sandbox::start(other, &["--database-url", &on_that]).await?;
    compare(&this, &that, "on the server", table).await?;
    this.stop().await?;
    that.stop().await?;
    if !HAS_EMBEDDED {
        return Ok(());
    }
    let this = Sandbox::start(&this_build(), &["--ephemeral"]).await?;
    let that = Sandbox::start(other, &["--ephemeral"]).await?;
    compare(&this, &that, "embedded", table).await?;
    this.stop().await?;
    that.stop().await
}

async fn compare(this: &Sandbox, that: &Sandbox, place: &str, table: &mut Table) -> Outcome<()> {
    let create = Request::create(MERCHANT);
    let (numbers, mut figures) = ([0; 2].map(Numbers::from), [Figures::default(), Figures::default()]);
    for sandbox in [this, that] {
        warm(sandbox.address).await?;
    }
    for turn in 0..ROUNDS {
        let order = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
        for who in order {
            let address = [this, that][who].address;
            let (its, numbers) = (&mut figures[who], &numbers[who]);
            its.creates.push(round(address, &create, numbers).await?.per_second());
            let sent = Numbers::new(0, numbers.used().saturating_sub(100));
            its.replays.push(round(address, &Request::replay(MERCHANT), &sent).await?.per_second());
            its.alone.push(alone(address, &create, numbers).await?.percentile(50));
        }
    }
    let [a, b] = &figures;
    for (name, above, below) in [
        ("orders", &a.creates, &b.creates),
        ("replays", &a.replays, &b.replays),
        ("one connection: p50 of an order", &a.alone, &b.alone),
    ] {
        let ratios: Vec<_> = above.iter().zip(below).map(|(above, below)| above / below).collect();
        let note = format!("{:.2} ÷ {:.2}; {ratios:.2?}", median(above.clone()), median(below.clone()));
        let name = format!("{name}, {place}, this build ÷ the other");
        table.row(&name, Unit::Ratio, NoTarget, median(ratios), note);
    }
    let memory = |sandbox: &Sandbox| sandbox.id().and_then(usage::resident_megabytes).unwrap_or(f64::NAN);
    let (above, below) = (memory(this), memory(that));
    let name = format!("memory, {place}, this build ÷ the other");
    table.row(&name, Unit::Ratio, NoTarget, above / below, format!("{above:.0} MB ÷ {below:.0} MB"));
    Ok(())
}
