//! The secrets of a card: only administrators see its number and set its PIN.
//!
//! Extension. Each look at a number is in the audit log before it is answered. Numbers and PINs are
//! only in the answer and the request.

use cardswitch_edge::error::{ApiError, ErrorBody};
use cardswitch_edge::input::{Answer, JsonBody, PathId};
use cardswitch_edge::json::Json;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::card::{CardCommand, NumberViewer};
use cardswitch_engine::domain::company::{Company, CompanyState};
use cardswitch_engine::domain::ids::CardId;
use cardswitch_engine::store::query::CardRow;
use cardswitch_identity::auth::Call;
use cardswitch_identity::state::AppState;
use cardswitch_secrets::pan::Pan;
use cardswitch_wire::bodies;
use cardswitch_wire::body::rule;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::{self, Fields};
use cardswitch_wire::time::render_date;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use zeroize::Zeroizing;

use super::cards::{CardBody, read_card};
use super::no_store::NoStore;
use super::view::read_view;

/// The number of digits of a PIN. Source: ISO 9564-1.
const PIN_LEN: std::ops::RangeInclusive<usize> = 4..=12;

/// Payment details of a virtual card.
#[derive(Serialize, ToSchema)]
pub struct CardNumberBody {
    #[schema(example = "4111111111111111")]
    number: String,
    expiration: String,
    cvv: String,
}

bodies! {
    /// A PIN to be set.
    NewPin "NewPin" |fields| _ = parse_pin(fields);
}

fn parse_pin(fields: &mut Fields<'_>) -> Zeroizing<String> {
    let pin = rule(|_| json!({"type": "string", "pattern": "^[0-9]{4,12}$"}), pin);
    Zeroizing::new(fields.must("pin", "4 to 12 digits.", pin))
}

/// Retrieve the payment details of a virtual card. Every view is in the audit log.
#[utoipa::path(
    get, path = "/v1/cards/{card_id}/number", operation_id = "get_card_number",
    responses(
        (status = 200, body = CardNumberBody),
        (
            status = 409,
            description = "The card is a physical or terminated one, or the company is closed.",
            body = ErrorBody,
        ),
    ),
)]
pub async fn get_number(call: Call, PathId(id): PathId) -> Answer<NoStore<Json<CardNumberBody>>> {
    let Call(state, caller) = &call;
    let id = CardId(id);
    let card = find_card(&call, id).await?;
    if !card.profile.is_virtual {
        return Err(ApiError::card_not_virtual());
    }
    // INVARIANT: nothing of the number is opened before the shard has found that it may be shown.
    let viewer = NumberViewer::Token(caller.token);
    let noted = CardCommand::NoteNumberShown(caller.company.id, id, viewer);
    match state.carry_out_unshown(AdminCommand::Card(noted)).await {
        // The token was revoked meanwhile.
        Err(WriteError::Rejected(Rejection::TokenNotFound)) => return Err(ApiError::unauthorized()),
        outcome => outcome?,
    }
    let pan = open_number(state, &card, &caller.company)?;
    tracing::info!(card = %id.0, token = %caller.token.0, "a card number was shown");
    Ok(NoStore(Json(CardNumberBody {
        number: pan.reveal(),
        expiration: render_date(card.record.expires_on),
        cvv: state.secrets.cvv(&pan).map(char::from).iter().collect(),
    })))
}

/// Set the PIN of a card.
#[utoipa::path(
    put, path = "/v1/cards/{card_id}/pin", operation_id = "set_card_pin", request_body = NewPin,
    responses((status = 200, body = CardBody)),
)]
pub async fn set_pin(call: Call, PathId(id): PathId, body: JsonBody) -> Answer<Json<CardBody>> {
    let Call(state, caller) = &call;
    let id = CardId(id);
    let card = find_card(&call, id).await?;
    let mut fields = body.fields()?;
    let pin = parse_pin(&mut fields);
    fields.finish()?;
    let pan = open_number(state, &card, &caller.company)?;
    let verifier = state.secrets.pin_verifier(&pan, pin.as_bytes());
    state
        .carry_out(AdminCommand::Card(CardCommand::SetPin(caller.company.id, id, verifier)))
        .await?;
    tracing::info!(card = %id.0, token = %caller.token.0, "a PIN was set");
    read_card(&call, id).await?.map(Json).ok_or_else(ApiError::not_found)
}

async fn find_card(call: &Call, id: CardId) -> Result<CardRow, ApiError> {
    read_view(call, |view| view.find_card(id)).await?.ok_or_else(ApiError::not_found)
}

/// The number of a card in clear.
/// Errors: its company is closed, or it was not sealed here.
pub fn open_number(state: &AppState, card: &CardRow, company: &Company) -> Result<Pan, ApiError> {
    if is_closed(company) {
        return Err(ApiError::company_closed());
    }
    let pan = state.secrets.open_pan(&card.sealed_pan, card.profile.id);
    pan.ok_or_else(|| ApiError::internal(&"a card number cannot be opened with these keys"))
}

/// Whether a company is closed, so that its cards show no secrets.
pub fn is_closed(company: &Company) -> bool {
    company.state == CompanyState::Closed
}

/// A PIN is text: a number would lose the zeros before it.
fn pin(value: &RawValue) -> Result<String, Flaw> {
    let pin = fields::text(value)?;
    if PIN_LEN.contains(&pin.len()) && pin.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(pin);
    }
    Err(Flaw::new("not_a_pin", "must be a text of 4 to 12 digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_texts_of_4_to_12_digits() {
        let rows = [
            ("\"0000\"", None),
            ("\"123456789012\"", None),
            ("\"123\"", Some("not_a_pin")),
            ("\"1234567890123\"", Some("not_a_pin")),
            ("\"12 4\"", Some("not_a_pin")),
            ("\"12a4\"", Some("not_a_pin")),
            ("\"\u{664}\u{664}\u{664}\u{664}\"", Some("not_a_pin")),
            ("\"\"", Some("not_a_pin")),
            ("1234", Some("not_text")),
        ];
        for (json, flaw) in rows {
            let value: &RawValue = serde_json::from_str(json).unwrap();
            assert_eq!(pin(value).err().map(|flaw| flaw.code), flaw, "{json}");
        }
    }
}
