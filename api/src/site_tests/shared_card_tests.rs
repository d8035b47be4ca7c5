//! Shared cards as viewers and strangers meet them: what is shown to whom, what opens nothing, and
//! what guessing is worth.

use std::net::IpAddr;

use cardswitch_engine::domain::ids::SharedLinkId;
use cardswitch_identity::auth::link_guesses::GuessKind;
use cardswitch_site::shared_card::pass::PASS_S;
use serde_json::{Value, json};
use uuid::Uuid;

use super::site_world::{EMAIL, bench, pass, sign_in};
use super::visitor_tests::{ORIGIN, Page, Visitor};
use crate::bench::Bench;

/// The address of visitors in these tests.
const ADDRESS: &str = "203.0.113.7";
const COOKIE: &str = "__Secure-shared-card";

/// Asks the API as an administrator.
async fn api(bench: &Bench, method: &str, path: &str, body: &Value) -> Value {
    let headers = [("authorization", "Token admin"), ("content-type", "application/json")];
    let answer = Visitor::new(bench).send(method, path, &headers, &body.to_string()).await;
    assert!(answer.status < 300, "{method} {path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap_or(Value::Null)
}

async fn make_card(bench: &Bench, changes: &Value) -> String {
    let mut card = json!({
        "description": "Team lunch",
        "is_virtual": true,
        "allowance": {"amount": 1234.5, "interval": "monthly", "daily_limit": 77,
            "transaction_limit": 55, "end_time": "2026-12-31T12:00:00Z", "scope": [5812]},
    });
    for (name, value) in changes.as_object().unwrap() {
        card[name] = value.clone();
    }
    api(bench, "POST", "/v1/cards", &card).await["id"].as_str().unwrap().to_owned()
}

/// Shares a card; gives the id of the link and the path of its page.
async fn share(bench: &Bench, card: &str, changes: &Value) -> (String, String) {
    let mut link = changes.clone();
    link["card"] = json!({"id": card});
    let made = api(bench, "POST", "/v1/shared-links", &link).await;
    let path = made["link"].as_str().unwrap().strip_prefix(ORIGIN).unwrap().to_owned();
    (made["id"].as_str().unwrap().to_owned(), path)
}

fn passphrase() -> Value {
    json!({"passphrase_fields": [
        {"name": "Pet", "value": "Rex the dog"},
        {"name": "Birthday", "value": "1990-02-28", "type": "date"},
    ]})
}

const RIGHT: [(&str, &str); 3] =
    [("action", "open"), ("answer", " REX the dog"), ("answer", "1990-02-28")];
const WRONG: [(&str, &str); 3] =
    [("action", "open"), ("answer", "Rex the dog"), ("answer", "1990-02-27")];
const SHOW: [(&str, &str); 1] = [("action", "show")];

fn number_on(page: &Page) -> Option<String> {
    let (_, rest) = page.body.split_once("data-copy-text=\"")?;
    Some(rest.split_once('"')?.0.to_owned())
}

#[tokio::test]
async fn whoever_has_the_link_sees_the_card_and_its_number_when_they_ask() {
    let bench = bench().await;
    let card = make_card(&bench, &json!({})).await;
    let (_, path) = share(&bench, &card, &json!({})).await;
    let known = api(&bench, "GET", &format!("/v1/cards/{card}/number"), &Value::Null).await;
    let number = known["number"].as_str().unwrap();

    let mut visitor = Visitor::new(&bench);
    let page = visitor.get(&path).await.expect(200);
    for shown in ["Team lunch", "$1,234.50", "$77.00", "$55.00", "Active", &number[12..]] {
        assert!(page.body.contains(shown), "no {shown} in {}", page.body);
    }
    assert!(number_on(&page).is_none() && !page.body.contains(&number[..12]));
    assert!(!page.body.contains("Name</dt>"), "{}", page.body);

    let page = visitor.post(&path, &SHOW).await.expect(200);
    assert_eq!(number_on(&page).as_deref(), Some(number));
    let cvv = known["cvv"].as_str().unwrap();
    assert!(page.body.contains(&format!(">{cvv}<")) && page.body.contains(">03/29<"));
    assert!(number_on(&visitor.get(&path).await).is_none(), "each look is asked for");
}

#[tokio::test]
async fn looks_are_on_record_and_asking_for_the_passphrase_is_no_look() {
    let bench = bench().await;
    let card = make_card(&bench, &json!({})).await;
    let (id, path) = share(&bench, &card, &passphrase()).await;
    let address = format!("/v1/shared-links/{id}");
    let last_viewed = async || {
        let link = api(&bench, "GET", &address, &Value::Null).await;
        link["last_viewed_at"].as_str().map(str::to_owned)
    };
    let shown = async || {
        let events = "/v1/audit-events?action=card.number_shown";
        api(&bench, "GET", events, &Value::Null).await["results"].as_array().unwrap().clone()
    };
    let mut visitor = Visitor::new(&bench);
    visitor.get(&path).await.expect(200);
    visitor.post(&path, &WRONG).await.expect(401);
    visitor.post(&path, &SHOW).await.expect(403);
    assert_eq!((last_viewed().await, shown().await.len()), (None, 0));
    visitor.post(&path, &RIGHT).await.expect(303);
    assert_eq!(last_viewed().await, None);
    visitor.send("HEAD", &path, &[], "").await.expect(200);
    assert_eq!(last_viewed().await, None, "a head shows no card");
    visitor.get(&path).await.expect(200);
    let first = last_viewed().await;
    assert!(first.is_some());
    pass(&bench, 59);
    visitor.get(&path).await.expect(200);
    assert_eq!(last_viewed().await, first, "once a minute is often enough");
    pass(&bench, 2);
    visitor.get(&path).await.expect(200);
    assert!(last_viewed().await > first);
    for count in 1..3 {
        visitor.post(&path, &SHOW).await.expect(200);
        let events = shown().await;
        assert_eq!(events.len(), count, "each look at the number is on record");
        assert!(events[0].to_string().contains(&card) && events[0].to_string().contains(ADDRESS));
    }
}

#[tokio::test]
async fn no_page_of_a_card_is_kept_found_or_named_to_others() {
    let bench = bench().await;
    let card = make_card(&bench, &json!({})).await;
    let (_, open) = share(&bench, &card, &json!({})).await;
    let (_, asking) = share(&bench, &card, &passphrase()).await;
    let mut visitor = Visitor::new(&bench);
    let mut pages = vec![
        visitor.get(&open).await.expect(200),
        visitor.post(&open, &SHOW).await.expect(200),
        visitor.get(&asking).await.expect(200),
        visitor.post(&asking, &WRONG).await.expect(401),
        visitor.post(&asking, &SHOW).await.expect(403),
        visitor.post(&asking, &[("action", "else")]).await.expect(400),
        visitor.post_with(&asking, &[], "csrf=wrong").await.expect(403),
        visitor.post(&asking, &RIGHT).await.expect(303),
        visitor.get("/s/unknown").await.expect(404),
        visitor.send("DELETE", &open, &[("accept", "text/html")], "").await.expect(405),
    ];
    for _ in 0..200 {
        let link = SharedLinkId(Uuid::nil());
        let address = ADDRESS.parse::<IpAddr>().unwrap();
        if let Ok(look) = bench.state.throttle.links.begin(GuessKind::Look, link, address) {
            look.counts();
        }
    }
    pages.push(visitor.get(&open).await.expect(200));
    for page in pages {
        for (name, value) in [
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("x-robots-tag", "noindex, nofollow, noarchive"),
            ("x-frame-options", "DENY"),
        ] {
            assert_eq!(page.header(name), value, "{} {name}", page.status);
        }
        let policy = page.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(!page.body.contains("<title>Team lunch"));
    }
}

#[tokio::test]
async fn nothing_is_shown_before_the_passphrase_is_known() {
    let bench = bench().await;
    let card = make_card(&bench, &json!({"description": "Hidden lunch"})).await;
    let (_, path) = share(&bench, &card, &passphrase()).await;
    let mut visitor = Visitor::new(&bench);
    let company = api(&bench, "GET", "/v1/company", &Value::Null).await;
    let company = company["name"].as_str().unwrap();
    let tells = |page: &Page| {
        ["Hidden lunch", "1,234", "••••", company].iter().any(|part| page.body.contains(part))
    };
    let page = visitor.get(&path).await.expect(200);
    assert!(page.body.contains(">Pet</label>") && page.body.contains("type=\"date\""));
    assert!(!tells(&page), "{}", page.body);
    let tries: [&[(&str, &str)]; 4] = [&WRONG, &WRONG[..2], &WRONG[..1], &SHOW];
    for (fields, status) in tries.into_iter().zip([401, 401, 401, 403]) {
        let page = visitor.post(&path, fields).await.expect(status);
        assert!(!tells(&page) && !page.body.contains("Rex the dog"), "{}", page.body);
        assert!(!visitor.cookies.contains_key(COOKIE));
    }
    let page = visitor.post(&path, &RIGHT).await.expect(303);
    assert_eq!(page.location(), path);
    let cookies = page.headers.get_all("set-cookie").iter();
    let cookie = cookies.map(|value| value.to_str().unwrap()).find(|text| text.contains(COOKIE));
    assert!(cookie.is_some_and(|text| text.contains(&format!("Path={path};"))), "{cookie:?}");
    assert!(tells(&visitor.get(&path).await.expect(200)));
    assert!(number_on(&visitor.post(&path, &SHOW).await.expect(200)).is_some());
}

#[tokio::test]
async fn a_pass_is_good_for_its_link_its_passphrase_and_its_time() {
    let bench = bench().await;
    let card = make_card(&bench, &json!({})).await;
    let (id, path) = share(&bench, &card, &passphrase()).await;
    let (_, other) = share(&bench, &card, &passphrase()).await;
    let mut visitor = Visitor::new(&bench);
    visitor.fill(&path, &RIGHT).await.expect(303);
    let is_open = |page: Page| page.body.contains("Team lunch");
    assert!(is_open(visitor.get(&path).await));
    assert!(!is_open(visitor.get(&other).await), "another link has another pass");

    let own = visitor.cookies[COOKIE].clone();
    let (until, tag) = own.split_once('-').unwrap();
    let later: i64 = until.parse::<i64>().unwrap() + 1;
    for forged in [format!("{later}-{tag}"), format!("{until}-"), tag.to_owned(), "-".to_owned()] {
        visitor.cookies.insert(COOKIE.to_owned(), forged.clone());
        assert!(!is_open(visitor.get(&path).await), "{forged}");
    }
    visitor.cookies.insert(COOKIE.to_owned(), own);
    pass(&bench, PASS_S - 1);
    assert!(is_open(visitor.get(&path).await));
    pass(&bench, 1);
    assert!(!is_open(visitor.get(&path).await));
    let page = visitor.post(&path, &SHOW).await.expect(403);
    assert!(page.body.contains("Timed out") && number_on(&page).is_none());

    visitor.post(&path, &RIGHT).await.expect(303);
    assert!(is_open(visitor.get(&path).await));
    let changed = json!({"passphrase_fields": [{"name": "Pet", "value": "Max"}]});
    api(&bench, "PUT", &format!("/v1/shared-links/{id}"), &changed).await;
    assert!(
        !is_open(visitor.get(&path).await),
        "who knew the old passphrase has to know the new one"
    );
}

#[tokio::test]
async fn what_is_gone_looks_like_what_never_was() {
    let bench = bench().await;
    let card = make_card(&bench, &json!({})).await;
    let closed = make_card(&bench, &json!({})).await;
    let (deleted_id, deleted) = share(&bench, &card, &json!({})).await;
    let (_, terminated) = share(&bench, &closed, &passphrase()).await;
    let (_, kept) = share(&bench, &card, &json!({})).await;
    let mut visitor = Visitor::new(&bench);
    visitor.get(&deleted).await.expect(200);
    visitor.fill(&terminated, &RIGHT).await.expect(303);
    api(&bench, "DELETE", &format!("/v1/shared-links/{deleted_id}"), &Value::Null).await;
    api(&bench, "DELETE", &format!("/v1/cards/{closed}"), &Value::Null).await;

    let unknown = format!("/s/{}", "0".repeat(64));
    let expected = visitor.get(&unknown).await.expect(404);
    assert!(expected.body.contains("Card not available"));
    let loud = kept.to_uppercase().replace("/S/", "/s/");
    let mut loud_paths = vec!["/s/short".to_owned(), "/s/%3Cscript%3E".to_owned()];
    if loud != kept {
        loud_paths.push(loud);
    }
    let gone = [unknown, deleted, terminated, kept[..kept.len() - 1].to_owned()];
    for path in gone.into_iter().chain(loud_paths) {
        let page = visitor.get(&path).await.expect(404);
        assert_eq!(page.body, expected.body, "{path}");
        let names = |page: &Page| page.headers.keys().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(&page), names(&expected), "{path}");
        visitor.get(&kept).await.expect(200);
        for fields in [&SHOW[..], &RIGHT] {
            let page = visitor.post(&path, fields).await.expect(404);
            assert_eq!(page.body, expected.body, "{path}");
        }
    }
}

