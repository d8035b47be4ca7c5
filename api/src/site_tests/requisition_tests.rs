//! Requisitions as the people of a company meet them, and as those do who should not.

use std::sync::Arc;

use serde_json::json;

use super::books_world::purchase;
use super::company_world::{
    ACCOUNTANT, EVIL, MEMBER, REVIEWER, card_of, company, make, member, shown, visitor,
};
use super::site_world::{EMAIL, OTHER_EMAIL, pass, sign_in};
use super::visitor_tests::{Page, Visitor};
use crate::bench::{Bench, OTHER_COMPANY};
use crate::{router, test_world};

const CHAIRS: [(&str, &str); 4] =
    [("description", "Chairs"), ("amount", "120.50"), ("end_time", "2026-03-31"), ("note", "two")];

/// Asks for chairs and returns the path of the requisition.
async fn asked_for(visitor: &mut Visitor<'_>) -> String {
    let page = visitor.fill("/requisitions/new", &CHAIRS).await.expect(303);
    page.location().to_owned()
}

/// Sends what a page with this digest would.
async fn decide(
    visitor: &mut Visitor<'_>,
    path: &str,
    fields: &[(&str, &str)],
    seen: &str,
) -> Page {
    let fields = [fields, &[("seen", seen)]].concat();
    visitor.post(&format!("{path}/review"), &fields).await
}

fn api(path: &str) -> String {
    format!("/v1{path}")
}

#[tokio::test]
async fn what_is_asked_for_is_shown_to_who_asks_and_to_who_decides() {
    let bench = company().await;
    let mut mary = visitor(&bench, MEMBER).await;
    assert!(mary.get("/requisitions").await.expect(200).body.contains("No requests yet"));
    let path = asked_for(&mut mary).await;
    let page = mary.get(&path).await.expect(200);
    for part in ["Chairs", "$120.50", "31 Mar 2026<", "two", "Pending", "Request submitted"] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    assert!(!page.body.contains("/review\""), "members do not decide");
    let body = shown(&bench, &api(&path)).await;
    assert_eq!(body["member"]["email"], MEMBER);
    assert_eq!(body["end_time"], "2026-04-01T06:59:59.999999Z");

    for (email, sees, decides) in
        [(EMAIL, true, true), (REVIEWER, true, true), (ACCOUNTANT, true, false)]
    {
        let mut other = visitor(&bench, email).await;
        let list = other.get("/requisitions?status=pending").await.expect(200);
        assert_eq!(list.body.contains("Chairs"), sees, "{email}");
        let page = other.get(&path).await.expect(200);
        assert_eq!(page.body.contains("/review\""), decides, "{email}");
        let none = other.get("/requisitions?status=denied").await.expect(200);
        assert!(!none.body.contains("Chairs") && none.body.contains("No requests"), "{email}");
    }
}

#[tokio::test]
async fn faults_stand_at_their_fields_and_what_was_typed_stays() {
    let bench = company().await;
    let mut mary = visitor(&bench, MEMBER).await;
    let long = "x".repeat(1_001);
    let rows = [
        (("amount", "lots"), "Enter an amount, such as 1250.00."),
        (("amount", "-5"), "Must be above 0."),
        (("amount", "1.005"), "Must have at most 2 decimals."),
        (("amount", ""), "Required."),
        (("description", " "), "Required."),
        (("description", "a\0b"), "Contains invisible characters."),
        (("description", &long), "Must have at most 1000 characters."),
        (("note", "\u{7}"), "Contains invisible characters."),
        (("end_time", "2026-03-03"), "Must be today or later."),
        (("end_time", "<b>"), "Must be a date, such as 2030-03-31."),
        (("label", "x"), "Choose from the list."),
    ];
    for ((name, value), words) in rows {
        let mut fields = CHAIRS.to_vec();
        fields.retain(|(known, _)| *known != name);
        fields.push((name, value));
        let page = mary.fill("/requisitions/new", &fields).await.expect(400);
        let is_told = page.body.contains(&format!("id=\"{name}-error\">{words}"));
        // The company has no labels, so their field is not there: only the alert is.
        assert!(is_told || name == "label", "{name}={value}: {}", page.body);
        assert!(page.body.contains("role=\"alert\""), "{name}={value}");
        let typed = CHAIRS.iter().filter(|(known, _)| *known != name);
        for (_, kept) in typed {
            assert!(page.body.contains(kept), "{name}={value}: {kept} is gone");
        }
    }
    assert_eq!(shown(&bench, "/v1/requisitions").await["count"], 0);
}

