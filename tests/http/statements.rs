//! Statement lines and statement files: what was posted, on which day of the company, and that
//! opening balance, lines and closing balance agree in every format.
//!
//! The company of these tests lives in Los Angeles, where 2026-03-08 has 23 hours.

use std::io::Write;
use std::process::{Command, Stdio};

use cardswitch_harness::{HttpClient, HttpResponse, Installation, Switch, TestCard, minor};
use serde_json::{Value, json};

const OPENING: i64 = 5_000_000_000;
const NOBODY: &str = "01890000-0000-7000-8000-000000000000";
/// Names that a company and its merchants may have.
const COMPANY: &str = "Łódź & 東京 <Ltd>";
const MERCHANT: &str = "=Café \"Ω\", 山田";

/// A switch that stands at noon of 2026-03-10 and has five lines:
///
/// | number | posted | day | amount |
/// |---|---|---|---|
/// | 1 | 2026-02-27 10:00 PST | 2026-02-27 | 50,000,000.00, the opening balance |
/// | 2 | 2026-03-07 23:59:59 PST | 2026-03-07 | -10.00 |
/// | 3 | 2026-03-08 00:00 PST | 2026-03-08 | -20.50 |
/// | 4 | 2026-03-08 23:59:59 PDT | 2026-03-08 | 300.00, a deposit |
/// | 5 | 2026-03-09 00:00 PDT | 2026-03-09 | -0.75 |
struct World {
    /// Dropped before the directory that it logs to.
    switch: Switch,
    installation: Installation,
}

impl World {
    fn new(seed: u64) -> Self {
        let further = ["--time", "2026-02-27T18:00:00Z", "--name", COMPANY];
        let installation = Installation::init_with(60, seed, &further);
        let switch = installation.serve_with(&["--clock", "manual"]);
        let world = Self { installation, switch };
        world.purchase_at("2026-03-08T07:59:59Z", 10.0);
        world.purchase_at("2026-03-08T08:00:00Z", 20.5);
        world.turn_clock("2026-03-09T06:59:59Z");
        world.deposit(300.0, "First Bank 0042");
        world.purchase_at("2026-03-09T07:00:00Z", 0.75);
        world.turn_clock("2026-03-10T19:00:00Z");
        world
    }

    fn turn_clock(&self, now: &str) {
        self.switch.network_api().post("/network/v1/clock", &json!({"now": now})).expect(200);
    }

    fn purchase_at(&self, now: &str, amount: f64) {
        self.turn_clock(now);
        purchase(&self.switch, self.installation.cards.ordinary(), amount);
    }

    fn deposit(&self, amount: f64, description: &str) {
        let bank = json!({"description": description, "name": "Checking", "number": "0042"});
        let account_id = &self.installation.credentials.account_id;
        let body = json!({"account_id": account_id, "amount": amount, "bank_account": bank,
            "settled": true});
        self.switch.network_api().post("/network/v1/transfers", &body).expect(200);
    }

    fn get(&self, rest: &str) -> HttpResponse {
        let account = &self.installation.credentials.account_id;
        self.switch.api().get(&format!("/v1/accounts/{account}/{rest}"))
    }

    #[track_caller]
    fn numbers(&self, query: &str) -> Vec<i64> {
        let page = self.get(&format!("statement-lines?{query}")).expect(200);
        let rows = page["results"].as_array().expect("results");
        rows.iter().map(|row| row["number"].as_i64().expect("a number")).collect()
    }
}

