//! `/v1/categories`, `/v1/departments`, `/v1/labels`, `/v1/locations`: four trees of the same rules, on
//! cards and on the transactions made with them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use cardswitch_harness::{HttpClient, Installation, Purchase, Switch};
use serde_json::{Value, json};

const PLURALS: [&str; 4] = ["categories", "departments", "labels", "locations"];
const FIELDS: [&str; 4] = ["category", "department", "label", "location"];
const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

#[test]
fn each_kind_is_made_shown_changed_and_deleted() {
    let installation = Installation::init(60, 1_101);
    let switch = installation.serve();
    let api = switch.api();
    for plural in PLURALS {
        let path = format!("/v1/{plural}");
        let made = api.post(&path, &json!({"name": "Travel", "code": 42})).expect(201);
        let keys: Vec<_> = made.as_object().expect("an object").keys().cloned().collect();
        assert_eq!(keys, ["id", "url", "name", "code", "parent", "created_at"]);
        assert_eq!(made["code"], "42", "numbers are taken, text is given");
        assert_eq!(made["parent"], Value::Null);
        let own = format!("{path}/{}", text(&made["id"]));
        let url = text(&made["url"]);
        assert!(url.starts_with("http") && url.ends_with(&own), "{url} leads to {own}");
        assert_eq!(api.get(&own).expect(200), made);
        let listed = api.get(&path).expect(200);
        let expected = json!({"count": 1, "next": null, "previous": null, "results": [made]});
        assert_eq!(listed, expected);

        let changed = api.put(&own, &json!({"name": "Trips", "id": NOBODY})).expect(200);
        assert_eq!((&changed["name"], &changed["code"]), (&json!("Trips"), &json!("42")));
        assert_eq!(changed["id"], made["id"], "read-only fields are ignored");
        let cleared = api.put(&own, &json!({"code": null})).expect(200);
        assert_eq!((&cleared["name"], &cleared["code"]), (&json!("Trips"), &Value::Null));
        assert_eq!(api.get(&own).expect(200), cleared);

        let deleted = api.delete(&own);
        assert_eq!((deleted.status, deleted.text().as_str()), (204, ""));
        api.get(&own).expect_error(404);
        api.put(&own, &json!({"name": "Back"})).expect_error(404);
        api.delete(&own).expect_error(404);
        assert_eq!(api.get(&path).expect(200)["count"], 0);
    }
}

#[test]
fn kinds_are_apart_and_unknown_ids_are_404() {
    let installation = Installation::init(60, 1_102);
    let switch = installation.serve();
    let api = switch.api();
    let category = make(&api, "categories", &json!({"name": "Travel", "code": "1"}));
    make(&api, "labels", &json!({"name": "Travel", "code": "1"}));
    for path in [
        format!("/v1/labels/{category}"),
        format!("/v1/categories/{NOBODY}"),
        "/v1/categories/travel".to_owned(),
        "/v1/colours".to_owned(),
    ] {
        api.get(&path).expect_error(404);
        api.put(&path, &json!({"name": "x"})).expect_error(404);
        api.delete(&path).expect_error(404);
    }
    switch.anonymous().get("/v1/categories").expect_error(401);
    switch.anonymous().post("/v1/categories", &json!({"name": "x"})).expect_error(401);
    let refused = api.delete("/v1/categories");
    refused.expect_error(405);
}

#[test]
fn codes_are_unique_and_free_again_after_deletion() {
    let installation = Installation::init(60, 1_103);
    let switch = installation.serve();
    let api = switch.api();
    let first = make(&api, "categories", &json!({"name": "One", "code": "100"}));
    let second = make(&api, "categories", &json!({"name": "Two", "code": "0100"}));
    let taken = api.post("/v1/categories", &json!({"name": "Three", "code": 100}));
    assert_eq!(taken.expect_error(409)["code"], "code_taken");
    let second = format!("/v1/categories/{second}");
    assert_eq!(api.put(&second, &json!({"code": "100"})).expect_error(409)["code"], "code_taken");
    assert_eq!(api.get(&second).expect(200)["code"], "0100", "nothing changed");
    api.delete(&format!("/v1/categories/{first}")).expect(204);
    api.put(&second, &json!({"code": "100"})).expect(200);
}

