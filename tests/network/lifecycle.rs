//! The messages after an authorization over ISO 8583: reversals in full and in part, presentments, advices, and
//! that money comes back exactly once.

use cardswitch_harness::{
    Acquirer, HttpClient, Installation, NetworkTransaction, Purchase, Switch, TestCard, minor,
    original_data, transactions_of_card,
};

const AMOUNT_MINOR: u64 = 5_000;
const AMOUNT: i64 = 5_000;

/// One switch, one connection, one ordinary card.
struct Scene {
    installation: Installation,
    switch: Switch,
    acquirer: Acquirer,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let installation = Installation::init(60, seed);
        let switch = installation.serve();
        let acquirer = switch.acquirer();
        Self { installation, switch, acquirer }
    }

    fn card(&self) -> &TestCard {
        self.installation.cards.ordinary()
    }

    #[track_caller]
    fn approve(&mut self) -> (Purchase, String) {
        let purchase = Purchase::of(self.card(), AMOUNT_MINOR);
        let authorization_id = self.acquirer.ask(&purchase.request()).expect_approved();
        (purchase, authorization_id)
    }

    #[track_caller]
    fn balance_minor(&self) -> i64 {
        allowance_balance_minor(&self.switch.api(), self.card())
    }

    #[track_caller]
    fn transaction(&self, purchase: &Purchase) -> NetworkTransaction {
        let all = transactions_of_card(&self.switch.network_api(), &self.card().card_id);
        let mut own = all.into_iter().filter(|transaction| transaction.rrn == purchase.rrn);
        let found = own.next().expect("the purchase has a transaction");
        assert_eq!(own.next(), None, "one purchase, one transaction");
        found
    }
}

#[test]
fn approval_takes_and_full_reversal_gives_back_once() {
    let mut scene = Scene::new(301);
    let before = scene.balance_minor();
    let (purchase, authorization_id) = scene.approve();
    assert_eq!(scene.balance_minor(), before - AMOUNT);

    let reversal = purchase.reversal(&authorization_id);
    assert_eq!(scene.acquirer.ask(&reversal).response(), "00");
    assert_eq!(scene.balance_minor(), before);
    let transaction = scene.transaction(&purchase);
    assert_eq!((transaction.state.as_str(), transaction.amount_minor), ("canceled", 0));

    // The same message, its repeat, and a second reversal: each is answered, none gives again.
    let mut repeat = reversal.clone();
    repeat.mti = "0401".to_owned();
    let second = purchase.reversal(&authorization_id);
    for again in [reversal, repeat, second] {
        assert_eq!(scene.acquirer.ask(&again).response(), "00");
        assert_eq!(scene.balance_minor(), before);
    }
}

#[test]
fn partial_reversal_keeps_the_replacement_amount() {
    let mut scene = Scene::new(302);
    let before = scene.balance_minor();
    let (purchase, authorization_id) = scene.approve();
    let partial = purchase.partial_reversal(&authorization_id, 2_000);
    assert_eq!(scene.acquirer.ask(&partial).response(), "00");
    assert_eq!(scene.balance_minor(), before - 2_000);
    let transaction = scene.transaction(&purchase);
    assert_eq!((transaction.state.as_str(), transaction.held_minor), ("pending", 2_000));

    assert_eq!(scene.acquirer.ask(&purchase.reversal(&authorization_id)).response(), "00");
    assert_eq!(scene.balance_minor(), before);
}

#[test]
fn reversal_finds_its_authorization_by_original_data_alone() {
    let mut scene = Scene::new(303);
    let before = scene.balance_minor();
    let (purchase, _) = scene.approve();
    let mut reversal = purchase.reversal("");
    reversal.remove(38);
    reversal.remove(37);
    assert_eq!(scene.acquirer.ask(&reversal).response(), "00");
    assert_eq!(scene.balance_minor(), before);
}

#[test]
fn reversal_finds_its_authorization_by_reference_number_alone() {
    let mut scene = Scene::new(304);
    let before = scene.balance_minor();
    let (purchase, _) = scene.approve();
    let mut reversal = purchase.reversal("");
    reversal.remove(38);
    reversal.remove(90);
    assert_eq!(scene.acquirer.ask(&reversal).response(), "00");
    assert_eq!(scene.balance_minor(), before);
}

#[test]
fn reversal_that_overtakes_its_authorization_declines_it() {
    let mut scene = Scene::new(305);
    let before = scene.balance_minor();
    let purchase = Purchase::of(scene.card(), AMOUNT_MINOR);
    let mut reversal = purchase.reversal("");
    reversal.remove(38);
    assert_eq!(scene.acquirer.ask(&reversal).response(), "25");
    scene.acquirer.ask(&purchase.request()).expect_declined(1000);
    assert_eq!(scene.balance_minor(), before);
}

