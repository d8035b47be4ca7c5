//! The shared world of tests of transactions, statements and dimensions: members of any role, used cards,
//! and forms with files.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand, MemberRole};
use cardswitch_engine::domain::ids::{CompanyId, MemberId};
use serde_json::{Value, json};
use uuid::Uuid;

use super::site_world::{EMAIL, sign_in};
use super::visitor_tests::{ORIGIN, Page, Visitor};
use crate::bench::{Bench, COMPANY, MEMBER, amount, id_of};
use crate::test_world::by_switch;

/// Texts that are no markup, no matter where they stand.
pub(super) const EVIL: &str = "\"><script>alert(1)</script>'&<b>";
/// A text in two directions, with letters of four bytes.
pub(super) const ODD: &str = "\u{200f}\u{5d0}\u{5d1} 𝕆𝕕𝕕 🧾";

/// Signs in as the member, who has `role` from now on.
pub(super) async fn sign_in_as(bench: &Bench, role: MemberRole) -> Visitor<'_> {
    let changes = MemberChanges { role: Some(role), ..MemberChanges::default() };
    let command =
        AdminCommand::Member(MemberCommand::Update(CompanyId(COMPANY), MemberId(MEMBER), changes));
    by_switch(&bench.state).carry_out(command).await.unwrap();
    let mut visitor = sign_in(bench, EMAIL).await;
    visitor.post("/company", &[("company", &COMPANY.to_string())]).await.expect(303);
    visitor
}

/// A card with a budget of 100, assigned to the member.
pub(super) async fn own_card(bench: &Bench) -> Value {
    let card = json!({"allowance": {"amount": 100}, "description": "Lunch", "is_virtual": true,
        "assigned_to": {"id": MEMBER}});
    bench.order(card).await
}

/// A card that nobody holds.
pub(super) async fn free_card(bench: &Bench) -> Value {
    let card = json!({"allowance": {"amount": 100}, "description": "Servers", "is_virtual": true});
    bench.order(card).await
}

/// Asks for a purchase with a card and returns the id of its transaction.
pub(super) async fn purchase(bench: &Bench, card: &Value, minor: i64) -> String {
    bench.authorize(card, amount(minor)).await;
    let newest = bench.get("/v1/transactions?limit=1").await;
    id_of(&newest["results"][0]).to_owned()
}

/// Makes a category, department, label or location and returns its id.
pub(super) async fn dimension(bench: &Bench, plural: &str, body: Value) -> String {
    let (status, made) = bench.ask("POST", &format!("/v1/{plural}"), body).await;
    assert_eq!(status, 201, "{made}");
    id_of(&made).to_owned()
}

/// Sends a form with a file as the page seen last would; `fields` are those beside it.
pub(super) async fn upload(
    visitor: &mut Visitor<'_>,
    path: &str,
    fields: &[(&str, &str)],
    (filename, content): (&str, &str),
) -> Page {
    let boundary = format!("part-{}", Uuid::now_v7().simple());
    let mut body = String::new();
    for (name, value) in fields {
        body.push_str(&format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        ));
    }
    body.push_str(&format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{filename}\"\r\n\
         Content-Type: application/pdf\r\n\r\n{content}\r\n--{boundary}--\r\n"
    ));
    let kind = format!("multipart/form-data; boundary={boundary}");
    let headers = [
        ("content-type", kind.as_str()),
        ("origin", ORIGIN),
        ("sec-fetch-site", "same-origin"),
        ("accept", "text/html"),
    ];
    visitor.send("POST", path, &headers, &body).await
}