#[test]
fn trees_show_every_level_and_lift_children_when_a_parent_goes() {
    let installation = Installation::init(60, 1_104);
    let switch = installation.serve();
    let api = switch.api();
    let mut ids = vec![make(&api, "departments", &json!({"name": "Level 1"}))];
    for level in 2..=10 {
        let parent = json!({"id": ids[level - 2]});
        let body = json!({"name": format!("Level {level}"), "parent": parent});
        ids.push(make(&api, "departments", &body));
    }
    let path = |level: usize| format!("/v1/departments/{}", ids[level - 1]);
    let names_of = |level: usize| names(&api.get(&path(level)).expect(200));
    let all: Vec<_> = (1..=10).rev().map(|level| format!("Level {level}")).collect();
    assert_eq!(names_of(10), all);

    let below = json!({"name": "Level 11", "parent": {"id": ids[9]}});
    let detail = api.post("/v1/departments", &below).expect_error(400);
    assert_eq!((&detail["code"], &detail["param"]), (&json!("too_deep"), &json!("parent")));
    for parent in [1, 5, 10] {
        let body = json!({"parent": {"id": ids[parent - 1]}});
        let detail = api.put(&path(1), &body).expect_error(400);
        assert_eq!((&detail["code"], &detail["param"]), (&json!("cycle"), &json!("parent")));
    }

    api.delete(&path(5)).expect(204);
    assert_eq!(names_of(6), ["Level 6", "Level 4", "Level 3", "Level 2", "Level 1"]);
    api.delete(&path(1)).expect(204);
    assert_eq!(names_of(3), ["Level 3", "Level 2"]);
    let alone = api.put(&path(4), &json!({"parent": null})).expect(200);
    assert_eq!(names(&alone), ["Level 4"]);
    assert_eq!(names_of(6), ["Level 6", "Level 4"], "what stands below comes along");
    api.put(&path(3), &json!({"parent": {"id": ids[9]}})).expect(200);
    assert_eq!(names_of(3).len(), 7);
}

#[test]
fn bodies_at_fault_name_every_field() {
    let installation = Installation::init(60, 1_105);
    let switch = installation.serve();
    let api = switch.api();
    let label = make(&api, "labels", &json!({"name": "Not a location"}));
    let gone = make(&api, "locations", &json!({"name": "Gone"}));
    api.delete(&format!("/v1/locations/{gone}")).expect(204);
    let own = format!("/v1/locations/{}", make(&api, "locations", &json!({"name": "Own"})));
    let before = api.get(&own).expect(200);
    let long = "x".repeat(201);
    let rows = [
        (json!({"name": null}), vec![("name", "required", "null")]),
        (json!({"name": 5}), vec![("name", "not_text", "not_text")]),
        (json!({"name": " "}), vec![("name", "blank", "blank")]),
        (json!({"name": long}), vec![("name", "too_long", "too_long")]),
        (json!({"name": "a\nb"}), vec![("name", "control_character", "control_character")]),
        (json!({"name": "x", "code": "A1"}), vec![("code", "not_digits", "not_digits")]),
        (json!({"name": "x", "code": ""}), vec![("code", "not_digits", "not_digits")]),
        (json!({"name": "x", "code": -1}), vec![("code", "not_digits", "not_digits")]),
        (json!({"name": "x", "code": 1.5}), vec![("code", "not_digits", "not_digits")]),
        (json!({"name": "x", "code": true}), vec![("code", "not_digits", "not_digits")]),
        (json!({"name": "x", "code": "1".repeat(21)}), vec![("code", "too_long", "too_long")]),
        (
            json!({"name": "x", "parent": gone}),
            vec![("parent", "not_a_reference", "not_a_reference")],
        ),
        (
            json!({"name": "x", "parent": {"id": 7}}),
            vec![("parent", "not_a_reference", "not_a_reference")],
        ),
        (
            json!({"name": "x", "parent": {"id": NOBODY}}),
            vec![("parent", "not_found", "not_found")],
        ),
        (json!({"name": "x", "parent": {"id": gone}}), vec![("parent", "not_found", "not_found")]),
        (json!({"name": "x", "parent": {"id": label}}), vec![("parent", "not_found", "not_found")]),
        (
            json!({"name": [], "code": "x", "parent": {"id": NOBODY}}),
            vec![
                ("name", "not_text", "not_text"),
                ("code", "not_digits", "not_digits"),
                ("parent", "not_found", "not_found"),
            ],
        ),
    ];
    for (body, faults) in rows {
        let posted = faults.iter().map(|(param, code, _)| (*param, *code)).collect::<Vec<_>>();
        let detail = api.post("/v1/locations", &body).expect_error(400);
        assert_eq!(faults_of(&detail), owned(&posted), "POST {body}");
        let put = faults.iter().map(|(param, _, code)| (*param, *code)).collect::<Vec<_>>();
        let detail = api.put(&own, &body).expect_error(400);
        assert_eq!(faults_of(&detail), owned(&put), "PUT {body}");
    }
    let missing = api.post("/v1/locations", &json!({})).expect_error(400);
    assert_eq!(faults_of(&missing), owned(&[("name", "required")]));
    assert_eq!(api.get(&own).expect(200), before, "nothing changed");
    assert_eq!(api.get("/v1/locations").expect(200)["count"], 1, "nothing was made");
}

