//! The pages of cards against a real engine: rights to see them, the fate of typed values, two people at
//! one card, and input of attackers.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand};
use cardswitch_engine::domain::company::CompanyState;
use cardswitch_engine::domain::ids::CompanyId;
use serde_json::{Value, json};
use uuid::Uuid;

use super::roles_world::{BOOKS, HOLDER, OUTSIDER, REVIEWER, ROOT, stage, visit};
use super::site_world::PASSWORD;
use super::visitor_tests::{Page, Visitor};
use crate::bench::{Bench, COMPANY, amount};
use crate::test_world::by_switch;

const EVIL: &str = "\"><script>alert(1)</script>\u{200f}\u{1F4A9}'";

fn path_of(card: &Value) -> String {
    format!("/cards/{}", card["id"].as_str().unwrap())
}

async fn card_now(bench: &Bench, card: &Value) -> Value {
    let path = format!("/v1/cards/{}", card["id"].as_str().unwrap());
    let (status, body) = bench.ask("GET", &path, Value::Null).await;
    assert_eq!(status, 200, "{body}");
    body
}

fn is_harmless(page: &Page) -> bool {
    !page.body.contains("<script>") && !page.body.contains("\"><script")
}

#[tokio::test]
async fn roles_see_the_cards_that_are_theirs() {
    let (bench, card) = stage().await;
    let other = json!({"description": "Rent", "is_virtual": true, "allowance": {"amount": 1}});
    let other = bench.order(other).await;
    // Sees the held card, sees the other one, may manage, may see the number.
    let rows = [
        (ROOT, true, true, true, true),
        (BOOKS, true, true, false, false),
        (REVIEWER, false, false, false, false),
        (HOLDER, true, false, false, true),
        (OUTSIDER, false, false, false, false),
    ];
    for (email, sees_held, sees_other, may_manage, sees_number) in rows {
        let mut visitor = visit(&bench, email).await;
        let list = visitor.get("/cards").await.expect(200);
        assert_eq!(list.body.contains("Travel"), sees_held, "{email}");
        assert_eq!(list.body.contains("Rent"), sees_other, "{email}");
        let status = |is_seen| if is_seen { 200 } else { 404 };
        let page = visitor.get(&path_of(&card)).await.expect(status(sees_held));
        visitor.get(&path_of(&other)).await.expect(status(sees_other));
        let may_act = email == ROOT || email == OUTSIDER;
        assert_eq!(page.body.contains("/allowance\""), may_manage, "{email}");
        for below in ["edit", "allowance", "close", "links/new"] {
            let expected = if may_manage {
                200
            } else if may_act {
                404
            } else {
                403
            };
            visitor.get(&format!("{}/{below}", path_of(&card))).await.expect(expected);
        }
        let number = visitor.get(&format!("{}/number", path_of(&card))).await;
        let expected = if sees_number {
            200
        } else if sees_held {
            403
        } else {
            404
        };
        assert_eq!(number.status, expected, "{email}");
        visitor.get("/cards/new").await.expect(if may_act { 200 } else { 403 });
    }
    let mut visitor = Visitor::new(&bench);
    let sent = visitor.get(&path_of(&card)).await.expect(303);
    assert!(sent.location().starts_with("/login?next="));
    let mut root = visit(&bench, ROOT).await;
    for nothing in ["/cards/1", "/cards/00000000-0000-0000-0000-000000000000"] {
        root.get(nothing).await.expect(404);
    }
}

