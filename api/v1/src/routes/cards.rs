//! Cards: listing, ordering, changing and closing them. Source: spec "Cards".

use axum::http::StatusCode;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, JsonBody, ListQuery, PathId};
use cardswitch_edge::json::Json;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::card::{
    CardChanges, CardCommand, CardDestination, CardOrder, SettableCardState,
};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{CardId, CompanyId, MemberId};
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{CardFilter, CardRow, ListPage};
use cardswitch_identity::auth::Call;
use cardswitch_secrets::issuing::IssuingOrder;
use cardswitch_wire::address::{
    AddressBody, NewAddress, NewShippingAddress, read_address, read_shipping_address,
};
use cardswitch_wire::bodies;
use cardswitch_wire::body::{Presence, part, reference, rule};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::{self, Fields};
use cardswitch_wire::page::{Listing, PageParameters};
use cardswitch_wire::queries;
use cardswitch_wire::query::Query;
use cardswitch_wire::reference::{
    DimensionReference, MemberReference, SharedLinkReference, render_last_four, render_suspension,
};
use cardswitch_wire::time::{render_date, render_time};
use chrono_tz::Tz;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::allowances::{AllowanceBody, NewAllowance, parse_new_allowance};
use super::card_texts::{parse_card_texts, parse_text_changes, parse_text_parts};
use super::dimensions::{fault_dimensions, filter_dimensions, parse_dimensions};
use super::issuing::{draw_card, issue};
use super::view::{BY_CREATION, Reader, View, list_view, read_view};
use crate::words;

/// A card as responses show it. Source: spec "Card".
#[derive(Debug, Serialize, ToSchema)]
pub struct CardBody {
    id: Uuid,
    url: String,
    allowance: AllowanceBody,
    description: String,
    expiration: String,
    is_virtual: bool,
    last_four: String,
    #[schema(value_type = words::CardState)]
    state: &'static str,
    /// Extension: why it is suspended.
    #[schema(value_type = Option<words::SuspensionReason>)]
    suspension_reason: Option<&'static str>,
    assigned_to: Option<MemberReference>,
    category: Option<DimensionReference>,
    department: Option<DimensionReference>,
    location: Option<DimensionReference>,
    label: Option<DimensionReference>,
    billing_address: AddressBody,
    /// The newest link by which it is shared, for administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    shared_link: Option<SharedLinkReference>,
    created_at: String,
}

impl CardBody {
    /// The card as it is shown.
    /// Errors: an object that it refers to cannot be read.
    pub fn new(card: &CardRow, view: &View<'_>) -> Result<Self, StoreError> {
        let (profile, usage) = (&card.profile, &card.record.usage);
        let [category, department, label, location] =
            view.dimension_references(&profile.dimensions)?;
        let own_address = profile.billing_address.as_ref();
        Ok(Self {
            id: profile.id.0,
            url: view.urls.object("cards", profile.id.0),
            allowance: AllowanceBody::new(card, view),
            description: profile.texts.description.clone(),
            expiration: render_date(card.record.expires_on),
            is_virtual: profile.is_virtual,
            last_four: render_last_four(profile.last_four),
            state: usage.state.word(),
            suspension_reason: render_suspension(usage.suspension),
            assigned_to: view.member_reference(profile.assigned_to)?,
            category,
            department,
            location,
            label,
            billing_address: AddressBody::new(own_address.unwrap_or(&view.company.billing_address)),
            shared_link: view.shared_link_of(profile.slot)?,
            created_at: render_time(profile.created_at),
        })
    }
}

bodies! {
    /// A new card.
    NewCard "NewCard" |fields| _ = parse_order(fields, CompanyTerms::of_none());
    /// Changes of a card; absent fields stay, null clears.
    CardUpdate "CardUpdate" |fields| _ = parse_card_changes(fields);
}

queries! {
    /// The filters of a list of cards.
    CardFilters |query| _ = ListCardsRequest::parse(query);
}

const ASSIGNED_ABOUT: &str = "The member who uses it.";
const DIMENSION_ABOUT: &str = "The category of its transactions.";

/// The defaults that a card takes from its company.
#[derive(Clone, Copy)]
pub(super) struct CompanyTerms {
    company: CompanyId,
    currency: CurrencyCode,
    zone: Tz,
}

impl From<&Company> for CompanyTerms {
    fn from(company: &Company) -> Self {
        Self { company: company.id, currency: company.currency, zone: company.zone }
    }
}

impl CompanyTerms {
    /// The terms of no company.
    pub(super) fn of_none() -> Self {
        let (company, currency) = (CompanyId(Uuid::nil()), CurrencyCode::default());
        Self { company, currency, zone: Tz::default() }
    }
}

