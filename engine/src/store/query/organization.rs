//! What people set up around cards: dimensions, shared links, requisitions, tags of transactions,
//! single sign-on, answers under idempotency keys.
//!
//! These lists are as long as people make them by hand, so a list is read whole: exact counts under
//! any filter. Cost of each: O(rows of the list).

use std::ops::RangeInclusive;

use redb::{Key, TableDefinition, Value};
use serde::de::DeserializeOwned;

use super::list::{self, Listed, Page};
use crate::domain::app::App;
use crate::domain::card::DimensionKind;
use crate::domain::company::SingleSignOn;
use crate::domain::dimension::Dimension;
use crate::domain::ids::{
    CardSlot, CompanySlot, DimensionId, DimensionSlot, MemberSlot, RequisitionId, RequisitionSlot,
    SharedLinkId, SharedLinkSlot, Timestamp, TransactionSeq,
};
use crate::domain::keyed_answer::KeyedAnswer;
use crate::domain::member::Member;
use crate::domain::requisition::{Requisition, RequisitionStatus};
use crate::domain::shared_link::SharedLink;
use crate::domain::transaction_tags::TagChanges;
use crate::domain::webhook_endpoint::WebhookEndpoint;
use crate::store::error::StoreError;
use crate::store::project::kind_number;
use crate::store::query::Snapshot;
use crate::store::tables::{
    CARD_REQUISITIONS, CARD_SHARED_LINKS, COMPANY_DIMENSIONS, COMPANY_MEMBERS,
    COMPANY_REQUISITIONS, COMPANY_SHARED_LINKS, COMPANY_SSO, DIMENSION_IDS, DIMENSIONS,
    KEYED_ANSWERS, MEMBER_REQUISITIONS, MEMBERS, REQUISITION_IDS, REQUISITIONS, RowTable,
    SHARED_LINK_IDS, SHARED_LINK_KEYS, SHARED_LINKS, TRANSACTION_TAGS,
};

/// Which requisitions of a company are wanted; absent means any.
#[derive(Clone, Debug, Default)]
pub struct RequisitionFilter {
    /// Fulfilled by this card.
    pub card: Option<CardSlot>,
    /// Asked for by this member.
    pub member: Option<MemberSlot>,
    /// In one of these states; any where there are none.
    pub statuses: Vec<RequisitionStatus>,
}

impl Snapshot {
    /// Finds a dimension, also a deleted one.
    pub fn dimension(&self, slot: DimensionSlot) -> Result<Option<Dimension>, StoreError> {
        self.find(&DIMENSIONS, slot.0)
    }

    /// Finds a dimension of a company by its id, not a deleted one.
    pub fn dimension_by_id(
        &self,
        company: CompanySlot,
        id: DimensionId,
    ) -> Result<Option<Dimension>, StoreError> {
        let row = self.find_by(DIMENSION_IDS, id.0.as_u128(), &DIMENSIONS)?;
        Ok(row.filter(|row| row.company == company && !row.is_deleted))
    }

    /// Lists a company's dimensions of a kind.
    pub fn list_dimensions(
        &self,
        company: CompanySlot,
        kind: DimensionKind,
        page: &Page,
    ) -> Result<Listed<Dimension>, StoreError> {
        let kind = kind_number(kind);
        let slots = (company.0, kind, 0)..=(company.0, kind, u32::MAX);
        let list = (COMPANY_DIMENSIONS, slots);
        self.list_rows(list, &DIMENSIONS, page, |_| true)
    }

    /// Lists a company's members, without deleted ones.
    pub fn list_members(
        &self,
        company: CompanySlot,
        page: &Page,
        accepts: impl Fn(&Member) -> bool,
    ) -> Result<Listed<Member>, StoreError> {
        let list = (COMPANY_MEMBERS, slots_of(company.0));
        self.list_rows(list, &MEMBERS, page, accepts)
    }

    /// Finds a shared link, also a deleted one.
    pub fn shared_link(&self, slot: SharedLinkSlot) -> Result<Option<SharedLink>, StoreError> {
        self.find(&SHARED_LINKS, slot.0)
    }

    /// Finds a shared link of a company by its id, not a deleted one.
    pub fn shared_link_by_id(
        &self,
        company: CompanySlot,
        id: SharedLinkId,
    ) -> Result<Option<SharedLink>, StoreError> {
        let row = self.find_by(SHARED_LINK_IDS, id.0.as_u128(), &SHARED_LINKS)?;
        Ok(row.filter(|row| row.company == company && !row.is_deleted))
    }

    /// Finds the shared link, not a deleted one, with this keyed hash.
    pub fn shared_link_by_key(&self, digest: [u8; 16]) -> Result<Option<SharedLink>, StoreError> {
        self.find_by(SHARED_LINK_KEYS, digest, &SHARED_LINKS)
    }

    /// The newest shared link of a card.
    pub fn shared_link_of_card(&self, card: CardSlot) -> Result<Option<SharedLink>, StoreError> {
        let newest = self.table(CARD_SHARED_LINKS)?.range(slots_of(card.0))?.next_back();
        let slot = newest.transpose()?.map(|(key, _)| key.value().1);
        slot.map_or(Ok(None), |slot| self.shared_link(SharedLinkSlot(slot)))
    }

