//! The events still to be delivered to one endpoint, in their order: the state between the event
//! log and the sender. Pure: no clock, no network, no tables.
//!
//! ```text
//! log -> fresh -> sending -> delivered
//!          |         |
//!          |         +-> waiting (tried in vain; due again at an instant) -> given up
//!          +-> held (behind a message of the same transaction that waits)
//! ```
//!
//! A lane that is *abreast* has caught up with the follower, which then hands it each event. A lane
//! that is *behind* reads the log by itself, from its own place. A lane with no room left falls
//! behind; it loses nothing but time.
//!
//! INVARIANT: an event is never sent while an earlier one of its transaction is waiting or held, and
//! one message is sent at a time: events of a transaction arrive in order.

use std::collections::{HashSet, VecDeque};

use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{Timestamp, TransactionSeq};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::schedule::{latest_try, next_try};

/// How many events a message has at most.
pub const MESSAGE_EVENTS_MAX: usize = 100;
/// How many events wait for their first try; more stay in the log.
const FRESH_MAX: usize = 256;
/// How many messages wait to be tried again before no further ones are made.
const WAITING_MAX: usize = 10;
/// How many events wait behind messages of their transactions.
const HELD_MAX: usize = 1_000;
/// The number of failures in a row after which the receiver counts as down. Only messages that wait
/// are then tried, and no further ones are made until it takes one.
const DOWN_FAILURES: u32 = 3;
/// How far apart the tries are at least that are brought forward because the receiver is back.
/// Units: microseconds.
const FORWARD_US: i64 = 60_000_000;

/// An event that is to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedEvent {
    /// Its number in the log.
    pub number: EventNumber,
    /// Its transaction.
    pub transaction: TransactionSeq,
}

/// A message: the events sent as one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookMessage {
    /// The same on every try.
    pub id: Uuid,
    /// Its events, those of a transaction in the order of the log.
    pub entries: Vec<QueuedEvent>,
    /// How often it was tried.
    pub tries: u8,
    /// How many retries of the schedule are used up.
    pub retries: u8,
    /// The instant at which it is due.
    pub due: Timestamp,
    /// The instant at which it is due by the schedule, where it was brought forward.
    pub brought_from: Option<Timestamp>,
}

/// The place of a lane in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Position {
    /// The follower hands it the events after this one.
    Abreast(EventNumber),
    /// It reads the events after this one by itself.
    Behind(EventNumber),
}

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The receiver took it.
    Delivered,
    /// It did not.
    Failed,
    /// There was nothing to tell: none of its events is there any more, or may be delivered.
    Untold,
}

/// The next step of a message after a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFate {
    /// It has arrived.
    Delivered,
    /// It is tried again at this instant.
    Again(Timestamp),
    /// It was tried for the last time.
    GivenUp,
    /// It is dropped: there was nothing to tell, the lane was set back, or the endpoint is off.
    Dropped,
}

/// The state of one endpoint, stored as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    position: Position,
    fresh: VecDeque<QueuedEvent>,
    held: Vec<QueuedEvent>,
    waiting: Vec<WebhookMessage>,
    /// The message that is being sent, and whether the lane was set back meanwhile.
    sending: Option<(WebhookMessage, bool)>,
    failures: u32,
    given_up: u32,
    failing_since: Option<Timestamp>,
    delivered_at: Option<Timestamp>,
    forward_at: Option<Timestamp>,
    /// Whether it is off.
    pub is_off: bool,
}

/// The health of a lane, as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointHealth {
    /// How many messages wait to be tried again.
    pub waiting: usize,
    /// The instant of the first of their tries.
    pub next_try_at: Option<Timestamp>,
    /// Since when no message has arrived although some were tried.
    pub failing_since: Option<Timestamp>,
    /// How many messages were given up since one arrived last.
    pub given_up: u32,
    /// The instant at which a message arrived last.
    pub delivered_at: Option<Timestamp>,
    /// Whether it is catching up with the log.
    pub is_behind: bool,
}

impl Lane {
    /// A lane that gets the events after `number`.
    pub const fn after(number: EventNumber) -> Self {
        Self {
            position: Position::Behind(number),
            fresh: VecDeque::new(),
            held: Vec::new(),
            waiting: Vec::new(),
            sending: None,
            failures: 0,
            given_up: 0,
            failing_since: None,
            delivered_at: None,
            forward_at: None,
            is_off: false,
        }
    }

    /// Hands over an event that the follower has read. A lane without room falls behind. Returns whether
    /// the lane has changed.
    pub fn offer(&mut self, entry: QueuedEvent) -> bool {
        let Position::Abreast(after) = self.position else { return false };
        if self.is_off || entry.number <= after {
            return false;
        }
        if self.fresh.len() >= FRESH_MAX {
            self.position = Position::Behind(EventNumber(entry.number.0 - 1));
        } else {
            self.fresh.push_back(entry);
        }
        true
    }

    /// The event after which the lane wants to read the log by itself, if it does now.
    pub fn wants(&self) -> Option<EventNumber> {
        let has_room = self.fresh.len() < MESSAGE_EVENTS_MAX && !self.is_stalled();
        match self.position {
            Position::Behind(after) if has_room && !self.is_off => Some(after),
            _ => None,
        }
    }

