//! The client's view of a protocol: requests appended to a buffer, answers taken off one.

/// The code of an answer, as text of up to eight bytes: DE39, `response_code`, or an HTTP status.
/// Compared as one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerCode([u8; 8]);

impl AnswerCode {
    /// The answer is the request, sent back by an echo server.
    pub const ECHO: Self = Self(*b"echo\0\0\0\0");

    /// A code from its text, of which at most eight bytes are kept.
    pub fn new(text: &[u8]) -> Self {
        let mut bytes = [0; 8];
        for (place, byte) in bytes.iter_mut().zip(text) {
            *place = *byte;
        }
        Self(bytes)
    }

    /// The code as text; anything that is not ASCII is shown as a question mark.
    pub fn text(self) -> String {
        let bytes = self.0.iter().take_while(|byte| **byte != 0);
        bytes
            .map(|byte| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '?' })
            .collect()
    }
}

/// An answer at the start of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireAnswer {
    /// Bytes that it takes.
    pub bytes: usize,
    /// The slot of its request, if the answer names it.
    pub slot: Option<u32>,
    /// The code of the answer.
    pub code: AnswerCode,
}

/// Bytes that cannot be an answer: nothing after them can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadAnswer;

/// A protocol, with the cards it draws requests from.
pub trait Wire {
    /// Whether answers come in the order of requests, and name none.
    const IN_ORDER: bool;

    /// Prepares for requests that are sent at this time.
    /// Units: nanoseconds since the Unix epoch.
    fn set_time(&mut self, unix_ns: u64);

    /// Appends one request.
    fn write(&mut self, out: &mut Vec<u8>, slot: u32);

    /// Reads the answer at the start of a buffer; none where not all of it has come.
    /// Errors: it is no answer.
    fn read(&mut self, bytes: &[u8]) -> Result<Option<WireAnswer>, BadAnswer>;
}
