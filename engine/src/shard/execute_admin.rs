//! Admin changes: cards and allowances (companies, members, users, tokens: files of their own).
//!
//! A change names things by public id together with the caller's company; what belongs to another
//! company is not found.

use super::admin_change::AdminChange;
use super::execute::Moment;
use super::execute_cards_at_once::issue_cards;
use super::execute_company::{create_company, set_company};
use super::execute_pan_key::{check_sealed, execute_pan_key};
use super::execute_tags::tag_transaction;
use super::state::ShardState;
use crate::command::admin::{
    AdminCommand, AllowanceChanges, CardChanges, NewCard, SettableCardState,
};
use crate::command::effect::{Effect, IssuedCard};
use crate::command::reply::Rejection;
use crate::directory::dimension::{change_dimensions, check_dimensions};
use crate::directory::member::find_assignee;
use crate::directory::user::check_password;
use crate::domain::allowance::{AllowanceTerms, CardUsage};
use crate::domain::business_date::{BusinessDate, Interval};
use crate::domain::card::{CardProfile, CardRecord, CardState, SuspensionReason};
use crate::domain::credential::{PackedZip, PinVerifier};
use crate::domain::ids::{
    AccountSlot, AllowanceId, CardId, CardSlot, CompanyId, CompanySlot, MemberId, MemberSlot,
    Slot as _,
};
use crate::domain::money::Minor;

pub(super) fn execute_admin(
    change: &mut AdminChange<'_>,
    command: &AdminCommand,
) -> Result<(), Rejection> {
    match command {
        AdminCommand::CreateCompany(new) => create_company(change, new),
        AdminCommand::SetCompany(id, changes) => set_company(change, *id, changes),
        AdminCommand::SetNetworkKey(digest) => set_network_key(change, *digest),
        AdminCommand::IssueCard(new) => issue_card(change, new),
        AdminCommand::UpdateCard(company, id, changes) => {
            let slot = find_card(change.state, *company, *id)?;
            update_card(change, slot, changes)
        }
        AdminCommand::TerminateCard(company, id) => {
            terminate_card(change, find_card(change.state, *company, *id)?);
            Ok(())
        }
        AdminCommand::SetPin(company, id, pin) => {
            set_pin(change, find_card(change.state, *company, *id)?, *pin)
        }
        AdminCommand::UpdateAllowance(company, id, changes) => {
            let slot = find_allowance(change.state, *company, *id)?;
            update_allowance(change, slot, changes)
        }
        AdminCommand::IssueCards(cards) => issue_cards(change, cards),
        AdminCommand::SharedLink(command) => command.execute(change),
        AdminCommand::Requisition(command) => command.execute(change),
        AdminCommand::Dimension(command) => command.execute(change),
        AdminCommand::TagTransaction(company, id, changes) => {
            tag_transaction(change, (*company, *id), changes)
        }
        AdminCommand::RotatePanKey(_)
        | AdminCommand::ResealCards(_)
        | AdminCommand::ForgetPanKeys(_) => execute_pan_key(change, command),
        AdminCommand::NoteCardShown(company, id) => {
            find_card(change.state, *company, *id).map(drop)
        }
        AdminCommand::WithPassword(proven, command) => {
            check_password(change.state, proven)?;
            execute_admin(change, command)
        }
        AdminCommand::Member(command) => command.execute(change),
        AdminCommand::AccessToken(command) => command.execute(change),
        AdminCommand::User(command) => command.execute(change),
        AdminCommand::Ticket(command) => command.execute(change),
        AdminCommand::App(command) => command.execute(change),
        AdminCommand::WebhookEndpoint(command) => command.execute(change),
    }
}

fn set_network_key(change: &mut AdminChange<'_>, digest: [u8; 32]) -> Result<(), Rejection> {
    change.effects.push(Effect::NetworkKey(digest));
    Ok(())
}

/// A new PIN also clears wrong tries.
fn set_pin(
    change: &mut AdminChange<'_>,
    slot: CardSlot,
    pin: PinVerifier,
) -> Result<(), Rejection> {
    if change.state.card(slot).usage.state == CardState::Terminated {
        return Err(Rejection::CardTerminated);
    }
    change.effects.push(Effect::CardPin(slot, pin));
    let usage = CardUsage { pin_failures: 0, ..change.state.card(slot).usage };
    push_usage_if_changed(change, slot, usage);
    Ok(())
}

