//! The files behind a switch's doors, and its faults, as a start has read them.
//!
//! INVARIANT: a node reads them before it follows, and leads with what it read: no file that breaks meanwhile
//! keeps it from leading.

use std::net::SocketAddr;
use std::sync::Arc;

use cardswitch_acquiring::fault_plan::FaultPlan;
use cardswitch_acquiring::zone::Zone;
use cardswitch_edge::tls::{TlsDoor, TlsProtocol};
use cardswitch_network::listener::ListenerOptions;

use crate::config::{ConfigError, Settings};
use crate::doors::{listener_options, open_tls};
use crate::faults::open_plan;
use crate::server::shares_of;

/// The content of the files that the settings of a switch name.
#[derive(Clone, Debug)]
pub struct OpenedFiles {
    /// The options of the ISO 8583 doors, the first one first.
    pub iso8583: Vec<ListenerOptions>,
    /// TLS of the HTTP door, where it has any.
    pub http_tls: Option<Arc<TlsDoor>>,
    /// The faults that clients meet, if any.
    pub faults: Option<Arc<FaultPlan>>,
}

impl OpenedFiles {
    /// Reads all that these settings name.
    /// Errors: the first file that cannot be used; what a setting cannot be.
    pub fn open(settings: &Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            iso8583: listener_options(settings, &shares_of(settings))?,
            http_tls: open_tls(("http", TlsProtocol::Http), settings.tls.as_ref())?,
            faults: open_plan(settings.faults.as_deref())?,
        })
    }

    /// The same for doors at these addresses, the first door first.
    #[must_use]
    pub fn at(mut self, iso8583: &[SocketAddr]) -> Self {
        self.iso8583.iter_mut().zip(iso8583).for_each(|(door, bound)| door.address = *bound);
        self
    }

    /// The security of ISO 8583 doors that have any, with the doors' names.
    pub fn iter_zones(&self) -> impl Iterator<Item = (&str, &Zone)> {
        self.iso8583.iter().filter_map(|door| Some((door.name.as_str(), door.zone.as_deref()?)))
    }

    /// The doors that have TLS.
    pub fn tls_doors(&self) -> impl Iterator<Item = &Arc<TlsDoor>> {
        self.http_tls.iter().chain(self.iso8583.iter().filter_map(|door| door.tls.as_ref()))
    }
}
