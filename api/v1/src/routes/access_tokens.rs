//! Access tokens of a company: which there are, and their end. Source: spec "Authentication", 2.
//! Their texts are nowhere: they were shown once.

use axum::http::StatusCode;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, ListQuery, PathId};
use cardswitch_edge::json::Json;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::access_token::{AccessToken, AccessTokenCommand, TokenOrigin};
use cardswitch_engine::directory::app::App;
use cardswitch_engine::domain::ids::AccessTokenId;
use cardswitch_engine::store::StoreError;
use cardswitch_identity::auth::Call;
use cardswitch_identity::oauth::scope;
use cardswitch_wire::page::{Listing, PageParameters};
use cardswitch_wire::reference::MemberReference;
use cardswitch_wire::time::render_time;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::view::{BY_CREATION, View, list_view, read_view, unfiltered};
use crate::words;

/// The ways in which a token comes to be. Source: `TokenOrigin`.
pub const ORIGINS: [&str; 4] = ["operator", "authorization_code", "password", "own_company"];
/// An access token, without its text.
#[derive(Debug, Serialize, ToSchema)]
pub struct AccessTokenBody {
    id: Uuid,
    url: String,
    /// Label for people.
    label: String,
    #[schema(value_type = Vec<words::ScopeName>)]
    scope: Vec<&'static str>,
    #[schema(value_type = words::TokenOriginName)]
    origin: &'static str,
    /// The app that has it; null for one made by an operator.
    app: Option<AppReference>,
    /// The member that it acts for, where there is one.
    member: Option<MemberReference>,
    created_at: String,
}

/// An app within a token.
#[derive(Debug, Serialize, ToSchema)]
pub struct AppReference {
    /// Its `client_id`.
    pub id: Uuid,
    /// Its name.
    pub name: String,
}

impl AccessTokenBody {
    fn new(token: &AccessToken, view: &View<'_>) -> Result<Self, StoreError> {
        let app = token.app().map(|app| view.snapshot.row::<App>(app)).transpose()?.flatten();
        let origin = render_origin(token.origin());
        let member = view.member_reference(token.member())?;
        Ok(Self {
            id: token.id.0,
            url: view.urls.object("access-tokens", token.id.0),
            label: token.label().to_owned(),
            scope: scope::names(token.scope),
            origin,
            app: app.map(|app| AppReference { id: app.id.0, name: app.name }),
            member,
            created_at: render_time(token.created_at),
        })
    }
}

const fn render_origin(origin: Option<TokenOrigin>) -> &'static str {
    let [operator, code, password, own_company] = ORIGINS;
    match origin {
        Some(TokenOrigin::Operator) | None => operator,
        Some(TokenOrigin::Code) => code,
        Some(TokenOrigin::Password) => password,
        Some(TokenOrigin::OwnCompany) => own_company,
    }
}

/// List the company's access tokens, the newest first, without revoked ones.
#[utoipa::path(
    get, path = "/v1/access-tokens", params(PageParameters),
    responses((status = 200, body = Listing<AccessTokenBody>)),
)]
pub async fn list_access_tokens(
    call: Call,
    list: ListQuery,
) -> Answer<Json<Listing<AccessTokenBody>>> {
    list_view(&call, list, BY_CREATION, unfiltered, |view, (), page| {
        let found = view.snapshot.access_tokens(view.company.slot, page)?;
        found.load(|row| AccessTokenBody::new(&row, view))
    })
    .await
}

/// Retrieve an access token that was not revoked.
#[utoipa::path(
    get, path = "/v1/access-tokens/{access_token_id}",
    responses((status = 200, body = AccessTokenBody)),
)]
pub async fn get_access_token(call: Call, PathId(id): PathId) -> Answer<Json<AccessTokenBody>> {
    let body = read_view(&call, |view| {
        let id = AccessTokenId(id);
        let found = view.snapshot.access_token_by_id(view.company.slot, id)?;
        let Some(token) = found.filter(|token| !token.is_revoked) else { return Ok(None) };
        AccessTokenBody::new(&token, view).map(Some)
    });
    body.await?.map(Json).ok_or_else(ApiError::not_found)
}

/// Revoke an access token, which no longer works from then on.
#[utoipa::path(delete, path = "/v1/access-tokens/{access_token_id}", responses((status = 204)))]
pub async fn revoke_access_token(
    Call(state, caller): Call,
    PathId(id): PathId,
) -> Answer<StatusCode> {
    let command =
        AdminCommand::AccessToken(AccessTokenCommand::Revoke(caller.company.id, AccessTokenId(id)));
    match state.carry_out(command).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(WriteError::Rejected(Rejection::TokenNotFound)) => Err(ApiError::not_found()),
        Err(error) => Err(error.into()),
    }
}
