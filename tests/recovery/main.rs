//! Kills, damage, backups and stops of a real switch. Each module is one subject; `load` is the load under
//! which switches are killed.

mod backups;
mod clocks;
mod cluster_pan_key;
mod durability;
mod etcd_access;
mod export;
mod failover;
mod faults;
mod handover;
mod idempotency;
mod kill;
mod linearizable;
mod load;
mod lost_etcd;
mod node_files;
mod node_settings;
mod pan_key;
mod partitions;
mod standby_doors;
mod standby_reads;
mod stopping;
