//! A door's security without its socket: which codes and keys count, and what a message may prove with them.
//! Outside programs judge the same over real connections: `tests/outside/test_wire_security.py`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use cardswitch_engine::command::network::NetworkRequest;
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::domain::ids::RecordSeq;
use cardswitch_engine::submission::ReplyPort;
use cardswitch_iso8583::{MessageBuilder, Mti, decode};
use cardswitch_secrets::issuing::RandomSource;
use cardswitch_zone::Algorithm;
use cardswitch_zone::key_block::wrap;

use super::*;
use crate::in_flight::WayBack;

const MASTER: &str = "0123456789abcdeffedcba98765432101122334455667788";
const MAC: &str = "1111111111111111aaaaaaaaaaaaaaaa";
const PIN: &str = "0123456789abcdeffedcba9876543210";
const ISSUER: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A port at which no time passes.
#[derive(Debug)]
struct StandingPort;

impl ZonePort for StandingPort {
    fn wall_time(&self) -> Timestamp {
        Timestamp(now().timestamp_micros())
    }

    fn steady_time(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> Box<dyn RandomSource> {
        Box::new(|bytes: &mut [u8]| bytes.fill(7))
    }
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_772_000_000, 0).unwrap()
}

fn opened(text: &str, mac: Option<MacAlgorithm>) -> Result<Zone, String> {
    let home = tempfile::tempdir().unwrap();
    let keys = home.path().join("zone.keys");
    fs::write(&keys, text).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
    Zone::open("iso8583", &ZoneSettings { keys, mac }, Arc::new(StandingPort))
        .map_err(|error| error.to_string())
}

fn zone(names: &[(&str, &str)], mac: Option<MacAlgorithm>) -> Zone {
    let line = |(name, digits): &(&str, &str)| format!("{name} = {{ tdes = \"{digits}\" }}\n");
    opened(&names.iter().map(line).collect::<String>(), mac).unwrap()
}

fn tdes(hex: &str) -> ZoneKey {
    ZoneKey::new(Algorithm::Tdes, from_hex(hex).unwrap()).unwrap()
}

fn secrets() -> Secrets {
    Secrets::from_root([1; 32])
}

fn frame(message: &MessageBuilder) -> Vec<u8> {
    let mut frame = Vec::new();
    message.encode(&mut frame).unwrap();
    frame
}

fn with_code(message: MessageBuilder, de: u8, key: &MacKey) -> Vec<u8> {
    let mut frame = frame(&message.set(de, &[0; 8]));
    let covered = frame.len() - MAC_BYTES;
    let code = key.code(&frame[..covered]);
    frame[covered..].copy_from_slice(&code);
    frame
}

fn echo_test() -> MessageBuilder {
    MessageBuilder::new(Mti::NETWORK_REQUEST).set_number(11, 1).set_text(70, "301")
}

fn map(zone: &Zone, frame: &[u8]) -> (MessageAction, Box<AnswerSecurity>) {
    zone.map(&decode(frame).unwrap(), frame, &secrets())
}

fn fault_of(mapped: &MessageAction) -> Option<SecurityFault> {
    match mapped {
        MessageAction::Refuse(Refusal::Security(fault)) => Some(*fault),
        _ => None,
    }
}

#[test]
fn nothing_is_carried_out_without_a_right_code() {
    for algorithm in [MacAlgorithm::Retail1, MacAlgorithm::Retail2, MacAlgorithm::Cmac] {
        let zone = zone(&[("mac", MAC)], Some(algorithm));
        let key = MacKey::new(algorithm, &tdes(MAC)).unwrap();
        let right = with_code(echo_test(), 128, &key);
        assert!(matches!(map(&zone, &right).0, MessageAction::Answer(De39::APPROVED)));
        for place in 12..right.len() {
            let mut changed = right.clone();
            changed[place] ^= 1;
            let Ok(message) = decode(&changed) else { continue };
            let mapped = zone.map(&message, &changed, &secrets()).0;
            assert_eq!(fault_of(&mapped), Some(SecurityFault::MacWrong), "{place}");
        }
        let missing = fault_of(&map(&zone, &frame(&echo_test())).0);
        assert_eq!(missing, Some(SecurityFault::MacMissing));
        // A code in the first half would leave the second half uncovered.
        let early = frame(&echo_test().set(64, &[7; 8]));
        assert_eq!(fault_of(&map(&zone, &early).0), Some(SecurityFault::MacMissing));
        let other = MacKey::new(algorithm, &tdes(PIN)).unwrap();
        let wrong = fault_of(&map(&zone, &with_code(echo_test(), 128, &other)).0);
        assert_eq!(wrong, Some(SecurityFault::MacWrong));
    }
}

