//! The verdict on a requisition. POST /requisitions/{id}/review.

use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::seen_object::WatchedObject;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::directory::requisition::{Requisition, RequisitionStatus};
use cardswitch_engine::domain::ids::{CardId, RequisitionId};
use cardswitch_identity::actor_state::ActorState;
use cardswitch_v1::routes::requisitions::change_requisition;
use cardswitch_wire::fault::Flaw;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::form::seen;
use super::may_review;
use super::requisition::{RequisitionForms, get_requisition, requisition_page};
use crate::error_page::error_page;
use crate::faults::Faults;
use crate::form_snapshot::{change_as_seen, who_was_quicker};
use crate::forms::{FormBody, SiteForm, unix_lines};
use crate::notice::Notice;
use crate::rights::{ActingMember, RequisitionReviewer};
use crate::words::person;

/// The verdict of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RequisitionVerdict {
    Approve,
    Deny,
}

/// The fields of the form.
#[derive(Debug, Deserialize)]
pub(super) struct ReviewForm {
    verdict: RequisitionVerdict,
    /// The card that fulfils it; blank for a new one.
    #[serde(default)]
    card: String,
    #[serde(default)]
    note: String,
    #[serde(default)]
    seen: String,
}

impl ReviewForm {
    /// The body that the API would take: a note is added to that of the requester, `known`, under the
    /// name of the reviewer.
    fn body(&self, known: &str, reviewer: &str) -> Map<String, Value> {
        let mut body = Map::new();
        let note = unix_lines(&self.note);
        if !note.trim().is_empty() {
            let note = format!("{known}\n{reviewer}: {}", note.trim());
            body.insert("note".to_owned(), json!(note.trim()));
        }
        let (status, card) = match self.verdict {
            RequisitionVerdict::Approve => ("approved", self.card.trim()),
            RequisitionVerdict::Deny => ("denied", ""),
        };
        body.insert("status".to_owned(), json!(status));
        if !card.is_empty() {
            body.insert("card".to_owned(), json!({ "id": card }));
        }
        body
    }
}

/// POST /requisitions/{id}/review.
pub(super) async fn review(
    RequisitionReviewer(acting): RequisitionReviewer,
    PathId(id): PathId,
    SiteForm(form): SiteForm<ReviewForm>,
) -> Result<Response, ApiError> {
    let find = || async {
        let known = get_requisition(&acting, RequisitionId(id)).await?;
        Ok((WatchedObject::Row(id), known))
    };
    let changed = |known: &Requisition| seen(known, &acting.company).changed_since(&form.seen);
    // INVARIANT: nobody approves values that they have not seen.
    let check = |known: &Requisition| match &*changed(known) {
        [] => Ok(()),
        changed => Err(changed_meanwhile(known, changed)),
    };
    let saved = change_as_seen(&acting, find, check, async |state, known| {
        if !may_review(&acting, known.member) {
            let text = "Another reviewer or an administrator reviews your own requests.";
            return Ok(error_page(StatusCode::FORBIDDEN, "You don’t have access", text));
        }
        decide(&acting, &state, (&known, &form)).await?;
        let notice = match form.verdict {
            RequisitionVerdict::Approve => Notice::REQUISITION_APPROVED,
            RequisitionVerdict::Deny => Notice::REQUISITION_DENIED,
        };
        Ok(acting.go_on(&format!("/requisitions/{id}"), notice))
    });
    match saved.await? {
        Ok(saved) => Ok(saved),
        Err((known, why)) => {
            let changed = changed(&known);
            let (_, review_faults) = why.shown((), Faults::of_refusal)?;
            // The input of a reviewer stays.
            let ReviewForm { note: review_note, card: review_card, .. } = form;
            let said = RequisitionForms {
                review_faults,
                review_note,
                review_card,
                changed,
                ..Default::default()
            };
            requisition_page(&acting, &known, said).await
        }
    }
}

/// The fault where the visitor decided about values that have changed since.
fn changed_meanwhile(known: &Requisition, changed: &[&str]) -> Faults {
    let onward = if known.status == RequisitionStatus::Pending {
        "Changes are marked: decide again on the current values"
    } else {
        "See the decision below"
    };
    Faults::conflict(format!("Not saved: {}. {onward}.", who_was_quicker(changed)))
}

/// Has the verdict given on the values that were seen.
async fn decide(
    acting: &ActingMember,
    state: &ActorState,
    (known, form): (&Requisition, &ReviewForm),
) -> Result<(), ApiError> {
    check_card(acting, known, form.card.trim()).await?;
    let Member { first_name, last_name, email, .. } = &acting.member;
    let reviewer = person(first_name, last_name, email);
    let mut body = form.body(known.note.as_deref().unwrap_or_default(), &reviewer);
    // Named, so that a role that was taken meanwhile is a fault.
    body.insert("reviewed_by".to_owned(), json!({ "id": acting.member.id.0 }));
    change_requisition((acting.reader(state), None), known.id, FormBody::of(body).fields()?).await
}

/// Errors: the reviewer, who may not give cards, has chosen one that is not the asker's.
async fn check_card(
    acting: &ActingMember,
    known: &Requisition,
    card: &str,
) -> Result<(), ApiError> {
    let Ok(id) = Uuid::parse_str(card) else { return Ok(()) };
    if acting.session.is_administrator() {
        return Ok(());
    }
    let found = acting.read(|view| view.find_card(CardId(id))).await?;
    // The reader refuses a card that does not exist.
    match found {
        Some(card) if card.profile.assigned_to != Some(known.member) => {
            let flaw = Flaw::new("not_theirs", "must be a card of the requester");
            Err(ApiError::invalid_field("card", flaw))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_becomes_the_body_of_the_api() {
        let form = |verdict, card: &str, note: &str| ReviewForm {
            verdict,
            card: card.to_owned(),
            note: note.to_owned(),
            seen: String::new(),
        };
        let rows = [
            (form(RequisitionVerdict::Approve, "", " "), json!({"status": "approved"})),
            (
                form(RequisitionVerdict::Approve, "x", " fine\r\nby me "),
                json!({"status": "approved", "note": "two\nGrace: fine\nby me", "card": {"id": "x"}}),
            ),
            // Only an approval gives a card.
            (
                form(RequisitionVerdict::Deny, "x", "no"),
                json!({"status": "denied", "note": "two\nGrace: no"}),
            ),
        ];
        for (form, expected) in rows {
            assert_eq!(Value::Object(form.body("two", "Grace")), expected);
        }
        let alone = form(RequisitionVerdict::Deny, "", "no").body("", "Grace");
        assert_eq!(alone["note"], "Grace: no");
    }
}