#[tokio::test]
async fn another_members_request_does_not_exist() {
    let bench = company().await;
    let mut grace = visitor(&bench, REVIEWER).await;
    let path = asked_for(&mut grace).await;
    let mut mary = visitor(&bench, MEMBER).await;
    mary.get(&path).await.expect(404);
    mary.get("/requisitions/new").await;
    for act in ["", "/cancel"] {
        let fields = [&CHAIRS[..], &[("is_confirmed", "true")]].concat();
        mary.post(&format!("{path}{act}"), &fields).await.expect(404);
    }
    mary.post(&format!("{path}/review"), &[("verdict", "approve")]).await.expect(403);
    let list = mary.get(&format!("/requisitions?member={}", id_of(&bench, REVIEWER).await)).await;
    assert!(!list.body.contains("Chairs"), "{}", list.body);
    // Nor does one of another company, even for an administrator there.
    let mut stranger = sign_in(&bench, OTHER_EMAIL).await;
    stranger.get(&path).await.expect(403);
    let mut ada = visitor(&bench, EMAIL).await;
    let other = OTHER_COMPANY.to_string();
    ada.post("/company", &[("company", &other)]).await.expect(303);
    ada.get(&path).await.expect(404);
    assert_eq!(shown(&bench, &api(&path)).await["status"], "pending");
}

/// The page of a purchase named the request that had given the card, whoever had made it.
#[tokio::test]
async fn a_purchase_names_no_request_of_another_member() {
    let bench = company().await;
    let mut grace = visitor(&bench, REVIEWER).await;
    let path = asked_for(&mut grace).await;
    let approved = json!({"status": "approved"});
    assert_eq!(bench.ask("PUT", &api(&path), approved).await.0, 200);
    let card = shown(&bench, &api(&path)).await["card"].clone();
    let card_path = format!("/v1/cards/{}", card["id"].as_str().unwrap());
    let given = json!({"assigned_to": {"id": id_of(&bench, MEMBER).await}});
    assert_eq!(bench.ask("PUT", &card_path, given).await.0, 200);
    let bought = format!("/transactions/{}", purchase(&bench, &card, 1_000).await);
    for (email, is_named) in [(MEMBER, false), (EMAIL, true)] {
        let page = visitor(&bench, email).await.get(&bought).await.expect(200);
        assert_eq!(page.body.contains(&path), is_named, "{email}: {}", page.body);
        assert_eq!(page.body.contains("Requisition</dt>"), is_named, "{email}: {}", page.body);
    }
}

async fn id_of(bench: &Bench, email: &str) -> String {
    member(bench, email).await.id.0.to_string()
}

#[tokio::test]
async fn approving_gives_a_card_for_just_that() {
    let bench = company().await;
    let mut mary = visitor(&bench, MEMBER).await;
    let path = asked_for(&mut mary).await;
    let mut grace = visitor(&bench, REVIEWER).await;
    let page = grace.get(&path).await.expect(200);
    let seen = page.field("seen").unwrap();
    let yes = [("verdict", "approve"), ("card", ""), ("note", "fine")];
    decide(&mut grace, &path, &yes, &seen).await.expect(303);
    let body = shown(&bench, &api(&path)).await;
    assert_eq!(
        (&body["status"], &body["note"]),
        (&json!("approved"), &json!("two\nSome Body: fine"))
    );
    assert_eq!(body["reviewed_by"]["email"], REVIEWER);
    let card = shown(&bench, &format!("/v1/cards/{}", body["card"]["id"].as_str().unwrap())).await;
    assert_eq!(card["assigned_to"]["email"], MEMBER);
    assert_eq!(card["allowance"]["amount"], 120.5);
    assert_eq!(card["allowance"]["single_use"], true);
    let page = mary.get(&path).await.expect(200);
    let link = format!("/cards/{}", card["id"].as_str().unwrap());
    assert!(page.body.contains("Approved") && page.body.contains(&link), "{}", page.body);
    assert!(!grace.get(&path).await.body.contains(&link), "reviewers see no cards of others");

    // A second click, and somebody who still has the page open, change nothing.
    for verdict in ["approve", "deny"] {
        let page = decide(&mut grace, &path, &[("verdict", verdict)], &seen).await.expect(409);
        assert!(page.body.contains("someone else changed this") && page.body.contains("status"));
    }
    assert_eq!(shown(&bench, "/v1/cards").await["count"], 1);
    mary.post(&path, &CHAIRS).await.expect(409);
    mary.post(&format!("{path}/cancel"), &[("is_confirmed", "true")]).await.expect(409);
    assert_eq!(shown(&bench, &api(&path)).await["status"], "approved");
}

