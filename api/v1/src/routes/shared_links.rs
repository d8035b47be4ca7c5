//! Shared links: making, listing, changing and taking them away. Source: spec "Shared links".
//!
//! Keys and passphrase values are sealed before they leave this file; a message to the recipient goes
//! into the letter that brings the link, and is kept nowhere else.

use std::collections::HashSet;

use axum::http::StatusCode;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, JsonBody, ListQuery, PathId};
use cardswitch_edge::json::Json;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::shared_link::{
    NewSharedLink, Recipient, SharedLink, SharedLinkChanges, SharedLinkCommand,
};
use cardswitch_engine::domain::ids::{CardId, CompanyId, SharedLinkId};
use cardswitch_engine::domain::text::ParagraphText;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::ListPage;
use cardswitch_identity::auth::Call;
use cardswitch_identity::state::AppState;
use cardswitch_notify::mail::News;
use cardswitch_secrets::issuing::RandomSource;
use cardswitch_secrets::link_secrets::{LinkKey, PassphraseField, PassphraseKind, seal_passphrase};
use cardswitch_wire::bodies;
use cardswitch_wire::body::{
    ValueRule, email, flag, line, line_schema, paragraph, part, reference, rule,
};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::{self, Fields};
use cardswitch_wire::page::{Listing, PageParameters};
use cardswitch_wire::queries;
use cardswitch_wire::query::Query;
use cardswitch_wire::time::{not_a_date, parse_date, render_time};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::no_store::NoStore;
use super::view::{BY_CREATION, Reader, View, list_view, read_view};
use crate::words;

/// The most passphrase fields a link has.
const PASSPHRASE_FIELDS_MAX: usize = 10;
/// The most characters the name of a recipient or of a passphrase field has.
const NAME_CHARS_MAX: usize = 100;
/// The most characters a passphrase value has.
const VALUE_CHARS_MAX: usize = 200;
/// The most characters a message to the recipient has.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// A shared link as responses show it. Source: spec "Shared link".
#[derive(Debug, Serialize, ToSchema)]
pub struct SharedLinkBody {
    id: Uuid,
    url: String,
    link: String,
    card: SharedCardBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    recipient: Option<RecipientBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    passphrase_fields: Option<Vec<PassphraseField>>,
    hide_balance: bool,
    last_viewed_at: Option<String>,
    /// Extension: when it was made.
    created_at: String,
}

/// Card that a link shows.
#[derive(Debug, Serialize, ToSchema)]
struct SharedCardBody {
    id: Uuid,
}

/// Recipient of a link.
#[derive(Debug, Serialize, ToSchema)]
struct RecipientBody {
    name: String,
    email: String,
}

impl SharedLinkBody {
    /// The link as it is shown.
    /// Errors: an object that it refers to cannot be read, or was not sealed here.
    pub fn new(link: &SharedLink, view: &View<'_>) -> Result<Self, StoreError> {
        let recipient = link.recipient.clone();
        Ok(Self {
            id: link.id.0,
            url: view.urls.object("shared-links", link.id.0),
            link: view.link_address(link)?,
            card: SharedCardBody { id: view.card_id(link.card)?.0 },
            recipient: recipient
                .map(|Recipient { name, email }| RecipientBody { name: name.into(), email }),
            passphrase_fields: view.passphrase_of(link)?,
            hide_balance: link.hide_balance,
            last_viewed_at: link.last_viewed_at.map(render_time),
            created_at: render_time(link.created_at),
        })
    }
}

bodies! {
    /// Recipient of a link.
    LinkRecipient "LinkRecipient" |fields| _ = read_addressee(fields);
    /// Security questions for viewers.
    PassphraseGiven "PassphraseGiven" |fields| _ = parse_passphrase_field(fields);
    /// A new link.
    NewSharedLinkBody "NewSharedLink" |fields| _ = CreateSharedLinkRequest::parse(fields);
    /// Changes of a link; absent fields stay, null clears.
    SharedLinkUpdate "SharedLinkUpdate" |fields| _ = LinkTerms::parse(fields);
}

queries! {
    /// The filters of a list of shared links.
    SharedLinkFilters |query| _ = parse_card(query);
}

fn parse_card(query: &mut Query) -> Option<CardId> {
    query.id("card", "To this card.").map(CardId)
}

