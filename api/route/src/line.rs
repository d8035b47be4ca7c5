//! The connection to one cell that one peer has: made when its first message comes, and again after it broke.
//!
//! A line is a task of its own, so a cell that is slow, silent or gone holds up nobody's messages to another.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cardswitch_acquiring::frame_buffer::{FrameBuffer, FrameItem};
use cardswitch_acquiring::limits::IN_FLIGHT_MAX;
use cardswitch_edge::tls_client::is_refusal;
use cardswitch_iso8583::{Dialect, EncodeError, Framing, Tpdu, write_frame};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::cell_door::{CellDoor, CellStream};
use crate::pending_requests::{PendingRequests, RoutedRequest};
use crate::reading::read_message;

/// How many bytes are written at a time at least, where so many wait.
const WRITE_BYTES: usize = 16 * 1_024;
/// Length and TPDU around a message. Units: bytes.
const HEAD_BYTES_USUAL: usize = 4 + Tpdu::BYTES;

/// A message on its way to a cell.
#[derive(Debug)]
pub(crate) struct ForwardedMessage {
    frame: Vec<u8>,
    /// The request as far as it could be read.
    request: Option<Box<RoutedRequest>>,
}

impl ForwardedMessage {
    /// The message `body` as it is, framed again.
    /// Errors: it is longer than any frame.
    pub(crate) fn new(
        body: &[u8],
        tpdu: Option<Tpdu>,
        framing: &Framing,
        request: Option<Box<RoutedRequest>>,
    ) -> Result<Self, EncodeError> {
        Ok(Self { frame: framed(body, tpdu, framing)?, request })
    }
}

/// The way to a cell.
#[derive(Debug)]
pub(crate) struct CellLine {
    messages: Sender<ForwardedMessage>,
    way: CellWay,
}

/// The door of a cell, and how messages are spelled there and at the router's own door.
#[derive(Clone, Debug)]
pub(crate) struct CellWay {
    pub(crate) door: Arc<CellDoor>,
    pub(crate) dialect: Arc<Dialect>,
}

impl CellLine {
    /// A line whose answers go to `answers`.
    pub(crate) fn to(way: CellWay, answers: Sender<Vec<u8>>) -> Self {
        let (messages, queue) = mpsc::channel(IN_FLIGHT_MAX);
        tokio::spawn(run(queue, way.clone(), answers));
        Self { messages, way }
    }

    /// Takes a message; too many for the cell are answered at once. Returns that answer.
    pub(crate) fn take(&self, message: ForwardedMessage) -> Option<Vec<u8>> {
        let refused = self.messages.try_send(message).err()?.into_inner();
        self.way.refuse(refused.request.as_deref())
    }
}

impl CellWay {
    fn refuse(&self, request: Option<&RoutedRequest>) -> Option<Vec<u8>> {
        self.door.refused.add(1);
        request?.not_taken(&self.dialect)
    }
}

/// Goes on until nothing more comes from the peer, or it takes no more answers.
async fn run(mut messages: Receiver<ForwardedMessage>, way: CellWay, answers: Sender<Vec<u8>>) {
    while let Some(first) = messages.recv().await {
        let unsent: Vec<_> = match way.door.connect().await {
            Ok(stream) => carry(stream, first, &mut messages, (&way, &answers)).await,
            Err(error) => {
                // At every message; what watches the cell warns once.
                tracing::debug!(cell = %way.door.cell, %error, "the cell takes no ISO 8583 connection");
                // Messages that came meanwhile share the attempt.
                let rest = std::iter::from_fn(|| messages.try_recv().ok());
                let all = std::iter::once(first).chain(rest);
                all.filter_map(|message| way.refuse(message.request.as_deref())).collect()
            }
        };
        for answer in unsent {
            if answers.send(answer).await.is_err() {
                return;
            }
        }
    }
}

