//! What the engine is asked, in a form that can be compared: all that a command of a message says, but for the PIN and
//! the CVV that a chip stands for, which depend on the keys of the moment.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::{
    AdviceOutcome, AuthorizationKind, Authorize, CardRef, MessageAmounts, NetworkCommand,
    OriginalRef, PartialApproval, Present, PresentmentNumber, PurchaseFacts, ReversalAmount,
    ReversalKind, Reverse,
};
use cardswitch_engine::domain::credential::{
    CredentialComparison, CredentialPresence, Cvv, ExpiryMonth, PackedZip, PinVerifier,
    PresentedCredentials, PresentedValue,
};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::merchant::Merchant;
use cardswitch_engine::domain::network_key::{Fingerprint, NetworkTrace};

use crate::samples::DOLLAR;

/// The kind of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QuestionKind {
    Authorization(AuthorizationKind, PartialApproval),
    /// More on a purchase that holds something; if there is none, a purchase.
    Increment(PartialApproval),
    Inquiry,
    /// Whether it is about cash.
    Advice(AdviceOutcome, bool),
    Presentment(PresentmentNumber),
    Refund,
    Reversal(ReversalKind, ReversalAmount),
}

/// What the engine is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Question {
    pub(super) kind: QuestionKind,
    pub(super) card: CardRef,
    /// None of a reversal and an inquiry.
    pub(super) purchase: Option<AskedPurchase>,
    /// None of a question that cannot be about another message.
    pub(super) original: Option<OriginalRef>,
    pub(super) fingerprint: Fingerprint,
    /// None of a question that has no credentials.
    pub(super) credentials: Option<Credentials>,
}

/// A purchase, as a question has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AskedPurchase {
    pub(super) amounts: MessageAmounts,
    pub(super) merchant: Merchant,
    pub(super) trace: NetworkTrace,
}

/// Credentials that a question has, with what the card's own is beside the CVV. The value of a PIN is beside them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Credentials {
    pub(super) expiry: Option<ExpiryMonth>,
    pub(super) cvv: Option<ShownCvv>,
    pub(super) zip: Option<PackedZip>,
    pub(super) pin: Option<PinVerifier>,
}

/// A CVV and that of its card. Its `Debug` tells only whether they agree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ShownCvv {
    pub(super) shown: Cvv,
    pub(super) own: Cvv,
}

impl std::fmt::Debug for ShownCvv {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = match (self.shown == Cvv::NONE, self.shown == self.own) {
            (true, _) => "none",
            (false, true) => "right",
            (false, false) => "wrong",
        };
        formatter.write_str(word)
    }
}

impl Question {
    /// The question of a command.
    /// Panics: it is of no message, or says one thing twice in two ways.
    pub(super) fn of(command: &Command) -> Self {
        let Command::Network(request) = command else { panic!("{command:?} is of no message") };
        let fingerprint = request.fingerprint.unwrap();
        let question = |kind, card| Self {
            kind,
            card,
            purchase: None,
            original: None,
            fingerprint,
            credentials: None,
        };
        let about = |kind, facts: &PurchaseFacts, original: Option<&OriginalRef>| Self {
            purchase: Some(purchase_of(facts)),
            original: original.copied(),
            ..question(kind, facts.card)
        };
        match &request.command {
            NetworkCommand::Authorize(authorize) => {
                let kind = QuestionKind::Authorization(authorize.kind, authorize.partial);
                let credentials = Some(credentials_of(&authorize.credentials));
                Self { credentials, ..about(kind, &authorize.facts, None) }
            }
            NetworkCommand::Increment(increment) => {
                let otherwise = increment.otherwise.as_deref().unwrap();
                let Authorize { facts, kind, credentials, partial } = otherwise;
                assert_eq!(*kind, AuthorizationKind::Purchase, "of an increment otherwise");
                assert_eq!(increment.own_key, facts.trace.original_key, "of an increment");
                let whole = (Some(facts.card), facts.amounts, facts.merchant.mcc);
                assert_eq!((increment.card, increment.amounts, increment.mcc), whole);
                let credentials = credentials_of(credentials);
                assert_eq!(credentials_of(&increment.credentials), credentials);
                let kind = QuestionKind::Increment(*partial);
                let credentials = Some(credentials);
                Self { credentials, ..about(kind, facts, Some(&increment.original)) }
            }
            NetworkCommand::InquireBalance(inquiry) => Self {
                credentials: Some(credentials_of(&inquiry.credentials)),
                ..question(QuestionKind::Inquiry, inquiry.card)
            },
            NetworkCommand::Advise(advise) => {
                let kind = QuestionKind::Advice(advise.outcome, advise.is_cash);
                about(kind, &advise.facts, Some(&advise.original))
            }
            NetworkCommand::Present(Present { facts, amounts, original, number }) => {
                let facts = facts.as_ref().unwrap();
                assert_eq!(*amounts, Some(facts.amounts), "of a presentment");
                about(QuestionKind::Presentment(*number), facts, Some(original))
            }
            NetworkCommand::Refund(refund) => {
                about(QuestionKind::Refund, &refund.facts, Some(&refund.original))
            }
            NetworkCommand::Reverse(Reverse { card, original, amount, kind }) => Self {
                original: Some(*original),
                ..question(QuestionKind::Reversal(*kind, *amount), card.unwrap())
            },
            NetworkCommand::Transfer(_) | NetworkCommand::ConcludeTransfer(_) => {
                panic!("{command:?} is of no message")
            }
        }
    }

    /// The same without the credentials that depend on keys, and these.
    pub(super) fn split(mut self) -> (Self, Option<ShownCvv>, Option<PinVerifier>) {
        let credentials = self.credentials.as_mut();
        let (cvv, pin) = credentials
            .map(|credentials| (credentials.cvv.take(), credentials.pin.take()))
            .unwrap_or_default();
        (self, cvv, pin)
    }

    /// Whether the purchase is in another currency than the account.
    pub(super) fn is_foreign(&self) -> bool {
        let currency = self.purchase.as_ref().and_then(|purchase| purchase.amounts.currency);
        currency.is_some_and(|currency| currency != DOLLAR)
    }
}

fn purchase_of(facts: &PurchaseFacts) -> AskedPurchase {
    let PurchaseFacts { card: _, amounts, merchant, trace } = facts;
    AskedPurchase { amounts: *amounts, merchant: merchant.clone(), trace: trace.clone() }
}

fn credentials_of(presented: &PresentedCredentials) -> Credentials {
    let PresentedCredentials { expiry, cvv, pin, zip } = presented;
    Credentials {
        expiry: expiry.map(value_of),
        cvv: cvv.map(value_of).map(|pair| ShownCvv { shown: pair.shown, own: pair.own }),
        zip: zip.map(value_of),
        pin: pin.map(value_of),
    }
}

/// A credential, which only a comparison reads.
fn value_of<T: Copy>(presented: PresentedValue<T>) -> T {
    let mut comparison = CredentialComparison::open(None, Timestamp(0)).unwrap();
    let mut found = None;
    comparison.differs(CredentialPresence::default(), Some(presented), |value| {
        found = Some(value);
        true
    });
    found.unwrap()
}
