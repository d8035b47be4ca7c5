//! Events of a running engine: one for each record and transaction, the same after every start.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::{
    NetworkCommand, OriginalRef, Present, PresentmentNumber, ReversalAmount, ReversalKind, Reverse,
};
use cardswitch_engine::directory::transaction::TransactionCommand;
use cardswitch_engine::domain::event::{Event, EventKind, EventNumber};
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp, TransactionSeq};
use cardswitch_engine::domain::network_key::RetrievalKey;
use cardswitch_engine::domain::response_code::ResponseCode;
use cardswitch_engine::domain::transaction_tags::TagChanges;
use cardswitch_engine::verify::verify;
use crossbeam_channel::unbounded;

use crate::desk::{CARD, Desk, authorization, purchase};
use crate::model::DAY;
use crate::samples::{START, company_id, facts, network, pan};

use EventKind::{Created, Updated};

fn all_events(desk: &Desk) -> Vec<Event> {
    desk.read().events_after(EventNumber(0), usize::MAX).unwrap()
}

/// The kinds of events, with the transactions.
fn told(events: &[Event]) -> Vec<(EventKind, u64)> {
    events.iter().map(|event| (event.kind, event.transaction.0)).collect()
}

fn note(desk: &Desk, transaction: TransactionSeq, text: &str) {
    let id = desk.read().transaction(transaction).unwrap().unwrap().record.id;
    let changes = TagChanges { note: Some(text.parse().unwrap()), ..TagChanges::default() };
    desk.change(AdminCommand::Transaction(TransactionCommand::Tag(company_id(0), id, changes)));
}

#[test]
fn a_purchase_leaves_an_event_with_each_of_its_steps() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let desk = Desk::create(&path);
    desk.set_up_budget(1_000);
    let replies: Vec<_> = [(400, 1), (300, 2), (9_000, 3), (100, 4)]
        .map(|(amount, mark)| authorization(desk.ask(purchase(amount, mark))))
        .into();
    let [cleared, expired, declined, reversed] =
        [0, 1, 2, 3].map(|place: usize| desk.seq_of(&replies[place]));
    assert_eq!(replies[2].response_code, ResponseCode::AllowanceExceeded);
    // The opening amount of the company is the first transaction.
    let made = [TransactionSeq(1), cleared, expired, declined, reversed];
    assert_eq!(told(&all_events(&desk)), made.map(|seq| (Created, seq.0)));
    // A change of no transaction leaves no event.
    desk.change(AdminCommand::SetNetworkKey([1; 32]));
    assert_eq!(all_events(&desk).len(), made.len());

    let original =
        |mark| OriginalRef { retrieval_key: Some(RetrievalKey(mark)), ..OriginalRef::default() };
    desk.ask(network(NetworkCommand::Present(Present {
        facts: Some(facts(pan(CARD), 400, 1)),
        amounts: None,
        original: original(1),
        number: PresentmentNumber::ONLY,
    })));
    let card = Some(facts(pan(CARD), 100, 4).card);
    let (amount, kind) = (ReversalAmount::Full, ReversalKind::Request);
    let reverse = Reverse { card, original: original(4), amount, kind };
    desk.ask(network(NetworkCommand::Reverse(reverse)));
    note(&desk, declined, "why?");
    desk.ask_at(START + 40 * DAY, cardswitch_engine::command::Command::Tick);
    let events = all_events(&desk);
    let later = [cleared, reversed, declined, expired].map(|seq| (Updated, seq.0));
    assert_eq!(told(&events)[made.len()..], later);
    for event in &events {
        assert_eq!(event.company, CompanySlot(0));
        let row = desk.read().transaction(event.transaction).unwrap().unwrap();
        assert_eq!(event.transaction_id, row.record.id);
        let is_made = event.at == row.record.authorized_at;
        assert_eq!(is_made, event.kind == Created, "{event:?}");
    }
    assert!(events.is_sorted_by_key(|event| event.at));

    // The same after a start, and after one whose tables are made anew from the journal.
    drop(desk);
    let desk = Desk::open(&path);
    assert_eq!(all_events(&desk), events);
    drop(desk);
    let found = verify(&path).unwrap();
    let wrong: Vec<_> = found.figures.iter().filter(|figure| !figure.is_right()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    std::fs::remove_file(path.join("store.redb")).unwrap();
    let desk = Desk::open(&path);
    assert_eq!(all_events(&desk), events);
    let figures =
        desk.read().day_figures(CompanySlot(0), Timestamp(START - DAY), Timestamp(START + DAY));
    let outcomes: Vec<_> =
        figures.unwrap().into_iter().flat_map(|quarter| quarter.outcomes).collect();
    let counted: Vec<_> =
        outcomes.iter().map(|(code, count, sum)| (*code, *count, sum.0)).collect();
    let declined = ResponseCode::AllowanceExceeded;
    assert_eq!(counted, [(ResponseCode::Approved, 3, 800), (declined, 1, 9_000)]);
}

/// A waiter for news is woken by the record that brings an event.
#[test]
fn news_are_told_when_they_can_be_read() {
    let parent = tempfile::tempdir().unwrap();
    let desk = Desk::create(&parent.path().join("data"));
    desk.set_up_budget(1_000);
    let applied = desk.engine.durable_seq();
    drop(desk.read());
    for mark in 1..=20 {
        let (came, wait) = unbounded();
        let watermark = &desk.engine.watermark;
        let known = watermark.applied();
        watermark.on_news(known, Box::new(move || came.send(()).unwrap()));
        authorization(desk.ask(purchase(1, mark)));
        wait.recv().unwrap();
        assert!(watermark.applied() > known && watermark.applied() > applied);
        let snapshot = desk.engine.store.read().unwrap();
        assert_eq!(snapshot.last_event().unwrap(), EventNumber(mark + 1), "after the opening");
    }
}
