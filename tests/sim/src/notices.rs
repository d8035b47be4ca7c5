//! Letters about declines in a simulated world: the product's own follower, queue and sending over a simulated disk,
//! beside the engine whose tables they read, and a mail server that takes letters, puts them off, refuses them or is
//! not there.
//!
//! Every draw here is from a stream of its own, so that a world without these letters is as it was. A stand-in
//! writes the letters, whose words are the product's. The promises to cardholders are compared in `book`.

mod book;
mod hours;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_dispatch::mail::declines::{
    DeclineFollower, DeclineNotice, NoticeContext, NoticeError, NoticeLimits,
};
use cardswitch_dispatch::mail::queue::{MailQueue, NextLetter, Tries, age};
use cardswitch_dispatch::mail::sending::{LetterFate, LetterTry, MailOutcome, MailSending};
use cardswitch_dispatch::mail::store::MailDirectory;
use cardswitch_engine::disk::Disk as _;
use cardswitch_engine::domain::ids::{RecordSeq, TransactionSeq};
use cardswitch_engine::engine::Engine;
use cardswitch_engine::journal::testing::{DiskFaultPlan, FaultyDisk};
use cardswitch_engine::store::Snapshot;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use self::book::{HandIn, NoticeBook, NoticeText, StepView};
use crate::disks::{Crash, Disks};
use crate::marks::{Mark, Marks};
use crate::model::Model;
use crate::rng::Rng;

/// A world in so many of lone nodes has letters about declines. Units: hundredths.
const WORLDS_PERCENT: u64 = 13;
const RETRY_WAIT: Duration = Duration::from_secs(60);
/// The time of one letter. As in a running switch, no two are handed in at the same moment.
const LETTER_TIME: Duration = Duration::from_micros(1);
/// So many rounds are enough for all that waits, once nothing is in the way.
const CALM_ROUNDS_MAX: usize = 10_000;
/// The name of the file that stays.
const CURSOR: &str = "cursor";

/// How often things happen to letters in one world.
struct NoticeRates {
    /// Of 1,024 happenings, so many let letters move.
    moves: u64,
    /// So many moves come together at most.
    burst: u64,
    /// The longest time from one move to the next. Units: milliseconds.
    pause_ms: u64,
    crashed_starts_percent: u64,
    /// How many of a thousand moves break the disk.
    faults_per_mille: u64,
    limits: NoticeLimits,
    unreached_percent: u64,
    put_off_percent: u64,
    refused_percent: u64,
}

impl NoticeRates {
    fn draw(rng: &mut Rng) -> Self {
        let mut up_to = |most: u64| if rng.chance(40) { 0 } else { rng.below(most) };
        let [unreached_percent, put_off_percent, refused_percent] = [60, 60, 40].map(&mut up_to);
        let waiting_max = if rng.chance(30) { 1 + rng.below(20) as usize } else { usize::MAX };
        Self {
            moves: 8 << rng.below(8),
            burst: 1 << rng.below(5),
            pause_ms: 1 << rng.below(16),
            crashed_starts_percent: rng.below(40),
            faults_per_mille: if rng.chance(50) { rng.below(40) } else { 0 },
            limits: NoticeLimits { scan_max: 1 << rng.below(8), waiting_max },
            unreached_percent,
            put_off_percent,
            refused_percent,
        }
    }
}

/// A letter on its way.
enum LetterFlight {
    /// The server has answered, and the switch will learn of it.
    Tried { id: Uuid, tries: Tries, outcome: MailOutcome },
    /// The switch has learned that it is done with.
    Over(Uuid),
}

/// Queue and sending, and the follower unless its start failed.
struct NoticeRun {
    follower: Option<DeclineFollower>,
    queue: MailQueue,
    sending: MailSending,
    flight: Option<LetterFlight>,
    uptime: Duration,
    /// Whether the last step failed: few follow until the next start, for the disk stays broken.
    has_failed: bool,
}

