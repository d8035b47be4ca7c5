//! A blocking ISO 8583 client: one connection, many messages in flight, raw bytes where a test
//! wants to misbehave.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::message::Message;
use crate::purchase::next_stan;
use crate::source::connect_from;

/// The switch closed the connection, or died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disconnection;

/// A connection to the ISO 8583 door.
#[derive(Debug)]
pub struct Acquirer {
    stream: TcpStream,
}

impl Acquirer {
    /// Connects.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).expect("the ISO 8583 door is open")
    }

    /// Connects, if somebody listens.
    ///
    /// Errors: `Disconnection` if nobody does.
    pub fn try_connect(address: SocketAddr) -> Result<Self, Disconnection> {
        let stream = TcpStream::connect(address).map_err(|_| Disconnection)?;
        stream.set_nodelay(true).map_err(|_| Disconnection)?;
        Ok(Self { stream })
    }

    /// Connects from an address of the loopback.
    #[track_caller]
    pub fn connect_from(source: Ipv4Addr, address: SocketAddr) -> Self {
        let stream = connect_from(source, address).expect("the ISO 8583 door is open");
        stream.set_nodelay(true).expect("a socket takes TCP_NODELAY");
        Self { stream }
    }

    /// A second handle on the same connection, to read while another thread writes.
    pub fn second_handle(&self) -> Self {
        Self { stream: self.stream.try_clone().expect("a socket can be cloned") }
    }

    /// Sends a message and waits for one answer, which must be its own.
    #[track_caller]
    #[must_use]
    pub fn ask(&mut self, request: &Message) -> Message {
        self.send(request).expect("the connection is open");
        let answer = self.receive().expect("the switch answers");
        let mut expected_mti = request.mti.clone().into_bytes();
        expected_mti[2] += 1;
        expected_mti[3] = b'0';
        assert_eq!(answer.mti.as_bytes(), expected_mti, "{request:?} was answered by {answer:?}");
        assert_eq!(answer.get(11), request.get(11), "the answer is to another message");
        answer
    }

    /// Asserts that the connection still works, by an echo.
    #[track_caller]
    pub fn assert_alive(&mut self) {
        let answer = self.ask(&Message::network_management("301", next_stan()));
        assert_eq!(answer.response(), "00", "an echo is always answered well");
    }

    /// Sends a message.
    ///
    /// Errors: `Disconnection` if the connection is gone.
    pub fn send(&mut self, message: &Message) -> Result<(), Disconnection> {
        self.send_frame(&message.encode())
    }

    /// Sends bytes as one frame: with their true length before them.
    ///
    /// Errors: `Disconnection` if the connection is gone.
    pub fn send_frame(&mut self, bytes: &[u8]) -> Result<(), Disconnection> {
        let length = u16::try_from(bytes.len()).expect("a frame is below 64 KiB");
        self.send_raw(&[&length.to_be_bytes(), bytes].concat())
    }

    /// Sends bytes as they are.
    ///
    /// Errors: `Disconnection` if the connection is gone.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<(), Disconnection> {
        self.stream.write_all(bytes).map_err(|_| Disconnection)
    }

    /// Waits for the next message, whichever it answers.
    ///
    /// Errors: `Disconnection` if the connection ends first.
    #[track_caller]
    pub fn receive(&mut self) -> Result<Message, Disconnection> {
        let mut length = [0; 2];
        self.stream.read_exact(&mut length).map_err(|_| Disconnection)?;
        let mut frame = vec![0; usize::from(u16::from_be_bytes(length))];
        self.stream.read_exact(&mut frame).map_err(|_| Disconnection)?;
        Ok(Message::decode(&frame))
    }

    /// Whether nothing has come within `wait`: neither bytes nor an end.
    #[must_use]
    pub fn is_silent_for(&mut self, wait: Duration) -> bool {
        self.stream.set_read_timeout(Some(wait)).expect("a socket takes a time-out");
        let peeked = self.stream.peek(&mut [0; 1]);
        self.stream.set_read_timeout(None).expect("a socket takes no time-out");
        peeked
            .is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }

    /// Says that no more will be sent; answers can still be read.
    pub fn finish_sending(&self) {
        // A connection that the switch has closed already has nothing to finish.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
