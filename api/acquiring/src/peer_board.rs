//! Peers that have spoken at the doors since the start: counts, last messages, refusals, unreadable
//! bytes.
//!
//! A peer is an address at a door. Each of its connections notes the messages it answers in a place of its own, and
//! hands them over before it writes: one lock a batch, and that of its peer alone. A switch knows a bounded number
//! of peers; beyond, one without a connection is forgotten, first among those never let in.
//!
//! INVARIANT: of a card nothing but its last four digits is kept, of a message nothing a card could be in.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_iso8583::{Dialect, Echo, Mti};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::de39::De39;
use super::limits::{PEER_FAULT_CHARS_MAX, PEER_FAULTS_MAX, PEER_MESSAGES_MAX, PEERS_MAX};
use super::zone::{Zone, ZoneKeyView};

/// Messages that a connection keeps until it hands them over: the last of what it answered at once.
const GATHERED_MAX: usize = 4;

/// A message that was answered.
#[derive(Clone, Copy, Debug)]
pub struct SeenMessage {
    /// Its type, as the default dialect has it.
    pub mti: Mti,
    /// DE39 of the answer.
    pub code: [u8; 2],
    /// The last four digits of its card, if it names one.
    pub last_four: Option<[u8; 4]>,
    /// The transaction that it is about.
    pub transaction: Option<TransactionId>,
    since: Stopwatch,
}

impl SeenMessage {
    /// A message whose answer has this code.
    pub(crate) fn new(echo: &Echo, code: De39, received: Option<Stopwatch>) -> Self {
        Self {
            mti: echo.mti,
            code: code.0,
            last_four: echo.get(2).and_then(|pan| pan.last_chunk().copied()),
            transaction: None,
            since: received.unwrap_or_else(Stopwatch::start),
        }
    }

    /// The same, about a transaction.
    pub(crate) const fn about(self, transaction: Option<TransactionId>) -> Self {
        Self { transaction, ..self }
    }

    /// The time since it came.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Whether it was approved, wholly or in part.
    pub fn is_approved(&self) -> bool {
        De39::is_approval(&self.code)
    }
}

/// A fault of a peer: a connection refused or cut, a message that could not be carried out.
#[derive(Clone, Debug)]
pub struct PeerFault {
    /// The fault in words, with the dialect that the bytes seem to be of.
    pub what: String,
    /// The number of times in a row.
    pub count: u64,
    last: Stopwatch,
}

impl PeerFault {
    /// The time since it was seen last.
    pub fn age(&self) -> Duration {
        self.last.elapsed()
    }
}

/// A peer as it was seen since the start.
#[derive(Clone, Debug, Default)]
pub struct SeenPeer {
    /// Connections that are open.
    pub open: usize,
    /// Open connections that have signed on and not off.
    pub signed_on: usize,
    /// Connections that were let in.
    pub connections: u64,
    /// Connections that were refused or cut.
    pub refused: u64,
    /// Messages that were answered.
    pub messages: u64,
    /// Answered messages that were not approved.
    pub not_approved: u64,
    /// Messages and frames that could not be carried out as they were.
    pub bad_messages: u64,
    /// The name in its certificate, if it has shown one.
    pub certificate: Option<String>,
    recent: SmallVec<[SeenMessage; PEER_MESSAGES_MAX]>,
    faults: SmallVec<[PeerFault; PEER_FAULTS_MAX]>,
    last: Option<Stopwatch>,
}

impl SeenPeer {
    /// Its last messages, the newest first.
    pub fn recent(&self) -> impl Iterator<Item = &SeenMessage> {
        self.recent.iter().rev()
    }

    /// Its last faults, the newest first.
    pub fn faults(&self) -> impl Iterator<Item = &PeerFault> {
        self.faults.iter().rev()
    }

    /// The time since it came, spoke or went.
    pub fn age(&self) -> Duration {
        self.last.map_or(Duration::MAX, |last| last.elapsed())
    }

    fn touch(&mut self) {
        self.last = Some(Stopwatch::start());
    }

    fn note_fault(&mut self, what: &str) {
        self.touch();
        let last = Stopwatch::start();
        if let Some(same) = self.faults.last_mut().filter(|fault| fault.what == what) {
            (same.count, same.last) = (same.count + 1, last);
            return;
        }
        push(&mut self.faults, PeerFault { what: what.to_owned(), count: 1, last });
    }

