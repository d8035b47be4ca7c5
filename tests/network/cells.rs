//! Two cells behind one `route`: cards, tokens and ids find their cell, and a cell that is lost takes nobody
//! else with it.

use cardswitch_harness::{
    Acquirer, HttpClient, HttpRequest, Installation, Message, NetworkTransaction, Purchase, Route,
    Switch, TestCard, next_stan, run_cardswitch, transactions_of_card,
};
use serde_json::{Value, json};

pub(crate) struct Cell {
    pub(crate) name: &'static str,
    /// Before its directory, which ends with it.
    pub(crate) switch: Switch,
    pub(crate) installation: Installation,
}

impl Cell {
    pub(crate) fn start(name: &'static str, seed: u64) -> Self {
        let installation = Installation::init_with(60, seed, &["--cell", name]);
        let switch = installation.serve();
        Self { name, installation, switch }
    }

    pub(crate) fn card(&self) -> &TestCard {
        self.installation.cards.ordinary()
    }

    pub(crate) fn api(&self, route: &Route) -> HttpClient {
        route.api(&self.installation.credentials.access_token)
    }

    pub(crate) fn network_api(&self, route: &Route) -> HttpClient {
        route.network_api(&self.installation.credentials.network_key)
    }

    /// Kills the switch, and returns what starts it again at the same addresses.
    fn kill9(self) -> impl FnOnce() -> Self {
        let Self { name, installation, switch } = self;
        let doors = [switch.http, switch.iso8583, switch.metrics];
        switch.kill9();
        move || {
            let switch = installation.serve_at(doors);
            Self { name, installation, switch }
        }
    }
}

fn two_cells() -> (Cell, Cell, Route) {
    let (first, second) = (Cell::start("01", 2401), Cell::start("02", 2402));
    let route = Route::before(&[(first.name, &[&first.switch]), (second.name, &[&second.switch])]);
    (first, second, route)
}

fn purchase_of(card: &TestCard) -> Value {
    json!({"card_number": card.pan, "amount": "7.00", "merchant": {"mcc": "5411", "name": "SHOP"}})
}

fn transactions(network_api: &HttpClient, card: &TestCard) -> Vec<NetworkTransaction> {
    transactions_of_card(network_api, &card.card_id)
}

#[test]
fn what_names_a_cell_reaches_it_and_no_other() {
    let (first, second, route) = two_cells();
    let mut acquirer = route.acquirer();
    acquirer.assert_alive();
    for (cell, other) in [(&first, &second), (&second, &first)] {
        let card = cell.card();
        assert_eq!(card.pan[8..10], *cell.name);
        assert!(cell.installation.credentials.access_token.starts_with(cell.name));
        assert!(cell.installation.credentials.network_key.starts_with(cell.name));

        let (api, foreign) = (cell.api(&route), other.api(&route));
        let purchase = Purchase::of(card, 1_200);
        assert_eq!(acquirer.ask(&purchase.request()).response(), "00");
        let answer =
            cell.network_api(&route).post("/network/v1/authorizations", &purchase_of(card));
        let transaction = answer.expect(200)["transaction_id"].as_str().expect("an id").to_owned();
        let listed = transactions(&cell.network_api(&route), card);
        assert_eq!(listed.len(), 2, "one by each door");

        for path in [
            format!("/v1/cards/{}", card.card_id),
            format!("/v1/transactions/{transaction}"),
            format!("/v1/transactions/{}", listed[0].transaction_id),
        ] {
            assert!(api.get(&path).expect(200)["id"].is_string(), "{path}");
            assert_eq!(foreign.get(&path).expect_error(404)["code"], "not_found");
        }
        // The key's cell has no such card.
        let foreign = other.network_api(&route);
        let answer = foreign.post("/network/v1/authorizations", &purchase_of(card)).expect(200);
        assert_eq!((&answer["approved"], &answer["response_code"]), (&json!(false), &json!(1000)));

        // Objects and links made through the router are found through it.
        let category = api.post("/v1/categories", &json!({"name": "Travel"})).expect(201);
        let id = category["id"].as_str().expect("an id");
        let made = api.get(&format!("/v1/categories/{id}")).expect(200);
        assert_eq!(made["name"], "Travel");
        let link = api.post("/v1/shared-links", &json!({"card": {"id": card.card_id}})).expect(201);
        let link = link["link"].as_str().expect("an address");
        let path = link.split_once("/s/").expect("the address of a link").1;
        assert_eq!(path.get(..2), Some(cell.name));
        assert_eq!(route.anonymous().get(&format!("/s/{path}")).status, 200);
    }
    // Neither cell saw anything of the other: there are two purchases, and what the account began with.
    for cell in [&first, &second] {
        assert_eq!(cell.switch.api().get("/v1/transactions").expect(200)["count"], 3);
    }
}

