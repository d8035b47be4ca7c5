//! Cards: issued one by one or several at once, opened and closed, handed on. Source: spec "Card",
//! "States and transitions".
//!
//! Decisions read cards, so their rows are in the domain (`domain/card.rs`), in memory
//! (`shard/cards.rs`) and in tables of their own. This file holds the commands on cards and the
//! rules for their changes. A change names things by public id together with the caller's company;
//! things of another company are not found.
//!
//! INVARIANT: the record of several cards stays below `limits::RECORD_BYTES_MAX`, for any texts.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::allowance::check_terms;
use super::change::{PartitionView, StateChange};
use super::company::{find_company, find_open_company};
use super::dimension::{change_dimensions, check_dimensions};
use super::member::{MemberRole, check_room_for_cards, find_active_member, find_assignee};
use super::pan_key::check_sealed;
use crate::command::Moment;
use crate::command::audit_line::{AuditLine, AuditTarget, AuditedPlace};
use crate::command::effect::{Effect, IssuedCard};
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::domain::allowance::{AllowanceTerms, CardUsage};
use crate::domain::business_date::BusinessDate;
use crate::domain::card::{
    CardProfile, CardRecord, CardState, CardTexts, Dimensions, PanHash, SealedPan, SuspensionReason,
};
use crate::domain::changes::changes;
use crate::domain::company::Address;
use crate::domain::credential::{PackedZip, PinVerifier};
use crate::domain::ids::{
    AccessTokenId, AccountSlot, AllowanceId, CardId, CardSlot, CompanyId, DimensionId, MemberId,
    MemberSlot, SharedLinkId, Slot as _,
};
use crate::domain::text::LineText;
use crate::limits;

/// The largest size of a card in a record, without its texts and its sealed number. Units: bytes.
const CARD_BYTES: usize = 1_024;

const _: () = assert!(limits::CARDS_AT_ONCE_MAX * CARD_BYTES < limits::CARDS_AT_ONCE_BYTES_MAX / 2);

/// Closing a card, as the audit calls it.
pub(crate) const TERMINATED: &str = "card.terminated";

commands! {
    /// The commands on cards.
    #[derive(Clone, Debug)]
    #[expect(clippy::large_enum_variant, reason = "commands go to the shard boxed")]
    pub enum CardCommand(change) {
        /// Makes a card with its allowance.
        Issue(new: NewCard) makes new.id.0 =>
            AuditLine::of_company(new.order.company, "card.created", new.id.0),
            issue_card(change, new);
        /// Makes cards with their allowances, all of them or none.
        IssueTogether(cards: Vec<NewCard>) =>
            audited_together(cards),
            issue_cards(change, cards);
        /// Changes a card.
        Update(company: CompanyId, id: CardId, changes: CardChanges) =>
            AuditLine::of_company(*company, "card.updated", id.0).with(changes.names()),
            update_card(change, find_card(change.state, *company, *id)?, changes);
        /// Brings a card without a billing address of its own the ZIP of its company's.
        FollowBillingAddress(company: CompanyId, id: CardId) =>
            AuditLine::of_company(*company, "card.updated", id.0).with(vec!["billing_address"]),
            follow_billing_address(change, find_card(change.state, *company, *id)?);
        /// Closes a card for good.
        Terminate(company: CompanyId, id: CardId) =>
            AuditLine::of_company(*company, TERMINATED, id.0),
            find_card(change.state, *company, *id).map(|slot| terminate_card(change, slot));
        /// Sets a card's PIN, which also clears its wrong tries.
        SetPin(company: CompanyId, id: CardId, pin: PinVerifier) =>
            AuditLine::of_company(*company, "card.updated", id.0).with(vec!["pin"]),
            set_pin(change, (*company, *id), *pin);
        /// Notes that somebody is about to see the number of a card: changes nothing, and is audited
        /// where there is a note.
        NoteNumberShown(company: CompanyId, id: CardId, viewer: NumberViewer) =>
            AuditLine::of_company(*company, "card.number_shown", id.0),
            check_viewer(change.state, (*company, *id), *viewer);
    }
}