/// Carries messages and answers until the connection ends. Returns the answers to those that have none by then.
async fn carry(
    stream: CellStream,
    first: ForwardedMessage,
    messages: &mut Receiver<ForwardedMessage>,
    (way, answers): (&CellWay, &Sender<Vec<u8>>),
) -> Vec<Vec<u8>> {
    let place = stream.place;
    let (from_cell, to_cell) = split(stream);
    let (mut first, unanswered) = (Some(first), Mutex::default());
    let has_answered = AtomicBool::new(false);
    let ended = tokio::select! {
        // A cell that has closed the connection is not sent what has just come.
        biased;
        ended = read_answers(from_cell, (&unanswered, &has_answered), (way, answers)) => ended,
        ended = write_messages(to_cell, &mut first, messages, (&way.door, &unanswered)) => ended,
    };
    let is_refused = ended.as_ref().is_err_and(is_refusal);
    if let Err(error) = ended {
        let what = if is_refused { "was refused" } else { "broke" };
        tracing::warn!(cell = %way.door.cell, %error, "the ISO 8583 connection to the cell {what}");
    }
    let lost: Vec<_> = unanswered.into_inner().drain().collect();
    let owes_answers = first.is_some() || !lost.is_empty();
    if owes_answers && !has_answered.into_inner() {
        // A node that finds no leader takes connections all the same.
        way.door.addresses.leave(place);
    }
    let answer = |request: Box<RoutedRequest>| match is_refused {
        true => way.refuse(Some(&request)),
        false => {
            way.door.unanswered.add(1);
            request.outcome_unknown(&way.dialect)
        }
    };
    // A connection may be over before anything was written.
    let unsent = first.and_then(|message| way.refuse(message.request.as_deref()));
    unsent.into_iter().chain(lost.into_iter().filter_map(answer)).collect()
}

/// Hands answers to the peer until the cell closes the connection.
/// Errors: it broke, or is out of step.
async fn read_answers(
    mut from_cell: ReadHalf<CellStream>,
    (unanswered, has_answered): (&Mutex<PendingRequests>, &AtomicBool),
    (CellWay { door, dialect }, answers): (&CellWay, &Sender<Vec<u8>>),
) -> io::Result<()> {
    let mut inbox = FrameBuffer::default();
    while from_cell.read_buf(inbox.space()).await? > 0 {
        loop {
            match inbox.take(&dialect.framing) {
                FrameItem::Message(tpdu, range) => {
                    // Whether or not the peer takes it, the node has answered.
                    has_answered.store(true, Ordering::Relaxed);
                    // The reader may end while it waits for room: until then the message has no answer.
                    let room = answers.reserve().await;
                    let room = room.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
                    let body = inbox.bytes(range);
                    door.answered.add(1);
                    read_message(dialect, body, |answer, _| {
                        answer.inspect(|answer| unanswered.lock().take(answer));
                    });
                    room.send(framed(body, tpdu, &dialect.framing).map_err(io::Error::other)?);
                }
                FrameItem::Skipped => {}
                FrameItem::Nothing => break,
                FrameItem::Lost(reason) => return Err(io::Error::other(reason)),
            }
        }
        inbox.rest();
    }
    Ok(())
}

/// Sends messages; once there are no more, says so and waits: the cell answers what is under way.
/// Errors: the connection broke.
async fn write_messages(
    mut to_cell: WriteHalf<CellStream>,
    first: &mut Option<ForwardedMessage>,
    messages: &mut Receiver<ForwardedMessage>,
    (door, unanswered): (&CellDoor, &Mutex<PendingRequests>),
) -> io::Result<()> {
    let mut next = first.take();
    while let Some(message) = next {
        let (mut bytes, mut count) = (Vec::new(), 0);
        let more = std::iter::from_fn(|| messages.try_recv().ok());
        for ForwardedMessage { frame, request } in std::iter::once(message).chain(more) {
            bytes.extend_from_slice(&frame);
            count += 1;
            request.into_iter().for_each(|request| unanswered.lock().add(request));
            if bytes.len() >= WRITE_BYTES {
                break;
            }
        }
        to_cell.write_all(&bytes).await?;
        to_cell.flush().await?;
        door.forwarded.add(count);
        next = messages.recv().await;
    }
    to_cell.shutdown().await?;
    std::future::pending().await
}

