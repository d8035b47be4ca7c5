//! `dev`, `buy` and `bench`: the first minute of a new user.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use cardswitch_harness::{
    CommandOutput, Installation, Switch, cardswitch_after, run_cardswitch, run_cardswitch_with,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// `buy` at a switch that is named by flags.
#[track_caller]
fn buy(installation: &Installation, switch: &Switch, arguments: &[&str]) -> CommandOutput {
    let (connect, url) = (switch.iso8583.to_string(), format!("http://{}", switch.http));
    let (token, key) =
        (&installation.credentials.access_token, &installation.credentials.network_key);
    let at = ["--connect", &connect, "--url", &url, "--token", token, "--network-key", key];
    run_cardswitch(&[&["buy"], arguments, &at].concat())
}

#[test]
fn a_purchase_is_told_in_words_whatever_the_card_is_named_by() {
    let installation = Installation::init(3, 1_601);
    let switch = installation.serve();
    let api = switch.api();
    let new = |description: &str| {
        let allowance = json!({"amount": 200, "transaction_limit": 60, "scope": [5812, 5814]});
        let body = json!({"description": description, "is_virtual": true, "allowance": allowance});
        api.post("/v1/cards", &body).expect(201)
    };
    let (lunches, _other) = (new("Team lunches"), new("Team offsite"));
    let text = |key: &str| lunches[key].as_str().expect("a text").to_owned();
    let (id, last_four) = (text("id"), text("last_four"));
    for named in [&id, &last_four, "Team lunches", "lunch", "team LUNCHES"] {
        let output = buy(&installation, &switch, &[named, "4.50"]);
        output.expect_done();
        assert!(
            output.stdout.starts_with("approved: 4.50 USD at Noodle bar (5812)\n"),
            "{output:#?}"
        );
    }
    let ambiguous = buy(&installation, &switch, &["team", "4.50"]);
    assert!(ambiguous.expect_one_line_error().contains("names 2 cards"));
    assert!(ambiguous.stdout.contains(&id) && ambiguous.stdout.contains("Team offsite"));
    for (wrong, told) in [
        (&["nobody", "4.50"][..], "no card ends in `nobody`"),
        (&["01890000-0000-7000-8000-000000000000", "4.50"], "no card `0189"),
        (&["lunch", "0"], "`0` is no amount"),
        (&["lunch", "1.234"], "`1.234` is no amount"),
        (&["lunch", "4.50", "--currency", "EURO"], "`EURO` is no currency"),
    ] {
        let error = buy(&installation, &switch, wrong).expect_one_line_error();
        assert!(error.contains(told), "{wrong:?}: {error}");
    }

    let declined = buy(&installation, &switch, &["lunch", "75", "--mcc", "5411"]);
    declined.expect_done();
    for told in
        ["declined 1501", "  out_of_scope: ", "  transaction_limit: ", "To approve it in full:\n"]
    {
        assert!(declined.stdout.contains(told), "{told}: {declined:#?}");
    }
    // The words are those of `explain`.
    let transactions = api.get(&format!("/v1/transactions?card={id}&limit=1")).expect(200);
    let transaction = transactions["results"][0]["id"].as_str().expect("an id").to_owned();
    assert!(declined.stdout.contains(&transaction), "{declined:#?}");
    let limit = buy(&installation, &switch, &["lunch", "75"]);
    assert!(limit.stdout.contains("or request at most 60.00\n"), "{limit:#?}");
    switch.stop();
    let data = installation.data();
    let explained =
        run_cardswitch(&["explain", "--data", data.to_str().expect("UTF-8"), &transaction]);
    let remedies = |text: &str| {
        let (_, remedies) = text.split_once("To approve it in full:\n").expect("remedies");
        remedies.to_owned()
    };
    assert_eq!(remedies(&declined.stdout), remedies(&explained.stdout));
    installation.verify_ok();
}