#[test]
fn line_has_every_field_and_is_found_by_its_id() {
    let world = World::new(861);
    let page = world.get("statement-lines?limit=2").expect(200);
    assert_eq!(page["count"], 5);
    let (purchase, deposit) = (&page["results"][0], &page["results"][1]);
    for line in [purchase, deposit] {
        for key in ["id", "url", "amount", "description", "card", "member", "origin", "date"] {
            assert!(line.get(key).is_some(), "a line has `{key}`: {line:#}");
        }
        for key in ["id", "url", "amount", "state", "category", "department", "label", "location"]
            .into_iter()
            .chain(["receipt", "note", "time"])
        {
            assert!(line["origin"].get(key).is_some(), "an origin has `{key}`: {line:#}");
        }
        assert_eq!(line["time"], line["created_at"]);
        let id = line["id"].as_str().expect("an id");
        assert_eq!(&world.get(&format!("statement-lines/{id}")).expect(200), line);
        let url = line["url"].as_str().expect("a url");
        assert!(url.ends_with(&format!("/statement-lines/{id}")), "{url}");
    }
    assert_eq!((minor(&purchase["amount"]), &purchase["number"]), (-75, &json!(5)));
    assert_eq!(purchase["date"], "2026-03-09");
    let time = purchase["time"].as_str().expect("a time");
    assert!(time.starts_with("2026-03-09T07:00:00.") && time.ends_with('Z'), "{time}");
    assert_eq!(purchase["merchant"]["name"], MERCHANT);
    assert_eq!(purchase["merchant"]["zip"], "78701");
    let card = world.installation.cards.ordinary();
    assert_eq!(purchase["card"]["id"], card.card_id.as_str());
    let description = purchase["description"].as_str().expect("a description");
    assert!(description.starts_with(MERCHANT), "{description}");
    assert_eq!(purchase["origin"]["state"], "completed");
    let origin = purchase["origin"]["id"].as_str().expect("an origin");
    let origin = world.switch.api().get(&format!("/v1/transactions/{origin}")).expect(200);
    assert_eq!(minor(&origin["amount"]), -75);
    assert_eq!(purchase.get("bank_account"), None);

    assert_eq!((minor(&deposit["amount"]), &deposit["date"]), (30_000, &json!("2026-03-08")));
    assert_eq!(deposit["description"], "First Bank 0042");
    assert_eq!(deposit["bank_account"]["name"], "Checking");
    assert_eq!((&deposit["card"], deposit.get("merchant")), (&Value::Null, None));
}

#[test]
fn several_presentments_are_several_lines_of_one_origin() {
    let world = World::new(862);
    let network = world.switch.network_api();
    let body = authorization(world.installation.cards.ordinary(), 30.0);
    let id =
        network.post("/network/v1/authorizations", &body).expect(200)["transaction_id"].clone();
    for (number, amount) in [(1, 12.0), (2, 18.0)] {
        let body = json!({"transaction_id": id, "amount": amount,
            "presentment_number": number, "presentment_count": 2});
        network.post("/network/v1/presentments", &body).expect(200);
    }
    let page = world.get("statement-lines?limit=2").expect(200);
    for (place, amount_minor) in [(0, -1_800), (1, -1_200)] {
        assert_eq!(minor(&page["results"][place]["amount"]), amount_minor);
        assert_eq!(page["results"][place]["origin"]["id"], id);
        assert_eq!(minor(&page["results"][place]["origin"]["amount"]), -3_000);
    }
}

