use std::thread::{self, ThreadId};

use crossbeam_channel::bounded;
use parking_lot::Mutex;

use super::super::chain::BATCH_HEADER_BYTES;
use super::super::limits::IN_PLACE_BYTES_MAX;
use super::super::log::{Expectation, open_read_only_on};
use super::super::testing::{DiskFaultPlan, FaultyDisk, next_random};
use super::super::{
    BatchNumber, DirectoryId, JournalFollower, JournalIdentity, LogJournal, LogRetention,
};
use super::*;
use crate::inbox::inbox;

/// More than any test queues.
const QUEUE_LEN: usize = 4_096;

const IDENTITY: JournalIdentity =
    JournalIdentity { directory_id: DirectoryId([3; 16]), partition: 0 };
const EXPECTED: Expectation =
    Expectation { identity: IDENTITY, checkpoint: Some(ChainPosition::GENESIS) };

/// A reply that notes its outcome, and the durable position at that moment.
struct WaitingReply {
    /// The newest record that the reply speaks of.
    seq: u64,
    heard: Arc<Mutex<Vec<ReplyRecord>>>,
    position: Arc<DurablePosition>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ReplyRecord {
    seq: u64,
    outcome: CommitOutcome,
    durable_seq: u64,
    /// On whose thread.
    thread: ThreadId,
}

impl Release for WaitingReply {
    fn release(self, outcome: CommitOutcome) {
        let durable_seq = self.position.durable_seq();
        let thread = thread::current().id();
        self.heard.lock().push(ReplyRecord { seq: self.seq, outcome, durable_seq, thread });
    }
}

/// A committer at work, and the shard's end of it.
struct CommitterRun {
    disk: FaultyDisk,
    desk: CommitDesk<WaitingReply>,
    thread: JoinHandle<()>,
    health: Arc<JournalHealth>,
    trim: Arc<TrimControl>,
    position: Arc<DurablePosition>,
    heard: Arc<Mutex<Vec<ReplyRecord>>>,
    next_seq: u64,
}

impl CommitterRun {
    /// A committer whose thread commits everything.
    fn start() -> Self {
        Self::start_with(|requests, _| CommitDesk::passing_on(requests))
    }

    /// A committer whose requests are committed on the shard's thread where that is allowed.
    fn start_in_place() -> Self {
        Self::start_with(CommitDesk::new)
    }

    fn start_with(
        desk: impl FnOnce(
            InboxSender<CommitRequest<WaitingReply>>,
            DirectCommit<WaitingReply>,
        ) -> CommitDesk<WaitingReply>,
    ) -> Self {
        let disk = FaultyDisk::default();
        let opened = open(&disk);
        let (requests, inbox) = inbox(QUEUE_LEN);
        let (health, trim) = (Arc::default(), Arc::new(TrimControl::ringing(&inbox.bell)));
        let position = Arc::new(DurablePosition::new(opened.recovered.last_seq));
        let wiring = CommitterWiring {
            inbox,
            position: Arc::clone(&position),
            health: Arc::clone(&health),
            trim: Arc::clone(&trim),
            feed: Arc::default(),
            spent_buffers: None,
            limits: CommitLimits::default(),
            meters: Arc::default(),
        };
        let RunningCommitter { thread, in_place } =
            spawn_committer(opened, IDENTITY.partition, wiring).unwrap();
        let desk = desk(requests, in_place);
        let heard = Arc::default();
        Self { disk, desk, thread, health, trim, position, heard, next_seq: 1 }
    }

    /// Hands over `count` records, each its own number in eight bytes, with one reply.
    fn send(&mut self, count: u32) {
        let first_seq = self.next_seq;
        self.next_seq += u64::from(count);
        let last_seq = self.next_seq - 1;
        let numbers: Vec<u8> = (first_seq..=last_seq).flat_map(u64::to_le_bytes).collect();
        self.send_request(CommitRequest {
            last_seq,
            records: batch_of(count, &numbers),
            releases: vec![self.reply(last_seq)],
            is_awaited: false,
        });
    }

