//! The rules of requisitions, row by row: requests, decisions, and the cards that fulfil them.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::DirectoryRow;
use cardswitch_engine::directory::card::{CardCommand, NewCard};
use cardswitch_engine::directory::dimension::{DimensionCommand, NamedDimension, NewDimension};
use cardswitch_engine::directory::member::{MemberChanges, MemberRole};
use cardswitch_engine::directory::requisition::{
    NewRequisition, Requisition, RequisitionChanges, RequisitionCommand, RequisitionStatus,
    RequisitionVerdict, Review,
};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::card::{CardState, DimensionKind};
use cardswitch_engine::domain::ids::{CardId, DimensionId, RequisitionId, Timestamp};
use cardswitch_engine::domain::money::Minor;
use uuid::Uuid;

use crate::office::{ADA, BOB, Office, with_role};
use crate::samples::{company_id, member_id, new_card};

fn id(number: u128) -> RequisitionId {
    RequisitionId(Uuid::from_u128(number))
}

/// A requisition of a member of the first company.
pub(crate) fn new_requisition(id: RequisitionId, member: u64) -> NewRequisition {
    NewRequisition {
        id,
        company: company_id(0),
        member: member_id(member),
        amount: Minor(500),
        description: "A chair".parse().unwrap(),
        end_time: None,
        note: None,
        dimensions: [None; 4],
    }
}

fn asking(number: u128) -> NewRequisition {
    new_requisition(id(number), BOB)
}

fn card_id(number: u64) -> CardId {
    CardId(Uuid::from_u64_pair(4, number))
}

fn decided(verdict: RequisitionVerdict, reviewed_by: Option<u64>) -> RequisitionChanges {
    let reviewed_by = reviewed_by.map(member_id);
    let review = Some(Review { verdict, reviewed_by });
    RequisitionChanges { review, ..RequisitionChanges::default() }
}

/// A card as the edge draws it, with terms that nobody asked for.
fn drawn(number: u64) -> NewCard {
    let mut card = new_card(number, 1, AllowanceTerms::budget(Minor(999_999)));
    (card.state, card.order.is_virtual) = (CardState::Unactivated, false);
    card
}

fn with_new_card(number: u64) -> RequisitionVerdict {
    RequisitionVerdict::ApproveWithNewCard(Box::new(drawn(number)))
}

fn update(office: &mut Office, number: u128, changes: RequisitionChanges) -> Result<(), Rejection> {
    office.asks(AdminCommand::Requisition(RequisitionCommand::Update(
        company_id(0),
        id(number),
        changes,
    )))
}

