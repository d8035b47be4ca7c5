//! Which handlers the document of `/network/v1` shows.

use utoipa::OpenApi;

/// The operations of `/network/v1`.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "cardswitch network door",
        description = "What card networks ask over ISO 8583, as JSON; and what only a simulation \
            needs. Approvals and declines alike are answers with status 200.",
    ),
    tags(
        (name = "Purchases", description = "What card networks ask: authorizations and what follows them."),
        (name = "Bank transfers", description = "Money from the company's bank and to it."),
        (name = "Simulation", description = "What only a simulation needs: card numbers and the clock."),
    ),
    paths(
        super::authorize,
        super::advise,
        super::increment,
        super::reverse,
        super::present,
        super::refund,
        super::carry_out_batch,
        super::transfer,
        super::transfers::settle,
        super::transfers::bring_back,
        super::cards::get_card,
        super::cards::list_transactions,
        super::clock::get_clock,
        super::clock::set_clock,
    ),
)]
#[derive(Debug)]
pub struct NetworkCatalog;