#[test]
fn lists_have_pages_bounds_and_an_order() {
    let installation = Installation::init(60, 1_106);
    let switch = installation.serve();
    let api = switch.api();
    let made: Vec<_> =
        (0..12).map(|n| make(&api, "labels", &json!({"name": format!("Label {n}")}))).collect();
    make(&api, "categories", &json!({"name": "Of another kind"}));
    let newest_first: Vec<_> = made.iter().rev().cloned().collect();
    assert_eq!(all_pages(&api, "/v1/labels?limit=5"), newest_first);
    assert_eq!(all_pages(&api, "/v1/labels?limit=5&ordering=-created_at"), newest_first);
    assert_eq!(all_pages(&api, "/v1/labels?limit=5&ordering=created_at"), made);
    let middle = api.get(&format!("/v1/labels/{}", made[4])).expect(200);
    let at = text(&middle["created_at"]);
    assert_eq!(all_pages(&api, &format!("/v1/labels?created_after={at}")), newest_first[..8]);
    assert_eq!(all_pages(&api, &format!("/v1/labels?created_before={at}")), newest_first[8..]);
    let page = api.get("/v1/labels?limit=5&offset=5").expect(200);
    assert!(text(&page["previous"]).ends_with("/v1/labels?limit=5&offset=0"));
    assert!(text(&page["next"]).ends_with("/v1/labels?limit=5&offset=10"));
    for query in ["limit=x", "offset=-1", "ordering=name", "created_after=noon"] {
        api.get(&format!("/v1/labels?{query}")).expect_error(400);
    }
}

#[test]
fn cards_carry_dimensions_and_their_transactions_receive_them() {
    let installation = Installation::init(60, 1_107);
    let switch = installation.serve();
    let api = switch.api();
    let ids: Vec<_> = PLURALS
        .iter()
        .map(|plural| make(&api, plural, &json!({"name": plural, "code": "7"})))
        .collect();
    let mut body = json!({"description": "Tagged", "is_virtual": true, "allowance": {"amount": 9}});
    for (field, id) in FIELDS.iter().zip(&ids) {
        body[*field] = json!({"id": id});
    }
    let made = api.post("/v1/cards", &body).expect(201);
    for ((field, plural), id) in FIELDS.iter().zip(PLURALS).zip(&ids) {
        let reference = &made[*field];
        assert_eq!(reference["id"], id.as_str());
        assert_eq!((&reference["name"], &reference["code"]), (&json!(plural), &json!("7")));
        assert!(text(&reference["url"]).ends_with(&format!("/v1/{plural}/{id}")));
        let keys: Vec<_> = reference.as_object().expect("an object").keys().cloned().collect();
        assert_eq!(keys, ["id", "url", "code", "name"]);
    }

    // A test card gets two of them by PUT; its earlier transaction has none, its next has both.
    let card = installation.cards.ordinary();
    let path = format!("/v1/cards/{}", card.card_id);
    let listed = format!("/v1/transactions?card={}", card.card_id);
    switch.acquirer().ask(&Purchase::of(card, 100).request()).expect_approved();
    let set = json!({"category": {"id": ids[0]}, "location": {"id": ids[3]}});
    let changed = api.put(&path, &set).expect(200);
    assert_eq!((&changed["category"]["id"], &changed["label"]), (&json!(ids[0]), &Value::Null));
    switch.acquirer().ask(&Purchase::of(card, 200).request()).expect_approved();
    let rows = api.get(&listed).expect(200)["results"].clone();
    assert_eq!((&rows[0]["category"], &rows[0]["label"]), (&changed["category"], &Value::Null));
    assert_eq!(rows[0]["location"], changed["location"]);
    assert_eq!((&rows[1]["category"], &rows[1]["location"]), (&Value::Null, &Value::Null));

    // Changing the card does not touch what was made with it.
    let cleared = api.put(&path, &json!({"category": null})).expect(200);
    assert_eq!((&cleared["category"], &cleared["location"]["id"]), (&Value::Null, &json!(ids[3])));
    let row = api.get(&format!("/v1/transactions/{}", text(&rows[0]["id"]))).expect(200);
    assert_eq!(row["category"]["id"], json!(ids[0]));

    // A new name shows everywhere at once.
    api.put(&format!("/v1/categories/{}", ids[0]), &json!({"name": "Renamed"})).expect(200);
    let row = api.get(&format!("/v1/transactions/{}", text(&rows[0]["id"]))).expect(200);
    assert_eq!(row["category"]["name"], "Renamed");
}

