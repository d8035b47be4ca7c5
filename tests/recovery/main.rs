//! Kills, damage, backups and stops of a real switch. Each module is one subject; `load` is the load under
//! which switches are killed.

mod backups;
mod failover;
mod faults;
mod idempotency;
mod kill;
mod load;
mod pan_key;
mod stopping;
