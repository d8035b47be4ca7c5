//! What these tests share: an app, its receiver, and deliveries kept in a file of their own.

use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessTokenCommand, NewAccessToken, NewTokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::app::{AppCommand, NewApp};
use cardswitch_engine::directory::transaction::TransactionCommand;
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{
    AccessTokenId, AppId, CompanyId, TransactionSeq, WebhookEndpointId,
};
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::domain::transaction_tags::TagChanges;
use cardswitch_engine::store::Snapshot;
use cardswitch_identity::webhook_endpoints::{GivenEndpoint, create};
use cardswitch_notify::webhooks::deliveries::Deliveries;
use cardswitch_notify::webhooks::dispatcher::{
    Dispatcher, DispatcherOrder, DispatcherProgress, ReplyTo, RequestPlaces, StepContext, Tools,
};
use cardswitch_notify::webhooks::places::LanePlaces;
use cardswitch_secrets::issuing::{RandomSource, SystemRandom};
use cardswitch_secrets::token_digest;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::bench::{Bench, COMPANY, OTHER_COMPANY};
use crate::test_world::by_switch;

pub(super) const APP: AppId = AppId(Uuid::from_u128(70));
pub(super) const ENDPOINTS: &str = "/v1/webhook-endpoints";

/// A receiver that takes everything. Returns its address and the bodies that it gets.
pub(super) async fn receiver() -> (String, mpsc::UnboundedReceiver<String>) {
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
pub(super) async fn touch(bench: &Bench, company: Uuid, note: &str) {
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

pub(super) async fn let_in(bench: &Bench, company: Uuid) {
    give_token(bench, company, &company.to_string()).await;
}

/// Gives the app a token of a company.
pub(super) async fn give_token(bench: &Bench, company: Uuid, text: &str) {
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

pub(super) fn counts(body: &str) -> (usize, usize) {
    let of = |company: Uuid| body.matches(&format!("\"company\":{{\"id\":\"{company}\"}}")).count();
    (of(COMPANY), of(OTHER_COMPANY))
}

/// Makes the app.
pub(super) async fn make_app(bench: &Bench) {
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

/// An endpoint of the company, to which nobody listens.
pub(super) async fn make_endpoint(bench: &Bench, name: &str) -> WebhookEndpointId {
    let (address, description) = (format!("http://localhost:9/{name}"), LineText::default());
    let given = GivenEndpoint { address, description, app: None };
    create(&by_switch(&bench.state), CompanyId(COMPANY), given).await.unwrap().0
}

/// A file of deliveries that knows nothing yet, in its folder.
pub(super) fn empty_file() -> (TempDir, Arc<Deliveries>) {
    let folder = tempfile::tempdir().unwrap();
    let deliveries = Deliveries::open(folder.path()).unwrap();
    (folder, Arc::new(deliveries))
}

/// Deliveries that are kept in `deliveries`, without a driver.
pub(super) fn dispatcher_of(bench: &Bench, deliveries: &Arc<Deliveries>) -> Dispatcher {
    dispatcher_at(bench, deliveries, None)
}

/// The same, which knows these places besides.
pub(super) fn dispatcher_at(
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

pub(super) fn now(bench: &Bench) -> StepContext<'_> {
    let (tables, time) = (&bench.state.switch.engine.store, bench.state.now());
    StepContext { tables, time, uptime: Duration::ZERO }
}

/// Gives an order. Returns where its answer will be.
pub(super) fn answer_of<T: Send + 'static>(
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
pub(super) fn due_events(bench: &Bench, dispatcher: &mut Dispatcher) -> Vec<EventNumber> {
    while dispatcher.step(now(bench)) != DispatcherProgress::Idle {}
    let requests = std::iter::from_fn(|| dispatcher.next_request());
    requests.flat_map(|(request, _)| request.content.numbers().to_vec()).collect()
}