#[test]
fn filters_and_orderings_find_what_they_name() {
    let world = World::new(863);
    let rows: [(&str, &[i64]); 27] = [
        ("", &[5, 4, 3, 2, 1]),
        ("ordering=-number", &[5, 4, 3, 2, 1]),
        ("ordering=number", &[1, 2, 3, 4, 5]),
        ("ordering=-created_at", &[5, 4, 3, 2, 1]),
        ("ordering=created_at", &[1, 2, 3, 4, 5]),
        ("limit=2&offset=1", &[4, 3]),
        ("limit=2&offset=4&ordering=number", &[5]),
        ("offset=9", &[]),
        ("number=3", &[3]),
        ("number=0", &[]),
        ("number=6", &[]),
        ("number__gt=3", &[5, 4]),
        ("number__lt=3", &[2, 1]),
        ("number__gt=1&number__lt=4&ordering=number", &[2, 3]),
        ("number__gt=4&number__lt=2", &[]),
        // The first and the last instant of a day belong to it; this one has 23 hours.
        ("start_date=2026-03-08&end_date=2026-03-08", &[4, 3]),
        ("start_date=2026-03-08&end_date=2026-03-09", &[5, 4, 3]),
        ("start_date=2026-03-08", &[5, 4, 3]),
        ("start_date=2026-03-10", &[]),
        ("start_date=2026-03-11", &[]),
        ("end_date=2026-03-07", &[2, 1]),
        ("end_date=2026-02-26", &[]),
        ("end_date=2026-03-08&number__gt=2&ordering=number", &[3, 4]),
        ("start_date=2025-11-01&end_date=2026-02-27", &[1]),
        ("created_after=2026-03-08T08:00:00Z", &[5, 4, 3]),
        ("created_before=2026-03-08T08:00:00Z", &[2, 1]),
        ("created_after=2026-03-08T08:00:01Z&created_before=2026-03-09T07:00:00Z", &[4]),
    ];
    for (query, expected) in rows {
        assert_eq!(world.numbers(query), expected, "{query}");
    }
    let page = world.get("statement-lines?number__lt=5&limit=2&offset=1").expect(200);
    assert_eq!(page["count"], 4);
    let next = page["next"].as_str().expect("a next page");
    assert!(next.ends_with("number__lt=5&limit=2&offset=3"), "{next}");
    let previous = page["previous"].as_str().expect("a previous page");
    assert!(previous.ends_with("number__lt=5&limit=2&offset=0"), "{previous}");
}

#[test]
fn what_is_wrong_is_named() {
    let world = World::new(864);
    let rows = [
        ("start_date=2026-03-09&end_date=2026-03-08", "start_date", "after_end_date"),
        ("start_date=2025-09-09&end_date=2026-03-09", "start_date", "range_too_long"),
        ("start_date=2026-3-9x", "start_date", "not_a_date"),
        ("end_date=2026-02-30", "end_date", "not_a_date"),
        ("end_date=yesterday", "end_date", "not_a_date"),
    ];
    for (query, param, code) in rows {
        for resource in ["statement-lines", "statement.csv", "statement.ofx", "statement.pdf"] {
            let detail = world.get(&format!("{resource}?{query}")).expect_error(400);
            assert_eq!(
                (&detail["param"], &detail["code"]),
                (&json!(param), &json!(code)),
                "{query}"
            );
        }
    }
    for query in ["number=x", "number__gt=-1", "number__lt=1.5", "ordering=amount", "limit=-1"] {
        world.get(&format!("statement-lines?{query}")).expect_error(400);
    }
    let both = world.get("statement-lines?number=x&end_date=y").expect_error(400);
    assert_eq!(both["errors"].as_array().map(Vec::len), Some(2), "{both:#}");
    for format in ["statement.xlsx", "statement.CSV", "statement", "statement.", "other.csv"] {
        world.get(format).expect_error(404);
    }
}

#[test]
fn lines_and_files_of_others_do_not_exist() {
    let world = World::new(865);
    let api = world.switch.api();
    let line = world.get("statement-lines?limit=1").expect(200)["results"][0]["id"].clone();
    let line = line.as_str().expect("an id");
    for rest in ["statement-lines", "statement.csv", "statement.ofx", "statement.pdf"] {
        for account in [NOBODY, "not-an-id"] {
            api.get(&format!("/v1/accounts/{account}/{rest}")).expect_error(404);
        }
        let own = format!("/v1/accounts/{}/{rest}", world.installation.credentials.account_id);
        world.switch.anonymous().get(&own).expect_error(401);
        api.post(&own, &json!({})).expect_error(405);
    }
    api.get(&format!("/v1/accounts/{NOBODY}/statement-lines/{line}")).expect_error(404);
    for id in [NOBODY, "not-an-id", &world.installation.cards.ordinary().card_id] {
        world.get(&format!("statement-lines/{id}")).expect_error(404);
    }
}

