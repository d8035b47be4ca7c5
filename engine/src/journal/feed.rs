//! The newest batches, in memory: a close follower need not read and prove them again.
//!
//! The committer puts each batch here once it is durable; the projector takes them in order. The
//! feed is bounded and keeps the newest: a follower that falls behind reads the file until it is
//! close again, and the committer never waits for it. The feed also is the follower's bell, and
//! knows how old the oldest durable record is that the follower has not dealt with.
//!
//! A batch that somebody waits to read is announced before it is written: the follower can get
//! ready while the disk is at work.
//!
//! INVARIANT: the batches held are durable and follow each other without a gap, up to `newest`.
//! An announced one may never become durable.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::chain::{BatchNumber, SealedBatch};
use super::limits::{
    BATCH_BYTES_TARGET, COMMIT_BYTES_TARGET, FEED_BYTES_MAX, FEED_TIME_STEP, FEED_TIMES_MAX,
};
use crate::clock::Stopwatch;
use crate::meters::{Histogram, HistogramSnapshot};

/// The spent buffers kept for new batches.
const SPENT_LEN_MAX: usize = COMMIT_BYTES_TARGET / BATCH_BYTES_TARGET;

/// Hands batches from the committer to one follower.
#[derive(Debug, Default)]
pub struct BatchFeed {
    state: Mutex<State>,
    news: Condvar,
    /// How old the oldest record was, each time that the follower had dealt with some.
    lag: Histogram,
}

/// The answer to a follower that asks for the next batches.
#[derive(Debug)]
pub enum FeedReply {
    /// The batches that follow, at least one.
    Batches(Vec<SealedBatch>),
    /// The next batches are in the file only.
    InFile,
    /// The batch that follows is being written: nobody may see it yet.
    Announced(SealedBatch),
    /// Nothing follows yet.
    Nothing,
}

#[derive(Debug, Default)]
struct State {
    batches: VecDeque<SealedBatch>,
    bytes: usize,
    newest: Option<BatchNumber>,
    /// The batch that is being written, until the follower has taken it.
    announced: Option<SealedBatch>,
    /// Buffers of batches that are dealt with.
    spent: Vec<Vec<u8>>,
    durable_since: DurableTimes,
    is_stopping: bool,
    /// The follower is asked to go on: a reader waits for it.
    is_rung: bool,
    /// The size of waiting batches that wakes the follower, while it waits. Units: bytes.
    wake_bytes: Option<usize>,
}

impl BatchFeed {
    /// A feed behind a journal whose newest batch is `newest`, with record `last_seq`.
    pub fn after(newest: BatchNumber, last_seq: u64) -> Self {
        let feed = Self::default();
        {
            let mut state = feed.state.lock();
            state.newest = Some(newest);
            state.durable_since.note(last_seq);
        }
        feed
    }

    /// Shows a batch that is to be written now to a follower that has dealt with all before it.
    pub(crate) fn announce(&self, batch: &SealedBatch) {
        let mut state = self.state.lock();
        if !state.batches.is_empty() {
            return;
        }
        state.announced = Some(batch.clone());
        let is_waiting = state.wake_bytes.is_some();
        drop(state);
        if is_waiting {
            self.news.notify_one();
        }
    }

    /// Puts durable batches in, oldest first, and takes buffers out for new ones.
    pub(crate) fn offer(&self, batches: &mut Vec<SealedBatch>, spare_buffers: &mut Vec<Vec<u8>>) {
        let Some(last) = batches.last() else { return };
        let mut state = self.state.lock();
        state.newest = Some(last.header.number);
        state.announced = None;
        state.durable_since.note(last.header.last_seq());
        state.bytes += batches.iter().map(|batch| batch.bytes.len()).sum::<usize>();
        state.batches.extend(batches.drain(..));
        while state.bytes > FEED_BYTES_MAX {
            let Some(oldest) = state.pop() else { break };
            spare_buffers.push(oldest.bytes);
        }
        spare_buffers.append(&mut state.spent);
        spare_buffers.truncate(SPENT_LEN_MAX);
        let wakes = state.wake_bytes.is_some_and(|bytes| state.bytes >= bytes);
        drop(state);
        if wakes {
            self.news.notify_one();
        }
    }

    /// Takes the batches after `position`, about `limit_bytes` of them.
    pub fn take_after(&self, position: BatchNumber, limit_bytes: usize) -> FeedReply {
        let mut state = self.state.lock();
        // A follower that read the file has overtaken the batches held.
        while state.batches.front().is_some_and(|batch| batch.header.number <= position) {
            let overtaken = state.pop();
            state.spent.extend(overtaken.map(|batch| batch.bytes));
        }
        let follows = |batch: &SealedBatch| batch.header.number.0 == position.0 + 1;
        match state.batches.front() {
            Some(next) if follows(next) => FeedReply::Batches(state.take(limit_bytes)),
            _ if state.newest > Some(position) => FeedReply::InFile,
            _ => state
                .announced
                .take()
                .filter(follows)
                .map_or(FeedReply::Nothing, FeedReply::Announced),
        }
    }

