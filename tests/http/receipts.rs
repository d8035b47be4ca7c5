//! `/v1/transactions/:id/receipt`: files handed in, fetched, taken back, or told to be lost.

use std::fs;

use cardswitch_harness::{
    HttpClient, HttpRequest, HttpResponse, Installation, Purchase, Random, Switch, seed_for,
};
use serde_json::{Value, json};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01";
const JPEG: &[u8] = b"\xff\xd8\xff\xe0\0\x10JFIF\0";
const PDF: &[u8] = b"%PDF-1.7\n1 0 obj\n";
const NOBODY: &str = "01890000-0000-7000-8000-000000000000";
const BYTES_MAX: usize = 10 << 20;

#[test]
fn receipts_of_each_kind_come_back_as_they_were_sent() {
    let installation = Installation::init(60, 1_301);
    let switch = installation.serve();
    let api = switch.api();
    let path = buy(&installation, &switch);
    let receipt = format!("{path}/receipt");
    api.get(&receipt).expect_error(404);
    let rows = [
        (PNG, "image/png", "receipt.png"),
        (JPEG, "image/jpeg", "receipt.jpg"),
        (PDF, "application/pdf", "receipt.pdf"),
    ];
    for (content, content_type, filename) in rows {
        let made = send(&api, &receipt, content_type, content).expect(201);
        let keys: Vec<_> = made.as_object().expect("an object").keys().cloned().collect();
        assert_eq!(keys, ["id", "url", "filename", "content_type", "size", "created_at"]);
        assert_eq!(made["content_type"], content_type);
        assert_eq!((&made["filename"], &made["size"]), (&json!(filename), &json!(content.len())));
        assert_eq!(api.get(&path).expect(200)["receipt"], made, "the newest takes the place");

        let url = made["url"].as_str().expect("a url");
        assert!(url.starts_with("http") && url.ends_with(&receipt), "{url}");
        let fetched = api.get(&receipt);
        assert_eq!((fetched.status, fetched.bytes()), (200, content));
        assert_eq!(fetched.header("content-type"), Some(content_type));
        assert_eq!(fetched.header("x-content-type-options"), Some("nosniff"));
        let disposition = fetched.header("content-disposition").expect("a disposition");
        assert!(disposition.starts_with("attachment; "), "{disposition}");
        assert!(disposition.contains(filename), "{disposition}");
    }
    let deleted = api.delete(&receipt);
    assert_eq!((deleted.status, deleted.text().as_str()), (204, ""));
    assert_eq!(api.get(&path).expect(200)["receipt"], Value::Null);
    api.get(&receipt).expect_error(404);
    api.delete(&receipt).expect_error(404);
}

#[test]
fn receipts_show_in_lists_and_statement_lines() {
    let installation = Installation::init(60, 1_302);
    let switch = installation.serve();
    let api = switch.api();
    let card = installation.cards.ordinary();
    let purchase = Purchase::of(card, 700);
    let authorization_id = switch.acquirer().ask(&purchase.request()).expect_approved();
    assert_eq!(
        switch.acquirer().ask(&purchase.presentment(&authorization_id, 700)).response(),
        "00"
    );
    let path = newest(&installation, &switch);
    let made = send(&api, &format!("{path}/receipt"), "image/png", PNG).expect(201);
    let listed = api.get(&format!("/v1/transactions?limit=1&card={}", card.card_id)).expect(200);
    assert_eq!(listed["results"][0]["receipt"], made);
    let account = installation.credentials.account_id.as_str();
    let lines = api.get(&format!("/v1/accounts/{account}/statement-lines?limit=1")).expect(200);
    assert_eq!(lines["results"][0]["origin"]["receipt"], made);
}

#[test]
fn forms_and_dispositions_name_the_file() {
    let installation = Installation::init(60, 1_303);
    let switch = installation.serve();
    let api = switch.api();
    let receipt = format!("{}/receipt", buy(&installation, &switch));
    let rows = [
        ("lunch.png", "lunch.png"),
        ("../../etc/passwd", "passwd.png"),
        ("bill.hta", "bill.hta.png"),
        ("of %22Ada%22.png", "of \"Ada\".png"),
        ("Quittung f\u{fc}r Z\u{fc}rich.png", "Quittung f\u{fc}r Z\u{fc}rich.png"),
        ("", "receipt.png"),
    ];
    for (filename, expected) in rows {
        let form = form_of(&[("note", None, b"ignored"), ("file", Some(filename), PNG)]);
        let made = send(&api, &receipt, FORM, &form).expect(201);
        assert_eq!(made["filename"], expected);
        let fetched = api.get(&receipt);
        assert_eq!((fetched.status, fetched.bytes()), (200, PNG));
    }
    let headers = [
        ("content-type", "application/pdf"),
        ("content-disposition", "attachment; filename=\"taxi.pdf\""),
    ];
    let request = HttpRequest { method: "POST", path: &receipt, headers: &headers, body: PDF };
    assert_eq!(api.send(&request).expect(201)["filename"], "taxi.pdf");
}

