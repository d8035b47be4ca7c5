//! Requisitions: members ask to buy something, administrators and reviewers approve or deny it.
//! Source: spec "Requisitions"; everything but reading is an extension.

use axum::http::StatusCode;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, JsonBody, ListQuery, PathId};
use cardswitch_edge::json::Json;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::command::seen_object::{SeenObject, WatchedObject};
use cardswitch_engine::directory::card::CardOrder;
use cardswitch_engine::directory::member::{MemberRole, MemberState};
use cardswitch_engine::directory::requisition::{
    NewRequisition, Requisition, RequisitionChanges, RequisitionCommand, RequisitionStatus,
    RequisitionVerdict, Review,
};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::card::Dimensions;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{CardId, CompanyId, MemberId, RequisitionId, Timestamp};
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{ListPage, RequisitionFilter};
use cardswitch_identity::auth::Call;
use cardswitch_secrets::issuing::IssuingOrder;
use cardswitch_wire::amount::Amount;
use cardswitch_wire::bodies;
use cardswitch_wire::body::{later, limit, line, paragraph, part, reference, rule};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::{self, Fields};
use cardswitch_wire::page::{Listing, PageParameters};
use cardswitch_wire::queries;
use cardswitch_wire::query::Query;
use cardswitch_wire::reference::{CardReference, DimensionReference, MemberReference};
use cardswitch_wire::time::render_time;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::dimensions::{fault_dimensions, parse_dimensions};
use super::entity_tag::{IfMatch, TaggedBody};
use super::issuing::{draw_card, issue};
use super::view::{BY_CREATION, Reader, View, list_view, read_view};
use crate::words;

/// The most characters a description has.
const DESCRIPTION_CHARS_MAX: usize = 1_000;
/// The most characters a note has.
const NOTE_CHARS_MAX: usize = 1_000;

/// A requisition as responses show it. Source: spec "Requisition".
#[derive(Debug, Serialize, ToSchema)]
pub struct RequisitionBody {
    id: Uuid,
    url: String,
    amount: Amount,
    approved_at: Option<String>,
    card: Option<CardReference>,
    category: Option<DimensionReference>,
    department: Option<DimensionReference>,
    label: Option<DimensionReference>,
    location: Option<DimensionReference>,
    description: String,
    end_time: Option<String>,
    member: Option<MemberReference>,
    note: Option<String>,
    reviewed_by: Option<MemberReference>,
    #[schema(value_type = words::RequisitionStatus)]
    status: &'static str,
    created_at: String,
}

impl RequisitionBody {
    /// The requisition as it is shown.
    /// Errors: an object that it refers to cannot be read.
    pub fn new(requisition: &Requisition, view: &View<'_>) -> Result<Self, StoreError> {
        let [category, department, label, location] =
            view.dimension_references(&requisition.dimensions)?;
        Ok(Self {
            id: requisition.id.0,
            url: view.urls.object("requisitions", requisition.id.0),
            amount: Amount::new(requisition.amount, view.company.currency),
            approved_at: requisition.approved_at.map(render_time),
            card: view.card_reference(requisition.card)?,
            category,
            department,
            label,
            location,
            description: requisition.description.clone(),
            end_time: requisition.end_time.map(render_time),
            member: view.member_reference(Some(requisition.member))?,
            note: requisition.note.clone(),
            reviewed_by: view.member_reference(requisition.reviewed_by)?,
            status: requisition.status.word(),
            created_at: render_time(requisition.created_at),
        })
    }
}

/// A requisition within a transaction. Source: spec "Transaction", requisition.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RequisitionSummary {
    id: Uuid,
    #[schema(value_type = words::RequisitionStatus)]
    status: &'static str,
    description: String,
    amount: Amount,
}

impl RequisitionSummary {
    /// The summary of a requisition of a company with this currency.
    pub(super) fn new(requisition: Requisition, currency: CurrencyCode) -> Self {
        Self {
            id: requisition.id.0,
            status: requisition.status.word(),
            amount: Amount::new(requisition.amount, currency),
            description: requisition.description,
        }
    }
}

