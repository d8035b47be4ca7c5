//! Answers of one connection that the fault plan makes late, double, false or lost.
//!
//! Only answers of the engine to purchases meet a fault, so the decision is durable, whatever the faulty
//! answer says. A held answer keeps its request in flight: the connection waits for it.

use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::command::reply::Reply;

use super::fault_plan::{AnswerFault, FaultPlan};
use super::in_flight::InFlightRequests;

/// Classes of messages. Source: ISO 8583 MTI, second digit.
const REVERSAL_CLASS: u8 = 4;
const NETWORK_CLASS: u8 = 8;

/// The faults of one connection.
pub(crate) struct AnswerFaults {
    plan: Arc<FaultPlan>,
    held: Vec<HeldAnswer>,
    /// Answers of this wake-up that meet a fault when they are written.
    drawn: Vec<(u64, AnswerFault)>,
}

/// An answer that is held back.
struct HeldAnswer {
    answer: (u64, Reply),
    until: Duration,
    /// DE37 of the purchase whose reversal releases it; none of a late one.
    released_by: Option<Vec<u8>>,
}

impl AnswerFaults {
    pub(crate) fn new(plan: Arc<FaultPlan>) -> Self {
        Self { plan, held: Vec::new(), drawn: Vec::new() }
    }

    /// Draws the faults of the answers that have come, takes out the held answers, and adds those that are
    /// due. Returns whether any was added.
    pub(crate) fn meet(
        &mut self,
        now: Duration,
        arrived: &mut Vec<(u64, Reply)>,
        in_flight: &mut InFlightRequests,
    ) -> bool {
        let came = std::mem::take(arrived);
        for answer in came {
            self.meet_one(answer, now, arrived, in_flight);
        }
        let held = arrived.len();
        self.release(arrived, |held| held.until <= now);
        arrived.len() > held
    }

    /// The time at which the next of the held answers is due.
    pub(crate) fn next_release(&self) -> Option<Duration> {
        self.held.iter().map(|held| held.until).min()
    }

    fn meet_one(
        &mut self,
        answer: (u64, Reply),
        now: Duration,
        arrived: &mut Vec<(u64, Reply)>,
        in_flight: &mut InFlightRequests,
    ) {
        let tag = answer.0;
        let Some(request) = in_flight.get(tag) else { return arrived.push(answer) };
        let reference = request.echo.get(37).map(<[u8]>::to_vec);
        if request.echo.mti().class() == REVERSAL_CLASS {
            arrived.push(answer);
            self.release(arrived, |held| {
                held.released_by.is_some() && held.released_by == reference
            });
            return;
        }
        if request.echo.mti().class() == NETWORK_CLASS {
            return arrived.push(answer);
        }
        let card_number = request.echo.get(2).unwrap_or_default();
        let Some(drawn) = self.plan.draw_answer(card_number, request.echo.get_number(4)) else {
            return arrived.push(answer);
        };
        let released_by = match drawn.fault {
            AnswerFault::Late => None,
            AnswerFault::AfterReversal if reference.is_some() => reference,
            // No reversal could name it.
            AnswerFault::AfterReversal => return arrived.push(answer),
            fault => {
                self.drawn.push((tag, fault));
                return arrived.push(answer);
            }
        };
        self.held.push(HeldAnswer { answer, until: now + drawn.delay, released_by });
    }

    fn release(&mut self, arrived: &mut Vec<(u64, Reply)>, is_due: impl Fn(&HeldAnswer) -> bool) {
        let due = self.held.extract_if(.., |held| is_due(held));
        arrived.extend(due.map(|held| held.answer));
    }

    /// The fault that the answer meets when it is written, if it does.
    pub(crate) fn take(&mut self, tag: u64) -> Option<AnswerFault> {
        let at = self.drawn.iter().position(|(drawn, _)| *drawn == tag)?;
        Some(self.drawn.swap_remove(at).1)
    }
}
