//! Many messages in flight on one connection, each answered once and matched by its own fields.

use std::collections::BTreeMap;

use cardswitch_harness::{Installation, Message, Purchase, campaign_scaled};

#[test]
fn two_hundred_messages_sent_at_once_are_each_answered_once() {
    let installation = Installation::init(60, 401);
    let switch = installation.serve();
    let cards = installation.cards.with_profile("ordinary");
    let messages = campaign_scaled(200, 20_000);
    let purchases: Vec<_> =
        (0..messages).map(|n| Purchase::of(cards[n % cards.len()], 1).request()).collect();

    let mut acquirer = switch.acquirer();
    let mut reader = acquirer.second_handle();
    let answers: BTreeMap<String, Message> = std::thread::scope(|scope| {
        let collector = scope.spawn(move || {
            let receive = |_| reader.receive().expect("every message is answered");
            (0..messages).map(receive).map(|answer| (trace_of(&answer), answer)).collect()
        });
        for purchase in &purchases {
            acquirer.send(purchase).expect("the connection stays open");
        }
        collector.join().expect("every message is answered")
    });

    assert_eq!(answers.len(), messages, "no message was answered twice");
    for purchase in &purchases {
        let answer = &answers[&trace_of(purchase)];
        answer.expect_approved();
        assert_eq!((answer.get(2), answer.get(37)), (purchase.get(2), purchase.get(37)));
    }
}

#[test]
fn answers_still_come_after_the_requester_has_finished_sending() {
    let installation = Installation::init(60, 403);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    for _ in 0..20 {
        let request = Purchase::of(installation.cards.ordinary(), 1).request();
        acquirer.send(&request).expect("the connection is open");
    }
    acquirer.finish_sending();
    for _ in 0..20 {
        acquirer.receive().expect("each message sent is answered").expect_approved();
    }
}

fn trace_of(message: &Message) -> String {
    message.get(11).expect("every message has DE11").to_owned()
}