#[test]
fn what_names_no_cell_is_answered_by_the_home_cell() {
    let (_first, _second, route) = two_cells();
    for token in ["nonsense".to_owned(), format!("57{}", "ab".repeat(31)), "02".repeat(32)] {
        let refused = route.api(&token).get("/v1/cards").expect_error(401);
        assert_eq!(refused["code"], "unauthorized");
    }
    for path in ["/login", "/docs", "/healthz"] {
        assert_eq!(route.anonymous().get(path).status, 200, "{path}");
    }
    let nobody = "/v1/cards/01890000-0000-7000-8000-000000000000";
    assert_eq!(route.anonymous().get(nobody).expect_error(401)["code"], "unauthorized");

    let mut acquirer = route.acquirer();
    let ask = |acquirer: &mut Acquirer, pan: Option<&str>| {
        let mut message = Message::new("0100");
        message.set_optional(2, pan);
        for (element, content) in [(3, "000000"), (4, "000000000100"), (7, "0115120000")] {
            message.set(element, content);
        }
        message.set(11, &format!("{:06}", next_stan()));
        acquirer.ask(&message).response().to_owned()
    };
    // Another slot, another BIN, a number that is too short to have a slot, and none.
    assert_eq!(ask(&mut acquirer, Some("4537110057123450")), "14");
    assert_eq!(ask(&mut acquirer, Some("5555550000000004")), "14");
    assert_eq!(ask(&mut acquirer, Some("453711000")), "14");
    assert_eq!(ask(&mut acquirer, None), "30");
}

#[test]
fn long_bodies_pass_both_ways_as_they_are() {
    let (_first, second, route) = two_cells();
    let bought =
        second.network_api(&route).post("/network/v1/authorizations", &purchase_of(second.card()));
    let bought = bought.expect(200);
    let id = bought["transaction_id"].as_str().expect("an id");
    let path = format!("/v1/transactions/{id}/receipt");
    let mut receipt = b"%PDF-1.7\n1 0 obj\n".to_vec();
    receipt.extend((0_u32..700_000).flat_map(u32::to_be_bytes));
    let headers = [("content-type", "application/pdf")];
    let upload = HttpRequest { method: "POST", path: &path, headers: &headers, body: &receipt };
    let api = second.api(&route);
    assert_eq!(api.send(&upload).expect(201)["size"], receipt.len());
    assert_eq!(api.get(&path).bytes(), receipt);
    // Refused by the cell before its end, and told.
    let too_long = vec![b'x'; 12 << 20];
    let upload = HttpRequest { body: &too_long, ..upload };
    assert_eq!(api.send(&upload).expect_error(413)["code"], "body_too_large");
    assert_eq!(api.get(&path).bytes(), receipt);
}

#[test]
fn malformed_frames_cost_what_they_cost_at_a_switch() {
    let (_first, second, route) = two_cells();
    let mut acquirer = route.acquirer();
    // Empty frames keep a connection open, and what cannot be read at all has no answer.
    acquirer.send_raw(&[0, 0, 0, 0]).expect("the connection is open");
    acquirer.send_frame(b"xyz").expect("the connection is open");
    acquirer.send_frame(b"0100nonsense").expect("the connection is open");
    assert_eq!(acquirer.receive().expect("an answer").response(), "30");
    acquirer.assert_alive();
    // The amount has a letter: the cell of the card says so.
    let mut frame = Purchase::of(second.card(), 100).request().encode();
    let amount = frame.windows(12).position(|at| at == b"000000000100").expect("the amount");
    frame[amount] = b'x';
    acquirer.send_frame(&frame).expect("the connection is open");
    let answer = acquirer.receive().expect("an answer");
    assert_eq!((answer.response(), answer.get(44)), ("30", Some("1000 invalid_de4")));
    // A message cut in two is one message.
    let message = Message::network_management("301", next_stan()).encode();
    let framed = [&message.len().to_be_bytes()[6..], &message].concat();
    for part in framed.chunks(7) {
        acquirer.send_raw(part).expect("the connection is open");
    }
    assert_eq!(acquirer.receive().expect("an answer").response(), "00");
    // Another protocol loses its connection, after its neighbours' answers.
    let mut lost = route.acquirer();
    lost.send_raw(b"GET / HTTP/1.1\r\n\r\n").expect("the connection is open");
    assert!(lost.receive().is_err());
    acquirer.assert_alive();
}

