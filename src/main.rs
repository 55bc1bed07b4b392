//! The command `kukopay-sandbox`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kukopay_sandbox::cli::run()
}
