//! Thousands of connections that begin a message and do not end it, again and again: each costs what it has sent and
//! little more, and others are answered meanwhile.

use std::net::{Ipv4Addr, SocketAddr};

use cardswitch_harness::{Acquirer, Installation, Message, descriptors_of_this_process, next_stan};

use crate::latency::p99;

/// As many as the door has at most.
const CONNECTIONS_MAX: usize = 16_384;
/// Below so many, the test shows nothing.
const CONNECTIONS_MIN: usize = 4_000;
/// The longest message that is announced. Units: bytes.
const FRAME_BYTES: u16 = 4_096;
/// The memory that a connection with half a frame may cost, with its task and the rest of earlier connections.
/// Memory is given back to the thread it was taken by, and another thread may serve the next connection. Units:
/// bytes.
const COST_BYTES_MAX: u64 = 16 * 1_024;

/// A connection with all but one byte of the longest frame, which the switch has read.
fn half(source: Ipv4Addr, door: SocketAddr) -> Acquirer {
    let mut acquirer = Acquirer::connect_from(source, door);
    let echo = Message::network_management("301", next_stan()).encode();
    let length = u16::try_from(echo.len()).expect("an echo is short").to_be_bytes();
    let half = vec![b'x'; usize::from(FRAME_BYTES) - 1];
    let bytes = [&length[..], &echo, &FRAME_BYTES.to_be_bytes(), &half].concat();
    acquirer.send_raw(&bytes).expect("the door reads");
    // The bytes that came in one piece with the echo were read with it.
    assert_eq!(acquirer.receive().expect("an echo is answered").response(), "00");
    acquirer
}

/// So many of them, from two addresses.
fn wave(count: usize, door: SocketAddr) -> Vec<Acquirer> {
    let source =
        |number: usize| Ipv4Addr::new(127, 0, 0, if number.is_multiple_of(2) { 1 } else { 2 });
    (0..count).map(|number| half(source(number), door)).collect()
}

#[test]
fn half_frames_cost_little_more_than_their_bytes() {
    // Three eighths are the door's; each of two addresses has half of these.
    let count = (descriptors_of_this_process() / 32 * 12 - 2).min(CONNECTIONS_MAX);
    assert!(count >= CONNECTIONS_MIN, "`ulimit -Hn` is too low for this test");
    let installation = Installation::init(60, 924);
    let switch = installation.serve();
    let card = installation.cards.ordinary();
    let mut neighbour = Acquirer::connect_from(Ipv4Addr::new(127, 0, 0, 9), switch.iso8583);
    let p99_before = p99(&mut neighbour, card);
    let (before, descriptors) = (switch.resident_bytes(), switch.open_descriptors());

    let mut waves = Vec::new();
    for _ in 0..3 {
        let mut halves = wave(count, switch.iso8583);
        let taken = switch.open_descriptors() - descriptors;
        println!("{taken} descriptors; p99 {p99_before:?} -> {:?}", p99(&mut neighbour, card));
        waves.push(switch.resident_bytes());
        // The last byte of each: a message nobody can read, which costs no connection.
        for acquirer in &mut halves {
            acquirer.send_raw(b"x").expect("the connection is open");
            acquirer.assert_alive();
        }
        drop(halves);
        while switch.open_descriptors() > descriptors {
            std::thread::yield_now();
        }
    }
    let mebibytes: Vec<u64> = waves.iter().map(|bytes| bytes >> 20).collect();
    let after = switch.resident_bytes() >> 20;
    println!("{count} half frames: {} MiB, then {mebibytes:?}, then {after}", before >> 20);
    let grown = waves.into_iter().max().unwrap_or_default().saturating_sub(before);
    assert!(grown <= count as u64 * COST_BYTES_MAX, "{grown} bytes");
    switch.stop();
    installation.verify_ok();
}
