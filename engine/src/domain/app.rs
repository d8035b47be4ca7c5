//! An app: a program of somebody's that asks members to let it at their company's data.
//!
//! INVARIANT: an operator's approval binds the profile that the operator has seen. What the app's
//! owner edits then waits as a revision, and people go on seeing the approved profile. Giving an
//! approved scope back frees nothing: tokens with that scope still run under the approved name.

use serde::{Deserialize, Serialize};

use super::ids::{AppId, AppSlot, CompanySlot, Timestamp};
use super::member::AccessScope;

/// An app. Source: RFC 6749, 2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// Where it stands.
    pub slot: AppSlot,
    /// Its public id: the `client_id`.
    pub id: AppId,
    /// Who registered it.
    pub company: CompanySlot,
    /// Its name.
    pub name: String,
    /// Its web site.
    pub website: String,
    /// SHA-256 of its secret.
    pub secret_digest: [u8; 32],
    /// The redirect addresses.
    pub redirect_urls: Vec<String>,
    /// The profile that waits for an operator; none where nobody has edited an approved app.
    pub revision: Option<Box<AppProfile>>,
    /// What it wants to be allowed at most.
    pub requested: AccessScope,
    /// What of that an operator has approved.
    pub approved: AccessScope,
    /// Whether an operator ever approved a scope that needs it. From then on profile and secret are
    /// held, also where no such scope is left.
    pub is_bound: bool,
    /// Gone from lists; it opens nothing any more.
    pub is_deleted: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The profile of an app on the consent page, and the addresses that codes go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppProfile {
    /// Its name.
    pub name: String,
    /// Its web site.
    pub website: String,
    /// Where codes may be sent.
    pub redirect_urls: Vec<String>,
}

impl App {
    /// The profile that people see.
    #[must_use]
    pub fn profile(&self) -> AppProfile {
        AppProfile {
            name: self.name.clone(),
            website: self.website.clone(),
            redirect_urls: self.redirect_urls.clone(),
        }
    }

    /// The profile as its owner last edited it: the revision, where one waits.
    #[must_use]
    pub fn edited_profile(&self) -> AppProfile {
        self.revision.as_deref().cloned().unwrap_or_else(|| self.profile())
    }

    /// The app under another profile, with nothing waiting.
    #[must_use]
    pub fn with_profile(self, profile: AppProfile) -> Self {
        let AppProfile { name, website, redirect_urls } = profile;
        Self { name, website, redirect_urls, revision: None, ..self }
    }
}
