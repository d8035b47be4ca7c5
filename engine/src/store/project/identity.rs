//! Writes people and programs, with the lists they are found in: users, tickets, apps, access tokens
//! with what they were given for, external ids of members.

use std::collections::BTreeMap;

use redb::{ReadableTable, WriteTransaction};

use super::organization::{set_listed, stored_row};
use super::write::write_table;
use crate::command::effect::Effect;
use crate::domain::app::App;
use crate::domain::ids::Timestamp;
use crate::domain::member::{AccessToken, Member, MemberState, email_key};
use crate::domain::ticket::Ticket;
use crate::domain::token_grant::TokenGrant;
use crate::domain::user::User;
use crate::store::error::StoreError;
use crate::store::rows;
use crate::store::tables::{
    ACCESS_TOKENS, APP_IDS, APPS, COMPANY_APPS, COMPANY_TOKENS, EMAIL_MEMBERS, EXTERNAL_IDS,
    MEMBER_EXTERNAL_IDS, MEMBERS, TICKET_ENDS, TICKETS, TOKEN_GRANTS, TOKEN_IDS, USER_EMAILS,
    USER_IDS, USER_TICKETS, USERS,
};

/// The newest images of what a run changes.
#[derive(Debug, Default)]
pub(super) struct IdentityChanges {
    users: BTreeMap<u32, User>,
    tickets: BTreeMap<[u8; 32], Ticket>,
    apps: BTreeMap<u32, App>,
    grants: BTreeMap<u128, TokenGrant>,
    external_ids: BTreeMap<u32, Option<String>>,
}

impl IdentityChanges {
    /// Whether it changes nothing.
    pub(super) fn is_empty(&self) -> bool {
        let Self { users, tickets, apps, grants, external_ids } = self;
        users.is_empty()
            && tickets.is_empty()
            && apps.is_empty()
            && grants.is_empty()
            && external_ids.is_empty()
    }

    /// Takes what an effect says; any other is somebody else's.
    pub(super) fn take(&mut self, effect: Effect) {
        match effect {
            Effect::User(row) => drop(self.users.insert(row.slot.0, *row)),
            Effect::Ticket(row) => drop(self.tickets.insert(row.digest, *row)),
            Effect::App(row) => drop(self.apps.insert(row.slot.0, *row)),
            Effect::TokenGrant(row) => drop(self.grants.insert(row.token.0.as_u128(), *row)),
            Effect::MemberExternalId(slot, id) => drop(self.external_ids.insert(slot.0, id)),
            _ => {}
        }
    }

    /// Writes it all; the members are there. Lets go of tickets that are forgotten by `at`, the
    /// instant of the newest record.
    pub(super) fn write(
        &self,
        write_txn: &WriteTransaction,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        write_users(write_txn, &self.users)?;
        write_apps(write_txn, &self.apps)?;
        write_table(write_txn, &TOKEN_GRANTS, &self.grants)?;
        write_external_ids(write_txn, &self.external_ids)?;
        write_tickets(write_txn, &self.tickets)?;
        forget_tickets(write_txn, at)
    }
}

fn write_users(write_txn: &WriteTransaction, rows: &BTreeMap<u32, User>) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut ids = write_txn.open_table(USER_IDS)?;
    let mut emails = write_txn.open_table(USER_EMAILS)?;
    for (slot, row) in rows {
        ids.insert(row.id.0.as_u128(), slot)?;
        emails.insert(email_key(&row.email).as_str(), slot)?;
    }
    write_table(write_txn, &USERS, rows)
}

fn write_apps(write_txn: &WriteTransaction, rows: &BTreeMap<u32, App>) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut ids = write_txn.open_table(APP_IDS)?;
    let mut listed = write_txn.open_table(COMPANY_APPS)?;
    for (slot, row) in rows {
        ids.insert(row.id.0.as_u128(), slot)?;
        set_listed(&mut listed, (row.company.0, *slot), !row.is_deleted)?;
    }
    write_table(write_txn, &APPS, rows)
}

/// Writes access tokens, and lists those that are not revoked.
pub(super) fn write_tokens(
    write_txn: &WriteTransaction,
    rows: &BTreeMap<[u8; 32], AccessToken>,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    list_tokens(write_txn, rows.values())?;
    write_table(write_txn, &ACCESS_TOKENS, rows)
}

