//! A story that a test tells message by message: a company, a card, and what they are asked.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, Authorize, CardRef, Increment, NetworkCommand,
    OriginalRef, PartialApproval, Present, PresentmentNumber, PurchaseFacts, Refund,
    ReversalAmount, ReversalKind, Reverse,
};
use cardswitch_engine::command::reply::{
    AuthorizationReply, NetworkReply, PostingReply, Reply, ReversalReply,
};
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::credential::PresentedCredentials;
use cardswitch_engine::domain::ids::{AccountSlot, CardSlot, Timestamp};
use cardswitch_engine::domain::merchant::Mcc;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::shard::ShardState;

use crate::driver::Driver;
use crate::samples::{START, admin, facts, network, new_card, new_company, pan};

/// A shard with one company and one card, asked once a second.
pub(crate) struct Story {
    pub(crate) driver: Driver,
    pub(crate) at: i64,
}

impl Story {
    pub(crate) fn begin() -> Self {
        let mut story = Self { driver: Driver::new(ShardState::default()), at: START };
        let company = new_company(0, chrono_tz::UTC, 1_000_000, 0);
        story.run(&admin(AdminCommand::Company(CompanyCommand::Create(company))));
        let terms = AllowanceTerms::budget(Minor(100_000));
        story.run(&admin(AdminCommand::Card(CardCommand::Issue(new_card(1, 0, terms)))));
        story
    }

    pub(crate) fn run(&mut self, command: &Command) -> Reply {
        self.at += 1_000_000;
        self.driver.run(Timestamp(self.at), command)
    }

    pub(crate) fn authorize(
        &mut self,
        facts: PurchaseFacts,
        kind: AuthorizationKind,
    ) -> AuthorizationReply {
        let command = network(NetworkCommand::Authorize(Authorize { kind, ..purchase(facts) }));
        match self.run(&command) {
            Reply::Network(NetworkReply::Authorization(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn reverse(
        &mut self,
        original: OriginalRef,
        amount: ReversalAmount,
    ) -> ReversalReply {
        let card = Some(pan(1));
        let kind = ReversalKind::Request;
        self.reverse_with(Reverse { card, original, amount, kind })
    }

    pub(crate) fn reverse_with(&mut self, reverse: Reverse) -> ReversalReply {
        match self.run(&network(NetworkCommand::Reverse(reverse))) {
            Reply::Network(NetworkReply::Reversal(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn refund(&mut self, amount: i64, mark: u64, original: OriginalRef) -> PostingReply {
        let facts = facts(pan(1), amount, mark);
        self.posting(NetworkCommand::Refund(Refund { facts, original }))
    }

    pub(crate) fn posting(&mut self, command: NetworkCommand) -> PostingReply {
        match self.run(&network(command)) {
            Reply::Network(NetworkReply::Posting(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn present(&mut self, amount: i64, original: OriginalRef) -> PostingReply {
        self.present_part(facts(pan(1), amount, 90), original, PresentmentNumber::ONLY)
    }

    pub(crate) fn present_part(
        &mut self,
        facts: PurchaseFacts,
        original: OriginalRef,
        number: PresentmentNumber,
    ) -> PostingReply {
        let amounts = Some(facts.amounts);
        let facts = Some(facts);
        self.posting(NetworkCommand::Present(Present { facts, amounts, original, number }))
    }

    /// More for a purchase, by a message of its own.
    pub(crate) fn increment(
        &mut self,
        amount: i64,
        mark: u64,
        mcc: Option<Mcc>,
    ) -> AuthorizationReply {
        self.increment_by(facts(pan(1), amount, mark), mcc)
    }

    pub(crate) fn increment_by(
        &mut self,
        own: PurchaseFacts,
        mcc: Option<Mcc>,
    ) -> AuthorizationReply {
        let command = network(NetworkCommand::Increment(Increment {
            card: Some(pan(1)),
            amounts: own.amounts,
            mcc,
            credentials: PresentedCredentials::default(),
            original: by_retrieval(5),
            own_key: own.trace.original_key,
            otherwise: Some(Box::new(purchase(own))),
        }));
        match self.run(&command) {
            Reply::Network(NetworkReply::Authorization(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn advise(&mut self, amount: i64, outcome: AdviceOutcome) -> AuthorizationReply {
        self.advise_by(facts(pan(1), amount, 80), outcome)
    }

    pub(crate) fn advise_by(
        &mut self,
        facts: PurchaseFacts,
        outcome: AdviceOutcome,
    ) -> AuthorizationReply {
        let original = by_retrieval(5);
        match self.run(&network(NetworkCommand::Advise(Advise {
            facts,
            is_cash: false,
            outcome,
            original,
            request: None,
        }))) {
            Reply::Network(NetworkReply::Authorization(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn spent(&self) -> Minor {
        self.driver.state.card(CardSlot(0)).usage.spent
    }

    pub(crate) fn line_count(&self) -> u64 {
        self.driver.state.balances(AccountSlot(0)).line_count
    }
}

pub(crate) fn purchase(facts: PurchaseFacts) -> Authorize {
    let credentials = PresentedCredentials::default();
    Authorize {
        facts,
        kind: AuthorizationKind::Purchase,
        credentials,
        partial: PartialApproval::default(),
    }
}

/// The purchase of the mark 5, and DE90 of another message.
pub(crate) fn named_by(mark: u64) -> OriginalRef {
    let trace = facts(pan(1), 0, mark).trace;
    OriginalRef { original_key: trace.original_key, ..by_retrieval(5) }
}

pub(crate) fn by_retrieval(mark: u64) -> OriginalRef {
    by_retrieval_of(pan(1), mark)
}

pub(crate) fn by_retrieval_of(card: CardRef, mark: u64) -> OriginalRef {
    let retrieval_key = facts(card, 0, mark).trace.retrieval_key;
    OriginalRef { retrieval_key, ..OriginalRef::default() }
}