fn framed(body: &[u8], tpdu: Option<Tpdu>, framing: &Framing) -> Result<Vec<u8>, EncodeError> {
    let mut frame = Vec::with_capacity(body.len() + HEAD_BYTES_USUAL);
    write_frame(&mut frame, framing, tpdu, |out| {
        out.extend_from_slice(body);
        Ok(())
    })?;
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use cardswitch_iso8583::{MessageBuilder, Mti, RepeatedFields, decode};
    use tokio::net::TcpListener;

    use super::*;
    use crate::cell_door::DoorKind;

    fn echo(mti: Mti, trace_number: u64) -> Vec<u8> {
        let mut body = Vec::new();
        MessageBuilder::new(mti).set_number(11, trace_number).encode(&mut body).unwrap();
        body
    }

    fn request(trace_number: u64) -> ForwardedMessage {
        let body = echo(Mti::NETWORK_REQUEST, trace_number);
        let request = RoutedRequest::new(&decode(&body).unwrap(), None, RepeatedFields::NONE);
        ForwardedMessage::new(&body, None, &Framing::default(), Some(Box::new(request))).unwrap()
    }

    fn way_to(addresses: &[SocketAddr]) -> CellWay {
        CellWay { door: CellDoor::at(DoorKind::Iso8583, addresses), dialect: Arc::default() }
    }

    fn way() -> CellWay {
        way_to(&[SocketAddr::from(([127, 0, 0, 1], 1))])
    }

    /// DE11 and DE39 of an answer.
    fn told(frame: &[u8]) -> (u64, String) {
        let answer = decode(&frame[2..]).unwrap();
        (answer.get_number(11).unwrap(), answer.get_text(39).unwrap().to_owned())
    }

    /// Once such a message was lost without an answer: the cell's earlier bytes were read first, and ended it.
    #[tokio::test]
    async fn a_connection_that_is_over_at_once_leaves_no_message_unanswered() {
        let (stream, gone) = tokio::io::duplex(64);
        drop(gone);
        let way = way();
        let stream = way.door.counted((Box::new(stream), 0));
        let (_peer, mut messages) = mpsc::channel(1);
        let (answers, _taken) = mpsc::channel(1);
        let lost = carry(stream, request(7), &mut messages, (&way, &answers)).await;
        assert_eq!(lost.iter().map(|answer| told(answer)).collect::<Vec<_>>(), [(7, "91".into())]);
    }

    /// Once its answer was lost with the reader, which had taken the message for answered and waited for the peer.
    #[tokio::test]
    async fn an_answer_that_waits_for_the_peer_is_not_lost_with_the_cell() {
        let (stream, mut cell) = tokio::io::duplex(64);
        let way = way();
        let stream = way.door.counted((Box::new(stream), 0));
        let (peer, mut messages) = mpsc::channel(1);
        let (answers, _taken) = mpsc::channel(1);
        answers.send(Vec::new()).await.unwrap();
        let killed = async {
            let mut asked = [0; 2];
            cell.read_exact(&mut asked).await.unwrap();
            let answer = echo(Mti::NETWORK_REQUEST.response().unwrap(), 7);
            let answer = framed(&answer, None, &Framing::default()).unwrap();
            cell.write_all(&answer).await.unwrap();
            // The reader has it before the connection breaks.
            tokio::task::yield_now().await;
            drop(cell);
            peer.send(request(8)).await.unwrap();
        };
        let carried = carry(stream, request(7), &mut messages, (&way, &answers));
        let (lost, ()) = tokio::join!(carried, killed);
        let lost: Vec<_> = lost.iter().map(|answer| told(answer)).collect();
        assert_eq!(lost, [(7, "96".to_owned()), (8, "96".to_owned())]);
    }

    /// A node without a leader closes connections that it has read nothing of. It was tried for ever.
    #[tokio::test]
    async fn an_address_that_closes_connections_unanswered_is_left() {
        let [silent, serving] =
            [TcpListener::bind("127.0.0.1:0").await, TcpListener::bind("127.0.0.1:0").await]
                .map(Result::unwrap);
        let way = way_to(&[silent.local_addr().unwrap(), serving.local_addr().unwrap()]);
        let door = Arc::clone(&way.door);
        let (answers, mut taken) = mpsc::channel(1);
        let line = CellLine::to(way, answers);
        assert!(line.take(request(7)).is_none());
        let (mut stream, _) = silent.accept().await.unwrap();
        stream.read_exact(&mut [0; 2]).await.unwrap();
        drop(stream);
        assert_eq!(told(&taken.recv().await.unwrap()), (7, "96".to_owned()));
        assert!(line.take(request(8)).is_none());
        let (mut stream, _) = tokio::select! {
            accepted = serving.accept() => accepted.unwrap(),
            _ = silent.accept() => panic!("it was left"),
        };
        stream.read_exact(&mut [0; 2]).await.unwrap();
        let answer = echo(Mti::NETWORK_REQUEST.response().unwrap(), 8);
        let answer = framed(&answer, None, &Framing::default()).unwrap();
        stream.write_all(&answer).await.unwrap();
        assert_eq!(taken.recv().await.unwrap(), answer);
        drop(stream);
        while door.connections.now() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(door.addresses.current(), 1, "one that has answered is kept");
    }
}
