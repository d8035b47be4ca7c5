//! Answers of one connection that the fault plan makes late, double, false or lost.
//!
//! Only answers of the engine to purchases meet a fault, so the decision is durable, whatever the faulty
//! answer says. A held answer keeps its request in flight: the connection waits for it.
//!
//! INVARIANT: fewer are held than a connection may have in flight, so that the reversal that releases one is read.

use std::net::SocketAddr;
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
    peer: SocketAddr,
    plan: Arc<FaultPlan>,
    /// The most answers that are held; beyond, the oldest is released.
    held_max: usize,
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
    /// The faults of a connection that may have so many messages in flight.
    pub(crate) fn new(peer: SocketAddr, plan: Arc<FaultPlan>, in_flight_max: usize) -> Self {
        Self { peer, plan, held_max: in_flight_max / 2, held: Vec::new(), drawn: Vec::new() }
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
        if request.echo.mti.class() == REVERSAL_CLASS {
            arrived.push(answer);
            self.release(arrived, |held| {
                held.released_by.is_some() && held.released_by == reference
            });
            return;
        }
        if request.echo.mti.class() == NETWORK_CLASS {
            return arrived.push(answer);
        }
        let card_number = request.echo.get(2).unwrap_or_default();
        let Some(drawn) = self.plan.draw_answer(card_number, request.echo.get_number(4)) else {
            return arrived.push(answer);
        };
        // No reversal could name it.
        if drawn.fault == AnswerFault::AfterReversal && reference.is_none() {
            return arrived.push(answer);
        }
        let (peer, fault, stan) = (self.peer, drawn.fault, request.echo.get_number(11));
        tracing::info!(%peer, %fault, stan, "an answer meets a fault of the plan");
        let released_by = match fault {
            AnswerFault::Late => None,
            AnswerFault::AfterReversal => reference,
            fault => {
                self.drawn.push((tag, fault));
                return arrived.push(answer);
            }
        };
        self.held.push(HeldAnswer { answer, until: now + drawn.delay, released_by });
        if self.held.len() > self.held_max {
            arrived.push(self.held.remove(0).answer);
        }
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

#[cfg(test)]
mod tests {
    use cardswitch_engine::clock::Stopwatch;
    use cardswitch_engine::domain::ids::RecordSeq;
    use cardswitch_iso8583::{MessageBuilder, Mti, decode};

    use super::super::fault_plan::{AnswerRule, FaultRules};
    use super::super::in_flight::WayBack;
    use super::*;

    const ANSWERS_MAX: usize = 8;

    struct World {
        faults: AnswerFaults,
        in_flight: InFlightRequests,
    }

    impl World {
        fn with(fault: AnswerFault) -> Self {
            let rule = AnswerRule {
                fault,
                last_four: None,
                amount_minor: None,
                rate: 1.0,
                late_ms: (fault == AnswerFault::Late).then_some(1_000),
            };
            let rules = FaultRules { answers: vec![rule], ..FaultRules::default() };
            let plan = Arc::new(FaultPlan::of(rules).unwrap());
            Self {
                faults: AnswerFaults::new(([127, 0, 0, 1], 1).into(), plan, ANSWERS_MAX),
                in_flight: InFlightRequests::default(),
            }
        }

        /// Has the engine answer a message about a purchase. Returns the tags of the answers that leave.
        fn answered(&mut self, mti: Mti, purchase: usize) -> (u64, Vec<u64>) {
            let mut frame = Vec::new();
            let message = MessageBuilder::new(mti).set_text(37, &format!("RRN{purchase:09}"));
            message.encode(&mut frame).unwrap();
            let request = decode(&frame).unwrap();
            let tag = self.in_flight.insert(&request, WayBack::default(), Stopwatch::start());
            let mut arrived = vec![(tag, Reply::Done(RecordSeq(1)))];
            self.faults.meet(Duration::ZERO, &mut arrived, &mut self.in_flight);
            let left: Vec<u64> = arrived.into_iter().map(|(tag, _)| tag).collect();
            for tag in &left {
                self.in_flight.finish(*tag, |_| {});
            }
            (tag, left)
        }
    }

    /// Once so many were held that the connection was not read from, nor the reversals that release them.
    #[test]
    fn held_answers_leave_room_for_the_reversal_that_releases_them() {
        for fault in [AnswerFault::AfterReversal, AnswerFault::Late] {
            let mut world = World::with(fault);
            let held = (0..ANSWERS_MAX / 2).map(|purchase| {
                let (tag, left) = world.answered(Mti::AUTHORIZATION_REQUEST, purchase);
                assert!(left.is_empty(), "{fault:?}");
                tag
            });
            let held: Vec<u64> = held.collect();
            for (purchase, oldest) in (ANSWERS_MAX / 2..).zip(held) {
                let (_, left) = world.answered(Mti::AUTHORIZATION_REQUEST, purchase);
                assert_eq!(left, [oldest], "{fault:?}");
                assert!(world.in_flight.len() < ANSWERS_MAX, "{fault:?}");
            }
        }
    }

    #[test]
    fn a_reversal_releases_the_answer_to_its_purchase_behind_its_own() {
        let mut world = World::with(AnswerFault::AfterReversal);
        let (_, left) = world.answered(Mti::AUTHORIZATION_REQUEST, 1);
        assert!(left.is_empty());
        let (purchase, left) = world.answered(Mti::AUTHORIZATION_REQUEST, 2);
        assert!(left.is_empty());
        let (reversal, left) = world.answered(Mti::REVERSAL_REQUEST, 2);
        assert_eq!(left, [reversal, purchase]);
    }
}
