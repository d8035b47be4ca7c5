//! The way of a door into the engine.

use cardswitch_engine::engine::Engine;
use cardswitch_engine::submission::{Envelope, SubmitError};

/// Takes commands on behalf of the shard; a door needs no more of the engine than this.
pub trait Submit: Send + Sync + 'static {
    /// Hands commands over, all or none; answers come through their ports.
    /// Errors: overloaded, or stopped.
    fn submit(&self, envelopes: Vec<Envelope>) -> Result<(), SubmitError>;
}

impl Submit for Engine {
    fn submit(&self, envelopes: Vec<Envelope>) -> Result<(), SubmitError> {
        Self::submit(self, envelopes)
    }
}
