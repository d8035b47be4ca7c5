//! How the log is written: on stderr, for people or as one JSON object a line.
//!
//! Log lines of a request carry its id; lines about a transaction carry that transaction's id. Card
//! numbers, keys, tokens and passwords are types that print nothing, and the paths of links are cut
//! before they are logged.

use std::io::IsTerminal;
use std::{env, panic};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::LogFormat;

/// Starts the log, and has panics told in it.
pub fn start_log(format: LogFormat) {
    let asked = env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned());
    let targets = asked.parse::<Targets>();
    let filter = targets
        .as_ref()
        .cloned()
        .unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    let log = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Human => log.finish().with(filter).init(),
        LogFormat::Json => log.json().finish().with(filter).init(),
    }
    if let Err(error) = targets {
        tracing::warn!(%error, "`RUST_LOG` is not understood: the level is `info`");
    }
    panic::set_hook(Box::new(|panicked| {
        let thread = std::thread::current();
        let place = panicked.location().map(ToString::to_string).unwrap_or_default();
        let reason = panicked.payload_as_str().unwrap_or("no reason given");
        tracing::error!(thread = thread.name(), place, reason, "panicked");
    }));
}
