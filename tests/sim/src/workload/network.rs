//! Draws the messages of the network: card, amount and credentials.

use cardswitch_engine::command::network::{
    AuthorizationKind, Authorize, CardRef, InquireBalance, MessageAmounts, NetworkCommand,
    PartialApproval, PurchaseFacts,
};
use cardswitch_engine::domain::card::MaskedPan;
use cardswitch_engine::domain::credential::{
    Cvv, CvvPair, ExpiryMonth, PackedZip, PinVerifier, PresentedCredentials, PresentedValue,
};
use cardswitch_engine::domain::merchant::Mcc;
use cardswitch_engine::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use chrono::Datelike;

use super::Workload;
use super::purchases::draw_declined;
use crate::model::Model;
use crate::rng::Rng;
use crate::samples::{DOLLAR, facts, pan};

const EURO: CurrencyCode = CurrencyCode(978);
/// The names of merchants; one is empty.
const MERCHANTS: [&str; 3] = ["A Restaurant", "A Hotel", ""];

impl Workload {
    pub(crate) fn draw_network(&mut self, model: &Model) -> NetworkCommand {
        match self.rng.below(100) {
            0..40 => NetworkCommand::Authorize(self.draw_authorize(model)),
            40..45 => NetworkCommand::Increment(self.draw_increment(model)),
            45 => NetworkCommand::Transfer(self.draw_transfer(model)),
            46..48 => NetworkCommand::ConcludeTransfer(self.draw_conclusion(model)),
            48..64 => NetworkCommand::Reverse(self.draw_reverse(model)),
            64..82 => NetworkCommand::Present(self.draw_present(model)),
            82..88 => NetworkCommand::Refund(self.draw_refund(model)),
            88..96 => NetworkCommand::Advise(self.draw_advise(model)),
            _ => NetworkCommand::InquireBalance(InquireBalance {
                card: self.draw_card_ref(model),
                credentials: self.draw_credentials(model, None),
            }),
        }
    }

    pub(crate) fn draw_authorize(&mut self, model: &Model) -> Authorize {
        let card = self.draw_card_ref(model);
        let kind = match self.rng.below(100) {
            0..78 => AuthorizationKind::Purchase,
            78..94 => AuthorizationKind::SingleMessage,
            94..98 => AuthorizationKind::Verification,
            _ => AuthorizationKind::Cash,
        };
        let mut facts = self.draw_facts(model, card);
        if kind == AuthorizationKind::Verification {
            facts.amounts = MessageAmounts { amount: Minor::ZERO, currency: None, billing: None };
        }
        // Some purchases were reversed before they came: their mark was drawn for that already.
        if self.rng.chance(6) {
            self.set_early_mark(&mut facts);
        }
        // Some are the next try of a purchase that was declined.
        let mut more = Rng::new(self.rng.clone().number() ^ 0x00DE_C11E);
        if let Some(reference) = draw_declined(&mut more, model, 5) {
            facts.trace.retrieval_key = Some(reference);
        }
        let credentials = self.draw_credentials(model, Some(card));
        let takes_partial = self.rng.chance(30);
        let partial =
            if takes_partial { PartialApproval::Taken } else { PartialApproval::NotTaken };
        Authorize { facts, kind, credentials, partial }
    }

    /// A card: a busy one, or any; sometimes by its id, seldom a card that does not exist.
    pub(crate) fn draw_card_ref(&mut self, model: &Model) -> CardRef {
        if self.rng.chance(1) {
            return pan(9_999_999);
        }
        if let Some((card, left)) = self.burst {
            self.burst = (left > 0).then(|| (card, left - 1));
            return card;
        }
        let count = model.cards.len() as u64;
        // The newest cards take their turn, since old ones expire and are terminated.
        let newest = self.rng.below(count.min(16)) + 1;
        let at = if self.rng.chance(60) { count - newest } else { self.rng.below(count) };
        let card = &model.cards[at as usize];
        let card = if self.rng.chance(10) {
            CardRef::Id(card.id)
        } else {
            CardRef::Pan(card.pan, MaskedPan::default())
        };
        if self.rng.chance(2) {
            self.burst = Some((card, self.rng.between(3, 12) as u64));
        }
        card
    }