/// The body of POST /v1/cards, read.
pub(super) fn parse_order(fields: &mut Fields<'_>, of: CompanyTerms) -> IssuingOrder {
    let read = |inner: &mut Fields<'_>| parse_new_allowance(inner, of.currency);
    let terms = fields.must_object::<NewAllowance, _>("allowance", "Spending limits.", read);
    let texts = parse_card_texts(fields);
    let is_virtual = rule(|_| json!({"type": "boolean"}), |value| fields::boolean(value).map(Some));
    let about = "Whether it has no plastic; a physical one needs `shipping_address`.";
    let is_physical = fields.must("is_virtual", about, is_virtual) == Some(false);
    let shipping_address = parse_shipping_address(fields, of, is_physical);
    let about = "The company's where there is none.";
    let billing_address =
        fields.patch_object::<NewAddress, _>("billing_address", about, read_address).flatten();
    let order = CardOrder {
        company: of.company,
        terms: terms.unwrap_or_else(|| AllowanceTerms::budget(Default::default())),
        is_virtual: !is_physical,
        shipping_address,
        texts,
        billing_address,
        assigned_to: fields.patch("assigned_to", ASSIGNED_ABOUT, reference(MemberId)).flatten(),
        dimensions: parse_dimensions(fields, DIMENSION_ABOUT).map(Option::flatten),
    };
    IssuingOrder { order, zone: of.zone, pin: None }
}

fn parse_shipping_address(
    fields: &mut Fields<'_>,
    of: CompanyTerms,
    is_physical: bool,
) -> Option<CardDestination> {
    let (name, about) = ("shipping_address", "Shipping address of a physical card.");
    fields.describe(name, about, Presence::Nullable, part::<NewShippingAddress>);
    if !is_physical {
        return None;
    }
    if !fields.has(name) {
        fields.fault(name, Flaw::new("required", "is required for physical cards"));
    }
    fields.object(name, |inner| read_shipping_address(inner, of.company))
}

/// The body of PUT /v1/cards/:card_id.
fn parse_card_changes(fields: &mut Fields<'_>) -> CardChanges {
    let assigned_to = fields.patch("assigned_to", ASSIGNED_ABOUT, reference(MemberId));
    let state = rule(part::<words::SettableCardState>, settable_state);
    CardChanges {
        texts: parse_text_changes(fields),
        state: fields.may("state", "Its state. A card is closed by DELETE.", state),
        assigned_to,
        dimensions: parse_dimensions(fields, DIMENSION_ABOUT),
        billing_address: fields.patch_object::<NewAddress, _>(
            "billing_address",
            "The company's where null.",
            read_address,
        ),
    }
}

fn settable_state(value: &RawValue) -> Result<SettableCardState, Flaw> {
    let text = fields::text(value).unwrap_or_default();
    match CardState::parse(&text) {
        Some(CardState::Active) => Ok(SettableCardState::Active),
        Some(CardState::Suspended) => Ok(SettableCardState::Suspended),
        Some(CardState::Terminated) => {
            Err(Flaw::new("not_settable", "cannot be set to `terminated`; delete the card instead"))
        }
        Some(CardState::Unactivated) => {
            Err(Flaw::new("not_settable", "cannot be set back to `unactivated`"))
        }
        None => Err(Flaw::new("unknown_value", "must be `active` or `suspended`")),
    }
}

/// The filters of GET /v1/cards, read; ids stay ids until the tables are at hand.
#[derive(Debug)]
pub struct ListCardsRequest {
    assigned_to: Option<MemberId>,
    filter: CardFilter,
}

impl ListCardsRequest {
    /// Reads the filters; faults stay in the query.
    pub fn parse(query: &mut Query) -> Self {
        let assigned_to = query.id("assigned_to", "Assigned to this member.").map(MemberId);
        let dimensions = filter_dimensions(query);
        let states = query.words(
            ("state", "card states"),
            "In one of these states, with commas between them.",
            &CardState::WORDS,
            CardState::parse,
        );
        let contains = parse_text_parts(query);
        let filter = CardFilter { dimensions, states, contains, ..CardFilter::default() };
        Self { assigned_to, filter }
    }

    /// The filter as the tables take it; none where it names somebody or something unknown.
    /// Errors: the tables cannot be read.
    pub fn resolve(&self, view: &View<'_>) -> Result<Option<CardFilter>, StoreError> {
        if view.unknown_dimensions(&self.filter.dimensions)?.contains(&true) {
            return Ok(None);
        }
        let filter = self.filter.clone();
        let Some(id) = self.assigned_to else { return Ok(Some(filter)) };
        let member = view.find_member(id)?;
        Ok(member.map(|member| CardFilter { assigned_to: Some(member.slot), ..filter }))
    }
}