    fn reply(&self, seq: u64) -> WaitingReply {
        let (heard, position) = (Arc::clone(&self.heard), Arc::clone(&self.position));
        WaitingReply { seq, heard, position }
    }

    fn send_request(&mut self, request: CommitRequest<WaitingReply>) {
        assert!(self.desk.commit_or_pass_on(request), "the committer is there");
    }

    /// Waits until all that was sent is answered, whatever came of it.
    fn wait(&self) {
        while self.heard.lock().last().is_none_or(|heard| heard.seq < self.next_seq - 1) {
            thread::yield_now();
        }
    }

    fn stop(self) -> (Vec<ReplyRecord>, FaultyDisk) {
        drop(self.desk);
        self.thread.join().unwrap();
        let heard = self.heard.lock().clone();
        (heard, self.disk)
    }
}

/// Segments of fifteen small batches, of which as few are kept as may be.
const RETENTION: LogRetention = LogRetention { keep_bytes: 0, segment_bytes: 16 * 4096 };

fn open(disk: &FaultyDisk) -> LogJournal {
    LogJournal::open_on(Arc::new(disk.clone()), &EXPECTED, RETENTION).unwrap()
}

fn stored_seqs(disk: &FaultyDisk) -> Vec<u64> {
    let found = open_read_only_on(disk, Some(&IDENTITY), None).unwrap();
    let first = found.reader.before_first();
    let mut follower = JournalFollower::after(found.reader, 0, first);
    let mut seqs = Vec::new();
    loop {
        let batches = follower.read_next(1 << 20).unwrap();
        if batches.is_empty() {
            return seqs;
        }
        for batch in batches {
            let records = batch.payload().chunks(8);
            seqs.extend(records.map(|record| u64::from_le_bytes(record.try_into().unwrap())));
        }
    }
}

/// Every reply came once, in order, and nothing is durable after the first failure.
fn check_heard(heard: &[ReplyRecord], sent: usize) -> u64 {
    assert_eq!(heard.len(), sent, "each reply leaves once");
    assert!(heard.is_sorted_by_key(|heard| heard.seq), "in order");
    let durable = heard.iter().take_while(|heard| heard.outcome == CommitOutcome::Durable).count();
    let (durable, failed) = heard.split_at(durable);
    assert!(failed.iter().all(|heard| heard.outcome == CommitOutcome::Failed));
    assert!(durable.iter().all(|heard| heard.durable_seq >= heard.seq), "published before");
    durable.last().map_or(0, |heard| heard.seq)
}

#[test]
fn replies_leave_in_order_once_durable() {
    let mut running = CommitterRun::start();
    let (mut state, mut sent) = (11, 0);
    for _ in 0..3000 {
        // One request in five carries no records: it waits for the requests before it.
        running.send(u32::try_from(next_random(&mut state) % 5).unwrap());
        sent += 1;
    }
    let newest = running.next_seq - 1;
    running.wait();
    let (heard, disk) = running.stop();
    assert_eq!(check_heard(&heard, sent), newest);
    assert_eq!(stored_seqs(&disk), (1..=newest).collect::<Vec<_>>());
}

/// Small groups go on this thread while nothing is under way, large ones and those behind them on
/// the committer's.
#[test]
fn replies_leave_in_order_whoever_commits() {
    let mut running = CommitterRun::start_in_place();
    let (mut state, mut sent) = (12, 0);
    let large = u32::try_from(IN_PLACE_BYTES_MAX / 8 + 1).unwrap();
    for _ in 0..400 {
        let draw = u32::try_from(next_random(&mut state) % 8).unwrap();
        running.send(if draw == 7 { large } else { draw });
        sent += 1;
        if draw < 2 {
            running.wait();
        }
    }
    let newest = running.next_seq - 1;
    let (heard, disk) = running.stop();
    assert_eq!(check_heard(&heard, sent), newest);
    assert_eq!(stored_seqs(&disk), (1..=newest).collect::<Vec<_>>());
    let here = heard.iter().filter(|heard| heard.thread == thread::current().id()).count();
    assert!(here > 0 && here < sent, "{here} of {sent} were committed here");
}

#[test]
fn many_producers_share_commits() {
    const PRODUCERS: usize = 4;
    const EACH: u32 = 500;
    let mut running = CommitterRun::start();
    running.disk.plan(DiskFaultPlan::default());
    // The shard is the one place that numbers; producers meet there, as they do in the switch.
    let (submit, submitted) = bounded::<u32>(256);
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|_| {
            let submit = submit.clone();
            std::thread::spawn(move || (0..EACH).for_each(|count| submit.send(count % 4).unwrap()))
        })
        .collect();
    drop(submit);
    submitted.iter().for_each(|count| running.send(count));
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    let newest = running.next_seq - 1;
    let (heard, disk) = running.stop();
    assert_eq!(check_heard(&heard, PRODUCERS * EACH as usize), newest);
    assert_eq!(stored_seqs(&disk).len() as u64, newest);
    println!("{} requests took {} syncs", PRODUCERS * EACH as usize, disk.syncs());
}