#[test]
fn a_deleted_dimension_is_on_nothing_and_filters_by_it_find_nothing() {
    let installation = Installation::init(60, 1_108);
    let switch = installation.serve();
    let api = switch.api();
    let card = installation.cards.ordinary();
    let path = format!("/v1/cards/{}", card.card_id);
    let count = |list: &str, field: &str, id: &str| {
        api.get(&format!("/v1/{list}?{field}={id}")).expect(200)["count"].clone()
    };
    for (field, plural) in FIELDS.into_iter().zip(PLURALS) {
        let id = make(&api, plural, &json!({"name": plural}));
        let mut body = json!({});
        body[field] = json!({"id": id});
        api.put(&path, &body).expect(200);
        switch.acquirer().ask(&Purchase::of(card, 100).request()).expect_approved();
        assert_eq!((count("cards", field, &id), count("transactions", field, &id)), found(1));
        let other = if field == "label" { "location" } else { "label" };
        assert_eq!((count("cards", other, &id), count("transactions", other, &id)), found(0));

        api.delete(&format!("/v1/{plural}/{id}")).expect(204);
        assert_eq!((count("cards", field, &id), count("transactions", field, &id)), found(0));
        assert_eq!(api.get(&path).expect(200)[field], Value::Null);
        let newest = |switch: &Switch| {
            let path = format!("/v1/transactions?limit=1&card={}", card.card_id);
            switch.api().get(&path).expect(200)["results"][0][field].clone()
        };
        assert_eq!(newest(&switch), Value::Null);
        switch.acquirer().ask(&Purchase::of(card, 100).request()).expect_approved();
        assert_eq!(newest(&switch), Value::Null, "new transactions do not get it");
        let detail = api.put(&path, &body).expect_error(400);
        assert_eq!(faults_of(&detail), owned(&[(field, "not_found")]));
    }
    for list in ["cards", "transactions"] {
        assert_eq!(count(list, "category", NOBODY), 0);
        api.get(&format!("/v1/{list}?category=travel")).expect_error(400);
    }
}

#[test]
fn unknown_dimensions_of_a_card_are_named_each() {
    let installation = Installation::init(60, 1_109);
    let switch = installation.serve();
    let api = switch.api();
    let label = make(&api, "labels", &json!({"name": "A label"}));
    let own = format!("/v1/cards/{}", installation.cards.ordinary().card_id);
    let before = api.get(&own).expect(200);
    let body = json!({
        "description": "", "category": {"id": label}, "department": {"id": NOBODY},
        "label": {"id": label}, "location": "here",
    });
    let expected = [
        ("description", "blank"),
        ("location", "not_a_reference"),
        ("category", "not_found"),
        ("department", "not_found"),
    ];
    let detail = api.put(&own, &body).expect_error(400);
    assert_eq!(faults_of(&detail), owned(&expected));
    assert_eq!(api.get(&own).expect(200), before, "nothing changed");
}

