//! Two cells behind one `route`, of which one speaks TLS at both doors and demands certificates.

use std::fs;
use std::path::Path;

use cardswitch_harness::{
    Authority, Certificate, Installation, Purchase, Route, run_cardswitch, transactions_of_card,
};
use serde_json::json;

use crate::cells::Cell;

fn text_of(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// A cell with TLS and one without, and the files around.
struct Cells {
    secured: Cell,
    plain: Cell,
    authority: Authority,
}

impl Cells {
    fn start() -> Self {
        let installation = Installation::init_with(60, 2403, &["--cell", "01"]);
        let authority = Authority::new(installation.home(), "authority");
        // Not `localhost`, which is an address of it, too.
        let Certificate { certificate, key } = authority.issue_for("door", "IP:127.0.0.1");
        let (certificate, key, ca) =
            (text_of(&certificate), text_of(&key), authority.certificate());
        let ca = text_of(&ca);
        installation.configure(&format!(
            "[iso8583_tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\nclient_ca = \"{ca}\"\n"
        ));
        let tls = ["--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca", ca];
        let switch = installation.serve_with(&tls);
        let secured = Cell { name: "01", switch, installation };
        Self { secured, plain: Cell::start("02", 2404), authority }
    }

    /// A router that believes this authority and shows that certificate, and reaches the secured cell at `host`.
    fn route(&self, host: &str, ca: &Path, shown: Option<&Certificate>) -> Route {
        let (secured, plain) = (&self.secured.switch, &self.plain.switch);
        let (http, iso8583) = (secured.http.port(), secured.iso8583.port());
        let cells = [
            format!("01=https://{host}:{http},iso8583s://{host}:{iso8583}"),
            format!("02=http://{},iso8583://{}", plain.http, plain.iso8583),
        ];
        let mut further = vec!["--cell-ca", text_of(ca)];
        if let Some(Certificate { certificate, key }) = shown {
            further.extend([
                "--cell-certificate",
                text_of(certificate),
                "--cell-key",
                text_of(key),
            ]);
        }
        Route::with(&cells, &further)
    }
}

/// The answers to a purchase and to a change at a cell.
fn answers(route: &Route, cell: &Cell) -> (String, String) {
    let answer = route.acquirer().ask(&Purchase::of(cell.card(), 100).request());
    let made = cell.api(route).post("/v1/categories", &json!({"name": "Travel"}));
    let told = match made.status {
        201 => "made".to_owned(),
        _ => made.expect_error(503)["code"].as_str().expect("a code").to_owned(),
    };
    (answer.response().to_owned(), told)
}

#[test]
fn a_cell_is_reached_over_tls_where_both_believe_each_other_and_no_other_is_harmed() {
    let cells = Cells::start();
    let (ca, shown) = (cells.authority.certificate(), cells.authority.issue("router"));
    let other = Authority::new(cells.secured.installation.home(), "other");
    let of_other = other.issue("stranger");
    let (fine, down) = (("00", "made"), ("91", "cell_down"));
    for (host, ca, shown, expected, told) in [
        ("127.0.0.1", &ca, Some(&shown), fine, ""),
        ("localhost", &ca, Some(&shown), down, "not valid for name"),
        ("127.0.0.1", &other.certificate(), Some(&shown), down, "UnknownIssuer"),
        ("127.0.0.1", &ca, None, down, "CertificateRequired"),
        ("127.0.0.1", &ca, Some(&of_other), down, "UnknownCA"),
    ] {
        let route = cells.route(host, ca, shown);
        for _ in 0..3 {
            for (cell, (code, made)) in [(&cells.secured, expected), (&cells.plain, fine)] {
                let expected = (code.to_owned(), made.to_owned());
                assert_eq!(answers(&route, cell), expected, "{host} {told}");
            }
        }
        let log = route.log();
        assert!(log.contains(told) && (told.is_empty() != log.contains("WARN")), "{told}: {log}");
    }
    // Nothing of what was answered 91 has happened: there are three purchases.
    let route = cells.route("127.0.0.1", &ca, Some(&shown));
    let network_api = cells.secured.network_api(&route);
    let made = transactions_of_card(&network_api, &cells.secured.card().card_id);
    assert_eq!(made.len(), 3);
    cells.secured.switch.stop();
    cells.secured.installation.verify_ok();
}

#[test]
fn files_that_are_replaced_count_without_a_restart() {
    let cells = Cells::start();
    let home = cells.secured.installation.home();
    let other = Authority::new(home, "other");
    let believed = home.join("believed.pem");
    let believe = |authority: &Path| {
        fs::copy(authority, &believed).expect("a file can be copied");
    };
    believe(&other.certificate());
    let route = cells.route("127.0.0.1", &believed, Some(&cells.authority.issue("router")));
    assert_eq!(answers(&route, &cells.secured).0, "91");
    believe(&cells.authority.certificate());
    route.signal("HUP");
    while answers(&route, &cells.secured).0 != "00" {}
    // A certificate that cannot be used changes nothing.
    fs::write(&believed, "nonsense").expect("a file can be written");
    route.signal("HUP");
    while !route.log().contains("the certificates before stay in use") {
        std::thread::yield_now();
    }
    assert_eq!(answers(&route, &cells.secured).0, "00");
}

#[test]
fn files_and_addresses_that_do_not_serve_are_named_at_the_start() {
    let installation = Installation::init_with(1, 2405, &["--cell", "01"]);
    let authority = Authority::new(installation.home(), "authority");
    let Certificate { certificate, key } = authority.issue("router");
    let (ca, cards) = (authority.certificate(), installation.cards_file());
    let [ca, certificate, key, cards] =
        [&ca, &certificate, &key, &cards].map(|path| text_of(path).to_owned());
    let secured = "01=https://127.0.0.1:1,iso8583s://127.0.0.1:2";
    for (cell, further, told) in [
        (secured, vec![], "name the authorities of its certificate by --cell-ca"),
        ("01=http://a:1,iso8583://a:2", vec!["--cell-ca", &*ca], "no cell has one"),
        ("01=https://a b:1,iso8583://a:2", vec!["--cell-ca", &*ca], "`a b` is no name of a door"),
        (secured, vec!["--cell-ca", "/nonexistent"], "`/nonexistent`: "),
        (secured, vec!["--cell-ca", &*cards], "no certificate in PEM form"),
        (
            secured,
            vec!["--cell-ca", &*ca, "--cell-certificate", &*certificate, "--cell-key", &*ca],
            "TLS to the cells: key",
        ),
        (
            secured,
            vec!["--cell-ca", &*ca, "--cell-certificate", &*ca, "--cell-key", &*key],
            "TLS to the cells: key",
        ),
    ] {
        let arguments = [vec!["route", "--home", "01", "--cell", cell], further].concat();
        let error = run_cardswitch(&arguments).expect_one_line_error();
        assert!(error.contains(told), "{error}");
    }
}
