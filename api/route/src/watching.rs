//! Whether each door of each cell is reached: a connection of its own is held, and made anew once it ends.
//!
//! A connection counts once it has stood for a moment: a door that does not admit the router, or that refuses its
//! certificate, closes it at once, and a node that finds no leader after some seconds.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::addresses::ReadWrite;
use crate::cell_door::{CellDoor, Standing};
use crate::cells::Cells;

/// How long a connection stands until its door counts as reached.
const SETTLE: Duration = Duration::from_millis(200);
/// The same at a door of several nodes: one that finds no leader closes a connection after three seconds.
const SETTLE_OF_NODE: Duration = Duration::from_secs(4);
/// How long it is held: a machine that is gone does not say so.
const HOLD: Duration = Duration::from_secs(30);
/// How long until the next try.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// Why a door is not reached that takes connections.
const CLOSES: &str =
    "it closes connections: the router is not admitted there, or the node finds no leader";

/// Watches all doors until `stop` turns true.
pub async fn watch_cells(cells: Arc<Cells>, mut stop: watch::Receiver<bool>) {
    let mut watches = JoinSet::new();
    cells.all_doors().for_each(|door| {
        watches.spawn(watch_door(Arc::clone(door)));
    });
    // The end of this function drops the set and so ends the watches.
    drop(stop.wait_for(|stop| *stop).await);
}

async fn watch_door(door: Arc<CellDoor>) {
    let settle = if door.addresses.len() > 1 { SETTLE_OF_NODE } else { SETTLE };
    let mut left = 0;
    loop {
        let reason = match door.addresses.connect().await {
            Err(error) => error.to_string(),
            Ok((mut stream, place)) => match timeout(settle, closed(&mut stream)).await {
                Ok(ended) => {
                    door.addresses.leave(place);
                    left += 1;
                    // While the lead changes hands, the next node may have it already.
                    if left < door.addresses.len() {
                        continue;
                    }
                    ended.err().map_or_else(|| CLOSES.to_owned(), |error| error.to_string())
                }
                Err(_) => {
                    door.note(Standing::Reached);
                    left = 0;
                    drop(timeout(HOLD, closed(&mut stream)).await);
                    continue;
                }
            },
        };
        door.note(Standing::Unreached(reason));
        left = 0;
        sleep(RETRY_EVERY).await;
    }
}

/// Waits for the end of a connection on which nothing is said.
async fn closed(stream: &mut Box<dyn ReadWrite>) -> io::Result<()> {
    let mut unread = [0; 512];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::cell_door::DoorKind;

    /// Such a node counted as reached again and again, and messages went to it. And once, a router with a node that
    /// serves counted as unready while the lead changed hands.
    #[tokio::test]
    async fn a_node_that_closes_connections_after_a_while_is_left_and_not_reached() {
        let [leaderless, other] =
            [TcpListener::bind("127.0.0.1:0").await, TcpListener::bind("127.0.0.1:0").await]
                .map(Result::unwrap);
        let addresses = [&leaderless, &other].map(|listener| listener.local_addr().unwrap());
        let door = CellDoor::at(DoorKind::Iso8583, &addresses);
        let watch = tokio::spawn(watch_door(Arc::clone(&door)));
        let (stream, _) = leaderless.accept().await.unwrap();
        sleep(2 * SETTLE).await;
        assert_eq!(door.standing(), Standing::Unknown);
        drop(stream);
        let (stream, _) = tokio::select! {
            accepted = other.accept() => accepted.unwrap(),
            _ = leaderless.accept() => panic!("it was left"),
        };
        assert_eq!(door.standing(), Standing::Unknown, "another node is left");
        drop(stream);
        let _next_round = leaderless.accept().await.unwrap();
        assert_eq!(door.standing(), Standing::Unreached(CLOSES.to_owned()));
        watch.abort();
    }
}
