//! Transactions on the site: the rights to see them, changes to them, and refusals.

use cardswitch_engine::directory::member::MemberRole;
use serde_json::{Value, json};

use super::books_world::{EVIL, ODD, dimension, free_card, own_card, purchase, sign_in_as, upload};
use super::site_world::bench;
use super::visitor_tests::{Page, Visitor};
use crate::bench::{Bench, MEMBER, OTHER_COMPANY, id_of};

const PDF: &str = "%PDF-1.7 lunch";

async fn read(bench: &Bench, id: &str) -> Value {
    bench.get(&format!("/v1/transactions/{id}")).await
}

/// The value of the hidden field that says what the form about a part of the page showed.
pub(super) fn seen(page: &Page, action: &str) -> String {
    let (_, form) = page.body.split_once(&format!("action=\"{action}\"")).unwrap();
    let (_, rest) = form.split_once("name=\"seen\" value=\"").unwrap();
    rest.split_once('"').unwrap().0.to_owned()
}

/// Sends the form of tags as the page shows it, with these fields.
async fn tag(visitor: &mut Visitor<'_>, id: &str, fields: &[(&str, &str)]) -> Page {
    let path = format!("/transactions/{id}");
    let page = visitor.get(&path).await.expect(200);
    let seen = seen(&page, &path);
    visitor.post(&path, &[&[("seen", seen.as_str())], fields].concat()).await
}

