//! Another key for card numbers: while purchases arrive, with a kill amid re-sealing, at rest, and with
//! a backup of before. In each case every card shows the number that it was made with.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use cardswitch_harness::{
    CommandOutput, Installation, Random, Switch, TestCard, last_json_line, run_cardswitch, seed_for,
};
use serde_json::{Value, json};

use crate::load::{Fate, run_acquirer};

const CARDS: u32 = 800;

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// `rotate-pan-key` on a directory.
pub(crate) fn rotate(data: &Path, further: &[&str]) -> CommandOutput {
    let mut arguments = vec!["rotate-pan-key", "--data", text(data), "--json"];
    arguments.extend_from_slice(further);
    run_cardswitch(&arguments)
}

/// How many cards are sealed under which generation.
#[track_caller]
pub(crate) fn status(data: &Path) -> Vec<(u64, u64)> {
    let report = rotate(data, &["--status"]).expect_json();
    let generations = report["generations"].as_array().expect("generations");
    let number = |row: &Value, name: &str| row[name].as_u64().expect("a number");
    generations.iter().map(|row| (number(row, "generation"), number(row, "cards"))).collect()
}

#[track_caller]
pub(crate) fn verified(data: &Path) -> Value {
    let output = run_cardswitch(&["verify", "--data", text(data), "--json"]);
    assert_eq!(output.code, Some(0), "verify found a difference: {output:#?}");
    last_json_line(&output.stdout)
}

/// A figure of `/metrics`.
pub(crate) fn figure(switch: &Switch, name: &str) -> u64 {
    let answer = switch.watcher().get("/metrics");
    let text = answer.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a figure");
    line.trim().parse().expect("a number")
}

/// Looks at the number of every card, as clients and as the network do. Only the network sees that of
/// a terminated one.
#[track_caller]
pub(crate) fn expect_numbers(switch: &Switch, cards: &[TestCard]) {
    let (api, network) = (switch.api(), switch.network_api());
    for card in cards {
        let shown = network.get(&format!("/network/v1/cards/{}", card.card_id)).expect(200);
        assert_eq!(shown["card_number"], card.pan.as_str(), "{}", card.card_id);
    }
    for card in cards.iter().filter(|card| card.profile == "ordinary") {
        let answer = api.get(&format!("/v1/cards/{}/number", card.card_id));
        if answer.status == 409 {
            assert_eq!(answer.expect_error(409)["code"], "card_terminated", "{}", card.card_id);
            continue;
        }
        assert_eq!(answer.expect(200)["number"], card.pan.as_str(), "{}", card.card_id);
    }
}

/// Keeps the whole journal: a fast disk takes more than the default's bytes before the backup is used.
fn serve(installation: &Installation, data: &Path) -> Switch {
    installation.serve_directory(data, &["--token-requests-per-s", "0", "--retention", "forever"])
}

fn beside(installation: &Installation, name: &str) -> PathBuf {
    installation.home().join(name)
}

/// Has the key replaced and kills the switch when some of the cards are re-sealed, not all.
fn rotate_and_kill(installation: &Installation, data: &Path) -> u64 {
    loop {
        let switch = serve(installation, data);
        let begun = rotate(data, &["--no-wait"]).expect_json();
        let generation = begun["generation"].as_u64().expect("a generation");
        loop {
            let left = figure(&switch, "cardswitch_pan_key_left_cards ");
            if left > 0 && left < u64::from(CARDS) {
                switch.kill9();
                return generation;
            }
            if left == 0 {
                // It was faster than we look: another one.
                switch.stop();
                break;
            }
        }
    }
}

