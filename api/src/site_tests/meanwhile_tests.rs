//! What is changed between the check of a form and its command: the second of two is told, and overwrites nothing.
//!
//! The story: the check read and compared, and the command came without any condition. Two who sent a form at
//! once were both told that it was kept, and a member left with cards that no list had shown.

use std::sync::{Arc, mpsc};

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::command::seen_object::{SeenObject, WatchedObject};
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::app::{AppCommand, NewApp};
use cardswitch_engine::domain::ids::{
    AllowanceId, AppId, CardId, CompanyId, MemberId, RequisitionId, TransactionId,
};
use cardswitch_engine::submission::{Envelope, ReplyPort};
use cardswitch_v1::routes::allowances::change_allowance;
use cardswitch_v1::routes::members::change_member;
use cardswitch_v1::routes::receipts::{lost, set_receipt};
use cardswitch_v1::routes::requisitions::change_requisition;
use cardswitch_v1::routes::view::Reader;
use cardswitch_wire::fields::Fields;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::books_world::{dimension, purchase, upload};
use super::company_world::{MEMBER, card_of, company, make, member, shown, visitor};
use super::site_world::{EMAIL, membership};
use super::transactions_tests::seen;
use super::visitor_tests::Visitor;
use crate::bench::{Bench, COMPANY};
use crate::test_world::by_switch;

/// Two pages of one visitor, as two windows.
async fn windows<'a>(
    bench: &'a Bench,
    path: &str,
    action: &str,
) -> (Visitor<'a>, Visitor<'a>, String) {
    let mut one = visitor(bench, EMAIL).await;
    let page = one.get(path).await.expect(200);
    let other = one.copy();
    (one, other, seen(&page, action))
}

/// Holds all answers of the engine back, and with them what would become durable, until it is let go.
struct HeldAnswers(mpsc::Sender<()>);

struct HoldingPort {
    is_reached: mpsc::Sender<()>,
    let_go: Mutex<mpsc::Receiver<()>>,
}

impl ReplyPort for HoldingPort {
    fn deliver(&self, _: u64, _: Reply) {
        let _ = self.is_reached.send(());
        // Nothing is ever sent: it ends with the other half.
        assert!(self.let_go.lock().recv().is_err());
    }
}

impl HeldAnswers {
    fn hold(bench: &Bench) -> Self {
        let ((is_reached, reached), (sender, let_go)) = (mpsc::channel(), mpsc::channel());
        let port = Arc::new(HoldingPort { is_reached, let_go: Mutex::new(let_go) });
        let tick = Envelope { command: Command::Tick.into(), tag: 0, port };
        let engine = Arc::clone(&bench.state.switch.engine);
        // The thread that submits may carry the command out and answer, so it is another one.
        std::thread::spawn(move || engine.submit(vec![tick]).unwrap());
        reached.recv().unwrap();
        Self(sender)
    }

    fn let_go(self) {
        drop(self.0);
    }
}

