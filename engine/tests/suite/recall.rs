//! The engine with all its threads and hardly any memory: forgotten rows come back from the tables.

use std::collections::BTreeMap;
use std::path::Path;

use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::{
    AuthorizationKind, Authorize, NetworkCommand, NetworkRequest, OriginalRef, PartialApproval,
    Present, PresentmentNumber, Refund, ReversalAmount, ReversalKind, Reverse,
};
use cardswitch_engine::command::reply::{
    AuthorizationReply, NetworkReply, PostingOutcome, Reply, ReversalOutcome,
};
use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::directory::card::{CardChanges, CardCommand};
use cardswitch_engine::directory::member::MemberCommand;
use cardswitch_engine::domain::credential::PresentedCredentials;
use cardswitch_engine::domain::ids::{AccountSlot, CardId, LineSeq, TransactionSeq};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, RetrievalKey, TraceKey,
};
use cardswitch_engine::domain::transaction::{TransactionFlags, TransactionState};
use cardswitch_engine::engine::{Engine, EngineOptions};
use cardswitch_engine::verify::verify;
use uuid::Uuid;

use crate::desk::{CARD, Desk, TINY_CACHES, authorization, manual, options, purchase};
use crate::model::DAY;
use crate::office::{ADA, BOB, new_member};
use crate::samples::{START, company_id, facts, member_id, network, original_key, pan};

const PURCHASES: u64 = 300;
const AMOUNT: i64 = 100;

fn forgetful(directory: DataDirectory, clock: Clock) -> Desk {
    let options = EngineOptions { caches: TINY_CACHES, ..options(directory, clock) };
    Desk::new(Engine::open(options).unwrap())
}

fn create(path: &Path, clock: Clock) -> Desk {
    forgetful(DataDirectory::create(path, [3; 16]).unwrap(), clock)
}

fn open(path: &Path, clock: Clock) -> Desk {
    forgetful(DataDirectory::open(path).unwrap(), clock)
}

/// A purchase that its network may repeat.
fn repeatable(mark: u64) -> Command {
    Command::Network(Box::new(NetworkRequest {
        command: NetworkCommand::Authorize(Authorize {
            facts: facts(pan(CARD), AMOUNT, mark),
            kind: AuthorizationKind::Purchase,
            credentials: PresentedCredentials::default(),
            partial: PartialApproval::default(),
        }),
        fingerprint: Some(Fingerprint {
            key: DuplicateKey(u128::from(mark) << 70 | u128::from(mark)),
            trace: Some(TraceKey(u128::from(mark) << 65 | u128::from(mark))),
            content: mark,
            window: DuplicateWindow::Day,
        }),
    }))
}

/// One of the messages that share a trace; its content is the one of all of them, or is not.
pub(crate) fn message_of_trace(number: u64, content: u64) -> Command {
    let Command::Network(mut request) = repeatable(1_000 + number) else { unreachable!() };
    if let Some(print) = &mut request.fingerprint {
        (print.trace, print.content) = (Some(TraceKey(7 << 64 | 7)), content);
    }
    Command::Network(request)
}

fn reversal(original: OriginalRef) -> Command {
    network(NetworkCommand::Reverse(Reverse {
        card: Some(pan(CARD)),
        original,
        amount: ReversalAmount::Full,
        kind: ReversalKind::Advice,
    }))
}

fn presentment(original: OriginalRef) -> Command {
    let number = PresentmentNumber::ONLY;
    network(NetworkCommand::Present(Present { facts: None, amounts: None, original, number }))
}

/// The purchase `mark`, named in one of the ways that messages have.
fn named(mark: u64, replies: &[AuthorizationReply]) -> OriginalRef {
    let reply = &replies[mark as usize - 1];
    let nothing = OriginalRef::default();
    match mark % 4 {
        0 => OriginalRef { transaction: reply.transaction, ..nothing },
        1 => OriginalRef { authorization_id: reply.authorization_id, ..nothing },
        2 => OriginalRef { original_key: Some(original_key(mark)), ..nothing },
        _ => OriginalRef { retrieval_key: Some(RetrievalKey(mark)), ..nothing },
    }
}

/// Hands all commands in at once and returns the answers in the order of the commands.
fn ask_all(desk: &Desk, commands: impl IntoIterator<Item = Command>) -> Vec<Reply> {
    let envelopes: Vec<_> = commands.into_iter().map(|command| desk.envelope(command)).collect();
    let tags: Vec<_> = envelopes.iter().map(|envelope| envelope.tag).collect();
    desk.engine.submit(envelopes).unwrap();
    let mut replies: BTreeMap<_, _> = tags.iter().map(|_| desk.answers.recv().unwrap()).collect();
    tags.iter().map(|tag| replies.remove(tag).unwrap()).collect()
}

fn held(desk: &Desk) -> i64 {
    desk.read().account(AccountSlot(0)).unwrap().unwrap().balances.held.0
}

