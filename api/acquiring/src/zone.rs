//! The security of a door's messages: the uses of a zone's keys, and their replacement.
//!
//! | element | with the key | use |
//! |---|---|---|
//! | 128, else 64 | `mac` | the code over the message before it, as it stands on the wire |
//! | 52, else 48 tag 52 | `pin` | the PIN block |
//! | 55 | `issuer` | the chip's cryptogram; the answer has the issuer's |
//! | 70 = 101, 48 | `master` | a new key, wrapped |
//!
//! INVARIANT: on a door with a MAC nothing is carried out without a right code, and every answer has one: under
//! the key that the request's was made with. Only such a door takes new keys.

use std::path::PathBuf;
use std::sync::Arc;

use cardswitch_engine::command::network::NetworkCommand;
use cardswitch_engine::command::{Command, TimedCommand};
use cardswitch_engine::directory::exchanged_key::ExchangedKeyCommand;
use cardswitch_engine::domain::credential::{Cvv, CvvPair, PresentedCredentials, PresentedValue};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_iso8583::{Dialect, EncodeError, Message, private_use};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::hex::{from_hex, to_hex};
use cardswitch_zone::key_block::unwrap;
use cardswitch_zone::{
    ChipData, IssuerKey, KeyBlockFault, KeyFileError, KeyUsage, MAC_BYTES, MacAlgorithm, MacKey,
    MacPlace, PinKey, VerifiedCard, ZoneKey, ZoneKeys,
};
use chrono::{DateTime, Datelike, NaiveDate, Utc};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::de39::De39;
use super::in_flight::PendingRequest;
use super::mapping::{MessageAction, Refusal, map_message, private_use};
use super::mapping_answer::AnswerElements;
use super::presented_card::{PresentedCard, presented_card};
use super::replaced_key::{BroughtKey, KeyExchange, ReplacementRefusal, RotatingKey};
use super::zone_port::ZonePort;

/// DE70 of a new key. Source: ISO 8583:1987, table A6: key change.
///
/// // CHOICE: 101 with the key block in DE48; networks of the field differ.
const KEY_CHANGE: &[u8] = b"101";
/// The most that a peer's clock may be ahead. Units: seconds.
const AHEAD_MAX_S: i64 = 600;
/// The CVV of a message whose chip has not proved itself.
///
/// // CHOICE: a wrong cryptogram is declined as a wrong CVV is (1303, DE39 82), and counts as a wrong credential.
const UNPROVEN: CvvPair = CvvPair { shown: Cvv::NONE, own: Cvv::NONE };

/// The settings of a door's security.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSettings {
    /// The file of keys, see `cardswitch_zone::key_file`.
    pub keys: PathBuf,
    /// The algorithm that authenticates messages; without one, they are not authenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<MacAlgorithm>,
}

/// The reason why a message is refused for the sake of security.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityFault {
    /// It has no code.
    MacMissing,
    /// Its code is another one's.
    MacWrong,
    /// Its key block gives no key.
    KeyBlock(KeyBlockFault),
    /// This door has no use for the key.
    KeyUse(KeyUsage),
    /// Its time is not later than that of the last new key, or than the start of the door; or it is yet to come.
    KeyTime,
}

impl SecurityFault {
    /// The reason as DE44 has it.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::MacMissing => "mac_missing",
            Self::MacWrong => "mac_wrong",
            Self::KeyBlock(_) | Self::KeyUse(_) => "key_refused",
            Self::KeyTime => "key_replayed",
        }
    }
}

/// The security of a door.
#[derive(Debug)]
pub struct Zone {
    mac: Option<(MacAlgorithm, Mutex<RotatingKey<MacKey>>)>,
    pin: Option<Mutex<RotatingKey<PinKey>>>,
    master: Option<ZoneKey>,
    /// The issuer key, with its check value.
    issuer: Option<(IssuerKey, String)>,
    port: Arc<dyn ZonePort>,
}