    fn take(&mut self, backlog: &mut MessageBacklog) {
        self.messages += backlog.messages;
        self.not_approved += backlog.not_approved;
        self.last = backlog.recent.last().map(|message| message.since).or(self.last);
        for message in backlog.recent.drain(..) {
            push(&mut self.recent, message);
        }
        (backlog.messages, backlog.not_approved) = (0, 0);
    }
}

/// Appends, and drops the first where there is no room: never does it need memory of its own.
fn push<const N: usize, T>(kept: &mut SmallVec<[T; N]>, one: T)
where
    [T; N]: smallvec::Array<Item = T>,
{
    if kept.len() == N {
        kept.remove(0);
    }
    kept.push(one);
}

/// A door and the peers that came to it.
#[derive(Clone, Debug)]
pub struct SeenDoor {
    /// Its name in logs.
    pub name: String,
    /// The address where it listens.
    pub address: SocketAddr,
    /// The dialect, and the length and TPDU before its messages.
    pub speaks: String,
    /// Whether it speaks TLS.
    pub has_tls: bool,
    /// The keys of its zone, as far as they may be shown.
    pub keys: Vec<ZoneKeyView>,
    /// Its peers, the last that came or spoke first.
    pub peers: Vec<(IpAddr, SeenPeer)>,
}

/// The attributes of a door, besides its peers.
#[derive(Debug)]
pub struct DoorPlate {
    /// Its name in logs.
    pub name: String,
    /// The address where it listens.
    pub address: SocketAddr,
    /// The dialect of its peers.
    pub dialect: Dialect,
    /// Whether it speaks TLS.
    pub has_tls: bool,
    /// The security of its messages, if it has any.
    pub zone: Option<Arc<Zone>>,
}

impl DoorPlate {
    /// The dialect, and the length and TPDU before messages, in words.
    fn speaks(&self) -> String {
        let framing = self.dialect.framing;
        let tpdu = if framing.tpdu { ", TPDU" } else { "" };
        format!("{}, length {}{tpdu}", self.dialect.name, framing.length)
    }
}

type Record = Arc<Mutex<SeenPeer>>;

/// The peers of all doors.
#[derive(Debug, Default)]
pub struct PeerBoard {
    doors: Mutex<Vec<DoorPlate>>,
    peers: Mutex<BTreeMap<(usize, IpAddr), Record>>,
}

/// The number of a door on the board.
#[derive(Clone, Copy, Debug)]
pub struct DoorNumber(usize);

impl PeerBoard {
    /// Every door with its peers.
    pub fn seen(&self) -> Vec<SeenDoor> {
        let records: Vec<_> = {
            let peers = self.peers.lock();
            peers.iter().map(|(key, record)| (*key, Arc::clone(record))).collect()
        };
        let doors = self.doors.lock();
        let seen = doors.iter().enumerate().map(|(number, door)| {
            let own = records.iter().filter(|((of, _), _)| *of == number);
            let mut peers: Vec<_> =
                own.map(|((_, address), record)| (*address, record.lock().clone())).collect();
            peers.sort_by_key(|(_, peer)| peer.age());
            SeenDoor {
                name: door.name.clone(),
                address: door.address,
                speaks: door.speaks(),
                has_tls: door.has_tls,
                keys: door.zone.as_ref().map_or_else(Vec::new, |zone| zone.keys_shown()),
                peers,
            }
        });
        seen.collect()
    }

    /// Adds a door.
    pub fn add_door(&self, door: DoorPlate) -> DoorNumber {
        let mut doors = self.doors.lock();
        doors.push(door);
        DoorNumber(doors.len() - 1)
    }

    /// Notes a connection that was let in.
    pub fn enter(&self, door: DoorNumber, peer: IpAddr) -> PeerLine {
        let record = self.record(door, peer);
        if let Some(record) = &record {
            let mut peer = record.lock();
            peer.open += 1;
            peer.connections += 1;
            peer.touch();
        }
        PeerLine { record, backlog: MessageBacklog::default(), is_signed_on: false }
    }

