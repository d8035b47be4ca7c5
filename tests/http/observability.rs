//! The view of operators on a real switch: figures that agree with the requests, rules and a dashboard that name
//! no others, health from start to end, and a log that programs can read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use cardswitch_harness::{
    Cluster, HttpClient, Installation, Purchase, Route, Switch, run_cardswitch,
};
use serde_json::{Value, json};

/// How long between two looks whether the nodes of a cluster have compared their clocks.
const CLOCKS_WAIT: Duration = Duration::from_millis(50);

/// A figure: its name with its labels, as they are shown, and its value.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Reads figures, and asserts what their format demands.
#[track_caller]
fn figures(switch: &Switch) -> Figures {
    figures_of(&switch.watcher())
}

/// The figures that this client reads.
#[track_caller]
pub(crate) fn figures_of(watcher: &HttpClient) -> Figures {
    let answer = watcher.get("/metrics");
    assert_eq!(answer.status, 200);
    let content_type = answer.header("content-type").expect("a content type");
    assert!(content_type.starts_with("text/plain; version=0.0.4"), "{content_type}");
    let (mut figures, mut families) = (Figures::new(), BTreeSet::new());
    for line in answer.text().lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, _) = rest.split_once(' ').expect("a type has a name and a kind");
            assert!(families.insert(name.to_owned()), "`{name}` is declared twice");
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').expect("a figure has a value");
            let value = value.parse().expect("a value is a number");
            assert!(figures.insert(name.to_owned(), value).is_none(), "`{name}` is there twice");
            let family = family_of(name);
            assert!(families.contains(family), "`{name}` belongs to no family");
        }
    }
    figures
}

/// The family of a figure: its name without labels and the endings of histograms.
fn family_of(figure: &str) -> &str {
    let name = figure.split('{').next().unwrap_or_default();
    let is_histogram = name.contains("_seconds_");
    let ends = ["_bucket", "_sum", "_count"];
    let short = ends.iter().find_map(|end| name.strip_suffix(end)).filter(|_| is_histogram);
    short.unwrap_or(name)
}

#[track_caller]
pub(crate) fn figure(figures: &Figures, name: &str) -> f64 {
    let found = figures.get(name).copied();
    assert!(found.is_some(), "no figure `{name}`");
    found.unwrap_or_default()
}

/// A client that is answered knows that its records are counted only once they are visible; figures
/// of replies are noted right after the last of them has left.
#[track_caller]
fn figures_when(switch: &Switch, name: &str, expected: f64) -> Figures {
    loop {
        let figures = figures(switch);
        let found = figure(&figures, name);
        assert!(found <= expected, "`{name}` is {found}, more than {expected}");
        if found == expected {
            return figures;
        }
        std::thread::yield_now();
    }
}

/// Once, a full disk behind stderr aborted the switch: the failure was to be told there, too.
#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    let installation = Installation::init(60, 883);
    let pipe = installation.home().join("log.pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
    assert!(made.success());
    let full = || installation.serve_after("exec 2> /dev/full");
    let unread = || {
        let place = pipe.clone();
        let reader = thread::spawn(move || File::open(place));
        let switch = installation.serve_after(&format!("exec 2> '{}'", pipe.display()));
        drop(reader.join());
        switch
    };
    for serve in [&full as &dyn Fn() -> Switch, &unread] {
        let switch = serve();
        let mut acquirer = switch.acquirer();
        acquirer.send_frame(b"nonsense").expect("the door is open");
        acquirer.assert_alive();
        let purchase = Purchase::of(installation.cards.ordinary(), 100);
        let _ = acquirer.ask(&purchase.request()).expect_approved();
        let health: Value =
            serde_json::from_str(&switch.watcher().get("/readyz").text()).expect("JSON");
        assert_eq!(health, json!({"status": "ready", "log": "not written down"}));
        assert!(figure(&figures(&switch), "cardswitch_log_lost_lines_total") > 0.0);
        switch.stop();
    }
}

/// Once, only the log told that a letter was lost.
#[test]
fn a_letter_that_cannot_be_kept_is_told_by_health_and_stops_no_change() {
    let installation = Installation::init(60, 884);
    let switch = installation.serve();
    let health = || -> Value {
        serde_json::from_str(&switch.watcher().get("/readyz").text()).expect("JSON")
    };
    assert_eq!(health(), json!({"status": "ready"}));
    fs::remove_dir_all(installation.data().join("mail")).expect("it is there");
    let member = json!({"first_name": "Ada", "last_name": "B", "email": "ada@example.com"});
    switch.api().post("/v1/members", &member).expect(201);
    assert_eq!(health(), json!({"status": "ready", "letters": "lost"}));
    switch.stop();
}

