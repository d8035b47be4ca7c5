//! Draws the messages after purchases: increments, reversals, presentments, refunds and advices.

use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, Authorize, CardRef, Increment, NetworkCommand,
    NetworkRequest, OriginalRef, PartialApproval, Present, PresentmentNumber, PurchaseFacts,
    Refund, ReversalAmount, ReversalKind, Reverse,
};
use cardswitch_engine::domain::card::MaskedPan;
use cardswitch_engine::domain::credential::PresentedCredentials;
use cardswitch_engine::domain::ids::TransactionSeq;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::network_key::{MessageClass, RetrievalKey};
use cardswitch_engine::domain::transaction::TransactionState;
use cardswitch_engine::shard::authorization_id_of;

use super::{EARLY, Workload, traced};
use crate::model::Model;
use crate::rng::Rng;
use crate::samples::{original_key, without_time};

impl Workload {
    pub(crate) fn draw_increment(&mut self, model: &Model) -> Increment {
        let (original, card, _) = self.draw_original(model);
        let of_whom = match card {
            Some(card) => card,
            None => self.draw_card_ref(model),
        };
        let facts = self.draw_facts(model, of_whom);
        let otherwise = self.rng.chance(50).then(|| Box::new(self.draw_authorize(model)));
        let own = otherwise.as_ref().map_or(&facts, |otherwise| &otherwise.facts);
        Increment {
            own_key: own.trace.original_key,
            card: card.filter(|_| self.rng.chance(80)),
            amounts: facts.amounts,
            mcc: facts.merchant.mcc.filter(|_| self.rng.chance(60)),
            credentials: self.draw_credentials(model, Some(of_whom)),
            original,
            otherwise,
        }
    }

    pub(crate) fn draw_reverse(&mut self, model: &Model) -> Reverse {
        let mut more = Rng::new(self.rng.clone().number() ^ 0x0001_A7E2);
        let before = self.early_mark;
        let (mut original, card, found) = self.draw_original(model);
        // Some messages are reversed twice and more before they come.
        if found.is_none() && more.chance(30) {
            self.early_mark = before;
            original.original_key = Some(original_key(before));
        }
        if found.is_none() && more.chance(30) {
            original.original_key = original.original_key.map(without_time);
            original.retrieval_key = Some(RetrievalKey(self.early_mark));
        }
        // About a later message of the purchase, or about one that it has not had.
        let shares_a_mark = original.transaction.is_some()
            || original.authorization_id.is_some()
            || original.retrieval_key.is_some();
        let later = found.map(|at| model.keys_after(at)).unwrap_or_default();
        let found = found.map(|at| &model.purchases[at]);
        if shares_a_mark && more.chance(if later.is_empty() { 12 } else { 50 }) {
            let drawn = match later.is_empty() || more.chance(10) {
                true if more.chance(50) => original_key(self.early_mark),
                true => original_key(u64::MAX - more.below(1_000)),
                false => more.pick(&later),
            };
            let own = found.and_then(|found| found.original_key).filter(|_| more.chance(50));
            original.original_key = Some(match more.chance(30) {
                true => without_time(own.unwrap_or(drawn)),
                false => drawn,
            });
        }
        if let Some(reference) = draw_declined(&mut more, model, 5) {
            original = OriginalRef { retrieval_key: Some(reference), ..OriginalRef::default() };
        }
        if original.original_key.is_some() && more.chance(50) {
            let classes = [MessageClass::Authorization, MessageClass::Financial];
            original.class = Some(more.pick(&classes));
        }
        let (open, foreign) = found
            .map_or((500, None), |found| (found.held().max(found.posted.abs()), found.foreign));
        let part = Minor(self.rng.between(0, open.clamp(1, 1 << 40)));
        let amount = match self.rng.below(100) {
            0..45 => ReversalAmount::Full,
            45..62 => ReversalAmount::GiveBack(part),
            62..80 => ReversalAmount::Remaining(part),
            80..92 => ReversalAmount::RemainingOriginal(foreign.map_or(part, |foreign| {
                Minor(self.rng.between(0, foreign.amount.0.clamp(1, 1 << 40)))
            })),
            92..94 => ReversalAmount::GiveBack(Minor(open + 1)),
            94..96 => ReversalAmount::Remaining(Minor(open + 1)),
            96 => ReversalAmount::GiveBack(Minor(-1)),
            97 => ReversalAmount::Remaining(Minor(i64::MIN)),
            98 => ReversalAmount::RemainingOriginal(Minor(-1)),
            _ => ReversalAmount::RemainingOriginal(Minor(i64::MAX)),
        };
        let kind = if self.rng.chance(50) { ReversalKind::Request } else { ReversalKind::Advice };
        let card = card.filter(|_| self.rng.chance(70));
        Reverse { card, original, amount, kind }
    }