#[tokio::test]
async fn a_card_is_made_changed_and_closed() {
    let (bench, _) = stage().await;
    let mut root = visit(&bench, ROOT).await;
    let typed = [
        ("description", "Lunch"),
        ("kind", "virtual"),
        ("holder", "HOLDER@example.com"),
        ("amount", "1,250.50"),
        ("interval", "weekly"),
        ("daily_limit", "100"),
        ("end_time", "2026-07-01T10:30"),
        ("scope", "3"),
        ("codes", "5812, 5411"),
    ];
    let made = root.fill("/cards/new", &typed).await.expect(303);
    let path = made.location().to_owned();
    let page = root.get(&path).await.expect(200);
    for words in ["Lunch", "Card created.", "$1,250.50", "a week", "Lodging", "1 Jul 2026, 10:30"] {
        assert!(page.body.contains(words), "{words}: {}", page.body);
    }
    let card = json!({"id": path.strip_prefix("/cards/").unwrap()});
    let body = card_now(&bench, &card).await;
    assert_eq!(body["allowance"]["end_time"], "2026-07-01T17:30:00.000000Z");
    assert_eq!(body["allowance"]["scope"], json!([3, 5812, 5411]));
    assert_eq!(body["assigned_to"]["email"], HOLDER);

    let form = root.get(&format!("{path}/edit")).await.expect(200);
    let seen = form.field("seen").unwrap();
    let typed = [("description", "Late lunch"), ("holder", ""), ("seen", seen.as_str())];
    root.post(&format!("{path}/edit"), &typed).await.expect(303);
    let body = card_now(&bench, &card).await;
    assert_eq!((&body["description"], &body["assigned_to"]), (&json!("Late lunch"), &Value::Null));

    root.get(&path).await;
    root.post(&format!("{path}/state"), &[("to", "suspended")]).await.expect(303);
    assert_eq!(card_now(&bench, &card).await["state"], "suspended");
    root.post(&format!("{path}/state"), &[("to", "active")]).await.expect(303);
    assert_eq!(card_now(&bench, &card).await["state"], "active");
    root.post(&format!("{path}/state"), &[("to", "terminated")]).await.expect(400);
    root.post(&format!("{path}/close"), &[]).await.expect(400);
    assert_eq!(card_now(&bench, &card).await["state"], "active", "closing is confirmed first");
    root.post(&format!("{path}/close"), &[("is_confirmed", "true")]).await.expect(303);
    let page = root.get(&path).await.expect(200);
    assert!(page.body.contains("Closed") && !page.body.contains("/close\""), "{}", page.body);
    root.post(&format!("{path}/state"), &[("to", "active")]).await.expect(409);
}

#[tokio::test]
async fn a_closed_card_offers_nothing_to_spend_and_names_the_rule_of_its_declines() {
    let (bench, card) = stage().await;
    let path = path_of(&card);
    let mut root = visit(&bench, ROOT).await;
    let open = root.get(&path).await.expect(200);
    for words in ["Show card details", "Remaining", "$500.00"] {
        assert!(open.body.contains(words), "{words}");
    }
    root.post(&format!("{path}/close"), &[("is_confirmed", "true")]).await.expect(303);
    assert!(!bench.authorize(&card, amount(2_050)).await);
    for email in [ROOT, HOLDER] {
        let mut visitor = visit(&bench, email).await;
        let page = visitor.get(&path).await.expect(200);
        for words in ["Show card details", "Remaining", "<progress", "−$20.50"] {
            assert!(!page.body.contains(words), "{email} {words}: {}", page.body);
        }
        for words in ["<td>The card is closed", "<s class=\"unspent\">$20.50</s>", "Budget"] {
            assert!(page.body.contains(words), "{email} {words}: {}", page.body);
        }
        let page = visitor.get(&format!("{path}/number")).await.expect(409);
        assert!(page.body.contains("The card is closed."));
    }
    let list = root.get("/cards?state=all").await.expect(200);
    assert!(list.body.contains("<span class=\"none\">–</span>"), "{}", list.body);
}

