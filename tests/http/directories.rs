//! Data directories: what an `init` that comes to no end leaves, and those of other builds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cardswitch_harness::{Installation, cardswitch_after, run_cardswitch};

/// Once, a panic lost the secrets that are shown once, and left the directory.
#[test]
fn an_init_whose_secrets_nobody_was_shown_leaves_nothing() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (data, cards) = (home.path().join("data"), home.path().join("cards"));
    let paths = [&data, &cards].map(|path| path.to_str().expect("UTF-8"));
    for form in [&["--json"][..], &[]] {
        let init = ["init", "--data", paths[0], "--cards", "1", "--cards-out", paths[1]];
        let mut init = cardswitch_after("exec > /dev/full", &[&init, form].concat());
        let output = init.output().expect("a shell starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        let expected = "cardswitch: output could not be written: No space left on device";
        assert!(told.starts_with(expected) && told.lines().count() == 1, "{told}");
        assert_eq!(fs::read_dir(home.path()).expect("it is there").count(), 0, "{form:?}");
    }
}

/// Once, `serve` and `verify` took what it left: a switch without a company, a user or a token. No `init` repeated it;
/// later none with the same cards file, which the killed one had left elsewhere.
#[test]
fn a_killed_init_leaves_no_data_directory_and_can_be_repeated() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let [data, cards] = ["data", "cards"].map(|name| home.path().join(name));
    let [data, cards] = [&data, &cards].map(|path| path.to_str().expect("UTF-8"));
    // It makes cards for minutes.
    let many = ["init", "--data", data, "--cards", "1000000", "--cards-out", cards];
    let mut init = cardswitch_after(":", &many).spawn().expect("a shell starts");
    let has_begun = || {
        let inside = fs::read_dir(home.path().join("data")).into_iter().flatten().flatten();
        let mut places = inside.map(|entry| entry.path()).chain([home.path().join("data")]);
        places.any(|place| place.join("journal").exists())
    };
    while !has_begun() {
        assert!(init.try_wait().expect("it can be asked").is_none(), "it has ended");
        std::thread::yield_now();
    }
    init.kill().expect("it runs");
    init.wait().expect("it ends");
    for command in ["verify", "serve"] {
        let told = run_cardswitch(&[command, "--data", data]).expect_one_line_error();
        assert!(told.contains("is no data directory"), "{told}");
    }
    let few = ["init", "--data", data, "--json", "--cards", "1", "--cards-out", cards];
    run_cardswitch(&few).expect_json();
    run_cardswitch(&["verify", "--data", data]).expect_done();
    assert_eq!(fs::read_to_string(cards).expect("it is there").lines().count(), 1);
}

/// Once, what had got its name stayed, and was in the way of the next `init`.
#[test]
fn an_init_killed_while_its_files_get_their_names_can_be_repeated() {
    let mut kills = 0;
    for place in 1.. {
        let home = tempfile::tempdir().expect("a temporary directory");
        let data = home.path().join("data");
        let data = data.to_str().expect("UTF-8");
        let init = ["init", "--data", data, "--retention", "forever", "--json"];
        let inject = format!("inject=rename:signal=KILL:when={place}");
        let killed = format!("set -- strace -f -qq -o /dev/null -e {inject} \"$@\"");
        let output = cardswitch_after(&killed, &init).output().expect("a shell starts");
        if output.status.success() {
            break;
        }
        kills += 1;
        let told = run_cardswitch(&["verify", "--data", data]).expect_one_line_error();
        assert!(told.contains("is no data directory"), "killed at {place}: {told}");
        run_cardswitch(&init).expect_json();
        run_cardswitch(&["verify", "--data", data]).expect_done();
    }
    assert!(kills >= 10, "files get their names in more steps than {kills}: is strace there?");
}

/// Every file of a directory, with its content.
fn files_of(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files = paths.filter(|path| path.is_file());
    files.map(|path| (path.display().to_string(), fs::read(&path).expect("a file"))).collect()
}

#[test]
fn a_directory_of_a_build_with_other_layouts_is_refused_and_left_as_it_is() {
    let installation = Installation::init(60, 1_399);
    let data = installation.data();
    let identity = data.join("directory");
    let text = fs::read_to_string(&identity).expect("the identity file");
    let line = text.lines().find(|line| line.starts_with("layouts ")).expect("a fingerprint");
    fs::write(&identity, text.replace(line, "layouts 0123456789abcdef")).expect("written");
    let before = files_of(&data);
    let place = |name: &str| data.with_file_name(name).to_str().expect("a path").to_owned();
    let (data_text, copy) = (place("data"), place("copy"));
    let company = installation.credentials.company_id.as_str();
    for arguments in [
        vec!["serve", "--data", &data_text, "--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0"],
        vec!["verify", "--data", &data_text],
        vec!["backup", "--data", &data_text, "--to", &copy],
        vec!["rotate-pan-key", "--data", &data_text],
        vec!["token", "list", "--data", &data_text, "--company", company],
        vec!["init", "--data", &data_text],
    ] {
        let output = run_cardswitch(&arguments);
        assert_eq!(output.code, Some(1), "{arguments:?}: {output:#?}");
        let is_told = output.stderr.contains("another build of cardswitch");
        let exists = output.stderr.contains("is a data directory already");
        assert!(if arguments[0] == "init" { exists } else { is_told }, "{output:#?}");
        assert_eq!(files_of(&data), before, "{arguments:?}");
    }
}