/// List cards, the newest first.
#[utoipa::path(
    get, path = "/v1/cards", params(PageParameters, CardFilters),
    responses((status = 200, body = Listing<CardBody>)),
)]
pub async fn list_cards(call: Call, list: ListQuery) -> Answer<Json<Listing<CardBody>>> {
    list_view(&call, list, BY_CREATION, ListCardsRequest::parse, |view, request, page| {
        let Some(filter) = request.resolve(view)? else { return Ok(ListPage::EMPTY) };
        let cards = view.snapshot.list_cards(view.company.slot, &filter, page)?;
        cards.load(|card| CardBody::new(&card, view))
    })
    .await
}

/// Retrieve a card.
#[utoipa::path(get, path = "/v1/cards/{card_id}", responses((status = 200, body = CardBody)))]
pub async fn get_card(call: Call, PathId(id): PathId) -> Answer<Json<CardBody>> {
    read_card(&call, CardId(id)).await?.map(Json).ok_or_else(ApiError::not_found)
}

pub(super) async fn read_card(call: &Call, id: CardId) -> Result<Option<CardBody>, ApiError> {
    read_view(call, |view| {
        let card = view.find_card(id)?;
        card.map(|card| CardBody::new(&card, view)).transpose()
    })
    .await
}

/// Create a card with an allowance.
#[utoipa::path(
    post, path = "/v1/cards", request_body = NewCard, responses((status = 201, body = CardBody)),
)]
pub async fn create_card(call: Call, body: JsonBody) -> Answer<(StatusCode, Json<CardBody>)> {
    let id = make_card((&call).into(), body.fields()?).await?;
    let card = read_card(&call, id).await?.ok_or_else(ApiError::not_found)?;
    Ok((StatusCode::CREATED, Json(card)))
}

/// Makes the card that is asked for in `fields`.
/// Errors: faults of the fields, or the reason why the card was not made.
pub async fn make_card(reader: Reader<'_>, mut fields: Fields<'_>) -> Result<CardId, ApiError> {
    let order = parse_order(&mut fields, reader.company.into());
    let CardOrder { assigned_to, dimensions, .. } = order.order;
    let (is_assignable, unknown) = read_view(reader, |view| {
        Ok((view.is_assignable(assigned_to)?, view.unknown_dimensions(&dimensions)?))
    })
    .await?;
    if !is_assignable {
        fields.fault("assigned_to", Flaw::not_found("member"));
    }
    fault_dimensions(&mut fields, unknown);
    fields.finish()?;
    let draw = || {
        let card = draw_card(reader.state, &order)?;
        Ok((card.id, AdminCommand::Card(CardCommand::Issue(card))))
    };
    Ok(issue(reader.state, draw).await??)
}

/// Update a card.
#[utoipa::path(
    put, path = "/v1/cards/{card_id}", request_body = CardUpdate,
    responses((status = 200, body = CardBody)),
)]
pub async fn update_card(call: Call, PathId(id): PathId, body: JsonBody) -> Answer<Json<CardBody>> {
    let id = CardId(id);
    change_card((&call).into(), id, body.fields()?).await?;
    read_card(&call, id).await?.map(Json).ok_or_else(ApiError::not_found)
}

/// Changes what `fields` name of a card.
/// Errors: faults of the fields, there is no such card, or it was not changed.
pub async fn change_card(
    reader: Reader<'_>,
    id: CardId,
    mut fields: Fields<'_>,
) -> Result<(), ApiError> {
    let changes = parse_card_changes(&mut fields);
    let assigned_to = changes.assigned_to.flatten();
    let dimensions = changes.dimensions.map(Option::flatten);
    let (exists, is_assignable, unknown) = read_view(reader, |view| {
        let unknown = view.unknown_dimensions(&dimensions)?;
        Ok((view.find_card(id)?.is_some(), view.can_hold(assigned_to, id)?, unknown))
    })
    .await?;
    if !exists {
        return Err(ApiError::not_found());
    }
    if !is_assignable {
        fields.fault("assigned_to", Flaw::not_found("member"));
    }
    fault_dimensions(&mut fields, unknown);
    fields.finish()?;
    let command = AdminCommand::Card(CardCommand::Update(reader.company.id, id, changes));
    Ok(reader.state.carry_out(command).await?)
}

/// Close a card permanently.
#[utoipa::path(delete, path = "/v1/cards/{card_id}", responses((status = 204)))]
pub async fn delete_card(Call(state, caller): Call, PathId(id): PathId) -> Answer<StatusCode> {
    let command = AdminCommand::Card(CardCommand::Terminate(caller.company.id, CardId(id)));
    state.carry_out_unshown(command).await?;
    Ok(StatusCode::NO_CONTENT)
}
