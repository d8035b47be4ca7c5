//! The `cardswitch` command.

use std::process::ExitCode;

use cardswitch_api::commands::{self, Cli};
use cardswitch_secrets::process::{WipingAllocator, keep_memory_private};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: WipingAllocator = WipingAllocator;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = keep_memory_private() {
        return fail(&format!("cannot keep memory out of core dumps: {error}"), 1);
    }
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
