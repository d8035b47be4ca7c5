//! Another key for card numbers, while the switch goes on.
//!
//! | step | what is durable then | after a crash |
//! |---|---|---|
//! | 1. a new generation is written to the file of keys | its key | the next start tells the engine, and so the rotation goes on |
//! | 2. the engine takes it (`PanKeyCommand::Rotate`) | its use: a directory without its key is refused | cards are re-sealed from the next start on |
//! | 3. new cards are sealed under it, all others re-sealed (`resealing`) | each card's number says its generation | a look at the cards finds the rest |
//! | 4. an operator has the older ones forgotten: the engine first, then the file | no card is made under them any more; then their keys are gone | the next start makes the file agree with the engine |
//!
//! In a cluster every node takes the keys before steps 1 and 4 are done (`node_pan_keys`). A generation that no
//! journal record names is dropped by the next leader: after step 1 an operator rotates once more.
//!
//! Authorizations find cards by a keyed hash of their number, whose key stays: none of this concerns them.

mod resealing;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cardswitch_edge::switch::Switch;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::directory::pan_key::PanKeyCommand;
use cardswitch_engine::domain::pan_key::PanGeneration;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::submission::SubmitError;
use cardswitch_secrets::{PanKeys, PanKeysError, Secrets};
use cardswitch_wire::time::render_time;
use parking_lot::Mutex;
pub use resealing::ResealingPace;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use crate::install::by_operator;
use crate::node_pan_keys::{GivingError, PanKeyNodes};

/// How long to wait where the engine takes nothing for the moment, and how often.
const BUSY_PAUSE: Duration = Duration::from_millis(200);
const TELLS_MAX: usize = 25;
/// How often the keys are given to the other nodes of a cluster.
const GIVE_EVERY: Duration = Duration::from_secs(1);

/// Why the key of card numbers is not another one, or the older ones are not forgotten.
#[derive(Debug, thiserror::Error)]
pub enum PanRotationError {
    /// The keys themselves.
    #[error(transparent)]
    Keys(#[from] PanKeysError),
    /// A node of the cluster does not have them.
    #[error(transparent)]
    Nodes(#[from] GivingError),
    /// So many cards are sealed under older generations.
    #[error("the older keys are in use: {0} card numbers are still to be re-sealed")]
    InUse(u64),
    /// There is no older generation.
    #[error("there is no older key to forget")]
    NothingToForget,
    /// So many cards have a number that no key opens.
    #[error("{0} card numbers are opened by no key that is there: they were left as they are")]
    Unreadable(u64),
    /// The engine knows a newer generation than the file of keys.
    #[error(
        "the file of keys of card numbers is older than the rest of the directory: take it from a \
         later backup"
    )]
    Outdated,
    /// The engine took nothing.
    #[error(transparent)]
    NotTaken(SubmitError),
    /// The journal failed.
    #[error("the journal failed; the outcome is unknown until a restart")]
    OutcomeUnknown,
    /// The tables cannot be read, or do not follow.
    #[error("the tables: {0}")]
    Tables(String),
}

impl From<StoreError> for PanRotationError {
    fn from(error: StoreError) -> Self {
        Self::Tables(error.to_string())
    }
}

/// The generations that are kept, and how many cards are sealed under each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PanKeyReport {
    /// The oldest first; the last one seals.
    pub generations: Vec<GenerationReport>,
    /// How many cards are still to be re-sealed.
    pub cards_left: u64,
}

/// One generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationReport {
    /// Its number.
    pub generation: u32,
    /// When it was made; none for the first, which is as old as the directory.
    pub made_at: Option<String>,
    /// How many cards are sealed under it.
    pub cards: u64,
}

/// How far re-sealing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PanKeyProgress {
    /// The generation that seals.
    pub generation: u32,
    /// How many cards are still to be re-sealed.
    pub cards_left: u64,
    /// Whether cards are being re-sealed; otherwise none are left, or only cards that no key opens.
    pub is_working: bool,
}

/// The progress of re-sealing, for the figures.
#[derive(Debug, Default)]
pub struct ResealingProgress {
    left: AtomicU64,
    /// How often cards were to be looked through, and how often that was done.
    asked: AtomicU64,
    done: AtomicU64,
}

impl ResealingProgress {
    /// How many cards are still to be re-sealed, as far as they were counted.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }
}

