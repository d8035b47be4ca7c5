//! Reversals that come before the message they name: a request is declined, and what posts or holds
//! without asking gives back at once what a reversal right after it would.

use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, NetworkCommand, OriginalRef, PresentmentNumber,
    PurchaseFacts, Refund, ReversalAmount,
};
use cardswitch_engine::command::reply::{NetworkReply, Reply, ReversalOutcome};
use cardswitch_engine::domain::ids::AccountSlot;
use cardswitch_engine::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{MessageClass, RetrievalKey};
use cardswitch_engine::domain::response_code::SubReason;
use cardswitch_engine::domain::text::LineText;

use ReversalAmount::{Full, GiveBack, Remaining, RemainingOriginal};

use crate::samples::{facts, network, original_key, pan, without_time};
use crate::story::{Story, by_retrieval, named_by};

/// By a reference without a time, which has the trace number, beside the reference of the purchase.
fn vaguely(mark: u64, reference: u64) -> OriginalRef {
    OriginalRef {
        original_key: Some(without_time(original_key(mark))),
        retrieval_key: Some(RetrievalKey(reference)),
        ..OriginalRef::default()
    }
}

/// The mark of the message that is reversed; the purchase before it, if there is one, has 5.
const MARK: u64 = 90;

/// A message of 10000, in whichever currency, and the amount that its reply names.
type Message = fn(&mut Story, PurchaseFacts) -> Minor;

fn force_post(story: &mut Story, own: PurchaseFacts) -> Minor {
    story.present_part(own, OriginalRef::default(), PresentmentNumber::ONLY).posted
}

fn presentment(story: &mut Story, own: PurchaseFacts) -> Minor {
    story.present_part(own, by_retrieval(5), PresentmentNumber::ONLY).posted
}

/// Of several: the rest of the hold stays.
fn first_presentment(story: &mut Story, own: PurchaseFacts) -> Minor {
    story.present_part(own, by_retrieval(5), PresentmentNumber { number: 1, count: 2 }).posted
}

fn refund(story: &mut Story, own: PurchaseFacts) -> Minor {
    story.posting(NetworkCommand::Refund(Refund { facts: own, original: by_retrieval(5) })).posted
}

fn unlinked_refund(story: &mut Story, own: PurchaseFacts) -> Minor {
    let original = OriginalRef::default();
    story.posting(NetworkCommand::Refund(Refund { facts: own, original })).posted
}

fn completion(story: &mut Story, own: PurchaseFacts) -> Minor {
    advice(story, own, by_retrieval(5))
}

fn stand_in(story: &mut Story, own: PurchaseFacts) -> Minor {
    advice(story, own, OriginalRef::default())
}

fn advice(story: &mut Story, facts: PurchaseFacts, original: OriginalRef) -> Minor {
    let outcome = AdviceOutcome::Approved;
    let advise = Advise { facts, is_cash: false, outcome, original, request: None };
    match story.run(&network(NetworkCommand::Advise(advise))) {
        Reply::Network(NetworkReply::Authorization(reply)) => reply.approved,
        other => panic!("{other:?}"),
    }
}

/// A purchase before the message that is reversed: its kind and amount.
type Before = Option<(AuthorizationKind, i64)>;

const HELD: AuthorizationKind = AuthorizationKind::Purchase;
const SETTLED: AuthorizationKind = AuthorizationKind::SingleMessage;

/// The messages that post without asking, and what comes before them.
const POSTINGS: [(&str, Before, Message); 6] = [
    ("force post", None, force_post),
    ("presentment", Some((HELD, 8_000)), presentment),
    ("first presentment", Some((HELD, 30_000)), first_presentment),
    ("refund", Some((SETTLED, 20_000)), refund),
    ("refund of too much", Some((SETTLED, 4_000)), refund),
    ("refund of nothing", None, unlinked_refund),
];

/// Those that hold without asking.
const ADVICES: [(&str, Before, Message); 3] = [
    ("completion up", Some((HELD, 6_000)), completion),
    ("completion down", Some((HELD, 16_000)), completion),
    ("stand-in", None, stand_in),
];

/// 10000, or 9000 euros that come to it.
fn own(is_foreign: bool) -> PurchaseFacts {
    let mut own = facts(pan(1), 10_000, MARK);
    if is_foreign {
        let billing = CurrencyAmount { amount: Minor(10_000), currency: CurrencyCode(840) };
        own.amounts.amount = Minor(9_000);
        own.amounts.currency = Some(CurrencyCode(978));
        own.amounts.billing = Some(billing);
    }
    own
}

fn begin(before: Before) -> Story {
    let mut story = Story::begin();
    if let Some((kind, amount)) = before {
        story.authorize(facts(pan(1), amount, 5), kind);
    }
    story
}