    pub(crate) fn draw_present(&mut self, model: &Model) -> Present {
        let (original, card, found) = self.draw_original(model);
        let number = match self.rng.below(10) {
            0..6 => PresentmentNumber::ONLY,
            _ => {
                let count = self.rng.between(2, 3) as u8;
                PresentmentNumber { number: self.rng.between(1, 3) as u8, count }
            }
        };
        let held = found.map_or(500, |at| model.purchases[at].held());
        let amount = match self.rng.below(21) {
            0..8 => held,
            8..13 => self.rng.between(0, held.clamp(1, 1 << 40)),
            13..17 => held + self.rng.between(1, 2_000),
            17 => 0,
            // As once more.
            18 => found.map_or(500, |at| model.purchases[at].posted),
            19 => self.rng.between(1, 4_000),
            _ => -self.rng.between(1, 9),
        };
        let card = match card {
            Some(card) => card,
            None => self.draw_card_ref(model),
        };
        let mut facts = self.draw_facts(model, card);
        facts.amounts.amount = Minor(amount);
        self.name_by_early_mark(&mut facts);
        let amounts = facts.amounts;
        let has_facts = self.rng.chance(85);
        Present {
            facts: has_facts.then_some(facts),
            amounts: (!self.rng.chance(10)).then_some(amounts),
            original,
            number,
        }
    }

    /// Some postings and advices were reversed before they came, whole or in part: their mark was
    /// drawn for that already.
    fn name_by_early_mark(&self, facts: &mut PurchaseFacts) {
        if self.marks.is_multiple_of(8) {
            self.set_early_mark(facts);
        }
    }

    pub(super) fn set_early_mark(&self, facts: &mut PurchaseFacts) {
        facts.trace.original_key = Some(original_key(self.early_mark));
        if self.marks.is_multiple_of(2) {
            facts.trace.retrieval_key = Some(RetrievalKey(self.early_mark));
        }
    }

    pub(crate) fn draw_refund(&mut self, model: &Model) -> Refund {
        let (mut original, card, found) = self.draw_original(model);
        let card = match card {
            Some(card) => card,
            None => self.draw_card_ref(model),
        };
        let mut facts = self.draw_facts(model, card);
        let posted = found.map_or(0, |at| model.purchases[at].posted);
        if posted > 0 && self.rng.chance(70) {
            facts.amounts.amount = Minor(self.rng.between(0, posted + 10));
        }
        // Many a refund carries the retrieval reference of its purchase as its own.
        if let Some(at) = found.filter(|_| self.rng.chance(50)) {
            facts.trace.retrieval_key = model.purchases[at].retrieval_key;
        }
        self.name_by_early_mark(&mut facts);
        if self.rng.chance(30) {
            original = OriginalRef::default();
        }
        Refund { facts, original }
    }

