//! A connection to the ISO 8583 door: frames out, frames in.
//!
//! Blocking sockets on threads of their own, not the asynchronous runtime: a timer of the runtime wakes
//! to the millisecond, which is more than an answer takes; a sleeping thread wakes to some
//! fifty microseconds.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use cardswitch_iso8583::{Dialect, Frame, RepeatedFields, decode, next_frame, write_frame};

use super::FeedError;
use super::line::{Line, LineStream};

/// The time that the switch may refuse to read before the connection is given up.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes asked of the socket at a time.
const READ_BYTES: usize = 16 * 1024;

/// A connection, used by one thread at a time; [`DoorConnection::split`] makes two halves of it.
#[derive(Debug)]
pub(super) struct DoorConnection {
    stream: LineStream,
    dialect: Dialect,
    buffer: Vec<u8>,
    read_timeout: Option<Duration>,
}

impl DoorConnection {
    /// Connects.
    /// Errors: those of the line.
    pub(super) fn open(line: &Line) -> Result<Self, FeedError> {
        let stream = line.open()?;
        let limited = stream.set_write_timeout(Some(WRITE_TIMEOUT));
        limited.map_err(FeedError::Connection)?;
        let dialect = line.dialect.clone();
        Ok(Self { stream, dialect, buffer: Vec::new(), read_timeout: None })
    }

    /// A second handle on the same connection, for a thread that only reads.
    /// Errors: those of the socket.
    pub(super) fn split(&self) -> io::Result<Self> {
        let stream = self.stream.try_clone()?;
        let dialect = self.dialect.clone();
        Ok(Self { stream, dialect, buffer: Vec::new(), read_timeout: None })
    }

    /// Sends one message.
    /// Errors: those of the socket; a message above the frame cap.
    pub(super) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let mut framed = Vec::with_capacity(message.len() + 16);
        frame(&mut framed, message, &self.dialect)?;
        self.send_framed(&framed)
    }

    /// Sends what [`frame`] has put together.
    /// Errors: those of the socket.
    pub(super) fn send_framed(&mut self, framed: &[u8]) -> io::Result<()> {
        self.stream.write_all(framed)
    }

    /// Waits for the next message; `None` when none came in time.
    /// Errors: those of the socket; the end of the connection; a stream out of step.
    pub(super) fn receive(&mut self, timeout: Option<Duration>) -> io::Result<Option<Vec<u8>>> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(message) = self.next_message()? {
                return Ok(Some(message));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) || !self.read_more(left)? {
                return Ok(None);
            }
        }
    }

    /// Waits for the answer to the message with this trace number; `None` when none came in time. Other messages of the
    /// switch are passed over, such as a sign-off or a late answer to somebody else.
    /// Errors: as of `receive`.
    pub(super) fn receive_answer(
        &mut self,
        stan: Option<u64>,
        timeout: Duration,
    ) -> io::Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + timeout;
        let is_other = |bytes: &[u8]| {
            decode(bytes).is_ok_and(|message| {
                !message.mti().is_response() || (stan.is_some() && message.get_number(11) != stan)
            })
        };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.receive(Some(left))? {
                Some(bytes) if is_other(&bytes) => {}
                answer => return Ok(answer),
            }
        }
    }

    /// Takes the next whole message out of what has arrived, without waiting.
    /// Errors: a stream out of step.
    pub(super) fn next_message(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let (message, consumed) = match next_frame(&self.buffer, &self.dialect.framing) {
                Frame::Complete { body, consumed, .. } => {
                    let message = self.buffer.get(body).unwrap_or_default();
                    // A part that cannot be read is missing in the shown message, too.
                    (Some(self.dialect.plain(message).0.into_owned()), consumed)
                }
                Frame::ZeroLength { consumed } => (None, consumed),
                Frame::Incomplete { .. } => return Ok(None),
                Frame::Undersized { .. } | Frame::Lost(_) => {
                    return Err(io::Error::other("the switch sent what is not a frame"));
                }
            };
            self.buffer.drain(..consumed);
            if message.is_some() {
                return Ok(message);
            }
        }
    }

    /// Ends the connection for all its handles.
    pub(super) fn close(&self) {
        // A connection that is gone already needs no closing.
        let _ = self.stream.shutdown();
    }

    /// Reads what is there, waiting at most so long. False when nothing came.
    fn read_more(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        if self.read_timeout != timeout {
            self.stream.set_read_timeout(timeout)?;
            self.read_timeout = timeout;
        }
        let filled = self.buffer.len();
        self.buffer.resize(filled + READ_BYTES, 0);
        let read = self.stream.read(&mut self.buffer[filled..]);
        self.buffer.truncate(filled + read.as_ref().copied().unwrap_or(0));
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Appends a message of the default spelling in the spelling and the frame of a dialect.
/// Errors: a message above the frame cap.
pub(super) fn frame(out: &mut Vec<u8>, message: &[u8], dialect: &Dialect) -> io::Result<()> {
    let Some(translation) = &dialect.translation else { return frame_noise(out, message, dialect) };
    write_frame(out, &dialect.framing, None, |out| {
        translation.write(message, &RepeatedFields::NONE, out)
    })
    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// Appends bytes as they are in the frame of a dialect.
/// Errors: bytes above the frame cap.
pub(super) fn frame_noise(out: &mut Vec<u8>, noise: &[u8], dialect: &Dialect) -> io::Result<()> {
    write_frame(out, &dialect.framing, None, |out| {
        out.extend_from_slice(noise);
        Ok(())
    })
    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
