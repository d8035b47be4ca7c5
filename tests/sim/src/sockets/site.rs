//! An acquirer's way to speak, and the product's door for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cardswitch_acquiring::peer_board::{DoorNumber, DoorPlate, PeerBoard};
use cardswitch_acquiring::zone::{Zone, ZoneSettings};
use cardswitch_acquiring::zone_port::ZonePort;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_iso8583::{Dialect, Framing};
use cardswitch_secrets::hex::to_hex;
use cardswitch_secrets::issuing::RandomSource;

use super::header::Header;
use super::spelling::{Content, Spelling};
use super::zone_book::{KeyHistory, KeyUse, ZoneBook};
use crate::rng::Rng;
use crate::samples::START;

/// The time of a world, as zones see it.
#[derive(Clone, Debug, Default)]
pub(super) struct WorldClock {
    micros: Arc<AtomicU64>,
    draws: Arc<AtomicU64>,
}

impl WorldClock {
    pub(super) fn set(&self, now: Duration) {
        self.micros.store(now.as_micros() as u64, Ordering::Relaxed);
    }

    /// Units: microseconds since 1970.
    pub(super) fn wall(&self) -> i64 {
        START + self.micros.load(Ordering::Relaxed) as i64
    }
}

impl ZonePort for WorldClock {
    fn wall_time(&self) -> Timestamp {
        Timestamp(self.wall())
    }

    fn steady_time(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }

    fn random(&self) -> Box<dyn RandomSource> {
        let mut rng = Rng::new(self.draws.fetch_add(1, Ordering::Relaxed));
        Box::new(move |bytes: &mut [u8]| {
            bytes.iter_mut().for_each(|byte| *byte = rng.number() as u8)
        })
    }
}

/// The code at the end of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Coding {
    /// By the key of this generation.
    Key(usize),
    Wrong,
    Missing,
    /// The door has none.
    Needless,
}

impl Coding {
    pub(super) fn words(self) -> String {
        match self {
            Self::Key(generation) => format!(" under key {generation}"),
            Self::Wrong => " with a wrong code".to_owned(),
            Self::Missing => " without its code".to_owned(),
            Self::Needless => String::new(),
        }
    }
}

/// An acquirer with its door.
pub(super) struct Site {
    pub(super) spelling: Spelling,
    pub(super) header: Header,
    pub(super) book: Option<ZoneBook>,
    pub(super) name: String,
    pub(super) dialect: Dialect,
    pub(super) door: DoorNumber,
    pub(super) zone: Option<Arc<Zone>>,
    keys: PathBuf,
}

impl Site {
    pub(super) fn draw(
        (rng, more): (&mut Rng, &mut Rng),
        number: usize,
        place: &Path,
        board: &PeerBoard,
        clock: &WorldClock,
    ) -> Self {
        let all = [Spelling::Ascii, Spelling::AsciiHex, Spelling::Ebcdic, Spelling::Packed];
        let drawn = rng.pick(&all);
        let header = Header::draw(rng, drawn == Spelling::AsciiHex);
        // Its bitmaps are bytes, so that no delimiter ends its messages.
        let is_of_1993 = more.chance(30) && !header.has_delimiter();
        let spelling = if is_of_1993 { Spelling::Of1993 } else { drawn };
        let book = ZoneBook::draw((rng, more), clock.steady_time(), clock.wall());
        let (name, mut dialect) = (format!("acquirer-{number}"), dialect_of(spelling));
        dialect.framing =
            Framing { length: header.setting().parse().unwrap(), tpdu: header.addresses.is_some() };
        let door = board.add_door(DoorPlate {
            name: name.clone(),
            address: ([127, 0, 0, 1], 8_583 + number as u16).into(),
            dialect: dialect.clone(),
            has_tls: false,
            zone: None,
        });
        let keys = place.with_file_name(format!("{name}.keys"));
        let mut site = Self { spelling, header, book, name, dialect, door, zone: None, keys };
        site.write_keys();
        site.open_zone(clock);
        site
    }

