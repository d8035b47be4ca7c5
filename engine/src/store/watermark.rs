//! The newest record that reads show: callers with a change wait here until a read shows it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::domain::ids::RecordSeq;

type Wake = Box<dyn FnOnce() + Send>;
type Bell = Box<dyn Fn() + Send + Sync>;
type AccessListener = Box<dyn Fn(RecordSeq) + Send + Sync>;

/// The purpose of a wait, the one with more time first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitPurpose {
    /// A read of what others did.
    Read,
    /// A read of a change that was made just now.
    OwnChange,
}

/// The newest record that reads see, and the waiters for a later one.
pub struct Watermark {
    applied: AtomicU64,
    waiting: Mutex<WaitList>,
    /// Rung when somebody begins to wait.
    projector: Bell,
    /// Listeners for changes of access.
    access_listeners: Mutex<Vec<AccessListener>>,
}

#[derive(Default)]
struct WaitList {
    wakes: BTreeMap<(RecordSeq, u64), (WaitPurpose, Wake)>,
    /// Listeners that wait for the next record, whichever it is.
    followers: Vec<Wake>,
    taken: u64,
    is_closed: bool,
}

impl std::fmt::Debug for Watermark {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Watermark({})", self.applied().0)
    }
}

impl Watermark {
    /// A watermark of tables that hold everything up to `applied`.
    pub fn new(applied: RecordSeq) -> Self {
        Self::ringing(applied, || {})
    }

