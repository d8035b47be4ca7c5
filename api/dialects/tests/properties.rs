//! Properties of all bytes in each shipped dialect, over random ones. A failure prints the smallest case and its
//! seed.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::sync::LazyLock;

use cardswitch_dialects::{SHIPPED, find};
use cardswitch_iso8583::{
    AnswerMessage, DecodeError, Dialect, Echo, EncodeError, Message, MessageBuilder, Mti,
    RepeatedFields, Translation, decode,
};
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
    dialect.translation.as_ref().unwrap().write(&plain, &RepeatedFields::NONE, &mut wire).unwrap();
    (plain, wire)
}

/// Reads and, where that works, writes again; nothing panics, what is read is what the decoder reads in it, and an
/// answer says the same at once and by way of the default spelling.
fn exercise(frame: &[u8], dialect: &Dialect) -> bool {
    let translation = dialect.translation.as_ref().unwrap();
    let (mut plain, mut repeated, mut out) = (Vec::new(), RepeatedFields::NONE, Vec::new());
    let read = translation.read(frame, &mut plain, &mut repeated);
    let (is_read, decoded) = (read.is_ok(), decode(&plain));
    if let Ok(read) = read {
        assert_eq!(shown(&read.message(&plain)), shown(&decoded));
    }
    if let Ok(message) = &decoded {
        answer(message, translation, &repeated);
    }
    let is_message = decoded.is_ok();
    let is_written = translation.write(&plain, &repeated, &mut out).is_ok();
    assert!(is_message || !is_written, "only a message is written");
    is_read && is_message
}

/// A decoded message as a text: its elements with their content, or its fault.
fn shown(decoded: &Result<Message<'_>, DecodeError<'_>>) -> String {
    match decoded {
        Ok(message) => format!("{message:?} {:?}", message.fields().collect::<Vec<_>>()),
        Err(error) => error.to_string(),
    }
}

fn answer(request: &Message<'_>, translation: &Translation, repeated: &RepeatedFields) {
    let echo = Echo::of(request);
    let Some(answer) = AnswerMessage::to(&echo) else { return };
    let answer = answer.set(38, b"A1B2C3").set(39, b"00").set(44, b"0");
    let (mut plain, mut by_way, mut at_once) = (Vec::new(), Vec::new(), Vec::new());
    answer.encode(&mut plain).unwrap();
    let written = translation.write(&plain, repeated, &mut by_way).is_ok();
    assert_eq!(translation.write_answer(&answer, repeated, &mut at_once).is_ok(), written);
    // Fillers and padding may differ: at once they are as they came.
    let read = |wire: &[u8]| {
        let mut plain = Vec::new();
        let read = translation.read(wire, &mut plain, &mut RepeatedFields::default());
        read.map(|_| plain.escape_ascii().to_string())
    };
    assert_eq!(written.then(|| read(&at_once)), written.then(|| read(&by_way)));
    let before = at_once.clone();
    assert_eq!(
        translation.write_answer(&answer.set(4, b"12"), repeated, &mut at_once),
        Err(EncodeError::WrongLength(4))
    );
    assert_eq!(at_once, before, "an error leaves the output alone");
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
        prop_assert!(translation.read(&wire, &mut read, &mut RepeatedFields::default()).is_ok());
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
