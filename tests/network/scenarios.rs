//! `feed --scenario`: every scenario file through both doors, and how a run tells what went wrong.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use cardswitch_harness::{
    CommandOutput, HttpClient, Installation, Switch, cardswitch_binary, last_json_line, minor,
    run_cardswitch,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A switch on a manual clock, and its directory.
struct Stage {
    switch: Switch,
    installation: Installation,
}

impl Stage {
    fn new(seed: u64) -> Self {
        let of_company = ["--partial-approval", "--credit-limit", "500"];
        let installation = Installation::init_with(1, seed, &of_company);
        let switch = installation.serve_with(&["--clock", "manual"]);
        Self { installation, switch }
    }

    fn run(&self, door: &str, path: &Path) -> CommandOutput {
        run_scenario(&self.installation, doors_of(&self.switch), door, path)
    }

    /// Runs a scenario that is written here and not in a file of its own.
    fn run_text(&self, text: &str) -> (CommandOutput, PathBuf) {
        let (_directory, path) = written(text);
        (self.run("iso8583", &path), path)
    }

    fn ledger(&self) -> i64 {
        ledger_of(&self.switch.api())
    }

    /// Starts a scenario that is longer than a pipe takes, and returns once its steps show: it
    /// cannot end before they are read.
    fn start_long(&self) -> LongScenario {
        const STEPS: usize = 4_000;
        let setup = "[setup.account]\navailable = 1000\ncredit_limit = 500\n";
        let steps = "[[step]]\ninquire = \"card\"\n".repeat(STEPS);
        let (directory, path) = written(&format!("about = \"Long\"\n{setup}{steps}"));
        let doors = doors_of(&self.switch);
        let arguments = scenario_arguments(&self.installation, doors, "iso8583", &path);
        let mut child = Command::new(cardswitch_binary())
            .args(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("cardswitch starts");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped"));
        for _ in 0..3 {
            lines.read_line(&mut String::new()).expect("stdout is text");
        }
        LongScenario { child, lines, _directory: directory }
    }
}

/// A run of `feed` that has begun.
struct LongScenario {
    child: Child,
    lines: BufReader<ChildStdout>,
    _directory: TempDir,
}

impl LongScenario {
    fn terminate(&self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process id"), Signal::TERM).expect("it runs");
    }

