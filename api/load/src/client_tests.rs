use std::net::{TcpListener, TcpStream};

use cardswitch_feed::{Card, Portfolio};
use cardswitch_iso8583::{AnswerMessage, Echo, Frame, Framing, decode, next_frame, write_frame};

use super::*;
use crate::echo;
use crate::iso::{Iso, PurchaseSettings};

const PURCHASES: PurchaseSettings = PurchaseSettings {
    amount_min: 100,
    amount_max: 199,
    currency: 840,
    first_reference: 1,
    seed: 11,
};

fn cards() -> Vec<Card> {
    let line = r#"{"card_id":"0199b6f4-71f1-7c5e-8d55-3a9f5c0a1b2c","pan":"9999990000000003","expiration":"2030-01-31","cvv":"123"}"#;
    vec![Portfolio::parse(line).unwrap().card(0).unwrap().clone()]
}

fn iso() -> Iso {
    Iso::new(&cards(), PURCHASES).unwrap()
}

/// A task that starts at once: a quarter before it is measured, three quarters measured.
fn task(rate: Option<u64>, run: Duration, in_flight_max: u32) -> Task {
    let start_ns = now_ns();
    let duration_ns = u64::try_from(run.as_nanos()).unwrap();
    let schedule = |rate| Schedule { start_ns, rate, duration_ns };
    Task {
        pace: rate.map_or(SendPace::ENDLESS, |rate| SendPace::Open(schedule(rate))),
        start_ns,
        measured_from_ns: start_ns + duration_ns / 4,
        end_ns: start_ns + duration_ns,
        gather_ns: 50_000,
        in_flight_max,
        patience_ns: SECOND_NS,
    }
}

/// The manner in which an approver treats the requests of a connection.
#[derive(Clone, Copy)]
enum Manner {
    /// Approves all but every tenth, which it declines; the later of two first.
    Swapping,
    /// Answers like `Swapping`, after it has read nothing for so long.
    Stalling(Duration),
    /// Answers so many, then hangs up.
    Leaving(u64),
    /// Reads and never answers.
    Silent,
}

/// A switch of a kind, in threads of the test. Returns its address.
fn approver(manner: Manner) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || approve_all(stream, manner));
        }
    });
    address
}

/// Serves a connection until either end leaves.
fn approve_all(mut stream: TcpStream, manner: Manner) {
    let framing = Framing::default();
    let (mut unread, mut bytes, mut count) = (Vec::new(), vec![0; 4_096], 0);
    if let Manner::Stalling(pause) = manner {
        thread::sleep(pause);
    }
    while let Ok(came @ 1..) = stream.read(&mut bytes) {
        unread.extend_from_slice(&bytes[..came]);
        let mut answers = Vec::new();
        while let Frame::Complete { body, consumed, .. } = next_frame(&unread, &framing) {
            let request = decode(&unread[body]).unwrap();
            let code =
                if request.get_number(11).unwrap().is_multiple_of(10) { b"61" } else { b"00" };
            let echo = Echo::of(&request);
            let answer = AnswerMessage::to(&echo).unwrap().set(39, code);
            let mut frame = Vec::new();
            write_frame(&mut frame, &framing, None, |out| answer.encode(out)).unwrap();
            answers.push(frame);
            unread.drain(..consumed);
        }
        count += answers.len() as u64;
        match manner {
            Manner::Silent => continue,
            Manner::Leaving(limit) if count > limit => return,
            _ => answers.reverse(),
        }
        // In two pieces, so that the client has to put an answer together.
        let answers = answers.concat();
        let (first, second) = answers.split_at(answers.len() / 2);
        if stream.write_all(first).and_then(|()| stream.write_all(second)).is_err() {
            return;
        }
    }
}

#[test]
fn an_open_loop_keeps_its_rate_and_every_answer_is_counted_once() {
    let mut client = LoadClient::connect(approver(Manner::Swapping), 3, iso()).unwrap();
    let tally = client.run(&task(Some(10_000), Duration::from_millis(800), u32::MAX)).unwrap();
    let counts = &tally.counts;
    assert_eq!(counts.messages, 8_000);
    // SPEC: of the instants, those from a quarter on are measured.
    assert_eq!((counts.answered, counts.unanswered, counts.unsent), (6_000, 0, 0));
    assert_eq!((counts.unmatched, counts.broken_connections), (0, 0));
    let codes = [("00".to_owned(), 5_400), ("61".to_owned(), 600)];
    assert_eq!(counts.codes, codes, "trace numbers go up one by one");
    assert!(counts.writes <= counts.messages && counts.cpu_ns > 0);
}

