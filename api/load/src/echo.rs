//! A counterpart that does no work: every byte goes back as it came. One thread a connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Bytes asked of a connection at a time.
const READ_BYTES: usize = 256 * 1_024;

/// Serves every connection so, on a free port of the loopback, until the process ends. Returns the
/// port's address.
/// Errors: there is no free port.
pub fn start(
    serve: impl Fn(TcpStream) -> io::Result<()> + Clone + Send + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            // The client tells of a connection that broke.
            thread::spawn(move || drop(stream.set_nodelay(true).and_then(|()| serve(stream))));
        }
    });
    Ok(address)
}

/// Serves one connection to its end.
/// Errors: those of the socket.
pub fn send_back(mut stream: TcpStream) -> io::Result<()> {
    let mut bytes = vec![0; READ_BYTES];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            came => stream.write_all(&bytes[..came])?,
        }
    }
}
