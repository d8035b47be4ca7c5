//! The events that an app gets as companies let it in, and as it changes its endpoints.

use std::sync::Arc;
use std::time::Duration;

use cardswitch_edge::descriptors::SendBounds;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::app::AppCommand;
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{CompanyId, CompanySlot};
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::store::Snapshot;
use cardswitch_identity::webhook_endpoints::{GivenChanges, GivenEndpoint, create, delete, update};
use cardswitch_notify::webhooks::addresses::Reach;
use cardswitch_notify::webhooks::attempt::{AttemptFailure, AttemptResult};
use cardswitch_notify::webhooks::content::Content;
use cardswitch_notify::webhooks::dispatcher::Request;
use cardswitch_notify::webhooks::job::Job;
use cardswitch_notify::webhooks::sender::{AddressLookup, Sender};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::world::{
    APP, ENDPOINTS, counts, dispatcher_of, due_events, empty_file, give_token, let_in, make_app,
    receiver, touch,
};
use crate::bench::{Bench, COMPANY, MEMBER, OTHER_COMPANY};
use crate::test_world::by_switch;

#[tokio::test]
async fn an_app_is_told_of_a_company_from_when_that_lets_it_in() {
    let bench = &Bench::new().await;
    make_app(bench).await;
    let_in(bench, COMPANY).await;
    bench.advance("2026-03-04T20:01:00Z");
    let (address, mut gets) = receiver().await;
    let given = GivenEndpoint { address, description: Default::default(), app: Some(APP) };
    let (id, _) = create(&by_switch(&bench.state), CompanyId(COMPANY), given).await.unwrap();
    touch(bench, OTHER_COMPANY, "before").await;
    touch(bench, COMPANY, "own").await;
    assert_eq!(counts(&gets.recv().await.unwrap()), (1, 0), "it is not let in yet");
    bench.advance("2026-03-04T20:02:00Z");
    let_in(bench, OTHER_COMPANY).await;
    touch(bench, OTHER_COMPANY, "after").await;
    assert_eq!(counts(&gets.recv().await.unwrap()), (0, 1));
    touch(bench, OTHER_COMPANY, "and on").await;
    assert_eq!(counts(&gets.recv().await.unwrap()), (0, 1), "what was before is never told");

    // An event that it may not receive any more is not sent once more, and does not count as
    // delivered.
    let webhooks = &bench.state.webhooks;
    let newest = loop {
        // Noted once the answer is in.
        if let [newest, _, _] = webhooks.attempts(id).await.unwrap().as_slice() {
            break newest.clone();
        }
        tokio::task::yield_now().await;
    };
    let resent = webhooks.resend(id, newest.id).await.unwrap().unwrap();
    assert!(resent.is_delivered() && resent.message == newest.message);
    gets.recv().await.unwrap();
    let shut_out = AdminCommand::App(AppCommand::RevokeTokens(APP, CompanyId(OTHER_COMPANY)));
    by_switch(&bench.state).carry_out(shut_out).await.unwrap();
    let untold = webhooks.resend(id, newest.id).await.unwrap().unwrap();
    assert_eq!(untold.result, AttemptResult::Unanswered(AttemptFailure::NothingToTell));
    assert_eq!(webhooks.attempts(id).await.unwrap().len(), 4, "nothing was tried");
    assert!(gets.try_recv().is_err());
}