/// A card to make: the order, with the number drawn for it.
#[derive(Clone, Debug)]
pub struct NewCard {
    /// Its id.
    pub id: CardId,
    /// The id of its allowance.
    pub allowance_id: AllowanceId,
    /// The keyed hash of its number, by which lookups find it.
    pub pan_hash: PanHash,
    /// Its number, sealed.
    pub sealed_pan: SealedPan,
    /// The last four digits of its number.
    pub last_four: [u8; 4],
    /// The keyed value of its PIN, if one is set.
    pub pin: PinVerifier,
    /// The last date on which it is valid.
    pub expires_on: BusinessDate,
    /// Its first state: active for virtual cards, unactivated for physical ones.
    pub state: CardState,
    /// The order.
    pub order: CardOrder,
}

/// An order of a card, before a number is drawn.
#[derive(Clone, Debug)]
pub struct CardOrder {
    /// The company that owns the card.
    pub company: CompanyId,
    /// Its allowance.
    pub terms: AllowanceTerms,
    /// Virtual or physical.
    pub is_virtual: bool,
    /// Its texts.
    pub texts: CardTexts,
    /// Its own billing address.
    pub billing_address: Option<Address>,
    /// The destination of a physical card.
    pub shipping_address: Option<CardDestination>,
    /// The member who holds it.
    pub assigned_to: Option<MemberId>,
    /// Its dimensions.
    pub dimensions: Dimensions,
}

/// The destination of a physical card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CardDestination {
    /// The company's shipping address when the card is made.
    Company,
    /// Another address.
    Address(Address),
}

impl CardOrder {
    /// A virtual card under a description, with a name on it and nothing else.
    pub fn plain(
        company: CompanyId,
        terms: AllowanceTerms,
        [description, billing_name]: [LineText; 2],
    ) -> Self {
        let mut texts = CardTexts::default();
        (texts.description, texts.billing_name) = (description, billing_name);
        Self {
            company,
            terms,
            is_virtual: true,
            texts,
            billing_address: None,
            shipping_address: None,
            assigned_to: None,
            dimensions: Dimensions::default(),
        }
    }
}

/// The states a card can be put into. Source: spec "States and transitions".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettableCardState {
    /// Open it.
    Active,
    /// Close it for now.
    Suspended,
}

/// Whoever is to see the number of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberViewer {
    /// A member: the card's holder, or an administrator.
    Member(MemberId),
    /// A holder of a shared link of the card.
    Link(SharedLinkId),
    /// The holder of an access token.
    Token(AccessTokenId),
}

changes! {
    /// Changes of a card; absent fields stay.
    #[derive(Clone, Debug, Default)]
    pub struct CardChanges {
        /// Its texts.
        texts: CardTexts<Option<LineText>>,
        /// Its state.
        state: Option<SettableCardState>,
        /// The member who holds it.
        assigned_to: Option<Option<MemberId>>,
        /// Its own billing address and the ZIP in it.
        billing_address: Option<Option<Address>>,
        /// Its dimensions, by kind.
        dimensions: [Option<Option<DimensionId>>; 4],
    }
}

/// The audit of cards issued together, which all belong to one company.
fn audited_together(cards: &[NewCard]) -> AuditLine<'_> {
    let company = cards.first().map_or(CompanyId(Uuid::nil()), |new| new.order.company);
    let ids = cards.iter().map(|new| new.id.0).collect();
    AuditLine::new(AuditedPlace::Company(company), "card.created", AuditTarget::Each(ids))
}

pub(crate) fn find_card(
    state: &dyn PartitionView,
    company: CompanyId,
    id: CardId,
) -> Result<CardSlot, Rejection> {
    let company = find_company(state, company)?;
    let slot = state.find_card(id);
    slot.filter(|slot| state.company_of(*slot) == company).ok_or(Rejection::CardNotFound)
}