pub(crate) struct Notices {
    context: String,
    rng: Rng,
    rates: NoticeRates,
    /// None while the switch is down, and before its tables show the record `awaited`.
    running: Option<NoticeRun>,
    awaited: RecordSeq,
    is_calm: bool,
    book: NoticeBook,
    /// A hash of everything that the mail server took, in order.
    taken: Sha256,
    /// What is put back at the end, and after how many commands it is copied.
    pub(crate) copy: Option<NoticeCopy>,
    copy_after: u64,
}

/// An old copy of the disks, and the model as it was then.
pub(crate) struct NoticeCopy {
    pub(crate) disks: Disks,
    pub(crate) model: Model,
}

impl Notices {
    /// The letters of a world, if it has any.
    pub(crate) fn draw(seed: u64, length: u64) -> Option<Self> {
        let mut rng = Rng::new(seed ^ 0x00DE_C11E);
        if !rng.chance(WORLDS_PERCENT) {
            return None;
        }
        let rates = NoticeRates::draw(&mut rng);
        let copy_after = length.saturating_sub(1 + rng.below(length.max(1)));
        let context = format!("seed {seed}: notices");
        Some(Self {
            book: NoticeBook::new(context.clone()),
            context,
            rng,
            rates,
            running: None,
            awaited: RecordSeq(0),
            is_calm: false,
            taken: Sha256::new(),
            copy: None,
            copy_after,
        })
    }

    /// The switch has started, and letters will once the tables show what is durable.
    pub(crate) fn await_tables(&mut self, durable: RecordSeq) {
        self.awaited = durable;
    }

    /// The model has carried out the command of a record.
    pub(crate) fn notice_members(&mut self, seq: RecordSeq, model: &Model) {
        self.book.notice_members(seq, model);
    }

    /// Makes a copy of the disks once, to be put back at the end. All is at rest, and as the model has it.
    pub(crate) fn copy_once(&mut self, commands: u64, disks: &Disks, model: &Model) {
        if self.copy.is_none() && commands >= self.copy_after {
            let (disks, model) = (disks.after(Crash::PowerFailure), model.clone());
            self.copy = Some(NoticeCopy { disks, model });
        }
    }

    /// An old copy was put back below these tables: they have lost their newest part.
    pub(crate) fn cut(&mut self, tables: &Snapshot) {
        let checkpoint = tables.checkpoint().unwrap();
        let last = checkpoint.last_transaction;
        let at = tables.transaction_made_at(last).unwrap();
        let before = at.map(|at| tables.last_transaction_before(at).unwrap());
        self.book.cut(checkpoint.applied_seq, (before.unwrap_or(last), last));
    }

    /// After how many of some commands the switch tells of declines again.
    pub(crate) fn draw_start(&mut self, commands: u64) -> u64 {
        self.rng.below(commands)
    }

    /// The switch goes down, with a letter that is on its way.
    pub(crate) fn go_down(&mut self) {
        let Some(NoticeRun { flight, .. }) = self.running.take() else { return };
        let marks = &mut self.book.marks;
        marks.pass_if(
            Mark::CrashAfterNotice,
            matches!(flight, Some(LetterFlight::Tried { outcome: MailOutcome::Taken, .. })),
        );
    }

    /// Starts on the files that are there, after more crashes on the way, each at a write.
    fn open(&mut self, engine: &Engine, disk: &mut FaultyDisk) {
        while self.rng.below(100) < self.rates.crashed_starts_percent {
            self.break_disk(disk, 2);
            self.start(engine, disk);
            self.running = None;
            *disk = match self.rng.chance(50) {
                true => disk.after_kill(),
                false => disk.after_torn_power_failure(self.rng.number() >> 1),
            };
        }
        self.start(engine, disk);
    }

