//! Requisitions: a member asks to buy something, a reviewer approves or denies it.
//! Source: spec "Requisition".
//!
//! An approved requisition has its card from the same record on, whether the card was there or was
//! made for it. What was decided changes no more.

use super::execute::Moment;
use super::execute_admin::{find_card, find_company, issue_card, replace};
use super::execute_dimension::{change_dimensions, check_dimensions};
use super::execute_member::find_active_member;
use super::state::ShardState;
use crate::command::admin::{NewCard, NewRequisition, RequisitionChanges, Review, Verdict};
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::domain::allowance::AllowanceTerms;
use crate::domain::card::CardState;
use crate::domain::ids::{
    CardId, CardSlot, CompanyId, MemberId, MemberSlot, RequisitionId, Slot as _, Timestamp,
};
use crate::domain::member::MemberRole;
use crate::domain::money::Minor;
use crate::domain::requisition::{Requisition, RequisitionStatus};
use crate::domain::text::LineText;
use crate::limits;

pub(super) fn create_requisition(
    state: &ShardState,
    moment: &Moment<'_>,
    new: &NewRequisition,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let company = find_company(state, new.company)?;
    let requisitions = &state.directory.requisitions;
    if requisitions.find(new.id.0).is_some() {
        return Err(Rejection::IdTaken);
    }
    let member = find_active_member(state, company, new.member)?.slot;
    check_amount(new.amount)?;
    check_dimensions(state, company, &new.dimensions)?;
    let pending = requisitions.under(&Requisition::PENDING_OF_MEMBER, &member);
    if pending.count() >= limits::MEMBER_REQUISITIONS_PENDING_MAX {
        return Err(Rejection::TooManyRequisitions);
    }
    effects.push(Effect::row(Requisition {
        slot: requisitions.next_slot().ok_or(Rejection::Full)?,
        id: new.id,
        company,
        amount: new.amount,
        status: RequisitionStatus::Pending,
        approved_at: None,
        card: None,
        dimensions: new.dimensions,
        description: new.description.to_string(),
        end_time: new.end_time,
        member,
        note: new.note.as_ref().map(ToString::to_string),
        reviewed_by: None,
        created_at: moment.at,
    }));
    Ok(())
}

pub(super) fn update_requisition(
    state: &ShardState,
    moment: &Moment<'_>,
    (company, id): (CompanyId, RequisitionId),
    changes: &RequisitionChanges,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = find_requisition(state, company, id)?;
    if changes.is_empty() {
        return Ok(());
    }
    check_pending(known)?;
    let mut requisition = known.clone();
    replace(&mut requisition.amount, &changes.amount);
    replace(&mut requisition.description, &changes.description);
    if let Some(note) = &changes.note {
        requisition.note = note.as_ref().map(ToString::to_string);
    }
    replace(&mut requisition.end_time, &changes.end_time);
    check_amount(requisition.amount)?;
    let dimensions = &mut requisition.dimensions;
    change_dimensions(state, known.company, dimensions, &changes.dimensions)?;
    if let Some(review) = &changes.review {
        review_requisition(state, moment, (company, &mut requisition), review, effects)?;
    }
    if requisition != *known {
        effects.push(Effect::row(requisition));
    }
    Ok(())
}

/// Takes a requisition back.
pub(super) fn cancel_requisition(
    state: &ShardState,
    (company, id): (CompanyId, RequisitionId),
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = find_requisition(state, company, id)?;
    check_pending(known)?;
    close(known, RequisitionStatus::Canceled, effects);
    Ok(())
}

/// Denies what a member who leaves still asks for.
pub(super) fn deny_pending(state: &ShardState, member: MemberSlot, effects: &mut Vec<Effect>) {
    for known in state.directory.requisitions.under(&Requisition::PENDING_OF_MEMBER, &member) {
        close(known, RequisitionStatus::Denied, effects);
    }
}

