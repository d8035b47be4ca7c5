//! cardswitch's own shard, without a journal: peers have to answer as it does.

use cardswitch_benches::program::{self, BareShard, founding};
use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::{AuthorizationKind, CardRef, NetworkCommand};
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::domain::card::{CardState, MaskedPan, PanHash};
use cardswitch_engine::domain::company::Address;
use cardswitch_engine::domain::credential::{
    Cvv, CvvPair, ExpiryMonth, PackedZip, PinVerifier, PresentedCredentials, PresentedValue,
};
use cardswitch_engine::domain::ids::{AccountSlot, CardSlot, TransactionSeq};
use cardswitch_engine::domain::merchant::Mcc;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::network_key::{DuplicateKey, TraceKey};
use cardswitch_engine::domain::text::LineText;
use cardswitch_tools::{Outcome, fail};

use super::peer::Books;
use super::program::{Card, Program, Purchase, Verdict};

/// The shard, and what it was asked.
pub(crate) struct Shard {
    shard: BareShard,
    cards: u32,
    answered: u64,
}

impl Shard {
    /// A shard without anything.
    pub(crate) fn empty() -> Self {
        Self { shard: BareShard::empty(), cards: 0, answered: 0 }
    }

    fn carry_out(&mut self, command: &Command) -> Outcome<()> {
        match self.shard.take(command) {
            Reply::Done(_) => Ok(()),
            reply => fail(format!("cardswitch answers {reply:?}")),
        }
    }

    fn answer(&mut self, purchase: &Purchase) -> Outcome<Verdict> {
        self.answered += 1;
        let reply = self.shard.take(&command_of(purchase)?);
        let Reply::Network(NetworkReply::Authorization(reply)) = reply else {
            return fail(format!("cardswitch answers {reply:?}"));
        };
        // The part of a public id that differs from one transaction to the next.
        let low_bits = |id: u128| i64::try_from(id & u128::from(i64::MAX.unsigned_abs()));
        let transaction = reply.transaction.map(|id| low_bits(id.0.as_u128())).transpose()?;
        Ok(Verdict {
            transaction,
            response_code: reply.response_code.number(),
            failed_rules: reply.failed_rules.bits(),
            allowance_balance: reply.allowance_balance.0,
        })
    }

    /// Founds a program.
    pub(crate) fn found(&mut self, program: &Program) -> Outcome<()> {
        let one_company = program::Program::of_one_company(program.cards.len() as u64);
        let mut commands = founding(one_company, program::pan_hash);
        let mut company = commands.next().ok_or("a program begins with its company")?;
        if let Command::Admin(admin) = &mut company
            && let AdminCommand::Company(CompanyCommand::Create(new)) = &mut **admin
        {
            new.account.opening_balance = Minor(program.opening_balance);
        }
        self.carry_out(&company)?;
        for (mut command, card) in commands.zip(&program.cards) {
            issue(&mut command, card)?;
            self.carry_out(&command)?;
            self.cards += 1;
        }
        Ok(())
    }

    /// Authorizes these purchases, one after the other.
    pub(crate) fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>> {
        batch.iter().map(|purchase| self.answer(purchase)).collect()
    }

    /// Sums up what is held.
    pub(crate) fn books(&self) -> Books {
        let state = &self.shard.state;
        let spent = |card| state.card(CardSlot(card)).usage.spent.0;
        let holds = |seq| Some(state.transaction(TransactionSeq(seq))?.progress.held.total().0);
        // The first transaction is the opening balance.
        let all = (1..=1 + self.answered).filter_map(holds);
        let held: Vec<i64> = all.filter(|held| *held > 0).collect();
        Books {
            account_held_minor: state.balances(AccountSlot(0)).held.0,
            cards_spent_minor: (0..self.cards).map(spent).sum(),
            transactions_held_minor: held.iter().sum(),
            transactions_held: held.len() as u64,
        }
    }
}

/// The stream's command, with everything in it that the purchase says.
fn command_of(purchase: &Purchase) -> Outcome<Command> {
    let mut command = program::Purchases::new(1, 1).next_command();
    let Command::Network(request) = &mut command else { return fail("a purchase is a message") };
    if let Some(fingerprint) = &mut request.fingerprint {
        fingerprint.key = DuplicateKey(purchase.network_key);
        fingerprint.trace = Some(TraceKey(purchase.network_key));
    }
    let NetworkCommand::Authorize(authorize) = &mut request.command else {
        return fail("a purchase is an authorization");
    };
    authorize.facts.card = CardRef::Pan(PanHash(purchase.pan_hash), MaskedPan::default());
    authorize.facts.amounts.amount = Minor(purchase.amount_minor);
    authorize.facts.merchant.mcc = Some(Mcc(purchase.mcc));
    if purchase.is_cash {
        authorize.kind = AuthorizationKind::Cash;
    }
    let own = Cvv::parse(b"123");
    let cvv = |matches| CvvPair { shown: if matches { own } else { Cvv::NONE }, own };
    authorize.credentials = PresentedCredentials {
        expiry: purchase.expiry.map(ExpiryMonth).map(PresentedValue::new),
        cvv: purchase.cvv_matches.map(cvv).map(PresentedValue::new),
        pin: purchase.pin.map(PinVerifier).map(PresentedValue::new),
        zip: purchase.zip.map(PackedZip::pack).map(PresentedValue::new),
    };
    Ok(command)
}

/// Turns the order of an ordinary card into that of another.
fn issue(command: &mut Command, card: &Card) -> Outcome<()> {
    let Command::Admin(admin) = command else { return fail("a card is issued by a command") };
    let AdminCommand::Card(CardCommand::Issue(new)) = &mut **admin else {
        return fail("cards come after their company");
    };
    new.pan_hash = PanHash(card.pan_hash);
    new.pin = PinVerifier(card.pin.unwrap_or(0));
    let zip_code = LineText::spaced(card.zip.unwrap_or_default());
    new.order.billing_address = Some(Address { zip_code, ..Address::default() });
    (new.expires_on, new.order.terms) = (card.expires_on, card.terms);
    // No timer runs here; the answer is the one of the instant before it does.
    let [.., ends_at] = card.bounds();
    let is_timed = card.is_ended && ends_at.is_some();
    new.state = if is_timed { CardState::Active } else { card.state };
    Ok(())
}
