//! What became of a transaction, as its page, its card's page and `/v1` tell it.

use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, ConcludeTransfer, NetworkCommand, OriginalRef, Present,
    PresentmentNumber, Refund, ReversalAmount, ReversalKind, Reverse, Transfer, TransferConclusion,
    TransferTiming,
};
use cardswitch_engine::directory::member::MemberRole;
use cardswitch_engine::domain::ids::{AccountId, TransactionId};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::network_key::OriginalKey;
use cardswitch_engine::domain::transaction::{BankAccount, TransferDirection};
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

/// Money that a merchant took after a verification was shown as a verification that took nothing.
#[tokio::test]
async fn a_verification_that_was_presented_is_told_as_the_purchase_it_became() {
    let bench = bench().await;
    let card = own_card(&bench).await;
    let id = purchase(&bench, &card, 0).await;
    let (amounts, number) = (Some(amount(1_000)), PresentmentNumber::ONLY);
    let mut facts = purchase_facts(&card, amount(1_000));
    facts.trace.original_key = Some(OriginalKey(9));
    let present = Present { facts: Some(facts), amounts, original: original(&id), number };
    bench.network(NetworkCommand::Present(present)).await;
    for page in pages(&bench, &id, &card).await {
        assert!(page.contains("$10.00") && !page.contains("Card verification"), "{page}");
    }
    let original = OriginalRef { original_key: Some(OriginalKey(9)), ..original(&id) };
    let (kind, amount) = (ReversalKind::Request, ReversalAmount::Full);
    bench.network(NetworkCommand::Reverse(Reverse { card: None, original, amount, kind })).await;
    let [page, list] = pages(&bench, &id, &card).await;
    assert!(page.contains("Canceled: fully reversed"), "{page}");
    assert!(list.contains("Approved, then fully reversed"), "{list}");
}

/// It was once called fully reversed, which only messages of cards do.
#[tokio::test]
async fn a_transfer_that_came_back_is_told_as_returned() {
    let bench = bench().await;
    let card = own_card(&bench).await;
    let account = bench.get("/v1/accounts").await["results"][0]["id"].as_str().unwrap().parse();
    for timing in [TransferTiming::InTransit, TransferTiming::AtOnce] {
        let transfer = Transfer {
            account: AccountId(account.clone().unwrap()),
            direction: TransferDirection::Deposit,
            amount: Minor(1_000),
            bank_account: BankAccount::default(),
            timing,
        };
        bench.network(NetworkCommand::Transfer(transfer)).await;
        let id = newest(&bench).await;
        let transaction = TransactionId(id.parse().unwrap());
        let conclusion = TransferConclusion::Return;
        let returned = ConcludeTransfer { transaction, conclusion };
        bench.network(NetworkCommand::ConcludeTransfer(returned)).await;
        let [page, _] = pages(&bench, &id, &card).await;
        assert!(page.contains("Canceled: returned by the bank"), "{page}");
        assert_eq!(page.contains("Returned (statement line"), timing == TransferTiming::AtOnce);
        assert!(!page.to_lowercase().contains("reversed"), "{page}");
    }
}

/// Tells of a purchase that the network approved, and returns its id.
async fn advise(bench: &Bench, card: &Value, (key, minor): (OriginalKey, i64)) -> String {
    let mut facts = purchase_facts(card, amount(minor));
    facts.trace.original_key = Some(key);
    let (outcome, original) = (AdviceOutcome::Approved, OriginalRef::default());
    let advise = Advise { facts, is_cash: false, outcome, original };
    bench.network(NetworkCommand::Advise(advise)).await;
    newest(bench).await
}

const NOT_EVALUATED: &str = "Decided by the network; card rules weren’t evaluated.";
const NO_SAY: &str = "Decided by the network; card rules were evaluated but didn’t decide.";

#[tokio::test]
async fn rules_of_an_advice_were_evaluated_but_did_not_decide() {
    let bench = bench().await;
    let card = own_card(&bench).await;
    let advised = advise(&bench, &card, (OriginalKey(5), 20_000)).await;
    let decision = bench.get(&format!("/v1/transactions/{advised}/decision")).await;
    assert_eq!((&decision["decided_by"], &decision["approved"]), (&"network".into(), &true.into()));
    let [page, list] = pages(&bench, &advised, &card).await;
    assert!(page.contains(NO_SAY) && !page.contains(NOT_EVALUATED), "{page}");
    assert!(page.contains("class=\"failed\"") && list.contains("(stand-in)"), "{page}");
    // Nothing was evaluated where nothing had been asked.
    let refund = refund(&bench, &card, 1_000).await;
    let [page, _] = pages(&bench, &refund, &card).await;
    assert!(page.contains(NOT_EVALUATED) && !page.contains(NO_SAY), "{page}");
}

#[tokio::test]
async fn an_advice_that_the_switch_declined_was_decided_by_its_rules() {
    let bench = bench().await;
    let card = own_card(&bench).await;
    let key = OriginalKey(5);
    let reverse = Reverse {
        card: Some(purchase_facts(&card, amount(0)).card),
        original: OriginalRef { original_key: Some(key), ..OriginalRef::default() },
        amount: ReversalAmount::Full,
        kind: ReversalKind::Advice,
    };
    bench.network(NetworkCommand::Reverse(reverse)).await;
    let advised = advise(&bench, &card, (key, 20_000)).await;
    let decision = bench.get(&format!("/v1/transactions/{advised}/decision")).await;
    assert_eq!((&decision["decided_by"], &decision["approved"]), (&"rules".into(), &false.into()));
    // Its other failed rules had no effect, so they are nothing that would have to change.
    assert_eq!(decision["least_change"].as_array().unwrap().len(), 1, "{decision}");
    assert_eq!(decision["approvable_amount"], Value::Null);
    let [page, list] = pages(&bench, &advised, &card).await;
    assert!(page.contains("Declined: ") && !page.contains("by the network;"), "{page}");
    assert!(list.contains("Declined") && !list.contains("(stand-in)"), "{list}");
}
