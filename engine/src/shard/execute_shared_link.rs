//! Shared links: a card shown to whoever holds the link. Source: spec "Shared links".
//!
//! A link that was deleted stays as a tombstone, since slots are given out once; nothing finds it.
//! CHOICE: a card that is closed keeps its links, so that who holds one learns that it is closed.

use super::execute::Moment;
use super::execute_admin::{find_card, find_company, replace};
use super::state::ShardState;
use crate::command::admin::{NewSharedLink, SharedLinkChanges};
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::domain::card::CardState;
use crate::domain::ids::{CompanyId, SharedLinkId};
use crate::domain::shared_link::SharedLink;
use crate::limits;

/// Shares a card. Errors: no such card, it is terminated, or it has too many links.
pub(super) fn create_shared_link(
    state: &ShardState,
    moment: &Moment<'_>,
    new: &NewSharedLink,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let company = find_company(state, new.company)?;
    let card = find_card(state, new.company, new.card)?;
    let links = &state.directory.shared_links;
    if links.find(new.id.0).is_some() {
        return Err(Rejection::IdTaken);
    }
    if state.card(card).usage.state == CardState::Terminated {
        return Err(Rejection::CardTerminated);
    }
    if links.under(&SharedLink::OF_CARD, &card).count() >= limits::SHARED_LINKS_OF_CARD_MAX {
        return Err(Rejection::TooManySharedLinks);
    }
    effects.push(Effect::row(SharedLink {
        slot: links.next_slot().ok_or(Rejection::Full)?,
        id: new.id,
        company,
        card,
        key_digest: new.key_digest,
        sealed_key: new.sealed_key.clone(),
        recipient: new.recipient.clone(),
        sealed_passphrase: new.sealed_passphrase.clone(),
        hide_balance: new.hide_balance,
        last_viewed_at: None,
        is_deleted: false,
        created_at: moment.at,
    }));
    Ok(())
}

/// Changes a link. Errors: no such link.
pub(super) fn update_shared_link(
    state: &ShardState,
    company: CompanyId,
    id: SharedLinkId,
    changes: &SharedLinkChanges,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = find_link(state, company, id)?;
    let mut link = known.clone();
    replace(&mut link.recipient, &changes.recipient);
    replace(&mut link.sealed_passphrase, &changes.sealed_passphrase);
    replace(&mut link.hide_balance, &changes.hide_balance);
    if link != *known {
        effects.push(Effect::row(link));
    }
    Ok(())
}

/// Takes a link away; its card stays as it is. Errors: no such link.
pub(super) fn delete_shared_link(
    state: &ShardState,
    company: CompanyId,
    id: SharedLinkId,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = find_link(state, company, id)?;
    effects.push(Effect::row(gone(known)));
    Ok(())
}

/// Notes that somebody looked at a card by a link, no more than once a minute: who has a link may look
/// as often as they like. Errors: no such link.
pub(super) fn view_shared_link(
    state: &ShardState,
    moment: &Moment<'_>,
    id: SharedLinkId,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = state.directory.shared_links.find(id.0).filter(|link| !link.is_deleted);
    let known = known.ok_or(Rejection::SharedLinkNotFound)?;
    if known.last_viewed_at.is_none_or(|last| last.plus(limits::LINK_VIEW_INTERVAL) <= moment.at) {
        let link = SharedLink { last_viewed_at: Some(moment.at), ..known.clone() };
        effects.push(Effect::row(link));
    }
    Ok(())
}

/// The tombstone of a link: nothing of what was shared or with whom.
pub(super) fn gone(link: &SharedLink) -> SharedLink {
    SharedLink {
        sealed_key: Vec::new(),
        recipient: None,
        sealed_passphrase: None,
        is_deleted: true,
        ..link.clone()
    }
}

fn find_link(
    state: &ShardState,
    company: CompanyId,
    id: SharedLinkId,
) -> Result<&SharedLink, Rejection> {
    let company = find_company(state, company)?;
    let link = state.directory.shared_links.find(id.0);
    let is_theirs = |link: &&SharedLink| link.company == company && !link.is_deleted;
    link.filter(is_theirs).ok_or(Rejection::SharedLinkNotFound)
}
