//! The loader: reads rows for the shard that are not in its memory, on one thread, with replies in
//! the order of the questions.
//!
//! The shard never waits for the tables to catch up: rows that they do not have yet are in its
//! memory (`shard/recall.rs`). So any snapshot taken after a question answers it.

mod tables;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};

use crate::command::effect::RememberedAnswer;
use crate::domain::ids::{Timestamp, TransactionSeq};
use crate::domain::network_key::Fingerprint;
use crate::inbox::Doorbell;
use crate::shard::{AnswerPlace, LoadedRows, LoadedTransaction, PurchaseKey, RecallRequest};
use crate::steps::{StepOutcome, Steps};
use crate::store::query::DueHolds;

/// The cause of a failed read of the tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tables cannot be read: {0}")]
pub struct RecallError(pub String);

/// The questions of the loader to a snapshot of the tables.
pub trait Recall {
    /// A transaction, declined or not.
    fn transaction(&self, seq: TransactionSeq) -> Result<Option<LoadedTransaction>, RecallError>;

    /// The reply kept at a place.
    fn answer_at(&self, place: AnswerPlace) -> Result<Option<RememberedAnswer>, RecallError>;

    /// The owner of a key: its newest transaction that was not declined and is no refund, or else
    /// its oldest refund, since a refund takes no key over.
    fn owner(&self, key: PurchaseKey) -> Result<Option<LoadedTransaction>, RecallError>;

    /// The replies that may be the one to a message, of all that have one of its keys: see
    /// `Snapshot::answers_to`.
    fn answers_to(&self, message: &Fingerprint) -> Result<PlacedAnswers, RecallError>;

    /// The holds that end after `after` and by `until`, or by an earlier instant if they are many,
    /// with that instant.
    fn holds_due(&self, after: Timestamp, until: Timestamp) -> Result<DueHolds, RecallError>;
}

/// Replies and where they are kept.
pub type PlacedAnswers = Vec<(AnswerPlace, RememberedAnswer)>;

/// Takes snapshots of the tables.
pub trait RecallSource: Send + Sync {
    /// A snapshot of the visible rows.
    fn snapshot(&self) -> Result<Box<dyn Recall + '_>, RecallError>;
}

/// A question of the shard.
#[derive(Clone, Debug)]
pub enum LoaderQuestion {
    /// The needs of a command.
    Command(RecallRequest),
    /// The needs of timers: those of these transactions that can be read.
    Transactions(Vec<TransactionSeq>),
    /// The holds that end after the first instant and by the second.
    Holds(Timestamp, Timestamp),
}

/// The answer of the tables to a question.
#[derive(Clone, Debug)]
pub enum LoaderAnswer {
    /// The answer to `Command` and `Transactions`.
    Loaded(LoadedRows),
    /// The answer to `Holds`.
    Holds(DueHolds),
}

impl LoaderAnswer {
    /// The answer to `Command` or `Transactions`.
    pub(crate) fn into_loaded(self) -> LoadedRows {
        match self {
            Self::Loaded(loaded) => loaded,
            Self::Holds(_) => unreachable!("answers come in the order of the questions"),
        }
    }

    pub(crate) fn into_holds(self) -> DueHolds {
        match self {
            Self::Holds(holds) => holds,
            Self::Loaded(_) => unreachable!("answers come in the order of the questions"),
        }
    }
}

/// The shard's end of the loader.
#[derive(Debug)]
pub struct LoaderEnds {
    /// The sender of questions.
    pub questions: Sender<LoaderQuestion>,
    /// The receiver of answers, in the order of the questions.
    pub answers: Receiver<Result<LoaderAnswer, RecallError>>,
}

/// The loader, as steps. It ends when the shard's end is dropped.
pub struct Loader {
    source: Arc<dyn RecallSource>,
    questions: Receiver<LoaderQuestion>,
    answers: Sender<Result<LoaderAnswer, RecallError>>,
    shard: Arc<Doorbell>,
    /// A question received by `wait`.
    next: Option<LoaderQuestion>,
}

impl Loader {
    /// Makes a loader that rings the shard's bell with each answer.
    pub fn new(source: Arc<dyn RecallSource>, shard: &Arc<Doorbell>) -> (Self, LoaderEnds) {
        // The shard bounds the number of open questions.
        let (questions, asked) = unbounded();
        let (answered, answers) = unbounded();
        let shard = Arc::clone(shard);
        let loader = Self { source, questions: asked, answers: answered, shard, next: None };
        (loader, LoaderEnds { questions, answers })
    }
}

impl Steps for Loader {
    /// Answers one question.
    fn step(&mut self) -> StepOutcome {
        let question = match self.next.take().map_or_else(|| self.questions.try_recv(), Ok) {
            Ok(question) => question,
            Err(TryRecvError::Empty) => return StepOutcome::Idle,
            Err(TryRecvError::Disconnected) => return StepOutcome::Ended,
        };
        if self.answers.send(guard(|| answer(self.source.as_ref(), &question))).is_err() {
            return StepOutcome::Ended;
        }
        self.shard.ring();
        StepOutcome::Worked
    }

    fn wait(&mut self) {
        self.next = self.questions.recv().ok();
    }
}

crate::opaque!(Loader);

/// A panic over pages in disorder must not take the open questions with it.
fn guard<T>(read: impl FnOnce() -> Result<T, RecallError>) -> Result<T, RecallError> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(RecallError("their pages are in disorder".to_owned())))
}

/// Answers one question from a snapshot taken now.
/// Errors: the tables cannot be read.
pub fn answer(
    source: &dyn RecallSource,
    question: &LoaderQuestion,
) -> Result<LoaderAnswer, RecallError> {
    let snapshot = source.snapshot()?;
    match question {
        LoaderQuestion::Command(wanted) => load(&*snapshot, wanted).map(LoaderAnswer::Loaded),
        LoaderQuestion::Transactions(sequences) => {
            // A row that cannot be read keeps no other timer waiting.
            let find = |seq| guard(|| snapshot.transaction(seq)).ok().flatten();
            let transactions = sequences.iter().copied().filter_map(find).collect();
            Ok(LoaderAnswer::Loaded(LoadedRows { transactions, ..LoadedRows::default() }))
        }
        LoaderQuestion::Holds(after, until) => {
            snapshot.holds_due(*after, *until).map(LoaderAnswer::Holds)
        }
    }
}

fn load(tables: &dyn Recall, wanted: &RecallRequest) -> Result<LoadedRows, RecallError> {
    let mut loaded = LoadedRows::default();
    for seq in &wanted.transactions {
        loaded.transactions.extend(tables.transaction(*seq)?);
    }
    for key in &wanted.purchases {
        let owner = tables.owner(*key)?;
        loaded.purchases.push((*key, owner.as_ref().map(|owner| owner.record.seq)));
        loaded.transactions.extend(owner);
    }
    // The reversal of a refund needs the purchase that it gave room to.
    let refunded: Vec<_> =
        loaded.transactions.iter().filter_map(|loaded| loaded.record.refund_of).collect();
    for seq in refunded {
        loaded.transactions.extend(tables.transaction(seq)?);
    }
    for place in &wanted.answers {
        loaded.answers.extend(tables.answer_at(*place)?.map(|answer| (*place, answer)));
    }
    for message in &wanted.messages {
        loaded.answers.extend(tables.answers_to(message)?);
    }
    Ok(loaded)
}