#[test]
fn a_cell_that_is_lost_takes_no_other_with_it_and_comes_back() {
    let (first, second, route) = two_cells();
    let (first_card, second_card) = (first.card().clone(), second.card().clone());
    let (first_api, second_api) = (first.api(&route), second.api(&route));
    let [first_network, second_network] = [&first, &second].map(|cell| cell.network_api(&route));
    let mut acquirer = route.acquirer();
    for card in [&first_card, &second_card] {
        assert_eq!(acquirer.ask(&Purchase::of(card, 100).request()).response(), "00");
    }
    let second_transactions = transactions(&second_network, &second_card).len();

    let start_again = second.kill9();
    // Until the router learns of it, a message may still go into the connection that the kill has broken.
    let first_lost = acquirer.ask(&Purchase::of(&second_card, 100).request());
    assert!(["91", "96"].contains(&first_lost.response()), "{first_lost:?}");
    for _ in 0..3 {
        let declined = acquirer.ask(&Purchase::of(&second_card, 100).request());
        assert_eq!((declined.response(), declined.get(44)), ("91", Some("1000 not_taken")));
        assert_eq!(acquirer.ask(&Purchase::of(&first_card, 100).request()).response(), "00");
        let path = format!("/v1/cards/{}", second_card.card_id);
        let refused = second_api.get(&path);
        assert_eq!(refused.expect_error(503)["code"], "cell_down");
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert_eq!(route.anonymous().get(&path).status, 503);
        first_api.get(&format!("/v1/cards/{}", first_card.card_id)).expect(200);
    }

    let second = start_again();
    assert_eq!(acquirer.ask(&Purchase::of(&second_card, 100).request()).response(), "00");
    assert_eq!(transactions(&second_network, &second_card).len(), second_transactions + 1);
    second.switch.stop();
    second.installation.verify_ok();
    assert!(transactions(&first_network, &first_card).len() >= 4);
}

/// A switch that was stopped takes messages and answers none: once it is gone, their outcome is unknown, and the
/// peer learns that at once.
#[test]
fn what_a_lost_cell_had_taken_is_answered_as_unknown() {
    let (first, second, route) = two_cells();
    let (first_card, second_card) = (first.card().clone(), second.card().clone());
    let mut acquirer = route.acquirer();
    assert_eq!(acquirer.ask(&Purchase::of(&second_card, 100).request()).response(), "00");
    second.switch.signal("STOP");
    let waiting = Purchase::of(&second_card, 200).request();
    acquirer.send(&waiting).expect("the connection is open");
    // The other cell's answer overtakes.
    assert_eq!(acquirer.ask(&Purchase::of(&first_card, 100).request()).response(), "00");
    drop(second.kill9());
    let answer = acquirer.receive().expect("an answer");
    assert_eq!((answer.get(11), answer.response()), (waiting.get(11), "96"));
}

#[test]
fn cells_that_contradict_each_other_are_refused_in_one_line() {
    let doors = "http://127.0.0.1:1,iso8583://127.0.0.1:2";
    let one = format!("01={doors}");
    for (arguments, told) in [
        (vec!["--cell", &one, "--home", "02"], "home cell 02 is not among"),
        (vec!["--cell", &one, "--cell", &one, "--home", "01"], "cell 01 is given twice"),
        (vec!["--cell", &one, "--home", "01", "--bin", "12"], "`12` is no BIN"),
    ] {
        let arguments = [vec!["route"], arguments].concat();
        let error = run_cardswitch(&arguments).expect_one_line_error();
        assert!(error.contains(told), "{error}");
    }
    let refused = run_cardswitch(&["init", "--data", "/nonexistent/x", "--cell", "7"]);
    assert!(refused.stderr.contains("a cell has two digits"), "{refused:?}");
}
