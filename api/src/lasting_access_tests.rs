//! Access that ends while an answer waits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use cardswitch_edge::lasting_access::LastingAccess;
use cardswitch_edge::lasting_file::lasting_file;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessTokenCommand;
use cardswitch_engine::domain::ids::{CompanyId, CompanySlot, Timestamp};
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_identity::auth::find_caller;
use cardswitch_identity::state::AppState;
use futures_util::TryStreamExt;
use parking_lot::Mutex;

use crate::bench::{Bench, COMPANY};
use crate::test_world::by_switch;

async fn revoke(state: &AppState, access: &cardswitch_identity::auth::Caller) {
    let revoked =
        AdminCommand::AccessToken(AccessTokenCommand::Revoke(CompanyId(COMPANY), access.token));
    by_switch(state).carry_out(revoked).await.unwrap();
}

fn reader(state: &AppState) -> cardswitch_identity::auth::Caller {
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
    // By the time of this outcome the token is revoked, and no task waited meanwhile.
    let outcome = access.during(async {
        revoke(state, &caller).await;
        7
    });
    assert_eq!(outcome.await, None);
    let mut late = caller.lasting_access(&state.switch);
    assert!(!late.is_open(), "it ended between the request and the wait");
}

#[tokio::test]
async fn a_file_breaks_off_where_access_ends_or_a_piece_fails() {
    let Bench { state, .. } = &Bench::new().await;
    let caller = reader(state);
    // So many pieces, then the end, or a failure for an odd number.
    let pieces_of = |left: u8| {
        let next = |left: u8| async move {
            match left {
                0 => Ok(None),
                1 => Err("broken"),
                _ => Ok(Some((Bytes::from_static(b"piece"), left - 2))),
            }
        };
        let access = caller.lasting_access(&state.switch);
        lasting_file("a file", (left, access), next).into_data_stream()
    };
    assert_eq!(pieces_of(6).try_collect::<Vec<_>>().await.unwrap().len(), 3);
    let mut broken = pieces_of(3);
    assert!(broken.try_next().await.unwrap().is_some());
    assert!(broken.try_next().await.is_err() && broken.try_next().await.unwrap().is_none());
    let mut left_behind = pieces_of(200);
    assert!(left_behind.try_next().await.unwrap().is_some());
    revoke(state, &caller).await;
    assert!(left_behind.try_next().await.is_err());
    assert!(left_behind.try_next().await.unwrap().is_none());
}

/// The turn at a long list came after the token was revoked, and the list was read and told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_list_whose_turn_comes_after_the_end_of_access_is_not_read() {
    let Bench { state, .. } = Bench::new().await;
    let caller = reader(&state);
    let (let_go, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let listing = |is_read: Arc<AtomicUsize>, read: Box<dyn Fn() + Send + Sync>| {
        let (switch, access) = (state.switch.clone(), caller.lasting_access(&state.switch));
        tokio::spawn(async move {
            let list = |_: &Snapshot| match is_read.fetch_add(1, Ordering::Relaxed) {
                0 => Err(StoreError::LongScan),
                _ => {
                    read();
                    Ok(())
                }
            };
            switch.read_lists((CompanySlot(0), access), list).await
        })
    };
    let reads: [Arc<AtomicUsize>; 2] = Default::default();
    let reached = async |place: usize, count| {
        while reads[place].load(Ordering::Relaxed) < count {
            tokio::task::yield_now().await;
        }
    };
    // Nothing is ever sent: it ends with the other half.
    let holds = Box::new(move || assert!(held.lock().recv().is_err()));
    let first = listing(Arc::clone(&reads[0]), holds);
    reached(0, 2).await;
    let second = listing(Arc::clone(&reads[1]), Box::new(|| ()));
    reached(1, 1).await;
    revoke(&state, &caller).await;
    drop(let_go);
    assert!(first.await.unwrap().unwrap().is_some());
    assert!(second.await.unwrap().unwrap().is_none());
    assert_eq!(reads[1].load(Ordering::Relaxed), 1);
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
        by_switch(state).carry_out(AdminCommand::SetNetworkKey([key; 32])).await.unwrap();
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
    bench.advance("2026-03-04T20:00:59Z");
    assert!(!access.is_open());
}

#[tokio::test]
async fn tables_that_cannot_be_read_give_no_access() {
    let Bench { state, .. } = &Bench::new().await;
    let unreadable = |_: &Snapshot| Err(StoreError::Inconsistent { what: String::new() });
    assert!(!LastingAccess::new(&state.switch, None, unreadable).is_open());
}
