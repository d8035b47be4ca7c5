//! One run's conversation with the switch, without its sockets: what to send next, what an answer
//! means, what follows from it.
//!
//! The drivers (`open_loop`, `closed_loop`) own time and bytes on the wire; this file owns order. Given
//! the same plans and the same answers at the same times it sends the same bytes.
//!
//! INVARIANT: actions leave in the order of (due time, sequence); every purchase has a STAN, a
//! transmission time and a retrieval reference number of its own; later messages name it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use cardswitch_iso8583::Dialect;

use super::books::{Books, Difference, EntryId, Event, Outcome};
use super::merchants::catalogue;
use super::message::{Answer, Identity, Key, LaterKind, LaterMessage, OpeningMessage};
use super::portfolio::{Card, Portfolio};
use super::report::{RecentPurchase, Tally};
use super::traffic::{Fate, Opening, Pace, Payer, Plan, Reference, Traffic};

/// A message whose outcome is unknown is repeated so many times.
const TRIES_MAX: u8 = 4;

/// Reference numbers have twelve digits; a run takes its own stretch of them.
const RRN_LIMIT: u64 = 1_000_000_000_000;

/// When the run starts, by the clock that its messages carry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epoch {
    /// Since the Unix epoch. Units: microseconds.
    pub(super) start_us: u64,
    /// Whether each message carries the time for a switch on a manual clock.
    pub(super) is_virtual: bool,
}

/// A message to send, without its frame.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    /// When it was meant to leave.
    pub(super) due_us: u64,
    /// The purchase it belongs to; its messages keep to one connection.
    pub(super) lane: u64,
    pub(super) key: Key,
}

/// Settings of a conversation.
pub(super) struct Settings {
    pub(super) seed: u64,
    pub(super) mean_gap_ns: u64,
    pub(super) pace: Pace,
    pub(super) epoch: Epoch,
    /// No purchase arrives later than this.
    pub(super) arrivals_end_us: u64,
    /// How long an answer is waited for.
    pub(super) answer_timeout_us: u64,
    pub(super) dialect: Dialect,
}

/// The conversation of one run.
pub(super) struct Conversation<'a> {
    portfolio: &'a Portfolio,
    settings: Settings,
    traffic: Traffic,
    queue: BinaryHeap<Reverse<Due>>,
    next_sequence: u64,
    /// The newest plan that is not part of a burst: no plan to come is due before it.
    frontier: Option<u64>,
    live: HashMap<u64, Live>,
    awaited: HashMap<Key, VecDeque<Awaited>>,
    deadlines: VecDeque<(u64, Key, u64)>,
    next_stan: u32,
    first_rrn: u64,
    purchases: u64,
    pub(super) books: Books,
    pub(super) tally: Tally,
    pub(super) differences: Vec<Difference>,
}

/// Something to do at a time. Ordered by time, then sequence, which is unique.
struct Due {
    due_us: u64,
    sequence: u64,
    action: Action,
}

enum Action {
    Open(Box<Plan>),
    /// The opening message again: byte for byte, or marked as a repeat.
    OpenAgain {
        purchase: u64,
        marked: bool,
    },
    Later {
        purchase: u64,
        kind: LaterKind,
    },
    Repeat {
        purchase: u64,
        later: usize,
    },
}

/// A purchase with something still to come.
struct Live {
    plan: Plan,
    pan: String,
    identity: Identity,
    entry: Option<EntryId>,
    bytes: Vec<u8>,
    authorization_id: Option<[u8; 6]>,
    first_answer: Option<FirstAnswer>,
    /// Held, in the account's currency.
    held_minor: u64,
    /// Held, in the transaction's currency.
    amount_minor: u64,
    later: Vec<LaterSent>,
    /// Actions in the queue and answers awaited.
    pending: u32,
    tries: u8,
}

struct LaterSent {
    message: LaterMessage,
    entry: Option<EntryId>,
    first_answer: Option<FirstAnswer>,
    tries: u8,
}