/// What is spent, owned, held and told of, and what is left for one more reversal.
fn rest(mut story: Story) -> [i64; 5] {
    let balances = story.driver.state.balances(AccountSlot(0));
    let (ledger, held) = (balances.ledger, balances.held);
    let (spent, lines) = (story.spent(), i64::try_from(story.line_count()).unwrap());
    let left = story.reverse(named_by(MARK), Full).given_back;
    [spent.0, ledger.0, held.0, lines, left.0]
}

/// A partial reversal that came before what it names was remembered without its amount, so all of a
/// posting was taken back: the merchant lost what it was owed, or the cardholder its refund.
#[test]
fn an_early_reversal_gives_back_what_one_right_after_the_message_would() {
    // Whether the message is in euros, its reversals in their order, and what the last gives back.
    let rows: [(bool, &[ReversalAmount], i64); 17] = [
        (false, &[Full], 10_000),
        (false, &[GiveBack(Minor(3_000))], 3_000),
        (false, &[GiveBack(Minor(0))], 0),
        (false, &[Remaining(Minor(4_000))], 6_000),
        (false, &[Remaining(Minor(0))], 10_000),
        (false, &[RemainingOriginal(Minor(4_000))], 6_000),
        // In euros, at the message's own rate: what stays is rounded up.
        (true, &[RemainingOriginal(Minor(3_000))], 6_666),
        (true, &[RemainingOriginal(Minor(0))], 10_000),
        (true, &[GiveBack(Minor(3_000))], 3_000),
        // Too much, or less than nothing: such a reversal would be refused.
        (false, &[GiveBack(Minor(10_001))], 0),
        (false, &[GiveBack(Minor(-1))], 0),
        (false, &[Remaining(Minor(10_001))], 0),
        (true, &[RemainingOriginal(Minor(9_001))], 0),
        (true, &[RemainingOriginal(Minor(-1))], 0),
        // Of several the newest counts.
        (false, &[Full, Remaining(Minor(4_000))], 6_000),
        (false, &[GiveBack(Minor(1_000)), GiveBack(Minor(2_000))], 2_000),
        (false, &[Remaining(Minor(4_000)), Full], 10_000),
    ];
    let messages =
        POSTINGS.map(|row| (row, false)).into_iter().chain(ADVICES.map(|row| (row, true)));
    for ((name, before, send), is_advice) in messages {
        for (is_foreign, reversals, given_back) in rows {
            let row = format!("{name}, {reversals:?}, foreign: {is_foreign}");
            let mut early = begin(before);
            for amount in reversals {
                let reply = early.reverse(named_by(MARK), *amount);
                assert_eq!(reply.outcome, ReversalOutcome::NotFound, "{row}");
            }
            assert_eq!(send(&mut early, own(is_foreign)).0, 10_000 - given_back, "{row}");
            let mut late = begin(before);
            // An advice that is reversed whole is none: it is declined.
            let is_none = is_advice && before.is_none() && given_back == 10_000;
            if !is_none {
                assert_eq!(send(&mut late, own(is_foreign)), Minor(10_000), "{row}");
                let newest = *reversals.last().unwrap();
                assert_eq!(late.reverse(named_by(MARK), newest).given_back.0, given_back, "{row}");
            }
            assert_eq!(rest(early), rest(late), "{row}");
        }
    }
}

/// Nobody has given anything for a request yet: it is declined also where a rest would stay.
#[test]
fn a_request_is_declined_whatever_an_early_reversal_leaves_of_it() {
    for amount in [Full, GiveBack(Minor(1)), Remaining(Minor(9_999)), GiveBack(Minor(-1))] {
        let mut story = Story::begin();
        story.authorize(facts(pan(1), 1_000, 5), AuthorizationKind::Purchase);
        assert_eq!(story.reverse(named_by(MARK), amount).outcome, ReversalOutcome::NotFound);
        let increment = story.increment(10_000, MARK, None);
        assert_eq!(increment.sub_reason, SubReason::ReversedBefore, "{amount:?}");
        for kind in [AuthorizationKind::Purchase, AuthorizationKind::SingleMessage] {
            let request = story.authorize(own(false), kind);
            assert_eq!(request.sub_reason, SubReason::ReversedBefore, "{amount:?}");
        }
        assert_eq!(story.spent(), Minor(1_000));
    }
}

/// An advice that no key names is reversed by its retrieval reference.
#[test]
fn an_advice_keeps_what_a_reversal_of_its_reference_leaves() {
    let by_reference = by_retrieval(MARK);
    let rows = [(&[Remaining(Minor(4_000))][..], 4_000), (&[Full, GiveBack(Minor(1))], 9_999)];
    for (reversals, approved) in rows {
        let mut story = Story::begin();
        for amount in reversals {
            let reply = story.reverse(by_reference, *amount);
            assert_eq!(reply.outcome, ReversalOutcome::NotFound);
        }
        assert_eq!(stand_in(&mut story, own(false)).0, approved);
        assert_eq!(story.spent().0, approved);
    }
}

