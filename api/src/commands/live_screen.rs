//! The display of a running `demo`: one screen of figures on a terminal, plain lines when piped.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use cardswitch_feed::{Progress, ProgressSnapshot, code_name, ms};

const SCREEN_INTERVAL: Duration = Duration::from_millis(250);
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// A running display, on stderr so that stdout stays for results.
pub(super) struct LiveScreen {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl LiveScreen {
    /// Starts to show a run that is to take `duration`, virtual or real.
    pub(super) fn start(progress: Arc<Progress>, duration: Duration) -> Self {
        let (stop, stopped) = oneshot::channel();
        let is_terminal = std::io::stderr().is_terminal();
        Self { stop, task: tokio::spawn(show(progress, duration, is_terminal, stopped)) }
    }

    /// Shows the last figures and ends.
    pub(super) async fn finish(self) {
        // A display that ended by itself has nothing left to show.
        let _ = self.stop.send(());
        drop(self.task.await);
    }
}

async fn show(
    progress: Arc<Progress>,
    duration: Duration,
    is_terminal: bool,
    mut stopped: oneshot::Receiver<()>,
) {
    let interval = if is_terminal { SCREEN_INTERVAL } else { LINE_INTERVAL };
    let mut shown_lines = 0;
    loop {
        let is_over = tokio::time::timeout(interval, &mut stopped).await.is_ok();
        let snapshot = progress.snapshot();
        if is_terminal {
            let screen = render_screen(&snapshot, duration, ScreenInk::of_terminal());
            // Back to where the last screen began, and clear what was there.
            eprint!(
                "{}{screen}",
                if shown_lines > 0 { format!("\x1b[{shown_lines}A\x1b[J") } else { String::new() }
            );
            shown_lines = screen.lines().count();
            drop(std::io::stderr().flush());
        } else if !is_over {
            eprintln!("{}", render_line(&snapshot));
        }
        if is_over {
            return;
        }
    }
}

fn render_line(snapshot: &ProgressSnapshot) -> String {
    let counts = &snapshot.counts;
    format!(
        "{} elapsed: {} purchases, {} approved, {} declined, {} reversed, {} settled, p99 {} ms",
        render_elapsed(snapshot.elapsed_us),
        counts.authorizations,
        counts.approved,
        counts.declined.values().sum::<u64>(),
        counts.reversed,
        counts.presentments,
        ms(snapshot.p99_us),
    )
}

/// Whether words are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScreenInk {
    Coloured,
    Plain,
}

impl ScreenInk {
    /// Colour, unless `NO_COLOR` is set. Source: https://no-color.org.
    fn of_terminal() -> Self {
        match std::env::var_os("NO_COLOR") {
            Some(word) if !word.is_empty() => Self::Plain,
            _ => Self::Coloured,
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::Plain => text.to_owned(),
        }
    }

    fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    fn soft(self, text: &str) -> String {
        self.paint("2", text)
    }
}

fn render_screen(snapshot: &ProgressSnapshot, duration: Duration, ink: ScreenInk) -> String {
    let counts = &snapshot.counts;
    let mut screen = String::new();
    let total_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    // Writing to a string cannot fail.
    let _ = writeln!(
        screen,
        "\n  {} of {}   {}",
        render_elapsed(snapshot.elapsed_us.min(total_us)),
        render_elapsed(total_us),
        render_bar(snapshot.elapsed_us, total_us),
    );
    let _ = writeln!(
        screen,
        "  purchases {:>10}   {} {:>10}   in flight {:>6}",
        counts.authorizations,
        ink.good("approved"),
        counts.approved,
        snapshot.in_flight
    );
    let _ = writeln!(
        screen,
        "  settled   {:>10}   reversed {:>10}   retries   {:>6}",
        counts.presentments, counts.reversed, counts.duplicates
    );
    let _ = writeln!(
        screen,
        "  latency   p50 {:>7} ms   p99 {:>7} ms   unanswered {:>4}",
        ms(snapshot.p50_us),
        ms(snapshot.p99_us),
        counts.unanswered
    );
    let declined: Vec<String> = counts
        .declined
        .iter()
        .map(|(code, count)| format!("{} {count}", outcome_words(*code)))
        .collect();
    for (place, words) in declined.chunks(3).enumerate() {
        let title = if place == 0 { "declined" } else { "" };
        let title = ink.bad(&format!("{title:<9}"));
        let _ = writeln!(screen, "  {title} {}", words.join(", "));
    }
    for purchase in &snapshot.recent {
        let outcome = match purchase.response_code {
            0 => ink.good("approved"),
            code => format!("{} {}", ink.bad("declined"), ink.soft(outcome_words(code))),
        };
        let _ = writeln!(
            screen,
            "    {:<36} {:>8}.{:02}  {outcome}",
            purchase.merchant,
            purchase.billing_minor / 100,
            purchase.billing_minor % 100,
        );
    }
    screen
}

/// The meaning of a response code; other causes have no words of their own.
fn outcome_words(code: u16) -> &'static str {
    match code_name(code) {
        "" => "for another reason",
        words => words,
    }
}

fn render_bar(done: u64, total: u64) -> String {
    const WIDTH: u64 = 30;
    let filled = u128::from(done.min(total)) * u128::from(WIDTH) / u128::from(total.max(1));
    let filled = usize::try_from(filled).unwrap_or(0);
    format!("[{:<30}]", "#".repeat(filled))
}

fn render_elapsed(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    if days > 0 {
        format!("{days}d {hours:02}:{minutes:02}:{seconds:02}")
    } else {
        format!("{hours:02}:{minutes:02}:{seconds:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_reads_like_a_clock() {
        assert_eq!(render_elapsed(61_000_000), "00:01:01");
        assert_eq!(render_elapsed(90_061_000_000), "1d 01:01:01");
        assert_eq!(render_bar(5, 10), format!("[{:<30}]", "#".repeat(15)));
        assert_eq!(render_bar(0, 0), format!("[{:<30}]", ""));
    }

    #[test]
    fn a_screen_has_words_and_milliseconds() {
        let progress = Progress::default();
        let snapshot = ProgressSnapshot { p99_us: 211_199, ..progress.snapshot() };
        let plain = render_screen(&snapshot, Duration::from_secs(60), ScreenInk::Plain);
        assert!(plain.contains("211.19 ms") && !plain.contains(" us"), "{plain}");
        assert!(!plain.contains('\x1b'), "{plain}");
        let coloured = render_screen(&snapshot, Duration::from_secs(60), ScreenInk::Coloured);
        assert!(coloured.contains("\x1b[32mapproved\x1b[0m"), "{coloured}");
        assert_eq!(outcome_words(1503), "over per-transaction limit");
        assert_eq!(outcome_words(9), "for another reason");
    }
}
