//! Card numbers sealed anew under the newest generation of their key: a few at a time, with a pause
//! after each command, so that purchases are decided as fast as ever.
//!
//! Progress is not stored. Each number says its generation, so a look through the cards shows which are
//! left, also after a crash; and a number that is sealed anew twice is the same number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::directory::pan_key::{PanKeyCommand, ResealedCard};
use cardswitch_engine::domain::ids::CardSlot;
use cardswitch_engine::domain::pan_key::PanGeneration;
use cardswitch_engine::engine::Engine;
use cardswitch_engine::limits;
use cardswitch_engine::submission::SubmitError;
use cardswitch_secrets::{PanKeysError, Secrets};
use tokio::sync::watch;

use super::{BUSY_PAUSE, PanRotation, PanRotationError, before};

/// How many cards are read in one view of the tables.
const READ_LEN_MAX: usize = 1_000;
/// How often the log tells how far it has come.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// How fast cards are re-sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResealingPace {
    /// Beside purchases.
    Gentle,
    /// Without other users.
    AtRest,
}

impl ResealingPace {
    /// The pause after each command.
    const fn pause(self) -> Duration {
        match self {
            Self::Gentle => Duration::from_millis(10),
            Self::AtRest => Duration::ZERO,
        }
    }
}

/// Some numbers sealed anew, and the card with which to go on.
struct ResealedBatch {
    cards: Vec<ResealedCard>,
    /// How many numbers of an older generation no key opens.
    unreadable: u64,
    /// None where these were the last cards.
    next: Option<CardSlot>,
}

/// The result of a look through all cards.
#[derive(Default)]
struct Pass {
    resealed: u64,
    unreadable: u64,
}

impl PanRotation {
    /// Looks through the cards until all requests made until now are done.
    pub async fn reseal_asked(&self, stopped: &watch::Receiver<bool>) {
        let asked = self.progress.asked.load(Ordering::Acquire);
        match self.reseal_all(stopped).await {
            Ok(()) => {}
            Err(PanRotationError::NotTaken(SubmitError::Stopped)) => return,
            // It is tried again at the next start, or when an operator asks.
            Err(error) => tracing::error!(%error, "card numbers stay sealed under older keys"),
        }
        if !*stopped.borrow() {
            self.progress.done.fetch_max(asked, Ordering::AcqRel);
        }
    }

    async fn reseal_all(&self, stopped: &watch::Receiver<bool>) -> Result<(), PanRotationError> {
        let mut resealed = 0;
        loop {
            let newest = self.secrets.pan_generation();
            let left = before(&self.count().await?, newest);
            self.progress.left.store(left, Ordering::Relaxed);
            if left == 0 {
                if resealed > 0 {
                    tracing::info!(
                        generation = newest.0,
                        resealed,
                        "all card numbers are re-sealed"
                    );
                }
                return Ok(());
            }
            if resealed == 0 {
                tracing::info!(generation = newest.0, cards_left = left, "re-sealing card numbers");
            }
            let pass = self.pass(stopped).await?;
            resealed += pass.resealed;
            if *stopped.borrow() {
                return Ok(());
            }
            if pass.resealed == 0 && pass.unreadable > 0 {
                return Err(PanRotationError::Unreadable(pass.unreadable));
            }
        }
    }

    /// Goes through all cards once.
    async fn pass(&self, stopped: &watch::Receiver<bool>) -> Result<Pass, PanRotationError> {
        let (mut pass, mut since) = (Pass::default(), Stopwatch::start());
        let mut from = Some(CardSlot::default());
        while let Some(first) = from.filter(|_| !*stopped.borrow()) {
            let ResealedBatch { cards, unreadable, next } = self.seal_anew(first).await?;
            let count = cards.len() as u64;
            if count > 0 && !self.hand_in(cards).await? {
                continue;
            }
            (from, pass.unreadable) = (next, pass.unreadable + unreadable);
            pass.resealed += count;
            let left = &self.progress.left;
            left.store(left.load(Ordering::Relaxed).saturating_sub(count), Ordering::Relaxed);
            if since.elapsed() >= LOG_INTERVAL {
                since = Stopwatch::start();
                let cards_left = left.load(Ordering::Relaxed);
                tracing::info!(cards_left, "re-sealing card numbers");
            }
            if count > 0 {
                tokio::time::sleep(self.pace.pause()).await;
            }
        }
        Ok(pass)
    }