    pub(crate) fn draw_facts(&mut self, model: &Model, card: CardRef) -> PurchaseFacts {
        self.marks += 1;
        let mut facts = facts(card, self.draw_amount(model, card), self.marks);
        let stays = [3501, 7011, 7512, 5411, 5541, 6011, 4111, 5999];
        if self.rng.chance(40) {
            facts.merchant.mcc = Some(Mcc(self.rng.pick(&stays)));
        } else if self.rng.chance(3) {
            facts.merchant.mcc = None;
        }
        if self.rng.chance(12) {
            facts.amounts = self.draw_foreign(facts.amounts.amount);
        }
        facts.merchant.name = MERCHANTS[self.marks as usize % MERCHANTS.len()].parse().unwrap();
        if self.rng.chance(10) {
            facts.trace.original_key = None;
        }
        if self.rng.chance(10) {
            facts.trace.retrieval_key = None;
        }
        facts
    }

    fn draw_amount(&mut self, model: &Model, card: CardRef) -> i64 {
        let known = model.cards.iter().position(|known| match card {
            CardRef::Pan(pan, _) => known.pan == pan,
            CardRef::Id(id) => known.id == id,
        });
        let edge = |amount: Minor| amount.0.clamp(0, 10_000_000);
        match (self.rng.below(100), known) {
            (0..3, _) => 0,
            (3..7, Some(card)) => {
                edge(Minor(model.allowance_balance(card))) + self.rng.between(0, 1)
            }
            (7..11, Some(card)) => {
                edge(model.cards[card].terms.transaction_limit) + self.rng.between(0, 1)
            }
            (11..14, Some(card)) => {
                let room = model.cards[card].terms.daily_limit.0 - model.day_spent(card);
                edge(Minor(room)) + self.rng.between(0, 1)
            }
            (14, _) => -self.rng.between(1, 5_000),
            (15, _) => Minor::AMOUNT_MAX.0 + self.rng.between(1, 5),
            _ => self.rng.between(1, 6_000),
        }
    }

    /// The amount is billed, or nothing; the merchant asks in euros, seldom in the currency that is billed.
    fn draw_foreign(&mut self, billed: Minor) -> MessageAmounts {
        let asked = Minor(billed.0.clamp(0, 1 << 40) * self.rng.between(70, 99) / 100);
        let billed = if self.rng.chance(4) { Minor::ZERO } else { billed };
        let currency = self.rng.pick(&[DOLLAR, DOLLAR, DOLLAR, DOLLAR, EURO]);
        let billing = CurrencyAmount { amount: billed, currency };
        let billing = (!self.rng.chance(5)).then_some(billing);
        let asked_in = if self.rng.chance(4) { DOLLAR } else { EURO };
        MessageAmounts { amount: asked, currency: Some(asked_in), billing }
    }

    pub(crate) fn draw_credentials(
        &mut self,
        model: &Model,
        card: Option<CardRef>,
    ) -> PresentedCredentials {
        let known = model.cards.iter().find(|known| match card {
            Some(CardRef::Pan(pan, _)) => known.pan == pan,
            Some(CardRef::Id(id)) => known.id == id,
            None => false,
        });
        let mut shown = PresentedCredentials::default();
        let is_wrong = |rng: &mut Rng| rng.chance(12);
        if self.rng.chance(30) {
            let right = known.map_or(2906, |card| {
                (card.expires_on.year() % 100) as u16 * 100 + card.expires_on.month() as u16
            });
            let wrong = u16::from(is_wrong(&mut self.rng));
            shown.expiry = Some(PresentedValue::new(ExpiryMonth(right + wrong)));
        }
        if self.rng.chance(25) {
            let wrong = u64::from(is_wrong(&mut self.rng));
            let pin = PinVerifier(known.map_or(5, |card| card.pin) + wrong);
            shown.pin = Some(PresentedValue::new(pin));
        }
        if self.rng.chance(25) {
            let wrong = is_wrong(&mut self.rng);
            let own = Cvv::parse(b"042");
            let cvv = CvvPair { shown: if wrong { Cvv::NONE } else { own }, own };
            shown.cvv = Some(PresentedValue::new(cvv));
        }
        if self.rng.chance(20) {
            let wrong = u64::from(is_wrong(&mut self.rng));
            let zip = PackedZip(known.map_or(0, |card| card.zip) + wrong);
            shown.zip = Some(PresentedValue::new(zip));
        }
        shown
    }
}
