//! Deliveries at work beside an engine: the events that an app gets as companies let it in; an
//! undelivered event never counts as delivered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_edge::descriptors::SendBounds;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessTokenCommand, NewAccessToken, NewTokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::app::{AppCommand, NewApp};
use cardswitch_engine::directory::transaction::TransactionCommand;
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{
    AccessTokenId, AppId, CompanyId, CompanySlot, TransactionSeq, WebhookEndpointId,
};
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::domain::transaction_tags::TagChanges;
use cardswitch_engine::store::Snapshot;
use cardswitch_identity::webhook_endpoints::{GivenChanges, GivenEndpoint, create, delete, update};
use cardswitch_notify::webhooks::addresses::Reach;
use cardswitch_notify::webhooks::attempt::{AttemptFailure, AttemptResult};
use cardswitch_notify::webhooks::content::Content;
use cardswitch_notify::webhooks::deliveries::Deliveries;
use cardswitch_notify::webhooks::dispatcher::{
    Dispatcher, DispatcherOrder, DispatcherProgress, ReplyTo, Request, RequestPlaces, StepContext,
    Tools,
};
use cardswitch_notify::webhooks::job::Job;
use cardswitch_notify::webhooks::places::LanePlaces;
use cardswitch_notify::webhooks::sender::{AddressLookup, Sender};
use cardswitch_secrets::issuing::{RandomSource, SystemRandom};
use cardswitch_secrets::token_digest;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::bench::{Bench, COMPANY, MEMBER, OTHER_COMPANY};
use crate::test_world::by_switch;

const APP: AppId = AppId(Uuid::from_u128(70));
const ENDPOINTS: &str = "/v1/webhook-endpoints";

/// A receiver that takes everything. Returns its address and the bodies that it gets.
async fn receiver() -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/hook", listener.local_addr().unwrap());
    let (got, gets) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
            while !request.ends_with(b"]") {
                let read = stream.read(&mut buffer).await.unwrap();
                assert!(read > 0, "the request ended early");
                request.extend_from_slice(&buffer[..read]);
            }
            let text = String::from_utf8(request).unwrap();
            let answer = b"HTTP/1.1 204 Taken\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            let (_, body) = text.split_once("\r\n\r\n").unwrap();
            drop(got.send(body.to_owned()));
        }
    });
    (address, gets)
}

/// Changes the note of the first transaction of a company: an event of it.
async fn touch(bench: &Bench, company: Uuid, note: &str) {
    let slot = match company {
        COMPANY => TransactionSeq(1),
        _ => TransactionSeq(2),
    };
    let opening = bench.state.switch.read(|snapshot: &Snapshot| snapshot.transaction(slot));
    let id = opening.await.unwrap().unwrap().record.id;
    let changes = TagChanges { note: Some(note.parse().unwrap()), ..TagChanges::default() };
    let tagged =
        AdminCommand::Transaction(TransactionCommand::Tag(CompanyId(company), id, changes));
    by_switch(&bench.state).carry_out(tagged).await.unwrap();
}

async fn let_in(bench: &Bench, company: Uuid) {
    give_token(bench, company, &company.to_string()).await;
}

/// Gives the app a token of a company.
async fn give_token(bench: &Bench, company: Uuid, text: &str) {
    let token = NewAccessToken {
        id: AccessTokenId(SystemRandom.id(bench.state.now()).unwrap()),
        digest: token_digest(text),
        company: CompanyId(company),
        scope: AccessScope { admin: true, ..AccessScope::default() },
    };
    let grant = NewTokenGrant {
        token,
        app: Some(APP),
        member: None,
        origin: TokenOrigin::Code,
        label: "Books".parse().unwrap(),
    };
    by_switch(&bench.state)
        .carry_out(AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(grant))))
        .await
        .unwrap();
}

fn counts(body: &str) -> (usize, usize) {
    let of = |company: Uuid| body.matches(&format!("\"company\":{{\"id\":\"{company}\"}}")).count();
    (of(COMPANY), of(OTHER_COMPANY))
}

/// Makes the app.
async fn make_app(bench: &Bench) {
    let app = NewApp {
        id: APP,
        company: CompanyId(COMPANY),
        name: "Books".parse().unwrap(),
        website: "https://books.example.com".parse().unwrap(),
        secret_digest: [7; 32],
        redirect_urls: vec!["https://books.example.com/back".to_owned()],
        requested: AccessScope::default(),
    };
    by_switch(&bench.state).carry_out(AdminCommand::App(AppCommand::Create(app))).await.unwrap();
}

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

/// An endpoint of the company, to which nobody listens.
async fn make_endpoint(bench: &Bench, name: &str) -> WebhookEndpointId {
    let (address, description) = (format!("http://localhost:9/{name}"), LineText::default());
    let given = GivenEndpoint { address, description, app: None };
    create(&by_switch(&bench.state), CompanyId(COMPANY), given).await.unwrap().0
}

/// A file of deliveries that knows nothing yet, in its folder.
fn empty_file() -> (TempDir, Arc<Deliveries>) {
    let folder = tempfile::tempdir().unwrap();
    let deliveries = Deliveries::open(folder.path()).unwrap();
    (folder, Arc::new(deliveries))
}

/// Deliveries that are kept in `deliveries`, without a driver.
fn dispatcher_of(bench: &Bench, deliveries: &Arc<Deliveries>) -> Dispatcher {
    dispatcher_at(bench, deliveries, None)
}

/// The same, which knows these places besides.
fn dispatcher_at(
    bench: &Bench,
    deliveries: &Arc<Deliveries>,
    lane_places: Option<LanePlaces>,
) -> Dispatcher {
    let tools = Tools {
        deliveries: Arc::clone(deliveries),
        places: RequestPlaces { healthy: 1, failing: 1, asked: 1 },
        ids: Box::new(|at| SystemRandom.id(at).ok()),
        lane_places,
    };
    let engine = &bench.state.switch.engine;
    Dispatcher::new(tools, &engine.store, engine.decides_after).unwrap()
}

fn now(bench: &Bench) -> StepContext<'_> {
    let (tables, time) = (&bench.state.switch.engine.store, bench.state.now());
    StepContext { tables, time, uptime: Duration::ZERO }
}

/// Gives an order. Returns where its answer will be.
fn answer_of<T: Send + 'static>(
    bench: &Bench,
    dispatcher: &mut Dispatcher,
    order: impl FnOnce(ReplyTo<T>) -> DispatcherOrder,
) -> Arc<Mutex<Option<T>>> {
    let answer = Arc::new(Mutex::new(None));
    let told = Arc::clone(&answer);
    dispatcher.obey(order(Box::new(move |value| *told.lock() = Some(value))), now(bench));
    answer
}

/// The events of the requests that are due.
fn due_events(bench: &Bench, dispatcher: &mut Dispatcher) -> Vec<EventNumber> {
    while dispatcher.step(now(bench)) != DispatcherProgress::Idle {}
    let requests = std::iter::from_fn(|| dispatcher.next_request());
    requests.flat_map(|(request, _)| request.content.numbers().to_vec()).collect()
}

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