    /// Has the engine take numbers. Returns whether it did; where not, the same cards are looked at
    /// again.
    /// Errors: it takes nothing any more.
    async fn hand_in(&self, cards: Vec<ResealedCard>) -> Result<bool, PanRotationError> {
        let command = Command::Admin(Box::new(AdminCommand::PanKey(PanKeyCommand::Reseal(cards))));
        match self.switch.ask(command.into()).await {
            Ok(Reply::Done(_)) => return Ok(true),
            // Too much else is to be done, or there is another generation just now.
            Err(SubmitError::Overloaded) | Ok(Reply::Rejected(Rejection::PanKeyOutdated)) => {}
            Err(error) => return Err(PanRotationError::NotTaken(error)),
            Ok(_) => return Err(PanRotationError::OutcomeUnknown),
        }
        tokio::time::sleep(BUSY_PAUSE).await;
        Ok(false)
    }

    /// Seals the numbers of the next cards anew, so many as one command takes.
    async fn seal_anew(&self, first: CardSlot) -> Result<ResealedBatch, PanRotationError> {
        let (engine, secrets) = (Arc::clone(&self.switch.engine), Arc::clone(&self.secrets));
        beside(move || seal_anew(&engine, &secrets, first)).await
    }

    /// How many cards are sealed under each generation, as of now.
    pub(super) async fn count(&self) -> Result<BTreeMap<PanGeneration, u64>, PanRotationError> {
        let engine = Arc::clone(&self.switch.engine);
        // A count covers all durable cards: the older a card, the earlier it is re-sealed.
        while !self.switch.visible(engine.durable_seq()).await {
            if let Some(reason) = engine.projection_failure() {
                return Err(PanRotationError::Tables(reason));
            }
        }
        beside(move || Ok(engine.store.cards_by_pan_generation()?)).await
    }
}

/// Does something long on another thread.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PanRotationError> + Send + 'static,
) -> Result<T, PanRotationError> {
    let worked = tokio::task::spawn_blocking(work).await;
    worked.map_err(|error| PanRotationError::Tables(error.to_string()))?
}

fn seal_anew(
    engine: &Engine,
    secrets: &Secrets,
    first: CardSlot,
) -> Result<ResealedBatch, PanRotationError> {
    let found = engine.store.read()?.sealed_numbers(first, READ_LEN_MAX)?;
    let is_last = found.len() < READ_LEN_MAX;
    let newest = secrets.pan_generation();
    let mut resealed = ResealedBatch { cards: Vec::new(), unreadable: 0, next: None };
    let mut next = first;
    for number in found {
        if resealed.cards.len() == limits::RESEALED_CARDS_MAX {
            return Ok(ResealedBatch { next: Some(number.slot), ..resealed });
        }
        next = CardSlot(number.slot.0.saturating_add(1));
        if number.sealed_pan.generation() >= newest {
            continue;
        }
        let Some(pan) = secrets.open_pan(&number.sealed_pan, number.card) else {
            tracing::error!(card = %number.card.0, "no key opens the number of this card");
            resealed.unreadable += 1;
            continue;
        };
        let sealed_pan = secrets.seal_pan(&pan, number.card).map_err(PanKeysError::Seal)?;
        resealed.cards.push(ResealedCard { card: number.card, sealed_pan });
    }
    Ok(ResealedBatch { next: (!is_last).then_some(next), ..resealed })
}
