//! The newest changes of objects that people look at before they change them, beside the state: they are
//! neither replayed nor hashed.
//!
//! INVARIANT: an object counts as changed where a change may have been forgotten or was made before a start.

use std::collections::VecDeque;

use super::state::ShardState;
use crate::command::effect::Effect;
use crate::command::seen_object::{SeenObject, WatchedObject};
use crate::directory::DirectoryRow;
use crate::directory::member::Member;
use crate::domain::email::email_key;
use crate::domain::ids::{MemberSlot, RecordSeq};
use crate::limits;

/// The newest changes, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentChanges {
    /// All changes behind this record are here.
    known_from: RecordSeq,
    changes: VecDeque<(RecordSeq, WatchedObject)>,
}

impl RecentChanges {
    /// Begins behind a record.
    pub(super) fn begin_after(&mut self, seq: RecordSeq) {
        self.known_from = seq;
        self.changes.clear();
    }

    fn note(&mut self, seq: RecordSeq, object: WatchedObject) {
        if self.changes.len() >= limits::RECENT_CHANGES_MAX
            && let Some((forgotten, _)) = self.changes.pop_front()
        {
            self.known_from = self.known_from.max(forgotten);
        }
        self.changes.push_back((seq, object));
    }

    /// Whether the object may have changed. Cost: O(changes since).
    pub(super) fn may_have(&self, seen: &SeenObject) -> bool {
        let later = self.changes.iter().rev().take_while(|(seq, _)| *seq > seen.since);
        seen.since < self.known_from || later.into_iter().any(|(_, object)| *object == seen.object)
    }
}

impl ShardState {
    /// Notes which objects an effect of the newest record changes.
    pub(super) fn note_change(&mut self, effect: &Effect) {
        let (object, leaving) = match effect {
            Effect::Row(row) => (Some(WatchedObject::Row(row.id())), self.leaving_with(row)),
            Effect::CardIssued(card) => (None, card.profile.assigned_to),
            Effect::CardProfile(profile) => {
                (Some(WatchedObject::Card(profile.slot)), profile.assigned_to)
            }
            Effect::AllowanceTerms(slot, _) => (Some(WatchedObject::Card(*slot)), None),
            Effect::TransactionTags(seq, _) => (Some(WatchedObject::Transaction(*seq)), None),
            _ => return,
        };
        for object in object.into_iter().chain(leaving.map(WatchedObject::Leaving)) {
            self.recent_changes.note(self.last_seq, object);
        }
    }

    /// The member with whose leaving a row ends.
    fn leaving_with(&self, row: &DirectoryRow) -> Option<MemberSlot> {
        match row {
            DirectoryRow::Member(member) => Some(member.slot),
            DirectoryRow::Requisition(requisition) => Some(requisition.member),
            DirectoryRow::AccessToken(token) => token.member(),
            DirectoryRow::SharedLink(link) => {
                let to = (link.company, email_key(&link.recipient.as_ref()?.email));
                Some(self.directory.members.under(&Member::BY_EMAIL, &to).next()?.slot)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_may_be_forgotten_counts_as_changed() {
        let object = |id| WatchedObject::Row(Uuid::from_u128(id));
        let mut changes = RecentChanges::default();
        changes.begin_after(RecordSeq(10));
        changes.note(RecordSeq(12), object(1));
        let rows = [(1, 9, true), (1, 10, true), (1, 11, true), (1, 12, false), (2, 10, false)];
        for (id, since, expected) in rows {
            let seen = SeenObject { object: object(id), since: RecordSeq(since) };
            assert_eq!(changes.may_have(&seen), expected, "{seen:?}");
        }
        for seq in (13_u64..).take(limits::RECENT_CHANGES_MAX) {
            changes.note(RecordSeq(seq), object(3));
        }
        for (since, expected) in [(11, true), (12, false)] {
            let seen = SeenObject { object: object(2), since: RecordSeq(since) };
            assert_eq!(changes.may_have(&seen), expected, "{seen:?}");
        }
    }
}
