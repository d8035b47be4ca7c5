//! One message by hand: built from fields, sent, its answer shown, for `cardswitch send`.
//!
//! Card data is masked in the shown messages; there is no way to unmask it.

use std::time::Duration;

use cardswitch_iso8583::{Class, Length, MessageBuilder, Mti, decode, describe, field};

use super::FeedError;
use super::client::DoorConnection;
use super::line::Line;

/// A message to send: its type and data elements, as given.
#[derive(Clone)]
pub struct SendRequest {
    /// Four digits.
    pub mti: String,
    /// Number and content of each element of the default spelling; binary ones (52, 64, 128) as hex, numbers without
    /// leading zeros. The transmission time (7) and the trace number (11) are filled in if missing.
    pub fields: Vec<(u8, String)>,
}

/// A sent message and its answer.
#[derive(Debug, Clone)]
pub struct MessageExchange {
    /// The request, one line an element, card data masked.
    pub request: String,
    /// The answer likewise; `None` when none came in time.
    pub answer: Option<String>,
    /// The part of the answer beside card data: number and content of DE 4, 38, 39 and 44.
    pub elements: Vec<(u8, String)>,
}

/// The elements of an answer that tell nothing of its card.
const PLAIN_ELEMENTS: [u8; 4] = [4, 38, 39, 44];

impl MessageExchange {
    /// The content of an element of the answer.
    pub fn element(&self, de: u8) -> Option<&str> {
        self.elements.iter().find(|(number, _)| *number == de).map(|(_, text)| text.as_str())
    }
}

/// Sends one message and waits for its answer.
/// Errors: fields that make no message, no switch at the address, a broken connection.
pub fn send(
    line: &Line,
    request: &SendRequest,
    timeout: Duration,
) -> Result<MessageExchange, FeedError> {
    let bytes = encode(request)?;
    let mut connection = DoorConnection::open(line)?;
    connection.send(&bytes).map_err(FeedError::Connection)?;
    let stan = decode(&bytes).ok().and_then(|message| message.get_number(11));
    let answer = connection.receive_answer(stan, timeout).map_err(FeedError::Connection)?;
    Ok(MessageExchange {
        request: show(&bytes),
        elements: answer.as_deref().map(plain_elements).unwrap_or_default(),
        answer: answer.map(|answer| show(&answer)),
    })
}

fn plain_elements(answer: &[u8]) -> Vec<(u8, String)> {
    let Ok(message) = decode(answer) else { return Vec::new() };
    let element = |de: u8| Some((de, message.get_text(de)?.to_owned()));
    PLAIN_ELEMENTS.into_iter().filter_map(element).collect()
}

fn encode(request: &SendRequest) -> Result<Vec<u8>, FeedError> {
    let mti = Mti::parse(request.mti.as_bytes()).ok_or_else(|| {
        FeedError::Refused(format!("`{}` is not a message type of four digits", request.mti))
    })?;
    let mut builder = MessageBuilder::new(mti);
    for (de, content) in &request.fields {
        let spec = field(*de)
            .ok_or_else(|| FeedError::Refused(format!("there is no data element {de}")))?;
        builder = if spec.class == Class::Binary {
            let bytes = parse_hex(content).ok_or_else(|| {
                FeedError::Refused(format!("data element {de} takes an even number of hex digits"))
            })?;
            builder.set(*de, &bytes)
        } else if spec.class == Class::Digits && spec.length == Length::Fixed {
            let width = usize::from(spec.len_max);
            builder.set_text(*de, &format!("{content:0>width$}"))
        } else {
            builder.set_text(*de, content)
        };
    }
    let builder = with_defaults(builder, request);
    let mut bytes = Vec::new();
    builder.encode(&mut bytes).map_err(|error| FeedError::Refused(error.to_string()))?;
    Ok(bytes)
}

/// The transmission time and a trace number, which every message has, where they are not given.
fn with_defaults(mut builder: MessageBuilder, request: &SendRequest) -> MessageBuilder {
    let is_missing = |de| request.fields.iter().all(|(given, _)| *given != de);
    let now = chrono::Utc::now();
    if is_missing(7) {
        builder = builder.set_text(7, &now.format("%m%d%H%M%S").to_string());
    }
    if is_missing(11) {
        builder = builder.set_number(11, u64::from(now.timestamp_subsec_micros()));
    }
    builder
}

fn show(bytes: &[u8]) -> String {
    match decode(bytes) {
        Ok(message) => describe(&message).to_string(),
        Err(error) => format!("unreadable: {error}"),
    }
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect::<Option<_>>()?;
    digits
        .len()
        .is_multiple_of(2)
        .then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
