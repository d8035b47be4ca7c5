//! One socket, with the requests not yet written and the answers not yet read.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::Must;

const READ_BYTES: usize = 64 << 10;

/// How requests and answers are spelled.
pub trait Client: Send {
    /// Appends the next request. Requests of a connection are numbered from 0.
    fn write_request(&mut self, number: u64, out: &mut Vec<u8>);

    /// Takes one whole answer off the start of `bytes`: how long it is, and the number of its
    /// request below `NUMBERS`; `None` where it has not arrived whole.
    /// Panics: the answer is not the one that every request of a bench gets.
    fn read_answer(&mut self, bytes: &[u8]) -> Option<(usize, u64)>;
}

/// Answers name their requests below this number; then it comes round.
pub(super) const NUMBERS: u64 = 1_000_000;

/// A connection of a client.
#[derive(Debug)]
pub struct Connection<C> {
    stream: TcpStream,
    client: C,
    sent: u64,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

impl<C: Client> Connection<C> {
    /// Connects.
    #[must_use]
    pub fn open(address: SocketAddr, client: C) -> Self {
        let stream = TcpStream::connect(address).must("connect to the server");
        stream.set_nodelay(true).must("set the socket's option");
        Self { stream, client, sent: 0, outgoing: Vec::new(), incoming: Vec::new() }
    }

    /// The same connection for another thread, which does the reading; this one does the writing.
    #[must_use]
    pub fn reading_half(&self, client: C) -> Self {
        let stream = self.stream.try_clone().must("share the socket");
        Self { stream, client, sent: 0, outgoing: Vec::new(), incoming: Vec::new() }
    }

    /// The client that encodes its requests and decodes its answers.
    #[must_use]
    pub const fn client(&self) -> &C {
        &self.client
    }

    /// The number of the next request.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Renders the next request; `flush` sends it.
    pub fn push(&mut self) {
        self.client.write_request(self.sent, &mut self.outgoing);
        self.sent += 1;
    }

    /// Sends what was rendered.
    pub fn flush(&mut self) {
        if !self.outgoing.is_empty() {
            self.stream.write_all(&self.outgoing).must("write to the server");
            self.outgoing.clear();
        }
    }

    /// Waits for answers and hands on the number of each one's request. Returns how many came.
    pub fn receive(&mut self, mut arrived: impl FnMut(u64)) -> u64 {
        let mut received = 0;
        while received == 0 {
            let start = self.incoming.len();
            self.incoming.resize(start + READ_BYTES, 0);
            let read = self.stream.read(&mut self.incoming[start..]).must("read from the server");
            assert!(read > 0, "the server hung up");
            self.incoming.truncate(start + read);
            let mut consumed = 0;
            while let Some((bytes, number)) = self.client.read_answer(&self.incoming[consumed..]) {
                arrived(number);
                consumed += bytes;
                received += 1;
            }
            self.incoming.drain(..consumed);
        }
        received
    }
}