#[test]
fn every_answer_has_a_code_whatever_became_of_its_request() {
    let zone = zone(&[("mac", MAC)], Some(MacAlgorithm::Retail1));
    let key = MacKey::new(MacAlgorithm::Retail1, &tdes(MAC)).unwrap();
    let money = MessageBuilder::new(Mti::AUTHORIZATION_REQUEST).set_number(11, 1).set_number(4, 5);
    for (request, de) in [(frame(&echo_test()), 128), (frame(&money), 64)] {
        let request = decode(&request).unwrap();
        let request = PendingRequest::of(&request, WayBack::default());
        for elements in [AnswerElements::not_taken(), AnswerElements::plain(De39::APPROVED)] {
            let mut out = b"before".to_vec();
            let write = |further: &[(u8, &[u8])], out: &mut Vec<u8>| {
                elements.write(&request.echo, further, |answer| answer.encode(out))
            };
            zone.owed()
                .encode((&elements, &request, &Dialect::default()), &mut out, write)
                .unwrap();
            let answer = decode(&out[6..]).unwrap();
            let code = answer.get_array(de).unwrap();
            assert!(key.is_code_of(&out[6..out.len() - MAC_BYTES], &code), "{answer:?}");
        }
    }
}

fn key_change(block: &str, sent_at: &str) -> Vec<u8> {
    frame(
        &MessageBuilder::new(Mti::NETWORK_REQUEST)
            .set_text(7, sent_at)
            .set_number(11, 7)
            .set_text(48, block)
            .set_text(70, "101"),
    )
}

/// The engine, which answers at once, and the waiter for its answers.
struct InstantEngine(Mutex<Vec<Reply>>);

impl ReplyPort for InstantEngine {
    fn deliver(&self, _: u64, reply: Reply) {
        self.0.lock().push(reply);
    }
}

fn changed(zone: &Arc<Zone>, block: &str, sent_at: DateTime<Utc>) -> Result<(), Refusal> {
    answered(zone, block, sent_at, Reply::Done(RecordSeq(1)))
}

/// A key change to which the engine answers so.
fn answered(
    zone: &Arc<Zone>,
    block: &str,
    sent_at: DateTime<Utc>,
    reply: Reply,
) -> Result<(), Refusal> {
    let sent = key_change(block, &sent_at.format("%m%d%H%M%S").to_string());
    let key = zone.brought_key(&decode(&sent).unwrap(), &secrets())?;
    let peer = Arc::new(InstantEngine(Mutex::default()));
    let envelope = key.exchange(zone, [192, 0, 2, 7].into(), (3, Arc::clone(&peer) as _));
    let Command::Noted(noted) = envelope.command.command else { panic!("no change") };
    assert_eq!(noted.note.address.as_deref(), Some("192.0.2.7"));
    envelope.port.deliver(envelope.tag, reply.clone());
    assert_eq!(*peer.0.lock(), [reply]);
    Ok(())
}