/// A reversal that named a declined request by its retrieval reference alone blocked the reference for a
/// day: the next try of the purchase was declined as reversed before it came.
#[test]
fn a_reversal_of_a_declined_request_is_not_kept_for_the_next_try() {
    let of_reference = |amount, mark| {
        let mut own = facts(pan(1), amount, mark);
        own.trace.retrieval_key = Some(RetrievalKey(MARK));
        own
    };
    for tries in [1, 3] {
        let mut story = Story::begin();
        for mark in 0..tries {
            let declined = story.authorize(of_reference(200_000, 10 + mark), HELD);
            assert!(!declined.response_code.is_approved());
        }
        let reversal = story.reverse(by_retrieval(MARK), Full);
        assert_eq!(reversal.outcome, ReversalOutcome::NotFound);
        assert!(story.authorize(of_reference(900, 20), HELD).response_code.is_approved());
        // The purchase is what the reference names now, and a declined try behind it changes nothing.
        assert!(!story.authorize(of_reference(200_000, 21), HELD).response_code.is_approved());
        assert_eq!(story.reverse(by_retrieval(MARK), Full).given_back, Minor(900));
    }
}

/// It could not be given back for the bounds of the sums, and counted as given back all the same.
#[test]
fn an_early_reversal_that_is_refused_uses_its_message_not_up() {
    let mut story = begin(Some((HELD, 8_000)));
    let mut force = |amount, mark| {
        let own = facts(pan(1), amount, mark);
        assert_eq!(force_post(&mut story, own), Minor(amount));
    };
    // What is spent is 11000 below its bound: the presentment has room, and taking it back has none.
    (200..299).for_each(|mark| force(Minor::AMOUNT_MAX.0, mark));
    force(Minor::AMOUNT_MAX.0 - 19_000, 299);
    assert_eq!(story.reverse(named_by(MARK), Full).outcome, ReversalOutcome::NotFound);
    assert_eq!(presentment(&mut story, own(false)), Minor(10_000));
    assert_eq!(story.refund(5_000, 300, by_retrieval(200)).posted, Minor(5_000));
    assert_eq!(story.reverse(named_by(MARK), Full).given_back, Minor(10_000));
}

/// One with zeros for the time was remembered, and no message was it ever.
#[test]
fn an_early_reversal_without_a_time_means_the_message_of_its_trace_number() {
    for (name, before, send) in POSTINGS.into_iter().chain(ADVICES) {
        // A refund has a reference of its own, others that of their purchase.
        let has_purchase = before.is_some() && !name.starts_with("refund");
        let reference = if has_purchase { 5 } else { MARK };
        let sent_after = |named| {
            let mut story = begin(before);
            let reply = story.reverse(named, GiveBack(Minor(3_000)));
            assert_eq!(reply.outcome, ReversalOutcome::NotFound, "{name}");
            (send(&mut story, own(false)), story.spent())
        };
        let (exact, of_nothing) = (sent_after(named_by(MARK)), sent_after(named_by(MARK + 1)));
        assert_ne!(exact, of_nothing, "{name}");
        assert_eq!(sent_after(vaguely(MARK, reference)), exact, "{name}");
        assert_eq!(sent_after(vaguely(MARK + 1, reference)), of_nothing, "{name}");
        assert_eq!(sent_after(vaguely(MARK, 77)), of_nothing, "{name}");
    }
}

#[test]
fn a_request_is_declined_after_an_early_reversal_without_a_time() {
    let classes = [(None, true), (Some(MessageClass::Authorization), true)];
    for (class, is_declined) in classes.into_iter().chain([(Some(MessageClass::Financial), false)])
    {
        let mut story = Story::begin();
        let early = OriginalRef { class, ..vaguely(MARK, MARK) };
        assert_eq!(story.reverse(early, Full).outcome, ReversalOutcome::NotFound);
        let mut other = own(false);
        (other.trace.original_key, other.trace.stan) =
            (Some(original_key(7)), LineText::spaced("7"));
        assert!(story.authorize(other, HELD).response_code.is_approved(), "{class:?}");
        let request = story.authorize(own(false), HELD);
        assert_eq!(request.sub_reason == SubReason::ReversedBefore, is_declined, "{class:?}");
    }
    // An increment by the reference of its purchase.
    let mut story = begin(Some((HELD, 1_000)));
    assert_eq!(story.reverse(vaguely(MARK, 5), Full).outcome, ReversalOutcome::NotFound);
    assert_eq!(story.increment(2_000, MARK + 1, None).sub_reason, SubReason::None);
    assert_eq!(story.increment(2_000, MARK, None).sub_reason, SubReason::ReversedBefore);
}