/// What an answer to a duplicate has to agree with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FirstAnswer {
    response: [u8; 2],
    authorization_id: Option<[u8; 6]>,
}

#[derive(Clone, Copy)]
struct Awaited {
    purchase: u64,
    due_us: u64,
    later: Option<usize>,
    sequence: u64,
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
            awaited: HashMap::new(),
            deadlines: VecDeque::new(),
            next_stan: 1,
            first_rrn,
            purchases: 0,
            books: Books::default(),
            tally: Tally::new(),
            differences: Vec::new(),
        }
    }

    /// When the next message is due; `None` once nothing is left to send.
    pub(super) fn next_due_us(&mut self) -> Option<u64> {
        self.plan_ahead();
        self.queue.peek().map(|Reverse(due)| due.due_us)
    }

    /// Takes the next message that is due by now.
    pub(super) fn take_due(&mut self, now_us: u64) -> Option<Outgoing> {
        while self.next_due_us().is_some_and(|due_us| due_us <= now_us) {
            let Reverse(Due { due_us, action, .. }) = self.queue.pop()?;
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
    pub(super) fn answered_at(&mut self, answer: &Answer, now_us: u64, arrived_us: u64) {
        let waiting = self.awaited.get(&answer.key).and_then(VecDeque::front);
        let due_us = waiting.map_or(arrived_us, |awaited| awaited.due_us);
        self.answered(answer, now_us, arrived_us.saturating_sub(due_us));
    }

    /// Takes an answer in. Returns false where nobody waits for it.
    pub(super) fn answered(&mut self, answer: &Answer, now_us: u64, latency_us: u64) -> bool {
        let Some(awaited) = self.take_awaited(answer.key) else { return false };
        match awaited.later {
            None => self.opening_answered(awaited.purchase, answer, now_us, latency_us),
            Some(later) => self.later_answered(awaited.purchase, later, answer, now_us),
        }
        self.release(awaited.purchase);
        true
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
    pub(super) fn silent(&mut self, key: Key, now_us: u64) {
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
        offset < self.purchases.max(1)
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
        self.queue.push(Reverse(Due { due_us, sequence: self.next_sequence, action }));
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
        if live.pending == 0 {
            self.live.remove(&purchase);
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

    fn await_answer(&mut self, outgoing: &Outgoing, later: Option<usize>) {
        let (key, purchase, due_us) = (outgoing.key, outgoing.lane, outgoing.due_us);
        self.next_sequence += 1;
        let awaited = Awaited { purchase, due_us, later, sequence: self.next_sequence };
        self.awaited.entry(key).or_default().push_back(awaited);
        if let Some(live) = self.live.get_mut(&purchase) {
            live.pending += 1;
        }
    }

    fn take_awaited(&mut self, key: Key) -> Option<Awaited> {
        let waiting = self.awaited.get_mut(&key)?;
        let awaited = waiting.pop_front();
        if waiting.is_empty() {
            self.awaited.remove(&key);
        }
        awaited
    }
}

/// Opening a purchase.
impl Conversation<'_> {
    fn open(&mut self, plan: Plan) -> Option<Outgoing> {
        if self.frontier == Some(plan.number) {
            self.frontier = None;
        }
        let (number, due_us) = (plan.number, plan.due_us);
        let rrn = (self.first_rrn + number) % RRN_LIMIT;
        self.purchases = self.purchases.max(number + 1);
        let identity = self.new_identity(rrn, due_us);
        let virtual_us = self.virtual_us(due_us);
        let (card, pan) = self.payer(&plan);
        let message = OpeningMessage { plan: &plan, card, pan: &pan, identity, virtual_us };
        let (bytes, key) = (message.encode(false, &self.settings.dialect), message.key());
        let entry = self.enter_opening(&plan, identity.rrn);
        self.live.insert(number, Live::new(plan, pan, identity, entry, bytes.clone()));
        let outgoing = Outgoing { bytes, due_us, lane: number, key };
        self.await_answer(&outgoing, None);
        self.schedule_from_opening(number);
        Some(outgoing)
    }

    fn payer(&self, plan: &Plan) -> (Option<&Card>, String) {
        match plan.payer {
            Payer::Card(slot) => {
                let card = self.portfolio.card(slot);
                (card, card.map(|card| card.pan.clone()).unwrap_or_default())
            }
            Payer::Stranger(draw) => (None, self.portfolio.stranger(draw)),
        }
    }

    /// Opens a page in the books, unless nothing is to be booked.
    fn enter_opening(&mut self, plan: &Plan, rrn: u64) -> Option<EntryId> {
        let amount_minor = plan.price.billing_minor;
        let event = match plan.opening {
            Opening::BalanceInquiry => return None,
            Opening::Verification => Event::Verify,
            Opening::Financial => Event::Post { amount_minor },
            Opening::Authorization | Opening::Advice => Event::Hold { amount_minor },
        };
        self.tally.counts.authorizations += 1;
        let Payer::Card(card) = plan.payer else { return None };
        self.books.open(plan.number, card, rrn, plan.due_us);
        self.books.sent(plan.number, event)
    }

    /// Plans what happens whatever the answer is.
    fn schedule_from_opening(&mut self, purchase: u64) {
        let Some(live) = self.live.get(&purchase) else { return };
        let plan = &live.plan;
        if plan.opening == Opening::BalanceInquiry {
            return;
        }
        let (due_us, fate, is_advice) = (plan.due_us, plan.fate, plan.opening == Opening::Advice);
        let (duplicate, repeat) = (plan.duplicate_after_us, plan.repeat_after_us);
        let moves_money = plan.opening != Opening::Verification;
        if let Some(after_us) = duplicate {
            let action = Action::OpenAgain { purchase, marked: false };
            self.schedule(purchase, due_us + after_us, action);
        }
        if let Some(after_us) = repeat.filter(|_| is_advice) {
            self.schedule(
                purchase,
                due_us + after_us,
                Action::OpenAgain { purchase, marked: true },
            );
        }
        if let Fate::TimesOut { after_us, .. } = fate
            && moves_money
        {
            let action = Action::Later { purchase, kind: LaterKind::TimeOutReversal };
            self.schedule(purchase, due_us + after_us, action);
        }
    }

    fn open_again(&mut self, purchase: u64, marked: bool, due_us: u64) -> Option<Outgoing> {
        let virtual_us = self.virtual_us(due_us);
        let live = self.live.get(&purchase)?;
        let (card, identity) = (self.payer(&live.plan).0, live.identity);
        let message =
            OpeningMessage { plan: &live.plan, card, pan: &live.pan, identity, virtual_us };
        let bytes =
            if marked { message.encode(true, &self.settings.dialect) } else { live.bytes.clone() };
        let key = message.key();
        self.tally.counts.duplicates += 1;
        let outgoing = Outgoing { bytes, due_us, lane: purchase, key };
        self.await_answer(&outgoing, None);
        self.release(purchase);
        Some(outgoing)
    }

    fn opening_answered(&mut self, purchase: u64, answer: &Answer, now_us: u64, latency_us: u64) {
        let Some(live) = self.live.get_mut(&purchase) else { return };
        let given =
            FirstAnswer { response: answer.response, authorization_id: answer.authorization_id };
        let first = live.first_answer;
        if let Some(first) = first.filter(|first| is_final(first.response)) {
            return self.compare_with_first(purchase, first, given);
        }
        live.first_answer = Some(given);
        match first {
            None => self.tally.record_latency(latency_us),
            Some(first) => self.tally.take_back(first.response),
        }
        let outcome = opening_outcome(&live.plan, answer);
        if let Some(entry) = live.entry {
            self.books.answered(entry, outcome);
        }
        if live.plan.opening == Opening::BalanceInquiry {
            self.tally.counts.balance_inquiries += u64::from(answer.response == *b"00");
            return;
        }
        match outcome {
            Outcome::Unknown | Outcome::Awaited => {
                self.tally.counts.unknown += 1;
                self.outcome_unknown(purchase, None, now_us);
            }
            Outcome::Accepted { amount_minor } => {
                self.approved(purchase, amount_minor, answer, now_us)
            }
            _ => self.declined(purchase, answer.exact_code()),
        }
    }

    fn declined(&mut self, purchase: u64, code: u16) {
        self.books.set_response_code(purchase, code);
        self.record_purchase(purchase, code);
    }

    /// Holds what was approved and plans what becomes of it.
    fn approved(&mut self, purchase: u64, held_minor: u64, answer: &Answer, now_us: u64) {
        self.books.set_response_code(purchase, 0);
        self.record_purchase(purchase, 0);
        let Some(live) = self.live.get_mut(&purchase) else { return };
        live.authorization_id = answer.authorization_id;
        if held_minor != live.held_minor {
            // Approved in part, which happens in the account's currency only.
            live.amount_minor = held_minor;
        }
        live.held_minor = held_minor;
        // One that the acquirer has already given up is reversed, never presented.
        let is_given_up = live.tries == TRIES_MAX;
        if is_given_up || !matches!(live.plan.opening, Opening::Authorization | Opening::Advice) {
            return;
        }
        let opened_us = live.plan.due_us;
        let (after_us, kind) = match live.plan.fate {
            Fate::Settles { after_us, .. } => (after_us, LaterKind::Presentment),
            Fate::Reversed { after_us } => (after_us, LaterKind::Reversal),
            Fate::PartlyReversed { after_us, .. } => (after_us, LaterKind::PartialReversal),
            Fate::TimesOut { .. } | Fate::Abandoned => return,
        };
        let due_us = (opened_us + after_us).max(now_us);
        self.schedule(purchase, due_us, Action::Later { purchase, kind });
    }

    fn record_purchase(&mut self, purchase: u64, response_code: u16) {
        let Some(live) = self.live.get(&purchase) else { return };
        let merchant = catalogue().merchant(live.plan.merchant);
        self.tally.record_purchase(RecentPurchase {
            merchant: format!("{}, {}", merchant.name, merchant.city),
            billing_minor: live.plan.price.billing_minor,
            response_code,
        });
    }
}

/// What comes after the opening.
impl Conversation<'_> {
    fn send_later(&mut self, purchase: u64, kind: LaterKind, due_us: u64) -> Option<Outgoing> {
        let rrn = self.live.get(&purchase)?.identity.rrn;
        let identity = self.new_identity(rrn, due_us);
        let live = self.live.get_mut(&purchase)?;
        let message = live.later_message(kind, identity);
        let (event, later) = (message.event(), live.later.len());
        let entry = self.books.sent(purchase, event);
        live.take_effect(&message);
        live.later.push(LaterSent { message, entry, first_answer: None, tries: 1 });
        let outgoing = self.later_outgoing(purchase, later, due_us, false);
        self.schedule_after_later(purchase, later, kind, due_us);
        self.release(purchase);
        outgoing
    }

    fn later_outgoing(
        &mut self,
        purchase: u64,
        later: usize,
        due_us: u64,
        repeated: bool,
    ) -> Option<Outgoing> {
        let virtual_us = self.virtual_us(due_us);
        let live = self.live.get(&purchase)?;
        let message = &live.later.get(later)?.message;
        let dialect = &self.settings.dialect;
        let bytes = message.encode((&live.plan, &live.pan), virtual_us, repeated, dialect);
        let outgoing = Outgoing { bytes, due_us, lane: purchase, key: message.key() };
        self.await_answer(&outgoing, Some(later));
        Some(outgoing)
    }

    /// Plans the repeat that was drawn for it, and the presentment after a partial reversal.
    fn schedule_after_later(&mut self, purchase: u64, later: usize, kind: LaterKind, due_us: u64) {
        let Some(live) = self.live.get(&purchase) else { return };
        let repeat_after_us = match live.plan.fate {
            Fate::TimesOut { repeat_after_us, .. } => repeat_after_us,
            _ => live.plan.repeat_after_us.filter(|_| later == 0),
        };
        let settles_us = match live.plan.fate {
            Fate::PartlyReversed { settles_after_us, .. } if kind == LaterKind::PartialReversal => {
                Some((live.plan.due_us + settles_after_us).max(due_us))
            }
            _ => None,
        };
        if let Some(after_us) = repeat_after_us {
            self.schedule(purchase, due_us + after_us, Action::Repeat { purchase, later });
        }
        if let Some(settles_us) = settles_us {
            let kind = LaterKind::Presentment;
            self.schedule(purchase, settles_us, Action::Later { purchase, kind });
        }
    }

    fn repeat(&mut self, purchase: u64, later: usize, due_us: u64) -> Option<Outgoing> {
        self.tally.counts.duplicates += 1;
        let outgoing = self.later_outgoing(purchase, later, due_us, true);
        self.release(purchase);
        outgoing
    }

    fn later_answered(&mut self, purchase: u64, later: usize, answer: &Answer, now_us: u64) {
        let Some(live) = self.live.get_mut(&purchase) else { return };
        let was_approved = live.first_answer.is_some_and(|first| is_approval(first.response));
        let Some(sent) = live.later.get_mut(later) else { return };
        let given =
            FirstAnswer { response: answer.response, authorization_id: answer.authorization_id };
        if let Some(first) = sent.first_answer.filter(|first| is_final(first.response)) {
            return self.compare_with_first(purchase, first, given);
        }
        sent.first_answer = Some(given);
        let (kind, outcome) = (sent.message.kind, later_outcome(answer));
        if let Some(entry) = sent.entry {
            self.books.answered(entry, outcome);
        }
        let counts = &mut self.tally.counts;
        match outcome {
            Outcome::Accepted { .. } if kind == LaterKind::Presentment => counts.presentments += 1,
            Outcome::Accepted { .. } => counts.reversed += u64::from(was_approved),
            Outcome::Unknown | Outcome::NotTaken => {
                self.outcome_unknown(purchase, Some(later), now_us);
            }
            _ => *counts.refused.entry(answer.response_text()).or_default() += 1,
        }
    }

    /// What an acquirer does that does not know: it reverses an authorization, repeats an advice
    /// and whatever came later.
    fn outcome_unknown(&mut self, purchase: u64, later: Option<usize>, now_us: u64) {
        let due_us = now_us + self.settings.pace.retry_us();
        let Some(live) = self.live.get_mut(&purchase) else { return };
        let tries = match later {
            Some(later) => live.later.get_mut(later).map(|sent| &mut sent.tries),
            None => Some(&mut live.tries),
        };
        let Some(tries) = tries.filter(|tries| **tries < TRIES_MAX) else { return };
        *tries += 1;
        let opening = live.plan.opening;
        let is_reversed = live.later.iter().any(|sent| sent.message.kind.is_full_reversal())
            || matches!(live.plan.fate, Fate::TimesOut { .. });
        match (later, opening) {
            (Some(later), _) => self.schedule(purchase, due_us, Action::Repeat { purchase, later }),
            (None, Opening::Advice) => {
                self.schedule(purchase, due_us, Action::OpenAgain { purchase, marked: true });
            }
            (None, Opening::Authorization | Opening::Financial) if !is_reversed => {
                live.tries = TRIES_MAX;
                let kind = LaterKind::TimeOutReversal;
                self.schedule(purchase, due_us, Action::Later { purchase, kind });
            }
            _ => {}
        }
    }

    /// The answer to a duplicate must be the first answer again.
    fn compare_with_first(&mut self, purchase: u64, first: FirstAnswer, given: FirstAnswer) {
        let says_nothing = !is_final(given.response) || first == given;
        let Some(live) = self.live.get(&purchase).filter(|_| !says_nothing) else { return };
        let card_id = self.payer(&live.plan).0.map(|card| card.card_id.clone());
        let text = |answer: FirstAnswer| {
            format!("the first answer again, {}", String::from_utf8_lossy(&answer.response))
        };
        self.differences.push(Difference {
            card_id: card_id.unwrap_or_default(),
            rrn: Some(format!("{:012}", live.identity.rrn)),
            expected: text(first),
            found: text(given).replace("the first answer again", "to a duplicate"),
        });
    }
}

impl Live {
    fn new(
        plan: Plan,
        pan: String,
        identity: Identity,
        entry: Option<EntryId>,
        bytes: Vec<u8>,
    ) -> Self {
        Self {
            held_minor: plan.price.billing_minor,
            amount_minor: plan.price.amount_minor,
            plan,
            pan,
            identity,
            entry,
            bytes,
            authorization_id: None,
            first_answer: None,
            later: Vec::new(),
            pending: 0,
            tries: 1,
        }
    }

    /// A message that names this purchase, with what it is to be about.
    fn later_message(&self, kind: LaterKind, identity: Identity) -> LaterMessage {
        let reference = match (self.plan.reference, self.authorization_id) {
            // The acquirer that saw no answer knows no authorization id.
            (Reference::AuthorizationId, None) => Reference::OriginalData,
            (Reference::AuthorizationId, _) if kind == LaterKind::TimeOutReversal => {
                Reference::OriginalData
            }
            (reference, _) => reference,
        };
        let (keep_amount_minor, keep_held_minor) = match (kind, self.plan.fate) {
            (LaterKind::PartialReversal, Fate::PartlyReversed { keep_percent, .. }) => {
                self.kept(keep_percent)
            }
            _ => (0, 0),
        };
        LaterMessage {
            kind,
            identity,
            original: self.identity,
            reference,
            authorization_id: self.authorization_id,
            amount_minor: self.amount_minor,
            held_minor: self.held_minor,
            keep_amount_minor,
            keep_held_minor,
        }
    }

    /// What stays after a partial reversal: in the transaction's currency, and what the switch
    /// then holds of the account's. Source: spec of the field profile, DE95.
    fn kept(&self, keep_percent: u64) -> (u64, u64) {
        let keep = (self.amount_minor * keep_percent / 100).max(1).min(self.amount_minor);
        let held = (self.held_minor * keep).div_ceil(self.amount_minor.max(1));
        (keep, held)
    }

    /// After a partial reversal the rest is what will be presented.
    fn take_effect(&mut self, message: &LaterMessage) {
        if message.kind == LaterKind::PartialReversal {
            self.amount_minor = message.keep_amount_minor;
            self.held_minor = message.keep_held_minor;
        }
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due_us, self.sequence).cmp(&(other.due_us, other.sequence))
    }
}

fn is_approval(response: [u8; 2]) -> bool {
    matches!(&response, b"00" | b"10")
}

/// Whether a response settles the message: 96 and 91 leave it open.
fn is_final(response: [u8; 2]) -> bool {
    !matches!(&response, b"96" | b"91")
}

/// What an answer means for the purchase it opens.
fn opening_outcome(plan: &Plan, answer: &Answer) -> Outcome {
    match &answer.response {
        b"00" => Outcome::Accepted { amount_minor: plan.price.billing_minor },
        b"10" => Outcome::Accepted {
            amount_minor: answer.amount_minor.unwrap_or(plan.price.billing_minor),
        },
        b"96" => Outcome::Unknown,
        b"91" | b"30" | b"94" | b"14" => Outcome::NotTaken,
        _ if answer.exact_code() == 1000 => Outcome::RefusedPerhapsRecorded,
        _ => Outcome::Refused,
    }
}

/// What an answer means for a reversal or a presentment.
fn later_outcome(answer: &Answer) -> Outcome {
    match &answer.response {
        b"00" => Outcome::Accepted { amount_minor: 0 },
        b"96" => Outcome::Unknown,
        b"91" => Outcome::NotTaken,
        _ => Outcome::Refused,
    }
}
