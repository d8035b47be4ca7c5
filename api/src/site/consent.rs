//! An app asks a member for access to their company's data: the page that says who asks, for what,
//! and what becomes of either answer. GET and POST /v1/oauth/authorize. Source: spec "OAuth".
//!
//! The page itself changes nothing, so it may be loaded in advance or again; the code is made by the
//! answer. The request is in the address, judged anew for the answer: a form cannot widen it.

use askama::Template;
use axum::extract::State;
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::member::Member;
use serde::Deserialize;
use url::Url;

use super::error_page::error_page;
use super::forms::SiteForm;
use super::frame::{forwarding_page, small_page};
use super::next::login_path;
use super::scope_words::{allowed, forbidden};
use super::session::{MaybeSignedIn, Session};
use crate::auth::client_address::ClientAddress;
use crate::error::ApiError;
use crate::oauth::authorize::{AuthorizationRequest, Checked, PageFault, Refusal, check};
use crate::state::AppState;

/// A request, and who may grant it for what.
struct Question {
    request: AuthorizationRequest,
    session: Session,
    choices: Vec<(Company, Member)>,
}

#[derive(Template)]
#[template(path = "consent.html")]
struct ConsentContent<'a> {
    csrf: String,
    app_name: &'a str,
    app_host: String,
    app_company: String,
    email: &'a str,
    companies: Vec<ShownCompany<'a>>,
    allows: Vec<&'static str>,
    forbids: Vec<&'static str>,
    destination: String,
}

struct ShownCompany<'a> {
    id: String,
    name: &'a str,
    is_current: bool,
}

/// GET /v1/oauth/authorize.
pub(super) async fn ask(
    State(state): State<AppState>,
    MaybeSignedIn(session): MaybeSignedIn,
    uri: Uri,
) -> Result<Response, ApiError> {
    match question(&state, session, &uri)? {
        Ok(question) => consent_page(&state, &question),
        Err(response) => Ok(*response),
    }
}

/// What a member answers.
#[derive(Debug, Deserialize)]
pub(super) struct AnswerForm {
    decision: Decision,
    #[serde(default)]
    company: String,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Allow,
    Decline,
}

/// POST /v1/oauth/authorize.
pub(super) async fn answer(
    State(state): State<AppState>,
    MaybeSignedIn(session): MaybeSignedIn,
    address: ClientAddress,
    uri: Uri,
    headers: HeaderMap,
    SiteForm(form): SiteForm<AnswerForm>,
) -> Result<Response, ApiError> {
    let Question { request, session, choices } = match question(&state, session, &uri)? {
        Ok(question) => question,
        Err(response) => return Ok(*response),
    };
    if form.decision == Decision::Decline {
        return Ok(send_on(&headers, &request.app.name, &request.refused(Refusal::Declined)));
    }
    let chosen = choices.iter().find(|(company, _)| company.id.0.to_string() == form.company);
    let Some((company, member)) = chosen else { return Ok(not_yours()) };
    let address = address.0.to_string();
    let target = request.grant(&state, session.user.id, (company, member), &address).await?;
    Ok(send_on(&headers, &request.app.name, &target))
}

/// What a member is to be asked; or the answer where nobody is.
fn question(
    state: &AppState,
    session: Option<Session>,
    uri: &Uri,
) -> Result<Result<Question, Box<Response>>, ApiError> {
    let answered = |response: Response| Ok(Err(Box::new(response)));
    let request = match check(state, uri.query().unwrap_or_default())? {
        Checked::Ask(request) => *request,
        Checked::Page(fault) => return answered(fault_page(fault)),
        Checked::Redirect(target) => return answered(Redirect::to(&target).into_response()),
    };
    let Some(session) = session else {
        let here = uri.path_and_query().map_or("", |here| here.as_str());
        return answered(Redirect::to(&login_path(here)).into_response());
    };
    match request.grantable(&session.memberships) {
        Ok(choices) => Ok(Ok(Question { request, session, choices })),
        Err(refusal) => answered(Redirect::to(&request.refused(refusal)).into_response()),
    }
}

