//! One running `cardswitch serve` process, and the ways it ends: by request, or by kill -9.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::acquirer::Acquirer;
use crate::command::cardswitch_command;
use crate::http_client::HttpClient;
use crate::installation::{Credentials, serve_arguments, text_of};

/// A serving process. It is killed when dropped, and its log is shown if the test failed.
#[derive(Debug)]
pub struct Switch {
    child: Child,
    log_path: PathBuf,
    credentials: Credentials,
    /// The address of `/v1` and `/network/v1`.
    pub http: SocketAddr,
    /// The address of the ISO 8583 door.
    pub iso8583: SocketAddr,
    /// The address that shows figures and health.
    pub metrics: SocketAddr,
    /// The addresses of its further ISO 8583 doors, by name.
    doors: BTreeMap<String, SocketAddr>,
}

impl Switch {
    /// Starts `cardswitch serve` on a directory that others made, on free ports; its log is beside it.
    #[track_caller]
    pub fn serve(data: &Path, further: &[&str], credentials: Credentials) -> Self {
        let mut arguments = serve_arguments(text_of(data), "127.0.0.1:0", "127.0.0.1:0");
        arguments.extend_from_slice(further);
        let log_path = data.with_file_name("serve.log");
        Self::start(cardswitch_command(&arguments), "info", log_path, credentials)
    }

    /// Starts `cardswitch serve`, as `command` has it, at this level of log, and waits until it says
    /// that both doors answer.
    #[track_caller]
    pub(crate) fn start(
        mut command: Command,
        log_level: &str,
        log_path: PathBuf,
        credentials: Credentials,
    ) -> Self {
        let log = File::create(&log_path).expect("a log file can be made");
        let mut child = command
            .env("RUST_LOG", log_level)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(log))
            .spawn()
            .expect("cardswitch starts");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut ready = String::new();
        lines.read_line(&mut ready).expect("stdout is text");
        let doors = parse_ready(ready.trim_end());
        let further = ready.split(' ').filter_map(|part| {
            let (name, address) = part.trim_end().strip_prefix("iso8583.")?.split_once('=')?;
            Some((name.to_owned(), address.parse().ok()?))
        });
        let further = further.collect();
        if doors.is_none() {
            let status = child.wait();
            let log = fs::read_to_string(&log_path).unwrap_or_default();
            eprintln!("serve printed `{ready}` and ended with {status:?}; its log:\n{log}");
        }
        let [http, iso8583, metrics] = doors.expect("serve prints its ready line first");
        // Its further output must not fill the pipe and stop it.
        thread::spawn(move || lines.lines().map_while(Result::ok).for_each(drop));
        Self { child, log_path, credentials, http, iso8583, metrics, doors: further }
    }

    /// The address of a further ISO 8583 door.
    #[track_caller]
    pub fn door(&self, name: &str) -> SocketAddr {
        self.doors[name]
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The output of `init` about its directory.
    pub const fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// A client of `/v1` with the administrator's access token.
    pub fn api(&self) -> HttpClient {
        HttpClient::with_authorization(
            self.http,
            &format!("Token {}", self.credentials.access_token),
        )
    }

    /// A client of `/v1` with another access token.
    pub fn api_with(&self, access_token: &str) -> HttpClient {
        HttpClient::with_authorization(self.http, &format!("Token {access_token}"))
    }

    /// A client of `/network/v1` with the network key.
    pub fn network_api(&self) -> HttpClient {
        let authorization = format!("Bearer {}", self.credentials.network_key);
        HttpClient::with_authorization(self.http, &authorization)
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

    /// Everything the process has logged so far.
    pub fn log(&self) -> String {
        let bytes = fs::read(&self.log_path).expect("the log can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until a line of its log has all these parts: what it tells elsewhere may be there first.
    pub fn wait_for_log(&self, parts: &[&str]) {
        let has_all = |line: &str| parts.iter().all(|part| line.contains(part));
        while !self.log().lines().any(has_all) {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The process' resident memory.
    /// Units: bytes.
    /// Source: /proc/PID/status, so Linux only.
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))
            .expect("a running process has a status");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS is there");
        let kibibytes = line.split_whitespace().nth(1).expect("VmRSS has a figure");
        kibibytes.parse::<u64>().expect("VmRSS is a number") * 1024
    }

    /// How many file descriptors it has open.
    /// Source: /proc/PID/fd, so Linux only.
    pub fn open_descriptors(&self) -> usize {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.pid()));
        entries.expect("a running process has descriptors").count()
    }

    /// Ends the process with SIGKILL: it gets no chance to finish anything.
    pub fn kill9(mut self) {
        self.child.kill().expect("the switch was still running");
        self.child.wait().expect("the switch can be waited for");
    }

    /// Asks the process to end, with SIGTERM, and does not wait for it.
    #[track_caller]
    pub fn ask_to_stop(&self) {
        self.signal("TERM");
    }

    /// Sends the process a signal, such as `STOP`.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        send_signal(&self.child, name);
    }

    /// Waits for a process that was asked to end, and asserts that it left cleanly.
    #[track_caller]
    pub fn wait(mut self) {
        let status = self.child.wait().expect("the switch can be waited for");
        assert!(status.success(), "serve left with {status} on SIGTERM");
    }

    /// Ends the process with SIGTERM and asserts that it left cleanly.
    #[track_caller]
    pub fn stop(self) {
        let log_path = self.log_path.clone();
        let status = self.terminate();
        let log = fs::read_to_string(&log_path).unwrap_or_default();
        assert!(status.success(), "serve left with {status} on SIGTERM; its log:\n{log}");
    }

    fn terminate(mut self) -> ExitStatus {
        self.ask_to_stop();
        self.child.wait().expect("the switch can be waited for")
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // Both fail where the test has already ended the process, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- log of the switch ---\n{}", self.log());
        }
    }
}

/// Sends a process a signal.
#[track_caller]
pub(crate) fn send_signal(process: &Child, name: &str) {
    let kill = format!("kill -{name} {}", process.id());
    let sent = Command::new("sh").args(["-c", &kill]).status().expect("sh is there");
    assert!(sent.success(), "the process was no longer running");
    // A signal to stop has no effect yet when it is sent.
    let stat = format!("/proc/{}/stat", process.id());
    while name == "STOP" && !std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T "))
    {
        std::thread::yield_now();
    }
}

/// Reads `ready http=ADDR iso8583=ADDR metrics=ADDR`.
pub(crate) fn parse_ready(line: &str) -> Option<[SocketAddr; 3]> {
    // A node of a cluster that does not lead yet says `follows`: its doors answer by the leader's.
    let doors = line.strip_prefix("ready ").or_else(|| line.strip_prefix("follows "))?;
    let (http, others) = doors.strip_prefix("http=")?.split_once(" iso8583=")?;
    let (iso8583, others) = others.split_once(" metrics=")?;
    let metrics = others.split(' ').next()?;
    Some([http.parse().ok()?, iso8583.parse().ok()?, metrics.parse().ok()?])
}
