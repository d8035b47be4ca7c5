//! Keys that doors were given by exchange: a later message replaces a key, no message does so twice, and the
//! tables and a restart know the newest.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::directory::exchanged_key::{
    ExchangedKey, ExchangedKeyCommand, NewExchangedKey,
};
use cardswitch_engine::domain::ids::{ExchangedKeyId, Timestamp};

use crate::audit_events::events_of;
use crate::desk::Desk;
use crate::office::Office;
use crate::samples::admin;

/// A key that bytes tell from others, of a message of that second.
fn key(door: &str, byte: u8, second: i64) -> NewExchangedKey {
    NewExchangedKey {
        door: door.to_owned(),
        usage: "M3".to_owned(),
        sealed: vec![byte; 45],
        check_value: [byte; 3],
        base: [8, 0xd7, 0xb4],
        sent_at: Timestamp(second * Timestamp::SECOND),
        overlap_until: Timestamp((second + 60) * Timestamp::SECOND),
    }
}

fn exchange(new: NewExchangedKey) -> AdminCommand {
    AdminCommand::ExchangedKey(ExchangedKeyCommand::Exchange(new))
}

fn kept(desk: &Desk, door: &str) -> Option<ExchangedKey> {
    desk.read().exchanged_key(door, "M3").unwrap()
}

#[test]
fn later_messages_replace_keys_and_none_does_so_twice() {
    let home = tempfile::tempdir().unwrap();
    let desk = Desk::create(&home.path().join("data"));
    let other_base = NewExchangedKey { base: [1, 2, 3], ..key("iso8583", 5, 40) };
    let pin = NewExchangedKey { usage: "P0".to_owned(), ..key("iso8583", 6, 7) };
    let again = Some(Rejection::ZoneKeyRepeated);
    let rows = [
        (key("iso8583", 1, 10), None),
        (key("iso8583", 1, 10), again),
        (key("iso8583", 2, 9), again),
        (key("iso8583", 2, 20), None),
        (key("iso8583", 1, 10), again),
        (key("partner", 3, 8), None),
        (pin, None),
        (key("iso8583", 4, 30), None),
    ];
    for (new, refusal) in rows {
        let expected = refusal.map(Reply::Rejected);
        let reply = desk.ask(admin(exchange(new.clone())));
        let reply = Some(reply).filter(|reply| !matches!(reply, Reply::Done(_)));
        assert_eq!(reply, expected, "{new:?}");
    }
    let row = kept(&desk, "iso8583").unwrap();
    assert_eq!((row.key, row.sealed_before), (key("iso8583", 4, 30), Some(vec![2; 45])));
    assert_eq!(kept(&desk, "partner").unwrap().sealed_before, None);
    assert_eq!(kept(&desk, "absent"), None);
    // Behind another key in the door's file, the exchanged one before is of no use.
    desk.change(exchange(other_base.clone()));
    let row = kept(&desk, "iso8583").unwrap();
    assert_eq!((row.key, row.sealed_before), (other_base, None));
}

/// Once, a key counted again when its door's file got its former key back.
#[test]
fn a_key_that_the_file_replaced_is_void_and_comes_by_no_message_again() {
    let home = tempfile::tempdir().unwrap();
    let desk = Desk::create(&home.path().join("data"));
    let void = |base| {
        AdminCommand::ExchangedKey(ExchangedKeyCommand::Void(
            ExchangedKeyId::of("iso8583", "M3"),
            base,
        ))
    };
    desk.change(exchange(key("iso8583", 1, 10)));
    desk.change(exchange(key("iso8583", 2, 20)));
    let counting = kept(&desk, "iso8583");
    desk.change(void(key("iso8583", 2, 20).base));
    assert_eq!(kept(&desk, "iso8583"), counting, "the file has the key that it had");
    desk.change(void([1, 2, 3]));
    let row = kept(&desk, "iso8583").unwrap();
    assert!(row.is_void && row.key.sealed.is_empty() && row.sealed_before.is_none(), "{row:?}");
    let refused = Reply::Rejected(Rejection::ZoneKeyRepeated);
    assert_eq!(desk.ask(admin(exchange(key("iso8583", 2, 20)))), refused);
    desk.change(exchange(key("iso8583", 3, 30)));
    let row = kept(&desk, "iso8583").unwrap();
    assert!(!row.is_void && row.sealed_before.is_none(), "nothing is before it: {row:?}");
}

#[test]
fn a_restart_knows_the_newest_keys() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let desk = Desk::create(&data);
    for new in [key("iso8583", 1, 10), key("partner", 2, 5), key("iso8583", 3, 20)] {
        desk.change(exchange(new));
    }
    let rows = |desk: &Desk| ["iso8583", "partner"].map(|door| kept(desk, door).unwrap());
    let before = rows(&desk);
    drop(desk);
    let desk = Desk::open(&data);
    assert_eq!(rows(&desk), before);
    let refused = Reply::Rejected(Rejection::ZoneKeyRepeated);
    assert_eq!(desk.ask(admin(exchange(key("iso8583", 9, 20)))), refused);
}

#[test]
fn the_audit_names_the_door_s_key_and_shows_nothing_of_it() {
    let mut office = Office::open();
    let [event] =
        events_of(&mut office, exchange(key("iso8583", 1, 10))).unwrap().try_into().unwrap();
    assert_eq!((event.action.as_str(), event.company), ("zone_key.exchanged", None));
    assert_eq!(event.object, Some(ExchangedKeyId::of("iso8583", "M3").0));
    assert_ne!(event.object, Some(ExchangedKeyId::of("iso8583", "P0").0));
    assert!(event.values.is_empty() && event.fields.is_empty());
    let refused = events_of(&mut office, exchange(key("iso8583", 1, 10)));
    assert_eq!(refused, Err(Rejection::ZoneKeyRepeated));
}
