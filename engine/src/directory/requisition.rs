//! Requisitions: a member asks to buy something, a reviewer approves or denies it.
//! Source: spec "Requisition".
//!
//! An approved requisition has its card from the same record on, whether the card existed or was
//! made for it. A decided requisition changes no more.

use serde::{Deserialize, Serialize};

use super::card::{CardOrder, NewCard, find_open_card, issue_card};
use super::change::{PartitionView, StateChange};
use super::company::find_company;
use super::dimension::{change_dimensions, check_dimensions, live_dimensions};
use super::row::indexes;
use crate::command::audit_line::AuditLine;
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::directory::member::{MemberRole, find_active_member};
use crate::domain::allowance::AllowanceTerms;
use crate::domain::card::{CardState, CardTexts, Dimensions};
use crate::domain::changes::{changes, replace};
use crate::domain::enumeration::enumeration;
use crate::domain::ids::{
    CardId, CardSlot, CompanyId, CompanySlot, DimensionId, MemberId, MemberSlot, RequisitionId,
    RequisitionSlot, Slot as _, Timestamp,
};
use crate::domain::money::Minor;
use crate::domain::text::{LineText, ParagraphText};
use crate::limits;

enumeration! {
    /// The status of a requisition.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum RequisitionStatus {
        /// Not reviewed yet.
        Pending => "pending",
        /// A card fulfils it.
        Approved => "approved",
        /// Denied by a reviewer, or by the departure of its member.
        Denied => "denied",
        /// Canceled before a decision.
        Canceled => "canceled",
    }
}

/// A purchase request. Source: spec "Requisition".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requisition {
    /// The row's slot.
    pub slot: RequisitionSlot,
    /// Its public id.
    pub id: RequisitionId,
    /// The company that owns it.
    pub company: CompanySlot,
    /// The requested amount, in the account's currency.
    pub amount: Minor,
    /// Its status.
    pub status: RequisitionStatus,
    /// The time of approval.
    pub approved_at: Option<Timestamp>,
    /// The card that fulfils it.
    pub card: Option<CardSlot>,
    /// Its dimensions.
    pub dimensions: Dimensions,
    /// A description of the purchase.
    pub description: String,
    /// The latest time of the purchase.
    pub end_time: Option<Timestamp>,
    /// The member who asks.
    pub member: MemberSlot,
    /// A note on it.
    pub note: Option<String>,
    /// The last member who approved or denied it.
    pub reviewed_by: Option<MemberSlot>,
    /// The time of creation.
    pub created_at: Timestamp,
}

indexes! {
    Requisition(requisition), CHANGES_ACCESS: false, found if true;
    /// The requisitions of a company.
    OF_COMPANY = 1: CompanySlot => requisition.company;
    /// The requisitions of a member.
    OF_MEMBER = 2: MemberSlot => requisition.member;
    /// The requisitions that a card fulfils.
    OF_CARD = 3: CardSlot => requisition.card;
    /// The pending requisitions of a member.
    PENDING_OF_MEMBER = 4: MemberSlot =>
        (requisition.status == RequisitionStatus::Pending).then_some(requisition.member);
}

/// Denying a requisition, as the audit calls it.
pub(crate) const DENIED: &str = "requisition.denied";

commands! {
    /// The commands on requisitions.
    #[derive(Clone, Debug)]
    pub enum RequisitionCommand(change) {
        /// Makes a requisition.
        Create(new: NewRequisition) makes new.id.0 =>
            AuditLine::of_company(new.company, "requisition.created", new.id.0),
            create(change, new);
        /// Changes, approves or denies a requisition.
        Update(company: CompanyId, id: RequisitionId, changes: RequisitionChanges) =>
            AuditLine::of_company(*company, changes.action(), id.0).with(changes.names()),
            update(change, (*company, *id), changes);
        /// Cancels a requisition.
        Cancel(company: CompanyId, id: RequisitionId) =>
            AuditLine::of_company(*company, "requisition.canceled", id.0),
            cancel(change, (*company, *id));
    }
}

/// A requisition to make.
#[derive(Clone, Debug)]
pub struct NewRequisition {
    /// Its id.
    pub id: RequisitionId,
    /// The company that owns it.
    pub company: CompanyId,
    /// The member who asks.
    pub member: MemberId,
    /// The requested amount, in the account's currency.
    pub amount: Minor,
    /// A description of the purchase.
    pub description: LineText,
    /// The latest time of the purchase.
    pub end_time: Option<Timestamp>,
    /// A note on it.
    pub note: Option<ParagraphText>,
    /// Its dimensions.
    pub dimensions: Dimensions,
}

changes! {
    /// Changes of a requisition; absent fields stay.
    #[derive(Clone, Debug, Default)]
    pub struct RequisitionChanges {
        /// The requested amount, in the account's currency.
        amount: Option<Minor>,
        /// A description of the purchase.
        description: Option<LineText>,
        /// The latest time of the purchase.
        end_time: Option<Option<Timestamp>>,
        /// A note on it.
        note: Option<Option<ParagraphText>>,
        /// The review of all that.
        review as "status": Option<Review>,
        /// Its dimensions, by kind.
        dimensions: [Option<Option<DimensionId>>; 4],
    }
}

/// A review of a requisition.
#[derive(Clone, Debug)]
pub struct Review {
    /// The verdict.
    pub verdict: RequisitionVerdict,
    /// The reviewer, where known.
    pub reviewed_by: Option<MemberId>,
}

