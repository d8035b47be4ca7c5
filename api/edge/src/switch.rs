//! The edges' way into the engine: submitting from async code, and reading the answered changes.
//!
//! A command is one message: a caller that hangs up while waiting loses the answer, never half a
//! change. Reads see every change that was durable when they came, if the tables are up in time.

mod event_news;

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::command::{Command, TimedCommand};
use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{CardId, CompanySlot, RecordSeq};
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_engine::engine::Engine;
use cardswitch_engine::store::query::CardRow;
use cardswitch_engine::store::{Snapshot, StoreError, WaitPurpose};
use cardswitch_engine::submission::{Envelope, ReplyPort, SubmitError};
use cardswitch_secrets::issuing::{CellRandom, SystemRandom};
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use self::event_news::EventNews;
use crate::company_turns::CompanyTurns;
use crate::error::ApiError;
use crate::lasting_access::LastingAccess;
use crate::network_facts::{CardFacts, NetworkFacts};

/// How long anybody waits for the tables to catch up; beyond, reads show what there is.
const VISIBLE_WAIT: Duration = Duration::from_secs(5);
/// How long a read waits until it is certain that the node still leads.
const CONFIRM_WAIT: Duration = Duration::from_secs(3);

/// The engine as the edges see it; cheap to clone.
#[derive(Clone, Debug)]
pub struct Switch {
    /// The engine itself.
    pub engine: Arc<Engine>,
    facts: Arc<NetworkFacts>,
    news: Arc<EventNews>,
    /// The newest record that may have changed who may see what.
    access: Arc<watch::Sender<RecordSeq>>,
    /// Turns at reading long lists.
    long_reads: Arc<CompanyTurns>,
}

/// The rows that lists look at on a thread that serves others meanwhile: some milliseconds.
const SHORT_SCAN_ROWS: usize = 1_000;

impl Switch {
    /// The way into `engine`.
    pub fn new(engine: Arc<Engine>) -> Self {
        let access = Arc::new(watch::Sender::new(RecordSeq(0)));
        let told = Arc::clone(&access);
        engine.watermark.on_access_change(move |seq| {
            told.send_replace(seq);
        });
        Self {
            engine,
            facts: Arc::default(),
            news: Arc::default(),
            access,
            long_reads: long_read_turns(),
        }
    }

    /// Randomness whose ids, tokens and card numbers name the cell of this switch, if it is of one.
    pub fn random(&self) -> CellRandom<SystemRandom> {
        CellRandom::new(SystemRandom, self.engine.directory.cell())
    }

    /// An id of this switch, later than those before.
    pub fn new_id(&self) -> Uuid {
        let (id, cell) = (Uuid::now_v7(), self.engine.directory.cell());
        cell.map_or(id, |cell| cell.mark_id(id))
    }

    /// Asks the shard and waits for its answer, which is durable.
    /// Errors: the command never entered the engine.
    pub async fn ask(&self, command: TimedCommand) -> Result<Reply, SubmitError> {
        let (answer, answered) = oneshot::channel();
        let port = Arc::new(SinglePort { answer: Mutex::new(Some(answer)) });
        self.engine.submit(vec![Envelope { command, tag: 0, port }])?;
        // A port that goes without its answer belonged to an engine that stopped.
        Ok(answered.await.unwrap_or(Reply::OutcomeUnknown))
    }

    /// Asks several things as one batch and waits for all answers, in the order of the commands.
    /// Errors: none of the commands entered the engine.
    pub async fn ask_many(&self, commands: Vec<TimedCommand>) -> Result<Vec<Reply>, SubmitError> {
        let count = commands.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let (port, answered) = BatchPort::new(count);
        let envelope = |(tag, command)| Envelope {
            command,
            tag,
            port: Arc::clone(&port) as Arc<dyn ReplyPort>,
        };
        let envelopes = (0..).zip(commands).map(envelope).collect();
        drop(port);
        self.engine.submit(envelopes)?;
        // A port that goes without all its answers belonged to an engine that stopped.
        Ok(answered.await.unwrap_or_else(|_| vec![Reply::OutcomeUnknown; count]))
    }

    /// Waits, not for ever, until reads show the record `seq`, which was made for the caller.
    /// Returns whether they do.
    pub async fn visible(&self, seq: RecordSeq) -> bool {
        self.visible_within(seq, VISIBLE_WAIT).await
    }

    /// As `visible`, waiting no longer than `wait`.
    pub async fn visible_within(&self, seq: RecordSeq, wait: Duration) -> bool {
        self.reached(seq, WaitPurpose::OwnChange, wait).await
    }

