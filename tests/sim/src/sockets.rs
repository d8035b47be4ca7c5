//! The ISO 8583 door in a simulated world: the product's own connections over simulated streams, and the engine
//! behind them.
//!
//! Acquirers connect, send, repeat, exchange keys, give up waiting, are slow, silent or deaf, cut frames in half,
//! send what is no frame, and vanish. Each has a door, a dialect, headers and keys of its own. The machine goes down
//! at any step; the doors stop and open again. Every draw is from a stream of its own, so that the world of the same
//! seed without sockets is as it was.
//!
//! | file | content |
//! |---|---|
//! | `events` | the happenings and their rates |
//! | `site`, `spelling`, `version_1993`, `ebcdic`, `header` | an acquirer's way to speak, beside the product's own |
//! | `keys`, `zone_book`, `chip` | its codes, PIN blocks and keys, and the chips of cards |
//! | `acquirer`, `draft`, `oddities` | its messages |
//! | `treatment`, `question`, `answer` | what has to become of them, and what their answers have to be |
//! | `messages`, `passages`, `ending` | the world: sending, comparing, going down and coming to rest |
//! | `line`, `wire` | a connection; its stream |
//! | `gate`, `machine` | the way into the engine; the engine and its model |

mod acquirer;
mod answer;
mod chip;
mod draft;
mod ebcdic;
mod ending;
mod events;
mod gate;
mod header;
mod keys;
mod line;
mod machine;
mod messages;
mod oddities;
mod passages;
mod question;
mod site;
mod spelling;
mod treatment;
mod version_1993;
mod wire;
mod zone_book;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_acquiring::door_parts::ConnectionBounds;
use cardswitch_acquiring::peer_board::PeerBoard;
use cardswitch_acquiring::slow_bytes::SlowBytes;
use cardswitch_engine::domain::network_key::DuplicateKey;
use cardswitch_secrets::Secrets;
use cardswitch_secrets::pan::Pan;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use self::acquirer::AcquirerMessage;
pub(crate) use self::events::SocketHappening;
use self::events::{SocketAction, SocketEvent, SocketRates};
use self::line::SocketLine;
use self::machine::Machinery;
use self::site::{Site, WorldClock};
use self::wire::WireEnd;
use crate::happening::{Action, Part};
use crate::marks::{Mark, Marks};
use crate::rates::Rates;
use crate::rng::Rng;
use crate::samples::START;

/// The messages of a world, repeats apart.
const MESSAGES: u64 = 36;
/// More events than a world needs for them.
const EVENTS_MAX: u64 = 20_000;
const ACQUIRERS: usize = 3;

/// The history of a world of sockets.
#[derive(Debug)]
pub(crate) struct SocketStory {
    pub(crate) marks: Marks,
    /// A hash of everything that acquirers read, in order.
    pub(crate) trace: [u8; 32],
}

/// The words of a world, as far as it came.
pub(crate) type Words = Arc<Mutex<Vec<String>>>;

struct SocketWorld {
    seed: u64,
    /// The draws of the happening of the moment.
    rng: Rng,
    rates: SocketRates,
    parts: Rates,
    machine: Machinery,
    now: Duration,
    clock: WorldClock,
    secrets: Arc<Secrets>,
    pans: Vec<String>,
    board: PeerBoard,
    sites: Vec<Site>,
    slow_bytes: Arc<SlowBytes>,
    is_roomy: bool,
    /// Whether acquirers read as fast as they can from now on, and make no mistakes.
    is_hurried: bool,
    bounds: ConnectionBounds,
    idle_limit: Duration,
    messages: Vec<AcquirerMessage>,
    /// The numbers of the messages that the engine decides.
    keys: BTreeMap<DuplicateKey, u64>,
    /// The messages of each acquirer that await an answer and will be sent again.
    unanswered: [Vec<u64>; ACQUIRERS],
    lines: BTreeMap<u64, SocketLine>,
    next_line: u64,
    marks: Marks,
    trace: Sha256,
    words: Option<Words>,
}

/// Runs the world of a seed, and notes its happenings in `told`.
/// Panics: where an answer is wrong, missing, doubled, or of what is not durable.
pub(crate) fn run(seed: u64, place: &Path, told: &mut Vec<SocketHappening>) -> SocketStory {
    on_its_own_thread(|| SocketWorld::new(seed, place).run(told))
}

/// Runs the world of a seed through these happenings, and puts what happens into words if there is room for them.
/// Panics: as `run` does.
pub(crate) fn run_again(
    seed: u64,
    place: &Path,
    happenings: &[SocketHappening],
    words: Option<Words>,
) -> SocketStory {
    on_its_own_thread(|| SocketWorld { words, ..SocketWorld::new(seed, place) }.replay(happenings))
}

