//! A caller of an engine that keeps so many requests in flight, and the watchers meanwhile.

mod monitor;
mod readers;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cardswitch_engine::command::Command;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::engine::Engine;
use cardswitch_engine::store::WaitPurpose;
use cardswitch_engine::submission::{Envelope, ReplyPort};
pub use monitor::watch_lag;
pub use readers::read_tables;

use crate::program::{Purchases, is_approved};

/// A closed loop: a request goes when an answer has come.
#[derive(Debug)]
pub struct ClosedLoopCaller {
    engine: Arc<Engine>,
    answers: Arc<Answers>,
    /// When the request in each place went.
    sent_at: Vec<Instant>,
    free: Vec<usize>,
    taken: Vec<(u64, Reply)>,
}

impl ClosedLoopCaller {
    /// A caller with at most `window` requests unanswered.
    pub fn new(engine: Arc<Engine>, window: usize) -> Self {
        Self {
            engine,
            answers: Arc::new(Answers::default()),
            sent_at: vec![Instant::now(); window],
            free: (0..window).collect(),
            taken: Vec::with_capacity(window),
        }
    }

    /// Sends `count` commands and waits for all their answers.
    pub fn run(
        &mut self,
        count: u64,
        next: impl FnMut() -> Command,
        answered: &mut dyn FnMut(Reply, Duration),
    ) {
        self.keep_in_flight(|sent| count - sent, next, answered);
    }

    /// Keeps the window full for so long; returns the time until the last answer.
    pub fn run_for(
        &mut self,
        duration: Duration,
        next: impl FnMut() -> Command,
        answered: &mut dyn FnMut(Reply, Duration),
    ) -> Duration {
        let start = Instant::now();
        let left = |_| if start.elapsed() < duration { u64::MAX } else { 0 };
        self.keep_in_flight(left, next, answered);
        start.elapsed()
    }

    /// Keeps the window full while `left` tells, of the number sent, that there are more to send.
    fn keep_in_flight(
        &mut self,
        left: impl Fn(u64) -> u64,
        mut next: impl FnMut() -> Command,
        answered: &mut dyn FnMut(Reply, Duration),
    ) {
        let (mut sent, mut received) = (0, 0);
        loop {
            let left = usize::try_from(left(sent)).unwrap_or(usize::MAX);
            let sendable = self.free.len().min(left);
            if sendable > 0 {
                self.send(sendable, &mut next);
                sent += sendable as u64;
            }
            if received == sent {
                return;
            }
            received += self.receive(answered);
        }
    }

    fn send(&mut self, count: usize, next: &mut impl FnMut() -> Command) {
        let mut envelopes = Vec::with_capacity(count);
        let now = Instant::now();
        for place in self.free.drain(self.free.len() - count..) {
            let port: Arc<dyn ReplyPort> = self.answers.clone();
            self.sent_at[place] = now;
            envelopes.push(Envelope { command: next().into(), tag: place as u64, port });
        }
        self.engine.submit(envelopes).expect("stay within the engine's bounds");
    }

    fn receive(&mut self, answered: &mut dyn FnMut(Reply, Duration)) -> u64 {
        self.answers.take(&mut self.taken);
        let now = Instant::now();
        let count = self.taken.len() as u64;
        for (tag, reply) in self.taken.drain(..) {
            let place = usize::try_from(tag).expect("find the place of an answer");
            answered(reply, now - self.sent_at[place]);
            self.free.push(place);
        }
        count
    }
}

/// Sends `count` purchases, all of which must be approved; returns how long that took.
pub fn authorize(
    caller: &mut ClosedLoopCaller,
    purchases: &mut Purchases,
    count: u64,
    latency: &mut dyn FnMut(Duration),
) -> Duration {
    let start = Instant::now();
    caller.run(count, || purchases.next_command(), &mut |reply, waited| {
        assert!(is_approved(&reply), "the program approves every purchase: {reply:?}");
        latency(waited);
    });
    start.elapsed()
}

/// Waits until the tables show everything that is durable now; returns how long that took.
pub fn wait_for_tables(engine: &Engine) -> Duration {
    let (reached, waits) = std::sync::mpsc::channel();
    let start = Instant::now();
    engine.watermark.on_reached(
        engine.durable_seq(),
        WaitPurpose::Read,
        Box::new(move || {
            // The receiver waits below, for as long as it takes.
            let _ = reached.send(());
        }),
    );
    waits.recv().expect("be woken by the watermark");
    assert_eq!(engine.projection_failure(), None);
    start.elapsed()
}

/// A thread beside a measurement.
#[derive(Debug)]
pub struct Companion<T> {
    stop: Sender<()>,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Companion<T> {
    fn start(run: impl FnOnce(Receiver<()>) -> T + Send + 'static) -> Self {
        let (stop, stopped) = channel();
        Self { stop, thread: std::thread::spawn(move || run(stopped)) }
    }

    /// Ends it.
    pub fn finish(self) -> T {
        drop(self.stop);
        self.thread.join().expect("work to the end")
    }
}

/// A vector behind a mutex, gathered for one waiting thread; a taker leaves an empty one.
#[derive(Debug)]
pub struct BatchQueue<T> {
    items: Mutex<Vec<T>>,
    news: Condvar,
}

/// Gathers answers on the committer's thread.
pub type Answers = BatchQueue<(u64, Reply)>;

impl<T> Default for BatchQueue<T> {
    fn default() -> Self {
        Self { items: Mutex::default(), news: Condvar::new() }
    }
}

impl<T> BatchQueue<T> {
    /// Adds items, and leaves an empty vector.
    pub fn put(&self, items: &mut Vec<T>) {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).append(items);
        self.news.notify_one();
    }

    /// Waits for items and swaps them for those of `taken`.
    pub fn take(&self, taken: &mut Vec<T>) {
        let items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let items = self.news.wait_while(items, |items| items.is_empty());
        std::mem::swap(&mut *items.unwrap_or_else(PoisonError::into_inner), taken);
    }
}

impl ReplyPort for Answers {
    fn deliver(&self, tag: u64, reply: Reply) {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).push((tag, reply));
    }

    fn flush(&self) {
        self.news.notify_one();
    }

    fn deliver_all(&self, replies: &mut Vec<(u64, Reply)>) {
        self.put(replies);
    }
}
