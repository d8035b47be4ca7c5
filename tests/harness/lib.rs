//! The harness of the process-level tests, and of tools that measure: real `cardswitch` processes, real sockets, real kills.
//!
//! A test installs a data directory (`Installation`), runs switches on it (`Switch`), and talks to
//! them as strangers do: `HttpClient` and `Acquirer`, which know the two doors and nothing inside.
//! Nothing here may depend on the engine or the API crate: code that compiles against them does not test the
//! contract. A failed expectation panics with the expected value, for this is test code.

mod acquirer;
mod browser;
mod cards;
mod certificates;
mod cluster;
mod command;
mod hook_receiver;
mod http_client;
mod installation;
mod lan;
mod ledger;
mod mail_server;
mod message;
mod postgresql;
mod purchase;
mod random;
mod route;
mod source;
mod switch;
mod trace;

pub use acquirer::{Acquirer, Disconnection};
pub use browser::{Browser, hidden_field};
pub use cards::{Portfolio, TestCard};
pub use certificates::{Authority, Certificate};
pub use cluster::{Cluster, etcd_machine, etcd_name, free_addresses, node_machine};
pub use command::{
    CommandOutput, cardswitch_after, cardswitch_binary, last_json_line, run_cardswitch,
    run_cardswitch_reading, run_cardswitch_with,
};
pub use hook_receiver::{Hook, HookReceiver, Manner};
pub use http_client::{HttpClient, HttpRequest, HttpResponse, exchange_raw, read_response};
pub use installation::{Credentials, Installation, write_private};
pub use lan::{Direction, LAN_ADDRESSES, Lan, has_machines};
pub use ledger::{NetworkTransaction, minor, transactions_of_card};
pub use mail_server::MailServer;
pub use message::{Message, de39_of};
pub use postgresql::Postgresql;
pub use purchase::{Purchase, next_stan};
pub use random::{Random, campaign_scaled, seed_for};
pub use route::Route;
pub use source::{connect_from, crowd, descriptors_of_this_process};
pub use switch::Switch;
pub use trace::{SystemCall, Trace};