#[test]
fn csv_adds_up_and_no_cell_is_a_formula() {
    let world = World::new(866);
    let query = "start_date=2026-03-08&end_date=2026-03-09";
    let answer = world.get(&format!("statement.csv?{query}"));
    expect_file(&answer, "text/csv", "2026-03-08-to-2026-03-09.csv");
    let rows = csv_rows(&answer);
    assert_eq!(rows[0][..5], ["date", "number", "description", "amount", "balance"]);
    let lines = world.get(&format!("statement-lines?{query}&ordering=number")).expect(200);
    let lines = lines["results"].as_array().expect("results");
    let mut balance = OPENING - 1_000;
    assert_eq!(rows.len(), lines.len() + 1);
    for (row, line) in rows[1..].iter().zip(lines) {
        balance += minor(&line["amount"]);
        assert_eq!(row[0], line["date"].as_str().expect("a date"));
        assert_eq!(row[1], line["number"].to_string());
        assert_eq!(minor(&json!(row[3])), minor(&line["amount"]));
        assert_eq!(minor(&json!(row[4])), balance, "{row:?}");
        assert_eq!(row.last().map(String::as_str), line["id"].as_str());
        for text in [&row[2], &row[6], &row[8], &row[10], &row[11]] {
            assert!(!text.starts_with(['=', '+', '-', '@']), "{row:?}");
        }
    }
    assert_eq!(rows[1][6], format!("'{MERCHANT}"), "quotes and commas survive");
    assert_eq!(rows[3][3], "-0.75", "an amount is a number, not a text");
}

#[test]
fn ofx_names_both_balances_and_each_line_once() {
    let world = World::new(867);
    let answer = world.get("statement.ofx?start_date=2026-03-08&end_date=2026-03-09");
    expect_file(&answer, "application/x-ofx", "2026-03-08-to-2026-03-09.ofx");
    let text = answer.text();
    assert!(text.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\""), "{text}");
    let amounts: Vec<i64> = elements(&text, "TRNAMT").map(|text| minor(&json!(text))).collect();
    assert_eq!(amounts, [-2_050, 30_000, -75]);
    let mut ids: Vec<&str> = elements(&text, "FITID").collect();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    let values: Vec<i64> = elements(&text, "VALUE").map(|text| minor(&json!(text))).collect();
    let closing = OPENING - 1_000 + amounts.iter().sum::<i64>();
    assert_eq!(values, [OPENING - 1_000, closing]);
    let balances: Vec<i64> = elements(&text, "BALAMT").map(|text| minor(&json!(text))).collect();
    assert_eq!(balances, [closing, closing], "nothing is held, nothing came later");
    assert_eq!(elements(&text, "TRNTYPE").collect::<Vec<_>>(), ["POS", "XFER", "POS"]);
}

#[test]
fn pdf_reads_back_as_the_statement_it_is() {
    let world = World::new(868);
    for number in 0..60 {
        purchase(&world.switch, world.installation.cards.ordinary(), 1.0 + f64::from(number));
    }
    let answer = world.get("statement.pdf?start_date=2026-03-08&end_date=2026-03-10");
    expect_file(&answer, "application/pdf", "2026-03-08-to-2026-03-10.pdf");
    let text = read_pdf(&answer);
    let number = account_number(&world.switch.api());
    for expected in [COMPANY, "Account statement", &number, "2026-03-08 to 2026-03-10", "USD"] {
        assert!(text.contains(expected), "no `{expected}` in {text}");
    }
    let spent: i64 = (0..60).map(|number| 100 * (number + 1)).sum::<i64>() + 2_050 + 75;
    let (opening, closing) = (OPENING - 1_000, OPENING - 1_000 + 30_000 - spent);
    for (name, expected) in [
        ("Opening balance", opening),
        ("Credits (1)", 30_000),
        ("Debits (62)", -spent),
        ("Closing balance", closing),
        ("Total credits", 30_000),
        ("Total debits", -spent),
    ] {
        let found = text.lines().any(|line| amount_behind(line, name) == Some(expected));
        assert!(found, "no `{name}` of {expected} in {text}");
    }
    let rows: Vec<(i64, i64)> = text.lines().filter_map(printed_line).collect();
    let expected = [-2_050, 30_000, -75].into_iter().chain((1..=60).map(|number| -100 * number));
    let mut balance = opening;
    assert_eq!(rows.len(), 63);
    for ((amount, printed_balance), expected) in rows.into_iter().zip(expected) {
        balance += expected;
        assert_eq!((amount, printed_balance), (expected, balance));
    }
    assert!(text.contains(MERCHANT) && text.contains("First Bank 0042"), "{text}");
    let pages = text.matches("Account statement").count();
    assert!(pages >= 2);
    for page in 1..=pages {
        assert!(text.contains(&format!("Page {page} of {pages}")), "{text}");
    }
}

