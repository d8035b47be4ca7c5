//! What does an ISO 8583 message cost from socket to socket?
//!
//! One connection over loopback, closed loop: as many requests as the window says are in flight.
//! Three servers behind the same client and the same bytes: one that sends every frame back (the
//! yardstick: sockets, scheduling and the client itself), the door with a stand-in for the engine
//! that approves at once (adds the codec and the mapping), and the whole switch on a disk (adds
//! the shard and the journal). Latency is from the write to the read that brings the answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_api::network::listener::{Listener, ListenerOptions};
use cardswitch_api::pan::Pan;
use cardswitch_api::secrets::Secrets;
use cardswitch_api::switch::Submit;
use cardswitch_benches::caller::{open_program, temporary_directory};
use cardswitch_benches::meter::{Latencies, Meter, print_control};
use cardswitch_benches::program::Random;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::NetworkCommand;
use cardswitch_engine::command::reply::{AuthorizationReply, NetworkReply, Reply};
use cardswitch_engine::decision::RuleSet;
use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};
use cardswitch_engine::submission::{Envelope, SubmitError};
use cardswitch_iso8583::{Dialect, Frame, MessageBuilder, Mti, decode, next_frame, write_frame};
use criterion::{Criterion, Throughput};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

const CARDS: u64 = 10_000;
const WINDOWS: [usize; 2] = [1, 64];
/// Messages at each iteration, for each place in the window.
const ROUNDS: u64 = 16;
const READ_BYTES: usize = 64 << 10;
/// Systems trace audit numbers come round after so many. Source: ISO DE11.
const STANS: u64 = 1_000_000;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(5))
        .sample_size(20)
        .configure_from_args();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    // INVARIANT: a bench without threads has nothing to say.
    #[expect(clippy::expect_used, reason = "the bench cannot go on")]
    let runtime = runtime.expect("threads can be started");
    print_control("before");
    for window in WINDOWS {
        let echo = runtime.block_on(start_echo());
        let echoed = measure(&mut criterion, "yardstick_echo", window, echo);
        let secrets = Arc::new(Secrets::from_master([1; 32]));
        let door = runtime.block_on(Door::open(Arc::new(Approver), &secrets));
        let answered = measure(&mut criterion, "door", window, door.address);
        runtime.block_on(door.close());
        let directory = temporary_directory();
        let engine = Arc::new(open_program(directory.path(), CARDS, |card| {
            card_number(card).map_or(PanHash(card), |pan| secrets.pan_hash(&pan))
        }));
        let door = runtime.block_on(Door::open(Arc::clone(&engine) as _, &secrets));
        let decided = measure(&mut criterion, "switch", window, door.address);
        runtime.block_on(door.close());
        engine.shut_down();
        echoed.print("echo", window, &echoed);
        answered.print("door", window, &echoed);
        decided.print("whole switch", window, &echoed);
    }
    print_control("after");
    criterion.final_summary();
}

/// What one server gave.
#[derive(Default)]
struct Measured {
    meter: Meter,
    latencies: Latencies,
}

impl Measured {
    fn print(&self, server: &str, window: usize, yardstick: &Self) {
        let (each, echo) = (self.meter.median_ns(), yardstick.meter.median_ns());
        let (Some(each), Some(echo)) = (each, echo) else { return };
        println!(
            "RATIO {server}, {window} in flight: {:.0} messages/s, {:.2} times the echo's time; \
             p50 {:.1} us, p99 {:.1} us, of {} answers",
            1e9 / each,
            each / echo,
            self.latencies.percentile_us(50.0),
            self.latencies.percentile_us(99.0),
            self.latencies.count(),
        );
    }
}

fn measure(
    criterion: &mut Criterion,
    server: &str,
    window: usize,
    address: SocketAddr,
) -> Measured {
    let mut measured = Measured::default();
    let mut acquirer = Acquirer::connect(address);
    let each_iteration = window as u64 * ROUNDS;
    let mut group = criterion.benchmark_group("iso8583_round_trip");
    group.throughput(Throughput::Elements(each_iteration));
    group.bench_function(format!("{server}/{window}_in_flight"), |bencher| {
        let Measured { meter, latencies } = &mut measured;
        meter.measure_timed(bencher, each_iteration, |iterations| {
            acquirer.exchange(window, iterations * each_iteration, latencies)
        });
    });
    group.finish();
    measured
}

/// The number of one of the program's cards.
fn card_number(card: u64) -> Option<Pan> {
    Pan::with_check_digit(format!("411111{card:09}").as_bytes())
}

/// The client: one connection that sends purchases and reads answers.
struct Acquirer {
    stream: TcpStream,
    dialect: Dialect,
    random: Random,
    sent: u64,
    sent_at: Vec<Instant>,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

impl Acquirer {
    #[expect(clippy::expect_used, reason = "a bench without a connection has nothing to say")]
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("loopback takes the option");
        Self {
            stream,
            dialect: Dialect::default(),
            random: Random::new(14),
            sent: 0,
            sent_at: vec![Instant::now(); 1 << 12],
            outgoing: Vec::new(),
            incoming: Vec::new(),
        }
    }

    /// Sends `count` purchases, at most `window` of them unanswered at a time.
    fn exchange(&mut self, window: usize, count: u64, latencies: &mut Latencies) -> Duration {
        let start = Instant::now();
        let (mut to_send, mut to_receive) = (count, count);
        let mut free = window as u64;
        while to_receive > 0 {
            let now = free.min(to_send);
            self.send(now);
            to_send -= now;
            free = self.receive(latencies);
            to_receive -= free;
        }
        start.elapsed()
    }

