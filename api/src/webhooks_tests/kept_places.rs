//! What a file of deliveries keeps: an undelivered event never counts as delivered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::CompanyId;
use cardswitch_engine::domain::text::LineText;
use cardswitch_identity::webhook_endpoints::{GivenEndpoint, create};
use cardswitch_notify::webhooks::attempt::AttemptResult;
use cardswitch_notify::webhooks::dispatcher::{Dispatcher, DispatcherOrder, DispatcherProgress};

use super::world::{
    APP, answer_of, dispatcher_at, dispatcher_of, due_events, empty_file, let_in, make_app,
    make_endpoint, now, touch,
};
use crate::bench::{Bench, COMPANY, OTHER_COMPANY};
use crate::test_world::by_switch;

/// Once, the first purchase of a company that had just let an app in was never told: the switch read it before
/// the token, noted that, and was killed before it read the token.
#[tokio::test]
async fn events_read_before_their_company_is_seen_outlive_a_crash() {
    let bench = &Bench::new().await;
    make_app(bench).await;
    let_in(bench, COMPANY).await;
    bench.advance("2026-03-04T20:01:00Z");
    let (address, description) = ("http://localhost:9/hook".to_owned(), LineText::default());
    let given = GivenEndpoint { address, description, app: Some(APP) };
    create(&by_switch(&bench.state), CompanyId(COMPANY), given).await.unwrap();
    let (_home, deliveries) = empty_file();
    let mut killed = dispatcher_of(bench, &deliveries);
    assert!(due_events(bench, &mut killed).is_empty());
    bench.advance("2026-03-04T20:02:00Z");
    let_in(bench, OTHER_COMPANY).await;
    touch(bench, OTHER_COMPANY, "after").await;
    assert!(due_events(bench, &mut killed).is_empty(), "the token is not seen yet");
    deliveries.save(&killed.take_changes(Duration::ZERO).unwrap()).unwrap();
    drop(killed);
    let last = bench.state.switch.read_at_once(|snapshot| snapshot.last_event()).unwrap();
    let mut restarted = dispatcher_of(bench, &deliveries);
    assert_eq!(due_events(bench, &mut restarted), [last]);
}

/// Once, each event had the lanes of all endpoints of its company written down, those of dead receivers whole: 6 KB
/// an endpoint each second, in a cluster to etcd.
#[tokio::test]
async fn a_lane_that_takes_nothing_of_an_event_is_not_written_down() {
    let bench = &Bench::new().await;
    make_endpoint(bench, "hook").await;
    let (_home, deliveries) = empty_file();
    let mut dispatcher = dispatcher_of(bench, &deliveries);
    due_events(bench, &mut dispatcher);
    // More than the lane has room for: it falls behind.
    for number in 0..300 {
        touch(bench, COMPANY, &number.to_string()).await;
    }
    assert_eq!(due_events(bench, &mut dispatcher).len(), 100);
    let written = dispatcher.take_changes(Duration::ZERO).unwrap();
    assert_eq!(written.lanes.len(), 1);
    let followed = dispatcher.followed();
    touch(bench, COMPANY, "one more").await;
    assert!(due_events(bench, &mut dispatcher).is_empty());
    assert!(dispatcher.followed() > followed, "the event was read");
    assert!(dispatcher.take_changes(Duration::ZERO).is_none_or(|changes| changes.lanes.is_empty()));
}

/// Once, a recovery was answered before it was written down: a crash within a second took it back.
#[tokio::test]
async fn a_recovery_is_answered_once_a_crash_does_not_take_it_back() {
    let bench = &Bench::new().await;
    let id = make_endpoint(bench, "hook").await;
    let (_home, deliveries) = empty_file();
    let mut dispatcher = dispatcher_of(bench, &deliveries);
    assert!(due_events(bench, &mut dispatcher).is_empty(), "it is new");
    deliveries.save(&dispatcher.take_changes(Duration::ZERO).unwrap()).unwrap();
    for (outcome, expected) in [(Err("no room".to_owned()), None), (Ok(()), Some(true))] {
        let order = |reply| DispatcherOrder::Recover(id, EventNumber(0), reply);
        let answer = answer_of(bench, &mut dispatcher, order);
        assert!(dispatcher.is_save_due(Duration::ZERO), "it waits for no later save");
        assert_eq!(*answer.lock(), None, "it is not written down");
        let changes = dispatcher.take_changes(Duration::ZERO).unwrap();
        if outcome.is_ok() {
            deliveries.save(&changes).unwrap();
        }
        dispatcher.end_save(changes, outcome, now(bench));
        assert_eq!((*answer.lock(), Arc::strong_count(&answer)), (expected, 1));
    }
    drop(dispatcher);
    let mut restarted = dispatcher_of(bench, &deliveries);
    assert!(due_events(bench, &mut restarted).contains(&EventNumber(1)));
}