#[test]
fn a_stall_is_seen_by_every_message_that_was_meant_for_it() {
    let stall = Duration::from_millis(400);
    let mut client = LoadClient::connect(approver(Manner::Stalling(stall)), 1, iso()).unwrap();
    // One in flight: a client that waited politely would have sent, and measured, one.
    let mut task = task(Some(1_000), Duration::from_millis(800), 1);
    task.measured_from_ns = task.start_ns;
    let tally = client.run(&task).unwrap();
    assert_eq!(tally.counts.answered + tally.counts.unsent, 800);
    // Of the 800 messages 300 were meant for the first 300 ms, and so waited 100 ms or more.
    assert!(
        tally.latencies.percentile_us(65.0) > 95_000.0,
        "{}",
        tally.latencies.percentile_us(65.0)
    );
    assert!(tally.latencies.max_us() > 390_000.0, "{}", tally.latencies.max_us());
}

#[test]
fn a_closed_loop_never_has_more_in_flight_than_it_may() {
    for in_flight_max in [1, 16] {
        let mut client = LoadClient::connect(approver(Manner::Silent), 2, iso()).unwrap();
        let tally = client.run(&task(None, Duration::from_millis(50), in_flight_max)).unwrap();
        assert_eq!(tally.counts.messages, u64::from(2 * in_flight_max));
        assert_eq!(tally.counts.answered, 0);
    }
    let mut client = LoadClient::connect(approver(Manner::Swapping), 2, iso()).unwrap();
    let tally = client.run(&task(None, Duration::from_millis(200), 16)).unwrap();
    assert!(tally.counts.answered > 32, "answers let more go: {:?}", tally.counts);
    assert_eq!((tally.counts.unanswered, tally.counts.unmatched), (0, 0));
}

#[test]
fn a_counted_loop_ends_with_its_last_answer_and_can_be_run_again() {
    let mut client = LoadClient::connect(approver(Manner::Swapping), 2, iso()).unwrap();
    for count in [1, 500] {
        let mut task = task(None, Duration::from_secs(3_600), 8);
        (task.pace, task.measured_from_ns) = (SendPace::Closed(count), task.start_ns);
        let counts = client.run(&task).unwrap().counts;
        assert_eq!((counts.messages, counts.answered, counts.unanswered), (count, count, 0));
    }
}

#[test]
fn messages_without_an_answer_are_in_the_percentiles() {
    let mut client = LoadClient::connect(approver(Manner::Leaving(100)), 1, iso()).unwrap();
    let tally = client.run(&task(Some(1_000), Duration::from_millis(400), u32::MAX)).unwrap();
    let counts = &tally.counts;
    assert_eq!(counts.broken_connections, 1);
    assert_eq!(counts.answered + counts.unanswered + counts.unsent, 300);
    assert!(counts.answered <= 1, "{counts:?}");
    assert!(counts.unanswered + counts.unsent >= 299);
    // Once, the run ended with its connection, and what was meant for later had waited for nothing.
    let second_us = 1e6;
    assert!(tally.latencies.percentile_us(50.0) >= second_us, "{}", tally.latencies);
}

#[test]
fn a_broken_connection_is_opened_again_at_the_next_address() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let first = approver(Manner::Leaving(100));
    let client = LoadClient::connect(first, 1, iso()).unwrap();
    let mut client = client.reconnecting(&[gone, approver(Manner::Swapping)]);
    let tally = client.run(&task(Some(1_000), Duration::from_millis(400), u32::MAX)).unwrap();
    let counts = &tally.counts;
    assert_eq!(counts.broken_connections, 1);
    assert_eq!(counts.answered + counts.unanswered + counts.unsent, 300);
    assert!(counts.answered > 0, "{counts:?}");
}

#[test]
fn bytes_that_are_no_answer_break_the_connection() {
    let address = echo::start(|mut stream: TcpStream| {
        let mut bytes = [0; 4_096];
        while stream.read(&mut bytes)? > 0 {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
        }
        Ok(())
    });
    let mut client = LoadClient::connect(address.unwrap(), 1, iso()).unwrap();
    let counts = client.run(&task(Some(100), Duration::from_millis(100), 1)).unwrap().counts;
    assert_eq!((counts.answered, counts.broken_connections), (0, 1));
}
