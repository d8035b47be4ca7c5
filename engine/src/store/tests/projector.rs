//! The projector behind a real journal: it follows, checkpoints, goes on where it was, and fails
//! alone.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::world::journal;
use super::*;
use crate::inbox::{InboxSender, inbox};
use crate::journal::chain::BatchBuilder;
use crate::journal::limits::CommitLimits;
use crate::journal::log::Expectation;
use crate::journal::testing::DiskFaultPlan;
use crate::journal::testing::FaultyDisk;
use crate::journal::{
    BatchFeed, CommitOutcome, CommitRequest, CommitterWiring, DirectoryId, DurablePosition,
    Journal, JournalHealth, JournalIdentity, JournalReader, LogJournal, LogRetention, Release,
    SealedBatch, TrimControl, spawn_committer,
};
use crate::steps::{StepOutcome, Steps};
use crate::store::{
    Pacing, ProjectionHealth, Projector, ProjectorOptions, ProjectorSteps, WaitPurpose, Watermark,
    spawn_projector,
};

/// Checkpoints come soon, so that no test waits for one.
const QUICK: Pacing = Pacing {
    visible_interval: Duration::from_millis(10),
    awaited_interval: Duration::from_millis(2),
    checkpoint_interval: Duration::from_millis(100),
    checkpoint_records: 50_000,
};

/// A journal with its committer.
struct Line {
    requests: InboxSender<CommitRequest<Note>>,
    durable: Arc<DurablePosition>,
    feed: Arc<BatchFeed>,
    reader: Arc<dyn JournalReader>,
    committer: JoinHandle<()>,
}

/// A reply that tells the test how it left.
struct Note(Sender<CommitOutcome>);

impl Release for Note {
    fn release(self, outcome: CommitOutcome) {
        self.0.send(outcome).unwrap();
    }
}

fn open_journal(disk: &FaultyDisk, checkpoint: Checkpoint) -> Line {
    let identity = JournalIdentity { directory_id: DirectoryId(DIRECTORY), partition: 0 };
    let expected = Expectation { identity, checkpoint: Some(checkpoint.position()) };
    let retention = LogRetention::of_bytes(1 << 20);
    let journal = LogJournal::open_on(Arc::new(disk.clone()), &expected, retention).unwrap();
    let reader = Arc::new(journal.reader());
    let durable = Arc::new(DurablePosition::new(journal.recovered.last_seq));
    let feed = Arc::new(BatchFeed::after(journal.tip().number, journal.tip().last_seq));
    let (requests, inbox) = inbox(4);
    let wiring = CommitterWiring {
        inbox,
        position: Arc::clone(&durable),
        health: Arc::new(JournalHealth::default()),
        trim: Arc::new(TrimControl::default()),
        feed: Arc::clone(&feed),
        spent_buffers: None,
        limits: CommitLimits::default(),
        meters: Arc::default(),
    };
    let committer = spawn_committer(journal, 0, wiring).unwrap().thread;
    Line { requests, durable, feed, reader, committer }
}

impl Line {
    /// Commits records as one shard batch and waits for the reply.
    fn commit(&self, records: &[Record]) -> CommitOutcome {
        let mut batch = BatchBuilder::start(Vec::new());
        batch.push(u32::try_from(records.len()).unwrap(), &encode(records));
        let (note, outcome) = channel();
        let request = CommitRequest {
            last_seq: records[records.len() - 1].seq.0,
            records: batch,
            releases: vec![Note(note)],
            is_awaited: false,
        };
        self.requests.send(request).unwrap();
        outcome.recv().unwrap()
    }

    fn close(self) {
        drop(self.requests);
        self.committer.join().unwrap();
    }
}

struct Follower {
    projector: Projector,
    health: Arc<ProjectionHealth>,
    watermark: Arc<Watermark>,
    checkpoints: std::sync::mpsc::Receiver<Checkpoint>,
}

fn follow(line: &Line, store: &Arc<Store>) -> Follower {
    follow_at(line, store, QUICK)
}

fn follow_at(line: &Line, store: &Arc<Store>, pacing: Pacing) -> Follower {
    let (feed, applied) = (Arc::clone(&line.feed), store.checkpoint().unwrap().applied_seq);
    let watermark = Arc::new(Watermark::ringing(applied, move || feed.ring()));
    let (tell, checkpoints) = channel();
    let on_checkpoint = Box::new(move |checkpoint| tell.send(checkpoint).unwrap());
    let steps = ProjectorSteps::new(
        Arc::clone(store),
        Arc::clone(&line.reader),
        Arc::clone(&line.feed),
        Arc::clone(&watermark),
        ProjectorOptions { partition: 0, pacing, on_checkpoint },
    );
    let steps = steps.unwrap();
    let health = Arc::clone(&steps.health);
    let projector = spawn_projector(steps).unwrap();
    Follower { projector, health, watermark, checkpoints }
}

