//! The command line: its subcommands, each in a file with its arguments, and its environment variables.
//!
//! - [`serve`]: runs the sandbox; `storage`: which of several settings says where the data lives; `banner`: what
//!   start-up prints
//! - `audit`: asks a sandbox whether a client is safe to retry
//! - `signature`: signs and verifies a webhook by hand
//! - `healthcheck`: asks a sandbox whether it is ready

mod audit;
mod banner;
mod healthcheck;
pub mod serve;
mod signature;
mod storage;

use std::net::IpAddr;
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use audit::Audit;
use serve::Serve;
use signature::{Sign, VerifySignature};

/// The KukoPay payment gateway as a sandbox for your laptop and CI: real orders, refunds and
/// idempotency on a real Postgres.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

/// What the command does.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run the sandbox (what happens without a subcommand, too)
    Serve(Serve),
    /// Exit with 0 if the sandbox on this machine is ready, else with 1: for a container's health check
    Healthcheck(Address),
    /// Print the header that signs a webhook's body, which is read from standard input as it is
    ///
    /// For curl: curl -H "$(kukopay-sandbox sign --secret S < body.json)" --data-binary @body.json URL
    ///
    /// Every byte counts: echo adds a line break to a body, printf does not; curl -d takes line breaks out of
    /// a file, --data-binary does not.
    Sign(Sign),
    /// Check the signature of a webhook's body, which is read from standard input as it is; exit with 0 if
    /// it is valid, else with 1 and the reason
    ///
    /// Every byte counts: echo adds a line break to a body, printf does not; and JSON that was parsed and
    /// written again has other bytes.
    VerifySignature(VerifySignature),
    /// Say whether a client is safe to retry, by what a running sandbox saw of it: exits with 0 if so, with
    /// 1 on findings, and with 2 if there was no answer
    Audit(Audit),
}

/// Where the sandbox listens.
#[derive(Debug, Args)]
struct Address {
    /// The address that the sandbox listens on; 0.0.0.0 opens it to other machines
    #[arg(long, env = "KUKOPAY_HOST", default_value = "127.0.0.1")]
    host: IpAddr,

    /// The port that the sandbox listens on; 0 picks a free one and prints it
    #[arg(long, env = "KUKOPAY_PORT", default_value_t = 5856)]
    port: u16,
}

/// Does what the command line says. Returns the exit status.
#[must_use]
pub fn run() -> ExitCode {
    let outcome = match Cli::read() {
        Command::Serve(serve) => serve.run(),
        Command::Healthcheck(address) => healthcheck::check(&address),
        Command::Sign(sign) => signature::sign(&sign),
        Command::VerifySignature(verify) => signature::verify(&verify),
        Command::Audit(audit) => return audit::run(&audit),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kukopay-sandbox: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Cli {
    /// Reads the command line and its environment variables; ends the process where they are malformed, and
    /// after help. An empty variable counts as not set, because CI jobs and compose files write `${X:-}`.
    fn read() -> Command {
        let matches = without_empty_variables(Self::command()).get_matches();
        let cli = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        let mut command = cli.command.unwrap_or(Command::Serve(cli.serve));
        if let Command::Serve(serve) = &mut command {
            serve.storage.note_sources(matches.subcommand_matches("serve").unwrap_or(&matches));
        }
        command
    }
}

fn without_empty_variables(command: clap::Command) -> clap::Command {
    let set = |arg: Arg| {
        // An empty list of API keys is a mistake: it must not let in everybody.
        let may_lack = arg.get_id() != "api_keys";
        let is_empty =
            may_lack && arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
        if is_empty { arg.env(Resettable::Reset) } else { arg }
    };
    command.mut_args(set).mut_subcommands(without_empty_variables)
}
