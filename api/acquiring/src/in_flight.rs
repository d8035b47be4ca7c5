//! The requests of one connection that are with the engine, and the port their answers come by.
//!
//! A request waits in a place of fixed size that holds what its answer repeats. Places stand in
//! groups that never move, so no copy of a card number is left behind when there come to be more.
//!
//! INVARIANT: no memory at all is held while nothing is in flight.

use std::mem;
use std::task::{Context, Poll, Waker};

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::submission::ReplyPort;
use cardswitch_iso8583::{Echo, Message, RepeatedFields, Tpdu};
use parking_lot::Mutex;

use super::zone::AnswerSecurity;

/// Places that come and go together: about three kilobytes.
const GROUP_PLACES: u32 = 8;

/// The parts that an answer takes from its request besides elements.
#[derive(Debug, Default)]
pub(crate) struct WayBack {
    /// The header before the request.
    pub(crate) tpdu: Option<Tpdu>,
    /// The fields that the dialect may repeat as they came; no memory where there are none.
    pub(crate) repeated: RepeatedFields,
    /// The part that the security of the door adds.
    pub(crate) owed: Option<Box<AnswerSecurity>>,
}

impl WayBack {
    /// Wipes the fields.
    fn clear(&mut self) {
        self.repeated.clear();
        self.owed = None;
    }
}

/// A request whose answer echoes it.
#[derive(Debug, Default)]
pub(crate) struct PendingRequest {
    /// The elements that the answer repeats.
    pub(crate) echo: Echo,
    /// The parts of the request that its answer is framed and spelled with.
    pub(crate) way_back: WayBack,
    /// The time since its bytes were taken.
    pub(crate) received: Option<Stopwatch>,
    is_waiting: bool,
}

impl PendingRequest {
    /// A request that is answered without waiting.
    pub(crate) fn of(request: &Message<'_>, way_back: WayBack) -> Self {
        Self { echo: Echo::of(request), way_back, received: None, is_waiting: false }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.echo.clear();
        self.way_back.clear();
    }
}

/// The requests of one connection by tag; tags are used again.
#[derive(Debug, Default)]
pub(crate) struct InFlightRequests {
    #[expect(clippy::vec_box, reason = "what is kept does not move when there come to be more")]
    groups: Vec<Box<[PendingRequest; GROUP_PLACES as usize]>>,
    free: Vec<u32>,
    waiting: usize,
}

impl InFlightRequests {
    pub(crate) const fn len(&self) -> usize {
        self.waiting
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Keeps a request, whose bytes were taken at `received`, until its answer comes. Returns its
    /// tag.
    pub(crate) fn insert(
        &mut self,
        request: &Message<'_>,
        way_back: WayBack,
        received: Stopwatch,
    ) -> u64 {
        if self.free.is_empty() {
            self.add_group();
        }
        let tag = self.free.pop().unwrap_or_default();
        // INVARIANT: free tags name places that are there.
        if let Some(place) = self.place(u64::from(tag)) {
            debug_assert!(!place.is_waiting, "a place is used twice");
            place.echo.copy(request);
            (place.received, place.is_waiting) = (Some(received), true);
            place.way_back = way_back;
        }
        self.waiting += 1;
        u64::from(tag)
    }

    /// Shows a request to `answer` and forgets it. Returns whether such a request waited.
    pub(crate) fn finish(&mut self, tag: u64, answer: impl FnOnce(&PendingRequest)) -> bool {
        let Some(place) = self.place(tag).filter(|place| place.is_waiting) else { return false };
        answer(place);
        place.echo.clear();
        place.way_back.clear();
        place.is_waiting = false;
        self.waiting -= 1;
        self.free.extend(u32::try_from(tag));
        true
    }

    /// A request that waits.
    pub(crate) fn get(&mut self, tag: u64) -> Option<&PendingRequest> {
        self.place(tag).filter(|place| place.is_waiting).map(|place| &*place)
    }

    /// Gives memory back where nothing is in flight.
    pub(crate) fn rest(&mut self) {
        if self.is_empty() && !self.groups.is_empty() {
            *self = Self::default();
        }
    }

    fn add_group(&mut self) {
        // INVARIANT: far fewer groups than numbers; requests in flight are bounded.
        let first = u32::try_from(self.groups.len()).unwrap_or(u32::MAX) * GROUP_PLACES;
        self.groups.push(Box::default());
        // The lowest is taken first.
        self.free.extend((first..first + GROUP_PLACES).rev());
    }

    fn place(&mut self, tag: u64) -> Option<&mut PendingRequest> {
        let (tag, places) = (usize::try_from(tag).ok()?, GROUP_PLACES as usize);
        self.groups.get_mut(tag / places)?.get_mut(tag % places)
    }
}

/// The port for the engine's answers to one connection's requests.
#[derive(Debug, Default)]
pub(crate) struct ConnectionPort {
    queue: Mutex<ReplyQueue>,
}

#[derive(Debug, Default)]
struct ReplyQueue {
    replies: Vec<(u64, Reply)>,
    /// The time since the first of them came; none where there are none.
    since: Option<Stopwatch>,
    /// The waker of the task that waits for them.
    waker: Option<Waker>,
}

impl ConnectionPort {
    /// Changes the empty `replies` for the answers that have come, and tells when the first of them
    /// did; none where there are none. The taker is awake, so nobody is woken before `poll_any`.
    pub(crate) fn take(&self, replies: &mut Vec<(u64, Reply)>) -> Option<Stopwatch> {
        debug_assert!(replies.is_empty(), "answers would be lost");
        let mut queue = self.queue.lock();
        queue.waker = None;
        let since = queue.since.take()?;
        mem::swap(&mut queue.replies, replies);
        Some(since)
    }

