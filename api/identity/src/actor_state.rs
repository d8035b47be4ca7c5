//! The state in the hands of an actor, and the one way in which handlers change anything.
//!
//! A function that takes `&AppState` only reads. One that changes something takes `&ActorState`, so
//! the compiler asks every caller for the actor and the address that the audit log names.

use std::ops::Deref;
use std::sync::Arc;

use axum::http::Extensions;
use cardswitch_edge::client_address::ClientAddress;
use cardswitch_edge::request_id::to_the_end;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::command::seen_object::SeenObject;
use cardswitch_engine::command::{Command, NotedCommand};
use cardswitch_engine::domain::audit::{Actor, AuditNote};
use cardswitch_notify::mail::News;
use cardswitch_notify::mail::news::tell;
use cardswitch_notify::webhooks::is_concerned;
use tracing::Instrument;

use crate::idempotency::Claim;
use crate::state::AppState;

/// The state of the handlers with the actor of the changes that are made by it, and the claim of their
/// request; cheap to clone. The changes are made if what their maker has looked at is unchanged.
#[derive(Clone)]
pub struct ActorState {
    state: AppState,
    note: AuditNote,
    claim: Option<Arc<Claim>>,
    seen: Option<SeenObject>,
}

impl AppState {
    /// The state for changes of the actor in the note.
    pub fn for_changes_of(&self, note: AuditNote) -> ActorState {
        ActorState { state: self.clone(), note, claim: None, seen: None }
    }

    /// The state for a request with these extensions. Until a client has proven itself, the actor is
    /// the switch; then `ActorState::as_actor` names it.
    pub fn for_request(&self, extensions: &Extensions, actor: Actor) -> ActorState {
        self.for_changes_of(AuditNote { actor, address: ClientAddress::of(extensions) })
    }
}

cardswitch_engine::opaque!(ActorState);

impl Deref for ActorState {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.state
    }
}

impl ActorState {
    /// The same in the hands of another actor, at the same address.
    pub fn as_actor(&self, actor: Actor) -> Self {
        let mut other = self.clone();
        other.note.actor = actor;
        other
    }

    /// The same for a request with the claim of an idempotency key, or of a form; or without one.
    #[must_use]
    pub fn with_claim(self, claim: Option<Arc<Claim>>) -> Self {
        Self { claim, ..self }
    }

    /// The same for one change, which is made if an object is unchanged.
    #[must_use]
    pub fn if_unchanged(self, seen: SeenObject) -> Self {
        Self { seen: Some(seen), ..self }
    }

    /// Makes a change like `carry_out`, if the answer shows nothing of it: late tables are not
    /// waited for.
    /// Errors: a refusal, an overloaded or stopped switch, or an unknown outcome.
    pub async fn carry_out_unshown(&self, command: AdminCommand) -> Result<(), WriteError> {
        match self.carry_out(command).await {
            Err(WriteError::NotVisibleYet) => Ok(()),
            outcome => outcome,
        }
    }

    /// Has the shard make a change and waits until the tables show it. The record of the change
    /// also holds the actor, and the claim of a request with an idempotency key.
    /// Errors: a refusal, an overloaded or stopped switch, an unknown outcome, or late tables.
    pub async fn carry_out(&self, command: AdminCommand) -> Result<(), WriteError> {
        if !is_concerned(&command) {
            return self.make_change(command).await;
        }
        let state = self.clone();
        // Deliveries learn of it also where the client has hung up before it was made.
        to_the_end(async move { state.make_change(command).await }).await
    }

    async fn make_change(&self, command: AdminCommand) -> Result<(), WriteError> {
        let claim = self.claim.as_ref().and_then(|claim| Some((claim, claim.open_for()?)));
        let note = self.note.clone();
        let concerns_webhooks = is_concerned(&command);
        let command = match self.seen {
            Some(seen) => AdminCommand::IfUnchanged(seen, Box::new(command)),
            None => command,
        };
        let command = match claim {
            Some((claim, asked)) => claim.beside(asked, command, note),
            None => Command::Noted(Box::new(NotedCommand { note, change: command })),
        };
        let reply = self.switch.ask(command.into()).await.map_err(WriteError::NotTaken)?;
        if let Some((claim, _)) = claim {
            claim.note(&reply);
        }
        match reply {
            Reply::Done(seq) if self.switch.visible(seq).await => {
                if concerns_webhooks {
                    self.webhooks.reload().await;
                }
                Ok(())
            }
            Reply::Done(seq) => {
                if concerns_webhooks {
                    let (switch, webhooks) = (self.switch.clone(), Arc::clone(&self.webhooks));
                    tokio::spawn(async move {
                        // Endpoints are also read every minute, if it is still not seen then.
                        switch.visible(seq).await;
                        webhooks.reload().await;
                    });
                }
                Err(WriteError::NotVisibleYet)
            }
            Reply::Rejected(rejection) => Err(WriteError::Rejected(rejection)),
            // No other reply is ever given to an admin command.
            Reply::OutcomeUnknown | Reply::Network(_) | Reply::Ticked => {
                Err(WriteError::OutcomeUnknown)
            }
        }
    }

    /// Makes a change like `carry_out`, and has somebody notified of it once it is made. The news
    /// is on disk before. If it cannot be, the change is made all the same, for a lost letter can
    /// be sent again.
    /// Errors: those of `carry_out`.
    pub async fn carry_out_and_tell(
        &self,
        command: AdminCommand,
        news: Option<News>,
    ) -> Result<(), WriteError> {
        let held = match news {
            Some(news) => self.outbox.hold(news).await,
            None => None,
        };
        let Some(held) = held else { return self.carry_out(command).await };
        let state = self.clone();
        // The letter is sent also where the client has hung up before the change was made.
        to_the_end(async move {
            let made = state.carry_out(command).await;
            match made {
                // No answer waits for letters.
                Ok(()) | Err(WriteError::NotVisibleYet) => {
                    tokio::spawn(tell(state.mail_desk(), held).in_current_span());
                }
                Err(WriteError::Rejected(_) | WriteError::NotTaken(_)) => {
                    state.outbox.withdraw(held).await;
                }
                // The next start sees whether it was made.
                Err(WriteError::OutcomeUnknown) => {}
            }
            made
        })
        .await
    }
}
