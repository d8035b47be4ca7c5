//! The invitation of a new member: a link by mail to set a password with.
//!
//! User and link are made in the record of the member itself, and only where nobody with the address
//! has a password yet; the letter follows. One that is lost is as good as a forgotten password, and
//! so is one too many for its address or its company, which is not sent.
//!
//! INVARIANT: whether somebody has one cannot be told by who invites them: nobody waits for letters.

use std::time::Instant;

use cardswitch_engine::command::identity::NewInvite;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{TicketId, UserId};
use cardswitch_engine::domain::user::User;
use cardswitch_engine::store::{Snapshot, StoreError};

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
    /// What goes with the member.
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

    /// One for a change after which a member may take part: who does so for the first time may have
    /// no password yet.
    /// Errors: no randomness.
    pub fn of_change(state: &AppState, is_active: Option<bool>) -> Result<Option<Self>, ApiError> {
        is_active.filter(|is_active| *is_active).map(|_| Self::draw(state)).transpose()
    }

    /// Has the letter sent for a member that was made or takes part again, unless it needs none.
    pub fn send(self, state: &AppState, company: &Company) {
        let (state, company) = (state.clone(), company.clone());
        tokio::spawn(async move {
            let user = match state.switch.read_at_once(|snapshot| self.invited(snapshot)) {
                Ok(Some(user)) => user,
                Ok(None) => return,
                Err(error) => return tracing::error!(%error, "an invitation was not sent"),
            };
            if !state.outbox.may_be_invited(company.id, &user.email, Instant::now()) {
                return tracing::warn!(company = %company.id.0, "too many invitations at once");
            }
            let link = state.urls().password_link(&self.key.text);
            state.outbox.post(Letter::invitation(&user.email, &company.name, &link)).await;
        });
    }

    /// Whose link it became, if one was issued. Another spelling of the address, as the company may
    /// have it, can be the address of somebody else.
    fn invited(&self, snapshot: &Snapshot) -> Result<Option<User>, StoreError> {
        match snapshot.ticket(&self.invite.digest)? {
            Some(ticket) => snapshot.user(ticket.user),
            None => Ok(None),
        }
    }
}
