//! kill -9 at random moments under load, many times over one data directory.
//!
//! After each kill: `verify` finds the directory sound before anything has touched it; the switch
//! starts; every approval that an acquirer saw is there once, with its amount; every reversal seen
//! has given back; and a purchase whose answer was lost is settled by sending it again.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use cardswitch_harness::{
    Installation, NetworkTransaction, Random, Switch, TestCard, campaign_scaled, seed_for,
    transactions_of_card,
};
use serde_json::json;

use crate::load::{Fate, SentPurchase, run_acquirer};

const CONNECTIONS: u64 = 3;
const CARDS_A_ROUND: usize = 6;

#[test]
fn every_approval_seen_survives_kill_9_and_none_is_there_twice() {
    let mut random = Random::new(seed_for("every_approval_seen_survives_kill_9"));
    let installation = Installation::init(200, random.next_u64() >> 1);
    let cards = installation.cards.with_profile("ordinary");
    let mut seen_in_all = 0;
    let mut earlier: Vec<SentPurchase> = Vec::new();
    let mut switch = installation.serve();
    for round in 0..campaign_scaled(8, 200) {
        let chosen: Vec<TestCard> = (0..CARDS_A_ROUND)
            .map(|n| cards[(round * CARDS_A_ROUND + n) % cards.len()].clone())
            .collect();
        raise_limits(&switch, &chosen);
        let alive_for = Duration::from_millis(random.between(20, 900));
        let sent = load_and_kill(switch, &chosen, alive_for, &mut random);

        installation.verify_ok();
        switch = installation.serve();
        let approvals = sent.iter().filter(|sent| is_approved(&sent.fate)).count();
        eprintln!("round {round}: killed after {alive_for:?}, {approvals} of {}", sent.len());
        audit(&switch, &sent);
        settle_unknown(&switch, &sent);
        seen_in_all += approvals;
        earlier.extend(sent);
    }
    assert!(seen_in_all > 0, "no purchase was approved: nothing was tested");
    audit(&switch, &earlier);
    switch.stop();
    installation.verify_ok();
}

/// Loads the switch from several connections, kills it, and returns the purchases sent, with the answers seen.
fn load_and_kill(
    switch: Switch,
    cards: &[TestCard],
    alive_for: Duration,
    random: &mut Random,
) -> Vec<SentPurchase> {
    let seeds: Vec<u64> = (0..CONNECTIONS).map(|_| random.next_u64()).collect();
    let door = switch.iso8583;
    thread::scope(|scope| {
        let load = |seed| scope.spawn(move || run_acquirer(door, cards, seed));
        let acquirers: Vec<_> = seeds.into_iter().map(load).collect();
        thread::sleep(alive_for);
        switch.kill9();
        acquirers.into_iter().flat_map(|one| one.join().expect("an acquirer ends")).collect()
    })
}

/// Compares the answers that the acquirers saw with the switch's present state.
#[track_caller]
pub(crate) fn audit(switch: &Switch, sent: &[SentPurchase]) {
    let listed = transactions_by_rrn(switch, sent);
    for SentPurchase { purchase, fate, .. } in sent {
        let found = listed.get(&purchase.rrn).map_or(&[][..], Vec::as_slice);
        let what = format!("{} ({fate:?}): {found:?}", purchase.rrn);
        assert!(found.len() <= 1, "twice: {what}");
        let Some(authorization_id) = authorization_id_of(fate) else { continue };
        assert_eq!(found.len(), 1, "lost: {what}");
        assert_eq!(found[0].authorization_id.as_deref(), Some(authorization_id), "{what}");
        let amount = i64::try_from(purchase.amount_minor).expect("small amounts");
        let open = ("pending", amount, amount);
        let given_back = ("canceled", 0, 0);
        let is = (found[0].state.as_str(), found[0].amount_minor, found[0].held_minor);
        match fate {
            Fate::Approved(_) => assert_eq!(is, open, "{what}"),
            Fate::Reversed(_) => assert_eq!(is, given_back, "{what}"),
            _ => assert!(is == open || is == given_back, "{what}"),
        }
    }
}

/// Sends purchases without an answer again, as an acquirer does, and expects each there once at most.
#[track_caller]
pub(crate) fn settle_unknown(switch: &Switch, sent: &[SentPurchase]) {
    let mut acquirer = switch.acquirer();
    let mut settled = Vec::new();
    for SentPurchase { purchase, card_id, fate } in sent {
        if *fate != Fate::Unknown {
            continue;
        }
        let mut repeat = purchase.request();
        repeat.mti = "0101".to_owned();
        let answer = acquirer.ask(&repeat);
        assert_eq!(answer.response(), "00", "ordinary cards approve: {answer:?}");
        let fate = Fate::Approved(answer.expect_approved());
        settled.push(SentPurchase { purchase: purchase.clone(), card_id: card_id.clone(), fate });
    }
    audit(switch, &settled);
}

#[track_caller]
fn transactions_by_rrn(
    switch: &Switch,
    sent: &[SentPurchase],
) -> BTreeMap<String, Vec<NetworkTransaction>> {
    let mut card_ids: Vec<_> = sent.iter().map(|sent| sent.card_id.as_str()).collect();
    card_ids.sort_unstable();
    card_ids.dedup();
    let network = switch.network_api();
    let mut by_rrn = BTreeMap::<String, Vec<_>>::new();
    for transaction in card_ids.iter().flat_map(|id| transactions_of_card(&network, id)) {
        by_rrn.entry(transaction.rrn.clone()).or_default().push(transaction);
    }
    by_rrn
}

/// Gives cards room for any number of small purchases.
#[track_caller]
pub(crate) fn raise_limits(switch: &Switch, cards: &[TestCard]) {
    let room = json!({
        "amount": 1_000_000, "interval": null, "daily_limit": null, "transaction_limit": null,
    });
    let api = switch.api();
    for card in cards {
        let path = format!("/v1/allowances/{}", card.allowance_id);
        api.when_led(|client| client.put(&path, &room)).expect(200);
    }
}

fn authorization_id_of(fate: &Fate) -> Option<&str> {
    match fate {
        Fate::Approved(id) | Fate::ReversalSent(id) | Fate::Reversed(id) => Some(id),
        Fate::Unknown | Fate::Declined => None,
    }
}

pub(crate) fn is_approved(fate: &Fate) -> bool {
    authorization_id_of(fate).is_some()
}
