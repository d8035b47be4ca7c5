//! One run's conversation with the switch, without its sockets: the next message to send, the
//! meaning of an answer, and its consequences.
//!
//! The drivers (`open_loop`, `closed_loop`) own time and bytes on the wire; this file owns order. Given
//! the same plans and the same answers at the same times it sends the same bytes.
//!
//! INVARIANT: actions leave in the order of (due time, sequence); every purchase has a STAN, a
//! transmission time and a retrieval reference number of its own; later messages name it.

mod due_action;
mod later_messages;
mod live_purchase;
mod opening;
mod story;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use due_action::{Action, DueAction};
use live_purchase::{AwaitedAnswer, LivePurchase};

use super::books::{Books, Difference};
use super::hostile::Mishap;
use super::message::{AnswerFields, AnswerKey, Identity};
use super::portfolio::Portfolio;
use super::report::RunTally;
use super::traffic::{PurchasePace, Traffic};

/// A message whose outcome is unknown is repeated so many times.
const TRIES_MAX: u8 = 4;

/// Numbers of each purchase: its own, and that of its refund.
const RRNS_A_PURCHASE: u64 = 2;

/// Reference numbers have twelve digits; a run takes its own stretch of them.
const RRN_LIMIT: u64 = 1_000_000_000_000;

/// The start of the run, by the clock that its messages carry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epoch {
    /// The time since the Unix epoch. Units: microseconds.
    pub(super) start_us: u64,
    /// Whether each message carries the time for a switch on a manual clock.
    pub(super) is_virtual: bool,
}

/// A message to send, without its frame.
#[derive(Debug)]
pub(super) struct UnframedMessage {
    pub(super) bytes: Vec<u8>,
    /// The instant when it was meant to leave.
    pub(super) due_us: u64,
    /// The purchase it belongs to; its messages keep to one connection.
    pub(super) lane: u64,
    pub(super) key: AnswerKey,
    pub(super) part: MessagePlace,
}

/// A message's place among those of its purchase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MessagePlace {
    /// Its place among the later messages; none for the opening.
    pub(super) later: Option<usize>,
    /// Whether it says that it was sent before.
    pub(super) is_repeat: bool,
}

impl MessagePlace {
    /// Whether the message may arrive behind those that were sent after it: an opening may, since an
    /// acquirer without an answer repeats or reverses it. Later messages name earlier ones.
    pub(super) const fn may_be_overtaken(self) -> bool {
        self.later.is_none()
    }
}

/// A message that left for the switch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    pub(super) part: MessagePlace,
    pub(super) mishap: Option<Mishap>,
    /// Whether there was a connection to carry it.
    pub(super) is_carried: bool,
}

pub(super) struct Settings {
    pub(super) seed: u64,
    pub(super) mean_gap_ns: u64,
    pub(super) pace: PurchasePace,
    pub(super) epoch: Epoch,
    /// No purchase arrives later than this.
    pub(super) arrivals_end_us: u64,
    /// The longest wait for an answer.
    pub(super) answer_timeout_us: u64,
    /// Whether purchases are kept after their end, for the story of one whose books differ.
    pub(super) keeps_stories: bool,
}

/// The conversation of one run.
pub(super) struct Conversation<'a> {
    portfolio: &'a Portfolio,
    settings: Settings,
    traffic: Traffic,
    queue: BinaryHeap<Reverse<DueAction>>,
    next_sequence: u64,
    /// The newest plan that is not part of a burst: no plan to come is due before it.
    frontier: Option<u64>,
    live: HashMap<u64, LivePurchase>,
    /// Purchases that are over, and what left of each, where stories are kept.
    past: HashMap<u64, LivePurchase>,
    departures: HashMap<u64, Vec<Departure>>,
    awaited: HashMap<AnswerKey, VecDeque<AwaitedAnswer>>,
    deadlines: VecDeque<(u64, AnswerKey, u64)>,
    next_stan: u32,
    first_rrn: u64,
    purchases: u64,
    pub(super) books: Books,
    pub(super) tally: RunTally,
    pub(super) differences: Vec<Difference>,
}

