//! The log of events and the figures of decisions are those of the slow store, however the records come.

use super::model::Model;
use super::world::journal;
use super::*;
use crate::directory::webhook_endpoint::WebhookEndpoint;
use crate::domain::event::{Event, EventKind, EventPlace};
use crate::domain::ids::{CompanySlot, TransactionSeq};
use crate::domain::response_code::ResponseCode;
use crate::journal::testing::next_random;
use crate::limits;
use crate::store::directory::StoredRow as _;

/// The events of the slow store.
fn expected_events(model: &Model) -> Vec<Event> {
    let numbers = (1..).map(EventNumber);
    numbers
        .zip(&model.log)
        .map(|(number, (kind, transaction, at))| {
            let record = &model.transactions[transaction].record;
            Event {
                number,
                at: *at,
                kind: *kind,
                transaction: *transaction,
                transaction_id: record.id,
                company: record.company,
            }
        })
        .collect()
}

/// A store of these records, committed in runs of any length.
fn store_in_runs(records: &[Record], random: &mut u64) -> Store {
    let store = empty_store();
    let mut done = 0;
    while done < records.len() {
        let len = usize::try_from(1 + next_random(random) % 40).unwrap();
        let end = (done + len).min(records.len());
        let kind = match next_random(random) % 4 {
            0 => CommitKind::Checkpoint,
            _ => CommitKind::Visible,
        };
        let projection = gather(&records[done..end]);
        store.commit(&projection, position_after(&records[..end]), kind).unwrap();
        done = end;
    }
    store
}

#[test]
fn events_are_those_of_the_slow_store() {
    for seed in 60..64 {
        println!("seed {seed}");
        let mut random = seed;
        let records = journal(seed, 2_000);
        let (store, model) = (store_in_runs(&records, &mut random), Model::of(&records));
        let expected = expected_events(&model);
        let snapshot = store.read().unwrap();
        assert_eq!(snapshot.last_event().unwrap().0, expected.len() as u64);
        assert_eq!(snapshot.events_after(EventNumber(0), usize::MAX).unwrap(), expected);
        let kinds = |kind| expected.iter().filter(|event| event.kind == kind).count();
        assert!(kinds(EventKind::Created) > 300 && kinds(EventKind::Updated) > 100);
        for _ in 0..50 {
            let after = next_random(&mut random) % (expected.len() as u64 + 3);
            let max = usize::try_from(next_random(&mut random) % 30).unwrap();
            let found = snapshot.events_after(EventNumber(after), max).unwrap();
            let after = usize::try_from(after).unwrap().min(expected.len());
            let end = (after + max).min(expected.len());
            assert_eq!(found, expected[after..end], "{max} after {after}");
        }
    }
}

#[test]
fn a_company_is_told_its_own_events_and_all_of_them() {
    let records = journal(65, 1_000);
    let (store, model) = (store_of(&records), Model::of(&records));
    let snapshot = store.read().unwrap();
    for company in (0..3).map(CompanySlot) {
        let mut expected = expected_events(&model);
        expected.retain(|event| event.company == company);
        for (max, scan_max) in [(1, 1), (7, 20), (20, 7), (10_000, 10_000)] {
            let (mut found, mut after) = (Vec::new(), EventNumber(0));
            loop {
                let page = snapshot.company_events_after(company, after, max, scan_max).unwrap();
                assert!(page.events.len() <= max && page.next.0 - after.0 <= scan_max as u64);
                found.extend(page.events);
                if page.is_end {
                    assert_eq!(page.next, snapshot.last_event().unwrap());
                    break;
                }
                assert!(page.next > after, "every page goes on");
                after = page.next;
            }
            assert_eq!(found, expected, "{company:?}, {max} of {scan_max}");
        }
    }
}

#[test]
fn the_log_is_found_by_time() {
    let records = journal(66, 800);
    let (store, model) = (store_of(&records), Model::of(&records));
    let (snapshot, events) = (store.read().unwrap(), expected_events(&model));
    let instants = events.iter().flat_map(|event| [event.at, event.at.plus(1), event.at.plus(-1)]);
    for at in instants.chain([Timestamp::MIN, Timestamp::MAX]) {
        let expected = events.iter().filter(|event| event.at < at).count();
        assert_eq!(snapshot.first_event_at(at).unwrap().0, expected as u64, "{at:?}");
    }
    let empty = empty_store();
    assert_eq!(empty.read().unwrap().first_event_at(Timestamp::MAX).unwrap(), EventNumber(0));
    assert_eq!(empty.read().unwrap().last_event().unwrap(), EventNumber(0));
}

