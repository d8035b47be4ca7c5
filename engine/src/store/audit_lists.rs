//! Audit of the lists against the rows that they follow from: the sets of states, the lists of
//! dimensions with tags set by hand, audit events, and the indexes of rows.

use std::collections::BTreeMap;

use redb::{Key, ReadableTable, ReadableTableMetadata, Value};

use super::audit::AuditFigure;
use super::error::StoreError;
use super::figures;
use super::project::{MARK_ACTOR, MARK_OBJECT, marks_of};
use super::query::Snapshot;
use super::rows;
use super::sets;
use super::tables::{
    ACCOUNT_IDS, ACCOUNTS, ALLOWANCE_IDS, AUDIT_EVENTS, AUDIT_MARKS, CARD_IDS, CARD_MARKS, CARDS,
    COMPANIES, COMPANY_ACCOUNTS, COMPANY_CARDS, COMPANY_IDS, KEYED_ANSWER_ENDS, KEYED_ANSWERS,
    PAN_HASHES, TAG_MOVES, TRANSACTION_TAGS,
};
use crate::command::effect::IssuedCard;
use crate::domain::audit::AuditEvent;
use crate::domain::transaction_tags::TagChanges;
use crate::packed::parse_card;

/// Rows that are looked up in a list.
#[derive(Default)]
pub(super) struct RowLookup {
    rows: u64,
    right: u64,
}

impl RowLookup {
    fn look(&mut self, is_right: bool) {
        self.rows += 1;
        self.right += u64::from(is_right);
    }

    /// Looks up the entry of an index with its value.
    pub(super) fn look_up<K, V>(
        &mut self,
        index: &impl ReadableTable<K, V>,
        key: K,
        value: V,
    ) -> Result<(), StoreError>
    where
        K: Key + 'static,
        V: Value + PartialEq + 'static,
        for<'a> K: Value<SelfType<'a> = K>,
        for<'a> V: Value<SelfType<'a> = V>,
    {
        let found = index.get(key)?.map(|found| found.value());
        self.look(found == Some(value));
        Ok(())
    }

    /// A list that may have more entries.
    pub(super) fn figure(&self, name: &str) -> AuditFigure {
        AuditFigure::new(name, self.rows, self.right)
    }

    /// Entries of the list beyond the rows count too, once every row is found.
    fn figure_of_all(&self, name: &str, listed: u64) -> AuditFigure {
        let found = if self.right == self.rows { listed } else { self.right };
        AuditFigure::new(name, self.rows, found)
    }
}

impl Snapshot {
    /// Compares the lists that change with what stands in the rows.
    /// Errors: a page or a row that is not as it was written. Cost: reads every transaction and card.
    pub(super) fn audit_lists(&self) -> Result<Vec<AuditFigure>, StoreError> {
        let states = sets::compare(self)?;
        let decisions = figures::compare(self)?;
        let rows = [
            ("decisions counted by quarter of an hour", decisions.decisions, decisions.counted),
            ("figures of decisions off their transactions", 0, decisions.differing),
            ("transactions and cards found by their state", states.rows, states.found),
            ("pages of states off their rows", 0, states.differing),
            ("tags set by hand off the lists of their dimensions", 0, self.differing_moves()?),
        ];
        let figure = |(name, expected, found)| AuditFigure::new(name, expected, found);
        let rows = rows.into_iter().map(figure).chain(self.lists_of_events()?);
        let indexes = [self.indexes_of_accounts()?, self.indexes_of_cards()?, self.keyed_ends()?];
        Ok(rows.chain(indexes).chain(self.audit_directory()?).collect())
    }

    /// Companies and accounts in their indexes.
    fn indexes_of_accounts(&self) -> Result<AuditFigure, StoreError> {
        let (companies, accounts) = (self.table(COMPANY_IDS)?, self.table(ACCOUNT_IDS)?);
        let by_company = self.table(COMPANY_ACCOUNTS)?;
        let mut rows = RowLookup::default();
        self.try_each(&COMPANIES, |slot, row| rows.look_up(&*companies, row.id.0.as_u128(), slot))?;
        self.try_each(&ACCOUNTS, |slot, row| {
            rows.look_up(&*accounts, row.id.0.as_u128(), slot)?;
            rows.look_up(&*by_company, (row.company.0, slot), ())
        })?;
        let entries = companies.len()? + accounts.len()? + by_company.len()?;
        Ok(rows.figure_of_all("entries of the indexes of companies and accounts", entries))
    }

    fn indexes_of_cards(&self) -> Result<AuditFigure, StoreError> {
        let (ids, allowance_ids) = (self.table(CARD_IDS)?, self.table(ALLOWANCE_IDS)?);
        let (hashes, marks) = (self.table(PAN_HASHES)?, self.table(CARD_MARKS)?);
        let by_company = self.table(COMPANY_CARDS)?;
        let (mut rows, mut places) = (RowLookup::default(), BTreeMap::new());
        for entry in self.table(CARDS.definition())?.iter()? {
            let (slot, row) = entry?;
            let slot = slot.value();
            let card = rows::unpack(CARDS.name(), row.value(), parse_card)?;
            let IssuedCard { profile, record, .. } = card;
            let place = places.entry(profile.company).or_insert(0_u64);
            *place += 1;
            rows.look_up(&*ids, profile.id.0.as_u128(), slot)?;
            rows.look_up(&*allowance_ids, profile.allowance_id.0.as_u128(), slot)?;
            rows.look_up(&*hashes, record.pan_hash.0, slot)?;
            rows.look_up(&*by_company, (profile.company.0, slot), *place)?;
            for mark in marks_of(&profile) {
                rows.look_up(&*marks, (mark.kind, mark.owner, slot), ())?;
            }
        }
        let entries = ids.len()? + allowance_ids.len()? + hashes.len()?;
        let entries = entries + by_company.len()? + marks.len()?;
        Ok(rows.figure_of_all("entries of the indexes of cards", entries))
    }

    /// Answers under idempotency keys in the list of their ends.
    fn keyed_ends(&self) -> Result<AuditFigure, StoreError> {
        let (ends, mut rows) = (self.table(KEYED_ANSWER_ENDS)?, RowLookup::default());
        self.try_each(&KEYED_ANSWERS, |key, row| {
            rows.look_up(&*ends, (row.expires_at.0, key), ())
        })?;
        Ok(rows.figure_of_all("answers under idempotency keys found by their end", ends.len()?))
    }

    /// Audit events, and how many the lists lead to.
    fn lists_of_events(&self) -> Result<[AuditFigure; 2], StoreError> {
        let marks = self.table(AUDIT_MARKS)?;
        let (mut newest, mut events, mut marked) = (BTreeMap::new(), 0, RowLookup::default());
        self.try_each(&AUDIT_EVENTS, |(owner, number), event: AuditEvent| {
            newest.insert(owner, number);
            events += 1;
            let actors = event.actor.ids().into_iter().flatten().map(|id| (MARK_ACTOR, id));
            for (kind, id) in actors.chain(event.object.map(|id| (MARK_OBJECT, id))) {
                marked.look_up(&*marks, (owner, kind, id.as_u128(), number), ())?;
            }
            Ok(())
        })?;
        Ok([
            AuditFigure::new(
                "audit events, numbered without holes",
                newest.values().sum::<u64>(),
                events,
            ),
            marked.figure_of_all("audit events found by who and by what", marks.len()?),
        ])
    }

    /// The number of moves that are missing, wrong or too many.
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