    /// Ready where answers have come; otherwise the context is woken when some come.
    pub(crate) fn poll_any(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.queue.lock();
        if queue.since.is_some() {
            return Poll::Ready(());
        }
        queue.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Gives memory back; for when no answers are to come.
    pub(crate) fn rest(&self) {
        let mut queue = self.queue.lock();
        if queue.replies.is_empty() {
            queue.replies = Vec::new();
        }
    }
}

impl ReplyPort for ConnectionPort {
    fn deliver(&self, tag: u64, reply: Reply) {
        let mut queue = self.queue.lock();
        queue.since.get_or_insert_with(Stopwatch::start);
        queue.replies.push((tag, reply));
    }

    fn flush(&self) {
        wake(self.queue.lock().waker.take());
    }

    fn deliver_all(&self, replies: &mut Vec<(u64, Reply)>) {
        let mut queue = self.queue.lock();
        // Not changed for each other: buffers as long as the longest batch would gather here.
        queue.since.get_or_insert_with(Stopwatch::start);
        queue.replies.append(replies);
        let waker = queue.waker.take();
        drop(queue);
        wake(waker);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use cardswitch_engine::domain::ids::RecordSeq;
    use cardswitch_iso8583::{MessageBuilder, Mti, decode};

    use super::*;

    fn insert(in_flight: &mut InFlightRequests, stan: u64) -> u64 {
        let mut frame = Vec::new();
        let built = MessageBuilder::new(Mti::AUTHORIZATION_REQUEST).set_number(11, stan);
        built.set(2, b"4111111111111111").encode(&mut frame).unwrap();
        let message = decode(&frame).unwrap();
        in_flight.insert(&message, WayBack::default(), Stopwatch::start())
    }

    fn finish(in_flight: &mut InFlightRequests, tag: u64) -> Option<u64> {
        let mut stan = None;
        let waited = in_flight.finish(tag, |request| stan = request.echo.get_number(11));
        assert_eq!(waited, stan.is_some());
        stan
    }

    #[test]
    fn tags_find_their_requests_once_and_are_used_again() {
        let mut in_flight = InFlightRequests::default();
        let tags: Vec<u64> = (0..20).map(|stan| insert(&mut in_flight, stan)).collect();
        assert_eq!(in_flight.len(), 20);
        assert_eq!(finish(&mut in_flight, tags[9]), Some(9));
        assert_eq!(finish(&mut in_flight, tags[9]), None);
        assert_eq!(finish(&mut in_flight, 99), None);
        assert_eq!((insert(&mut in_flight, 77), in_flight.len()), (tags[9], 20));
        for (stan, tag) in tags.iter().enumerate() {
            let expected = if stan == 9 { 77 } else { stan as u64 };
            assert_eq!(finish(&mut in_flight, *tag), Some(expected));
        }
        assert!(in_flight.is_empty());
    }

    #[test]
    fn answered_requests_are_wiped_and_nothing_in_flight_holds_no_memory() {
        let mut in_flight = InFlightRequests::default();
        let tag = insert(&mut in_flight, 1);
        finish(&mut in_flight, tag);
        assert!(in_flight.groups[0].iter().all(|place| place.echo.get(2).is_none()));
        let tag = insert(&mut in_flight, 2);
        in_flight.rest();
        assert_eq!(finish(&mut in_flight, tag), Some(2), "what waits is kept");
        in_flight.rest();
        assert_eq!((in_flight.groups.capacity(), in_flight.free.capacity()), (0, 0));
    }

    #[test]
    fn requests_are_not_printed() {
        let mut in_flight = InFlightRequests::default();
        insert(&mut in_flight, 1);
        assert!(!format!("{in_flight:?}").contains("4111"));
    }

    /// Counts how often it was woken.
    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn answers_that_come_together_wake_whoever_waits_once() {
        let (port, woken) = (ConnectionPort::default(), Arc::new(WakeCount::default()));
        let waker = Arc::clone(&woken).into();
        let mut context = Context::from_waker(&waker);
        let mut taken = Vec::new();
        assert!(port.poll_any(&mut context).is_pending());
        let answers = |tags: &[u64]| -> Vec<(u64, Reply)> {
            tags.iter().map(|tag| (*tag, Reply::Done(RecordSeq(*tag)))).collect()
        };
        answers(&[1, 2]).into_iter().for_each(|(tag, reply)| port.deliver(tag, reply));
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
        port.flush();
        port.flush();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        port.deliver_all(&mut answers(&[3, 4]));
        assert_eq!(woken.0.load(Ordering::SeqCst), 1, "it is awake");
        assert!(port.poll_any(&mut context).is_ready());
        assert!(port.take(&mut taken).is_some());
        assert_eq!(taken, answers(&[1, 2, 3, 4]));
        taken.clear();
        assert!(port.take(&mut taken).is_none());
        assert!(port.poll_any(&mut context).is_pending());
        port.deliver_all(&mut answers(&[5, 6]));
        assert_eq!(woken.0.load(Ordering::SeqCst), 2);
        assert!(port.take(&mut taken).is_some());
        assert_eq!(taken, answers(&[5, 6]));
        taken.clear();
        assert!(port.poll_any(&mut context).is_pending());
        assert!(port.take(&mut taken).is_none(), "the taker is awake");
        port.deliver_all(&mut answers(&[7]));
        assert_eq!(woken.0.load(Ordering::SeqCst), 2);
    }
}