#[tokio::test]
async fn of_two_who_save_at_once_one_is_told() {
    let bench = company().await;
    let card = card_of(&bench, MEMBER, "Travel").await;
    let bought = purchase(&bench, &json!({"id": card}), 1_000).await;
    let travel = dimension(&bench, "categories", json!({"name": "Travel"})).await;
    let mary = member(&bench, MEMBER).await.id.0;
    let asked = json!({"member": {"id": mary}, "amount": 5, "description": "Chairs"});
    let asked = make(&bench, "/v1/requisitions", asked).await;
    let hook = "http://127.0.0.1:9/hook";
    let hook = make(
        &bench,
        "/v1/webhook-endpoints",
        json!({"delivery_url": hook, "description": "Books"}),
    );
    let hook = hook.await;
    let app = AppId(uuid::Uuid::from_u128(0xa99));
    let new = NewApp {
        id: app,
        company: CompanyId(COMPANY),
        name: "Books".parse().unwrap(),
        website: Default::default(),
        secret_digest: [7; 32],
        redirect_urls: Vec::new(),
        requested: AccessScope::default(),
    };
    by_switch(&bench.state).carry_out(AdminCommand::App(AppCommand::Create(new))).await.unwrap();
    let rows = [
        (format!("/cards/{card}/allowance"), "amount", vec![("interval", "")]),
        (format!("/cards/{card}/edit"), "description", vec![("holder", MEMBER)]),
        (format!("/transactions/{bought}"), "note", vec![]),
        (format!("/dimensions/categories/{travel}"), "name", vec![("code", ""), ("parent", "")]),
        (format!("/members/{mary}"), "first_name", vec![("last_name", "X"), ("role", "member")]),
        (format!("/requisitions/{asked}"), "amount", vec![("description", "Chairs")]),
        (format!("/webhooks/{hook}"), "description", vec![("delivery_url", "http://127.0.0.1:9/")]),
        (format!("/apps/{}", app.0), "name", vec![("website", "https://books.example")]),
    ];
    for (path, changed, others) in rows {
        let (mut one, mut other, seen) = windows(&bench, &path, &path).await;
        let form = |value, seen| [&[(changed, value), ("seen", seen)], &others[..]].concat();
        let (first, second) = (form("7431.25", &*seen), form("7532.75", &*seen));
        let answers = HeldAnswers::hold(&bench);
        // Both are compared with the stored values before either is kept.
        let let_go = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            answers.let_go();
        };
        let (first, second, ()) =
            tokio::join!(one.post(&path, &first), other.post(&path, &second), let_go);
        let mut told = [first.status, second.status];
        told.sort_unstable();
        assert_eq!(told, [303, 409], "{path}: {} {}", first.body, second.body);
        let (kept, refused) =
            if first.status == 303 { ("7431.25", second) } else { ("7532.75", first) };
        assert!(refused.body.contains("someone else changed this"), "{path}: {}", refused.body);
        assert!(refused.body.contains(kept), "{path}: {kept}: {}", refused.body);
        let now = super::transactions_tests::seen(&refused, &path);
        let again = one.post_from(&refused, &path, &form("7631.50", &now)).await;
        assert_eq!(again.status, 303, "{path}: {}", again.body);
    }
}

#[tokio::test]
async fn of_two_receipts_at_once_one_is_kept_and_one_is_told() {
    let bench = company().await;
    let card = card_of(&bench, EMAIL, "Travel").await;
    let id = purchase(&bench, &json!({"id": card}), 1_000).await;
    let (page, path) = (format!("/transactions/{id}"), format!("/transactions/{id}/receipt"));
    let mut one = visitor(&bench, EMAIL).await;
    let csrf = one.get(&page).await.expect(200).csrf().unwrap();
    let fields = [("csrf", csrf.as_str()), ("seen", "")];
    let mut other = one.copy();
    let (first, second) = tokio::join!(
        upload(&mut one, &path, &fields, ("a.pdf", "%PDF-a")),
        upload(&mut other, &path, &fields, ("b.pdf", "%PDF-b")),
    );
    let kept = if first.status == 303 { "%PDF-a" } else { "%PDF-b" };
    let mut told = [first.status, second.status];
    told.sort_unstable();
    assert_eq!(told, [303, 409], "{} {}", first.body, second.body);
    assert_eq!(one.get(&path).await.expect(200).body, kept);
}

