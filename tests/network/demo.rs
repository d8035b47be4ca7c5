//! `demo`, `feed` and `send`: the simulated card network as a newcomer meets it.

use cardswitch_harness::{CommandOutput, Installation, Switch, campaign_scaled, run_cardswitch};
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn virtual_days_from_one_seed_repeat_exactly() {
    let (first, second) = (virtual_days(), virtual_days());
    for report in [&first, &second] {
        assert_demo_report(report);
        assert_eq!(report["seed"], 11);
        assert_eq!(report["duration_s"].as_f64(), Some(86_400.0 * days() as f64), "virtual too");
        let presentments = report["presentments"].as_u64();
        assert!(presentments.is_some_and(|count| count > 0), "days pass, purchases settle");
        let refunds = report["refunds"].as_u64();
        assert!(refunds.is_some_and(|count| count > 0), "and some are refunded");
        let more_and_less = (&report["increments"], &report["approved_in_part"]);
        assert!(more_and_less.0.as_u64() > Some(0), "stays grow: {report:#}");
        assert!(more_and_less.1.as_u64() > Some(0), "terminals take less: {report:#}");
    }
    assert_eq!(repeatable(&first), repeatable(&second));
}

#[test]
fn real_time_demo_piped_ends_with_its_report() {
    let directory = TempDir::new().expect("a temporary directory");
    let data = directory.path().join("demo");
    let output = run_cardswitch(&[
        "demo",
        "--data",
        data.to_str().expect("UTF-8"),
        "--duration",
        "5s",
        "--rate",
        "100",
        "--cards",
        "100",
        "--seed",
        "11",
        "--json",
    ]);
    let report = output.expect_json();
    assert_demo_report(&report);
    assert!(!output.stdout.contains('\u{1b}'), "no terminal codes in a pipe");
    assert_no_card_numbers(&output);
    let kept = std::fs::read_to_string(data.join("credentials.json")).expect("credentials");
    let kept: Value = serde_json::from_str(&kept).expect("JSON");
    for told in ["http://127.0.0.1:", "admin@example.com", kept["admin_password"].as_str().unwrap()]
    {
        assert!(output.stderr.contains(told), "a newcomer is told the way in: {told}");
    }
}

#[test]
fn feed_and_the_switch_in_another_process_keep_the_same_books() {
    let installation = Installation::init(100, 921);
    let switch = installation.serve();
    let cards_file = installation.cards_file();
    let iso8583 = switch.iso8583.to_string();
    let http = format!("http://{}", switch.http);
    let mut arguments = vec!["feed", "--connect", &iso8583];
    arguments.extend(["--cards", cards_file.to_str().expect("UTF-8")]);
    arguments.extend(["--rate", "200", "--duration", "8s", "--seed", "3", "--json"]);

    // Without the HTTP door the books are compared by balance inquiries; with it, row by row.
    assert_feed_report(&run_cardswitch(&arguments).expect_json());
    let seed = arguments.len() - 2;
    arguments[seed] = "4";
    arguments.extend(["--http", &http, "--network-key", &installation.credentials.network_key]);
    let output = run_cardswitch(&arguments);
    assert_feed_report(&output.expect_json());
    assert_no_card_numbers(&output);

    let log = switch.log();
    for card in installation.cards.all() {
        assert!(!log.contains(&card.pan), "a card number is in the log of the switch");
    }
    switch.stop();
    installation.verify_ok();
}

/// A feed with all cards of an installation that knows both doors of its switch.
fn feed(installation: &Installation, switch: &Switch, further: &[&str]) -> CommandOutput {
    let cards_file = installation.cards_file();
    let (iso8583, http) = (switch.iso8583.to_string(), format!("http://{}", switch.http));
    let cards = cards_file.to_str().expect("UTF-8");
    let key = &installation.credentials.network_key;
    let doors = ["feed", "--connect", &iso8583, "--http", &http, "--network-key", key];
    run_cardswitch(&[&doors[..], &["--cards", cards], further].concat())
}