    /// Tells whether all that follows batch `position` is here, and less than `bytes` of it.
    pub fn is_gathering_after(&self, position: BatchNumber, bytes: usize) -> bool {
        let state = self.state.lock();
        let is_close =
            state.batches.front().is_some_and(|next| next.header.number.0 <= position.0 + 1);
        is_close && state.bytes < bytes
    }

    /// Waits until the batches held come to `bytes`, until `announce`, `ring`, `stop` or the end of the time.
    /// Returns whether the follower is to stop.
    pub fn wait(&self, bytes: usize, timeout: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        state.wake_bytes = Some(bytes);
        let waits = |state: &mut State| {
            let is_called = state.is_rung || state.is_stopping || state.announced.is_some();
            state.bytes < bytes && !is_called
        };
        match timeout {
            Some(timeout) => {
                self.news.wait_while_for(&mut state, waits, timeout);
            }
            None => self.news.wait_while(&mut state, waits),
        }
        state.wake_bytes = None;
        state.is_rung = false;
        state.is_stopping
    }

    /// Has the follower look again: a reader waits for it.
    pub fn ring(&self) {
        let mut state = self.state.lock();
        state.is_rung = true;
        let is_waiting = state.wake_bytes.is_some();
        drop(state);
        if is_waiting {
            self.news.notify_one();
        }
    }

    /// Asks the follower to deal with all durable batches and to end.
    pub fn stop(&self) {
        self.state.lock().is_stopping = true;
        self.news.notify_all();
    }

    /// Tells whether the follower was asked to end.
    pub fn is_stopping(&self) -> bool {
        self.state.lock().is_stopping
    }

    /// Gives batches back that are dealt with, up to record `last_seq`.
    pub fn finish(&self, batches: Vec<SealedBatch>, last_seq: u64) {
        let mut state = self.state.lock();
        self.lag.record(state.durable_since.age_of_oldest());
        state.durable_since.forget_until(last_seq);
        let room = SPENT_LEN_MAX.saturating_sub(state.spent.len());
        state.spent.extend(batches.into_iter().take(room).map(|batch| batch.bytes));
    }

    /// How far the follower was behind each time that it had dealt with some records.
    pub fn lag(&self) -> HistogramSnapshot {
        self.lag.now()
    }

    /// For how long the oldest record that is not dealt with has been durable; zero if there is none.
    pub fn age_of_oldest(&self) -> Duration {
        self.state.lock().durable_since.age_of_oldest()
    }
}

impl State {
    fn pop(&mut self) -> Option<SealedBatch> {
        let batch = self.batches.pop_front()?;
        self.bytes -= batch.bytes.len();
        Some(batch)
    }

    fn take(&mut self, limit_bytes: usize) -> Vec<SealedBatch> {
        let mut taken = Vec::new();
        let mut taken_bytes = 0;
        while let Some(next) = self.batches.front() {
            taken_bytes += next.bytes.len();
            if !taken.is_empty() && taken_bytes > limit_bytes {
                break;
            }
            taken.extend(self.pop());
        }
        taken
    }
}

/// Since when records have been durable, to the millisecond or so.
#[derive(Debug, Default)]
struct DurableTimes(VecDeque<(u64, Stopwatch)>);

impl DurableTimes {
    /// Notes that the records up to `last_seq` are durable now.
    fn note(&mut self, last_seq: u64) {
        let len = self.0.len();
        match self.0.back_mut() {
            // Taken for a little older than they are, so that there are not too many times.
            Some((seq, since)) if len == FEED_TIMES_MAX || since.elapsed() < FEED_TIME_STEP => {
                *seq = last_seq;
            }
            _ => self.0.push_back((last_seq, Stopwatch::start())),
        }
    }

    fn forget_until(&mut self, last_seq: u64) {
        while self.0.front().is_some_and(|(seq, _)| *seq <= last_seq) {
            self.0.pop_front();
        }
    }