#[tokio::test]
async fn a_hidden_balance_hides_the_budget_with_it() {
    let bench = bench().await;
    let card = make_card(&bench, &json!({})).await;
    let (_, path) = share(&bench, &card, &json!({"hide_balance": true})).await;
    let mut visitor = Visitor::new(&bench);
    for page in [visitor.get(&path).await.expect(200), visitor.post(&path, &SHOW).await] {
        for hidden in ["$", "1,234", "Remaining", "month", "Per purchase"] {
            assert!(!page.body.contains(hidden), "{hidden} in {}", page.body);
        }
        assert!(page.body.contains("31 Dec 2026") && page.body.contains("estaurant"));
    }
}

#[tokio::test]
async fn guesses_are_bounded_by_address_and_those_who_know_go_on() {
    let bench = bench().await;
    let card = make_card(&bench, &json!({})).await;
    let (id, path) = share(&bench, &card, &passphrase()).await;
    let mut knowing = Visitor::new(&bench);
    knowing.fill(&path, &RIGHT).await.expect(303);
    let mut guesser = Visitor::new(&bench);
    guesser.fill(&path, &WRONG).await.expect(401);
    // Waits grow with each wrong answer; the bound is behind them.
    let link = SharedLinkId(Uuid::parse_str(&id).unwrap());
    let address = ADDRESS.parse::<IpAddr>().unwrap();
    let mut more = 0;
    while let Ok(guess) = bench.state.throttle.links.begin(GuessKind::Answer, link, address) {
        guess.counts();
        more += 1;
    }
    assert_eq!(more, 9, "the wrong answer on the page was the first");
    for fields in [WRONG, RIGHT] {
        let page = guesser.post(&path, &fields).await.expect(429);
        let wait: u32 = page.header("retry-after").parse().unwrap();
        assert!((1..=900).contains(&wait) && page.body.contains("Too many tries"), "{wait}");
    }
    assert!(!guesser.cookies.contains_key(COOKIE));
    assert!(knowing.get(&path).await.expect(200).body.contains("Team lunch"));
    assert!(number_on(&knowing.post(&path, &SHOW).await.expect(200)).is_some());
    let (_, other) = share(&bench, &card, &passphrase()).await;
    guesser.fill(&other, &RIGHT).await.expect(303);
}

