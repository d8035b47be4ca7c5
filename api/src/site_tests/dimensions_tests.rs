//! Categories and their like on the site: made, changed, deleted, and by whom.

use cardswitch_engine::directory::member::MemberRole;
use serde_json::{Value, json};

use super::books_world::{EVIL, ODD, dimension, own_card, purchase, sign_in_as};
use super::site_world::bench;
use super::visitor_tests::{ORIGIN, Page, Visitor};
use crate::bench::{Bench, OTHER_COMPANY};

const PATH: &str = "/dimensions/categories";

async fn categories(bench: &Bench) -> Vec<Value> {
    let listed = bench.get("/v1/categories?ordering=created_at").await;
    listed["results"].as_array().unwrap().clone()
}

/// Sends the form of one as its page shows it, with these fields.
async fn change(visitor: &mut Visitor<'_>, id: &str, fields: [&str; 3]) -> Page {
    let path = format!("{PATH}/{id}");
    let seen = visitor.get(&path).await.expect(200).field("seen").unwrap();
    let [name, code, parent] = fields;
    let fields = [("seen", seen.as_str()), ("name", name), ("code", code), ("parent", parent)];
    visitor.post(&path, &fields).await
}

#[tokio::test]
async fn a_tree_of_categories_is_made_and_shown() {
    let bench = bench().await;
    let mut visitor = sign_in_as(&bench, MemberRole::Accountant).await;
    let page = visitor.get("/dimensions").await.expect(303);
    assert_eq!(page.location(), PATH);
    let page = visitor.get(PATH).await.expect(200);
    assert!(page.body.contains("No category yet"), "{}", page.body);
    let travel = [("name", " Travel "), ("code", "6000"), ("parent", "")];
    visitor.post(PATH, &travel).await.expect(303);
    let parent = categories(&bench).await[0]["id"].as_str().unwrap().to_owned();
    let flights = [("name", "Flights"), ("code", ""), ("parent", parent.as_str())];
    visitor.post(PATH, &flights).await.expect(303);
    let made = categories(&bench).await;
    assert_eq!((&made[0]["name"], &made[0]["code"]), (&json!("Travel"), &json!("6000")));
    assert_eq!(made[1]["parent"]["id"], parent);
    let page = visitor.get(PATH).await.expect(200);
    assert!(page.body.contains("class=\"level-1\"") && page.body.contains("Travel › Flights"));

    let rows = [
        ([("name", ""), ("code", ""), ("parent", "")], 400, "name-error"),
        ([("name", "x"), ("code", "6-1"), ("parent", "")], 400, "code-error"),
        ([("name", "x"), ("code", "٤"), ("parent", "")], 400, "code-error"),
        ([("name", "x"), ("code", ""), ("parent", "nothing")], 400, "parent-error"),
        ([("name", "x"), ("code", "6000"), ("parent", "")], 409, "role=\"alert\""),
    ];
    for (fields, status, mark) in rows {
        let page = visitor.post(PATH, &fields).await.expect(status);
        assert!(page.body.contains(mark), "{fields:?}: {}", page.body);
        let typed = format!("value=\"{}\"", fields[0].1);
        assert!(page.body.contains(&typed), "what was typed stays: {fields:?}");
    }
    let long = "x".repeat(201);
    visitor.post(PATH, &[("name", &long), ("code", ""), ("parent", "")]).await.expect(400);
    assert_eq!(categories(&bench).await.len(), 2);
}