/// A card that is not terminated.
pub(crate) fn find_open_card(
    state: &dyn PartitionView,
    company: CompanyId,
    id: CardId,
) -> Result<CardSlot, Rejection> {
    let slot = find_card(state, company, id)?;
    let is_open = state.card(slot).usage.state != CardState::Terminated;
    if is_open { Ok(slot) } else { Err(Rejection::CardTerminated) }
}

/// Errors: the card or its company is closed; the member is neither its holder nor an administrator;
/// the link is gone, or of another card; the token is revoked, of another company or without the scope
/// `admin`.
fn check_viewer(
    state: &dyn PartitionView,
    (company, id): (CompanyId, CardId),
    viewer: NumberViewer,
) -> Result<(), Rejection> {
    let open = find_open_company(state, company)?;
    let slot = find_open_card(state, company, id)?;
    match viewer {
        NumberViewer::Member(id) => {
            let member = find_active_member(state, open, id)?;
            let is_holder = state.profile(slot).assigned_to == Some(member.slot);
            let may_see = is_holder || member.role == MemberRole::Administrator;
            if may_see { Ok(()) } else { Err(Rejection::MemberNotFound) }
        }
        NumberViewer::Link(id) => {
            let link = state.directory().shared_links.find_own(open, id)?;
            if link.card == slot { Ok(()) } else { Err(Rejection::NotFound) }
        }
        NumberViewer::Token(id) => {
            let token = state.directory().access_tokens.find_by_id(id.0);
            let may_see = token.is_some_and(|token| token.company == open && token.scope.admin);
            if may_see { Ok(()) } else { Err(Rejection::TokenNotFound) }
        }
    }
}

pub(crate) fn issue_card(change: &mut StateChange<'_>, new: &NewCard) -> Result<(), Rejection> {
    let slot = CardSlot::next_after(change.state.card_count()).ok_or(Rejection::Full)?;
    let card = issued_card(change.state, change.moment, new, slot)?;
    check_holders(change.state, [&card])?;
    change.push(Effect::CardIssued(Box::new(card)));
    Ok(())
}

/// The card to be issued at `slot`. Whether its holder has room for it is left to `check_holders`.
/// Errors: the order breaks a rule.
pub(super) fn issued_card(
    state: &dyn PartitionView,
    moment: &Moment<'_>,
    new: &NewCard,
    slot: CardSlot,
) -> Result<IssuedCard, Rejection> {
    let order = &new.order;
    let company = find_open_company(state, order.company)?;
    if state.find_card(new.id).is_some() || state.find_card_by_allowance(new.allowance_id).is_some()
    {
        return Err(Rejection::IdTaken);
    }
    if state.find_card_by_number(new.pan_hash).is_some() {
        return Err(Rejection::CardNumberTaken);
    }
    check_sealed(state, &new.sealed_pan)?;
    check_terms(&order.terms)?;
    check_dimensions(state, company, &order.dimensions)?;
    let holder = order.assigned_to.map(|id| find_active_member(state, company, id)).transpose()?;
    let account = state.account_of(company).ok_or(Rejection::CompanyNotFound)?.slot;
    let today = state.day_at(company, moment.at).date;
    let company = state.company(company);
    let shipping_address = order.shipping_address.as_ref().map(|destination| match destination {
        CardDestination::Company => company.shipping_address.clone(),
        CardDestination::Address(address) => address.clone(),
    });
    let billed_to = order.billing_address.as_ref().unwrap_or(&company.billing_address);
    Ok(IssuedCard {
        record: record_of_new_card(new, (account, PackedZip::pack(&billed_to.zip_code)), today),
        profile: CardProfile {
            slot,
            id: new.id,
            allowance_id: new.allowance_id,
            company: company.slot,
            texts: order.texts.map(ToString::to_string),
            is_virtual: order.is_virtual,
            last_four: new.last_four,
            assigned_to: holder.map(|member| member.slot),
            dimensions: order.dimensions,
            billing_address: order.billing_address.clone(),
            shipping_address,
            created_at: moment.at,
        },
        sealed_pan: new.sealed_pan.clone(),
    })
}