/// Asks with the condition that `object` is as it was at the time of this call; `meanwhile` comes first.
async fn meanwhile<T>(
    bench: &Bench,
    object: WatchedObject,
    changed: (&str, &str, Value),
    then: impl AsyncFnOnce(Reader<'_>) -> T,
) -> T {
    let company = membership(bench, COMPANY).await.0;
    let since = bench.state.switch.shown_seq().await;
    let (method, path, body) = changed;
    let (status, told) = bench.ask(method, path, body).await;
    assert!([200, 201].contains(&status), "{path}: {told}");
    let state = by_switch(&bench.state).if_unchanged(SeenObject { object, since });
    then(Reader { state: &state, company: &company, shows_links: false }).await
}

#[tokio::test]
async fn nothing_is_done_about_what_changed_after_the_look() {
    let bench = company().await;
    let mary = member(&bench, MEMBER).await;
    let card = card_of(&bench, MEMBER, "Travel").await;
    let asked = json!({"member": {"id": mary.id.0}, "amount": 5, "description": "Chairs"});
    let asked = make(&bench, "/v1/requisitions", asked).await;
    let label = make(&bench, "/v1/labels", json!({"name": "Office"})).await;
    let bought =
        TransactionId(purchase(&bench, &json!({"id": card}), 1_000).await.parse().unwrap());
    let seq = bench.state.switch.engine.ids.open_transaction_id(bought).unwrap();
    let id = CardId(card.parse().unwrap());
    let row = bench
        .state
        .switch
        .read(move |snapshot| snapshot.card_by_any_company(id))
        .await
        .unwrap()
        .unwrap();

    let another = json!({"allowance": {"amount": 1}, "description": "New", "is_virtual": true,
        "assigned_to": {"id": mary.id.0}});
    let issued = ("POST", "/v1/cards", another);
    let left = meanwhile(&bench, WatchedObject::Leaving(mary.slot), issued, async |reader| {
        let fields = Fields::parse(br#"{"is_active": false}"#).unwrap();
        change_member(reader, MemberId(mary.id.0), fields).await.unwrap_err().status
    });
    assert_eq!(left.await, 412);
    let cards = bench.get(&format!("/v1/cards?assigned_to={}&state=active", mary.id.0)).await;
    assert_eq!(cards["count"], 2, "nobody's card was closed: {cards}");

    let path = format!("/v1/allowances/{}", row.profile.allowance_id.0);
    let dearer = ("PUT", path.as_str(), json!({"amount": 70}));
    let saved = meanwhile(&bench, WatchedObject::Card(row.profile.slot), dearer, async |reader| {
        let fields = Fields::parse(br#"{"amount": 900}"#).unwrap();
        let id = AllowanceId(row.profile.allowance_id.0);
        change_allowance(reader, id, fields).await.unwrap_err().status
    });
    assert_eq!(saved.await, 412);
    assert_eq!(shown(&bench, &path).await["amount"], 70.0);

    let path = format!("/v1/requisitions/{asked}");
    let labeled = ("PUT", path.as_str(), json!({"label": {"id": label}}));
    let id = RequisitionId(asked.parse().unwrap());
    let decided = meanwhile(&bench, WatchedObject::Row(id.0), labeled, async |reader| {
        let fields = Fields::parse(br#"{"status": "approved"}"#).unwrap();
        change_requisition((reader, None), id, fields).await.unwrap_err().status
    });
    assert_eq!(decided.await, 412);
    let body = shown(&bench, &path).await;
    assert_eq!((&body["status"], &body["label"]["id"]), (&json!("pending"), &json!(label)));

    let path = format!("/v1/transactions/{}", bought.0);
    let noted = ("PUT", path.as_str(), json!({"note": "lunch"}));
    let kept = meanwhile(&bench, WatchedObject::Transaction(seq), noted, async |reader| {
        let receipt = Some(lost(reader.state));
        set_receipt(reader, bought, receipt).await.is_err()
    });
    assert!(kept.await);
    let body = shown(&bench, &path).await;
    assert_eq!((&body["receipt"], &body["note"]), (&Value::Null, &json!("lunch")));
}

/// Tables that were late had the form sent again, and each time made another card.
#[tokio::test]
async fn a_form_whose_change_is_not_shown_in_time_is_carried_out_once() {
    let bench = company().await;
    let mut ada = visitor(&bench, EMAIL).await;
    let page = ada.get("/cards/new").await.expect(200);
    let form = [("description", "Once"), ("amount", "5")];
    let (release, released) = mpsc::channel::<()>();
    let watermark = &bench.state.switch.engine.watermark;
    // Nothing is ever sent: it ends with the other half.
    let hold = Box::new(move || assert!(released.recv().is_err()));
    watermark.on_news(watermark.applied(), hold);
    make(&bench, "/v1/labels", json!({"name": "Office"})).await;
    let said = ada.post_from(&page, "/cards/new", &form).await.expect(503);
    assert!(said.body.contains("The change was made"), "{}", said.body);
    // The shard knows the form before the tables do.
    let early = ada.post_from(&page, "/cards/new", &form).await.expect(503);
    assert!(early.body.contains("The change was made"), "{}", early.body);
    drop(release);
    let again = ada.post_from(&page, "/cards/new", &form).await.expect(503);
    assert!(again.body.contains("The change was made"), "{}", again.body);
    let cards = bench.get("/v1/cards?description=Once").await;
    assert_eq!(cards["count"], 1, "{cards}");
}