#[test]
fn places_hold_where_the_log_is_the_same_and_are_found_by_time_where_it_is_not() {
    let all = journal(68, 800);
    // The newest third of the records is lost.
    let kept = all.len() / 3 * 2;
    let (whole, cut) = (store_of(&all), store_of(&all[..kept]));
    let (whole, cut) = (whole.read().unwrap(), cut.read().unwrap());
    let [last, common] = [&whole, &cut].map(|snapshot| snapshot.last_event().unwrap());
    assert!(common < last && common.0 > 0);
    let events = whole.events_after(EventNumber(0), usize::MAX).unwrap();
    for number in (0..=last.0).map(EventNumber) {
        let place = whole.event_place(number).unwrap();
        assert_eq!(place.at.is_none(), number.0 == 0);
        assert_eq!(whole.resume_after(place).unwrap(), number);
        assert_eq!(cut.resume_after(place).unwrap(), number.min(common));
        assert_eq!(cut.has_place(place).unwrap(), number <= common);
        // A bare number behind the end begins at the end.
        let bare = EventPlace { number, at: None };
        assert_eq!(cut.resume_after(bare).unwrap(), number.min(common));
        // The number was given out again, to an event of another instant.
        let other = EventPlace { number: EventNumber(1), at: place.at.map(|at| at.plus(1)) };
        let upto = events.iter().filter(|event| Some(event.at) <= place.at).count();
        let expected = if number.0 == 0 { 1 } else { upto as u64 };
        assert_eq!(whole.resume_after(other).unwrap().0, expected);
        assert_eq!(whole.has_place(other).unwrap(), number.0 == 0);
    }
    let beyond = whole.event_place(last.next()).unwrap();
    assert_eq!(beyond, EventPlace { number: last.next(), at: None });
}

/// Approvals alone take no room: the log's written blocks do not grow with them.
#[test]
fn a_log_of_approvals_is_short() {
    let records = journal(67, 2_000);
    let store = store_of(&records);
    let read_txn = store.database.begin_read().unwrap();
    let blocks = read_txn.open_table(EVENT_BLOCKS.definition()).unwrap();
    let lengths: Vec<_> =
        blocks.iter().unwrap().map(|entry| entry.unwrap().1.value().len()).collect();
    let events = store.read().unwrap().last_event().unwrap().0;
    assert!(lengths.len() > 1, "{lengths:?}");
    assert!(lengths.iter().all(|len| *len <= limits::EVENT_BLOCK_BYTES + 8), "{lengths:?}");
    let bytes = lengths.iter().sum::<usize>() as u64;
    assert!(bytes < 8 * events, "{bytes} bytes for {events} events, most of them changes");
}

#[test]
fn an_event_that_is_missing_or_too_many_is_named() {
    use crate::domain::transaction::{TransactionProgress, TransactionState};
    use crate::packed::EventBlock;
    use crate::packed::LoggedEvents;
    let store = store_of(&journal(68, 300));
    let differing = |change: &dyn Fn(EventBlock) -> EventBlock| -> Vec<String> {
        let write_txn = store.database.begin_write().unwrap();
        let mut table = write_txn.open_table(EVENT_BLOCKS.definition()).unwrap();
        let (key, value) = {
            let (key, value) = table.last().unwrap().unwrap();
            (key.value(), value.value().to_vec())
        };
        let block = rows::unpack("", &value, EventBlock::resume).unwrap();
        let changed = change(block);
        let packed = rows::pack(|bytes| bytes.extend_from_slice(&changed.bytes));
        table.remove(key).unwrap();
        table.insert(changed.first().0, packed.as_slice()).unwrap();
        drop(table);
        write_txn.commit().unwrap();
        store.forget_view();
        let figures = store.read().unwrap().audit_events_log().unwrap();
        store.forget_view();
        let names =
            figures.into_iter().filter(|figure| !figure.is_right()).map(|figure| figure.name);
        let names = names.collect();
        let write_txn = store.database.begin_write().unwrap();
        let mut table = write_txn.open_table(EVENT_BLOCKS.definition()).unwrap();
        table.remove(changed.first().0).unwrap();
        table.insert(key, value.as_slice()).unwrap();
        drop(table);
        write_txn.commit().unwrap();
        names
    };
    assert_eq!(differing(&|block| block), Vec::<String>::new());
    let made = store.checkpoint().unwrap().last_transaction;
    let twice = differing(&|mut block| {
        block.push(&LoggedEvents::Created { first: made.next(), count: 1 });
        block
    });
    assert_eq!(twice, ["transactions made"]);
    let elsewhere = differing(&|block| {
        let next = EventNumber(block.first().0 + 1_000);
        EventBlock::begin(next, TransactionSeq(1), Timestamp(0))
    });
    assert!(elsewhere.contains(&"transactions made".to_owned()));
    let progress = TransactionProgress::empty(TransactionState::Canceled);
    let change = Effect::TransactionProgress(made.next(), Box::new(progress));
    let effects = vec![change];
    let checkpoint = store.checkpoint().unwrap();
    let (seq, at) = (checkpoint.applied_seq.next(), checkpoint.applied_at);
    let run = [Record { seq, at, effects }];
    let outcome = store.commit(&gather(&run), position_after(&run), CommitKind::Visible);
    assert!(outcome.is_err(), "{outcome:?}");
}