#[test]
fn every_number_stays_the_same_under_another_key_whatever_is_killed() {
    let mut random = Random::new(seed_for("every_number_stays_the_same_under_another_key"));
    let installation = Installation::init(CARDS, random.next_u64() >> 1);
    let data = installation.data();
    let cards = installation.cards.all().to_vec();
    let backup = beside(&installation, "backup");
    run_cardswitch(&["backup", "--data", text(&data), "--to", text(&backup), "--json"])
        .expect_json();
    assert_eq!(status(&data), [(0, u64::from(CARDS))]);

    let generation = rotate_and_kill(&installation, &data);
    verified(&data);
    let counts = status(&data);
    let under = |counts: &[(u64, u64)], wanted: u64| {
        counts.iter().filter(|(found, _)| *found == wanted).map(|(_, cards)| cards).sum::<u64>()
    };
    let all = counts.iter().map(|(_, cards)| cards).sum::<u64>();
    assert_eq!(all, u64::from(CARDS), "{counts:?}");
    assert!((1..all).contains(&under(&counts, generation)), "killed amid it: {counts:?}");

    // It goes on by itself, beside purchases.
    let switch = serve(&installation, &data);
    let refused = rotate(&data, &["--forget"]);
    let ordinary: Vec<_> =
        cards.iter().filter(|card| card.profile == "ordinary").cloned().collect();
    let door = switch.iso8583;
    let seed = random.next_u64();
    let acquirer = {
        let cards = ordinary[..50].to_vec();
        thread::spawn(move || run_acquirer(door, &cards, seed))
    };
    let next = rotate(&data, &[]).expect_json();
    assert_eq!(next["generation"], generation + 1);
    assert_eq!((&next["cards_left"], &next["is_working"]), (&json!(0), &json!(false)));
    // A card that is made now is sealed under the newest at once, and a deleted card keeps its number.
    let made = switch.api().post("/v1/cards", &new_card()).expect(201);
    let path = format!("/v1/cards/{}", made["id"].as_str().expect("an id"));
    let number = switch.api().get(&format!("{path}/number")).expect(200);
    switch.api().delete(&format!("/v1/cards/{}", ordinary[60].card_id)).expect(204);
    let counts = status(&data);
    assert_eq!(under(&counts, generation + 1), u64::from(CARDS) + 1, "{counts:?}");
    // Either the first rotation was still under way, or it was done so fast that there was no need.
    if refused.code == Some(0) {
        assert_eq!(counts.len(), 2, "{counts:?}");
    } else {
        let told = refused.expect_one_line_error();
        assert!(told.contains("the older keys are in use"), "{told}");
        assert_eq!(counts.first().map(|(oldest, _)| *oldest), Some(0), "{counts:?}");
    }
    expect_numbers(&switch, &cards);
    let kept = rotate(&data, &["--forget"]).expect_json();
    assert_eq!(kept["generations"].as_array().map(Vec::len), Some(1));
    expect_numbers(&switch, &cards);
    let again = rotate(&data, &["--forget"]);
    assert!(again.expect_one_line_error().contains("no older key"), "{again:?}");
    switch.kill9();
    let sent = acquirer.join().expect("an acquirer ends");
    let approved = sent.iter().filter(|sent| matches!(sent.fate, Fate::Approved(_))).count();
    assert!(approved > 0, "no purchase was approved: nothing was tested");
    let declined = sent.iter().find(|sent| sent.fate == Fate::Declined);
    assert!(declined.is_none(), "declined to {:?}", declined.map(|sent| &sent.card_id));

    verified(&data);
    let switch = serve(&installation, &data);
    expect_numbers(&switch, &cards);
    assert_eq!(switch.api().get(&format!("{path}/number")).expect(200), number);
    assert_eq!(figure(&switch, "cardswitch_pan_key_generation "), generation + 1);
    switch.stop();

    expect_restored(&installation, &backup, &cards);
}

/// The backup of before, alone and with everything that came since.
#[track_caller]
fn expect_restored(installation: &Installation, backup: &Path, cards: &[TestCard]) {
    let data = installation.data();
    let key = beside(installation, "key");
    fs::copy(data.join("master.key"), &key).expect("a key that was kept apart");
    for (name, journal) in [("early", None), ("late", Some(text(&data)))] {
        let restored = beside(installation, name);
        let mut arguments = vec!["restore", "--from", text(backup), "--data", text(&restored)];
        arguments.extend(["--master-key", text(&key), "--json"]);
        arguments.extend(journal.iter().flat_map(|journal| ["--journal", journal]));
        run_cardswitch(&arguments).expect_json();
        verified(&restored);
        let switch = serve(installation, &restored);
        expect_numbers(&switch, cards);
        switch.stop();
    }
}

/// A directory came out of a restore whose cards were under a key that was forgotten: `restore` and `verify` were
/// content, and no card could be opened.
#[test]
fn a_restore_to_a_moment_whose_key_was_forgotten_is_refused() {
    let installation = Installation::init(60, 8_612);
    let data = installation.data();
    let [early, key] = ["early", "key"].map(|name| beside(&installation, name));
    fs::copy(data.join("master.key"), &key).expect("a key that was kept apart");
    let backed_up = |to: &Path| {
        let backup = run_cardswitch(&["backup", "--data", text(&data), "--to", text(to), "--json"]);
        backup.expect_json()["as_of"].as_str().expect("a time").to_owned()
    };
    let at_first = backed_up(&early);
    assert_eq!(rotate(&data, &[]).expect_json()["cards_left"], 0);
    let under_1 = backed_up(&beside(&installation, "first"));
    rotate(&data, &["--no-wait"]).expect_json();
    assert_eq!(status(&data), [(0, 0), (1, 60), (2, 0)]);
    // Keys of 0 and 2 are kept; all cards are under 1.
    let between = backed_up(&beside(&installation, "second"));
    let switch = serve(&installation, &data);
    while status(&data) != [(0, 0), (1, 0), (2, 60)] {}
    switch.stop();
    let forgotten = run_cardswitch(&["rotate-pan-key", "--data", text(&data), "--forget"]);
    let restore = |name: &str, further: &[&str]| {
        let to = beside(&installation, name);
        let arguments = ["restore", "--from", text(&early), "--data", text(&to)];
        let keyed = ["--master-key", text(&key), "--journal", text(&data)];
        (run_cardswitch(&[&arguments[..], &keyed, further].concat()), to)
    };
    for (name, until) in [("under_1", &under_1), ("between", &between)] {
        let (output, to) = restore(name, &["--until", until]);
        let told = output.expect_one_line_error();
        assert!(told.contains("generation 1 of the key of card numbers"), "{told}");
        assert!(!to.exists(), "a directory that cannot be used got its name");
    }
    for (name, until) in [("at_first", &["--until", at_first.as_str()][..]), ("at_last", &[])] {
        let (output, restored) = restore(name, until);
        assert_eq!(output.code, Some(0), "{output:?}");
        let is_told = output.stdout.contains("Access that was revoked after");
        assert_eq!(is_told, name == "at_first", "{output:?}");
        verified(&restored);
        let switch = serve(&installation, &restored);
        expect_numbers(&switch, installation.cards.all());
        switch.stop();
    }
    assert!(forgotten.stdout.contains("an older backup restores only to"), "{forgotten:?}");
}

