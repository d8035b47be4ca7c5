//! Machines on this one: network namespaces on a bridge whose ports can be taken down.
//!
//! Nothing is sent out of them but to each other and to this test. All of it goes away with the value.
//! It needs root, `ip` (iproute2), and `nft` (nftables) for cuts of one direction.

use std::env;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The addresses of all such networks: set aside for measurements (RFC 2544).
pub const LAN_ADDRESSES: &str = "198.18.0.0/15";
/// The address of this test in each, behind the machines'.
const OWN_HOST: u8 = 254;
/// The table of rules in a machine.
const TABLE: &str = "cut";

/// Machines on one wire.
#[derive(Debug)]
pub struct Lan {
    name: String,
    subnet: [u8; 3],
    machines: u8,
}

/// A direction as a machine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Packets from others to it.
    Inward,
    /// Packets from it to others.
    Outward,
}

/// Whether networks can be made here. If the environment says that they cannot, this prints that `what` is not
/// tested.
pub fn has_machines(what: &str) -> bool {
    let is_left_out = env::var("CARDSWITCH_NAMESPACES").is_ok_and(|wish| wish == "none");
    if is_left_out {
        eprintln!("NOT TESTED, since CARDSWITCH_NAMESPACES=none: {what}");
    }
    !is_left_out
}

impl Lan {
    /// Makes a network of so many machines.
    #[track_caller]
    pub fn new(machines: u8) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = std::process::id().wrapping_mul(31) + NEXT.fetch_add(1, Ordering::Relaxed);
        let [_, _, high, low] = number.to_be_bytes();
        let name = format!("cs{:05}", number % 100_000);
        let lan = Self { name, subnet: [198, 18 + (high & 1), low], machines };
        lan.make();
        lan
    }

    #[track_caller]
    fn make(&self) {
        let hub = self.hub();
        ip(&["netns", "add", &hub]);
        ip(&["-n", &hub, "link", "add", "hub", "type", "bridge"]);
        ip(&["-n", &hub, "link", "set", "hub", "up"]);
        let own = format!("{}t", self.name);
        ip(&["link", "add", &own, "type", "veth", "peer", "name", "test", "netns", &hub]);
        self.plug("test");
        ip(&["address", "add", &format!("{}/24", self.host(OWN_HOST)), "dev", &own]);
        ip(&["link", "set", &own, "up"]);
        for machine in 0..self.machines {
            let (space, port) = (self.namespace(machine), port(machine));
            ip(&["netns", "add", &space]);
            ip(&[
                "-n", &hub, "link", "add", &port, "type", "veth", "peer", "name", "net", "netns",
                &space,
            ]);
            self.plug(&port);
            let address = format!("{}/24", self.address(machine));
            ip(&["-n", &space, "address", "add", &address, "dev", "net"]);
            ip(&["-n", &space, "link", "set", "net", "up"]);
            ip(&["-n", &space, "link", "set", "lo", "up"]);
        }
    }

    #[track_caller]
    fn plug(&self, port: &str) {
        ip(&["-n", &self.hub(), "link", "set", port, "master", "hub", "up"]);
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.name)
    }

    /// The namespace that is a machine.
    pub fn namespace(&self, machine: u8) -> String {
        format!("{}-{machine}", self.name)
    }

    /// The address of a machine.
    pub fn address(&self, machine: u8) -> IpAddr {
        self.host(machine + 1).into()
    }

    /// A door of a machine.
    pub fn door(&self, machine: u8, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(machine), port)
    }

    const fn host(&self, host: u8) -> Ipv4Addr {
        let [a, b, c] = self.subnet;
        Ipv4Addr::new(a, b, c, host)
    }

    /// Pulls the plug of machines.
    #[track_caller]
    pub fn unplug(&self, machines: &[u8]) {
        self.set_link(machines, "down");
    }

    /// Puts it back.
    #[track_caller]
    pub fn plug_in(&self, machines: &[u8]) {
        self.set_link(machines, "up");
    }

    #[track_caller]
    fn set_link(&self, machines: &[u8], state: &str) {
        for machine in machines {
            ip(&["-n", &self.hub(), "link", "set", &port(*machine), state]);
        }
    }

    /// Keeps machines from each other; all others reach them, and they all others.
    #[track_caller]
    pub fn part(&self, machines: &[u8]) {
        self.set_isolated(machines, "on");
    }

    /// Lets them reach each other again.
    #[track_caller]
    pub fn rejoin(&self, machines: &[u8]) {
        self.set_isolated(machines, "off");
    }

    #[track_caller]
    fn set_isolated(&self, machines: &[u8], state: &str) {
        for machine in machines {
            let port = port(*machine);
            ip(&[
                "-n",
                &self.hub(),
                "link",
                "set",
                "dev",
                &port,
                "type",
                "bridge_slave",
                "isolated",
                state,
            ]);
        }
    }

    /// Loses everything between a machine and `others` in one direction.
    #[track_caller]
    pub fn lose(&self, machine: u8, direction: Direction, others: &[u8]) {
        let (hook, side) = match direction {
            Direction::Inward => ("input", "saddr"),
            Direction::Outward => ("output", "daddr"),
        };
        let others: Vec<String> =
            others.iter().map(|other| self.address(*other).to_string()).collect();
        let rules = format!(
            "table ip {TABLE} {{\nchain lost {{\ntype filter hook {hook} priority 0\n\
             ip {side} {{ {} }} drop\n}}\n}}\n",
            others.join(", ")
        );
        self.nft(machine, &rules);
    }

    /// Loses nothing any more.
    #[track_caller]
    pub fn lose_nothing(&self, machine: u8) {
        self.nft(machine, &format!("delete table ip {TABLE}"));
    }

    #[track_caller]
    fn nft(&self, machine: u8, rules: &str) {
        let space = self.namespace(machine);
        ip(&["netns", "exec", &space, "nft", rules]);
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        for machine in 0..self.machines {
            remove_namespace(&self.namespace(machine));
        }
        remove_namespace(&self.hub());
    }
}

fn port(machine: u8) -> String {
    format!("port{machine}")
}

fn remove_namespace(name: &str) {
    // A missing namespace needs no removal.
    drop(Command::new("ip").args(["netns", "delete", name]).output());
}

#[track_caller]
fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output();
    let done = done.expect("iproute2 is installed, as `./test` does");
    assert!(
        done.status.success(),
        "`ip {}` failed: {}; without namespaces, leave these tests out by CARDSWITCH_NAMESPACES=none",
        arguments.join(" "),
        String::from_utf8_lossy(&done.stderr).trim()
    );
}
