//! Delays for guesses of passwords, one-time codes, client secrets and passphrases of shared links.
//!
//! | budget of | after wrong tries | because |
//! |---|---|---|
//! | an account | tries are judged one after the other, each after a wait that grows to 5 s | guesses come from many addresses |
//! | a device that signed in to the account before | the same, apart from everybody else | guesses of others do not hold up the owner |
//! | an address | tries are judged one after the other; beyond a bound refused until the minute is over; on pages the next waits 5 s, as far as there is room | one sender tries many accounts |
//! | an app that has proven itself | as an address, with much higher bounds | its server asks for everybody who uses it |
//!
//! A try holds the turn of its account from before its wait until it is judged, so as many at once
//! are no more than as many in a row. A bounded number waits in line, each for a bounded time. A
//! right password counts however many wrong ones came before. A try that is not judged (its caller
//! hung up, or the switch could not tell) counts as neither. Accounts that do not exist are slowed
//! like those that do. The counts are forgotten when the process ends; none that holds a caller
//! back is forgotten earlier.

use std::time::{Duration, Instant};

pub use cardswitch_bounds::TooManyTries;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::domain::email::email_key;
use cardswitch_engine::domain::ids::{SharedLinkId, UserId};
use cardswitch_secrets::token_digest;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};

use self::lines::{AttemptBudget, AttemptLines, LINE_WAIT_MAX};
pub use self::sources::Source;
use self::sources::Sources;
use super::failures::SignInFailures;
use super::link_guesses::LinkGuesses;

mod lines;
mod sources;

#[cfg(test)]
mod tests;

/// The longest that a try waits.
const DELAY_MAX: Duration = Duration::from_secs(5);
/// How many accounts, devices and sources are remembered of each.
const REMEMBERED_MAX: usize = 40_000;

/// The target of a try.
#[derive(Clone, Copy, Debug)]
pub enum AttemptTarget<'a> {
    /// The password of the user with this e-mail address.
    Password(&'a str),
    /// The second factor of this user.
    SecondFactor(UserId),
    /// The passphrase of this shared link.
    SharedLink(SharedLinkId),
}

impl AttemptTarget<'_> {
    /// The key of the account, of fixed length: memory is bounded whatever is sent.
    fn key(self) -> [u8; 32] {
        match self {
            Self::Password(email) => token_digest(&format!("password {}", email_key(email))),
            Self::SecondFactor(user) => token_digest(&format!("second factor {}", user.0)),
            Self::SharedLink(link) => token_digest(&format!("shared link {}", link.0)),
        }
    }
}

/// The treatment of a try whose source had too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExcessPolicy {
    /// The try is refused: programs come back by themselves.
    Refused,
    /// The try waits, as far as there is room: people would have to type again.
    Waits,
}

/// Remembers wrong tries.
#[derive(Debug, Default)]
pub struct Throttle {
    lines: AttemptLines,
    sources: Sources,
    /// The tries at shared links.
    pub links: LinkGuesses,
    /// The failed sign-ins for the audit log and for letters to users.
    pub failures: SignInFailures,
}

/// A try under way. A wrong one counts when it ends.
#[derive(Debug)]
#[must_use = "a try that is not judged blames nobody"]
pub struct AdmittedAttempt<'a> {
    throttle: &'a Throttle,
    budget: Option<AttemptBudget>,
    source: Option<Source>,
    /// Its turn in the line of the account.
    turn: Option<OwnedMutexGuard<()>>,
    place: Option<OwnedSemaphorePermit>,
    verdict: Option<AttemptVerdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttemptVerdict {
    Right,
    Wrong,
}

impl Throttle {
    /// Lets a try of a program begin, after the wait that its account is due.
    /// Errors: too many from this source.
    pub async fn admit(
        &self,
        account: Option<AttemptTarget<'_>>,
        source: Option<Source>,
    ) -> Result<AdmittedAttempt<'_>, TooManyTries> {
        self.admit_or(ExcessPolicy::Refused, account, source).await
    }

    /// Lets a try of a person on a page begin, after the waits that its account and its source are
    /// due.
    /// Errors: too many from this source, or at this account, wait already.
    pub async fn admit_on_page(
        &self,
        account: Option<AttemptTarget<'_>>,
        source: Source,
    ) -> Result<AdmittedAttempt<'_>, TooManyTries> {
        self.admit_or(ExcessPolicy::Waits, account, Some(source)).await
    }

    /// Errors: too many from this source, or at this account.
    pub async fn admit_or(
        &self,
        excess: ExcessPolicy,
        account: Option<AttemptTarget<'_>>,
        source: Option<Source>,
    ) -> Result<AdmittedAttempt<'_>, TooManyTries> {
        let (source, now) = (source.map(Source::counted), Instant::now());
        let counted = source.map(|source| self.sources.begin(source, excess, now)).transpose()?;
        let mut attempt = AdmittedAttempt {
            throttle: self,
            budget: None,
            source,
            turn: None,
            place: None,
            verdict: None,
        };
        if let Some((wait, _)) = counted.as_ref().filter(|(wait, _)| !wait.is_zero()) {
            tokio::time::sleep(*wait).await;
        }
        if let Some(budget) = account.map(|account| AttemptBudget::of(account, source)) {
            let turn = self.lines.enter(budget, now)?;
            attempt.budget = Some(budget);
            let turn = tokio::time::timeout(LINE_WAIT_MAX, turn.lock_owned()).await;
            attempt.turn = Some(turn.map_err(|_| too_many(DELAY_MAX))?);
            // No other try of the account is judged until this one is.
            tokio::time::sleep(self.lines.due(budget, Instant::now())).await;
        }
        if let Some((_, places)) = counted {
            // The semaphore is never closed; without a place the try would only be less bounded.
            attempt.place = places.acquire_owned().await.ok();
        }
        Ok(attempt)
    }
}

impl AdmittedAttempt<'_> {
    /// The try was right: the account's wrong tries are forgotten.
    pub fn succeeded(mut self) {
        self.verdict = Some(AttemptVerdict::Right);
    }

    /// The try was wrong.
    pub fn failed(mut self) {
        self.verdict = Some(AttemptVerdict::Wrong);
    }

    /// A try with an answer is right, a refused request is wrong; an overloaded or broken switch
    /// says nothing about it.
    pub fn judge<T>(self, answered: &Result<T, ApiError>) {
        match answered {
            Ok(_) => self.succeeded(),
            Err(error) if [400, 401, 403].contains(&error.status.as_u16()) => self.failed(),
            Err(_) => {}
        }
    }
}

impl Drop for AdmittedAttempt<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        if let Some(source) = self.source {
            self.throttle.sources.end(source, self.verdict, now);
        }
        if let Some(budget) = self.budget {
            self.throttle.lines.leave(budget, self.verdict, now);
        }
        // Only now the next one's wait is known.
        self.turn.take();
    }
}

pub(super) fn too_many(wait: Duration) -> TooManyTries {
    let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
    TooManyTries { retry_after_s: seconds.saturating_add(1) }
}