#[test]
fn figures_agree_with_what_was_sent() {
    let installation = Installation::init(60, 881);
    let switch = installation.serve();
    let card = installation.cards.ordinary();
    let mut acquirer = switch.acquirer();
    for _ in 0..7 {
        let _ = acquirer.ask(&Purchase::of(card, 100).request()).expect_approved();
    }
    let unactivated = installation.cards.first("unactivated");
    acquirer.ask(&Purchase::of(unactivated, 100).request()).expect_declined(1201);
    let purchase = Purchase::of(card, 100);
    let id = acquirer.ask(&purchase.request()).expect_approved();
    assert_eq!(acquirer.ask(&purchase.reversal(&id)).response(), "00");
    acquirer.send_frame(b"nonsense").expect("the door is open");
    acquirer.assert_alive();
    let api = switch.api();
    assert_eq!(api.get(&format!("/v1/cards/{}", card.card_id)).status, 200);
    assert_eq!(api.get("/v1/cards/01890000-0000-7000-8000-000000000000").status, 404);
    assert_eq!(switch.anonymous().get("/v1/cards").status, 401);
    assert_eq!(switch.anonymous().get("/v1/invented-by-a-client").status, 404);

    let reply = "cardswitch_stage_seconds_count{stage=\"reply\"}";
    let figures = figures_when(&switch, reply, 10.0);
    let rows = [
        ("cardswitch_ready", 1.0),
        ("cardswitch_state{state=\"ready\"}", 1.0),
        ("cardswitch_state{state=\"stopping\"}", 0.0),
        ("cardswitch_authorizations_total{code=\"0\"}", 8.0),
        ("cardswitch_authorizations_total{code=\"1201\"}", 1.0),
        ("cardswitch_authorizations_total{code=\"1502\"}", 0.0),
        ("cardswitch_answers_total{kind=\"reversal\",outcome=\"reversed\"}", 1.0),
        ("cardswitch_stage_seconds_count{stage=\"decode\"}", 10.0),
        ("cardswitch_iso8583_answer_seconds_count", 10.0),
        ("cardswitch_iso8583_messages_total", 10.0),
        ("cardswitch_iso8583_bad_messages_total", 1.0),
        ("cardswitch_iso8583_connections", 1.0),
        ("cardswitch_queued_commands", 0.0),
        ("cardswitch_overloaded_commands_total", 0.0),
        (
            "cardswitch_http_requests_total{method=\"GET\",route=\"/v1/cards/{card_id}\",status=\"200\"}",
            1.0,
        ),
        (
            "cardswitch_http_requests_total{method=\"GET\",route=\"/v1/cards/{card_id}\",status=\"404\"}",
            1.0,
        ),
        ("cardswitch_http_requests_total{method=\"GET\",route=\"/v1/cards\",status=\"401\"}", 1.0),
        ("cardswitch_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"}", 1.0),
    ];
    for (name, expected) in rows {
        assert_eq!(figure(&figures, name), expected, "{name}");
    }
    for stage in ["queue", "decide", "journal"] {
        let count =
            figure(&figures, &format!("cardswitch_stage_seconds_count{{stage=\"{stage}\"}}"));
        assert!(count >= 10.0, "{stage}: {count}");
        let sum = figure(&figures, &format!("cardswitch_stage_seconds_sum{{stage=\"{stage}\"}}"));
        assert!(sum > 0.0, "{stage} took no time");
    }
    for name in ["journal", "store"] {
        assert!(figure(&figures, &format!("cardswitch_file_bytes{{file=\"{name}\"}}")) > 0.0);
    }
    assert!(figure(&figures, "cardswitch_journal_commit_seconds_count") > 0.0);
    let invented = figures.keys().find(|name| name.contains("invented"));
    assert_eq!(invented, None, "clients name no figures");
    switch.stop();
}

#[test]
fn network_requests_over_http_are_counted_under_their_routes() {
    let installation = Installation::init(60, 882);
    let switch = installation.serve();
    let network = switch.network_api();
    let body = serde_json::json!({
        "card_number": installation.cards.ordinary().pan,
        "amount": 1,
        "merchant": {"mid": "1", "mcc": 5812, "name": "Cafe", "city": "Oakland", "state": "CA",
            "country": "US", "zip": "94601"},
    });
    for path in ["/network/v1/authorizations", "/network/v1/authorizations/"] {
        assert_eq!(network.post(path, &body).expect(200)["response_code"], 0);
    }
    let name = "cardswitch_http_requests_total{method=\"POST\",\
                route=\"/network/v1/authorizations\",status=\"200\"}";
    assert_eq!(figure(&figures(&switch), name), 2.0, "with a slash at its end too");
    drop(figures_when(&switch, "cardswitch_authorizations_total{code=\"0\"}", 2.0));
}

