//! Virtual time: one connection, one message in flight, strictly in the order of the schedule.
//!
//! The clock is the schedule's: each message carries its virtual time, days pass as fast as the switch
//! answers (or at a multiple of real time). The switch sees the same bytes in the same order for
//! the same seed and the same answers.

use std::time::{Duration, Instant};

use super::client::DoorConnection;
use super::conversation::{Conversation, UnframedMessage};
use super::line::Line;
use super::message::AnswerFields;
use super::open_loop::{Course, GIVE_UP_AFTER, SHOW_EVERY, micros};
use super::report::Progress;

/// The longest sleep between two looks at the stop flag.
const NAP_MAX: Duration = Duration::from_millis(50);

/// Pause between two attempts to open a broken connection again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// The pacing of a run on virtual time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pacing {
    /// Virtual seconds in a second of wall time; `None` does not wait at all.
    pub(super) speed: Option<f64>,
    /// Once purchases have ended, the settlements of the days after are not waited for.
    pub(super) arrivals_end_us: u64,
    pub(super) answer_timeout: Duration,
}

/// Runs a conversation on virtual time.
pub(super) fn run(
    conversation: &mut Conversation<'_>,
    mut connection: DoorConnection,
    line: &Line,
    pacing: Pacing,
    progress: &Progress,
) -> Course {
    let started = Instant::now();
    let (mut course, mut shown) = (Course::default(), started);
    while let Some(due_us) = conversation.next_due_us() {
        wait_until(due_us, started, pacing, progress);
        if progress.is_stopped() {
            break;
        }
        course.ended_us = due_us;
        let purchases = conversation.tally.counts.authorizations;
        let Some(outgoing) = conversation.take_due(due_us) else { continue };
        if !exchange(conversation, &mut connection, &outgoing, pacing.answer_timeout) {
            match reopen(line, progress) {
                Some(opened) => connection = opened,
                None => {
                    course.ended_early = Some("the connection was lost".to_owned());
                    break;
                }
            }
        }
        conversation.expire(due_us);
        if conversation.tally.counts.authorizations != purchases {
            course.elapsed = started.elapsed();
        }
        if shown.elapsed() >= SHOW_EVERY {
            shown = Instant::now();
            progress.show(conversation.tally.snapshot(due_us, 0));
        }
    }
    connection.close();
    course
}

/// Sends a message and waits for its answer. False when the connection broke.
fn exchange(
    conversation: &mut Conversation<'_>,
    connection: &mut DoorConnection,
    outgoing: &UnframedMessage,
    timeout: Duration,
) -> bool {
    let (due_us, sent) = (outgoing.due_us, Instant::now());
    let mut is_alive = connection.send(&outgoing.bytes).is_ok();
    while is_alive {
        match connection.receive(Some(timeout.saturating_sub(sent.elapsed()))) {
            Ok(Some(message)) => {
                let Some(answer) = AnswerFields::parse(&message) else { continue };
                let latency_us = micros(sent.elapsed());
                // The late answer to a message given up before is not the one waited for.
                if conversation.answered(&answer, due_us, latency_us) && answer.key == outgoing.key
                {
                    return true;
                }
            }
            Ok(None) => break,
            Err(_) => is_alive = false,
        }
    }
    conversation.silent(outgoing.key, due_us);
    is_alive
}

/// Sleeps until a virtual moment, if the run is paced and purchases still arrive.
fn wait_until(due_us: u64, started: Instant, pacing: Pacing, progress: &Progress) {
    let Some(speed) = pacing.speed.filter(|_| due_us < pacing.arrivals_end_us) else { return };
    let at = Duration::from_micros(due_us).div_f64(speed);
    while !progress.is_stopped() {
        let left = at.saturating_sub(started.elapsed());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(NAP_MAX));
    }
}

fn reopen(line: &Line, progress: &Progress) -> Option<DoorConnection> {
    let lost = Instant::now();
    while lost.elapsed() < GIVE_UP_AFTER && !progress.is_stopped() {
        if let Ok(connection) = DoorConnection::open(line) {
            return Some(connection);
        }
        std::thread::sleep(RECONNECT_PAUSE);
    }
    None
}
