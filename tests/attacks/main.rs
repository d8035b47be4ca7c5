//! Attacks on a real switch: what an unauthenticated peer, a hostile page, a stolen token or a careless
//! operator may try. Each module is one subject; its tests fail on a switch without the defence.

mod first_bytes;
mod half_frames;
mod idle_connections;
mod latency;
