//! One app, and the forms of its owner. GET and POST /apps/{id}, and POST of `secret`, `token` and
//! `delete` below it.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::seen_object::WatchedObject;
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessTokenCommand, NewAccessToken, NewTokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::app::{App, AppChanges, AppCommand, AppProfile};
use cardswitch_engine::domain::company::CompanyState;
use cardswitch_engine::domain::ids::{AccessTokenId, AppId};
use cardswitch_engine::domain::text::LineText;
use cardswitch_identity::auth::drawn_secret::DrawnSecret;
use cardswitch_identity::oauth::scope::{check_approved, may_authorize, may_give};
use cardswitch_identity::scope_words::{SCOPES, ScopeWords};
use serde::de::IgnoredAny;

use super::app_form::{AppFields, AppForm, AppTerms, ScopeTicks, seen};
use super::apps::SecretPage;
use super::error_page::error_page;
use super::faults::{Faults, with_status};
use super::form_snapshot::{FormSnapshot, change_as_seen};
use super::forms::{ConfirmForm, SiteForm};
use super::notice::Notice;
use super::rights::{ActingMember, AppManager};
use super::words::{Moment, shown_moment};
use super::{frame, fresh_id};

#[derive(Template)]
#[template(path = "app.html")]
struct AppContent<'a> {
    csrf: String,
    id: String,
    name: &'a str,
    company: &'a str,
    registered: Moment,
    seen: FormSnapshot,
    form: &'a AppForm,
    /// The approved profile, shown while an edit waits.
    approved: Option<AppProfile>,
    may_replace_secret: bool,
    may_authorize: bool,
    token_scopes: Vec<&'static ScopeWords>,
}

/// GET /apps/{id}.
pub(super) async fn show_app(
    AppManager(acting): AppManager,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let app = get_app(&acting, AppId(id)).await?;
    Ok(app_page(&acting, &app, &AppForm::of_app(&app)))
}

fn app_page(acting: &ActingMember, app: &App, form: &AppForm) -> Response {
    let role = acting.member.role;
    let is_grantable = |words: &&ScopeWords| {
        let scope = words.alone();
        check_approved(scope, app.approved).is_ok() && may_give(role, scope)
    };
    let content = AppContent {
        csrf: acting.csrf(),
        id: app.id.0.to_string(),
        name: &app.name,
        company: &acting.company.name,
        registered: shown_moment(app.created_at, &acting.session),
        seen: seen(app),
        form,
        approved: app.revision.as_ref().map(|_| app.profile()),
        may_replace_secret: may_replace_secret(acting, app),
        may_authorize: may_authorize(role),
        token_scopes: SCOPES.iter().filter(is_grantable).collect(),
    };
    let page = frame::page(&app.name, content);
    with_status(page, form.faults.status)
}

/// An app of the company that is acted for.
/// Errors: there is none with this id; the tables cannot be read.
async fn get_app(acting: &ActingMember, id: AppId) -> Result<App, ApiError> {
    let found = acting.state.switch.read(|snapshot| snapshot.app_by_id(id)).await?;
    let own = found.filter(|app| app.company == acting.company.slot && !app.is_deleted);
    own.ok_or_else(ApiError::not_found)
}

/// Changes the profile of an app and the scopes it requests. POST /apps/{id}.
pub(super) async fn update_app(
    AppManager(acting): AppManager,
    PathId(id): PathId,
    SiteForm(fields): SiteForm<AppFields>,
) -> Result<Response, ApiError> {
    let find = || async { Ok((WatchedObject::Row(id), get_app(&acting, AppId(id)).await?)) };
    let check = |app: &App| seen(app).check(fields.typed.of("seen"));
    let saved = change_as_seen(&acting, find, check, async |state, app| {
        let AppTerms { name, website, redirect_urls, requested } = match fields.terms(app.approved)
        {
            Ok(terms) => terms,
            Err(form) => return Ok(app_page(&acting, &app, &form)),
        };
        let changes = AppChanges {
            name: Some(name),
            website: Some(website),
            redirect_urls: Some(redirect_urls),
            requested: Some(requested),
            ..AppChanges::default()
        };
        let command = AdminCommand::App(AppCommand::Update(acting.company.id, app.id, changes));
        state.carry_out(command).await?;
        let waits = get_app(&acting, app.id).await?.revision.is_some();
        let notice = if waits { Notice::APP_WAITS } else { Notice::APP_SAVED };
        Ok(acting.go_on(&format!("/apps/{id}"), notice))
    });
    match saved.await? {
        Ok(saved) => Ok(saved),
        Err((app, why)) => {
            let (typed, faults) = why.shown(&fields, Faults::of_refusal)?;
            let form =
                typed.map_or_else(|| AppForm::of_app(&app), |typed| typed.form(app.approved));
            Ok(app_page(&acting, &app, &form.with_faults(faults)))
        }
    }
}