/// A journal that only writes down the sizes of the batches of each commit.
struct RecordingJournal {
    tip: ChainPosition,
    commits: Arc<Mutex<Vec<Vec<usize>>>>,
}

impl Journal for RecordingJournal {
    fn tip(&self) -> ChainPosition {
        self.tip
    }

    fn append(&mut self, batches: &[SealedBatch]) -> Result<(), JournalError> {
        self.tip = batches.last().unwrap().position();
        self.commits.lock().push(batches.iter().map(|batch| batch.bytes.len()).collect());
        Ok(())
    }

    fn needs_upkeep(&self, _: BatchNumber) -> bool {
        false
    }

    fn keep_up(&mut self, _: BatchNumber) -> Result<(), JournalError> {
        Ok(())
    }
}

impl Release for () {
    fn release(self, _: CommitOutcome) {}
}

fn batch_of(record_count: u32, records: &[u8]) -> BatchBuilder {
    let mut batch = BatchBuilder::start(Vec::new());
    batch.push(record_count, records);
    batch
}

/// A request of one record.
fn one_record<R>(seq: u64, record: &[u8], release: R) -> CommitRequest<R> {
    CommitRequest {
        last_seq: seq,
        records: batch_of(1, record),
        releases: vec![release],
        is_awaited: false,
    }
}

#[test]
fn what_is_queued_goes_into_one_commit_of_bounded_batches() {
    let (requests, inbox) = inbox(QUEUE_LEN);
    let commits: Arc<Mutex<Vec<Vec<usize>>>> = Arc::default();
    let wiring = CommitterWiring {
        inbox,
        position: Arc::default(),
        health: Arc::default(),
        trim: Arc::default(),
        feed: Arc::default(),
        spent_buffers: None,
        limits: CommitLimits::default(),
        meters: Arc::default(),
    };
    for seq in 1..=20 {
        // The last but one is larger than a batch should be, and gets one of its own.
        let record = vec![7; if seq == 19 { 300_000 } else { 50_000 }];
        requests.send(one_record(seq, &record, ())).unwrap();
    }
    drop(requests);
    let journal = RecordingJournal { tip: ChainPosition::GENESIS, commits: Arc::clone(&commits) };
    spawn_committer(journal, 0, wiring).unwrap().thread.join().unwrap();
    let sizes = [250_000, 250_000, 250_000, 150_000, 300_000, 50_000];
    assert_eq!(*commits.lock(), [sizes.map(|size| size + BATCH_HEADER_BYTES)]);
}

