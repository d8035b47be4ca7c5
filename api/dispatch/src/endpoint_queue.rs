//! Endpoints with something to send, by when. Failing ones stand in a line of their own: however
//! many they are, no healthy one waits behind them.

use std::collections::BTreeSet;

use cardswitch_engine::domain::ids::{Timestamp, WebhookEndpointId};
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuePlace {
    /// The instant at which it is due.
    pub(crate) at: Timestamp,
    pub(crate) line: QueueLine,
}

/// The lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueLine {
    /// Endpoints that took the last message.
    Healthy,
    /// Endpoints that did not.
    Failing,
}

impl QueueLine {
    /// The line of a lane.
    pub(crate) const fn of(is_failing: bool) -> Self {
        if is_failing { Self::Failing } else { Self::Healthy }
    }
}

/// The two lines.
#[derive(Debug, Default)]
pub(crate) struct EndpointQueue {
    healthy: BTreeSet<(Timestamp, WebhookEndpointId)>,
    failing: BTreeSet<(Timestamp, WebhookEndpointId)>,
}

impl EndpointQueue {
    fn line(&mut self, line: QueueLine) -> &mut BTreeSet<(Timestamp, WebhookEndpointId)> {
        match line {
            QueueLine::Healthy => &mut self.healthy,
            QueueLine::Failing => &mut self.failing,
        }
    }

    /// Moves an endpoint from where it stands to where it is to stand.
    pub(crate) fn put(
        &mut self,
        id: WebhookEndpointId,
        from: Option<QueuePlace>,
        to: Option<QueuePlace>,
    ) {
        if from == to {
            return;
        }
        if let Some(QueuePlace { at, line }) = from {
            self.line(line).remove(&(at, id));
        }
        if let Some(QueuePlace { at, line }) = to {
            self.line(line).insert((at, id));
        }
    }

    /// The endpoints of a line that are due at `now`, the longest waiting first, at most `max`.
    pub(crate) fn ready(
        &mut self,
        line: QueueLine,
        now: Timestamp,
        max: usize,
    ) -> Vec<WebhookEndpointId> {
        let first = (Timestamp(i64::MIN), WebhookEndpointId(Uuid::nil()));
        let last = (now, WebhookEndpointId(Uuid::max()));
        self.line(line).range(first..=last).take(max).map(|(_, id)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u128) -> WebhookEndpointId {
        WebhookEndpointId(Uuid::from_u128(number))
    }

    fn queued(at: i64, line: QueueLine) -> Option<QueuePlace> {
        Some(QueuePlace { at: Timestamp(at), line })
    }

    #[test]
    fn who_takes_messages_stands_behind_nobody_who_does_not() {
        let mut due = EndpointQueue::default();
        for number in 0..5_000 {
            due.put(id(number), None, queued(1, QueueLine::Failing));
        }
        due.put(id(9_000), None, queued(2, QueueLine::Healthy));
        assert_eq!(due.ready(QueueLine::Healthy, Timestamp(2), 1), [id(9_000)]);
        assert_eq!(due.ready(QueueLine::Healthy, Timestamp(1), 9), []);
        assert_eq!(due.ready(QueueLine::Failing, Timestamp(1), 9).len(), 9);
        due.put(id(0), queued(1, QueueLine::Failing), queued(1, QueueLine::Healthy));
        assert_eq!(due.ready(QueueLine::Healthy, Timestamp(9), 9), [id(0), id(9_000)]);
        due.put(id(0), queued(1, QueueLine::Healthy), None);
        assert_eq!(due.ready(QueueLine::Healthy, Timestamp(9), 9), [id(9_000)]);
        assert_eq!(due.ready(QueueLine::Failing, Timestamp(1), 9_000).len(), 4_999);
    }
}
