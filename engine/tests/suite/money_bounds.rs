//! The bounds of balances: what fits to the cent is taken, one cent more is refused and changes nothing.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, ConcludeTransfer, NetworkCommand, OriginalRef,
    Present, PresentmentNumber, Refund, ReversalAmount, ReversalKind, Reverse, Transfer,
    TransferConclusion, TransferTiming,
};
use cardswitch_engine::command::reply::{
    NetworkReply, PostingOutcome, PostingReply, Rejection, Reply, ReversalOutcome, TransferOutcome,
};
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::domain::account::AccountBalances;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::ids::{AccountSlot, CardSlot, TransactionId};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::response_code::SubReason;
use cardswitch_engine::domain::transaction::{BankAccount, TransferDirection};

use crate::samples::{account_id, admin, facts, network, new_card, new_company, pan};
use crate::story::{Story, by_retrieval_of};

const MOST: i64 = Minor::AMOUNT_MAX.0;
const BOUND: i64 = Minor::BALANCE_MAX.0;
/// The balance with which a story begins.
const OPENING: i64 = 1_000_000;

/// Two cards on one account: each has sums of its own that are bounded too.
fn begin() -> Story {
    let mut story = Story::begin();
    let terms = AllowanceTerms::budget(Minor(100_000));
    story.run(&admin(AdminCommand::Card(CardCommand::Issue(new_card(2, 0, terms)))));
    story
}

fn balances(story: &Story) -> AccountBalances {
    *story.driver.state.balances(AccountSlot(0))
}

/// Amounts that come to `total`, each as large as one may be.
fn parts(total: i64, most: i64) -> impl Iterator<Item = i64> {
    let rest = (total % most > 0).then_some(total % most);
    std::iter::repeat_n(most, (total / most) as usize).chain(rest)
}

fn transfer(
    story: &mut Story,
    direction: TransferDirection,
    amount: i64,
    timing: TransferTiming,
) -> (TransferOutcome, Option<TransactionId>) {
    let text = || "First Bank".parse().unwrap();
    let bank_account = BankAccount { description: text(), name: text(), number: text() };
    let (account, amount) = (account_id(0), Minor(amount));
    let transfer = Transfer { account, direction, amount, bank_account, timing };
    match story.run(&network(NetworkCommand::Transfer(transfer))) {
        Reply::Network(NetworkReply::Transfer(reply)) => (reply.outcome, reply.transaction),
        other => panic!("{other:?}"),
    }
}

fn deposit(story: &mut Story, amount: i64) -> TransferOutcome {
    transfer(story, TransferDirection::Deposit, amount, TransferTiming::AtOnce).0
}

fn fill_ledger(story: &mut Story) {
    for amount in parts(BOUND - balances(story).ledger.0, MOST) {
        assert_eq!(deposit(story, amount), TransferOutcome::Settled);
    }
    assert_eq!(balances(story).ledger, Minor::BALANCE_MAX);
}

fn conclude(
    story: &mut Story,
    transaction: TransactionId,
    conclusion: TransferConclusion,
) -> TransferOutcome {
    let command = ConcludeTransfer { transaction, conclusion };
    match story.run(&network(NetworkCommand::ConcludeTransfer(command))) {
        Reply::Network(NetworkReply::Transfer(reply)) => reply.outcome,
        other => panic!("{other:?}"),
    }
}

/// A purchase that was never authorized: no rule is asked.
fn post(story: &mut Story, card: u64, amount: i64) -> PostingReply {
    let facts = facts(pan(card), amount, 9);
    let amounts = Some(facts.amounts);
    let (facts, original, number) = (Some(facts), OriginalRef::default(), PresentmentNumber::ONLY);
    story.posting(NetworkCommand::Present(Present { facts, amounts, original, number }))
}

fn present(story: &mut Story, card: u64, mark: u64, amount: i64) -> PostingReply {
    let amounts = Some(facts(pan(card), amount, mark).amounts);
    let original = by_retrieval_of(pan(card), mark);
    let number = PresentmentNumber::ONLY;
    story.posting(NetworkCommand::Present(Present { facts: None, amounts, original, number }))
}

fn refund(story: &mut Story, card: u64, mark: u64, amount: i64) -> PostingReply {
    let (facts, original) = (facts(pan(card), amount, mark), OriginalRef::default());
    story.posting(NetworkCommand::Refund(Refund { facts, original }))
}

