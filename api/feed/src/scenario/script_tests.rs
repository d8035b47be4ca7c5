//! The content that a scenario file may have, and the lines in which refused content is reported.

use super::*;

fn flaw_of(text: &str) -> (usize, String) {
    let flaw = Script::parse(text).expect_err(text);
    (flaw.line, flaw.message)
}

#[test]
fn a_scenario_is_read() {
    let text = r#"
about = "Dinner with a tip"

[[step]]
authorize = 100.00
as = "dinner"
mcc = 5812
balance = 900

[[step]]
present = 118
of = "dinner"
state = "completed"
amount = -118.00

[[step]]
reverse = "dinner"
expect = "nothing_held"
"#;
    let script = Script::parse(text).unwrap();
    let shown: Vec<String> = script.steps.iter().map(Step::to_string).collect();
    assert_eq!(shown, ["authorize 100.00 as dinner", "present 118.00 of dinner", "reverse dinner"]);
    let [authorize, present, reverse] = &script.steps[..] else { panic!("three steps") };
    assert_eq!((authorize.line, present.line, reverse.line), (4, 10, 16));
    assert_eq!(authorize.card, "card");
    assert_eq!(authorize.expected_answer(), Some(ExpectedAnswer::APPROVED));
    assert_eq!(present.subject(), Some("dinner"));
    assert_eq!(reverse.expected_answer(), Some(ExpectedAnswer::of_reason("nothing_held")));
}

#[test]
fn a_flaw_is_named_with_its_line_and_key() {
    let rows = [
        ("colour = 1", 3, "unknown field `colour`"),
        ("authorize = 1.005", 3, "`1.005` has more than the 2 decimals of USD"),
        ("authorize = 10000000000", 3, "above 9999999999.99"),
        ("advance = \"4294967295d\"", 3, "at most 36500 days"),
        ("authorize = 5\npresent = 5", 2, "`authorize` and `present`"),
        ("mcc = 5812", 2, "needs a verb"),
        ("authorize = -5", 2, "below zero"),
        ("authorize = 5\nkeep = 3", 2, "`keep` has no meaning for `authorize`"),
        ("authorize = \"5 EUR\"", 2, "`billing`"),
        ("authorize = 5\ncard = \"other\"", 2, "no card `other`"),
        ("authorize = 5\nexpect = \"Not so\"", 4, "`Not so`"),
        ("increment = 5", 2, "`of`"),
        ("authorize = 5\nmcc = 1", 2, "no merchant of the simulated network is a 1"),
        ("authorize = \"5 EUR\"\nbilling = 5\napproved = 5", 2, "`approved`"),
        ("present = 5\nof = \"lunch\"", 2, "no transaction `lunch`"),
        ("reverse = \"lunch\"", 2, "no transaction `lunch`"),
        ("advance = \"8\"", 3, "`8` is not a span"),
        ("advance = \"8d\"\nexpect = 0", 2, "nothing answers it"),
        ("advance = \"8d\"\nstate = \"canceled\"", 2, "need `of`"),
        ("suspend = \"card\"\nwrong = [\"pin\"]", 2, "`wrong`"),
        ("authorize = 5\nwrong = [\"tie\"]", 4, "tie"),
        ("reverse = \"1\"\nkeep = \"5 EUR\"", 2, "`billing`"),
        ("present = 5\nby = \"rrn\"", 2, "`by` needs `of`"),
        ("refund = 5\nof = \"1\"\nby = \"rrn\"", 2, "a refund has a reference number of its own"),
        ("again = \"1\"", 2, "no step before this one is `1`"),
        ("look = \"it\"\nrepeat = true", 2, "`repeat` has no meaning for `look`"),
    ];
    for (step, line, part) in rows {
        let (found_line, message) = flaw_of(&format!("about = \"x\"\n[[step]]\n{step}\n"));
        assert!(message.contains(part), "{step}: {message}");
        assert_eq!(found_line, line, "{step}: {message}");
    }
    let (line, message) = flaw_of("about = \"x\"\n[setup]\nstrat = \"17:00\"\n");
    assert!(line == 3 && message.contains("`strat`"), "{line}: {message}");
    assert!(flaw_of("about = \"x\"\n").1.contains("[[step]]"));
    assert!(flaw_of("[[step]]\nadvance = \"1d\"\n").1.contains("about"));
}

