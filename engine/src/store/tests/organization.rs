//! Rows that people set up around cards, as the tables show them.

use redb::ReadableTableMetadata;
use uuid::Uuid;

use super::model::{Model, page_of};
use super::world::journal;
use super::*;
use crate::directory::dimension::Dimension;
use crate::directory::member::MemberState;
use crate::directory::requisition::{Requisition, RequisitionStatus};
use crate::directory::shared_link::SharedLink;
use crate::domain::card::DimensionKind;
use crate::domain::ids::{
    CardSlot, CompanySlot, MemberSlot, RequisitionId, RequisitionSlot, SharedLinkId,
    SharedLinkSlot, Timestamp,
};
use crate::store::directory::StoredRow as _;
use crate::store::query::{Order, Page, RequisitionFilter};

fn pages() -> Vec<Page> {
    let middle = Timestamp(1_772_000_000_000_000).plus(40 * Timestamp::DAY);
    let first = Page::first(7);
    vec![
        first,
        Page { order: Order::OldestFirst, offset: 3, ..first },
        Page { created_after: Some(middle), limit: 100, ..first },
        Page { created_before: Some(middle), limit: 0, ..first },
    ]
}

#[test]
fn lists_are_those_of_the_slow_store() {
    let records = journal(11, 1_500);
    let (store, model) = (store_of(&records), Model::of(&records));
    let snapshot = store.read().unwrap();
    let mut rows = 0;
    for page in pages() {
        for company in (0..3).map(CompanySlot) {
            let members = model.rows.members.values();
            let members: Vec<_> = members
                .filter(|row| row.company == company && row.state == MemberState::Active)
                .map(|row| (row.created_at, row.clone()))
                .collect();
            let is_active = |row: &_| {
                matches!(row, crate::directory::member::Member { state: MemberState::Active, .. })
            };
            let found = snapshot.list_members(company, &page, is_active).unwrap();
            assert_eq!(found, page_of(&members, &page));
            for kind in DimensionKind::ALL {
                let of_kind = model.rows.dimensions.values();
                let of_kind: Vec<_> = of_kind
                    .filter(|row| row.company == company && row.kind == kind && !row.is_deleted)
                    .map(|row| (row.created_at, row.clone()))
                    .collect();
                let found = snapshot.list_dimensions(company, kind, &page).unwrap();
                assert_eq!(found, page_of(&of_kind, &page));
                rows += found.rows.len();
            }
            for card in [None, Some(CardSlot(0)), Some(CardSlot(3))] {
                let links = model.rows.shared_links.values();
                let links: Vec<_> = links
                    .filter(|row| row.company == company && !row.is_deleted)
                    .filter(|row| card.is_none_or(|card| row.card == card))
                    .map(|row| (row.created_at, row.clone()))
                    .collect();
                let found = snapshot.list_shared_links(company, card, &page).unwrap();
                assert_eq!(found, page_of(&links, &page));
                rows += found.rows.len();
            }
            for filter in requisition_filters() {
                let fitting = model.rows.requisitions.values();
                let fitting: Vec<_> = fitting
                    .filter(|row| row.company == company)
                    .filter(|row| filter.card.is_none_or(|card| row.card == Some(card)))
                    .filter(|row| filter.member.is_none_or(|member| row.member == member))
                    .filter(|row| {
                        filter.statuses.is_empty() || filter.statuses.contains(&row.status)
                    })
                    .map(|row| (row.created_at, row.clone()))
                    .collect();
                let found = snapshot.list_requisitions(company, &filter, &page).unwrap();
                assert_eq!(found, page_of(&fitting, &page), "{filter:?}");
                rows += found.rows.len();
            }
        }
    }
    assert!(rows > 50, "{rows} rows compared");
}

fn requisition_filters() -> Vec<RequisitionFilter> {
    let all = RequisitionFilter::default();
    vec![
        all.clone(),
        RequisitionFilter { card: Some(CardSlot(2)), ..all.clone() },
        RequisitionFilter { member: Some(MemberSlot(1)), ..all.clone() },
        RequisitionFilter { statuses: vec![RequisitionStatus::Approved], ..all },
    ]
}