fn reverse(story: &mut Story, card: u64, mark: u64) -> ReversalOutcome {
    let original = by_retrieval_of(pan(card), mark);
    let (amount, kind) = (ReversalAmount::Full, ReversalKind::Request);
    story.reverse_with(Reverse { card: Some(pan(card)), original, amount, kind }).outcome
}

/// The completion of a purchase that is held.
fn complete(story: &mut Story, card: u64, mark: u64, amount: i64) -> Reply {
    story.run(&network(NetworkCommand::Advise(Advise {
        facts: facts(pan(card), amount, mark + 10_000),
        is_cash: false,
        outcome: AdviceOutcome::Approved,
        original: by_retrieval_of(pan(card), mark),
        request: None,
    })))
}

#[track_caller]
fn unchanged<T>(story: &mut Story, act: impl FnOnce(&mut Story) -> T) -> T {
    let numbers = |story: &Story| {
        let usage = [0, 1].map(|slot| story.driver.state.card(CardSlot(slot)).usage);
        (balances(story), usage, story.driver.ends.len())
    };
    let before = numbers(story);
    let told = act(story);
    assert_eq!(numbers(story), before, "what is refused changes nothing");
    told
}

#[test]
fn nothing_lifts_a_full_ledger() {
    let mut story = begin();
    story.authorize(facts(pan(1), 900, 5), AuthorizationKind::SingleMessage);
    let withdrawal = TransferDirection::Withdrawal;
    let (settled, id) = transfer(&mut story, withdrawal, 700, TransferTiming::AtOnce);
    assert_eq!(settled, TransferOutcome::Settled);
    fill_ledger(&mut story);
    let refused = unchanged(&mut story, |story| deposit(story, 1));
    assert_eq!(refused, TransferOutcome::OutOfBounds);
    let refused = unchanged(&mut story, |story| refund(story, 1, 6, 1));
    assert_eq!(refused.outcome, PostingOutcome::OutOfBounds);
    let refused = unchanged(&mut story, |story| reverse(story, 1, 5));
    assert_eq!(refused, ReversalOutcome::AmountOutOfRange);
    let back = TransferConclusion::Return;
    let refused = unchanged(&mut story, |story| conclude(story, id.unwrap(), back));
    assert_eq!(refused, TransferOutcome::OutOfBounds);
}

#[test]
fn nothing_lowers_a_ledger_that_is_as_low_as_can_be() {
    let mut story = begin();
    story.authorize(facts(pan(2), 500, 5), AuthorizationKind::Purchase);
    assert_eq!(refund(&mut story, 2, 6, 700).outcome, PostingOutcome::Posted);
    let (settled, id) =
        transfer(&mut story, TransferDirection::Deposit, 300, TransferTiming::AtOnce);
    assert_eq!(settled, TransferOutcome::Settled);
    for amount in parts(BOUND, MOST) {
        assert_eq!(post(&mut story, 1, amount).outcome, PostingOutcome::Posted);
    }
    // The budget of the card has no room either, so the rest is another card's.
    let rest = balances(&story).ledger.0 + BOUND;
    assert_eq!(rest, OPENING + 700 + 300);
    assert_eq!(post(&mut story, 2, rest).outcome, PostingOutcome::Posted);
    assert_eq!(balances(&story).ledger, -Minor::BALANCE_MAX);

    let refused = unchanged(&mut story, |story| post(story, 2, 1));
    assert_eq!(refused.outcome, PostingOutcome::OutOfBounds);
    let refused = unchanged(&mut story, |story| present(story, 2, 5, 500));
    assert_eq!(refused.outcome, PostingOutcome::OutOfBounds);
    let refused = unchanged(&mut story, |story| reverse(story, 2, 6));
    assert_eq!(refused, ReversalOutcome::AmountOutOfRange);
    let back = TransferConclusion::Return;
    let refused = unchanged(&mut story, |story| conclude(story, id.unwrap(), back));
    assert_eq!(refused, TransferOutcome::OutOfBounds);
}

#[test]
fn a_card_spends_no_more_than_its_sums_hold() {
    let mut story = begin();
    for amount in parts(BOUND, MOST) {
        assert_eq!(post(&mut story, 1, amount).outcome, PostingOutcome::Posted);
    }
    assert_eq!(story.spent(), Minor::BALANCE_MAX);
    assert!(balances(&story).ledger > -Minor::BALANCE_MAX, "the account has room");
    let refused = unchanged(&mut story, |story| post(story, 1, 1));
    assert_eq!(refused.outcome, PostingOutcome::OutOfBounds);
}