    /// The same, which rings `projector` when somebody begins to wait.
    pub fn ringing(applied: RecordSeq, projector: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            applied: AtomicU64::new(applied.0),
            waiting: Mutex::default(),
            projector: Box::new(projector),
            access_listeners: Mutex::default(),
        }
    }

    /// The newest record that reads see.
    pub fn applied(&self) -> RecordSeq {
        RecordSeq(self.applied.load(Ordering::Acquire))
    }

    /// Calls `wake` once reads see record `seq`: at once where they do already, else on the
    /// projector's thread. A stopped projection calls it at once, too, so that nobody waits in
    /// vain: `applied` tells which.
    pub fn on_reached(&self, seq: RecordSeq, awaiting: WaitPurpose, wake: Wake) {
        let mut waiting = self.waiting.lock();
        // INVARIANT: `applied` rises under this lock, so no wake is filed after its turn.
        if self.applied() >= seq || waiting.is_closed {
            drop(waiting);
            return wake();
        }
        waiting.taken += 1;
        let place = waiting.taken;
        waiting.wakes.insert((seq, place), (awaiting, wake));
        drop(waiting);
        (self.projector)();
    }

    /// Calls `wake` once reads see more than record `seq`, as `on_reached` does, but the projector
    /// does not hurry for it: a permanent follower of the tables would keep it from gathering.
    pub fn on_news(&self, seq: RecordSeq, wake: Wake) {
        let mut waiting = self.waiting.lock();
        // INVARIANT: `applied` rises under this lock, so no wake is filed after its turn.
        if self.applied() > seq || waiting.is_closed {
            drop(waiting);
            return wake();
        }
        waiting.followers.push(wake);
    }

    /// Calls `listener` with each record that may have changed access, on the projector's thread.
    /// Reads show the change by then, and no waiter for the record was woken yet: a caller that
    /// sees the end of an access can rely on it that every listener knows.
    pub fn on_access_change(&self, listener: impl Fn(RecordSeq) + Send + Sync + 'static) {
        self.access_listeners.lock().push(Box::new(listener));
    }

    /// Whether nothing will become visible any more: projection has stopped.
    pub fn is_closed(&self) -> bool {
        self.waiting.lock().is_closed
    }

    /// The number of wakes left here.
    pub fn waiting(&self) -> usize {
        let waiting = self.waiting.lock();
        waiting.wakes.len() + waiting.followers.len()
    }

    /// The most urgent purpose of a wait for a record that reads do not see yet.
    /// Cost: O(waiters).
    pub(super) fn awaiting(&self) -> Option<WaitPurpose> {
        self.waiting.lock().wakes.values().map(|(awaiting, _)| *awaiting).max()
    }

    /// Tells who listens that record `seq`, which reads see, may have changed who may see what. Comes
    /// before `publish`.
    pub(super) fn tell_access_change(&self, seq: RecordSeq) {
        self.access_listeners.lock().iter().for_each(|listener| listener(seq));
    }

    /// Makes record `applied` the newest that reads see and wakes who waited for it.
    pub(crate) fn publish(&self, applied: RecordSeq) {
        let (reached, followers) = {
            let mut waiting = self.waiting.lock();
            let before = self.applied.fetch_max(applied.0, Ordering::AcqRel);
            let later = waiting.wakes.split_off(&(applied.next(), 0));
            let reached = std::mem::replace(&mut waiting.wakes, later);
            let is_news = applied.0 > before;
            (reached, if is_news { std::mem::take(&mut waiting.followers) } else { Vec::new() })
        };
        let reached = reached.into_values().map(|(_, wake)| wake);
        reached.chain(followers).for_each(|wake| wake());
    }

    /// Wakes everybody: nothing will become visible any more.
    pub(super) fn close(&self) {
        let (wakes, followers) = {
            let mut waiting = self.waiting.lock();
            waiting.is_closed = true;
            (std::mem::take(&mut waiting.wakes), std::mem::take(&mut waiting.followers))
        };
        let wakes = wakes.into_values().map(|(_, wake)| wake);
        wakes.chain(followers).for_each(|wake| wake());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn note(log: &Arc<Mutex<Vec<u64>>>, number: u64) -> Wake {
        let log = Arc::clone(log);
        Box::new(move || log.lock().push(number))
    }

    #[test]
    fn wakes_come_when_their_record_is_visible_and_once() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let watermark = Watermark::new(RecordSeq(5));
        watermark.on_reached(RecordSeq(5), WaitPurpose::Read, note(&log, 5));
        watermark.on_reached(RecordSeq(8), WaitPurpose::Read, note(&log, 8));
        watermark.on_reached(RecordSeq(7), WaitPurpose::Read, note(&log, 7));
        watermark.on_reached(RecordSeq(7), WaitPurpose::Read, note(&log, 70));
        assert_eq!(*log.lock(), [5]);
        watermark.publish(RecordSeq(7));
        assert_eq!((watermark.applied(), &log.lock()[..]), (RecordSeq(7), &[5, 7, 70][..]));
        watermark.publish(RecordSeq(6));
        assert_eq!(watermark.applied(), RecordSeq(7));
        watermark.close();
        watermark.on_reached(RecordSeq(99), WaitPurpose::Read, note(&log, 99));
        assert_eq!((watermark.applied(), &log.lock()[1..]), (RecordSeq(7), &[7, 70, 8, 99][..]));
    }

    #[test]
    fn changes_of_access_are_told_to_all_who_listen_and_wake_nobody_else() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let watermark = Watermark::new(RecordSeq(5));
        for place in [100, 200] {
            let log = Arc::clone(&log);
            watermark.on_access_change(move |seq| log.lock().push(place + seq.0));
        }
        watermark.on_reached(RecordSeq(6), WaitPurpose::Read, note(&log, 6));
        watermark.tell_access_change(RecordSeq(6));
        assert_eq!(*log.lock(), [106, 206]);
        watermark.publish(RecordSeq(6));
        assert_eq!(*log.lock(), [106, 206, 6]);
    }

    #[test]
    fn followers_are_woken_by_whatever_is_new_and_hurry_nobody() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let watermark = Watermark::new(RecordSeq(5));
        watermark.on_news(RecordSeq(4), note(&log, 4));
        watermark.on_news(RecordSeq(5), note(&log, 5));
        assert_eq!((&log.lock()[..], watermark.awaiting().is_some()), (&[4][..], false));
        watermark.publish(RecordSeq(5));
        assert_eq!(*log.lock(), [4]);
        watermark.publish(RecordSeq(6));
        assert_eq!(*log.lock(), [4, 5]);
        watermark.on_news(RecordSeq(6), note(&log, 6));
        assert!(!watermark.is_closed());
        watermark.close();
        watermark.on_news(RecordSeq(6), note(&log, 60));
        assert_eq!((&log.lock()[2..], watermark.is_closed()), (&[6, 60][..], true));
    }
}
