//! Writes tickets and access tokens, with the lists they are found in.

use std::collections::BTreeMap;

use redb::{ReadableTable, WriteTransaction};

use super::organization::{set_listed, stored_row};
use super::write::write_table;
use crate::directory::access_token::AccessToken;
use crate::directory::ticket::Ticket;
use crate::domain::ids::Timestamp;
use crate::store::error::StoreError;
use crate::store::rows;
use crate::store::tables::{
    ACCESS_TOKENS, APP_TOKENS, COMPANY_TOKENS, TICKET_ENDS, TICKETS, TOKEN_IDS, USER_TICKETS,
};

/// The newest images of what a run changes.
#[derive(Debug, Default)]
pub(super) struct IdentityChanges {
    tickets: BTreeMap<[u8; 32], Ticket>,
}

impl IdentityChanges {
    /// Whether it changes nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Takes a ticket.
    pub(super) fn take(&mut self, row: Ticket) {
        self.tickets.insert(row.digest, row);
    }

    /// Writes it all. Lets go of tickets that are forgotten by `at`, the instant of the newest record.
    pub(super) fn write(
        &self,
        write_txn: &WriteTransaction,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        write_tickets(write_txn, &self.tickets)?;
        forget_tickets(write_txn, at)
    }
}

/// Writes access tokens, and lists those that are not revoked.
pub(super) fn write_tokens(
    write_txn: &WriteTransaction,
    rows: &BTreeMap<[u8; 32], AccessToken>,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut ids = write_txn.open_table(TOKEN_IDS)?;
    let mut listed = write_txn.open_table(COMPANY_TOKENS)?;
    let mut of_app = write_txn.open_table(APP_TOKENS)?;
    for token in rows.values() {
        ids.insert(token.id.0.as_u128(), token.digest)?;
        let key = (token.company.0, token.created_at.0, token.digest);
        set_listed(&mut listed, key, !token.is_revoked)?;
        if let Some(app) = token.app() {
            let key = (app.0, token.company.0, token.id.0.as_u128());
            set_listed(&mut of_app, key, !token.is_revoked)?;
        }
    }
    write_table(write_txn, &ACCESS_TOKENS, rows)
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
