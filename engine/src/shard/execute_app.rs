//! Apps: registered, changed, taken away. Source: RFC 6749, 2.
//!
//! What an operator has approved stays as it was seen: see `domain::app`.
//!
//! An app that is taken away stays as a tombstone, since slots are given out once; nothing that it
//! held opens anything from then on.

use super::execute::Moment;
use super::execute_admin::{find_company, replace};
use super::execute_member::check_room_in_record;
use super::execute_ticket::end;
use super::execute_token::revoke;
use super::state::ShardState;
use crate::command::effect::Effect;
use crate::command::identity::{AppApproval, AppChanges, NewApp};
use crate::command::reply::Rejection;
use crate::directory::webhook_endpoint::delete_endpoints_of;
use crate::domain::app::App;
use crate::domain::ids::{AppId, AppSlot, CompanyId, CompanySlot};
use crate::domain::member::AccessScope;

pub(super) fn create_app(
    state: &ShardState,
    moment: &Moment<'_>,
    new: &NewApp,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let company = find_company(state, new.company)?;
    let apps = &state.directory.apps;
    if apps.find(new.id.0).is_some() {
        return Err(Rejection::IdTaken);
    }
    effects.push(Effect::row(App {
        slot: apps.next_slot().ok_or(Rejection::Full)?,
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
        created_at: moment.at,
    }));
    Ok(())
}

pub(super) fn update_app(
    state: &ShardState,
    (company, id): (CompanyId, AppId),
    changes: &AppChanges,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = find_app(state, company, id)?;
    let mut app = known.clone();
    replace(&mut app.requested, &changes.requested);
    replace(&mut app.secret_digest, &changes.secret_digest);
    // What it no longer wishes for is not approved either.
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
    if app != *known {
        effects.push(Effect::row(app));
    }
    Ok(())
}

/// Approves what an app asks for, with the profile that waits.
/// Errors: `AppChanged` where it is another than the operator has seen.
pub(super) fn approve_app(
    state: &ShardState,
    (company, id): (CompanyId, AppId),
    approval: &AppApproval,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = find_app(state, company, id)?;
    if approval.profile != known.edited_profile() {
        return Err(Rejection::AppChanged);
    }
    let mut app = known.clone().with_profile(approval.profile.clone());
    app.approved = approval.scope.common(app.requested);
    app.is_bound |= app.approved.needs_approval();
    if app != *known {
        effects.push(Effect::row(app));
    }
    Ok(())
}

/// Takes an app away, with its tokens and webhook endpoints.
pub(super) fn delete_app(
    state: &ShardState,
    (company, id): (CompanyId, AppId),
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = find_app(state, company, id)?;
    effects.push(Effect::row(App { is_deleted: true, ..known.clone() }));
    // Nobody exchanges its codes any more, so those may run out.
    revoke_tokens(state, known.slot, |_| true, effects);
    delete_endpoints_of(state, known.slot, effects);
    Ok(())
}

/// Takes back what opens a company's data to an app, whoever registered that.
/// Errors: so many codes are on their way that they do not fit one record.
pub(super) fn revoke_app_tokens(
    state: &ShardState,
    moment: &Moment<'_>,
    (id, company): (AppId, CompanyId),
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let company = find_company(state, company)?;
    let app = find_any_app(state, id)?.slot;
    let codes = state.identity.tickets.open_codes_of_app((app, company), moment.at);
    codes.for_each(|ticket| end(ticket, effects));
    revoke_tokens(state, app, |of| of == company, effects);
    check_room_in_record(state, moment, effects)
}

/// Revokes an app's tokens for the companies that are meant.
fn revoke_tokens(
    state: &ShardState,
    app: AppSlot,
    is_meant: impl Fn(CompanySlot) -> bool,
    effects: &mut Vec<Effect>,
) {
    for digest in state.identity.tokens_of_app(app) {
        let token = &state.tokens[&digest];
        if is_meant(token.company) {
            revoke(token, effects);
        }
    }
}

/// A company's own app.
pub(crate) fn find_app(
    state: &ShardState,
    company: CompanyId,
    id: AppId,
) -> Result<&App, Rejection> {
    let company = find_company(state, company)?;
    let app = find_any_app(state, id)?;
    if app.company == company { Ok(app) } else { Err(Rejection::AppNotFound) }
}

/// An app, whoever registered it.
pub(super) fn find_any_app(state: &ShardState, id: AppId) -> Result<&App, Rejection> {
    let app = state.directory.apps.find(id.0).filter(|app| !app.is_deleted);
    app.ok_or(Rejection::AppNotFound)
}