/// Connections share buffers that a thread keeps.
fn on_its_own_thread(world: impl FnOnce() -> SocketStory + Send) -> SocketStory {
    std::thread::scope(|scope| {
        // The name tells a profile's samples apart.
        let thread = std::thread::Builder::new().name("sockets".to_owned());
        let world = thread.spawn_scoped(scope, world).unwrap();
        world.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl SocketWorld {
    fn new(seed: u64, place: &Path) -> Self {
        let mut rng = Rng::new(seed ^ 0x50CC_E750);
        let rates = SocketRates::draw(&mut rng);
        let parts = Rates::draw(&mut rng, MESSAGES);
        let secrets = Arc::new(Secrets::from_root([8; 32]));
        let mut machine = Machinery::new(place, &parts);
        let pans: Vec<_> = (0..8).map(pan_of).collect();
        machine.open_cards(&pans, &secrets);
        let (board, clock, now) =
            (PeerBoard::default(), WorldClock::default(), Duration::from_secs(1));
        clock.set(now);
        let mut more = Rng::new(seed ^ 0x8583_1993);
        let site = |number| Site::draw((&mut rng, &mut more), number, place, &board, &clock);
        let sites = (0..ACQUIRERS).map(site).collect();
        let is_roomy = rng.chance(70);
        let slow_bytes_max = if is_roomy { 1 << 26 } else { 1 << (15 + rng.below(4)) };
        let mut few = |most: usize| match rng.chance(50) {
            true => most,
            false => 1 + rng.below(12) as usize,
        };
        let full = ConnectionBounds::default();
        let bounds = ConnectionBounds {
            in_flight: few(full.in_flight),
            outbox_bytes: 40 * few(full.outbox_bytes / 40),
        };
        Self {
            seed,
            rates,
            parts,
            machine,
            now,
            clock,
            secrets,
            pans,
            board,
            sites,
            slow_bytes: Arc::new(SlowBytes::new(slow_bytes_max)),
            is_roomy,
            is_hurried: false,
            bounds,
            idle_limit: Duration::from_secs(10 + rng.below(300)),
            rng,
            messages: Vec::new(),
            keys: BTreeMap::new(),
            unanswered: Default::default(),
            lines: BTreeMap::new(),
            next_line: 0,
            marks: Marks::default(),
            trace: Sha256::new(),
            words: None,
        }
    }

    fn run(mut self, told: &mut Vec<SocketHappening>) -> SocketStory {
        let mut draws = self.rng.clone();
        while (self.messages.len() as u64) < MESSAGES && (told.len() as u64) < EVENTS_MAX {
            let happening = self.draw_happening(&mut draws);
            told.push(happening);
            self.undergo(happening);
        }
        self.finish()
    }

    fn replay(mut self, happenings: &[SocketHappening]) -> SocketStory {
        for (number, site) in self.sites.iter().enumerate() {
            self.tell(|| format!("acquirer {number} speaks {}", site.words()));
        }
        happenings.iter().for_each(|happening| self.undergo(*happening));
        self.tell(|| "from here on nothing fails, and all is waited for".to_owned());
        self.finish()
    }

    fn finish(mut self) -> SocketStory {
        self.rng = Rng::new(self.seed ^ 0xE4D0);
        self.end();
        SocketStory { marks: self.marks, trace: self.trace.finalize().into() }
    }

    fn draw_happening(&self, draws: &mut Rng) -> SocketHappening {
        let at = self.now + Duration::from_millis(draws.below(200));
        let action = match self.parts.next(draws) {
            _ if self.machine.has_failed() && draws.chance(10) => {
                SocketAction::Befall(SocketEvent::Crash)
            }
            Action::Step(part) => SocketAction::Step(part),
            Action::Send => SocketAction::Befall(self.rates.next(draws)),
        };
        SocketHappening { at, action, seed: draws.number() }
    }

    fn undergo(&mut self, happening: SocketHappening) {
        self.rng = Rng::new(happening.seed);
        // Others than before may have let time pass.
        self.pass_time(happening.at.saturating_sub(self.now));
        match happening.action {
            SocketAction::Step(part) => self.step(part),
            SocketAction::Befall(event) => self.befall(event),
        }
    }

    fn tell(&self, words: impl FnOnce() -> String) {
        if let Some(all) = &self.words {
            all.lock().push(format!("at {:.3} s {}", self.now.as_secs_f64(), words()));
        }
    }

    fn pass_time(&mut self, time: Duration) {
        self.now += time;
        self.clock.set(self.now);
        self.machine.set_clock(START + self.now.as_micros() as i64);
    }

    fn context(&self) -> String {
        format!("seed {}, world of sockets: after {} messages", self.seed, self.messages.len())
    }

    fn befall(&mut self, event: SocketEvent) {
        match event {
            SocketEvent::Send => self.send(),
            SocketEvent::Arrive => self.arrive(),
            SocketEvent::Read => self.read(),
            SocketEvent::Run => self.run_one(),
            SocketEvent::Repeat => self.repeat(),
            SocketEvent::ChangeKey => self.change_key(),
            SocketEvent::GiveUp => self.give_up(),
            SocketEvent::End(end) => self.end_line(end),
            SocketEvent::HalfFrame => self.send_half(),
            SocketEvent::Garbage => self.send_garbage(),
            SocketEvent::OddFrames => self.send_odd_frames(),
            SocketEvent::Silence => self.be_silent(),
            SocketEvent::Crash => self.crash(),
            SocketEvent::BreakDisk => {
                self.tell(|| "the disk below the journal breaks".to_owned());
                self.machine.break_disk(&mut self.rng);
            }
            SocketEvent::StopDoor => self.stop_door(),
        }
    }

    /// Moves a part of the engine, and compares the answers that come of it.
    fn step(&mut self, part: Part) {
        self.tell(|| format!("the {} moves", format!("{part:?}").to_lowercase()));
        self.machine.step(part);
        self.take_replies();
    }

    /// A connection of an acquirer that is in step; a new one where it has none.
    fn line_of(&mut self, acquirer: usize) -> &mut SocketLine {
        let is_fit = |line: &&mut SocketLine| line.acquirer == acquirer && line.is_in_step();
        let found = self.lines.values_mut().find(is_fit).map(|line| line.number);
        let number = found.unwrap_or_else(|| self.connect(acquirer));
        self.lines.get_mut(&number).unwrap()
    }

    fn pick_line(&mut self) -> Option<u64> {
        let numbers: Vec<_> = self.lines.keys().copied().collect();
        (!numbers.is_empty()).then(|| self.rng.pick(&numbers))
    }

    fn arrive(&mut self) {
        let Some(number) = self.pick_line() else { return };
        let count = 1 << self.rng.below(11);
        self.tell(|| format!("{count} bytes arrive at connection {number}"));
        let line = self.lines.get_mut(&number).unwrap();
        line.arrive(count, self.now);
    }

    fn read(&mut self) {
        let Some(number) = self.pick_line() else { return };
        let count = 1 << self.rng.below(11);
        self.tell(|| format!("the acquirer reads {count} bytes of connection {number}"));
        self.read_from(number, count);
    }

    /// Runs the task of one connection, if it was woken or its time has come.
    fn run_one(&mut self) {
        if let Some(number) = self.pick_line() {
            self.tell(|| format!("connection {number} has its turn"));
            self.run_line(number);
        }
    }

    /// Returns whether it had anything to do.
    fn run_line(&mut self, number: u64) -> bool {
        let now = self.now;
        let line = self.lines.get_mut(&number).unwrap();
        if !line.is_due(now) {
            return false;
        }
        let end = line.step(now);
        line.prove_bounds(&self.bounds);
        self.take_replies();
        if let Some(end) = end {
            self.bury(number, Some(end));
        }
        true
    }

    fn end_line(&mut self, end: WireEnd) {
        let Some(number) = self.pick_line() else { return };
        self.tell(|| format!("the acquirer ends connection {number}: {end:?}"));
        self.lines.get_mut(&number).unwrap().end(end);
    }

    fn send_garbage(&mut self) {
        let Some(number) = self.pick_line() else { return };
        let count = 1 + self.rng.below(64);
        let bytes: Vec<_> = (0..count).map(|_| self.rng.below(256) as u8).collect();
        self.tell(|| format!("{count} bytes that are no frame go into connection {number}"));
        self.lines.get_mut(&number).unwrap().spoil(&bytes);
    }

    fn send_odd_frames(&mut self) {
        let Some(number) = self.pick_line() else { return };
        self.tell(|| format!("frames without a message go into connection {number}"));
        let line = self.lines.get_mut(&number).unwrap();
        match self.rng.chance(50) {
            true => line.send_empty_frames(),
            false => line.send_junk(),
        }
    }

    /// Nothing happens, while the engine moves, for so long that silent connections end.
    fn be_silent(&mut self) {
        let pause = self.idle_limit + Duration::from_millis(self.rng.below(2_000));
        self.tell(|| format!("nothing happens for {} s", pause.as_secs()));
        self.pass_time(pause);
    }

    fn stop_door(&mut self) {
        self.tell(|| "the doors stop, and open again".to_owned());
        let now = self.now;
        self.lines.values_mut().for_each(|line| line.drain(now));
        self.marks.pass(Mark::DoorStopped);
    }
}

/// A card number of the switch.
fn pan_of(number: u64) -> String {
    Pan::with_check_digit(format!("453711{number:09}").as_bytes()).unwrap().reveal()
}
