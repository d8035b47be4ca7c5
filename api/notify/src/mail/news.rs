//! Changes that people are notified of by mail, and the letters they become.
//!
//! News is put together before its change is made, so it names the rows to look for in the tables
//! rather than their content: the link and its owner, the password that should be set.

use std::fmt;

use cardswitch_dispatch::mail::queue::Urgency;
use cardswitch_engine::directory::shared_link::{Recipient, SharedLink};
use cardswitch_engine::directory::user::User;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{CompanyId, SharedLinkId, UserId};
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_secrets::link_secrets::LinkKey;
use cardswitch_secrets::token_digest;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::MailDesk;
use super::letter::{Letter, SharedCard};
use super::outbox::HeldNews;

/// A change that somebody is to be notified of.
#[derive(Clone, Serialize, Deserialize)]
pub enum News {
    /// A user became a member, and has no password yet.
    Invitation {
        /// The company.
        company: Uuid,
        /// The key that the link opens with.
        key: String,
    },
    /// A user may set a new password.
    NewPassword {
        /// The key that the link opens with.
        key: String,
    },
    /// A password was set.
    PasswordWasSet {
        /// The user.
        user: Uuid,
        /// The digest of the stored hash.
        digest: [u8; 32],
    },
    /// A card was shared.
    SharedLink {
        /// The company that shares it.
        company: Uuid,
        /// The link.
        link: Uuid,
        /// The recipient.
        recipient: Recipient,
        /// The message of its administrator.
        message: Option<String>,
    },
}

impl fmt::Debug for News {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Invitation { .. } => "Invitation(..)",
            Self::NewPassword { .. } => "NewPassword(..)",
            Self::PasswordWasSet { .. } => "PasswordWasSet(..)",
            Self::SharedLink { .. } => "SharedLink(..)",
        })
    }
}

impl News {
    /// The news of a password that was set; `hash` is its stored form.
    pub fn password_was_set(user: UserId, hash: &str) -> Self {
        Self::PasswordWasSet { user: user.0, digest: token_digest(hash) }
    }

    /// The order in which its letter goes: users wait for a link to sign in with, nobody waits for
    /// the others.
    pub(super) const fn urgency(&self) -> Urgency {
        match self {
            Self::Invitation { .. } | Self::NewPassword { .. } | Self::PasswordWasSet { .. } => {
                Urgency::First
            }
            Self::SharedLink { .. } => Urgency::InTurn,
        }
    }

    /// The letter it becomes; none where the tables do not show the change, or its link was sealed
    /// with another key.
    /// Errors: the tables cannot be read.
    pub fn letter(
        &self,
        snapshot: &Snapshot,
        desk: &MailDesk,
    ) -> Result<Option<Letter>, StoreError> {
        match self {
            Self::Invitation { company, key } => {
                let Some(email) = address_of_link(snapshot, key)? else { return Ok(None) };
                let company = snapshot.company_by_id(CompanyId(*company))?;
                let link = desk.urls.password_link(key);
                Ok(company.map(|company| Letter::invitation(&email, &company.name, &link)))
            }
            Self::NewPassword { key } => {
                let link = desk.urls.password_link(key);
                let email = address_of_link(snapshot, key)?;
                Ok(email.map(|email| Letter::new_password(&email, &link)))
            }
            Self::PasswordWasSet { user, digest } => {
                let user = snapshot.user_by_id(UserId(*user))?;
                let told = user.filter(|user| {
                    user.password_hash.as_deref().map(token_digest) == Some(*digest)
                });
                Ok(told.map(|user| Letter::password_was_set(&user.email)))
            }
            Self::SharedLink { company, link, recipient, message } => {
                let company = snapshot.company_by_id(CompanyId(*company))?;
                let Some(company) = company else { return Ok(None) };
                let share = Share { company, link: SharedLinkId(*link), recipient };
                share.letter(snapshot, desk, message.as_deref())
            }
        }
    }
}

/// The address of the user for whom a link to set a password was made. Another spelling of the
/// address, as a company may have it, can be another user's.
fn address_of_link(snapshot: &Snapshot, key: &str) -> Result<Option<String>, StoreError> {
    let Some(ticket) = snapshot.ticket(&token_digest(key))? else { return Ok(None) };
    Ok(snapshot.row::<User>(ticket.user)?.map(|user| user.email))
}

/// A card that was shared with a recipient.
struct Share<'a> {
    company: Company,
    link: SharedLinkId,
    recipient: &'a Recipient,
}

impl Share<'_> {
    fn letter(
        &self,
        snapshot: &Snapshot,
        desk: &MailDesk,
        message: Option<&str>,
    ) -> Result<Option<Letter>, StoreError> {
        let link = snapshot.own::<SharedLink>(self.company.slot, self.link)?;
        // Another recipient has taken this one's place.
        let Some(link) = link.filter(|link| link.recipient.as_ref() == Some(self.recipient)) else {
            return Ok(None);
        };
        let Some(key) = LinkKey::open(&desk.secrets, link.id, &link.sealed_key) else {
            tracing::error!(link = %link.id.0, "the key of a shared link was not sealed here");
            return Ok(None);
        };
        let share = SharedCard {
            name: &self.recipient.name,
            company: &self.company.name,
            message,
            link: &desk.urls.shared_link(&key.text()),
            asks_passphrase: link.sealed_passphrase.is_some(),
        };
        Ok(Some(Letter::shared_link(&self.recipient.email, &share)))
    }
}

/// Sends the letter that news becomes, or forgets news of a change that was not made.
pub async fn tell(desk: MailDesk, held: HeldNews) {
    let is_whole = desk.switch.visible(desk.switch.engine.durable_seq()).await;
    match desk.switch.read_at_once(|snapshot| held.news.letter(snapshot, &desk)) {
        Ok(Some(letter)) if desk.outbox.may_tell(&held.news, &letter) => {
            desk.outbox.send_held(held, letter).await;
        }
        Ok(Some(_)) => {
            tracing::warn!(news = ?held.news, "too many emails at the same time: one is not sent");
            desk.outbox.withdraw(held).await;
        }
        Ok(None) if is_whole => desk.outbox.withdraw(held).await,
        // The tables are late, or cannot be read: the next start sees.
        Ok(None) => {}
        Err(error) => tracing::error!(%error, "an email waits for the next start"),
    }
}

/// Sends letters of news held when the switch was stopped or killed, where the change was made.
pub(super) async fn tell_held(desk: MailDesk) {
    for held in desk.outbox.held_before().await {
        tell(desk.clone(), held).await;
    }
}
