//! Forms that are sent twice: at once, after a restart, and after changes of which no answer was kept.

use std::sync::Arc;

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand};
use cardswitch_engine::domain::ids::CompanyId;
use cardswitch_identity::idempotency::Claim;
use cardswitch_identity::idempotency::form_key::{FormKey, FormOutcome, FormSender};
use cardswitch_secrets::idempotency_keys::FormShare;
use serde_json::{Value, json};
use url::form_urlencoded::Serializer;

use super::roles_world::{ROOT, stage, visit};
use super::site_world::{letter, letters};
use super::visitor_tests::{ORIGIN, Page};
use crate::bench::{Bench, COMPANY};
use crate::router;
use crate::test_world::{by_switch, served};

/// The site after a restart of its process: the tables are the same, and nothing else is.
fn restart(bench: &mut Bench) {
    bench.routes = router::whole(served(bench.state.clone()));
}

async fn count(bench: &Bench, list: &str) -> usize {
    bench.get(list).await["results"].as_array().unwrap().len()
}

/// A double click made two cards, each with the whole budget.
#[tokio::test]
async fn a_form_that_is_sent_twice_makes_one_card() {
    let (bench, _) = stage().await;
    let mut root = visit(&bench, ROOT).await;
    let mut typed = [("description", ""), ("kind", "virtual"), ("amount", "10")];
    let form = root.get("/cards/new").await.expect(200);
    root.post_from(&form, "/cards/new", &typed).await.expect(400);
    typed[0].1 = "Twice";
    let mut copy = root.copy();
    let (made, again) = tokio::join!(
        root.post_from(&form, "/cards/new", &typed),
        copy.post_from(&form, "/cards/new", &typed)
    );
    assert_eq!(made.expect(303).location(), again.expect(303).location());
    let other = root.get("/cards/new").await.expect(200);
    root.post_from(&other, "/cards/new", &typed).await.expect(303);
    let (_, list) = bench.ask("GET", "/v1/cards", Value::Null).await;
    let made = |card: &&Value| card["description"] == "Twice";
    assert_eq!(list["results"].as_array().unwrap().iter().filter(made).count(), 2, "{list}");
}

/// Sent forms stood in memory alone: after a restart, and on the next leader of a cluster, each was
/// carried out again. 64 other forms of the session had them forgotten, too.
#[tokio::test]
async fn a_form_that_comes_again_after_a_restart_or_many_others_is_carried_out_once() {
    let (mut bench, card) = stage().await;
    let card = card["id"].as_str().unwrap().to_owned();
    let link = format!("/cards/{card}/links/new");
    let forms: [(&str, &[_]); 4] = [
        ("/cards/new", &[("description", "Once"), ("kind", "virtual"), ("amount", "10")]),
        ("/requisitions/new", &[("description", "Once"), ("amount", "10")]),
        (&link, &[("name", "Bob"), ("email", "bob@example.com"), ("notify", "true")]),
        ("/dimensions/categories", &[("name", "Once")]),
    ];
    let lists = ["/v1/cards", "/v1/requisitions", "/v1/shared-links", "/v1/categories"];
    let mut sent: Vec<(&str, &[_], Page, String)> = Vec::new();
    let mut root = visit(&bench, ROOT).await;
    let known = letters(&bench).len();
    for (path, typed) in forms {
        let page = root.get(path).await.expect(200);
        let led_on = root.post_from(&page, path, typed).await.expect(303).location().to_owned();
        sent.push((path, typed, page, led_on));
    }
    letter(&bench, known).await;
    let edit = format!("/cards/{card}/edit");
    for number in 0..65 {
        let page = root.get(&edit).await.expect(200);
        let (name, seen) = (format!("Travel {number}"), page.field("seen").unwrap());
        let typed = [("description", name.as_str()), ("seen", &seen)];
        root.post_from(&page, &edit, &typed).await.expect(303);
    }
    let cookies = root.cookies.clone();
    let mut made = Vec::new();
    for list in lists {
        made.push(count(&bench, list).await);
    }
    for _ in 0..2 {
        let mut root = visit(&bench, ROOT).await;
        root.cookies = cookies.clone();
        for (path, typed, page, led_on) in &sent {
            let again = root.post_from(page, path, typed).await.expect(303);
            assert_eq!(again.location(), led_on, "{path}");
        }
        for (list, made) in lists.into_iter().zip(&made) {
            assert_eq!(count(&bench, list).await, *made, "{list}");
        }
        assert_eq!(letters(&bench).len(), known + 1);
        restart(&mut bench);
    }
}

