//! Records of another key of card numbers, as they were first written.

use cardswitch_engine::command::admin::{AdminCommand, NewCard, ResealedCard};
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::record::{append_record, records};
use cardswitch_engine::command::{Command, NotedCommand};
use cardswitch_engine::domain::audit::{Actor, AuditNote};
use cardswitch_engine::domain::card::{PanHash, SealedPan};
use cardswitch_engine::domain::company::VelocityLimits;
use cardswitch_engine::domain::ids::{AllowanceId, CardId};
use cardswitch_engine::domain::pan_key::PanGeneration;
use cardswitch_engine::shard::ShardState;
use uuid::Uuid;

use super::{Golden, admin, card, company, records_of};

const PAN_KEY: Golden = Golden {
    path: "tests/golden/records_8.hex",
    velocity: VelocityLimits { per_minute: 0, per_hour: 0 },
};

#[test]
fn records_of_another_key_keep_their_bytes() {
    PAN_KEY.expect(&life_of_a_key());
}

#[test]
fn records_of_another_key_are_read_folded_and_written_again() {
    let (bytes, mut again) = (PAN_KEY.read(), Vec::new());
    let mut state = ShardState::default();
    let (mut generations, mut numbers) = (Vec::new(), 0);
    for record in records(&bytes).map(|record| record.expect("a whole record")) {
        append_record(&mut again, record.seq, record.at, &record.effects).expect("a record");
        state.apply_record(record.seq, record.at, &record.effects);
        for effect in &record.effects {
            match effect {
                Effect::PanGenerations(row) => generations.push((row.oldest.0, row.newest.0)),
                Effect::CardNumber(_, sealed) => {
                    assert_eq!(sealed.generation(), PanGeneration(1));
                    numbers += 1;
                }
                _ => {}
            }
        }
    }
    assert!(again == bytes);
    assert_eq!((generations, numbers), (vec![(0, 1), (1, 1)], 2));
}

/// Two cards, a rotation, both sealed anew, the old key forgotten.
fn life_of_a_key() -> Vec<u8> {
    let second = NewCard {
        id: CardId(Uuid::from_u128(50)),
        allowance_id: AllowanceId(Uuid::from_u128(51)),
        pan_hash: PanHash(52),
        ..card()
    };
    let resealed = [card().id, second.id].map(|card| ResealedCard { card, sealed_pan: sealed() });
    let commands = [
        admin(AdminCommand::CreateCompany(company(PAN_KEY.velocity))),
        admin(AdminCommand::IssueCard(card())),
        admin(AdminCommand::IssueCard(second)),
        noted(AdminCommand::RotatePanKey(PanGeneration(1))),
        admin(AdminCommand::ResealCards(resealed.into())),
        noted(AdminCommand::ForgetPanKeys(PanGeneration(1))),
    ];
    records_of(&commands)
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
