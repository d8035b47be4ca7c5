//! The actor of a change and its address, on their way to the record of the change.
//!
//! Handlers do not pass the note along. It is scoped to the task that runs them, like the claim of
//! an idempotency key, and `AppState::carry_out` picks it up there. Work that a task leaves to
//! another task is the switch's own.

use std::future::Future;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use cardswitch_engine::domain::audit::{Actor, AuditNote};
use parking_lot::Mutex;

use crate::client_address::ClientAddress;

tokio::task_local! {
    /// The note of the actor that this task acts for.
    static NOTE: Mutex<AuditNote>;
}

/// Does `work` for the actor in the note.
pub async fn acting<T>(note: AuditNote, work: impl Future<Output = T>) -> T {
    NOTE.scope(Mutex::new(note), work).await
}

/// Answers a request whose address is known but whose actor is not. The code that identifies the
/// actor calls `act_as`.
pub async fn from_somewhere(request: Request, next: Next) -> Response {
    let address = ClientAddress::of(request.extensions());
    acting(AuditNote { actor: Actor::Switch, address }, next.run(request)).await
}

/// From here on this task acts for `actor`. Outside of `acting` nobody looks.
pub fn act_as(actor: Actor) {
    // Without a scope there is no address either, and no change that a request asks for.
    NOTE.try_with(|note| note.lock().actor = actor).unwrap_or_default();
}

/// The note that goes with changes now.
#[must_use]
pub fn note_at_hand() -> AuditNote {
    let known = NOTE.try_with(|note| note.lock().clone());
    known.unwrap_or(AuditNote { actor: Actor::Switch, address: None })
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::ids::UserId;
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn the_note_is_that_of_the_innermost_task() {
        let note = |actor, address: &str| AuditNote { actor, address: Some(address.to_owned()) };
        let user = Actor::User { id: UserId(Uuid::from_u128(7)), member: None };
        assert_eq!(note_at_hand(), AuditNote { actor: Actor::Switch, address: None });
        act_as(user);
        assert_eq!(note_at_hand().actor, Actor::Switch, "nobody acts outside of a scope");
        acting(note(Actor::Switch, "192.0.2.1"), async {
            act_as(user);
            assert_eq!(note_at_hand(), note(user, "192.0.2.1"));
            acting(note(Actor::Operator, "192.0.2.2"), async {
                assert_eq!(note_at_hand(), note(Actor::Operator, "192.0.2.2"));
            })
            .await;
            assert_eq!(note_at_hand(), note(user, "192.0.2.1"));
            let other = tokio::spawn(async { note_at_hand() }).await.unwrap();
            assert_eq!(other.actor, Actor::Switch, "a task of its own acts for nobody");
        })
        .await;
    }
}
