//! Shipping addresses: each company has one, which its physical cards may be sent to. Extension.

use axum::Json;
use axum::extract::State;

use super::input::PathId;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::AppState;
use crate::wire::address::{ShippingAddressBody, shipping_address_id};

/// Shows the company's shipping address.
#[utoipa::path(
    get, path = "/v1/shipping-addresses/{shipping_address_id}",
    responses((status = 200, body = ShippingAddressBody)),
)]
pub async fn get_shipping_address(
    State(state): State<AppState>,
    caller: Caller,
    PathId(id): PathId,
) -> Result<Json<ShippingAddressBody>, ApiError> {
    if id != shipping_address_id(caller.company.id) {
        return Err(ApiError::not_found());
    }
    Ok(Json(ShippingAddressBody::new(&caller.company, state.urls())))
}
