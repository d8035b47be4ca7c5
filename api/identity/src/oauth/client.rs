//! The proof of the app that asks: `client_id` and `client_secret` in the body or over HTTP Basic.
//! Source: RFC 6749, 2.3.1.

use std::net::IpAddr;

use axum::RequestExt;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::app::App;
use cardswitch_engine::domain::ids::AppId;
use cardswitch_secrets::{digests_equal, token_digest};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::parse_id;
use url::form_urlencoded;

use super::parameters::Parameters;
use crate::auth::throttle::Source;
use crate::state::AppState;

/// The credentials that an app sent.
#[derive(PartialEq, Eq)]
struct ClientCredentials {
    id: String,
    secret: String,
}

/// The app that asks from `address`, and its parameters. An address that guesses secrets is slowed.
/// Nothing else is judged before, not even whether the body can be read.
/// Errors: it does not say which, in two ways at once, or not with the right secret; too many did;
/// the body cannot be read.
pub(super) async fn prove(
    state: &AppState,
    request: Request,
    address: Option<IpAddr>,
) -> Result<(App, Parameters), ApiError> {
    let headers = request.headers().clone();
    let parameters = request.extract::<Parameters, _>().await;
    let attempt = state.throttle.admit(None, address.map(Source::Address)).await?;
    let nothing = Parameters::default();
    let found = find_client(state, &headers, parameters.as_ref().unwrap_or(&nothing));
    attempt.judge(&found);
    Ok((found?, parameters?))
}

/// Errors: it does not say which, in two ways at once, or not with the right secret.
fn find_client(
    state: &AppState,
    headers: &HeaderMap,
    parameters: &Parameters,
) -> Result<App, ApiError> {
    let ClientCredentials { id, secret } = credentials(headers, parameters)?;
    let id = parse_id(&id).map(AppId).ok_or_else(ApiError::invalid_client)?;
    let app = state.switch.read_at_once(|snapshot| snapshot.app_by_id(id))?;
    let digest = token_digest(&secret);
    app.filter(|app| !app.is_deleted && digests_equal(&app.secret_digest, &digest))
        .ok_or_else(ApiError::invalid_client)
}

fn credentials(
    headers: &HeaderMap,
    parameters: &Parameters,
) -> Result<ClientCredentials, ApiError> {
    let id = parameters.text("client_id")?;
    let secret = parameters.text("client_secret")?;
    let Some(basic) = basic_of(headers) else {
        return match (id, secret) {
            (Some(id), Some(secret)) => {
                Ok(ClientCredentials { id: id.to_owned(), secret: secret.to_owned() })
            }
            _ => Err(ApiError::invalid_client()),
        };
    };
    let basic = basic.ok_or_else(ApiError::invalid_client)?;
    if secret.is_some() {
        let flaw = Flaw::new("repeated", "must not come besides the header `Authorization`");
        return Err(ApiError::invalid_field("client_secret", flaw));
    }
    if id.is_some_and(|id| id != basic.id) {
        let flaw = Flaw::new("repeated", "is another one than in the header `Authorization`");
        return Err(ApiError::invalid_field("client_id", flaw));
    }
    Ok(basic)
}

/// The credentials in a header `Authorization: Basic`, where there is one; none within where they
/// cannot be read.
fn basic_of(headers: &HeaderMap) -> Option<Option<ClientCredentials>> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("basic").then(|| decode_basic(encoded.trim()))
}

fn decode_basic(encoded: &str) -> Option<ClientCredentials> {
    let plain = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    let (id, secret) = plain.split_once(':')?;
    Some(ClientCredentials { id: decode_form(id), secret: decode_form(secret) })
}

/// Undoes `application/x-www-form-urlencoded` of one value.
fn decode_form(text: &str) -> String {
    let escaped = text.replace('&', "%26").replace('=', "%3D");
    let mut pairs = form_urlencoded::parse(escaped.as_bytes());
    pairs.next().map_or(String::new(), |(name, _)| name.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_basic(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        headers
    }

    #[test]
    fn basic_is_decoded_twice() {
        let rows = [
            ("Basic YTpi", Some(Some(("a", "b")))),
            ("basic  YTpi ", Some(Some(("a", "b")))),
            ("Basic YTpiOmM=", Some(Some(("a", "b:c")))),
            ("Basic YSUzQTE6YiUyNmM=", Some(Some(("a:1", "b&c")))),
            ("Basic YSYxOmI9Yw==", Some(Some(("a&1", "b=c")))),
            ("Basic YTo=", Some(Some(("a", "")))),
            ("Basic YQ==", Some(None)),
            ("Basic /w==", Some(None)),
            ("Basic !", Some(None)),
            ("Basic", None),
            ("Bearer YTpi", None),
            ("Token YTpi", None),
        ];
        for (value, expected) in rows {
            let expected = expected.map(|inner| {
                inner.map(|(id, secret)| ClientCredentials { id: id.into(), secret: secret.into() })
            });
            assert!(basic_of(&with_basic(value)) == expected, "{value}");
        }
    }
}
