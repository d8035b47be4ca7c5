//! The cells behind a router, and which of them a message or a request names: pure, without a look-up.
//!
//! | what comes | its cell |
//! |---|---|
//! | ISO 8583 message | that of DE2, else of the card number in DE35 |
//! | HTTP request with a token or a network key | that of the token or key |
//! | any other | that of the first id or key in the path |
//!
//! An unknown cell, or none, stands for the home cell.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use axum::http::HeaderMap;
use cardswitch_edge::bearer::bearer_of;
use cardswitch_edge::tls_client::{ClientTls, NoDoorNameError};
use cardswitch_engine::domain::cell::{Cell, NoCellError};
use cardswitch_iso8583::{Message, Track2};
use uuid::Uuid;

use crate::addresses::{Addresses, Place};
use crate::cell_door::{CellDoor, DoorKind};

#[derive(Debug)]
pub(crate) struct CellDoors {
    pub(crate) http: Arc<CellDoor>,
    pub(crate) iso8583: Arc<CellDoor>,
}

/// A cell and where it is, as a command line has it: `01=http://HOST:PORT,iso8583://HOST:PORT`. `https` and
/// `iso8583s` speak TLS.
#[derive(Clone, Debug)]
pub struct CellAddresses {
    cell: Cell,
    http: Vec<Place>,
    iso8583: Vec<Place>,
}

/// Why there cannot be such cells.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellsError {
    /// The addresses are not behind a cell.
    #[error("write NN=http://HOST:PORT,iso8583://HOST:PORT")]
    NoCell,
    /// The cell is none.
    #[error(transparent)]
    Cell(#[from] NoCellError),
    /// An address is none.
    #[error("`{0}` is neither http[s]://HOST:PORT nor iso8583[s]://HOST:PORT")]
    Address(String),
    /// A host has no name that a certificate could be for.
    #[error("cell {0}: {1}")]
    Name(Cell, NoDoorNameError),
    /// Nothing says which certificates of a cell to believe.
    #[error(
        "cell {0} has an address with TLS: name the authorities of its certificate by --cell-ca"
    )]
    NoAuthorities(Cell),
    /// Authorities are named in vain.
    #[error(
        "--cell-ca is for addresses with TLS, and no cell has one: write https:// or iso8583s://"
    )]
    NoTls,
    /// A door has no address.
    #[error("an address of the {0} door is missing")]
    Missing(&'static str),
    /// A cell comes twice.
    #[error("cell {0} is given twice; write all its addresses behind one `=`")]
    Twice(Cell),
    /// The home cell is not there.
    #[error("the home cell {0} is not among the cells")]
    NoHome(Cell),
}

impl FromStr for CellAddresses {
    type Err = CellsError;

    fn from_str(text: &str) -> Result<Self, CellsError> {
        let (cell, addresses) = text.split_once('=').ok_or(CellsError::NoCell)?;
        let mut read = Self { cell: cell.parse()?, http: Vec::new(), iso8583: Vec::new() };
        for url in addresses.split(',') {
            let refused = || CellsError::Address(url.to_owned());
            let (scheme, rest) = url.split_once("://").ok_or_else(refused)?;
            let address = rest.strip_suffix('/').unwrap_or(rest);
            let (host, port) = address.rsplit_once(':').ok_or_else(refused)?;
            if host.is_empty() || host.contains(['/', '@']) || port.parse::<u16>().is_err() {
                return Err(refused());
            }
            let plain = scheme.strip_suffix('s');
            let place = Place { address: address.to_owned(), is_secured: plain.is_some() };
            match plain.unwrap_or(scheme) {
                "http" => read.http.push(place),
                "iso8583" => read.iso8583.push(place),
                _ => return Err(refused()),
            }
        }
        for (door, name) in [(&read.http, "http"), (&read.iso8583, "iso8583")] {
            if door.is_empty() {
                return Err(CellsError::Missing(name));
            }
        }
        Ok(read)
    }
}

impl CellAddresses {
    fn has_tls(&self) -> bool {
        self.http.iter().chain(&self.iso8583).any(|place| place.is_secured)
    }
}

/// All cells.
#[derive(Debug)]
pub struct Cells {
    doors: BTreeMap<Cell, CellDoors>,
    home: Cell,
    bins: Vec<String>,
}