#[tokio::test]
async fn a_purchase_is_shown_with_why_and_what_became_of_it() {
    let bench = bench().await;
    let card = own_card(&bench).await;
    let approved = purchase(&bench, &card, 1_510).await;
    let declined = purchase(&bench, &card, 20_000).await;
    let mut visitor = sign_in_as(&bench, MemberRole::Administrator).await;
    let list = visitor.get("/transactions").await.expect(200);
    for text in [
        "Luigi",
        "Lunch</bdi></span> <span class=\"soft nowrap\">••••",
        "−$15.10",
        "<s class=\"unspent\">$200.00</s>",
        "Pending",
        "Declined",
        "Ada Byron",
    ] {
        assert!(list.body.contains(text), "{text}: {}", list.body);
    }
    let page = visitor.get(&format!("/transactions/{approved}")).await.expect(200);
    for text in ["Approved.", "(5812)", "Oakland, CA, US", "On hold until 11 Mar 2026"] {
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
    assert!(!page.body.contains("would have been approved"));
    let page = visitor.get(&format!("/transactions/{declined}")).await.expect(200);
    for text in [
        "Declined: Over budget (code 1502).",
        "To approve a purchase like this in full:",
        "Raise the budget by $115.10.",
        "The most that would have been approved: <span class=\"money\">$84.90</span>",
        "Declined",
    ] {
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
}

#[tokio::test]
async fn members_see_what_is_theirs_and_nothing_of_the_account() {
    let bench = bench().await;
    let own = purchase(&bench, &own_card(&bench).await, 1_000).await;
    let others = purchase(&bench, &free_card(&bench).await, 2_000).await;
    for role in [MemberRole::Member, MemberRole::Reviewer] {
        let mut visitor = sign_in_as(&bench, role).await;
        for query in ["", "?member=", "?state=pending", "?from=2026-01-01"] {
            let list = visitor.get(&format!("/transactions{query}")).await.expect(200);
            assert!(list.body.contains(&own) && !list.body.contains(&others), "{role:?} {query}");
            assert!(!list.body.contains("Servers"), "{role:?} {query}");
        }
        let page = visitor.get(&format!("/transactions/{own}")).await.expect(200);
        assert!(page.body.contains("The account has sufficient funds."), "{}", page.body);
        assert!(!page.body.contains("name=\"category\""));
        let path = format!("/transactions/{others}");
        visitor.get(&path).await.expect(404);
        visitor.get(&format!("{path}/receipt")).await.expect(404);
        visitor.get(&format!("/transactions/{own}")).await;
        visitor.post(&path, &[("note", "mine")]).await.expect(404);
        for act in ["receipt/delete", "receipt/lost"] {
            visitor.post(&format!("{path}/{act}"), &[]).await.expect(404);
        }
        upload(&mut visitor, &format!("{path}/receipt"), &[], ("a.pdf", PDF)).await.expect(404);
    }
    let accountant = &mut sign_in_as(&bench, MemberRole::Accountant).await;
    let page = accountant.get(&format!("/transactions/{others}")).await.expect(200);
    assert!(page.body.contains("The account has sufficient funds ("), "{}", page.body);
    assert_eq!(read(&bench, &others).await["note"], "");
}

#[tokio::test]
async fn what_is_looked_for_is_found() {
    let bench = bench().await;
    let (lunch, servers) = (own_card(&bench).await, free_card(&bench).await);
    let first = purchase(&bench, &lunch, 1_000).await;
    bench.advance("2026-03-06T08:00:00Z");
    let second = purchase(&bench, &servers, 99_000).await;
    let travel = dimension(&bench, "categories", json!({"name": "Travel"})).await;
    let mut visitor = sign_in_as(&bench, MemberRole::Administrator).await;
    tag(&mut visitor, &first, &[("category", &travel), ("note", "")]).await.expect(303);
    let rows = [
        (String::new(), [true, true]),
        (format!("card={}", id_of(&lunch)), [true, false]),
        (format!("member={MEMBER}"), [true, false]),
        (format!("member={OTHER_COMPANY}"), [false, false]),
        ("state=declined".to_owned(), [false, true]),
        ("state=declined&state=pending".to_owned(), [true, false]),
        (format!("category={travel}"), [true, false]),
        // The second was made in the first minute of the sixth, in Los Angeles.
        ("from=2026-03-06&to=2026-03-06".to_owned(), [false, true]),
        ("to=2026-03-05".to_owned(), [true, false]),
        ("from=2027-01-01".to_owned(), [false, false]),
        ("created_after=2026-03-06T08:00:00Z".to_owned(), [false, true]),
        ("created_before=2026-03-06T08:00:00Z".to_owned(), [true, false]),
    ];
    for (query, expected) in rows {
        if query.matches("state=").count() > 1 {
            visitor.get(&format!("/transactions?{query}")).await.expect(400);
            continue;
        }
        let list = visitor.get(&format!("/transactions?{query}")).await.expect(200);
        let found = [&first, &second].map(|id| list.body.contains(id.as_str()));
        assert_eq!(found, expected, "{query}");
    }
    for query in [
        "from=yesterday",
        "from=2026-03-02&to=2026-03-01",
        "card=1",
        "created_after=x",
        "state=%22%3E%3Cb%3E",
    ] {
        let list = visitor.get(&format!("/transactions?{query}")).await.expect(400);
        assert!(list.body.contains("role=\"alert\"") && !list.body.contains("<b>"), "{query}");
    }
    let list = visitor.get("/transactions?created_after=yesterday").await.expect(400);
    let named = "Created after must be an RFC 3339 time with an offset.";
    assert!(list.body.contains(named) && !list.body.contains("highlighted"), "{}", list.body);
}

/// Once, the form dropped them when it was sent again.
#[tokio::test]
async fn forms_of_lists_send_along_the_filters_that_they_do_not_show() {
    let bench = bench().await;
    let mut visitor = sign_in_as(&bench, MemberRole::Administrator).await;
    let since = ("created_after", "2026-03-06T08:00:00Z");
    let rows = [
        ("/transactions", vec![since, ("exclude_declines", "true")], ("state", "pending")),
        ("/cards", vec![since, ("description", "rent")], ("text", "lunch")),
        ("/audit", vec![("action", "card.updated")], ("kind", "card")),
    ];
    for (path, kept, shown) in rows {
        let query = kept.iter().chain([&shown]).map(|(name, text)| format!("{name}={text}"));
        let query = query.collect::<Vec<_>>().join("&");
        let list = visitor.get(&format!("{path}?{query}")).await.expect(200);
        for (name, text) in kept {
            let field = format!("<input type=\"hidden\" name=\"{name}\" value=\"{text}\">");
            assert!(list.body.contains(&field), "{path} {name}: {}", list.body);
        }
        let twice = format!("type=\"hidden\" name=\"{}\"", shown.0);
        assert!(!list.body.contains(&twice), "{path}: {}", list.body);
    }
    let list = visitor.get("/transactions?created_after=x").await.expect(400);
    assert!(!list.body.contains("name=\"created_after\""), "{}", list.body);
}

#[tokio::test]
async fn a_transaction_is_sorted_and_noted() {
    let bench = bench().await;
    let id = purchase(&bench, &own_card(&bench).await, 1_000).await;
    let travel = dimension(&bench, "categories", json!({"name": "Travel", "code": "7"})).await;
    let mut visitor = sign_in_as(&bench, MemberRole::Accountant).await;
    let fields = [("category", travel.as_str()), ("label", ""), ("note", "two\r\nlines")];
    tag(&mut visitor, &id, &fields).await.expect(303);
    let saved = read(&bench, &id).await;
    assert_eq!(
        (&saved["category"]["name"], &saved["note"]),
        (&json!("Travel"), &json!("two\nlines"))
    );
    let page = visitor.get(&format!("/transactions/{id}")).await.expect(200);
    assert!(page.body.contains("selected>Travel (7)</option>"), "{}", page.body);

    // A wrong value stays as it was typed, beside its error.
    let long = "é".repeat(1_001);
    for wrong in [long.as_str(), "nul \0", "bell \u{7}"] {
        let page = tag(&mut visitor, &id, &[("category", ""), ("note", wrong)]).await.expect(400);
        assert!(page.body.contains("id=\"note-error\""), "{}", page.body);
        assert!(page.body.contains(wrong.trim_matches(['\0', '\u{7}'])));
    }
    let unknown = [("category", id.as_str()), ("note", "kept")];
    let page = tag(&mut visitor, &id, &unknown).await.expect(400);
    assert!(page.body.contains("id=\"category-error\"") && page.body.contains(">kept</textarea>"));
    tag(&mut visitor, &id, &[("category", ""), ("note", &long[2..])]).await.expect(303);
    assert_eq!(read(&bench, &id).await["category"], Value::Null);

    // The card's holder may write a note, but sets no dimensions.
    let mut member = sign_in_as(&bench, MemberRole::Member).await;
    tag(&mut member, &id, &[("category", &travel), ("note", "mine")]).await.expect(303);
    let saved = read(&bench, &id).await;
    assert_eq!((&saved["category"], &saved["note"]), (&Value::Null, &json!("mine")));
}

#[tokio::test]
async fn two_who_change_one_transaction_see_each_other() {
    let bench = bench().await;
    let id = purchase(&bench, &own_card(&bench).await, 1_000).await;
    let path = format!("/transactions/{id}");
    let mut visitor = sign_in_as(&bench, MemberRole::Administrator).await;
    let page = visitor.get(&path).await.expect(200);
    let shown = seen(&page, &path);
    bench.ask("PUT", &format!("/v1{path}"), json!({"note": "first"})).await;
    let fields = [("seen", shown.as_str()), ("category", ""), ("note", "second")];
    let page = visitor.post(&path, &fields).await.expect(409);
    assert!(page.body.contains("someone else changed this while you had it open: note."));
    assert!(page.body.contains(">first</textarea>"), "{}", page.body);
    assert_eq!(read(&bench, &id).await["note"], "first");
    visitor.post(&path, &[("seen", &seen(&page, &path)), ("note", "second")]).await.expect(303);
    assert_eq!(read(&bench, &id).await["note"], "second");
    visitor.post(&path, &[("note", "without what was seen")]).await.expect(409);
}

#[tokio::test]
async fn receipts_are_handed_in_fetched_and_deleted() {
    let bench = bench().await;
    let id = purchase(&bench, &own_card(&bench).await, 1_000).await;
    let (page_path, path) = (format!("/transactions/{id}"), format!("/transactions/{id}/receipt"));
    let mut visitor = sign_in_as(&bench, MemberRole::Member).await;
    visitor.get(&path).await.expect(404);
    let page = visitor.get(&page_path).await.expect(200);
    let csrf = page.csrf().unwrap();
    let fields = [("csrf", csrf.as_str()), ("seen", "")];
    let name = "lunch <b> \u{1f9fe}.pdf";
    upload(&mut visitor, &path, &fields, (name, PDF)).await.expect(303);
    let page = visitor.get(&page_path).await.expect(200);
    assert!(page.body.contains("Receipt uploaded.") && !page.body.contains("lunch <b>"));
    let file = visitor.get(&path).await.expect(200);
    assert_eq!((file.body.as_str(), file.header("content-type")), (PDF, "application/pdf"));
    assert!(
        file.header("content-disposition").starts_with("attachment; filename=\"lunch <b> _.pdf\"")
    );
    assert!(file.header("content-security-policy").starts_with("sandbox"));
    assert_eq!(file.header("x-content-type-options"), "nosniff");

    // Another file takes its place, but only from a visitor who has seen the first.
    upload(&mut visitor, &path, &fields, ("b.pdf", "%PDF-other")).await.expect(409);
    let now = seen(&page, &path);
    let fields = [("csrf", csrf.as_str()), ("seen", now.as_str())];
    upload(&mut visitor, &path, &fields, ("b.pdf", "%PDF-other")).await.expect(303);
    assert_eq!(visitor.get(&path).await.body, "%PDF-other");
    visitor.get(&page_path).await;
    visitor.post(&format!("{path}/delete"), &[("seen", &now)]).await.expect(409);
    visitor.post(&format!("{path}/lost"), &[("seen", "")]).await.expect(409);
    let page = visitor.get(&page_path).await;
    let now = seen(&page, &path);
    visitor.post(&format!("{path}/delete"), &[("seen", &now)]).await.expect(303);
    visitor.get(&path).await.expect(404);
    visitor.post(&format!("{path}/lost"), &[("seen", "")]).await.expect(303);
    let page = visitor.get(&page_path).await;
    assert!(page.body.contains("Marked as lost on"), "{}", page.body);
    assert_eq!(read(&bench, &id).await["receipt"]["is_lost"], true);
}

#[tokio::test]
async fn what_is_no_receipt_is_refused_in_words() {
    let bench = bench().await;
    let id = purchase(&bench, &own_card(&bench).await, 1_000).await;
    let path = format!("/transactions/{id}/receipt");
    let mut visitor = sign_in_as(&bench, MemberRole::Accountant).await;
    let csrf = visitor.get(&format!("/transactions/{id}")).await.csrf().unwrap();
    let own = [("csrf", csrf.as_str()), ("seen", "")];
    let long = format!("%PDF-{}", "x".repeat(10 << 20));
    let longer = format!("%PDF-{}", "x".repeat(11 << 20));
    let rows = [
        (("receipt.png", "<svg onload=alert(1)>"), 415, "That file isn’t a PNG, JPEG or PDF"),
        (("receipt.pdf", "MZ\u{0}\u{0}"), 415, "That file isn’t a PNG, JPEG or PDF"),
        (("receipt.pdf", " %PDF-1.7"), 415, "That file isn’t a PNG, JPEG or PDF"),
        (("receipt.pdf", ""), 415, "That file isn’t a PNG, JPEG or PDF"),
        (("", ""), 400, "Choose a file first."),
        (("receipt.pdf", long.as_str()), 413, "The file is larger than 10 MiB."),
        (("receipt.pdf", longer.as_str()), 413, "The file is larger than 10 MiB."),
    ];
    for (file, status, text) in rows {
        let page = upload(&mut visitor, &path, &own, file).await.expect(status);
        assert!(page.body.contains(text) && page.body.contains("id=\"file\""), "{}", page.body);
    }
    // Forms from elsewhere, of somebody else, or of nobody.
    for fields in [&[][..], &[("csrf", "wrong")]] {
        upload(&mut visitor, &path, fields, ("a.pdf", PDF)).await.expect(403);
    }
    let foreign =
        [("content-type", "multipart/form-data; boundary=x"), ("origin", "https://evil.example")];
    visitor.send("POST", &path, &foreign, "--x--").await.expect(403);
    let no_form = [("content-type", "application/pdf")];
    visitor.send("POST", &path, &no_form, PDF).await.expect(415);
    let broken = [("content-type", "multipart/form-data; boundary=x")];
    visitor.send("POST", &path, &broken, "--x\r\nno end").await.expect(400);
    assert_eq!(read(&bench, &id).await["receipt"], Value::Null);
}

#[tokio::test]
async fn no_text_of_a_transaction_becomes_markup() {
    let bench = bench().await;
    let id = purchase(&bench, &own_card(&bench).await, 1_000).await;
    let mut visitor = sign_in_as(&bench, MemberRole::Administrator).await;
    for text in [EVIL, ODD] {
        let name = dimension(&bench, "labels", json!({"name": text})).await;
        tag(&mut visitor, &id, &[("label", &name), ("note", text)]).await.expect(303);
        let csrf = visitor.get(&format!("/transactions/{id}")).await.csrf().unwrap();
        let shown = visitor.get(&format!("/transactions/{id}")).await;
        let receipt = format!("/transactions/{id}/receipt");
        let own = [("csrf", csrf.as_str()), ("seen", &seen(&shown, &receipt))];
        let filename = text.replace('"', "%22");
        upload(&mut visitor, &receipt, &own, (&filename, PDF)).await.expect(303);
        let paths = [format!("/transactions/{id}"), format!("/transactions?label={name}")];
        for path in paths {
            let page = visitor.get(&path).await.expect(200);
            assert!(!page.body.contains("<script") && !page.body.contains("<b>"), "{}", page.body);
        }
    }
    assert_eq!(read(&bench, &id).await["note"], ODD);
}

#[tokio::test]
async fn a_page_left_open_across_a_sign_out_changes_nothing() {
    let bench = bench().await;
    let id = purchase(&bench, &own_card(&bench).await, 1_000).await;
    let path = format!("/transactions/{id}");
    let mut visitor = sign_in_as(&bench, MemberRole::Administrator).await;
    let page = visitor.get(&path).await.expect(200);
    let (shown, csrf) = (seen(&page, &path), page.csrf().unwrap());
    let mut other_tab = visitor.copy();
    other_tab.post("/logout", &[]).await.expect(303);
    let note = [("seen", shown.as_str()), ("note", "too late")];
    assert!(visitor.post(&path, &note).await.expect(303).location().starts_with("/login"));
    let own = [("csrf", csrf.as_str()), ("seen", "")];
    let receipt = upload(&mut visitor, &format!("{path}/receipt"), &own, ("a.pdf", PDF)).await;
    assert!(receipt.expect(303).location().starts_with("/login"));
    for act in ["receipt/delete", "receipt/lost"] {
        visitor.post(&format!("{path}/{act}"), &[("seen", "")]).await.expect(303);
    }
    // Somebody else signs in in the same browser: the page still open is not theirs.
    let mut next = sign_in_as(&bench, MemberRole::Administrator).await;
    let stale = [("csrf", csrf.as_str()), ("seen", "")];
    upload(&mut next, &format!("{path}/receipt"), &stale, ("a.pdf", PDF)).await.expect(403);
    let now = read(&bench, &id).await;
    assert_eq!((&now["note"], &now["receipt"]), (&json!(""), &Value::Null));
}