/// Once, an endpoint that an app made with its token was the company's own: it outlived the app's access.
#[tokio::test]
async fn what_an_app_has_delivered_ends_with_its_access() {
    let bench = &Bench::new().await;
    make_app(bench).await;
    let_in(bench, COMPANY).await;
    give_token(bench, OTHER_COMPANY, "app").await;
    bench.advance("2026-03-04T20:01:00Z");
    let ask = async |token: &str, method: &str, path: &str, body: Value| {
        let (status, text) = bench.ask_as(&format!("Token {token}"), method, path, body).await;
        (status, serde_json::from_str::<Value>(&text).unwrap_or_default())
    };
    let new = json!({"delivery_url": "https://hooks.example.com/app"});
    let (status, made) = ask("app", "POST", ENDPOINTS, new.clone()).await;
    assert_eq!((status, &made["app"]["id"]), (201, &json!(APP.0)), "{made}");
    let (_, own) = ask("other", "POST", ENDPOINTS, new).await;
    let path = |made: &Value| format!("{ENDPOINTS}/{}", made["id"].as_str().unwrap());
    let disabled = json!({"is_enabled": false});
    assert_eq!(ask("other", "PUT", &path(&own), disabled).await.0, 200);

    let (_home, deliveries) = empty_file();
    let dispatcher = &mut dispatcher_of(bench, &deliveries);
    touch(bench, OTHER_COMPANY, "while it has access").await;
    assert_eq!(due_events(bench, dispatcher).len(), 1);
    touch(bench, COMPANY, "where the app is from").await;
    assert!(due_events(bench, dispatcher).is_empty(), "people of another company would read it");

    // It makes and changes nothing that would outlive its access.
    let of_another = json!({"delivery_url": "https://hooks.example.com", "app": {"id": MEMBER}});
    assert_eq!(ask("app", "POST", ENDPOINTS, of_another).await.0, 400);
    let enabled = json!({"delivery_url": "https://hooks.example.com/app", "is_enabled": true});
    for (method, below, body) in [
        ("PUT", "", enabled.clone()),
        ("DELETE", "", Value::Null),
        ("POST", "/rotate-secret", Value::Null),
        ("POST", "/recover", json!({"since": "2026-03-04T20:00:00Z"})),
    ] {
        let (status, told) = ask("app", method, &format!("{}{below}", path(&own)), body).await;
        assert_eq!((status, &told["detail"]["code"]), (403, &json!("not_of_app")), "{method}");
    }
    assert_eq!(ask("app", "PUT", &path(&made), enabled).await.0, 200, "its own");
    let shut_out = AdminCommand::App(AppCommand::RevokeTokens(APP, CompanyId(OTHER_COMPANY)));
    by_switch(&bench.state).carry_out(shut_out).await.unwrap();
    touch(bench, OTHER_COMPANY, "after it").await;
    assert!(due_events(bench, dispatcher).is_empty(), "its access is revoked");
}

