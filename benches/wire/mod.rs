//! Clients of the doors, as cheap as they can be: they share two cores with what they measure.
//!
//! A client renders its next request into a buffer and counts the answers in another; `Connection`
//! is the socket under both, `closed_loop` and `open_loop` decide when a request goes.

mod closed_loop;
mod connection;
mod http;
mod iso8583;
mod open_loop;
mod switch;

pub use closed_loop::{ClosedLoop, measure};
pub use connection::{Client, Connection};
pub use http::{HttpClient, render_request};
pub use iso8583::Iso8583Client;
pub use open_loop::open_loop;
pub use switch::{BenchSwitch, Door, runtime};