    /// Starts queue and follower. A follower that cannot start stays away until the next start.
    fn start(&mut self, engine: &Engine, disk: &FaultyDisk) {
        let uptime = Duration::ZERO;
        let Ok(store) = MailDirectory::open(Arc::new(disk.clone())).map(Arc::new) else { return };
        let Ok((queue, held)) = MailQueue::open(Arc::clone(&store) as _, uptime) else { return };
        assert!(held.is_empty(), "{}: there is no news", self.context);
        self.book.begin_run(&letters_in(disk));
        let limits = self.rates.limits;
        let tables = &engine.store;
        let last = tables.read().unwrap().checkpoint().unwrap().last_transaction;
        let opened = DeclineFollower::open(store, tables, limits, uptime);
        let follower = match opened {
            Ok(follower) => Some(follower),
            Err(NoticeError::Cursor(_)) => {
                self.book.marks.pass(Mark::NoticesFailedStart);
                None
            }
            Err(other) => panic!("{}: {other}", self.context),
        };
        let followed = follower.as_ref().map(DeclineFollower::followed);
        self.book.begin_following(followed, last);
        let sending = MailSending::new(RETRY_WAIT);
        self.running =
            Some(NoticeRun { follower, queue, sending, flight: None, uptime, has_failed: false });
    }

    /// Starts if it can, and moves now and then.
    pub(crate) fn move_now_and_then(
        &mut self,
        engine: &Engine,
        model: &Model,
        disk: &mut FaultyDisk,
    ) {
        if self.rng.below(1_024) >= self.rates.moves || !self.is_running(engine, disk) {
            return;
        }
        for _ in 0..=self.rng.below(self.rates.burst) {
            if self.rng.below(1_000) < self.rates.faults_per_mille {
                self.break_disk(disk, 12);
            }
            match self.rng.below(100) {
                0..30 => self.follow(engine, model),
                _ => self.send(engine),
            }
        }
    }

    fn is_running(&mut self, engine: &Engine, disk: &mut FaultyDisk) -> bool {
        if self.running.is_none() && engine.watermark.applied() >= self.awaited {
            self.open(engine, disk);
        }
        self.running.is_some()
    }

    fn break_disk(&mut self, disk: &FaultyDisk, within: u64) {
        let nth = Some(1 + self.rng.below(within));
        let nothing = DiskFaultPlan::default();
        disk.plan(match self.rng.below(6) {
            0 => DiskFaultPlan { fail_write: nth, ..nothing },
            1 => DiskFaultPlan { torn_write: nth.map(|nth| (nth, 9)), ..nothing },
            2 => DiskFaultPlan { fail_sync: nth, ..nothing },
            3 => DiskFaultPlan { fail_after_sync: nth, ..nothing },
            4 => DiskFaultPlan { disk_full_bytes: Some(disk.bytes() + 100), ..nothing },
            // There is room again.
            _ => nothing,
        });
        self.book.note_trouble();
    }

    fn pass_time(&mut self) {
        let pause = Duration::from_millis(self.rng.below(self.rates.pause_ms));
        self.running.as_mut().unwrap().uptime += pause;
    }

    /// Tells of the next declines, unless the model has not heard of them.
    fn follow(&mut self, engine: &Engine, model: &Model) {
        self.pass_time();
        let checkpoint = engine.store.read().unwrap().checkpoint().unwrap();
        if checkpoint.last_transaction.0 > model.last_seq {
            return;
        }
        let NoticeRun { follower, queue, uptime, has_failed, .. } = self.running.as_mut().unwrap();
        let Some(follower) = follower else { return };
        if *has_failed && !self.is_calm && !self.rng.chance(5) {
            return;
        }
        let NoticeLimits { scan_max, waiting_max } = self.rates.limits;
        let (applied, last) = (checkpoint.applied_seq, checkpoint.last_transaction);
        let waiting = queue.len();
        let view = StepView { applied, last, scan_max, is_full: waiting >= waiting_max };
        let context = NoticeContext { tables: &engine.store, waiting, now: *uptime };
        let mut handed = Vec::new();
        let outcome = follower.step(context, |notice: &DeclineNotice| {
            *uptime += LETTER_TIME;
            let (id, text) = (notice.id, NoticeText::of(notice));
            let added = queue.add_letter(id, text.urgency(), &text.bytes(), *uptime);
            handed.push(HandIn { id, text, is_taken: added.is_ok() });
            added.map(|()| true).map_err(Into::into)
        });
        let followed = follower.followed();
        *has_failed = outcome.is_err();
        self.book.note_step(model, view, handed, &outcome);
        assert_eq!(Some(followed), self.book.done(), "{}", self.context);
    }