#[test]
fn a_new_key_counts_once_it_is_kept() {
    let zone = zone(&[("master", MASTER), ("mac", MAC)], Some(MacAlgorithm::Retail1));
    let zone = Arc::new(zone);
    let fresh = tdes("22222222222222223333333333333333");
    let mac = wrap(KeyUsage::RetailMac, &fresh, &tdes(MASTER)).unwrap();
    let later = |seconds: i64| now() + chrono::TimeDelta::seconds(seconds);
    let newest = || zone.keys_shown()[0].check_value.clone();
    let before = newest();
    let refusals = [Reply::Rejected(Rejection::ZoneKeyRepeated), Reply::OutcomeUnknown];
    for reply in refusals {
        assert_eq!(answered(&zone, &mac, later(5), reply), Ok(()));
        assert_eq!(newest(), before);
    }
    let sent_at = later(5);
    assert_eq!(changed(&zone, &mac, sent_at), Ok(()));
    assert_eq!(newest(), to_hex(&fresh.check_value()));
    // Another line's answer comes late: the later key stays, the earlier one is the key before.
    let [other, old] = [PIN, MAC].map(tdes);
    zone.take_key(KeyUsage::RetailMac, &other, Timestamp((sent_at.timestamp() - 1) * 1_000_000));
    assert_eq!(newest(), to_hex(&fresh.check_value()));
    let is_usable = |key: &ZoneKey| {
        let asked = with_code(echo_test(), 128, &MacKey::new(MacAlgorithm::Retail1, key).unwrap());
        fault_of(&map(&zone, &asked).0).is_none()
    };
    assert_eq!([&fresh, &other, &old].map(is_usable), [true, true, false]);
}

#[test]
fn a_new_key_comes_wrapped_and_once() {
    let zone = zone(&[("master", MASTER), ("mac", MAC), ("pin", PIN)], Some(MacAlgorithm::Retail1));
    let (zone, master) = (Arc::new(zone), tdes(MASTER));
    let fresh = tdes("22222222222222223333333333333333");
    let mac = wrap(KeyUsage::RetailMac, &fresh, &master).unwrap();
    let pin = wrap(KeyUsage::Pin, &fresh, &master).unwrap();
    let cmac = wrap(KeyUsage::Cmac, &fresh, &master).unwrap();
    let later = |seconds: i64| now() + chrono::TimeDelta::seconds(seconds);
    let time = Err(Refusal::Security(SecurityFault::KeyTime));

    let old = MacKey::new(MacAlgorithm::Retail1, &tdes(MAC)).unwrap();
    let new = MacKey::new(MacAlgorithm::Retail1, &fresh).unwrap();
    let sent_at = later(5);
    assert_eq!(changed(&zone, &mac, later(-1)), time, "before the door was started");
    assert_eq!(changed(&zone, &mac, later(AHEAD_MAX_S + 60)), time, "yet to come");
    assert_eq!(changed(&zone, &mac, sent_at), Ok(()));
    assert_eq!(changed(&zone, &mac, sent_at), time, "a repetition");
    assert_eq!(changed(&zone, &pin, sent_at), Ok(()), "another key has a time of its own");
    for key in [&old, &new] {
        // A message that was under way is still taken, and answered under its own key.
        let asked = with_code(echo_test(), 128, key);
        let (mapped, owed) = map(&zone, &asked);
        assert!(matches!(mapped, MessageAction::Answer(De39::APPROVED)));
        assert_eq!(owed.mac.unwrap().code(b"x"), key.code(b"x"));
    }
    let [_, before] = zone.mac.as_ref().unwrap().1.lock().usable();
    assert!(before.is_some());

    let no_use = Err(Refusal::Security(SecurityFault::KeyUse(KeyUsage::Cmac)));
    assert_eq!(changed(&zone, &cmac, later(9)), no_use);
    let mut cut = mac.clone();
    cut.truncate(90);
    assert!(matches!(
        changed(&zone, &cut, later(9)),
        Err(Refusal::Security(SecurityFault::KeyBlock(KeyBlockFault::Form(_))))
    ));
    let other = wrap(KeyUsage::RetailMac, &fresh, &tdes(MAC)).unwrap();
    let code = Err(Refusal::Security(SecurityFault::KeyBlock(KeyBlockFault::Code)));
    assert_eq!(changed(&zone, &other, later(9)), code);
    assert_eq!(changed(&zone, &mac, later(9)), Ok(()), "refusals change nothing");
}

