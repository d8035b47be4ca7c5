//! Properties of all messages and all bytes, over random ones. A failure prints the smallest case and its seed.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use cardswitch_iso8583::echo::ECHOED;
use cardswitch_iso8583::{
    AnswerMessage, Class, Echo, FRAME_BYTES_MAX, FieldSpec, Frame, Framing, Length, MessageBuilder,
    Mti, Tpdu, decode, describe, field, next_frame, write_frame,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn framings() -> impl Strategy<Value = Framing> {
    const LENGTHS: [&str; 6] =
        ["binary2", "binary4", "ascii4", "ebcdic4", "bcd4", "binary2 inclusive"];
    (proptest::sample::select(&LENGTHS[..]), any::<bool>())
        .prop_map(|(length, tpdu)| Framing { length: length.parse().unwrap(), tpdu })
}

/// The characters that a class is made of, written down apart from the codec's own check.
fn alphabet(class: Class) -> Vec<u8> {
    match class {
        Class::Digits | Class::SignedDigits => (b'0'..=b'9').collect(),
        Class::Letters => (b'A'..=b'Z').chain(b'a'..=b'z').chain([b' ']).collect(),
        Class::LettersDigits => b"0123456789 ABCXYZabcxyz".to_vec(),
        Class::Printable => (0x20..=0x7e).collect(),
        Class::Track => b"0123456789:;<=>?D".to_vec(),
        Class::Binary => (0..=255).collect(),
    }
}

/// Raw bytes as long as they may be, cut to the length that a case wants and mapped onto the class.
fn content(spec: &FieldSpec, raw: &[u8]) -> Vec<u8> {
    let letters = alphabet(spec.class);
    let len_max = usize::from(spec.len_max);
    let len = match spec.length {
        Length::Fixed => len_max,
        _ => raw.len().min(len_max),
    };
    let mut bytes: Vec<u8> = raw
        .iter()
        .cycle()
        .take(len)
        .map(|byte| letters[usize::from(*byte) % letters.len()])
        .collect();
    if spec.class == Class::SignedDigits {
        bytes[0] = if bytes[0].is_multiple_of(2) { b'C' } else { b'D' };
    }
    bytes
}

/// Up to twenty elements, short enough together for one frame.
fn elements() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    btree_map(2..=128_u8, vec(any::<u8>(), 1..80), 0..20).prop_map(|raw| {
        raw.into_iter().map(|(de, raw)| (de, content(field(de).unwrap(), &raw))).collect()
    })
}

fn types() -> impl Strategy<Value = Mti> {
    vec(b'0'..=b'9', 4).prop_map(|digits| Mti::parse(&digits).unwrap())
}

fn build(mti: Mti, elements: &[(u8, Vec<u8>)]) -> MessageBuilder {
    elements.iter().fold(MessageBuilder::new(mti), |built, (de, content)| built.set(*de, content))
}

fn encode(builder: &MessageBuilder) -> Vec<u8> {
    let mut frame = Vec::new();
    builder.encode(&mut frame).unwrap();
    frame
}

