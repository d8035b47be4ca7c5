//! The state that the handlers of the HTTP door share.

use std::sync::Arc;

use cardswitch_edge::switch::Switch;
use cardswitch_secrets::Secrets;
use cardswitch_wire::urls::Urls;

/// Shared by all requests at the door; cheap to clone.
#[derive(Clone)]
pub struct DoorState {
    /// The way to the engine.
    pub switch: Switch,
    /// Keys.
    pub secrets: Arc<Secrets>,
    /// The addresses of objects.
    pub urls: Urls,
}
