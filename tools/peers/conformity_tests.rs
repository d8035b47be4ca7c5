//! Cardswitch passes the check that peers have to pass, on the engine's own shard.

use cardswitch_benches::program::{self, BareShard, START, founding};
use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::{AuthorizationKind, CardRef, NetworkCommand};
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::domain::allowance::{AllowanceTerms, Scope};
use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::card::{MaskedPan, PanHash};
use cardswitch_engine::domain::credential::{
    Cvv, CvvPair, ExpiryMonth, PackedZip, PinVerifier, PresentedCredentials, PresentedValue,
};
use cardswitch_engine::domain::ids::{AccountSlot, CardSlot, Timestamp, TransactionSeq};
use cardswitch_engine::domain::merchant::Mcc;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::network_key::{DuplicateKey, TraceKey};

use super::*;
use crate::peers::closed_loop::PeerFigures;
use crate::peers::peer::Load;

#[test]
fn cardswitch_itself_answers_as_peers_have_to() {
    let mut peer = Shard { shard: BareShard::empty(), cards: 0, drained: 0, answered: 0 };
    assert_eq!(check(&mut peer, START.0).unwrap(), ROWS.len());
}

/// A peer that answers one code to everything does not pass.
#[test]
fn a_wrong_answer_is_found() {
    struct Approver;

    impl Peer for Approver {
        fn found(&mut self, _: &Program) -> Outcome<()> {
            Ok(())
        }

        fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>> {
            let approved = Verdict {
                transaction: Some(1),
                response_code: 0,
                failed_rules: 0,
                allowance_balance: 0,
            };
            Ok(vec![approved; batch.len()])
        }

        fn connections(&self) -> &'static [usize] {
            &[1]
        }

        fn measure(&mut self, _: Load) -> Outcome<PeerFigures> {
            Ok(PeerFigures::default())
        }

        fn crash(&mut self) -> Outcome<()> {
            Ok(())
        }

        fn books(&mut self) -> Outcome<Books> {
            Ok(Books::default())
        }

        fn durability(&mut self) -> Outcome<String> {
            Ok(String::new())
        }
    }

    let error = check(&mut Approver, START.0).unwrap_err().to_string();
    assert!(error.starts_with("terminated: "), "{error}");
}

/// The engine's shard without a journal, as a peer.
struct Shard {
    shard: BareShard,
    cards: u32,
    /// Held beforehand on a card of its own, so that the account has what the program says.
    drained: i64,
    answered: u64,
}

impl Shard {
    /// The stream's command, with everything in it that the purchase says.
    fn command(&self, purchase: &Purchase) -> Command {
        let mut command = program::Purchases::new(1, 1).next_command();
        let Command::Network(request) = &mut command else { unreachable!() };
        let NetworkCommand::Authorize(authorize) = &mut request.command else { unreachable!() };
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
        let fingerprint = request.fingerprint.as_mut().unwrap();
        fingerprint.key = DuplicateKey(purchase.network_key);
        fingerprint.trace = Some(TraceKey(purchase.network_key));
        command
    }

    fn issue(&mut self, mut command: Command, card: &Card) {
        let Command::Admin(admin) = &mut command else { unreachable!() };
        let AdminCommand::Card(CardCommand::Issue(new)) = &mut **admin else { unreachable!() };
        new.pan_hash = PanHash(card.pan_hash);
        new.pin = PinVerifier(card.pin.unwrap_or(0));
        new.zip = card.zip.map(PackedZip::pack).unwrap_or_default();
        new.expires_on = BusinessDate(card.expires_on);
        new.order.terms = terms_of(card);
        // No timer runs here; the answer is the one of the instant before it does.
        let is_timed = card.is_ended && card.ends_at.is_some();
        new.state = if is_timed { CardState::Active } else { card.state };
        let reply = self.shard.take(&command);
        assert!(matches!(reply, Reply::Done(_)), "{reply:?}");
        self.cards += 1;
    }
}

fn terms_of(card: &Card) -> AllowanceTerms {
    AllowanceTerms {
        daily_limit: card.daily_limit.map_or(Minor::UNLIMITED, Minor),
        transaction_limit: card.transaction_limit.map_or(Minor::UNLIMITED, Minor),
        starts_at: card.starts_at.map_or(Timestamp::MIN, Timestamp),
        ends_at: card.ends_at.map_or(Timestamp::MAX, Timestamp),
        scope: Scope::new(&card.scope).unwrap(),
        interval: card.interval,
        single_use: card.single_use,
        ..AllowanceTerms::budget(Minor(card.budget))
    }
}

/// The part of a public id that differs from one transaction to the next.
fn low_bits(id: u128) -> i64 {
    i64::try_from(id & u128::from(i64::MAX.unsigned_abs())).unwrap()
}

impl Peer for Shard {
    fn found(&mut self, program: &Program) -> Outcome<()> {
        let drain =
            Card { budget: Minor::AMOUNT_MAX.0, transaction_limit: None, ..ordinary(5_000) };
        let cards: Vec<&Card> = program.cards.iter().chain([&drain]).collect();
        let one_company = program::Program::of_one_company(cards.len() as u64);
        let mut issue = founding(one_company, program::pan_hash);
        let company = issue.next().expect("a program begins with its company");
        assert!(matches!(self.shard.take(&company), Reply::Done(_)));
        for (command, card) in issue.zip(cards) {
            self.issue(command, card);
        }
        self.drained = Minor::AMOUNT_MAX.0 - program.opening_balance;
        let purchase = Purchases::new(1, 1).next_purchase();
        let amount_minor = self.drained;
        let purchase = Purchase { pan_hash: drain.pan_hash, amount_minor, ..purchase };
        assert!(self.authorize(&[purchase])?[0].is_approved());
        Ok(())
    }

    fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>> {
        let verdict = |purchase: &Purchase| {
            self.answered += 1;
            let command = self.command(purchase);
            let reply = self.shard.take(&command);
            let Reply::Network(NetworkReply::Authorization(reply)) = reply else {
                return fail(format!("{reply:?}"));
            };
            let bits = reply.failed_rules.iter().map(|rule| 1 << rule as u32);
            Ok(Verdict {
                transaction: reply.transaction.map(|id| low_bits(id.0.as_u128())),
                response_code: reply.response_code.number(),
                failed_rules: bits.sum(),
                allowance_balance: reply.allowance_balance.0,
            })
        };
        batch.iter().map(verdict).collect()
    }

    fn connections(&self) -> &'static [usize] {
        &[1]
    }

    fn measure(&mut self, _: Load) -> Outcome<PeerFigures> {
        Ok(PeerFigures::default())
    }

    fn crash(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn books(&mut self) -> Outcome<Books> {
        let state = &self.shard.state;
        let spent = |card| state.card(CardSlot(card)).usage.spent.0;
        let holds = |seq| Some(state.transaction(TransactionSeq(seq))?.progress.held.total().0);
        let held: Vec<i64> =
            (1..=self.answered).filter_map(holds).filter(|held| *held > 0).collect();
        Ok(Books {
            account_held_minor: state.balances(AccountSlot(0)).held.0 - self.drained,
            cards_spent_minor: (0..self.cards).map(spent).sum::<i64>() - self.drained,
            transactions_held_minor: held.iter().sum::<i64>() - self.drained,
            transactions_held: held.len() as u64 - 1,
        })
    }

    fn durability(&mut self) -> Outcome<String> {
        Ok(String::new())
    }
}
