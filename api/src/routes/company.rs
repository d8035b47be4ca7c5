//! The caller's company. Source: spec "Company".

use axum::Json;
use axum::extract::State;
use cardswitch_engine::domain::company::Company;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::auth::ReadAccess;
use crate::state::AppState;
use crate::wire::address::ShippingAddressBody;
use crate::wire::time::render_time;
use crate::wire::urls::Urls;

/// A company as responses show it. Source: spec "Company".
#[derive(Debug, Serialize, ToSchema)]
pub struct CompanyBody {
    id: Uuid,
    url: String,
    name: String,
    website: String,
    shipping_address: ShippingAddressBody,
    /// Single sign-on is not set up anywhere yet.
    #[schema(value_type = Option<Object>)]
    sso: Option<()>,
    created_at: String,
}

impl CompanyBody {
    /// The company as it is shown.
    #[must_use]
    pub fn new(company: &Company, urls: &Urls) -> Self {
        Self {
            id: company.id.0,
            url: urls.path("/v1/company"),
            name: company.name.clone(),
            website: company.website.clone(),
            shipping_address: ShippingAddressBody::new(company, urls),
            sso: None,
            created_at: render_time(company.created_at),
        }
    }
}

/// Shows the company.
#[utoipa::path(
    get,
    path = "/v1/company",
    tag = "Company",
    responses((status = 200, body = CompanyBody)),
)]
pub async fn get_company(
    State(state): State<AppState>,
    ReadAccess(caller): ReadAccess,
) -> Json<CompanyBody> {
    Json(CompanyBody::new(&caller.company, state.urls()))
}