pub(crate) fn find_company(state: &ShardState, id: CompanyId) -> Result<CompanySlot, Rejection> {
    state.company_by_id.get(&id).copied().ok_or(Rejection::CompanyNotFound)
}

pub(crate) fn find_card(
    state: &ShardState,
    company: CompanyId,
    id: CardId,
) -> Result<CardSlot, Rejection> {
    let company = find_company(state, company)?;
    let slot = state.cards.find_by_id(id);
    slot.filter(|slot| state.cards.head(*slot).company == company).ok_or(Rejection::CardNotFound)
}

fn find_allowance(
    state: &ShardState,
    company: CompanyId,
    id: AllowanceId,
) -> Result<CardSlot, Rejection> {
    let company = find_company(state, company)?;
    let slot = state.cards.find_by_allowance(id);
    slot.filter(|slot| state.cards.head(*slot).company == company)
        .ok_or(Rejection::AllowanceNotFound)
}

/// Takes over what is wanted, where anything is.
pub(crate) fn replace<T, W: Clone + Into<T>>(current: &mut T, wanted: &Option<W>) {
    if let Some(wanted) = wanted {
        *current = wanted.clone().into();
    }
}

pub(crate) fn issue_card(change: &mut AdminChange<'_>, new: &NewCard) -> Result<(), Rejection> {
    let slot = CardSlot::next_after(change.state.cards.len()).ok_or(Rejection::Full)?;
    change.effects.push(Effect::CardIssued(Box::new(issued_card(
        change.state,
        change.moment,
        new,
        slot,
    )?)));
    Ok(())
}

/// The card that is made at `slot`. Errors: it cannot be.
pub(super) fn issued_card(
    state: &ShardState,
    moment: &Moment<'_>,
    new: &NewCard,
    slot: CardSlot,
) -> Result<IssuedCard, Rejection> {
    let company = find_company(state, new.company)?;
    if state.cards.find_by_id(new.id).is_some()
        || state.cards.find_by_allowance(new.allowance_id).is_some()
    {
        return Err(Rejection::IdTaken);
    }
    if state.cards.find_by_pan(new.pan_hash).is_some() {
        return Err(Rejection::CardNumberTaken);
    }
    check_sealed(state, &new.sealed_pan)?;
    check_terms(&new.terms)?;
    check_dimensions(state, company, &new.dimensions)?;
    let assigned_to = new.assigned_to.map(|id| find_assignee(state, company, id)).transpose()?;
    let account = account_of(state, company).ok_or(Rejection::CompanyNotFound)?;
    let today = state.day_at(company, moment.at).date;
    Ok(IssuedCard {
        profile: CardProfile {
            slot,
            id: new.id,
            allowance_id: new.allowance_id,
            company,
            description: new.description.to_string(),
            billing_name: new.billing_name.to_string(),
            is_virtual: new.is_virtual,
            last_four: new.last_four,
            assigned_to,
            dimensions: new.dimensions,
            billing_address: new.billing_address.clone(),
            shipping_address: new.shipping_address.clone(),
            created_at: moment.at,
        },
        record: record_of_new_card(new, account, today),
        sealed_pan: new.sealed_pan.clone(),
    })
}

/// Limits are amounts, or `Minor::UNLIMITED`. Errors: `OutOfBounds`.
fn check_terms(terms: &AllowanceTerms) -> Result<(), Rejection> {
    let is_amount = |amount: Minor| amount >= Minor::ZERO && amount <= Minor::AMOUNT_MAX;
    let is_limit = |limit: Minor| limit == Minor::UNLIMITED || is_amount(limit);
    if is_amount(terms.amount) && is_limit(terms.daily_limit) && is_limit(terms.transaction_limit) {
        Ok(())
    } else {
        Err(Rejection::OutOfBounds)
    }
}

fn account_of(state: &ShardState, company: CompanySlot) -> Option<AccountSlot> {
    let mut accounts = state.accounts.iter().map(|entry| &entry.account);
    accounts.find(|account| account.company == company).map(|account| account.slot)
}

fn record_of_new_card(new: &NewCard, account: AccountSlot, today: BusinessDate) -> CardRecord {
    let is_suspended = new.state == CardState::Suspended;
    CardRecord {
        pan_hash: new.pan_hash,
        pin: new.pin,
        zip: new.zip,
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
        terms: new.terms,
    }
}

