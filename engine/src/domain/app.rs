//! An app: a program of somebody's that asks members to let it at their company's data.

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
    /// Where codes may be sent.
    pub redirect_urls: Vec<String>,
    /// What it wants to be allowed at most.
    pub requested: AccessScope,
    /// What of that an operator has approved.
    pub approved: AccessScope,
    /// Gone from lists; it opens nothing any more.
    pub is_deleted: bool,
    /// When it was made.
    pub created_at: Timestamp,
}
