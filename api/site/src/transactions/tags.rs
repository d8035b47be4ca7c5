//! The dimensions and the note of a transaction. POST /transactions/{id}.

use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::seen_object::WatchedObject;
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_engine::store::query::TransactionRow;
use cardswitch_v1::routes::transaction_tags::tag;
use serde_json::{Map, Value};

use super::find_own;
use super::page::{TransactionForms, refused_page, seen};
use crate::dimension_choices::{chosen_of, find_meant, put_dimensions};
use crate::faults::Faults;
use crate::form_snapshot::change_as_seen;
use crate::forms::{FormBody, SiteForm, TypedFields, unix_lines};
use crate::notice::Notice;
use crate::rights::{ActingMember, Right};

/// Whether the sender may sort transactions, or only note something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaggingExtent {
    All,
    NoteAlone,
}

/// The body that `/v1` takes; a field that was not sent stays as it is.
fn body_of(typed: &TypedFields, extent: TaggingExtent) -> Map<String, Value> {
    let mut body = Map::new();
    if extent == TaggingExtent::All {
        put_dimensions(&mut body, typed.dimensions());
    }
    if let Some(note) = typed.get("note") {
        body.insert("note".to_owned(), Value::String(unix_lines(note)));
    }
    body
}

/// Sorts a transaction and notes something about it. POST /transactions/{id}.
pub(super) async fn tag_transaction(
    acting: ActingMember,
    PathId(id): PathId,
    SiteForm(sent): SiteForm<TypedFields>,
) -> Result<Response, ApiError> {
    let find = || async {
        let row = find_own(&acting, id).await?;
        let known = acting.read(|view| chosen_of(view, &row.dimensions())).await?;
        Ok((WatchedObject::Transaction(row.record.seq), (row, known)))
    };
    let check =
        |(row, known): &(TransactionRow, [String; 4])| seen(row, known).check(sent.of("seen"));
    let saved = change_as_seen(&acting, find, check, async |state, _| {
        let may_sort = acting.may(Right::TagTransactions);
        let extent = if may_sort { TaggingExtent::All } else { TaggingExtent::NoteAlone };
        let mut body = body_of(&sent, extent);
        find_meant(&acting, &mut body).await?;
        tag(acting.reader(&state), TransactionId(id), FormBody::of(body).fields()?).await?;
        Ok(acting.go_on(&format!("/transactions/{id}"), Notice::TRANSACTION_SAVED))
    });
    match saved.await? {
        Ok(saved) => Ok(saved),
        Err(((row, _), why)) => {
            let (fields, faults) = why.shown(sent, Faults::of_refusal)?;
            let status = faults.status;
            let said = TransactionForms { fields, faults, ..TransactionForms::default() };
            refused_page(&acting, &row, (status, said)).await
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_form_did_not_have_stays() {
        let typed = [("category", "x"), ("label", ""), ("note", "one\r\ntwo\n")];
        let fields: TypedFields = typed.into_iter().collect();
        let whole = json!({"category": {"id": "x"}, "label": null, "note": "one\ntwo\n"});
        let body = |fields: &TypedFields, extent| Value::Object(body_of(fields, extent));
        assert_eq!(body(&fields, TaggingExtent::All), whole);
        assert_eq!(body(&fields, TaggingExtent::NoteAlone), json!({"note": "one\ntwo\n"}));
        assert_eq!(body(&TypedFields::default(), TaggingExtent::All), json!({}));
    }
}