    /// Reads what is left of it.
    fn finish(mut self) -> CommandOutput {
        let mut stdout = String::new();
        self.lines.read_to_string(&mut stdout).expect("stdout is text");
        let output = self.child.wait_with_output().expect("cardswitch ends");
        let stderr = String::from_utf8(output.stderr).expect("stderr is text");
        CommandOutput { code: output.status.code(), stdout, stderr }
    }
}

/// A file with this text, and its directory.
fn written(text: &str) -> (TempDir, PathBuf) {
    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path().join("written.toml");
    fs::write(&path, text).expect("a scenario can be written");
    (directory, path)
}

fn ledger_of(api: &HttpClient) -> i64 {
    minor(&api.get("/v1/accounts").expect(200)["results"][0]["ledger_balance"])
}

/// The addresses of a switch: ISO 8583 and HTTP.
pub(crate) fn doors_of(switch: &Switch) -> (SocketAddr, SocketAddr) {
    (switch.iso8583, switch.http)
}

pub(crate) fn run_scenario(
    installation: &Installation,
    doors: (SocketAddr, SocketAddr),
    door: &str,
    path: &Path,
) -> CommandOutput {
    run_cardswitch(&texts(&scenario_arguments(installation, doors, door, path)))
}

fn texts(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

fn scenario_arguments(
    installation: &Installation,
    (iso8583, http): (SocketAddr, SocketAddr),
    door: &str,
    path: &Path,
) -> Vec<String> {
    let (iso8583, http) = (iso8583.to_string(), format!("http://{http}"));
    let credentials = &installation.credentials;
    let arguments = [
        "feed",
        "--scenario",
        path.to_str().expect("UTF-8"),
        "--door",
        door,
        "--connect",
        &iso8583,
        "--http",
        &http,
        "--network-key",
        &credentials.network_key,
        "--access-token",
        &credentials.access_token,
    ];
    arguments.map(str::to_owned).to_vec()
}

/// The scenario files, in the order of their names.
fn scenario_files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let entries = fs::read_dir(directory).expect("the scenarios are there");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    assert!(!paths.is_empty(), "there are scenarios");
    paths
}

#[test]
fn every_scenario_goes_as_it_expects_through_both_doors() {
    let stage = Stage::new(951);
    for path in scenario_files() {
        // One after the other on one switch: each has to leave nothing behind that a later one sees.
        let tables = ["iso8583", "http"].map(|door| {
            let output = stage.run(door, &path);
            assert_eq!(output.code, Some(0), "{} over {door}: {output:#?}", path.display());
            output.stdout
        });
        assert_eq!(tables[0], tables[1], "{}: the doors answer differently", path.display());
    }
    stage.switch.stop();
    stage.installation.verify_ok();
}

/// The story of a simulated world, told by the model, goes the same way at a running switch.
#[test]
fn the_stories_of_simulated_worlds_go_as_told_through_both_doors() {
    let stage = Stage::new(957);
    let directory = TempDir::new().expect("a temporary directory");
    for seed in 1..=3 {
        let path = directory.path().join(format!("{seed}.toml"));
        let told = Command::new(env!("CARGO_BIN_EXE_simulate"))
            .args(["--first", &seed.to_string(), "--seeds", "1", "--commands", "150"])
            .arg("--scenario-out")
            .arg(&path)
            .output()
            .expect("the simulator starts");
        assert!(told.status.success() && path.exists(), "{told:?}");
        for door in ["iso8583", "http"] {
            let output = stage.run(door, &path);
            assert_eq!(output.code, Some(0), "seed {seed} over {door}: {output:#?}");
        }
    }
    stage.switch.stop();
    stage.installation.verify_ok();
}

#[test]
fn a_failed_expectation_is_told_and_ends_the_run() {
    let stage = Stage::new(952);
    let text = r#"about = "Wrong on purpose"

[[step]]
authorize = 100.00
as = "lunch"

[[step]]
present = 90.00
of = "lunch"
state = "pending"
balance = 900.00
ledger = 1
card_state = "active"

[[step]]
look = "lunch"
"#;
    let (output, path) = stage.run_text(text);
    assert_eq!(output.code, Some(1), "{output:#?}");
    let told = [
        "  ok       3  authorize 100.00 as lunch",
        "  WRONG    7  present 90.00 of lunch",
        "balance: expected 900.00, found 910.00",
        "ledger: expected 1.00, found -90.00",
        "state: expected pending, found completed",
    ];
    for line in told {
        assert!(output.stdout.contains(line), "`{line}` is missing: {output:#?}");
    }
    assert!(!output.stdout.contains("card_state"), "what is right is not told: {output:#?}");
    assert!(!output.stdout.contains("look"), "nothing follows: {output:#?}");
    let error = output.expect_one_line_error();
    assert!(error.contains(&format!("{}, line 7", path.display())), "{error}");
}

#[test]
fn a_scenario_for_another_line_of_credit_is_refused() {
    let stage = Stage::new(956);
    let text = r#"about = "x"

[setup.account]
available = 5
credit_limit = 400

[[step]]
authorize = 5
"#;
    let (output, _) = stage.run_text(text);
    assert_eq!((output.code, output.stdout.lines().count()), (Some(1), 1), "{output:#?}");
    let error = output.expect_one_line_error();
    assert!(error.contains("a line of credit of 400.00, and the company's is 500.00"), "{error}");
}

#[test]
fn an_unexpected_answer_is_told() {
    let stage = Stage::new(953);
    let text = "about = \"x\"\n[[step]]\nauthorize = 1000.01\n";
    let (output, _) = stage.run_text(text);
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert!(output.stdout.contains("expect: expected 0, found 1502"), "{output:#?}");
}

#[test]
fn an_unknown_key_is_told_with_its_file_and_line() {
    let stage = Stage::new(954);
    let text = "about = \"x\"\n[[step]]\nauthorize = 5\n\n[[step]]\ncolour = 1\n";
    let (output, path) = stage.run_text(text);
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{output:#?}");
    let error = output.expect_one_line_error();
    assert!(error.contains(&format!("{}, line 6", path.display())), "{error}");
    assert!(error.contains("unknown field `colour`"), "{error}");
}

#[test]
fn a_switch_on_the_system_clock_is_refused() {
    let installation = Installation::init(1, 955);
    let switch = installation.serve();
    let path = &scenario_files()[0];
    let output = run_scenario(&installation, doors_of(&switch), "iso8583", path);
    assert_eq!(output.code, Some(1), "{output:#?}");
    let error = output.expect_one_line_error();
    assert!(error.contains("serve --clock manual"), "{error}");
}

/// The money that a scenario takes away stayed away when somebody ended it: later ones were
/// declined for want of it.
#[test]
fn a_stopped_scenario_gives_the_money_back() {
    let stage = Stage::new(958);
    let before = stage.ledger();
    let scenario = stage.start_long();
    assert_eq!(stage.ledger(), 100_000);
    scenario.terminate();
    let output = scenario.finish();
    assert_eq!(output.code, Some(1), "{output:#?}");
    assert!(output.expect_one_line_error().contains("stopped"), "{output:#?}");
    assert_eq!(stage.ledger(), before);
}

#[test]
fn a_scenario_whose_switch_is_gone_tells_how_to_give_the_money_back() {
    let stage = Stage::new(959);
    let before = stage.ledger();
    let scenario = stage.start_long();
    stage.switch.kill9();
    let error = scenario.finish().expect_one_line_error();
    let switch = stage.installation.serve_with(&["--clock", "manual"]);
    assert_eq!(ledger_of(&switch.api()), 100_000);
    let transfer = error.find('{').zip(error.rfind('}'));
    let (start, end) = transfer.unwrap_or_else(|| panic!("no transfer is told: {error}"));
    let transfer: Value = serde_json::from_str(&error[start..=end]).expect("a body of JSON");
    switch.network_api().post("/network/v1/transfers", &transfer).expect(200);
    assert_eq!(ledger_of(&switch.api()), before, "{error}");
}

/// Money that was put in stayed there.
#[test]
fn money_put_in_for_a_scenario_is_taken_out_again() {
    let stage = Stage::new(960);
    let before = stage.ledger();
    let text = |steps: &str| {
        let setup = "[setup.account]\navailable = 90000000\ncredit_limit = 500\n";
        format!("about = \"Rich\"\n{setup}{steps}")
    };
    let (output, _) = stage.run_text(&text("[[step]]\npurchase = 5\navailable = 89999995\n"));
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert_eq!(stage.ledger(), before - 500);
    // Of money that was spent, nothing is left to be taken out.
    let (output, _) = stage.run_text(&text("[[step]]\ntransfer = -89999000\nsettled = true\n"));
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert_eq!(stage.ledger(), 0);
}

#[test]
fn a_run_is_told_as_one_json_line() {
    let stage = Stage::new(961);
    let told = |text: &str| {
        let (_directory, path) = written(text);
        let doors = doors_of(&stage.switch);
        let mut arguments = scenario_arguments(&stage.installation, doors, "http", &path);
        arguments.push("--json".to_owned());
        let output = run_cardswitch(&texts(&arguments));
        assert_eq!(output.stdout.lines().count(), 1, "{output:#?}");
        (output.code, path, last_json_line(&output.stdout))
    };
    let steps = "about = \"x\"\n[[step]]\npurchase = 5\n[[step]]\npurchase = 6\n";
    let (code, _, report) = told(steps);
    assert_eq!(code, Some(0));
    assert_eq!(report, json!({"files": 1, "steps": 2, "error": null, "wrong": null}));
    let (code, path, report) = told(&format!("{steps}balance = 1\n[[step]]\npurchase = 7\n"));
    assert_eq!((code, &report["steps"]), (Some(1), &json!(2)), "{report}");
    let path = path.to_str().expect("UTF-8");
    assert!(report["error"].as_str().is_some_and(|error| error.contains(path)), "{report}");
    let wrong = json!({
        "file": path,
        "line": 4,
        "step": "purchase 6.00",
        "answer": report["wrong"]["answer"],
        "mismatches": [{"key": "balance", "expected": "1.00", "found": "989.00"}],
    });
    assert_eq!(report["wrong"], wrong);
}

#[test]
fn arguments_without_a_meaning_for_scenarios_are_refused() {
    let path = scenario_files()[0].to_string_lossy().into_owned();
    for further in [
        &["--cards", "nonexist"][..],
        &["--rate", "5"],
        &["--duration", "3d"],
        &["--seed", "2"],
        &["--speed", "max"],
        &["--connections", "3"],
    ] {
        let mut arguments = vec!["feed", "--scenario", &path];
        arguments.extend(["--http", "http://127.0.0.1:1", "--network-key", "k"]);
        arguments.extend(["--access-token", "t"]);
        arguments.extend(further);
        let output = run_cardswitch(&arguments);
        assert_eq!(output.code, Some(2), "{further:?}: {output:#?}");
        assert!(output.stderr.contains(further[0]), "{output:#?}");
    }
}

#[test]
fn an_account_in_another_currency_is_refused_by_name() {
    let installation = Installation::init_with(1, 962, &["--currency", "EUR"]);
    let switch = installation.serve_with(&["--clock", "manual"]);
    let path = &scenario_files()[0];
    let output = run_scenario(&installation, doors_of(&switch), "iso8583", path);
    let error = output.expect_one_line_error();
    assert!(error.contains("amounts are in USD, and the company's account is in EUR"), "{error}");
    let cards = switch.api().get("/v1/cards").expect(200)["count"].clone();
    assert_eq!(cards, 1, "nothing was made before");
}

/// The errors of the door came without the file, and a time beyond all calendars as a panic.
#[test]
fn an_error_of_a_step_or_of_the_setup_names_its_file_and_line() {
    let stage = Stage::new(963);
    let steps = "[[step]]\nadvance = \"36500d\"\n".repeat(90);
    let rows = [
        (format!("about = \"x\"\n{steps}"), "RFC 3339"),
        (
            "about = \"x\"\n[[step]]\npurchase = 5\n\n[setup.cards.lunch]\ninterval = \"hourly\"\n"
                .to_owned(),
            "line 5: the card `lunch`",
        ),
    ];
    for (text, part) in rows {
        let (output, path) = stage.run_text(&text);
        let error = output.expect_one_line_error();
        assert!(error.contains(&format!("{}, line ", path.display())), "{error}");
        assert!(error.contains(part), "{error}");
    }
}
