//! The door over a real socket, with a stand-in for the engine.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use cardswitch_engine::command::reply::{AuthorizationReply, NetworkReply, Reply};
use cardswitch_engine::decision::RuleSet;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};
use cardswitch_engine::submission::{Envelope, SubmitError};
use cardswitch_iso8583::frame::{Frame, next_frame, write_frame};
use cardswitch_iso8583::length_prefix::{LengthDigits, LengthForm};
use cardswitch_iso8583::{Framing, LengthPrefix, MessageBuilder, Mti, Tpdu, decode};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

use super::*;
use cardswitch_acquiring::counters::Counters;
use cardswitch_acquiring::limits::{EMPTY_FRAMES_MAX, IN_FLIGHT_MAX};

/// Approves everything, at once or when told to.
#[derive(Default)]
struct FakeEngine {
    is_holding: AtomicBool,
    is_overloaded: AtomicBool,
    held: Mutex<Vec<Envelope>>,
    batches: Mutex<Vec<usize>>,
}

impl FakeEngine {
    fn hold(&self) {
        self.is_holding.store(true, Ordering::SeqCst);
    }

    /// Answers what was held, the last first.
    fn release(&self, reply: &Reply) {
        let held = std::mem::take(&mut *self.held.lock());
        for envelope in held.iter().rev() {
            envelope.port.deliver(envelope.tag, reply.clone());
        }
        held.iter().for_each(|envelope| envelope.port.flush());
    }
}

impl Submit for FakeEngine {
    fn submit(&self, envelopes: Vec<Envelope>) -> Result<(), SubmitError> {
        if self.is_overloaded.load(Ordering::SeqCst) {
            return Err(SubmitError::Overloaded);
        }
        self.batches.lock().push(envelopes.len());
        self.held.lock().extend(envelopes);
        if !self.is_holding.load(Ordering::SeqCst) {
            self.release(&approved());
        }
        Ok(())
    }
}

fn approved() -> Reply {
    Reply::Network(NetworkReply::Authorization(AuthorizationReply {
        transaction: None,
        response_code: ResponseCode::Approved,
        sub_reason: SubReason::None,
        failed_rules: RuleSet::EMPTY,
        approved: Minor(100),
        authorization_id: None,
        allowance_balance: Minor(1),
        currency: CurrencyCode(840),
    }))
}

/// A running door.
struct Door {
    engine: Arc<FakeEngine>,
    address: SocketAddr,
    counters: Arc<Counters>,
    stop: watch::Sender<bool>,
    running: JoinHandle<()>,
}

async fn door_with(change: impl FnOnce(&mut ListenerOptions)) -> Door {
    door_within(change, |all| all).await
}

/// A door with these options, and with these bounds of all doors.
async fn door_within(
    change: impl FnOnce(&mut ListenerOptions),
    bound: impl FnOnce(SwitchShare) -> SwitchShare,
) -> Door {
    let engine = Arc::new(FakeEngine::default());
    let mut options = ListenerOptions::at("127.0.0.1:0".parse().unwrap());
    change(&mut options);
    let secrets = Arc::new(Secrets::from_root([1; 32]));
    let all = bound(SwitchShare::new(Arc::clone(&engine) as Arc<dyn Submit>, secrets));
    let listener = Listener::bind(options, &all).await.unwrap();
    let (address, counters) = (listener.local_addr().unwrap(), Arc::clone(&all.counters));
    let (stop, stopping) = watch::channel(false);
    let running = tokio::spawn(listener.run(stopping));
    Door { engine, address, counters, stop, running }
}

async fn door() -> Door {
    door_with(|_| ()).await
}

impl Door {
    async fn connect(&self) -> Peer {
        self.connect_as(Framing::default()).await
    }