    /// Takes up the events read of the log up to `upto`; the follower has read up to `followed`.
    pub fn take_up(&mut self, entries: Vec<QueuedEvent>, upto: EventNumber, followed: EventNumber) {
        self.fresh.extend(entries);
        self.position =
            if upto >= followed { Position::Abreast(upto) } else { Position::Behind(upto) };
    }

    /// Whether no further message is made before one that waits has arrived.
    fn is_stalled(&self) -> bool {
        let is_down = self.failures >= DOWN_FAILURES && !self.waiting.is_empty();
        is_down || self.waiting.len() >= WAITING_MAX || self.held.len() >= HELD_MAX
    }

    /// Whether it fails at present: such lanes must not take the place of others.
    pub const fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// The instant from which something can be sent; none where there is nothing, or something is
    /// being sent.
    pub fn due(&self) -> Option<Timestamp> {
        if self.is_off || self.sending.is_some() {
            return None;
        }
        if !self.fresh.is_empty() && !self.is_stalled() {
            return Some(Timestamp(i64::MIN));
        }
        self.waiting.iter().map(|message| message.due).min()
    }

    /// The message to send at `now`: a waiting one that is due, else a new one of fresh events.
    /// `name` gives a message of these events its id.
    pub fn start(
        &mut self,
        now: Timestamp,
        name: impl FnOnce(&[QueuedEvent]) -> Uuid,
    ) -> Option<WebhookMessage> {
        if self.is_off || self.sending.is_some() {
            return None;
        }
        let message = self.take_due(now).or_else(|| self.compose(now, name))?;
        self.sending = Some((message.clone(), false));
        Some(message)
    }

    fn take_due(&mut self, now: Timestamp) -> Option<WebhookMessage> {
        let due = self.waiting.iter().enumerate().filter(|(_, message)| message.due <= now);
        let (place, _) = due.min_by_key(|(_, message)| message.due)?;
        Some(self.waiting.remove(place))
    }

    fn compose(
        &mut self,
        now: Timestamp,
        name: impl FnOnce(&[QueuedEvent]) -> Uuid,
    ) -> Option<WebhookMessage> {
        if self.is_stalled() {
            return None;
        }
        let mut blocked = self.waiting_transactions();
        blocked.extend(self.held.iter().map(|entry| entry.transaction));
        let mut entries = Vec::new();
        while entries.len() < MESSAGE_EVENTS_MAX && self.held.len() < HELD_MAX {
            let Some(entry) = self.fresh.pop_front() else { break };
            if blocked.contains(&entry.transaction) {
                self.held.push(entry);
            } else {
                entries.push(entry);
            }
        }
        if entries.is_empty() {
            return None;
        }
        let id = name(&entries);
        Some(WebhookMessage { id, entries, tries: 0, retries: 0, due: now, brought_from: None })
    }

    fn waiting_transactions(&self) -> HashSet<TransactionSeq> {
        let entries = self.waiting.iter().flat_map(|message| &message.entries);
        entries.map(|entry| entry.transaction).collect()
    }

    /// Notes how the message that was being sent has fared.
    pub fn settle(&mut self, outcome: AttemptOutcome, now: Timestamp) -> MessageFate {
        let Some((mut message, is_void)) = self.sending.take() else { return MessageFate::Dropped };
        message.tries = message.tries.saturating_add(1);
        match outcome {
            AttemptOutcome::Untold => {
                self.release();
                MessageFate::Dropped
            }
            AttemptOutcome::Delivered => {
                self.note_delivery(now);
                self.release();
                MessageFate::Delivered
            }
            AttemptOutcome::Failed => {
                self.failures = self.failures.saturating_add(1);
                self.failing_since.get_or_insert(now);
                if is_void || self.is_off { MessageFate::Dropped } else { self.wait(message, now) }
            }
        }
    }

    /// Makes due now what a clock that had leapt ahead made due later than the schedule can.
    pub fn bring_near(&mut self, now: Timestamp) {
        let latest = latest_try(now);
        for message in &mut self.waiting {
            message.brought_from = message.brought_from.filter(|due| *due <= latest);
            if message.due > latest {
                message.due = now;
            }
        }
        self.forward_at = self.forward_at.filter(|at| *at <= latest);
    }

    /// Has a message wait for its next try.
    fn wait(&mut self, mut message: WebhookMessage, now: Timestamp) -> MessageFate {
        let due = match message.brought_from.take() {
            // A try that the schedule does not know uses up none of it.
            Some(due) => Some(due.max(now)),
            None => {
                let due = next_try(message.id, message.retries, now);
                message.retries = message.retries.saturating_add(1);
                due
            }
        };
        let Some(due) = due else {
            self.given_up = self.given_up.saturating_add(1);
            self.release();
            return MessageFate::GivenUp;
        };
        message.due = due;
        self.waiting.push(message);
        MessageFate::Again(due)
    }

