//! Every query against the slow model, over random journals.

use proptest::prelude::*;
use uuid::Uuid;

use super::model::{Model, page_of};
use super::world::{DESCRIPTIONS, EMAILS, dimension, id, journal};
use super::*;
use crate::directory::member::{Member, MemberState};
use crate::domain::business_date::BusinessDate;
use crate::domain::card::{CardState, CardTexts, Dimensions};
use crate::domain::ids::*;
use crate::domain::posting::StatementLine;
use crate::domain::transaction::{TransactionKind, TransactionRecord, TransactionState};
use crate::store::Snapshot;
use crate::store::query::{
    CardFilter, LineFilter, Order, Page, TransactionClasses, TransactionFilter, TransactionRow,
};

fn any_page() -> impl Strategy<Value = Page> {
    let time = || {
        let offset = (0_i64..40)
            .prop_map(|day| Timestamp(1_772_000_000_000_000).plus(day * Timestamp::DAY / 7));
        prop::option::weighted(0.3, offset)
    };
    (0_usize..30, 0_usize..40, time(), time(), any::<bool>()).prop_map(
        |(limit, offset, created_after, created_before, is_oldest_first)| {
            let order = if is_oldest_first { Order::OldestFirst } else { Order::NewestFirst };
            Page { limit, offset, created_after, created_before, order }
        },
    )
}

fn any_dimensions() -> impl Strategy<Value = Dimensions> {
    let numbers = prop::array::uniform4(prop::option::weighted(0.2, 0_u32..4));
    (0_u32..2, numbers).prop_map(|(company, numbers)| {
        let kinds = [0, 1, 2, 3];
        kinds.map(|kind| {
            let number = numbers[kind as usize];
            number.map(|number| dimension(CompanySlot(company), kind, number))
        })
    })
}

const STATES: [TransactionState; 4] = TransactionState::ALL;

/// Criteria of state and kind: some states, without declines, without verifications.
#[derive(Clone, Debug, Default)]
pub(super) struct StateCriteria {
    states: Option<Vec<TransactionState>>,
    no_declines: bool,
    no_verifications: bool,
}

impl StateCriteria {
    fn classes(&self) -> TransactionClasses {
        let states = self.states.as_deref();
        let mut classes =
            states.map_or_else(TransactionClasses::default, TransactionClasses::in_states);
        if self.no_declines {
            classes = classes.without_declines();
        }
        if self.no_verifications {
            classes = classes.without_verifications();
        }
        classes
    }

    fn accepts(&self, row: &TransactionRow) -> bool {
        let state = row.progress.state;
        self.states.as_ref().is_none_or(|states| states.contains(&state))
            && !(self.no_declines && state == TransactionState::Declined)
            && !(self.no_verifications
                && row.record.kind == TransactionKind::Verification
                && state != TransactionState::Completed)
    }
}

prop_compose! {
    fn any_wanted()(
        states in prop::option::weighted(0.4, prop::sample::subsequence(STATES.to_vec(), 0..4)),
        no_declines in prop::bool::weighted(0.2),
        no_verifications in prop::bool::weighted(0.2),
    ) -> StateCriteria {
        StateCriteria { states, no_declines, no_verifications }
    }
}

fn rare<T: std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.3, value)
}

prop_compose! {
    fn any_card_filter()(
        member in rare(0_u32..12),
        dimensions in any_dimensions(),
        states in prop::sample::subsequence(
            vec![CardState::Unactivated, CardState::Active, CardState::Suspended], 0..3),
        last_four in rare(prop::sample::select(vec![*b"4242", *b"0007", *b"0000"])),
        parts in [(); CardTexts::<()>::COUNT].map(|()| rare(prop::sample::select(vec!["TRAVEL", "bü", "r", "none"]))),
    ) -> CardFilter {
        let mut parts = parts.into_iter();
        CardFilter {
            assigned_to: member.map(MemberSlot),
            dimensions,
            states,
            last_four,
            contains: CardTexts::from_fn(|_| parts.next().flatten().map(str::to_owned)),
        }
    }
}