    /// The file of the door's first keys.
    fn write_keys(&self) {
        let Some(book) = &self.book else { return };
        let line = |name: &str, cipher: &str, key: &[u8]| {
            format!("{name} = {{ {cipher} = \"{}\" }}\n", to_hex(key))
        };
        let mut text = line("master", "tdes", &book.master);
        let mac = book.mac.as_ref().map(|(_, history)| ("mac", history));
        for (name, history) in mac.into_iter().chain(book.pin.as_ref().map(|pin| ("pin", pin))) {
            text += &line(name, history.cipher.name(), &history.generations[0].key);
        }
        if let Some(issuer) = &book.issuer {
            text += &line("issuer", "tdes", issuer);
        }
        fs::write(&self.keys, text).unwrap();
        fs::set_permissions(&self.keys, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// The door opens, with the keys of its file.
    pub(super) fn open_zone(&mut self, clock: &WorldClock) {
        let Some(book) = &self.book else { return };
        let mac = book.mac.as_ref().map(|(algorithm, _)| *algorithm);
        let settings = ZoneSettings { keys: self.keys.clone(), mac };
        let zone = Zone::open(&self.name, &settings, Arc::new(clock.clone())).unwrap();
        self.zone = Some(Arc::new(zone));
    }

    pub(super) fn has_codes(&self) -> bool {
        self.book.as_ref().is_some_and(|book| book.mac.is_some())
    }

    /// A message as it stands on the wire.
    pub(super) fn frame(&self, content: &Content, coding: Coding) -> Vec<u8> {
        let mut fields = self.spelling.fields_of(content);
        if matches!(coding, Coding::Key(_) | Coding::Wrong) {
            let field = code_field(&fields);
            fields = fields.with(field, [0; 8]);
        }
        let mut message = self.spelling.write(&fields);
        let covered = message.len() - self.spelling.code_len().min(message.len());
        let book = self.book.as_ref();
        match coding {
            Coding::Key(generation) => {
                let code = book.unwrap().code(generation, &message[..covered]);
                self.spelling.put_code(code, &mut message);
            }
            Coding::Wrong => {
                let mut code = book.unwrap().code(0, b"another message");
                code[0] ^= covered as u8;
                self.spelling.put_code(code, &mut message);
            }
            Coding::Missing | Coding::Needless => {}
        }
        self.header.frame(&message)
    }

    /// Reads the fields of an answer; with the generation of the key that its code was made with.
    /// Panics: the code is missing, at another place, or by no key of this acquirer.
    pub(super) fn read(&self, body: &[u8], context: &str) -> Option<(Content, Coding)> {
        let mut fields = self.spelling.read(body)?;
        if !self.has_codes() {
            return Some((fields, Coding::Needless));
        }
        let place = [128, 64].into_iter().find(|place| fields.has(*place));
        let place = place.unwrap_or_else(|| panic!("{context}: {fields:?} has no code"));
        let code = fields.elements.remove(&place).unwrap().try_into().unwrap();
        assert_eq!(place, code_field(&fields), "{context}: {fields:?}");
        let covered = &body[..body.len() - self.spelling.code_len()];
        let maker = self.book.as_ref().unwrap().maker_of(code, covered);
        let maker = maker.unwrap_or_else(|| panic!("{context}: {fields:?} has a wrong code"));
        Some((fields, Coding::Key(maker)))
    }

    /// The newest key of a use that the acquirer knows to count.
    pub(super) fn confirmed(&self, of: KeyUse) -> Option<usize> {
        Some(self.book.as_ref()?.history(of)?.confirmed)
    }

    /// The key that those of chips derive from.
    pub(super) fn issuer(&self) -> Option<&[u8]> {
        self.book.as_ref()?.issuer.as_deref()
    }

    pub(super) fn words(&self) -> String {
        let history = |of| self.book.as_ref().and_then(|book| book.history(of));
        let of = |words: &str, history: Option<&KeyHistory>| {
            history.map(|history| format!(", {words} of {}", history.cipher.name()))
        };
        let tpdu = if self.header.addresses.is_some() { ", TPDU" } else { "" };
        let keys = [of("MAC", history(KeyUse::Mac)), of("PIN key", history(KeyUse::Pin))];
        let keys = keys.map(Option::unwrap_or_default).concat();
        let issuer = if self.issuer().is_some() { ", issuer key" } else { "" };
        format!("{}, {}{tpdu}{keys}{issuer}", self.spelling.dialect(), self.header.setting())
    }
}

/// The field of a message's code. Source: ISO 8583, DE64 and DE128.
fn code_field(fields: &Content) -> u8 {
    if fields.elements.keys().any(|element| *element > 64) { 128 } else { 64 }
}

/// The product's dialect of a spelling. Files are read once for all worlds.
fn dialect_of(spelling: Spelling) -> Dialect {
    static DIALECTS: OnceLock<[Dialect; 5]> = OnceLock::new();
    let all =
        [Spelling::Ascii, Spelling::AsciiHex, Spelling::Ebcdic, Spelling::Packed, Spelling::Of1993];
    let read = || all.map(|spelling| cardswitch_dialects::find(spelling.dialect()).unwrap());
    DIALECTS.get_or_init(read)[spelling as usize].clone()
}
