//! Tags of a transaction: its dimensions, and a note on it.
//! Source: spec "Transactions", PUT.

use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, JsonBody, PathId};
use cardswitch_edge::json::Json;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::transaction::TransactionCommand;
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_engine::domain::transaction_tags::TagChanges;
use cardswitch_identity::auth::Call;
use cardswitch_wire::bodies;
use cardswitch_wire::body::paragraph;
use cardswitch_wire::fields::Fields;

use super::dimensions::{fault_dimensions, parse_dimensions};
use super::transactions::{TransactionBody, find_transaction, read_transaction, sequence_of};
use super::view::{Reader, read_view};

/// The most characters a note has. Source: spec "Limits".
pub const NOTE_CHARS_MAX: usize = 1_000;

bodies! {
    /// Changes of a transaction; absent fields stay, null clears.
    TransactionUpdate "TransactionUpdate" |fields| _ = parse_tags(fields);
}

/// The body of PUT /v1/transactions/:transaction_id.
fn parse_tags(fields: &mut Fields<'_>) -> TagChanges {
    let dimensions = parse_dimensions(fields, "Its category.");
    let about = "Anything worth noting; may be blank.";
    let note = fields.may("note", about, paragraph(NOTE_CHARS_MAX));
    TagChanges { dimensions, note, receipt: None }
}

/// Tag a transaction: where it is booked, and a note.
#[utoipa::path(
    put, path = "/v1/transactions/{transaction_id}", request_body = TransactionUpdate,
    responses((status = 200, body = TransactionBody)),
)]
pub async fn tag_transaction(
    call: Call,
    PathId(id): PathId,
    body: JsonBody,
) -> Answer<Json<TransactionBody>> {
    let Call(state, _) = &call;
    let id = TransactionId(id);
    sequence_of(state, id)?;
    tag((&call).into(), id, body.fields()?).await?;
    read_transaction(&call, id).await.map(Json)
}

/// Tags a transaction of a company as the fields of a body say.
/// Errors: there is no such transaction, fields are at fault, or the change was not made.
pub async fn tag(
    reader: Reader<'_>,
    id: TransactionId,
    mut fields: Fields<'_>,
) -> Result<(), ApiError> {
    let seq = sequence_of(reader.state, id)?;
    let mut changes = parse_tags(&mut fields);
    let dimensions = changes.dimensions.map(Option::flatten);
    let (row, unknown) = read_view(reader, |view| {
        Ok((find_transaction(view, seq, id)?, view.unknown_dimensions(&dimensions)?))
    })
    .await?;
    let row = row.ok_or_else(ApiError::not_found)?;
    fault_dimensions(&mut fields, unknown);
    fields.finish()?;
    // A value that is there already is no change, and no event.
    changes.note = changes.note.filter(|note| **note != *row.note());
    for (change, present) in changes.dimensions.iter_mut().zip(row.dimensions()) {
        *change = change.filter(|change| *change != present);
    }
    let command =
        AdminCommand::Transaction(TransactionCommand::Tag(reader.company.id, id, changes));
    Ok(reader.state.carry_out(command).await?)
}