#[tokio::test]
async fn cards_are_found_by_the_last_four_digits() {
    let (bench, card) = stage().await;
    let (card, other) = (
        card_now(&bench, &card).await,
        bench
            .order(json!({
                "description": "Room 2718", "is_virtual": true, "allowance": {"amount": 1},
            }))
            .await,
    );
    let digits = card["last_four"].as_str().unwrap();
    let mut root = visit(&bench, ROOT).await;
    let rows = [
        (digits.to_owned(), true, false),
        ("2718".to_owned(), false, true),
        ("travel".to_owned(), true, false),
        (digits[1..].to_owned(), false, false),
    ];
    for (text, finds_card, finds_other) in rows {
        let page = root.get(&format!("/cards?text={text}")).await.expect(200);
        for (card, is_found) in [(&card, finds_card), (&other, finds_other)] {
            assert_eq!(page.body.contains(&path_of(card)), is_found, "{text}: {}", page.body);
        }
    }
    let past = root.get(&format!("/cards?text={digits}&offset=1")).await.expect(200);
    assert!(!past.body.contains(&path_of(&card)), "{}", past.body);
}

#[tokio::test]
async fn addresses_of_the_list_take_the_filters_of_v1() {
    let (bench, card) = stage().await;
    let free = json!({"description": "Rent", "is_virtual": true, "allowance": {"amount": 1}});
    let free = bench.order(free).await;
    let (holder, reviewer) = (Uuid::from_u128(0x103), Uuid::from_u128(0x102));
    let rows = [
        (ROOT, format!("assigned_to={holder}"), [true, false]),
        (ROOT, format!("assigned_to={reviewer}"), [false, false]),
        (ROOT, format!("assigned_to={holder}&holder={REVIEWER}"), [false, false]),
        (ROOT, "description=rent&text=travel".to_owned(), [true, false]),
        (ROOT, "description=rent&text=".to_owned(), [false, true]),
        (ROOT, "state=suspended,active".to_owned(), [true, true]),
        (ROOT, "state=suspended,terminated".to_owned(), [false, false]),
        (ROOT, "created_after=2020-01-01T00:00:00Z".to_owned(), [true, true]),
        (ROOT, "created_after=2100-01-01T00:00:00Z".to_owned(), [false, false]),
        (ROOT, "created_before=2020-01-01T00:00:00Z".to_owned(), [false, false]),
        (ROOT, format!("category={holder}"), [false, false]),
        // Members see only their own cards, under any filter.
        (HOLDER, format!("assigned_to={reviewer}"), [true, false]),
    ];
    for (email, query, expected) in rows {
        let page = visit(&bench, email).await.get(&format!("/cards?{query}")).await.expect(200);
        let found = [&card, &free].map(|card| page.body.contains(&path_of(card)));
        assert_eq!(found, expected, "{email} {query}");
    }
    let mut root = visit(&bench, ROOT).await;
    for query in ["assigned_to=x", "text=a&text=b", "offset=x", "state=x", "created_after=x"] {
        root.get(&format!("/cards?{query}")).await.expect(400);
    }
}

#[tokio::test]
async fn a_description_is_found_in_any_case_and_composition() {
    let (bench, _) = stage().await;
    let name = "ΣΊΣΥΦΟΣ Caf\u{e9}";
    let order = json!({"description": name, "is_virtual": true, "allowance": {"amount": 1}});
    let path = path_of(&bench.order(order).await);
    let mut root = visit(&bench, ROOT).await;
    for part in ["ΣΊΣ", "σίσυφος", "CAFE\u{301}"] {
        let part: String = url::form_urlencoded::byte_serialize(part.as_bytes()).collect();
        assert_eq!(bench.get(&format!("/v1/cards?description={part}")).await["count"], 1, "{part}");
        for list in ["/cards?text=", "/search?q="] {
            let page = root.get(&format!("{list}{part}")).await.expect(200);
            assert!(page.body.contains(&path), "{list}{part}: {}", page.body);
        }
    }
}

