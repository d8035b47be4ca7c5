//! The speed of the machine and of bare libraries: the figures that every bench stands beside.

mod disk;
mod lines;
mod servers;

pub use disk::{BareDatabase, DiskYardstick, time_each};
pub use lines::{CardLines, LineOrder};
pub use servers::start_hyper;
