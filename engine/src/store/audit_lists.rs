//! What is found by lists, proven against the rows that it follows from: the sets of states, what
//! tags set by hand did to the lists of dimensions, and the lists of people and programs.

use std::collections::BTreeMap;

use redb::{ReadableTable, ReadableTableMetadata};

use super::audit::AuditFigure;
use super::error::StoreError;
use super::query::Snapshot;
use super::rows;
use super::sets;
use super::tables::{
    ACCESS_TOKENS, AUDIT_EVENTS, COMPANY_TOKENS, TAG_MOVES, TICKET_ENDS, TICKETS, TRANSACTION_TAGS,
    USER_EMAILS, USER_IDS, USER_TICKETS, USERS,
};
use crate::domain::transaction_tags::TagChanges;

impl Snapshot {
    /// Compares the lists that change with what stands in the rows.
    /// Errors: a page or a row that is not as it was written. Cost: reads every transaction and card.
    pub(super) fn audit_lists(&self) -> Result<Vec<AuditFigure>, StoreError> {
        let states = sets::compare(self)?;
        let rows = [
            ("transactions and cards found by their state", states.rows, states.found),
            ("pages of states off their rows", 0, states.differing),
            ("tags set by hand off the lists of their dimensions", 0, self.differing_moves()?),
        ];
        let figure = |(name, expected, found): (&str, u64, u64)| AuditFigure {
            name: name.to_owned(),
            expected: i128::from(expected),
            found: i128::from(found),
        };
        let people = self.lists_of_people()?;
        Ok(rows.into_iter().chain(people).map(figure).collect())
    }

    /// Rows of people and programs, and how many the lists lead to.
    fn lists_of_people(&self) -> Result<[(&'static str, u64, u64); 4], StoreError> {
        let users = self.table(USERS.definition())?.len()?;
        let found_users = self.table(USER_IDS)?.len()? + self.table(USER_EMAILS)?.len()?;
        let tickets = self.table(TICKETS.definition())?.len()?;
        let found_tickets = self.table(TICKET_ENDS)?.len()? + self.table(USER_TICKETS)?.len()?;
        let mut tokens = 0;
        self.each(&ACCESS_TOKENS, |_, token| tokens += u64::from(!token.is_revoked))?;
        let listed_tokens = self.table(COMPANY_TOKENS)?.len()?;
        let events = self.table(AUDIT_EVENTS.definition())?;
        let mut newest = BTreeMap::new();
        for entry in events.iter()? {
            let (owner, number) = entry?.0.value();
            newest.insert(owner, number);
        }
        Ok([
            ("users found by id and by address", 2 * users, found_users),
            ("tickets found by their end and by their user", 2 * tickets, found_tickets),
            ("access tokens found by their company", tokens, listed_tokens),
            ("audit events, numbered without holes", newest.values().sum(), events.len()?),
        ])
    }

    /// How many moves are missing, wrong or too many.
    fn differing_moves(&self) -> Result<u64, StoreError> {
        let mut rows = self.transaction_rows()?;
        let moves = self.table(TAG_MOVES)?;
        let (mut right, mut wrong) = (0, 0);
        for entry in self.table(TRANSACTION_TAGS.definition())?.iter()? {
            let (seq, row) = entry?;
            let tags: TagChanges = rows::decode(TRANSACTION_TAGS.name(), row.value())?;
            let made = rows.look_at(seq.value(), |row| row.dimensions())?;
            for (made, now) in made.iter().zip(tags.dimensions_over(&made)) {
                if *made == now {
                    continue;
                }
                for (dimension, is_put_on) in [(*made, false), (now, true)] {
                    let Some(id) = dimension else { continue };
                    let found = moves.get((id.0.as_u128(), seq.value()))?.map(|row| row.value());
                    let is_right = found == Some(is_put_on);
                    right += u64::from(is_right);
                    wrong += u64::from(!is_right);
                }
            }
        }
        Ok(wrong + moves.len()?.saturating_sub(right))
    }
}
