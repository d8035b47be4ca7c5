//! The whole feed over a real socket, against a small switch.

mod small_switch;

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use cardswitch_iso8583::field_form::{Coding, FieldForm, FieldLength, LengthUnit};
use cardswitch_iso8583::translation::{
    FieldPart, FieldShape, Tables, Translation, TypeForm, WireField,
};
use cardswitch_iso8583::{Alphabet, BitmapEncoding, Class, Dialect};

use self::small_switch::{Faults, SmallSwitch, serve_http};
use super::*;

fn portfolio(cards: usize) -> Portfolio {
    let line = |at: usize| {
        format!(
            r#"{{"card_id":"c{at}","pan":"99999900{at:08}","expiration":"2030-01-31","cvv":"123","pin":"4321","zip":"94107"}}"#
        )
    };
    Portfolio::parse(&(0..cards).map(line).collect::<Vec<_>>().join("\n")).unwrap()
}

fn virtual_options(address: SocketAddr, seed: u64) -> FeedOptions {
    let start = DateTime::from_timestamp_micros(VIRTUAL_START_US).unwrap();
    FeedOptions {
        rate_per_s: 0.02,
        duration: Duration::from_secs(86_400),
        seed,
        time: FeedTime::Virtual { start, speed: None },
        ..FeedOptions::new(Line::to(address), portfolio(20))
    }
}

fn virtual_run(faults: Faults, seed: u64) -> (FeedReport, Vec<u8>) {
    let (address, switch) = SmallSwitch::start(faults);
    let mut options = virtual_options(address, seed);
    if faults.silent_every.is_some() || faults.ignores_duplicates {
        // Each silence is waited for.
        options.answer_timeout = Duration::from_millis(30);
    }
    let report = run(&options, &Progress::default()).unwrap();
    let received = std::mem::take(&mut switch.lock().received);
    (report, received)
}

fn real_run(faults: Faults, seed: u64) -> FeedReport {
    let (address, _switch) = SmallSwitch::start(faults);
    let options = FeedOptions {
        rate_per_s: 400.0,
        duration: Duration::from_secs(3),
        seed,
        time: FeedTime::Real { connections: 3 },
        answer_timeout: Duration::from_millis(400),
        ..FeedOptions::new(Line::to(address), portfolio(50))
    };
    run(&options, &Progress::default()).unwrap()
}

#[test]
fn the_same_seed_sends_the_same_bytes_and_the_books_agree() {
    let (report, bytes) = virtual_run(Faults::default(), 11);
    let (again, same_bytes) = virtual_run(Faults::default(), 11);
    let (_, other_bytes) = virtual_run(Faults::default(), 12);
    assert_eq!(bytes, same_bytes, "seed 11");
    assert_ne!(bytes, other_bytes);
    assert_eq!(report.counts, again.counts);
    assert_eq!(report.differences, [], "seed 11");
    let compared = ComparedBooks::Balances;
    assert_eq!(report.comparison, Comparison { compared, cards: 20, unchecked: 0 });
    let counts = &report.counts;
    assert!(counts.authorizations > 1000 && counts.unanswered == 0, "{counts:?}");
    assert_eq!(counts.approved + counts.declined.values().sum::<u64>(), counts.authorizations);
    assert!(
        counts.presentments > 100
            && counts.increments > 10
            && counts.completions > 5
            && counts.refunds > 10
            && counts.reversed > 20
            && counts.duplicates > 10,
        "{counts:?}"
    );
    assert!(counts.declined[&1502] > 0, "{counts:?}");
}

#[test]
fn lost_and_unknown_outcomes_are_no_differences() {
    let faults = Faults { silent_every: Some(61), unknown_every: Some(43), ..Faults::default() };
    let (report, _) = virtual_run(faults, 13);
    assert_eq!(report.differences, [], "seed 13");
    assert!(report.counts.unanswered > 5 && report.counts.unknown > 5, "{:?}", report.counts);
}

/// An acquirer that has its approval reverses nothing because a duplicate stays without answer.
#[test]
fn silence_after_a_duplicate_sets_nothing_off() {
    let (answered, _) = virtual_run(Faults::default(), 11);
    let (silent, _) = virtual_run(Faults { ignores_duplicates: true, ..Faults::default() }, 11);
    assert_eq!(silent.counts.unanswered, answered.counts.duplicates, "seed 11");
    let unanswered = answered.counts.unanswered;
    assert_eq!(TrafficCounts { unanswered, ..silent.counts }, answered.counts, "seed 11");
}

#[test]
fn real_time_keeps_its_rate_and_the_books_agree() {
    let report = real_run(Faults { silent_every: Some(97), ..Faults::default() }, 17);
    assert_eq!(report.differences, [], "seed 17");
    let counts = &report.counts;
    assert!((950..1450).contains(&counts.authorizations), "seed 17: {counts:?}");
    assert!(counts.unanswered > 5 && counts.presentments > 100, "{counts:?}");
    assert!(report.latency.p50_us > 0 && report.latency.p50_us <= report.latency.p99_us);
}

