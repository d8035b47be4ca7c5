//! Answers of one connection that the fault plan makes late, double, false or lost.
//!
//! Only answers of the engine to purchases meet a fault, so the decision is durable, whatever the faulty
//! answer says. A held answer keeps its request in flight: the connection waits for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use cardswitch_edge::fault_plan::{AnswerFault, FaultPlan};
use cardswitch_engine::command::reply::Reply;
use tokio::time::{Instant, Sleep, sleep_until};

use super::in_flight::InFlightRequests;

/// Classes of messages. Source: ISO 8583 MTI, second digit.
const REVERSAL_CLASS: u8 = 4;
const NETWORK_CLASS: u8 = 8;

/// The faults of one connection.
pub(super) struct AnswerFaults {
    plan: Arc<FaultPlan>,
    held: Vec<HeldAnswer>,
    /// Answers of this wake-up that meet a fault when they are written.
    drawn: Vec<(u64, AnswerFault)>,
    timer: Pin<Box<Sleep>>,
}

/// An answer that is held back.
struct HeldAnswer {
    answer: (u64, Reply),
    until: Instant,
    /// DE37 of the purchase whose reversal releases it; none of a late one.
    released_by: Option<Vec<u8>>,
}

impl AnswerFaults {
    pub(super) fn new(plan: Arc<FaultPlan>) -> Self {
        let timer = Box::pin(sleep_until(Instant::now()));
        Self { plan, held: Vec::new(), drawn: Vec::new(), timer }
    }

    /// Draws the faults of the answers that have come, takes out the held answers, and adds those that are
    /// due. Returns whether any was added; where not, the task is woken in time.
    pub(super) fn meet(
        &mut self,
        context: &mut Context<'_>,
        arrived: &mut Vec<(u64, Reply)>,
        in_flight: &mut InFlightRequests,
    ) -> bool {
        let came = std::mem::take(arrived);
        for answer in came {
            self.meet_one(answer, arrived, in_flight);
        }
        let held = arrived.len();
        self.release(arrived, |held, now| held.until <= now);
        if let Some(next) = self.held.iter().map(|held| held.until).min() {
            self.timer.as_mut().reset(next);
            // Ready only where the clock moved on meanwhile: then it is asked again at once.
            if self.timer.as_mut().poll(context).is_ready() {
                context.waker().wake_by_ref();
            }
        }
        arrived.len() > held
    }

    fn meet_one(
        &mut self,
        answer: (u64, Reply),
        arrived: &mut Vec<(u64, Reply)>,
        in_flight: &mut InFlightRequests,
    ) {
        let tag = answer.0;
        let Some(request) = in_flight.get(tag) else { return arrived.push(answer) };
        let reference = request.echo.get(37).map(<[u8]>::to_vec);
        if request.echo.mti().class() == REVERSAL_CLASS {
            arrived.push(answer);
            self.release(arrived, |held, _| {
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
        self.held.push(HeldAnswer { answer, until: Instant::now() + drawn.delay, released_by });
    }

    fn release(
        &mut self,
        arrived: &mut Vec<(u64, Reply)>,
        is_due: impl Fn(&HeldAnswer, Instant) -> bool,
    ) {
        let now = Instant::now();
        let due = self.held.extract_if(.., |held| is_due(held, now));
        arrived.extend(due.map(|held| held.answer));
    }

    /// The fault that the answer meets when it is written, if it does.
    pub(super) fn take(&mut self, tag: u64) -> Option<AnswerFault> {
        let at = self.drawn.iter().position(|(drawn, _)| *drawn == tag)?;
        Some(self.drawn.swap_remove(at).1)
    }
}
