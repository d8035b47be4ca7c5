//! `cardswitch export` into a real PostgreSQL: killed again and again, it writes every transaction and line once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cardswitch_harness::{
    Acquirer, HttpClient, Installation, Postgresql, Purchase, Random, Switch, TestCard,
    campaign_scaled, cardswitch_binary, minor, run_cardswitch, seed_for,
};
use serde_json::Value;

const ROWS: &str = "SELECT id, (amount * 100)::bigint, state, kind, coalesce(response_code::text, ''), \
    coalesce(card_id::text, ''), coalesce(merchant_name, ''), \
    to_char(authorized_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') \
    FROM cardswitch.transactions";

const LINES: &str = "SELECT account_id || ' ' || number, id, transaction_id, (amount * 100)::bigint, description, \
    coalesce(card_id::text, ''), coalesce(member_id::text, ''), coalesce(mcc::text, ''), \
    coalesce(merchant_name, ''), coalesce(merchant_country, ''), posted_on, \
    to_char(posted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') \
    FROM cardswitch.statement_lines";

/// An export to its end or until it is killed.
fn export(switch: &Switch, to: &Postgresql, further: &[&str]) -> Command {
    let mut command = Command::new(cardswitch_binary());
    command.arg("export").args(further);
    command.env("CARDSWITCH_EXPORT_TO", to.url());
    command.env("CARDSWITCH_URL", format!("http://{}", switch.http));
    command.env("CARDSWITCH_TOKEN", &switch.credentials().access_token);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[track_caller]
fn export_all(switch: &Switch, to: &Postgresql) -> String {
    let output = export(switch, to, &["--once"]).output().expect("cardswitch starts");
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}{errors}");
    told
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All rows of a list of /v1.
fn all_rows(api: &HttpClient, path: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut path = format!("{path}?limit=1000");
    loop {
        let page = api.get(&path).expect(200);
        all.extend_from_slice(page["results"].as_array().expect("a list"));
        let Some(next) = page["next"].as_str() else { return all };
        let place = next.find("/v1/").expect("an address of this API");
        path = next[place..].to_owned();
    }
}

/// A value as the database writes it.
fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Every transaction as /v1 shows it, by its id.
fn listed(api: &HttpClient) -> BTreeMap<String, Vec<String>> {
    let row = |row: Value| {
        let shown = [
            minor(&row["amount"]).to_string(),
            cell(&row["state"]),
            cell(&row["kind"]),
            cell(&row["response_code"]),
            cell(&row["card"]["id"]),
            cell(&row["merchant"]["name"]),
            cell(&row["time"]),
        ];
        (cell(&row["id"]), shown.to_vec())
    };
    all_rows(api, "/v1/transactions").into_iter().map(row).collect()
}

/// Every statement line as /v1 shows it, by its account and number.
fn listed_lines(api: &HttpClient) -> BTreeMap<String, Vec<String>> {
    let accounts = all_rows(api, "/v1/accounts");
    let lines = accounts.iter().flat_map(|account| {
        let account = cell(&account["id"]);
        let lines = all_rows(api, &format!("/v1/accounts/{account}/statement-lines"));
        lines.into_iter().map(move |line| {
            let shown = [
                cell(&line["id"]),
                cell(&line["origin"]["id"]),
                minor(&line["amount"]).to_string(),
                cell(&line["description"]),
                cell(&line["card"]["id"]),
                cell(&line["member"]["id"]),
                cell(&line["merchant"]["mcc"]),
                cell(&line["merchant"]["name"]),
                cell(&line["merchant"]["country"]),
                cell(&line["date"]),
                cell(&line["time"]),
            ];
            (format!("{account} {}", cell(&line["number"])), shown.to_vec())
        })
    });
    lines.collect()
}

fn exported(from: &Postgresql, query: &str) -> BTreeMap<String, Vec<String>> {
    let rows = from.rows(query);
    let count = rows.len();
    let by_id: BTreeMap<_, _> = rows.into_iter().map(|mut row| (row.remove(0), row)).collect();
    assert_eq!(by_id.len(), count, "an id stands there twice");
    by_id
}

/// Buys, reverses and presents until `is_over` is set.
fn trade(door: SocketAddr, cards: &[TestCard], is_over: &AtomicBool, mut random: Random) {
    let mut acquirer = Acquirer::connect(door);
    while !is_over.load(Ordering::Relaxed) {
        let purchase = Purchase::of(&cards[random.index(cards.len())], random.between(1, 9));
        let answer = acquirer.ask(&purchase.request());
        if answer.response() != "00" {
            continue;
        }
        let authorization = answer.expect_approved();
        let later = match random.index(3) {
            0 => purchase.reversal(&authorization),
            1 => purchase.presentment(&authorization, purchase.amount_minor),
            _ => continue,
        };
        drop(acquirer.ask(&later));
    }
}

fn kill(mut export: Child) {
    export.kill().expect("the export runs");
    export.wait().expect("it can be waited for");
}

#[test]
fn an_export_killed_at_any_point_writes_every_transaction_once() {
    let mut random = Random::new(seed_for("an_export_killed_at_any_point"));
    let installation = Installation::init(200, random.next_u64() >> 1);
    let switch = installation.serve();
    let database = Postgresql::start();
    let cards: Vec<_> = installation.cards.all().to_vec();
    let is_over = AtomicBool::new(false);
    let seeds = [(); 2].map(|()| random.next_u64());
    let kills = campaign_scaled(12, 300);
    thread::scope(|scope| {
        for seed in seeds {
            let (cards, is_over, door) = (&cards, &is_over, switch.iso8583);
            scope.spawn(move || trade(door, cards, is_over, Random::new(seed)));
        }
        for turn in 0..kills {
            let running = export(&switch, &database, &[]).spawn().expect("cardswitch starts");
            thread::sleep(Duration::from_millis(random.between(20, 700)));
            if turn % 4 == 3 {
                // Its own transaction is cut in two then.
                database.crash();
                database.go_on();
            }
            kill(running);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    export_all(&switch, &database);
    let listed = listed(&switch.api());
    assert!(listed.len() > 100, "{} transactions are no load", listed.len());
    let lines = listed_lines(&switch.api());
    assert!(lines.len() > 20, "{} lines are few", lines.len());
    let check_rows = || {
        for (query, listed) in [(ROWS, &listed), (LINES, &lines)] {
            let exported = exported(&database, query);
            assert_eq!(exported.len(), listed.len(), "as many rows as listed");
            for (id, row) in listed {
                assert_eq!(exported.get(id), Some(row), "{id}");
            }
        }
    };
    check_rows();
    // There is nothing more to write.
    assert_eq!(
        export_all(&switch, &database).trim(),
        "0 events written, 0 transactions, 0 statement lines"
    );
    // After the place was put back, every row is written once more.
    let put_back = "WITH put_back AS (UPDATE cardswitch.progress SET event_cursor = NULL RETURNING 1) \
                    SELECT count(*) FROM put_back";
    assert_eq!(database.rows(put_back), [["1"]]);
    let told = export_all(&switch, &database);
    assert!(told.contains(&format!("{} transactions", listed.len())), "{told}");
    check_rows();
    switch.stop();
}

/// Once, an export never ran again after a restore, and rows of lost transactions stayed for ever.
#[test]
fn after_a_restore_an_export_begins_afresh() {
    let installation = Installation::init(3, 922);
    let switch = installation.serve();
    let database = Postgresql::start();
    let mut acquirer = switch.acquirer();
    let buy = |acquirer: &mut Acquirer| {
        let purchase = Purchase::of(installation.cards.ordinary(), 1);
        drop(acquirer.ask(&purchase.request()).expect_approved());
    };
    buy(&mut acquirer);
    export_all(&switch, &database);
    // As if what was exported last had been lost: a row of it, a line, and a place that the switch has not reached.
    let lost = "WITH lost AS (INSERT INTO cardswitch.transactions (id, company_id, sequence, state, kind, \
        amount, failed_rules, flags, has_receipt, note, authorized_at) SELECT gen_random_uuid(), company_id, \
        1, 'pending', 'purchase', -1, '{}', '{}', false, '', now() FROM cardswitch.progress RETURNING 1), \
        posted AS (INSERT INTO cardswitch.statement_lines SELECT company_id, gen_random_uuid(), 1, \
        gen_random_uuid(), gen_random_uuid(), -1, '', NULL, NULL, NULL, NULL, NULL, now(), now() FROM cardswitch.progress), \
        ahead AS (UPDATE cardswitch.progress SET seq = 1000000000 RETURNING 1) \
        SELECT count(*) FROM lost, ahead";
    assert_eq!(database.rows(lost), [["1"]]);
    let output = export(&switch, &database, &["--once"]).output().expect("cardswitch starts");
    let error = text(&output.stderr);
    assert!(!output.status.success() && error.contains("--afresh"), "{error}");
    let told = export(&switch, &database, &["--once", "--afresh"]).output().expect("it starts");
    assert!(told.status.success(), "{}", text(&told.stderr));
    let ids = |rows: BTreeMap<String, Vec<String>>| rows.into_keys().collect::<Vec<_>>();
    assert_eq!(ids(exported(&database, ROWS)), ids(listed(&switch.api())));
    assert_eq!(exported(&database, LINES), listed_lines(&switch.api()));
    buy(&mut acquirer);
    let told = export_all(&switch, &database);
    assert_eq!(told.trim(), "1 events written, 1 transactions, 0 statement lines");
    switch.stop();
}

/// A switch that is exported, and restored from a backup.
struct RestoredSwitch {
    switch: Switch,
    database: Postgresql,
    installation: Installation,
}

impl RestoredSwitch {
    /// One that has a line, all of it exported, and then a backup.
    fn begin(seed: u64) -> Self {
        let (installation, database) = (Installation::init(3, seed), Postgresql::start());
        let switch = installation.serve();
        let begun = Self { switch, database, installation };
        begun.post(11_11);
        export_all(&begun.switch, &begun.database);
        let [data, backup] = [begun.installation.data(), begun.home("backup")];
        run_cardswitch(&["backup", "--data", path_text(&data), "--to", path_text(&backup)])
            .expect_done();
        begun
    }

    fn home(&self, name: &str) -> PathBuf {
        self.installation.home().join(name)
    }

    fn post(&self, amount_minor: u64) {
        let mut acquirer = self.switch.acquirer();
        let purchase = Purchase::of(self.installation.cards.ordinary(), amount_minor);
        let authorization = acquirer.ask(&purchase.request()).expect_approved();
        let posted = acquirer.ask(&purchase.presentment(&authorization, amount_minor));
        assert_eq!(posted.response(), "00");
    }

    /// The switch as it was when the backup was made.
    fn restore(self) -> Self {
        let [backup, restored] = ["backup", "restored"].map(|name| self.home(name));
        let key = self.installation.data().join("master.key");
        let Self { switch, database, installation } = self;
        switch.stop();
        let [from, data, key] = [&backup, &restored, &key].map(|path| path_text(path));
        run_cardswitch(&["restore", "--from", from, "--data", data, "--master-key", key])
            .expect_done();
        let switch = installation.serve_directory(&restored, &[]);
        Self { switch, database, installation }
    }

    /// That an export finds what is lost and writes nothing, until it begins afresh.
    fn expect_found(self) {
        let stored = || [ROWS, LINES].map(|query| exported(&self.database, query));
        let before = stored();
        let mut once = export(&self.switch, &self.database, &["--once"]);
        let output = once.output().expect("cardswitch starts");
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains("--afresh"), "{error}");
        assert_eq!(stored(), before, "rows of two histories");
        let mut afresh = export(&self.switch, &self.database, &["--once", "--afresh"]);
        let output = afresh.output().expect("cardswitch starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let api = self.switch.api();
        assert_eq!(stored(), [listed(&api), listed_lines(&api)]);
        self.switch.stop();
    }
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Once, an export compared the numbers of records alone: it went on, and rows of lost transactions stayed. Later it
/// refused, and had written the lines of the new history.
#[test]
fn an_export_finds_that_a_switch_was_restored_though_it_has_more_records_by_now() {
    let begun = RestoredSwitch::begin(923);
    begun.post(22_22);
    export_all(&begun.switch, &begun.database);
    let restored = begun.restore();
    (0..9).for_each(|_| restored.post(33_33));
    restored.expect_found();
}

/// Once, such lines stayed for ever, and the restored switch's lines of these numbers were left out.
#[test]
fn an_export_finds_that_lines_are_lost_which_it_wrote_before_their_events() {
    let begun = RestoredSwitch::begin(924);
    let place = "SELECT event_cursor, seq FROM cardswitch.progress";
    let place = begun.database.rows(place).remove(0);
    let transactions: Vec<_> = exported(&begun.database, ROWS).into_keys().collect();
    begun.post(11_11);
    begun.post(22_22);
    export_all(&begun.switch, &begun.database);
    // As if it had been killed between lines and events.
    let [cursor, seq] = [&place[0], &place[1]];
    let ids = transactions.iter().map(|id| format!("'{id}'")).collect::<Vec<_>>().join(", ");
    let killed = format!(
        "WITH put_back AS (UPDATE cardswitch.progress SET event_cursor = '{cursor}', seq = {seq} RETURNING 1), \
         unwritten AS (DELETE FROM cardswitch.transactions WHERE id NOT IN ({ids}) RETURNING 1) \
         SELECT (SELECT count(*) FROM put_back), (SELECT count(*) FROM unwritten)"
    );
    assert_eq!(begun.database.rows(&killed), [["1", "2"]]);
    let restored = begun.restore();
    [33_33, 44_44, 55_55].into_iter().for_each(|amount| restored.post(amount));
    restored.expect_found();
}

#[test]
fn an_export_says_what_is_wrong() {
    let installation = Installation::init(3, 921);
    let switch = installation.serve();
    let database = Postgresql::start();
    let refused = |export: &mut Command| {
        let output = export.output().expect("cardswitch starts");
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let mut wrong_token = export(&switch, &database, &[]);
    let error = refused(wrong_token.env("CARDSWITCH_TOKEN", "nobody"));
    assert!(error.contains("an access token is needed"), "{error}");
    let mut wrong_database = export(&switch, &database, &[]);
    let missing = format!("{}nothing", database.url().trim_end_matches("postgres"));
    let error = refused(wrong_database.env("CARDSWITCH_EXPORT_TO", missing));
    assert!(error.contains("database \"nothing\" does not exist"), "{error}");
    let error = refused(export(&switch, &database, &[]).env("CARDSWITCH_EXPORT_TO", "mysql://x/y"));
    assert!(error.contains("--to is no address of a database"), "{error}");
    // Once, it was tried again for ever, and its cause was not told.
    let secured = format!("{}?sslmode=require", database.url());
    let error = refused(export(&switch, &database, &[]).env("CARDSWITCH_EXPORT_TO", secured));
    assert!(
        error.contains("127.0.0.1") && error.contains("server does not support TLS"),
        "{error}"
    );
    // The place is put back by hand below a run.
    export_all(&switch, &database);
    let mut running = export(&switch, &database, &[]).spawn().expect("it starts");
    let is_ready = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' \
        AND query LIKE '%INSERT INTO cardswitch.statement_lines%'";
    while database.rows(is_ready) != [["1"]] {
        thread::sleep(Duration::from_millis(20));
    }
    let moved = "WITH moved AS (UPDATE cardswitch.progress SET event_cursor = NULL RETURNING 1) \
        SELECT count(*) FROM moved";
    assert_eq!(database.rows(moved), [["1"]]);
    let mut acquirer = switch.acquirer();
    let purchase = Purchase::of(installation.cards.ordinary(), 1);
    drop(acquirer.ask(&purchase.request()));
    while exported(&database, ROWS).len() < listed(&switch.api()).len() {
        assert!(running.try_wait().expect("it can be asked").is_none(), "it has ended");
        thread::sleep(Duration::from_millis(20));
    }
    kill(running);
    // Once, the first of two exports that follow the same company could be the one that ended.
    let mut first = export(&switch, &database, &[]).spawn().expect("it starts");
    while database.rows(is_ready) != [["1"]] {
        thread::sleep(Duration::from_millis(20));
    }
    let mut second = export(&switch, &database, &[]).spawn().expect("it starts");
    while second.try_wait().expect("it can be asked").is_none() {
        let purchase = Purchase::of(installation.cards.ordinary(), 1);
        drop(acquirer.ask(&purchase.request()));
        assert!(first.try_wait().expect("it can be asked").is_none(), "the first has ended");
        thread::sleep(Duration::from_millis(20));
    }
    let error = text(&second.wait_with_output().expect("it ended").stderr);
    kill(first);
    assert!(error.contains("another export of this company"), "{error}");
    switch.stop();
}
