//! A window of a chain in memory, that loses answers, writes late, and is taken over by nodes that are
//! never heard of again.

use std::collections::BTreeMap;
use std::sync::Arc;

use cardswitch_engine::engine::PARTITION;
use cardswitch_engine::journal::chain::seal_barrier;
use cardswitch_engine::journal::window::{
    AppendOutcome, ChainWindow, WindowError, WindowTip, WriterId,
};
use cardswitch_engine::journal::{BatchNumber, ChainPosition, SealedBatch, StoredBatch};
use parking_lot::Mutex;

use crate::marks::{Mark, Marks};
use crate::rng::Rng;

/// The writers of nodes that are never heard of again.
const GHOSTS: u128 = 1 << 64;

/// A connection of one run of one node.
#[derive(Clone)]
pub(crate) struct SimulatedWindow {
    shared: Arc<Mutex<WindowModel>>,
    writer: WriterId,
}

struct WindowModel {
    rng: Rng,
    tip: WindowTip,
    batches: BTreeMap<u64, Vec<u8>>,
    /// Every tip there was.
    tips: Vec<WindowTip>,
    /// Requests that were held for lost, and arrive yet.
    late: Vec<Request>,
    /// How many of a hundred requests are not answered, and of a thousand meet a ghost.
    silent_percent: u64,
    ghosts_per_mille: u64,
    /// Whether any of that happens.
    is_troubled: bool,
    /// So many batches are kept.
    kept: usize,
    next_writer: u128,
    marks: Marks,
}

#[derive(Clone)]
struct Request {
    after: WindowTip,
    new: WindowTip,
    batches: Vec<(u64, Vec<u8>)>,
}

impl SimulatedWindow {
    /// A window whose chain goes on after `position`.
    pub(crate) fn new(mut rng: Rng, position: ChainPosition) -> Self {
        let tip = WindowTip { position, writer: WriterId(0) };
        let (silent_percent, ghosts_per_mille) = (rng.below(30), rng.below(12));
        let kept = 64 << rng.below(4);
        let (batches, late) = (BTreeMap::new(), Vec::new());
        let marks = Marks::default();
        let next_writer = 1;
        Self {
            shared: Arc::new(Mutex::new(WindowModel {
                rng,
                tip,
                batches,
                tips: vec![tip],
                late,
                silent_percent,
                ghosts_per_mille,
                is_troubled: false,
                kept,
                next_writer,
                marks,
            })),
            writer: WriterId(0),
        }
    }

    /// A connection for another run of a node.
    pub(crate) fn for_next_run(&self) -> Self {
        let mut shared = self.shared.lock();
        let writer = WriterId(shared.next_writer);
        shared.next_writer += 1;
        Self { shared: Arc::clone(&self.shared), writer }
    }

    /// Draws from a new seed.
    pub(crate) fn draw_from(&self, seeds: &mut Rng) {
        self.shared.lock().rng = Rng::new(seeds.number());
    }

    /// Leaves requests without an answer and lets ghosts come, or does not any more.
    pub(crate) fn set_trouble(&self, is_troubled: bool) {
        self.shared.lock().is_troubled = is_troubled;
    }

    pub(crate) fn is_troubled(&self) -> bool {
        self.shared.lock().is_troubled
    }

    /// Whether the newest batch is of this run.
    pub(crate) fn leads(&self) -> bool {
        self.shared.lock().tip.writer == self.writer
    }

    pub(crate) fn take_marks(&self) -> Marks {
        std::mem::take(&mut self.shared.lock().marks)
    }
}

impl WindowModel {
    /// The acts of others before a request arrives.
    fn let_others_act(&mut self) {
        while !self.late.is_empty() && self.rng.chance(30) {
            let at = self.rng.below(self.late.len() as u64) as usize;
            let late = self.late.swap_remove(at);
            let is_written = self.write(&late);
            self.marks.pass_if(Mark::LateWrite, is_written);
        }
        if self.is_troubled && self.rng.below(1_000) < self.ghosts_per_mille {
            let barrier = seal_barrier(PARTITION, &self.tip.position);
            let writer = WriterId(GHOSTS + u128::from(self.rng.number()));
            let new = WindowTip { position: barrier.position(), writer };
            let batches = vec![(barrier.header.number.0, barrier.bytes)];
            self.write(&Request { after: self.tip, new, batches });
            self.marks.pass(Mark::GhostLeader);
        }
    }

    fn is_silent(&mut self) -> bool {
        self.is_troubled && self.rng.below(100) < self.silent_percent
    }

    fn write(&mut self, request: &Request) -> bool {
        if self.tip != request.after {
            return false;
        }
        self.tip = request.new;
        self.tips.push(request.new);
        self.batches.extend(request.batches.iter().cloned());
        while self.batches.len() > self.kept.max(request.batches.len()) {
            self.batches.pop_first();
        }
        true
    }
}

fn silence() -> WindowError {
    WindowError::Unavailable("simulated".to_owned())
}

impl ChainWindow for SimulatedWindow {
    fn writer(&self) -> WriterId {
        self.writer
    }

    fn tip(&mut self) -> Result<WindowTip, WindowError> {
        let mut shared = self.shared.lock();
        shared.let_others_act();
        if shared.is_silent() { Err(silence()) } else { Ok(shared.tip) }
    }

    fn append(
        &mut self,
        after: &WindowTip,
        batches: &[SealedBatch],
    ) -> Result<AppendOutcome, WindowError> {
        let mut shared = self.shared.lock();
        shared.let_others_act();
        assert!(
            shared.tips.iter().rev().any(|tip| tip == after),
            "a node writes behind what it wrote or read"
        );
        let last = batches.last().unwrap();
        let new = WindowTip { position: last.position(), writer: self.writer };
        let batches = batches.iter().map(|batch| (batch.header.number.0, batch.bytes.clone()));
        let request = Request { after: *after, new, batches: batches.collect() };
        if shared.is_silent() {
            // It never arrives, arrives later, or has arrived and its answer does not.
            match shared.rng.below(3) {
                0 => {}
                1 => shared.late.push(request),
                _ => {
                    let is_written = shared.write(&request);
                    shared.marks.pass_if(Mark::LostAppendAnswer, is_written);
                }
            }
            return Err(silence());
        }
        Ok(if shared.write(&request) { AppendOutcome::Written } else { AppendOutcome::Refused })
    }

    fn read_from(
        &mut self,
        number: BatchNumber,
        limit_bytes: usize,
    ) -> Result<Vec<StoredBatch>, WindowError> {
        let mut shared = self.shared.lock();
        shared.let_others_act();
        if shared.is_silent() {
            return Err(silence());
        }
        let first = shared.batches.first_key_value().map_or(u64::MAX, |(number, _)| *number);
        if number.0 < first {
            return Err(WindowError::Trimmed { wanted: number, first: BatchNumber(first) });
        }
        let (mut read, mut bytes_read) = (Vec::new(), 0);
        for (number, bytes) in shared.batches.range(number.0..) {
            read.push(StoredBatch { number: BatchNumber(*number), bytes: bytes.clone() });
            bytes_read += bytes.len();
            if bytes_read >= limit_bytes {
                break;
            }
        }
        Ok(read)
    }
}
