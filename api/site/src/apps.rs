//! The apps of a company: their list, and how one is registered. GET /apps, GET and POST /apps/new.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::app::{App, AppCommand, NewApp};
use cardswitch_engine::domain::ids::AppId;
use cardswitch_identity::auth::drawn_secret::DrawnSecret;
use cardswitch_identity::oauth::scope::names;
use cardswitch_identity::scope_words::{SCOPES, ScopeWords};

use super::app_form::{AppFields, AppForm, AppTerms};
use super::assets::COPY;
use super::faults::with_status;
use super::forms::SiteForm;
use super::pager::{Pager, Part};
use super::rights::{ActingMember, AppManager};
use super::session::Session;
use super::words::{Moment, shown_moment};
use super::{frame, fresh_id};

#[derive(Template)]
#[template(path = "apps.html")]
struct AppsContent<'a> {
    company: &'a str,
    apps: Vec<AppRow>,
    pager: Pager,
}

struct AppRow {
    id: String,
    name: String,
    approved: Vec<&'static str>,
    waiting: Vec<&'static str>,
    /// Whether an edit waits for the operator.
    has_revision: bool,
    registered: Moment,
}

impl AppRow {
    fn new(app: App, session: &Session) -> Self {
        let is_waiting = |words: &&ScopeWords| {
            words.is_in(app.requested)
                && !words.is_in(app.approved)
                && words.alone().needs_approval()
        };
        let waiting = SCOPES.iter().filter(is_waiting);
        Self {
            id: app.id.0.to_string(),
            approved: names(app.approved),
            waiting: waiting.map(|words| words.name).collect(),
            has_revision: app.revision.is_some(),
            registered: shown_moment(app.created_at, session),
            name: app.name,
        }
    }
}

/// GET /apps.
pub(super) async fn list_apps(
    AppManager(acting): AppManager,
    Query(part): Query<Part>,
) -> Result<Response, ApiError> {
    let company = &acting.company;
    let listed = acting
        .state
        .switch
        .read(|snapshot| snapshot.list_own::<App>(company.slot, &part.page()))
        .await?;
    let pager = Pager::new(part, listed.rows.len(), listed.count, "/apps", &[]);
    let apps = listed.rows.into_iter().map(|app| AppRow::new(app, &acting.session)).collect();
    let content = AppsContent { company: &company.name, apps, pager };
    Ok(frame::page("Apps", content))
}

#[derive(Template)]
#[template(path = "app_new.html")]
struct NewAppContent<'a> {
    csrf: String,
    company: &'a str,
    form: &'a AppForm,
}

/// GET /apps/new.
pub(super) async fn ask_for_app(AppManager(acting): AppManager) -> Response {
    new_app_page(&acting, &AppForm::blank())
}

fn new_app_page(acting: &ActingMember, form: &AppForm) -> Response {
    let csrf = acting.csrf();
    let content = NewAppContent { csrf, company: &acting.company.name, form };
    let page = frame::page("Register an app", content);
    with_status(page, form.faults.status)
}

/// Registers an app and shows its secret, once. POST /apps/new.
pub(super) async fn register_app(
    AppManager(acting): AppManager,
    SiteForm(fields): SiteForm<AppFields>,
) -> Result<Response, ApiError> {
    let terms = match fields.terms(AccessScope::default()) {
        Ok(terms) => terms,
        Err(form) => return Ok(new_app_page(&acting, &form)),
    };
    let AppTerms { name, website, redirect_urls, requested } = terms;
    let id = AppId(fresh_id(&acting.state)?);
    let DrawnSecret { text: secret, digest: secret_digest } = DrawnSecret::draw()?;
    let company = acting.company.id;
    let heading = format!("{name} is registered");
    let new = NewApp { id, company, name, website, secret_digest, redirect_urls, requested };
    let acting = acting.without_claim();
    acting.state.carry_out_unshown(AdminCommand::App(AppCommand::Create(new))).await?;
    let shown = SecretPage {
        heading: &heading,
        text: "Used to exchange codes and revoke tokens.",
        shown: vec![("Client ID", id.0.to_string()), ("Secret", secret)],
        onward: format!("/apps/{}", id.0),
    };
    Ok(shown.page("Registered"))
}

/// A page that shows a secret, of which only a hash is kept. It is the answer to the form itself:
/// to be shown by another request, the secret would have to be kept until then.
#[derive(Template)]
#[template(path = "shown_once.html")]
pub(super) struct SecretPage<'a> {
    /// The result of the request, as a heading.
    pub heading: &'a str,
    /// The purpose or the effect of the secret.
    pub text: &'a str,
    /// The values shown once, with their names.
    pub shown: Vec<(&'static str, String)>,
    /// The path of the page to go on to.
    pub onward: String,
}

impl SecretPage<'_> {
    /// The page, with buttons that copy what it shows.
    pub(super) fn page(self, title: &str) -> Response {
        frame::page_with_scripts(title, &[&*COPY], self)
    }
}