#[test]
fn statement_is_of_this_month_unless_it_says_otherwise() {
    let world = World::new(869);
    let file = |query: &str| {
        let answer = world.get(&format!("statement.csv{query}"));
        let disposition = answer.header("content-disposition").expect("a file name").to_owned();
        let name = disposition.split('"').nth(1).expect("a quoted name").to_owned();
        let rows = csv_rows(&answer);
        let numbers: Vec<String> = rows[1..].iter().map(|row| row[1].clone()).collect();
        let (_, days) = name.split_once("-2026").expect("a year");
        (format!("2026{}", days.trim_end_matches(".csv")), numbers.join(" "))
    };
    let rows = [
        ("", "2026-03-01-to-2026-03-10", "2 3 4 5"),
        ("?end_date=2026-03-08", "2026-03-01-to-2026-03-08", "2 3 4"),
        ("?end_date=2026-02-28", "2026-02-01-to-2026-02-28", "1"),
        ("?start_date=2026-03-09", "2026-03-09-to-2026-03-10", "5"),
        ("?start_date=2026-02-27&end_date=2026-08-26", "2026-02-27-to-2026-08-26", "1 2 3 4 5"),
    ];
    for (query, days, numbers) in rows {
        assert_eq!(file(query), (days.to_owned(), numbers.to_owned()), "{query}");
    }
    // Midnight in Los Angeles is 07:00 in London: until then it is still the tenth.
    world.turn_clock("2026-03-11T06:59:59Z");
    assert_eq!(file("").0, "2026-03-01-to-2026-03-10");
    world.turn_clock("2026-03-11T07:00:00Z");
    assert_eq!(file("").0, "2026-03-01-to-2026-03-11");
    world.turn_clock("2026-04-01T07:00:00Z");
    assert_eq!(file(""), ("2026-04-01-to-2026-04-01".to_owned(), String::new()));
}

#[test]
fn period_without_lines_opens_and_closes_with_the_same_balance() {
    let world = World::new(870);
    let days = "start_date=2026-03-10&end_date=2026-03-10";
    let csv = csv_rows(&world.get(&format!("statement.csv?{days}")));
    assert_eq!(csv.len(), 1, "the header row alone");
    let ofx = world.get(&format!("statement.ofx?{days}")).text();
    let values: Vec<i64> = elements(&ofx, "VALUE").map(|text| minor(&json!(text))).collect();
    let balance = OPENING - 1_000 - 2_050 + 30_000 - 75;
    assert_eq!(values, [balance, balance]);
    let pdf = read_pdf(&world.get(&format!("statement.pdf?{days}")));
    assert!(pdf.contains("No lines in this period") && pdf.contains("Page 1 of 1"), "{pdf}");
    for name in ["Opening balance", "Closing balance"] {
        let found = pdf.lines().any(|line| amount_behind(line, name) == Some(balance));
        assert!(found, "no `{name}` of {balance} in {pdf}");
    }
    let before = csv_rows(&world.get("statement.csv?start_date=2026-01-01&end_date=2026-01-31"));
    assert_eq!(before.len(), 1, "nothing was posted before the company was there");
}