#[tokio::test]
async fn what_is_wrong_stands_at_its_field_and_what_was_typed_stays() {
    let (bench, card) = stage().await;
    let mut root = visit(&bench, ROOT).await;
    let typed = [
        ("description", " "),
        ("holder", "nobody@example.com"),
        ("amount", "1,5"),
        ("transaction_limit", "0"),
        ("start_time", "2026-03-08T02:30"),
        ("codes", "food"),
    ];
    let page = root.fill("/cards/new", &typed).await.expect(400);
    for id in ["description-error", "holder-hint", "amount-error", "transaction_limit-error"] {
        assert!(page.body.contains(&format!("id=\"{id}\"")), "{id}: {}", page.body);
    }
    for id in ["start_time-error", "codes-error"] {
        assert!(page.body.contains(&format!("id=\"{id}\"")), "{id}: {}", page.body);
    }
    for value in ["value=\"1,5\"", "value=\"nobody@example.com\"", "value=\"food\""] {
        assert!(page.body.contains(value), "{value}");
    }
    let path = format!("{}/allowance", path_of(&card));
    let seen = root.get(&path).await.field("seen").unwrap();
    let typed = [("amount", "-1"), ("interval", "hourly"), ("seen", seen.as_str())];
    let page = root.post(&path, &typed).await.expect(400);
    assert!(page.body.contains("amount-error") && page.body.contains("interval-error"));
    assert_eq!(card_now(&bench, &card).await["allowance"]["amount"], 500.0);
}

#[tokio::test]
async fn of_two_who_edit_one_card_the_second_is_told_what_changed() {
    let (bench, card) = stage().await;
    let mut one = visit(&bench, ROOT).await;
    let path = format!("{}/allowance", path_of(&card));
    let seen = one.get(&path).await.field("seen").unwrap();
    let mut other = one.copy();
    let typed =
        |amount| [("amount", amount), ("interval", "monthly"), ("transaction_limit", "100.00")];
    let first = [&typed("600.00")[..], &[("seen", seen.as_str())]].concat();
    one.post(&path, &first).await.expect(303);
    let second = [&typed("700.00")[..], &[("seen", seen.as_str())]].concat();
    let page = other.post(&path, &second).await.expect(409);
    assert!(page.body.contains("someone else changed this") && page.body.contains("budget"));
    assert!(page.body.contains("value=\"600.00\""), "the present value: {}", page.body);
    assert_eq!(card_now(&bench, &card).await["allowance"]["amount"], 600.0);
    let seen = page.field("seen").unwrap();
    let again = [&typed("700.00")[..], &[("seen", seen.as_str())]].concat();
    other.post(&path, &again).await.expect(303);
    let body = card_now(&bench, &card).await;
    assert_eq!(body["allowance"]["amount"], 700.0);
    assert_eq!(body["allowance"]["transaction_limit"], 100.0, "what was not touched stays");

    let path = format!("{}/edit", path_of(&card));
    other.get(&path).await;
    let typed = [("description", "x"), ("holder", ""), ("seen", "")];
    other.post(&path, &typed).await.expect(409);
    assert_eq!(card_now(&bench, &card).await["description"], "Travel");
}

#[tokio::test]
async fn decisions_are_told_in_words() {
    let (bench, card) = stage().await;
    assert!(bench.authorize(&card, amount(2_050)).await);
    assert!(!bench.authorize(&card, amount(10_001)).await);
    let mut holder = visit(&bench, HOLDER).await;
    let page = holder.get(&path_of(&card)).await.expect(200);
    for words in [
        "Luigi",
        "Oakland, CA, US",
        "−$20.50",
        "Approved",
        "Over the per-transaction limit",
        "Over the per-transaction limit ($100.01 requested, $100.00 allowed).",
        "To approve it: raise the per-transaction limit by $0.01.",
        "$479.50",
    ] {
        assert!(page.body.contains(words), "{words}: {}", page.body);
    }
}