#[tokio::test]
async fn looks_at_numbers_are_bounded() {
    let bench = bench().await;
    let card = make_card(&bench, &json!({})).await;
    let (id, path) = share(&bench, &card, &json!({})).await;
    let link = SharedLinkId(Uuid::parse_str(&id).unwrap());
    let address = ADDRESS.parse::<IpAddr>().unwrap();
    while let Ok(look) = bench.state.throttle.links.begin(GuessKind::Look, link, address) {
        look.counts();
    }
    let page = Visitor::new(&bench).fill(&path, &SHOW).await.expect(429);
    assert!(number_on(&page).is_none() && page.body.contains("Too many tries"));
    assert!(page.body.contains("Team lunch"), "the card itself is still shown");
}

#[tokio::test]
async fn the_number_of_a_physical_card_is_on_the_card_alone() {
    let bench = bench().await;
    let address =
        json!({"address_1": "1 Main St", "city": "Austin", "state": "TX", "zip_code": "78701"});
    let changes = json!({"is_virtual": false, "shipping_address": address});
    let card = make_card(&bench, &changes).await;
    let (_, path) = share(&bench, &card, &json!({})).await;
    let mut visitor = Visitor::new(&bench);
    let page = visitor.get(&path).await.expect(200);
    assert!(page.body.contains("See the physical card."));
    assert!(page.body.contains("Not activated") && page.csrf().is_none());
    visitor.get("/login").await;
    let page = visitor.post(&path, &SHOW).await.expect(409);
    assert!(number_on(&page).is_none());
}