#[tokio::test]
async fn one_is_changed_but_never_put_below_itself() {
    let bench = bench().await;
    let travel = dimension(&bench, "categories", json!({"name": "Travel"})).await;
    let flights = json!({"name": "Flights", "parent": {"id": travel}});
    let flights = dimension(&bench, "categories", flights).await;
    let mut visitor = sign_in_as(&bench, MemberRole::Administrator).await;
    let page = visitor.get(&format!("{PATH}/{travel}")).await.expect(200);
    assert!(!page.body.contains(&format!("value=\"{flights}\"")), "what is below is not offered");
    let page = change(&mut visitor, &travel, ["Travel", "", &flights]).await.expect(400);
    assert!(page.body.contains("parent-error"), "{}", page.body);
    change(&mut visitor, &flights, ["By air", "77", ""]).await.expect(303);
    let now = bench.get(&format!("/v1/categories/{flights}")).await;
    assert_eq!(
        (&now["name"], &now["code"], &now["parent"]),
        (&json!("By air"), &json!("77"), &Value::Null)
    );
    change(&mut visitor, &travel, ["Travel", "77", ""]).await.expect(409);

    // Somebody else was quicker.
    let path = format!("{PATH}/{travel}");
    let seen = visitor.get(&path).await.field("seen").unwrap();
    bench.ask("PUT", &format!("/v1/categories/{travel}"), json!({"name": "Trips"})).await;
    let fields = [("seen", seen.as_str()), ("name", "Voyages"), ("code", ""), ("parent", "")];
    let page = visitor.post(&path, &fields).await.expect(409);
    assert!(page.body.contains("open: name.") && page.body.contains("value=\"Trips\""));
}