prop_compose! {
    fn any_transaction_filter()(
        card in rare(0_u32..40),
        member in rare(0_u32..12),
        dimensions in any_dimensions(),
        after in rare(0_i64..40),
        before in rare(0_i64..40),
    ) -> TransactionFilter {
        let day = |day| Timestamp(1_772_000_000_000_000).plus(day * Timestamp::DAY / 7);
        TransactionFilter {
            before: before.map(day),
            after: after.map(day),
            card: card.map(CardSlot),
            member: member.map(MemberSlot),
            dimensions,
            classes: TransactionClasses::default(),
        }
    }
}

prop_compose! {
    fn any_line_filter()(
        from in rare(20_507_i32..20_530),
        to in rare(20_507_i32..20_530),
        number in prop::option::weighted(0.1, 0_u64..40),
        number_above in rare(0_u64..40),
        number_below in rare(0_u64..40),
    ) -> LineFilter {
        let (from, to) = (from.map(BusinessDate), to.map(BusinessDate));
        LineFilter { from, to, number, number_above, number_below }
    }
}

fn fits(wanted: &Dimensions, found: &Dimensions) -> bool {
    wanted.iter().zip(found).all(|(wanted, found)| wanted.is_none() || wanted == found)
}

fn check_cards(model: &Model, snapshot: &Snapshot, filter: &CardFilter, page: &Page) {
    for company in [0, 1, 7].map(CompanySlot) {
        let rows: Vec<_> = model
            .cards
            .values()
            .filter(|card| card.profile.company == company)
            .filter(|card| {
                filter.assigned_to.is_none() || filter.assigned_to == card.profile.assigned_to
            })
            .filter(|card| fits(&filter.dimensions, &card.profile.dimensions))
            .filter(|card| filter.last_four.is_none_or(|four| four == card.profile.last_four))
            .filter(|card| {
                filter.states.is_empty() || filter.states.contains(&card.record.usage.state)
            })
            .filter(|card| {
                filter.contains.named().into_iter().zip(card.profile.texts.named()).all(
                    |((_, part), (_, text))| {
                        part.as_ref()
                            .is_none_or(|part| text.to_lowercase().contains(&part.to_lowercase()))
                    },
                )
            })
            .map(|card| (card.profile.created_at, card.clone()))
            .collect();
        let found = snapshot.list_cards(company, filter, page).unwrap();
        assert_eq!(found, page_of(&rows, page), "{filter:?} {page:?}");
    }
}

/// Whether a transaction carries these dimensions now: as it was made, or by hand since. A dimension
/// that is gone, or another company's, is on nothing.
fn carries(model: &Model, wanted: &Dimensions, record: &TransactionRecord) -> bool {
    let tags = model.tags.get(&record.seq).cloned().unwrap_or_default();
    let known = wanted.iter().flatten().all(|wanted| {
        let row = model.rows.dimensions.values().find(|row| row.id == *wanted);
        row.is_none_or(|row| !row.is_deleted && row.company == record.company)
    });
    known && fits(wanted, &tags.dimensions_over(&record.dimensions))
}

pub(super) fn check_transactions(
    model: &Model,
    snapshot: &Snapshot,
    (filter, wanted): (&TransactionFilter, &StateCriteria),
    page: &Page,
) {
    let filter = &TransactionFilter { classes: wanted.classes(), ..*filter };
    let rows = |accepts: &dyn Fn(&TransactionRow) -> bool| -> Vec<_> {
        let rows = model.transactions.values().filter(|row| accepts(row));
        rows.map(|row| (row.record.authorized_at, row.clone())).collect()
    };
    for company in [0, 1, 7].map(CompanySlot) {
        let expected = rows(&|row| {
            let record = &row.record;
            record.company == company
                && wanted.accepts(row)
                && filter.card.is_none_or(|card| record.card == Some(card))
                && filter.member.is_none_or(|member| record.member == Some(member))
                && filter.after.is_none_or(|after| record.authorized_at >= after)
                && filter.before.is_none_or(|before| record.authorized_at < before)
                && carries(model, &filter.dimensions, record)
        });
        let found = snapshot.list_transactions(company, filter, page).unwrap();
        assert_eq!(found, page_of(&expected, page), "{filter:?} {page:?}");
    }
    for card in [0, 1, 5, 99].map(CardSlot) {
        let expected = rows(&|row| row.record.card == Some(card));
        let found = snapshot.list_card_transactions(card, page).unwrap();
        assert_eq!(found, page_of(&expected, page), "{card:?} {page:?}");
    }
}