pub(crate) fn new_card() -> Value {
    let allowance = json!({
        "amount": 250.5, "interval": "weekly", "transaction_limit": 100, "daily_limit": null,
        "single_use": false, "end_time": null, "scope": [5812, 5814],
    });
    json!({
        "description": "Made meanwhile", "is_virtual": true, "billing_name": "Harness",
        "allowance": allowance,
    })
}

#[test]
fn a_key_is_replaced_and_forgotten_at_rest_and_its_file_is_no_ones_to_lose() {
    let installation = Installation::init(60, 8_610);
    let data = installation.data();
    let (file, cards) = (data.join("pan_seal.keys"), installation.cards.all().to_vec());
    assert!(!file.exists(), "a directory begins without one");
    let refused = rotate(&data, &["--forget"]);
    assert!(refused.expect_one_line_error().contains("no older key"), "{refused:?}");
    let begun = rotate(&data, &["--no-wait"]).expect_json();
    assert_eq!(begun, json!({"generation": 1, "cards_left": 60, "is_working": false}));
    assert_eq!(status(&data), [(0, 60), (1, 0)], "nobody is there to go on");
    let refused = rotate(&data, &["--forget"]).expect_one_line_error();
    assert!(refused.contains("60 card numbers are still to be re-sealed"), "{refused}");
    let done = rotate(&data, &[]).expect_json();
    assert_eq!(done, json!({"generation": 2, "cards_left": 0, "is_working": false}));
    assert_eq!(status(&data), [(0, 0), (1, 0), (2, 60)]);
    verified(&data);
    let first = fs::read(&file).expect("the keys");
    assert_eq!(rotate(&data, &["--forget"]).expect_json()["cards_left"], 0);
    assert_eq!(status(&data), [(2, 60)]);
    let whole = fs::read(&file).expect("the keys");
    assert_ne!(first, whole);

    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let broken: [(&[u8], &str); 4] = [
        (&flipped, "are damaged"),
        (&whole[..middle], "are damaged"),
        (b"", "are damaged"),
        (b"\xff\xfe", "are damaged"),
    ];
    for (bytes, told) in broken {
        fs::write(&file, bytes).expect("a file");
        for line in refusals(&installation) {
            assert!(line.contains("pan_seal.keys") && line.contains(told), "{line}");
        }
    }
    fs::remove_file(&file).expect("a file");
    for line in refusals(&installation) {
        assert!(line.contains("lacks generation 2 of the key of card numbers"), "{line}");
    }
    fs::write(&file, &whole).expect("a file");
    let switch = serve(&installation, &data);
    expect_numbers(&switch, &cards);
    switch.stop();
}

/// The errors of all commands that look at a directory at rest.
fn refusals(installation: &Installation) -> [String; 3] {
    let (data, backup) = (installation.data(), beside(installation, "backup"));
    let verify = run_cardswitch(&["verify", "--data", text(&data)]);
    let back_up = run_cardswitch(&["backup", "--data", text(&data), "--to", text(&backup)]);
    let refused = [installation.serve_refused(), verify, back_up];
    assert!(!backup.exists(), "a backup was made that nobody can serve");
    refused.map(|output| output.expect_one_line_error())
}

/// A crash may come when the next key is durable and not yet announced.
#[test]
fn a_rotation_that_was_begun_goes_on_with_the_next_start() {
    let installation = Installation::init(60, 8_611);
    let data = installation.data();
    let file = data.join("pan_seal.keys");
    let copy = beside(&installation, "copy");
    let copied = std::process::Command::new("cp").args(["-a", text(&data), text(&copy)]).status();
    assert!(copied.expect("cp is there").success());
    rotate(&data, &[]).expect_json();
    fs::copy(&file, copy.join("pan_seal.keys")).expect("a copy");
    fs::write(copy.join("pan_seal.keys.new"), "cut").expect("what a crash leaves");
    let switch = serve(&installation, &copy);
    while figure(&switch, "cardswitch_pan_key_left_cards ") > 0
        || status(&copy) != [(0, 0), (1, 60)]
    {}
    expect_numbers(&switch, installation.cards.all());
    switch.stop();
    verified(&copy);
}