/// List shared links, the newest first.
#[utoipa::path(
    get, path = "/v1/shared-links", params(PageParameters, SharedLinkFilters),
    responses((status = 200, body = Listing<SharedLinkBody>)),
)]
pub async fn list_shared_links(
    call: Call,
    list: ListQuery,
) -> Answer<NoStore<Json<Listing<SharedLinkBody>>>> {
    let listed = list_view(&call, list, BY_CREATION, parse_card, |view, card, page| {
        let card = match card.map(|id| view.find_card(id)).transpose()? {
            Some(None) => return Ok(ListPage::EMPTY),
            found => found.flatten().map(|card| card.profile.slot),
        };
        let links = view.snapshot.list_shared_links(view.company.slot, card, page)?;
        links.load(|link| SharedLinkBody::new(&link, view))
    });
    listed.await.map(NoStore)
}

/// Retrieve a shared link.
#[utoipa::path(
    get, path = "/v1/shared-links/{shared_link_id}",
    responses((status = 200, body = SharedLinkBody)),
)]
pub async fn get_shared_link(
    call: Call,
    PathId(id): PathId,
) -> Answer<NoStore<Json<SharedLinkBody>>> {
    read_shared_link(&call, SharedLinkId(id)).await
}

async fn read_shared_link(
    call: &Call,
    id: SharedLinkId,
) -> Result<NoStore<Json<SharedLinkBody>>, ApiError> {
    let body = read_view(call, |view| {
        let link = view.find_shared_link(id)?;
        link.map(|link| SharedLinkBody::new(&link, view)).transpose()
    });
    body.await?.map(|body| NoStore(Json(body))).ok_or_else(ApiError::not_found)
}

/// The body of POST /v1/shared-links.
#[derive(Debug)]
struct CreateSharedLinkRequest {
    card: CardId,
    terms: LinkTerms,
}

/// The changeable attributes of a link, given for a new one, too.
#[derive(Debug)]
struct LinkTerms {
    recipient: Option<Option<Addressee>>,
    passphrase: Option<Option<Vec<PassphraseField>>>,
    hide_balance: Option<bool>,
}

impl LinkTerms {
    fn parse(fields: &mut Fields<'_>) -> Self {
        let recipient = fields.patch_object::<LinkRecipient, _>(
            "recipient",
            "The recipient of the link.",
            read_addressee,
        );
        let passphrase = parse_passphrase(fields);
        let about = "Whether balance and budget are hidden.";
        let hide_balance = fields.may("hide_balance", about, flag().example("false"));
        Self { recipient, passphrase, hide_balance }
    }
}

impl CreateSharedLinkRequest {
    fn parse(fields: &mut Fields<'_>) -> Self {
        let card = CardId(fields.must("card", "The card it shows.", reference(|id| id)));
        Self { card, terms: LinkTerms::parse(fields) }
    }

    /// The link with a key of its own, and the letter that brings it.
    /// Errors: no randomness.
    fn into_command(
        self,
        state: &AppState,
        company: CompanyId,
    ) -> Result<(NewSharedLink, Option<News>), ApiError> {
        let mut random = state.switch.random();
        let id = random.id(state.now()).map(SharedLinkId).map_err(no_randomness)?;
        let key = LinkKey::draw(&mut random).map_err(no_randomness)?;
        let LinkTerms { recipient, passphrase, hide_balance } = self.terms;
        let recipient = recipient.flatten();
        let news = recipient.as_ref().and_then(|addressee| addressee.news(company, id));
        let link = NewSharedLink {
            id,
            company,
            card: self.card,
            key_digest: key.digest(&state.secrets),
            sealed_key: key.seal(&state.secrets, id).map_err(no_randomness)?,
            recipient: recipient.map(|addressee| addressee.recipient),
            sealed_passphrase: seal(state, id, passphrase.flatten().as_deref())?,
            hide_balance: hide_balance.unwrap_or(false),
        };
        Ok((link, news))
    }
}

fn seal(
    state: &AppState,
    id: SharedLinkId,
    passphrase: Option<&[PassphraseField]>,
) -> Result<Option<Vec<u8>>, ApiError> {
    let sealed = passphrase.map(|fields| seal_passphrase(&state.secrets, id, fields));
    sealed.transpose().map_err(no_randomness)
}

fn no_randomness(error: impl std::fmt::Display) -> ApiError {
    ApiError::internal(&error)
}

/// The recipient of a link, and whether and with which message a mail tells them of it.
#[derive(Debug)]
struct Addressee {
    recipient: Recipient,
    message: Option<ParagraphText>,
    is_told: bool,
}

impl Addressee {
    /// The letter that brings the link, where one is wanted. Source: spec "Shared links", notify.
    fn news(&self, company: CompanyId, link: SharedLinkId) -> Option<News> {
        self.is_told.then(|| News::SharedLink {
            company: company.0,
            link: link.0,
            recipient: self.recipient.clone(),
            message: self.message.as_ref().map(ToString::to_string),
        })
    }
}

