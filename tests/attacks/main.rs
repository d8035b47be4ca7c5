//! Attacks on a real switch: what an unauthenticated peer, a hostile page, a stolen token or a careless
//! operator may try. Each module is one subject; its tests fail on a switch without the defence.

mod app_approval;
mod backups;
mod credentials;
mod doors;
mod file_modes;
mod first_bytes;
mod guesses;
mod half_frames;
mod http_memory;
mod idle_connections;
mod latency;
mod master_key;
mod memory;
mod request_heads;
mod revoked_access;
mod security_document;
mod texts;
mod unread_bodies;
mod webhook_receivers;
