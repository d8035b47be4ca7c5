//! What administrators look at before they change it, and the records that changed it: a change on condition that an
//! object is as it was seen is refused where the object has changed since.
//!
//! After each record all objects are compared with what they were before it. A start forgets which record changed
//! what, so an earlier look counts as one before a change.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::seen_object::{SeenObject, WatchedObject};
use cardswitch_engine::directory::allowance::AllowanceCommand;
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::directory::member::MemberCommand;
use cardswitch_engine::directory::requisition::RequisitionCommand;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::ids::{CardSlot, MemberId, MemberSlot, RecordSeq};
use cardswitch_engine::domain::text::LineText;

use super::{Card, Member, Model, Requisition};

/// Objects as they were after the newest record, and their changes since the last start.
#[derive(Clone, Default)]
pub(super) struct Looks {
    cards: Vec<(CardFace, AllowanceTerms)>,
    members: Vec<Member>,
    requisitions: Vec<Requisition>,
    /// The member of each token, and whether it is revoked.
    tokens: Vec<(Option<usize>, bool)>,
    /// All changes behind this record are here.
    known_from: RecordSeq,
    changes: Vec<(RecordSeq, WatchedObject)>,
}

/// What is shown of a card, but for its usage and its allowance.
#[derive(Clone)]
struct CardFace {
    holder: Option<usize>,
    own_zip: Option<LineText>,
}

impl CardFace {
    fn of(card: &Card) -> Self {
        Self { holder: card.holder, own_zip: card.own_zip.clone() }
    }

    fn is_of(&self, card: &Card) -> bool {
        (self.holder, &self.own_zip) == (card.holder, &card.own_zip)
    }
}

impl Model {
    /// Compares all objects after a record of an administrator.
    pub fn note_changes(&mut self, record: RecordSeq) {
        let mut changed = Vec::new();
        for (slot, card) in self.cards.iter().enumerate() {
            let before = self.looks.cards.get(slot);
            let (is_known, has_face, has_terms) = before.map_or((false, false, false), |before| {
                (true, before.0.is_of(card), before.1 == card.terms)
            });
            if has_face && has_terms {
                continue;
            }
            if !has_face {
                // With the holder before it ends no more: nobody is surprised.
                changed.extend(card.holder.map(leaving));
            }
            if is_known {
                changed.push(WatchedObject::Card(CardSlot(slot as u32)));
            }
            put(&mut self.looks.cards, slot, (CardFace::of(card), card.terms));
        }
        for (slot, member) in self.members.iter().enumerate() {
            if self.looks.members.get(slot) != Some(member) {
                changed.extend([WatchedObject::Row(member.id.0), leaving(slot)]);
                put(&mut self.looks.members, slot, member.clone());
            }
        }
        for (place, asked) in self.requisitions.iter().enumerate() {
            if self.looks.requisitions.get(place) != Some(asked) {
                changed.extend([WatchedObject::Row(asked.id.0), leaving(asked.member)]);
                put(&mut self.looks.requisitions, place, asked.clone());
            }
        }
        for (place, token) in self.tokens.iter().enumerate() {
            let now = (token.member(), token.is_revoked);
            if self.looks.tokens.get(place) != Some(&now) {
                changed.extend(now.0.map(leaving));
                put(&mut self.looks.tokens, place, now);
            }
        }
        self.looks.changes.extend(changed.into_iter().map(|object| (record, object)));
    }

    /// A start, at whose newest record all counts as changed that was looked at before.
    pub fn forget_changes_until(&mut self, record: RecordSeq) {
        self.looks.known_from = record;
        self.looks.changes.clear();
    }

    /// Whether it is of before the last start.
    pub fn is_look_forgotten(&self, seen: &SeenObject) -> bool {
        seen.since < self.looks.known_from
    }

    pub(super) fn may_have_changed(&self, seen: &SeenObject) -> bool {
        let is_it =
            |(at, object): &(RecordSeq, WatchedObject)| *at > seen.since && *object == seen.object;
        self.is_look_forgotten(seen) || self.looks.changes.iter().any(is_it)
    }

    /// The object that a change of these is about.
    pub fn object_of(&self, change: &AdminCommand) -> Option<WatchedObject> {
        let member_of = |id: MemberId| self.members.iter().position(|member| member.id == id);
        match change {
            AdminCommand::Card(CardCommand::Update(_, id, _)) => {
                let slot = self.cards.iter().position(|card| card.id == *id)?;
                Some(WatchedObject::Card(CardSlot(slot as u32)))
            }
            AdminCommand::Allowance(AllowanceCommand::Update(_, id, _)) => {
                let slot = self.cards.iter().position(|card| card.allowance_id == *id)?;
                Some(WatchedObject::Card(CardSlot(slot as u32)))
            }
            AdminCommand::Member(MemberCommand::Update(_, id, changes))
                if changes.is_active != Some(false) =>
            {
                Some(WatchedObject::Row(id.0))
            }
            AdminCommand::Member(
                MemberCommand::Update(_, id, _) | MemberCommand::Delete(_, id),
            ) => Some(leaving(member_of(*id)?)),
            AdminCommand::Requisition(RequisitionCommand::Update(_, id, _)) => {
                Some(WatchedObject::Row(id.0))
            }
            _ => None,
        }
    }
}

fn leaving(member: usize) -> WatchedObject {
    WatchedObject::Leaving(MemberSlot(member as u32))
}

/// Puts a row at its place, which is the next one where it is new.
fn put<T>(rows: &mut Vec<T>, place: usize, row: T) {
    match rows.get_mut(place) {
        Some(known) => *known = row,
        None => rows.push(row),
    }
}
