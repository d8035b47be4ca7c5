//! The `cardswitch` command.

use std::process::ExitCode;

use cardswitch_api::commands::{self, Cli};
use clap::Parser;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}"), 1),
    };
    match runtime.block_on(commands::run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure.message, failure.exit_code),
    }
}

fn fail(message: &str, exit_code: u8) -> ExitCode {
    eprintln!("cardswitch: {message}");
    ExitCode::from(exit_code)
}
