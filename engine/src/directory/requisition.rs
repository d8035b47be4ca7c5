//! Requisitions: a member asks to buy something, a reviewer approves or denies it.
//! Source: spec "Requisition".
//!
//! An approved requisition has its card from the same record on, whether the card was there or was
//! made for it. What was decided changes no more.

use serde::{Deserialize, Serialize};

use super::card::{CardOrder, NewCard, find_card, issue_card};
use super::change::{PartitionView, StateChange};
use super::company::find_company;
use super::dimension::{change_dimensions, check_dimensions};
use super::row::indexes;
use crate::command::audited::Audited;
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::directory::member::{MemberRole, find_active_member};
use crate::domain::allowance::AllowanceTerms;
use crate::domain::card::{CardState, CardTexts, Dimensions};
use crate::domain::changes::{changes, replace};
use crate::domain::ids::{
    CardId, CardSlot, CompanyId, CompanySlot, DimensionId, MemberId, MemberSlot, RequisitionId,
    RequisitionSlot, Slot as _, Timestamp,
};
use crate::domain::money::Minor;
use crate::domain::text::{LineText, ParagraphText};
use crate::limits;

/// How far a requisition has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RequisitionStatus {
    /// Nobody has reviewed it.
    Pending,
    /// A card fulfils it.
    Approved,
    /// A reviewer said no, or its member left.
    Denied,
    /// It was taken back.
    Canceled,
}

/// A purchase request. Source: spec "Requisition".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requisition {
    /// Where it stands.
    pub slot: RequisitionSlot,
    /// Its public id.
    pub id: RequisitionId,
    /// Whose it is.
    pub company: CompanySlot,
    /// What is asked for, in the account's currency.
    pub amount: Minor,
    /// How far it has come.
    pub status: RequisitionStatus,
    /// When it was approved.
    pub approved_at: Option<Timestamp>,
    /// The card that fulfils it.
    pub card: Option<CardSlot>,
    /// What books sort it by.
    pub dimensions: Dimensions,
    /// What is to be bought.
    pub description: String,
    /// Until when it is to be bought.
    pub end_time: Option<Timestamp>,
    /// Who asks.
    pub member: MemberSlot,
    /// More about it.
    pub note: Option<String>,
    /// Who approved or denied it last.
    pub reviewed_by: Option<MemberSlot>,
    /// When it was made.
    pub created_at: Timestamp,
}

indexes! {
    Requisition(requisition), CHANGES_ACCESS: false, found if true;
    /// Those of a company.
    OF_COMPANY = 1: CompanySlot => requisition.company;
    /// Those that a member asked for.
    OF_MEMBER = 2: MemberSlot => requisition.member;
    /// Those that a card fulfils.
    OF_CARD = 3: CardSlot => requisition.card;
    /// Those that a member asked for and nobody has decided.
    PENDING_OF_MEMBER = 4: MemberSlot =>
        (requisition.status == RequisitionStatus::Pending).then_some(requisition.member);
}

commands! {
    /// The commands on requisitions.
    #[derive(Clone, Debug)]
    pub enum RequisitionCommand(change) {
        /// Makes one.
        Create(new: NewRequisition) makes new.id.0 =>
            Audited::of_company(new.company, "requisition.created", new.id.0),
            create(change, new);
        /// Changes, approves or denies one.
        Update(company: CompanyId, id: RequisitionId, changes: RequisitionChanges) =>
            Audited::of_company(*company, changes.action(), id.0).with(changes.names()),
            update(change, (*company, *id), changes);
        /// Takes one back.
        Cancel(company: CompanyId, id: RequisitionId) =>
            Audited::of_company(*company, "requisition.canceled", id.0),
            cancel(change, (*company, *id));
    }
}

/// A requisition to make.
#[derive(Clone, Debug)]
pub struct NewRequisition {
    /// Its id.
    pub id: RequisitionId,
    /// Whose.
    pub company: CompanyId,
    /// Who asks.
    pub member: MemberId,
    /// What is asked for, in the account's currency.
    pub amount: Minor,
    /// What is to be bought.
    pub description: LineText,
    /// Until when it is to be bought.
    pub end_time: Option<Timestamp>,
    /// More about it.
    pub note: Option<ParagraphText>,
    /// Its dimensions.
    pub dimensions: Dimensions,
}

