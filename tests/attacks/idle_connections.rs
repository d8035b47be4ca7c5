//! Connections that say nothing, as many as one address can open, where there are few file descriptors: other
//! addresses go on being served at every door, and every watcher is told the health.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use cardswitch_harness::{
    Acquirer, HttpClient, Installation, Switch, connect_from, crowd, descriptors_of_this_process,
};

use crate::latency::p99;

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Connections of the attacker to a door, of which the switch may close some.
fn idle(door: SocketAddr, count: usize) -> Vec<TcpStream> {
    crowd(door, count, |_| Some(connect_from(ATTACKER, door).expect("the door is open")))
}

/// A figure of the switch, as another address is told it.
#[track_caller]
fn figure(switch: &Switch, name: &str) -> u64 {
    let text = switch.watcher().at(OTHER).get("/metrics").text();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| unreachable!("no figure `{name}`")).parse().expect("a number")
}

#[track_caller]
fn assert_healthy(client: &HttpClient) {
    for path in ["/healthz", "/readyz"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
}

#[test]
fn idle_connections_of_one_address_shut_no_door() {
    // Of 1,024 descriptors a door has 384, and one address half of these.
    const SHARE: u64 = 192;
    descriptors_of_this_process();
    let installation = Installation::init(60, 921);
    let switch = installation.serve_under("-n 1024");
    let card = installation.cards.ordinary();
    let before = p99(&mut Acquirer::connect_from(OTHER, switch.iso8583), card);
    let at_rest = switch.open_descriptors();

    let mut held = idle(switch.iso8583, 1_000);
    while figure(&switch, "cardswitch_iso8583_connections_refused_total") < 1_000 - SHARE {
        std::thread::yield_now();
    }
    held.extend(idle(switch.metrics, 200));
    held.extend(idle(switch.http, 1_000));
    // Doors take their queues in order: once the last was refused, all before were looked at.
    let last = held.last().expect("a thousand");
    assert_eq!(last.peek(&mut [0]).unwrap_or(0), 0, "the last is closed");
    assert!(figure(&switch, "cardswitch_http_refused_total{why=\"address\"}") > 0);
    assert_eq!(figure(&switch, "cardswitch_iso8583_connections"), SHARE);
    assert!(figure(&switch, "cardswitch_http_connections") <= SHARE);

    let during = p99(&mut Acquirer::connect_from(OTHER, switch.iso8583), card);
    assert_eq!(switch.api().at(OTHER).get("/v1/company").status, 200);
    assert_healthy(&switch.anonymous().at(OTHER));
    assert_healthy(&switch.watcher().at(OTHER));
    assert_healthy(&switch.watcher().at(ATTACKER));
    let open = switch.open_descriptors();
    println!("descriptors {at_rest} -> {open}; p99 of a purchase {before:?} -> {during:?}");
    assert!(open < 600, "{open} of 1,024 descriptors are open");
    let log = switch.log();
    assert!(log.contains("too many connections of one peer"), "{log}");
    assert!(!log.contains("cannot accept"), "{log}");
    assert!(log.lines().count() < 100, "connections are not counted by lines");

    drop(held);
    while figure(&switch, "cardswitch_iso8583_connections") > 0 {
        std::thread::yield_now();
    }
    Acquirer::connect_from(ATTACKER, switch.iso8583).assert_alive();
    assert_healthy(&switch.anonymous().at(ATTACKER));
    switch.stop();
    installation.verify_ok();
}

#[test]
fn the_share_of_an_address_is_configured_and_proxies_have_none() {
    let installation = Installation::init(1, 922);
    installation.configure(
        "iso8583_connections_per_peer = 3\nhttp_connections_per_address = 5\n\
         trusted_proxies = [\"127.0.0.3\"]\n",
    );
    let switch = installation.serve();
    let mut held: Vec<Acquirer> = (0..3)
        .map(|_| {
            let mut acquirer = Acquirer::connect_from(ATTACKER, switch.iso8583);
            acquirer.assert_alive();
            acquirer
        })
        .collect();
    assert!(Acquirer::connect_from(ATTACKER, switch.iso8583).receive().is_err(), "a fourth");
    Acquirer::connect_from(OTHER, switch.iso8583).assert_alive();
    held.iter_mut().for_each(Acquirer::assert_alive);

    let idle = idle(switch.http, 5);
    while figure(&switch, "cardswitch_http_connections") < 5 {
        std::thread::yield_now();
    }
    let sixth = connect_from(ATTACKER, switch.http).expect("the door is open");
    assert_eq!(sixth.peek(&mut [0]).unwrap_or(0), 0, "a sixth is closed");
    assert_healthy(&switch.anonymous().at(OTHER));
    let of_proxy: Vec<TcpStream> =
        (0..10).map(|_| connect_from(PROXY, switch.http).expect("the door is open")).collect();
    assert_healthy(&switch.anonymous().at(PROXY));
    drop((idle, of_proxy, held));
    switch.stop();
}

#[test]
fn the_soft_limit_of_descriptors_is_raised() {
    let installation = Installation::init(1, 923);
    let switch = installation.serve_under("-Sn 256");
    assert!(figure(&switch, "process_max_fds") > 256);
    let idle = idle(switch.iso8583, 400);
    while figure(&switch, "cardswitch_iso8583_connections") < 400 {
        std::thread::yield_now();
    }
    assert_healthy(&switch.anonymous());
    drop(idle);
    switch.stop();
}