impl<'a> Conversation<'a> {
    /// Opens the conversation of a run.
    pub(super) fn new(portfolio: &'a Portfolio, settings: Settings) -> Self {
        let Settings { seed, mean_gap_ns, pace, epoch, .. } = settings;
        // A second of wall time reserves a hundred thousand numbers, so runs on one data
        // directory do not meet.
        let first_rrn = epoch.start_us / 1_000_000 % 10_000_000 * 100_000;
        Self {
            portfolio,
            traffic: Traffic::new(seed, mean_gap_ns, pace, epoch.start_us),
            settings,
            queue: BinaryHeap::new(),
            next_sequence: 0,
            frontier: None,
            live: HashMap::new(),
            past: HashMap::new(),
            departures: HashMap::new(),
            awaited: HashMap::new(),
            deadlines: VecDeque::new(),
            next_stan: 1,
            first_rrn,
            purchases: 0,
            books: Books::default(),
            tally: RunTally::new(),
            differences: Vec::new(),
        }
    }

    /// The instant when the next message is due; `None` once nothing is left to send.
    pub(super) fn next_due_us(&mut self) -> Option<u64> {
        self.plan_ahead();
        self.queue.peek().map(|Reverse(due)| due.due_us)
    }

    /// Takes the next message that is due by now.
    pub(super) fn take_due(&mut self, now_us: u64) -> Option<UnframedMessage> {
        while self.next_due_us().is_some_and(|due_us| due_us <= now_us) {
            let Reverse(DueAction { due_us, action, .. }) = self.queue.pop()?;
            let outgoing = match action {
                Action::Open(plan) => self.open(*plan),
                Action::OpenAgain { purchase, marked } => self.open_again(purchase, marked, due_us),
                Action::Later { purchase, kind } => self.send_later(purchase, kind, due_us),
                Action::Repeat { purchase, later } => self.repeat(purchase, later, due_us),
            };
            if let Some(outgoing) = outgoing {
                self.deadlines.push_back((
                    now_us + self.settings.answer_timeout_us,
                    outgoing.key,
                    self.next_sequence,
                ));
                return Some(outgoing);
            }
        }
        None
    }

    /// Takes an answer in that arrived at a time; its latency runs from when its message was due.
    pub(super) fn answered_at(&mut self, answer: &AnswerFields, now_us: u64, arrived_us: u64) {
        let waiting = self.awaited.get(&answer.key).and_then(VecDeque::front);
        let due_us = waiting.map_or(arrived_us, |awaited| awaited.due_us);
        self.answered(answer, now_us, arrived_us.saturating_sub(due_us));
    }

    /// Takes an answer in. Returns false where nobody waits for it.
    pub(super) fn answered(&mut self, answer: &AnswerFields, now_us: u64, latency_us: u64) -> bool {
        let Some(awaited) = self.take_awaited(answer.key) else { return false };
        match awaited.later {
            None => self.opening_answered(awaited.purchase, answer, now_us, latency_us),
            Some(later) => self.later_answered(awaited.purchase, later, answer, now_us),
        }
        self.release(awaited.purchase);
        true
    }

    /// Takes note of a message that left, in the order of leaving.
    pub(super) fn departed(&mut self, purchase: u64, departure: Departure) {
        if self.settings.keeps_stories {
            self.departures.entry(purchase).or_default().push(departure);
        }
    }

    /// Gives up on answers that took too long.
    pub(super) fn expire(&mut self, now_us: u64) {
        while let Some((deadline_us, key, sequence)) = self.deadlines.front().copied() {
            let waiting = self.awaited.get(&key).and_then(VecDeque::front);
            let is_waiting = waiting.is_some_and(|awaited| awaited.sequence <= sequence);
            if is_waiting && deadline_us > now_us {
                return;
            }
            self.deadlines.pop_front();
            if is_waiting {
                self.silent(key, now_us);
            }
        }
    }

