//! Access that is asked for once and then lasts: that of polls that wait, of streams, of live pages and
//! of files that are written while they are sent. It is asked again after each wait, and ends the wait.
//!
//! Tables say who may see what. They are looked at when they may say something else, whoever changed
//! them and how. INVARIANT: whoever was told that access has ended can rely on it that nothing more is
//! told: a change wakes those who wait before it is answered.

use std::pin::pin;
use std::time::Duration;

use cardswitch_engine::domain::ids::{RecordSeq, Timestamp};
use cardswitch_engine::store::{Snapshot, StoreError};
use tokio::sync::watch;

use crate::switch::Switch;

/// How long the end of an access may be missed where the switch's clock is moved by hand.
const END_CHECK_MAX: Duration = Duration::from_secs(10);

/// Whether the tables give access.
type Given = Box<dyn Fn(&Snapshot) -> Result<bool, StoreError> + Send + Sync>;

/// See the head of this file.
pub(crate) struct LastingAccess {
    switch: Switch,
    /// When it ends by itself.
    ends_at: Option<Timestamp>,
    is_given: Given,
    changes: watch::Receiver<RecordSeq>,
    has_ended: bool,
}

impl std::fmt::Debug for LastingAccess {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "LastingAccess(has_ended: {})", self.has_ended)
    }
}

impl LastingAccess {
    /// One that ends at `ends_at`, or as soon as the tables do not give it any more.
    pub(crate) fn new(
        switch: &Switch,
        ends_at: Option<Timestamp>,
        is_given: impl Fn(&Snapshot) -> Result<bool, StoreError> + Send + Sync + 'static,
    ) -> Self {
        let mut changes = switch.access_changes();
        // It may have ended since the request was let in.
        changes.mark_changed();
        let is_given = Box::new(is_given);
        Self { switch: switch.clone(), ends_at, is_given, changes, has_ended: false }
    }

    /// Whether it lasts. Cost: a comparison, unless tables may say something else than before.
    pub(crate) fn is_open(&mut self) -> bool {
        let is_over = self.time_left().is_some_and(|left| left.is_zero());
        if !self.has_ended && !is_over && self.changes.has_changed().unwrap_or(true) {
            // In this order: what changes after it was read is looked at next time.
            self.changes.mark_unchanged();
            // Tables that cannot be read give nothing.
            self.has_ended = !self.switch.read_at_once(&self.is_given).unwrap_or(false);
        }
        self.has_ended |= is_over;
        !self.has_ended
    }

    /// Waits for something. Returns nothing as soon as access ends, were it in the same instant.
    pub(crate) async fn during<T>(&mut self, wait: impl Future<Output = T>) -> Option<T> {
        let mut wait = pin!(wait);
        while self.is_open() {
            tokio::select! {
                biased;
                () = self.changed() => {}
                outcome = &mut wait => return self.is_open().then_some(outcome),
            }
        }
        None
    }

    /// Waits until it may have ended.
    async fn changed(&mut self) {
        let left = self.time_left().map(|left| left.min(END_CHECK_MAX));
        let end = async {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // INVARIANT: the switch that is held here holds the other end.
            _ = self.changes.changed() => self.changes.mark_changed(),
            () = end => {}
        }
    }

    /// How long it lasts at most.
    fn time_left(&self) -> Option<Duration> {
        let now = self.switch.engine().clock().now();
        let left_us = |at: Timestamp| u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0);
        self.ends_at.map(|at| Duration::from_micros(left_us(at)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use cardswitch_engine::command::admin::AdminCommand;
    use cardswitch_engine::directory::access_token::AccessTokenCommand;
    use cardswitch_engine::domain::ids::CompanyId;

    use super::*;
    use crate::auth::find_caller;
    use crate::routes::world::{Bench, COMPANY};
    use crate::state::AppState;

    async fn revoke(state: &AppState, access: &crate::auth::Caller) {
        let revoked =
            AdminCommand::AccessToken(AccessTokenCommand::Revoke(CompanyId(COMPANY), access.token));
        state.carry_out(revoked).await.unwrap();
    }

    fn reader(state: &AppState) -> crate::auth::Caller {
        let headers = [("authorization".parse().unwrap(), "Token read".parse().unwrap())];
        find_caller(&headers.into_iter().collect(), state).unwrap()
    }

    #[tokio::test]
    async fn a_wait_ends_with_the_token_and_without_anything_else_happening() {
        let Bench { state, .. } = &Bench::new().await;
        let caller = reader(state);
        let mut access = caller.lasting_access(&state.switch);
        assert_eq!(access.during(std::future::ready(7)).await, Some(7));
        let waiting = tokio::spawn(async move {
            let never = access.during(std::future::pending::<()>()).await;
            (never, access.is_open(), access.during(std::future::ready(7)).await)
        });
        tokio::task::yield_now().await;
        revoke(state, &caller).await;
        assert_eq!(waiting.await.unwrap(), (None, false, None));
    }

    #[tokio::test]
    async fn what_comes_with_the_end_of_access_is_not_told() {
        let Bench { state, .. } = &Bench::new().await;
        let caller = reader(state);
        let mut access = caller.lasting_access(&state.switch);
        // By the time that this has an outcome the token is revoked, and nobody waited meanwhile.
        let outcome = access.during(async {
            revoke(state, &caller).await;
            7
        });
        assert_eq!(outcome.await, None);
        let mut late = caller.lasting_access(&state.switch);
        assert!(!late.is_open(), "it ended between the request and the wait");
    }

    #[tokio::test]
    async fn tables_are_looked_at_when_rights_may_have_changed_and_not_for_anything_else() {
        let Bench { state, .. } = &Bench::new().await;
        let looked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looked);
        let mut access = LastingAccess::new(&state.switch, None, move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(true)
        });
        for key in 0..20 {
            assert!(access.is_open());
            state.carry_out(AdminCommand::SetNetworkKey([key; 32])).await.unwrap();
        }
        assert_eq!(looked.load(Ordering::Relaxed), 1);
        revoke(state, &reader(state)).await;
        assert!(access.is_open() && access.is_open());
        assert_eq!(looked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn access_ends_by_itself_when_its_time_has_come() {
        let bench = &Bench::new().await;
        let switch = &bench.state.switch;
        let ends_at = bench.state.now().plus(60 * Timestamp::SECOND);
        let mut access = LastingAccess::new(switch, Some(ends_at), |_| Ok(true));
        bench.advance("2026-03-04T20:00:59Z");
        assert_eq!(access.during(std::future::ready(7)).await, Some(7));
        bench.advance("2026-03-04T20:01:00Z");
        assert_eq!(access.during(std::future::ready(7)).await, None);
        // Time that went back gives nothing back, nor does anything else.
        access.ends_at = None;
        assert!(!access.is_open());
    }

    #[tokio::test]
    async fn tables_that_cannot_be_read_give_no_access() {
        let Bench { state, .. } = &Bench::new().await;
        let unreadable = |_: &Snapshot| Err(StoreError::Inconsistent { what: String::new() });
        assert!(!LastingAccess::new(&state.switch, None, unreadable).is_open());
    }
}
