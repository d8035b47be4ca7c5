//! The notes of a cluster's leaders in memory, beside the window: a store that loses answers, writes late, and is
//! silent for a while.
//!
//! Whose notes they are is the product's to decide; compared is that none of a former leader, and none that its
//! leader held for lost, comes behind a later one.

use std::collections::BTreeMap;
use std::sync::Arc;

use cardswitch_dispatch::notes::{
    LeaderNotes, Note, NoteBounds, NoteStore, OWNER, OwnerCondition, StoredNote,
};
use cardswitch_engine::journal::chain::Epoch;
use cardswitch_engine::journal::window::{ChainWindow, WindowError};
use parking_lot::Mutex;

use crate::marks::{Mark, Marks};
use crate::rng::Rng;
use crate::window::SimulatedWindow;

/// The notes, which every node reaches.
#[derive(Clone)]
pub(crate) struct NoteShelf(Arc<Mutex<ShelfModel>>);

struct ShelfModel {
    rng: Rng,
    notes: BTreeMap<String, Vec<u8>>,
    /// Requests that were held for lost, and arrive yet.
    late: Vec<ChangeRequest>,
    /// The newest change that was made.
    newest: ChangePlace,
    /// How many of a hundred requests are not answered.
    silent_percent: u64,
    /// So many further requests are not answered, one after the other.
    silent_requests: u64,
    /// So many changes of a leader that dies arrive yet; None while none does.
    left: Option<u64>,
    marks: Marks,
}

/// The epoch of a leader, and which of its changes it is.
type ChangePlace = (Epoch, u64);

struct ChangeRequest {
    place: ChangePlace,
    condition: OwnerCondition,
    changes: Vec<Note>,
}

/// A connection of one run of one node.
pub(crate) struct SimulatedNotes {
    shelf: NoteShelf,
    window: SimulatedWindow,
    newest: ChangePlace,
}

cardswitch_engine::opaque!(SimulatedNotes);

impl NoteShelf {
    pub(crate) fn new(mut rng: Rng) -> Self {
        let silent_percent = rng.below(16);
        Self(Arc::new(Mutex::new(ShelfModel {
            rng,
            notes: BTreeMap::new(),
            late: Vec::new(),
            newest: (Epoch(0), 0),
            silent_percent,
            silent_requests: 0,
            left: None,
            marks: Marks::default(),
        })))
    }

    /// Draws from a new seed.
    pub(crate) fn draw_from(&self, seeds: &mut Rng) {
        self.0.lock().rng = Rng::new(seeds.number());
    }

    /// Lets a leader die at `last_act`, of whose changes no more than `arriving` arrive.
    pub(crate) fn die_amid(&self, arriving: u64, last_act: impl FnOnce()) {
        self.0.lock().left = Some(arriving);
        last_act();
        let mut shelf = self.0.lock();
        let has_died = shelf.left.take() == Some(0);
        shelf.marks.pass_if(Mark::LeaderDiedAmidNote, has_died && arriving > 0);
    }

    /// Leaves so many requests without an answer.
    pub(crate) fn fall_silent(&self, requests: u64) {
        self.0.lock().silent_requests = requests;
    }

    /// The names of the notes that are there.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().notes.keys().cloned().collect()
    }

    pub(crate) fn marks(&self) -> Marks {
        self.0.lock().marks.clone()
    }
}

/// The notes of a cluster, as all that runs at the node that leads reaches them.
#[derive(Clone)]
pub(crate) struct ClusterNotes {
    pub(crate) shelf: NoteShelf,
    bounds: NoteBounds,
    lead: Arc<Mutex<Lead>>,
}

/// The connections of the leader: to the window, and to the notes once something has asked for them.
#[derive(Default)]
struct Lead {
    window: Option<SimulatedWindow>,
    notes: Option<Arc<LeaderNotes<SimulatedNotes>>>,
}

impl ClusterNotes {
    pub(crate) fn new(shelf: NoteShelf, bounds: NoteBounds) -> Self {
        Self { shelf, bounds, lead: Arc::default() }
    }

    /// The node with this connection leads.
    pub(crate) fn led_by(&self, leader: Option<&SimulatedWindow>) {
        *self.lead.lock() = Lead { window: leader.cloned(), notes: None };
    }

    /// The notes, which a run of the node that leads will take over.
    pub(crate) fn of_leader(&self) -> Arc<LeaderNotes<SimulatedNotes>> {
        let Lead { window, notes } = &mut *self.lead.lock();
        let reach = || SimulatedNotes::new(self.shelf.clone(), window.clone().unwrap());
        let first = || Arc::new(LeaderNotes::new(reach(), self.bounds));
        Arc::clone(notes.get_or_insert_with(first))
    }