/// Everything that a switch does with bytes from outside; returns whether they were a message.
fn exercise(frame: &[u8]) -> bool {
    let decoded = decode(frame);
    let is_message = decoded.is_ok();
    let readable = match decoded {
        Ok(message) => Some(message),
        Err(error) => error.readable.map(|readable| *readable),
    };
    let Some(message) = readable else { return false };
    for (de, content) in message.fields() {
        assert!(field(de).unwrap().fits(content.len()));
        let start = content.as_ptr() as usize - frame.as_ptr() as usize;
        assert!(content.is_empty() || start + content.len() <= frame.len());
    }
    assert!(!describe(&message).to_string().is_empty());
    let again = encode(&MessageBuilder::from_message(&message));
    let copy = decode(&again).unwrap();
    let same = |(de, content): (u8, &[u8])| {
        copy.get(de).is_some_and(|copied| copied.eq_ignore_ascii_case(content))
    };
    assert!(message.fields().all(same), "what was readable is written and read again");
    if let Some(answer) = AnswerMessage::to(&Echo::of(&message)) {
        let mut out = Vec::new();
        answer.set(39, b"30").encode(&mut out).unwrap();
        let answer = decode(&out).unwrap();
        assert_eq!(answer.get(39), Some(&b"30"[..]));
        let echoed = ECHOED.intersection(message.present());
        assert!(echoed.elements().all(|de| answer.get(de) == message.get(de)), "{answer:?}");
        assert_eq!(answer.present().len(), echoed.len() + 1);
    }
    is_message
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_message_survives_encoding_framing_and_decoding(
        mti in types(), elements in elements(), framing in framings(), header in any::<[u8; 5]>()
    ) {
        let builder = build(mti, &elements);
        let mut stream = Vec::new();
        write_frame(&mut stream, &framing, Some(Tpdu::new(header)), |out| {
            builder.encode(out)
        })
        .unwrap();
        let Frame::Complete { tpdu, body, consumed } = next_frame(&stream, &framing) else {
            return Err(TestCaseError::fail("not complete"));
        };
        prop_assert_eq!(consumed, stream.len());
        prop_assert_eq!(tpdu, framing.tpdu.then_some(Tpdu::new(header)));
        let frame = &stream[body];
        let message = decode(frame).unwrap();
        prop_assert_eq!(message.mti(), mti);
        prop_assert_eq!(message.fields().count(), elements.len());
        for (de, content) in &elements {
            prop_assert_eq!(message.get(*de), Some(content.as_slice()), "DE {}", de);
        }
        prop_assert_eq!(encode(&MessageBuilder::from_message(&message)), frame);
        prop_assert!(exercise(frame));
    }

    #[test]
    fn every_truncation_of_a_good_message_is_told(
        mti in types(), elements in elements(), framing in framings()
    ) {
        let builder = build(mti, &elements);
        let frame = encode(&builder);
        for end in 0..frame.len() {
            prop_assert!(!exercise(&frame[..end]), "cut at {}", end);
        }
        let mut stream = Vec::new();
        write_frame(&mut stream, &framing, None, |out| builder.encode(out)).unwrap();
        for end in 0..stream.len() {
            let told = next_frame(&stream[..end], &framing);
            let Frame::Incomplete { needed } = told else {
                return Err(TestCaseError::fail(format!("{told:?} at {end}")));
            };
            prop_assert!(end < needed && needed <= stream.len());
        }
    }

    #[test]
    fn changed_messages_do_no_harm(
        mti in types(), elements in elements(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)
    ) {
        let mut frame = encode(&build(mti, &elements));
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
            exercise(&frame);
        }
    }

    #[test]
    fn random_bytes_behind_a_type_do_no_harm(
        mti in types(), noise in vec(any::<u8>(), 0..600)
    ) {
        let mut frame = mti.bytes().to_vec();
        frame.extend(&noise);
        exercise(&frame);
        exercise(&noise);
    }

    #[test]
    fn random_digits_do_no_harm(noise in "[0-9A-F]{4,400}") {
        exercise(noise.as_bytes());
    }

    /// A reader that obeys the answers of `next_frame` gets through any stream without standing still.
    #[test]
    fn random_streams_are_read_to_their_end(
        stream in vec(prop_oneof![3 => Just(0_u8), 2 => 0..4_u8, 1 => any::<u8>(), 2 => b'0'..=b'9'], 0..300),
        framing in framings()
    ) {
        let mut at = 0;
        while at < stream.len() {
            let rest = &stream[at..];
            let step = match next_frame(rest, &framing) {
                Frame::Complete { body, consumed, tpdu } => {
                    prop_assert!(body.end == consumed && consumed <= rest.len());
                    prop_assert_eq!(tpdu.is_some(), framing.tpdu);
                    consumed
                }
                Frame::Incomplete { needed } => {
                    prop_assert!(needed > rest.len());
                    prop_assert!(needed <= FRAME_BYTES_MAX + 4);
                    break;
                }
                Frame::ZeroLength { consumed } | Frame::Undersized { consumed } => consumed,
                Frame::Lost(_) => break,
            };
            prop_assert!(step > 0);
            at += step;
        }
    }

    #[test]
    fn cards_never_show_in_clear(pan in "[0-9]{13,19}") {
        let track = format!("{pan}=2912201");
        let frame = encode(
            &MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
                .set_text(2, &pan)
                .set_text(35, &track)
                .set_text(48, &pan)
                .set_text(60, &pan),
        );
        let message = decode(&frame).unwrap();
        let shown = format!("{}{message:?}", describe(&message));
        let longest_run = shown.split(|c: char| !c.is_ascii_digit()).map(str::len).max();
        prop_assert_eq!(longest_run, Some(6), "{}", shown);
    }
}
