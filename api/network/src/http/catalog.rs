//! Every operation of `/network/v1`, one line each. Method, path and description stand above the
//! handler; access tokens count for nothing here, handlers ask for the network key.

use std::sync::LazyLock;

use axum::Router;
use cardswitch_edge::operation::{Operation, document_of, routes_of};
use cardswitch_edge::operations;
use utoipa::OpenApi;

use super::state::DoorState;

/// The general part of the document of `/network/v1`.
#[derive(OpenApi)]
#[openapi(info(
    title = "cardswitch network door",
    description = "What card networks ask over ISO 8583, as JSON; and what only a simulation \
            needs. Approvals and declines alike are answers with status 200.",
))]
struct NetworkDocument;

static OPERATIONS: LazyLock<Vec<Operation<DoorState>>> = LazyLock::new(|| {
    let operations = operations! {
        "Purchases": "Messages of card networks: authorizations and later messages." {
            Open super::authorize,
            Open super::advise,
            Open super::increment,
            Open super::reverse,
            Open super::present,
            Open super::refund,
            Open super::carry_out_batch,
        }
        "Bank transfers": "Money from the company's bank and to it." {
            Open super::transfer,
            Open super::transfers::settle,
            Open super::transfers::bring_back,
        }
        "Simulation": "Card numbers and the clock, for simulations only." {
            Open super::cards::get_card,
            Open super::cards::list_transactions,
            Open super::clock::get_clock,
            Open super::clock::set_clock,
        }
    };
    operations.into()
});

/// The routes of `/network/v1`, to be merged with others.
pub fn network_routes() -> Router<DoorState> {
    routes_of(OPERATIONS.iter())
}

/// The document of `/network/v1`, before it is finished.
pub fn document() -> utoipa::openapi::OpenApi {
    document_of(NetworkDocument::openapi(), &OPERATIONS)
}
