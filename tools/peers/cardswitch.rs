//! cardswitch under the same discipline: in process, and over ISO 8583 as a peer is reached.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_benches::caller::{Caller, wait_for_tables};
use cardswitch_benches::installation::temporary_directory;
use cardswitch_benches::program::{self, founding, is_approved, pan_hash};
use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::domain::ids::AccountSlot;
use cardswitch_engine::engine::{Engine, EngineOptions, Retention};
use cardswitch_engine::journal::limits::CommitLimits;
use cardswitch_engine::shard::CacheLimits;
use cardswitch_engine::store::Pacing;
use cardswitch_iso8583::{Frame, Framing, MessageBuilder, Mti, decode, next_frame, write_frame};
use cardswitch_network::listener::{Listener, ListenerOptions, SwitchShare};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::pan::Pan;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::closed_loop::{PeerFigures, Tally};
use crate::outcome::{Outcome, fail};
use crate::program::{MERCHANT, Purchase, Purchases};

const READ_BYTES: usize = 64 << 10;
/// Systems trace audit numbers come round after so many. Source: ISO DE11.
const STANS: u64 = 1_000_000;

/// Commands in flight while a program is founded.
const FOUNDING_WINDOW: usize = 512;

/// The engine in process, called by one thread.
pub(crate) struct EmbeddedEngine {
    engine: Arc<Engine>,
    purchases: program::Purchases,
    /// Dropped after the engine has let go of it.
    _directory: TempDir,
}

impl EmbeddedEngine {
    /// Opens an engine and founds the ordinary program.
    pub(crate) fn open(cards: u64, purchases: program::Purchases) -> Outcome<Self> {
        let directory = temporary_directory();
        let engine = open_program(&directory, cards, pan_hash)?;
        Ok(Self { engine, purchases, _directory: directory })
    }

    /// Keeps `window` purchases in flight for so long, in rounds of many windows.
    pub(crate) fn measure(&mut self, window: usize, duration: Duration) -> PeerFigures {
        let mut measured = PeerFigures::default();
        let start = Instant::now();
        let mut count = window as u64 * 16;
        loop {
            self.authorize(window, count, &mut measured);
            measured.elapsed = start.elapsed();
            let left = duration.saturating_sub(measured.elapsed);
            if left.is_zero() {
                return measured;
            }
            // The next round takes what is left, at the pace so far.
            let pace = measured.tally.answers as f64 / measured.elapsed.as_secs_f64();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count of purchases in some seconds, rounded"
            )]
            let fitting = (pace * left.as_secs_f64()) as u64;
            count = fitting.clamp(window as u64, count * 64);
        }
    }

    fn authorize(&mut self, window: usize, count: u64, measured: &mut PeerFigures) {
        let Self { engine, purchases, .. } = self;
        let PeerFigures { latencies, tally, .. } = measured;
        let mut caller = Caller::new(Arc::clone(engine), window);
        caller.run(count, || purchases.next_command(), &mut |reply, latency| {
            assert!(is_approved(&reply), "the program approves every purchase: {reply:?}");
            tally.note(true, approved_minor(&reply));
            latencies.note(latency);
        });
    }

    /// The sum of the account's holds once the query tables have caught up. Units: minor units.
    pub(crate) fn held_minor(&self) -> Outcome<i64> {
        account_held_minor(&self.engine)
    }
}

/// Opens an engine as it is installed, and founds the ordinary program in it.
fn open_program(
    parent: &TempDir,
    cards: u64,
    hash_of: impl Fn(u64) -> PanHash,
) -> Outcome<Arc<Engine>> {
    let engine = Arc::new(Engine::open(EngineOptions {
        directory: DataDirectory::create(&parent.path().join("data"), [3; 16])?,
        id_key: [7; 16],
        clock: Clock::System,
        retention: Retention::default(),
        pacing: Pacing::default(),
        caches: CacheLimits::default(),
        commits: CommitLimits::default(),
    })?);
    let commands: Vec<_> = founding(program::Program::of_one_company(cards), hash_of).collect();
    let (count, mut commands) = (commands.len() as u64, commands.into_iter());
    let next = || commands.next().unwrap_or(cardswitch_engine::command::Command::Tick);
    Caller::new(Arc::clone(&engine), FOUNDING_WINDOW).run(count, next, &mut |reply, _| {
        assert!(matches!(reply, Reply::Done(_)), "the program is founded: {reply:?}");
    });
    Ok(engine)
}

