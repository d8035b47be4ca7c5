//! Who asks, and what they may do: rights as extractors, so that a handler's signature says them.
//!
//! A token is looked up by the SHA-256 of its text; nothing here keeps or logs the text itself.

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::AccessTokenId;
use cardswitch_engine::domain::member::AccessScope;

use crate::error::ApiError;
use crate::secrets::token_digest;
use crate::state::AppState;

/// The holder of an access token.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Whose data the token opens.
    pub company: Company,
    /// Which token.
    pub token: AccessTokenId,
    /// What it may do.
    pub scope: AccessScope,
}

impl FromRequestParts<AppState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(token_of).ok_or_else(ApiError::unauthorized)?;
        let digest = token_digest(token);
        // Tokens change rarely, and whoever changes one waits until the tables show it.
        let found = state.switch.read_at_once(|snapshot| {
            let Some(token) = snapshot.access_token(&digest)? else { return Ok(None) };
            let company = snapshot.company(token.company)?;
            Ok(company.map(|company| (token, company)))
        })?;
        match found {
            Some((token, company)) if !token.is_revoked => {
                Ok(Self { company, token: token.id, scope: token.scope })
            }
            _ => Err(ApiError::unauthorized()),
        }
    }
}

/// The token in an Authorization header, under the scheme `Token` or `Bearer`.
fn token_of(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let is_known = ["token", "bearer"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    Some(token.trim()).filter(|token| is_known && !token.is_empty())
}

/// A caller who may read: every token may.
#[derive(Clone, Debug)]
pub struct ReadAccess(pub Caller);

impl FromRequestParts<AppState> for ReadAccess {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        Caller::from_request_parts(parts, state).await.map(Self)
    }
}

/// A caller with the scope `admin`.
#[derive(Clone, Debug)]
pub struct AdminAccess(pub Caller);

impl FromRequestParts<AppState> for AdminAccess {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        if !caller.scope.admin {
            return Err(ApiError::scope_too_small("admin"));
        }
        Ok(Self(caller))
    }
}

/// A caller with the scope `accountant`, or with `admin`, which has all of its abilities.
#[derive(Clone, Debug)]
pub struct AccountantAccess(pub Caller);

impl FromRequestParts<AppState> for AccountantAccess {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        if !caller.scope.accountant && !caller.scope.admin {
            return Err(ApiError::scope_too_small("accountant"));
        }
        Ok(Self(caller))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_under_either_scheme() {
        let rows = [
            ("Token abc", Some("abc")),
            ("token abc", Some("abc")),
            ("Bearer abc", Some("abc")),
            ("BEARER  abc ", Some("abc")),
            ("Basic abc", None),
            ("abc", None),
            ("Token", None),
            ("Token ", None),
            ("", None),
        ];
        for (header, token) in rows {
            assert_eq!(token_of(header), token, "{header}");
        }
    }
}
