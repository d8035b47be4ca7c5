//! Letters about declines in a simulated world: the product's own follower, queue and sending beside the engine whose
//! tables they read. Letters wait on a simulated disk, those of a cluster among the notes of its leaders, where its
//! webhooks have theirs. The mail of a former leader goes on for a while.
//!
//! Every draw here is from a stream of its own, so that a world without these letters is as it was. A stand-in
//! writes the letters, whose words are the product's. A run and the mail server are in `run`; the promises to
//! cardholders are compared in `book`.

mod book;
mod hours;
mod run;

use std::collections::BTreeSet;
use std::sync::Arc;

use cardswitch_dispatch::mail::cluster_mail::NotedMail;
use cardswitch_dispatch::mail::declines::NoticeLimits;
use cardswitch_dispatch::mail::store::MailDirectory;
use cardswitch_dispatch::notes::NoteBounds;
use cardswitch_engine::disk::Disk as _;
use cardswitch_engine::domain::ids::RecordSeq;
use cardswitch_engine::engine::Engine;
use cardswitch_engine::journal::testing::{DiskFaultPlan, FaultyDisk};
use cardswitch_engine::store::Snapshot;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use self::book::NoticeBook;
use self::run::{MailWorld, NoticeRun};
use crate::disks::{Crash, Disks};
use crate::marks::{Mark, Marks};
use crate::model::Model;
use crate::nodes::FailedStart;
use crate::notes::{ClusterNotes, NoteShelf};
use crate::rng::Rng;
use crate::switch_view::SwitchView;
use crate::window::SimulatedWindow;

/// A world in so many of lone nodes has letters about declines. Units: hundredths.
const WORLDS_PERCENT: u64 = 13;
/// The same of worlds of a cluster.
const CLUSTER_WORLDS_PERCENT: u64 = 50;
/// So many rounds are enough for all that waits, once nothing is in the way.
const CALM_ROUNDS_MAX: usize = 10_000;
/// The name of the file that stays.
const CURSOR: &str = "cursor";
/// The beginning of the names of mail among notes.
const NOTED: &str = "mail/";
/// The same of what webhooks note.
const WEBHOOKS: &str = "deliveries/";

/// How often things happen to letters in one world.
struct NoticeRates {
    /// Of 1,024 happenings, so many let letters move.
    moves: u64,
    /// So many moves come together at most.
    burst: u64,
    /// The longest time from one move to the next. Units: milliseconds.
    pause_ms: u64,
    crashed_starts_percent: u64,
    /// How many of a thousand moves break the disk, or find the notes silent for a while.
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

/// The mail of a node that led, which goes on.
struct FormerRun {
    run: NoticeRun,
    view: SwitchView,
    moves_left: u64,
}

pub(crate) struct Notices {
    world: MailWorld,
    /// None while the switch is down, and before its tables show the record `awaited`.
    running: Option<NoticeRun>,
    former: Option<FormerRun>,
    awaited: RecordSeq,
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
        rng.chance(WORLDS_PERCENT).then(|| Self::new(seed, length, rng, None))
    }

    /// The same of a world of a cluster, whose webhooks have these notes.
    pub(crate) fn draw_of_cluster(
        seed: u64,
        length: u64,
        notes: Option<&ClusterNotes>,
    ) -> Option<Self> {
        let mut rng = Rng::new(seed ^ 0x00C1_DEC1);
        if !rng.chance(CLUSTER_WORLDS_PERCENT) {
            return None;
        }
        let shelf = NoteShelf::new(Rng::new(rng.number()));
        let own = || ClusterNotes::new(shelf, NoteBounds::ETCD);
        let notes = notes.cloned().unwrap_or_else(own);
        Some(Self::new(seed, length, rng, Some(notes)))
    }

    fn new(seed: u64, length: u64, mut rng: Rng, notes: Option<ClusterNotes>) -> Self {
        let rates = NoticeRates::draw(&mut rng);
        let copy_after = length.saturating_sub(1 + rng.below(length.max(1)));
        let context = format!("seed {seed}: notices");
        let book = NoticeBook::new(context.clone());
        let (is_calm, taken) = (false, Sha256::new());
        let world = MailWorld { context, rng, rates, is_calm, book, taken, notes };
        let (running, former, awaited, copy) = (None, None, RecordSeq(0), None);
        Self { world, running, former, awaited, copy, copy_after }
    }

    /// Draws, and lets the notes draw, from new seeds.
    pub(crate) fn draw_from(&mut self, seeds: &mut Rng) {
        self.world.rng = Rng::new(seeds.number());
        if let Some(notes) = &self.world.notes {
            notes.shelf.draw_from(seeds);
        }
    }

    /// The switch has started, and letters will once the tables show what is durable. The leader of a cluster has a
    /// connection to the window.
    pub(crate) fn await_tables(&mut self, durable: RecordSeq, leader: Option<&SimulatedWindow>) {
        self.awaited = durable;
        if let Some(notes) = &self.world.notes {
            notes.led_by(leader);
        }
    }