fn approved_minor(reply: &Reply) -> i64 {
    match reply {
        Reply::Network(NetworkReply::Authorization(reply)) => reply.approved.0,
        _ => 0,
    }
}

fn account_held_minor(engine: &Engine) -> Outcome<i64> {
    wait_for_tables(engine);
    let account = engine.store().read()?.account(AccountSlot(0))?;
    Ok(account.ok_or("the account is not in the query tables")?.balances.held.0)
}

/// The whole switch behind its ISO 8583 door, and one connection over loopback.
pub(crate) struct Iso8583Switch {
    engine: Arc<Engine>,
    acquirer: Acquirer,
    stop: watch::Sender<bool>,
    running: tokio::task::JoinHandle<()>,
    runtime: Runtime,
    _directory: TempDir,
}

impl Iso8583Switch {
    /// Opens an engine and its door, founds the ordinary program, and connects.
    pub(crate) fn open(cards: u64, purchases: Purchases) -> Outcome<Self> {
        let directory = temporary_directory();
        let secrets = Arc::new(Secrets::from_root([1; 32]));
        let numbers = CardNumbers::new(cards)?;
        let engine = open_program(&directory, cards, |card| numbers.hash(&secrets, card))?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let (stop, stopping) = watch::channel(false);
        let options = ListenerOptions::at(SocketAddr::from(([127, 0, 0, 1], 0)));
        let all = SwitchShare::new(Arc::clone(&engine) as _, secrets);
        let listener = runtime.block_on(Listener::bind(options, &all))?;
        let address = listener.local_addr()?;
        let running = runtime.spawn(listener.run(stopping));
        let acquirer = Acquirer::connect(address, purchases, numbers)?;
        Ok(Self { engine, acquirer, stop, running, runtime, _directory: directory })
    }

    /// Keeps `window` purchases in flight for so long, and waits for the last answer.
    pub(crate) fn measure(&mut self, window: usize, duration: Duration) -> Outcome<PeerFigures> {
        self.acquirer.keep_in_flight(window, duration)
    }

    /// As for the engine in process.
    pub(crate) fn held_minor(&self) -> Outcome<i64> {
        account_held_minor(&self.engine)
    }

    /// Closes the door and ends the engine.
    pub(crate) fn close(self) -> Outcome<()> {
        drop(self.acquirer);
        self.stop.send_replace(true);
        self.runtime.block_on(self.running)?;
        self.engine.shut_down();
        Ok(())
    }
}

/// The numbers of the program's cards, by their place in it.
struct CardNumbers(Vec<Pan>);

impl CardNumbers {
    fn new(cards: u64) -> Outcome<Self> {
        let number = |card| Pan::with_check_digit(format!("411111{card:09}").as_bytes());
        let numbers: Option<Vec<Pan>> = (0..cards).map(number).collect();
        Ok(Self(numbers.ok_or("a card number is too long")?))
    }

    fn hash(&self, secrets: &Secrets, card: u64) -> PanHash {
        let place = usize::try_from(card).unwrap_or(usize::MAX);
        self.0.get(place).map_or(PanHash(card), |pan| secrets.pan_hash(pan))
    }
}

/// One connection that sends purchases and reads answers.
struct Acquirer {
    stream: TcpStream,
    framing: Framing,
    purchases: Purchases,
    /// Card numbers by the hash that the stream names cards by.
    numbers: std::collections::HashMap<u64, String>,
    /// The purchases in flight, by trace number: the instant of sending, and the amount.
    sent: std::collections::HashMap<u64, (Instant, i64)>,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

impl Acquirer {
    fn connect(address: SocketAddr, purchases: Purchases, numbers: CardNumbers) -> Outcome<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let hashes = (0..).map(|card| pan_hash(card).0);
        let numbers = hashes.zip(numbers.0.iter().map(|pan| pan.reveal().to_string())).collect();
        Ok(Self {
            stream,
            framing: Framing::default(),
            purchases,
            numbers,
            sent: std::collections::HashMap::new(),
            outgoing: Vec::new(),
            incoming: Vec::new(),
        })
    }

