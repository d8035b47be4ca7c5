//! Statements on the site: balances, months, files, and the rights to see them.

use cardswitch_engine::command::network::{
    NetworkCommand, OriginalRef, Present, PresentmentNumber,
};
use cardswitch_engine::directory::member::MemberRole;

use super::books_world::{own_card, sign_in_as};
use super::site_world::bench;
use crate::bench::{amount, purchase_facts};

#[tokio::test]
async fn balances_and_lines_are_those_of_the_month() {
    let bench = bench().await;
    let mut visitor = sign_in_as(&bench, MemberRole::Accountant).await;
    let page = visitor.get("/statements").await.expect(200);
    // The opening balance is the first line, posted on the fourth; the line of credit is 500.
    for text in
        ["$1,000.00", "$1,500.00", "March 2026", "4 Mar 2026", "1–1 of 1", "America/Los Angeles"]
    {
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
    assert!(page.body.contains("In <span class=\"money\">$1,000.00</span>, out"), "{}", page.body);
    let card = own_card(&bench).await;
    let settled = purchase_facts(&card, amount(8_001));
    let number = PresentmentNumber::ONLY;
    let (facts, amounts, original) = (Some(settled), Some(amount(8_001)), OriginalRef::default());
    let present = Present { facts, amounts, original, number };
    bench.network(NetworkCommand::Present(present)).await;
    let page = visitor.get("/statements").await.expect(200);
    assert!(page.body.contains("out <span class=\"money\">$80.01</span>"), "{}", page.body);
    let page = visitor.get("/statements?month=2026-02").await.expect(200);
    assert!(page.body.contains("Nothing posted") && page.body.contains("Next month"));
    bench.advance("2026-04-01T06:59:00Z");
    let mut visitor = sign_in_as(&bench, MemberRole::Accountant).await;
    assert!(visitor.get("/statements").await.body.contains("aria-label=\"Lines of March 2026\""));
    bench.advance("2026-04-01T07:01:00Z");
    let page = visitor.get("/statements").await.expect(200);
    assert!(
        page.body.contains("value=\"2026-04\" selected") && page.body.contains("Previous month")
    );
    for wrong in ["2026-13", "\"><script>", "2026-03-01"] {
        let query = url::form_urlencoded::byte_serialize(wrong.as_bytes()).collect::<String>();
        let page = visitor.get(&format!("/statements?month={query}")).await.expect(200);
        assert!(page.body.contains("Choose a month.") && !page.body.contains("<script"));
    }
}

#[tokio::test]
async fn files_are_those_of_the_api_and_days_are_checked_in_words() {
    let bench = bench().await;
    let mut visitor = sign_in_as(&bench, MemberRole::Administrator).await;
    let days = "start_date=2026-03-01&end_date=2026-03-31";
    let rows = [("csv", "text/csv", "csv\""), ("ofx", "application/x-ofx", "ofx\"")];
    for (format, kind, ending) in rows {
        let path = format!("/statements/file?{days}&format={format}");
        let file = visitor.get(&path).await.expect(200);
        assert!(file.header("content-type").starts_with(kind), "{format}");
        let disposition = file.header("content-disposition");
        assert!(disposition.starts_with("attachment") && disposition.ends_with(ending), "{format}");
        assert!(file.body.contains("1000.00"), "{format}: {}", file.body);
    }
    let rows = [
        (
            "start_date=2026-03-02&end_date=2026-03-01",
            "start_date-error",
            "Must not be after “To”.",
        ),
        (
            "start_date=2025-01-01&end_date=2026-03-01",
            "start_date-error",
            "Must be at most 180 days before “To”.",
        ),
        ("start_date=soon&end_date=2026-03-01", "start_date-error", "Must be a date"),
        ("start_date=&end_date=%3Cscript%3E", "end_date-error", "Must be a date"),
    ];
    for (days, mark, text) in rows {
        let page = visitor.get(&format!("/statements/file?{days}&format=csv")).await.expect(400);
        assert!(page.body.contains(mark) && page.body.contains(text), "{days}: {}", page.body);
        assert!(!page.body.contains("<script"), "{days}");
    }
    for format in ["", "exe", "csv2"] {
        visitor.get(&format!("/statements/file?{days}&format={format}")).await.expect(404);
    }
}

#[tokio::test]
async fn statements_are_for_those_who_keep_the_books() {
    let bench = bench().await;
    for role in [MemberRole::Reviewer, MemberRole::Member] {
        let mut visitor = sign_in_as(&bench, role).await;
        for path in ["/statements", "/statements/file?format=csv"] {
            visitor.get(path).await.expect(403);
        }
    }
}