fn record_of_new_card(
    new: &NewCard,
    (account, zip): (AccountSlot, PackedZip),
    today: BusinessDate,
) -> CardRecord {
    let is_suspended = new.state == CardState::Suspended;
    CardRecord {
        pan_hash: new.pan_hash,
        pin: new.pin,
        zip,
        account,
        expires_on: new.expires_on,
        usage: CardUsage {
            period: 1,
            period_started_on: today,
            day: today,
            state: new.state,
            suspension: if is_suspended {
                SuspensionReason::Manual
            } else {
                SuspensionReason::None
            },
            ..CardUsage::default()
        },
        terms: new.order.terms,
    }
}

/// Makes cards at consecutive slots. Errors: one of them cannot be made, or they are too many.
pub(super) fn issue_cards(
    change: &mut StateChange<'_>,
    cards: &[NewCard],
) -> Result<(), Rejection> {
    if cards.len() > limits::CARDS_AT_ONCE_MAX {
        return Err(Rejection::CardsTooLong);
    }
    check_distinct(cards)?;
    let mut bytes = 0;
    for (place, new) in cards.iter().enumerate() {
        let slot =
            CardSlot::next_after(change.state.card_count() + place).ok_or(Rejection::Full)?;
        let card = issued_card(change.state, change.moment, new, slot)?;
        bytes += bytes_of(&card);
        change.push(Effect::CardIssued(Box::new(card)));
    }
    if bytes > limits::CARDS_AT_ONCE_BYTES_MAX {
        return Err(Rejection::CardsTooLong);
    }
    check_holders(
        change.state,
        change.effects.iter().filter_map(|effect| match effect {
            Effect::CardIssued(card) => Some(&**card),
            _ => None,
        }),
    )
}

/// Checks the number of cards of each holder, with those of this command. Errors: `TooManyCards`.
/// Cost: O(cards of the holders), once each.
fn check_holders<'a>(
    state: &dyn PartitionView,
    issued: impl IntoIterator<Item = &'a IssuedCard>,
) -> Result<(), Rejection> {
    let mut added: HashMap<MemberSlot, usize> = HashMap::new();
    for member in issued.into_iter().filter_map(|card| card.profile.assigned_to) {
        *added.entry(member).or_default() += 1;
    }
    added.into_iter().try_for_each(|(member, added)| check_room_for_cards(state, member, added))
}

/// Checks that the cards of one command differ from each other, since the state does not have them
/// yet.
fn check_distinct(cards: &[NewCard]) -> Result<(), Rejection> {
    let (mut ids, mut numbers) = (HashSet::new(), HashSet::new());
    for new in cards {
        if !ids.insert(new.id.0) || !ids.insert(new.allowance_id.0) {
            return Err(Rejection::IdTaken);
        }
        if !numbers.insert(new.pan_hash) {
            return Err(Rejection::CardNumberTaken);
        }
    }
    Ok(())
}

/// An upper bound of a card's size in a record.
fn bytes_of(card: &IssuedCard) -> usize {
    let profile = &card.profile;
    let addresses = profile.billing_address.iter().chain(&profile.shipping_address);
    CARD_BYTES
        + card.sealed_pan.0.len()
        + profile.texts.named().iter().map(|(_, text)| text.len()).sum::<usize>()
        + addresses.flat_map(Address::named).map(|(_, text)| text.len()).sum::<usize>()
}

fn update_card(
    change: &mut StateChange<'_>,
    slot: CardSlot,
    changes: &CardChanges,
) -> Result<(), Rejection> {
    let known = change.state.profile(slot);
    let mut profile = known.clone();
    profile.texts = profile.texts.zip(&changes.texts, |known, wanted| {
        wanted.as_ref().map_or_else(|| known.clone(), ToString::to_string)
    });
    if let Some(wanted) = changes.assigned_to {
        profile.assigned_to = assignee_of(change.state, &profile, wanted)?;
    }
    change_dimensions(change.state, profile.company, &mut profile.dimensions, &changes.dimensions)?;
    if let Some(address) = &changes.billing_address {
        profile.billing_address.clone_from(address);
        push_zip_if_changed(change, &profile);
    }
    if let Some(wanted) = changes.state {
        let usage = usage_in_state(change.state, change.moment, &profile, wanted)?;
        push_usage_if_changed(change, slot, usage);
    }
    if profile != known {
        change.push(Effect::CardProfile(Box::new(profile)));
    }
    Ok(())
}

