//! Shared links: a card shown to whoever holds the link. Source: spec "Shared links".
//!
//! A link that was deleted stays as a tombstone, since slots are given out once; nothing finds it.
//! CHOICE: a card that is closed keeps its links, so that who holds one learns that it is closed.

use serde::{Deserialize, Serialize};

use super::card::find_card;
use super::change::{PartitionView, StateChange};
use super::company::find_company;
use super::row::indexes;
use crate::command::audited::Audited;
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::domain::card::CardState;
use crate::domain::changes::{changes, replace};
use crate::domain::email::email_key;
use crate::domain::ids::{
    CardId, CardSlot, CompanyId, CompanySlot, SharedLinkId, SharedLinkSlot, Timestamp,
};
use crate::domain::text::LineText;
use crate::limits;

/// Who was sent a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipient {
    /// The name it was sent to.
    pub name: LineText,
    /// The address it was sent to.
    pub email: String,
}

/// A shared link. Source: spec "Shared link". What opens it is sealed by the edge and unreadable
/// here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedLink {
    /// Where it stands.
    pub slot: SharedLinkSlot,
    /// Its public id.
    pub id: SharedLinkId,
    /// Whose it is.
    pub company: CompanySlot,
    /// What it shows.
    pub card: CardSlot,
    /// The keyed hash it is found by.
    pub key_digest: [u8; 16],
    /// The key in the link.
    pub sealed_key: Vec<u8>,
    /// Who was sent it.
    pub recipient: Option<Recipient>,
    /// What has to be known to see the card, as the edge writes it.
    pub sealed_passphrase: Option<Vec<u8>>,
    /// Whether balance and budget stay hidden.
    pub hide_balance: bool,
    /// When somebody last looked.
    pub last_viewed_at: Option<Timestamp>,
    /// Gone from lists; the link opens nothing any more.
    pub is_deleted: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

indexes! {
    SharedLink(link), CHANGES_ACCESS: false, found if !link.is_deleted;
    /// Those of a company that are not deleted.
    OF_COMPANY = 1: CompanySlot => link.company;
    /// The same of a card.
    OF_CARD = 2: CardSlot => link.card;
    /// The one with a key, by the key's keyed hash.
    BY_KEY = 3: [u8; 16] => link.key_digest;
    /// A company's links that were sent to an e-mail address, by its `email_key`.
    BY_RECIPIENT = 4: (CompanySlot, String) =>
        link.recipient.as_ref().map(|to| (link.company, email_key(&to.email)));
}

commands! {
    /// The commands on shared links. What opens one comes sealed by the edge.
    #[derive(Clone, Debug)]
    pub enum SharedLinkCommand(change) {
        /// Shares a card.
        Create(new: NewSharedLink) makes new.id.0 =>
            Audited::of_company(new.company, "shared_link.created", new.id.0),
            create(change, new);
        /// Changes a link.
        Update(company: CompanyId, id: SharedLinkId, changes: SharedLinkChanges) =>
            Audited::of_company(*company, "shared_link.updated", id.0).with(changes.names()),
            update(change, *company, *id, changes);
        /// Takes a link away.
        Delete(company: CompanyId, id: SharedLinkId) =>
            Audited::of_company(*company, "shared_link.deleted", id.0),
            delete(change, *company, *id);
        /// Somebody looked at a card by a link. Who has one looks as often as they like, and nobody
        /// knows who that is.
        View(id: SharedLinkId) =>
            Audited::silent("shared_link.viewed"),
            view(change, *id);
    }
}

/// A shared link to make.
#[derive(Clone, Debug)]
pub struct NewSharedLink {
    /// Its id.
    pub id: SharedLinkId,
    /// Whose link.
    pub company: CompanyId,
    /// What it shows.
    pub card: CardId,
    /// The keyed hash it is found by.
    pub key_digest: [u8; 16],
    /// The key in the link, sealed.
    pub sealed_key: Vec<u8>,
    /// Who is sent it.
    pub recipient: Option<Recipient>,
    /// What has to be known to see the card, sealed.
    pub sealed_passphrase: Option<Vec<u8>>,
    /// Whether balance and budget stay hidden.
    pub hide_balance: bool,
}

changes! {
    /// What to change about a shared link; absent stays.
    #[derive(Clone, Debug, Default)]
    pub struct SharedLinkChanges {
        /// Who is sent it.
        recipient: Option<Option<Recipient>>,
        /// What has to be known to see the card, sealed.
        sealed_passphrase as "passphrase": Option<Option<Vec<u8>>>,
        /// Whether balance and budget stay hidden.
        hide_balance: Option<bool>,
    }
}

/// Shares a card. Errors: no such card, it is terminated, or it has too many links.
fn create(change: &mut StateChange<'_>, new: &NewSharedLink) -> Result<(), Rejection> {
    let company = find_company(change.state, new.company)?;
    let card = find_card(change.state, new.company, new.card)?;
    let links = &change.state.directory().shared_links;
    let slot = links.slot_for(new.id.0)?;
    if change.state.card(card).usage.state == CardState::Terminated {
        return Err(Rejection::CardTerminated);
    }
    if links.under(&SharedLink::OF_CARD, &card).count() >= limits::SHARED_LINKS_OF_CARD_MAX {
        return Err(Rejection::TooManySharedLinks);
    }
    change.put(SharedLink {
        slot,
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
        created_at: change.moment.at,
    });
    Ok(())
}

/// Changes a link. Errors: no such link.
fn update(
    change: &mut StateChange<'_>,
    company: CompanyId,
    id: SharedLinkId,
    changes: &SharedLinkChanges,
) -> Result<(), Rejection> {
    let known = find_link(change.state, company, id)?;
    let mut link = known.clone();
    replace(&mut link.recipient, &changes.recipient);
    replace(&mut link.sealed_passphrase, &changes.sealed_passphrase);
    replace(&mut link.hide_balance, &changes.hide_balance);
    if link != *known {
        change.put(link);
    }
    Ok(())
}

/// Takes a link away; its card stays as it is. Errors: no such link.
fn delete(
    change: &mut StateChange<'_>,
    company: CompanyId,
    id: SharedLinkId,
) -> Result<(), Rejection> {
    let known = find_link(change.state, company, id)?;
    change.put(gone(known));
    Ok(())
}

/// Notes that somebody looked at a card by a link, no more than once a minute: who has a link may look
/// as often as they like. Errors: no such link.
fn view(change: &mut StateChange<'_>, id: SharedLinkId) -> Result<(), Rejection> {
    let known = change.state.directory().shared_links.find(id.0).filter(|link| !link.is_deleted);
    let known = known.ok_or(Rejection::NotFound)?;
    if known
        .last_viewed_at
        .is_none_or(|last| last.plus(limits::LINK_VIEW_INTERVAL) <= change.moment.at)
    {
        let link = SharedLink { last_viewed_at: Some(change.moment.at), ..known.clone() };
        change.put(link);
    }
    Ok(())
}

/// The tombstone of a link: nothing of what was shared or with whom.
pub(crate) fn gone(link: &SharedLink) -> SharedLink {
    SharedLink {
        sealed_key: Vec::new(),
        recipient: None,
        sealed_passphrase: None,
        is_deleted: true,
        ..link.clone()
    }
}

fn find_link(
    state: &dyn PartitionView,
    company: CompanyId,
    id: SharedLinkId,
) -> Result<&SharedLink, Rejection> {
    state.directory().shared_links.find_own(find_company(state, company)?, id)
}
