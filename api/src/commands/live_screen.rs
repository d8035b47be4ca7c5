//! What `demo` shows while it runs: one screen of figures on a terminal, plain lines when piped.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use cardswitch_feed::{Progress, ProgressSnapshot};

const SCREEN_INTERVAL: Duration = Duration::from_millis(250);
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// A running display, on stderr so that stdout stays for results.
pub(super) struct LiveScreen {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl LiveScreen {
    /// Starts to show a run that is to take `duration`, virtual or real.
    #[must_use]
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
            let screen = render_screen(&snapshot, duration);
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
        "{} elapsed: {} purchases, {} approved, {} declined, {} reversed, {} presented, p99 {} us",
        render_elapsed(snapshot.elapsed_us),
        counts.authorizations,
        counts.approved,
        counts.declined.values().sum::<u64>(),
        counts.reversed,
        counts.presentments,
        snapshot.p99_us,
    )
}

fn render_screen(snapshot: &ProgressSnapshot, duration: Duration) -> String {
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
        "  purchases {:>10}   approved {:>10}   in flight {:>6}",
        counts.authorizations, counts.approved, snapshot.in_flight
    );
    let _ = writeln!(
        screen,
        "  presented {:>10}   reversed {:>10}   sent again {:>5}",
        counts.presentments, counts.reversed, counts.duplicates
    );
    let _ = writeln!(
        screen,
        "  latency   p50 {:>6} us   p99 {:>6} us   unanswered {:>4}",
        snapshot.p50_us, snapshot.p99_us, counts.unanswered
    );
    let declined: Vec<String> =
        counts.declined.iter().map(|(code, count)| format!("{code}: {count}")).collect();
    for (place, codes) in declined.chunks(6).enumerate() {
        let title = if place == 0 { "declined" } else { "" };
        let _ = writeln!(screen, "  {title:<9} {}", codes.join("   "));
    }
    for purchase in &snapshot.recent {
        let outcome = match purchase.response_code {
            0 => "approved".to_owned(),
            code => format!("declined {code}"),
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
}
