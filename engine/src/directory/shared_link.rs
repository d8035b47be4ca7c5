//! Shared links: a card shown to any holder of the link. Source: spec "Shared links".
//!
//! A deleted link stays as a tombstone, since slots are given out once; nothing finds it.
//! CHOICE: a closed card keeps its links, so that their holders learn that it is closed.

use serde::{Deserialize, Serialize};

use super::card::find_open_card;
use super::change::{PartitionView, StateChange};
use super::company::{check_open, find_open_company};
use super::row::indexes;
use crate::command::audit_line::AuditLine;
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::domain::changes::{changes, replace};
use crate::domain::email::email_key;
use crate::domain::ids::{
    CardId, CardSlot, CompanyId, CompanySlot, SharedLinkId, SharedLinkSlot, Timestamp,
};
use crate::domain::text::LineText;
use crate::limits;

/// The recipient of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipient {
    /// The name it was sent to.
    pub name: LineText,
    /// The address it was sent to.
    pub email: String,
}

/// A shared link. Source: spec "Shared link". Its key and passphrase are sealed by the edge and
/// unreadable here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedLink {
    /// The row's slot.
    pub slot: SharedLinkSlot,
    /// Its public id.
    pub id: SharedLinkId,
    /// The company that owns it.
    pub company: CompanySlot,
    /// The card that it shows.
    pub card: CardSlot,
    /// The keyed hash of its key, by which lookups find it.
    pub key_digest: [u8; 16],
    /// The key in the link, sealed.
    pub sealed_key: Vec<u8>,
    /// The recipient.
    pub recipient: Option<Recipient>,
    /// The passphrase that viewers must know, sealed by the edge.
    pub sealed_passphrase: Option<Vec<u8>>,
    /// Whether balance and budget stay hidden.
    pub hide_balance: bool,
    /// The time of the last view.
    pub last_viewed_at: Option<Timestamp>,
    /// Whether it is deleted: gone from lists, and the link opens nothing.
    pub is_deleted: bool,
    /// The time of creation.
    pub created_at: Timestamp,
}

indexes! {
    SharedLink(link), CHANGES_ACCESS: false, found if !link.is_deleted;
    /// The live links of a company.
    OF_COMPANY = 1: CompanySlot => link.company;
    /// The live links of a card.
    OF_CARD = 2: CardSlot => link.card;
    /// The live link with a key, by the key's keyed hash.
    BY_KEY = 3: [u8; 16] => link.key_digest;
    /// A company's links that were sent to an e-mail address, by its `email_key`.
    BY_RECIPIENT = 4: (CompanySlot, String) =>
        link.recipient.as_ref().map(|to| (link.company, email_key(&to.email)));
}

/// Deleting a link, as the audit calls it.
pub(crate) const DELETED: &str = "shared_link.deleted";

commands! {
    /// The commands on shared links. Keys and passphrases come sealed by the edge.
    #[derive(Clone, Debug)]
    pub enum SharedLinkCommand(change) {
        /// Shares a card.
        Create(new: NewSharedLink) makes new.id.0 =>
            AuditLine::of_company(new.company, "shared_link.created", new.id.0),
            create(change, new);
        /// Changes a link.
        Update(company: CompanyId, id: SharedLinkId, changes: SharedLinkChanges) =>
            AuditLine::of_company(*company, "shared_link.updated", id.0).with(changes.names()),
            update(change, *company, *id, changes);
        /// Deletes a link.
        Delete(company: CompanyId, id: SharedLinkId) =>
            AuditLine::of_company(*company, DELETED, id.0),
            delete(change, *company, *id);
        /// Notes a view of a card by a link. Views are unlimited and anonymous.
        View(id: SharedLinkId) =>
            AuditLine::silent("shared_link.viewed"),
            view(change, *id);
    }
}

