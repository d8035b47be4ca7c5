//! Apps: programs that ask members for access to their company's data. Source: RFC 6749, 2.
//!
//! A deleted app stays as a tombstone, since slots are given out once. Its tokens and codes open
//! nothing from then on.
//!
//! INVARIANT: an operator's approval binds the profile that the operator has seen. Edits by the
//! app's owner then wait as a revision, and people go on seeing the approved profile. Giving an
//! approved scope back frees nothing: tokens with that scope still run under the approved name.

use serde::{Deserialize, Serialize};

use super::access_token::revoke_with_app;
use super::change::{PartitionView, StateChange};
use super::company::{check_open, find_company, find_open_company};
use super::row::indexes;
use super::ticket::Ticket;
use super::ticket::end;
use super::webhook_endpoint::delete_endpoints_of;
use crate::command::audit_line::AuditLine;
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::directory::access_token::{AccessScope, AccessToken};
use crate::domain::changes::{changes, replace};
use crate::domain::ids::{AppId, AppSlot, CompanyId, CompanySlot, Timestamp};
use crate::domain::text::LineText;

/// An app. Source: RFC 6749, 2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// The row's slot.
    pub slot: AppSlot,
    /// Its public id: the `client_id`.
    pub id: AppId,
    /// The company that registered it.
    pub company: CompanySlot,
    /// Its name.
    pub name: String,
    /// Its web site.
    pub website: String,
    /// SHA-256 of its secret.
    pub secret_digest: [u8; 32],
    /// The redirect addresses.
    pub redirect_urls: Vec<String>,
    /// The profile that waits for an operator; none without an edit of an approved app.
    pub revision: Option<Box<AppProfile>>,
    /// The largest scope that the app asks for.
    pub requested: AccessScope,
    /// The part of the requested scope that an operator has approved.
    pub approved: AccessScope,
    /// Whether an operator ever approved a scope that needs it. From then on profile and secret are
    /// held, also where no such scope is left.
    pub is_bound: bool,
    /// Whether the app is deleted: gone from lists, with no access left.
    pub is_deleted: bool,
    /// The time of creation.
    pub created_at: Timestamp,
}

/// The profile of an app on the consent page, and the addresses that codes go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppProfile {
    /// Its name.
    pub name: String,
    /// Its web site.
    pub website: String,
    /// The addresses that codes may be sent to.
    pub redirect_urls: Vec<String>,
}

impl App {
    /// The profile that people see.
    pub fn profile(&self) -> AppProfile {
        AppProfile {
            name: self.name.clone(),
            website: self.website.clone(),
            redirect_urls: self.redirect_urls.clone(),
        }
    }

    /// The profile as its owner last edited it: the revision, where one waits.
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

indexes! {
    App(app), CHANGES_ACCESS: true, found if !app.is_deleted;
    /// The apps that a company has registered and not deleted.
    OF_COMPANY = 1: CompanySlot => app.company;
}

commands! {
    /// The commands on apps.
    #[derive(Clone, Debug)]
    pub enum AppCommand(change) {
        /// Registers an app.
        Create(new: NewApp) makes new.id.0 =>
            AuditLine::of_company(new.company, "app.created", new.id.0),
            create(change, new);
        /// Changes an app.
        Update(company: CompanyId, id: AppId, changes: AppChanges) =>
            AuditLine::of_company(*company, "app.updated", id.0).with(changes.names()),
            update(change, (*company, *id), changes);
        /// Approves the requested scope of an app, under the profile that the operator saw.
        Approve(company: CompanyId, id: AppId, approval: AppApproval) =>
            AuditLine::of_company(*company, "app.approved", id.0).with(vec!["approved_scope"]),
            approve(change, (*company, *id), approval);
        /// Deletes an app, with its tokens, codes and webhook endpoints.
        Delete(company: CompanyId, id: AppId) =>
            AuditLine::of_company(*company, "app.deleted", id.0),
            delete(change, (*company, *id));
        /// Revokes all tokens and codes that open a company's data to an app.
        RevokeTokens(id: AppId, company: CompanyId) =>
            AuditLine::of_company(*company, "app.tokens_revoked", id.0),
            revoke_tokens_of_company(change, (*id, *company));
    }
}

/// An app to register.
#[derive(Clone, Debug)]
pub struct NewApp {
    /// Its id.
    pub id: AppId,
    /// The company that registers it.
    pub company: CompanyId,
    /// Its name.
    pub name: LineText,
    /// Its web site.
    pub website: LineText,
    /// SHA-256 of its secret.
    pub secret_digest: [u8; 32],
    /// The addresses that codes may be sent to.
    pub redirect_urls: Vec<String>,
    /// The largest scope that the app asks for.
    pub requested: AccessScope,
}

changes! {
    /// Changes of an app; absent fields stay. While an approval stands, name, web site and redirect
    /// addresses wait for the next one.
    #[derive(Clone, Debug, Default)]
    pub struct AppChanges {
        /// Its name.
        name: Option<LineText>,
        /// Its web site.
        website: Option<LineText>,
        /// The addresses that codes may be sent to.
        redirect_urls: Option<Vec<String>>,
        /// The largest scope that the app asks for.
        requested as "requested_scope": Option<AccessScope>,
        /// SHA-256 of its secret.
        secret_digest as "secret": Option<[u8; 32]>,
    }
}

/// An operator's approval of an app.
#[derive(Clone, Debug)]
pub struct AppApproval {
    /// The profile that the operator has seen: it must equal the waiting revision, else the current
    /// profile.
    pub profile: AppProfile,
    /// The approved part of the requested scope.
    pub scope: AccessScope,
}

fn create(change: &mut StateChange<'_>, new: &NewApp) -> Result<(), Rejection> {
    let company = find_open_company(change.state, new.company)?;
    let apps = &change.state.directory().apps;
    let slot = apps.slot_for(new.id.0)?;
    change.put(App {
        slot,
        id: new.id,
        company,
        name: new.name.to_string(),
        website: new.website.to_string(),
        secret_digest: new.secret_digest,
        redirect_urls: new.redirect_urls.clone(),
        revision: None,
        requested: new.requested,
        approved: AccessScope::default(),
        is_bound: false,
        is_deleted: false,
        created_at: change.moment.at,
    });
    Ok(())
}

fn update(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, AppId),
    changes: &AppChanges,
) -> Result<(), Rejection> {
    let known = find_app(change.state, company, id)?;
    check_open(change.state, known.company)?;
    let mut app = known.clone();
    replace(&mut app.requested, &changes.requested);
    replace(&mut app.secret_digest, &changes.secret_digest);
    // A scope no longer requested loses its approval too.
    app.approved = app.approved.common(app.requested);
    let mut profile = known.edited_profile();
    replace(&mut profile.name, &changes.name);
    replace(&mut profile.website, &changes.website);
    replace(&mut profile.redirect_urls, &changes.redirect_urls);
    if app.is_bound {
        app.revision = (profile != app.profile()).then(|| Box::new(profile));
    } else {
        app = app.with_profile(profile);
    }
    change.put_changed(app, known);
    Ok(())
}

