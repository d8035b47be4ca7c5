//! Each message type and processing code, each required element, each way to name an original.

use cardswitch_engine::domain::credential::{
    CredentialComparison, CredentialPresence, CvvPair, ExpiryMonth, PackedZip, PinVerifier,
    PresentedValue,
};
use cardswitch_engine::domain::network_key::{AuthorizationId, DuplicateWindow, Fingerprint};
use cardswitch_iso8583::{
    MessageBuilder, Mti, Pin, PrivateUseWriter, decode, encode_pin_block,
    replacement_amounts::replacement_amounts,
};
use cardswitch_secrets::pan::Pan;

use super::*;

const PAN: &[u8] = b"4111111111111111";

fn secrets() -> Secrets {
    Secrets::from_root([5; 32])
}

fn pan() -> Pan {
    Pan::parse(PAN).unwrap()
}

fn bare(mti: &str) -> MessageBuilder {
    MessageBuilder::new(Mti::parse(mti.as_bytes()).unwrap())
}

/// A message with everything a purchase usually carries.
fn message(mti: &str) -> MessageBuilder {
    bare(mti)
        .set(2, PAN)
        .set_text(3, "000000")
        .set_number(4, 12_345)
        .set_text(7, "0305120000")
        .set_number(11, 42)
        .set_text(12, "120000")
        .set_text(13, "0305")
        .set_text(18, "5812")
        .set_text(32, "12345")
        .set_text(37, "606412000042")
        .set_text(41, "TERM0001")
        .set_text(42, "000000123456789")
        .set_text(43, "ACME DINER            PORTLAND     OR US")
        .set_text(49, "840")
}

fn map(built: &MessageBuilder) -> MessageAction {
    let mut frame = Vec::new();
    built.encode(&mut frame).unwrap();
    map_message(&decode(&frame).unwrap(), &secrets())
}

