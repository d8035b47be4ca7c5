//! A PostgreSQL 15 of its own: a cluster on a directory and a port of its own, ended with the value.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use cardswitch_tools::{Outcome, fail};
use tokio_postgres::{Client, Config, NoTls};

use crate::server::{Home, end, find_program, free_port};

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

/// The server's process, and where it lives.
pub(crate) struct Cluster {
    child: Child,
    home: Home,
    postgres: PathBuf,
    pg_ctl: PathBuf,
    port: u16,
    settings: Vec<Setting>,
}

impl Cluster {
    /// Makes a cluster with these settings and starts it.
    /// Errors: tells what is not installed.
    pub(crate) fn start(settings: Vec<Setting>) -> Outcome<Self> {
        let find = |name| find_program(name, &DIRECTORIES, PACKAGE);
        let (initdb, postgres, pg_ctl) = (find("initdb")?, find("postgres")?, find("pg_ctl")?);
        let home = Home::new("measure-postgresql-", "postgres")?;
        let mut command = home.command(&initdb)?;
        command.args(["--pgdata=data", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        command.args([format!("--username={USER}"), "--wal-segsize=64".to_owned()]);
        home.run(&mut command)?;
        let port = free_port()?;
        let child = launch(&home, &postgres, (port, &settings))?;
        Ok(Self { child, home, postgres, pg_ctl, port, settings })
    }

    /// Kills the server as a crash would, and starts it again on what the disk has.
    pub(crate) fn crash(&mut self) -> Outcome<()> {
        self.stop();
        self.child = launch(&self.home, &self.postgres, (self.port, &self.settings))?;
        Ok(())
    }

    /// A directory that the server can write to.
    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }

    /// Its address for clients.
    pub(crate) fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port)
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

    /// At once and without a checkpoint: to the files it is a crash.
    fn stop(&mut self) {
        if let Ok(mut command) = self.home.command(&self.pg_ctl) {
            command.args(["stop", "--pgdata=data", "--mode=immediate", "--silent"]);
            // If this fails, the kill below ends it.
            drop(command.status());
        }
        end(&mut self.child);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

fn launch(home: &Home, postgres: &Path, (port, settings): (u16, &[Setting])) -> Outcome<Child> {
    let mut command = home.command(postgres)?;
    command.args(["-D", "data", "-p", &port.to_string()]);
    for (name, value) in [("listen_addresses", "127.0.0.1"), ("unix_socket_directories", "")] {
        command.arg(format!("--{name}={value}"));
    }
    for (name, value) in settings {
        command.arg(format!("--{name}={value}"));
    }
    home.start(&mut command, port)
}
