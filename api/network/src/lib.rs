//! The card network's doors: ISO 8583 over TCP and JSON over HTTP, with one core behind both.
//!
//! | file | content |
//! |---|---|
//! | `listener`, `connection` | the ISO 8583 door: its allowed peers, one task for each; the steps are in `acquiring` |
//! | `http` | the HTTP door |
//! | `zone_clock` | the system's clocks for the exchange of a zone's keys |
//! | `limits` | bounds |

mod connection;
pub mod http;
pub mod limits;
pub mod listener;
pub mod zone_clock;
