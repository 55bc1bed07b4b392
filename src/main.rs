//! The command `kukopay-sandbox`: reads the settings, starts the log, runs the app; or does what another
//! subcommand says.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use kukopay_sandbox::banner::Banner;
use kukopay_sandbox::config::{Cli, Command, LogFormat, Serve};
use kukopay_sandbox::{app, audit_command, healthcheck, signature_command};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let outcome = match Cli::parse().into_command() {
        Command::Serve(serve) => run(serve),
        Command::Healthcheck(address) => healthcheck::check(&address),
        Command::Sign(sign) => signature_command::sign(&sign),
        Command::VerifySignature(verify) => signature_command::verify(&verify),
        Command::Audit(audit) => return audit_command::run(&audit),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kukopay-sandbox: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(serve: Serve) -> Result<(), String> {
    start_log(serve.log_format);
    let config = serve.check(std::env::var("DATABASE_URL").ok())?;
    let banner = Banner::new(&config);
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let outcome = runtime.block_on(app::run(config, |base_url| print!("{}", banner.text(base_url))));
    // Not dropped, since that would wait for a blocking call without end.
    runtime.shutdown_background();
    outcome.map_err(|error| error.to_string())
}

/// The log goes to standard error, so that standard output holds the banner alone. `RUST_LOG` filters it.
fn start_log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("kukopay_sandbox=info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let log = log.with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