#[test]
fn figures_are_those_of_the_slow_store() {
    for seed in 70..74 {
        println!("seed {seed}");
        let mut random = seed;
        let records = journal(seed, 1_500);
        let (store, model) = (store_in_runs(&records, &mut random), Model::of(&records));
        let snapshot = store.read().unwrap();
        let (first, last) = (records[0].at, records.last().unwrap().at);
        let span = u64::try_from(last.0 - first.0).unwrap();
        let mut windows = vec![(Timestamp::MIN, Timestamp::MAX), (last, first)];
        for _ in 0..30 {
            let from = first.plus(i64::try_from(next_random(&mut random) % span).unwrap());
            let to = from.plus(i64::try_from(next_random(&mut random) % span).unwrap());
            windows.push((from, to));
        }
        let mut compared = 0;
        for company in (0..3).map(CompanySlot) {
            for (from, to) in &windows {
                let is_within = |start: &Timestamp| start >= from && start < to;
                let expected: Vec<_> = model
                    .decisions
                    .iter()
                    .filter(|((owner, start, _), _)| *owner == company && is_within(start))
                    .map(|((_, start, code), (count, sum))| (*start, *code, *count, *sum))
                    .collect();
                let found = snapshot.day_figures(company, *from, *to).unwrap();
                assert!(found.iter().all(|quarter| quarter.to.0 - quarter.from.0 == 900_000_000));
                let found: Vec<_> = found
                    .iter()
                    .flat_map(|quarter| {
                        let outcome = |(code, count, sum): &(ResponseCode, _, _)| {
                            (quarter.from, *code, *count, *sum)
                        };
                        quarter.outcomes.iter().map(outcome).collect::<Vec<_>>()
                    })
                    .collect();
                assert_eq!(found, expected, "{company:?} {from:?} {to:?}");
                compared += found.len();
            }
        }
        assert!(compared > 200, "{compared} figures compared");
    }
}

/// Figures that are counted and not written yet belong to their commit.
#[test]
fn a_snapshot_keeps_the_figures_of_its_commit() {
    let records = journal(75, 300);
    let store = empty_store();
    let mut kept = Vec::new();
    for end in (10..=records.len()).step_by(10) {
        let kind = if end % 70 == 0 { CommitKind::Checkpoint } else { CommitKind::Visible };
        let projection = gather(&records[end - 10..end]);
        store.commit(&projection, position_after(&records[..end]), kind).unwrap();
        kept.push((store.read().unwrap(), end));
    }
    for (snapshot, end) in kept {
        let model = Model::of(&records[..end]);
        let expected: u64 = model.decisions.values().map(|(count, _)| count).sum();
        let mut found = 0;
        for company in (0..2).map(CompanySlot) {
            let figures = snapshot.day_figures(company, Timestamp::MIN, Timestamp::MAX).unwrap();
            let outcomes = figures.iter().flat_map(|quarter| &quarter.outcomes);
            found += outcomes.map(|(_, count, _)| count).sum::<u64>();
        }
        assert_eq!(found, expected, "after record {end}");
    }
}

#[test]
fn endpoints_and_the_companies_of_apps_are_those_of_the_slow_store() {
    use super::model::page_of;
    use crate::store::query::{Order, Page};
    let records = journal(76, 8_000);
    let (store, model) = (store_of(&records), Model::of(&records));
    let snapshot = store.read().unwrap();
    let live: Vec<_> =
        model.rows.webhook_endpoints.values().filter(|row| !row.is_deleted).cloned().collect();
    assert!(live.len() > 10 && live.len() < model.rows.webhook_endpoints.len());
    assert_eq!(snapshot.all_webhook_endpoints().unwrap(), live);
    // Endpoints that were deleted over the years cost nothing: their rows are not read.
    for row in model.rows.webhook_endpoints.values().filter(|row| row.is_deleted) {
        damage_row(&store, WebhookEndpoint::ROWS.definition(), row.slot.0);
    }
    assert_eq!(store.read().unwrap().all_webhook_endpoints().unwrap(), live);
    for company in (0..3).map(CompanySlot) {
        let rows = live.iter().filter(|row| row.company == company);
        let rows: Vec<_> = rows.map(|row| (row.created_at, row.clone())).collect();
        for page in
            [Page::first(5), Page { offset: 2, order: Order::OldestFirst, ..Page::first(9) }]
        {
            let found = snapshot.list_own::<WebhookEndpoint>(company, &page).unwrap();
            assert_eq!(found, page_of(&rows, &page));
        }
        for row in model.rows.webhook_endpoints.values() {
            let expected = live.iter().find(|live| live.id == row.id && live.company == company);
            let found = snapshot.own::<WebhookEndpoint>(company, row.id).unwrap();
            assert_eq!(found.as_ref(), expected);
        }
    }
    let mut with_several = 0;
    for app in model.rows.apps.values().map(|app| app.slot) {
        let live = model
            .rows
            .access_tokens
            .values()
            .filter(|token| token.app() == Some(app) && !token.is_revoked);
        let mut expected: Vec<_> = live.map(|token| token.company).collect();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(snapshot.companies_of_app(app).unwrap(), expected, "{app:?}");
        with_several += usize::from(expected.len() > 1);
    }
    assert!(with_several > 0, "some app acts in several companies");
}