fn list_tokens<'a>(
    write_txn: &WriteTransaction,
    tokens: impl IntoIterator<Item = &'a AccessToken>,
) -> Result<(), StoreError> {
    let mut ids = write_txn.open_table(TOKEN_IDS)?;
    let mut listed = write_txn.open_table(COMPANY_TOKENS)?;
    for token in tokens {
        ids.insert(token.id.0.as_u128(), token.digest)?;
        let key = (token.company.0, token.created_at.0, token.digest);
        set_listed(&mut listed, key, !token.is_revoked)?;
    }
    Ok(())
}

fn write_external_ids(
    write_txn: &WriteTransaction,
    ids: &BTreeMap<u32, Option<String>>,
) -> Result<(), StoreError> {
    if ids.is_empty() {
        return Ok(());
    }
    let members = write_txn.open_table(MEMBERS.definition())?;
    let mut stored = write_txn.open_table(MEMBER_EXTERNAL_IDS.definition())?;
    let mut found_by = write_txn.open_table(EXTERNAL_IDS)?;
    let company_of = |slot| -> Result<u32, StoreError> {
        let member = stored_row(&MEMBERS, &members, slot)?;
        let member = member.ok_or_else(|| StoreError::Inconsistent {
            what: format!("member {slot} has an external id, and there is none"),
        })?;
        Ok(member.company.0)
    };
    // First all old ids go, then the new ones come, so that members may swap them.
    for slot in ids.keys() {
        let Some(before) = stored_row(&MEMBER_EXTERNAL_IDS, &stored, *slot)? else { continue };
        found_by.remove((company_of(*slot)?, before.as_str()))?;
        stored.remove(*slot)?;
    }
    for (slot, id) in ids {
        let Some(id) = id else { continue };
        found_by.insert((company_of(*slot)?, id.as_str()), slot)?;
        stored.insert(*slot, rows::encode(MEMBER_EXTERNAL_IDS.name(), id)?.as_slice())?;
    }
    Ok(())
}

fn write_tickets(
    write_txn: &WriteTransaction,
    tickets: &BTreeMap<[u8; 32], Ticket>,
) -> Result<(), StoreError> {
    if tickets.is_empty() {
        return Ok(());
    }
    {
        let stored = write_txn.open_table(TICKETS.definition())?;
        let mut ends = write_txn.open_table(TICKET_ENDS)?;
        let mut of_user = write_txn.open_table(USER_TICKETS)?;
        for (digest, ticket) in tickets {
            if let Some(before) = stored_row(&TICKETS, &stored, *digest)? {
                ends.remove((before.forgotten_at().0, *digest))?;
            }
            ends.insert((ticket.forgotten_at().0, *digest), ())?;
            of_user.insert((ticket.user.0, ticket.made_at.0, *digest), ())?;
        }
    }
    write_table(write_txn, &TICKETS, tickets)
}

/// INVARIANT: the shard forgets by the same rule.
fn forget_tickets(write_txn: &WriteTransaction, at: Timestamp) -> Result<(), StoreError> {
    let mut ends = write_txn.open_table(TICKET_ENDS)?;
    let next = (at.0.saturating_add(1), [0; 32]);
    if ends.range(..next)?.next().is_none() {
        return Ok(());
    }
    let mut stored = write_txn.open_table(TICKETS.definition())?;
    let mut of_user = write_txn.open_table(USER_TICKETS)?;
    for ended in ends.extract_from_if(..next, |_, ()| true)? {
        let digest = ended?.0.value().1;
        let ticket = stored.remove(digest)?;
        let ticket = ticket.map(|row| rows::decode::<Ticket>(TICKETS.name(), row.value()));
        if let Some(ticket) = ticket.transpose()? {
            of_user.remove((ticket.user.0, ticket.made_at.0, digest))?;
        }
    }
    Ok(())
}

/// Lists the members and tokens of tables that were made before there were these lists.
pub(in crate::store) fn list_people(write_txn: &WriteTransaction) -> Result<(), StoreError> {
    let mut of_people = write_txn.open_table(EMAIL_MEMBERS)?;
    for entry in write_txn.open_table(MEMBERS.definition())?.iter()? {
        let member: Member = rows::decode(MEMBERS.name(), entry?.1.value())?;
        if member.state != MemberState::Deleted {
            of_people.insert((email_key(&member.email).as_str(), member.slot.0), ())?;
        }
    }
    let mut tokens = Vec::new();
    for entry in write_txn.open_table(ACCESS_TOKENS.definition())?.iter()? {
        tokens.push(rows::decode::<AccessToken>(ACCESS_TOKENS.name(), entry?.1.value())?);
    }
    list_tokens(write_txn, &tokens)
}
