//! The pages of webhook endpoints as people of every role see them.

use super::company_world::{EVIL, company, visitor};
use super::site_world::EMAIL;
use super::visitor_tests::Visitor;
use crate::bench::Bench;

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:9/hook";

/// Adds an endpoint and returns its path.
async fn add(visitor: &mut Visitor<'_>, address: &str, description: &str) -> String {
    visitor.get("/webhooks/new").await.expect(200);
    let fields = [("delivery_url", address), ("description", description), ("app", "")];
    let page = visitor.post("/webhooks/new", &fields).await.expect(200);
    assert!(page.body.contains("whsec_"), "{}", page.body);
    assert!(page.header("cache-control").contains("no-store"));
    let (_, rest) = page.body.split_once("href=\"/webhooks/").unwrap();
    let (id, _) = rest.split_once('"').unwrap();
    format!("/webhooks/{id}")
}

async fn administrator(bench: &Bench) -> Visitor<'_> {
    visitor(bench, EMAIL).await
}

#[tokio::test]
async fn an_endpoint_is_added_changed_turned_off_and_deleted() {
    let bench = company().await;
    let mut ada = administrator(&bench).await;
    assert!(ada.get("/webhooks").await.expect(200).body.contains("No endpoint yet"));
    let path = add(&mut ada, NOWHERE, "Ledger").await;
    assert!(ada.get("/webhooks").await.expect(200).body.contains(NOWHERE));
    let page = ada.get(&path).await.expect(200);
    assert!(page.body.contains("Ledger") && page.body.contains("No deliveries yet"));
    assert!(!page.body.contains("whsec_"), "a secret is shown once");

    let seen = page.field("seen").unwrap();
    let fields = |seen: &str| {
        [
            ("delivery_url", "http://127.0.0.1:9/other".to_owned()),
            ("description", "Books".to_owned()),
            ("seen", seen.to_owned()),
        ]
    };
    let sent = fields(&seen);
    let sent: Vec<_> = sent.iter().map(|(name, value)| (*name, value.as_str())).collect();
    ada.post(&path, &sent).await.expect(303);
    // Somebody else had the page open meanwhile.
    let page = ada.post(&path, &sent).await.expect(409);
    assert!(page.body.contains("someone else changed this"), "{}", page.body);

    ada.post(&format!("{path}/state"), &[("to", "off")]).await.expect(303);
    let page = ada.get(&path).await.expect(200);
    assert!(page.body.contains("Enable") && !page.body.contains("Send test event"));
    ada.post(&format!("{path}/state"), &[("to", "on")]).await.expect(303);

    ada.get(&path).await.expect(200);
    let page = ada.post(&format!("{path}/delete"), &[]).await.expect(400);
    assert!(page.body.contains("Tick the box to confirm"));
    ada.post(&format!("{path}/delete"), &[("is_confirmed", "true")]).await.expect(303);
    ada.get(&path).await.expect(404);
}

#[tokio::test]
async fn what_was_tried_is_shown_and_can_be_sent_again() {
    let bench = company().await;
    let mut ada = administrator(&bench).await;
    let path = add(&mut ada, NOWHERE, "").await;
    ada.get(&path).await.expect(200);
    let sent = ada.post(&format!("{path}/example"), &[]).await.expect(303);
    let page = ada.get(sent.location()).await.expect(200);
    let result = "<p class=\"alert\" role=\"status\"><strong>The host cannot be reached</strong><br>Test event, ";
    assert!(page.body.contains(result), "in vain is no success: {}", page.body);
    let page = ada.get(&path).await.expect(200);
    assert!(page.body.contains("The host cannot be reached") && !page.body.contains(result));
    let (_, rest) = page.body.split_once("/attempts/").unwrap();
    let attempt = rest.split_once('/').unwrap().0.to_owned();
    ada.post(&format!("{path}/attempts/{attempt}/resend"), &[]).await.expect(303);
    let page = ada.get(&path).await.expect(200);
    assert_eq!(page.body.matches("The host cannot be reached").count(), 2);
    let page = ada.post(&format!("{path}/recover"), &[("since", "yesterday")]).await.expect(400);
    assert!(page.body.contains("Enter a date and time."));
    ada.post(&format!("{path}/recover"), &[("since", "2026-03-01T00:00")]).await.expect(303);
    ada.get(&path).await.expect(200);
    let page = ada.post(&format!("{path}/secret"), &[]).await.expect(200);
    assert!(page.body.contains("whsec_") && page.body.contains("data-copy=\"signing secret\""));
    assert!(page.body.contains("/copy-"), "it has a button that copies: {}", page.body);
    assert!(page.header("content-security-policy").contains("script-src 'self'"));
    assert!(ada.get(&path).await.body.contains("The previous secret stays valid until"));
}

#[tokio::test]
async fn what_is_typed_is_judged_escaped_and_kept() {
    let bench = company().await;
    let mut ada = administrator(&bench).await;
    ada.get("/webhooks/new").await.expect(200);
    for (address, message) in [
        ("", "required"),
        ("ftp://a.example/", "https://"),
        ("http://hooks.example.com/", "https://"),
        ("https://100.64.0.1/", "private network"),
        ("https://169.254.169.254/latest", "private network"),
        ("javascript:alert(1)", ""),
        (EVIL, ""),
    ] {
        let fields = [("delivery_url", address), ("description", EVIL), ("app", "")];
        let page = ada.post("/webhooks/new", &fields).await.expect(400);
        assert!(page.body.contains(message) || message == "required", "{address}: {}", page.body);
        assert!(!page.body.contains("<script>alert"), "{address}");
    }
    let foreign = [("delivery_url", NOWHERE), ("description", ""), ("app", "not-an-id")];
    ada.post("/webhooks/new", &foreign).await.expect(400);
    ada.get("/webhooks/new").await.expect(200);
    let path = add(&mut ada, NOWHERE, EVIL).await;
    for path in ["/webhooks", &path] {
        let page = ada.get(path).await.expect(200);
        assert!(!page.body.contains("<script>alert"), "{path}");
        assert!(page.body.contains("&#60;script&#62;") || page.body.contains("&lt;script&gt;"));
    }
}