/// Once, it ended in a panic before the first purchase.
#[test]
fn a_feed_in_virtual_time_asks_the_switch_for_its_clock() {
    let installation = Installation::init(100, 927);
    let switch = installation.serve_with(&["--clock", "manual"]);
    let pace = ["--speed", "max", "--duration", "2h", "--json"];
    assert_feed_report(&feed(&installation, &switch, &pace).expect_json());
    switch.stop();
    installation.verify_ok();
}

/// Once, hours went by for the feed alone: no hold expired, no day ended, and nothing said so.
#[test]
fn a_feed_in_virtual_time_refuses_a_switch_of_the_systems_clock() {
    let installation = Installation::init(3, 928);
    let switch = installation.serve();
    let output = feed(&installation, &switch, &["--speed", "max"]);
    assert_eq!(output.code, Some(2), "{output:#?}");
    assert!(output.stderr.contains("needs a switch on a manual clock"), "{output:#?}");
    switch.stop();
}

#[test]
fn a_feed_that_sends_nothing_is_wrong_usage() {
    for further in [["--duration", "0s"], ["--connections", "0"], ["--connections", "65"]] {
        let output = run_cardswitch(&[&["feed", "--cards", "none"][..], &further].concat());
        assert_eq!(output.code, Some(2), "{further:?}: {output:#?}");
    }
    let output = run_cardswitch(&["send", "--mti", "01"]);
    assert_eq!(output.code, Some(2), "{output:#?}");
}

/// Each mishap, thirty times as often as anybody meets it: messages get lost, doubled, late and cut.
#[test]
fn a_hostile_feed_and_the_switch_keep_the_same_books() {
    let installation = Installation::init(100, 926);
    let switch = installation.serve();
    let pace = ["--connections", "4", "--rate", "150", "--duration", "8s", "--json"];
    let rates = "lost=30,late=30,copied=30,cut=30,vanished=30,dribbled=30,noise=30,stranger=30";
    let hostile = ["--hostile", "5", "--hostile-rates", rates];
    let output = feed(&installation, &switch, &[&pace[..], &hostile].concat());
    let report = output.expect_json();
    assert_eq!(report["book_differences"], 0, "{output:#?}");
    assert!(report["cards_compared"].as_u64() > Some(50), "{report:#}");
    let mishaps = report["mishaps"].as_object().expect("each by name");
    assert!(mishaps.values().all(|count| count.as_u64() > Some(5)), "{report:#}");
    assert_no_card_numbers(&output);
    switch.stop();
    installation.verify_ok();
}

/// Cards of another directory: nothing of them is there to compare, which read as "0 differences".
#[test]
fn a_feed_that_could_check_nothing_says_so() {
    let (installation, other) = (Installation::init(60, 924), Installation::init(60, 925));
    let switch = installation.serve();
    let (iso8583, http) = (switch.iso8583.to_string(), format!("http://{}", switch.http));
    let cards_file = other.cards_file();
    let cards_file = cards_file.to_str().expect("UTF-8");
    let plain = ["feed", "--connect", &iso8583, "--cards", cards_file, "--duration", "1s"];
    let key = &installation.credentials.network_key;
    let with_http = [&plain[..], &["--http", &http, "--network-key", key]].concat();
    for arguments in [&plain[..], &with_http] {
        let output = run_cardswitch(arguments);
        assert_eq!(output.code, Some(1), "{output:#?}");
        assert!(output.stdout.contains("books: NOT CHECKED"), "{output:#?}");
        assert!(!output.stdout.contains("0 differences"), "{output:#?}");
        let error = output.expect_one_line_error();
        assert!(error.contains("no book could be checked"), "{error}");
        let json = [arguments, &["--json"]].concat();
        let report: Value =
            serde_json::from_str(&run_cardswitch(&json).stdout).expect("a report all the same");
        assert_eq!(report["cards_compared"], 0, "{report:#}");
        assert!(report["cards_unchecked"].as_u64() > Some(0), "{report:#}");
    }
}

#[test]
fn feed_of_nobody_is_told_in_one_line() {
    let installation = Installation::init(60, 922);
    let cards_file = installation.cards_file();
    let cards_file = cards_file.to_str().expect("UTF-8");
    let arguments =
        ["feed", "--connect", "127.0.0.1:1", "--cards", cards_file, "--duration", "1s", "--json"];
    let error = run_cardswitch(&arguments).expect_one_line_error();
    assert!(error.contains("127.0.0.1:1"), "which address? `{error}`");
}

