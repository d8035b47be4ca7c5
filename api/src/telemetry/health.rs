//! Whether the switch can work, in one word.
//!
//! | word | `/healthz` | `/readyz` | means |
//! |---|---|---|---|
//! | `recovering` | 200 | 503 | the data directory is being opened |
//! | `following` | 200 | 503 | a node of a cluster that another node leads: its doors forward |
//! | `ready` | 200 | 200 | purchases are decided, requests answered |
//! | `overloaded` | 200 | 503 | so many commands wait that new ones will soon be refused |
//! | `stopping` | 200 | 503 | what is in flight is finished, nothing new is taken |
//! | `unreachable` | 200 | 503 | a router that reaches no cell, or a leader that etcd does not answer |
//! | `failed` | 503 | 503 | nothing can be kept any more: only a restart helps |
//!
//! Tables that stand still are told beside the word (`"tables": "standing still"`), and so are a clock that has
//! leapt ahead and gone back (`"clock": "behind the journal"`), a log that cannot be written and what other rooms note
//! (`"deliveries": "not written down"`): purchases are decided all the same.

use std::sync::atomic::{AtomicU8, Ordering};

use axum::http::StatusCode;
use cardswitch_engine::engine::Engine;
use cardswitch_engine::limits::QUEUED_COMMANDS_MAX;
use cardswitch_engine::recovery_progress::{RecoveryProgress, RecoverySnapshot, RecoveryStage};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::log;

/// From how many waiting commands on the switch is overloaded: new ones are refused at the bound.
const OVERLOADED_FROM: usize = QUEUED_COMMANDS_MAX / 4 * 3;

/// How far the life of the switch has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The data directory is being opened.
    #[default]
    Recovering,
    /// Another node leads.
    Following,
    /// Both doors answer.
    Working,
    /// It was asked to stop.
    Stopping,
}

/// A phase that others look at meanwhile.
#[derive(Debug, Default)]
pub(super) struct PhaseCell(AtomicU8);

impl PhaseCell {
    pub(super) fn set(&self, phase: Phase) {
        self.0.fetch_max(phase as u8, Ordering::AcqRel);
    }

    pub(super) fn get(&self) -> Phase {
        match self.0.load(Ordering::Acquire) {
            0 => Phase::Recovering,
            1 => Phase::Following,
            2 => Phase::Working,
            _ => Phase::Stopping,
        }
    }
}

/// The present value of a note beside the word; none where there is nothing to note.
type NoteReader = Box<dyn Fn() -> Option<Value> + Send + Sync>;

