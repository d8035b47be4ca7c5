//! A PostgreSQL of its own at a free port, asked by `psql`. It runs as the user `postgres` where the tests
//! run as root, as which it refuses to run.

use std::path::Path;
use std::process::{Command, Output};

use crate::cluster::free_addresses;

const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// A server, and its files. Both go with this value.
#[derive(Debug)]
pub struct Postgresql {
    home: String,
    port: u16,
}

impl Postgresql {
    /// Starts a server with an empty database.
    #[track_caller]
    pub fn start() -> Self {
        let made = run(&["mktemp", "--directory"]);
        let home = text_of(&made).trim().to_owned();
        let port = free_addresses()[0].port();
        let server = Self { home, port };
        let data = format!("--pgdata={}/data", server.home);
        run(&[
            program("initdb").as_str(),
            &data,
            "--auth=trust",
            "--username=postgres",
            "--no-sync",
        ]);
        server.go_on();
        server
    }

    /// Starts the server again after `crash`.
    #[track_caller]
    pub fn go_on(&self) {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off",
            self.port
        );
        self.control(&["start", "--wait", "--silent", "-o", &options]);
    }

    /// Ends the server at once, without a checkpoint.
    #[track_caller]
    pub fn crash(&self) {
        self.control(&["stop", "--mode=immediate", "--silent"]);
    }

    #[track_caller]
    fn control(&self, arguments: &[&str]) {
        let (data, log) = (format!("--pgdata={}/data", self.home), format!("{}/log", self.home));
        let mut command = vec![program("pg_ctl"), data, "--log".to_owned(), log];
        command.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        run(&command.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// The address of its database.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The rows of a query, each as texts.
    #[track_caller]
    pub fn rows(&self, query: &str) -> Vec<Vec<String>> {
        let asked = run(&["psql", "-XAt", "-v", "ON_ERROR_STOP=1", "-c", query, &self.url()]);
        let cells = |line: &str| line.split('|').map(str::to_owned).collect();
        text_of(&asked).lines().map(cells).collect()
    }
}

impl Drop for Postgresql {
    fn drop(&mut self) {
        let data = format!("--pgdata={}/data", self.home);
        let program = program("pg_ctl");
        let stop = [program.as_str(), &data, "stop", "--mode=immediate", "--silent"];
        // It may have ended already.
        drop(command(&stop).output());
        drop(command(&["rm", "-rf", &self.home]).output());
    }
}

fn program(name: &str) -> String {
    format!("{PROGRAMS}/{name}")
}

fn command(arguments: &[&str]) -> Command {
    let is_root = rustix::process::geteuid().is_root();
    let prefix: &[&str] = if is_root { &["runuser", "-u", "postgres", "--"] } else { &[] };
    let mut all = prefix.iter().chain(arguments);
    let mut command = Command::new(all.next().expect("a program"));
    command.args(all).current_dir(Path::new("/"));
    command
}

#[track_caller]
fn run(arguments: &[&str]) -> Output {
    let output = command(arguments).output().expect("PostgreSQL is installed, as `./test` does");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    output
}

fn text_of(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("it prints text")
}
