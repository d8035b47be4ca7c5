//! The saving of deliveries, and their published figures.

use std::sync::Arc;

use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::WebhookEndpointId;

use super::super::Figures;
use super::super::deliveries::{Changes, KeptLane};
use super::super::desk::Desk;
use super::super::lane::Lane;
use super::Dispatcher;

/// After how many of these the follower's place is, where nothing else has changed.
const IDLE_SAVES: u32 = 10;

impl Dispatcher {
    /// Writes down the changes.
    pub(super) async fn save(&mut self) {
        self.publish();
        self.idle_saves += 1;
        let is_clean = self.dirty.is_empty() && self.unsaved.is_empty() && self.removed.is_empty();
        if is_clean && self.idle_saves < IDLE_SAVES {
            return;
        }
        self.idle_saves = 0;
        let dirty = std::mem::take(&mut self.dirty);
        let kept = |id: &WebhookEndpointId| {
            let desk = self.desks.get(id)?;
            let (lane, gone_url) = (desk.lane.clone(), desk.gone_url.clone());
            let Desk { attempts, on_since, .. } = *desk;
            Some((*id, KeptLane { lane, attempts, on_since, gone_url }))
        };
        let changes = Changes {
            followed: self.followed,
            lanes: dirty.iter().filter_map(kept).collect(),
            removed: std::mem::take(&mut self.removed),
            attempts: std::mem::take(&mut self.unsaved),
        };
        let deliveries = Arc::clone(&self.tools.deliveries);
        let saving = tokio::task::spawn_blocking(move || {
            let saved = deliveries.save(&changes);
            (saved.map_err(|error| error.to_string()), changes)
        });
        match saving.await {
            Ok((Ok(()), _)) => self.note_saved(),
            Ok((Err(fault), Changes { removed, attempts, .. })) => {
                self.dirty.extend(dirty);
                // Nothing happened since: the caller of this save waits.
                (self.removed, self.unsaved) = (removed, attempts);
                self.note_unsaved(&fault);
            }
            // Attempts are lost by that, deliveries are not.
            Err(panicked) => {
                self.dirty.extend(dirty);
                self.note_unsaved(&panicked.to_string());
            }
        }
    }

    fn note_saved(&mut self) {
        if self.unsaved_since.take().is_some() {
            tracing::info!("deliveries are written down again");
            self.publish();
        }
    }

    fn note_unsaved(&mut self, fault: &str) {
        if self.unsaved_since.is_none() {
            tracing::error!(%fault, "deliveries cannot be written down: a crash would repeat them");
            self.unsaved_since = Some(self.now());
            self.publish();
        }
    }

    /// Shows others how deliveries do.
    pub(super) fn publish(&mut self) {
        let lanes = || self.desks.values().map(|desk| &desk.lane).filter(|lane| !lane.is_off());
        let oldest = lanes().filter_map(Lane::oldest).min();
        let oldest = oldest.and_then(|number| {
            let after = EventNumber(number.0.saturating_sub(1));
            let read = self.tools.switch.read_at_once(|snapshot| snapshot.events_after(after, 1));
            read.ok()?.first().map(|event| event.at)
        });
        self.figures = Figures {
            endpoints: lanes().count(),
            failing: lanes().filter(|lane| lane.is_failing()).count(),
            pending: lanes().map(Lane::pending).sum(),
            oldest_at: oldest,
            sending: self.under_way(),
            unsaved_since: self.unsaved_since,
            ..self.figures
        };
        *self.tools.figures.lock() = self.figures;
    }
}
