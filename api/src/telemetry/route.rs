//! Figures and health of a router: the traffic to each door of each cell, and whether it is
//! reached.
//!
//! A router is ready while it reaches a cell at both doors: the others' messages are answered 91 meanwhile.

use std::sync::Arc;

use cardswitch_route::{CellDoor, Cells, Standing};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::exposition::{Exposition, Kind};
use super::health::Health;
use super::listener::MonitoredProcess;
use super::{collect, log, process};

/// A router, as operators see it.
#[derive(Debug)]
pub struct RouterTelemetry {
    cells: Arc<Cells>,
    stop: watch::Receiver<bool>,
}

type DoorFigure = fn(&CellDoor) -> u64;

/// Each figure of a door of a cell with what it is.
const FIGURES: [(&str, Kind, &str, DoorFigure); 6] = [
    (
        "cardswitch_route_cell_reached",
        Kind::Gauge,
        "1 where the door of the cell takes connections.",
        |door| u64::from(is_reached(door)),
    ),
    ("cardswitch_route_connections", Kind::Gauge, "Connections to the door of the cell.", |door| {
        door.connections.now()
    }),
    (
        "cardswitch_route_forwarded_total",
        Kind::Counter,
        "Messages or requests sent to the cell.",
        |door| door.forwarded.now(),
    ),
    (
        "cardswitch_route_answered_total",
        Kind::Counter,
        "Answers that came from the cell.",
        |door| door.answered.now(),
    ),
    (
        "cardswitch_route_refused_total",
        Kind::Counter,
        "Messages answered 91 and requests answered 503 cell_down: the cell took none, or too many wait.",
        |door| door.refused.now(),
    ),
    (
        "cardswitch_route_unanswered_total",
        Kind::Counter,
        "Messages answered 96 and requests answered 503 outcome_unknown: the cell was lost meanwhile.",
        |door| door.unanswered.now(),
    ),
];

fn is_reached(door: &CellDoor) -> bool {
    door.standing() == Standing::Reached
}

impl RouterTelemetry {
    /// The router before `cells`, which stops once `stop` turns true.
    pub const fn new(cells: Arc<Cells>, stop: watch::Receiver<bool>) -> Self {
        Self { cells, stop }
    }
}

impl MonitoredProcess for RouterTelemetry {
    fn health(&self) -> Health {
        let doors: Vec<_> = self.cells.all_doors().collect();
        // The doors of a cell follow each other.
        let reaches_a_cell = doors
            .chunk_by(|one, next| one.cell == next.cell)
            .any(|cell| cell.iter().all(|door| is_reached(door)));
        let health = Health::of_router(*self.stop.borrow(), reaches_a_cell);
        health.noting(vec![("cells", standings(&doors))]).noting_log()
    }

    fn exposition(&self) -> String {
        let mut text = Exposition::default();
        collect::state(&mut text, &self.health(), &["ready", "unreachable", "stopping"]);
        for (name, kind, help, figure) in FIGURES {
            text.family(name, kind, help);
            for door in self.cells.all_doors() {
                let cell = door.cell.to_string();
                let labels = [("cell", &*cell), ("door", door.kind.word())];
                text.figure(name, &labels, figure(door));
            }
        }
        log::expose(&mut text);
        process::expose(&mut text);
        text.finish()
    }
}

/// Each cell with its doors, and why one is not reached.
fn standings(doors: &[&Arc<CellDoor>]) -> Value {
    let mut cells: Map<String, Value> = Map::new();
    for door in doors {
        let told = match door.standing() {
            Standing::Unknown => json!("not tried yet"),
            Standing::Reached => json!("reached"),
            Standing::Unreached(reason) => json!(reason),
        };
        cells.entry(door.cell.to_string()).or_insert_with(|| json!({}))[door.kind.word()] = told;
    }
    Value::Object(cells)
}