/// A holder was once shown what the company's account had left, in the words about a purchase that was
/// more than that.
#[tokio::test]
async fn holders_see_nothing_of_the_account_in_a_decline() {
    let (bench, _) = stage().await;
    let card = json!({
        "description": "Dear", "is_virtual": true, "allowance": {"amount": 900_000},
        "assigned_to": {"id": Uuid::from_u128(0x103)},
    });
    let card = bench.order(card).await;
    assert!(!bench.authorize(&card, amount(50_000_000)).await);
    for path in [path_of(&card), "/overview".to_owned()] {
        let page = visit(&bench, HOLDER).await.get(&path).await.expect(200);
        assert!(page.body.contains("Insufficient funds."), "{}", page.body);
        assert!(page.body.contains("raise the available funds."), "{}", page.body);
        assert!(!page.body.contains("Insufficient funds ("), "{}", page.body);
    }
    let page = visit(&bench, ROOT).await.get(&path_of(&card)).await.expect(200);
    assert!(page.body.contains("Insufficient funds ("), "{}", page.body);
}

#[tokio::test]
async fn who_holds_a_card_now_does_not_see_what_others_bought_with_it() {
    let (bench, card) = stage().await;
    assert!(bench.authorize(&card, amount(2_050)).await);
    let path = format!("/v1{}", path_of(&card));
    let moved = json!({"assigned_to": {"id": Uuid::from_u128(0x102)}});
    let (status, body) = bench.ask("PUT", &path, moved).await;
    assert_eq!(status, 200, "{body}");
    assert!(bench.authorize(&card, amount(777)).await);
    for (email, sees_earlier) in [(REVIEWER, false), (ROOT, true)] {
        let page = visit(&bench, email).await.get(&path_of(&card)).await.expect(200);
        assert!(page.body.contains("−$7.77"), "{email}");
        assert_eq!(page.body.contains("−$20.50"), sees_earlier, "{email}");
    }
}

#[tokio::test]
async fn numbers_are_shown_after_the_password_and_are_in_the_audit_log() {
    let (bench, card) = stage().await;
    let path = format!("{}/number", path_of(&card));
    let (_, body) = bench.ask("GET", &format!("/v1{path}"), Value::Null).await;
    let digits = body["number"].as_str().unwrap().to_owned();
    let mut holder = visit(&bench, HOLDER).await;
    let asked = holder.get(&path).await.expect(200);
    assert!(!asked.body.contains(&digits));
    let refused = holder.post(&path, &[("password", "wrong")]).await.expect(400);
    assert!(!refused.body.contains(&digits) && refused.body.contains("not your current password"));
    let shown = holder.post(&path, &[("password", PASSWORD)]).await.expect(200);
    assert!(shown.body.contains(&digits) && shown.body.contains(body["cvv"].as_str().unwrap()));
    assert_eq!(shown.header("cache-control"), "no-store");
    assert!(!shown.body.contains(&format!("<title>{digits}")));
    let mut books = visit(&bench, BOOKS).await;
    books.get(&path_of(&card)).await;
    books.post(&path, &[("password", PASSWORD)]).await.expect(403);
    let mut root = visit(&bench, ROOT).await;
    let log = root.get("/audit?action=card.number_shown").await.expect(200);
    let looks = log.body.matches("viewed the number of the card").count();
    assert_eq!(looks, 2, "one by a token, one by its holder: {}", log.body);
    assert!(!log.body.contains(&digits));
}

