//! Rows that people set up around cards: dimensions, shared links, requisitions, tags of
//! transactions, single sign-on, answers under idempotency keys, webhook endpoints, exchanged keys.

use super::list::{ListPage, Page};
use crate::directory::access_token::AccessToken;
use crate::directory::dimension::Dimension;
use crate::directory::exchanged_key::ExchangedKey;
use crate::directory::member::Member;
use crate::directory::requisition::{Requisition, RequisitionStatus};
use crate::directory::shared_link::SharedLink;
use crate::directory::webhook_endpoint::WebhookEndpoint;
use crate::domain::card::DimensionKind;
use crate::domain::company::SingleSignOn;
use crate::domain::ids::{
    AccessTokenId, AppSlot, CardSlot, CompanySlot, ExchangedKeyId, MemberSlot, TransactionSeq,
};
use crate::domain::keyed_answer::KeyedAnswer;
use crate::domain::transaction_tags::TagChanges;
use crate::store::error::StoreError;
use crate::store::query::Snapshot;
use crate::store::tables::{COMPANY_SSO, KEYED_ANSWERS, TRANSACTION_TAGS};

/// A filter for the requisitions of a company; absent parts match any.
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
    /// Lists a company's dimensions of a kind.
    pub fn list_dimensions(
        &self,
        company: CompanySlot,
        kind: DimensionKind,
        page: &Page,
    ) -> Result<ListPage<Dimension>, StoreError> {
        self.list_rows(&Dimension::OF_COMPANY, &(company, kind), page, |_| true)
    }

    /// Lists a company's members, without deleted ones.
    pub fn list_members(
        &self,
        company: CompanySlot,
        page: &Page,
        accepts: impl Fn(&Member) -> bool,
    ) -> Result<ListPage<Member>, StoreError> {
        self.list_rows(&Member::OF_COMPANY, &company, page, accepts)
    }

    /// A company's newest members, without deleted ones.
    /// Cost: O(limit) rows.
    pub fn newest_members(
        &self,
        company: CompanySlot,
        limit: usize,
    ) -> Result<Vec<Member>, StoreError> {
        self.rows_within(Member::OF_COMPANY.range(&company))?.rev().take(limit).collect()
    }

    /// Finds the shared link, not a deleted one, with this keyed hash.
    pub fn shared_link_by_key(&self, digest: [u8; 16]) -> Result<Option<SharedLink>, StoreError> {
        self.first_row(&SharedLink::BY_KEY, &digest)
    }

    /// The newest shared link of a card.
    pub fn shared_link_of_card(&self, card: CardSlot) -> Result<Option<SharedLink>, StoreError> {
        self.last_row(&SharedLink::OF_CARD, &card, |_| true)
    }

    /// Lists a company's shared links, or those of one of its cards, without deleted ones.
    pub fn list_shared_links(
        &self,
        company: CompanySlot,
        card: Option<CardSlot>,
        page: &Page,
    ) -> Result<ListPage<SharedLink>, StoreError> {
        let is_theirs = |row: &SharedLink| row.company == company;
        match card {
            Some(card) => self.list_rows(&SharedLink::OF_CARD, &card, page, is_theirs),
            None => self.list_rows(&SharedLink::OF_COMPANY, &company, page, is_theirs),
        }
    }

    /// Whether a company ever had a requisition.
    pub fn has_requisitions(&self, company: CompanySlot) -> Result<bool, StoreError> {
        Ok(self.first_row(&Requisition::OF_COMPANY, &company)?.is_some())
    }

    /// The newest approved requisition that a card fulfils.
    pub fn requisition_of_card(&self, card: CardSlot) -> Result<Option<Requisition>, StoreError> {
        let is_approved = |row: &Requisition| row.status == RequisitionStatus::Approved;
        self.last_row(&Requisition::OF_CARD, &card, is_approved)
    }

    /// Lists requisitions of a company.
    pub fn list_requisitions(
        &self,
        company: CompanySlot,
        filter: &RequisitionFilter,
        page: &Page,
    ) -> Result<ListPage<Requisition>, StoreError> {
        let accepts = |row: &Requisition| {
            row.company == company
                && filter.member.is_none_or(|member| row.member == member)
                && (filter.statuses.is_empty() || filter.statuses.contains(&row.status))
        };
        match (filter.card, filter.member) {
            (Some(card), _) => self.list_rows(&Requisition::OF_CARD, &card, page, accepts),
            (None, Some(member)) => self.list_rows(&Requisition::OF_MEMBER, &member, page, accepts),
            (None, None) => self.list_rows(&Requisition::OF_COMPANY, &company, page, accepts),
        }
    }

    /// The changes by hand of a transaction.
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

    /// The single sign-on of a company's members, if they sign on elsewhere.
    pub fn company_sso(&self, company: CompanySlot) -> Result<Option<SingleSignOn>, StoreError> {
        self.find(&COMPANY_SSO, company.0)
    }

    /// The answer under an idempotency key, unless it was removed.
    pub fn keyed_answer(&self, key: &[u8; 32]) -> Result<Option<KeyedAnswer>, StoreError> {
        self.find(&KEYED_ANSWERS, *key)
    }

    /// Every webhook endpoint of every company, in the order in which they were made, without deleted
    /// ones. Cost: O(endpoints that are not deleted).
    pub fn all_webhook_endpoints(&self) -> Result<Vec<WebhookEndpoint>, StoreError> {
        let rows = self.rows_within(WebhookEndpoint::OF_COMPANY.whole())?;
        let mut endpoints = rows.collect::<Result<Vec<WebhookEndpoint>, _>>()?;
        endpoints.sort_unstable_by_key(|row| row.slot);
        Ok(endpoints)
    }

    /// The companies of which an app holds an access token that is not revoked.
    /// Cost: O(companies).
    pub fn companies_of_app(&self, app: AppSlot) -> Result<Vec<CompanySlot>, StoreError> {
        let mut companies = Vec::new();
        let mut from = CompanySlot(0);
        loop {
            let entries = AccessToken::OF_APP.range_of(app, from);
            let Some(token) = self.rows_within::<AccessToken, _>(entries)?.next().transpose()?
            else {
                return Ok(companies);
            };
            companies.push(token.company);
            from = CompanySlot(token.company.0 + 1);
        }
    }

    /// The oldest of the access tokens that an app holds of a company; none where all are revoked.
    pub fn first_token_of_app(
        &self,
        app: AppSlot,
        company: CompanySlot,
    ) -> Result<Option<AccessTokenId>, StoreError> {
        let first: Option<AccessToken> = self.first_row(&AccessToken::OF_APP, &(app, company))?;
        Ok(first.map(|token| token.id))
    }

    /// The newest exchanged key of a door for a use.
    pub fn exchanged_key(
        &self,
        door: &str,
        usage: &str,
    ) -> Result<Option<ExchangedKey>, StoreError> {
        self.row_by_id(ExchangedKeyId::of(door, usage).0)
    }
}