#[test]
fn a_request_without_records_is_released_at_once_when_nothing_is_before_it() {
    let mut running = CommitterRun::start();
    let newest = "0000000000000001.segment";
    // Without the zeroes that are written ahead.
    let stored = |disk: &FaultyDisk| disk.content(newest).iter().rposition(|byte| *byte != 0);
    let before = stored(&running.disk);
    running.send(0);
    while running.heard.lock().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(stored(&running.disk), before);
    let (heard, _) = running.stop();
    assert_eq!(check_heard(&heard, 1), 0);
    assert_eq!(heard[0].outcome, CommitOutcome::Durable);
}

#[test]
fn after_a_failed_commit_nothing_is_durable_any_more() {
    fail_everywhere(CommitterRun::start);
}

#[test]
fn after_a_commit_that_failed_in_place_nothing_is_durable_any_more() {
    fail_everywhere(CommitterRun::start_in_place);
}

fn fail_everywhere(start: fn() -> CommitterRun) {
    for nth in 1..40 {
        for plan in [
            DiskFaultPlan { fail_sync: Some(nth), ..DiskFaultPlan::default() },
            DiskFaultPlan { fail_after_sync: Some(nth), ..DiskFaultPlan::default() },
            DiskFaultPlan { fail_write: Some(nth * 7), ..DiskFaultPlan::default() },
            DiskFaultPlan { torn_write: Some((nth * 5, 900)), ..DiskFaultPlan::default() },
        ] {
            let mut running = start();
            running.disk.plan(plan);
            for count in 0..60 {
                running.send(count % 7);
                // Some go one by one and some in groups, so that faults meet both.
                if count % 3 == 0 {
                    running.wait();
                }
            }
            let health = Arc::clone(&running.health);
            let position = Arc::clone(&running.position);
            let (heard, disk) = running.stop();
            let acknowledged = check_heard(&heard, 60);
            assert_eq!(position.durable_seq(), acknowledged, "{plan:?}");
            let has_failed = heard.iter().any(|heard| heard.outcome == CommitOutcome::Failed);
            // The fault may also meet the upkeep behind the last request.
            assert!(health.is_failed() || !has_failed, "{plan:?}");
            assert_eq!(health.failure().is_some(), health.is_failed(), "{plan:?}");
            let crashes =
                [disk.after_power_failure(), disk.after_torn_power_failure(nth), disk.after_kill()];
            for disk in crashes {
                let found = stored_seqs(&disk);
                assert!(found.iter().copied().eq(1..=found.len() as u64), "{plan:?}: a hole");
                assert!(found.len() as u64 >= acknowledged, "{plan:?}: lost");
            }
        }
    }
}

#[test]
fn a_hole_between_requests_stops_the_committer() {
    for (last_seq, record_count) in [(5, 1), (2, 1), (1, 1), (3, 2), (1, 0)] {
        let mut running = CommitterRun::start();
        running.send(2);
        running.send_request(CommitRequest {
            last_seq,
            records: batch_of(record_count, &[1]),
            releases: vec![running.reply(9)],
            is_awaited: false,
        });
        let health = Arc::clone(&running.health);
        let (heard, _) = running.stop();
        assert_eq!(
            heard.last().unwrap().outcome,
            CommitOutcome::Failed,
            "{record_count} up to {last_seq}"
        );
        assert!(health.failure().unwrap().contains("had to follow"));
    }
}

#[test]
fn a_request_larger_than_a_batch_may_be_stops_the_committer() {
    let mut running = CommitterRun::start();
    running.send_request(one_record(1, &vec![0; BATCH_BYTES_MAX], running.reply(1)));
    let health = Arc::clone(&running.health);
    let (heard, _) = running.stop();
    assert_eq!(heard[0].outcome, CommitOutcome::Failed);
    assert!(health.failure().unwrap().contains("larger"));
}

/// A journal whose storage panics.
struct PanickingJournal;

impl Journal for PanickingJournal {
    fn tip(&self) -> ChainPosition {
        ChainPosition::GENESIS
    }