/// Blank descriptions were printed as blank rows, which no accountant can tell apart.
#[test]
fn bank_movements_are_named_and_what_came_back_has_two_lines() {
    let world = World::new(873);
    let network = world.switch.network_api();
    let account_id = &world.installation.credentials.account_id;
    let send = |amount: f64, name: &str| {
        let bank = json!({"description": "", "name": name, "number": ""});
        let body = json!({"account_id": account_id, "amount": amount, "bank_account": bank,
            "settled": true});
        network.post("/network/v1/transfers", &body).expect(200)["transaction_id"].clone()
    };
    let deposit = send(40.0, "");
    send(-15.0, "");
    send(-1.0, "Payroll account");
    let id = deposit.as_str().expect("an id");
    network.post(&format!("/network/v1/transfers/{id}/return"), &json!({})).expect(200);

    let page = world.get("statement-lines?number__gt=5&ordering=number").expect(200);
    let rows = page["results"].as_array().expect("results");
    let amounts: Vec<i64> = rows.iter().map(|row| minor(&row["amount"])).collect();
    assert_eq!(amounts, [4_000, -1_500, -100, -4_000]);
    assert_eq!((&rows[0]["origin"]["id"], &rows[3]["origin"]["id"]), (&deposit, &deposit));
    assert_eq!(rows[0]["origin"]["state"], "canceled", "as the transaction is now");
    let days = "start_date=2026-03-10&end_date=2026-03-10";
    let pdf = read_pdf(&world.get(&format!("statement.pdf?{days}")));
    let ofx = world.get(&format!("statement.ofx?{days}")).text();
    let names = ["Deposit", "Withdrawal", "Payroll account", "Deposit returned"];
    assert_eq!(elements(&ofx, "NAME").take(4).collect::<Vec<_>>(), names);
    let printed: Vec<&str> = pdf.lines().filter(|line| printed_line(line).is_some()).collect();
    assert_eq!(printed.len(), 4);
    for (line, name) in printed.iter().zip(names) {
        assert!(line.contains(name), "no `{name}` in {line}");
    }
}

/// Lines are read in pages: the seams must neither lose a line nor count one twice.
#[test]
fn long_statement_has_every_line_in_every_format() {
    let world = World::new(871);
    let lines = 777;
    let deposit = |number| {
        json!({"type": "transfer", "account_id": world.installation.credentials.account_id,
            "amount": number, "settled": true,
            "bank_account": {"description": "Salary", "name": "", "number": ""}})
    };
    let numbers: Vec<i64> = (1..=lines).collect();
    for some in numbers.chunks(100) {
        let batch: Vec<Value> = some.iter().map(deposit).collect();
        world.switch.network_api().post("/network/v1/batch", &json!(batch)).expect(200);
    }
    let days = "start_date=2026-03-10&end_date=2026-03-10";
    let mut balance = OPENING - 1_000 - 2_050 + 30_000 - 75;
    let csv = csv_rows(&world.get(&format!("statement.csv?{days}")));
    assert_eq!(csv.len() as i64, lines + 1);
    for (row, number) in csv[1..].iter().zip(1..) {
        balance += number * 100;
        assert_eq!(row[1], (number + 5).to_string());
        assert_eq!((minor(&json!(row[3])), minor(&json!(row[4]))), (number * 100, balance));
    }
    let ofx = world.get(&format!("statement.ofx?{days}")).text();
    let amounts: Vec<i64> = elements(&ofx, "TRNAMT").map(|text| minor(&json!(text))).collect();
    assert_eq!(amounts, numbers.iter().map(|number| number * 100).collect::<Vec<_>>());
    assert_eq!(elements(&ofx, "VALUE").map(|text| minor(&json!(text))).last(), Some(balance));
    let pdf = read_pdf(&world.get(&format!("statement.pdf?{days}")));
    let printed: Vec<i64> = pdf.lines().filter_map(printed_line).map(|row| row.0).collect();
    assert_eq!(printed, amounts);
    assert!(pdf.lines().any(|line| amount_behind(line, "Closing balance") == Some(balance)));
}