    /// The model has carried out the command of a record.
    pub(crate) fn notice_members(&mut self, seq: RecordSeq, model: &Model) {
        self.world.book.notice_members(seq, model);
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
        self.world.book.cut(checkpoint.applied_seq, (before.unwrap_or(last), last));
    }

    /// After how many of some commands the switch tells of declines again.
    pub(crate) fn draw_start(&mut self, commands: u64) -> u64 {
        self.world.rng.below(commands)
    }

    /// The switch goes down, with a letter that is on its way.
    pub(crate) fn go_down(&mut self) {
        self.former = None;
        let Some(run) = self.running.take() else { return };
        self.world.book.marks.pass_if(Mark::CrashAfterNotice, run.has_unheard_letter());
    }

    /// The node that leads dies, perhaps at a change of the notes.
    pub(crate) fn die(&mut self, engine: &Engine, model: &Model) {
        let Self { world, running, .. } = self;
        if let (Some(run), Some(notes)) = (running, &world.notes)
            && world.rng.chance(50)
        {
            let (shelf, view) = (notes.shelf.clone(), SwitchView::of(engine));
            let (arriving, is_following) = (world.rng.below(5), world.rng.chance(70));
            shelf.die_amid(arriving, || match is_following {
                true => run.follow(world, &view, model),
                false => run.send(world, &view),
            });
        }
        self.go_down();
    }

    /// The node that leads loses the lead and does not know it.
    pub(crate) fn lose_lead(&mut self, engine: &Engine) {
        let (view, moves_left) = (SwitchView::of(engine), self.world.rng.below(100));
        self.former = self.running.take().map(|run| FormerRun { run, view, moves_left });
    }

    fn move_former(&mut self, model: &Model) {
        let Some(FormerRun { run, view, moves_left }) = &mut self.former else { return };
        let moves = 1 + self.world.rng.below(self.world.rates.burst);
        for _ in 0..moves {
            move_once(run, &mut self.world, view, model);
        }
        *moves_left = moves_left.saturating_sub(moves);
        if *moves_left == 0 {
            self.former = None;
        }
    }

    /// Starts on the files that are there, after more crashes on the way, each at a write.
    fn open(&mut self, view: &SwitchView, disk: &mut FaultyDisk) {
        while self.draws_crashed_start(1) {
            self.break_disk(disk, 2);
            self.start(view, disk);
            self.running = None;
            *disk = match self.world.rng.chance(50) {
                true => disk.after_kill(),
                false => disk.after_torn_power_failure(self.world.rng.number() >> 1),
            };
        }
        self.start(view, disk);
    }

    /// A follower that cannot start stays away until the next start.
    fn start(&mut self, view: &SwitchView, disk: &FaultyDisk) {
        let Ok(store) = MailDirectory::open(Arc::new(disk.clone())) else { return };
        let waiting = letters_in(&disk.names().unwrap());
        self.running = NoticeRun::start(Arc::new(store), &waiting, &mut self.world, view).ok();
    }

    /// Starts at the node that leads.
    /// Errors: it leads no more, or cannot reach the notes, or dies amid its start.
    /// Panics: where nothing is in the way.
    fn open_as_leader(&mut self, view: &SwitchView, disk: &FaultyDisk) -> Result<(), FailedStart> {
        let shelf = self.notes().shelf.clone();
        if self.draws_crashed_start(4) {
            let arriving = self.world.rng.below(4);
            shelf.die_amid(arriving, || drop(self.take_over(view, disk)));
            self.running = None;
        } else {
            let Err(error) = self.take_over(view, disk) else { return Ok(()) };
            let is_shut_off = self.notes().is_shut_off();
            assert!(is_shut_off, "{}: a leader cannot send: {error}", self.world.context);
            self.world.book.marks.pass(Mark::NotesNotReached);
        }
        let torn = Crash::TornPowerFailure(self.world.rng.number() >> 1);
        Err(FailedStart(self.world.rng.pick(&[Crash::Kill, torn])))
    }