fn asked(built: &MessageBuilder) -> (NetworkCommand, Fingerprint, Option<Timestamp>) {
    match map(built) {
        MessageAction::Ask(timed) => match timed.command {
            Command::Network(request) => {
                (request.command, request.fingerprint.unwrap(), timed.supplied_at)
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn command(built: &MessageBuilder) -> NetworkCommand {
    asked(built).0
}

fn refusal(built: &MessageBuilder) -> Refusal {
    match map(built) {
        MessageAction::Refuse(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

/// A word for the kind of request.
fn word(built: &MessageBuilder) -> String {
    match map(built) {
        MessageAction::Ask(timed) => match timed.command {
            Command::Network(request) => match request.command {
                NetworkCommand::Authorize(command) => format!("{:?}", command.kind),
                NetworkCommand::Increment(_) => "Increment".to_owned(),
                NetworkCommand::Advise(command) => format!("Advise {:?}", command.outcome),
                NetworkCommand::Reverse(command) => format!("Reverse {:?}", command.kind),
                NetworkCommand::Present(_) => "Present".to_owned(),
                NetworkCommand::Refund(_) => "Refund".to_owned(),
                NetworkCommand::InquireBalance(_) => "InquireBalance".to_owned(),
                NetworkCommand::Transfer(_) | NetworkCommand::ConcludeTransfer(_) => {
                    panic!("no message asks for a transfer")
                }
            },
            other => panic!("{other:?}"),
        },
        MessageAction::Answer(code) => String::from_utf8(code.0.to_vec()).unwrap(),
        MessageAction::Refuse(refusal) => {
            format!("{} {refusal:?}", String::from_utf8(refusal.de39().0.to_vec()).unwrap())
        }
        MessageAction::Exchange(_) => "Exchange".to_owned(),
        MessageAction::Ignore => "Ignore".to_owned(),
    }
}

#[test]
fn each_type_and_processing_code_asks_one_thing() {
    let rows = [
        ("0100", "00", "Purchase"),
        ("0101", "00", "Purchase"),
        ("0100", "01", "Cash"),
        ("0100", "09", "Cash"),
        ("0100", "20", "12 UnknownTransaction"),
        ("0100", "30", "InquireBalance"),
        ("0100", "40", "12 UnknownTransaction"),
        ("0120", "00", "Advise Approved"),
        ("0121", "01", "Advise Approved"),
        ("0120", "30", "12 UnknownTransaction"),
        ("0120", "20", "12 UnknownTransaction"),
        ("0200", "00", "SingleMessage"),
        ("0201", "00", "SingleMessage"),
        ("0200", "01", "Cash"),
        ("0200", "20", "Refund"),
        ("0200", "30", "InquireBalance"),
        ("0220", "00", "Present"),
        ("0221", "09", "Present"),
        ("0220", "20", "Refund"),
        ("0220", "30", "12 UnknownTransaction"),
        ("0400", "00", "Reverse Request"),
        ("0401", "00", "Reverse Request"),
        ("0420", "00", "Reverse Advice"),
        ("0421", "77", "Reverse Advice"),
        ("0110", "00", "Ignore"),
        ("0130", "00", "Ignore"),
        ("0230", "00", "Ignore"),
        ("0410", "00", "Ignore"),
        ("0810", "00", "Ignore"),
        ("0140", "00", "Ignore"),
        ("0300", "00", "30 UnknownMessage"),
        ("0820", "00", "30 UnknownMessage"),
        ("1100", "00", "30 UnknownMessage"),
        ("0102", "00", "30 UnknownMessage"),
        ("0403", "00", "30 UnknownMessage"),
    ];
    for (mti, code, expected) in rows {
        let built = message(mti).set_text(3, &format!("{code}1020"));
        assert_eq!(word(&built), expected, "{mti} {code}");
    }
}

#[test]
fn nothing_to_pay_is_a_verification() {
    for mti in ["0100", "0200"] {
        assert_eq!(word(&message(mti).set_number(4, 0)), "Verification", "{mti}");
    }
    assert_eq!(word(&message("0100").set_text(3, "010000").set_number(4, 0)), "Cash");
}

#[test]
fn required_elements_are_required() {
    for mti in ["0100", "0120", "0200", "0220"] {
        for de in [3, 4, 11, 2] {
            assert_eq!(refusal(&message(mti).without(de)), Refusal::Missing(de), "{mti} {de}");
        }
        for de in [7, 12, 13, 18, 32, 37, 41, 42, 43, 49] {
            assert!(matches!(map(&message(mti).without(de)), MessageAction::Ask(_)), "{mti} {de}");
        }
    }
    for mti in ["0400", "0420"] {
        for de in [11, 2] {
            assert_eq!(refusal(&message(mti).without(de)), Refusal::Missing(de), "{mti} {de}");
        }
        assert_eq!(refusal(&message(mti).without(37)), Refusal::Missing(90), "{mti}");
        let named = message(mti).without(37).set_text(38, "A1B2C3");
        assert_eq!(word(&named.without(3).without(4)), word(&message(mti)), "{mti}");
    }
    let inquiry = message("0100").set_text(3, "300000").without(4);
    assert_eq!(word(&inquiry), "InquireBalance");
}

#[test]
fn sign_on_sign_off_and_echo_are_answered_at_once() {
    let management = |function: &str| bare("0800").set_number(11, 1).set_text(70, function);
    let rows = [("001", "00"), ("002", "00"), ("301", "00"), ("999", "30 Invalid(70)")];
    for (function, expected) in rows {
        assert_eq!(word(&management(function)), expected, "{function}");
    }
    assert_eq!(refusal(&management("301").without(70)), Refusal::Missing(70));
    assert_eq!(refusal(&management("301").without(11)), Refusal::Missing(11));
}

#[test]
fn a_purchase_carries_its_card_amount_merchant_and_marks() {
    let NetworkCommand::Authorize(authorize) = command(&message("0100")) else { panic!() };
    let hash = secrets().pan_hash(&pan());
    let facts = authorize.facts;
    assert_eq!(facts.card, CardRef::Pan(hash, pan().masked()));
    assert_eq!(
        facts.amounts,
        MessageAmounts { amount: Minor(12_345), currency: Some(CurrencyCode(840)), billing: None }
    );
    let merchant = &facts.merchant;
    assert_eq!((merchant.mid, merchant.mcc), (123_456_789, Some(Mcc(5812))));
    assert_eq!((merchant.name.as_str(), merchant.city.as_str()), ("ACME DINER", "PORTLAND"));
    assert_eq!((merchant.state.as_str(), merchant.country.as_str()), ("OR", "US"));
    assert_eq!(merchant.card_acceptor_id, "000000123456789");
    let trace = &facts.trace;
    assert_eq!((trace.stan.as_str(), trace.rrn.as_str()), ("000042", "606412000042"));
    assert_eq!((trace.acquirer.as_str(), trace.terminal.as_str()), ("12345", "TERM0001"));
    assert_eq!(trace.transmission_time, "0305120000");
    assert!(authorize.credentials.is_empty());
}

#[test]
fn a_foreign_purchase_carries_both_amounts_if_it_has_them() {
    let foreign = message("0100").set_text(49, "978").set_number(6, 13_579).set_text(51, "840");
    let NetworkCommand::Authorize(authorize) = command(&foreign) else { panic!() };
    let billing = CurrencyAmount { amount: Minor(13_579), currency: CurrencyCode(840) };
    assert_eq!(authorize.facts.amounts.currency, Some(CurrencyCode(978)));
    assert_eq!(authorize.facts.amounts.billing, Some(billing));
    for de in [6, 51] {
        assert_eq!(refusal(&foreign.clone().without(de)), Refusal::BillingConflict, "without {de}");
    }
}

/// They were dropped, and the message was approved with a 51 of another currency, or a 6 of another amount.
#[test]
fn half_of_what_the_account_is_asked_for_says_the_same_as_the_rest() {
    let (four, other) = (12_345, 12_344);
    let pair =
        |currency| CurrencyAmount { amount: Minor(four as i64), currency: CurrencyCode(currency) };
    // Elements 49, 6 and 51, and what becomes of them; none where they contradict.
    let rows = [
        (Some("840"), Some(four), None, Some(None)),
        (Some("840"), Some(other), None, None),
        (None, Some(other), None, None),
        (Some("978"), Some(other), None, None),
        (Some("840"), None, Some("840"), Some(None)),
        (Some("840"), None, Some("978"), None),
        (Some("978"), None, Some("840"), None),
        // The shard knows the account's own.
        (None, None, Some("978"), Some(Some(pair(978)))),
        (None, None, Some("840"), Some(Some(pair(840)))),
    ];
    for (asked, billed, currency, expected) in rows {
        let mut built = message("0100").without(49);
        for (de, text) in [(49, asked), (51, currency)] {
            built = text.map_or(built.clone(), |text| built.set_text(de, text));
        }
        built = billed.map_or(built.clone(), |billed| built.set_number(6, billed));
        match expected {
            None => assert_eq!(refusal(&built), Refusal::BillingConflict, "{asked:?} {billed:?}"),
            Some(billing) => {
                let NetworkCommand::Authorize(read) = command(&built) else { panic!() };
                assert_eq!(read.facts.amounts.billing, billing, "{asked:?} {billed:?}");
            }
        }
    }
}

#[test]
fn credentials_are_handed_on_only_where_present() {
    let secrets = secrets();
    let cvv = String::from_utf8(secrets.cvv(&pan()).to_vec()).unwrap();
    let wrong_cvv = if cvv == "000" { "001" } else { "000" };
    let block = encode_pin_block(&Pin::parse(b"1234").unwrap(), PAN).unwrap();
    let credentials = |built: &MessageBuilder| match command(built) {
        NetworkCommand::Authorize(command) => command.credentials,
        NetworkCommand::InquireBalance(command) => command.credentials,
        other => panic!("{other:?}"),
    };
    let private = PrivateUseWriter::new().cvv(&cvv).zip("94105-1234");
    for (mti, code) in [("0100", "000000"), ("0100", "300000"), ("0200", "000000")] {
        let full = message(mti)
            .set_text(3, code)
            .set_text(14, "2906")
            .set(48, private.as_bytes())
            .set(52, &block);
        let found = credentials(&full);
        assert!(is_shown(found.expiry, ExpiryMonth(2906)));
        assert!(is_right(found.cvv));
        assert!(is_shown(found.zip, PackedZip::pack("94105")));
        assert!(is_shown(found.pin, secrets.pin_verifier(&pan(), b"1234")));
    }
    let with_private = |private: PrivateUseWriter| message("0100").set(48, private.as_bytes());
    for cvv in [wrong_cvv, "", "12", "12a"] {
        let built = with_private(PrivateUseWriter::new().cvv(cvv));
        let found = credentials(&built).cvv;
        assert!(found.is_some() && !is_right(found), "`{cvv}`");
    }
    let opaque = message("0100").set_text(48, "some text of the acquirer's own");
    assert!(credentials(&opaque).is_empty());
    let no_block = credentials(&message("0100").set(52, &[0xee; 8])).pin;
    assert!(no_block.is_some() && !is_shown(no_block, PinVerifier::default()));
    assert!(!is_shown(no_block, secrets.pin_verifier(&pan(), b"1234")));
}

fn comparison() -> CredentialComparison {
    CredentialComparison::open(None, Timestamp(0)).unwrap()
}

/// Whether just this credential is shown.
fn is_shown<T: PartialEq>(shown: Option<PresentedValue<T>>, expected: T) -> bool {
    let is_own = |value: T| value == expected;
    shown.is_some() && !comparison().differs(CredentialPresence::default(), shown, is_own)
}

/// Whether the card's own CVV is shown.
fn is_right(shown: Option<PresentedValue<CvvPair>>) -> bool {
    shown.is_some() && !comparison().cvv_differs(shown)
}

#[test]
fn a_track_stands_in_for_number_and_expiry() {
    let track = format!("{}=29061010000", String::from_utf8(PAN.to_vec()).unwrap());
    let swiped = message("0100").without(2).set_text(35, &track);
    let NetworkCommand::Authorize(authorize) = command(&swiped) else { panic!() };
    let keyed = asked(&message("0100"));
    assert_eq!(authorize.facts.card, CardRef::Pan(secrets().pan_hash(&pan()), pan().masked()));
    assert!(is_shown(authorize.credentials.expiry, ExpiryMonth(2906)));
    assert_eq!(asked(&swiped).1, keyed.1, "the card counts, not how it was read");
    let NetworkCommand::Authorize(both) = command(&swiped.clone().set_text(14, "3001")) else {
        panic!()
    };
    assert!(is_shown(both.credentials.expiry, ExpiryMonth(3001)));
    assert_eq!(refusal(&message("0100").set(2, b"1234")), Refusal::Invalid(2));
    let of_another = swiped.clone().set(2, b"5500000000000004");
    assert_eq!(refusal(&of_another), Refusal::Invalid(35), "two cards");
    assert_eq!(refusal(&swiped.set_text(35, "4111111111111111")), Refusal::Invalid(35));
}

/// A presentment of nothing used its number up, and the network's own was lost.
#[test]
fn nothing_is_not_posted() {
    for (mti, code) in
        [("0220", "000000"), ("0220", "010000"), ("0220", "200000"), ("0200", "200000")]
    {
        let nothing = message(mti).set_text(3, code).set_text(4, "000000000000");
        assert_eq!(refusal(&nothing), Refusal::Invalid(4), "{mti} {code}");
    }
}

#[test]
fn amounts_are_in_currencies_that_there_are() {
    for mti in ["0100", "0120", "0200", "0220"] {
        for (de, code) in [(49, "000"), (49, "001"), (51, "999")] {
            let built = message(mti).set_text(de, code);
            assert_eq!(refusal(&built), Refusal::Invalid(de), "{mti} {code}");
        }
    }
}

#[test]
fn an_authorization_that_names_another_asks_for_more_or_for_itself() {
    let NetworkCommand::Increment(increment) = command(&message("0100").set_text(38, "A1B2C3"))
    else {
        panic!()
    };
    let NetworkCommand::Authorize(plain) = command(&message("0100")) else { panic!() };
    let named = OriginalRef {
        authorization_id: parse_authorization_id("A1B2C3"),
        ..OriginalRef::default()
    };
    assert_eq!(increment.original, named);
    assert_eq!(increment.card, Some(plain.facts.card));
    assert_eq!((increment.amounts, increment.mcc), (plain.facts.amounts, plain.facts.merchant.mcc));
    assert_eq!(increment.own_key, plain.facts.trace.original_key);
    assert_eq!(increment.otherwise.unwrap().facts.trace, plain.facts.trace);
    // Only a purchase can grow.
    for (mti, code, expected) in [
        ("0100", "010000", "Cash"),
        ("0200", "000000", "SingleMessage"),
        ("0120", "000000", "Advise Approved"),
    ] {
        let built = message(mti).set_text(3, code).set_text(38, "A1B2C3");
        assert_eq!(word(&built), expected);
    }
}

#[test]
fn only_a_terminal_that_says_so_takes_a_part() {
    for (private, expected) in [
        (None, PartialApproval::NotTaken),
        (Some("61011"), PartialApproval::Taken),
        (Some("61010"), PartialApproval::NotTaken),
        (Some("61011 and text"), PartialApproval::NotTaken),
    ] {
        let mut built = message("0100");
        if let Some(private) = private {
            built = built.set_text(48, private);
        }
        let NetworkCommand::Authorize(authorize) = command(&built) else { panic!() };
        assert_eq!(authorize.partial, expected, "{private:?}");
    }
}

#[test]
fn an_advice_is_approved_unless_its_code_says_otherwise() {
    let rows = [
        ("00", "Approved"),
        ("10", "Approved"),
        ("  ", "Approved"),
        ("05", "Declined"),
        ("51", "Declined"),
    ];
    for (code, outcome) in rows {
        assert_eq!(word(&message("0120").set_text(39, code)), format!("Advise {outcome}"));
    }
    assert_eq!(word(&message("0120")), "Advise Approved");
}

#[test]
fn presentments_are_numbered_by_the_merchant_or_final() {
    let number = |private: &str| {
        let built = message("0220").set_text(48, private);
        let NetworkCommand::Present(present) = command(&built) else { panic!() };
        (present.number.number, present.number.count)
    };
    assert_eq!(number("11040102"), (1, 2));
    assert_eq!(number("11040303"), (3, 3));
    assert_eq!(number("6101111040303"), (3, 3));
    assert_eq!(number("11040102 and text"), (1, 1), "opaque");
    assert_eq!(number("61011"), (1, 1));
    for broken in ["11040201", "11040001", "1102xx", "11020a"] {
        let built = message("0220").set_text(48, broken);
        assert_eq!(refusal(&built), Refusal::Invalid(48), "{broken}");
    }
}

#[test]
fn reversals_and_presentments_name_what_the_authorization_can_be_named_by() {
    let NetworkCommand::Authorize(original) = command(&message("0100")) else { panic!() };
    let trace = original.facts.trace;
    let de90 = "0100000042030512000000000012345".to_owned() + "00000000000";
    let later = |mti| message(mti).set_number(11, 99).set_text(7, "0306080000").set_text(90, &de90);
    let named = |built: &MessageBuilder| match command(built) {
        NetworkCommand::Reverse(command) => command.original,
        NetworkCommand::Present(command) => command.original,
        NetworkCommand::Refund(command) => command.original,
        NetworkCommand::Advise(command) => command.original,
        other => panic!("{other:?}"),
    };
    for mti in ["0400", "0420", "0220", "0120"] {
        let original = named(&later(mti).set_text(38, "A1B2C3"));
        assert_eq!(original.original_key, trace.original_key, "{mti}");
        assert_eq!(original.retrieval_key, trace.retrieval_key, "{mti}");
        assert_eq!(original.authorization_id, Some(AuthorizationId(*b"A1B2C3")), "{mti}");
    }
    let without_acquirer = named(&later("0400").without(32));
    assert_eq!(without_acquirer.original_key, trace.original_key, "DE90 names the acquirer, too");
    assert_ne!(without_acquirer.retrieval_key, trace.retrieval_key);
    let by_reference = named(&message("0400").without(90));
    assert_eq!((by_reference.original_key, by_reference.authorization_id), (None, None));
    // Zeros named a message that never was, whatever else named the right one.
    for filled in ["0".repeat(42), "0100".to_owned() + &"0".repeat(38)] {
        assert_eq!(named(&message("0400").set_text(90, &filled)), by_reference, "{filled}");
    }
}

#[test]
fn a_partial_reversal_says_what_stays() {
    let amount = |built: &MessageBuilder| match command(built) {
        NetworkCommand::Reverse(command) => command.amount,
        other => panic!("{other:?}"),
    };
    let kept = replacement_amounts(5_000).unwrap();
    assert_eq!(amount(&message("0400")), ReversalAmount::Full);
    assert_eq!(
        amount(&message("0400").set(95, &kept)),
        ReversalAmount::RemainingOriginal(Minor(5_000))
    );
    let text = message("0400").set_text(95, "five dollars");
    assert_eq!(refusal(&text), Refusal::Invalid(95));
}

#[test]
fn a_supplied_time_is_passed_on() {
    let private = PrivateUseWriter::new().virtual_micros(1_772_000_000_000_000);
    let timed = message("0100").set(48, private.as_bytes());
    assert_eq!(asked(&timed).2, Some(Timestamp(1_772_000_000_000_000)));
    assert_eq!(asked(&message("0100")).2, None);
}

#[test]
fn what_identifies_a_message_is_in_its_fingerprint_and_nothing_else() {
    let base = asked(&message("0100")).1;
    assert_eq!(asked(&message("0101")).1, base, "a repeat is the same message");
    assert_eq!(base.window, DuplicateWindow::Day);
    let other_keys = [
        message("0120"),
        message("0100").set(2, b"5500000000000004"),
        message("0100").set_text(3, "010000"),
        message("0100").set_number(4, 12_346),
        message("0100").set_text(7, "0305120001"),
        message("0100").set_number(11, 43),
        message("0100").set_text(12, "120001"),
        message("0100").set_text(13, "0306"),
        message("0100").set_text(32, "12346"),
        message("0100").set_text(37, "606412000043"),
        message("0100").set_text(41, "TERM0002"),
        message("0100").without(41),
    ];
    for other in &other_keys {
        assert_ne!(asked(other).1.key, base.key, "{other:?}");
    }
    assert_eq!(asked(&message("0100").set_text(18, "5411")).1, base);
}

#[test]
fn one_trace_belongs_to_one_card_and_amount() {
    let base = asked(&message("0100")).1;
    // The answer to a repeat in another currency took a partial approval for a full one, or the reverse.
    for other in [
        message("0100").set(2, b"5500000000000004"),
        message("0100").set_number(4, 12_346),
        message("0100").set_text(49, "978"),
        message("0100").without(49),
        message("0100").set_number(6, 700).set_text(51, "978"),
    ] {
        let other = asked(&other).1;
        assert_eq!(other.trace, base.trace);
        assert_ne!(other.content, base.content);
    }
    let partial = message("0400").set(95, &replacement_amounts(1).unwrap());
    let (partial, full) = (asked(&partial).1, asked(&message("0400")).1);
    assert_eq!(partial.trace, full.trace);
    assert_ne!(partial.content, full.content);
    for de in [11, 7, 37, 32] {
        if de != 11 {
            assert_ne!(asked(&message("0100").without(de)).1.trace, base.trace, "{de}");
        }
    }
}

#[test]
fn without_time_and_reference_only_repeats_match() {
    let untraced = |mti| asked(&message(mti).without(7).without(37)).1;
    let (first, repeat) = (untraced("0100"), untraced("0101"));
    assert_eq!((first.trace, first.key), (None, repeat.key));
    assert_eq!(first.window, DuplicateWindow::RepeatsOnly { is_repeat: false });
    assert_eq!(repeat.window, DuplicateWindow::RepeatsOnly { is_repeat: true });
    // Once, another purchase with such a filler got the first one's approval.
    for reference in ["            ", "000000000000"] {
        let filled = asked(&message("0100").set_text(7, "0000000000").set_text(37, reference)).1;
        assert_eq!((filled.trace, filled.window), (None, first.window), "{reference:?}");
    }
}

#[test]
fn the_type_in_de90_tells_messages_with_one_key_apart() {
    for (mti, class) in [
        ("0100", Some(MessageClass::Authorization)),
        ("0120", Some(MessageClass::Authorization)),
        ("0220", Some(MessageClass::Financial)),
        ("0000", None),
    ] {
        let de90 = mti.to_owned() + "00004203051200000000001234500000000000";
        let NetworkCommand::Reverse(reverse) = command(&message("0400").set_text(90, &de90)) else {
            panic!("a reversal");
        };
        assert_eq!(reverse.original.class, class, "{mti}");
    }
}
