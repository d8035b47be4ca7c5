//! The search for what a message names, among everything that the model knows.

use cardswitch_engine::command::network::{CardRef, OriginalRef};
use cardswitch_engine::domain::ids::{AccountId, Timestamp, TransactionId, TransactionSeq};
use cardswitch_engine::domain::network_key::NetworkTrace;
use cardswitch_engine::domain::transaction::TransactionKind;

use super::{Model, Purchase, UnmatchedReversal};

impl Model {
    pub fn find_card(&self, named: CardRef) -> Option<usize> {
        self.cards.iter().position(|card| match named {
            CardRef::Pan(pan, _) => card.pan == pan,
            CardRef::Id(id) => card.id == id,
        })
    }

    /// Whether a card's purchases may be approved in part.
    pub fn allows_partial(&self, card: usize) -> bool {
        self.companies[self.cards[card].company].allows_partial
    }

    pub fn has_account(&self, id: AccountId) -> bool {
        self.companies.iter().any(|company| company.account_id == id)
    }

    pub fn id_of(&self, purchase: usize) -> TransactionId {
        let Purchase { seq, at, .. } = self.purchases[purchase];
        self.ids.transaction_id(Timestamp(at), TransactionSeq(seq))
    }

    /// The purchase a message names: by the first of the marks that leads anywhere.
    pub fn find_original(&self, card: Option<usize>, named: &OriginalRef) -> Option<usize> {
        let opened = named.transaction.and_then(|id| self.ids.open_transaction_id(id));
        let found = if let Some(seq) = opened {
            self.purchases.iter().position(|purchase| purchase.seq == seq.0)
        } else {
            self.find_by_authorization_id(card, named)
                .or_else(|| self.find_by_key(|p| p.original_key, named.original_key))
                .or_else(|| self.find_by_key(|p| p.retrieval_key, named.retrieval_key))
        };
        found.filter(|found| card.is_none_or(|card| self.purchases[*found].card == card))
    }

    fn find_by_authorization_id(&self, card: Option<usize>, named: &OriginalRef) -> Option<usize> {
        let (card, wanted) = (card?, named.authorization_id?);
        let id = |seq| cardswitch_engine::shard::authorization_id_of(TransactionSeq(seq));
        self.purchases.iter().position(|found| found.card == card && id(found.seq) == wanted)
    }

    /// The newest purchase with this key; a refund never takes the name of the purchase that it gives back.
    fn find_by_key<K: PartialEq>(
        &self,
        key_of: impl Fn(&Purchase) -> Option<K>,
        wanted: Option<K>,
    ) -> Option<usize> {
        wanted.as_ref()?;
        let mut found = None;
        for (at, purchase) in self.purchases.iter().enumerate() {
            let is_refund = purchase.kind == TransactionKind::Refund;
            if key_of(purchase) == wanted && !(is_refund && found.is_some()) {
                found = Some(at);
            }
        }
        found
    }

    pub(super) fn is_reversed_before(&self, trace: &NetworkTrace) -> bool {
        let is_named = |early: &UnmatchedReversal| {
            trace.retrieval_key.is_some() && early.retrieval_key == trace.retrieval_key
        };
        self.is_message_reversed_before(trace) || self.early.iter().any(is_named)
    }

    pub(super) fn is_message_reversed_before(&self, trace: &NetworkTrace) -> bool {
        let is_named = |early: &UnmatchedReversal| early.original_key == trace.original_key;
        trace.original_key.is_some() && self.early.iter().any(is_named)
    }
}