/// The expressions of the rules and of the dashboard.
fn expressions() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/observability");
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("it is there");
    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("a dashboard has panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array()).flatten();
    let mut found: Vec<String> = targets
        .map(|target| target["expr"].as_str().expect("a target has an expression").to_owned())
        .collect();
    assert!(found.len() > 30, "the dashboard shows something");
    // Lines of a rule beside its expression name figures in backticks only.
    let rules = read("alerts.yml");
    found.extend(rules.lines().filter(|line| !line.contains('`')).map(str::to_owned));
    found
}

/// The names of figures in an expression.
fn names_in(expression: &str) -> BTreeSet<String> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = expression.split(|letter| !is_name(letter));
    let starts = ["cardswitch_", "process_"];
    let names = words.filter(|word| starts.iter().any(|start| word.starts_with(start)));
    names.map(str::to_owned).collect()
}

/// A rule about a figure that is not there never fires, and nobody learns of it.
#[test]
fn rules_and_dashboard_name_figures_that_are_there() {
    // A node has all figures of a switch, and those of a cluster.
    let cluster = Cluster::of(Installation::init(60, 883));
    let switch = cluster.node(cluster.wait_for_leader());
    // Routes are there once they were asked.
    assert_eq!(switch.api().get("/v1/company").status, 200);
    // Clocks are compared once the other nodes have answered.
    let compared = "cardswitch_cluster_node_clock_apart_ms";
    let mut figures = loop {
        let figures = figures(switch);
        if figures.keys().any(|name| name.starts_with(compared)) {
            break figures;
        }
        std::thread::sleep(CLOCKS_WAIT);
    };
    figures.extend(figures_of(&Route::before(&[("01", &[switch])]).watcher()));
    let there: BTreeSet<_> =
        figures.keys().map(|name| name.split('{').next().unwrap_or_default()).collect();
    let (mut named, mut labels) = (BTreeSet::new(), 0);
    for expression in expressions() {
        for name in names_in(&expression) {
            assert!(there.contains(name.as_str()), "`{name}` in `{expression}` is no figure");
            named.insert(name);
        }
        // Exact values of labels: `code="0"`, `state="failed"`.
        for (start, _) in expression.match_indices("=\"") {
            let label = expression[..start].rsplit(|c: char| !c.is_ascii_lowercase()).next();
            let label = label.unwrap_or_default();
            let value = expression[start + 2..].split('"').next().unwrap_or_default();
            if ["job", "instance"].contains(&label) || value.starts_with('$') {
                continue;
            }
            let shown = format!("{label}=\"{value}\"");
            assert!(figures.keys().any(|name| name.contains(&shown)), "{shown} is never shown");
            labels += 1;
        }
    }
    assert!(labels > 0, "labels are looked at");
    let own = there.iter().filter(|name| name.starts_with("cardswitch_") && !is_part(name));
    let forgotten: Vec<_> = own.filter(|name| !named.contains(**name)).collect();
    let known = [
        "cardswitch_ready",
        "cardswitch_state",
        "cardswitch_iso8583_connections_total",
        "cardswitch_iso8583_messages_total",
    ];
    let forgotten: Vec<_> = forgotten.into_iter().filter(|name| !known.contains(name)).collect();
    assert!(forgotten.is_empty(), "neither shown nor watched: {forgotten:?}");
}

/// Whether it is a line of a histogram besides its buckets.
fn is_part(name: &str) -> bool {
    ["_seconds_sum", "_seconds_count"].iter().any(|end| name.ends_with(end))
}

#[test]
fn health_is_told_at_both_addresses_and_to_anybody() {
    let installation = Installation::init(1, 884);
    let switch = installation.serve();
    for client in [switch.watcher(), switch.anonymous()] {
        for path in ["/healthz", "/readyz"] {
            let answer = client.get(path);
            assert_eq!(answer.header("cache-control"), Some("no-store"));
            assert_eq!(answer.expect(200), serde_json::json!({"status": "ready"}), "{path}");
        }
    }
    assert_eq!(switch.watcher().get("/v1/company").status, 404, "figures alone are there");
    assert_eq!(switch.anonymous().get("/metrics").status, 404, "and only there");
}