#[test]
fn dimensions_survive_kill_9() {
    let installation = Installation::init(60, 1_110);
    let switch = installation.serve();
    let api = switch.api();
    let parent = make(&api, "categories", &json!({"name": "Parent", "code": "1"}));
    let child = json!({"name": "Child", "code": "2", "parent": {"id": parent}});
    let child = make(&api, "categories", &child);
    let grandchild = json!({"name": "Grandchild", "parent": {"id": child}});
    let grandchild = format!("/v1/categories/{}", make(&api, "categories", &grandchild));
    let card = installation.cards.ordinary();
    let path = format!("/v1/cards/{}", card.card_id);
    api.put(&path, &json!({"category": {"id": child}})).expect(200);
    switch.acquirer().ask(&Purchase::of(card, 100).request()).expect_approved();
    api.delete(&format!("/v1/categories/{child}")).expect(204);
    let before = api.get("/v1/categories").expect(200);
    switch.kill9();

    installation.verify_ok();
    let switch = installation.serve();
    let api = switch.api();
    let after = api.get("/v1/categories").expect(200);
    assert_eq!(strip_urls(after), strip_urls(before));
    assert_eq!(names(&api.get(&grandchild).expect(200)), ["Grandchild", "Parent"]);
    assert_eq!(api.get(&path).expect(200)["category"], Value::Null);
    // The rules are as they were, too.
    let taken = json!({"name": "Again", "code": "1"});
    api.post("/v1/categories", &taken).expect_error(409);
    make(&api, "categories", &json!({"name": "Again", "code": "2"}));
    let body = json!({"parent": {"id": text(&api.get(&grandchild).expect(200)["id"])}});
    api.put(&format!("/v1/categories/{parent}"), &body).expect_error(400);
    switch.stop();
    installation.verify_ok();
}

/// How many transactions carry the category of the race.
const CARRIED: usize = 20_000;
const BATCH: usize = 1_000;

/// Nothing is rewritten when a dimension goes, so nobody sees it go from one transaction before
/// another, and purchases do not wait for it.
#[test]
fn a_category_leaves_twenty_thousand_transactions_at_once() {
    let installation = Installation::init(60, 1_111);
    let switch = installation.serve();
    let api = switch.api();
    let category = make(&api, "categories", &json!({"name": "Everywhere"}));
    let body = json!({
        "description": "Busy", "is_virtual": true, "allowance": {"amount": 1_000_000},
        "category": {"id": category},
    });
    let card = text(&api.post("/v1/cards", &body).expect(201)["id"]);
    for _ in 0..CARRIED / BATCH {
        buy(&switch, &card, BATCH);
    }
    let by_category = format!("/v1/transactions?limit=1&category={category}");
    assert_eq!(api.get(&by_category).expect(200)["count"], CARRIED);

    let (is_over, pages, counts) =
        (AtomicBool::new(false), Sightings::default(), Sightings::default());
    thread::scope(|scope| {
        let lister = scope.spawn(|| watch_pages(&switch, &card, &is_over, &pages));
        let counter = scope.spawn(|| watch_counts(&switch, &by_category, &is_over, &counts));
        let buyer = scope.spawn(|| {
            let mut bought = 0;
            while !is_over.load(Ordering::Acquire) {
                buy(&switch, &card, 20);
                bought += 20;
            }
            bought
        });
        // Some pages before, some after. A watcher that fails has seen enough.
        let wait_until = |are_seen: &dyn Fn() -> bool| {
            while !are_seen() && !lister.is_finished() && !counter.is_finished() {
                thread::sleep(std::time::Duration::from_millis(5));
            }
        };
        wait_until(&|| pages.with() > 0 && counts.with() > 0);
        api.delete(&format!("/v1/categories/{category}")).expect(204);
        assert_eq!(api.get(&by_category).expect(200)["count"], 0, "gone with the answer");
        wait_until(&|| pages.without() > 0 && counts.without() > 0);
        is_over.store(true, Ordering::Release);
        lister.join().expect("no page is half");
        counter.join().expect("no count is half");
        let bought = buyer.join().expect("purchases go on");
        eprintln!("{pages:?} and {counts:?}; {bought} purchases");
    });
}