pub(super) fn check_lines(model: &Model, snapshot: &Snapshot, filter: &LineFilter, page: &Page) {
    for account in [0, 1, 7].map(AccountSlot) {
        let rows: Vec<_> = model
            .lines
            .values()
            .filter(|line| line.account == account)
            .filter(|line| filter.from.is_none_or(|from| line.posted_on >= from))
            .filter(|line| filter.to.is_none_or(|to| line.posted_on <= to))
            .filter(|line| filter.number.is_none_or(|number| line.number == number))
            .filter(|line| filter.number_above.is_none_or(|number| line.number > number))
            .filter(|line| filter.number_below.is_none_or(|number| line.number < number))
            .map(|line| (line.posted_at, line.clone()))
            .collect();
        let found = snapshot.list_statement_lines(account, filter, page).unwrap();
        assert_eq!(found, page_of(&rows, page), "{filter:?} {page:?}");
        let lines: Vec<_> = rows.into_iter().map(|(_, line)| line).collect();
        assert_eq!(read_span(snapshot, account, filter, page.limit + 1), lines, "{filter:?}");
        for line in &lines {
            assert_eq!(snapshot.statement_line(line.seq).unwrap().as_ref(), Some(line));
        }
    }
    assert_eq!(snapshot.statement_line(LineSeq(u64::MAX)).unwrap(), None);
}

/// All lines that fit, read so many at a time.
fn read_span(
    snapshot: &Snapshot,
    account: AccountSlot,
    filter: &LineFilter,
    limit: usize,
) -> Vec<StatementLine> {
    let mut span = snapshot.line_span(account, filter).unwrap();
    let mut read = Vec::new();
    loop {
        let lines = snapshot.next_lines(&mut span, limit).unwrap();
        assert!(lines.len() <= limit);
        if lines.is_empty() {
            assert!(span.numbers().is_empty());
            return read;
        }
        read.extend(lines);
    }
}

fn check_cards_by_id(model: &Model, snapshot: &Snapshot) {
    for (slot, card) in &model.cards {
        let profile = &card.profile;
        let company = profile.company;
        let other = CompanySlot(1 - company.0);
        let expected = Some(card.clone());
        assert_eq!(snapshot.card(*slot).unwrap(), expected);
        assert_eq!(snapshot.card_by_id(company, profile.id).unwrap(), expected);
        assert_eq!(snapshot.card_by_id(other, profile.id).unwrap(), None);
        assert_eq!(snapshot.card_by_any_company(profile.id).unwrap(), expected);
        let allowance_id = profile.allowance_id;
        assert_eq!(snapshot.card_by_allowance_id(company, allowance_id).unwrap(), expected);
        assert_eq!(snapshot.card_by_allowance_id(other, allowance_id).unwrap(), None);
        assert_eq!(snapshot.card_by_pan_hash(card.record.pan_hash).unwrap(), expected);
    }
    let none = Uuid::from_u128(1);
    assert_eq!(snapshot.card_by_any_company(CardId(none)).unwrap(), None);
    assert_eq!(snapshot.card(CardSlot(9_999)).unwrap(), None);
}

