//! A data directory made by `cardswitch init`, with what it printed and the cards it wrote.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tempfile::TempDir;

use crate::cards::Portfolio;
use crate::command::{
    CommandOutput, cardswitch_after, cardswitch_command, command_in, last_json_line, run_cardswitch,
};
use crate::switch::Switch;

/// The output of `init --json`, printed once.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// The company made by `init`.
    pub company_id: String,
    /// Its account.
    pub account_id: String,
    /// The administrator's e-mail address.
    pub admin_email: String,
    /// The administrator's password.
    pub admin_password: String,
    /// For `/v1`.
    pub access_token: String,
    /// For `/network/v1`.
    pub network_key: String,
}

/// A data directory in a temporary place, deleted with this value.
#[derive(Debug)]
pub struct Installation {
    directory: TempDir,
    starts: AtomicU32,
    /// The output of `init`.
    pub credentials: Credentials,
    /// The cards that `init` made.
    pub cards: Portfolio,
}

impl Installation {
    /// Runs `cardswitch init` with `cards` test cards and everything drawn from `seed`.
    #[track_caller]
    pub fn init(cards: u32, seed: u64) -> Self {
        Self::init_with(cards, seed, &[])
    }

    /// As `init`, with further arguments.
    #[track_caller]
    pub fn init_with(cards: u32, seed: u64, further: &[&str]) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let data = directory.path().join("data");
        let cards_file = directory.path().join("cards.jsonl");
        let (cards, seed) = (cards.to_string(), seed.to_string());
        let mut arguments = vec!["init", "--data", text_of(&data), "--seed", &seed, "--json"];
        arguments.extend(["--cards", &cards, "--cards-out", text_of(&cards_file)]);
        arguments.extend_from_slice(further);
        let output = run_cardswitch(&arguments);
        let credentials = parse_credentials(&output.expect_json());
        let cards = Portfolio::read(&cards_file);
        Self { directory, starts: AtomicU32::new(0), credentials, cards }
    }

    /// Starts `cardswitch serve` by a shell that does `prelude` before, such as `umask 000`.
    #[track_caller]
    pub fn serve_after(&self, prelude: &str) -> Switch {
        let data = self.data();
        let arguments = serve_arguments(text_of(&data), "127.0.0.1:0", "127.0.0.1:0");
        self.run(cardswitch_after(prelude, &arguments), "info")
    }

    /// Adds an access token of the company with these scopes (with commas between several; read
    /// alone where blank). The directory must be at rest.
    #[track_caller]
    pub fn add_token(&self, scopes: &str) -> String {
        let (data, company) = (self.data(), &self.credentials.company_id);
        let mut arguments = vec!["token", "add", "--data", text_of(&data), "--company", company];
        arguments.push("--json");
        if !scopes.is_empty() {
            arguments.extend(["--scope", scopes]);
        }
        let printed = run_cardswitch(&arguments).expect_json();
        printed["access_token"].as_str().expect("token add prints a token").to_owned()
    }

    /// Starts `cardswitch serve` on this directory, on free ports of the loopback.
    #[track_caller]
    pub fn serve(&self) -> Switch {
        self.serve_with(&[])
    }

    /// As `serve`, with further arguments.
    #[track_caller]
    pub fn serve_with(&self, further: &[&str]) -> Switch {
        self.serve_logging("info", further)
    }

    /// As `serve_with`, logging from this level on.
    #[track_caller]
    pub fn serve_logging(&self, level: &str, further: &[&str]) -> Switch {
        self.start(&self.data(), level, further)
    }

    /// As `serve`, under a limit of the system such as `-n 1024` (the arguments of `ulimit`).
    #[track_caller]
    pub fn serve_under(&self, limit: &str) -> Switch {
        self.serve_after(&format!("ulimit {limit} || exit"))
    }

    /// Writes the configuration file of the data directory.
    #[track_caller]
    pub fn configure(&self, settings: &str) {
        fs::write(self.data().join("cardswitch.toml"), settings).expect("a file can be written");
    }

    /// As `serve_with`, on a directory that came out of this one.
    #[track_caller]
    pub fn serve_directory(&self, data: &Path, further: &[&str]) -> Switch {
        self.start(data, "info", further)
    }

    /// Starts `cardswitch serve` where it was before: at these doors (HTTP, ISO 8583, for operators).
    #[track_caller]
    pub fn serve_at(&self, doors: [SocketAddr; 3]) -> Switch {
        self.serve_node(None, (&self.data(), doors), &[], &[])
    }

    /// Starts a node of a cluster at `doors` (HTTP, ISO 8583, for operators), which a node takes again
    /// when it begins again.
    #[track_caller]
    pub(crate) fn serve_node(
        &self,
        namespace: Option<&str>,
        (data, doors): (&Path, [SocketAddr; 3]),
        further: &[&str],
        variables: &[(&str, String)],
    ) -> Switch {
        let [http, iso8583, metrics] = doors.map(|door| door.to_string());
        let mut arguments = serve_arguments(text_of(data), &http, &iso8583);
        arguments.extend(["--metrics", &metrics]);
        arguments.extend_from_slice(further);
        let mut command = command_in(namespace, cardswitch_command(&arguments));
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        self.run(command, "info")
    }

    #[track_caller]
    fn start(&self, data: &Path, level: &str, further: &[&str]) -> Switch {
        let mut arguments = serve_arguments(text_of(data), "127.0.0.1:0", "127.0.0.1:0");
        arguments.extend_from_slice(further);
        self.run(cardswitch_command(&arguments), level)
    }

    #[track_caller]
    fn run(&self, command: Command, level: &str) -> Switch {
        let start = self.starts.fetch_add(1, Ordering::Relaxed);
        let log_path = self.directory.path().join(format!("serve-{start}.log"));
        Switch::start(command, level, log_path, self.credentials.clone())
    }

    /// Starts `cardswitch serve` without waiting for anything, telling its health at `metrics`.
    #[track_caller]
    pub fn begin_to_serve(&self, metrics: SocketAddr) -> Child {
        self.begin_to_serve_with(metrics, &[])
    }

    /// As `begin_to_serve`, with further arguments.
    #[track_caller]
    pub fn begin_to_serve_with(&self, metrics: SocketAddr, further: &[&str]) -> Child {
        self.begin_by(cardswitch_command, metrics, further)
    }

    /// As `begin_to_serve`, by a shell that does `prelude` before.
    #[track_caller]
    pub fn begin_to_serve_after(&self, prelude: &str, metrics: SocketAddr) -> Child {
        self.begin_by(|arguments| cardswitch_after(prelude, arguments), metrics, &[])
    }

    #[track_caller]
    fn begin_by(
        &self,
        command_of: impl Fn(&[&str]) -> Command,
        metrics: SocketAddr,
        further: &[&str],
    ) -> Child {
        let (data, metrics) = (self.data(), metrics.to_string());
        let mut arguments = serve_arguments(text_of(&data), "127.0.0.1:0", "127.0.0.1:0");
        arguments.extend(["--metrics", &metrics]);
        arguments.extend_from_slice(further);
        let mut command = command_of(&arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("cardswitch starts")
    }

    /// Runs `serve` where it is expected to refuse, to its end.
    #[track_caller]
    pub fn serve_refused(&self) -> CommandOutput {
        run_cardswitch(&serve_arguments(text_of(&self.data()), "127.0.0.1:0", "127.0.0.1:0"))
    }

    /// As `serve_refused`, by a shell that does `prelude` before.
    #[track_caller]
    pub fn serve_refused_after(&self, prelude: &str) -> CommandOutput {
        let data = self.data();
        let arguments = serve_arguments(text_of(&data), "127.0.0.1:0", "127.0.0.1:0");
        let mut command = cardswitch_after(prelude, &arguments);
        CommandOutput::of(command.stdin(Stdio::null()).output().expect("a shell starts"))
    }

    /// Runs `serve` on addresses of which one is taken, to its end.
    #[track_caller]
    pub fn serve_refused_on(&self, http: SocketAddr, iso8583: SocketAddr) -> CommandOutput {
        let (http, iso8583) = (http.to_string(), iso8583.to_string());
        run_cardswitch(&serve_arguments(text_of(&self.data()), &http, &iso8583))
    }

    /// Runs `verify --json`, whatever its verdict.
    #[track_caller]
    pub fn verify(&self) -> CommandOutput {
        run_cardswitch(&["verify", "--data", text_of(&self.data()), "--json"])
    }

    /// Asserts that `verify` finds everything right, and returns its report.
    #[track_caller]
    pub fn verify_ok(&self) -> Value {
        let output = self.verify();
        assert_eq!(output.code, Some(0), "verify found a difference: {output:#?}");
        let report = last_json_line(&output.stdout);
        assert_eq!(report["ok"], true, "exit code 0 and ok must agree: {report:#}");
        report
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The directory of this installation: data directory, cards file, logs.
    pub fn home(&self) -> &Path {
        self.directory.path()
    }

    /// The cards file, as `feed --cards` takes it.
    pub fn cards_file(&self) -> PathBuf {
        self.directory.path().join("cards.jsonl")
    }

    /// The journal's directory.
    pub fn journal(&self) -> PathBuf {
        self.data().join("journal")
    }

    /// The journal's first segment, which a new installation does not leave.
    pub fn journal_segment(&self) -> PathBuf {
        self.journal().join("0000000000000001.segment")
    }
}

pub(crate) fn serve_arguments<'a>(data: &'a str, http: &'a str, iso8583: &'a str) -> Vec<&'a str> {
    vec!["serve", "--data", data, "--http", http, "--iso8583", iso8583]
}

fn parse_credentials(printed: &Value) -> Credentials {
    let text = |key: &str| {
        let value = printed[key].as_str().unwrap_or_default().to_owned();
        assert!(!value.is_empty(), "init prints `{key}`: {printed:#}");
        value
    };
    Credentials {
        company_id: text("company_id"),
        account_id: text("account_id"),
        admin_email: text("admin_email"),
        admin_password: text("admin_password"),
        access_token: text("access_token"),
        network_key: text("network_key"),
    }
}

pub(crate) fn text_of(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// Writes a file of keys as commands take it: for its owner alone.
pub fn write_private(path: &Path, content: &str) {
    fs::write(path, content).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("its owner may");
}
