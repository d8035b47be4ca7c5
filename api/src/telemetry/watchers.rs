//! The places of connections that never wait for one: those that ask for figures and health, and those of nodes.
//!
//! INVARIANT: every new connection has one. If all are taken, the oldest connection of the address
//! that has most of them makes room. So an address that takes many takes them from itself.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::net::IpAddr;

use tokio::task::AbortHandle;

use cardswitch_acquiring::address_counts::network_of;

/// The connections that are open, the oldest first.
#[derive(Debug)]
pub struct Watchers {
    open: VecDeque<(IpAddr, AbortHandle)>,
    max: usize,
}

impl Watchers {
    /// None yet, and never more than so many.
    pub fn new(max: usize) -> Self {
        Self { open: VecDeque::new(), max }
    }

    /// Serves a connection from `address` on a task of its own, for which another may have to end.
    pub(crate) fn enter(
        &mut self,
        address: IpAddr,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        self.open.retain(|(_, task)| !task.is_finished());
        while self.open.len() >= self.max {
            self.make_room();
        }
        let task = tokio::spawn(connection).abort_handle();
        self.open.push_back((network_of(address), task));
    }

    fn make_room(&mut self) {
        let mut counts = BTreeMap::new();
        for (network, _) in &self.open {
            *counts.entry(*network).or_insert(0_usize) += 1;
        }
        let most = counts.values().max().copied().unwrap_or_default();
        let oldest = self.open.iter().position(|(network, _)| counts.get(network) == Some(&most));
        if let Some((_, task)) = oldest.and_then(|place| self.open.remove(place)) {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    /// A connection that lasts; the returned receiver ends with it.
    fn enter(watchers: &mut Watchers, last: u8) -> oneshot::Receiver<()> {
        let (held, ended) = oneshot::channel();
        watchers.enter(address(last), async move {
            let _held: oneshot::Sender<()> = held;
            std::future::pending().await
        });
        ended
    }

    #[tokio::test]
    async fn whoever_comes_has_a_place_and_takes_it_from_who_has_most() {
        let mut watchers = Watchers::new(4);
        let mut first = enter(&mut watchers, 1);
        let oldest = enter(&mut watchers, 2);
        let mut others = [enter(&mut watchers, 2), enter(&mut watchers, 2)];
        let mut new = enter(&mut watchers, 3);
        assert!(oldest.await.is_err(), "the oldest of those who have most is over");
        assert!(first.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        assert!(others.iter_mut().all(|one| {
            one.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty)
        }));
        assert!(new.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        assert_eq!(watchers.open.len(), 4);
    }

    #[tokio::test]
    async fn who_is_gone_has_no_place() {
        let mut watchers = Watchers::new(2);
        for _ in 0..3 {
            watchers.enter(address(1), async {});
            while !watchers.open.iter().all(|(_, task)| task.is_finished()) {
                tokio::task::yield_now().await;
            }
        }
        let mut held = enter(&mut watchers, 1);
        assert_eq!(watchers.open.len(), 1);
        let _second = enter(&mut watchers, 2);
        assert!(held.try_recv() == Err(oneshot::error::TryRecvError::Empty));
    }
}
