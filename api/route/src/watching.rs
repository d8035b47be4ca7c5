//! Whether each door of each cell is reached: a connection of its own is held, and made anew once it ends.
//!
//! A connection counts once it has stood for a moment: a door that does not admit the router, or that refuses its
//! certificate, closes it at once.

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
/// How long it is held: a machine that is gone does not say so.
const HOLD: Duration = Duration::from_secs(30);
/// How long until the next try.
const RETRY_EVERY: Duration = Duration::from_secs(1);

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
    loop {
        let reason = match door.addresses.connect().await {
            Err(error) => error.to_string(),
            Ok(mut stream) => match timeout(SETTLE, closed(&mut stream)).await {
                Ok(Err(error)) => error.to_string(),
                Ok(Ok(())) => {
                    "it closes connections at once, as a door that does not admit the router".into()
                }
                Err(_) => {
                    door.note(Standing::Reached);
                    drop(timeout(HOLD, closed(&mut stream)).await);
                    continue;
                }
            },
        };
        door.note(Standing::Unreached(reason));
        sleep(RETRY_EVERY).await;
    }
}

/// Waits for the end of a connection on which nothing is said.
async fn closed(stream: &mut Box<dyn ReadWrite>) -> io::Result<()> {
    let mut unread = [0; 512];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}