/// Whether the visitor may replace the secret: that of an approved app opens the approved scopes.
fn may_replace_secret(acting: &ActingMember, app: &App) -> bool {
    !app.is_bound || acting.session.is_administrator()
}

/// Gives an app a new secret and shows it, once. POST /apps/{id}/secret.
pub(super) async fn replace_secret(
    AppManager(acting): AppManager,
    PathId(id): PathId,
    _: SiteForm<IgnoredAny>,
) -> Result<Response, ApiError> {
    let app = get_app(&acting, AppId(id)).await?;
    if !may_replace_secret(&acting, &app) {
        let text = "The operator has approved the app: only administrators rotate \
                    its secret.";
        return Ok(error_page(StatusCode::FORBIDDEN, "You don’t have access", text));
    }
    let acting = acting.without_claim();
    let secret = DrawnSecret::draw()?;
    let changes = AppChanges { secret_digest: Some(secret.digest), ..AppChanges::default() };
    acting
        .state
        .carry_out(AdminCommand::App(AppCommand::Update(acting.company.id, app.id, changes)))
        .await?;
    let shown = SecretPage {
        heading: "The new secret",
        text: "The old secret no longer works.",
        shown: vec![("Client ID", id.to_string()), ("Secret", secret.text)],
        onward: format!("/apps/{id}"),
    };
    Ok(shown.page("New secret"))
}

/// Makes a token of the app's own company and shows it, once. POST /apps/{id}/token.
/// Source: spec "Authentication", rule 3.
pub(super) async fn make_own_token(
    AppManager(acting): AppManager,
    PathId(id): PathId,
    SiteForm(ticks): SiteForm<ScopeTicks>,
) -> Result<Response, ApiError> {
    let app = get_app(&acting, AppId(id)).await?;
    let Ok(scope) = ticks.scope() else { return Ok(not_approved()) };
    if !may_give(acting.member.role, scope) {
        return Ok(may_not_give());
    }
    if let Some(refusal) = not_active(&acting) {
        return Ok(refusal);
    }
    if check_approved(scope, app.approved).is_err() {
        return Ok(not_approved());
    }
    let acting = acting.without_claim();
    let secret = DrawnSecret::draw_token(&acting.state.switch)?;
    let grant = own_token(&acting, &app, scope, secret.digest)?;
    acting
        .state
        .carry_out_unshown(AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(grant))))
        .await?;
    let shown = SecretPage {
        heading: &format!("A token for {}", acting.company.name),
        text: "It opens the data of your own company, until it is revoked.",
        shown: vec![("Access token", secret.text)],
        onward: format!("/apps/{id}"),
    };
    Ok(shown.page("New token"))
}

fn own_token(
    acting: &ActingMember,
    app: &App,
    scope: AccessScope,
    digest: [u8; 32],
) -> Result<NewTokenGrant, ApiError> {
    let token = NewAccessToken {
        id: AccessTokenId(fresh_id(&acting.state)?),
        digest,
        company: acting.company.id,
        scope,
    };
    Ok(NewTokenGrant {
        token,
        app: Some(app.id),
        member: Some(acting.member.id),
        origin: TokenOrigin::OwnCompany,
        label: LineText::spaced(&app.name),
    })
}

fn may_not_give() -> Response {
    let text = "Only administrators and accountants can give access to a company’s data, and \
                nobody more than they have.";
    error_page(StatusCode::FORBIDDEN, "You don’t have access", text)
}

/// The refusal where nothing may be let at the company's data, as `oauth` has it.
fn not_active(acting: &ActingMember) -> Option<Response> {
    let name = &acting.company.name;
    let (title, text) = match acting.company.state {
        CompanyState::Active => return None,
        CompanyState::Pending => ("Pending approval", format!("{name} was not approved yet.")),
        CompanyState::Closed => ("Closed", format!("{name} is closed.")),
    };
    Some(error_page(StatusCode::FORBIDDEN, title, &format!("{text} No app can be let in.")))
}

fn not_approved() -> Response {
    let text = "The operator has not approved that scope for the app.";
    error_page(StatusCode::FORBIDDEN, "Not approved yet", text)
}

/// Takes an app away, with its tokens and codes. POST /apps/{id}/delete.
pub(super) async fn delete_app(
    AppManager(acting): AppManager,
    PathId(id): PathId,
    SiteForm(form): SiteForm<ConfirmForm>,
) -> Result<Response, ApiError> {
    let app = get_app(&acting, AppId(id)).await?;
    if !form.is_confirmed {
        let faults = Faults::alert_only("Tick the box to confirm.");
        let again = AppForm::of_app(&app).with_faults(faults);
        return Ok(app_page(&acting, &app, &again));
    }
    acting
        .state
        .carry_out(AdminCommand::App(AppCommand::Delete(acting.company.id, app.id)))
        .await?;
    Ok(acting.go_on("/apps", Notice::APP_DELETED))
}
