//! The tokens with access to a company's data, and their revocation. GET /tokens, POST
//! /tokens/{id}/revoke.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::{AccessToken, AccessTokenCommand, TokenOrigin};
use cardswitch_engine::directory::app::App;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::ids::AccessTokenId;
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_identity::oauth::scope::names;
use serde::de::IgnoredAny;

use super::forms::SiteForm;
use super::frame;
use super::notice::Notice;
use super::pager::{Pager, Part};
use super::rights::{Right, TokenReader, TokenRevoker};
use super::session::Session;
use super::words::{Moment, shown_moment};

#[derive(Template)]
#[template(path = "tokens.html")]
struct TokensContent<'a> {
    csrf: String,
    company: &'a str,
    may_revoke: bool,
    tokens: Vec<TokenRow>,
    pager: Pager,
}

struct TokenRow {
    id: String,
    holder: String,
    origin: String,
    scopes: Vec<&'static str>,
    made: Moment,
}

/// GET /tokens.
pub(super) async fn list_tokens(
    TokenReader(acting): TokenReader,
    Query(part): Query<Part>,
) -> Result<Response, ApiError> {
    let company = &acting.company;
    let read = |snapshot: &Snapshot| {
        let listed = snapshot.access_tokens(company.slot, &part.page())?;
        listed.load(|token| token_row(snapshot, &token, &acting.session))
    };
    let listed = acting.state.switch.read(read).await?;
    let pager = Pager::new(part, listed.rows.len(), listed.count, "/tokens", &[]);
    let content = TokensContent {
        csrf: acting.csrf(),
        company: &company.name,
        may_revoke: Right::RevokeTokens.is_with(&acting.session),
        tokens: listed.rows,
        pager,
    };
    Ok(frame::page("Access tokens", content))
}

fn token_row(
    snapshot: &Snapshot,
    token: &AccessToken,
    session: &Session,
) -> Result<TokenRow, StoreError> {
    let app = token.app().map(|app| snapshot.row::<App>(app)).transpose()?.flatten();
    let member = token.member().map(|member| snapshot.row::<Member>(member)).transpose()?.flatten();
    // Tokens of an app show its present name; others show the label they were given.
    let label = Some(token.label().to_owned()).filter(|label| !label.is_empty());
    let holder = app.map(|app| app.name).or(label);
    Ok(TokenRow {
        id: token.id.0.to_string(),
        holder: holder.unwrap_or_else(|| "Operator (CLI)".to_owned()),
        origin: origin_words(token.origin(), member.as_ref()),
        scopes: names(token.scope),
        made: shown_moment(token.created_at, session),
    })
}

/// The origin of a token: the giver, and the way it was given.
fn origin_words(origin: Option<TokenOrigin>, member: Option<&Member>) -> String {
    let who = member.map_or("a member", |member| member.email.as_str());
    match origin {
        Some(TokenOrigin::Code) => format!("{who}, via OAuth"),
        Some(TokenOrigin::Password) => format!("{who}, via password grant"),
        Some(TokenOrigin::OwnCompany) => format!("{who}, as owner of the app"),
        Some(TokenOrigin::Operator) | None => "Operator (CLI)".to_owned(),
    }
}

/// Takes access away. POST /tokens/{id}/revoke.
pub(super) async fn revoke_token(
    TokenRevoker(acting): TokenRevoker,
    PathId(id): PathId,
    _: SiteForm<IgnoredAny>,
) -> Result<Response, ApiError> {
    let command =
        AdminCommand::AccessToken(AccessTokenCommand::Revoke(acting.company.id, AccessTokenId(id)));
    acting.state.carry_out(command).await?;
    Ok(acting.go_on("/tokens", Notice::TOKEN_REVOKED))
}
