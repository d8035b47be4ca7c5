//! The `cardswitch` command.

use std::io::{Write, stderr};
use std::process::ExitCode;
use std::{panic, process};

use cardswitch_api::commands::{self, Cli};
use cardswitch_edge::descriptors::raise_limit;
use cardswitch_secrets::process::{WipingAllocator, keep_memory_private};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: WipingAllocator = WipingAllocator;

/// Exit code of shells for the end by a closed pipe.
const OUTPUT_CLOSED: i32 = 141;

fn main() -> ExitCode {
    end_with_output();
    let cli = Cli::parse();
    if let Err(error) = keep_memory_private() {
        return fail(&format!("cannot keep memory out of core dumps: {error}"), 1);
    }
    // Connections need them, and a long journal: it has a file a segment.
    raise_limit();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}"), 1),
    };
    match runtime.block_on(commands::run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure.message, failure.exit_code),
    }
}

/// Ends the process once its output takes no more: without a message where nobody reads it, as after `head` has its
/// lines.
fn end_with_output() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let text = panic.payload_as_str().unwrap_or_default();
        match text.strip_prefix("failed printing to stdout: ") {
            Some(cause) if cause.contains("Broken pipe") => process::exit(OUTPUT_CLOSED),
            Some(cause) => {
                fail(&format!("output could not be written: {cause}"), 1);
                process::exit(1);
            }
            None => usual(panic),
        }
    }));
}

fn fail(message: &str, exit_code: u8) -> ExitCode {
    // Where nobody can read it, the code still tells.
    drop(writeln!(stderr(), "cardswitch: {message}"));
    ExitCode::from(exit_code)
}