/// How many answers had the category, and how many had it no more.
#[derive(Debug, Default)]
struct Sightings([AtomicUsize; 2]);

impl Sightings {
    fn add(&self, is_with: bool) {
        self.0[usize::from(is_with)].fetch_add(1, Ordering::AcqRel);
    }

    fn with(&self) -> usize {
        self.0[1].load(Ordering::Acquire)
    }

    fn without(&self) -> usize {
        self.0[0].load(Ordering::Acquire)
    }
}

/// Lists large pages; each has the category on all of its rows or on none, and once it is gone it
/// stays gone.
fn watch_pages(switch: &Switch, card: &str, is_over: &AtomicBool, seen: &Sightings) {
    let (api, path) = (switch.api(), format!("/v1/transactions?limit=1000&card={card}"));
    while !is_over.load(Ordering::Acquire) {
        let page = api.get(&path).expect(200);
        let rows = page["results"].as_array().expect("results");
        let with = rows.iter().filter(|row| !row["category"].is_null()).count();
        assert!(with == 0 || with == rows.len(), "{with} of {} have it", rows.len());
        assert!(with == 0 || seen.without() == 0, "it came back");
        seen.add(with > 0);
    }
}

/// Counts what carries the category: everything bought so far, or nothing.
fn watch_counts(switch: &Switch, by_category: &str, is_over: &AtomicBool, seen: &Sightings) {
    let api = switch.api();
    while !is_over.load(Ordering::Acquire) {
        let count = api.get(by_category).expect(200)["count"].as_u64().expect("a count");
        assert!(count == 0 || count >= CARRIED as u64, "{count} are left");
        seen.add(count > 0);
    }
}

#[track_caller]
fn buy(switch: &Switch, card: &str, count: usize) {
    let purchase = json!({
        "type": "authorization", "card_id": card, "amount": 1,
        "merchant": {"mid": 424_242, "mcc": 5411, "name": "HARNESS GROCERY"},
    });
    let batch = json!(vec![purchase; count]);
    let answers = switch.network_api().post("/network/v1/batch", &batch).expect(200);
    let answers = answers.as_array().expect("a batch is answered by an array");
    assert!(answers.iter().all(|answer| answer["approved"] == true), "{:#}", answers[0]);
}

#[track_caller]
fn make(api: &HttpClient, plural: &str, body: &Value) -> String {
    text(&api.post(&format!("/v1/{plural}"), body).expect(201)["id"])
}

#[track_caller]
fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

/// The names of a dimension and of everything above it.
fn names(body: &Value) -> Vec<String> {
    let mut names = Vec::new();
    let mut level = body;
    while !level.is_null() {
        names.push(text(&level["name"]));
        level = &level["parent"];
    }
    names
}

fn found(count: u64) -> (Value, Value) {
    (json!(count), json!(count))
}

/// Each fault of an error: its field and its code.
fn faults_of(detail: &Value) -> Vec<(String, String)> {
    let errors = detail["errors"].as_array().expect("errors");
    errors.iter().map(|error| (text(&error["param"]), text(&error["code"]))).collect()
}

fn owned(faults: &[(&str, &str)]) -> Vec<(String, String)> {
    faults.iter().map(|(param, code)| ((*param).to_owned(), (*code).to_owned())).collect()
}

/// A list without addresses, which change with the port.
fn strip_urls(mut list: Value) -> Value {
    for row in list["results"].as_array_mut().expect("results") {
        let mut level = row;
        while let Some(fields) = level.as_object_mut() {
            fields.remove("url");
            level = &mut fields["parent"];
        }
    }
    list
}

/// The ids on all pages, by following `next`.
#[track_caller]
fn all_pages(api: &HttpClient, first: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut path = first.to_owned();
    loop {
        let page = api.get(&path).expect(200);
        let results = page["results"].as_array().expect("results");
        ids.extend(results.iter().map(|row| text(&row["id"])));
        let Some(next) = page["next"].as_str() else {
            assert_eq!(page["count"].as_u64(), Some(ids.len() as u64), "of {first}");
            return ids;
        };
        let at = next.find("/v1/").expect("next is an address of the API");
        path = next[at..].to_owned();
    }
}
