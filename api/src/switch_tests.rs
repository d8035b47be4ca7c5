//! Reading from a switch at work, and waiting for its events.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use cardswitch_edge::lasting_access::LastingAccess;
use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::transaction::TransactionCommand;
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{CompanyId, CompanySlot, Timestamp, TransactionSeq};
use cardswitch_engine::domain::transaction_tags::TagChanges;
use cardswitch_engine::store::query::Page;
use cardswitch_engine::store::{Snapshot, StoreError};
use parking_lot::Mutex;
use serde_json::json;

use crate::bench::{Bench, COMPANY};
use crate::test_world::{TestSwitch, by_switch};

#[tokio::test]
async fn who_waits_for_events_is_told_of_them_and_of_nothing_else() {
    let Bench { state, .. } = &Bench::new().await;
    let known = state.switch.events_beyond(EventNumber(0)).await.unwrap().unwrap();
    assert_eq!(known, EventNumber(2), "the opening balances");
    let waiting = tokio::spawn({
        let switch = state.switch.clone();
        async move { switch.events_beyond(known).await }
    });
    for key in 1..20 {
        by_switch(state).carry_out(AdminCommand::SetNetworkKey([key; 32])).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished(), "no transaction was made or changed");
    let opening = |snapshot: &Snapshot| snapshot.transaction(TransactionSeq(1));
    let id = state.switch.read(opening).await.unwrap().unwrap().record.id;
    let note = TagChanges { note: Some("ours".parse().unwrap()), ..TagChanges::default() };
    let tagged = AdminCommand::Transaction(TransactionCommand::Tag(CompanyId(COMPANY), id, note));
    by_switch(state).carry_out(tagged).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), Some(known.next()));
}

/// A receiver that tags transactions when it hears of them heard of its own tags for ever.
#[tokio::test]
async fn tags_that_are_there_already_are_no_event() {
    let bench = Bench::new().await;
    let known = bench.state.switch.events_beyond(EventNumber(0)).await.unwrap().unwrap();
    let transactions = bench.get("/v1/transactions").await;
    let path = format!("/v1/transactions/{}", transactions["results"][0]["id"].as_str().unwrap());
    for body in [json!({"note": "ours"}), json!({"note": "ours", "category": null}), json!({})] {
        let (status, answer) = bench.ask("PUT", &path, body).await;
        assert_eq!((status, &answer["note"]), (200, &json!("ours")));
    }
    let newest = bench.state.switch.events_beyond(known).await.unwrap();
    assert_eq!(newest, Some(known.next()), "the first");
}

#[tokio::test]
async fn however_many_give_up_waiting_one_wake_is_left() {
    let Bench { state, .. } = &Bench::new().await;
    let watermark = &state.switch.engine.watermark;
    let before = watermark.waiting();
    for _ in 0..100 {
        let waiting = state.switch.events_beyond(EventNumber(u64::MAX));
        assert!(tokio::time::timeout(Duration::from_millis(1), waiting).await.is_err());
    }
    assert!(watermark.waiting() <= before + 1, "{} wakes", watermark.waiting());
}

/// Lists under two filters read all rows on the threads of the doors: purchases waited for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_long_list_is_read_beside_the_requests_of_others() {
    let Bench { state, .. } = Bench::new().await;
    let (others, told) = std::sync::mpsc::channel();
    let told = Mutex::new(told);
    let reads = Arc::new(AtomicUsize::new(0));
    let (switch, counted) = (state.switch.clone(), Arc::clone(&reads));
    let access = LastingAccess::new(&switch, None, |_| Ok(true));
    let listing = tokio::spawn(async move {
        let list = |snapshot: &Snapshot| {
            counted.fetch_add(1, Relaxed);
            let rows = snapshot.list_members(CompanySlot(0), &Page::first(1), |_| true)?;
            // As a list of many rows: this one goes on until somebody else was served.
            if counted.load(Relaxed) == 1 {
                return Err(StoreError::LongScan);
            }
            told.lock().recv_timeout(Duration::from_mins(1)).expect("others' requests wait");
            Ok(rows.count)
        };
        switch.read_lists((CompanySlot(0), access), list).await
    });
    while reads.load(Relaxed) < 2 {
        tokio::task::yield_now().await;
    }
    tokio::spawn(async move { others.send(()) }).await.unwrap().unwrap();
    assert!(matches!(listing.await.unwrap(), Ok(Some(_))));
    assert_eq!(reads.load(Relaxed), 2);
}

/// With two times at once nobody signed in, and no code was given, until the clock had caught up.
#[tokio::test]
async fn a_clock_that_was_put_back_is_behind_the_switch_and_not_its_time() {
    let (ahead, behind) = (Timestamp(1_800_000_000_000_000), Timestamp(1_799_950_000_000_000));
    let clock = Arc::new(AtomicI64::new(ahead.0));
    let switch = TestSwitch::start(Clock::Simulated(Arc::clone(&clock)), Vec::new()).await;
    let state = &switch.state;
    by_switch(state).carry_out(AdminCommand::SetNetworkKey([7; 32])).await.unwrap();
    clock.store(behind.0, Relaxed);
    by_switch(state).carry_out(AdminCommand::SetNetworkKey([8; 32])).await.unwrap();
    assert!(state.now() > ahead, "records have it: {:?}", state.now());
    assert_eq!(state.clock_time(), behind, "the devices of one-time passwords have it");
    clock.store(ahead.0 + Timestamp::HOUR, Relaxed);
    assert_eq!(state.now(), ahead.plus(Timestamp::HOUR));
}