    fn keep_in_flight(&mut self, window: usize, duration: Duration) -> Outcome<PeerFigures> {
        let mut measured = PeerFigures::default();
        let start = Instant::now();
        let mut free = window;
        loop {
            if start.elapsed() < duration {
                self.send(free)?;
            }
            if self.sent.is_empty() {
                measured.elapsed = start.elapsed();
                return Ok(measured);
            }
            free = self.receive(&mut measured)?;
        }
    }

    fn send(&mut self, count: usize) -> Outcome<()> {
        self.outgoing.clear();
        let mut amounts = Vec::with_capacity(count);
        for _ in 0..count {
            let purchase = self.purchases.next_purchase();
            let message = self.message_of(&purchase);
            write_frame(&mut self.outgoing, &self.framing, None, |out| message.encode(out))
                .map_err(|error| format!("a purchase does not fit its message: {error:?}"))?;
            amounts.push((purchase.count % STANS, purchase.amount_minor));
        }
        let now = Instant::now();
        self.sent.extend(amounts.into_iter().map(|(stan, amount)| (stan, (now, amount))));
        Ok(self.stream.write_all(&self.outgoing)?)
    }

    fn message_of(&self, purchase: &Purchase) -> MessageBuilder {
        let number = self.numbers.get(&purchase.pan_hash).map_or("", String::as_str);
        let merchant = format!(
            "{:<22}{:<13}{:<3}{}",
            MERCHANT.name, MERCHANT.city, MERCHANT.state, MERCHANT.country
        );
        MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
            .set_text(2, number)
            .set_text(3, "000000")
            .set_number(4, purchase.amount_minor.unsigned_abs())
            .set_text(7, MERCHANT.transmission_time)
            .set_number(11, purchase.count % STANS)
            .set_text(14, "4001")
            .set_number(18, u64::from(purchase.mcc))
            .set_text(32, MERCHANT.acquirer)
            .set_number(37, purchase.count)
            .set_text(41, MERCHANT.terminal)
            .set_text(42, MERCHANT.card_acceptor_id)
            .set_text(43, &merchant)
            .set_text(49, "840")
    }

    /// Reads what has arrived, one answer at least, and returns how many there were.
    fn receive(&mut self, measured: &mut PeerFigures) -> Outcome<usize> {
        let mut received = 0;
        while received == 0 {
            let start = self.incoming.len();
            self.incoming.resize(start + READ_BYTES, 0);
            let read = self.stream.read(&mut self.incoming[start..])?;
            if read == 0 {
                return fail("the door hung up");
            }
            self.incoming.truncate(start + read);
            received = self.take_answers(measured)?;
        }
        Ok(received)
    }

    fn take_answers(&mut self, measured: &mut PeerFigures) -> Outcome<usize> {
        let now = Instant::now();
        let (mut received, mut taken) = (0, 0);
        while let Frame::Complete { body, consumed, .. } =
            next_frame(&self.incoming[taken..], &self.framing)
        {
            let body = &self.incoming[taken..][body];
            let answer = decode(body).map_err(|error| format!("no message: {error:?}"))?;
            let stan = answer.get_number(11).ok_or("an answer without its trace number")?;
            let (sent_at, amount) =
                self.sent.remove(&stan).ok_or("an answer to nothing in flight")?;
            measured.latencies.note(now - sent_at);
            measured.tally.note(answer.get_text(39) == Some("00"), amount);
            taken += consumed;
            received += 1;
        }
        self.incoming.drain(..taken);
        Ok(received)
    }
}

/// Checks that the account holds the sum that a run has approved.
/// Errors: the sums differ.
pub(crate) fn check_held(tally: &Tally, held_minor: i64) -> Outcome<()> {
    if tally.approvals == tally.answers && tally.approved_minor == held_minor {
        return Ok(());
    }
    fail(format!("the account holds {held_minor}, the answers say {tally:?}"))
}