/// The verdict on a requisition, with the card of an approval.
#[derive(Clone, Debug)]
pub enum RequisitionVerdict {
    /// A denial.
    Deny,
    /// An approval with an existing card.
    ApproveWithCard(CardId),
    /// An approval with a card made for it. The shard takes number, ids and addresses from this one,
    /// everything else from the requisition.
    ApproveWithNewCard(Box<NewCard>),
}

impl RequisitionChanges {
    const fn action(&self) -> &'static str {
        match &self.review {
            None => "requisition.updated",
            Some(Review { verdict: RequisitionVerdict::Deny, .. }) => DENIED,
            Some(_) => "requisition.approved",
        }
    }
}

impl RequisitionChanges {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.names().is_empty()
    }
}

fn create(change: &mut StateChange<'_>, new: &NewRequisition) -> Result<(), Rejection> {
    let company = find_company(change.state, new.company)?;
    let requisitions = &change.state.directory().requisitions;
    let slot = requisitions.slot_for(new.id.0)?;
    let member = find_active_member(change.state, company, new.member)?.slot;
    check_amount(new.amount)?;
    check_dimensions(change.state, company, &new.dimensions)?;
    let pending = requisitions.under(&Requisition::PENDING_OF_MEMBER, &member);
    if pending.count() >= limits::MEMBER_REQUISITIONS_PENDING_MAX {
        return Err(Rejection::TooManyRequisitions);
    }
    change.put(Requisition {
        slot,
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
        created_at: change.moment.at,
    });
    Ok(())
}

fn update(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, RequisitionId),
    changes: &RequisitionChanges,
) -> Result<(), Rejection> {
    let known = change.state.directory().requisitions.find_of(change.state, company, id)?;
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
    change_dimensions(change.state, known.company, dimensions, &changes.dimensions)?;
    if let Some(review) = &changes.review {
        review_requisition(change, (company, &mut requisition), review)?;
    }
    change.put_changed(requisition, known);
    Ok(())
}

/// Cancels a requisition.
fn cancel(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, RequisitionId),
) -> Result<(), Rejection> {
    let known = change.state.directory().requisitions.find_of(change.state, company, id)?;
    check_pending(known)?;
    close(change, known, RequisitionStatus::Canceled);
    Ok(())
}

/// Denies the pending requisitions of a member who leaves.
pub(crate) fn deny_pending(change: &mut StateChange<'_>, member: MemberSlot) {
    for known in
        change.state.directory().requisitions.under(&Requisition::PENDING_OF_MEMBER, &member)
    {
        close(change, known, RequisitionStatus::Denied);
    }
}

fn close(change: &mut StateChange<'_>, known: &Requisition, status: RequisitionStatus) {
    assert!(known.status == RequisitionStatus::Pending, "what was decided changes no more");
    change.put(Requisition { status, ..known.clone() });
}

fn review_requisition(
    change: &mut StateChange<'_>,
    (company, requisition): (CompanyId, &mut Requisition),
    review: &Review,
) -> Result<(), Rejection> {
    let reviewer = review.reviewed_by.map(|id| find_reviewer(change.state, requisition, id));
    requisition.reviewed_by = reviewer.transpose()?;
    let card = match &review.verdict {
        RequisitionVerdict::Deny => {
            requisition.status = RequisitionStatus::Denied;
            return Ok(());
        }
        RequisitionVerdict::ApproveWithCard(id) => find_open_card(change.state, company, *id)?,
        RequisitionVerdict::ApproveWithNewCard(drawn) => {
            let slot = CardSlot::next_after(change.state.card_count()).ok_or(Rejection::Full)?;
            let order = order_for(change.state, company, requisition, &drawn.order);
            let state = CardState::Active;
            issue_card(change, &NewCard { state, order, ..(**drawn).clone() })?;
            slot
        }
    };
    // The time of the purchase has passed, so an approval comes too late.
    if requisition.end_time.is_some_and(|end_time| end_time < change.moment.at) {
        return Err(Rejection::RequisitionEnded);
    }
    requisition.status = RequisitionStatus::Approved;
    requisition.approved_at = Some(change.moment.at);
    requisition.card = Some(card);
    Ok(())
}

/// The card for one purchase by the member who asks. Only addresses of the ordered card are kept.
fn order_for(
    state: &dyn PartitionView,
    company: CompanyId,
    requisition: &Requisition,
    ordered: &CardOrder,
) -> CardOrder {
    CardOrder {
        company,
        terms: AllowanceTerms {
            ends_at: requisition.end_time.unwrap_or(Timestamp::MAX),
            single_use: true,
            ..AllowanceTerms::budget(requisition.amount)
        },
        is_virtual: true,
        texts: CardTexts::described(LineText::spaced(&requisition.description)),
        assigned_to: Some(state.directory().members.get(requisition.member).id),
        dimensions: live_dimensions(state, requisition.dimensions),
        ..ordered.clone()
    }
}

/// The member who may approve and deny: an administrator or a reviewer.
fn find_reviewer(
    state: &dyn PartitionView,
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

fn check_pending(requisition: &Requisition) -> Result<(), Rejection> {
    let is_pending = requisition.status == RequisitionStatus::Pending;
    if is_pending { Ok(()) } else { Err(Rejection::RequisitionDecided) }
}

fn check_amount(amount: Minor) -> Result<(), Rejection> {
    let is_asked = amount.is_positive() && amount.is_amount();
    if is_asked { Ok(()) } else { Err(Rejection::OutOfBounds) }
}