    /// Notes a connection that was not let in.
    pub fn note_refused(&self, door: DoorNumber, peer: IpAddr, reason: &str) {
        if let Some(record) = self.record(door, peer) {
            let mut peer = record.lock();
            peer.refused += 1;
            peer.note_fault(reason);
        }
    }

    /// The record of a peer; none where there is no room for one more.
    fn record(&self, DoorNumber(door): DoorNumber, peer: IpAddr) -> Option<Record> {
        let key = (door, peer.to_canonical());
        let mut peers = self.peers.lock();
        if !peers.contains_key(&key) && peers.len() >= PEERS_MAX {
            let unconnected = peers.iter().filter_map(|(key, record)| {
                let peer = record.lock();
                (peer.open == 0)
                    .then(|| (peer.connections > 0, std::cmp::Reverse(peer.age()), *key))
            });
            let (.., forgotten) = unconnected.min()?;
            peers.remove(&forgotten);
        }
        Some(Arc::clone(peers.entry(key).or_default()))
    }
}

/// The messages that a connection has noted and not handed over.
#[derive(Debug, Default)]
struct MessageBacklog {
    messages: u64,
    not_approved: u64,
    recent: SmallVec<[SeenMessage; GATHERED_MAX]>,
}

/// A connection of a peer, on the board; it is off it when this goes.
#[derive(Debug)]
pub struct PeerLine {
    record: Option<Record>,
    backlog: MessageBacklog,
    is_signed_on: bool,
}

impl PeerLine {
    /// Notes a message that is answered.
    pub(crate) fn note(&mut self, message: SeenMessage) {
        self.backlog.messages += 1;
        self.backlog.not_approved += u64::from(!message.is_approved());
        push(&mut self.backlog.recent, message);
    }

    /// Hands over what was noted.
    pub(crate) fn hand_over(&mut self) {
        if self.backlog.messages > 0
            && let Some(record) = &self.record
        {
            record.lock().take(&mut self.backlog);
        }
    }

    /// Notes that the connection has signed on or off.
    pub(crate) fn sign(&mut self, is_on: bool) {
        if let Some(record) = self.record.as_ref().filter(|_| self.is_signed_on != is_on) {
            let mut peer = record.lock();
            peer.signed_on = if is_on { peer.signed_on + 1 } else { peer.signed_on - 1 };
            self.is_signed_on = is_on;
        }
    }

    /// Notes the name in the certificate that the peer has shown.
    pub fn note_certificate(&self, name: &str) {
        if let Some(record) = &self.record {
            record.lock().certificate = Some(shortened(name));
        }
    }

    /// Notes a message or frame that could not be carried out; `told` is the fault, unless that is
    /// left out for being said too often.
    pub(crate) fn note_bad_message(&self, told: Option<&dyn fmt::Display>) {
        if let Some(record) = &self.record {
            let told = told.map(|what| shortened(&what.to_string()));
            let mut peer = record.lock();
            peer.bad_messages += 1;
            if let Some(what) = told {
                peer.note_fault(&what);
            }
        }
    }

    /// Notes that the connection is cut.
    pub fn note_cut(&self, what: &dyn fmt::Display) {
        if let Some(record) = &self.record {
            let what = shortened(&what.to_string());
            let mut peer = record.lock();
            peer.refused += 1;
            peer.note_fault(&what);
        }
    }

    /// Notes what is wrong, and breaks nothing.
    pub(crate) fn note_odd(&self, what: &dyn fmt::Display) {
        if let Some(record) = &self.record {
            record.lock().note_fault(&shortened(&what.to_string()));
        }
    }
}