    async fn connect_as(&self, framing: Framing) -> Peer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        Peer { stream, framing, buffer: Vec::new() }
    }

    async fn connect_from(&self, source: &str) -> Peer {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(source.parse().unwrap(), 0)).unwrap();
        let stream = socket.connect(self.address).await.unwrap();
        Peer { stream, framing: Framing::default(), buffer: Vec::new() }
    }

    async fn count(&self, reached: impl Fn(&Counters) -> bool) {
        while !reached(&self.counters) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn held(&self, count: usize) {
        while self.engine.held.lock().len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A client.
struct Peer {
    stream: TcpStream,
    framing: Framing,
    buffer: Vec<u8>,
}

/// An answer: type, STAN, DE39, and the header before it.
type AnswerSummary = (String, Option<u64>, Option<String>, Option<Tpdu>);

impl Peer {
    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next answer; none at the end of the connection.
    async fn told(&mut self) -> Option<AnswerSummary> {
        loop {
            if let Frame::Complete { tpdu, body, consumed } =
                next_frame(&self.buffer, &self.framing)
            {
                let message = decode(&self.buffer[body]).unwrap();
                let code = message.get_text(39).map(str::to_owned);
                let told = (message.mti().to_string(), message.get_number(11), code, tpdu);
                self.buffer.drain(..consumed);
                return Some(told);
            }
            if self.stream.read_buf(&mut self.buffer).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    async fn expect(&mut self, mti: &str, stan: u64, code: &str) {
        let (told_mti, told_stan, told_code, _) = self.told().await.expect("no answer");
        assert_eq!((told_mti.as_str(), told_stan), (mti, Some(stan)));
        assert_eq!(told_code.as_deref(), Some(code));
    }

    /// Proves that the connection still works.
    async fn echo(&mut self, stan: u64) {
        let frame = framed(&echo(stan), &self.framing);
        self.send(&frame).await;
        self.expect("0810", stan, "00").await;
    }
}

fn purchase(stan: u64) -> MessageBuilder {
    MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
        .set(2, b"4111111111111111")
        .set_text(3, "000000")
        .set_number(4, 100)
        .set_text(7, "0305120000")
        .set_number(11, stan)
}

fn echo(stan: u64) -> MessageBuilder {
    MessageBuilder::new(Mti::NETWORK_REQUEST).set_number(11, stan).set_text(70, "301")
}

fn framed(message: &MessageBuilder, framing: &Framing) -> Vec<u8> {
    let mut out = Vec::new();
    let tpdu = framing.tpdu.then_some(Tpdu::new([0x60, 1, 2, 3, 4]));
    write_frame(&mut out, framing, tpdu, |out| message.encode(out)).unwrap();
    out
}

fn plain(message: &MessageBuilder) -> Vec<u8> {
    framed(message, &Framing::default())
}

#[tokio::test]
async fn requests_that_come_together_are_one_batch_and_answers_may_overtake() {
    let door = door().await;
    door.engine.hold();
    let mut peer = door.connect().await;
    let together: Vec<u8> = (1..=50).flat_map(|stan| plain(&purchase(stan))).collect();
    peer.send(&together).await;
    door.held(50).await;
    assert!(door.engine.batches.lock().len() < 10, "{:?}", door.engine.batches.lock());
    peer.echo(999).await;
    door.engine.release(&approved());
    let mut stans = Vec::new();
    for _ in 0..50 {
        let (mti, stan, code, _) = peer.told().await.unwrap();
        assert_eq!((mti.as_str(), code.as_deref()), ("0110", Some("00")));
        stans.push(stan.unwrap());
    }
    let expected: Vec<u64> = (1..=50).rev().collect();
    assert_eq!(stans, expected);
}

#[tokio::test]
async fn messages_may_come_byte_by_byte() {
    let door = door().await;
    let mut peer = door.connect().await;
    for byte in plain(&purchase(7)) {
        peer.send(&[byte]).await;
        tokio::task::yield_now().await;
    }
    peer.expect("0110", 7, "00").await;
}

#[tokio::test]
async fn bad_input_costs_neither_the_connection_nor_its_neighbours() {
    let door = door().await;
    let mut neighbour = door.connect().await;
    let mut peer = door.connect().await;

    let mut bad_amount = plain(&purchase(1));
    bad_amount[2 + 4 + 8 + 18 + 6] = b'?';
    peer.send(&bad_amount).await;
    peer.expect("0110", 1, "30").await;

    peer.send(&plain(&purchase(2).without(4))).await;
    peer.expect("0110", 2, "30").await;

    let unknown_type = MessageBuilder::new(Mti::parse(b"0300").unwrap()).set_number(11, 3);
    peer.send(&plain(&unknown_type)).await;
    peer.expect("0310", 3, "30").await;

    let mut trailing = plain(&purchase(4));
    trailing.push(b'x');
    let announced = u16::try_from(trailing.len() - 2).unwrap().to_be_bytes();
    trailing[..2].copy_from_slice(&announced);
    peer.send(&trailing).await;
    peer.expect("0110", 4, "30").await;

    // None of these can be answered.
    peer.send(b"\x00\x00").await;
    peer.send(b"\x00\x03abc").await;
    peer.send(b"\x00\x04abcd").await;
    peer.send(&plain(&MessageBuilder::new(Mti::AUTHORIZATION_RESPONSE).set_number(11, 5))).await;
    peer.echo(6).await;
    neighbour.echo(7).await;
    peer.send(&plain(&purchase(8))).await;
    peer.expect("0110", 8, "00").await;
    assert_eq!(door.counters.bad_messages.now(), 7);
    assert_eq!(*door.engine.batches.lock(), [1], "bad messages never reach the engine");
}

#[tokio::test]
async fn random_bytes_never_hurt() {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};
    let seed = 20_260_305;
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let door = door().await;
    let mut neighbour = door.connect().await;
    for round in 0..200 {
        let mut peer = door.connect().await;
        let mut bytes = plain(&purchase(round));
        for _ in 0..=random.next_u32() % 8 {
            let place = random.next_u32() as usize % bytes.len();
            bytes[place] = random.next_u32().to_le_bytes()[0];
        }
        peer.send(&bytes).await;
        peer.stream.shutdown().await.unwrap();
        while peer.told().await.is_some() {}
        neighbour.echo(round).await;
    }
}

#[tokio::test]
async fn overload_is_said_at_once_and_passes() {
    let door = door().await;
    let mut peer = door.connect().await;
    door.engine.is_overloaded.store(true, Ordering::SeqCst);
    peer.send(&[plain(&purchase(1)), plain(&purchase(2))].concat()).await;
    let mut stans = BTreeSet::new();
    for _ in 0..2 {
        let (_, stan, code, _) = peer.told().await.unwrap();
        assert_eq!(code.as_deref(), Some("91"));
        stans.insert(stan.unwrap());
    }
    assert_eq!(stans, BTreeSet::from([1, 2]));
    assert_eq!(door.counters.not_taken.now(), 2);
    door.engine.is_overloaded.store(false, Ordering::SeqCst);
    peer.send(&plain(&purchase(3))).await;
    peer.expect("0110", 3, "00").await;
}

#[tokio::test]
async fn an_unknown_outcome_is_said() {
    let door = door().await;
    door.engine.hold();
    let mut peer = door.connect().await;
    peer.send(&plain(&purchase(1))).await;
    door.held(1).await;
    door.engine.release(&Reply::OutcomeUnknown);
    peer.expect("0110", 1, "96").await;
    assert_eq!(door.counters.outcome_unknown.now(), 1);
}

#[tokio::test]
async fn a_connection_has_only_so_many_requests_with_the_engine() {
    let door = door().await;
    door.engine.hold();
    let mut peer = door.connect().await;
    let count = IN_FLIGHT_MAX as u64 + 500;
    let all: Vec<u8> = (0..count).flat_map(|stan| plain(&purchase(stan))).collect();
    peer.send(&all).await;
    door.held(IN_FLIGHT_MAX).await;
    door.connect().await.echo(1).await;
    assert_eq!(door.engine.held.lock().len(), IN_FLIGHT_MAX);
    door.engine.is_holding.store(false, Ordering::SeqCst);
    door.engine.release(&approved());
    let mut stans = BTreeSet::new();
    for _ in 0..count {
        stans.insert(peer.told().await.unwrap().1.unwrap());
    }
    assert_eq!(stans.len() as u64, count, "each is answered once");
}

#[tokio::test]
async fn a_peer_that_takes_no_answers_is_not_read_from() {
    let door = door().await;
    let mut peer = door.connect().await;
    let request = plain(&echo(1));
    let burst = request.repeat(1_000);
    let mut sent = 0;
    // The sockets' own buffers fill first; then writing stalls, because nobody reads.
    while tokio::time::timeout(Duration::from_millis(300), peer.stream.write_all(&burst))
        .await
        .is_ok()
    {
        sent += burst.len();
        assert!(sent < 1 << 28, "the door reads without end");
    }
    door.connect().await.echo(2).await;
    peer.told().await.expect("the answers are there");
}

#[tokio::test]
async fn silence_ends_a_connection_half_a_message_or_none() {
    let door = door_with(|options| options.idle_limit = Duration::from_secs(1)).await;
    let mut silent = door.connect().await;
    let mut halfway = door.connect().await;
    halfway.send(&plain(&purchase(1))[..20]).await;
    assert!(silent.told().await.is_none());
    assert!(halfway.told().await.is_none());
    door.connect().await.echo(2).await;
}

#[tokio::test]
async fn a_request_with_the_engine_keeps_a_silent_connection() {
    let door = door_with(|options| options.idle_limit = Duration::from_secs(1)).await;
    door.engine.hold();
    let mut peer = door.connect().await;
    peer.send(&plain(&purchase(1))).await;
    door.held(1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    door.engine.release(&approved());
    peer.expect("0110", 1, "00").await;
}

#[tokio::test]
async fn a_peer_that_stops_sending_still_gets_its_answers() {
    let door = door().await;
    door.engine.hold();
    let mut peer = door.connect().await;
    peer.send(&plain(&purchase(1))).await;
    peer.stream.shutdown().await.unwrap();
    door.held(1).await;
    door.engine.release(&approved());
    peer.expect("0110", 1, "00").await;
    assert!(peer.told().await.is_none());
}

#[tokio::test]
async fn a_closing_door_answers_what_is_in_flight() {
    let door = door().await;
    door.engine.hold();
    let mut peer = door.connect().await;
    let mut idle = door.connect().await;
    idle.echo(5).await;
    peer.send(&plain(&purchase(1))).await;
    door.held(1).await;
    door.stop.send(true).unwrap();
    assert!(idle.told().await.is_none());
    door.engine.release(&approved());
    peer.expect("0110", 1, "00").await;
    assert!(peer.told().await.is_none());
    door.running.await.unwrap();
    assert!(TcpStream::connect(door.address).await.is_err());
}

#[tokio::test]
async fn only_allowed_peers_come_in_and_only_so_many() {
    let closed = door_with(|options| options.peers = vec!["10.0.0.0/8".parse().unwrap()]).await;
    assert!(closed.connect().await.told().await.is_none());
    assert_eq!(closed.counters.connections_refused.now(), 1);

    let small = door_within(|_| (), |all| all.with_connections(2)).await;
    let mut first = small.connect().await;
    let mut second = small.connect().await;
    first.echo(1).await;
    second.echo(2).await;
    assert!(small.connect().await.told().await.is_none());
    drop(second);
    first.echo(3).await;
    small.count(|counters| counters.connections_refused.now() == 1).await;
    // The place of a connection that went is free again.
    loop {
        let mut third = small.connect().await;
        third.send(&plain(&echo(4))).await;
        if third.told().await.is_some() {
            break;
        }
    }
}

fn framings() -> Vec<Framing> {
    let lengths = ["binary2", "binary4", "ascii4", "ebcdic4", "bcd4", "ascii4 inclusive"];
    let framing = |length: &str, tpdu| Framing { length: length.parse().unwrap(), tpdu };
    lengths.iter().flat_map(|length| [false, true].map(|tpdu| framing(length, tpdu))).collect()
}

#[tokio::test]
async fn each_framing_is_answered_as_it_asks() {
    for framing in framings() {
        let door = door_with(|options| options.dialect = Dialect::framed(framing)).await;
        let mut peer = door.connect_as(framing).await;
        peer.send(&framed(&purchase(9), &framing)).await;
        let (mti, stan, code, header) = peer.told().await.unwrap();
        assert_eq!((mti.as_str(), stan, code.as_deref()), ("0110", Some(9), Some("00")));
        let swapped = Tpdu::new([0x60, 3, 4, 1, 2]);
        assert_eq!(header, framing.tpdu.then_some(swapped), "{framing:?}");
    }
}

/// A mistake of the switch: it took `PO` of a `POST` for the length of a frame, skipped that, took
/// zeros for empty frames, and carried out the message behind them.
#[tokio::test]
async fn whoever_speaks_another_protocol_is_hung_up_on_before_its_message() {
    let starts: [&[u8]; 6] = [
        b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"OPTIONS / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\xff\xff",
        b"9999",
    ];
    for framing in framings() {
        let door = door_with(|options| options.dialect = Dialect::framed(framing)).await;
        let empty = match framing.length {
            LengthPrefix::Length(LengthForm { digits: LengthDigits::Text(text), .. }) => {
                text.byte_of(b'0')
            }
            _ => 0,
        };
        for (at, start) in starts.into_iter().enumerate() {
            // However long what is skipped, one of these bodies would be in step.
            for shift in 0..4 {
                let mut peer = door.connect_as(framing).await;
                let body = [vec![empty; 70_000 + shift], framed(&purchase(1), &framing)].concat();
                // The door may have hung up meanwhile.
                drop(peer.stream.write_all(&[start, &body].concat()).await);
                assert_eq!(peer.told().await, None, "{framing:?} {start:?}");
            }
            door.count(|now| now.connections_cut() == 4 * (at as u64 + 1)).await;
        }
        assert!(door.engine.batches.lock().is_empty(), "{framing:?}");
        door.connect_as(framing).await.echo(2).await;
    }
}

#[tokio::test]
async fn a_row_of_empty_frames_ends_its_connection() {
    let door = door().await;
    let mut peer = door.connect().await;
    for stan in 0..3 {
        peer.send(&[0; 2 * EMPTY_FRAMES_MAX]).await;
        peer.echo(stan).await;
    }
    peer.send(&[0; 2 * EMPTY_FRAMES_MAX + 2]).await;
    drop(peer.stream.write_all(&plain(&purchase(1))).await);
    assert_eq!(peer.told().await, None);
    assert_eq!(door.counters.connections_cut(), 1);
    assert!(door.engine.batches.lock().is_empty());
}

#[tokio::test]
async fn one_peer_leaves_places_for_others() {
    let limit = |options: &mut ListenerOptions| options.connections_per_peer = 3;
    let door = door_within(limit, |all| all.with_connections(6)).await;
    let mut held = Vec::new();
    for stan in 0..3 {
        let mut peer = door.connect().await;
        peer.echo(stan).await;
        held.push(peer);
    }
    assert_eq!(door.connect().await.told().await, None);
    assert_eq!(door.counters.connections_refused.now(), 1);
    for stan in 0..3 {
        let mut other = door.connect_from("127.0.0.2").await;
        other.echo(stan).await;
        held.push(other);
    }
    assert_eq!(door.connect_from("127.0.0.3").await.told().await, None, "no place is left");
}

/// A peer that asks and takes no answer keeps what there is for such peers, and no more; one that takes its
/// answers needs nothing of it.
#[tokio::test]
async fn what_waits_for_slow_peers_is_bounded_for_all_of_them() {
    let door = door_within(
        |_| (),
        |all| SwitchShare { slow_bytes: Arc::new(SlowBytes::new(100_000)), ..all },
    )
    .await;
    let mut neighbour = door.connect().await;
    let mut deaf = door.connect().await;
    let burst = plain(&echo(1)).repeat(1_000);
    // The sockets' own buffers fill first; then answers wait here, until they are too many.
    while deaf.stream.write_all(&burst).await.is_ok() {}
    door.count(|now| now.connections_cut() == 1).await;
    neighbour.echo(2).await;
    door.connect().await.echo(3).await;
}

#[tokio::test]
async fn a_prefix_that_is_no_length_ends_only_its_own_connection() {
    let framing = Framing { length: "ascii4".parse().unwrap(), tpdu: false };
    let door = door_with(|options| options.dialect = Dialect::framed(framing)).await;
    let mut neighbour = door.connect_as(framing).await;
    let mut peer = door.connect_as(framing).await;
    let mut bytes = framed(&purchase(1), &framing);
    bytes.extend_from_slice(b"12x4");
    // The bytes behind are not read, and reset no connection that has an answer on its way.
    bytes.extend_from_slice(&[b'x'; 1 << 20]);
    peer.send(&bytes).await;
    peer.expect("0110", 1, "00").await;
    assert!(peer.told().await.is_none());
    neighbour.echo(2).await;
}