fn consent_page(state: &AppState, question: &Question) -> Result<Response, ApiError> {
    let Question { request, session, choices } = question;
    let app = &request.app;
    let owner = state.switch.read_at_once(|snapshot| snapshot.company(app.company))?;
    let current = session.current.as_ref().map(|(company, _)| company.id);
    let companies = choices.iter().map(|(company, _)| ShownCompany {
        id: company.id.0.to_string(),
        name: &company.name,
        is_current: Some(company.id) == current,
    });
    let content = ConsentContent {
        csrf: session.csrf(state),
        app_name: &app.name,
        app_host: place_of(&app.website),
        app_company: owner.map_or_else(String::new, |company| company.name),
        email: &session.user.email,
        companies: companies.collect(),
        allows: allowed(request.scope),
        forbids: forbidden(request.scope),
        destination: place_of(&request.redirect_uri),
    };
    Ok(small_page(state, "Let an app in?", Some(session), content))
}

/// Host and port of an address; of one without, its scheme.
fn place_of(address: &str) -> String {
    let Ok(url) = Url::parse(address) else { return String::new() };
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        (None, _) => format!("{}:", url.scheme()),
    }
}

#[derive(Template)]
#[template(path = "returning.html")]
struct Returning<'a> {
    app_name: &'a str,
    target: &'a str,
}

/// Sends whoever has answered on to the app.
///
/// What follows a form of this site may lead to this site only (`form-action`), and browsers hold
/// every redirect after it to that. They therefore go by a page that forwards them: a new start,
/// after which the app may send people wherever it wants. What is no browser is redirected.
fn send_on(headers: &HeaderMap, app_name: &str, target: &str) -> Response {
    // Browsers say with every form where it comes from; `sec-fetch-site` they keep to themselves
    // where there is no TLS.
    if headers.contains_key(ORIGIN) || headers.contains_key("sec-fetch-site") {
        return forwarding_page("Back to the app", target, Returning { app_name, target });
    }
    Redirect::to(target).into_response()
}

fn fault_page(fault: PageFault) -> Response {
    let text = format!("{fault} Go back to the app and tell its makers.");
    error_page(StatusCode::BAD_REQUEST, "This app cannot be let in", &text)
}

fn not_yours() -> Response {
    let text = "Choose a company for which you are an administrator or accountant.";
    error_page(StatusCode::FORBIDDEN, "Not for this company", text)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use axum::http::header::LOCATION;

    use super::*;

    #[test]
    fn people_are_told_the_place_and_nothing_that_only_looks_like_it() {
        let rows = [
            ("https://books.example/cb?x=https://other.example", "books.example"),
            ("http://127.0.0.1:8080/cb", "127.0.0.1:8080"),
            ("https://books.example", "books.example"),
            ("https://bank.example@books.example/", "books.example"),
            ("https://b\u{fc}cher.example/", "xn--bcher-kva.example"),
            ("com.example.books:/callback", "com.example.books:"),
            ("nonsense", ""),
        ];
        for (address, place) in rows {
            assert_eq!(place_of(address), place, "{address}");
        }
    }

    #[tokio::test]
    async fn browsers_are_forwarded_and_programs_redirected() {
        let target = "https://books.example/cb?a=%22&state=<b>";
        let mut headers = HeaderMap::new();
        let told = send_on(&headers, "Books", "https://books.example/cb");
        assert_eq!(told.status(), StatusCode::SEE_OTHER);
        assert_eq!(told.headers()[LOCATION], "https://books.example/cb");
        headers.insert(ORIGIN, HeaderValue::from_static("http://cards.example"));
        let page = send_on(&headers, "<i>Books</i>", target);
        assert_eq!(page.status(), StatusCode::OK);
        let body = axum::body::to_bytes(page.into_body(), 100_000).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.contains("http-equiv=\"refresh\""), "{body}");
        assert!(!body.contains("<i>") && !body.contains("<b>"), "{body}");
    }
}