    #[expect(clippy::expect_used, reason = "a connection that breaks must stop the bench")]
    fn send(&mut self, count: u64) {
        self.outgoing.clear();
        let first = self.sent;
        for _ in 0..count {
            let purchase = self.next_purchase();
            write_frame(&mut self.outgoing, &self.dialect, None, |out| {
                purchase.encode(out, &self.dialect)
            })
            .expect("the purchase fits its elements");
        }
        let now = Instant::now();
        for sent in first..self.sent {
            let place = self.place_of(sent % STANS);
            self.sent_at[place] = now;
        }
        self.stream.write_all(&self.outgoing).expect("the server reads");
    }

    fn next_purchase(&mut self) -> MessageBuilder {
        let card = self.random.below(CARDS);
        let amount = 100 + self.random.below(20_000);
        let sent = self.sent;
        self.sent += 1;
        let number = card_number(card).map(|pan| pan.reveal()).unwrap_or_default();
        MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
            .set_text(2, &number)
            .set_text(3, "000000")
            .set_number(4, amount)
            .set_text(7, "1121120000")
            .set_number(11, sent % STANS)
            .set_text(14, "4001")
            .set_number(18, 5812)
            .set_text(32, "123456")
            .set_number(37, sent)
            .set_text(41, "TERM0001")
            .set_text(42, "000000000445566")
            .set_text(43, "Blue Bottle Coffee     San FranciscoCAUS")
            .set_text(49, "840")
    }

    /// Reads what has arrived, one answer at least, and returns how many there were.
    #[expect(clippy::expect_used, reason = "a connection that breaks must stop the bench")]
    fn receive(&mut self, latencies: &mut Latencies) -> u64 {
        let mut received = 0;
        while received == 0 {
            let start = self.incoming.len();
            self.incoming.resize(start + READ_BYTES, 0);
            let read = self.stream.read(&mut self.incoming[start..]).expect("the server answers");
            assert!(read > 0, "the server hung up");
            self.incoming.truncate(start + read);
            let now = Instant::now();
            while let Frame::Complete { body, consumed, .. } =
                next_frame(&self.incoming, &self.dialect)
            {
                let answer = decode(&self.incoming[body], &self.dialect).expect("it is a message");
                let is_echo = answer.mti() == Mti::AUTHORIZATION_REQUEST;
                let (code, detail) = (answer.get_text(39), answer.get_text(44));
                assert!(is_echo || code == Some("00"), "approved, not {code:?}: {detail:?}");
                let stan = answer.get_number(11).expect("answers carry the trace number");
                latencies.note(now - self.sent_at[self.place_of(stan)]);
                self.incoming.drain(..consumed);
                received += 1;
            }
        }
        received
    }

    fn place_of(&self, stan: u64) -> usize {
        usize::try_from(stan).unwrap_or(0) % self.sent_at.len()
    }
}

/// Sends back whatever comes, on the same runtime as the door.
#[expect(clippy::expect_used, reason = "a bench without a yardstick has nothing to say")]
async fn start_echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        let Ok((mut stream, _)) = listener.accept().await else { return };
        drop(stream.set_nodelay(true));
        let mut buffer = vec![0; READ_BYTES];
        while let Ok(read) = stream.read(&mut buffer).await {
            if read == 0 || stream.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    });
    address
}

/// A running ISO 8583 door.
struct Door {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    running: tokio::task::JoinHandle<()>,
}

impl Door {
    #[expect(clippy::expect_used, reason = "a bench without a door has nothing to say")]
    async fn open(engine: Arc<dyn Submit>, secrets: &Arc<Secrets>) -> Self {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = ListenerOptions::at(any_port);
        let listener = Listener::bind(options, engine, Arc::clone(secrets)).await;
        let listener = listener.expect("loopback has free ports");
        let address = listener.local_addr().expect("it is bound");
        let (stop, stopping) = watch::channel(false);
        Self { address, stop, running: tokio::spawn(listener.run(stopping)) }
    }

    async fn close(self) {
        self.stop.send_replace(true);
        // A door that panicked has printed why.
        drop(self.running.await);
    }
}

/// Stands in for the engine: approves at once, on the caller's thread.
struct Approver;

impl Submit for Approver {
    fn submit(&self, envelopes: Vec<Envelope>) -> Result<(), SubmitError> {
        for Envelope { command, tag, port } in &envelopes {
            port.deliver(*tag, approved(amount_of(&command.command)));
        }
        if let Some(last) = envelopes.last() {
            last.port.flush();
        }
        Ok(())
    }
}

fn amount_of(command: &Command) -> Minor {
    let Command::Network(request) = command else { return Minor::ZERO };
    let NetworkCommand::Authorize(authorize) = &request.command else { return Minor::ZERO };
    authorize.facts.amounts.amount
}

/// Approves the whole amount: less would be a partial approval.
fn approved(amount: Minor) -> Reply {
    Reply::Network(NetworkReply::Authorization(AuthorizationReply {
        transaction: None,
        response_code: ResponseCode::Approved,
        sub_reason: SubReason::None,
        failed_rules: RuleSet::EMPTY,
        approved: amount,
        authorization_id: None,
        allowance_balance: Minor(1),
        currency: CurrencyCode(840),
    }))
}