#[test]
fn a_completion_holds_no_more_than_an_account_can() {
    let mut story = begin();
    let marks = 100..=200;
    // Each card has half of them.
    let card_of = |mark: u64| mark % 2 + 1;
    for mark in marks.clone() {
        story.authorize(facts(pan(card_of(mark)), 1, mark), AuthorizationKind::Purchase);
    }
    let mut held = marks.count() as i64;
    let mut marks = 100..;
    while held + MOST - 1 <= BOUND {
        let mark = marks.next().unwrap();
        let reply = complete(&mut story, card_of(mark), mark, MOST);
        assert!(matches!(reply, Reply::Network(NetworkReply::Authorization(_))), "{reply:?}");
        held += MOST - 1;
        assert_eq!(balances(&story).held, Minor(held));
    }
    let mark = marks.next().unwrap();
    let most = BOUND - held + 1;
    let beyond = unchanged(&mut story, |story| complete(story, card_of(mark), mark, most + 1));
    assert_eq!(beyond, Reply::Network(NetworkReply::FormatError(SubReason::OutOfBounds)));
    complete(&mut story, card_of(mark), mark, most);
    assert_eq!(balances(&story).held, Minor::BALANCE_MAX);
}

#[test]
fn no_more_is_in_transit_than_a_balance_holds_and_all_of_it_arrives() {
    let mut story = begin();
    let deposit = TransferDirection::Deposit;
    let mut sent = Vec::new();
    for amount in parts(BOUND, MOST) {
        let (outcome, id) = transfer(&mut story, deposit, amount, TransferTiming::InTransit);
        assert_eq!(outcome, TransferOutcome::InTransit);
        sent.push(id.unwrap());
    }
    let in_transit = TransferTiming::InTransit;
    let (refused, _) = unchanged(&mut story, |story| transfer(story, deposit, 1, in_transit));
    assert_eq!(refused, TransferOutcome::OutOfBounds);
    // Nothing is stuck for being the last that fitted.
    let settled = conclude(&mut story, sent[0], TransferConclusion::Settle);
    assert_eq!(settled, TransferOutcome::Settled);
    let returned = conclude(&mut story, sent[1], TransferConclusion::Return);
    assert_eq!(returned, TransferOutcome::Returned);
    assert_eq!(balances(&story).credits_in_transit, Minor(BOUND - 2 * MOST));
}

#[test]
fn withdrawals_in_transit_are_bounded_as_balances_are() {
    let (half, withdrawal) = (MOST / 2, TransferDirection::Withdrawal);
    let mut story = begin();
    for amount in parts(BOUND - half - OPENING, half) {
        assert_eq!(deposit(&mut story, amount), TransferOutcome::Settled);
    }
    for amount in parts(BOUND - half, half) {
        let (sent, _) = transfer(&mut story, withdrawal, amount, TransferTiming::InTransit);
        assert_eq!(sent, TransferOutcome::InTransit);
    }
    // The ledger has room for the amount in both directions again.
    assert_eq!(post(&mut story, 1, half).outcome, PostingOutcome::Posted);
    let in_transit = TransferTiming::InTransit;
    let (refused, _) = unchanged(&mut story, |story| transfer(story, withdrawal, MOST, in_transit));
    assert_eq!(refused, TransferOutcome::OutOfBounds);
}

#[test]
fn a_company_begins_with_no_more_than_one_amount() {
    let mut story = begin();
    let beyond = MOST + 1;
    let rows = [
        (1, [MOST, MOST], true),
        (2, [0, 0], true),
        (3, [beyond, 0], false),
        (4, [-1, 0], false),
        (5, [0, beyond], false),
        (6, [0, -1], false),
    ];
    for (number, [opening, credit], is_taken) in rows {
        let company = new_company(number, chrono_tz::UTC, opening, credit);
        let command = AdminCommand::Company(CompanyCommand::Create(company));
        let records = story.driver.ends.len();
        let reply = story.run(&admin(command));
        assert_eq!(reply != Reply::Rejected(Rejection::OutOfBounds), is_taken, "{number}");
        assert_eq!(story.driver.ends.len() > records, is_taken, "{number}");
    }
}
