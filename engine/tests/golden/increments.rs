//! Records of increments, as they were first written: one that was approved, one that was declined.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::network::{Increment, NetworkCommand, OriginalRef};
use cardswitch_engine::decision::{Change, IncrementDecision, Rule, explain_increment};
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::domain::credential::PresentedCredentials;
use cardswitch_engine::domain::ids::TransactionSeq;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::network_key::RetrievalKey;

use super::{
    LIMITED, ZONE, admin, amounts, authorize, card, card_ref, company, effects_of, network,
};

#[test]
fn golden_increments_are_explained() {
    let decisions: Vec<IncrementDecision> = effects_of("increments")
        .filter_map(|effect| match effect {
            Effect::Increment(decision) => Some(*decision),
            _ => None,
        })
        .collect();
    assert_eq!(decisions.len(), 2);
    let (approved, declined) = (&decisions[0], &decisions[1]);
    let told = |decision: &IncrementDecision| {
        (decision.transaction, decision.amount, decision.added_to, decision.failed_rules.first())
    };
    // The first transaction is the opening balance.
    let stay = TransactionSeq(2);
    assert_eq!(told(approved), (stay, Minor(5_000), Minor(7_500), None));
    let failed = Some(Rule::AllowanceBalance);
    assert_eq!(told(declined), (stay, Minor(9_000), Minor(12_500), failed));
    assert!(decisions.iter().all(|decision| decision.facts.velocity.is_some()));
    let explained = explain_increment(declined, ZONE);
    let changes: Vec<_> = explained.remedies.iter().map(|remedy| remedy.change).collect();
    assert_eq!(changes, [Change::Raise { by: Minor(1_500), to: Minor(21_500) }]);
    assert_eq!(explained.amount_at_most, Some(Minor(7_500)));
}

/// A company, a card, an approval, more on it, and too much more.
pub(super) fn life_of_a_stay() -> Vec<Command> {
    vec![
        admin(AdminCommand::Company(CompanyCommand::Create(company(LIMITED)))),
        admin(AdminCommand::Card(CardCommand::Issue(card()))),
        authorize(1, Minor(7_500), PresentedCredentials::default()),
        network(2, increment(5_000)),
        network(3, increment(9_000)),
    ]
}

fn increment(amount: i64) -> NetworkCommand {
    NetworkCommand::Increment(Increment {
        card: Some(card_ref()),
        amounts: amounts(Minor(amount)),
        mcc: None,
        credentials: PresentedCredentials::default(),
        original: OriginalRef { retrieval_key: Some(RetrievalKey(101)), ..Default::default() },
        own_key: None,
        otherwise: None,
    })
}
