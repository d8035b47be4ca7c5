//! The follow-ups of an authorization: more of it, its settlement, its end, money back.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::{
    Authorize, Increment, NetworkCommand, NetworkRequest, OriginalRef, Present, PresentmentNumber,
    Refund, ReversalAmount, ReversalKind, Reverse,
};
use cardswitch_engine::command::reply::{NetworkReply, PostingOutcome, Reply, ReversalOutcome};
use cardswitch_engine::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, OriginalKey, RetrievalKey, TraceKey,
};

use super::mix;

/// A kind of command that names an authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowUp {
    /// As much again.
    Increment,
    /// All of it, at once.
    Presentment,
    /// All that is held.
    Reversal,
    /// All of it, after its presentment.
    Refund,
}

impl FollowUp {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Increment, Self::Presentment, Self::Reversal, Self::Refund];

    /// Its name in figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Increment => "increment",
            Self::Presentment => "presentment",
            Self::Reversal => "reversal",
            Self::Refund => "refund",
        }
    }

    /// The message that follows an authorization, which it names by its retrieval reference number.
    pub fn of(self, purchase: &Authorize) -> Command {
        let mut facts = purchase.facts.clone();
        let named =
            OriginalRef { retrieval_key: facts.trace.retrieval_key, ..OriginalRef::default() };
        // A message has marks of its own.
        let mark = mix(facts.trace.original_key.map_or(0, |key| key.0) ^ (1 << self as u8));
        facts.trace.original_key = Some(OriginalKey(mark));
        facts.trace.retrieval_key = Some(RetrievalKey(mix(mark)));
        let (card, amounts) = (facts.card, facts.amounts);
        let command = match self {
            Self::Increment => NetworkCommand::Increment(Increment {
                card: Some(card),
                amounts,
                mcc: facts.merchant.mcc,
                credentials: purchase.credentials,
                original: named,
                own_key: facts.trace.original_key,
                otherwise: None,
            }),
            Self::Presentment => NetworkCommand::Present(Present {
                facts: Some(facts),
                amounts: Some(amounts),
                original: named,
                number: PresentmentNumber::ONLY,
            }),
            Self::Reversal => NetworkCommand::Reverse(Reverse {
                card: Some(card),
                original: named,
                amount: ReversalAmount::Full,
                kind: ReversalKind::Request,
            }),
            Self::Refund => NetworkCommand::Refund(Refund { facts, original: named }),
        };
        let fingerprint = Some(Fingerprint {
            key: DuplicateKey(u128::from(mark)),
            trace: Some(TraceKey(u128::from(mark))),
            content: mark,
            window: DuplicateWindow::Day,
        });
        Command::Network(Box::new(NetworkRequest { command, fingerprint }))
    }
}

/// Whether a message of a purchase's life did what it asked for.
pub fn is_done(reply: &Reply) -> bool {
    match reply {
        Reply::Network(NetworkReply::Authorization(reply)) => reply.response_code.is_approved(),
        Reply::Network(NetworkReply::Reversal(reply)) => reply.outcome == ReversalOutcome::Reversed,
        Reply::Network(NetworkReply::Posting(reply)) => reply.outcome == PostingOutcome::Posted,
        _ => false,
    }
}