#[test]
fn send_prints_the_request_and_the_answer() {
    let installation = Installation::init(60, 923);
    let switch = installation.serve();
    let address = switch.iso8583.to_string();
    let output = run_cardswitch(&[
        "send",
        "--connect",
        &address,
        "--mti",
        "0800",
        "7=0115120000",
        "11=000001",
        "70=301",
    ]);
    assert_eq!(output.code, Some(0), "{output:#?}");
    for word in ["0800", "0810", "301", "000001"] {
        assert!(output.stdout.contains(word), "`{word}` in {}", output.stdout);
    }
}

#[test]
fn every_command_has_help_and_unknown_ones_a_usage_error() {
    for command in ["init", "serve", "demo", "feed", "send", "verify", "company"] {
        let output = run_cardswitch(&[command, "--help"]);
        assert_eq!(output.code, Some(0), "{output:#?}");
        assert!(output.stdout.contains("Usage:"), "{command}: {}", output.stdout);
    }
    let output = run_cardswitch(&["nonsense"]);
    assert_eq!(output.code, Some(2), "{output:#?}");
}

fn days() -> usize {
    campaign_scaled(1, 3)
}

/// Virtual days, as fast as they go.
#[track_caller]
fn virtual_days() -> Value {
    let directory = TempDir::new().expect("a temporary directory");
    let data = directory.path().join("demo");
    let data = data.to_str().expect("UTF-8");
    let duration = format!("{}d", days());
    let mut arguments = vec!["demo", "--data", data, "--speed", "max", "--duration", &duration];
    arguments.extend(["--cards", "200", "--seed", "11", "--json"]);
    let report = run_cardswitch(&arguments).expect_json();
    let verified = run_cardswitch(&["verify", "--data", data, "--json"]).expect_json();
    assert_eq!(verified["ok"], true, "verify agrees with the report: {verified:#}");
    report
}

/// A report without what depends on the machine.
fn repeatable(report: &Value) -> Value {
    let mut report = report.clone();
    for key in ["p50_us", "p99_us", "authorizations_per_s"] {
        report.as_object_mut().expect("a report is an object").remove(key);
    }
    report
}

#[track_caller]
fn assert_demo_report(report: &Value) {
    assert_feed_report(report);
    assert_eq!(report["verify"], "ok", "{report:#}");
    assert!(report["state_hash"].as_str().is_some_and(|hash| !hash.is_empty()), "{report:#}");
}

#[track_caller]
fn assert_feed_report(report: &Value) {
    let count = |key: &str| report[key].as_u64().expect("a count");
    for key in [
        "seed",
        "authorizations",
        "approved",
        "approved_in_part",
        "increments",
        "completions",
        "reversed",
        "presentments",
        "refunds",
        "duplicates",
        "unanswered",
        "book_differences",
        "cards_compared",
        "cards_unchecked",
        "p50_us",
        "p99_us",
    ] {
        assert!(report[key].is_u64(), "`{key}` is a whole number: {report:#}");
    }
    for key in ["duration_s", "authorizations_per_s"] {
        assert!(report[key].is_number(), "`{key}` is a number: {report:#}");
    }
    assert_eq!((count("book_differences"), count("unanswered")), (0, 0), "{report:#}");
    let declined = report["declined"].as_object().expect("declines by code");
    let declines: u64 = declined.values().filter_map(Value::as_u64).sum();
    assert!(declines > 0 && count("approved") > 0, "a realistic mix: {report:#}");
    assert!(count("cards_compared") > 0, "{report:#}");
    assert_eq!(count("authorizations"), count("approved") + declines, "{report:#}");
}

/// Reports carry ids, never card numbers. A hash may have sixteen digits in a row by chance.
#[track_caller]
fn assert_no_card_numbers(output: &CommandOutput) {
    for text in [&output.stdout, &output.stderr] {
        let mut digits = 0;
        let text = text.split("state_hash").next().unwrap_or_default();
        for character in text.chars() {
            digits = if character.is_ascii_digit() { digits + 1 } else { 0 };
            assert!(digits < 16, "sixteen digits in a row may be a card number: {text}");
        }
    }
}
