//! Figures that follow what happens: for each company that anybody watches, one task waits for news
//! and computes at most once a second. All watchers of the company share its result.
//!
//! The task ends with its last watcher. The number of watchers is bounded: in all, and for each
//! user.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_edge::error::ApiError;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{CompanySlot, UserId};
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_identity::state::AppState;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::figure_words::ShownFigures;
use super::figures::{CompanyFigures, FigureCache};
use super::latency::{Latency, LatencySamples};

/// How many streams a user may have: tabs beyond are whole without.
const STREAMS_PER_USER_MAX: usize = 6;
/// The time between two computations for a company.
const PACE: Duration = Duration::from_secs(1);

/// The last message of a feed, ready to be sent.
pub(super) type FeedMessage = Arc<str>;

/// The overviews that are being watched.
pub struct LiveOverviews {
    watched: Mutex<OverviewFeeds>,
    streams_max: usize,
    latency: Mutex<LatencySamples>,
    cluster: Option<ClusterLine>,
}

/// The state of the cluster that the switch leads, in a line.
pub type ClusterLine = Box<dyn Fn() -> String + Send + Sync>;

/// The figures of the switch itself on an overview.
#[derive(Clone, Debug, Default)]
pub(super) struct SwitchFigures {
    pub(super) latency: Option<Latency>,
    /// None where it is alone.
    pub(super) cluster: Option<String>,
}

cardswitch_engine::opaque!(LiveOverviews);

#[derive(Debug, Default)]
struct OverviewFeeds {
    feeds: HashMap<CompanySlot, watch::Sender<FeedMessage>>,
    streams: HashMap<UserId, usize>,
    count: usize,
    is_closed: bool,
}

/// A place among the streams; it is free again when this goes.
#[derive(Debug)]
pub(super) struct LivePlace {
    of: Arc<LiveOverviews>,
    user: UserId,
}

impl Drop for LivePlace {
    fn drop(&mut self) {
        let mut watched = self.of.watched.lock();
        watched.count = watched.count.saturating_sub(1);
        if let Some(streams) = watched.streams.get_mut(&self.user) {
            *streams = streams.saturating_sub(1);
            if *streams == 0 {
                watched.streams.remove(&self.user);
            }
        }
    }
}

impl LiveOverviews {
    /// None yet, and never more streams than so many, of a switch that leads this cluster, if any.
    pub fn new(streams_max: usize, cluster: Option<ClusterLine>) -> Self {
        let (watched, latency) = (Mutex::default(), Mutex::default());
        Self { watched, streams_max, latency, cluster }
    }

    pub(super) fn switch_figures(&self, state: &AppState) -> SwitchFigures {
        let latency = self.latency.lock().take(&state.switch.engine.meters, Instant::now());
        SwitchFigures { latency, cluster: self.cluster.as_ref().map(|line| line()) }
    }

    /// A place for one more stream of a user; none where there is no room.
    pub(super) fn enter(self: &Arc<Self>, user: UserId) -> Option<LivePlace> {
        let mut watched = self.watched.lock();
        let own = watched.streams.get(&user).copied().unwrap_or_default();
        if watched.is_closed || watched.count >= self.streams_max || own >= STREAMS_PER_USER_MAX {
            return None;
        }
        watched.count += 1;
        *watched.streams.entry(user).or_default() += 1;
        Some(LivePlace { of: Arc::clone(self), user })
    }

    /// Ends every stream: the server stops.
    pub fn close(&self) {
        let mut watched = self.watched.lock();
        watched.is_closed = true;
        watched.feeds.clear();
    }

