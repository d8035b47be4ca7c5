//! Connections from an address of one's choice: the whole of 127.0.0.0/8 is this machine, so a test can be many peers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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