fn close(known: &Requisition, status: RequisitionStatus, effects: &mut Vec<Effect>) {
    assert!(known.status == RequisitionStatus::Pending, "what was decided changes no more");
    effects.push(Effect::row(Requisition { status, ..known.clone() }));
}

fn review_requisition(
    state: &ShardState,
    moment: &Moment<'_>,
    (company, requisition): (CompanyId, &mut Requisition),
    review: &Review,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let reviewer = review.reviewed_by.map(|id| find_reviewer(state, requisition, id));
    requisition.reviewed_by = reviewer.transpose()?;
    let card = match &review.verdict {
        Verdict::Deny => {
            requisition.status = RequisitionStatus::Denied;
            return Ok(());
        }
        Verdict::ApproveWithCard(id) => find_open_card(state, company, *id)?,
        Verdict::ApproveWithNewCard(drawn) => {
            let slot = CardSlot::next_after(state.cards.len()).ok_or(Rejection::Full)?;
            let card = card_for(state, requisition, drawn);
            issue_card(state, moment, &NewCard { company, ..card }, effects)?;
            slot
        }
    };
    // What has to be bought by then cannot be any more.
    if requisition.end_time.is_some_and(|end_time| end_time < moment.at) {
        return Err(Rejection::RequisitionEnded);
    }
    requisition.status = RequisitionStatus::Approved;
    requisition.approved_at = Some(moment.at);
    requisition.card = Some(card);
    Ok(())
}

/// The card for one purchase by the member who asks; of the one drawn it keeps number and ids.
fn card_for(state: &ShardState, requisition: &Requisition, drawn: &NewCard) -> NewCard {
    NewCard {
        terms: AllowanceTerms {
            ends_at: requisition.end_time.unwrap_or(Timestamp::MAX),
            single_use: true,
            ..AllowanceTerms::budget(requisition.amount)
        },
        state: CardState::Active,
        is_virtual: true,
        description: LineText::spaced(&requisition.description),
        assigned_to: Some(state.directory.members.get(requisition.member).id),
        dimensions: requisition.dimensions,
        ..drawn.clone()
    }
}

fn find_open_card(
    state: &ShardState,
    company: CompanyId,
    id: CardId,
) -> Result<CardSlot, Rejection> {
    let slot = find_card(state, company, id)?;
    let is_open = state.card(slot).usage.state != CardState::Terminated;
    if is_open { Ok(slot) } else { Err(Rejection::CardTerminated) }
}

/// Who may approve and deny: administrators and reviewers.
fn find_reviewer(
    state: &ShardState,
    requisition: &Requisition,
    id: MemberId,
) -> Result<MemberSlot, Rejection> {
    let member = find_active_member(state, requisition.company, id);
    let member = member.map_err(|_| Rejection::ReviewerNotFound)?;
    match member.role {
        MemberRole::Administrator | MemberRole::Reviewer => Ok(member.slot),
        MemberRole::Accountant | MemberRole::Member => Err(Rejection::ReviewerNotFound),
    }
}

fn find_requisition(
    state: &ShardState,
    company: CompanyId,
    id: RequisitionId,
) -> Result<&Requisition, Rejection> {
    let company = find_company(state, company)?;
    let requisition = state.directory.requisitions.find(id.0);
    requisition.filter(|known| known.company == company).ok_or(Rejection::RequisitionNotFound)
}

fn check_pending(requisition: &Requisition) -> Result<(), Rejection> {
    let is_pending = requisition.status == RequisitionStatus::Pending;
    if is_pending { Ok(()) } else { Err(Rejection::RequisitionDecided) }
}

fn check_amount(amount: Minor) -> Result<(), Rejection> {
    let is_in_bounds = amount > Minor::ZERO && amount <= Minor::AMOUNT_MAX;
    if is_in_bounds { Ok(()) } else { Err(Rejection::OutOfBounds) }
}