#[test]
fn a_key_change_that_lacks_something_is_refused() {
    let whole = key_change("B0096", "1231235959");
    let zone = zone(&[("mac", MAC)], Some(MacAlgorithm::Retail1));
    let message = decode(&whole).unwrap();
    let refused = zone.brought_key(&message, &secrets()).unwrap_err();
    assert_eq!(refused, Refusal::Invalid(70), "no master key");
    // A recorded block under a new time put an old PIN key back in force.
    let open = Arc::new(self::zone(&[("master", MASTER), ("pin", PIN)], None));
    let block = wrap(KeyUsage::Pin, &tdes(MAC), &tdes(MASTER)).unwrap();
    let later = now() + chrono::TimeDelta::seconds(5);
    assert_eq!(changed(&open, &block, later), Err(Refusal::Invalid(70)), "no codes");
    let moment = |text: &str| DateTime::parse_from_rfc3339(text).unwrap().to_utc();
    // Around the turn of a year the year is the nearer one.
    let at = moment("2027-01-01T00:00:10Z");
    assert_eq!(moment_near("1231235959", at), Some(at.timestamp() - 11));
    assert_eq!(moment_near("0101000009", moment("2026-12-31T23:59:59Z")), Some(at.timestamp() - 1));
    for text in ["", "1301000000", "0230000000", "0101250000", "01010000", "01xx000000"] {
        assert_eq!(moment_near(text, at), None, "{text}");
    }
}

fn purchase() -> MessageBuilder {
    MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
        .set(2, b"1234567890123456")
        .set_text(3, "000000")
        .set_number(4, 5000)
        .set_number(11, 42)
        .set_text(48, "9203123")
}

/// The proofs of a purchase, as text: a credential has no other form.
fn proved(zone: &Zone, message: &MessageBuilder) -> Result<(bool, bool, bool), Refusal> {
    let (mapped, owed) = map(zone, &frame(message));
    match mapped {
        MessageAction::Ask(TimedCommand { command: Command::Network(request), .. }) => {
            let NetworkRequest { command: NetworkCommand::Authorize(authorize), .. } = *request
            else {
                panic!("no purchase");
            };
            let credentials = authorize.credentials;
            Ok((credentials.pin.is_some(), credentials.cvv.is_some(), owed.card.is_some()))
        }
        MessageAction::Refuse(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

const CHIP: &str = "9f02060000000099999f03060000000000009f1a020840950580000480005f2a0208409a03991231\
                    9c01019f370452bf4585820218009f36020fff9f100706011203a0b8009f2608769577b5abe9fe62";

#[test]
fn chips_and_pins_prove_what_they_prove() {
    let zone = zone(&[("pin", PIN), ("issuer", ISSUER)], None);
    let chip = from_hex(CHIP).unwrap();
    assert_eq!(proved(&zone, &purchase()), Ok((false, true, false)));
    assert_eq!(proved(&zone, &purchase().set(52, &[1; 8])), Ok((true, true, false)));
    assert_eq!(proved(&zone, &purchase().set(55, &chip)), Ok((false, true, true)));
    let mut other = chip.to_vec();
    other[8] ^= 1;
    assert_eq!(proved(&zone, &purchase().set(55, &other)), Ok((false, true, false)));
    let cut = proved(&zone, &purchase().set(55, &chip[..chip.len() - 1]));
    assert!(matches!(cut, Err(Refusal::Chip(_))), "{cut:?}");
    // A block that is no hex counts as a wrong PIN, not as none.
    let text = purchase().set_text(48, &format!("5232{}", "x".repeat(32)));
    assert_eq!(proved(&zone, &text), Ok((true, false, false)));
}

#[test]
fn a_door_is_opened_with_the_keys_that_it_needs_and_no_other() {
    let mac = format!("mac = {{ tdes = \"{MAC}\" }}");
    let rows = [
        (String::new(), Some(MacAlgorithm::Cmac), "`mac` is missing, and the door has a MAC"),
        (mac.clone(), None, "`mac` is there, and the setting `mac` names no algorithm"),
        (
            format!("mac = {{ aes = \"{MAC}\" }}"),
            Some(MacAlgorithm::Retail1),
            "`mac` is not a TDES key of 16 bytes",
        ),
        (format!("issuer = {{ tdes = \"{MASTER}\" }}"), None, "`issuer` is not a TDES key of 16"),
    ];
    for (text, algorithm, words) in rows {
        let error = opened(&text, algorithm).unwrap_err();
        assert!(error.contains(words) && error.contains("zone.keys"), "{error}");
    }
    assert!(opened(&mac, Some(MacAlgorithm::Retail1)).is_ok());
}
