//! Records of another key of card numbers, as they were first written.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::{Command, NotedCommand};
use cardswitch_engine::directory::card::{CardCommand, NewCard};
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::directory::pan_key::{PanKeyCommand, ResealedCard};
use cardswitch_engine::domain::audit::{Actor, AuditNote};
use cardswitch_engine::domain::card::{PanHash, SealedPan};
use cardswitch_engine::domain::ids::{AllowanceId, CardId};
use cardswitch_engine::domain::pan_key::PanGeneration;
use uuid::Uuid;

use super::{UNLIMITED, admin, card, company, effects_of};

#[test]
fn records_of_another_key_name_generations_and_numbers() {
    let (mut generations, mut numbers) = (Vec::new(), 0);
    for effect in effects_of("pan_key") {
        match effect {
            Effect::PanGenerations(row) => generations.push((row.oldest.0, row.newest.0)),
            Effect::CardNumber(_, sealed) => {
                assert_eq!(sealed.generation(), PanGeneration(1));
                numbers += 1;
            }
            _ => {}
        }
    }
    assert_eq!((generations, numbers), (vec![(0, 1), (1, 1)], 2));
}

/// Two cards, a rotation, both sealed anew, the old key forgotten.
pub(super) fn life_of_a_key() -> Vec<Command> {
    let second = NewCard {
        id: CardId(Uuid::from_u128(50)),
        allowance_id: AllowanceId(Uuid::from_u128(51)),
        pan_hash: PanHash(52),
        ..card()
    };
    let resealed = [card().id, second.id].map(|card| ResealedCard { card, sealed_pan: sealed() });
    vec![
        admin(AdminCommand::Company(CompanyCommand::Create(company(UNLIMITED)))),
        admin(AdminCommand::Card(CardCommand::Issue(card()))),
        admin(AdminCommand::Card(CardCommand::Issue(second))),
        noted(AdminCommand::PanKey(PanKeyCommand::Rotate(PanGeneration(1)))),
        admin(AdminCommand::PanKey(PanKeyCommand::Reseal(resealed.into()))),
        noted(AdminCommand::PanKey(PanKeyCommand::Forget(PanGeneration(1)))),
    ]
}

fn noted(change: AdminCommand) -> Command {
    let note = AuditNote { actor: Actor::Operator, address: None };
    Command::Noted(Box::new(NotedCommand { note, change }))
}

fn sealed() -> SealedPan {
    let mut sealed = vec![SealedPan::FORM_WITH_GENERATION, 1, 0, 0, 0];
    sealed.resize(49, 9);
    SealedPan(sealed)
}
