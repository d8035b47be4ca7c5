//! The search for what a message names, among everything that the model knows.

use cardswitch_engine::command::network::{CardRef, OriginalRef, ReversalAmount};
use cardswitch_engine::domain::ids::{AccountId, Timestamp, TransactionId, TransactionSeq};
use cardswitch_engine::domain::network_key::{
    MessageClass, NetworkTrace, OriginalKey, RetrievalKey,
};
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

    /// The newest purchase with this key; neither a refund nor a check of the card ever takes its name.
    fn find_by_key<K: PartialEq>(
        &self,
        key_of: impl Fn(&Purchase) -> Option<K>,
        wanted: Option<K>,
    ) -> Option<usize> {
        wanted.as_ref()?;
        let mut found = None;
        for (at, purchase) in self.purchases.iter().enumerate() {
            let yields =
                matches!(purchase.kind, TransactionKind::Refund | TransactionKind::Verification);
            if key_of(purchase) == wanted && !(yields && found.is_some()) {
                found = Some(at);
            }
        }
        found
    }

    /// What the last reversal that came before a purchase with these marks asks back.
    pub(super) fn asked_before(
        &self,
        trace: &NetworkTrace,
        class: MessageClass,
    ) -> Option<ReversalAmount> {
        self.last_early(|early| {
            let marks = (trace.original_key, trace.retrieval_key);
            early.names_message(marks, class)
                || early.original_key.is_none() && names(early.retrieval_key, trace.retrieval_key)
        })
    }

    /// The same of one message, which its own key names, or a vaguer one with its purchase's reference.
    pub(super) fn asked_before_message(
        &self,
        marks: (Option<OriginalKey>, Option<RetrievalKey>),
        class: MessageClass,
    ) -> Option<ReversalAmount> {
        self.last_early(|early| early.names_message(marks, class))
    }

    fn last_early(&self, is_meant: impl Fn(&UnmatchedReversal) -> bool) -> Option<ReversalAmount> {
        self.early.iter().rev().find(|early| is_meant(early)).map(|early| early.asked)
    }
}

/// Whether a key is named: nothing names a message that has none.
fn names<K: PartialEq>(named: Option<K>, own: Option<K>) -> bool {
    own.is_some() && named == own
}

impl UnmatchedReversal {
    fn names_message(
        &self,
        (key, reference): (Option<OriginalKey>, Option<RetrievalKey>),
        class: MessageClass,
    ) -> bool {
        let is_meant = match self.retrieval_key {
            None => names(self.original_key, key),
            Some(_) => {
                let keys = self.original_key.zip(key);
                names(self.retrieval_key, reference)
                    && keys.is_some_and(|(named, own)| named.may_mean(own))
            }
        };
        is_meant && self.class.is_none_or(|named| named == class)
    }
}
