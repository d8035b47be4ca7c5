//! The doors of the card network at a real switch: ISO 8583 and the same operations as JSON, and the
//! simulated card network as its commands show it. Each module is one subject.

mod admission;
mod authorization;
mod bad_input;
mod cells;
mod cells_tls;
mod codec;
mod demo;
mod faults;
mod first_frame;
mod first_minute;
mod hostile_story;
mod http_door;
mod pipelining;
mod scenarios;
mod sign_on;
mod two_doors;