/// The part of a key that may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneKeyView {
    /// The use of the key.
    pub name: &'static str,
    /// The value by which both ends compare it, in hex digits.
    pub check_value: String,
    /// The time of the message that brought it; none for a key of the file.
    pub exchanged_at: Option<Timestamp>,
}

impl Zone {
    /// Reads the keys of the door of this name.
    /// Errors: the file, or a key of it that does not serve.
    pub fn open(
        door: &str,
        settings: &ZoneSettings,
        port: Arc<dyn ZonePort>,
    ) -> Result<Self, KeyFileError> {
        let path = &settings.keys;
        let usage = settings.mac.map_or(KeyUsage::RetailMac, MacAlgorithm::usage);
        let keys = ZoneKeys::read(path, usage)?;
        let mac = match (settings.mac, keys.mac) {
            (Some(algorithm), Some(key)) => {
                let make = Box::new(move |key: &_| MacKey::new(algorithm, key));
                let of_codes = (door, algorithm.usage());
                let key = RotatingKey::new(of_codes, key, make, Arc::clone(&port));
                let key = key.map_err(|fault| KeyFileError::of_key(path, "mac", fault))?;
                Some((algorithm, Mutex::new(key)))
            }
            (Some(_), None) => {
                return Err(KeyFileError::of_key(
                    path,
                    "mac",
                    "is missing, and the door has a MAC",
                ));
            }
            (None, Some(_)) => {
                let reason = "is there, and the setting `mac` names no algorithm for it";
                return Err(KeyFileError::of_key(path, "mac", reason));
            }
            (None, None) => None,
        };
        let ready = |key: &ZoneKey| Ok(PinKey::new(key.clone()));
        let of_pins =
            |key| RotatingKey::new((door, KeyUsage::Pin), key, Box::new(ready), Arc::clone(&port));
        let pin = keys.pin.map(of_pins).transpose();
        let pin = pin.map_err(|fault| KeyFileError::of_key(path, "pin", fault))?;
        let issuer_check = keys.issuer.as_ref().map(|key| to_hex(&key.check_value()));
        let issuer = keys.issuer.map(IssuerKey::new).transpose();
        let issuer = issuer.map_err(|fault| KeyFileError::of_key(path, "issuer", fault))?;
        let issuer = issuer.zip(issuer_check);
        Ok(Self { mac, pin: pin.map(Mutex::new), master: keys.master, issuer, port })
    }

    /// Goes on with the keys that were exchanged before, as the tables have them. Returns the commands that make
    /// those void in whose place the file has another key: they must be durable before the door opens.
    /// Errors: they cannot be read.
    pub fn resume(
        &self,
        tables: &Snapshot,
        secrets: &Secrets,
    ) -> Result<Vec<ExchangedKeyCommand>, StoreError> {
        let uses = [KeyUsage::Pin, KeyUsage::RetailMac, KeyUsage::Cmac];
        let keys = uses.into_iter().filter_map(|usage| self.replaceable(usage));
        keys.filter_map(|keys| keys.lock().resume(tables, secrets).transpose()).collect()
    }

    /// The key that this door has for a use, if it is one that peers replace.
    fn replaceable(&self, usage: KeyUsage) -> Option<&Mutex<dyn KeyExchange>> {
        match (usage, &self.mac, &self.pin) {
            (KeyUsage::Pin, _, Some(keys)) => Some(keys),
            (_, Some((algorithm, keys)), _) if algorithm.usage() == usage => Some(keys),
            _ => None,
        }
    }

    /// The keys, as far as they may be shown.
    pub fn keys_shown(&self) -> Vec<ZoneKeyView> {
        let shown =
            |name, (check_value, exchanged_at)| ZoneKeyView { name, check_value, exchanged_at };
        let master = self.master.as_ref().map(|key| (to_hex(&key.check_value()), None));
        let issuer = self.issuer.as_ref().map(|(_, check_value)| (check_value.clone(), None));
        let all = [
            ("Message authentication", self.mac.as_ref().map(|(_, keys)| keys.lock().shown())),
            ("PIN", self.pin.as_ref().map(|keys| keys.lock().shown())),
            ("Chip issuer", issuer),
            ("Master", master),
        ];
        all.into_iter().filter_map(|(name, key)| Some(shown(name, key?))).collect()
    }

