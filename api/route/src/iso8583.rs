//! The ISO 8583 door: messages go to their cells as they are, answers come back as they come. The door and those of
//! the cells have one dialect.
//!
//! Peers match answers by what they echo, so answers of several cells may come in any order.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_acquiring::frame_buffer::{FrameBuffer, FrameItem};
use cardswitch_acquiring::limits::{EMPTY_FRAMES_PAUSE, IDLE_LIMIT_DEFAULT};
use cardswitch_edge::door_stream::DoorStream;
use cardswitch_edge::peers::PeerNetwork;
use cardswitch_engine::domain::cell::Cell;
use cardswitch_iso8583::{Dialect, Tpdu};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::accepting::Door;
use crate::cells::Cells;
use crate::line::{CellLine, CellWay, ForwardedMessage};
use crate::pending_requests::RoutedRequest;
use crate::reading::read_message;

/// Answers that wait for one peer; beyond, its cells wait.
const ANSWERS_MAX: usize = 256;
/// How long a peer may take nothing of its answers.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// The way to all cells, for messages.
#[derive(Debug)]
pub struct Iso8583Door {
    cells: Arc<Cells>,
    peers: Vec<PeerNetwork>,
    dialect: Arc<Dialect>,
}

impl Iso8583Door {
    /// The way to `cells`, for these peers, who speak `dialect` as the cells do.
    pub fn new(cells: Arc<Cells>, peers: Vec<PeerNetwork>, dialect: Dialect) -> Self {
        Self { cells, peers, dialect: Arc::new(dialect) }
    }
}

impl Door for Iso8583Door {
    fn admits(&self, peer: SocketAddr) -> bool {
        self.peers.iter().any(|network| network.contains(peer.ip()))
    }

    /// Serves one peer until it goes, and what was asked has its answer.
    async fn serve_one<S: DoorStream + 'static>(
        self: Arc<Self>,
        stream: S,
        peer: SocketAddr,
        mut stop: watch::Receiver<bool>,
    ) {
        drop(stream.socket().set_nodelay(true));
        let (from_peer, to_peer) = split(stream);
        let (answers, queue) = mpsc::channel(ANSWERS_MAX);
        let (cells, dialect) = (Arc::clone(&self.cells), Arc::clone(&self.dialect));
        let intake = PeerIntake { cells, dialect, lines: BTreeMap::new(), answers };
        let writing = write_answers(to_peer, queue);
        let reading = async {
            tokio::select! {
                loss = intake.read(from_peer) => {
                    if let Some(reason) = loss {
                        tracing::warn!(%peer, reason, "ISO 8583 connection closed");
                    }
                }
                _ = stop.wait_for(|stop| *stop) => {}
            }
        };
        tokio::pin!(writing);
        tokio::select! {
            // A peer that takes no answers is not read from.
            () = &mut writing => {}
            () = reading => writing.await,
        }
    }
}

/// Writes until nobody answers any more, or the peer is gone.
async fn write_answers(mut to_peer: WriteHalf<impl DoorStream>, mut queue: Receiver<Vec<u8>>) {
    while let Some(mut bytes) = queue.recv().await {
        for _ in 0..ANSWERS_MAX {
            let Ok(more) = queue.try_recv() else { break };
            bytes.extend_from_slice(&more);
        }
        let writing = async {
            to_peer.write_all(&bytes).await?;
            to_peer.flush().await
        };
        if !matches!(timeout(WRITE_PATIENCE, writing).await, Ok(Ok(()))) {
            return;
        }
    }
    // A peer that is gone needs no goodbye.
    drop(timeout(WRITE_PATIENCE, to_peer.shutdown()).await);
}

/// The messages of one peer, on their way to cells.
struct PeerIntake {
    cells: Arc<Cells>,
    dialect: Arc<Dialect>,
    /// To each cell that it has named.
    lines: BTreeMap<Cell, CellLine>,
    answers: Sender<Vec<u8>>,
}

impl PeerIntake {
    /// Reads messages and hands them on, until the peer has sent its last byte, is silent for too long or out
    /// of step. Returns why, but for the first.
    async fn read(mut self, mut from_peer: ReadHalf<impl DoorStream>) -> Option<&'static str> {
        let mut inbox = FrameBuffer::default();
        loop {
            let since = Instant::now();
            match timeout(IDLE_LIMIT_DEFAULT, from_peer.read_buf(inbox.space())).await {
                Err(_) => return Some("silent for too long"),
                Ok(Ok(0) | Err(_)) => return None,
                Ok(Ok(_)) => {}
            }
            if since.elapsed() >= EMPTY_FRAMES_PAUSE {
                inbox.note_pause();
            }
            loop {
                match inbox.take(&self.dialect.framing) {
                    FrameItem::Message(tpdu, range) => self.hand_on(inbox.bytes(range), tpdu).await,
                    FrameItem::Skipped => {}
                    FrameItem::Nothing => break,
                    FrameItem::Lost(reason) => return Some(reason),
                }
            }
            inbox.rest();
        }
    }

    /// Hands a message to its cell. A message that cannot be read whole goes, too: the cell answers its fault.
    async fn hand_on(&mut self, body: &[u8], tpdu: Option<Tpdu>) {
        let (cell, request) = read_message(&self.dialect, body, |message, repeated| {
            let request =
                message.map(|message| Box::new(RoutedRequest::new(message, tpdu, repeated)));
            (self.cells.of_message(message), request)
        });
        let message = ForwardedMessage::new(body, tpdu, &self.dialect.framing, request);
        // INVARIANT: a message that came in a frame fits into one.
        let Ok(message) = message else { return };
        let door = Arc::clone(&self.cells.doors(cell).iso8583);
        let way = || CellWay { door, dialect: Arc::clone(&self.dialect) };
        let line =
            self.lines.entry(cell).or_insert_with(|| CellLine::to(way(), self.answers.clone()));
        if let Some(answer) = line.take(message) {
            // A peer that is gone is noticed where it is written to.
            drop(self.answers.send(answer).await);
        }
    }
}