    fn age_of_oldest(&self) -> Duration {
        self.0.front().map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::super::chain::{BatchBuilder, ChainPosition};
    use super::*;

    /// Seals `count` batches of one record of `bytes` each, which follow `tip`.
    fn sealed(tip: &mut ChainPosition, count: u64, bytes: usize) -> Vec<SealedBatch> {
        let mut next = || {
            let mut builder = BatchBuilder::start(Vec::new());
            builder.push(1, &vec![7; bytes]);
            let batch = builder.seal(0, tip);
            *tip = batch.position();
            batch
        };
        (0..count).map(|_| next()).collect()
    }

    fn numbers(fed: FeedReply) -> Vec<u64> {
        let FeedReply::Batches(batches) = fed else { panic!("{fed:?}") };
        batches.iter().map(|batch| batch.header.number.0).collect()
    }

    #[test]
    fn a_follower_takes_what_follows_in_order_and_within_its_limit() {
        let (feed, mut tip) = (BatchFeed::after(BatchNumber(0), 0), ChainPosition::GENESIS);
        assert!(matches!(feed.take_after(BatchNumber(0), 1), FeedReply::Nothing));
        feed.offer(&mut sealed(&mut tip, 5, 100), &mut Vec::new());
        assert_eq!(numbers(feed.take_after(BatchNumber(0), 400)), [1, 2]);
        assert_eq!(numbers(feed.take_after(BatchNumber(2), 1)), [3], "at least one");
        assert_eq!(numbers(feed.take_after(BatchNumber(4), 400)), [5], "what was read is left out");
        assert!(matches!(feed.take_after(BatchNumber(5), 1), FeedReply::Nothing));
        feed.offer(&mut sealed(&mut tip, 1, 100), &mut Vec::new());
        assert_eq!(numbers(feed.take_after(BatchNumber(5), 1)), [6]);
    }

    #[test]
    fn a_follower_far_behind_reads_the_file_until_it_is_close_again() {
        let (feed, mut tip) = (BatchFeed::after(BatchNumber(0), 0), ChainPosition::GENESIS);
        let batch_bytes = FEED_BYTES_MAX / 8;
        let mut spare = Vec::new();
        for _ in 0..20 {
            feed.offer(&mut sealed(&mut tip, 1, batch_bytes), &mut spare);
            assert!(feed.state.lock().bytes <= FEED_BYTES_MAX);
        }
        assert_eq!(spare.len(), 13, "what fell out is used again");
        assert!(matches!(feed.take_after(BatchNumber(0), 1), FeedReply::InFile));
        assert!(matches!(feed.take_after(BatchNumber(12), 1), FeedReply::InFile));
        assert_eq!(
            numbers(feed.take_after(BatchNumber(13), usize::MAX)),
            [14, 15, 16, 17, 18, 19, 20]
        );
    }

    #[test]
    fn what_is_being_written_is_shown_to_a_follower_that_has_all_before_it() {
        let (feed, mut tip) = (BatchFeed::after(BatchNumber(0), 0), ChainPosition::GENESIS);
        let batches = sealed(&mut tip, 3, 100);
        let offer = |place: usize| feed.offer(&mut vec![batches[place].clone()], &mut Vec::new());
        feed.announce(&batches[0]);
        assert!(!feed.wait(usize::MAX, None), "it wakes, and goes on");
        assert!(
            matches!(feed.take_after(BatchNumber(0), 1), FeedReply::Announced(first) if first == batches[0])
        );
        assert!(matches!(feed.take_after(BatchNumber(0), 1), FeedReply::Nothing), "once");
        offer(0);
        feed.announce(&batches[1]);
        assert_eq!(numbers(feed.take_after(BatchNumber(0), 400)), [1]);
        assert!(matches!(feed.take_after(BatchNumber(1), 1), FeedReply::Nothing), "it was behind");
        feed.announce(&batches[1]);
        offer(1);
        assert_eq!(numbers(feed.take_after(BatchNumber(1), 400)), [2], "durable by now");
        feed.announce(&batches[2]);
        assert!(matches!(feed.take_after(BatchNumber(1), 1), FeedReply::InFile));
    }

    #[test]
    fn buffers_come_back_to_be_filled_again() {
        let (feed, mut tip) = (BatchFeed::after(BatchNumber(0), 0), ChainPosition::GENESIS);
        feed.offer(&mut sealed(&mut tip, 3, 100), &mut Vec::new());
        let FeedReply::Batches(batches) = feed.take_after(BatchNumber(0), usize::MAX) else {
            panic!()
        };
        feed.finish(batches, 3);
        let mut spare = Vec::new();
        feed.offer(&mut sealed(&mut tip, 1, 100), &mut spare);
        assert_eq!(spare.len(), 3);
    }

    #[test]
    fn the_age_is_that_of_the_oldest_record_not_dealt_with() {
        let feed = BatchFeed::after(BatchNumber(0), 10);
        let since = Stopwatch::start();
        while since.elapsed() < 2 * FEED_TIME_STEP {}
        assert!(feed.age_of_oldest() >= 2 * FEED_TIME_STEP);
        let mut tip = ChainPosition { last_seq: 10, ..ChainPosition::GENESIS };
        let since_next = Stopwatch::start();
        feed.offer(&mut sealed(&mut tip, 1, 1), &mut Vec::new());
        feed.finish(Vec::new(), 10);
        assert!(feed.age_of_oldest() <= since_next.elapsed());
        feed.finish(Vec::new(), 11);
        assert_eq!(feed.age_of_oldest(), Duration::ZERO);
    }

    #[test]
    fn a_bell_rings_for_so_many_bytes_and_for_the_end() {
        let feed = std::sync::Arc::new(BatchFeed::after(BatchNumber(0), 0));
        let waiting = std::sync::Arc::clone(&feed);
        let waiter =
            std::thread::spawn(move || (waiting.wait(300, None), waiting.wait(9_999, None)));
        let mut tip = ChainPosition::GENESIS;
        for _ in 0..4 {
            feed.offer(&mut sealed(&mut tip, 1, 20), &mut Vec::new());
        }
        while feed.state.lock().wake_bytes != Some(9_999) {
            std::thread::yield_now();
        }
        feed.stop();
        assert_eq!(waiter.join().unwrap(), (false, true));
        assert!(!feed.wait(9_999, Some(Duration::ZERO)) || feed.is_stopping());
    }
}