/// A shared link to make.
#[derive(Clone, Debug)]
pub struct NewSharedLink {
    /// Its id.
    pub id: SharedLinkId,
    /// The company that owns it.
    pub company: CompanyId,
    /// The card that it shows.
    pub card: CardId,
    /// The keyed hash of its key, by which lookups find it.
    pub key_digest: [u8; 16],
    /// The key in the link, sealed.
    pub sealed_key: Vec<u8>,
    /// The recipient.
    pub recipient: Option<Recipient>,
    /// The passphrase that viewers must know, sealed.
    pub sealed_passphrase: Option<Vec<u8>>,
    /// Whether balance and budget stay hidden.
    pub hide_balance: bool,
}

changes! {
    /// Changes of a shared link; absent fields stay.
    #[derive(Clone, Debug, Default)]
    pub struct SharedLinkChanges {
        /// The recipient.
        recipient: Option<Option<Recipient>>,
        /// The passphrase that viewers must know, sealed.
        sealed_passphrase as "passphrase": Option<Option<Vec<u8>>>,
        /// Whether balance and budget stay hidden.
        hide_balance: Option<bool>,
    }
}

/// Shares a card. Errors: no such card, it or its company is closed, or it or the recipient has too
/// many links.
fn create(change: &mut StateChange<'_>, new: &NewSharedLink) -> Result<(), Rejection> {
    let company = find_open_company(change.state, new.company)?;
    let links = &change.state.directory().shared_links;
    let slot = links.slot_for(new.id.0)?;
    let card = find_open_card(change.state, new.company, new.card)?;
    if links.under(&SharedLink::OF_CARD, &card).count() >= limits::SHARED_LINKS_OF_CARD_MAX {
        return Err(Rejection::TooManySharedLinks);
    }
    check_recipient(change.state, company, new.recipient.as_ref())?;
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

/// Changes a link. Errors: no such link, its company is closed and sends nobody a link, or the new
/// recipient has too many.
fn update(
    change: &mut StateChange<'_>,
    company: CompanyId,
    id: SharedLinkId,
    changes: &SharedLinkChanges,
) -> Result<(), Rejection> {
    let known = change.state.directory().shared_links.find_of(change.state, company, id)?;
    if matches!(changes.recipient, Some(Some(_))) {
        check_open(change.state, known.company)?;
    }
    let mut link = known.clone();
    replace(&mut link.recipient, &changes.recipient);
    replace(&mut link.sealed_passphrase, &changes.sealed_passphrase);
    replace(&mut link.hide_balance, &changes.hide_balance);
    let address = |link: &SharedLink| link.recipient.as_ref().map(|to| email_key(&to.email));
    if address(&link) != address(known) {
        check_recipient(change.state, known.company, link.recipient.as_ref())?;
    }
    change.put_changed(link, known);
    Ok(())
}

/// Deletes a link; its card stays as it is. Errors: no such link.
fn delete(
    change: &mut StateChange<'_>,
    company: CompanyId,
    id: SharedLinkId,
) -> Result<(), Rejection> {
    let known = change.state.directory().shared_links.find_of(change.state, company, id)?;
    change.put(gone(known));
    Ok(())
}

/// Notes a view of a card by a link, at most once a minute, since views are unlimited.
/// Errors: no such link.
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

/// Errors: `TooManyLinksToAddress` if the company has sent the recipient as many links as allowed.
/// Cost: O(links to the address), which are bounded.
fn check_recipient(
    state: &dyn PartitionView,
    company: CompanySlot,
    recipient: Option<&Recipient>,
) -> Result<(), Rejection> {
    let Some(recipient) = recipient else { return Ok(()) };
    let sent_to = (company, email_key(&recipient.email));
    let sent = state.directory().shared_links.under(&SharedLink::BY_RECIPIENT, &sent_to).count();
    let is_full = sent >= limits::SHARED_LINKS_TO_ADDRESS_MAX;
    if is_full { Err(Rejection::TooManyLinksToAddress) } else { Ok(()) }
}

/// The tombstone of a link, without its secrets and its recipient.
pub(crate) fn gone(link: &SharedLink) -> SharedLink {
    SharedLink {
        sealed_key: Vec::new(),
        recipient: None,
        sealed_passphrase: None,
        is_deleted: true,
        ..link.clone()
    }
}