changes! {
    /// What to change about a requisition; absent stays.
    #[derive(Clone, Debug, Default)]
    pub struct RequisitionChanges {
        /// What is asked for, in the account's currency.
        amount: Option<Minor>,
        /// What is to be bought.
        description: Option<LineText>,
        /// Until when it is to be bought.
        end_time: Option<Option<Timestamp>>,
        /// More about it.
        note: Option<Option<ParagraphText>>,
        /// What a reviewer says to all that.
        review as "status": Option<Review>,
        /// Its dimensions, by kind.
        dimensions: [Option<Option<DimensionId>>; 4],
    }
}

/// What a reviewer says to a requisition.
#[derive(Clone, Debug)]
pub struct Review {
    /// Yes or no.
    pub verdict: RequisitionVerdict,
    /// Who says so, where it is known.
    pub reviewed_by: Option<MemberId>,
}

/// Whether a requisition is approved, and with which card.
#[derive(Clone, Debug)]
pub enum RequisitionVerdict {
    /// It is not.
    Deny,
    /// With a card that is there.
    ApproveWithCard(CardId),
    /// With a card made for it. The shard takes number, ids and billing from this one, everything
    /// else from the requisition.
    ApproveWithNewCard(Box<NewCard>),
}

impl RequisitionChanges {
    const fn action(&self) -> &'static str {
        match &self.review {
            None => "requisition.updated",
            Some(Review { verdict: RequisitionVerdict::Deny, .. }) => "requisition.denied",
            Some(_) => "requisition.approved",
        }
    }
}

impl RequisitionChanges {
    /// Whether everything stays.
    #[must_use]
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
    let known = find_requisition(change.state, company, id)?;
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
    if requisition != *known {
        change.put(requisition);
    }
    Ok(())
}

/// Takes a requisition back.
fn cancel(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, RequisitionId),
) -> Result<(), Rejection> {
    let known = find_requisition(change.state, company, id)?;
    check_pending(known)?;
    close(change, known, RequisitionStatus::Canceled);
    Ok(())
}

/// Denies what a member who leaves still asks for.
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
    // What has to be bought by then cannot be any more.
    if requisition.end_time.is_some_and(|end_time| end_time < change.moment.at) {
        return Err(Rejection::RequisitionEnded);
    }
    requisition.status = RequisitionStatus::Approved;
    requisition.approved_at = Some(change.moment.at);
    requisition.card = Some(card);
    Ok(())
}

/// The card for one purchase by the member who asks; of what was ordered it keeps name and addresses.
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
        texts: CardTexts {
            description: LineText::spaced(&requisition.description),
            ..ordered.texts.clone()
        },
        assigned_to: Some(state.directory().members.get(requisition.member).id),
        dimensions: requisition.dimensions,
        ..ordered.clone()
    }
}

fn find_open_card(
    state: &dyn PartitionView,
    company: CompanyId,
    id: CardId,
) -> Result<CardSlot, Rejection> {
    let slot = find_card(state, company, id)?;
    let is_open = state.card(slot).usage.state != CardState::Terminated;
    if is_open { Ok(slot) } else { Err(Rejection::CardTerminated) }
}

/// Who may approve and deny: administrators and reviewers.
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

fn find_requisition(
    state: &dyn PartitionView,
    company: CompanyId,
    id: RequisitionId,
) -> Result<&Requisition, Rejection> {
    state.directory().requisitions.find_own(find_company(state, company)?, id)
}

fn check_pending(requisition: &Requisition) -> Result<(), Rejection> {
    let is_pending = requisition.status == RequisitionStatus::Pending;
    if is_pending { Ok(()) } else { Err(Rejection::RequisitionDecided) }
}

fn check_amount(amount: Minor) -> Result<(), Rejection> {
    let is_in_bounds = amount > Minor::ZERO && amount <= Minor::AMOUNT_MAX;
    if is_in_bounds { Ok(()) } else { Err(Rejection::OutOfBounds) }
}
