//! More nodes than one: etcd holds the window of the journal and the name of its leader; every node
//! follows it, and one of them takes over when the leader is silent.
//!
//! | key, behind the cluster's prefix | value |
//! |---|---|
//! | `tip` | the newest batch of the chain and the run of the node that wrote it, 72 bytes |
//! | `j/<number>` | a sealed batch, as it stands in a journal; 20 digits |
//! | `extent` | the oldest batch in the window, and counts of all, see `extent.rs`; there once the first few are written |
//! | `beat` | the leader's sign of life, JSON |
//! | `step-down` | the run of the node that is asked to let another one lead |
//! | `node/<name>` | addresses, digests of settings and newest record of a node, JSON |
//! | `note/<name>` | a note of the leader for the next one, see `notes.rs` of `dispatch` |
//! | `directory` | the id of the chain's data directory |
//!
//! INVARIANT: only `tip` decides which node may answer. Beats decide when a node tries to take over;
//! they may be wrong.

mod address;
mod beats;
mod clocks;
mod credentials;
mod etcd;
mod etcd_watch;
mod extent;
mod follow;
mod members;
mod notes;
mod patience;
mod proto;
mod requests;
mod setting_digests;
mod status;
mod window;

pub use address::{ClusterAddress, ClusterAddressError, EtcdAccess};
pub use beats::{Beats, LeaderEnd};
pub use clocks::ClockStanding;
pub use etcd::EtcdError;
pub use etcd_watch::watch_etcd;
pub use follow::{FollowError, FollowerNotices, Node, follow, seek_leader};
pub use members::{ClusterView, NodeRecord};
pub use notes::EtcdNotes;
pub use setting_digests::SettingDigests;
pub use status::{EtcdView, NodeStatus};
pub use window::{EtcdWindow, OpenWindowError};