    /// The algorithm of its codes, and the check values of the keys that its file has, whatever was exchanged since.
    pub fn of_file(&self) -> String {
        let base = |check_value: [u8; 3]| to_hex(&check_value);
        let mac = self.mac.as_ref().map(|(algorithm, keys)| (algorithm, base(keys.lock().base())));
        let pin = self.pin.as_ref().map(|keys| base(keys.lock().base()));
        let issuer = self.issuer.as_ref().map(|(_, check_value)| check_value);
        let master = self.master.as_ref().map(|key| base(key.check_value()));
        format!("{:?}", (mac, pin, issuer, master))
    }

    /// Whether its messages have codes.
    pub(crate) const fn has_codes(&self) -> bool {
        self.mac.is_some()
    }

    /// The parts that the answer to an unreadable message owes.
    pub(crate) fn owed(&self) -> Box<AnswerSecurity> {
        let mac = self.mac.as_ref().map(|(_, keys)| keys.lock().now());
        Box::new(AnswerSecurity { mac, card: None })
    }

    /// Decides the treatment of a message that came as `wire`, and the parts that its answer owes.
    pub(crate) fn map(
        &self,
        message: &Message<'_>,
        wire: &[u8],
        secrets: &Secrets,
    ) -> (MessageAction, Box<AnswerSecurity>) {
        let mut owed = self.owed();
        match self.check_mac(message, wire) {
            Ok(key) => owed.mac = key,
            Err(fault) => return (MessageAction::Refuse(Refusal::Security(fault)), owed),
        }
        if message.mti().class() == 8 && message.get(70) == Some(KEY_CHANGE) {
            let brought = self.brought_key(message, secrets);
            return (brought.map_or_else(MessageAction::Refuse, MessageAction::Exchange), owed);
        }
        let mut mapped = map_message(message, secrets);
        if let MessageAction::Ask(command) = &mut mapped {
            match self.prove(credentials_of(command), message, secrets) {
                Ok(card) => owed.card = card,
                Err(refusal) => mapped = MessageAction::Refuse(refusal),
            }
        }
        (mapped, owed)
    }

    /// Checks the code. Returns the key that it was made with; none where the door has no MAC.
    fn check_mac(
        &self,
        message: &Message<'_>,
        wire: &[u8],
    ) -> Result<Option<Arc<MacKey>>, SecurityFault> {
        let Some((_, keys)) = &self.mac else { return Ok(None) };
        let code = message.get_array(128).or_else(|| message.get_array(64));
        let code = code.ok_or(SecurityFault::MacMissing)?;
        // Elsewhere than at the end it would leave something uncovered.
        let place = MacPlace::of(wire, &code).ok_or(SecurityFault::MacMissing)?;
        let covered = place.covered(wire);
        let keys = keys.lock().usable();
        let key = keys.into_iter().flatten().find(|key| key.is_code_of(covered, &code));
        key.map(Some).ok_or(SecurityFault::MacWrong)
    }

    /// Puts the credentials proven by the zone's keys in place. Returns the card, if its chip has
    /// proved itself.
    fn prove(
        &self,
        all: Vec<&mut PresentedCredentials>,
        message: &Message<'_>,
        secrets: &Secrets,
    ) -> Result<Option<VerifiedCard>, Refusal> {
        let Some(first) = all.first() else { return Ok(None) };
        let mut proved = **first;
        let presented = presented_card(message, secrets)?;
        if let Some(keys) = &self.pin {
            let block = pin_block(message);
            let keys = keys.lock().usable();
            proved.pin = block.map(|block| {
                let opened =
                    keys.iter().flatten().find_map(|key| key.open(&block, presented.digits()));
                PresentedValue::new(presented.pin_verifier(secrets, opened, &block))
            });
        }
        let chip = self.chip_of(message, &presented)?;
        if let Some(None) = chip {
            proved.cvv = Some(PresentedValue::new(UNPROVEN));
        }
        all.into_iter().for_each(|credentials| *credentials = proved);
        Ok(chip.flatten())
    }

