//! The network's HTTP door, asked in process: beside a whole switch, and beside the ISO 8583 door.

mod clock;
mod direct;
mod doors;
mod http;
mod requests;
mod still_tables;
mod texts;
mod world;
