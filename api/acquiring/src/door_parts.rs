//! The parts that all connections of a door share, and their bounds.

use std::sync::Arc;
use std::time::Duration;

use cardswitch_iso8583::Dialect;
use cardswitch_secrets::Secrets;

use super::counters::Counters;
use super::fault_plan::FaultPlan;
use super::limits;
use super::slow_bytes::SlowBytes;
use super::submit::Submit;
use super::zone::Zone;

/// The parts that all connections of a door share.
pub struct DoorParts {
    /// The name of the door in logs.
    pub door: String,
    /// The way into the engine.
    pub engine: Arc<dyn Submit>,
    /// The keys under which cards and messages are known.
    pub secrets: Arc<Secrets>,
    /// The dialect of the peers.
    pub dialect: Dialect,
    /// The security of messages, if there is any.
    pub zone: Option<Arc<Zone>>,
    /// The faults of answers, for clients under test.
    pub faults: Option<Arc<FaultPlan>>,
    /// The longest silence of a connection.
    pub idle_limit: Duration,
    /// The bounds of each connection.
    pub bounds: ConnectionBounds,
    /// The bytes of all connections that wait for slow peers.
    pub slow_bytes: Arc<SlowBytes>,
    /// The counts of the door.
    pub counters: Arc<Counters>,
}

/// The bounds of one connection, beyond which its peer is not read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionBounds {
    /// The most messages with the engine.
    pub in_flight: usize,
    /// The most bytes of answers that wait for the peer.
    pub outbox_bytes: usize,
}

impl Default for ConnectionBounds {
    fn default() -> Self {
        Self { in_flight: limits::IN_FLIGHT_MAX, outbox_bytes: limits::OUTBOX_BYTES_MAX }
    }
}

impl DoorParts {
    /// The field of the peers' dialect that an element is.
    pub(crate) fn field_of(&self, element: u8) -> u8 {
        let translation = self.dialect.translation.as_ref();
        translation.and_then(|translation| translation.field_of(element)).unwrap_or(element)
    }
}
