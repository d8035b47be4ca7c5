//! The invitation of a new member: a link by mail to set a password with.
//!
//! User and link are made in the record of the member itself, and only where nobody with the address
//! has a password yet; the letter follows. One that is lost is as good as a forgotten password.
//!
//! INVARIANT: whether somebody has one cannot be told by who invites them: nobody waits for letters.

use cardswitch_engine::command::identity::NewInvite;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{TicketId, UserId};

use crate::auth::drawn_secret::DrawnSecret;
use crate::error::ApiError;
use crate::issuing::{RandomSource, SystemRandom};
use crate::mail::Letter;
use crate::state::AppState;

/// How long an invitation opens something. Units: microseconds.
const LIFETIME_US: i64 = 7 * 24 * 60 * 60 * 1_000_000;

/// An invitation that is about to be made.
#[derive(Debug)]
pub struct Invitation {
    key: DrawnSecret,
    /// What goes with the new member.
    pub invite: NewInvite,
}

impl Invitation {
    /// Draws what the link opens with.
    /// Errors: no randomness.
    pub fn draw(state: &AppState) -> Result<Self, ApiError> {
        let (key, now, mut random) = (DrawnSecret::draw()?, state.now(), SystemRandom);
        let invite = NewInvite {
            user: UserId(random.id(now)?),
            digest: key.digest,
            ticket: TicketId(random.id(now)?),
            expires_at: now.plus(LIFETIME_US),
        };
        Ok(Self { key, invite })
    }

    /// Has the letter sent to a member that was made, unless it needs none.
    pub fn send(self, state: &AppState, company: &Company, email: String) {
        let (state, company) = (state.clone(), company.name.clone());
        tokio::spawn(async move {
            let digest = self.key.digest;
            match state.switch.read_at_once(|snapshot| snapshot.ticket(&digest)) {
                Ok(None) => {}
                Ok(Some(_)) => {
                    let link = state.urls().password_link(&self.key.text);
                    state.outbox.post(Letter::invitation(&email, &company, &link)).await;
                }
                Err(error) => tracing::error!(%error, "an invitation was not sent"),
            }
        });
    }
}