    /// The card that a chip's cryptogram proves; none without a cryptogram, `Some(None)` where it proves nothing.
    fn chip_of(
        &self,
        message: &Message<'_>,
        presented: &PresentedCard,
    ) -> Result<Option<Option<VerifiedCard>>, Refusal> {
        let (Some((issuer, _)), Some(content)) = (&self.issuer, message.get(55)) else {
            return Ok(None);
        };
        let Some(data) = ChipData::parse(content).map_err(Refusal::Chip)? else {
            return Ok(None);
        };
        let said = message.get_number(23).and_then(|number| u8::try_from(number % 100).ok());
        let said = said.map_or(0, |number| ((number / 10) << 4) | (number % 10));
        let sequence_number = data.sequence_number.unwrap_or(said);
        Ok(Some(issuer.verify(presented.digits(), sequence_number, &data)))
    }

    /// The new key that a message brings.
    fn brought_key(
        &self,
        message: &Message<'_>,
        secrets: &Secrets,
    ) -> Result<Box<BroughtKey>, Refusal> {
        // The block does not cover the time: only a code keeps an old block from coming under a new one.
        let master = self.master.as_ref().filter(|_| self.has_codes());
        let master = master.ok_or(Refusal::Invalid(70))?;
        if !message.has(11) {
            return Err(Refusal::Missing(11));
        }
        let sent_at = message.get_text(7).ok_or(Refusal::Missing(7))?;
        let now = DateTime::from_timestamp_micros(self.port.wall_time().0).unwrap_or_default();
        let sent_at = moment_near(sent_at, now).ok_or(Refusal::Invalid(7))?;
        let block = message.get_text(48).ok_or(Refusal::Missing(48))?;
        let security = |fault| Refusal::Security(fault);
        if sent_at > now.timestamp() + AHEAD_MAX_S {
            return Err(security(SecurityFault::KeyTime));
        }
        let unwrapped = unwrap(block.trim_end(), master);
        let (usage, key) = unwrapped.map_err(|fault| security(SecurityFault::KeyBlock(fault)))?;
        let no_use = security(SecurityFault::KeyUse(usage));
        let keys = self.replaceable(usage).ok_or(no_use)?;
        let sent_at = Timestamp(sent_at.saturating_mul(Timestamp::SECOND));
        let offered = keys.lock().offer(&key, sent_at, secrets);
        match offered {
            Ok(sealed) => Ok(Box::new(BroughtKey { usage, key, sealed })),
            Err(ReplacementRefusal::Repeated) => Err(security(SecurityFault::KeyTime)),
            Err(ReplacementRefusal::Unfit) => Err(no_use),
            Err(ReplacementRefusal::Unsealed(error)) => {
                tracing::error!(%usage, %error, "a new key of the zone cannot be sealed, so it is not taken");
                Err(Refusal::Unsaved)
            }
        }
    }

    /// Takes a key that is kept.
    pub(crate) fn take_key(&self, usage: KeyUsage, key: &ZoneKey, sent_at: Timestamp) {
        if let Some(keys) = self.replaceable(usage) {
            keys.lock().take(key, sent_at);
            let check_value = to_hex(&key.check_value());
            tracing::info!(%usage, check_value, "a new key of the zone is in force");
        }
    }
}

/// The parts that the answer to a request owes its peer.
#[derive(Debug)]
pub(crate) struct AnswerSecurity {
    mac: Option<Arc<MacKey>>,
    card: Option<VerifiedCard>,
}