    /// Whether a leader may find that it cannot reach the notes, or that another node leads. One that dies reaches
    /// nothing.
    pub(crate) fn is_shut_off(&self) -> bool {
        let lead = self.lead.lock();
        let window = lead.window.as_ref().unwrap();
        window.is_troubled() || !window.leads() || self.shelf.0.lock().left.is_some()
    }
}

impl SimulatedNotes {
    const fn new(shelf: NoteShelf, window: SimulatedWindow) -> Self {
        Self { shelf, window, newest: (Epoch(0), 0) }
    }
}

impl ShelfModel {
    /// Lets some of the requests arrive that were held for lost.
    fn let_late_arrive(&mut self) {
        while !self.late.is_empty() && self.rng.chance(30) {
            let at = self.rng.below(self.late.len() as u64) as usize;
            let late = self.late.swap_remove(at);
            let is_made = self.make(late);
            self.marks.pass(if is_made { Mark::LateNote } else { Mark::LateNoteRefused });
        }
    }

    fn is_silent(&mut self, window: &SimulatedWindow) -> bool {
        if !window.is_troubled() {
            return false;
        }
        if self.silent_requests > 0 {
            self.silent_requests -= 1;
            return true;
        }
        self.rng.below(100) < self.silent_percent
    }

    /// Reads what `take` finds, once late requests have arrived.
    fn read<T>(
        &mut self,
        window: &SimulatedWindow,
        take: impl FnOnce(&BTreeMap<String, Vec<u8>>) -> T,
    ) -> Result<T, WindowError> {
        self.let_late_arrive();
        if self.is_silent(window) { Err(silence()) } else { Ok(take(&self.notes)) }
    }

    /// Makes the changes, if the condition holds.
    fn make(&mut self, ChangeRequest { place, condition, changes }: ChangeRequest) -> bool {
        let owner = self.notes.get(OWNER).map(Vec::as_slice);
        let holds = match &condition {
            OwnerCondition::Absent => owner.is_none(),
            OwnerCondition::Below(other) => owner.is_some_and(|owner| owner < other.as_bytes()),
        };
        if !holds {
            return false;
        }
        assert!(place > self.newest, "the change {place:?} comes behind {:?}", self.newest);
        self.newest = place;
        for (name, content) in changes {
            match content {
                Some(content) => drop(self.notes.insert(name, content)),
                None => drop(self.notes.remove(&name)),
            }
        }
        true
    }
}

fn silence() -> WindowError {
    WindowError::Unavailable("simulated".to_owned())
}

impl NoteStore for SimulatedNotes {
    type Error = WindowError;

    fn led_epoch(&mut self) -> Result<Option<Epoch>, WindowError> {
        let tip = self.window.tip()?;
        let led = (tip.writer == self.window.writer()).then_some(tip.position.epoch);
        self.newest.0 = led.unwrap_or(self.newest.0);
        Ok(led)
    }

    fn change(
        &mut self,
        condition: OwnerCondition,
        changes: Vec<Note>,
    ) -> Result<bool, WindowError> {
        self.newest.1 += 1;
        // A take-over changes nothing but the owner.
        let is_note = changes.len() > 1;
        let request = ChangeRequest { place: self.newest, condition, changes };
        let mut shelf = self.shelf.0.lock();
        shelf.let_late_arrive();
        if shelf.left == Some(0) {
            return Err(silence());
        }
        shelf.left = shelf.left.map(|left| left - 1);
        if !shelf.is_silent(&self.window) {
            let is_made = shelf.make(request);
            shelf.marks.pass_if(Mark::NoteRefused, is_note && !is_made);
            return Ok(is_made);
        }
        // It never arrives, arrives later, or has arrived and its answer does not.
        match shelf.rng.below(3) {
            0 => {}
            1 => shelf.late.push(request),
            _ => {
                let is_made = shelf.make(request);
                shelf.marks.pass_if(Mark::LostNoteAnswer, is_made);
            }
        }
        Err(silence())
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<StoredNote>, WindowError> {
        let mut shelf = self.shelf.0.lock();
        let found: Vec<_> = shelf.read(&self.window, |notes| {
            let found = notes.iter().filter(|(name, _)| name.starts_with(prefix));
            found.map(|(name, content)| (name.clone(), content.clone())).collect()
        })?;
        shelf.marks.pass_if(Mark::DeliveriesTakenOver, !found.is_empty());
        Ok(found)
    }

    fn names(&mut self, prefix: &str) -> Result<Vec<String>, WindowError> {
        self.shelf.0.lock().read(&self.window, |notes| {
            notes.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
        })
    }

    fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, WindowError> {
        self.shelf.0.lock().read(&self.window, |notes| notes.get(name).cloned())
    }
}