    pub(crate) fn draw_advise(&mut self, model: &Model) -> Advise {
        let (mut original, card, found) = self.draw_original(model);
        let card = match card {
            Some(card) => card,
            None => self.draw_card_ref(model),
        };
        let mut facts = self.draw_facts(model, card);
        let is_pending = |at: usize| model.purchases[at].state == TransactionState::Pending;
        if found.is_some_and(is_pending) && self.rng.chance(60) {
            facts.amounts.amount = Minor(self.rng.between(-1, 9_000));
        } else if self.rng.chance(80) {
            original = OriginalRef::default();
        }
        self.name_by_early_mark(&mut facts);
        let declined = self.rng.chance(15);
        let outcome = if declined { AdviceOutcome::Declined } else { AdviceOutcome::Approved };
        let is_cash = Rng::new(self.rng.clone().number() ^ 0x00CA_5400).chance(20);
        let advise = Advise { facts, is_cash, outcome, original, request: None };
        self.stand_for_request(advise)
    }

    /// Some advices stand for a request: one that came, or one that comes behind them, or never.
    fn stand_for_request(&mut self, advise: Advise) -> Advise {
        let mut more = Rng::new(self.rng.clone().number() ^ 0x057A_4D15);
        let came = self.requests.iter().find_map(|request| match &request.command {
            NetworkCommand::Authorize(authorize) => Some((authorize, request.fingerprint?)),
            _ => None,
        });
        let came = came.filter(|(_, print)| print.trace.is_some());
        match (more.below(10), came) {
            (0..3, Some((authorize, print))) => {
                let facts = authorize.facts.clone();
                // Not every door knows the request's identity.
                let (request, original) = match more.chance(60) {
                    true => (Some(Box::new(print)), advise.original),
                    false => {
                        let retrieval_key = facts.trace.retrieval_key;
                        (None, OriginalRef { retrieval_key, ..OriginalRef::default() })
                    }
                };
                Advise { facts, request, original, ..advise }
            }
            (3..6, _) => {
                self.marks += 1;
                let request = traced(self.marks);
                let late = authorize(advise.facts.clone());
                let command = NetworkCommand::Authorize(late);
                self.requests.insert(0, NetworkRequest { command, fingerprint: Some(request) });
                Advise { request: Some(Box::new(request)), ..advise }
            }
            _ => advise,
        }
    }

    /// A purchase, likely still open; the names by which a message refers to it, and its card.
    fn draw_original(&mut self, model: &Model) -> (OriginalRef, Option<CardRef>, Option<usize>) {
        let mut named = OriginalRef::default();
        let count = model.purchases.len() as u64;
        if count == 0 || self.rng.chance(6) {
            self.early_mark = EARLY + self.marks;
            named.original_key = Some(original_key(self.early_mark));
            return (named, None, None);
        }
        let is_open = |at: &usize| model.purchases[*at].held() > 0;
        let open: Vec<_> = (0..model.purchases.len()).rev().filter(is_open).take(30).collect();
        let at = if self.rng.chance(65) && !open.is_empty() {
            self.rng.pick(&open)
        } else {
            let back = self.rng.below(count.min(60));
            (count - 1 - back) as usize
        };
        let purchase = &model.purchases[at];
        match self.rng.below(4) {
            0 => named.transaction = Some(model.id_of(at)),
            1 => named.authorization_id = Some(authorization_id_of(TransactionSeq(purchase.seq))),
            2 => named.original_key = purchase.original_key,
            _ => named.retrieval_key = purchase.retrieval_key,
        }
        let card = CardRef::Pan(model.cards[purchase.card].pan, MaskedPan::default());
        let card = if self.rng.chance(4) { self.draw_card_ref(model) } else { card };
        (named, Some(card), Some(at))
    }
}

/// Now and then the reference of a purchase that was declined not long ago.
pub(super) fn draw_declined(rng: &mut Rng, model: &Model, percent: u64) -> Option<RetrievalKey> {
    let declined = &model.declined_references;
    let newest = &declined[declined.len().saturating_sub(4)..];
    (rng.chance(percent) && !newest.is_empty()).then(|| rng.pick(newest))
}

fn authorize(facts: PurchaseFacts) -> Authorize {
    Authorize {
        facts,
        kind: AuthorizationKind::Purchase,
        credentials: PresentedCredentials::default(),
        partial: PartialApproval::NotTaken,
    }
}
