//! The invitation of a new member: a link by mail to set a password with.
//!
//! User and link are made in the record of the member itself, and only where nobody with the address
//! has a password yet; the letter follows. One that is lost is as good as a forgotten password.

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

    /// Sends the letter to a member that was made, unless it needs none.
    /// Errors: the tables cannot be read.
    pub async fn send(
        &self,
        state: &AppState,
        company: &Company,
        email: &str,
    ) -> Result<(), ApiError> {
        let digest = self.key.digest;
        let is_issued = state.switch.read_at_once(|snapshot| snapshot.ticket(&digest))?.is_some();
        if is_issued {
            let link = state.urls().password_link(&self.key.text);
            state.outbox.post(Letter::invitation(email, &company.name, &link)).await;
        }
        Ok(())
    }
}