/// The keys of card numbers of one switch.
#[derive(Debug)]
pub struct PanRotation {
    switch: Switch,
    secrets: Arc<Secrets>,
    data: PathBuf,
    pace: ResealingPace,
    /// The other nodes, in a cluster.
    nodes: Option<PanKeyNodes>,
    keys: Mutex<PanKeys>,
    /// One change of the keys at a time.
    changing: tokio::sync::Mutex<()>,
    /// The progress that figures read.
    pub progress: Arc<ResealingProgress>,
    wake: Notify,
}

impl PanRotation {
    /// With the keys that stand in the data directory, which the secrets have taken; in a cluster, those of all
    /// its nodes, where this one leads.
    /// Errors: they cannot be read.
    pub fn new(
        switch: Switch,
        secrets: Arc<Secrets>,
        data: &Path,
        pace: ResealingPace,
        nodes: Option<PanKeyNodes>,
    ) -> Result<Self, PanRotationError> {
        let keys = Mutex::new(secrets.read_pan_keys(data)?);
        let data = data.to_path_buf();
        let (changing, progress) = (tokio::sync::Mutex::new(()), Arc::default());
        let wake = Notify::new();
        Ok(Self { switch, secrets, data, pace, nodes, keys, changing, progress, wake })
    }

    /// Tells the engine of the newest generation, where a crash came between file and engine, and
    /// asks for cards to be looked through where there are older ones.
    /// Errors: the engine knows a newer one: the file of keys is an old one.
    pub async fn resume(&self) -> Result<(), PanRotationError> {
        let newest = self.keys.lock().newest();
        self.tell(AdminCommand::PanKey(PanKeyCommand::Rotate(newest))).await?;
        if self.has_older() {
            self.look_through();
        }
        Ok(())
    }

    /// Makes another generation, under which new cards are sealed from now on, and has the others
    /// re-sealed.
    /// Errors: it cannot be kept, or a node of the cluster does not take it.
    pub async fn rotate(&self) -> Result<PanKeyProgress, PanRotationError> {
        let _changing = self.changing.lock().await;
        let keys = self.keys.lock().clone();
        let at = self.switch.engine.now();
        let keys = keys.with(at, Secrets::fresh_pan_key()?)?;
        // If one node refuses, the nodes before it are given the former keys.
        self.give(&keys).await?;
        self.write(&keys).await?;
        // From here on a start finds it, so it is known here, too, for any answer of the engine.
        *self.keys.lock() = keys.clone();
        let newest = keys.newest();
        self.tell(AdminCommand::PanKey(PanKeyCommand::Rotate(newest))).await?;
        self.secrets.take_pan_keys(&keys);
        tracing::info!(generation = newest.0, "another key seals card numbers from now on");
        let cards = self.count().await?;
        self.progress.left.store(before(&cards, newest), Ordering::Relaxed);
        self.look_through();
        Ok(self.progress())
    }

    /// Counts the cards of each generation.
    /// Errors: the tables cannot be read.
    /// Cost: O(cards).
    pub async fn report(&self) -> Result<PanKeyReport, PanRotationError> {
        let cards = self.count().await?;
        let keys = self.keys.lock().clone();
        let generation = |generation: PanGeneration| GenerationReport {
            generation: generation.0,
            made_at: keys.made_at(generation).map(render_time),
            cards: cards.get(&generation).copied().unwrap_or(0),
        };
        let generations = keys.generations().map(generation).collect();
        Ok(PanKeyReport { generations, cards_left: before(&cards, keys.newest()) })
    }

    /// How far re-sealing has come, at no cost.
    pub fn progress(&self) -> PanKeyProgress {
        let ResealingProgress { left, asked, done } = &*self.progress;
        PanKeyProgress {
            generation: self.keys.lock().newest().0,
            cards_left: left.load(Ordering::Relaxed),
            is_working: asked.load(Ordering::Acquire) > done.load(Ordering::Acquire),
        }
    }