impl Cells {
    /// The cells at these addresses, whose card numbers begin with one of `bins`. `tls` is for addresses with TLS.
    /// Errors: one comes twice, or `home` is not among them; TLS is asked for without authorities, or they are
    /// named in vain.
    pub fn new(
        all: Vec<CellAddresses>,
        home: Cell,
        bins: Vec<String>,
        tls: Option<&Arc<ClientTls>>,
    ) -> Result<Self, CellsError> {
        if tls.is_some() && !all.iter().any(CellAddresses::has_tls) {
            return Err(CellsError::NoTls);
        }
        let mut doors = BTreeMap::new();
        for addresses in all {
            let cell = addresses.cell;
            if tls.is_none() && addresses.has_tls() {
                return Err(CellsError::NoAuthorities(cell));
            }
            let open = |kind, places| {
                let opened = Addresses::new(places, tls);
                let door = opened.map(|opened| Arc::new(CellDoor::new(cell, kind, opened)));
                door.map_err(|error| CellsError::Name(cell, error))
            };
            let http = open(DoorKind::Http, addresses.http)?;
            let iso8583 = open(DoorKind::Iso8583, addresses.iso8583)?;
            if doors.insert(cell, CellDoors { http, iso8583 }).is_some() {
                return Err(CellsError::Twice(cell));
            }
        }
        if !doors.contains_key(&home) {
            return Err(CellsError::NoHome(home));
        }
        Ok(Self { doors, home, bins })
    }

    pub(crate) fn doors(&self, cell: Cell) -> &CellDoors {
        // INVARIANT: cells come from the functions below, which name no other.
        self.doors.get(&cell).expect("the doors of a known cell")
    }

    /// Every door, in the order of cells.
    pub fn all_doors(&self) -> impl Iterator<Item = &Arc<CellDoor>> {
        self.doors.values().flat_map(|doors| [&doors.http, &doors.iso8583])
    }

    /// The cell of what could be read of a message.
    pub(crate) fn of_message(&self, readable: Option<&Message<'_>>) -> Cell {
        let number = readable.and_then(card_number);
        let of_bin = |bin: &String| Cell::of_card_number(number?, bin.as_bytes());
        self.known_or_home(self.bins.iter().find_map(of_bin))
    }

    pub(crate) fn of_request(&self, headers: &HeaderMap, path: &str) -> Cell {
        self.known_or_home(match bearer_of(headers) {
            Some(token) => Cell::of_token(token),
            None => path.split('/').find_map(cell_of_segment),
        })
    }

    fn known_or_home(&self, named: Option<Cell>) -> Cell {
        named.filter(|cell| self.doors.contains_key(cell)).unwrap_or(self.home)
    }
}

/// The digits of the card number, in DE2 or in the track.
fn card_number<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    let of_track = || Track2::parse(message.get(35)?).map(|track| track.pan.as_bytes());
    message.get(2).or_else(of_track)
}

