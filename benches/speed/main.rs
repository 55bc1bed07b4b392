//! How fast the sandbox is, beside the bare database: starts a PostgreSQL, sandboxes and the load by itself,
//! measures in turns, checks every answer, and prints a table of figures and targets.
//!
//! ```sh
//! cargo bench --bench speed                # some minutes
//! cargo bench --bench speed -- --long      # half an hour: a million orders, too
//! ```
//!
//! What is measured stands in `rows`; this file reads the arguments and keeps order. The options:
//!
//! - `--long` measures what needs a million orders.
//! - `--only creates,events` leaves the other parts out. The parts are those of `PARTS`.
//! - `--against PATH` compares with another build of the sandbox, in turns.
//! - `DATABASE_URL` names a server to use in place of one of its own. Its role must be able to create databases.

mod load;
mod machine;
mod pgbench;
mod postgres;
mod responder;
mod rows;
mod sandbox;
mod table;
mod usage;

use std::path::PathBuf;
use std::process::ExitCode;

use postgres::Server;
use table::Table;

/// Nothing is retried here: what goes wrong ends the program with a message.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The parts that `--only` chooses from.
const PARTS: [&str; 8] = ["generator", "creates", "level", "events", "audit", "ready", "growth", "against"];

/// What the command line asks for.
#[derive(Debug, Default)]
struct Options {
    is_long: bool,
    only: Option<Vec<String>>,
    against: Option<PathBuf>,
}

impl Options {
    /// `None` where there is nothing to measure: `cargo bench` says `--bench`, and `cargo test` does not.
    fn read(mut arguments: impl Iterator<Item = String>) -> Outcome<Option<Self>> {
        let (mut options, mut is_bench) = (Self::default(), false);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--bench" => is_bench = true,
                "--test" => return Ok(None),
                "--long" => options.is_long = true,
                "--only" => {
                    let parts: Vec<_> =
                        arguments.next().unwrap_or_default().split(',').map(str::to_owned).collect();
                    if let Some(part) = parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
                        return Err(format!("--only {part}: not one of {}", PARTS.join(", ")).into());
                    }
                    options.only = Some(parts);
                }
                "--against" => options.against = arguments.next().map(PathBuf::from),
                other => return Err(format!("unknown argument {other}; see benches/speed/main.rs").into()),
            }
        }
        Ok(is_bench.then_some(options))
    }

    fn has(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|its| its == part))
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => return failed(&*error),
    };
    let outcome = tokio::select! {
        outcome = run(&options) => outcome,
        _ = tokio::signal::ctrl_c() => Err("stopped".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&*error),
    }
}

fn failed(error: &(dyn std::error::Error + Send + Sync)) -> ExitCode {
    eprintln!("speed: {error}");
    ExitCode::FAILURE
}

async fn run(options: &Options) -> Outcome<()> {
    let server = Server::start().await?;
    let mut table = Table::default();
    machine::describe(&server, &mut table).await?;
    let outcome = rows::measure(options, &server, &mut table).await;
    println!("\n{table}");
    server.close().await?;
    outcome
}
