//! A client of HTTP/1.1 on one kept connection, and streams of events that are read as they come.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::JoinHandle;

use cardswitch_harness::{HttpResponse, read_response};
use cardswitch_tools::{Outcome, fail};

/// Headers of a request: names and values.
pub(crate) type Headers<'a> = [(&'a str, &'a str)];

/// A connection.
pub(crate) struct Http {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Http {
    /// Connects.
    /// Errors: nobody is there.
    pub(crate) fn connect(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), host: address.to_string() })
    }

    fn ask(&mut self, path: &str, headers: &Headers<'_>) -> Outcome<()> {
        let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let lines: String = lines.collect();
        let head = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n{lines}\r\n", self.host);
        Ok(self.stream.get_mut().write_all(head.as_bytes())?)
    }

    /// Reads the whole answer to a GET.
    /// Errors: it is other than 200.
    pub(crate) fn get(&mut self, path: &str, headers: &Headers<'_>) -> Outcome<HttpResponse> {
        self.ask(path, headers)?;
        let answer = read_response(&mut self.stream);
        match answer.status {
            200 => Ok(answer),
            status => fail(format!("`{path}` answers {status}")),
        }
    }
}

/// A stream of server-sent events that a thread reads as it comes.
pub(crate) struct EventStream {
    stream: TcpStream,
    reading: JoinHandle<u64>,
}

/// Opens a stream with one header.
/// Errors: it is not there.
pub(crate) fn follow(
    address: SocketAddr,
    path: &str,
    header: (&str, &str),
) -> Outcome<EventStream> {
    let mut client = Http::connect(address)?;
    client.ask(path, &[header])?;
    let mut status = String::new();
    client.stream.read_line(&mut status)?;
    if !status.starts_with("HTTP/1.1 200 ") {
        return fail(format!("`{path}` answers {status}"));
    }
    let stream = client.stream.get_ref().try_clone()?;
    let reading = std::thread::spawn(move || {
        let lines = client.stream.lines().map_while(Result::ok);
        // Comments keep the connection only.
        lines.filter(|line| line.starts_with("data:")).count() as u64
    });
    Ok(EventStream { stream, reading })
}

impl EventStream {
    /// Ends it, and returns how many events came.
    /// Errors: it had ended by itself.
    pub(crate) fn end(self) -> Outcome<u64> {
        if self.reading.is_finished() {
            return fail("a stream of events has ended by itself");
        }
        self.stream.shutdown(Shutdown::Both)?;
        self.reading.join().map_err(|_| "a reader panicked".into())
    }
}
