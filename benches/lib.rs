//! The shared parts of the benches, so that a bench file holds one question and nothing else.
//!
//! | room | what |
//! |---|---|
//! | `meter` | medians, latencies, memory, the control, and the frame of a bench's run |
//! | `yardstick` | the speed of hardware and bare libraries: memory lines, the disk, sockets |
//! | `program` | cards, purchases, a shard without a journal; everything from a seed; a crate of its own |
//! | `installation` | data directories: new ones, and one with millions of transactions |
//! | `caller` | a caller that keeps requests in flight, and a monitor of the engine meanwhile |
//! | `wire` | loops around the clients of the doors, and switches in process |

pub mod caller;
pub mod installation;
pub mod meter;
pub mod wire;
pub mod yardstick;

pub use cardswitch_program as program;
