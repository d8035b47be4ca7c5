//! How the log is written: on stderr, for people or as one JSON object a line.
//!
//! What a request logs carries its id; what it did to a transaction, that transaction's id. Card
//! numbers, keys, tokens and passwords are types that print nothing, and the paths of links are cut
//! before they are logged.

use std::io::IsTerminal;
use std::panic;

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Starts the log, and has panics told in it.
pub fn start_log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Human => log.init(),
        LogFormat::Json => log.json().init(),
    }
    panic::set_hook(Box::new(|panicked| {
        let thread = std::thread::current();
        let place = panicked.location().map(ToString::to_string).unwrap_or_default();
        let reason = panicked.payload_as_str().unwrap_or("no reason given");
        tracing::error!(thread = thread.name(), place, reason, "panicked");
    }));
}