/// Once, a lane whose place was lost began two days before the newest event: what a receiver that was down for longer
/// still lacked was skipped.
#[tokio::test]
async fn a_lane_whose_file_is_lost_goes_on_where_it_owed_events() {
    let bench = &Bench::new().await;
    let down = make_endpoint(bench, "down").await;
    let up = make_endpoint(bench, "up").await;
    let (_home, deliveries) = empty_file();
    let mut dispatcher = dispatcher_of(bench, &deliveries);
    let mut owed = Vec::new();
    for day in ["05", "09", "17"] {
        bench.advance(&format!("2026-03-{day}T20:00:00Z"));
        touch(bench, COMPANY, day).await;
        owed.push(bench.state.switch.read_at_once(|snapshot| snapshot.last_event()).unwrap());
        while dispatcher.step(now(bench)) != DispatcherProgress::Idle {}
        while let Some((request, mut done)) = dispatcher.next_request() {
            let status = if request.endpoint.id == up { 204 } else { 500 };
            done.report.result = AttemptResult::Answered(status);
            dispatcher.end(done, now(bench));
            while dispatcher.step(now(bench)) != DispatcherProgress::Idle {}
        }
    }
    let places = dispatcher.places(&bench.state.switch.engine.store).unwrap().unwrap();
    drop(dispatcher);
    let (_lost, deliveries) = empty_file();
    let mut restarted = dispatcher_at(bench, &deliveries, Some(places));
    while restarted.step(now(bench)) != DispatcherProgress::Idle {}
    let mut told = BTreeMap::new();
    while let Some((request, done)) = restarted.next_request() {
        told.insert(request.endpoint.id, request.content.numbers().to_vec());
        restarted.end(done, now(bench));
        while restarted.step(now(bench)) != DispatcherProgress::Idle {}
    }
    assert_eq!(told.get(&down), Some(&owed), "all that it lacks");
    assert_eq!(told.get(&up).map(Vec::as_slice), owed.get(2..), "what is as new as its place");
}

/// Once, an endpoint that had just taken a message again was shown as failing.
#[tokio::test]
async fn events_that_are_sent_again_show_that_their_receiver_is_back() {
    let bench = &Bench::new().await;
    let id = make_endpoint(bench, "hook").await;
    let (_home, deliveries) = empty_file();
    let dispatcher = &mut dispatcher_of(bench, &deliveries);
    touch(bench, COMPANY, "seen").await;
    while dispatcher.step(now(bench)) != DispatcherProgress::Idle {}
    let end_next = |dispatcher: &mut Dispatcher, status| {
        let (_, mut done) = dispatcher.next_request().unwrap();
        done.report.result = AttemptResult::Answered(status);
        dispatcher.end(done, now(bench));
    };
    let is_failing = |dispatcher: &mut Dispatcher| {
        let order = |reply| DispatcherOrder::Health(vec![id], reply);
        let health = answer_of(bench, dispatcher, order).lock().take().unwrap()[0].unwrap();
        assert_eq!(health.failing_since.is_none(), health.delivered_at.is_some());
        health.failing_since.is_some()
    };
    end_next(dispatcher, 500);
    let order = |reply| DispatcherOrder::Attempts(id, reply);
    let attempt = answer_of(bench, dispatcher, order).lock().take().unwrap()[0].id;
    answer_of(bench, dispatcher, |reply| DispatcherOrder::Example(id, reply));
    end_next(dispatcher, 204);
    assert!(is_failing(dispatcher), "an example is no event");
    answer_of(bench, dispatcher, |reply| DispatcherOrder::Resend(id, attempt, reply));
    end_next(dispatcher, 500);
    assert!(is_failing(dispatcher));
    answer_of(bench, dispatcher, |reply| DispatcherOrder::Resend(id, attempt, reply));
    end_next(dispatcher, 204);
    assert!(!is_failing(dispatcher));
}
