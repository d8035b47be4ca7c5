//! What does it cost to make records durable, by how many there are in one commit?
//!
//! Records go to the committer as the shard hands them over, one request at a time, and the next
//! goes when the answer has come: hand-over, seal, chain hash, checksum, commit, wake-up. Beside
//! it, in turn with it, the same bytes in whole blocks of a preallocated file with fdatasync.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use cardswitch_benches::installation::temporary_directory;
use cardswitch_benches::meter::{Bench, SamplingPlan, print_ratio};
use cardswitch_engine::inbox::{InboxSender, inbox};
use cardswitch_engine::journal::chain::BatchBuilder;
use cardswitch_engine::journal::limits::CommitLimits;
use cardswitch_engine::journal::log::Expectation;
use cardswitch_engine::journal::{
    BatchFeed, BatchNumber, CommitOutcome, CommitRequest, CommitterWiring, DirectoryId,
    DurablePosition, JournalHealth, JournalIdentity, LogJournal, LogRetention, Release,
    TrimControl, spawn_committer,
};
use cardswitch_engine::limits::JOURNAL_BYTES_DEFAULT;
use cardswitch_engine::steps::spawn;
use cardswitch_load::blocks::PreallocatedFile;

const RECORD_BYTES: usize = 300;
const RECORD_COUNTS: [u32; 5] = [1, 16, 127, 1_000, 8_100];
const PARTITION: u16 = 0;

pub(crate) fn ask(bench: &mut Bench) {
    bench.run("journal", SamplingPlan::LONG.seconds(1), |bench| {
        for count in RECORD_COUNTS {
            compare(bench, count);
        }
    });
}

fn compare(bench: &mut Bench, count: u32) {
    let size = format!("{count}x{RECORD_BYTES}");
    let directory = temporary_directory();
    let payload: Vec<u8> = (0..=u8::MAX).cycle().take(RECORD_BYTES * count as usize).collect();
    let mut blocks = PreallocatedFile::create(directory.path()).expect("make a file");
    let preallocated =
        bench.measure(&format!("yardstick_preallocated/{size}"), count.into(), || {
            blocks.write_durably(&payload).expect("write to the disk");
        });
    let mut line = CommitterLine::start(directory.path());
    let name = format!("committer/{size}");
    let measured = bench.measure(&name, count.into(), || line.commit(count, &payload));
    line.finish();
    let what = format!("a record of {RECORD_BYTES} bytes, {count} to a commit");
    print_ratio(&what, &measured, &[("a preallocated file", &preallocated)]);
}

/// The committer over a journal of its own.
struct CommitterLine {
    requests: InboxSender<CommitRequest<Note>>,
    spent: crossbeam_channel::Receiver<Vec<u8>>,
    trim: Arc<TrimControl>,
    committer: JoinHandle<()>,
    last_seq: u64,
    commits: u64,
    tell: Sender<CommitOutcome>,
    told: Receiver<CommitOutcome>,
}

impl CommitterLine {
    fn start(directory: &Path) -> Self {
        let identity = JournalIdentity { directory_id: DirectoryId([5; 16]), partition: PARTITION };
        let expected = Expectation { identity, checkpoint: None };
        let retention = LogRetention::of_bytes(JOURNAL_BYTES_DEFAULT);
        let journal = LogJournal::open(&directory.join("journal"), &expected, retention);
        let journal = journal.expect("open a journal");
        let (requests, inbox) = inbox(16);
        let (spent_buffers, spent) = crossbeam_channel::bounded(16);
        let trim = Arc::new(TrimControl::ringing(&inbox.bell));
        let wiring = CommitterWiring {
            inbox,
            position: Arc::new(DurablePosition::new(0)),
            health: Arc::new(JournalHealth::default()),
            trim: Arc::clone(&trim),
            // Nobody takes anything out of it: it drops batches beyond its bound.
            feed: Arc::new(BatchFeed::default()),
            spent_buffers: Some(spent_buffers),
            limits: CommitLimits::default(),
            meters: Arc::default(),
        };
        // Ends when the committer does.
        spawn("segments".to_owned(), journal.segment_steps()).expect("start the segments' thread");
        let committer = spawn_committer(journal, PARTITION, wiring).expect("start the committer");
        let committer = committer.thread;
        let (tell, told) = channel();
        Self { requests, spent, trim, committer, last_seq: 0, commits: 0, tell, told }
    }

    fn commit(&mut self, count: u32, records: &[u8]) {
        // As the shard encodes: into the buffer that is written.
        let spent = self.spent.try_recv().unwrap_or_default();
        let mut batch = BatchBuilder::start(spent);
        batch.push(count, records);
        let request = CommitRequest {
            last_seq: self.last_seq + u64::from(count),
            records: batch,
            releases: vec![Note(self.tell.clone())],
            is_awaited: false,
        };
        self.last_seq = request.last_seq;
        self.requests.send(request).expect("reach the committer");
        assert_eq!(self.told.recv(), Ok(CommitOutcome::Durable));
        self.commits += 1;
        // The tables are always up to date: only retention keeps batches.
        self.trim.trim_before(BatchNumber(self.commits));
    }

    fn finish(self) {
        drop(self.requests);
        self.committer.join().expect("end the committer");
    }
}

/// An answer that tells what became of its records.
struct Note(Sender<CommitOutcome>);

impl Release for Note {
    fn release(self, outcome: CommitOutcome) {
        // The caller waits for it, or is gone.
        let _ = self.0.send(outcome);
    }
}
