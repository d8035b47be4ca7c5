//! An app asks a member for access to their company's data: the page that names the app, the
//! scopes, and the effect of either answer. GET and POST /v1/oauth/authorize. Source: spec "OAuth".
//!
//! The page itself changes nothing, so it may be loaded in advance or again; the code is made by the
//! answer. The request is in the address, judged anew for the answer: a form cannot widen it.

use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::header::ORIGIN;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use cardswitch_edge::client_address::ClientAddress;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::audit::Actor;
use cardswitch_engine::domain::company::Company;
use cardswitch_identity::actor_state::ActorState;
use cardswitch_identity::oauth::authorize::{
    AuthorizationRequest, GrantRefusal, PageFault, RequestCheck, check,
};
use cardswitch_identity::scope_words::{allowed, forbidden};
use cardswitch_identity::state::AppState;
use serde::Deserialize;
use url::Url;

use super::error_page::error_page;
use super::forms::SiteForm;
use super::frame::{forwarding_page, small_page};
use super::next::login_path;
use super::session::{OptionalSession, Session};

/// A request, who is to decide on it, and for which companies they may.
#[derive(Debug)]
pub(super) struct Question {
    state: ActorState,
    request: AuthorizationRequest,
    session: Session,
    choices: Vec<(Company, Member)>,
}

impl FromRequestParts<AppState> for Question {
    type Rejection = Response;

    /// Errors: the answer where no member is to be asked: the request is wrong, nobody has signed
    /// in, or the visitor may not grant it.
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Response> {
        let query = parts.uri.query().unwrap_or_default();
        let checked = check(state, query).map_err(IntoResponse::into_response)?;
        let OptionalSession(state, session) = OptionalSession::from_request_parts(parts, state)
            .await
            .map_err(IntoResponse::into_response)?;
        let (request, session) = match (checked, session) {
            (RequestCheck::Page(fault), _) => return Err(fault_page(fault)),
            // A refusal, too, goes to the app's address only for a signed-in visitor: else a link
            // to this site could lead anybody away. Source: RFC 9700, 4.11.2.
            (_, None) => {
                let here = parts.uri.path_and_query().map_or("", |here| here.as_str());
                return Err(Redirect::to(&login_path(here)).into_response());
            }
            (RequestCheck::Redirect(target), _) => return Err(tell(parts, "the app", &target)),
            (RequestCheck::Ask(request), Some(session)) => (*request, session),
        };
        match request.grantable(&session.memberships) {
            Ok(choices) => Ok(Self { state, request, session, choices }),
            Err(refusal) => Err(tell(parts, &request.app.name, &request.refused(refusal))),
        }
    }
}

/// Sends the answer of a request about which no member is asked: as the answer of a form, where it
/// comes in place of one.
fn tell(parts: &Parts, app_name: &str, target: &str) -> Response {
    match parts.method {
        Method::POST => send_on(&parts.headers, app_name, target),
        _ => Redirect::to(target).into_response(),
    }
}

#[derive(Template)]
#[template(path = "consent.html")]
struct ConsentContent<'a> {
    csrf: String,
    app_name: &'a str,
    app_host: String,
    app_company: String,
    email: &'a str,
    companies: Vec<ConsentCompany<'a>>,
    allows: Vec<&'static str>,
    forbids: Vec<&'static str>,
    destination: String,
}

struct ConsentCompany<'a> {
    id: String,
    name: &'a str,
    is_current: bool,
}

/// GET /v1/oauth/authorize.
pub(super) async fn ask(question: Question) -> Result<Response, ApiError> {
    consent_page(&question)
}

/// The member's answer.
#[derive(Debug, Deserialize)]
pub(super) struct AnswerForm {
    decision: ConsentDecision,
    #[serde(default)]
    company: String,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ConsentDecision {
    Allow,
    Decline,
}

/// POST /v1/oauth/authorize.
pub(super) async fn answer(
    Question { state, request, session, choices }: Question,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    SiteForm(form): SiteForm<AnswerForm>,
) -> Result<Response, ApiError> {
    if form.decision == ConsentDecision::Decline {
        return Ok(send_on(&headers, &request.app.name, &request.refused(GrantRefusal::Declined)));
    }
    let chosen = choices.iter().find(|(company, _)| company.id.0.to_string() == form.company);
    let Some((company, member)) = chosen else { return Ok(not_yours()) };
    // The code is in the log of this company, which knows no member of another.
    let state = state.as_actor(Actor::User { id: session.user.id, member: Some(member.id) });
    let address = address.to_string();
    let target = request.grant(&state, session.user.id, (company, member), &address).await?;
    Ok(send_on(&headers, &request.app.name, &target))
}

fn consent_page(question: &Question) -> Result<Response, ApiError> {
    let Question { state, request, session, choices } = question;
    let app = &request.app;
    let owner = state.switch.read_at_once(|snapshot| snapshot.company(app.company))?;
    let current = session.current.as_ref().map(|(company, _)| company.id);
    let companies = choices.iter().map(|(company, _)| ConsentCompany {
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
    Ok(small_page("Allow access", content))
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
struct RedirectPage<'a> {
    app_name: &'a str,
    target: &'a str,
}

/// Sends a member who has answered on to the app.
///
/// The policy `form-action` lets a form of this site lead to this site only, and browsers hold
/// every redirect after it to that. Browsers are therefore sent to a page that forwards them: a new
/// start, after which the app may send people wherever it wants. Other clients are redirected.
fn send_on(headers: &HeaderMap, app_name: &str, target: &str) -> Response {
    // Browsers say with every form where it comes from; `sec-fetch-site` they keep to themselves
    // where there is no TLS.
    if headers.contains_key(ORIGIN) || headers.contains_key("sec-fetch-site") {
        return forwarding_page("Back to the app", target, RedirectPage { app_name, target });
    }
    Redirect::to(target).into_response()
}

fn fault_page(fault: PageFault) -> Response {
    let text = format!("{fault} Go back to the app and contact its developer.");
    error_page(StatusCode::BAD_REQUEST, "This app can’t be authorized", &text)
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
    use crate::frame::framed;
    use crate::visit::Visit;

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
        let page = framed(send_on(&headers, "<i>Books</i>", target), &Visit::of_nobody());
        assert_eq!(page.status(), StatusCode::OK);
        let body = axum::body::to_bytes(page.into_body(), 100_000).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.contains("http-equiv=\"refresh\""), "{body}");
        assert!(!body.contains("<i>") && !body.contains("<b>"), "{body}");
    }
}
