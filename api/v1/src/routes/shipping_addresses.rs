//! Shipping addresses: each company has one, which its physical cards may be sent to. Extension.

use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, PathId};
use cardswitch_edge::json::Json;
use cardswitch_identity::auth::Call;
use cardswitch_wire::address::{ShippingAddressBody, shipping_address_id};

/// Retrieve the company's shipping address.
#[utoipa::path(
    get, path = "/v1/shipping-addresses/{shipping_address_id}",
    responses((status = 200, body = ShippingAddressBody)),
)]
pub async fn get_shipping_address(
    Call(state, caller): Call,
    PathId(id): PathId,
) -> Answer<Json<ShippingAddressBody>> {
    if id != shipping_address_id(caller.company.id) {
        return Err(ApiError::not_found());
    }
    Ok(Json(ShippingAddressBody::new(&caller.company, state.urls())))
}
