//! The user with an e-mail address and a password, for the sign-in page and the password grant
//! alike.
//!
//! INVARIANT: exactly one password is verified whatever the address: nobody has it, its user has no
//! password, or its user may not sign in any more. None of them differs in words or time.

use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::user::User;
use cardswitch_engine::store::{Snapshot, StoreError};

use super::throttle::Source;
use crate::state::AppState;

/// The user with this e-mail address and password, where they may sign in.
/// Errors: too many wait to be verified, the tables cannot be read.
pub async fn find_user(
    state: &AppState,
    source: Source,
    (email, password): (&str, &str),
) -> Result<Option<User>, ApiError> {
    let found = state.switch.read_at_once(|snapshot| {
        let Some(user) = snapshot.user_by_email(email)? else { return Ok(None) };
        let is_allowed = may_sign_in(snapshot, &user)?;
        Ok(Some((user, is_allowed)))
    })?;
    let (user, is_allowed) = found.unzip();
    let hash = user.as_ref().and_then(|user| user.password_hash.clone());
    let fits = state.passwords.verify(source, hash, password).await?;
    Ok(user.filter(|_| fits && is_allowed == Some(true)))
}

/// Whether a user may sign in: not if all their members were deactivated, unless they develop apps.
/// A user who never was a member may sign in, and gets the answer `No account`. The engine judges the
/// same again when it begins a session, as the verification of a password takes long.
/// Errors: the tables cannot be read.
// SPEC: "Members", deactivation: an inactive member cannot use any function including login.
pub fn may_sign_in(snapshot: &Snapshot, user: &User) -> Result<bool, StoreError> {
    Ok(!user.developer_of.is_empty()
        || !snapshot.memberships(&user.email)?.is_empty()
        || !snapshot.is_of_members(&user.email)?)
}
