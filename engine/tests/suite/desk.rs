//! A client of a running engine: hands in commands, waits for their answers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::{
    AuthorizationKind, Authorize, NetworkCommand, PartialApproval,
};
use cardswitch_engine::command::reply::{AuthorizationReply, NetworkReply, Reply};
use cardswitch_engine::command::{Command, TimedCommand};
use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::credential::PresentedCredentials;
use cardswitch_engine::domain::ids::{RecordSeq, Timestamp, TransactionSeq};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::engine::{Engine, EngineOptions, Retention};
use cardswitch_engine::journal::limits::CommitLimits;
use cardswitch_engine::shard::CacheLimits;
use cardswitch_engine::store::{Pacing, Snapshot, WaitPurpose};
use cardswitch_engine::submission::{Envelope, ReplyPort, SubmitError};
use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::samples::{START, admin, facts, network, new_card, new_company, pan};

/// Caches so small that nearly every command needs the tables.
pub(crate) const TINY_CACHES: CacheLimits = CacheLimits {
    recent_transactions: 8,
    loaded_transactions: 16,
    answers: 4,
    message_keys: 128,
    unseen_changes: 8,
};

pub(crate) const ID_KEY: [u8; 16] = *b"an id key, fixed";
/// The one card of `set_up`.
pub(crate) const CARD: u64 = 1;

/// Takes answers.
pub(crate) struct Tray(Sender<(u64, Reply)>);

impl ReplyPort for Tray {
    fn deliver(&self, tag: u64, reply: Reply) {
        self.0.send((tag, reply)).unwrap();
    }
}

/// A caller with one question at a time.
pub(crate) struct Desk {
    pub(crate) engine: Arc<Engine>,
    pub(crate) port: Arc<Tray>,
    pub(crate) answers: Receiver<(u64, Reply)>,
    tags: AtomicU64,
}

pub(crate) fn options(directory: DataDirectory, clock: Clock) -> EngineOptions {
    EngineOptions {
        directory,
        id_key: ID_KEY,
        clock,
        retention: Retention::Forever,
        pacing: Pacing::default(),
        caches: CacheLimits::default(),
        commits: CommitLimits::default(),
    }
}

pub(crate) fn manual() -> Clock {
    Clock::manual(Timestamp(START))
}

impl Desk {
    pub(crate) fn new(engine: Engine) -> Self {
        Self::at(Arc::new(engine))
    }

    /// A desk at an engine that others use, too.
    pub(crate) fn at(engine: Arc<Engine>) -> Self {
        let (port, answers) = unbounded();
        Self { engine, port: Arc::new(Tray(port)), answers, tags: AtomicU64::new(0) }
    }

    /// A desk at the engine of a new directory, or of one that is there.
    pub(crate) fn create(path: &Path) -> Self {
        let directory = DataDirectory::create(path, [3; 16]).unwrap();
        Self::new(Engine::open(options(directory, manual())).unwrap())
    }

    pub(crate) fn open(path: &Path) -> Self {
        let directory = DataDirectory::open(path).unwrap();
        Self::new(Engine::open(options(directory, manual())).unwrap())
    }

    pub(crate) fn envelope(&self, command: impl Into<TimedCommand>) -> Envelope {
        let tag = self.tags.fetch_add(1, Ordering::Relaxed);
        let port: Arc<dyn ReplyPort> = self.port.clone();
        Envelope { command: command.into(), tag, port }
    }

    /// Asks and waits for the answer to just that.
    pub(crate) fn try_ask(&self, command: impl Into<TimedCommand>) -> Result<Reply, SubmitError> {
        let envelope = self.envelope(command);
        let asked = envelope.tag;
        self.engine.submit(vec![envelope])?;
        let (tag, reply) = self.answers.recv().unwrap();
        assert_eq!(tag, asked, "one answer to one question");
        Ok(reply)
    }

    pub(crate) fn ask(&self, command: impl Into<TimedCommand>) -> Reply {
        self.try_ask(command).unwrap()
    }

    pub(crate) fn ask_at(&self, at: i64, command: Command) -> Reply {
        self.ask(TimedCommand { command, supplied_at: Some(Timestamp(at)) })
    }

    /// Asks for a change that is made.
    pub(crate) fn change(&self, command: AdminCommand) -> RecordSeq {
        match self.ask(admin(command)) {
            Reply::Done(seq) => seq,
            other => panic!("not done: {other:?}"),
        }
    }

    /// Makes a company and one card with these terms.
    pub(crate) fn set_up(&self, terms: AllowanceTerms) -> RecordSeq {
        let company = new_company(0, chrono_tz::America::Los_Angeles, 1_000_000_000, 0);
        self.change(AdminCommand::Company(CompanyCommand::Create(company)));
        self.change(AdminCommand::Card(CardCommand::Issue(new_card(CARD, 0, terms))))
    }

    pub(crate) fn set_up_budget(&self, amount: i64) -> RecordSeq {
        self.set_up(AllowanceTerms::budget(Minor(amount)))
    }

    /// A view of the tables once they show everything that is durable.
    pub(crate) fn read(&self) -> Arc<Snapshot> {
        let (reached, wait) = unbounded();
        let newest = self.engine.durable_seq();
        let wake = Box::new(move || reached.send(()).unwrap());
        self.engine.watermark.on_reached(newest, WaitPurpose::Read, wake);
        wait.recv().unwrap();
        assert!(self.engine.watermark.applied() >= newest);
        self.engine.store.read().unwrap()
    }

    pub(crate) fn seq_of(&self, reply: &AuthorizationReply) -> TransactionSeq {
        self.engine.ids.open_transaction_id(reply.transaction.unwrap()).unwrap()
    }
}

/// A purchase on the card of `set_up`; `mark` names it.
pub(crate) fn purchase(amount: i64, mark: u64) -> Command {
    network(NetworkCommand::Authorize(Authorize {
        facts: facts(pan(CARD), amount, mark),
        kind: AuthorizationKind::Purchase,
        credentials: PresentedCredentials::default(),
        partial: PartialApproval::default(),
    }))
}

pub(crate) fn authorization(reply: Reply) -> AuthorizationReply {
    match reply {
        Reply::Network(NetworkReply::Authorization(reply)) => reply,
        other => panic!("no answer to an authorization: {other:?}"),
    }
}
