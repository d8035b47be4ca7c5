//! Failed sign-ins: audit events, and a letter to a user whose password somebody knows.
//!
//! The first, second, fourth, eighth failure of a user in a day, and so on, is audited, so a
//! million guesses leave twenty events. Another task writes event and letter after the answer, so
//! the answer's time does not tell whether there is such a user. Counts are in memory and begin
//! anew with the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cardswitch_bounds::{BLOCKING, BoundedTable, TableEntry, share};
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::user::{SignInProof, User, UserCommand};
use cardswitch_engine::domain::ids::UserId;
use cardswitch_notify::mail::Letter;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::actor_state::ActorState;

/// The window in which failures are counted.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The most users whose failures are counted.
const USERS_MAX: usize = 10_000;
/// The wrong second factor of which the user gets a letter.
const LETTER_AT: u32 = 5;

/// Bounds the tasks that write events and letters; failures beyond it are only counted.
static TOLD_AT_ONCE: Semaphore = Semaphore::const_new(16);

/// Counts failed sign-ins.
#[derive(Debug)]
pub struct SignInFailures {
    users: Mutex<BoundedTable<UserId, Failures>>,
    /// The failures with addresses that nobody has.
    of_nobody: AtomicU64,
}

impl Default for SignInFailures {
    fn default() -> Self {
        Self { users: Mutex::new(BoundedTable::new(USERS_MAX)), of_nobody: AtomicU64::new(0) }
    }
}

/// The failures of one user.
#[derive(Clone, Copy, Debug)]
struct Failures {
    since: Instant,
    all: u32,
    /// Wrong second factors since the last right one.
    factors: u32,
    is_warned: bool,
}

impl TableEntry for Failures {
    type Time = Instant;

    fn ends_at(&self) -> Option<Instant> {
        Some(self.since + DAY)
    }

    fn weight(&self) -> u64 {
        if self.is_warned { BLOCKING } else { share(self.all, u32::MAX) }
    }
}

/// The events and letters that a failure causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FailureNews {
    is_audited: bool,
    is_letter_due: bool,
}

impl SignInFailures {
    fn count(&self, user: UserId, proof: SignInProof, now: Instant) -> FailureNews {
        let fresh = || Failures { since: now, all: 0, factors: 0, is_warned: false };
        let counted = self.users.lock().change(user, now, fresh, |known| {
            known.all = known.all.saturating_add(1);
            if proof != SignInProof::Password {
                known.factors = known.factors.saturating_add(1);
            }
            let is_letter_due = known.factors >= LETTER_AT && !known.is_warned;
            known.is_warned |= is_letter_due;
            FailureNews { is_audited: known.all.is_power_of_two(), is_letter_due }
        });
        counted.unwrap_or_default()
    }

    /// Forgets wrong second factors: a user who has proven everything mistyped them.
    pub fn forget_factors(&self, user: UserId) {
        self.users.lock().change_known(user, |known| known.factors = 0);
    }
}

/// Notes a failed sign-in, of `user` where a user has the address.
pub fn note_failure(state: &ActorState, user: Option<&User>, proof: SignInProof) {
    let failures = &state.throttle.failures;
    let Some(user) = user else {
        let count = failures.of_nobody.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            tracing::info!(count, "sign-ins failed with addresses that nobody has");
        }
        return;
    };
    let news = failures.count(user.id, proof, Instant::now());
    if news == FailureNews::default() {
        return;
    }
    tracing::info!(user = %user.id.0, ?proof, "a sign-in failed");
    let Ok(place) = TOLD_AT_ONCE.try_acquire() else { return };
    let (state, user, email) = (state.clone(), user.id, user.email.clone());
    tokio::spawn(async move {
        let _place = place;
        if news.is_audited
            && let Err(error) = state
                .carry_out(AdminCommand::User(UserCommand::NoteSignInFailed(user, proof)))
                .await
        {
            tracing::warn!(?error, "a failed sign-in is not in the audit log");
        }
        if news.is_letter_due {
            let link = state.urls().page("/password/forgot");
            state.outbox.post(Letter::password_is_known(&email, &link)).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const USER: UserId = UserId(Uuid::from_u128(1));

    #[test]
    fn a_million_failures_of_a_day_are_twenty_events() {
        let (failures, now) = (SignInFailures::default(), Instant::now());
        let count = |now| failures.count(USER, SignInProof::Password, now).is_audited;
        assert_eq!((0..1 << 20).filter(|_| count(now)).count(), 21);
        assert!(count(now + DAY), "the first of another day");
    }

    #[test]
    fn five_wrong_factors_are_one_letter() {
        let (failures, now) = (SignInFailures::default(), Instant::now());
        let wrong = |proof| failures.count(USER, proof, now).is_letter_due;
        assert!((0..100).all(|_| !wrong(SignInProof::Password)));
        assert!((0..4).all(|_| !wrong(SignInProof::Totp)));
        failures.forget_factors(USER);
        let told: Vec<_> = (0..50).map(|_| wrong(SignInProof::SecurityQuestion)).collect();
        assert_eq!(told.iter().position(|is_due| *is_due), Some(4));
        assert_eq!(told.iter().filter(|is_due| **is_due).count(), 1);
    }
}