#[test]
fn single_rows_are_those_of_the_slow_store() {
    // In the end there is an answer that has not ended.
    let journals = (12..).map(|seed| journal(seed, 1_500));
    let mut worlds = journals.map(|records| (Model::of(&records), records));
    let (model, records) = worlds.find(|(model, _)| !model.keyed_answers.is_empty()).unwrap();
    let store = store_of(&records);
    let snapshot = store.read().unwrap();
    for row in model.rows.dimensions.values() {
        assert_eq!(snapshot.row::<Dimension>(row.slot).unwrap().as_ref(), Some(row));
        let live = (!row.is_deleted).then(|| row.clone());
        assert_eq!(snapshot.dimension_by_id(row.company, row.id).unwrap(), live);
        assert_eq!(snapshot.dimension_by_id(CompanySlot(9), row.id).unwrap(), None);
    }
    for row in model.rows.shared_links.values() {
        let live = (!row.is_deleted).then(|| row.clone());
        assert_eq!(snapshot.own::<SharedLink>(row.company, row.id).unwrap(), live);
        assert_eq!(snapshot.shared_link_by_key(row.key_digest).unwrap(), live);
        let mut of_card = model
            .rows
            .shared_links
            .values()
            .filter(|link| link.card == row.card && !link.is_deleted);
        let newest = of_card.next_back().cloned();
        assert_eq!(snapshot.shared_link_of_card(row.card).unwrap(), newest);
    }
    for row in model.rows.requisitions.values() {
        assert_eq!(snapshot.own::<Requisition>(row.company, row.id).unwrap().as_ref(), Some(row));
    }
    for row in model.rows.exchanged_keys.values() {
        let found = snapshot.exchanged_key(&row.key.door, &row.key.usage).unwrap();
        assert_eq!(found.as_ref(), Some(row));
    }
    for card in model.cards.keys() {
        let mut approved = model
            .rows
            .requisitions
            .values()
            .filter(|row| row.card == Some(*card) && row.status == RequisitionStatus::Approved);
        assert_eq!(snapshot.requisition_of_card(*card).unwrap(), approved.next_back().cloned());
    }
    for seq in model.transactions.keys() {
        let tags = model.tags.get(seq).cloned();
        assert_eq!(snapshot.transaction_tags(*seq).unwrap(), tags);
    }
    for company in (0..3).map(CompanySlot) {
        assert_eq!(snapshot.company_sso(company).unwrap(), model.sso.get(&company).cloned());
    }
    let stored = snapshot.table(KEYED_ANSWERS.definition()).unwrap().len().unwrap();
    assert_eq!(stored, model.keyed_answers.len() as u64);
    for (key, answer) in &model.keyed_answers {
        assert_eq!(snapshot.keyed_answer(key).unwrap().as_ref(), Some(answer));
    }
    assert!(model.tags.len() > 20);
}

/// Each card of a list shows its newest requisition and shared link: all of a card's were read for it.
#[test]
fn the_newest_of_a_card_is_read_without_those_before_it() {
    let mut records = journal(12, 1_500);
    let model = Model::of(&records);
    let is_approved =
        |row: &&Requisition| row.status == RequisitionStatus::Approved && row.card.is_some();
    let asked = model.rows.requisitions.values().find(is_approved).unwrap();
    let link = model.rows.shared_links.values().find(|row| !row.is_deleted).unwrap();
    let newer_link = SharedLink {
        slot: SharedLinkSlot(u32::try_from(model.rows.shared_links.len()).unwrap()),
        id: SharedLinkId(Uuid::from_u128(1)),
        ..link.clone()
    };
    let next = model.rows.requisitions.len();
    let newer = [RequisitionStatus::Approved, RequisitionStatus::Denied].map(|status| {
        let place = next + usize::from(status == RequisitionStatus::Denied);
        let slot = RequisitionSlot(u32::try_from(place).unwrap());
        let id = RequisitionId(Uuid::from_u128(place as u128));
        Requisition { slot, id, status, ..asked.clone() }
    });
    let mut effects: Vec<_> = newer.clone().map(Effect::row).into();
    effects.push(Effect::row(newer_link.clone()));
    let last = records.last().unwrap();
    records.push(Record { seq: last.seq.next(), at: last.at, effects });
    let store = store_of(&records);
    damage_row(&store, Requisition::ROWS.definition(), asked.slot.0);
    damage_row(&store, SharedLink::ROWS.definition(), link.slot.0);
    let snapshot = store.read().unwrap();
    let [approved, _] = newer;
    assert_eq!(snapshot.requisition_of_card(asked.card.unwrap()).unwrap(), Some(approved));
    assert_eq!(snapshot.shared_link_of_card(link.card).unwrap(), Some(newer_link));
}