fn check_organization(model: &Model, snapshot: &Snapshot) {
    let companies: Vec<_> = model.companies.values().cloned().collect();
    assert_eq!(snapshot.companies().unwrap(), companies);
    for company in &companies {
        assert_eq!(snapshot.company(company.slot).unwrap().as_ref(), Some(company));
        assert_eq!(snapshot.company_by_id(company.id).unwrap().as_ref(), Some(company));
        let accounts = snapshot.accounts(company.slot).unwrap();
        assert_eq!(accounts.len(), 1);
        assert_eq!(accounts[0].account, model.accounts[&AccountSlot(company.slot.0)]);
        assert_eq!(accounts[0].balances, model.balances[&AccountSlot(company.slot.0)]);
        let id = accounts[0].account.id;
        let found = snapshot.account_by_id(company.slot, id).unwrap();
        assert_eq!(found.as_ref(), Some(&accounts[0]));
        assert_eq!(snapshot.account_by_id(CompanySlot(1 - company.slot.0), id).unwrap(), None);
        for email in EMAILS
            .iter()
            .map(ToString::to_string)
            .chain(model.rows.members.values().map(|member| member.email.to_uppercase()))
        {
            let expected = model.rows.members.values().find(|member| {
                member.company == company.slot
                    && member.state != MemberState::Deleted
                    && member.email.to_lowercase() == email.to_lowercase()
            });
            let found = snapshot.member_by_email(company.slot, &email).unwrap();
            assert_eq!(found.as_ref(), expected, "{email}");
        }
    }
    for member in model.rows.members.values() {
        assert_eq!(snapshot.row::<Member>(member.slot).unwrap().as_ref(), Some(member));
        let found = snapshot.member_by_id(member.company, member.id).unwrap();
        assert_eq!(found.as_ref(), Some(member));
        let other = CompanySlot(1 - member.company.0);
        assert_eq!(snapshot.member_by_id(other, member.id).unwrap(), None);
    }
    for byte in 0..=255 {
        let found = snapshot.access_token(&[byte; 32]).unwrap();
        assert_eq!(found.as_ref(), model.rows.access_tokens.get(&[byte; 32]));
    }
    assert_eq!(snapshot.network_key().unwrap(), model.network_key);
    assert_eq!(snapshot.pan_generations().unwrap(), model.pan_generations);
    for first in [0, 1, 7] {
        let found = snapshot.sealed_numbers(CardSlot(first), 5).unwrap();
        let found: Vec<_> =
            found.into_iter().map(|found| (found.slot, found.card, found.sealed_pan)).collect();
        let cards = model.cards.range(CardSlot(first)..).take(5);
        let expected: Vec<_> =
            cards.map(|(slot, card)| (*slot, card.profile.id, card.sealed_pan.clone())).collect();
        assert_eq!(found, expected, "from {first}");
    }
    assert_eq!(snapshot.company_by_id(CompanyId(id(1, 77))).unwrap(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn everything_is_found_by_its_ids(seed in any::<u64>(), len in 3_usize..300) {
        let records = journal(seed, len);
        let (model, store) = (Model::of(&records), store_of(&records));
        let snapshot = store.read().unwrap();
        check_cards_by_id(&model, &snapshot);
        check_organization(&model, &snapshot);
        for (seq, row) in &model.transactions {
            let found = snapshot.transaction(*seq).unwrap();
            prop_assert_eq!(found.as_ref(), Some(row));
        }
        prop_assert_eq!(snapshot.transaction(TransactionSeq(9_999)).unwrap(), None);
    }

    #[test]
    fn lists_are_those_of_the_model(
        seed in any::<u64>(),
        cards in prop::collection::vec((any_card_filter(), any_page()), 30),
        transactions in prop::collection::vec(
            (any_transaction_filter(), any_wanted(), any_page()), 30),
        lines in prop::collection::vec((any_line_filter(), any_page()), 30),
    ) {
        let records = journal(seed, 300);
        let (model, store) = (Model::of(&records), store_of(&records));
        let snapshot = store.read().unwrap();
        for (filter, page) in &cards {
            check_cards(&model, &snapshot, filter, page);
            check_cards(&model, &snapshot, &CardFilter::default(), page);
        }
        for (filter, wanted, page) in &transactions {
            let (no_filter, all) = (TransactionFilter::default(), StateCriteria::default());
            check_transactions(&model, &snapshot, (filter, wanted), page);
            check_transactions(&model, &snapshot, (filter, &all), page);
            check_transactions(&model, &snapshot, (&no_filter, wanted), page);
            check_transactions(&model, &snapshot, (&no_filter, &all), page);
            for kind in 0..4 {
                let mut filter = TransactionFilter::default();
                filter.dimensions[kind] = Some(dimension(CompanySlot(0), u32::try_from(kind).unwrap(), 1));
                check_transactions(&model, &snapshot, (&filter, &all), page);
            }
        }
        for (filter, page) in &lines {
            check_lines(&model, &snapshot, filter, page);
        }
    }
}

#[test]
fn a_default_page_starts_with_the_newest() {
    let records = journal(5, 400);
    let store = store_of(&records);
    let snapshot = store.read().unwrap();
    let filter = LineFilter::default();
    let lines = snapshot.list_statement_lines(AccountSlot(0), &filter, &Page::first(3)).unwrap();
    let numbers: Vec<u64> = lines.rows.iter().map(|line| line.number).collect();
    assert_eq!(numbers, [lines.count, lines.count - 1, lines.count - 2]);
    assert!(DESCRIPTIONS.contains(&"Travel"));
}
