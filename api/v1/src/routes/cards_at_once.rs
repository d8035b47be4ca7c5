//! POST /v1/cards/bulk: several cards by one request, all of them or none. Extension.

use axum::http::StatusCode;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, JsonBody};
use cardswitch_edge::json::Json;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_engine::limits::CARDS_AT_ONCE_MAX;
use cardswitch_engine::store::StoreError;
use cardswitch_identity::actor_state::ActorState;
use cardswitch_identity::auth::Call;
use cardswitch_secrets::issuing::IssuingOrder;
use cardswitch_wire::bodies;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::Fields;
use cardswitch_wire::reference::DIMENSION_FIELDS;
use serde::Serialize;
use utoipa::ToSchema;

use super::cards::{self, CardBody, CompanyTerms, parse_order};
use super::issuing::{draw_card, issue};
use super::view::{View, read_view};

/// The longest body: each card as long as one alone is likely to be. Units: bytes.
pub const BULK_BODY_BYTES_MAX: usize = 512 * 1024;

/// Cards that were made, in the order asked for.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedCards {
    results: Vec<CardBody>,
}

bodies! {
    /// Cards to be made together.
    NewCards "NewCards" |fields| {
        _ = parse_cards(fields, CompanyTerms::of_none());
    };
}

/// Create several cards, all of them or none.
#[utoipa::path(
    post, path = "/v1/cards/bulk", request_body = NewCards,
    responses((status = 201, body = CreatedCards)),
)]
pub async fn create_cards(
    call: Call,
    body: JsonBody<BULK_BODY_BYTES_MAX>,
) -> Answer<(StatusCode, Json<CreatedCards>)> {
    let Call(state, caller) = &call;
    let mut fields = body.fields()?;
    let requests = parse_cards(&mut fields, (&*caller.company).into());
    let faults = read_view(&call, |view| {
        let unknown = |(place, request): &(usize, _)| Ok((*place, unknown_in(request, view)?));
        requests.iter().map(unknown).collect::<Result<Vec<_>, StoreError>>()
    });
    for (place, faults) in faults.await? {
        for (name, noun) in faults {
            fields.fault(&format!("cards.{place}.{name}"), Flaw::not_found(noun));
        }
    }
    fields.finish()?;
    let orders: Vec<_> = requests.into_iter().map(|(_, order)| order).collect();
    let ids = issue_cards(state, &orders).await?;
    let results = read_view(&call, |view| {
        let cards = ids.iter().filter_map(|id| view.find_card(*id).transpose());
        cards.map(|card| CardBody::new(&card?, view)).collect::<Result<_, _>>()
    });
    Ok((StatusCode::CREATED, Json(CreatedCards { results: results.await? })))
}

/// Reads the cards, each with its place.
fn parse_cards(fields: &mut Fields<'_>, of: CompanyTerms) -> Vec<(usize, IssuingOrder)> {
    let read = |place, inner: &mut Fields<'_>| (place, parse_order(inner, of));
    let about = "The cards; at least one.";
    fields.must_objects::<cards::NewCard, _>("cards", about, CARDS_AT_ONCE_MAX, read)
}

/// The references of a card to missing objects: the field, and the kind of object it should name.
fn unknown_in(
    request: &IssuingOrder,
    view: &View<'_>,
) -> Result<Vec<(&'static str, &'static str)>, StoreError> {
    let mut unknown = Vec::new();
    if !view.is_assignable(request.order.assigned_to)? {
        unknown.push(("assigned_to", "member"));
    }
    let dimensions = view.unknown_dimensions(&request.order.dimensions)?;
    let names = DIMENSION_FIELDS.into_iter().zip(dimensions);
    unknown.extend(names.filter(|(_, is_unknown)| *is_unknown).map(|(name, _)| (name, name)));
    Ok(unknown)
}

/// The ids of the cards, once all are issued.
async fn issue_cards(state: &ActorState, orders: &[IssuingOrder]) -> Result<Vec<CardId>, ApiError> {
    let draw = || {
        let cards = orders.iter().map(|order| draw_card(state, order));
        let cards = cards.collect::<Result<Vec<_>, _>>()?;
        let ids = cards.iter().map(|card| card.id).collect();
        Ok((ids, AdminCommand::Card(CardCommand::IssueTogether(cards))))
    };
    Ok(issue(state, draw).await??)
}