#[test]
fn a_purchase_is_settled_reversed_or_given_back() {
    let installation = Installation::init(3, 1_602);
    let switch = installation.serve();
    let card = installation.cards.ordinary().card_id.clone();
    for (then, told) in [
        (&["--clear", "28"][..], "cleared"),
        (&["--reverse"], "reversed"),
        (&["--refund"], "refunded"),
    ] {
        let output = buy(&installation, &switch, &[&[card.as_str(), "24.50"], then].concat());
        output.expect_done();
        assert_eq!(output.stdout.lines().last(), Some(told), "{output:#?}");
    }
    let both = buy(&installation, &switch, &[&card, "24.50", "--reverse", "--refund"]);
    assert_eq!(both.code, Some(2), "{both:#?}");
    let path = format!("/v1/transactions?card={card}&limit=10");
    let found = switch.api().get(&path).expect(200);
    let found: Vec<_> = found["results"]
        .as_array()
        .expect("transactions")
        .iter()
        .map(|row| {
            let amount = row["amount"].as_f64().unwrap_or_default();
            format!("{} {amount:.2}", row["state"].as_str().unwrap_or_default())
        })
        .collect();
    assert_eq!(
        found,
        ["completed 24.50", "completed -24.50", "canceled 0.00", "completed -28.00"],
        "the newest first"
    );
    switch.stop();
    installation.verify_ok();
}

