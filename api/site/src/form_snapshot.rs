//! The values a form showed when it was made, so that concurrent edits of one thing are detected.
//!
//! A form that edits carries a hidden field with a short digest of each value it showed. A digest
//! that differs from the present value when the form is sent means that somebody has changed the
//! thing meanwhile: the page comes again with the present values, status 409, and names the changed
//! ones. From there on the shard watches the thing: `change_as_seen` has a change refused that comes
//! after another, and then compares again.
//!
//! ```text
//! let seen = FormSnapshot::default().field("name", &card.name).field("budget", &budget);
//! // In the template: <input type="hidden" name="seen" value="{{ seen }}">
//! let saved = change_as_seen(&acting, find, |card| seen_of(card).check(&form.seen), change).await?;
//! ```

use std::fmt;

use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::command::seen_object::{SeenObject, WatchedObject};
use cardswitch_identity::actor_state::ActorState;
use sha2::{Digest, Sha256};

use super::faults::Faults;
use super::rights::ActingMember;

/// The values of a thing as a form shows them, each under the words people know it by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FormSnapshot(Vec<(&'static str, u32)>);

impl FormSnapshot {
    /// The same with one more value.
    #[must_use]
    pub(super) fn field(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(value.to_string()));
        self.0.push((name, u32::from_be_bytes([a, b, c, d])));
        self
    }

    /// The same with more values.
    pub(super) fn fields(
        self,
        fields: impl IntoIterator<Item = (&'static str, impl fmt::Display)>,
    ) -> Self {
        fields.into_iter().fold(self, |seen, (name, value)| seen.field(name, value))
    }

    /// Errors: the page's message where somebody else was quicker.
    pub(super) fn check(&self, sent: &str) -> Result<(), Faults> {
        match &*self.changed_since(sent) {
            [] => Ok(()),
            changed => Err(Faults::conflict(changed_meanwhile(changed))),
        }
    }

    /// The names of the values that are not those of the form that sent `sent`: all of them, where
    /// that is no digest of such a form.
    pub(super) fn changed_since(&self, sent: &str) -> Vec<&'static str> {
        let digests: Vec<_> = sent.split('-').map(|text| u32::from_str_radix(text, 16)).collect();
        if digests.len() != self.0.len() {
            return self.0.iter().map(|(name, _)| *name).collect();
        }
        let pairs = self.0.iter().zip(digests);
        pairs
            .filter(|((_, now), then)| then.as_ref() != Ok(now))
            .map(|((name, _), _)| *name)
            .collect()
    }
}

/// The digests as the hidden field carries them.
impl fmt::Display for FormSnapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (_, digest)) in self.0.iter().enumerate() {
            let between = if place > 0 { "-" } else { "" };
            write!(formatter, "{between}{digest:08x}")?;
        }
        Ok(())
    }
}

/// Why a thing was not changed as a form says.
#[derive(Debug)]
pub(super) enum RefusedChange {
    /// What the form showed has changed since, or does not permit the change.
    Unchecked(Faults),
    /// The values typed are refused.
    Refused(ApiError),
}

impl RefusedChange {
    /// The values typed, if they were meant for the values that are current now, and the faults.
    /// Errors: a failure that has a page of its own.
    pub(super) fn shown<F>(
        self,
        typed: F,
        faults_of: impl FnOnce(ApiError) -> Result<Faults, ApiError>,
    ) -> Result<(Option<F>, Faults), ApiError> {
        match self {
            Self::Unchecked(faults) => Ok((None, faults)),
            Self::Refused(error) => Ok((Some(typed), faults_of(error)?)),
        }
    }
}

/// Changes a thing as a form says, if it passes `check`, which compares it with what the form showed,
/// and nobody else is quicker. Returns the answer of `change`, which makes one change by the state given.
/// Errors: the thing cannot be read; within: it is not changed, and is as it is given now.
pub(super) async fn change_as_seen<T, F>(
    acting: &ActingMember,
    find: impl Fn() -> F,
    check: impl Fn(&T) -> Result<(), Faults>,
    change: impl AsyncFnOnce(ActorState, T) -> Result<Response, ApiError>,
) -> Result<Result<Response, (T, RefusedChange)>, ApiError>
where
    F: Future<Output = Result<(WatchedObject, T), ApiError>>,
{
    let since = acting.state.switch.shown_seq().await;
    let (object, thing) = find().await?;
    if let Err(faults) = check(&thing) {
        return Ok(Err((thing, RefusedChange::Unchecked(faults))));
    }
    let state = acting.state.clone().if_unchanged(SeenObject { object, since });
    match change(state, thing).await {
        Ok(answer) => Ok(Ok(answer)),
        Err(error) if error.status.is_client_error() => {
            let (_, thing) = find().await?;
            let why = check(&thing)
                .map_or_else(RefusedChange::Unchecked, |()| RefusedChange::Refused(error));
            Ok(Err((thing, why)))
        }
        Err(error) => Err(error),
    }
}

pub(super) fn changed_meanwhile(names: &[&str]) -> String {
    format!("Not saved: {}. Review the current values and save again.", who_was_quicker(names))
}

/// The reason: somebody has changed the values of these names, or some values.
pub(super) fn who_was_quicker(names: &[&str]) -> String {
    let names = match names {
        [] => String::new(),
        [only] => format!(": {only}"),
        [first @ .., last] => format!(": {} and {last}", first.join(", ")),
    };
    format!("someone else changed this while you had it open{names}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_told_by_name() {
        let seen = |name: &str, budget: u32| {
            FormSnapshot::default().field("name", name).field("budget", budget)
        };
        let shown = seen("Ada", 100).to_string();
        assert_eq!(seen("Ada", 100).changed_since(&shown), Vec::<&str>::new());
        assert_eq!(seen("Ada", 101).changed_since(&shown), ["budget"]);
        assert_eq!(seen("Eve", 101).changed_since(&shown), ["name", "budget"]);
        for wrong in ["", "x", "00000000", "00000000-0", "-", &format!("{shown}-00000000")] {
            assert!(!seen("Ada", 100).changed_since(wrong).is_empty(), "{wrong}");
        }
    }

    #[test]
    fn one_and_several_are_told_apart() {
        assert!(changed_meanwhile(&["a"]).contains("open: a."));
        assert!(changed_meanwhile(&["a", "b", "c"]).contains("open: a, b and c."));
    }
}