#[tokio::test]
async fn a_card_that_is_there_fulfils_it_and_no_others_card_is_offered() {
    let bench = company().await;
    let own = card_of(&bench, MEMBER, "Marys").await;
    let others = card_of(&bench, REVIEWER, "Graces").await;
    let closed = card_of(&bench, MEMBER, "Closed").await;
    bench.ask("DELETE", &format!("/v1/cards/{closed}"), json!(null)).await;
    let mut mary = visitor(&bench, MEMBER).await;
    let path = asked_for(&mut mary).await;
    let mut grace = visitor(&bench, REVIEWER).await;
    let page = grace.get(&path).await.expect(200);
    let is_offered = |id: &str| page.body.contains(&format!("<option value=\"{id}\""));
    assert_eq!([&own, &others, &closed].map(|id| is_offered(id)), [true, false, false]);
    let seen = page.field("seen").unwrap();
    for (card, status, words) in [
        ("<b>", 400, "Choose from the list."),
        ("00000000-0000-0000-0000-000000000009", 400, "Names no card of this company."),
        (closed.as_str(), 409, "terminated"),
        (others.as_str(), 400, "Must be a card of the requester."),
    ] {
        let fields = [("verdict", "approve"), ("card", card), ("note", "typed")];
        let page = decide(&mut grace, &path, &fields, &seen).await.expect(status);
        assert!(page.body.contains(words) && page.body.contains("typed</textarea>"), "{words}");
    }
    decide(&mut grace, &path, &[("verdict", "approve"), ("card", &own)], &seen).await.expect(303);
    assert_eq!(shown(&bench, &api(&path)).await["card"]["id"], own);
}

#[tokio::test]
async fn nobody_decides_about_what_they_have_not_seen_or_about_their_own() {
    let bench = company().await;
    let mut mary = visitor(&bench, MEMBER).await;
    let path = asked_for(&mut mary).await;
    let mut grace = visitor(&bench, REVIEWER).await;
    let seen = grace.get(&path).await.expect(200).field("seen").unwrap();
    let own = mary.get(&path).await.expect(200).field("seen").unwrap();
    let dearer = [("description", "Chairs"), ("amount", "9000"), ("seen", own.as_str())];
    mary.post(&path, &dearer).await.expect(303);
    let page = decide(&mut grace, &path, &[("verdict", "approve")], &seen).await.expect(409);
    for part in ["someone else changed this", "amount", "last day and note", "$9,000.00"] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    assert_eq!(shown(&bench, &api(&path)).await["status"], "pending");

    let path = asked_for(&mut grace).await;
    let page = grace.get(&path).await.expect(200);
    assert!(!page.body.contains("/review\""));
    let seen = page.field("seen").unwrap();
    decide(&mut grace, &path, &[("verdict", "approve")], &seen).await.expect(403);
    let mut ada = visitor(&bench, EMAIL).await;
    let seen = ada.get(&path).await.expect(200).field("seen").unwrap();
    let no = [("verdict", "deny"), ("note", "not\r\nnow")];
    decide(&mut ada, &path, &no, &seen).await.expect(303);
    let page = grace.get(&path).await.expect(200);
    assert!(
        page.body.contains("two<br>Ada Byron: not<br>now") && page.body.contains("Denied"),
        "{}",
        page.body
    );
    // The only administrator decides on their own request.
    let path = asked_for(&mut ada).await;
    let seen = ada.get(&path).await.expect(200).field("seen").unwrap();
    decide(&mut ada, &path, &[("verdict", "approve")], &seen).await.expect(303);
}

