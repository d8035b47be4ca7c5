//! What people set up around cards: dimensions, shared links, requisitions, single sign-on, and the
//! answers kept under idempotency keys. Only admin commands read any of it.
//!
//! Rows stand in dense arrays by slot, with the lookups that rules need beside them; all of that is
//! derived here, from after-images. What transactions are tagged with stands in the tables alone.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::apply::put_at;
use crate::domain::card::DimensionKind;
use crate::domain::company::SingleSignOn;
use crate::domain::dimension::Dimension;
use crate::domain::ids::{
    CardSlot, CompanySlot, DimensionId, DimensionSlot, MemberSlot, RequisitionId, RequisitionSlot,
    SharedLinkId, SharedLinkSlot, Timestamp,
};
use crate::domain::keyed_answer::{KeyedAnswer, KeyedContent, OWNER_BYTES, owner_of};
use crate::domain::member::email_key;
use crate::domain::requisition::{Requisition, RequisitionStatus};
use crate::domain::shared_link::SharedLink;

/// Whose code it is, of which kind, and the code.
pub(super) type DimensionCode = (CompanySlot, DimensionKind, String);

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub(super) struct Organization {
    pub(super) dimensions: Vec<Dimension>,
    pub(super) dimension_by_id: HashMap<DimensionId, DimensionSlot>,
    /// Codes of those that are not deleted.
    pub(super) dimension_codes: BTreeMap<DimensionCode, DimensionSlot>,
    /// Parents, each with its children.
    pub(super) dimension_children: BTreeSet<(DimensionSlot, DimensionSlot)>,
    pub(super) links: Vec<SharedLink>,
    pub(super) link_by_id: HashMap<SharedLinkId, SharedLinkSlot>,
    /// Those that are not deleted.
    pub(super) links_of_card: BTreeMap<CardSlot, BTreeSet<SharedLinkSlot>>,
    /// Those that are not deleted, by the address they were sent to.
    links_by_email: BTreeSet<(CompanySlot, String, SharedLinkSlot)>,
    pub(super) requisitions: Vec<Requisition>,
    pub(super) requisition_by_id: HashMap<RequisitionId, RequisitionSlot>,
    /// Those that are pending, by who asks.
    pending_requisitions: BTreeSet<(MemberSlot, RequisitionSlot)>,
    pub(super) sso: BTreeMap<CompanySlot, SingleSignOn>,
    pub(super) keyed_answers: KeyedAnswers,
}

impl Organization {
    pub(super) fn apply_dimension(&mut self, dimension: &Dimension) {
        let Dimension { slot, id, company, kind, .. } = *dimension;
        self.dimension_by_id.insert(id, slot);
        let before = self.dimensions.get(slot.index()).filter(|before| !before.is_deleted);
        if let Some(code) = before.and_then(|before| before.code.clone()) {
            let key = (company, kind, code);
            // Two may have swapped their codes in one record.
            if self.dimension_codes.get(&key) == Some(&slot) {
                self.dimension_codes.remove(&key);
            }
        }
        if let Some(code) = dimension.code.clone().filter(|_| !dimension.is_deleted) {
            self.dimension_codes.insert((company, kind, code), slot);
        }
        let before = self.dimensions.get(slot.index());
        if let Some(parent) = before.and_then(|before| before.parent) {
            self.dimension_children.remove(&(parent, slot));
        }
        if let Some(parent) = dimension.parent.filter(|_| !dimension.is_deleted) {
            self.dimension_children.insert((parent, slot));
        }
        put_at(&mut self.dimensions, slot.index(), dimension.clone());
    }

    pub(super) fn apply_shared_link(&mut self, link: &SharedLink) {
        self.link_by_id.insert(link.id, link.slot);
        let of_card = self.links_of_card.entry(link.card).or_default();
        if link.is_deleted {
            of_card.remove(&link.slot);
        } else {
            of_card.insert(link.slot);
        }
        if of_card.is_empty() {
            self.links_of_card.remove(&link.card);
        }
        if let Some(key) = self.links.get(link.slot.index()).and_then(recipient_key) {
            self.links_by_email.remove(&key);
        }
        self.links_by_email.extend(recipient_key(link).filter(|_| !link.is_deleted));
        put_at(&mut self.links, link.slot.index(), link.clone());
    }

    pub(super) fn apply_requisition(&mut self, requisition: &Requisition) {
        self.requisition_by_id.insert(requisition.id, requisition.slot);
        let key = (requisition.member, requisition.slot);
        if requisition.status == RequisitionStatus::Pending {
            self.pending_requisitions.insert(key);
        } else {
            self.pending_requisitions.remove(&key);
        }
        put_at(&mut self.requisitions, requisition.slot.index(), requisition.clone());
    }

    /// The links, not deleted ones, that were sent to an address, in whatever case.
    pub(super) fn links_sent_to(
        &self,
        company: CompanySlot,
        email: &str,
    ) -> impl Iterator<Item = SharedLinkSlot> {
        let key = |slot| (company, email_key(email), SharedLinkSlot(slot));
        self.links_by_email.range(key(0)..=key(u32::MAX)).map(|(_, _, slot)| *slot)
    }

    /// What a member asks for and nobody has decided.
    pub(super) fn pending_requisitions_of(
        &self,
        member: MemberSlot,
    ) -> impl Iterator<Item = RequisitionSlot> {
        let key = |slot| (member, RequisitionSlot(slot));
        self.pending_requisitions.range(key(0)..=key(u32::MAX)).map(|(_, slot)| *slot)
    }

