//! The view of operators on a router: figures of each door of each cell, and whether it is reached.

use cardswitch_harness::{HttpClient, Installation, Message, Purchase, Route, Switch, next_stan};
use serde_json::{Value, json};

use crate::observability::{figure, figures_of};

/// Waits until a router says this of its cells; returns its status and word.
fn until_cells(watcher: &HttpClient, is_so: impl Fn(&Value) -> bool) -> (u16, String) {
    loop {
        let answer = watcher.get("/readyz");
        let body: Value = serde_json::from_str(&answer.text()).expect("JSON");
        if is_so(&body["cells"]) {
            return (answer.status, body["status"].as_str().expect("a word").to_owned());
        }
        std::thread::yield_now();
    }
}

#[track_caller]
fn assert_figures(watcher: &HttpClient, rows: &[(&str, &str, &str, f64)]) {
    let figures = figures_of(watcher);
    for (name, cell, door, expected) in rows {
        let name = format!("cardswitch_route_{name}{{cell=\"{cell}\",door=\"{door}\"}}");
        assert_eq!(figure(&figures, &name), *expected, "{name}");
    }
}

/// Two cells of 60 cards each behind a router that has reached them.
struct World {
    route: Route,
    first_cell: Switch,
    second_cell: Switch,
    first: Installation,
    second: Installation,
}

impl World {
    fn start() -> Self {
        let [first, second] = [("01", 2406), ("02", 2407)]
            .map(|(cell, seed)| Installation::init_with(60, seed, &["--cell", cell]));
        let (first_cell, second_cell) = (first.serve(), second.serve());
        let route = Route::before(&[("01", &[&first_cell]), ("02", &[&second_cell])]);
        let reached = json!({"http": "reached", "iso8583": "reached"});
        let is_all = |cells: &Value| *cells == json!({"01": reached, "02": reached});
        assert_eq!(until_cells(&route.watcher(), is_all), (200, "ready".to_owned()));
        Self { route, first_cell, second_cell, first, second }
    }
}

fn purchase_of(cell: &Installation) -> Message {
    Purchase::of(cell.cards.ordinary(), 100).request()
}

#[test]
fn figures_of_a_router_agree_with_what_went_to_each_cell() {
    let World { route, first, second, .. } = &World::start();
    let watcher = route.watcher();
    assert_eq!(figure(&figures_of(&watcher), "cardswitch_state{state=\"ready\"}"), 1.0);
    let mut acquirer = route.acquirer();
    acquirer.assert_alive();
    for (cell, times) in [(first, 5), (second, 3)] {
        for _ in 0..times {
            assert_eq!(acquirer.ask(&purchase_of(cell)).response(), "00");
        }
    }
    // The cell's own refusal is its answer.
    let mut incomplete = Message::network_management("301", next_stan());
    incomplete.mti = "0100".to_owned();
    incomplete.set(2, "4537110002000000");
    assert_eq!(acquirer.ask(&incomplete).response(), "30");
    for cell in [first, second, first] {
        route.api(&cell.credentials.access_token).get("/v1/company").expect(200);
    }
    assert_figures(
        &watcher,
        &[
            ("forwarded_total", "01", "iso8583", 6.0),
            ("answered_total", "01", "iso8583", 6.0),
            ("forwarded_total", "02", "iso8583", 4.0),
            ("answered_total", "02", "iso8583", 4.0),
            ("connections", "01", "iso8583", 1.0),
            ("connections", "02", "iso8583", 1.0),
            ("forwarded_total", "01", "http", 2.0),
            ("answered_total", "01", "http", 2.0),
            ("forwarded_total", "02", "http", 1.0),
            ("cell_reached", "02", "iso8583", 1.0),
            ("refused_total", "01", "iso8583", 0.0),
            ("refused_total", "02", "iso8583", 0.0),
            ("unanswered_total", "02", "iso8583", 0.0),
            ("refused_total", "02", "http", 0.0),
        ],
    );
}

#[test]
fn a_cell_that_is_lost_is_named_and_what_it_cost_is_counted() {
    let World { route, first_cell, second_cell, first: _first, second } = World::start();
    let watcher = route.watcher();
    let mut acquirer = route.acquirer();
    // One message is lost with its cell, two are refused, and so is a request.
    second_cell.signal("STOP");
    acquirer.send(&purchase_of(&second)).expect("the connection is open");
    let forwarded = "cardswitch_route_forwarded_total{cell=\"02\",door=\"iso8583\"}";
    while figure(&figures_of(&watcher), forwarded) < 1.0 {
        std::thread::yield_now();
    }
    second_cell.kill9();
    assert_eq!(acquirer.receive().expect("an answer").response(), "96");
    for _ in 0..2 {
        assert_eq!(acquirer.ask(&purchase_of(&second)).response(), "91");
    }
    let of_second = route.api(&second.credentials.access_token);
    assert_eq!(of_second.get("/v1/company").status, 503);
    let is_refused = |cells: &Value| {
        let told = |door: &str| cells["02"][door].as_str().unwrap_or_default().contains("refused");
        cells["01"]["iso8583"] == "reached" && told("http") && told("iso8583")
    };
    assert_eq!(until_cells(&watcher, is_refused), (200, "ready".to_owned()));
    assert_figures(
        &watcher,
        &[
            ("unanswered_total", "02", "iso8583", 1.0),
            ("refused_total", "02", "iso8583", 2.0),
            ("refused_total", "02", "http", 1.0),
            ("connections", "02", "iso8583", 0.0),
            ("cell_reached", "02", "iso8583", 0.0),
            ("cell_reached", "02", "http", 0.0),
            ("cell_reached", "01", "http", 1.0),
            ("refused_total", "01", "iso8583", 0.0),
        ],
    );
    first_cell.kill9();
    let is_gone = |cells: &Value| cells["01"]["iso8583"] != "reached";
    assert_eq!(until_cells(&watcher, is_gone), (503, "unreachable".to_owned()));
    assert_eq!(watcher.get("/healthz").status, 200);
}
