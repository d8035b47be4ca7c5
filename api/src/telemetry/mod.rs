//! The view of operators on a switch at work: figures, health, the log.
//!
//! | file | what |
//! |---|---|
//! | `exposition` | figures as the text that Prometheus reads |
//! | `collect`, `process` | the figures, and the source of each |
//! | `api_meter` | requests by route and status |
//! | `gauges` | figures that other rooms add |
//! | `cluster` | how a node and its cluster stand |
//! | `route` | figures and health of a router, and how its cells stand |
//! | `health` | whether the switch can work, in one word |
//! | `listener`, `watchers` | the address at which all of this is asked; the places there |
//! | `log` | how the log is written |
//!
//! INVARIANT: nothing here holds up the parts that it watches. Figures are read without locks that
//! an authorization waits for, and no label comes from a client's bytes.

pub mod api_meter;
pub mod cluster;
mod collect;
mod exposition;
pub mod gauges;
pub mod health;
pub mod listener;
pub mod log;
mod process;
pub mod rooms;
pub mod route;
pub mod watchers;

use std::sync::{Arc, OnceLock, Weak};

use cardswitch_acquiring::counters::Counters;
use cardswitch_cluster::NodeStatus;
use cardswitch_engine::engine::Engine;
use cardswitch_engine::meters::{Count, Level};
use cardswitch_engine::recovery_progress::RecoveryProgress;

use self::api_meter::ApiMeter;
use self::cluster::is_etcd_silent;
use self::gauges::Gauges;
use self::health::{Health, HealthNotes, Phase};
use self::listener::MonitoredProcess;

/// The figures and the state of one switch.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// How far the start has come.
    pub recovery: Arc<RecoveryProgress>,
    /// Requests over HTTP.
    pub api: ApiMeter,
    /// The figures that other rooms add.
    pub gauges: Gauges,
    /// The notes of other rooms beside whether the switch can work.
    pub health_notes: HealthNotes,
    /// Connections of HTTP that are open.
    pub http_connections: Level,
    /// Connections of HTTP that were closed at once, of one address that has too many.
    pub http_refused: Count,
    /// Connections of HTTP that did not agree on TLS.
    pub tls_refused: Count,
    /// Requests that were refused because their token had too many.
    pub token_refused: Arc<Count>,
    /// Requests that were refused because too many were being answered.
    pub busy_refused: Count,
    phase: health::PhaseCell,
    working: OnceLock<WorkingParts>,
    /// How it stands in its cluster, if it is a node.
    node: OnceLock<Arc<NodeStatus>>,
}

/// The parts that exist once the switch works.
#[derive(Debug)]
struct WorkingParts {
    /// Not held: the stop of the switch waits for the engine's last owner.
    engine: Weak<Engine>,
    iso8583: Arc<Counters>,
}

impl Telemetry {
    /// Notes that the switch has recovered and follows another node.
    pub fn set_following(&self) {
        self.phase.set(Phase::Following);
    }

    /// Notes that the switch has recovered and works.
    pub fn set_working(&self, engine: &Arc<Engine>, iso8583: Arc<Counters>) {
        let working = WorkingParts { engine: Arc::downgrade(engine), iso8583 };
        // A switch is started once.
        drop(self.working.set(working));
        self.phase.set(Phase::Working);
    }

    /// Notes that the switch stops.
    pub fn set_stopping(&self) {
        self.phase.set(Phase::Stopping);
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.working.get()?.engine.upgrade()
    }

    fn iso8583(&self) -> Option<&Counters> {
        self.working.get().map(|working| &*working.iso8583)
    }
}

impl MonitoredProcess for Telemetry {
    fn health(&self) -> Health {
        let health = Health::of(self.phase.get(), &self.recovery, self.engine().as_deref());
        let is_cut_off = self.node.get().is_some_and(|node| is_etcd_silent(node));
        let health = if is_cut_off { health.cut_off() } else { health };
        health.noting(self.health_notes.now()).noting_log()
    }

    fn exposition(&self) -> String {
        collect::exposition_of(self)
    }
}