    /// The letter that is on its way moves, or the next one goes.
    fn send(&mut self, engine: &Engine) {
        self.pass_time();
        let NoticeRun { queue, sending, flight, uptime, .. } = self.running.as_mut().unwrap();
        match flight.take() {
            Some(LetterFlight::Tried { id, tries, outcome }) => {
                let now = Duration::from_micros(engine.clock.now().0 as u64);
                let letter = LetterTry { id, tries, age: age(id, now) };
                let fate = sending.settle(queue, letter, outcome, *uptime);
                self.book.settle(id, (outcome, fate), letter.age);
                *flight = (fate == LetterFate::Over).then_some(LetterFlight::Over(id));
            }
            Some(LetterFlight::Over(id)) => queue.finish(id),
            None => match sending.next(queue, *uptime) {
                NextLetter::Due(id, tries) => self.offer(id, tries),
                NextLetter::At(at) if self.is_calm || self.rng.chance(20) => *uptime = at,
                NextLetter::At(_) | NextLetter::None => {}
            },
        }
    }

    fn offer(&mut self, id: Uuid, tries: Tries) {
        let outcome = self.draw_outcome();
        let run = self.running.as_mut().unwrap();
        let (urgency, bytes) = run.queue.read_letter(id).unwrap();
        self.book.offer(id, urgency, &bytes);
        if outcome == MailOutcome::Taken {
            self.book.take(id);
            self.taken.update(&bytes);
        }
        run.flight = Some(LetterFlight::Tried { id, tries, outcome });
    }

    fn draw_outcome(&mut self) -> MailOutcome {
        let NoticeRates { unreached_percent, put_off_percent, refused_percent, .. } = self.rates;
        match self.is_calm {
            true => MailOutcome::Taken,
            _ if self.rng.chance(unreached_percent) => MailOutcome::Unreached("it is not there"),
            _ if self.rng.chance(put_off_percent) => MailOutcome::PutOff(450),
            _ if self.rng.chance(refused_percent) => MailOutcome::Refused(550),
            _ => MailOutcome::Taken,
        }
    }

    /// Ends all trouble. Every letter that the rules require must arrive then, and the queue must be empty.
    pub(crate) fn come_to_rest(&mut self, engine: &Engine, model: &Model, disk: &mut FaultyDisk) {
        (self.is_calm, self.rates.crashed_starts_percent) = (true, 0);
        self.go_down();
        *disk = disk.after_kill();
        assert!(self.is_running(engine, disk), "{}: the tables are behind", self.context);
        let last = engine.store.read().unwrap().checkpoint().unwrap().last_transaction;
        for _ in 0..CALM_ROUNDS_MAX {
            self.follow(engine, model);
            for _ in 0..3 {
                self.send(engine);
            }
            if self.is_quiet(last) {
                break;
            }
        }
        assert!(self.is_quiet(last), "{}: a letter waits for ever", self.context);
        self.book.audit();
        assert_eq!(disk.names().unwrap(), [CURSOR], "{}", self.context);
    }

    fn is_quiet(&self, last: TransactionSeq) -> bool {
        let run = self.running.as_ref().unwrap();
        run.queue.is_empty() && run.flight.is_none() && self.book.done() == Some(last)
    }

    /// A hash of everything that the mail server took, and the marks.
    pub(crate) fn end(self) -> ([u8; 32], Marks) {
        (self.taken.finalize().into(), self.book.marks)
    }
}

/// The letters in a directory.
fn letters_in(disk: &FaultyDisk) -> BTreeSet<Uuid> {
    let names = disk.names().unwrap();
    let letter = |name: &String| {
        let (id, kind) = name.split_once('.')?;
        ["due", "first"].contains(&kind).then(|| id.parse().ok())?
    };
    names.iter().filter_map(letter).collect()
}