/// The notes of other rooms beside the word, each shown as long as it holds.
#[derive(Default)]
pub struct HealthNotes(Mutex<Vec<(&'static str, NoteReader)>>);

/// A fault: its name, and its words in the body.
pub type HealthNote = (&'static str, &'static str);

cardswitch_engine::opaque!(HealthNotes);

impl HealthNotes {
    /// Has `note` told whenever `is_amiss`.
    pub fn add(
        &self,
        (name, words): HealthNote,
        is_amiss: impl Fn() -> bool + Send + Sync + 'static,
    ) {
        self.tell(name, move || is_amiss().then(|| json!(words)));
    }

    /// Has told under `name` what `now` returns.
    pub fn tell(
        &self,
        name: &'static str,
        now: impl Fn() -> Option<Value> + Send + Sync + 'static,
    ) {
        self.0.lock().push((name, Box::new(now)));
    }

    /// The notes that hold now.
    pub(super) fn now(&self) -> Vec<(&'static str, Value)> {
        let notes = self.0.lock();
        notes.iter().filter_map(|(name, now)| Some((*name, now()?))).collect()
    }
}

/// Whether the switch can work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    state: HealthState,
    /// Whether reads are old until a restart.
    are_tables_still: bool,
    /// Whether time stands still until the clock is where it once was.
    is_clock_behind: bool,
    notes: Vec<(&'static str, Value)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HealthState {
    Recovering(RecoverySnapshot),
    Following,
    Ready,
    Overloaded,
    Stopping,
    Unreachable,
    Failed,
}

impl Health {
    pub(super) fn of(phase: Phase, recovery: &RecoveryProgress, engine: Option<&Engine>) -> Self {
        let are_tables_still = engine.is_some_and(|engine| engine.projection_failure().is_some());
        let is_clock_behind = engine.is_some_and(|engine| engine.clock_behind().is_some());
        let state = match (phase, engine) {
            (Phase::Recovering, _) => HealthState::Recovering(recovery.now()),
            (Phase::Following, _) => HealthState::Following,
            (Phase::Stopping, _) => HealthState::Stopping,
            (Phase::Working, None) => HealthState::Failed,
            (Phase::Working, Some(engine)) if engine.failure().is_some() => HealthState::Failed,
            (Phase::Working, Some(engine)) if engine.queued() >= OVERLOADED_FROM => {
                HealthState::Overloaded
            }
            (Phase::Working, Some(_)) => HealthState::Ready,
        };
        Self { state, are_tables_still, is_clock_behind, notes: Vec::new() }
    }

    /// The health of a router, in the phase of stopping or not.
    pub(super) const fn of_router(is_stopping: bool, reaches_a_cell: bool) -> Self {
        let state = match (is_stopping, reaches_a_cell) {
            (true, _) => HealthState::Stopping,
            (false, true) => HealthState::Ready,
            (false, false) => HealthState::Unreachable,
        };
        Self { state, are_tables_still: false, is_clock_behind: false, notes: Vec::new() }
    }

    /// The same of a switch that its cluster does not reach: another node may lead.
    pub(super) fn cut_off(mut self) -> Self {
        if matches!(self.state, HealthState::Ready | HealthState::Overloaded) {
            self.state = HealthState::Unreachable;
        }
        self
    }

    /// The same with what other rooms have noted.
    pub(super) fn noting(self, notes: Vec<(&'static str, Value)>) -> Self {
        Self { notes, ..self }
    }

    /// The same with a note of a log that cannot be written.
    pub(super) fn noting_log(mut self) -> Self {
        self.notes.extend(log::note().map(|(name, words)| (name, json!(words))));
        self
    }

    /// Whether purchases are decided now.
    pub fn is_ready(&self) -> bool {
        self.state == HealthState::Ready
    }

    /// The state in one word.
    pub const fn word(&self) -> &'static str {
        match self.state {
            HealthState::Recovering(_) => "recovering",
            HealthState::Following => "following",
            HealthState::Ready => "ready",
            HealthState::Overloaded => "overloaded",
            HealthState::Stopping => "stopping",
            HealthState::Unreachable => "unreachable",
            HealthState::Failed => "failed",
        }
    }

    /// The status of `/healthz`: whether the process is of any use, now or soon.
    pub fn liveness(&self) -> StatusCode {
        match self.state {
            HealthState::Failed => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::OK,
        }
    }

    /// The status of `/readyz`: whether it should be sent work.
    pub fn readiness(&self) -> StatusCode {
        if self.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
    }

    /// The body of both. Nothing in it is a secret, for nobody is asked who they are.
    pub fn body(&self) -> Value {
        let mut body = json!({ "status": self.word() });
        if let HealthState::Recovering(now) = &self.state {
            body["stage"] = json!(now.stage.word());
            if now.stage == RecoveryStage::Replaying {
                body["replayed"] = json!(now.replayed);
                body["to_replay"] = json!(now.to_replay);
            }
        }
        if self.are_tables_still {
            body["tables"] = json!("standing still");
        }
        if self.is_clock_behind {
            body["clock"] = json!("behind the journal");
        }
        for (name, told) in &self.notes {
            body[*name] = told.clone();
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_word_and_statuses() {
        let recovery = RecoveryProgress::default();
        let rows = [
            (Phase::Recovering, "recovering", 200),
            (Phase::Stopping, "stopping", 200),
            // An engine that is gone while the switch works can keep nothing.
            (Phase::Working, "failed", 503),
        ];
        for (phase, word, liveness) in rows {
            let health = Health::of(phase, &recovery, None);
            assert_eq!((health.word(), health.liveness().as_u16()), (word, liveness));
            assert_eq!(health.readiness().as_u16(), 503);
        }
        let rows =
            [(HealthState::Ready, "ready", 200), (HealthState::Overloaded, "overloaded", 503)];
        for (state, word, readiness) in rows {
            let (are_tables_still, is_clock_behind) = (true, true);
            let health = Health { state, are_tables_still, is_clock_behind, notes: Vec::new() };
            assert_eq!((health.word(), health.readiness().as_u16()), (word, readiness));
            assert_eq!(health.liveness().as_u16(), 200);
            let expected = json!({
                "status": word, "tables": "standing still", "clock": "behind the journal",
            });
            assert_eq!(health.body(), expected);
        }
        let notes = HealthNotes::default();
        notes.add(("deliveries", "not written down"), || true);
        notes.add(("letters", "lost"), || false);
        let health = Health::of(Phase::Recovering, &recovery, None);
        assert_eq!(health.body(), json!({"status": "recovering", "stage": "reading"}));
        let expected = json!({
            "status": "recovering", "stage": "reading", "deliveries": "not written down",
        });
        assert_eq!(health.noting(notes.now()).body(), expected);
    }

    #[test]
    fn a_switch_that_stops_never_works_again() {
        let cell = PhaseCell::default();
        assert_eq!(cell.get(), Phase::Recovering);
        cell.set(Phase::Stopping);
        cell.set(Phase::Working);
        assert_eq!(cell.get(), Phase::Stopping);
    }
}
