//! Generations of the key of card numbers: they only rise, numbers are sealed anew under the newest
//! alone, and a new card is never sealed under one that was forgotten.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::directory::card::{CardCommand, NewCard};
use cardswitch_engine::directory::pan_key::{PanKeyCommand, ResealedCard};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::card::SealedPan;
use cardswitch_engine::domain::ids::CardSlot;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::pan_key::{PanGeneration, PanGenerations};
use cardswitch_engine::limits;

use crate::audit_events::events_of;
use crate::desk::{CARD, Desk};
use crate::office::Office;
use crate::samples::{admin, company_id, new_card, resealed, sealed_under};
use crate::shared_links::card_id;

const OUTDATED: Result<(), Rejection> = Err(Rejection::PanKeyOutdated);

fn rotate(generation: u32) -> AdminCommand {
    AdminCommand::PanKey(PanKeyCommand::Rotate(PanGeneration(generation)))
}

fn forget(newest: u32) -> AdminCommand {
    AdminCommand::PanKey(PanKeyCommand::Forget(PanGeneration(newest)))
}

fn reseal(cards: &[u64], generation: u32) -> AdminCommand {
    let resealed = |number: &u64| resealed(card_id(*number), generation);
    AdminCommand::PanKey(PanKeyCommand::Reseal(cards.iter().map(resealed).collect()))
}

fn issue(number: u64, sealed_pan: SealedPan) -> AdminCommand {
    let card = new_card(number, 0, AllowanceTerms::budget(Minor(100)));
    AdminCommand::Card(CardCommand::Issue(NewCard { sealed_pan, ..card }))
}

/// The number of records that the change made.
fn records_of(office: &mut Office, change: AdminCommand) -> usize {
    let before = office.driver.ends.len();
    office.does(change);
    office.driver.ends.len() - before
}

#[test]
fn the_head_of_a_sealed_number_tells_its_generation() {
    let rows: [(&[u8], u32); 6] = [
        (&[], 0),
        (&[1; 45], 0),
        (&[9, 1, 1, 1, 1, 1], 0),
        (&[2, 1, 1, 1], 0),
        (&[2, 7, 0, 0, 0], 7),
        (&[2, 4, 3, 2, 1, 9], 0x0102_0304),
    ];
    for (sealed, generation) in rows {
        assert_eq!(
            SealedPan(sealed.to_vec()).generation(),
            PanGeneration(generation),
            "{sealed:?}"
        );
    }
}

#[test]
fn generations_only_rise_and_are_audited_once() {
    let mut office = Office::open();
    let told = |office: &mut Office, change| -> Vec<_> {
        let events = events_of(office, change).unwrap();
        events.into_iter().map(|event| (event.action, event.company, event.object)).collect()
    };
    let rotated = vec![("pan_key.rotated".to_owned(), None, None)];
    assert_eq!(told(&mut office, rotate(1)), rotated);
    assert_eq!(told(&mut office, rotate(1)), [], "the newest again changes nothing");
    assert_eq!(told(&mut office, rotate(3)), rotated);
    assert_eq!(office.asks(rotate(2)), OUTDATED);
    assert_eq!(office.asks(forget(2)), Err(Rejection::PanKeyUnknown));
    assert_eq!(office.asks(forget(4)), Err(Rejection::PanKeyUnknown));
    assert_eq!(told(&mut office, forget(3)), [("pan_key.forgotten".to_owned(), None, None)]);
    let newest = PanGeneration(3);
    let only = PanGenerations { oldest: newest, newest };
    assert_eq!(office.last_effects()[0], Effect::PanGenerations(only));
    assert_eq!(told(&mut office, forget(3)), []);
    office.assert_replays();
}

#[test]
fn numbers_are_sealed_anew_under_the_newest_generation_alone() {
    let mut office = Office::open();
    for number in 1..4 {
        office.give_card(number, None).unwrap();
    }
    office.does(AdminCommand::Card(CardCommand::Terminate(company_id(0), card_id(3))));
    assert_eq!(office.asks(reseal(&[1], 1)), OUTDATED, "nobody told of it yet");
    office.does(rotate(1));
    assert_eq!(office.asks(reseal(&[1], 0)), OUTDATED);
    // A terminated card keeps its number, one that is not there is passed over, and nobody is told.
    assert_eq!(events_of(&mut office, reseal(&[1, 99, 3], 1)), Ok(Vec::new()));
    let number = |slot| Effect::CardNumber(CardSlot(slot), sealed_under(1));
    assert_eq!(office.last_effects(), [number(0), number(2)]);
    assert_eq!(records_of(&mut office, reseal(&[99], 1)), 0);
    assert_eq!(records_of(&mut office, reseal(&[], 1)), 0);
    office.does(rotate(2));
    assert_eq!(office.asks(reseal(&[1, 2], 1)), OUTDATED, "one that came late");
    office.assert_replays();
}

#[test]
fn what_one_record_takes_is_bounded() {
    let mut office = Office::open();
    office.give_card(1, None).unwrap();
    let most = limits::RESEALED_CARDS_MAX;
    office.does(rotate(1));
    office.does(reseal(&vec![1; most], 1));
    let refused = office.asks(reseal(&vec![1; most + 1], 1));
    assert_eq!(refused, Err(Rejection::TooMuchAtOnce));
    let long = |bytes| {
        let mut sealed_pan = sealed_under(1);
        sealed_pan.0.resize(bytes, 7);
        ResealedCard { card: card_id(1), sealed_pan }
    };
    let most = limits::SEALED_PAN_BYTES_MAX;
    office.does(AdminCommand::PanKey(PanKeyCommand::Reseal(vec![long(most)])));
    let refused = office.asks(AdminCommand::PanKey(PanKeyCommand::Reseal(vec![long(most + 1)])));
    assert_eq!(refused, Err(Rejection::TooMuchAtOnce));
}

#[test]
fn a_card_is_made_under_any_generation_that_is_kept() {
    let mut office = Office::open();
    office.does(issue(1, SealedPan(vec![1; 45])));
    office.does(rotate(1));
    office.does(issue(2, SealedPan(vec![1; 45])));
    office.does(issue(3, sealed_under(1)));
    office.does(rotate(2));
    office.does(forget(2));
    for (number, sealed) in [(4, SealedPan(vec![1; 45])), (5, sealed_under(1))] {
        assert_eq!(office.asks(issue(number, sealed)), OUTDATED, "{number}");
    }
    office.does(issue(6, sealed_under(2)));
    // The edge may be ahead: its key is kept before anybody is told.
    office.does(issue(7, sealed_under(3)));
    office.assert_replays();
}

#[test]
fn tables_show_numbers_sealed_anew_and_a_restart_knows_the_generations() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let desk = Desk::create(&data);
    desk.set_up_budget(1_000);
    desk.change(rotate(1));
    desk.change(reseal(&[CARD], 1));
    let check = |desk: &Desk| {
        let tables = desk.read();
        let generations = PanGenerations { oldest: PanGeneration(0), newest: PanGeneration(1) };
        assert_eq!(tables.pan_generations().unwrap(), generations);
        let found = tables.sealed_numbers(CardSlot(0), 10).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].card, &found[0].sealed_pan), (card_id(1), &sealed_under(1)));
        assert_eq!(tables.card(CardSlot(0)).unwrap().unwrap().sealed_pan, sealed_under(1));
    };
    check(&desk);
    drop(desk);
    let desk = Desk::open(&data);
    check(&desk);
    assert_eq!(desk.ask(admin(rotate(0))), Reply::Rejected(Rejection::PanKeyOutdated));
}
