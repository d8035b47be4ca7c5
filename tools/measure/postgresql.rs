//! A PostgreSQL 15 of its own: a cluster on a directory and a port of its own, ended with the value.

use std::path::Path;
use std::time::Duration;

use cardswitch_tools::{Outcome, fail};
use rustix::process::Signal;
use tokio_postgres::{Client, Config, NoTls};

use crate::server::{Server, find_program};

const PACKAGE: &str = "postgresql-15";
const DIRECTORIES: [&str; 1] = ["/usr/lib/postgresql/15/bin"];
/// The superuser; the cluster listens on loopback only, for as long as the run takes.
const USER: &str = "measure";

/// A setting of the server: its name and its value.
pub(crate) type Setting = (&'static str, &'static str);

/// A machine that does nothing else: memory for everything, and no checkpoint within the run.
pub(crate) const ALONE: [Setting; 12] = [
    ("shared_buffers", "2GB"),
    ("huge_pages", "try"),
    ("work_mem", "64MB"),
    ("maintenance_work_mem", "1GB"),
    ("effective_cache_size", "8GB"),
    ("random_page_cost", "1.1"),
    ("jit", "off"),
    // Nobody replicates: the log carries what recovery needs and no more.
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("max_wal_size", "32GB"),
    ("checkpoint_timeout", "1h"),
    ("log_min_messages", "warning"),
];

/// A running cluster.
pub(crate) struct Cluster(Server);

impl Cluster {
    /// Makes a cluster with these settings and starts it.
    /// Errors: tells what is not installed.
    pub(crate) fn start(settings: Vec<Setting>) -> Outcome<Self> {
        let find = |name| find_program(name, &DIRECTORIES, PACKAGE);
        let (initdb, postgres) = (find("initdb")?, find("postgres")?);
        // An immediate shutdown, without a checkpoint: to the files it is a crash.
        let mut server = Server::new("measure-postgresql-", "postgres", Signal::QUIT)?;
        let mut command = server.command(&initdb)?;
        command.args(["--pgdata=data", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        command.args([format!("--username={USER}"), "--wal-segsize=64".to_owned()]);
        server.run(&mut command)?;
        let mut command = server.command(&postgres)?;
        command.args(["-D", "data", "-p", &server.port.to_string()]);
        let own = [("listen_addresses", "127.0.0.1"), ("unix_socket_directories", "")];
        for (name, value) in own.into_iter().chain(settings) {
            command.arg(format!("--{name}={value}"));
        }
        server.start(command)?;
        Ok(Self(server))
    }

    /// Kills the server as a crash would, and starts it again on what the disk has.
    pub(crate) fn crash(&mut self) -> Outcome<()> {
        self.0.crash()
    }

    /// A directory that the server can write to.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Its address for clients.
    pub(crate) fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", self.0.port)
    }

    /// Connects; the server listens before it is ready, and recovery is in between.
    /// Errors: it never is.
    pub(crate) async fn connect(&self) -> Outcome<Client> {
        const TRIES: usize = 3_000;
        let config: Config = self.url().parse()?;
        for _ in 0..TRIES {
            if let Ok((client, connection)) = config.connect(NoTls).await {
                // It ends with its client, which reports any failure.
                tokio::spawn(connection);
                return Ok(client);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        fail("PostgreSQL listens, but takes no connection")
    }
}