/// Once, deliveries noticed an endpoint up to a minute late whose maker had hung up before the answer.
#[tokio::test]
async fn an_endpoint_counts_at_once_where_its_maker_has_hung_up() {
    let bench = &Bench::new().await;
    let state = &bench.state;
    let (address, description) = ("http://localhost:9/hook".to_owned(), LineText::default());
    let given = GivenEndpoint { address, description, app: None };
    let acting = by_switch(state);
    let mut making = Box::pin(create(&acting, CompanyId(COMPANY), given));
    tokio::select! {
        biased;
        _ = &mut making => panic!("it is made at once"),
        () = std::future::ready(()) => {}
    }
    drop(making);
    let made = || state.switch.read_at_once(|snapshot| snapshot.all_webhook_endpoints()).unwrap();
    timeout(Duration::from_secs(20), async {
        loop {
            let ids: Vec<_> = made().iter().map(|endpoint| endpoint.id).collect();
            let health = state.webhooks.health(ids).await.unwrap();
            if health.iter().any(Option::is_some) {
                break;
            }
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("deliveries know it before they look by themselves");
}

/// The change made while a request waits for its host to be looked up.
enum ConcurrentChange {
    Nothing,
    /// A company revokes the app's tokens.
    Revoked(Uuid),
    Changed(GivenChanges),
    Deleted,
}

/// A request to the app's endpoint of two events, one of each company, during whose wait something
/// changes: its result, and the number of events of each company that the receiver got.
async fn told_after(meanwhile: ConcurrentChange) -> (AttemptResult, Option<(usize, usize)>) {
    let bench = &Bench::new().await;
    let state = &bench.state;
    make_app(bench).await;
    let (receiver, mut gets) = receiver().await;
    let receiver = url::Url::parse(&receiver).unwrap().socket_addrs(|| None).unwrap();
    // Deliveries that start by themselves at this port are not looked at.
    let address = "http://localhost:9/hook".to_owned();
    let given = GivenEndpoint { address, description: LineText::default(), app: Some(APP) };
    let (id, _) = create(&by_switch(state), CompanyId(COMPANY), given).await.unwrap();
    for company in [COMPANY, OTHER_COMPANY] {
        let_in(bench, company).await;
        touch(bench, company, "news").await;
    }
    let (asked, ask) = tokio::sync::oneshot::channel();
    let (answer, answered) = tokio::sync::oneshot::channel::<()>();
    let once = Mutex::new(Some((asked, answered)));
    let names = move |_| -> AddressLookup {
        let (asked, answered) = once.lock().take().unwrap();
        let receiver = receiver.clone();
        Box::pin(async move {
            asked.send(()).unwrap();
            answered.await.unwrap();
            Ok(receiver)
        })
    };
    let (endpoint, last) = state
        .switch
        .read_at_once(|snapshot| {
            let [endpoint] = snapshot.all_webhook_endpoints()?.try_into().unwrap();
            Ok((endpoint, snapshot.last_event()?))
        })
        .unwrap();
    let request = Request {
        endpoint: Arc::new(endpoint),
        content: Content::Events(vec![EventNumber(last.0 - 1), last]),
        message: Uuid::nil(),
        tries: 1,
        time: state.now(),
    };
    let (switch, secrets) = (state.switch.clone(), Arc::clone(&state.secrets));
    let sender = Sender::with_names(Reach::Local, SendBounds::default(), Arc::new(names));
    let job = Job { switch, secrets, sender, request };
    let told = tokio::spawn(job.run());
    ask.await.unwrap();
    match meanwhile {
        ConcurrentChange::Nothing => {}
        ConcurrentChange::Revoked(company) => {
            let revoked = AdminCommand::App(AppCommand::RevokeTokens(APP, CompanyId(company)));
            by_switch(state).carry_out(revoked).await.unwrap();
        }
        ConcurrentChange::Changed(changes) => {
            update(&by_switch(state), CompanyId(COMPANY), id, changes).await.unwrap();
        }
        ConcurrentChange::Deleted => {
            delete(&by_switch(state), CompanyId(COMPANY), id).await.unwrap()
        }
    }
    answer.send(()).unwrap();
    let result = told.await.unwrap().result;
    (result, gets.try_recv().ok().map(|body| counts(&body)))
}

/// Rights were asked when a message was made, and a receiver's name server could have the switch wait
/// until they had ended.
#[tokio::test]
async fn what_changes_while_a_host_is_looked_up_counts() {
    let taken = || AttemptResult::Answered(204);
    let off = GivenChanges { is_enabled: Some(false), ..GivenChanges::default() };
    let elsewhere = "http://localhost:10/hook".to_owned();
    let moved = GivenChanges { address: Some(elsewhere), ..GivenChanges::default() };
    let named =
        GivenChanges { description: Some("Books".parse().unwrap()), ..GivenChanges::default() };
    let again = AttemptResult::Unanswered(AttemptFailure::NotSent);
    let untold = || AttemptResult::Unanswered(AttemptFailure::NothingToTell);
    let rows = [
        ("nothing", ConcurrentChange::Nothing, taken(), Some((1, 1))),
        ("another name", ConcurrentChange::Changed(named), taken(), Some((1, 1))),
        ("one company", ConcurrentChange::Revoked(OTHER_COMPANY), taken(), Some((1, 0))),
        ("the other company", ConcurrentChange::Revoked(COMPANY), taken(), Some((0, 1))),
        ("turned off", ConcurrentChange::Changed(off), untold(), None),
        ("another address", ConcurrentChange::Changed(moved), again, None),
        ("deleted", ConcurrentChange::Deleted, untold(), None),
    ];
    for (story, meanwhile, result, told) in rows {
        assert_eq!(told_after(meanwhile).await, (result, told), "{story}");
    }
}

#[tokio::test]
async fn what_comes_is_read_on() {
    let Bench { state, .. } = &Bench::new().await;
    let (tail, company) = (&state.webhooks, CompanySlot(0));
    for after in [0, 1, 2] {
        let after = EventNumber(after);
        let page = tail.newest_events_after(&state.switch, (company, after), 9).unwrap();
        let read = |snapshot: &Snapshot| snapshot.company_events_after(company, after, 9, 99);
        assert_eq!(page, Some(state.switch.read_at_once(read).unwrap()));
    }
}