fn read_addressee(fields: &mut Fields<'_>) -> Addressee {
    Addressee {
        recipient: Recipient {
            name: fields.must("name", "Their name.", line(NAME_CHARS_MAX)),
            email: fields.must("email", "Their address.", email()),
        },
        message: fields
            .patch("message", "The text of the email.", paragraph(MESSAGE_CHARS_MAX))
            .flatten(),
        is_told: fields
            .patch("notify", "An email with the link is sent; true where absent.", flag())
            .flatten()
            .unwrap_or(true),
    }
}

/// The passphrase that a viewer needs: absent, none (null or an empty list) or some fields.
fn parse_passphrase(fields: &mut Fields<'_>) -> Option<Option<Vec<PassphraseField>>> {
    let mut names = HashSet::new();
    let read = |_, inner: &mut Fields<'_>| {
        let field = parse_passphrase_field(inner);
        if !field.name.is_empty() && !names.insert(field.name.clone()) {
            inner.fault("name", Flaw::new("not_unique", "is the name of another field, too"));
        }
        field
    };
    let (name, about) = ("passphrase_fields", "Security questions for viewers.");
    let read =
        fields.patch_objects::<PassphraseGiven, _>(name, about, PASSPHRASE_FIELDS_MAX, read)?;
    Some(read.filter(|passphrase| !passphrase.is_empty()))
}

fn parse_passphrase_field(fields: &mut Fields<'_>) -> PassphraseField {
    let about = "Type of the answer; `text` if absent.";
    let kind = fields.patch("type", about, rule(part::<words::PassphraseType>, passphrase_kind));
    let kind = kind.flatten().unwrap_or_default();
    let value = rule(line_schema(VALUE_CHARS_MAX), move |value| passphrase_value(value, kind));
    PassphraseField {
        name: fields.must("name", "Question.", line(NAME_CHARS_MAX)).into(),
        value: fields.must("value", "Answer.", value),
        kind,
    }
}

fn passphrase_kind(value: &RawValue) -> Result<PassphraseKind, Flaw> {
    serde_json::from_str(value.get())
        .map_err(|_| Flaw::new("unknown_value", "must be `text` or `date`"))
}

fn passphrase_value(value: &RawValue, kind: PassphraseKind) -> Result<String, Flaw> {
    let text = fields::line(value, VALUE_CHARS_MAX)?;
    if kind == PassphraseKind::Date && parse_date(&text).is_none() {
        return Err(not_a_date());
    }
    Ok(text.into())
}

/// Share a card by a link.
#[utoipa::path(
    post, path = "/v1/shared-links", request_body = NewSharedLinkBody,
    responses((status = 201, body = SharedLinkBody)),
)]
pub async fn create_shared_link(
    call: Call,
    body: JsonBody,
) -> Answer<(StatusCode, NoStore<Json<SharedLinkBody>>)> {
    let id = share_card((&call).into(), body.fields()?).await?;
    Ok((StatusCode::CREATED, read_shared_link(&call, id).await?))
}

/// Makes the link that is asked for in `fields`.
/// Errors: faults of the fields, or the reason why the link was not made.
pub async fn share_card(
    reader: Reader<'_>,
    mut fields: Fields<'_>,
) -> Result<SharedLinkId, ApiError> {
    let request = CreateSharedLinkRequest::parse(&mut fields);
    let card = request.card;
    let is_known = read_view(reader, |view| Ok(view.find_card(card)?.is_some())).await?;
    if !is_known && !fields.is_faulty("card") {
        fields.fault("card", Flaw::not_found("card"));
    }
    fields.finish()?;
    let (new, news) = request.into_command(reader.state, reader.company.id)?;
    let id = new.id;
    reader
        .state
        .carry_out_and_tell(AdminCommand::SharedLink(SharedLinkCommand::Create(new)), news)
        .await?;
    Ok(id)
}

/// Update a shared link.
#[utoipa::path(
    put, path = "/v1/shared-links/{shared_link_id}", request_body = SharedLinkUpdate,
    responses((status = 200, body = SharedLinkBody)),
)]
pub async fn update_shared_link(
    call: Call,
    PathId(id): PathId,
    body: JsonBody,
) -> Answer<NoStore<Json<SharedLinkBody>>> {
    let Call(state, caller) = &call;
    let id = SharedLinkId(id);
    let mut fields = body.fields()?;
    let LinkTerms { recipient, passphrase, hide_balance } = LinkTerms::parse(&mut fields);
    let exists = read_view(&call, |view| Ok(view.find_shared_link(id)?.is_some()));
    if !exists.await? {
        return Err(ApiError::not_found());
    }
    fields.finish()?;
    let passphrase = passphrase.map(|passphrase| seal(state, id, passphrase.as_deref()));
    let company = caller.company.id;
    let news = recipient.as_ref().and_then(Option::as_ref).and_then(|to| to.news(company, id));
    let recipient = recipient.map(|to| to.map(|addressee| addressee.recipient));
    let changes =
        SharedLinkChanges { recipient, sealed_passphrase: passphrase.transpose()?, hide_balance };
    let command = AdminCommand::SharedLink(SharedLinkCommand::Update(company, id, changes));
    state.carry_out_and_tell(command, news).await?;
    read_shared_link(&call, id).await
}

