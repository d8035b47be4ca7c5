//! The connection to one cell that one peer has: made when its first message comes, and again after it broke.
//!
//! A line is a task of its own, so a cell that is slow, silent or gone holds up nobody's messages to another.

use std::io;
use std::sync::Arc;

use cardswitch_edge::tls_client::is_refusal;
use cardswitch_engine::domain::cell::Cell;
use cardswitch_iso8583::{Echo, EncodeError, Framing, decode, write_frame};
use cardswitch_network::frame_buffer::{FrameBuffer, Next};
use cardswitch_network::limits::IN_FLIGHT_MAX;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::addresses::CellStream;
use crate::cells::Cells;
use crate::unanswered::{Unanswered, not_taken, outcome_unknown};

/// How many bytes are written at a time at least, where so many wait.
const WRITE_BYTES: usize = 16 * 1_024;

/// A message on its way to a cell.
#[derive(Debug)]
pub(crate) struct Forwarded {
    frame: Vec<u8>,
    /// Of what could be read of it.
    echo: Option<Box<Echo>>,
}

impl Forwarded {
    /// The message `body` with a length before it.
    /// Errors: it is longer than any frame.
    pub(crate) fn new(body: &[u8], echo: Option<Box<Echo>>) -> Result<Self, EncodeError> {
        Ok(Self { frame: framed(body)?, echo })
    }
}

/// The way to a cell.
#[derive(Debug)]
pub(crate) struct Line(Sender<Forwarded>);

impl Line {
    /// A line whose answers go to `answers`.
    pub(crate) fn to(cells: Arc<Cells>, cell: Cell, answers: Sender<Vec<u8>>) -> Self {
        let (sender, messages) = mpsc::channel(IN_FLIGHT_MAX);
        tokio::spawn(run(messages, cells, cell, answers));
        Self(sender)
    }

    /// Takes a message; too many for the cell are answered at once. Returns that answer.
    pub(crate) fn take(&self, message: Forwarded) -> Option<Vec<u8>> {
        let refused = self.0.try_send(message).err()?.into_inner();
        refused.echo.and_then(|echo| not_taken(&echo))
    }
}

/// Goes on until nothing more comes from the peer, or it takes no more answers.
async fn run(
    mut messages: Receiver<Forwarded>,
    cells: Arc<Cells>,
    cell: Cell,
    answers: Sender<Vec<u8>>,
) {
    while let Some(first) = messages.recv().await {
        let unsent = match cells.doors(cell).iso8583.connect().await {
            Ok(stream) => {
                let (from_cell, to_cell) = split(stream);
                let unanswered = Mutex::default();
                let ended = tokio::select! {
                    // A cell that has closed the connection is not sent what has just come.
                    biased;
                    ended = read_answers(from_cell, &unanswered, &answers) => ended,
                    ended = write_messages(to_cell, first, &mut messages, &unanswered) => ended,
                };
                let answer = answer_after(cell, ended);
                let lost: Vec<_> = unanswered.into_inner().drain().collect();
                lost.iter().filter_map(|echo| answer(echo)).collect::<Vec<_>>()
            }
            Err(error) => {
                tracing::warn!(%cell, %error, "the cell takes no ISO 8583 connection");
                // Those that came meanwhile share the attempt.
                let rest = std::iter::from_fn(|| messages.try_recv().ok());
                let all = std::iter::once(first).chain(rest);
                all.filter_map(|message| not_taken(message.echo.as_deref()?)).collect()
            }
        };
        for answer in unsent {
            if answers.send(answer).await.is_err() {
                return;
            }
        }
    }
}

/// What the requests get that a connection has left unanswered.
fn answer_after(cell: Cell, ended: io::Result<()>) -> fn(&Echo) -> Option<Vec<u8>> {
    match ended {
        Err(error) if is_refusal(&error) => {
            tracing::warn!(%cell, %error, "the cell refused the router's certificate over ISO 8583");
            not_taken
        }
        Err(error) => {
            tracing::warn!(%cell, %error, "the ISO 8583 connection to the cell broke");
            outcome_unknown
        }
        Ok(()) => outcome_unknown,
    }
}

/// Hands answers to the peer until the cell closes the connection.
/// Errors: it broke, or is out of step.
async fn read_answers(
    mut from_cell: ReadHalf<CellStream>,
    unanswered: &Mutex<Unanswered>,
    answers: &Sender<Vec<u8>>,
) -> io::Result<()> {
    let (mut inbox, framing) = (FrameBuffer::default(), Framing::default());
    while from_cell.read_buf(inbox.space()).await? > 0 {
        loop {
            match inbox.take(&framing) {
                Next::Message(_, range) => {
                    let body = inbox.bytes(range);
                    if let Ok(answer) = decode(body) {
                        unanswered.lock().take(&answer);
                    }
                    let frame = framed(body).map_err(io::Error::other)?;
                    let taken = answers.send(frame).await;
                    taken.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
                }
                Next::Skipped => {}
                Next::Nothing => break,
                Next::Lost(loss) => return Err(io::Error::other(loss.reason())),
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
    first: Forwarded,
    messages: &mut Receiver<Forwarded>,
    unanswered: &Mutex<Unanswered>,
) -> io::Result<()> {
    let mut next = Some(first);
    while let Some(message) = next {
        let mut bytes = Vec::new();
        let more = std::iter::from_fn(|| messages.try_recv().ok());
        for Forwarded { frame, echo } in std::iter::once(message).chain(more) {
            bytes.extend_from_slice(&frame);
            echo.into_iter().for_each(|echo| unanswered.lock().add(echo));
            if bytes.len() >= WRITE_BYTES {
                break;
            }
        }
        to_cell.write_all(&bytes).await?;
        to_cell.flush().await?;
        next = messages.recv().await;
    }
    to_cell.shutdown().await?;
    std::future::pending().await
}

fn framed(body: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let mut frame = Vec::with_capacity(body.len() + 2);
    write_frame(&mut frame, &Framing::default(), None, |out| {
        out.extend_from_slice(body);
        Ok(())
    })?;
    Ok(frame)
}