/// Brings a card the ZIP of its company's billing address, unless it has an address of its own.
/// A terminated card stays as it is.
fn follow_billing_address(change: &mut StateChange<'_>, slot: CardSlot) -> Result<(), Rejection> {
    let profile = change.state.profile(slot);
    let is_open = change.state.card(slot).usage.state != CardState::Terminated;
    if is_open && profile.billing_address.is_none() {
        push_zip_if_changed(change, &profile);
    }
    Ok(())
}

fn push_zip_if_changed(change: &mut StateChange<'_>, profile: &CardProfile) {
    let company = change.state.company(profile.company);
    let address = profile.billing_address.as_ref().unwrap_or(&company.billing_address);
    let zip = PackedZip::pack(&address.zip_code);
    if zip != change.state.card(profile.slot).zip {
        change.push(Effect::CardZip(profile.slot, zip));
    }
}

/// The holder of a card after it is reassigned. A terminated card stays with its last holder, who
/// owns what still clears on it.
fn assignee_of(
    state: &dyn PartitionView,
    profile: &CardProfile,
    wanted: Option<MemberId>,
) -> Result<Option<MemberSlot>, Rejection> {
    let holder = profile.assigned_to.map(|slot| state.directory().members.get(slot).id);
    if wanted == holder {
        return Ok(profile.assigned_to);
    }
    if state.card(profile.slot).usage.state == CardState::Terminated {
        return Err(Rejection::CardTerminated);
    }
    wanted.map(|id| find_assignee(state, profile.company, id)).transpose()
}

/// A card's usage after it is opened or closed. Source: spec "Member", "States and transitions".
fn usage_in_state(
    state: &dyn PartitionView,
    moment: &Moment<'_>,
    profile: &CardProfile,
    wanted: SettableCardState,
) -> Result<CardUsage, Rejection> {
    let record = state.card(profile.slot);
    let mut usage = record.usage;
    if usage.state == CardState::Terminated {
        return Err(Rejection::CardTerminated);
    }
    match wanted {
        SettableCardState::Suspended => {
            if usage.state != CardState::Suspended {
                usage.suspend(SuspensionReason::Manual);
            }
        }
        SettableCardState::Active => {
            // CHOICE: reopening asks for a holder too. A suspended card may never have been activated.
            let is_opened = usage.state != CardState::Active;
            if is_opened && !profile.is_virtual && profile.assigned_to.is_none() {
                return Err(Rejection::AssigneeMissing);
            }
            if record.terms.has_ended(moment.at) {
                return Err(Rejection::AllowanceEnded);
            }
            usage.state = CardState::Active;
            usage.suspension = SuspensionReason::None;
        }
    }
    Ok(usage)
}

pub(crate) fn terminate_card(change: &mut StateChange<'_>, slot: CardSlot) {
    let mut usage = change.state.card(slot).usage;
    usage.state = CardState::Terminated;
    usage.suspension = SuspensionReason::None;
    push_usage_if_changed(change, slot, usage);
}

/// Sets a PIN, which also clears wrong tries. Errors: the card or its company is closed.
fn set_pin(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, CardId),
    pin: PinVerifier,
) -> Result<(), Rejection> {
    find_open_company(change.state, company)?;
    let slot = find_open_card(change.state, company, id)?;
    change.push(Effect::CardPin(slot, pin));
    let usage = CardUsage { pin_failures: 0, ..change.state.card(slot).usage };
    push_usage_if_changed(change, slot, usage);
    Ok(())
}

pub(super) fn push_usage_if_changed(
    change: &mut StateChange<'_>,
    slot: CardSlot,
    usage: CardUsage,
) {
    if usage != change.state.card(slot).usage {
        change.push(Effect::CardUsage(slot, usage));
    }
}