#[tokio::test]
async fn a_change_whose_answer_was_lost_is_not_made_again() {
    let (bench, _) = stage().await;
    let mut root = visit(&bench, ROOT).await;
    let page = root.get("/cards/new").await.expect(200);
    let csrf = page.company_csrf();
    let typed = [("description", "Lost"), ("kind", "virtual"), ("amount", "10")];
    let mut body = Serializer::new(String::new());
    let body = body.append_pair("csrf", &csrf).extend_pairs(typed).finish();
    // As if the process had died before the answer of this form was kept.
    let (bond, _) = csrf.split_once('.').unwrap();
    let sender = FormSender { company: CompanyId(COMPANY), share: FormShare::Administrators, bond };
    let key = FormKey::of(&bench.state, sender, "/cards/new", body.as_bytes());
    let claim = Arc::new(Claim::of_form());
    let state = by_switch(&bench.state).with_claim(Some(Arc::clone(&claim)));
    let update = || {
        let changes = CompanyChanges::default();
        AdminCommand::Company(CompanyCommand::Update(CompanyId(COMPANY), changes))
    };
    state.carry_out(update()).await.unwrap();
    assert_eq!(key.find(&bench.state).unwrap(), None, "a form that is not read yet has no name");
    claim.name(key);
    state.carry_out(update()).await.unwrap();
    assert_eq!(key.find(&bench.state).unwrap(), Some(FormOutcome::MadeNotShown));
    let headers = [("origin", ORIGIN), ("sec-fetch-site", "same-origin")];
    let said = root.post_with("/cards/new", &headers, &body).await.expect(503);
    assert!(said.body.contains("The change was made"), "{}", said.body);
    assert_eq!(bench.get("/v1/cards?description=Lost").await["count"], 0);
}

/// Several cards are several changes: a form of which some could not be made can be sent again.
#[tokio::test]
async fn a_form_with_several_changes_is_kept_once_all_are_made() {
    let (bench, card) = stage().await;
    let order = json!({"description": "Gone", "is_virtual": true, "allowance": {"amount": 1}});
    let gone = bench.order(order).await;
    let ids = [&card, &gone].map(|card| card["id"].as_str().unwrap());
    bench.ask("DELETE", &format!("/v1/cards/{}", ids[1]), Value::Null).await;
    let mut root = visit(&bench, ROOT).await;
    let page = root.get("/cards").await.expect(200);
    for _ in 0..2 {
        let said = root.post_from(&page, "/cards/suspend", &ids.map(|id| ("card", id))).await;
        assert!(said.expect(400).body.contains("1 of 2 cards could not be suspended."));
    }
    root.post_from(&page, "/cards/suspend", &[("card", ids[0])]).await.expect(303);
    let path = format!("/v1/cards/{}", ids[0]);
    bench.ask("PUT", &path, json!({"state": "active"})).await;
    root.post_from(&page, "/cards/suspend", &[("card", ids[0])]).await.expect(303);
    assert_eq!(bench.get(&path).await["state"], "active", "it came again");
}

/// The secret of the first answer is lost where a browser shows the second one: that has one, too.
#[tokio::test]
async fn a_form_whose_answer_shows_a_secret_is_carried_out_each_time() {
    let (bench, card) = stage().await;
    let mut root = visit(&bench, ROOT).await;
    let app = [
        ("name", "Books"),
        ("website", "https://books.example.com"),
        ("redirect_urls", "https://books.example.com/back"),
    ];
    let number = format!("/cards/{}/number", card["id"].as_str().unwrap());
    let hook = [("delivery_url", "http://127.0.0.1:9/")];
    let forms: [(&str, &[_]); 3] = [
        ("/apps/new", &app),
        ("/webhooks/new", &hook),
        (&number, &[("password", super::site_world::PASSWORD)]),
    ];
    for (path, typed) in forms {
        let page = root.get(path).await.expect(200);
        let first = root.post_from(&page, path, typed).await.expect(200);
        let second = root.post_from(&page, path, typed).await.expect(200);
        assert_eq!(first.body == second.body, path == number, "{path}");
    }
}