bodies! {
    /// A purchase that a member asks for.
    NewRequisitionBody "NewRequisition" |fields| {
        let ids = (RequisitionId(Uuid::nil()), CompanyId(Uuid::nil()));
        let money = (CurrencyCode(0), Timestamp(0));
        _ = parse_new_requisition(fields, ids, None, money);
    };
    /// Changes of a requisition; absent fields stay, null clears.
    RequisitionUpdate "RequisitionUpdate" |fields| {
        _ = UpdateRequisitionRequest::parse(fields, CurrencyCode(0), Timestamp(0));
    };
}

queries! {
    /// The filters of a list of requisitions.
    RequisitionFilters |query| _ = ListRequisitionsRequest::parse(query);
}

/// The body of POST /v1/requisitions, read.
fn parse_new_requisition(
    fields: &mut Fields<'_>,
    (id, company): (RequisitionId, CompanyId),
    own: Option<MemberId>,
    (currency, now): (CurrencyCode, Timestamp),
) -> NewRequisition {
    let end_time = fields.patch("end_time", "Last instant for the purchase.", later(now)).flatten();
    NewRequisition {
        id,
        company,
        member: parse_requester(fields, own),
        amount: fields.must("amount", "How much.", limit(currency, "must be above 0")),
        description: fields.must("description", "Purpose.", line(DESCRIPTION_CHARS_MAX)),
        end_time,
        note: fields.patch("note", "A note.", paragraph(NOTE_CHARS_MAX)).flatten(),
        dimensions: parse_dimensions(fields, "Its category.").map(Option::flatten),
    }
}

/// The member in whose name a purchase is asked for: another's, or the token's own.
fn parse_requester(fields: &mut Fields<'_>, own: Option<MemberId>) -> MemberId {
    let about = "Requesting member; the token's own where absent, required if it has none.";
    let member = fields.may("member", about, reference(MemberId)).or(own);
    if member.is_none() && !fields.is_faulty("member") {
        fields.fault("member", Flaw::required());
    }
    member.unwrap_or(MemberId(Uuid::nil()))
}

/// The body of PUT /v1/requisitions/:requisition_id.
#[derive(Debug)]
struct UpdateRequisitionRequest {
    changes: RequisitionChanges,
    /// The new status; the present one is allowed and changes nothing.
    status: Option<RequestedVerdict>,
    card: Option<CardId>,
    reviewed_by: Option<MemberId>,
}

impl UpdateRequisitionRequest {
    fn parse(fields: &mut Fields<'_>, currency: CurrencyCode, now: Timestamp) -> Self {
        let changes = RequisitionChanges {
            amount: fields.may("amount", "How much.", limit(currency, "must be above 0")),
            description: fields.may("description", "Purpose.", line(DESCRIPTION_CHARS_MAX)),
            end_time: fields.patch("end_time", "Last instant for the purchase.", later(now)),
            note: fields.patch("note", "A note.", paragraph(NOTE_CHARS_MAX)),
            dimensions: parse_dimensions(fields, "Its category."),
            review: None,
        };
        let status = rule(part::<words::RequisitionVerdict>, settable_status);
        let status = fields.may("status", "The verdict.", status);
        let about =
            "The card that fulfils it; where it is approved without one, a virtual card is made.";
        let card = fields.patch("card", about, reference(CardId)).flatten();
        if card.is_some() && status != Some(RequestedVerdict::Approved) {
            fields.fault("card", Flaw::new("not_settable", "is set by approving only"));
        }
        let reviewed_by = fields.patch("reviewed_by", "Reviewer.", reference(MemberId));
        Self { changes, status, card, reviewed_by: reviewed_by.flatten() }
    }

    fn of(reader: Reader<'_>, fields: &mut Fields<'_>) -> Self {
        Self::parse(fields, reader.company.currency, reader.state.now())
    }

    fn dimensions(&self) -> Dimensions {
        self.changes.dimensions.map(Option::flatten)
    }