    /// Lets go of every generation but the newest.
    /// Errors: a card, terminated ones among them, is still sealed under an older one, or a node of the cluster
    /// is away.
    pub async fn forget(&self) -> Result<PanKeyReport, PanRotationError> {
        let _changing = self.changing.lock().await;
        let keys = self.keys.lock().clone();
        // Another node may have older ones where this one has not.
        if !self.has_older() && (self.nodes.is_none() || keys == PanKeys::default()) {
            return Err(PanRotationError::NothingToForget);
        }
        self.refuse_in_use(&keys).await?;
        // Whether all are there is known before anything changes.
        self.give(&keys).await?;
        // From here on no card is made under an older one; another count shows the cards that were on
        // their way.
        self.tell(AdminCommand::PanKey(PanKeyCommand::Forget(keys.newest()))).await?;
        self.refuse_in_use(&keys).await?;
        let kept = keys.with_newest_alone();
        self.write(&kept).await?;
        *self.keys.lock() = kept.clone();
        self.secrets.take_pan_keys(&kept);
        self.give(&kept).await?;
        tracing::info!(generation = kept.newest().0, "older keys of card numbers are forgotten");
        self.report().await
    }

    /// Errors: a card is sealed under an older generation than the newest.
    async fn refuse_in_use(&self, keys: &PanKeys) -> Result<(), PanRotationError> {
        let left = before(&self.count().await?, keys.newest());
        if left == 0 {
            return Ok(());
        }
        // Cards that were made while everything was looked through are found by the next look.
        self.look_through();
        Err(PanRotationError::InUse(left))
    }

    fn has_older(&self) -> bool {
        self.keys.lock().generations().count() > 1
    }

    fn look_through(&self) {
        self.progress.asked.fetch_add(1, Ordering::AcqRel);
        self.wake.notify_one();
    }

    /// Errors: a node of the cluster does not take them.
    async fn give(&self, keys: &PanKeys) -> Result<(), PanRotationError> {
        match &self.nodes {
            Some(nodes) => Ok(nodes.give_to_all(keys).await?),
            None => Ok(()),
        }
    }

    /// Gives the keys to the nodes that are there, again and again.
    async fn keep_giving(&self, nodes: &PanKeyNodes) {
        loop {
            let changing = self.changing.lock().await;
            let keys = self.keys.lock().clone();
            nodes.give_to_present(&keys).await;
            drop(changing);
            tokio::time::sleep(GIVE_EVERY).await;
        }
    }

    async fn write(&self, keys: &PanKeys) -> Result<(), PanRotationError> {
        let (secrets, data, keys) = (Arc::clone(&self.secrets), self.data.clone(), keys.clone());
        let written =
            tokio::task::spawn_blocking(move || secrets.write_pan_keys(&data, &keys)).await;
        written.map_err(|error| PanRotationError::Tables(error.to_string()))?.map_err(Into::into)
    }

    /// Errors: the engine did not do it, or that is unknown.
    async fn tell(&self, command: AdminCommand) -> Result<(), PanRotationError> {
        for _ in 0..TELLS_MAX {
            match self.switch.ask(by_operator(command.clone())).await {
                Ok(Reply::Done(_)) => return Ok(()),
                Ok(Reply::Rejected(Rejection::PanKeyOutdated | Rejection::PanKeyUnknown)) => {
                    return Err(PanRotationError::Outdated);
                }
                Ok(_) => return Err(PanRotationError::OutcomeUnknown),
                Err(SubmitError::Overloaded) => tokio::time::sleep(BUSY_PAUSE).await,
                Err(error) => return Err(PanRotationError::NotTaken(error)),
            }
        }
        Err(PanRotationError::NotTaken(SubmitError::Overloaded))
    }
}

/// How many cards are sealed under a generation before `newest`.
fn before(cards: &BTreeMap<PanGeneration, u64>, newest: PanGeneration) -> u64 {
    cards.range(..newest).map(|(_, count)| count).sum()
}

/// Has cards re-sealed, and gives the keys to the other nodes of a cluster, until the switch stops.
pub async fn run(rotation: Arc<PanRotation>, stopped: watch::Receiver<bool>) {
    tokio::join!(give(&rotation, stopped.clone()), reseal(&rotation, stopped));
}

async fn give(rotation: &PanRotation, mut stopped: watch::Receiver<bool>) {
    let Some(nodes) = &rotation.nodes else { return };
    tokio::select! {
        () = rotation.keep_giving(nodes) => {}
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
}

async fn reseal(rotation: &PanRotation, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = rotation.wake.notified() => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        rotation.reseal_asked(&stopped).await;
        if *stopped.borrow() {
            return;
        }
    }
}