#[test]
fn lines_and_files_are_the_same_after_a_restart() {
    let world = World::new(872);
    let look = |world: &World| {
        let lines = world.get("statement-lines?ordering=number").expect(200);
        let rows = lines["results"].as_array().expect("results");
        let ids: Vec<Value> = rows.iter().map(|row| row["id"].clone()).collect();
        (ids, world.get("statement.csv?end_date=2026-03-10").text())
    };
    let before = look(&world);
    let World { installation, switch } = world;
    switch.stop();
    let switch = installation.serve_with(&["--clock", "manual"]);
    let world = World { installation, switch };
    assert_eq!(look(&world), before);
}

#[track_caller]
fn purchase(switch: &Switch, card: &TestCard, amount: f64) {
    let network = switch.network_api();
    let authorization = authorization(card, amount);
    let answer = network.post("/network/v1/authorizations", &authorization).expect(200);
    assert_eq!(answer["approved"], true, "{answer:#}");
    let body = json!({"transaction_id": answer["transaction_id"], "amount": amount});
    network.post("/network/v1/presentments", &body).expect(200);
}

fn authorization(card: &TestCard, amount: f64) -> Value {
    json!({"card_number": card.pan, "amount": amount, "merchant": {"mid": "M-1", "mcc": 5411,
        "name": MERCHANT, "city": "Austin", "state": "TX", "country": "US", "zip": "78701"}})
}

fn account_number(api: &HttpClient) -> String {
    let accounts = api.get("/v1/accounts").expect(200);
    accounts["results"][0]["number"].as_str().expect("a number").to_owned()
}

#[track_caller]
fn expect_file(answer: &HttpResponse, content_type: &str, name_end: &str) {
    assert_eq!(answer.status, 200);
    let found = answer.header("content-type").unwrap_or_default();
    assert!(found.starts_with(content_type), "{found}");
    let disposition = answer.header("content-disposition").unwrap_or_default();
    assert!(disposition.starts_with("attachment; filename=\"statement-"), "{disposition}");
    assert!(disposition.ends_with(&format!("-{name_end}\"")), "{disposition}");
}

#[track_caller]
fn csv_rows(answer: &HttpResponse) -> Vec<Vec<String>> {
    let text = answer.text();
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let rows = reader.records().map(|row| row.expect("a row reads back"));
    rows.map(|row| row.iter().map(str::to_owned).collect()).collect()
}

/// The texts of the elements of a name, in order.
fn elements<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let parts: Vec<&str> = text.split(open.as_str()).skip(1).collect();
    parts.into_iter().map(move |part| part.split(close.as_str()).next().expect("an end"))
}

/// The text of a document as it is laid out.
#[track_caller]
fn read_pdf(answer: &HttpResponse) -> String {
    assert!(answer.bytes().starts_with(b"%PDF-1."), "no PDF");
    let mut reader = Command::new("pdftotext")
        .args(["-layout", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`pdftotext` of poppler-utils is installed");
    let mut input = reader.stdin.take().expect("a pipe");
    input.write_all(answer.bytes()).expect("pdftotext reads");
    drop(input);
    let output = reader.wait_with_output().expect("pdftotext ends");
    assert!(output.status.success(), "pdftotext refused the document");
    String::from_utf8(output.stdout).expect("text is UTF-8")
}

/// The amount at the end of a printed line that has this name in it.
fn amount_behind(line: &str, name: &str) -> Option<i64> {
    let (_, behind) = line.split_once(name)?;
    printed_amount(behind.split_whitespace().last()?)
}

/// Amount and balance of a printed row: date, number, description, amount, balance.
fn printed_line(line: &str) -> Option<(i64, i64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [date, number, .., amount, balance] = words[..] else { return None };
    let is_row = date.len() == 10 && date.starts_with("20") && number.parse::<u64>().is_ok();
    is_row.then(|| printed_amount(amount).zip(printed_amount(balance)))?
}

fn printed_amount(word: &str) -> Option<i64> {
    let plain: String = word.chars().filter(|char| *char != ',').collect();
    plain.parse::<f64>().is_ok().then(|| minor(&json!(plain)))
}