    pub(super) fn apply_sso(&mut self, company: CompanySlot, sso: Option<&SingleSignOn>) {
        match sso {
            Some(sso) => self.sso.insert(company, sso.clone()),
            None => self.sso.remove(&company),
        };
    }
}

/// Whose link it is, to whom it was sent, and which.
fn recipient_key(link: &SharedLink) -> Option<(CompanySlot, String, SharedLinkSlot)> {
    let recipient = link.recipient.as_ref()?;
    Some((link.company, email_key(&recipient.email), link.slot))
}

/// Which request an idempotency key was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct KeyUse {
    pub(super) request: [u8; 32],
    pub(super) expires_at: Timestamp,
    /// Whether the answer is there, and not only where it is found.
    pub(super) is_answered: bool,
}

/// The idempotency keys that have not expired; their answers are in the tables.
/// INVARIANT: the tables forget by the same rule, so both always remember the same.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyedAnswers {
    uses: HashMap<[u8; 32], KeyUse>,
    ends: BTreeSet<(Timestamp, [u8; 32])>,
    /// How many keys each company has.
    counts: HashMap<[u8; OWNER_BYTES], usize>,
}

impl KeyedAnswers {
    /// What a key was used for.
    pub(super) fn get(&self, key: &[u8; 32]) -> Option<&KeyUse> {
        self.uses.get(key)
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.uses.len()
    }

    /// How many keys a company has.
    pub(super) fn count_of(&self, owner: [u8; OWNER_BYTES]) -> usize {
        self.counts.get(&owner).copied().unwrap_or_default()
    }

    /// When the first key expires.
    pub(super) fn first_end(&self) -> Option<Timestamp> {
        self.ends.first().map(|end| end.0)
    }

    pub(super) fn insert(&mut self, answer: &KeyedAnswer) {
        let found = KeyUse {
            request: answer.request,
            expires_at: answer.expires_at,
            is_answered: matches!(answer.content, KeyedContent::Body(_)),
        };
        match self.uses.insert(answer.key, found) {
            Some(before) => drop(self.ends.remove(&(before.expires_at, answer.key))),
            None => *self.counts.entry(owner_of(&answer.key)).or_default() += 1,
        }
        self.ends.insert((answer.expires_at, answer.key));
    }

    /// Lets go of what ended at or before `at`.
    #[inline]
    pub(super) fn forget_expired(&mut self, at: Timestamp) {
        while let Some((expires_at, key)) = self.ends.first().copied()
            && expires_at <= at
        {
            self.ends.remove(&(expires_at, key));
            self.uses.remove(&key);
            self.count_less(owner_of(&key));
        }
    }

    fn count_less(&mut self, owner: [u8; OWNER_BYTES]) {
        if let Entry::Occupied(mut count) = self.counts.entry(owner) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// The keys in order, with what they were used for.
    pub(super) fn sorted(&self) -> impl Iterator<Item = ([u8; 32], KeyUse)> + '_ {
        let keys: BTreeMap<_, _> = self.uses.iter().map(|(key, found)| (*key, *found)).collect();
        keys.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn dimension(slot: u32, code: &str, is_deleted: bool) -> Dimension {
        Dimension {
            slot: DimensionSlot(slot),
            id: DimensionId(Uuid::from_u128(u128::from(slot))),
            company: CompanySlot(0),
            kind: DimensionKind::Label,
            name: "travel".to_owned(),
            code: Some(code.to_owned()),
            parent: None,
            is_deleted,
            created_at: Timestamp(1),
        }
    }

    #[test]
    fn codes_follow_the_dimensions_that_carry_them() {
        let mut organization = Organization::default();
        let rows = [
            (dimension(0, "7", false), vec![("7", 0)]),
            (dimension(1, "8", false), vec![("7", 0), ("8", 1)]),
            (dimension(1, "7", false), vec![("7", 1)]),
            (dimension(0, "8", false), vec![("7", 1), ("8", 0)]),
            (dimension(1, "7", true), vec![("8", 0)]),
        ];
        for (row, expected) in rows {
            organization.apply_dimension(&row);
            let codes: Vec<_> = organization.dimension_codes.iter().collect();
            let codes: Vec<_> = codes.iter().map(|(key, slot)| (key.2.as_str(), slot.0)).collect();
            assert_eq!(codes, expected, "{row:?}");
        }
    }

    #[test]
    fn keys_are_remembered_until_they_expire() {
        let answer = |key: u8, until: i64| KeyedAnswer {
            key: [key; 32],
            request: [9; 32],
            made_at: Timestamp(0),
            expires_at: Timestamp(until),
            status: 204,
            content: KeyedContent::Object { path: String::new() },
        };
        let mut answers = KeyedAnswers::default();
        answers.insert(&answer(1, 10));
        answers.insert(&answer(2, 20));
        answers.insert(&answer(1, 30));
        answers.forget_expired(Timestamp(20));
        assert_eq!((answers.len(), answers.get(&[2; 32])), (1, None));
        assert!(answers.get(&[1; 32]).is_some());
        let counts = [1, 2].map(|owner| answers.count_of([owner; OWNER_BYTES]));
        assert_eq!((counts, answers.first_end()), ([1, 0], Some(Timestamp(30))));
        answers.forget_expired(Timestamp(30));
        assert!(answers.counts.is_empty());
        assert_eq!(answers.sorted().count(), 0);
    }
}
