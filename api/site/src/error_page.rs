//! The page of a request that failed: the failure, in words for people, and a way on.

use askama::Template;
use axum::extract::Request;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_identity::state::AppState;

use super::faults::{sentence, with_status};
use super::session::find_session;
use super::visit::{Visit, receive_with};
use super::{frame, headers};

/// Paths that are for programs, whatever they accept.
const PROGRAM_PATHS: [&str; 4] = ["/v1", "/network", "/scim", "/openapi.json"];

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorContent<'a> {
    status: u16,
    title: &'a str,
    text: &'a str,
}

/// A page about a failure.
pub fn error_page(status: StatusCode, title: &str, text: &str) -> Response {
    let content = ErrorContent { status: status.as_u16(), title, text };
    let mut response = with_status(frame::page(title, content), status);
    headers::secure(response.headers_mut());
    response
}

/// The page of a status that needs no words of its own.
pub(super) fn failure_page(status: StatusCode) -> Response {
    let (title, text) = match status.as_u16() {
        400 => {
            ("Something went wrong", "The request could not be understood. Go back and try again.")
        }
        403 => ("You don’t have access", "Your role in this company does not allow it."),
        404 => ("Page not found", "The address is wrong, or the page was removed."),
        405 => ("Something went wrong", "The page does not support this request."),
        408 => ("That took too long", "The request did not arrive in time. Try again."),
        413 => ("Too large", "The request is longer than the page accepts."),
        415 => ("Something went wrong", "Unsupported request"),
        429 => ("Too many tries", "Wait a little before you try again."),
        503 => {
            ("Temporarily unavailable", "The switch is busy or restarting. Try again in a moment.")
        }
        500.. => ("Something went wrong", "The switch failed. Its log has the cause."),
        _ => ("Something went wrong", "Go back and try again."),
    };
    error_page(status, title, text)
}

/// The page of a request that the present state does not allow.
pub(super) fn conflict_page(message: &str) -> Response {
    error_page(StatusCode::CONFLICT, "Something went wrong", &sentence(message))
}

/// The page of a change that was made but cannot be shown yet.
pub(super) fn not_shown_yet() -> Response {
    let text = "The change was made, but cannot be shown yet. Look at the page a little later, and do not \
                send the form again.";
    error_page(StatusCode::SERVICE_UNAVAILABLE, "Saved, not shown yet", text)
}

/// The answer to a path that is not there: a page for browsers, the error body for programs.
pub async fn unknown_path(state: AppState, request: Request) -> Response {
    if !is_for_people(request.uri().path(), request.headers()) {
        return ApiError::not_found().into_response();
    }
    let page = async |request: Request, visit: &Visit| {
        // Without tables there are no ways on, and the path is as unknown.
        if let Ok(Some(session)) = find_session(request.headers(), &state) {
            visit.note_visitor(&session, &state);
        }
        failure_page(StatusCode::NOT_FOUND)
    };
    receive_with(&state, request, page).await
}

fn is_for_people(path: &str, headers: &HeaderMap) -> bool {
    let is_below = |parent: &str| {
        path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.contains("text/html") && !PROGRAM_PATHS.iter().any(|parent| is_below(parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_get_pages_where_programs_do_not_live() {
        let browser = "text/html,application/xhtml+xml,*/*;q=0.8";
        let rows = [
            ("/nothing", Some(browser), true),
            ("/v1x", Some(browser), true),
            ("/v1/nothing", Some(browser), false),
            ("/v1", Some(browser), false),
            ("/scim/v2/Users", Some(browser), false),
            ("/nothing", Some("*/*"), false),
            ("/nothing", None, false),
        ];
        for (path, accept, expected) in rows {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(ACCEPT, accept.parse().unwrap());
            }
            assert_eq!(is_for_people(path, &headers), expected, "{path} {accept:?}");
        }
    }

    #[tokio::test]
    async fn what_an_error_page_says_is_escaped() {
        let page = error_page(StatusCode::BAD_REQUEST, "<b>", "\"><script>alert(1)</script>");
        let page = frame::framed(page, &Visit::of_nobody());
        assert!(page.headers().contains_key("content-security-policy"));
        let body = axum::body::to_bytes(page.into_body(), 100_000).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(!body.contains("<script") && !body.contains("<b>"), "{body}");
    }
}