/// Approves the requested scope of an app, with the profile that waits.
/// Errors: `AppChanged` if that profile differs from the one the operator has seen.
fn approve(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, AppId),
    approval: &AppApproval,
) -> Result<(), Rejection> {
    let known = find_app(change.state, company, id)?;
    if approval.profile != known.edited_profile() {
        return Err(Rejection::AppChanged);
    }
    let mut app = known.clone().with_profile(approval.profile.clone());
    app.approved = approval.scope.common(app.requested);
    app.is_bound |= app.approved.needs_approval();
    change.put_changed(app, known);
    Ok(())
}

/// Deletes an app, with its tokens and webhook endpoints. The bounds on these leave room for them.
fn delete(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, AppId),
) -> Result<(), Rejection> {
    let known = find_app(change.state, company, id)?;
    change.put(App { is_deleted: true, ..known.clone() });
    // A deleted app cannot exchange its codes, so those may run out.
    revoke_tokens(change, known.slot, |_| true);
    delete_endpoints_of(change, known.slot);
    change.check_room()
}

/// Revokes all access of an app to a company's data, whichever company registered the app.
/// Errors: the pending codes are too many for one record.
fn revoke_tokens_of_company(
    change: &mut StateChange<'_>,
    (id, company): (AppId, CompanyId),
) -> Result<(), Rejection> {
    let company = find_company(change.state, company)?;
    let app = find_any_app(change.state, id)?.slot;
    let (tickets, key) = (&change.state.directory().tickets, (app, company));
    let codes = tickets.open_under(&Ticket::OPEN_CODES_OF_APP, &key, change.moment.at);
    codes.for_each(|ticket| end(change, ticket));
    revoke_tokens(change, app, |of| of == company);
    change.check_room()
}

/// Revokes an app's tokens for the selected companies.
fn revoke_tokens(
    change: &mut StateChange<'_>,
    app: AppSlot,
    is_meant: impl Fn(CompanySlot) -> bool,
) {
    let tokens = change.state.directory().access_tokens.of_app(app);
    let meant = tokens.filter(|token| is_meant(token.company));
    meant.for_each(|token| revoke_with_app(change, token));
}

/// A company's own app.
pub(crate) fn find_app(
    state: &dyn PartitionView,
    company: CompanyId,
    id: AppId,
) -> Result<&App, Rejection> {
    let company = find_company(state, company)?;
    let app = find_any_app(state, id)?;
    if app.company == company { Ok(app) } else { Err(Rejection::AppNotFound) }
}

/// An app that may have webhook endpoints in a company: one of its own, or one that it has let in.
pub(crate) fn find_app_with_access(
    state: &dyn PartitionView,
    company: CompanySlot,
    id: AppId,
) -> Result<&App, Rejection> {
    let app = find_any_app(state, id)?;
    let mut tokens =
        state.directory().access_tokens.under(&AccessToken::OF_APP, &(app.slot, company));
    let is_allowed = app.company == company || tokens.next().is_some();
    if is_allowed { Ok(app) } else { Err(Rejection::AppNotFound) }
}

/// An app that may be let in, whichever company registered it: that company is not closed.
pub(crate) fn find_admissible_app(state: &dyn PartitionView, id: AppId) -> Result<&App, Rejection> {
    let app = find_any_app(state, id)?;
    check_open(state, app.company).map(|()| app)
}

/// An app, whichever company registered it.
pub(crate) fn find_any_app(state: &dyn PartitionView, id: AppId) -> Result<&App, Rejection> {
    let app = state.directory().apps.find(id.0).filter(|app| !app.is_deleted);
    app.ok_or(Rejection::AppNotFound)
}