/// The network's word posts whatever the rules say, but not what the network took back. A reversal in
/// part took back all of a posting that it overtook.
#[test]
fn posting_that_its_reversal_overtook_is_taken_back_as_it_comes() {
    let mut scene = Scene::new(316);
    // A purchase or a refund, and what stays of it.
    let rows = [("000000", 0), ("200000", 0), ("000000", 1_200), ("200000", 1_200)];
    for (processing_code, kept) in rows {
        let (balance, ledger) = (scene.balance_minor(), ledger_balance_minor(&scene.switch.api()));
        let purchase = Purchase::of(scene.card(), AMOUNT_MINOR);
        let mut posting = purchase.presentment("", AMOUNT_MINOR);
        posting.remove(38);
        posting.set(3, processing_code);
        let stan = posting.get(11).expect("set").parse().expect("digits");
        let mut reversal = match kept {
            0 => purchase.reversal(""),
            kept => purchase.partial_reversal("", kept),
        };
        reversal.remove(38);
        reversal.mti = "0420".to_owned();
        reversal.set(90, &original_data(stan));
        assert_eq!(scene.acquirer.ask(&reversal).response(), "00");
        assert_eq!(scene.acquirer.ask(&posting).response(), "00");
        let transaction = scene.transaction(&purchase);
        let kept = i64::try_from(kept).expect("a small amount");
        let posted = if processing_code == "200000" { -kept } else { kept };
        let state = if kept == 0 { "canceled" } else { "completed" };
        assert_eq!((transaction.state.as_str(), transaction.posted_minor), (state, posted));
        // A refund of no known purchase gives the allowance nothing.
        assert_eq!(scene.balance_minor(), balance - posted.max(0));
        assert_eq!(ledger_balance_minor(&scene.switch.api()), ledger - posted);
    }
    scene.switch.stop();
    scene.installation.verify_ok();
}

#[test]
fn reversal_advice_is_always_answered_00() {
    let mut scene = Scene::new(306);
    let before = scene.balance_minor();
    let (purchase, authorization_id) = scene.approve();
    let mut advice = purchase.reversal(&authorization_id);
    advice.mti = "0420".to_owned();
    let answer = scene.acquirer.ask(&advice);
    assert_eq!((answer.mti.as_str(), answer.response()), ("0430", "00"));
    assert_eq!(scene.balance_minor(), before);

    let mut of_nothing = Purchase::of(scene.card(), AMOUNT_MINOR).reversal("");
    of_nothing.remove(38);
    of_nothing.mti = "0421".to_owned();
    assert_eq!(scene.acquirer.ask(&of_nothing).response(), "00");
}

#[test]
fn presentment_completes_and_posts_once() {
    let mut scene = Scene::new(307);
    let (purchase, authorization_id) = scene.approve();
    let balance = scene.balance_minor();
    let ledger_before = ledger_balance_minor(&scene.switch.api());

    let presentment = purchase.presentment(&authorization_id, AMOUNT_MINOR);
    let answer = scene.acquirer.ask(&presentment);
    assert_eq!((answer.mti.as_str(), answer.response()), ("0230", "00"));
    assert_eq!(scene.balance_minor(), balance, "what is posted stays spent");
    assert_eq!(ledger_balance_minor(&scene.switch.api()), ledger_before - AMOUNT);
    let transaction = scene.transaction(&purchase);
    assert_eq!(transaction.state, "completed");
    assert_eq!((transaction.held_minor, transaction.posted_minor), (0, AMOUNT));

    let mut repeat = presentment.clone();
    repeat.mti = "0221".to_owned();
    for again in [presentment, repeat] {
        assert_eq!(scene.acquirer.ask(&again).response(), "00");
    }
    assert_eq!(ledger_balance_minor(&scene.switch.api()), ledger_before - AMOUNT, "posted once");
}

#[test]
fn authorization_advice_is_recorded_without_the_rules() {
    let mut scene = Scene::new(308);
    let suspended = scene.installation.cards.first("suspended").clone();
    let mut advice = Purchase::of(&suspended, AMOUNT_MINOR).request();
    advice.mti = "0120".to_owned();
    let answer = scene.acquirer.ask(&advice);
    assert_eq!((answer.mti.as_str(), answer.response()), ("0130", "00"));
    let all = transactions_of_card(&scene.switch.network_api(), &suspended.card_id);
    let advised = all.iter().find(|transaction| Some(transaction.rrn.as_str()) == advice.get(37));
    assert_eq!(advised.expect("an advice makes a transaction").held_minor, AMOUNT);
}

#[test]
fn everything_that_happened_verifies() {
    let mut scene = Scene::new(309);
    let (reversed, reversed_id) = scene.approve();
    let (presented, presented_id) = scene.approve();
    scene.approve();
    assert_eq!(scene.acquirer.ask(&reversed.reversal(&reversed_id)).response(), "00");
    let presentment = presented.presentment(&presented_id, AMOUNT_MINOR);
    assert_eq!(scene.acquirer.ask(&presentment).response(), "00");
    let Scene { installation, switch, .. } = scene;
    switch.stop();
    installation.verify_ok();
}

#[track_caller]
fn allowance_balance_minor(api: &HttpClient, card: &TestCard) -> i64 {
    minor(&api.get(&format!("/v1/allowances/{}", card.allowance_id)).expect(200)["balance"])
}

#[track_caller]
fn ledger_balance_minor(api: &HttpClient) -> i64 {
    minor(&api.get("/v1/accounts").expect(200)["results"][0]["ledger_balance"])
}