    /// The references of this request to missing objects.
    fn check(&self, view: &View<'_>) -> Result<MissingReferences, StoreError> {
        let card = self.card.map(|id| view.find_card(id)).transpose()?;
        let reviewer = self.reviewed_by.map(|id| may_review(view, id)).transpose()?;
        Ok(MissingReferences {
            dimensions: view.unknown_dimensions(&self.dimensions())?,
            card: card.is_some_and(|card| card.is_none()),
            reviewer: reviewer == Some(false),
        })
    }
}

/// The fields of a body that name missing objects.
#[derive(Debug)]
struct MissingReferences {
    dimensions: [bool; 4],
    card: bool,
    reviewer: bool,
}

impl MissingReferences {
    fn fault(&self, fields: &mut Fields<'_>) {
        fault_dimensions(fields, self.dimensions);
        if self.card {
            fields.fault("card", Flaw::not_found("card"));
        }
        if self.reviewer {
            fields.fault("reviewed_by", Flaw::not_found("administrator or reviewer"));
        }
    }
}

/// The member that a token acts for, where that one may review.
fn reviewer_of(view: &View<'_>, by: Option<MemberId>) -> Result<Option<MemberId>, StoreError> {
    let Some(id) = by else { return Ok(None) };
    Ok(may_review(view, id)?.then_some(id))
}

fn may_review(view: &View<'_>, id: MemberId) -> Result<bool, StoreError> {
    let member = view.find_member(id)?;
    Ok(member.is_some_and(|member| {
        let is_reviewer = matches!(member.role, MemberRole::Administrator | MemberRole::Reviewer);
        member.state == MemberState::Active && is_reviewer
    }))
}

/// The status that a body sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestedVerdict {
    Approved,
    Denied,
}

fn settable_status(value: &RawValue) -> Result<RequestedVerdict, Flaw> {
    match &*fields::borrowed_text(value).unwrap_or_default() {
        "approved" => Ok(RequestedVerdict::Approved),
        "denied" => Ok(RequestedVerdict::Denied),
        "canceled" => {
            let message = "cannot be set to `canceled`; delete the requisition instead";
            Err(Flaw::new("not_settable", message))
        }
        _ => Err(Flaw::new("unknown_value", "must be `approved` or `denied`")),
    }
}

/// The filters of GET /v1/requisitions; ids stay ids until the tables are at hand.
#[derive(Debug)]
struct ListRequisitionsRequest {
    card: Option<CardId>,
    member: Option<MemberId>,
    statuses: Vec<RequisitionStatus>,
}

impl ListRequisitionsRequest {
    fn parse(query: &mut Query) -> Self {
        Self {
            card: query.id("card", "Fulfilled by this card.").map(CardId),
            member: query.id("member", "Asked for by this member.").map(MemberId),
            statuses: query.words(
                ("status", "statuses of requisitions"),
                "In one of these statuses, with commas between them.",
                &RequisitionStatus::WORDS,
                RequisitionStatus::parse,
            ),
        }
    }

    /// The filter as the tables take it; none where it names what is not there.
    fn resolve(&self, view: &View<'_>) -> Result<Option<RequisitionFilter>, StoreError> {
        let statuses = self.statuses.clone();
        let mut filter = RequisitionFilter { statuses, ..Default::default() };
        if let Some(id) = self.card {
            let Some(card) = view.find_card(id)? else { return Ok(None) };
            filter.card = Some(card.profile.slot);
        }
        if let Some(id) = self.member {
            let Some(member) = view.find_member(id)? else { return Ok(None) };
            filter.member = Some(member.slot);
        }
        Ok(Some(filter))
    }
}

/// List requisitions, the newest first.
#[utoipa::path(
    get, path = "/v1/requisitions", params(PageParameters, RequisitionFilters),
    responses((status = 200, body = Listing<RequisitionBody>)),
)]
pub async fn list_requisitions(
    call: Call,
    list: ListQuery,
) -> Answer<Json<Listing<RequisitionBody>>> {
    list_view(&call, list, BY_CREATION, ListRequisitionsRequest::parse, |view, request, page| {
        let Some(filter) = request.resolve(view)? else { return Ok(ListPage::EMPTY) };
        let found = view.snapshot.list_requisitions(view.company.slot, &filter, page)?;
        found.load(|requisition| RequisitionBody::new(&requisition, view))
    })
    .await
}