/// The role went between the check of the page and the verdict, which then had no reviewer.
#[tokio::test]
async fn whose_role_was_taken_reviews_nothing() {
    let bench = company().await;
    let mut mary = visitor(&bench, MEMBER).await;
    let path = asked_for(&mut mary).await;
    let reviewer = member(&bench, REVIEWER).await.id;
    let role = json!({"role": "member"});
    let (status, body) = bench.ask("PUT", &format!("/v1/members/{}", reviewer.0), role).await;
    assert_eq!(status, 200, "{body}");
    for status in ["approved", "denied"] {
        let verdict = json!({"status": status, "reviewed_by": {"id": reviewer.0}});
        let (status, body) = bench.ask("PUT", &api(&path), verdict).await;
        assert_eq!((status, &body["detail"]["param"]), (400, &json!("reviewed_by")), "{body}");
    }
    assert_eq!(shown(&bench, &api(&path)).await["status"], "pending");
}

#[tokio::test]
async fn who_asks_changes_it_until_it_is_decided_and_takes_it_back() {
    let bench = company().await;
    let body = json!({"name": "Office", "code": "40"});
    let label = make(&bench, "/v1/labels", body).await;
    let mut mary = visitor(&bench, MEMBER).await;
    let path = asked_for(&mut mary).await;
    let page = mary.get(&path).await.expect(200);
    assert!(page.body.contains("Office (40)") && !page.body.contains("name=\"category\""));
    let seen = page.field("seen").unwrap();
    let fields = [("description", "Sofas"), ("amount", "0.01"), ("end_time", "2026-03-31")];
    let fields = [&fields[..], &[("label", &*label), ("seen", &*seen), ("note", "")]].concat();
    mary.post(&path, &fields).await.expect(303);
    let body = shown(&bench, &api(&path)).await;
    assert_eq!((&body["description"], &body["note"]), (&json!("Sofas"), &json!(null)));
    assert_eq!(body["label"]["id"], label);
    // A form whose shown values have changed meanwhile is refused.
    let page = mary.post(&path, &fields).await.expect(409);
    assert!(page.body.contains("description, note and label") || page.body.contains("amount"));
    // An end set to the minute by a program stays, even in the past, while another field changes.
    let at = json!({"end_time": "2026-03-04T21:30:00Z"});
    assert_eq!(bench.ask("PUT", &api(&path), at).await.0, 200);
    pass(&bench, 7_200);
    let seen = mary.get(&path).await.expect(200).field("seen").unwrap();
    let fields = [("description", "Sofas"), ("amount", "5"), ("end_time", "2026-03-04")];
    mary.post(&path, &[&fields[..], &[("seen", &seen)]].concat()).await.expect(303);
    assert_eq!(shown(&bench, &api(&path)).await["end_time"], "2026-03-04T21:30:00.000000Z");

    mary.post(&format!("{path}/cancel"), &[]).await.expect(400);
    mary.post(&format!("{path}/cancel"), &[("is_confirmed", "true")]).await.expect(303);
    let page = mary.get(&path).await.expect(200);
    assert!(page.body.contains("Request withdrawn") && page.body.contains("Canceled"));
    mary.post(&format!("{path}/cancel"), &[("is_confirmed", "true")]).await.expect(409);
}

