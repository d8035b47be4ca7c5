//! How the log is written: on stderr, for people or as one JSON object a line.
//!
//! Log lines of a request carry its id; lines about a transaction carry that transaction's id. Card
//! numbers, keys, tokens and passwords are types that print nothing, and the paths of links are cut
//! before they are logged.
//!
//! INVARIANT: a log that cannot be written harms nothing: its lines are counted, and health has a note.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{env, panic};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::exposition::{Exposition, Kind};
use super::health::HealthNote;
use crate::config::LogFormat;

/// The note beside the word of health while lines are lost.
const LOST: HealthNote = ("log", "not written down");

/// How many lines could not be written.
static LOST_LINES: AtomicU64 = AtomicU64::new(0);
/// Whether the newest line could not be written.
static IS_LOST: AtomicBool = AtomicBool::new(false);

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
        .with_writer(|| StderrLines)
        // It would tell of them on stderr, and panic because that fails, too.
        .log_internal_errors(false)
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

/// Writes each line to stderr, and counts those that cannot be written.
#[derive(Clone, Copy, Debug)]
struct StderrLines;

impl Write for StderrLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let is_lost = io::stderr().write_all(line).is_err();
        IS_LOST.store(is_lost, Ordering::Relaxed);
        LOST_LINES.fetch_add(u64::from(is_lost), Ordering::Relaxed);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The note of a log that cannot be written now.
pub(super) fn note() -> Option<HealthNote> {
    IS_LOST.load(Ordering::Relaxed).then_some(LOST)
}

/// Adds the figure of lines that were lost.
pub(super) fn expose(text: &mut Exposition) {
    let help = "Lines of the log that could not be written.";
    let lost = LOST_LINES.load(Ordering::Relaxed);
    text.single("cardswitch_log_lost_lines_total", Kind::Counter, help, lost);
}