#[tokio::test]
async fn a_deletion_says_what_it_clears_and_asks_first() {
    let bench = bench().await;
    let travel = dimension(&bench, "categories", json!({"name": "Travel"})).await;
    let below = json!({"name": "Flights", "parent": {"id": travel}});
    let below = dimension(&bench, "categories", below).await;
    let card = own_card(&bench).await;
    let card_path = format!("/v1/cards/{}", card["id"].as_str().unwrap());
    bench.ask("PUT", &card_path, json!({"category": {"id": travel}})).await;
    let bought = purchase(&bench, &card, 100).await;
    let mut visitor = sign_in_as(&bench, MemberRole::Accountant).await;
    let path = format!("{PATH}/{travel}");
    let page = visitor.get(&path).await.expect(200);
    for text in ["1 transaction;", "1 card (", "1 child moves up"] {
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
    let page = visitor.post(&format!("{path}/delete"), &[]).await.expect(400);
    assert!(page.body.contains("Tick the box to confirm"));
    visitor.post(&format!("{path}/delete"), &[("is_confirmed", "true")]).await.expect(303);
    visitor.get(&path).await.expect(404);
    assert_eq!(bench.get(&card_path).await["category"], Value::Null);
    assert_eq!(bench.get(&format!("/v1/transactions/{bought}")).await["category"], Value::Null);
    assert_eq!(bench.get(&format!("/v1/categories/{below}")).await["parent"], Value::Null);
}

#[tokio::test]
async fn only_those_who_keep_the_books_see_any_of_it() {
    let bench = bench().await;
    let travel = dimension(&bench, "categories", json!({"name": "Travel"})).await;
    for role in [MemberRole::Reviewer, MemberRole::Member] {
        let mut visitor = sign_in_as(&bench, role).await;
        for path in [PATH.to_owned(), format!("{PATH}/{travel}")] {
            visitor.get(&path).await.expect(403);
            visitor.get("/account").await;
            let fields = [("name", "Mine"), ("code", ""), ("parent", ""), ("seen", "")];
            visitor.post(&path, &fields).await.expect(403);
        }
        let delete = format!("{PATH}/{travel}/delete");
        visitor.post(&delete, &[("is_confirmed", "true")]).await.expect(403);
    }
    assert_eq!(categories(&bench).await[0]["name"], "Travel");
    let mut visitor = sign_in_as(&bench, MemberRole::Administrator).await;
    let foreign = OTHER_COMPANY.to_string();
    for path in [
        "/dimensions/nothing".to_owned(),
        format!("/dimensions/labels/{travel}"),
        format!("{PATH}/{foreign}"),
        format!("{PATH}/1"),
    ] {
        visitor.get(&path).await.expect(404);
    }
}

#[tokio::test]
async fn no_name_becomes_markup() {
    let bench = bench().await;
    let mut visitor = sign_in_as(&bench, MemberRole::Administrator).await;
    for text in [EVIL, ODD] {
        visitor.fill(PATH, &[("name", text), ("code", ""), ("parent", "")]).await.expect(303);
        let made = categories(&bench).await.pop().unwrap();
        assert_eq!(made["name"], text);
        let path = format!("{PATH}/{}", made["id"].as_str().unwrap());
        for path in [PATH, path.as_str()] {
            let page = visitor.get(path).await.expect(200);
            assert!(!page.body.contains("<script") && !page.body.contains("<b>"), "{}", page.body);
        }
    }
    for name in ["a\0", "a\nb", "a\u{7f}"] {
        visitor.fill(PATH, &[("name", name), ("code", ""), ("parent", "")]).await.expect(400);
    }
    let wrong = [("name", "x"), ("code", EVIL), ("parent", EVIL)];
    let page = visitor.fill(PATH, &wrong).await.expect(400);
    assert!(!page.body.contains("<script"), "{}", page.body);
}

#[tokio::test]
async fn a_page_left_open_across_a_sign_out_changes_nothing() {
    let bench = bench().await;
    let travel = dimension(&bench, "categories", json!({"name": "Travel"})).await;
    let path = format!("{PATH}/{travel}");
    let mut visitor = sign_in_as(&bench, MemberRole::Administrator).await;
    let page = visitor.get(&path).await.expect(200);
    let (seen, csrf) = (page.field("seen").unwrap(), page.csrf().unwrap());
    visitor.copy().post("/logout", &[]).await.expect(303);
    let fields = [("seen", seen.as_str()), ("name", "Late"), ("code", ""), ("parent", "")];
    let delete = format!("{path}/delete");
    let confirmed = [("is_confirmed", "true")];
    for (path, fields) in [(path.as_str(), &fields[..]), (PATH, &fields), (&delete, &confirmed)] {
        let page = visitor.post(path, fields).await.expect(303);
        assert!(page.location().starts_with("/login"), "{path}: {}", page.location());
    }
    // Somebody signs in again in the same browser: the page that is still open is not theirs.
    let mut next = sign_in_as(&bench, MemberRole::Administrator).await;
    let headers = [("origin", ORIGIN), ("sec-fetch-site", "same-origin")];
    let body = format!("csrf={csrf}&seen={seen}&name=Late&code=&parent=&is_confirmed=true");
    for path in [path.as_str(), PATH, &delete] {
        next.post_with(path, &headers, &body).await.expect(403);
    }
    let now = categories(&bench).await;
    assert_eq!((now.len(), &now[0]["name"]), (1, &json!("Travel")));
}

/// A dimension that another person deleted is gone for a visitor with its page open, and is not made again.
#[tokio::test]
async fn what_was_deleted_meanwhile_is_gone_for_who_still_edits_it() {
    let bench = bench().await;
    let travel = dimension(&bench, "categories", json!({"name": "Travel"})).await;
    let below = json!({"name": "Flights", "parent": {"id": travel}});
    let below = dimension(&bench, "categories", below).await;
    let mut visitor = sign_in_as(&bench, MemberRole::Accountant).await;
    let path = format!("{PATH}/{travel}");
    let seen = visitor.get(&path).await.field("seen").unwrap();
    let child = format!("{PATH}/{below}");
    let child_seen = visitor.get(&child).await.field("seen").unwrap();
    let (status, _) = bench.ask("DELETE", &format!("/v1/categories/{travel}"), Value::Null).await;
    assert_eq!(status, 204);
    let fields = [("seen", seen.as_str()), ("name", "Trips"), ("code", ""), ("parent", "")];
    visitor.post(&path, &fields).await.expect(404);
    let fields =
        [("seen", child_seen.as_str()), ("name", "Air"), ("code", ""), ("parent", &travel)];
    let page = visitor.post(&child, &fields).await.expect(409);
    assert!(page.body.contains("open: parent."), "{}", page.body);
    assert_eq!(categories(&bench).await.len(), 1);
}