#[tokio::test]
async fn members_ask_for_themselves_and_administrators_for_anybody() {
    let bench = company().await;
    let (mary_id, grace_id) = (id_of(&bench, MEMBER).await, id_of(&bench, REVIEWER).await);
    let mut mary = visitor(&bench, MEMBER).await;
    let sent = [&CHAIRS[..], &[("member", &grace_id)]].concat();
    let page = mary.fill("/requisitions/new", &sent).await.expect(303);
    let body = shown(&bench, &api(page.location())).await;
    assert_eq!(body["member"]["id"], mary_id, "what is sent besides does not count");
    let mut ada = visitor(&bench, EMAIL).await;
    let page = ada.fill("/requisitions/new", &sent).await.expect(303);
    assert_eq!(shown(&bench, &api(page.location())).await["member"]["id"], grace_id);
    let sent = [&CHAIRS[..], &[("member", "00000000-0000-0000-0000-000000000009")]].concat();
    let page = ada.fill("/requisitions/new", &sent).await.expect(400);
    assert!(page.body.contains("id=\"member-error\""), "{}", page.body);
}

#[tokio::test]
async fn no_text_of_a_requisition_becomes_markup() {
    let bench = company().await;
    let label = json!({"name": EVIL});
    make(&bench, "/v1/labels", label).await;
    let mut mary = visitor(&bench, MEMBER).await;
    let fields = [("description", EVIL), ("note", EVIL), ("amount", "1")];
    let path = mary.fill("/requisitions/new", &fields).await.expect(303).location().to_owned();
    let refused = [("description", EVIL), ("note", EVIL), ("amount", EVIL), ("end_time", EVIL)];
    let mut pages = vec![mary.fill("/requisitions/new", &refused).await.expect(400)];
    for email in [MEMBER, EMAIL] {
        let mut visitor = visitor(&bench, email).await;
        for path in ["/requisitions", &path, "/requisitions/new"] {
            pages.push(visitor.get(path).await.expect(200));
        }
        let seen = visitor.get(&path).await.field("seen").unwrap();
        if email == EMAIL {
            let fields = [("verdict", "approve"), ("card", EVIL), ("note", EVIL)];
            pages.push(decide(&mut visitor, &path, &fields, &seen).await.expect(400));
        }
        let evil = [("status", EVIL), ("member", EVIL)];
        let query =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(evil).finish();
        pages.push(visitor.get(&format!("/requisitions?{query}")).await.expect(200));
    }
    for page in pages {
        assert!(
            !page.body.contains("<script>alert") && !page.body.contains("<b>"),
            "{}",
            page.body
        );
    }
    assert_eq!(shown(&bench, &api(&path)).await["description"], EVIL);
}

#[tokio::test]
async fn a_page_left_open_across_a_logout_does_nothing() {
    let bench = company().await;
    let mut mary = visitor(&bench, MEMBER).await;
    let path = asked_for(&mut mary).await;
    mary.get(&path).await.expect(200);
    let mut open = mary.copy();
    mary.post("/logout", &[]).await.expect(303);
    let sent = [("is_confirmed", "true")];
    let page = open.post(&format!("{path}/cancel"), &sent).await.expect(303);
    assert!(page.location().starts_with("/login"), "{}", page.location());
    // The same browser, where somebody else has signed in meanwhile.
    let grace = visitor(&bench, REVIEWER).await;
    open.cookies = grace.cookies.clone();
    open.post("/requisitions/new", &CHAIRS).await.expect(403);
    assert_eq!(shown(&bench, &api(&path)).await["status"], "pending");
    assert_eq!(shown(&bench, "/v1/requisitions").await["count"], 1);
}

#[tokio::test]
async fn where_cards_are_of_another_network_nothing_can_be_asked_for() {
    let mut bench = company().await;
    let mut config = (*bench.state.config).clone();
    config.requisition_network = "mastercard".to_owned();
    bench.state.config = Arc::new(config);
    bench.routes = router::whole(test_world::served(bench.state.clone()));
    let mut mary = visitor(&bench, MEMBER).await;
    let list = mary.get("/requisitions").await.expect(200);
    assert!(list.body.contains("cards of the network mastercard only"), "{}", list.body);
    assert!(!list.body.contains("href=\"/requisitions/new\""));
    mary.get("/requisitions/new").await.expect(409);
    mary.get("/account").await;
    let page = mary.post("/requisitions/new", &CHAIRS).await.expect(400);
    assert!(page.body.contains("network mastercard only"), "{}", page.body);
}