/// Retrieve a requisition.
#[utoipa::path(
    get, path = "/v1/requisitions/{requisition_id}",
    responses((status = 200, body = RequisitionBody,
        headers(("etag" = String, description = "Changes with the requisition; for `If-Match`.")))),
)]
pub async fn get_requisition(
    call: Call,
    PathId(id): PathId,
) -> Answer<TaggedBody<RequisitionBody>> {
    read_requisition(&call, RequisitionId(id)).await.map(TaggedBody)
}

/// Errors: the company has no such requisition.
async fn read_requisition(call: &Call, id: RequisitionId) -> Result<RequisitionBody, ApiError> {
    let body = read_view(call, |view| {
        let requisition = view.snapshot.own::<Requisition>(view.company.slot, id)?;
        requisition.map(|requisition| RequisitionBody::new(&requisition, view)).transpose()
    });
    body.await?.ok_or_else(ApiError::not_found)
}

/// Ask for a purchase in a member's name.
#[utoipa::path(
    post, path = "/v1/requisitions", request_body = NewRequisitionBody,
    responses((status = 201, body = RequisitionBody)),
)]
pub async fn create_requisition(
    call: Call,
    body: JsonBody,
) -> Answer<(StatusCode, Json<RequisitionBody>)> {
    let id = ask_for((&call).into(), call.1.member, body.fields()?).await?;
    Ok((StatusCode::CREATED, Json(read_requisition(&call, id).await?)))
}

