use super::*;
use crate::domain::network_key::TraceKey;
use crate::domain::response_code::SubReason;

const NEWEST: NewestNumbers =
    NewestNumbers { transaction: TransactionSeq(0), record: RecordSeq(20_000) };

fn fingerprint(key: u128, content: u64, window: DuplicateWindow) -> Fingerprint {
    let trace = (window == DuplicateWindow::Day).then_some(TraceKey(99));
    Fingerprint { key: DuplicateKey(key), trace, content, window }
}

/// Remembers an answer; returns the place that it has.
fn remember(
    messages: &mut Messages,
    fingerprint: Fingerprint,
    at: Timestamp,
    shares_trace: bool,
) -> AnswerPlace {
    let expires_at = at.plus(fingerprint.window.lifetime());
    let reply = NetworkReply::FormatError(SubReason::None);
    let answer = RememberedAnswer { fingerprint, shares_trace, expires_at, reply };
    let place = messages.keep(RecordSeq(0), answer.clone());
    let elsewhere = AnswersElsewhere { transactions: &Transactions::default(), recalled: &[] };
    messages.enter(&EnteredAnswer::of(place, &answer), NEWEST, &elsewhere);
    place
}

fn find(messages: &Messages, fingerprint: &Fingerprint, at: Timestamp) -> DuplicateCheck {
    let mut comparison = CandidateAnswers::default();
    messages.each_place(fingerprint, &NEWEST, |place| {
        let AnswerPlace::Record(seq) = place else { return };
        let answer = messages.answer_at(seq).cloned();
        answer.into_iter().for_each(|answer| comparison.add(fingerprint, at, answer));
    });
    comparison.known(fingerprint)
}

#[test]
fn a_key_finds_its_answer_for_a_day_and_refuses_other_content() {
    let mut messages = Messages::default();
    let start = Timestamp(1_000_000);
    let first = fingerprint(1, 5, DuplicateWindow::Day);
    remember(&mut messages, first, start, false);
    let (last, gone) = (start.plus(Timestamp::DAY - 1), start.plus(Timestamp::DAY));
    assert!(matches!(find(&messages, &first, last), DuplicateCheck::Answered(_)));
    assert_eq!(find(&messages, &first, gone), DuplicateCheck::New);
    let other = fingerprint(2, 6, DuplicateWindow::Day);
    assert_eq!(find(&messages, &other, last), DuplicateCheck::Conflict);
    messages.forget_expired(gone, NEWEST);
    assert!(messages.answers.is_empty());
}

/// A probe with a fixed trace and another local time in each message had each of them look at all
/// before it, and every other message at those beyond the reach of the index.
#[test]
fn messages_of_one_trace_are_found_without_a_look_at_the_others() {
    let mut messages = Messages::default();
    let mut at = Timestamp(1_000_000);
    let visited = |messages: &Messages, fingerprint: &Fingerprint| {
        let mut places = Vec::new();
        messages.each_place(fingerprint, &NEWEST, |place| places.push(place));
        places
    };
    let mut given = Vec::new();
    for number in 0..500 {
        at = at.plus(Timestamp::SECOND);
        let message = fingerprint(1_000 + number, 5, DuplicateWindow::Day);
        let places = visited(&messages, &message);
        assert!(places.len() <= 2, "message {number}: {places:?}");
        let expected = if number == 0 { DuplicateCheck::New } else { DuplicateCheck::NewOfTrace };
        assert_eq!(find(&messages, &message, at), expected);
        given.push((message, remember(&mut messages, message, at, number > 0)));
        let other = fingerprint(1_000 + number, 6, DuplicateWindow::Day);
        assert_eq!(find(&messages, &other, at), DuplicateCheck::Conflict);
        let other = fingerprint(5_000, 6, DuplicateWindow::Day);
        assert_eq!(find(&messages, &other, at), DuplicateCheck::Conflict);
    }
    assert!(messages.entered <= 2 * 500, "{} keys", messages.entered);
    for (message, place) in given {
        let places = visited(&messages, &message);
        assert!(places.len() <= 4 && places.contains(&place), "{places:?}");
        assert!(matches!(find(&messages, &message, at), DuplicateCheck::Answered(_)));
    }
    let conflict = fingerprint(5_000, 6, DuplicateWindow::Day);
    let last = at.plus(Timestamp::DAY - 1);
    assert_eq!(find(&messages, &conflict, last), DuplicateCheck::Conflict);
    assert_eq!(find(&messages, &conflict, last.plus(1)), DuplicateCheck::New);
}

#[test]
fn without_time_and_reference_only_repeats_are_matched() {
    let mut messages = Messages::default();
    let start = Timestamp(1_000_000);
    let original = fingerprint(1, 5, DuplicateWindow::RepeatsOnly { is_repeat: false });
    let repeat = fingerprint(1, 5, DuplicateWindow::RepeatsOnly { is_repeat: true });
    remember(&mut messages, original, start, false);
    assert_eq!(find(&messages, &original, start.plus(1)), DuplicateCheck::New);
    assert!(matches!(find(&messages, &repeat, start.plus(1)), DuplicateCheck::Answered(_)));
    assert_eq!(find(&messages, &repeat, start.plus(10 * Timestamp::MINUTE)), DuplicateCheck::New);
    for _ in 0..10_000 {
        remember(&mut messages, original, start, false);
    }
    assert_eq!(messages.entered, 1, "an original that comes again has one key");
}

#[test]
fn keys_beyond_the_limit_leave_the_index_incomplete_for_the_rest_of_their_day() {
    let limits = CacheLimits {
        recent_transactions: 8,
        loaded_transactions: 16,
        answers: 4,
        message_keys: 640,
        unseen_changes: 8,
    };
    let mut messages = Messages::default();
    let mut at = Timestamp(0);
    for number in 0..900u64 {
        at = at.plus(Timestamp::SECOND);
        let window = DuplicateWindow::RepeatsOnly { is_repeat: true };
        let print = fingerprint(u128::from(spread(number)), 1, window);
        remember(&mut messages, print, at, false);
        let next = NewestNumbers { transaction: TransactionSeq(1), record: RecordSeq(number + 2) };
        messages.forget_expired(at, next);
        messages.evict(&limits, RecordSeq(number), (at, next));
        assert!(number > 640 || messages.is_complete(at), "{number}");
        assert!(number < 660 || !messages.is_complete(at), "{number}");
    }
    assert_eq!(messages.answers.len(), 4);
    assert!(messages.is_complete(at.plus(Timestamp::DAY)));
}
