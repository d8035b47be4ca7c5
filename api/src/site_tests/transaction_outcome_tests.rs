//! What became of a transaction, as its page, its card's page and `/v1` tell it.

use cardswitch_engine::command::network::{
    NetworkCommand, OriginalRef, Present, PresentmentNumber, Refund, ReversalAmount, ReversalKind,
    Reverse,
};
use cardswitch_engine::directory::member::MemberRole;
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_engine::domain::money::Minor;
use serde_json::Value;

use super::books_world::{own_card, purchase, sign_in_as};
use super::site_world::bench;
use crate::bench::{Bench, amount, id_of, purchase_facts};

fn original(id: &str) -> OriginalRef {
    let transaction = Some(TransactionId(id.parse().unwrap()));
    OriginalRef { transaction, ..OriginalRef::default() }
}

async fn reverse(bench: &Bench, id: &str, amount: ReversalAmount) {
    let (original, kind) = (original(id), ReversalKind::Request);
    bench.network(NetworkCommand::Reverse(Reverse { card: None, original, amount, kind })).await;
}

/// Posts a purchase that was never authorized, and returns its id.
async fn force_post(bench: &Bench, card: &Value, minor: i64) -> String {
    let present = Present {
        facts: Some(purchase_facts(card, amount(minor))),
        amounts: Some(amount(minor)),
        original: OriginalRef::default(),
        number: PresentmentNumber::ONLY,
    };
    bench.network(NetworkCommand::Present(present)).await;
    newest(bench).await
}

async fn refund(bench: &Bench, card: &Value, minor: i64) -> String {
    let facts = purchase_facts(card, amount(minor));
    let refund = Refund { facts, original: OriginalRef::default() };
    bench.network(NetworkCommand::Refund(refund)).await;
    newest(bench).await
}

async fn newest(bench: &Bench) -> String {
    id_of(&bench.get("/v1/transactions?limit=1").await["results"][0]).to_owned()
}

/// The page of a transaction, and that of its card.
async fn pages(bench: &Bench, id: &str, card: &Value) -> [String; 2] {
    let mut visitor = sign_in_as(bench, MemberRole::Administrator).await;
    let own = visitor.get(&format!("/transactions/{id}")).await.expect(200).body;
    [own, visitor.get(&format!("/cards/{}", id_of(card))).await.expect(200).body]
}

#[tokio::test]
async fn a_canceled_transaction_was_not_posted_on_any_page() {
    let bench = bench().await;
    let card = own_card(&bench).await;
    let id = force_post(&bench, &card, 1_000).await;
    assert!(pages(&bench, &id, &card).await[0].contains("<dt>Posted</dt>"));
    reverse(&bench, &id, ReversalAmount::Full).await;
    let shown = bench.get(&format!("/v1/transactions/{id}")).await;
    assert_eq!((&shown["state"], &shown["posted_at"]), (&"canceled".into(), &Value::Null));
    let [page, _] = pages(&bench, &id, &card).await;
    assert!(page.contains("Canceled: fully reversed"), "{page}");
    assert!(!page.contains("<dt>Posted</dt>"), "{page}");
}

#[tokio::test]
async fn a_canceled_purchase_has_the_same_end_on_every_page() {
    let bench = bench().await;
    let card = own_card(&bench).await;
    let reversed = purchase(&bench, &card, 1_000).await;
    reverse(&bench, &reversed, ReversalAmount::Full).await;
    for page in pages(&bench, &reversed, &card).await {
        assert!(page.contains("fully reversed") && !page.contains("hold expired"), "{page}");
    }
    let bench = self::bench().await;
    let card = own_card(&bench).await;
    let expired = purchase(&bench, &card, 1_000).await;
    bench.advance("2026-03-20T08:00:00Z");
    for page in pages(&bench, &expired, &card).await {
        assert!(page.contains("hold expired") && !page.contains("fully reversed"), "{page}");
    }
}

#[tokio::test]
async fn the_requested_amount_is_shown_where_it_is_another() {
    let bench = bench().await;
    let card = own_card(&bench).await;
    let refund = refund(&bench, &card, 3_000).await;
    let whole = purchase(&bench, &card, 2_000).await;
    for id in [&refund, &whole] {
        let [page, _] = pages(&bench, id, &card).await;
        assert!(!page.contains("<dt>Requested</dt>"), "{page}");
        reverse(&bench, id, ReversalAmount::GiveBack(Minor(500))).await;
        let [page, _] = pages(&bench, id, &card).await;
        assert!(page.contains("<dt>Requested</dt>"), "{page}");
    }
}

/// The words once had an amount in dollars, whatever the currency.
#[tokio::test]
async fn a_verification_is_told_without_an_amount_of_its_own() {
    let bench = bench().await;
    let card = own_card(&bench).await;
    let id = purchase(&bench, &card, 0).await;
    let [page, list] = pages(&bench, &id, &card).await;
    assert!(page.contains("<p>Verified <span class=\"money\">$0.00</span></p>"), "{page}");
    assert!(list.contains("Card verification") && !list.contains("($0)"), "{list}");
}