#[test]
fn what_has_left_memory_is_reversed_presented_and_repeated_as_if_it_had_not() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let mut desk = create(&path, Clock::System);
    desk.set_up_budget(1_000_000);
    let replies: Vec<_> =
        (1..=PURCHASES).map(|mark| authorization(desk.ask(repeatable(mark)))).collect();
    assert!(replies.iter().all(|reply| reply.response_code.is_approved()));

    for round in 0..2 {
        let repeated = ask_all(&desk, (1..=PURCHASES).map(repeatable));
        let repeated: Vec<_> = repeated.into_iter().map(authorization).collect();
        assert_eq!(repeated, replies, "round {round}");
        assert_eq!(held(&desk), AMOUNT * PURCHASES as i64);
        desk.engine.shut_down();
        drop(desk);
        desk = open(&path, Clock::System);
    }

    let reversed = ask_all(&desk, (1..=100).map(|mark| reversal(named(mark, &replies))));
    for reply in reversed {
        let Reply::Network(NetworkReply::Reversal(reply)) = reply else { panic!("{reply:?}") };
        assert_eq!((reply.outcome, reply.given_back), (ReversalOutcome::Reversed, Minor(AMOUNT)));
    }
    // No card is named, so an authorization id says nothing.
    let presented = (101..=200).filter(|mark| mark % 4 != 1);
    let posted = ask_all(&desk, presented.map(|mark| presentment(named(mark, &replies))));
    assert_eq!(posted.len(), 75);
    for reply in posted {
        let Reply::Network(NetworkReply::Posting(reply)) = reply else { panic!("{reply:?}") };
        assert_eq!((reply.outcome, reply.posted), (PostingOutcome::Posted, Minor(AMOUNT)));
    }
    let again = ask_all(&desk, (1..=100).map(|mark| reversal(named(mark, &replies))));
    for reply in again {
        let Reply::Network(NetworkReply::Reversal(reply)) = reply else { panic!("{reply:?}") };
        assert_eq!((reply.outcome, reply.given_back), (ReversalOutcome::Reversed, Minor(0)));
    }
    assert_eq!(held(&desk), AMOUNT * 125);
    let balances = desk.read().account(AccountSlot(0)).unwrap().unwrap().balances;
    assert_eq!(balances.ledger, Minor(1_000_000_000 - 75 * AMOUNT));
    desk.engine.shut_down();
    drop(desk);
    let wrong: Vec<_> =
        verify(&path).unwrap().figures.into_iter().filter(|figure| !figure.is_right()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// More messages of one trace than memory has keys for: each is repeated with its own answer, and
/// one with another content is in conflict, also after a restart.
#[test]
fn messages_of_one_trace_that_have_left_memory_are_told_apart() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let mut desk = create(&path, Clock::System);
    desk.set_up_budget(1_000_000);
    let sent = || (1..=PURCHASES).map(|number| message_of_trace(number, 5));
    let replies: Vec<_> = sent().map(|message| authorization(desk.ask(message))).collect();
    assert!(replies.iter().all(|reply| reply.response_code.is_approved()));
    for round in 0..3 {
        let repeated = ask_all(&desk, sent()).into_iter().map(authorization);
        assert_eq!(repeated.collect::<Vec<_>>(), replies, "round {round}");
        let others = [1, PURCHASES, PURCHASES + 1].map(|number| message_of_trace(number, 6));
        for reply in ask_all(&desk, others) {
            assert_eq!(reply, Reply::Network(NetworkReply::Conflict), "round {round}");
        }
        assert_eq!(held(&desk), AMOUNT * PURCHASES as i64);
        desk.engine.shut_down();
        drop(desk);
        desk = open(&path, Clock::System);
    }
}

/// Purchases and refunds with their purchases' authorization ids have left memory, or only one of them has.
#[test]
fn a_refund_with_the_references_of_its_purchase_is_reversed_by_its_own_name() {
    let parent = tempfile::tempdir().unwrap();
    let desk = create(&parent.path().join("data"), Clock::System);
    desk.set_up_budget(1_000_000);
    let replies: Vec<_> =
        (1..=PURCHASES).map(|mark| authorization(desk.ask(repeatable(mark)))).collect();
    let presented = |mark: u64| {
        let transaction = replies[mark as usize - 1].transaction;
        presentment(OriginalRef { transaction, ..OriginalRef::default() })
    };
    let purchase = |mark: u64| OriginalRef {
        authorization_id: replies[mark as usize - 1].authorization_id,
        ..OriginalRef::default()
    };
    ask_all(&desk, (1..=PURCHASES).map(presented));
    let refund = |mark: u64| {
        let facts = facts(pan(CARD), 60, 1_000 + mark);
        network(NetworkCommand::Refund(Refund { facts, original: purchase(mark) }))
    };
    ask_all(&desk, (1..=PURCHASES).map(refund));
    let by_own_name = |mark: u64| {
        let original_key = facts(pan(CARD), 0, 1_000 + mark).trace.original_key;
        reversal(OriginalRef { original_key, ..purchase(mark) })
    };
    // Beside messages that bring only the purchase to memory.
    for mark in 1..=PURCHASES {
        let Reply::Network(NetworkReply::Posting(again)) = desk.ask(presented(mark)) else {
            panic!("a presentment is answered as one");
        };
        assert_eq!(again.posted, Minor::ZERO);
        let Reply::Network(NetworkReply::Reversal(reply)) = desk.ask(by_own_name(mark)) else {
            panic!("a reversal is answered as one");
        };
        assert_eq!((reply.outcome, reply.given_back), (ReversalOutcome::Reversed, Minor(60)));
    }
}

