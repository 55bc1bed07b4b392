//! How long a start takes: from the start of the process to the line that says that it is ready.

use super::{HAS_EMBEDDED, ROUNDS};
use crate::Outcome;
use crate::postgres::Server;
use crate::sandbox::Sandbox;
use crate::table::Target::AtMost;
use crate::table::{Table, Unit, median};
use crate::usage;

pub(super) async fn measure(server: &Server, table: &mut Table) -> Outcome<()> {
    let url = server.database("ready").await?;
    // The first one makes the tables.
    Sandbox::on(&url, &[]).await?.stop().await?;
    let mut starts = Starts::default();
    for _ in 0..ROUNDS {
        starts.add(Sandbox::on(&url, &[]).await?).await?;
    }
    starts.write(table, "ready, on a server whose tables are there", 50.0);
    if HAS_EMBEDDED {
        // The first one makes what is made once on a machine.
        Sandbox::embedded().await?.stop().await?;
        let mut starts = Starts::default();
        for _ in 0..ROUNDS {
            starts.add(Sandbox::embedded().await?).await?;
        }
        starts.write(table, "ready, on a new embedded database", 400.0);
    }
    Ok(())
}

#[derive(Default)]
struct Starts {
    milliseconds: Vec<f64>,
    megabytes: Vec<f64>,
}

impl Starts {
    async fn add(&mut self, sandbox: Sandbox) -> Outcome<()> {
        self.milliseconds.push(sandbox.ready_after.as_secs_f64() * 1000.0);
        self.megabytes.extend(sandbox.id().and_then(usage::resident_megabytes));
        sandbox.stop().await
    }

    fn write(self, table: &mut Table, name: &str, most: f64) {
        let note = format!("then {:.0} MB resident", median(self.megabytes));
        table.row(name, Unit::Milliseconds, AtMost(most), median(self.milliseconds), note);
    }
}
