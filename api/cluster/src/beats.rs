//! The leader's signs of life, and how it learns that it leads no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use cardswitch_engine::clock::Clock;
use cardswitch_engine::journal::window::{WindowError, WriterId};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::clocks::ClockStanding;
use crate::members::{NodeRecord, report};
use crate::window::{BEAT, EtcdWindow, Keys, Pulse};
use crate::{Node, NodeStatus, OpenWindowError};

/// How often the leader shows that it lives. The default of `cluster.leader_silence_ms` is seven beats.
const BEAT_EVERY: Duration = Duration::from_millis(100);
/// For how long the log of a leader that lives may write nothing. Its disk hangs then, and its tables and, soon, its
/// answers do: another node can do better.
const LOG_STALL_MAX: Duration = Duration::from_secs(10);
/// Beats between two records of the node.
const RECORD_EVERY: u64 = 10;

/// The state that a leader reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LeaderState {
    /// It leads.
    Leads,
    /// It answers the requests it has taken and takes no new ones: followers need not hurry.
    Stops,
    /// It has ended: the first node to come leads.
    Gone,
    /// It leads, and its doors are not open yet: a refused connection says nothing.
    Opens,
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beat {
    pub(crate) writer: String,
    pub(crate) count: u64,
    pub(crate) state: LeaderState,
}

/// Why a leader leads no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderEnd {
    /// Another node leads.
    Fenced(WriterId),
    /// It was asked to let another one lead.
    SteppedDown,
    /// The cluster is not there any more.
    Gone(String),
}

/// Beats on a thread of its own, until `finish`.
#[derive(Debug)]
pub struct Beats {
    state: Arc<AtomicU8>,
    end: watch::Receiver<Option<LeaderEnd>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Beats {
    /// Begins to beat as the leader whose doors are not open yet. `newest_record` tells how far the node has come, and
    /// `log_stall` for how long its log has not.
    /// Errors: the cluster cannot be reached, or the system starts no more threads.
    pub fn start(
        node: Node,
        newest_record: impl Fn() -> u64 + Send + 'static,
        log_stall: impl Fn() -> Duration + Send + 'static,
    ) -> Result<Self, OpenWindowError> {
        // It beats to its end, also where the window of the journal is closed.
        let Node { cluster, writer, record, status, .. } = node;
        let window = EtcdWindow::reach(&cluster, writer, &Arc::new(AtomicBool::new(false)))?;
        status.note_leads();
        let state = Arc::new(AtomicU8::new(LeaderState::Opens as u8));
        let (ended, end) = watch::channel(None);
        let beating = BeatTask {
            window,
            keys: Keys::of(&cluster),
            record,
            writer,
            status,
            state: Arc::clone(&state),
            ended,
            log_stall: Box::new(log_stall),
        };
        let thread = std::thread::Builder::new().name("beats".to_owned());
        let thread = thread.spawn(move || beating.run(&newest_record));
        let thread = thread.map_err(|error| OpenWindowError::Etcd(error.into()))?;
        Ok(Self { state, end, thread: Mutex::new(Some(thread)) })
    }

    /// Resolves when the node leads no more.
    pub async fn ended(&self) -> LeaderEnd {
        let mut end = self.end.clone();
        let ended = end.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|end| end.clone());
        ended.unwrap_or_else(|| LeaderEnd::Gone("its signs of life have ended".to_owned()))
    }

    /// Says that the leader's doors are open: whoever is refused there may take it for dead.
    pub fn announce_doors(&self) {
        self.state.store(LeaderState::Leads as u8, Ordering::Release);
    }

    /// Says that the leader stops: followers wait for its end.
    pub fn announce_stop(&self) {
        self.state.store(LeaderState::Stops as u8, Ordering::Release);
    }

    /// Says that it has ended, and ends. Blocks for a moment.
    pub fn finish(&self) {
        self.state.store(LeaderState::Gone as u8, Ordering::Release);
        if let Some(thread) = self.thread.lock().take() {
            // A thread that panicked has printed why.
            drop(thread.join());
        }
    }
}

struct BeatTask {
    window: EtcdWindow,
    keys: Keys,
    record: NodeRecord,
    writer: WriterId,
    status: Arc<NodeStatus>,
    state: Arc<AtomicU8>,
    ended: watch::Sender<Option<LeaderEnd>>,
    log_stall: Box<dyn Fn() -> Duration + Send>,
}

impl BeatTask {
    fn run(mut self, newest_record: &dyn Fn() -> u64) {
        for count in 0_u64.. {
            let state = self.state();
            if count.is_multiple_of(RECORD_EVERY) {
                self.record.reach(newest_record(), Clock::System.now().0);
                // The next one tells more.
                drop(report(&mut self.window.client, &self.keys, &self.record, &self.status));
            }
            if let Some(end) = self.beat(count, state) {
                self.ended.send_replace(Some(end));
                return;
            }
            if state == LeaderState::Gone {
                return;
            }
            std::thread::sleep(BEAT_EVERY);
        }
    }

    fn state(&self) -> LeaderState {
        let state = self.state.load(Ordering::Acquire);
        let [leads, stops] = [LeaderState::Leads, LeaderState::Stops];
        let states = [leads, stops, LeaderState::Gone, LeaderState::Opens];
        states.into_iter().find(|known| *known as u8 == state).unwrap_or(LeaderState::Gone)
    }

    /// Whether the clock is not one to lead by.
    fn is_apart(&self, state: LeaderState) -> bool {
        let ClockStanding::Apart(why) = self.status.clock() else { return false };
        if state == LeaderState::Leads {
            tracing::warn!("this node lets another one lead: {why}");
        }
        true
    }

    /// Shows one sign of life; returns whether the node leads no more.
    fn beat(&mut self, count: u64, state: LeaderState) -> Option<LeaderEnd> {
        match self.window.pulse() {
            Ok(Pulse { tip, .. }) if tip.writer != self.writer => {
                return Some(LeaderEnd::Fenced(tip.writer));
            }
            Ok(Pulse { asked, tip, step_down, .. }) => {
                self.status.note_tip(&tip, asked);
                let is_asked = step_down == self.writer.to_string();
                if (is_asked || self.is_apart(state)) && self.ended.borrow().is_none() {
                    self.ended.send_replace(Some(LeaderEnd::SteppedDown));
                }
            }
            Err(WindowError::Foreign(why)) => return Some(LeaderEnd::Gone(why)),
            // A silent etcd stops the followers' count too.
            Err(_) => {}
        }
        if (self.log_stall)() > LOG_STALL_MAX && state != LeaderState::Gone {
            if count.is_multiple_of(RECORD_EVERY) {
                tracing::warn!("the log's disk hangs: this node gives no sign of life");
            }
            return None;
        }
        let beat = Beat { writer: self.writer.to_string(), count, state };
        let value = serde_json::to_vec(&beat).unwrap_or_default();
        if let Err(error) = self.window.client.put(self.keys.named(BEAT), value) {
            tracing::warn!(%error, "the cluster's etcd takes no sign of life");
        }
        None
    }
}