#[tokio::test]
async fn forms_come_from_the_page_itself() {
    let bench = bench().await;
    let card = make_card(&bench, &json!({})).await;
    let (_, path) = share(&bench, &card, &json!({})).await;
    let mut visitor = Visitor::new(&bench);
    let csrf = visitor.get(&path).await.csrf().unwrap();
    let body = format!("csrf={csrf}&action=show");
    // A page that names nobody says `null`; browsers say besides where its forms come from.
    let own = [("origin", "null"), ("sec-fetch-site", "same-origin")];
    assert!(number_on(&visitor.post_with(&path, &own, &body).await.expect(200)).is_some());
    let foreign: [&[(&str, &str)]; 3] = [
        &[("origin", "null")],
        &[("origin", "null"), ("sec-fetch-site", "cross-site")],
        &[("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")],
    ];
    for headers in foreign {
        let page = visitor.post_with(&path, headers, &body).await.expect(403);
        assert!(number_on(&page).is_none(), "{headers:?}");
    }
    let mut other = Visitor::new(&bench);
    other.get(&path).await;
    let page = other.post_with(&path, &own, &body).await.expect(403);
    assert!(number_on(&page).is_none(), "the value is bound to who was shown the form");
    // Somebody who has signed in sees shared cards, too, as a guest.
    let mut member = sign_in(&bench, EMAIL).await;
    let page = member.fill(&path, &SHOW).await.expect(200);
    assert!(number_on(&page).is_some() && !page.body.contains("Sign out"));
}