/// Makes the requisition that `fields` describe, in the name of `own` where they name nobody.
/// Errors: faults of the fields, or the reason against the request.
pub async fn ask_for(
    reader: Reader<'_>,
    own: Option<MemberId>,
    mut fields: Fields<'_>,
) -> Result<RequisitionId, ApiError> {
    let company = reader.company;
    let id = RequisitionId(reader.state.switch.new_id());
    let (ids, now) = ((id, company.id), reader.state.now());
    let new = parse_new_requisition(&mut fields, ids, own, (company.currency, now));
    let (is_member, unknown) = read_view(reader, |view| {
        Ok((view.is_assignable(Some(new.member))?, view.unknown_dimensions(&new.dimensions)?))
    })
    .await?;
    if !is_member && !fields.is_faulty("member") {
        fields.fault("member", Flaw::not_found("active member"));
    }
    fault_dimensions(&mut fields, unknown);
    fields.finish()?;
    check_network(reader)?;
    match reader.state.carry_out(AdminCommand::Requisition(RequisitionCommand::Create(new))).await {
        Ok(()) => Ok(id),
        Err(WriteError::Rejected(Rejection::MemberNotFound)) => {
            Err(ApiError::invalid_field("member", Flaw::not_found("active member")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Errors: the company's cards are of another network than the one requisitions are for.
/// Source: spec "Requisition".
pub fn check_network(reader: Reader<'_>) -> Result<(), ApiError> {
    let wanted = &reader.state.config.requisition_network;
    if reader.company.network.eq_ignore_ascii_case(wanted) {
        return Ok(());
    }
    Err(ApiError::network_not_supported(wanted))
}

/// Update, approve or deny a requisition.
///
/// A verdict should say by `If-Match` what was looked at: members may change pending requisitions.
#[utoipa::path(
    put, path = "/v1/requisitions/{requisition_id}",
    params(("If-Match" = Option<String>, Header,
        description = "The `etag` of the requisition as it was read: if it has changed since, nothing is done.")),
    request_body(content = RequisitionUpdate, example = json!({"status": "approved", "note": "For the audit"})),
    responses((status = 200, body = RequisitionBody,
        headers(("etag" = String, description = "Changes with the requisition; for `If-Match`.")))),
)]
pub async fn update_requisition(
    call: Call,
    PathId(id): PathId,
    if_match: IfMatch,
    body: JsonBody,
) -> Answer<TaggedBody<RequisitionBody>> {
    let id = RequisitionId(id);
    let Call(state, caller) = &call;
    let fields = body.fields()?;
    if if_match.is_given() {
        let since = state.switch.shown_seq().await;
        if_match.check(&read_requisition(&call, id).await?)?;
        let seen = SeenObject { object: WatchedObject::Row(id.0), since };
        let state = state.clone().if_unchanged(seen);
        let reader = Reader { state: &state, ..(&call).into() };
        change_requisition((reader, caller.member), id, fields).await?;
    } else {
        change_requisition(((&call).into(), caller.member), id, fields).await?;
    }
    read_requisition(&call, id).await.map(TaggedBody)
}

/// Changes, approves or denies a requisition as `fields` say, by the acting member where that is known.
/// Errors: faults of the fields, or the reason against the change; the company has no such
/// requisition.
pub async fn change_requisition(
    (reader, by): (Reader<'_>, Option<MemberId>),
    id: RequisitionId,
    mut fields: Fields<'_>,
) -> Result<(), ApiError> {
    let mut request = UpdateRequisitionRequest::of(reader, &mut fields);
    let (known, unknown, own) = read_view(reader, |view| {
        let known = view.snapshot.own::<Requisition>(view.company.slot, id)?;
        Ok((known, request.check(view)?, reviewer_of(view, by)?))
    })
    .await?;
    // Nobody gives a verdict in another's name; a token that acts for no reviewer has none of its own.
    let is_other = request.reviewed_by.is_some_and(|named| Some(named) != own);
    if own.is_some() && is_other && !unknown.reviewer {
        let flaw = Flaw::new("not_settable", "must be the member that the token acts for");
        fields.fault("reviewed_by", flaw);
    }
    request.reviewed_by = request.reviewed_by.or(own);
    let known = known.ok_or_else(ApiError::not_found)?;
    unknown.fault(&mut fields);
    fields.finish()?;
    Ok(carry_out(reader, &known, request).await??)
}

/// Has the change made; numbers for a card are drawn until one is free.
/// Errors: no number can be drawn; within: the change was not made.
async fn carry_out(
    Reader { state, company, .. }: Reader<'_>,
    known: &Requisition,
    request: UpdateRequisitionRequest,
) -> Result<Result<(), WriteError>, ApiError> {
    let UpdateRequisitionRequest { changes, status, card, reviewed_by } = request;
    let update = |verdict: Option<RequisitionVerdict>| {
        let review = verdict.map(|verdict| Review { verdict, reviewed_by });
        let changes = RequisitionChanges { review, ..changes.clone() };
        AdminCommand::Requisition(RequisitionCommand::Update(company.id, known.id, changes))
    };
    let verdict = match (status, card) {
        (None, _) => None,
        (Some(RequestedVerdict::Denied), _) => Some(RequisitionVerdict::Deny),
        (Some(RequestedVerdict::Approved), Some(card)) => {
            Some(RequisitionVerdict::ApproveWithCard(card))
        }
        (Some(RequestedVerdict::Approved), None) => {
            let order = order_for(known, company);
            let draw = || {
                let card = Box::new(draw_card(state, &order)?);
                Ok(((), update(Some(RequisitionVerdict::ApproveWithNewCard(card)))))
            };
            return issue(state, draw).await;
        }
    };
    Ok(state.carry_out(update(verdict)).await)
}

/// The order of a card for a requisition; the shard sets texts and terms as the requisition is by then.
fn order_for(known: &Requisition, company: &Company) -> IssuingOrder {
    let terms = AllowanceTerms::budget(known.amount);
    IssuingOrder {
        order: CardOrder::plain(company.id, terms, [LineText::default(), LineText::default()]),
        zone: company.zone,
        pin: None,
    }
}

/// Cancel a pending requisition.
#[utoipa::path(delete, path = "/v1/requisitions/{requisition_id}", responses((status = 204)))]
pub async fn delete_requisition(call: Call, PathId(id): PathId) -> Answer<StatusCode> {
    take_back((&call).into(), RequisitionId(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Cancels a pending requisition.
/// Errors: the company has no such requisition, or it was decided.
pub async fn take_back(reader: Reader<'_>, id: RequisitionId) -> Result<(), ApiError> {
    let command = AdminCommand::Requisition(RequisitionCommand::Cancel(reader.company.id, id));
    Ok(reader.state.carry_out_unshown(command).await?)
}