#[test]
fn what_is_no_receipt_is_refused_and_changes_nothing() {
    let installation = Installation::init(60, 1_304);
    let switch = installation.serve();
    let api = switch.api();
    let path = buy(&installation, &switch);
    let receipt = format!("{path}/receipt");
    let html: &[u8] = b"<html><script>alert(1)</script>";
    let too_long = [PNG, &vec![0; BYTES_MAX + 1 - PNG.len()]].concat();
    let longest = &too_long[..BYTES_MAX];
    let no_file = form_of(&[("receipt", Some("a.png"), PNG)]);
    let cut = &form_of(&[("file", Some("a.png"), PNG)])[..40];
    let html_in_form = form_of(&[("file", Some("a.png"), html)]);
    let long_in_form = form_of(&[("file", Some("a.png"), &too_long)]);
    let rows: [(&str, &[u8], u16); 12] = [
        ("image/png", html, 415),
        ("image/png", b"", 415),
        ("image/svg+xml", PNG, 415),
        ("text/html", html, 415),
        ("application/json", b"{}", 415),
        ("", PNG, 415),
        ("multipart/form-data", PNG, 415),
        (FORM, &html_in_form, 415),
        ("image/png", &too_long, 413),
        (FORM, &long_in_form, 413),
        (FORM, &no_file, 400),
        (FORM, cut, 400),
    ];
    for (content_type, body, status) in rows {
        let answer = send(&api, &receipt, content_type, body);
        answer.expect_error(status);
    }
    assert_eq!(api.get(&path).expect(200)["receipt"], Value::Null);
    let names = fs::read_dir(installation.data().join("receipts")).expect("a directory").count();
    assert_eq!(names, 0, "nothing is kept of what is refused");
    // A file sent as a PNG may be another kind of receipt: its content counts.
    assert_eq!(
        send(&api, &receipt, "image/png", PDF).expect(201)["content_type"],
        "application/pdf"
    );
    let made = send(&api, &receipt, "image/png", longest).expect(201);
    assert_eq!(made["size"], BYTES_MAX);
    assert_eq!(api.get(&receipt).bytes().len(), BYTES_MAX);
}

#[test]
fn lost_receipts_say_so_and_nothing_else() {
    let installation = Installation::init(60, 1_305);
    let switch = installation.serve();
    let api = switch.api();
    let path = buy(&installation, &switch);
    let receipt = format!("{path}/receipt");
    for (body, code) in [
        (json!({}), "required"),
        (json!({"is_lost": null}), "required"),
        (json!({"is_lost": "yes"}), "not_a_boolean"),
        (json!({"is_lost": false}), "not_settable"),
    ] {
        let detail = api.put(&receipt, &body).expect_error(400);
        assert_eq!((&detail["param"], &detail["code"]), (&json!("is_lost"), &json!(code)));
    }
    let lost = api.put(&receipt, &json!({"is_lost": true})).expect(200);
    let keys: Vec<_> = lost.as_object().expect("an object").keys().cloned().collect();
    assert_eq!(keys, ["id", "created_at", "is_lost"]);
    assert_eq!(api.get(&path).expect(200)["receipt"], lost);
    assert_eq!(api.put(&receipt, &json!({"is_lost": true})).expect(200), lost, "it stays the same");
    api.get(&receipt).expect_error(404);

    // Found again it takes the place, and lost again it goes.
    let found = send(&api, &receipt, "image/png", PNG).expect(201);
    assert_eq!(api.get(&path).expect(200)["receipt"], found);
    let lost = api.put(&receipt, &json!({"is_lost": true})).expect(200);
    assert_ne!(lost["id"], found["id"]);
    assert_eq!(api.get(&path).expect(200)["receipt"], lost);
    api.get(&receipt).expect_error(404);
    api.delete(&receipt).expect(204);
    assert_eq!(api.get(&path).expect(200)["receipt"], Value::Null);
}