/// A purchase that is settled long after its card went to another member: its transaction comes
/// back from the tables, after a restart, with the member who made it.
#[test]
fn what_has_left_memory_comes_back_with_who_made_it() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let desk = create(&path, Clock::System);
    desk.set_up_budget(1_000_000);
    let card = CardId(Uuid::from_u64_pair(4, CARD));
    let give = |desk: &Desk, who: u64| {
        let assigned_to = Some(Some(member_id(who)));
        let changes = CardChanges { assigned_to, ..CardChanges::default() };
        desk.change(AdminCommand::Card(CardCommand::Update(company_id(0), card, changes)));
    };
    for who in [ADA, BOB] {
        desk.change(AdminCommand::Member(MemberCommand::Create(new_member(
            who,
            0,
            &format!("{who}@example.com"),
        ))));
    }
    give(&desk, BOB);
    let replies: Vec<_> = (1..=40).map(|mark| authorization(desk.ask(repeatable(mark)))).collect();
    give(&desk, ADA);
    // Enough purchases for the first to leave memory.
    for mark in 100..=PURCHASES {
        desk.ask(repeatable(mark));
    }
    desk.engine.shut_down();
    drop(desk);

    let desk = open(&path, Clock::System);
    ask_all(&desk, (1..=10).map(|tenth| presentment(named(4 * tenth, &replies))));
    let refund = |mark: u64| {
        let (facts, original) = (facts(pan(CARD), 10, 1_000 + mark), named(mark, &replies));
        network(NetworkCommand::Refund(Refund { facts, original }))
    };
    ask_all(&desk, (21..=40).map(refund));
    ask_all(
        &desk,
        (100..=120).map(|mark| {
            let retrieval_key = Some(RetrievalKey(mark));
            presentment(OriginalRef { retrieval_key, ..OriginalRef::default() })
        }),
    );
    let tables = desk.read();
    let count = tables.account(AccountSlot(0)).unwrap().unwrap().balances.line_count;
    let mut named = BTreeMap::new();
    for seq in 2..=count {
        let line = tables.statement_line(LineSeq(seq)).unwrap().unwrap();
        let row = tables.transaction(line.transaction).unwrap().unwrap();
        assert_eq!(line.member, row.record.member, "line {seq}");
        *named.entry(line.member.unwrap().0).or_insert(0) += 1;
    }
    // Ten purchases and twenty refunds of Bob, who came second, and 21 purchases of Ada.
    assert_eq!(named, BTreeMap::from([(1, 30), (0, 21)]));
    drop(tables);
    desk.engine.shut_down();
    drop(desk);
    assert!(verify(&path).unwrap().is_ok());
}

#[test]
fn holds_that_have_left_memory_end_in_time_before_whatever_comes_after() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let desk = create(&path, manual());
    desk.set_up_budget(PURCHASES as i64 * AMOUNT);
    for mark in 1..=PURCHASES {
        assert!(authorization(desk.ask(purchase(AMOUNT, mark))).response_code.is_approved());
    }
    assert_eq!(authorization(desk.ask(purchase(AMOUNT, 900))).response_code.number(), 1502);
    desk.engine.shut_down();
    drop(desk);

    let desk = open(&path, manual());
    // Six days are too few; after seven the budget is free again when the purchase is decided.
    let late = desk.ask_at(START + 6 * DAY, purchase(AMOUNT, 901));
    assert_eq!(authorization(late).response_code.number(), 1502);
    let later = authorization(desk.ask_at(START + 8 * DAY, purchase(AMOUNT, 902)));
    assert!(later.response_code.is_approved());
    assert_eq!(later.allowance_balance, Minor((PURCHASES as i64 - 1) * AMOUNT));
    assert_eq!(held(&desk), AMOUNT);
    let tables = desk.read();
    for seq in 2..=PURCHASES + 1 {
        let row = tables.transaction(TransactionSeq(seq)).unwrap().unwrap();
        assert_eq!(row.progress.state, TransactionState::Canceled, "transaction {seq}");
        assert!(row.progress.flags.contains(TransactionFlags::HOLD_EXPIRED));
    }
    drop(tables);
    desk.engine.shut_down();
    drop(desk);
    assert!(verify(&path).unwrap().is_ok());
}