    fn append(&mut self, _: &[SealedBatch]) -> Result<(), JournalError> {
        panic!("the page is already borrowed")
    }

    fn needs_upkeep(&self, _: BatchNumber) -> bool {
        false
    }

    fn keep_up(&mut self, _: BatchNumber) -> Result<(), JournalError> {
        Ok(())
    }
}

#[test]
fn a_panic_of_the_storage_releases_everybody_as_failed() {
    let (requests, inbox) = inbox(QUEUE_LEN);
    let (health, position) = (Arc::<JournalHealth>::default(), Arc::<DurablePosition>::default());
    let heard: Arc<Mutex<Vec<ReplyRecord>>> = Arc::default();
    let wiring = CommitterWiring {
        inbox,
        position: Arc::clone(&position),
        health: Arc::clone(&health),
        trim: Arc::default(),
        feed: Arc::default(),
        spent_buffers: None,
        limits: CommitLimits::default(),
        meters: Arc::default(),
    };
    for seq in 1..=3 {
        let reply =
            WaitingReply { seq, heard: Arc::clone(&heard), position: Arc::clone(&position) };
        requests.send(one_record(seq, &[1], reply)).unwrap();
    }
    drop(requests);
    spawn_committer(PanickingJournal, 0, wiring).unwrap().thread.join().unwrap();
    assert_eq!(check_heard(&heard.lock(), 3), 0);
    assert!(health.failure().unwrap().contains("already borrowed"));
}

/// Waits until the head of the journal says that this segment is the oldest one.
fn wait_for_oldest(disk: &FaultyDisk, ordinal: u64) {
    let copy_at = usize::try_from((ordinal - 1) % 2).unwrap() * 4096 + 32;
    while disk.content("head").get(copy_at..copy_at + 8) != Some(&ordinal.to_le_bytes()) {
        std::thread::yield_now();
    }
}

#[test]
fn old_segments_go_with_the_next_commits_and_when_idle() {
    let mut running = CommitterRun::start();
    for _ in 0..100 {
        running.send(1);
        running.wait();
    }
    running.trim.trim_before(BatchNumber(91));
    running.send(1);
    running.wait();
    // Idle from here: the committer goes on by itself.
    wait_for_oldest(&running.disk, 7);
    let (_, disk) = running.stop();
    assert_eq!(stored_seqs(&disk), (90..=101).collect::<Vec<_>>());
}

#[test]
fn an_idle_committer_wakes_up_to_trim() {
    let mut running = CommitterRun::start();
    for _ in 0..40 {
        running.send(1);
        running.wait();
    }
    running.trim.trim_before(BatchNumber(31));
    wait_for_oldest(&running.disk, 3);
    let (_, disk) = running.stop();
    assert_eq!(stored_seqs(&disk), (30..=40).collect::<Vec<_>>());
}

#[test]
fn buffers_come_back() {
    let disk = FaultyDisk::default();
    let (requests, inbox) = inbox(QUEUE_LEN);
    let (spent_buffers, returned) = bounded(2);
    let wiring = CommitterWiring::<WaitingReply> {
        inbox,
        position: Arc::default(),
        health: Arc::default(),
        trim: Arc::default(),
        feed: Arc::default(),
        spent_buffers: Some(spent_buffers),
        limits: CommitLimits::default(),
        meters: Arc::default(),
    };
    for _ in 0..5 {
        let request = CommitRequest {
            last_seq: 0,
            records: BatchBuilder::start(Vec::with_capacity(777)),
            releases: vec![],
            is_awaited: false,
        };
        requests.send(request).unwrap();
    }
    drop(requests);
    spawn_committer(open(&disk), 0, wiring).unwrap().thread.join().unwrap();
    let buffers: Vec<Vec<u8>> = returned.iter().collect();
    assert_eq!(buffers.len(), 2, "as many as there is room for");
    assert!(buffers.iter().all(|buffer| buffer.capacity() == 777));
}
