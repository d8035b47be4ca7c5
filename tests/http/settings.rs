//! Settings of a switch as flags, variables and the file give them: their order, and what is refused.

use std::fs;

use cardswitch_harness::{Installation, run_cardswitch, run_cardswitch_with};

use crate::commands::with_data;

/// Once, commands at rest took no variables: links led to an address that nobody serves.
#[test]
fn variables_come_before_the_file_of_settings_that_is_named() {
    let installation = Installation::init(1, 1_331);
    let named = installation.home().join("named.toml");
    fs::write(&named, "base_url = \"https://named.example.com\"\n").expect("a file");
    let named = named.to_str().expect("a path");
    let variable = ("CARDSWITCH_BASE_URL", "https://variable.example.com");
    let words = ["user", "add", "--first-name", "Grace", "--last-name", "Hopper", "--email"];
    let rows = [
        ("a@example.com", &[][..], &[][..], "http://127.0.0.1:8080/"),
        ("b@example.com", &["--config", named], &[], "https://named.example.com/"),
        ("c@example.com", &["--config", named], &[variable], "https://variable.example.com/"),
    ];
    for (email, flags, variables, expected) in rows {
        let arguments = with_data(&installation, &[&words[..], &[email], flags].concat());
        let added = run_cardswitch_with(&arguments.each_ref_str(), variables).expect_json();
        let link = added["password_link"].as_str().expect("a link");
        assert!(link.starts_with(expected), "{link}");
    }
    let arguments = with_data(
        &installation,
        &["token", "list", "--company", &installation.credentials.company_id],
    );
    let wrong = run_cardswitch_with(&arguments.each_ref_str(), &[("CARDSWITCH_CLOCK", "sundial")]);
    assert_eq!(wrong.code, Some(2), "{wrong:#?}");
}

/// Once, most of these were taken in silence, and the others ended with 1.
#[test]
fn settings_that_cannot_be_are_wrong_usage() {
    let installation = Installation::init(1, 1_332);
    let data = installation.data();
    let serve = ["serve", "--print-config", "--data", data.to_str().expect("UTF-8")];
    for (flag, value) in [
        ("--base-url", "foo"),
        ("--base-url", "ftp://example.com"),
        ("--app-url", "http:"),
        ("--iso8583-idle-timeout-s", "0"),
        ("--leader-silence-ms", "10"),
        ("--node", "a"),
        ("--stop-delay-s", "601"),
        ("--trusted-proxies", "somewhere"),
        ("--iso8583-peers", ""),
        ("--card-bin", "123"),
        ("--mail-from", "nobody"),
    ] {
        let output = run_cardswitch(&[&serve[..], &[flag, value]].concat());
        assert_eq!(output.code, Some(2), "{flag} {value}: {output:#?}");
        let told = output.expect_one_line_error();
        assert!(told.contains("is no value for"), "{flag} {value}: {told}");
    }
    let output =
        run_cardswitch(&[&serve[..], &["--base-url", "https://cards.example.com"]].concat());
    output.expect_done();
}

#[test]
fn security_of_the_iso_8583_door_has_variables_which_replace_the_file() {
    let installation = Installation::init(1, 78);
    let settings = "[iso8583_tls]\ncertificate = \"old\"\nkey = \"old\"\n";
    fs::write(installation.data().join("cardswitch.toml"), settings).expect("settings");
    let data = installation.data().to_str().expect("a path").to_owned();
    let printed = |variables: &[(&str, &str)]| {
        run_cardswitch_with(&["serve", "--data", &data, "--print-config"], variables)
    };
    let output = printed(&[
        ("CARDSWITCH_ISO8583_TLS_CERTIFICATE", "door.pem"),
        ("CARDSWITCH_ISO8583_TLS_KEY", "door.key"),
        ("CARDSWITCH_ISO8583_ZONE_KEYS", "zone.keys"),
        ("CARDSWITCH_ISO8583_ZONE_MAC", "cmac"),
    ]);
    for table in [
        "[iso8583_tls]\ncertificate = \"door.pem\"\nkey = \"door.key\"\n",
        "[iso8583_zone]\nkeys = \"zone.keys\"\nmac = \"cmac\"\n",
    ] {
        assert!(output.stdout.contains(table), "{output:#?}");
    }
    let lone = printed(&[("CARDSWITCH_ISO8583_TLS_CERTIFICATE", "door.pem")]);
    assert_eq!(lone.code, Some(2), "{lone:#?}");
    assert!(lone.stderr.contains("--iso8583-tls-key"), "{lone:#?}");
}
