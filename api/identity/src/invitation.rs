//! The invitation of a new member: a link by mail to set a password with.
//!
//! User and link are made in the record of the member itself, and only if nobody with the address
//! has a password yet; the letter follows. A letter too many for its address or its company is not
//! sent: the member then asks for one as for a forgotten password.
//!
//! INVARIANT: the inviting caller cannot tell whether somebody has a password: no answer waits for
//! letters.

use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::user::NewInvite;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{TicketId, UserId};
use cardswitch_notify::mail::News;
use cardswitch_secrets::issuing::RandomSource;

use crate::auth::drawn_secret::DrawnSecret;
use crate::state::AppState;

/// How long an invitation opens something. Units: microseconds.
const LIFETIME_US: i64 = 7 * 24 * 60 * 60 * 1_000_000;

/// An invitation that is about to be made.
#[derive(Debug)]
pub struct Invitation {
    key: DrawnSecret,
    /// The part of it that goes into the member's record.
    pub invite: NewInvite,
}

impl Invitation {
    /// Draws the key that the link opens with.
    /// Errors: no randomness.
    pub fn draw(state: &AppState) -> Result<Self, ApiError> {
        let (key, now, mut random) = (DrawnSecret::draw()?, state.now(), state.switch.random());
        let invite = NewInvite {
            user: UserId(random.id(now)?),
            digest: key.digest,
            ticket: TicketId(random.id(now)?),
            expires_at: now.plus(LIFETIME_US),
        };
        Ok(Self { key, invite })
    }

    /// An invitation for a change after which a member may take part: a member who does so for the
    /// first time may have no password yet.
    /// Errors: no randomness.
    pub fn of_change(state: &AppState, is_active: Option<bool>) -> Result<Option<Self>, ApiError> {
        is_active.filter(|is_active| *is_active).map(|_| Self::draw(state)).transpose()
    }

    /// The news for the invited member, once it is made by `AppState::carry_out_and_tell`.
    pub fn news(&self, company: &Company) -> News {
        News::Invitation { company: company.id.0, key: self.key.text.clone() }
    }
}
