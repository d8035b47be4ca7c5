//! Connections from an address of one's choice: the whole of 127.0.0.0/8 is this machine, so a test can be many peers.
//! And thousands of them at a time.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::thread;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// So many connections are made in a row: half of those that may wait at a door until it takes them.
const IN_A_ROW: usize = 64;

/// Makes many connections to a door, each by `connect` with its number. The system asks again a second later for each
/// that finds no room among those that wait, so the door is given time to take them.
pub fn crowd<C>(
    door: SocketAddr,
    count: usize,
    mut connect: impl FnMut(usize) -> Option<C>,
) -> Vec<C> {
    let mut connections = Vec::with_capacity(count);
    for number in 0..count {
        if number % IN_A_ROW == 0 {
            while waiting_at(door) > 0 {
                thread::yield_now();
            }
        }
        connections.extend(connect(number));
    }
    connections
}

/// How many connections a door of this machine has not taken yet, by the system's table of sockets.
fn waiting_at(door: SocketAddr) -> u64 {
    const LISTENING: &str = "0A";
    let port = format!(":{:04X}", door.port());
    let table = BufReader::new(File::open("/proc/net/tcp").expect("a system with tables"));
    let rows = table.lines().map(|line| line.expect("a row of the table is text"));
    let mut doors = rows.filter_map(|row| {
        // Number, own address, that of the peer, state, what waits to be sent and to be taken.
        let mut values = row.split_whitespace().skip(1);
        let (address, _, state, queues) =
            (values.next()?, values.next()?, values.next()?, values.next()?);
        let (_, taken) = queues.split_once(':')?;
        (state == LISTENING && address.ends_with(&port)).then(|| taken.to_owned())
    });
    let waiting = doors.next().expect("somebody listens at the door");
    u64::from_str_radix(&waiting, 16).expect("a number in hexadecimal digits")
}

/// Connects to `target` from `source`.
/// Errors: the system's; nobody listens.
pub fn connect_from(source: Ipv4Addr, target: SocketAddr) -> io::Result<TcpStream> {
    let (family, flags) = (AddressFamily::INET, SocketFlags::CLOEXEC);
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrV4::new(source, 0))?;
    connect(&socket, &target)?;
    Ok(TcpStream::from(socket))
}

/// How many file descriptors this process may have, once its limit is as high as it may be: each connection has one
/// on this side, too.
pub fn descriptors_of_this_process() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .expect("a limit can be raised");
    maximum.map_or(usize::MAX, |maximum| usize::try_from(maximum).unwrap_or(usize::MAX))
}