impl Follower {
    fn wait_for(&self, seq: RecordSeq) -> RecordSeq {
        let (tell, woken) = channel();
        let wake = Box::new(move || tell.send(()).unwrap());
        self.watermark.on_reached(seq, WaitPurpose::Read, wake);
        woken.recv().unwrap();
        self.watermark.applied()
    }

    /// Stops it and returns the last checkpoint it told of.
    fn stop(self) -> Option<Checkpoint> {
        self.projector.stop();
        self.projector.join();
        assert_eq!(self.health.failure(), None);
        self.checkpoints.iter().last()
    }
}

#[test]
fn the_tables_follow_the_journal_and_go_on_after_a_restart() {
    let records = journal(31, 240);
    let disk = FaultyDisk::default();
    let store_disk = FaultyBackend::new();
    let mut done = 0;
    for session in 0..3 {
        // Each session goes on from what a power failure leaves: the last checkpoint.
        let store_disk = store_disk.clone();
        let store = Arc::new(Store::open_with_backend(store_disk, DIRECTORY).unwrap());
        let checkpoint = store.checkpoint().unwrap();
        assert_eq!(checkpoint.applied_seq, RecordSeq(done as u64), "session {session}");
        let line = open_journal(&disk, checkpoint);
        let follower = follow(&line, &store);
        for _ in 0..8 {
            let batch = &records[done..done + 10];
            assert_eq!(line.commit(batch), CommitOutcome::Durable);
            done += 10;
            let reached = follower.wait_for(batch[9].seq);
            assert_eq!(reached, batch[9].seq);
            let companies = store.read().unwrap().companies().unwrap();
            assert_eq!(companies.len(), 2, "what is reached can be read");
        }
        line.close();
        let last = follower.stop().unwrap();
        assert_eq!(last.applied_seq, RecordSeq(done as u64));
        assert_eq!(store.checkpoint().unwrap(), last);
    }
    let store = Store::open_with_backend(store_disk, DIRECTORY).unwrap();
    let expected = store_of(&records);
    for (found, expected) in
        dump(&store).iter().zip(&dump(&expected)).filter(|(t, _)| t.0 != META.to_string())
    {
        assert_eq!(found, expected);
    }
}

/// A commit under load waits for more records, unless a reader waits.
#[test]
fn records_gather_until_somebody_waits_for_them() {
    let records = journal(34, 120);
    let line = open_journal(&FaultyDisk::default(), Checkpoint::default());
    let store = Arc::new(Store::open_with_backend(FaultyBackend::new(), DIRECTORY).unwrap());
    let never = Duration::from_secs(24 * 60 * 60);
    let pacing = Pacing { visible_interval: never, checkpoint_interval: never, ..QUICK };
    let follower = follow_at(&line, &store, pacing);
    line.commit(&records[..10]);
    assert_eq!(follower.wait_for(RecordSeq(10)), RecordSeq(10));
    for run in records[10..].chunks(10) {
        line.commit(run);
        let applied = follower.watermark.applied();
        assert_eq!(applied, RecordSeq(10), "nobody waits, and an interval is a day");
    }
    assert!(line.feed.age_of_oldest() > Duration::ZERO);
    // All that gathered comes at once; the newest batch may still be on its way.
    assert!(follower.wait_for(RecordSeq(11)) >= RecordSeq(110));
    line.close();
    assert_eq!(follower.stop().unwrap().applied_seq, RecordSeq(120));
}

#[test]
fn a_checkpoint_comes_by_volume() {
    let records = journal(35, 200);
    let line = open_journal(&FaultyDisk::default(), Checkpoint::default());
    let store = Arc::new(Store::open_with_backend(FaultyBackend::new(), DIRECTORY).unwrap());
    let never = Duration::from_secs(24 * 60 * 60);
    let pacing = Pacing { checkpoint_interval: never, checkpoint_records: 50, ..QUICK };
    let follower = follow_at(&line, &store, pacing);
    for run in records.chunks(10) {
        line.commit(run);
        follower.wait_for(run[9].seq);
    }
    line.close();
    let checkpoints: Vec<_> =
        follower.checkpoints.iter().take(4).map(|point| point.applied_seq.0).collect();
    assert_eq!(checkpoints, [50, 100, 150, 200]);
    follower.stop();
}

#[test]
fn a_checkpoint_comes_by_itself_while_records_are_new() {
    let records = journal(32, 40);
    let line = open_journal(&FaultyDisk::default(), Checkpoint::default());
    let disk = FaultyBackend::new();
    let store = Arc::new(Store::open_with_backend(disk.clone(), DIRECTORY).unwrap());
    let follower = follow(&line, &store);
    line.commit(&records);
    let mut checkpoint = follower.checkpoints.recv().unwrap();
    if checkpoint.applied_seq == RecordSeq(0) {
        // The barrier alone was saved first.
        checkpoint = follower.checkpoints.recv().unwrap();
    }
    assert_eq!(checkpoint.applied_seq, RecordSeq(40));
    let survivor = Store::open_with_backend(disk.after_power_failure(), DIRECTORY).unwrap();
    assert_eq!(survivor.checkpoint().unwrap(), checkpoint);
    line.close();
    assert_eq!(follower.stop(), None, "nothing is new, so nothing is saved again");
}