    /// Lists a company's shared links, or those of one of its cards, without deleted ones.
    pub fn list_shared_links(
        &self,
        company: CompanySlot,
        card: Option<CardSlot>,
        page: &Page,
    ) -> Result<Listed<SharedLink>, StoreError> {
        let list = match card {
            Some(card) => (CARD_SHARED_LINKS, slots_of(card.0)),
            None => (COMPANY_SHARED_LINKS, slots_of(company.0)),
        };
        let is_theirs = |row: &SharedLink| row.company == company;
        self.list_rows(list, &SHARED_LINKS, page, is_theirs)
    }

    /// Finds a requisition.
    pub fn requisition(&self, slot: RequisitionSlot) -> Result<Option<Requisition>, StoreError> {
        self.find(&REQUISITIONS, slot.0)
    }

    /// Finds a requisition of a company by its id.
    pub fn requisition_by_id(
        &self,
        company: CompanySlot,
        id: RequisitionId,
    ) -> Result<Option<Requisition>, StoreError> {
        let row = self.find_by(REQUISITION_IDS, id.0.as_u128(), &REQUISITIONS)?;
        Ok(row.filter(|row| row.company == company))
    }

    /// The newest approved requisition that a card fulfils.
    pub fn requisition_of_card(&self, card: CardSlot) -> Result<Option<Requisition>, StoreError> {
        for entry in self.table(CARD_REQUISITIONS)?.range(slots_of(card.0))?.rev() {
            let (key, _) = entry?;
            let row = self.requisition(RequisitionSlot(key.value().1))?;
            if row.as_ref().is_some_and(|row| row.status == RequisitionStatus::Approved) {
                return Ok(row);
            }
        }
        Ok(None)
    }

    /// Lists requisitions of a company.
    pub fn list_requisitions(
        &self,
        company: CompanySlot,
        filter: &RequisitionFilter,
        page: &Page,
    ) -> Result<Listed<Requisition>, StoreError> {
        let list = match (filter.card, filter.member) {
            (Some(card), _) => (CARD_REQUISITIONS, slots_of(card.0)),
            (None, Some(member)) => (MEMBER_REQUISITIONS, slots_of(member.0)),
            (None, None) => (COMPANY_REQUISITIONS, slots_of(company.0)),
        };
        let accepts = |row: &Requisition| {
            row.company == company
                && filter.member.is_none_or(|member| row.member == member)
                && (filter.statuses.is_empty() || filter.statuses.contains(&row.status))
        };
        self.list_rows(list, &REQUISITIONS, page, accepts)
    }

    /// What was changed by hand on a transaction.
    pub fn transaction_tags(&self, seq: TransactionSeq) -> Result<Option<TagChanges>, StoreError> {
        self.find(&TRANSACTION_TAGS, seq.0)
    }

    /// Hands what was changed by hand on each transaction to `visit`, the oldest first.
    pub fn each_transaction_tags(
        &self,
        mut visit: impl FnMut(TransactionSeq, TagChanges),
    ) -> Result<(), StoreError> {
        self.each(&TRANSACTION_TAGS, |seq, tags| visit(TransactionSeq(seq), tags))
    }

    /// How a company's members sign on, where that is elsewhere.
    pub fn company_sso(&self, company: CompanySlot) -> Result<Option<SingleSignOn>, StoreError> {
        self.find(&COMPANY_SSO, company.0)
    }

    /// What was answered under an idempotency key, if that was not let go of yet.
    pub fn keyed_answer(&self, key: &[u8; 32]) -> Result<Option<KeyedAnswer>, StoreError> {
        self.find(&KEYED_ANSWERS, *key)
    }

    pub(super) fn list_rows<K, T>(
        &self,
        (list, range): (TableDefinition<'_, K, ()>, RangeInclusive<K>),
        table: &RowTable<u32, T>,
        page: &Page,
        accepts: impl Fn(&T) -> bool,
    ) -> Result<Listed<T>, StoreError>
    where
        K: Key + EndsInSlot + 'static,
        for<'a> K: Value<SelfType<'a> = K>,
        T: DeserializeOwned + Made,
    {
        let rows = self.table(table.definition())?;
        list::filter_page(self.table(list)?.range(range)?, page, |key| {
            let slot = key.slot();
            let row = super::find(table, &rows, slot)?.ok_or_else(|| StoreError::Inconsistent {
                what: format!("{} has no row {slot}", table.name()),
            })?;
            let is_within = page.created_after.is_none_or(|after| row.made_at() >= after)
                && page.created_before.is_none_or(|before| row.made_at() < before);
            Ok((is_within && accepts(&row)).then_some(row))
        })
    }
}

pub(super) fn slots_of(owner: u32) -> RangeInclusive<(u32, u32)> {
    (owner, 0)..=(owner, u32::MAX)
}

/// A key of a list, which leads to the row of a slot.
pub(super) trait EndsInSlot: Copy {
    fn slot(self) -> u32;
}

impl EndsInSlot for (u32, u32) {
    fn slot(self) -> u32 {
        self.1
    }
}

impl EndsInSlot for (u32, u8, u32) {
    fn slot(self) -> u32 {
        self.2
    }
}

/// A row that was made at an instant, which lists are bounded by.
pub(super) trait Made {
    fn made_at(&self) -> Timestamp;
}

macro_rules! made {
    ($($row:ty),*) => {$(
        impl Made for $row {
            fn made_at(&self) -> Timestamp {
                self.created_at
            }
        }
    )*};
}
made!(App, Dimension, Member, SharedLink, Requisition, WebhookEndpoint);