    /// Notes that a message was delivered. A receiver that was down is back: waiting messages are
    /// tried at once.
    pub(crate) fn note_delivery(&mut self, now: Timestamp) {
        let was_down = self.failures >= DOWN_FAILURES;
        (self.failures, self.given_up, self.failing_since) = (0, 0, None);
        self.delivered_at = Some(now);
        let is_soon = self.forward_at.is_some_and(|at| now.0.saturating_sub(at.0) < FORWARD_US);
        if !was_down || is_soon {
            return;
        }
        self.forward_at = Some(now);
        for message in &mut self.waiting {
            if message.due > now {
                message.brought_from = Some(message.due);
                message.due = now;
            }
        }
    }

    /// Moves held events that no message blocks any more to the front of the fresh ones.
    fn release(&mut self) {
        let blocked = self.waiting_transactions();
        let held = std::mem::take(&mut self.held);
        let (still, free): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|entry| blocked.contains(&entry.transaction));
        self.held = still;
        for entry in free.into_iter().rev() {
            self.fresh.push_front(entry);
        }
    }

    /// Sets the lane back: the events after `number` are delivered again, and those that were not
    /// delivered yet. The follower has read up to `followed`.
    pub fn recover(&mut self, number: EventNumber, followed: EventNumber) {
        self.restart_after(number.min(self.told_upto(followed)));
    }

    /// Up to which event the log was read for it; the follower has read up to `followed`.
    pub fn read_upto(&self, followed: EventNumber) -> EventNumber {
        match self.position {
            Position::Abreast(after) => after.max(followed),
            Position::Behind(after) => after,
        }
    }

    /// Notes the place up to which the log was read for it: it may be kept without the place of the follower, which has
    /// read up to `followed`.
    pub fn note_read(&mut self, followed: EventNumber) {
        if let Position::Abreast(after) = &mut self.position {
            *after = followed.max(*after);
        }
    }

    /// Takes up events that the log was read past, of transactions of which nothing was delivered
    /// yet.
    pub fn take_missed(&mut self, entries: Vec<QueuedEvent>) {
        if !self.is_off {
            self.fresh.extend(entries);
        }
    }

    /// Notes that the log has lost its part behind `last`, of which the follower had read up to
    /// `followed`: the lane reads its events behind `last` anew.
    pub fn cut(&mut self, last: EventNumber, followed: EventNumber) {
        let newest = self.on_their_way().map(|entry| entry.number).max().unwrap_or_default();
        if newest.max(self.read_upto(followed)) > last {
            self.restart_after(last.min(self.told_upto(followed)));
        }
    }

    /// The event up to which everything is delivered.
    pub(crate) fn told_upto(&self, followed: EventNumber) -> EventNumber {
        let read = self.read_upto(followed);
        let untold = self.oldest().map(|first| EventNumber(first.0 - 1));
        untold.map_or(read, |untold| untold.min(read))
    }

    fn restart_after(&mut self, number: EventNumber) {
        self.position = Position::Behind(number);
        self.fresh.clear();
        self.held.clear();
        self.waiting.clear();
        if let Some((_, is_void)) = &mut self.sending {
            *is_void = true;
        }
        (self.failures, self.given_up, self.failing_since) = (0, 0, None);
    }

    /// Turns the lane off: it keeps nothing but the place up to which everything was delivered. The
    /// follower has read up to `followed`. Returns whether it was on.
    pub fn turn_off(&mut self, followed: EventNumber) -> bool {
        let was_on = !self.is_off;
        if was_on {
            self.is_off = true;
            self.restart_after(self.told_upto(followed));
        }
        was_on
    }

    /// Turns the lane on: it gets the events after `number`, but none again that it got before it
    /// was off. Returns whether it was off.
    pub fn turn_on(&mut self, number: EventNumber) -> bool {
        let was_off = self.is_off;
        if was_off {
            self.is_off = false;
            self.restart_after(number.max(self.read_upto(EventNumber(0))));
        }
        was_off
    }

    /// Resumes a lane that was read back: a message that was being sent when the process ended is
    /// sent again.
    pub fn resume(&mut self) {
        let Some((mut message, is_void)) = self.sending.take() else { return };
        if !is_void {
            message.due = Timestamp(i64::MIN);
            self.waiting.push(message);
        }
    }

    /// How it does.
    pub fn health(&self) -> EndpointHealth {
        EndpointHealth {
            waiting: self.waiting.len(),
            next_try_at: self.waiting.iter().map(|message| message.due).min(),
            failing_since: self.failing_since,
            given_up: self.given_up,
            delivered_at: self.delivered_at,
            is_behind: matches!(self.position, Position::Behind(_)),
        }
    }

    /// How many events are on their way: those in the log that were not read yet not counted.
    pub fn pending(&self) -> usize {
        self.on_their_way().count()
    }

    /// The first event that is on its way, where there is one.
    pub fn oldest(&self) -> Option<EventNumber> {
        self.on_their_way().map(|entry| entry.number).min()
    }

    fn on_their_way(&self) -> impl Iterator<Item = &QueuedEvent> {
        let messages = self.waiting.iter().chain(self.sending.iter().map(|(message, _)| message));
        let told = messages.flat_map(|message| &message.entries);
        told.chain(&self.fresh).chain(&self.held)
    }
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