/// A `dev` in a state directory of the test's own, ended when dropped.
struct Dev {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Dev {
    fn start(state: &Path, arguments: &[&str]) -> Self {
        let ports =
            ["--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
        let mut command = cardswitch_after(":", &[&["dev"], &ports[..], arguments].concat());
        command.env("XDG_STATE_HOME", state).stdin(Stdio::null());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe was asked for"));
        Self { child, stdout }
    }

    /// The lines until the one that buys something.
    fn told(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while told.last().is_none_or(|line: &String| !line.contains(" buy ")) {
            let mut line = String::new();
            let read = self.stdout.read_line(&mut line).expect("a line");
            assert!(read > 0, "it ended: {told:#?}");
            told.push(line.trim_end().to_owned());
        }
        told
    }

    fn stop(mut self) {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status().expect("kill runs");
        assert!(asked.success());
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Both fail where it was stopped, which is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The text behind a word at the start of a line.
fn after<'a>(told: &'a [String], word: &str) -> &'a str {
    let found = told.iter().find_map(|line| line.trim_start().strip_prefix(word));
    found.expect(word).trim()
}

#[test]
fn dev_is_found_by_buy_and_keeps_what_is_in_it() {
    let state = TempDir::new().expect("a temporary directory");
    let home = state.path().to_str().expect("UTF-8");
    let paste = |line: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", line]).env("XDG_STATE_HOME", state.path());
        let output = command.output().expect("a shell");
        assert!(output.status.success(), "{line}: {output:#?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let nobody = run_cardswitch_with(&["buy", "1234", "1"], &[("XDG_STATE_HOME", home)]);
    assert!(nobody.expect_one_line_error().contains("start `cardswitch dev`"));

    let mut dev = Dev::start(state.path(), &[]);
    let told = dev.told();
    let password = after(&told, "password").to_owned();
    assert!(!password.is_empty() && !after(&told, "network key").is_empty());
    let card: Value =
        serde_json::from_str(&paste(after(&told, "curl").replace("-sS", "curl -sS").as_str()))
            .expect("a card");
    assert_eq!(card["state"], "active", "{card:#}");
    let bought = paste(told.last().expect("a line").trim());
    assert!(bought.starts_with("approved: 24.50 USD"), "{bought}");
    // Once, `buy` used the former key and told nothing of another.
    let data = state.path().join("cardswitch/dev");
    let replace = ["network-key", "replace", "--json", "--data", data.to_str().expect("UTF-8")];
    let replaced = run_cardswitch(&replace).expect_json();
    let bought = paste(told.last().expect("a line").trim());
    assert!(bought.starts_with("approved: 24.50 USD"), "{bought}");
    let key = replaced["network_key"].as_str().expect("a key");
    let given = format!("{} --network-key {key}", told.last().expect("a line").trim());
    assert!(paste(&given).starts_with("approved: 24.50 USD"), "it is still the switch of `dev`");

    let second = run_cardswitch_with(&["dev"], &[("XDG_STATE_HOME", home)]).expect_one_line_error();
    let serving = after(&told, "serving").replace(" and", "");
    let url = serving.split(' ').next().expect("an address");
    assert!(second.contains("runs already") && second.contains(url), "{second}");
    let reset = ["dev", "--reset"];
    let reset = run_cardswitch_with(&reset, &[("XDG_STATE_HOME", home)]).expect_one_line_error();
    assert!(reset.contains("runs already"), "{reset}");
    dev.stop();

    // The earlier program is there again, until `--reset` begins anew.
    let mut dev = Dev::start(state.path(), &[]);
    let again = dev.told();
    assert_eq!(after(&again, "password"), password);
    assert_eq!(after(&again, "network key"), key);
    dev.stop();
    let mut dev = Dev::start(state.path(), &["--reset"]);
    assert_ne!(after(&dev.told(), "password"), password);
    dev.stop();
}

#[test]
fn dev_removes_nothing_that_it_did_not_make() {
    let state = TempDir::new().expect("a temporary directory");
    let precious = state.path().join("cardswitch/dev");
    std::fs::create_dir_all(&precious).expect("a directory");
    std::fs::write(precious.join("letter"), "dear").expect("a file");
    let home = state.path().to_str().expect("UTF-8");
    let reset = run_cardswitch_with(&["dev", "--reset"], &[("XDG_STATE_HOME", home)]);
    assert!(reset.expect_one_line_error().contains("was not made by `cardswitch dev`"));
    assert_eq!(std::fs::read_to_string(precious.join("letter")).expect("the file"), "dear");
}

#[test]
fn bench_tells_two_figures_beside_their_yardsticks_and_leaves_nothing() {
    let place = TempDir::new().expect("a temporary directory");
    let arguments = ["bench", "--duration", "3s", "--cards", "30", "--in"];
    let output =
        run_cardswitch(&[&arguments[..], &[place.path().to_str().expect("UTF-8")]].concat());
    output.expect_done();
    for told in
        ["\nauthorizations ", "  yardsticks ", "\np99 at ", "\ncardswitch ", " cores, Linux "]
    {
        assert!(output.stdout.contains(told), "{told}: {output:#?}");
    }
    let paste = output.stdout.lines().last().expect("a line");
    assert!(paste.contains("authorizations/s (echo") && paste.contains("4 KiB write"), "{paste}");
    assert_eq!(std::fs::read_dir(place.path()).expect("the directory").count(), 0);
}

/// Once, the figures of a millisecond were told, and a directory was made for a slip of the pen.
#[test]
fn a_bench_of_no_time_or_nowhere_is_wrong_usage() {
    let place = TempDir::new().expect("a temporary directory");
    let typo = place.path().join("typo");
    let nowhere = ["--duration", "1s", "--in", typo.to_str().expect("UTF-8")];
    for (arguments, word) in [
        (&["--duration", "0s"][..], "at least 1s"),
        (&["--duration", "999ms"], "at least 1s"),
        (&nowhere, "is no directory"),
    ] {
        let output = run_cardswitch(&[&["bench", "--cards", "30"], arguments].concat());
        assert_eq!(output.code, Some(2), "{output:#?}");
        assert!(output.stderr.contains(word), "{output:#?}");
    }
    assert!(!typo.exists());
}

/// Once, it left its directory.
#[test]
fn a_bench_that_is_ended_leaves_nothing() {
    let place = TempDir::new().expect("a temporary directory");
    let path = place.path().to_str().expect("UTF-8");
    let arguments = ["bench", "--duration", "1h", "--cards", "30", "--in", path];
    let mut bench =
        cardswitch_after(":", &arguments).stdout(Stdio::piped()).spawn().expect("it starts");
    let stdout = BufReader::new(bench.stdout.take().expect("a pipe"));
    // The loads have begun.
    let begun = stdout.lines().map_while(Result::ok).find(|line| line.contains("test cards"));
    assert!(begun.is_some());
    let kill = format!("kill -TERM {}", bench.id());
    Command::new("sh").args(["-c", &kill]).status().expect("sh is there");
    assert_eq!(bench.wait().expect("it ends").code(), Some(1));
    assert_eq!(std::fs::read_dir(place.path()).expect("the directory").count(), 0);
}

#[test]
fn a_command_ends_without_a_word_once_nobody_reads() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = cardswitch_after(":", &["dialect", "show", "1993"]);
    let output = command.stdout(writer).stderr(Stdio::piped()).output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(141), "as shells call it");
}

/// Once, it was a panic.
#[test]
fn an_output_that_takes_nothing_is_told_in_one_line() {
    let mut command = cardswitch_after("exec > /dev/full", &["dialect", "show", "1993"]);
    let output = command.output().expect("a shell starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let expected = "cardswitch: output could not be written: No space left on device";
    assert!(told.starts_with(expected) && told.lines().count() == 1, "{told}");
}