/// The cell of a path's segment that is an id, or the key of a shared link.
fn cell_of_segment(segment: &str) -> Option<Cell> {
    let of_id = |id: Uuid| Cell::of_id(id);
    segment.parse().ok().and_then(of_id).or_else(|| Cell::of_token(segment))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use axum::http::header::AUTHORIZATION;
    use cardswitch_iso8583::{MessageBuilder, Mti, decode};

    use super::*;

    const PLACES: &str = "http://127.0.0.1:1,iso8583://127.0.0.1:2";

    fn cells() -> Cells {
        let all = ["01", "02", "99"].map(|cell| format!("{cell}={PLACES}").parse().unwrap());
        let bins = ["45371100", "411111"].map(str::to_owned);
        Cells::new(all.into(), "02".parse().unwrap(), bins.into(), None).unwrap()
    }

    #[test]
    fn cells_are_read_from_their_addresses() {
        for (text, error) in [
            ("01=http://10.0.0.1:80,iso8583://10.0.0.1:8583", None),
            ("01=iso8583://[::1]:8583,http://one.example:80/,http://two.example:80", None),
            ("01", Some("write NN=")),
            ("1=http://a:1,iso8583://a:2", Some("two digits")),
            ("01=", Some("`` is neither")),
            ("01=http://a:1", Some("the iso8583 door")),
            ("01=iso8583://a:1", Some("the http door")),
            ("01=https://a:1,iso8583s://a:2,iso8583://b:2", None),
            ("01=httpss://a:1,iso8583://a:2", Some("`httpss://a:1` is neither")),
            ("01=http://a,iso8583://a:2", Some("`http://a` is neither")),
            ("01=http://a:99999,iso8583://a:2", Some("neither")),
            ("01=http://a/b:1,iso8583://a:2", Some("neither")),
        ] {
            let told = text.parse::<CellAddresses>().err().map(|error| error.to_string());
            let is_expected = match (&told, error) {
                (None, None) => true,
                (Some(told), Some(error)) => told.contains(error),
                _ => false,
            };
            assert!(is_expected, "{text}: {told:?}");
        }
        let all = || vec![format!("01={PLACES}").parse().unwrap()];
        let [first, second] = ["01", "02"].map(|cell| cell.parse().unwrap());
        let twice = all().into_iter().chain(all()).collect();
        assert_eq!(Cells::new(twice, first, vec![], None).err(), Some(CellsError::Twice(first)));
        assert_eq!(Cells::new(all(), second, vec![], None).err(), Some(CellsError::NoHome(second)));
        let secured = vec!["01=https://a:1,iso8583://a:2".parse().unwrap()];
        let refused = Cells::new(secured, first, vec![], None).err();
        assert_eq!(refused, Some(CellsError::NoAuthorities(first)));
    }

    #[test]
    fn a_message_goes_to_the_cell_of_its_card() {
        for (number, track, cell) in [
            (Some("4537110001123456"), None, "01"),
            (Some("4111110112345678"), None, "01"),
            (None, Some("4537110001123456=29121010000"), "01"),
            (Some("4537110099123456"), Some("4537110001123456=29121010000"), "99"),
            // Unknown to all, so home: another slot, another BIN, none at all.
            (Some("4537110003123456"), None, "02"),
            (Some("5555550001123456"), None, "02"),
            (Some("45371100"), None, "02"),
            (None, Some("=2912"), "02"),
            (None, None, "02"),
        ] {
            let mut frame = Vec::new();
            let mut message = MessageBuilder::new(Mti::NETWORK_REQUEST).set_number(11, 1);
            if let Some(number) = number {
                message = message.set(2, number.as_bytes());
            }
            if let Some(track) = track {
                message = message.set(35, track.as_bytes());
            }
            message.encode(&mut frame).unwrap();
            let named = cells().of_message(Some(&decode(&frame).unwrap()));
            assert_eq!(named.to_string(), cell, "{number:?} {track:?}");
        }
        assert_eq!(cells().of_message(None).to_string(), "02");
    }

    #[test]
    fn a_request_goes_to_the_cell_of_its_token_else_of_its_path() {
        let cell: Cell = "01".parse().unwrap();
        let token = |cell: &str| format!("{cell}{}", "ab".repeat(31));
        let id = cell.mark_id(Uuid::now_v7());
        let of_other = "57".parse::<Cell>().unwrap().mark_id(Uuid::now_v7());
        for (authorization, path, cell) in [
            (Some(format!("Token {}", token("01"))), "/v1/cards".to_owned(), "01"),
            (Some(format!("Bearer {}", token("99"))), format!("/v1/cards/{id}"), "99"),
            (Some(format!("Bearer {}", token("57"))), format!("/v1/cards/{id}"), "02"),
            (Some("Bearer short".to_owned()), format!("/v1/cards/{id}"), "02"),
            (Some("Basic YTpi".to_owned()), format!("/v1/cards/{id}"), "01"),
            (None, format!("/v1/cards/{id}"), "01"),
            (None, format!("/v1/cards/{of_other}"), "02"),
            (None, format!("/s/{}", token("99")), "99"),
            (None, format!("/cards/{of_other}/{id}"), "02"),
            (None, "/login".to_owned(), "02"),
            (None, "*".to_owned(), "02"),
        ] {
            let value = authorization.map(|text| HeaderValue::try_from(text).unwrap());
            let headers = value.map(|value| (AUTHORIZATION, value)).into_iter().collect();
            assert_eq!(cells().of_request(&headers, &path).to_string(), cell, "{headers:?} {path}");
        }
    }
}