    /// Makes sure that all that is durable is known here. If another node can lead, a command
    /// without a record is answered only after it was seen that none does. Calls at the same time
    /// share that check.
    /// Errors: `no_leader`, also where the check takes too long; overloaded.
    pub async fn confirm(&self) -> Result<(), ApiError> {
        if !self.engine.is_replicated {
            return Ok(());
        }
        let asked = self.ask(Command::Tick.into());
        match tokio::time::timeout(CONFIRM_WAIT, asked).await {
            Ok(Ok(Reply::Ticked)) => Ok(()),
            Ok(Err(SubmitError::Overloaded)) => Err(ApiError::overloaded()),
            _ => Err(ApiError::no_leader()),
        }
    }

    /// The newest record that reads show from now on, once they show everything that was durable when
    /// this was called: what is read next is at least as new.
    pub async fn shown_seq(&self) -> RecordSeq {
        self.reached(self.engine.durable_seq(), WaitPurpose::Read, VISIBLE_WAIT).await;
        self.engine.watermark.applied()
    }

    async fn reached(&self, seq: RecordSeq, awaiting: WaitPurpose, patience: Duration) -> bool {
        let watermark = &self.engine.watermark;
        if watermark.applied() >= seq {
            return true;
        }
        let (reached, wait) = oneshot::channel();
        watermark.on_reached(
            seq,
            awaiting,
            Box::new(move || {
                // The waiting caller may be gone.
                let _ = reached.send(());
            }),
        );
        let _ = tokio::time::timeout(patience, wait).await;
        watermark.applied() >= seq
    }

    /// Waits until reads show an event after `after`, and returns the number of the newest; none
    /// where projection has stopped, so that none will come. A waiting call reads nothing
    /// meanwhile.
    /// Errors: the tables cannot be read.
    pub async fn events_beyond(
        &self,
        after: EventNumber,
    ) -> Result<Option<EventNumber>, StoreError> {
        let watermark = &self.engine.watermark;
        let mut changes = self.news.changes();
        loop {
            // The mark comes before the read: a later event is news.
            changes.mark_unchanged();
            let applied = watermark.applied();
            let newest = self.newest_event()?;
            if newest > after {
                return Ok(Some(newest));
            }
            if watermark.is_closed() {
                return Ok(None);
            }
            self.news.listen(watermark, applied);
            if changes.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    /// Changes with each record that may have changed who may see what, before anybody is told that it
    /// was made. Reads show it by then.
    pub fn access_changes(&self) -> watch::Receiver<RecordSeq> {
        self.access.subscribe()
    }

    /// The newest record that may have changed who may see what.
    pub fn newest_access_change(&self) -> RecordSeq {
        *self.access.borrow()
    }

    /// The number of the newest event that reads show; looked up once for all who ask.
    /// Errors: the tables cannot be read.
    pub fn newest_event(&self) -> Result<EventNumber, StoreError> {
        let applied = self.engine.watermark.applied();
        self.news.newest(applied, || self.read_at_once(Snapshot::last_event))
    }

    /// Reads the tables once they show everything that was durable when this was called.
    pub async fn read<T>(
        &self,
        query: impl FnOnce(&Snapshot) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.reached(self.engine.durable_seq(), WaitPurpose::Read, VISIBLE_WAIT).await;
        self.read_at_once(query)
    }

    /// The same for what has lists of a company. Long ones are read apart, when it is the company's
    /// turn, so that they hold up nobody's requests. Returns nothing where access ends before that.
    pub async fn read_lists<T>(
        &self,
        (company, mut access): (CompanySlot, LastingAccess),
        query: impl Fn(&Snapshot) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let read = self.read(|snapshot| query(&snapshot.within(SHORT_SCAN_ROWS))).await;
        if !matches!(read, Err(StoreError::LongScan)) {
            return read.map(Some);
        }
        let turn = access.during(self.long_reads.turn(company)).await;
        turn.map(|_turn| apart(|| self.read_at_once(query))).transpose()
    }

    /// Reads the tables as they are, for what changes rarely and is waited for when it does:
    /// cards, accounts, keys.
    pub fn read_at_once<T>(
        &self,
        query: impl FnOnce(&Snapshot) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        query(&*self.engine.store.read()?)
    }

    /// The digest of the network key, as the tables are.
    pub fn network_key(&self) -> Result<Option<[u8; 32]>, StoreError> {
        let applied = self.engine.watermark.applied();
        self.facts.network_key(applied, || self.read_at_once(Snapshot::network_key))
    }

    /// A view of the tables as they are when something is first looked for in it.
    pub const fn view(&self) -> LazySnapshot<'_> {
        LazySnapshot { switch: self, snapshot: OnceCell::new() }
    }

    /// The currency of the account that pays for a card; none where no such card is there.
    pub fn currency_of_card(
        &self,
        view: &LazySnapshot<'_>,
        card: PanHash,
    ) -> Result<Option<CurrencyCode>, StoreError> {
        if let Some(currency) = self.facts.currency(card) {
            return Ok(Some(currency));
        }
        let snapshot = view.snapshot()?;
        let Some(row) = snapshot.card_by_pan_hash(card)? else { return Ok(None) };
        let Some(account) = snapshot.account(row.record.account)? else { return Ok(None) };
        let currency = account.account.currency;
        self.facts.remember_currency(card, currency);
        Ok(Some(currency))
    }

    /// The facts that never change of the card with this id; none where no such card is there.
    pub fn card_facts(
        &self,
        view: &LazySnapshot<'_>,
        id: CardId,
    ) -> Result<Option<CardFacts>, StoreError> {
        if let Some(facts) = self.facts.card(id) {
            return Ok(Some(facts));
        }
        let snapshot = view.snapshot()?;
        let Some(CardRow { profile, record, .. }) = snapshot.card_by_any_company(id)? else {
            return Ok(None);
        };
        let Some(account) = snapshot.account(record.account)? else { return Ok(None) };
        let (slot, last_four) = (profile.slot, profile.last_four);
        let (pan_hash, currency) = (record.pan_hash, account.account.currency);
        let facts = CardFacts { id, slot, pan_hash, last_four, currency };
        self.facts.remember_card(facts);
        Ok(Some(facts))
    }
}

/// One thread is left to others, be there two or many.
fn long_read_turns() -> Arc<CompanyTurns> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Arc::new(CompanyTurns::new((threads / 2).max(1), 1))
}