    /// Follows the figures of a company.
    /// Errors: they cannot be read.
    pub(super) fn follow(
        self: &Arc<Self>,
        state: &AppState,
        company: &Company,
    ) -> Result<watch::Receiver<FeedMessage>, ApiError> {
        if let Some(feed) = self.watched.lock().feeds.get(&company.slot) {
            return Ok(feed.subscribe());
        }
        let mut feed = CompanyFeed { company: company.clone(), past: FigureCache::default() };
        let (seen, first) = feed.tell(state, self.switch_figures(state))?;
        let (sender, receiver) = watch::channel(first);
        let mut watched = self.watched.lock();
        if watched.is_closed {
            return Err(ApiError::not_found());
        }
        // Two may come at once: the second follows the first.
        if let Some(known) = watched.feeds.get(&company.slot) {
            return Ok(known.subscribe());
        }
        watched.feeds.insert(company.slot, sender);
        drop(watched);
        tokio::spawn(feed.run(Arc::clone(self), state.clone(), seen));
        Ok(receiver)
    }

    /// Sends the watchers of a company a new message. Returns whether there still are any.
    fn tell(&self, company: CompanySlot, told: FeedMessage) -> bool {
        let mut watched = self.watched.lock();
        let Some(feed) = watched.feeds.get(&company) else { return false };
        if feed.receiver_count() == 0 {
            watched.feeds.remove(&company);
            return false;
        }
        feed.send_if_modified(|last| {
            let is_new = *last != told;
            *last = told;
            is_new
        });
        true
    }
}

/// The figures of one company.
struct CompanyFeed {
    company: Company,
    past: FigureCache,
}

impl CompanyFeed {
    /// Sends new figures, until nobody listens or the switch stops.
    async fn run(mut self, overviews: Arc<LiveOverviews>, state: AppState, mut seen: EventNumber) {
        loop {
            tokio::time::sleep(PACE).await;
            // The timeout notices watchers who have gone, and a new day, without any news.
            let news = tokio::time::timeout(PACE * 10, state.switch.events_beyond(seen)).await;
            if matches!(news, Ok(Ok(None) | Err(_))) {
                break;
            }
            let told = match self.tell(&state, overviews.switch_figures(&state)) {
                Ok((newest, told)) => {
                    seen = newest;
                    told
                }
                Err(error) => {
                    tracing::error!(?error, "an overview cannot be followed any more");
                    break;
                }
            };
            if !overviews.tell(self.company.slot, told) {
                return;
            }
        }
        overviews.watched.lock().feeds.remove(&self.company.slot);
    }

    /// The figures now, and the newest event that is in them.
    fn tell(
        &mut self,
        state: &AppState,
        switch: SwitchFigures,
    ) -> Result<(EventNumber, FeedMessage), ApiError> {
        let (now, past) = (state.now(), &mut self.past);
        let company = &self.company;
        let read = |snapshot: &Snapshot| -> Result<_, StoreError> {
            Ok((snapshot.last_event()?, CompanyFigures::read(snapshot, company, now, past)?))
        };
        let (newest, figures) = state.switch.read_at_once(read)?;
        let shown = ShownFigures::new(&figures, switch, (company, now))
            .map_err(|error| ApiError::internal(&error))?;
        let json = serde_json::to_string(&shown).map_err(|error| ApiError::internal(&error))?;
        Ok((newest, json.into()))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn streams_are_bounded_for_all_and_for_each_and_places_come_back() {
        const STREAMS_MAX: usize = 100;
        let live = Arc::new(LiveOverviews::new(STREAMS_MAX, None));
        let user = |number: u128| UserId(Uuid::from_u128(number));
        let own: Vec<_> = (0..STREAMS_PER_USER_MAX).map(|_| live.enter(user(0)).unwrap()).collect();
        assert!(live.enter(user(0)).is_none());
        let rest: Vec<_> = (1..)
            .flat_map(|number| [number; STREAMS_PER_USER_MAX])
            .map_while(|number| live.enter(user(number)))
            .collect();
        assert_eq!(own.len() + rest.len(), STREAMS_MAX);
        drop(own);
        assert!(live.enter(user(0)).is_some());
        drop(rest);
        assert_eq!(live.watched.lock().streams.len(), 0);
        live.close();
        assert!(live.enter(user(0)).is_none());
    }
}