#[test]
fn unknown_transactions_and_strangers_get_nothing() {
    let installation = Installation::init(60, 1_306);
    let switch = installation.serve();
    let path = buy(&installation, &switch);
    let receipt = format!("{path}/receipt");
    send(&switch.api(), &receipt, "image/png", PNG).expect(201);
    for id in [NOBODY, "nothing"] {
        let unknown = format!("/v1/transactions/{id}/receipt");
        switch.api().get(&unknown).expect_error(404);
        send(&switch.api(), &unknown, "image/png", PNG).expect_error(404);
        switch.api().put(&unknown, &json!({"is_lost": true})).expect_error(404);
        switch.api().delete(&unknown).expect_error(404);
    }
    let stranger = switch.anonymous();
    stranger.get(&receipt).expect_error(401);
    send(&stranger, &receipt, "image/png", PNG).expect_error(401);
    stranger.put(&receipt, &json!({"is_lost": true})).expect_error(401);
    stranger.delete(&receipt).expect_error(401);
}

#[test]
fn receipts_survive_kill_9_and_files_that_nothing_names_are_removed() {
    let installation = Installation::init(60, 1_307);
    let switch = installation.serve();
    let api = switch.api();
    let mut random = Random::new(seed_for("receipts_survive_kill_9"));
    let content = |random: &mut Random| [PNG, &random.bytes(50_000)].concat();
    let shared = content(&mut random);
    let mut kept = Vec::new();
    for _ in 0..4 {
        let receipt = format!("{}/receipt", buy(&installation, &switch));
        let content = content(&mut random);
        send(&api, &receipt, "image/png", &content).expect(201);
        kept.push((receipt, content));
    }
    // Two name the same content; one of them lets go of it, which leaves it to the other.
    for number in [0, 1] {
        send(&api, &kept[number].0, "image/png", &shared).expect(201);
        kept[number].1 = shared.clone();
    }
    api.delete(&kept[1].0).expect(204);
    let (deleted, _) = kept.remove(1);
    let last = kept.last().expect("some are kept").clone();
    switch.kill9();

    let directory = installation.data().join("receipts");
    let orphan = directory.join("ab".repeat(32));
    let part = directory.join(format!("{}.7.part", "cd".repeat(32)));
    fs::write(&orphan, PNG).expect("a file is written");
    fs::write(&part, PNG).expect("a file is written");
    installation.verify_ok();
    let switch = installation.serve();
    let api = switch.api();
    for (receipt, content) in &kept {
        assert!(api.get(receipt).bytes() == content, "{receipt} came back as it was sent");
    }
    api.get(&deleted).expect_error(404);
    // The files of the two replaced receipts go, too: three contents are left.
    while fs::read_dir(&directory).expect("a directory").count() > kept.len() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(!orphan.exists() && !part.exists());
    for (receipt, content) in &kept {
        assert!(api.get(receipt).bytes() == content, "{receipt} is still there");
    }

    // A file that was changed behind the switch's back is not handed out.
    for entry in fs::read_dir(&directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if fs::read(&path).expect("a file") == last.1 {
            fs::write(&path, JPEG).expect("a file is written");
        }
    }
    api.get(&last.0).expect_error(500);
    switch.stop();
    installation.verify_ok();
}

const FORM: &str = "multipart/form-data; boundary=\"a boundary\"";

/// A form of fields: name, file name and content.
fn form_of(fields: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut form = Vec::new();
    for (name, filename, content) in fields {
        let filename = filename.map_or(String::new(), |name| format!("; filename=\"{name}\""));
        let head = format!(
            "--a boundary\r\ncontent-disposition: form-data; name=\"{name}\"{filename}\r\n\
             content-type: application/octet-stream\r\n\r\n"
        );
        form.extend_from_slice(head.as_bytes());
        form.extend_from_slice(content);
        form.extend_from_slice(b"\r\n");
    }
    form.extend_from_slice(b"--a boundary--\r\n");
    form
}

#[track_caller]
fn send(api: &HttpClient, path: &str, content_type: &str, body: &[u8]) -> HttpResponse {
    let headers = [("content-type", content_type)];
    api.send(&HttpRequest { method: "POST", path, headers: &headers, body })
}

/// Buys something and returns the path of the transaction.
#[track_caller]
fn buy(installation: &Installation, switch: &Switch) -> String {
    let purchase = Purchase::of(installation.cards.ordinary(), 100);
    switch.acquirer().ask(&purchase.request()).expect_approved();
    newest(installation, switch)
}

#[track_caller]
fn newest(installation: &Installation, switch: &Switch) -> String {
    let card = &installation.cards.ordinary().card_id;
    let page = switch.api().get(&format!("/v1/transactions?limit=1&card={card}")).expect(200);
    format!("/v1/transactions/{}", page["results"][0]["id"].as_str().expect("a transaction"))
}