#[tokio::test]
async fn no_text_of_a_card_or_a_link_becomes_markup() {
    let bench = bench().await;
    for evil in ["\"><script>alert(1)</script>'&<b>", "\u{200f}lunch", "\u{1f415}'\"<b>"] {
        let card = make_card(&bench, &json!({"description": evil, "billing_name": "<b>\"'"})).await;
        let asked = json!({"passphrase_fields": [{"name": evil, "value": evil}]});
        let (_, path) = share(&bench, &card, &asked).await;
        let mut visitor = Visitor::new(&bench);
        let harmless = |page: &Page| {
            !page.body.contains("<script>") && !page.body.contains("<b>") && page.status < 500
        };
        assert!(harmless(&visitor.get(&path).await.expect(200)));
        for answer in ["", "\0", "\u{202e}", "'\"><script>", &"x".repeat(60_000)] {
            let fields = [("action", "open"), ("answer", answer)];
            let mut stranger = Visitor::new(&bench);
            let (_, path) = share(&bench, &card, &asked).await;
            assert!(harmless(&stranger.fill(&path, &fields).await.expect(401)));
        }
        visitor.post(&path, &[("action", "open"), ("answer", evil)]).await.expect(303);
        assert!(harmless(&visitor.get(&path).await.expect(200)));
        assert!(harmless(&visitor.post(&path, &SHOW).await.expect(200)));
    }
}
