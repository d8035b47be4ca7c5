//! Attacks on a real switch: what an unauthenticated peer, a hostile page, a stolen token or a careless
//! operator may try. Each module is one subject; its tests fail on a switch without the defence.

mod http_memory;
mod request_heads;
mod unread_bodies;