/// The requisition that the last record is about, and whether a card came with it.
fn last_requisition(office: &Office) -> (Requisition, bool) {
    match office.last_effects().as_slice() {
        [Effect::Row(DirectoryRow::Requisition(requisition))] => ((**requisition).clone(), false),
        [Effect::CardIssued(card), Effect::Row(DirectoryRow::Requisition(requisition))] => {
            assert_eq!(requisition.card, Some(card.profile.slot));
            ((**requisition).clone(), true)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_members_who_take_part_ask_for_amounts_above_zero() {
    let mut office = Office::open();
    let tag = Some(DimensionId(Uuid::nil()));
    let rows = [
        (NewRequisition { amount: Minor(0), ..asking(1) }, Err(Rejection::OutOfBounds)),
        (NewRequisition { amount: Minor(-1), ..asking(1) }, Err(Rejection::OutOfBounds)),
        (
            NewRequisition { amount: Minor(Minor::AMOUNT_MAX.0 + 1), ..asking(1) },
            Err(Rejection::OutOfBounds),
        ),
        (NewRequisition { member: member_id(99), ..asking(1) }, Err(Rejection::MemberNotFound)),
        // A member of another company.
        (NewRequisition { member: member_id(3), ..asking(1) }, Err(Rejection::MemberNotFound)),
        (NewRequisition { company: company_id(7), ..asking(1) }, Err(Rejection::CompanyNotFound)),
        (
            NewRequisition { dimensions: [tag, None, None, None], ..asking(1) },
            Err(Rejection::DimensionNotFound(DimensionKind::Category)),
        ),
        (asking(1), Ok(())),
        (asking(1), Err(Rejection::IdTaken)),
    ];
    for (new, expected) in rows {
        let told = format!("{new:?}");
        assert_eq!(
            office.asks(AdminCommand::Requisition(RequisitionCommand::Create(new))),
            expected,
            "{told}"
        );
    }
}

#[test]
fn decisions_are_for_reviewers_and_last() {
    let mut office = Office::open();
    office.give_card(1, None).unwrap();
    office.give_card(2, None).unwrap();
    office.does(AdminCommand::Card(CardCommand::Terminate(company_id(0), card_id(2))));
    office.does(AdminCommand::Requisition(RequisitionCommand::Create(asking(1))));
    let taken = NewCard { pan_hash: new_card(1, 0, drawn(1).order.terms).pan_hash, ..drawn(9) };
    let with = |card| RequisitionVerdict::ApproveWithCard(card_id(card));
    let rows = [
        (decided(RequisitionVerdict::Deny, Some(BOB)), Err(Rejection::ReviewerNotFound)),
        (decided(RequisitionVerdict::Deny, Some(99)), Err(Rejection::ReviewerNotFound)),
        (decided(with(7), None), Err(Rejection::CardNotFound)),
        (decided(with(2), None), Err(Rejection::CardTerminated)),
        (
            decided(RequisitionVerdict::ApproveWithNewCard(Box::new(taken)), None),
            Err(Rejection::CardNumberTaken),
        ),
        (decided(with(1), Some(ADA)), Ok(())),
        (decided(RequisitionVerdict::Deny, Some(ADA)), Err(Rejection::RequisitionDecided)),
        (
            RequisitionChanges { amount: Some(Minor(5)), ..RequisitionChanges::default() },
            Err(Rejection::RequisitionDecided),
        ),
        (RequisitionChanges::default(), Ok(())),
    ];
    for (changes, expected) in rows {
        let told = format!("{changes:?}");
        assert_eq!(update(&mut office, 1, changes), expected, "{told}");
        if told.contains("ApproveWithCard") && expected == Ok(()) {
            let (asked, made_card) = last_requisition(&office);
            assert_eq!((asked.status, made_card), (RequisitionStatus::Approved, false));
            assert_eq!(asked.approved_at, Some(Timestamp(office.now())));
            assert!(asked.reviewed_by.is_some());
        }
    }
    let other = |id| {
        AdminCommand::Requisition(RequisitionCommand::Update(
            company_id(1),
            id,
            RequisitionChanges::default(),
        ))
    };
    assert_eq!(office.asks(other(id(1))), Err(Rejection::NotFound));
    let cancel =
        |number| AdminCommand::Requisition(RequisitionCommand::Cancel(company_id(0), id(number)));
    assert_eq!(office.asks(cancel(1)), Err(Rejection::RequisitionDecided));
    assert_eq!(office.asks(cancel(9)), Err(Rejection::NotFound));
    office.does(AdminCommand::Requisition(RequisitionCommand::Create(asking(2))));
    assert_eq!(office.asks(cancel(2)), Ok(()));
    assert_eq!(office.asks(cancel(2)), Err(Rejection::RequisitionDecided));
}

#[test]
fn a_reviewer_decides_until_the_role_goes() {
    let mut office = Office::open();
    let role = |role| MemberChanges { role: Some(role), ..MemberChanges::default() };
    assert_eq!(office.update(BOB, role(MemberRole::Reviewer)), Ok(()));
    office.does(AdminCommand::Requisition(RequisitionCommand::Create(asking(1))));
    office.does(AdminCommand::Requisition(RequisitionCommand::Create(asking(2))));
    assert_eq!(update(&mut office, 1, decided(RequisitionVerdict::Deny, Some(BOB))), Ok(()));
    let (asked, _) = last_requisition(&office);
    assert_eq!((asked.status, asked.approved_at), (RequisitionStatus::Denied, None));
    assert_eq!(office.update(BOB, role(MemberRole::Member)), Ok(()));
    let late = update(&mut office, 2, decided(RequisitionVerdict::Deny, Some(BOB)));
    assert_eq!(late, Err(Rejection::ReviewerNotFound));
}

#[test]
fn a_dimension_that_is_gone_keeps_no_requisition_from_its_card() {
    let mut office = Office::open();
    let kind = DimensionKind::Category;
    let tag = DimensionId(Uuid::from_u128(7));
    let named = NamedDimension { company: company_id(0), kind, id: tag };
    let new = NewDimension {
        id: tag,
        company: company_id(0),
        kind,
        name: "Travel".parse().unwrap(),
        code: None,
        parent: None,
    };
    office.does(AdminCommand::Dimension(DimensionCommand::Create(new)));
    let asked = NewRequisition { dimensions: [Some(tag), None, None, None], ..asking(1) };
    office.does(AdminCommand::Requisition(RequisitionCommand::Create(asked)));
    office.does(AdminCommand::Dimension(DimensionCommand::Delete(named)));
    assert_eq!(update(&mut office, 1, decided(with_new_card(5), None)), Ok(()));
    let effects = office.last_effects();
    let [Effect::CardIssued(card), ..] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(card.profile.dimensions, [None; 4]);
}

#[test]
fn administrators_and_reviewers_decide_and_no_other_role_does() {
    let mut office = Office::open();
    let roles = [
        (MemberRole::Administrator, Ok(())),
        (MemberRole::Accountant, Err(Rejection::ReviewerNotFound)),
        (MemberRole::Reviewer, Ok(())),
        (MemberRole::Member, Err(Rejection::ReviewerNotFound)),
    ];
    for (number, (role, expected)) in (1..).zip(roles) {
        assert_eq!(office.update(BOB, with_role(role)), Ok(()));
        office.does(AdminCommand::Requisition(RequisitionCommand::Create(asking(number))));
        let denied = decided(RequisitionVerdict::Deny, Some(BOB));
        assert_eq!(update(&mut office, number, denied), expected, "{role:?}");
    }
}

#[test]
fn approving_makes_the_card_that_was_asked_for_whatever_was_drawn() {
    let mut office = Office::open();
    let ends_at = Timestamp(office.now() + 60_000_000_000);
    office.does(AdminCommand::Requisition(RequisitionCommand::Create(asking(1))));
    let changes = RequisitionChanges {
        amount: Some(Minor(700)),
        description: Some("Two chairs".parse().unwrap()),
        end_time: Some(Some(ends_at)),
        ..decided(with_new_card(5), None)
    };
    assert_eq!(update(&mut office, 1, changes), Ok(()));
    let effects = office.last_effects();
    let [Effect::CardIssued(card), Effect::Row(DirectoryRow::Requisition(asked))] =
        effects.as_slice()
    else {
        panic!("{effects:?}");
    };
    let (profile, record) = (&card.profile, &card.record);
    assert_eq!(asked.card, Some(profile.slot));
    assert_eq!((asked.amount, asked.description.as_str()), (Minor(700), "Two chairs"));
    assert_eq!((profile.texts.description.as_str(), profile.is_virtual), ("Two chairs", true));
    assert_eq!(profile.texts.billing_name, "Two chairs", "the name is of the present description");
    assert_eq!((profile.assigned_to, profile.company), (Some(asked.member), asked.company));
    assert_eq!(record.usage.state, CardState::Active);
    let expected =
        AllowanceTerms { single_use: true, ends_at, ..AllowanceTerms::budget(Minor(700)) };
    assert_eq!(record.terms, expected);
}

#[test]
fn what_has_ended_is_approved_with_a_later_end_only() {
    let mut office = Office::open();
    let end_time = Some(Timestamp(office.now() - 1));
    office.does(AdminCommand::Requisition(RequisitionCommand::Create(NewRequisition {
        end_time,
        ..asking(1)
    })));
    let cards = office.driver.state.card_count();
    let late = update(&mut office, 1, decided(with_new_card(5), None));
    assert_eq!(late, Err(Rejection::RequisitionEnded));
    assert_eq!(office.driver.state.card_count(), cards);
    let changes = RequisitionChanges { end_time: Some(None), ..decided(with_new_card(5), None) };
    assert_eq!(update(&mut office, 1, changes), Ok(()));
    assert_eq!(last_requisition(&office).0.status, RequisitionStatus::Approved);
}

#[test]
fn nothing_can_be_made_of_a_request_whose_member_has_left() {
    let mut office = Office::open();
    office.does(AdminCommand::Requisition(RequisitionCommand::Create(asking(1))));
    let leaving = MemberChanges { is_active: Some(false), ..MemberChanges::default() };
    assert_eq!(office.update(BOB, leaving), Ok(()));
    let late = update(&mut office, 1, decided(with_new_card(5), None));
    assert_eq!(late, Err(Rejection::RequisitionDecided));
    let asked = office.asks(AdminCommand::Requisition(RequisitionCommand::Create(asking(2))));
    assert_eq!(asked, Err(Rejection::MemberNotFound));
}
