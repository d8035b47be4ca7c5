//! One running `cardswitch route` before switches that are cells.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::thread;

use tempfile::NamedTempFile;

use crate::acquirer::Acquirer;
use crate::command::cardswitch_command;
use crate::http_client::HttpClient;
use crate::switch::{Switch, parse_ready, send_signal};

/// A routing process. It is killed when dropped.
#[derive(Debug)]
pub struct Route {
    child: Child,
    /// Address of the HTTP door of all cells.
    pub http: SocketAddr,
    /// Address of the ISO 8583 door of all cells.
    pub iso8583: SocketAddr,
    /// The address that shows figures and health.
    pub metrics: SocketAddr,
    log: NamedTempFile,
}

impl Route {
    /// Starts `cardswitch route` before these cells, each with its switches, the first being the home cell, and
    /// waits until it says that both doors answer.
    #[track_caller]
    pub fn before(cells: &[(&str, &[&Switch])]) -> Self {
        let cells = cells.iter().map(|(cell, switches)| {
            let doors = switches.iter().map(|switch| {
                let (http, iso8583) = (switch.http, switch.iso8583);
                format!("http://{http},iso8583://{iso8583}")
            });
            format!("{cell}={}", doors.collect::<Vec<_>>().join(","))
        });
        Self::with(&cells.collect::<Vec<_>>(), &[])
    }

    /// As `before`, with cells as `--cell` has them and further arguments.
    #[track_caller]
    pub fn with(cells: &[String], further: &[&str]) -> Self {
        let free = "127.0.0.1:0";
        let doors = ["--http", free, "--iso8583", free, "--metrics", free];
        let mut arguments = [&["route", "--home", &cells[0][..2]], &doors[..], further].concat();
        arguments.extend(cells.iter().flat_map(|cell| ["--cell", cell]));
        let log = NamedTempFile::new().expect("a log file can be made");
        let mut command = cardswitch_command(&arguments);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.reopen().expect("a file can be opened twice"))
            .spawn()
            .expect("cardswitch starts");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut ready = String::new();
        lines.read_line(&mut ready).expect("stdout is text");
        let doors = parse_ready(ready.trim_end());
        if doors.is_none() {
            eprintln!("route printed `{ready}`; its log:\n{}", log_of(&log));
        }
        let [http, iso8583, metrics] = doors.expect("route prints its ready line first");
        thread::spawn(move || lines.lines().map_while(Result::ok).for_each(drop));
        Self { child, http, iso8583, metrics, log }
    }

    /// Everything the process has logged so far.
    pub fn log(&self) -> String {
        log_of(&self.log)
    }

    /// Sends the process a signal, such as `HUP`.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        send_signal(&self.child, name);
    }

    /// A client of `/v1` with an access token.
    pub fn api(&self, access_token: &str) -> HttpClient {
        HttpClient::with_authorization(self.http, &format!("Token {access_token}"))
    }

    /// A client of `/network/v1` with a network key.
    pub fn network_api(&self, network_key: &str) -> HttpClient {
        HttpClient::with_authorization(self.http, &format!("Bearer {network_key}"))
    }

    /// A client that shows no credentials.
    pub fn anonymous(&self) -> HttpClient {
        HttpClient::anonymous(self.http)
    }

    /// A client of the address where figures and health are told.
    pub fn watcher(&self) -> HttpClient {
        HttpClient::anonymous(self.metrics)
    }

    /// A new connection to the ISO 8583 door.
    #[track_caller]
    pub fn acquirer(&self) -> Acquirer {
        Acquirer::connect(self.iso8583)
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        // Both fail where it has ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- log of the router ---\n{}", self.log());
        }
    }
}

fn log_of(log: &NamedTempFile) -> String {
    fs::read_to_string(log.path()).expect("the log can be read")
}