/// Delete a shared link; the card stays.
#[utoipa::path(delete, path = "/v1/shared-links/{shared_link_id}", responses((status = 204)))]
pub async fn delete_shared_link(
    Call(state, caller): Call,
    PathId(id): PathId,
) -> Answer<StatusCode> {
    let command =
        AdminCommand::SharedLink(SharedLinkCommand::Delete(caller.company.id, SharedLinkId(id)));
    state.carry_out_unshown(command).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(json: &str) -> Vec<(String, &'static str)> {
        let mut fields = Fields::parse(json.as_bytes()).unwrap();
        CreateSharedLinkRequest::parse(&mut fields);
        let faults = fields.finish().err().unwrap_or_default();
        faults.into_iter().map(|fault| (fault.param, fault.flaw.code)).collect()
    }

    #[test]
    fn every_field_of_a_link_is_checked() {
        let long = format!("\"{}\"", "x".repeat(1_001));
        let rows: &[(String, &[(&str, &str)])] = &[
            ("{}".into(), &[("card", "required")]),
            (r#""card": null"#.into(), &[("card", "required")]),
            (r#""card": "0190a000-0000-7000-8000-000000000001""#.into(), &[("card", "not_a_reference")]),
            (r#""recipient": null, "passphrase_fields": null"#.into(), &[]),
            (r#""passphrase_fields": []"#.into(), &[]),
            (r#""recipient": 5"#.into(), &[("recipient", "not_an_object")]),
            (
                r#""recipient": {}"#.into(),
                &[("recipient.name", "required"), ("recipient.email", "required")],
            ),
            (
                r#""recipient": {"name": "A\r\nBcc: b@c.d", "email": "a@b.cd\r\n"}"#.into(),
                &[("recipient.name", "control_character"), ("recipient.email", "not_an_email")],
            ),
            (
                format!(r#""recipient": {{"name": "A", "email": "a@b.cd", "message": {long}, "notify": 1}}"#),
                &[("recipient.message", "too_long"), ("recipient.notify", "not_a_boolean")],
            ),
            (
                r#""recipient": {"name": "A", "email": "a@b.cd", "message": "Hi\nyou", "notify": false}"#.into(),
                &[],
            ),
            (r#""hide_balance": "yes""#.into(), &[("hide_balance", "not_a_boolean")]),
            (r#""passphrase_fields": {}"#.into(), &[("passphrase_fields", "not_an_array")]),
            (r#""passphrase_fields": ["x"]"#.into(), &[("passphrase_fields.0", "not_an_object")]),
            (
                r#""passphrase_fields": [{"type": "secret"}]"#.into(),
                &[
                    ("passphrase_fields.0.type", "unknown_value"),
                    ("passphrase_fields.0.name", "required"),
                    ("passphrase_fields.0.value", "required"),
                ],
            ),
            (
                r#""passphrase_fields": [{"name": "a", "value": "b"}, {"name": "a", "value": "c"}]"#.into(),
                &[("passphrase_fields.1.name", "not_unique")],
            ),
            (
                r#""passphrase_fields": [{"name": "a", "value": "2026-02-29", "type": "date"}]"#.into(),
                &[("passphrase_fields.0.value", "not_a_date")],
            ),
            (
                r#""passphrase_fields": [{"name": "a", "value": "2028-02-29", "type": "date"},
                    {"name": "b", "value": "x"}, {"name": "c", "value": "y", "type": "text"}]"#.into(),
                &[],
            ),
            (
                format!(r#""passphrase_fields": [{}]"#, ["{}"; 11].join(",")),
                &[("passphrase_fields", "too_many")],
            ),
        ];
        for (given, expected) in rows {
            let card = r#""card": {"id": "0190a000-0000-7000-8000-000000000001"}"#;
            let json = match given.as_str() {
                "{}" => "{}".to_owned(),
                given if given.contains("\"card\"") => format!("{{{given}}}"),
                given => format!("{{{card}, {given}}}"),
            };
            let expected: Vec<_> =
                expected.iter().map(|(param, code)| ((*param).to_owned(), *code)).collect();
            assert_eq!(faults_of(&json), expected, "{json}");
        }
    }
}
