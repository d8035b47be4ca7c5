//! The peers that speak ISO 8583 with the switch: connections, last messages, refusals and
//! unreadable messages. GET /peers.
//!
//! The page is the switch's, not a company's. So it shows the card of a message, its last four digits, only where
//! the message is about a transaction of the visitor's company, or where the switch serves no other company.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Extension;
use axum::response::Response;
use cardswitch_acquiring::de39::De39;
use cardswitch_acquiring::peer_board::{PeerBoard, PeerFault, SeenDoor, SeenMessage, SeenPeer};
use cardswitch_acquiring::zone::ZoneKeyView;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::domain::ids::{Timestamp, TransactionId};
use cardswitch_engine::store::StoreError;
use cardswitch_identity::state::AppState;
use cardswitch_v1::routes::transactions::{find_transaction, sequence_of};
use cardswitch_v1::routes::view::View;
use chrono::Utc;
use chrono_tz::Tz;

use super::frame;
use super::rights::PeerReader;
use super::words::{Badge, Moment, grouped, last_four, near_moment, zone_words};

/// How many peers of a door are shown: those that came or spoke last.
const SHOWN_MAX: usize = 50;

#[derive(Template)]
#[template(path = "peers.html")]
struct PeersContent {
    zone: String,
    doors: Vec<DoorPart>,
}

struct DoorPart {
    name: String,
    address: String,
    speaks: String,
    keys: Vec<KeyWords>,
    peers: Vec<PeerRow>,
    further: usize,
}

/// A key of a door's zone.
struct KeyWords {
    name: &'static str,
    check_value: String,
    exchanged: Option<Moment>,
}

/// A peer in the list of a door.
struct PeerRow {
    address: IpAddr,
    certificate: Option<String>,
    badge: Badge,
    connections: String,
    answered: String,
    more: Vec<String>,
    last: Moment,
    messages: Vec<MessageLine>,
    faults: Vec<FaultLine>,
}

/// A message with its answer.
struct MessageLine {
    mti: String,
    outcome: String,
    card: Option<String>,
    transaction: Option<String>,
    at: Moment,
}

/// A fault of a peer, and how often it was seen.
struct FaultLine {
    what: String,
    times: Option<String>,
    at: Moment,
}

/// GET /peers.
pub(super) async fn show(
    Extension(board): Extension<Arc<PeerBoard>>,
    PeerReader(acting): PeerReader,
) -> Result<Response, ApiError> {
    let seen = board.seen();
    let ids = &acting.state;
    let doors = acting.read(|view| {
        let is_only = view.snapshot.companies()?.len() == 1;
        let clock =
            PageClock { now: Timestamp(Utc::now().timestamp_micros()), zone: view.company.zone };
        let teller = PeerTeller { state: ids, view, clock, is_only };
        seen.into_iter().map(|door| teller.door(door)).collect::<Result<Vec<_>, StoreError>>()
    });
    let content = PeersContent { doors: doors.await?, zone: zone_words(acting.company.zone) };
    Ok(frame::page("Peers", content))
}

/// Real time by the wall clock of a company, whatever the clock of the switch.
struct PageClock {
    now: Timestamp,
    zone: Tz,
}

impl PageClock {
    fn ago(&self, age: Duration) -> Moment {
        let age = i64::try_from(age.as_micros()).unwrap_or(0);
        near_moment(Timestamp(self.now.0.saturating_sub(age)), self.now, self.zone)
    }
}

/// The words about peers, as far as the visitor may see them.
struct PeerTeller<'a> {
    state: &'a AppState,
    view: &'a View<'a>,
    clock: PageClock,
    is_only: bool,
}

impl PeerTeller<'_> {
    fn door(&self, door: SeenDoor) -> Result<DoorPart, StoreError> {
        let SeenDoor { name, address, speaks, has_tls, keys, peers } = door;
        let further = peers.len().saturating_sub(SHOWN_MAX);
        let peers =
            peers.into_iter().take(SHOWN_MAX).map(|(address, peer)| self.peer(address, &peer));
        let tls = if has_tls { ", TLS" } else { "" };
        Ok(DoorPart {
            name,
            address: address.to_string(),
            speaks: format!("Dialect {speaks}{tls}."),
            keys: keys.into_iter().map(|key| self.key(key)).collect(),
            peers: peers.collect::<Result<_, _>>()?,
            further,
        })
    }

    fn key(&self, key: ZoneKeyView) -> KeyWords {
        let ZoneKeyView { name, check_value, exchanged_at } = key;
        let exchanged = exchanged_at.map(|at| near_moment(at, self.clock.now, self.clock.zone));
        KeyWords { name, check_value, exchanged }
    }

    fn peer(&self, address: IpAddr, peer: &SeenPeer) -> Result<PeerRow, StoreError> {
        Ok(PeerRow {
            address,
            certificate: peer.certificate.clone(),
            badge: badge(peer),
            connections: counted(peer.open as u64, "open connection"),
            answered: counted(peer.messages, "message answered"),
            more: more_words(peer),
            last: self.clock.ago(peer.age()),
            messages: peer
                .recent()
                .map(|message| self.message(message))
                .collect::<Result<_, _>>()?,
            faults: peer.faults().map(|fault| self.fault(fault)).collect(),
        })
    }

    fn message(&self, message: &SeenMessage) -> Result<MessageLine, StoreError> {
        let own = match message.transaction {
            Some(id) => self.own(id)?,
            None => None,
        };
        let card = message.last_four.filter(|_| own.is_some() || self.is_only);
        let code = De39(message.code);
        Ok(MessageLine {
            mti: message.mti.to_string(),
            outcome: format!("{} {}", String::from_utf8_lossy(&code.0), code.words()),
            card: card.map(last_four),
            transaction: own.map(|id| id.0.to_string()),
            at: self.clock.ago(message.age()),
        })
    }

    /// The transaction, where it is one of the visitor's company.
    fn own(&self, id: TransactionId) -> Result<Option<TransactionId>, StoreError> {
        let Ok(seq) = sequence_of(self.state, id) else { return Ok(None) };
        Ok(find_transaction(self.view, seq, id)?.map(|_| id))
    }

    fn fault(&self, fault: &PeerFault) -> FaultLine {
        let times = (fault.count > 1).then(|| format!("{} times", grouped(fault.count)));
        FaultLine { what: fault.what.clone(), times, at: self.clock.ago(fault.age()) }
    }
}

const fn badge(peer: &SeenPeer) -> Badge {
    let (word, look) = match peer {
        SeenPeer { signed_on: 1.., .. } => ("Signed on", "good"),
        SeenPeer { open: 1.., .. } => ("Connected", ""),
        SeenPeer { connections: 0, .. } => ("Refused", "bad"),
        _ => ("Disconnected", "off"),
    };
    Badge { word, look }
}

/// The peer's counts besides those of its messages, in words.
fn more_words(peer: &SeenPeer) -> Vec<String> {
    let words = [(peer.not_approved, "not approved"), (peer.bad_messages, "unreadable or refused")];
    let counts = words.into_iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, words)| format!("{} {words}", grouped(count)));
    let refused = (peer.refused > 0).then(|| counted(peer.refused, "connection refused or cut"));
    counts.chain(refused).collect()
}

/// Connections or messages with their count.
fn counted(count: u64, what: &str) -> String {
    let several = || what.replace("connection", "connections").replace("message", "messages");
    let what = if count == 1 { what.to_owned() } else { several() };
    format!("{} {what}", grouped(count))
}