/// A part of a story whose batches have ten records each.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// The batch with this place is being written.
    Announced(usize),
    /// So is one that never becomes durable, in the place of the first.
    Other,
    /// These batches are durable.
    Durable(usize, usize),
}

/// A change is in the tables while the journal writes it, and nobody sees it before it is durable.
#[test]
fn what_is_announced_is_seen_once_it_is_durable() {
    use Part::{Announced, Durable, Other};
    let stories: [&[Part]; 7] = [
        &[Announced(0), Durable(0, 1), Announced(1), Durable(1, 2)],
        &[Announced(0), Durable(0, 2)],
        &[Durable(0, 1), Announced(1)],
        &[Announced(0)],
        &[Other, Announced(0), Durable(0, 1)],
        &[Other, Durable(0, 1), Announced(1), Durable(1, 2)],
        &[Announced(1), Durable(0, 1), Durable(1, 2)],
    ];
    let records = journal(36, 20);
    let first = seal(&records[..10], &ChainPosition::GENESIS);
    let second = seal(&records[10..], &first.position());
    let batches = [first, second];
    let other = seal(&records[..5], &ChainPosition::GENESIS);
    for (story, checkpoint_records) in stories.iter().flat_map(|story| [(story, 1), (story, 1_000)])
    {
        let disk = FaultyBackend::new();
        let store = Arc::new(Store::open_with_backend(disk.clone(), DIRECTORY).unwrap());
        let line = open_journal(&FaultyDisk::default(), Checkpoint::default());
        let feed = Arc::new(BatchFeed::after(BatchNumber(0), 0));
        let watermark = Arc::new(Watermark::new(RecordSeq(0)));
        let pacing = Pacing { visible_interval: Duration::ZERO, checkpoint_records, ..QUICK };
        let mut steps = ProjectorSteps::new(
            Arc::clone(&store),
            Arc::clone(&line.reader),
            Arc::clone(&feed),
            Arc::clone(&watermark),
            ProjectorOptions { partition: 0, pacing, on_checkpoint: Box::new(drop) },
        )
        .unwrap();
        let mut durable = 0;
        for part in *story {
            match *part {
                Announced(place) => feed.announce(&batches[place]),
                Other => feed.announce(&other),
                Durable(from, to) => {
                    feed.offer(&mut batches[from..to].to_vec(), &mut Vec::new());
                    durable = to * 10;
                }
            }
            while steps.step() == StepOutcome::Worked {}
            assert_eq!(watermark.applied(), RecordSeq(durable as u64), "{story:?} {part:?}");
            let seen = store.checkpoint().unwrap().applied_seq;
            assert_eq!(seen, RecordSeq(durable as u64), "{story:?} {part:?}");
        }
        feed.stop();
        while steps.step() != StepOutcome::Ended {}
        assert_eq!(steps.health.failure(), None);
        let survivor = Store::open_with_backend(disk.after_power_failure(), DIRECTORY).unwrap();
        let expected = store_of(&records[..durable]);
        for (found, expected) in
            dump(&survivor).iter().zip(&dump(&expected)).filter(|(t, _)| t.0 != META.to_string())
        {
            assert_eq!(found, expected, "{story:?}");
        }
        line.close();
    }
}

fn seal(records: &[Record], tip: &ChainPosition) -> SealedBatch {
    let mut builder = BatchBuilder::start(Vec::new());
    builder.push(u32::try_from(records.len()).unwrap(), &encode(records));
    builder.seal(0, tip)
}

#[test]
fn a_failing_store_stops_the_projector_and_nothing_else() {
    let records = journal(33, 60);
    let line = open_journal(&FaultyDisk::default(), Checkpoint::default());
    let disk = FaultyBackend::new();
    let store = Arc::new(Store::open_with_backend(disk.clone(), DIRECTORY).unwrap());
    let follower = follow(&line, &store);
    line.commit(&records[..20]);
    assert_eq!(follower.wait_for(RecordSeq(20)), RecordSeq(20));
    disk.plan(DiskFaultPlan { fail_sync: Some(1), ..DiskFaultPlan::default() });
    let (mut done, mut checkpoints) = (20, 0);
    while follower.health.failure().is_none() {
        if done < 50 {
            assert_eq!(line.commit(&records[done..done + 1]), CommitOutcome::Durable);
            done += 1;
        }
        // One may have been on its way when the disk was told to fail; no further one can be.
        checkpoints += follower.checkpoints.try_iter().count();
        assert!(checkpoints <= 2, "checkpoints go on without a sync");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let why = follower.health.failure().unwrap();
    assert!(why.starts_with("the tables cannot be written: "), "{why}");
    // Waiters are woken and see that the record has not come; the journal goes on.
    assert!(follower.wait_for(RecordSeq(60)) < RecordSeq(60));
    assert_eq!(line.commit(&records[done..]), CommitOutcome::Durable);
    assert_eq!(line.durable.durable_seq(), 60);
    follower.projector.join();
    line.close();
}
