//! Data directories as `init` makes them, with the program instead of test cards: they can be
//! opened by an engine alone and served by a whole switch.

mod stored_directory;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::directory::access_token::{AccessScope, AccessTokenCommand, NewAccessToken};
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::domain::ids::AccessTokenId;
use cardswitch_engine::engine::{Engine, EngineOptions, Retention};
use cardswitch_engine::journal::limits::CommitLimits;
use cardswitch_engine::shard::CacheLimits;
use cardswitch_engine::store::Pacing;
use cardswitch_feed::Card;
use cardswitch_secrets::master_key::data_key::{DataKey, WrappedKey, write_wrapped};
use cardswitch_secrets::master_key::{MASTER_KEY_FILE, MasterKey};
use cardswitch_secrets::pan::Pan;
use cardswitch_secrets::{Secrets, token_digest};
pub use stored_directory::{
    authorize_many, directory_bytes, files_below, read_files, stored_cards, stored_transactions,
};
use tempfile::TempDir;
use uuid::Uuid;

use crate::caller::{ClosedLoopCaller, wait_for_tables};
use crate::program::{EXPIRES_ON, Program, card_id, company_id, founding, pan_hash};

/// The access token of `/v1`.
pub const ACCESS_TOKEN: &str = "bench-access-token";
/// The key of the HTTP network door.
pub const NETWORK_KEY: &str = "bench-network-key";
const DATA_KEY: [u8; 32] = [1; 32];
const DIRECTORY_ID: [u8; 16] = [3; 16];
/// Commands in flight while a program is founded.
const FOUNDING_WINDOW: usize = 1_024;

/// The hashes by which cards are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardHashes {
    /// Numbers that stand for hashes, as `Purchases` names them.
    Simulated,
    /// The hashes of real card numbers, as the doors make them.
    OfNumbers,
}

/// A directory on the disk that `TMPDIR` names; gone with the value.
pub fn temporary_directory() -> TempDir {
    tempfile::tempdir().expect("make a temporary directory")
}

/// A data directory on the disk that `TMPDIR` names; gone with the value.
#[derive(Debug)]
pub struct Installation {
    /// The data directory.
    pub data: PathBuf,
    directory: TempDir,
}

impl Installation {
    /// A program and nothing else.
    pub fn new(program: Program, hashes: CardHashes) -> Self {
        Self::founded(program, hashes, Vec::new())
    }

    /// A program, and all that further commands make.
    pub fn founded(program: Program, hashes: CardHashes, further: Vec<Command>) -> Self {
        let directory = temporary_directory();
        Self { data: install(directory.path(), program, hashes, further), directory }
    }

    /// One with millions of transactions, made anew or copied from the one that is kept.
    pub fn stored() -> Self {
        let directory = temporary_directory();
        Self { data: stored_directory::make_below(directory.path()), directory }
    }

    /// Opens its engine.
    pub fn open(&self, retention: Retention) -> Arc<Engine> {
        Arc::new(open(&self.data, retention))
    }

    /// A path beside it for another file.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Makes a data directory below `parent`, and returns its place.
fn install(parent: &Path, program: Program, hashes: CardHashes, further: Vec<Command>) -> PathBuf {
    let data = parent.join("data");
    let secrets = Secrets::from_root(DATA_KEY);
    drop(DataDirectory::create(&data, DIRECTORY_ID).expect("make a data directory"));
    write_keys(&data, &secrets);
    let engine = Arc::new(open(&data, Retention::Recovery));
    let hash_of = |card| match hashes {
        CardHashes::Simulated => pan_hash(card),
        CardHashes::OfNumbers => secrets.pan_hash(&card_number(card)),
    };
    let cards = founding(program, hash_of).map(|command| seal_first_card(command, &secrets));
    let further = access().chain(further).collect::<Vec<_>>();
    let count = program.companies() + program.cards + further.len() as u64;
    let mut commands = cards.chain(further);
    let mut caller = ClosedLoopCaller::new(Arc::clone(&engine), FOUNDING_WINDOW);
    caller.run(count, || commands.next().expect("found the program"), &mut |reply, _| {
        assert!(matches!(reply, Reply::Done(_)), "the program is founded: {reply:?}");
    });
    wait_for_tables(&engine);
    engine.shut_down();
    data
}

/// Gives a directory its data key, and the master key that wraps it.
fn write_keys(data: &Path, secrets: &Secrets) {
    let master = MasterKey::new([1; 32]);
    master.write_new(&data.join(MASTER_KEY_FILE)).expect("write the master key");
    let wrapped = WrappedKey::wrap(&DataKey::new(DATA_KEY), &master, DIRECTORY_ID);
    write_wrapped(data, &wrapped.expect("wrap the data key"), secrets).expect("write the data key");
}

/// The number of one of the program's cards.
pub fn card_number(card: u64) -> Pan {
    Pan::with_check_digit(format!("411111{card:09}").as_bytes()).expect("make a card number")
}

/// The first cards of a program, as the clients of the doors take them.
pub fn cards(count: u64) -> Vec<Card> {
    let card = |number| Card {
        card_id: card_id(number).0.to_string(),
        allowance_id: String::new(),
        pan: card_number(number).reveal().to_string(),
        expiration: EXPIRES_ON.to_naive(),
        cvv: None,
        pin: None,
        zip: None,
        profile: None,
        interval: None,
    };
    (0..count).map(card).collect()
}

/// Opens the engine of a data directory.
pub fn open(data: &Path, retention: Retention) -> Engine {
    Engine::open(EngineOptions {
        directory: DataDirectory::open(data).expect("open the data directory"),
        id_key: Secrets::from_root(DATA_KEY).id_key(),
        clock: Clock::System,
        retention,
        pacing: Pacing::default(),
        caches: CacheLimits::default(),
        commits: CommitLimits::default(),
    })
    .expect("open an engine")
}

/// The keys of a directory made here.
pub fn secrets() -> Arc<Secrets> {
    Arc::new(Secrets::from_root(DATA_KEY))
}

/// A switch opens its first card to see that it has the right key; no bench opens another.
fn seal_first_card(mut command: Command, secrets: &Secrets) -> Command {
    if let Command::Admin(admin) = &mut command
        && let AdminCommand::Card(CardCommand::Issue(card)) = admin.as_mut()
        && card.id == card_id(0)
    {
        card.sealed_pan = secrets.seal_pan(&card_number(0), card.id).expect("seal a number");
    }
    command
}

fn access() -> impl Iterator<Item = Command> {
    let token = NewAccessToken {
        id: AccessTokenId(Uuid::from_u128(5 << 64)),
        digest: token_digest(ACCESS_TOKEN),
        company: company_id(0),
        scope: AccessScope { admin: true, ..AccessScope::default() },
    };
    let commands = [
        AdminCommand::AccessToken(AccessTokenCommand::Create(token)),
        AdminCommand::SetNetworkKey(token_digest(NETWORK_KEY)),
    ];
    commands.into_iter().map(|command| Command::Admin(Box::new(command)))
}