fn update_card(
    change: &mut AdminChange<'_>,
    slot: CardSlot,
    changes: &CardChanges,
) -> Result<(), Rejection> {
    let known = change.state.cards.profile(slot);
    let mut profile = known.clone();
    replace(&mut profile.description, &changes.description);
    if let Some(wanted) = changes.assigned_to {
        profile.assigned_to = assignee_of(change.state, &profile, wanted)?;
    }
    change_dimensions(change.state, profile.company, &mut profile.dimensions, &changes.dimensions)?;
    if let Some(address) = &changes.billing_address {
        profile.billing_address.clone_from(address);
        let company = &change.state.company(profile.company).company;
        let address = address.as_ref().unwrap_or(&company.billing_address);
        change.effects.push(Effect::CardZip(slot, PackedZip::pack(&address.zip_code)));
    }
    if let Some(wanted) = changes.state {
        let usage = usage_in_state(change.state, change.moment, &profile, wanted)?;
        push_usage_if_changed(change, slot, usage);
    }
    if profile != known {
        change.effects.push(Effect::CardProfile(Box::new(profile)));
    }
    Ok(())
}

/// Who holds a card after somebody gives it away. A terminated card stays with its last holder:
/// what still clears on it is theirs.
fn assignee_of(
    state: &ShardState,
    profile: &CardProfile,
    wanted: Option<MemberId>,
) -> Result<Option<MemberSlot>, Rejection> {
    let holder = profile.assigned_to.map(|slot| state.directory.members.get(slot).id);
    if wanted == holder {
        return Ok(profile.assigned_to);
    }
    if state.card(profile.slot).usage.state == CardState::Terminated {
        return Err(Rejection::CardTerminated);
    }
    wanted.map(|id| find_assignee(state, profile.company, id)).transpose()
}

/// A card's usage after somebody opens or closes it. Source: spec "States and transitions".
fn usage_in_state(
    state: &ShardState,
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
            if !profile.is_virtual && profile.assigned_to.is_none() {
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

pub(crate) fn terminate_card(change: &mut AdminChange<'_>, slot: CardSlot) {
    let mut usage = change.state.card(slot).usage;
    usage.state = CardState::Terminated;
    usage.suspension = SuspensionReason::None;
    push_usage_if_changed(change, slot, usage);
}

fn push_usage_if_changed(change: &mut AdminChange<'_>, slot: CardSlot, usage: CardUsage) {
    if usage != change.state.card(slot).usage {
        change.effects.push(Effect::CardUsage(slot, usage));
    }
}

fn update_allowance(
    change: &mut AdminChange<'_>,
    slot: CardSlot,
    changes: &AllowanceChanges,
) -> Result<(), Rejection> {
    let record = change.state.card(slot);
    let mut terms = record.terms;
    replace(&mut terms.amount, &changes.amount);
    replace(&mut terms.interval, &changes.interval);
    replace(&mut terms.daily_limit, &changes.daily_limit);
    replace(&mut terms.transaction_limit, &changes.transaction_limit);
    replace(&mut terms.single_use, &changes.single_use);
    replace(&mut terms.starts_at, &changes.starts_at);
    replace(&mut terms.ends_at, &changes.ends_at);
    replace(&mut terms.scope, &changes.scope);
    if changes.reset && terms.interval != Interval::None {
        return Err(Rejection::ResetNeedsNoInterval);
    }
    check_terms(&terms)?;
    // An allowance may have come by such a window before it was refused; then it keeps it.
    let has_new_window = changes.starts_at.is_some() || changes.ends_at.is_some();
    if has_new_window && terms.starts_at > terms.ends_at {
        return Err(Rejection::StartsAfterEnd);
    }
    let today = change.state.day_at(change.state.cards.head(slot).company, change.moment.at).date;
    let mut usage = record.usage.rolled(record.terms.interval, today);
    if changes.reset {
        usage.start_period(today);
    } else if terms.interval != record.terms.interval {
        // The period goes on until the next boundary of the new interval: counting it from today
        // keeps switching back and forth from giving a free reset.
        usage.period_started_on = today;
    }
    if terms != record.terms {
        change.effects.push(Effect::AllowanceTerms(slot, Box::new(terms)));
    }
    push_usage_if_changed(change, slot, usage);
    Ok(())
}
