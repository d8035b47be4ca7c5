//! What holds for all bytes in each shipped dialect, over random ones. A failure prints the smallest case and its seed.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::sync::LazyLock;

use cardswitch_dialects::{SHIPPED, find};
use cardswitch_iso8583::{Dialect, MessageBuilder, Mti, decode};
use proptest::collection::vec;
use proptest::prelude::*;

static DIALECTS: LazyLock<Vec<Dialect>> =
    LazyLock::new(|| SHIPPED.iter().skip(1).map(|(name, _)| find(name).unwrap()).collect());

fn dialects() -> impl Strategy<Value = &'static Dialect> {
    (0..DIALECTS.len()).prop_map(|at| &DIALECTS[at])
}

/// An authorization as the dialect writes it, and in the default spelling.
fn written(dialect: &Dialect, pan: &str, amount: u64, name: &str) -> (Vec<u8>, Vec<u8>) {
    let (mut plain, mut wire) = (Vec::new(), Vec::new());
    MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
        .set_text(2, pan)
        .set_number(4, amount)
        .set_number(11, amount % 1_000_000)
        .set_text(35, &format!("{pan}=2912"))
        .set_text(42, name)
        .set(52, &amount.to_be_bytes())
        .set(55, name.as_bytes())
        .encode(&mut plain)
        .unwrap();
    dialect.translation.as_ref().unwrap().write(&plain, &[], &mut wire).unwrap();
    (plain, wire)
}

/// Reads and, where that works, writes again; nothing panics, and what is read can be decoded as far.
fn exercise(frame: &[u8], dialect: &Dialect) -> bool {
    let translation = dialect.translation.as_ref().unwrap();
    let (mut plain, mut kept, mut out) = (Vec::new(), Vec::new(), Vec::new());
    let is_read = translation.read(frame, &mut plain, &mut kept).is_ok();
    let is_message = decode(&plain).is_ok();
    let is_written = translation.write(&plain, &kept, &mut out).is_ok();
    assert!(is_message || !is_written, "only a message is written");
    is_read && is_message
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_message_survives_every_dialect(
        dialect in dialects(), pan in "[0-9]{12,19}", amount in 0..1_000_000_000_000_u64,
        name in "[ -~]{1,15}"
    ) {
        let (plain, wire) = written(dialect, &pan, amount, &name);
        let mut read = Vec::new();
        let translation = dialect.translation.as_ref().unwrap();
        prop_assert_eq!(translation.read(&wire, &mut read, &mut Vec::new()), Ok(()));
        prop_assert_eq!(read, plain);
        for end in 0..wire.len() {
            prop_assert!(!exercise(&wire[..end], dialect), "cut at {}", end);
        }
    }

    #[test]
    fn changed_messages_do_no_harm(
        dialect in dialects(), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)
    ) {
        let (_, mut wire) = written(dialect, "4111111111111111", 1_250, "MERCHANT");
        for (at, byte) in changes {
            let at = at.index(wire.len());
            wire[at] = byte;
            exercise(&wire, dialect);
        }
    }

    #[test]
    fn random_bytes_do_no_harm(dialect in dialects(), noise in vec(any::<u8>(), 0..600)) {
        exercise(&noise, dialect);
        for mti in [&b"0100"[..], b"\x01\x00", b"\xf0\xf1\xf0\xf0", b"1100"] {
            exercise(&[mti, &noise].concat(), dialect);
        }
    }
}