#[test]
fn only_a_reversal_may_overtake_and_names_are_given_once() {
    let text = |first: &str| {
        let later = "[[step]]\nauthorize = 5\nas = \"late\"\n";
        format!("about = \"x\"\n[[step]]\n{first}\n{later}")
    };
    assert!(Script::parse(&text("reverse = \"late\"")).is_ok());
    assert!(flaw_of(&text("present = 5\nof = \"late\"")).1.contains("comes later"));
    assert!(flaw_of(&text("verify = \"card\"\nas = \"late\"")).1.contains("two steps `late`"));
}

#[test]
fn a_step_fits_the_transaction_that_it_names() {
    let rows = [
        ("authorize = 5", "settle = \"it\"", "`it` is no transfer"),
        ("transfer = 5", "reverse = \"it\"", "`it` is a transfer"),
        ("transfer = 5", "present = 5\nof = \"it\"", "`it` is a transfer"),
        ("authorize = 5", "present = 5\nof = \"it\"\nmcc = 5812", "`mcc`"),
        (
            "authorize = \"5 EUR\"\nbilling = 6",
            "reverse = \"it\"\nkeep = 3",
            "`keep` is in the currency of `it`",
        ),
    ];
    for (first, second, part) in rows {
        let text = format!("about = \"x\"\n[[step]]\n{first}\nas = \"it\"\n[[step]]\n{second}\n");
        let message = flaw_of(&text).1;
        assert!(message.contains(part), "{text}: {message}");
    }
    let text = "about = \"x\"\n[[step]]\ntransfer = 5\nas = \"it\"\n[[step]]\nsettle = \"it\"\n";
    assert!(Script::parse(text).is_ok());
}

#[test]
fn a_message_that_is_sent_again_is_named_by_its_step() {
    let steps = [
        "authorize = 5\nas = \"lunch\"",
        "present = 5\nof = \"lunch\"\nas = \"bill\"",
        "again = \"bill\"\nrepeat = true\nstate = \"completed\"",
        "inquire = \"card\"",
        "again = \"4\"",
    ];
    let text = steps.map(|step| format!("[[step]]\n{step}\n")).concat();
    let script = Script::parse(&format!("about = \"x\"\n{text}")).unwrap();
    let [_, _, bill, _, inquiry] = &script.steps[..] else { panic!("five steps") };
    assert_eq!(bill.to_string(), "again bill, marked as a repeat");
    assert_eq!((bill.subject(), bill.card.as_str()), (Some("lunch"), "card"));
    assert_eq!(inquiry.again.as_ref().map(|again| again.place), Some(3));
    assert_eq!((inquiry.subject(), inquiry.card.as_str()), (None, "card"));
    for (step, part) in [
        ("reverse = \"lunch\"\nas = \"lunch\"", "two steps `lunch`"),
        ("again = \"dinner\"", "no step before this one is `dinner`"),
        ("again = \"5\"", "`5` is no message of the card network"),
        ("again = \"6\"", "`6` is no message"),
        ("reverse = \"lunch\"\nas = \"bill\"", "two steps `bill`"),
        ("again = \"bill\"\nstate = \"x\"\nmcc = 5812", "`mcc` has no meaning for `again`"),
    ] {
        let text = format!("about = \"x\"\n{text}[[step]]\nadvance = \"1d\"\n[[step]]\n{step}\n");
        let message = flaw_of(&text).1;
        assert!(message.contains(part), "{step}: {message}");
    }
}

/// A file that is written from its steps is read as the same steps.
#[test]
fn the_files_of_the_tests_are_written_as_they_are_read() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    let content = |file: &ScenarioFile| {
        let steps: Vec<_> = file.step.iter().map(Spanned::get_ref).collect();
        format!("{} {:?} {steps:?}", file.about, file.setup)
    };
    let mut seen = 0;
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let file: ScenarioFile = toml::from_str(&text).unwrap();
        let written = toml::to_string(&file).unwrap();
        let again: ScenarioFile = toml::from_str(&written).unwrap();
        assert_eq!(content(&file), content(&again), "{}", path.display());
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
}