    /// Takes over what the node that led before has left.
    /// Errors: why it cannot.
    fn take_over(&mut self, view: &SwitchView, disk: &FaultyDisk) -> Result<(), String> {
        let directory = MailDirectory::open(Arc::new(disk.clone())).unwrap();
        let mail = NotedMail::take_over(self.notes().of_leader(), &directory, |_| ());
        let mail = Arc::new(mail.map_err(|error| error.to_string())?);
        let waiting = letters_in(&self.files(disk));
        self.world.book.marks.pass_if(Mark::NoticesTakenOver, !waiting.is_empty());
        let is_beside = self.notes().shelf.names().iter().any(|name| name.starts_with(WEBHOOKS));
        self.world.book.marks.pass_if(Mark::NoticesBesideWebhooks, is_beside);
        let run = NoticeRun::start(mail, &waiting, &mut self.world, view);
        self.running = Some(run.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// The notes of a cluster.
    fn notes(&self) -> &ClusterNotes {
        self.world.notes.as_ref().unwrap()
    }

    /// Whether a start goes wrong, as one in so many of those of a switch that is alone.
    fn draws_crashed_start(&mut self, one_in: u64) -> bool {
        self.world.rng.below(100) < self.world.rates.crashed_starts_percent / one_in
    }

    /// Starts if it can, and moves now and then.
    /// Errors: a leader leads no more.
    pub(crate) fn move_now_and_then(
        &mut self,
        engine: &Engine,
        model: &Model,
        disk: &mut FaultyDisk,
    ) -> Result<(), FailedStart> {
        if self.world.rng.below(1_024) >= self.world.rates.moves {
            return Ok(());
        }
        self.move_former(model);
        if !self.is_running(engine, disk)? {
            return Ok(());
        }
        let view = SwitchView::of(engine);
        for _ in 0..=self.world.rng.below(self.world.rates.burst) {
            if self.world.rng.below(1_000) < self.world.rates.faults_per_mille {
                self.break_store(disk);
            }
            let Some(run) = &mut self.running else { return Ok(()) };
            move_once(run, &mut self.world, &view, model);
        }
        Ok(())
    }

    /// Starts if it can.
    /// Errors: a leader leads no more.
    pub(crate) fn is_running(
        &mut self,
        engine: &Engine,
        disk: &mut FaultyDisk,
    ) -> Result<bool, FailedStart> {
        if self.running.is_none() && engine.watermark.applied() >= self.awaited {
            let view = SwitchView::of(engine);
            match self.world.notes.is_some() {
                true => self.open_as_leader(&view, disk)?,
                false => self.open(&view, disk),
            }
        }
        Ok(self.running.is_some())
    }

    fn break_store(&mut self, disk: &FaultyDisk) {
        match &self.world.notes {
            // The product asks twenty times.
            Some(notes) => notes.shelf.fall_silent(1 + self.world.rng.below(60)),
            None => self.break_disk(disk, 12),
        }
    }

    fn break_disk(&mut self, disk: &FaultyDisk, within: u64) {
        let nth = Some(1 + self.world.rng.below(within));
        let nothing = DiskFaultPlan::default();
        disk.plan(match self.world.rng.below(6) {
            0 => DiskFaultPlan { fail_write: nth, ..nothing },
            1 => DiskFaultPlan { torn_write: nth.map(|nth| (nth, 9)), ..nothing },
            2 => DiskFaultPlan { fail_sync: nth, ..nothing },
            3 => DiskFaultPlan { fail_after_sync: nth, ..nothing },
            4 => DiskFaultPlan { disk_full_bytes: Some(disk.bytes() + 100), ..nothing },
            // There is room again.
            _ => nothing,
        });
    }

    /// Ends all trouble.
    pub(crate) fn calm_down(&mut self) {
        (self.world.is_calm, self.world.rates.crashed_starts_percent) = (true, 0);
    }

    /// Every letter that the rules require must arrive, with nothing in its way, and the queue must be empty.
    pub(crate) fn come_to_rest(&mut self, engine: &Engine, model: &Model, disk: &mut FaultyDisk) {
        self.calm_down();
        if self.world.notes.is_none() {
            self.go_down();
            *disk = disk.after_kill();
        }
        let is_running = self.is_running(engine, disk).is_ok_and(|is_running| is_running);
        assert!(is_running, "{}: the tables are behind", self.world.context);
        let view = SwitchView::of(engine);
        let last = view.snapshot().checkpoint().unwrap().last_transaction;
        let Self { running: Some(run), world, .. } = self else { unreachable!() };
        for _ in 0..CALM_ROUNDS_MAX {
            run.follow(world, &view, model);
            for _ in 0..3 {
                run.send(world, &view);
            }
            if run.is_quiet(last) {
                break;
            }
        }
        assert!(run.is_quiet(last), "{}: a letter waits for ever", world.context);
        world.book.audit();
        assert_eq!(self.files(disk), [CURSOR], "{}", self.world.context);
    }

    /// The names of all that waits, and of the follower's place.
    fn files(&self, disk: &FaultyDisk) -> Vec<String> {
        let Some(notes) = &self.world.notes else { return disk.names().unwrap() };
        let names = notes.shelf.names().into_iter();
        names.filter_map(|name| name.strip_prefix(NOTED).map(str::to_owned)).collect()
    }

    /// A hash of everything that the mail server took, and the marks.
    pub(crate) fn end(self) -> ([u8; 32], Marks) {
        (self.world.taken.finalize().into(), self.world.book.marks)
    }
}

fn move_once(run: &mut NoticeRun, world: &mut MailWorld, view: &SwitchView, model: &Model) {
    match world.rng.below(100) {
        0..30 => run.follow(world, view, model),
        _ => run.send(world, view),
    }
}

/// The letters among files.
fn letters_in(names: &[String]) -> BTreeSet<Uuid> {
    let letter = |name: &String| {
        let (id, kind) = name.split_once('.')?;
        ["due", "first"].contains(&kind).then(|| id.parse().ok())?
    };
    names.iter().filter_map(letter).collect()
}
