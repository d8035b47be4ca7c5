//! Hands ISO 8583 messages and HTTP requests to the cell that they name: one process, no keys, no state.
//!
//! | file | what |
//! |---|---|
//! | `cells` | the cells, where each is, and which of them a message or a request names |
//! | `cell_door`, `watching` | one door of a cell, its counts, and whether it is reached |
//! | `addresses` | the addresses of a door, tried in turn, over TLS or not |
//! | `accepting` | connections of a door, within bounds, over TLS or not |
//! | `iso8583`, `line` | the ISO 8583 door; the connection to a cell of one peer |
//! | `reading` | as much of a message as is needed, whatever its dialect |
//! | `pending_requests` | the messages that a cell has not answered |
//! | `http` | the HTTP door |
//!
//! INVARIANT: nothing is decided here. A message or request that names no cell, or an unknown one, goes to
//! the home cell, which answers as for any unknown card, id or token.

mod accepting;
mod addresses;
mod cell_door;
mod cells;
mod http;
mod iso8583;
mod line;
mod pending_requests;
mod reading;
mod watching;

pub use accepting::serve;
pub use cell_door::{CellDoor, DoorKind, Standing};
pub use cells::{CellAddresses, Cells, CellsError};
pub use http::HttpDoor;
pub use iso8583::Iso8583Door;
pub use watching::watch_cells;