/// Waits until a switch that was asked to stop says so.
#[track_caller]
fn until_stopping(client: &HttpClient) {
    while client.get("/readyz").status == 200 {
        std::thread::yield_now();
    }
    assert_eq!(client.get("/readyz").expect(503)["status"], "stopping");
    assert_eq!(client.get("/healthz").status, 200);
}

#[test]
fn a_switch_that_stops_says_so_goes_on_and_loses_nothing() {
    let installation = Installation::init(60, 885);
    let switch = installation.serve_with(&["--stop-delay-s", "3"]);
    let card = installation.cards.ordinary();
    let mut acquirer = switch.acquirer();
    let _ = acquirer.ask(&Purchase::of(card, 100).request()).expect_approved();
    switch.ask_to_stop();
    until_stopping(&switch.watcher());
    until_stopping(&switch.anonymous());
    // Clients that have not heard of it yet are served: new connections, purchases, requests.
    let mut late = switch.acquirer();
    let _ = late.ask(&Purchase::of(card, 100).request()).expect_approved();
    assert_eq!(switch.api().get("/v1/company").status, 200);
    // Requests in flight when the doors close are answered.
    let mut answered = 2;
    while late.send(&Purchase::of(card, 100).request()).is_ok() {
        let Ok(answer) = late.receive() else { break };
        let _ = answer.expect_approved();
        answered += 1;
    }
    switch.wait();
    let switch = installation.serve();
    let found = switch.api().get("/v1/transactions?limit=1").expect(200)["count"].clone();
    let found = found.as_u64().expect("a count");
    // The last one may have been decided without its answer having been taken.
    assert!((answered..=answered + 1).contains(&found), "{answered} answered, {found} kept");
    switch.stop();
    installation.verify_ok();
}

/// Once, the delay had no bound, and every further signal was ignored.
#[test]
fn a_second_signal_ends_the_delay_of_a_stop() {
    let installation = Installation::init(1, 887);
    let switch = installation.serve_with(&["--stop-delay-s", "600"]);
    switch.ask_to_stop();
    until_stopping(&switch.watcher());
    switch.ask_to_stop();
    switch.wait();
    installation.verify_ok();
}

#[test]
fn a_port_for_metrics_that_was_asked_for_and_is_taken_is_told_in_one_line() {
    let installation = Installation::init(1, 886);
    let holder = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = holder.local_addr().expect("its address").to_string();
    let data = installation.data();
    let data = data.to_str().expect("temporary paths are UTF-8");
    let free = "127.0.0.1:0";
    let arguments = ["serve", "--data", data, "--http", free, "--iso8583", free];
    let told = run_cardswitch(&[&arguments[..], &["--metrics", &taken]].concat());
    let told = told.expect_one_line_error();
    assert!(told.contains(&format!("metrics address {taken} is in use")), "{told}");
    drop(holder);
    let switch = installation.serve_with(&["--metrics", &taken]);
    assert_eq!(switch.metrics.to_string(), taken);
    switch.stop();
}

#[test]
fn the_log_is_json_with_ids_of_requests_and_transactions() {
    let installation = Installation::init(60, 887);
    let switch = installation.serve_logging("debug", &["--log", "json"]);
    let card = installation.cards.ordinary();
    let mut acquirer = switch.acquirer();
    let _ = acquirer.ask(&Purchase::of(card, 100).request()).expect_approved();
    let found = switch.api().get("/v1/transactions").expect(200);
    let transaction = found["results"][0]["id"].as_str().expect("an id").to_owned();
    let answer = switch.api().get(&format!("/v1/transactions/{transaction}"));
    let request = answer.header("request-id").expect("an id").to_owned();
    switch.ask_to_stop();
    let log = loop {
        let log = switch.log();
        if log.contains("\"stopping\"") {
            break log;
        }
        std::thread::yield_now();
    };
    switch.wait();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    let tells = |line: &Value, id: &str| line.to_string().contains(id);
    let of_request: Vec<_> = lines.iter().filter(|line| tells(line, &request)).collect();
    assert_eq!(of_request.len(), 1, "{of_request:#?}");
    assert_eq!(of_request[0]["span"]["name"], "request");
    assert_eq!(of_request[0]["fields"]["status"], 200);
    let of_purchase = lines.iter().find(|line| line["fields"]["transaction"] == *transaction);
    let of_purchase = of_purchase.expect("a purchase is told under its transaction's id");
    assert_eq!(of_purchase["fields"]["response_code"], 0);
    assert!(!log.contains(&card.pan), "never its card");
}