/// Works on while another thread takes the requests of this one, where there are several.
fn apart<T>(work: impl FnOnce() -> T) -> T {
    let has_several = Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if has_several { tokio::task::block_in_place(work) } else { work() }
}

/// A view of the tables that stands still once something was looked for in it. Most requests of the
/// network look for nothing that is not known.
/// INVARIANT: never held across a wait: while it lives, the file grows.
#[derive(Debug)]
pub struct LazySnapshot<'a> {
    switch: &'a Switch,
    snapshot: OnceCell<Arc<Snapshot>>,
}

impl LazySnapshot<'_> {
    /// The view itself.
    /// Errors: the tables cannot be read.
    pub fn snapshot(&self) -> Result<&Snapshot, StoreError> {
        if let Some(snapshot) = self.snapshot.get() {
            return Ok(snapshot);
        }
        let snapshot = self.switch.engine.store.read()?;
        Ok(self.snapshot.get_or_init(|| snapshot))
    }
}

/// Takes the answer to one command and wakes the task that waits for it.
struct SinglePort {
    answer: Mutex<Option<oneshot::Sender<Reply>>>,
}

impl ReplyPort for SinglePort {
    fn deliver(&self, _tag: u64, reply: Reply) {
        if let Some(answer) = self.answer.lock().take() {
            // The caller may have hung up.
            let _ = answer.send(reply);
        }
    }
}

/// Gathers the answers to one batch and wakes the task that waits for them.
struct BatchPort {
    pending: Mutex<PendingReplies>,
}

struct PendingReplies {
    replies: Vec<Reply>,
    missing: usize,
    done: Option<oneshot::Sender<Vec<Reply>>>,
}

impl BatchPort {
    fn new(count: usize) -> (Arc<Self>, oneshot::Receiver<Vec<Reply>>) {
        let (done, answered) = oneshot::channel();
        let replies = vec![Reply::OutcomeUnknown; count];
        let pending = PendingReplies { replies, missing: count, done: Some(done) };
        (Arc::new(Self { pending: Mutex::new(pending) }), answered)
    }
}

impl ReplyPort for BatchPort {
    fn deliver(&self, tag: u64, reply: Reply) {
        let mut pending = self.pending.lock();
        let place = usize::try_from(tag).ok().and_then(|tag| pending.replies.get_mut(tag));
        let Some(place) = place else { return };
        *place = reply;
        pending.missing = pending.missing.saturating_sub(1);
        if pending.missing == 0
            && let Some(done) = pending.done.take()
        {
            // The caller may have hung up.
            let _ = done.send(std::mem::take(&mut pending.replies));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_come_back_in_the_order_of_the_questions() {
        let (port, answered) = BatchPort::new(3);
        port.deliver(2, Reply::Done(RecordSeq(2)));
        port.deliver(0, Reply::Done(RecordSeq(0)));
        port.deliver(7, Reply::Ticked);
        port.deliver(1, Reply::Done(RecordSeq(1)));
        let expected: Vec<_> = (0..3).map(|seq| Reply::Done(RecordSeq(seq))).collect();
        assert_eq!(answered.await.unwrap(), expected);
    }

    #[tokio::test]
    async fn a_port_dropped_with_answers_missing_ends_the_wait() {
        let (port, answered) = BatchPort::new(2);
        port.deliver(0, Reply::Ticked);
        drop(port);
        assert!(answered.await.is_err());
    }
}