#[tokio::test]
async fn links_are_made_and_taken_away() {
    let (bench, card) = stage().await;
    let path = path_of(&card);
    let mut root = visit(&bench, ROOT).await;
    let typed = [
        ("name", "Bob"),
        ("email", "bob@example.com"),
        ("ask_name", "Birthday"),
        ("ask_kind", "date"),
        ("ask_value", "1990-13-01"),
        ("hide_balance", "true"),
    ];
    let page = root.fill(&format!("{path}/links/new"), &typed).await.expect(400);
    assert!(page.body.contains("ask-value-1-error") && page.body.contains("1990-13-01"));
    let typed = typed.map(|(name, value)| (name, value.trim_end_matches("3-01")));
    let typed =
        typed.map(|(name, value)| (name, if value == "1990-1" { "1990-12-01" } else { value }));
    let nameless = [("email", "bob@example.com")];
    let page = root.post(&format!("{path}/links/new"), &nameless).await.expect(400);
    assert!(page.body.contains("A recipient needs both a name and an email."), "{}", page.body);
    let made = root.post(&format!("{path}/links/new"), &typed).await.expect(303);
    let page = root.get(made.location()).await.expect(200);
    let (head, _) = page.body.split_once("Limits</h2>").unwrap();
    for words in ["Link created.", "Link for <bdi>Bob", "/s/"] {
        assert!(head.contains(words), "{words} stands above all else: {head}");
    }
    let page = root.get(&path).await.expect(200);
    assert!(!page.body.contains("Link for <bdi>"), "{}", page.body);
    for words in ["Bob, bob@example.com", "security questions", "balance hidden", "/s/"] {
        assert!(page.body.contains(words), "{words}");
    }
    let mut holder = visit(&bench, HOLDER).await;
    let seen = holder.get(&path).await.expect(200);
    assert!(
        !seen.body.contains("/s/") && !seen.body.contains("Bob"),
        "links are of administrators"
    );
    let (_, links) = bench.ask("GET", "/v1/shared-links", Value::Null).await;
    let link = links["results"][0]["id"].as_str().unwrap().to_owned();
    holder.post(&format!("{path}/links/{link}/delete"), &[]).await.expect(403);
    root.post(&format!("{path}/links/nonsense/delete"), &[]).await.expect(404);
    root.post(&format!("{path}/links/{link}/delete"), &[]).await.expect(303);
    assert!(!root.get(&path).await.body.contains("Bob"));
    root.post(&format!("{path}/links/{link}/delete"), &[]).await.expect(404);
}

#[tokio::test]
async fn whatever_is_typed_stays_text() {
    let (bench, card) = stage().await;
    let mut root = visit(&bench, ROOT).await;
    let all = [
        "description",
        "kind",
        "holder",
        "billing_name",
        "category",
        "department",
        "label",
        "location",
        "amount",
        "interval",
        "transaction_limit",
        "daily_limit",
        "start_time",
        "end_time",
        "scope",
        "codes",
        "seen",
    ];
    let typed = all.map(|name| (name, EVIL));
    let path = path_of(&card);
    for (form, status) in
        [("/cards/new", 400), (&*format!("{path}/edit"), 409), (&*format!("{path}/allowance"), 409)]
    {
        let page = root.fill(form, &typed).await.expect(status);
        assert!(is_harmless(&page), "{form}: {}", page.body);
    }
    for text in ["a\0b", "a\r\nset-cookie: a=b"] {
        let page =
            root.fill("/cards/new", &[("description", text), ("amount", "1")]).await.expect(400);
        assert!(page.body.contains("description-error"));
    }
    let made = root.fill("/cards/new", &[("description", EVIL), ("amount", "1")]).await.expect(303);
    let evil = made.location().to_owned();
    for below in ["", "/edit", "/allowance", "/close", "/number", "/links/new"] {
        let page = root.get(&format!("{evil}{below}")).await.expect(200);
        assert!(
            is_harmless(&page) && page.body.contains("&#60;script&#62;"),
            "{below}: {}",
            page.body
        );
    }
    let link =
        ["name", "email", "message", "ask_name", "ask_kind", "ask_value"].map(|name| (name, EVIL));
    let page = root.fill(&format!("{evil}/links/new"), &link).await.expect(400);
    assert!(is_harmless(&page));
    let query = "/cards?text=%22%3E%3Cscript%3E&holder=%22%3E%3Cscript%3E";
    assert!(is_harmless(&root.get(query).await.expect(200)));
    let query = "/cards?state=%22%3E%3Cscript%3E";
    assert!(is_harmless(&root.get(query).await.expect(400)));
    assert!(is_harmless(&root.get("/cards").await.expect(200)));
}