impl Drop for PeerLine {
    fn drop(&mut self) {
        self.hand_over();
        self.sign(false);
        if let Some(record) = &self.record {
            let mut peer = record.lock();
            peer.open -= 1;
            peer.touch();
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(PEER_FAULT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use cardswitch_iso8583::{MessageBuilder, decode};

    use super::*;

    fn board() -> (PeerBoard, DoorNumber) {
        let board = PeerBoard::default();
        let door = board.add_door(DoorPlate {
            name: "iso8583".to_owned(),
            address: ([127, 0, 0, 1], 8583).into(),
            dialect: Dialect::default(),
            has_tls: false,
            zone: None,
        });
        (board, door)
    }

    fn address(number: usize) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::from_bits(u32::try_from(number).unwrap()))
    }

    fn purchase(code: De39) -> SeenMessage {
        let mut frame = Vec::new();
        let built = MessageBuilder::new(Mti::AUTHORIZATION_REQUEST).set(2, b"4111111111111234");
        built.set_number(11, 7).encode(&mut frame).unwrap();
        SeenMessage::new(&Echo::of(&decode(&frame).unwrap()), code, None)
    }

    fn only(board: &PeerBoard) -> SeenPeer {
        let [door] = <[SeenDoor; 1]>::try_from(board.seen()).unwrap();
        let [(_, peer)] = <[(IpAddr, SeenPeer); 1]>::try_from(door.peers).unwrap();
        peer
    }

    #[test]
    fn a_peer_is_told_of_with_its_last_messages_and_no_whole_card() {
        let (board, door) = board();
        let mut line = board.enter(door, address(1));
        line.sign(true);
        for _ in 0..PEER_MESSAGES_MAX {
            line.note(purchase(De39::APPROVED));
            line.hand_over();
        }
        (0..2 * GATHERED_MAX).for_each(|_| line.note(purchase(De39::FORMAT_ERROR)));
        assert_eq!(only(&board).messages, PEER_MESSAGES_MAX as u64, "the rest is not handed over");
        line.hand_over();
        let seen = only(&board);
        let all = (PEER_MESSAGES_MAX + 2 * GATHERED_MAX) as u64;
        assert_eq!((seen.messages, seen.not_approved), (all, 2 * GATHERED_MAX as u64));
        assert_eq!((seen.open, seen.signed_on, seen.connections), (1, 1, 1));
        let codes: Vec<_> = seen.recent().map(|message| message.is_approved()).collect();
        assert_eq!(codes.len(), PEER_MESSAGES_MAX);
        assert!(!codes[0] && codes[GATHERED_MAX], "the newest first: {codes:?}");
        assert_eq!(seen.recent().next().unwrap().last_four, Some(*b"1234"));
        assert!(!format!("{seen:?}").contains("4111"));
        drop(line);
        let seen = only(&board);
        assert_eq!((seen.open, seen.signed_on, seen.connections), (0, 0, 1));
    }

    #[test]
    fn faults_that_repeat_are_counted_and_long_ones_cut() {
        let (board, door) = board();
        let line = board.enter(door, address(1));
        for _ in 0..3 {
            line.note_bad_message(Some(&"0100 Missing(3)"));
        }
        line.note_bad_message(None);
        line.note_cut(&"x".repeat(2 * PEER_FAULT_CHARS_MAX));
        let seen = only(&board);
        let faults: Vec<_> = seen.faults().map(|fault| (fault.what.len(), fault.count)).collect();
        assert_eq!(faults, [(PEER_FAULT_CHARS_MAX, 1), (15, 3)]);
        assert_eq!((seen.bad_messages, seen.refused), (4, 1));
        (0..10).for_each(|number| line.note_odd(&number));
        assert_eq!(only(&board).faults().count(), PEER_FAULTS_MAX);
    }

    #[test]
    fn strangers_displace_strangers_before_peers_that_were_let_in_and_nobody_who_is_here() {
        let (board, door) = board();
        let here: Vec<_> =
            (1..PEERS_MAX).map(|number| board.enter(door, address(number))).collect();
        drop(board.enter(door, address(9_000)));
        let addresses = || -> Vec<IpAddr> {
            board.seen().remove(0).peers.into_iter().map(|(address, _)| address).collect()
        };
        assert!(addresses().contains(&address(9_000)));
        board.note_refused(door, address(10_000), "the peer is not allowed");
        assert!(!addresses().contains(&address(9_000)), "it was gone, and there was no other");
        for stranger in 10_001..10_010 {
            board.note_refused(door, address(stranger), "the peer is not allowed");
        }
        assert_eq!(addresses().len(), PEERS_MAX);
        let mut line = board.enter(door, address(9_001));
        line.note(purchase(De39::APPROVED));
        assert!(board.record(door, address(9_002)).is_none(), "everybody is here");
        drop(board.enter(door, address(9_002)));
        assert_eq!(addresses().len(), PEERS_MAX);
        drop(here);
        drop(line);
        drop(board.enter(door, address(9_003)));
        assert!(addresses().contains(&address(9_001)) && addresses().contains(&address(9_003)));
    }
}