/// Every mishap, and more often than a seed draws it.
fn hostile_run(faults: Faults, seed: u64) -> FeedReport {
    let (address, _switch) = SmallSwitch::start(faults);
    run_hostile(address, seed, None)
}

fn run_hostile(address: SocketAddr, seed: u64, http: Option<HttpSource>) -> FeedReport {
    let rates = Mishap::ALL.map(|mishap| format!("{mishap}=30")).join(",").parse().unwrap();
    let options = FeedOptions {
        rate_per_s: 300.0,
        duration: Duration::from_secs(4),
        seed,
        time: FeedTime::Real { connections: 3 },
        answer_timeout: Duration::from_millis(400),
        hostility: Some(Hostility { seed, rates }),
        http,
        ..FeedOptions::new(Line::to(address), portfolio(50))
    };
    run(&options, &Progress::default()).unwrap()
}

#[test]
fn a_hostile_wire_makes_no_differences() {
    let report = hostile_run(Faults::default(), 31);
    assert_eq!(report.differences, [], "seed 31");
    assert!(report.mishaps.iter().all(|(_, count)| *count > 5), "{:?}", report.mishaps);
    assert!(report.counts.unanswered > 50, "{:?}", report.counts);
}

/// A spelling in which no message can be written: nothing is as short as its fields.
fn narrow_dialect() -> Dialect {
    let coding = Coding::Text(Alphabet::Ascii);
    let field = |number| {
        let class = Class::Track;
        let (length, counted) = (FieldLength::Fixed, LengthUnit::Characters);
        let form = FieldForm { class, length, len_max: 3, counted, coding };
        let part = FieldPart { element: number, place: None, read: Vec::new(), write: Vec::new() };
        let shape = FieldShape::Plain;
        (number, WireField { form, parts: vec![part], is_repeated: false, shape })
    };
    let types = TypeForm { coding, version: b'0', pairs: Vec::new() };
    let bitmap = (BitmapEncoding::Binary, Alphabet::Ascii);
    let tables = Tables { types, bitmap, fields: [2, 3, 4, 11, 39].map(field).to_vec() };
    let translation = Some(Arc::new(Translation::new(tables).unwrap()));
    Dialect { translation, ..Dialect::default() }
}

/// Noise was to be translated, which it cannot be, so none was sent. A message that cannot be either is not cut.
#[test]
fn a_hostile_wire_has_noise_in_any_dialect() {
    for (rates, is_heard) in [("noise=1000", true), ("stranger=1000", true), ("cut=1000", false)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialect = narrow_dialect();
        let options = FeedOptions {
            rate_per_s: 300.0,
            duration: Duration::from_secs(3),
            time: FeedTime::Real { connections: 1 },
            answer_timeout: Duration::from_millis(20),
            hostility: Some(Hostility { seed: 41, rates: rates.parse().unwrap() }),
            ..FeedOptions::new(
                Line { dialect, ..Line::to(listener.local_addr().unwrap()) },
                portfolio(5),
            )
        };
        let progress = Arc::new(Progress::default());
        let (bytes, heard) = std::sync::mpsc::channel();
        let stopper = Arc::clone(&progress);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (bytes, stopper, mut stream) =
                    (bytes.clone(), Arc::clone(&stopper), stream.unwrap());
                std::thread::spawn(move || {
                    // The first bytes, or the end without any.
                    bytes.send(stream.read(&mut [0; 512]).unwrap_or(0)).unwrap_or_default();
                    stopper.stop();
                    io::copy(&mut stream, &mut io::sink()).unwrap_or_default();
                });
            }
        });
        let epoch = Epoch { start_us: start_us(options.time), is_virtual: false };
        let settings = settings(&options, epoch, mean_gap_ns(&options).unwrap());
        let mut conversation = Conversation::new(&options.portfolio, settings);
        converse(&mut conversation, &options, &progress).unwrap();
        assert_eq!(heard.try_iter().any(|bytes| bytes > 0), is_heard, "{rates}");
    }
}

#[test]
fn a_hostile_wire_finds_an_issuer_that_forgets_duplicates() {
    let report = hostile_run(Faults { forgets_duplicates: true, ..Faults::default() }, 31);
    assert!(!report.differences.is_empty(), "seed 31");
    let story = report.story.expect("a duplicate is of one purchase");
    assert!(story.steps.iter().any(|step| step.starts_with("again ")), "seed 31: {story:?}");
    assert!(story.steps.len() < 10, "the shortest is told: {story:?}");
    let scenario = story.scenario.expect("a scenario can send it again");
    assert!(scenario.contains("expected the first answer again"), "{scenario}");
}

#[test]
fn a_story_expects_the_right_books() {
    let (address, switch) =
        SmallSwitch::start(Faults { wrong_every: Some(5), ..Faults::default() });
    let http = HttpSource { url: serve_http(switch), network_key: "key".to_owned(), carrier: None };
    let report = run_hostile(address, 31, Some(http));
    let story = report.story.expect("transactions differ");
    let scenario = story.scenario.expect("holds can be told");
    assert!(scenario.contains("\nheld = "), "{scenario}");
}