    /// Takes note that a message stays without an answer.
    pub(super) fn silent(&mut self, key: AnswerKey, now_us: u64) {
        let Some(awaited) = self.take_awaited(key) else { return };
        self.tally.counts.unanswered += 1;
        self.outcome_unknown(awaited.purchase, awaited.later, now_us);
        self.release(awaited.purchase);
    }

    /// Sends nothing more. Answers under way may still come.
    pub(super) fn stop(&mut self) {
        self.settings.arrivals_end_us = 0;
        self.queue.clear();
    }

    /// Messages that wait for their answers.
    pub(super) fn in_flight(&self) -> usize {
        self.awaited.values().map(VecDeque::len).sum()
    }

    /// Tells whether a reference number belongs to this run.
    pub(super) fn owns_rrn(&self, rrn: u64) -> bool {
        let offset = (rrn + RRN_LIMIT - self.first_rrn) % RRN_LIMIT;
        offset < RRNS_A_PURCHASE * self.purchases.max(1)
    }

    /// Keeps the queue filled up to the next arrival that is not part of a burst.
    fn plan_ahead(&mut self) {
        while self.frontier.is_none() {
            let is_in_burst = self.traffic.is_in_burst();
            let plan = self.traffic.next_plan(self.portfolio);
            if plan.due_us < self.settings.arrivals_end_us {
                if !is_in_burst {
                    self.frontier = Some(plan.number);
                }
                let due_us = plan.due_us;
                self.enqueue(due_us, Action::Open(Box::new(plan)));
            } else if !is_in_burst {
                // Arrivals are over: no purchase has this number.
                self.frontier = Some(u64::MAX);
            }
        }
    }

    fn enqueue(&mut self, due_us: u64, action: Action) {
        self.next_sequence += 1;
        self.queue.push(Reverse(DueAction { due_us, sequence: self.next_sequence, action }));
    }

    /// Plans an action of a purchase under way.
    fn schedule(&mut self, purchase: u64, due_us: u64, action: Action) {
        if let Some(live) = self.live.get_mut(&purchase) {
            live.pending += 1;
            self.enqueue(due_us, action);
        }
    }

    /// Forgets a purchase once nothing of it is to come.
    fn release(&mut self, purchase: u64) {
        let Some(live) = self.live.get_mut(&purchase) else { return };
        live.pending = live.pending.saturating_sub(1);
        if live.pending == 0
            && let Some(live) = self.live.remove(&purchase)
            && self.settings.keeps_stories
        {
            self.past.insert(purchase, live);
        }
    }

    fn new_identity(&mut self, rrn: u64, due_us: u64) -> Identity {
        let stan = self.next_stan;
        self.next_stan = if stan == 999_999 { 1 } else { stan + 1 };
        Identity { stan, rrn, sent_us: self.settings.epoch.start_us + due_us }
    }

    /// The time that a message carries for a switch on a manual clock.
    fn virtual_us(&self, due_us: u64) -> Option<u64> {
        let epoch = self.settings.epoch;
        epoch.is_virtual.then_some(epoch.start_us + due_us)
    }

    /// Sends a message of a purchase, and waits for its answer.
    fn send(
        &mut self,
        (purchase, part): (u64, MessagePlace),
        (bytes, key): (Vec<u8>, AnswerKey),
        due_us: u64,
    ) -> UnframedMessage {
        self.next_sequence += 1;
        let (later, sequence) = (part.later, self.next_sequence);
        let awaited = AwaitedAnswer { purchase, due_us, later, sequence };
        self.awaited.entry(key).or_default().push_back(awaited);
        if let Some(live) = self.live.get_mut(&purchase) {
            live.pending += 1;
        }
        UnframedMessage { bytes, due_us, lane: purchase, key, part }
    }

    fn take_awaited(&mut self, key: AnswerKey) -> Option<AwaitedAnswer> {
        let waiting = self.awaited.get_mut(&key)?;
        let awaited = waiting.pop_front();
        if waiting.is_empty() {
            self.awaited.remove(&key);
        }
        awaited
    }
}