/// A token that was made before still read the numbers of a company that had been closed.
#[tokio::test]
async fn a_closed_company_shows_no_number_and_the_rest_of_its_cards() {
    let (bench, card) = stage().await;
    let mut root = visit(&bench, ROOT).await;
    let (page, api) = (format!("{}/number", path_of(&card)), format!("/v1{}", path_of(&card)));
    for (state, status) in [(CompanyState::Closed, 409), (CompanyState::Active, 200)] {
        let changes = CompanyChanges { state: Some(state), ..CompanyChanges::default() };
        let command = CompanyCommand::Update(CompanyId(COMPANY), changes);
        by_switch(&bench.state).carry_out(AdminCommand::Company(command)).await.unwrap();
        let (answered, body) = bench.ask("GET", &format!("{api}/number"), Value::Null).await;
        assert_eq!(answered, status, "{body}");
        assert_eq!(body["detail"]["code"] == "company_closed", status == 409, "{body}");
        bench.get(&api).await;
        root.get(&path_of(&card)).await.expect(200);
        root.get(&page).await.expect(status);
        root.post(&page, &[("password", PASSWORD)]).await.expect(status);
    }
}

#[tokio::test]
async fn a_page_left_open_across_a_sign_out_changes_nothing() {
    let (bench, card) = stage().await;
    let mut root = visit(&bench, ROOT).await;
    root.get(&path_of(&card)).await;
    let mut left_open = root.copy();
    root.post("/logout", &[]).await.expect(303);
    let path = format!("{}/state", path_of(&card));
    let page = left_open.post(&path, &[("to", "suspended")]).await.expect(303);
    assert!(page.location().starts_with("/login"), "{}", page.location());
    let path = format!("{}/number", path_of(&card));
    left_open.post(&path, &[("password", PASSWORD)]).await.expect(303);
    assert_eq!(card_now(&bench, &card).await["state"], "active");
}

/// Cards whose dates decline every purchase were called active.
#[tokio::test]
async fn a_card_is_active_only_while_it_can_be_used() {
    let (bench, _) = stage().await;
    let order = async |name: &str, terms: Value| {
        let holder = json!({"id": Uuid::from_u128(0x103)});
        let card = json!({"description": name, "is_virtual": true, "allowance": terms,
            "assigned_to": holder});
        bench.order(card).await["id"].as_str().unwrap().to_owned()
    };
    let early = order("Early", json!({"amount": 7, "start_time": "2026-04-01T00:00:00Z"})).await;
    let single = json!({"amount": 7, "single_use": true});
    let used = order("Used up", single).await;
    bench.authorize(&json!({"id": used}), amount(100)).await;
    let shown = async |id: &str| {
        visit(&bench, HOLDER).await.get(&format!("/cards/{id}")).await.expect(200).body
    };
    let page = shown(&early).await;
    assert!(page.contains(">Not yet valid<") && page.contains("Remaining"), "{page}");
    let page = shown(&used).await;
    assert!(page.contains(">Used<") && !page.contains("Remaining"), "{page}");
    bench.advance("2026-04-02T00:00:00Z");
    assert!(shown(&early).await.contains(">Active<"));
    bench.advance("2036-01-01T00:00:00Z");
    let page = shown(&early).await;
    assert!(page.contains(">Expired<") && !page.contains("Remaining"), "{page}");
}

/// The filter of the list was gone after several cards were suspended.
#[tokio::test]
async fn a_list_keeps_its_filter_while_its_cards_are_suspended() {
    let (bench, card) = stage().await;
    let mut root = visit(&bench, ROOT).await;
    let page = root.get("/cards?state=active&text=Trav").await.expect(200);
    let (_, action) =
        page.body.split_once("<form method=\"post\" action=\"/cards/suspend").unwrap();
    let path = format!("/cards/suspend{}", action.split_once('"').unwrap().0.replace("&#38;", "&"));
    let page = root.post(&path, &[]).await.expect(400);
    assert!(page.body.contains("name=\"text\" type=\"text\" value=\"Trav\""), "{}", page.body);
    let page = root.post(&path, &[("card", card["id"].as_str().unwrap())]).await.expect(303);
    assert_eq!(page.location(), "/cards?state=active&text=Trav");
}