impl AnswerSecurity {
    /// Appends the answer that `write` writes with the elements it is given, and its code.
    /// Errors: those of `write`.
    pub(crate) fn encode(
        &self,
        (elements, request, dialect): (&AnswerElements, &PendingRequest, &Dialect),
        out: &mut Vec<u8>,
        write: impl FnOnce(&[(u8, &[u8])], &mut Vec<u8>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let is_approved = De39::is_approval(&elements.code.0);
        let chip = self.card.as_ref();
        let chip = chip.map(|card| card.issuer_authentication(elements.code.0, is_approved));
        let chip = chip.as_deref().map(|data| (55, data));
        let Some(key) = &self.mac else { return write(chip.as_slice(), out) };
        let has_second_bitmap = has_second_bitmap(request, dialect);
        let code = (if has_second_bitmap { 128 } else { 64 }, &[0; MAC_BYTES][..]);
        let start = out.len();
        write(&chip.into_iter().chain([code]).collect::<Vec<_>>(), out)?;
        let place = MacPlace::of(&out[start..], &[0; MAC_BYTES]);
        // INVARIANT: the code is the last element, so there it stands.
        let place = place.ok_or(EncodeError::UnknownElement(code.0))?;
        let code = key.code(place.covered(&out[start..]));
        place.put(&mut out[start..], &code);
        Ok(())
    }
}

/// Whether an answer has fields beyond the first bitmap of its peer's dialect, besides its code.
fn has_second_bitmap(request: &PendingRequest, dialect: &Dialect) -> bool {
    let mut echoed = request.echo.kept.elements();
    match &dialect.translation {
        None => echoed.any(|de| de > 64),
        Some(translation) => {
            echoed.any(|de| translation.field_of(de).is_some_and(|field| field > 64))
                || request.way_back.repeated.has_beyond(64)
        }
    }
}

fn credentials_of(command: &mut TimedCommand) -> Vec<&mut PresentedCredentials> {
    let Command::Network(request) = &mut command.command else { return Vec::new() };
    match &mut request.command {
        NetworkCommand::Authorize(authorize) => vec![&mut authorize.credentials],
        NetworkCommand::InquireBalance(inquiry) => vec![&mut inquiry.credentials],
        NetworkCommand::Increment(increment) => {
            let otherwise = increment.otherwise.as_mut();
            let otherwise = otherwise.map(|authorize| &mut authorize.credentials);
            [&mut increment.credentials].into_iter().chain(otherwise).collect()
        }
        _ => Vec::new(),
    }
}

/// The PIN block of a message.
///
/// // CHOICE: DE52 has 8 bytes, so a block of 16 (format 4) stands in DE48 tag 52, in hex.
fn pin_block(message: &Message<'_>) -> Option<Vec<u8>> {
    if let Some(block) = message.get(52) {
        return Some(block.to_vec());
    }
    let digits = private_use(message)?.find(private_use::PIN_BLOCK)?;
    // A block that is no hex is no PIN: it must not count as an absent one.
    Some(std::str::from_utf8(digits).ok().and_then(from_hex).map_or_else(Vec::new, |b| b.to_vec()))
}

/// The moment that `MMDDhhmmss` says, in the year that brings it nearest to `now`. Units: seconds since 1970.
fn moment_near(text: &str, now: DateTime<Utc>) -> Option<i64> {
    let part = |at: usize| text.get(at..at + 2)?.parse::<u32>().ok();
    let (month, day) = (part(0)?, part(2)?);
    let (hour, minute, second) = (part(4)?, part(6)?, part(8)?);
    let of_year = |year: i32| {
        let date = NaiveDate::from_ymd_opt(year, month, day)?;
        Some(date.and_hms_opt(hour, minute, second)?.and_utc().timestamp())
    };
    let moments = (-1..=1).filter_map(|years| of_year(now.year() + years));
    moments.min_by_key(|moment| moment.abs_diff(now.timestamp()))
}

#[cfg(test)]
#[path = "zone_tests.rs"]
mod tests;
