//! A company with more categories than a list is good for: a chosen category stays, and any is found.

use cardswitch_engine::directory::member::MemberRole;
use serde_json::{Value, json};

use super::books_world::{dimension, own_card, purchase, sign_in_as};
use super::site_world::{EMAIL, bench};
use super::visitor_tests::Page;
use crate::bench::{Bench, id_of};

/// As many as no page of a list has.
const COUNT: usize = 1_200;
const FIRST: &str = "First of all (1)";

/// A switch with many categories, and the id of the first.
async fn crowd() -> (Bench, String) {
    let bench = bench().await;
    let first = json!({"name": "First of all", "code": "1"});
    let first = dimension(&bench, "categories", first).await;
    for number in 1..COUNT {
        let category = json!({"name": format!("Category {number:04}")});
        dimension(&bench, "categories", category).await;
    }
    (bench, first)
}

/// The text in a field to type in.
fn typed<'a>(page: &'a Page, name: &str) -> &'a str {
    let mark = format!("id=\"{name}\" name=\"{name}\" type=\"text\" value=\"");
    let (_, rest) = page.body.split_once(&mark).unwrap_or_else(|| panic!("{}", page.body));
    rest.split_once('"').unwrap().0
}

fn is_suggested(page: &Page, label: &str) -> bool {
    page.body.contains(&format!("<option value=\"{label}\"></option>"))
}

async fn category_of(bench: &Bench, path: &str) -> Value {
    bench.get(&format!("/v1{path}")).await["category"].clone()
}

/// Forms offered the newest thousand of a kind. An older one was no option, and a visitor who saved
/// another field of the same form cleared it.
#[tokio::test]
async fn what_is_chosen_stays_and_any_is_found_by_name_or_code() {
    let (bench, first) = crowd().await;
    let card = own_card(&bench).await;
    let bought = format!("/transactions/{}", purchase(&bench, &card, 100).await);
    let card = format!("/cards/{}", id_of(&card));
    for path in [&card, &bought] {
        let (status, body) =
            bench.ask("PUT", &format!("/v1{path}"), json!({"category": {"id": first}})).await;
        assert_eq!(status, 200, "{body}");
    }
    let mut visitor = sign_in_as(&bench, MemberRole::Administrator).await;
    let forms = [
        (format!("{card}/edit"), &card, vec![("description", "Late lunch"), ("holder", EMAIL)]),
        (bought.clone(), &bought, vec![("note", "noted")]),
    ];
    for (form, path, others) in &forms {
        let page = visitor.get(form).await.expect(200);
        assert_eq!(typed(&page, "category"), FIRST, "{form}");
        assert!(is_suggested(&page, FIRST) && page.body.contains("The list has 1,001 of 1,200."));
        // Something else is saved: the field comes back as it was shown.
        let (seen, shown) = (page.field("seen").unwrap(), typed(&page, "category").to_owned());
        let fields = [&others[..], &[("seen", &seen), ("category", &shown)]].concat();
        visitor.post(form, &fields).await.expect(303);
        assert_eq!(category_of(&bench, path).await["id"], first, "{form}");

        let rows = [("category 0077", "Category 0077"), ("1", "First of all")];
        for (text, name) in rows {
            let seen = visitor.get(form).await.field("seen").unwrap();
            let fields = [&others[..], &[("seen", &seen), ("category", text)]].concat();
            visitor.post(form, &fields).await.expect(303);
            assert_eq!(category_of(&bench, path).await["name"], name, "{form} {text}");
        }
        // A text that names none is refused, stays as it was typed, and narrows the suggestions.
        let seen = visitor.get(form).await.field("seen").unwrap();
        let fields = [&others[..], &[("seen", &seen), ("category", "gory 119")]].concat();
        let page = visitor.post(form, &fields).await.expect(400);
        assert!(page.body.contains("id=\"category-error\""), "{}", page.body);
        assert_eq!(typed(&page, "category"), "gory 119");
        assert!(is_suggested(&page, "Category 1190") && !is_suggested(&page, "Category 0100"));
        assert_eq!(category_of(&bench, path).await["id"], first, "{form}");
    }
    assert_eq!(bench.get(&format!("/v1{card}")).await["description"], "Late lunch");
    let page = visitor.get("/transactions?category=first+of+all").await.expect(200);
    assert!(page.body.contains(&bought) && typed(&page, "category") == FIRST, "{}", page.body);
    let page = visitor.get("/transactions?category=gory+119").await.expect(400);
    assert!(page.body.contains("id=\"category-error\""), "{}", page.body);
}

#[tokio::test]
async fn what_one_is_part_of_stays_and_is_found_too() {
    let (bench, first) = crowd().await;
    let mut visitor = sign_in_as(&bench, MemberRole::Accountant).await;
    let path = "/dimensions/categories";
    let fields = [("name", "Below"), ("code", ""), ("parent", "first of all")];
    visitor.fill(path, &fields).await.expect(303);
    let made = bench.get("/v1/categories?limit=1").await["results"][0].clone();
    assert_eq!(made["parent"]["id"], first);
    let form = format!("{path}/{}", id_of(&made));
    let page = visitor.get(&form).await.expect(200);
    let (seen, parent) = (page.field("seen").unwrap(), typed(&page, "parent").to_owned());
    assert_eq!(parent, FIRST);
    let fields = [("seen", seen.as_str()), ("name", "Beneath"), ("code", ""), ("parent", &parent)];
    visitor.post(&form, &fields).await.expect(303);
    let now = bench.get(&format!("/v1/categories/{}", id_of(&made))).await;
    assert_eq!((&now["name"], &now["parent"]["id"]), (&json!("Beneath"), &json!(first)));
}