#[test]
fn every_transaction_is_compared_over_http() {
    for (wrong_every, is_right) in [(None, true), (Some(40), false)] {
        let (address, switch) = SmallSwitch::start(Faults { wrong_every, ..Faults::default() });
        let url = serve_http(switch);
        let options = FeedOptions {
            http: Some(HttpSource { url, network_key: "key".to_owned(), carrier: None }),
            ..virtual_options(address, 29)
        };
        let report = run(&options, &Progress::default()).unwrap();
        let compared = ComparedBooks::Transactions;
        assert_eq!(report.comparison, Comparison { compared, cards: 20, unchecked: 0 });
        assert_eq!(report.differences.is_empty(), is_right, "seed 29: {:?}", report.differences);
    }
}

/// The books kept the code of the 91, 1000, for a purchase that its duplicate then brought to a decision. Once, they
/// lacked purchases that had been decided, whatever the 91 said.
#[test]
fn a_purchase_that_was_answered_91_may_have_been_decided() {
    for (not_taken_every, denied_every) in [(Some(3), None), (None, Some(3))] {
        let faults = Faults { not_taken_every, denied_every, ..Faults::default() };
        let (address, switch) = SmallSwitch::start(faults);
        let url = serve_http(switch);
        let http = HttpSource { url, network_key: "key".to_owned(), carrier: None };
        let options = FeedOptions { http: Some(http), ..virtual_options(address, 37) };
        let report = run(&options, &Progress::default()).unwrap();
        assert_eq!(report.differences, [], "seed 37");
        let counts = &report.counts;
        assert!(counts.unknown > 100 && counts.duplicates > 10, "seed 37: {counts:?}");
        let known = counts.approved + counts.declined.values().sum::<u64>();
        assert_eq!(known + counts.unknown, counts.authorizations);
    }
}

#[test]
fn an_approval_in_part_of_more_than_was_asked_for_is_found_and_not_presented() {
    let (report, _) = virtual_run(Faults { more_in_part_every: Some(40), ..Faults::default() }, 19);
    let told: Vec<_> = report.differences.iter().map(|one| one.expected.as_str()).collect();
    assert!(told.contains(&"an approval in part of at most 0 minor units"), "seed 19: {told:?}");
}

#[test]
fn an_address_that_asks_for_tls_is_sent_nothing() {
    let (address, _switch) = SmallSwitch::start(Faults::default());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let http = HttpSource { url, network_key: "key".to_owned(), carrier: None };
    let options = FeedOptions { http: Some(http), ..virtual_options(address, 19) };
    let refused = run(&options, &Progress::default()).unwrap_err();
    assert!(matches!(refused, FeedError::BadUrl(_)), "{refused}");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody connects");
}

#[test]
fn a_cent_too_much_is_found() {
    let (report, _) = virtual_run(Faults { wrong_every: Some(40), ..Faults::default() }, 19);
    assert!(!report.differences.is_empty(), "seed 19");
}

#[test]
fn a_duplicate_that_is_answered_otherwise_is_found() {
    let (report, _) = virtual_run(Faults { forgets_duplicates: true, ..Faults::default() }, 23);
    let about_one = report.differences.iter().filter(|difference| difference.rrn.is_some()).count();
    assert!(about_one > 0, "seed 23: {:?}", report.differences);
}

#[test]
fn a_stopped_run_ends_and_reports() {
    let (address, _switch) = SmallSwitch::start(Faults::default());
    let options = FeedOptions {
        duration: Duration::from_secs(3600),
        ..FeedOptions::new(Line::to(address), portfolio(5))
    };
    let progress = Arc::new(Progress::default());
    let watcher = Arc::clone(&progress);
    let stopper = std::thread::spawn(move || {
        while watcher.snapshot().counts.authorizations < 3 {
            std::thread::sleep(Duration::from_millis(20));
        }
        watcher.stop();
    });
    let report = run(&options, &progress).unwrap();
    stopper.join().unwrap();
    assert!(report.counts.authorizations >= 3);
    assert_eq!(report.differences, []);
}

#[test]
fn no_switch_is_one_clear_error() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error =
        run(&FeedOptions::new(Line::to(address), portfolio(1)), &Progress::default()).unwrap_err();
    assert!(matches!(error, FeedError::Connect { .. }), "{error}");
}

#[test]
fn one_message_is_sent_and_shown() {
    let (address, _switch) = SmallSwitch::start(Faults::default());
    let fields = [(2, "9999990000000000"), (3, "0"), (4, "1234"), (37, "000000000001")];
    let request = SendRequest {
        mti: "0100".to_owned(),
        fields: fields.map(|(de, content)| (de, content.to_owned())).to_vec(),
    };
    let sent = send(&Line::to(address), &request, ANSWER_TIMEOUT).unwrap();
    assert_eq!(sent.element(39), Some("00"));
    assert!(sent.request.contains("000000001234"), "{}", sent.request);
    assert!(!sent.request.contains("9999990000000000"), "card data is masked");
    let bad = SendRequest { mti: "01".to_owned(), fields: Vec::new() };
    assert!(matches!(send(&Line::to(address), &bad, ANSWER_TIMEOUT), Err(FeedError::Refused(_))));
}
