//! Sharing a card by a link, and taking links away. GET and POST /cards/{id}/links/new,
//! POST /cards/{id}/links/{link}/delete.

use askama::Template;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{PathId, PathIds};
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::shared_link::SharedLinkCommand;
use cardswitch_engine::domain::ids::{CardId, SharedLinkId};
use cardswitch_engine::store::query::CardRow;
use cardswitch_v1::routes::shared_links::share_card;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::face::CardFace;
use super::get_card;
use crate::choices::{Choice, choices};
use crate::faults::{Faults, with_status};
use crate::forms::{FormBody, SiteForm};
use crate::frame;
use crate::notice::Notice;
use crate::rights::{ActingMember, CardManager};

/// How many passphrase fields the form has room for.
const PASSPHRASE_ROWS: usize = 3;
/// The kinds of answers.
const KINDS: [(&str, &str); 2] = [("text", "Text"), ("date", "Date")];

/// The typed fields. The three parts of a passphrase field share one place in their lists.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LinkFields {
    name: String,
    email: String,
    message: String,
    notify: bool,
    ask_name: Vec<String>,
    ask_kind: Vec<String>,
    ask_value: Vec<String>,
    hide_balance: bool,
}

impl LinkFields {
    /// The body that makes the link.
    fn body(&self, card: CardId) -> Value {
        let mut body = json!({"card": {"id": card.0}, "hide_balance": self.hide_balance});
        let is_for_somebody = [&self.name, &self.email, &self.message];
        if is_for_somebody.into_iter().any(|text| !text.trim().is_empty()) {
            body["recipient"] = json!({
                "name": self.name.trim(),
                "email": self.email.trim(),
                "message": self.message,
                "notify": self.notify,
            });
        }
        let asked: Vec<_> = self
            .asked()
            .into_iter()
            .map(|(name, kind, value)| json!({"name": name, "type": kind, "value": value}))
            .collect();
        if !asked.is_empty() {
            body["passphrase_fields"] = asked.into();
        }
        body
    }

    /// The passphrase fields that viewers are asked for, without rows that were left blank.
    fn asked(&self) -> Vec<(&str, &str, &str)> {
        let kinds = self.ask_kind.iter().map(String::as_str).chain(std::iter::repeat("text"));
        let rows = self.ask_name.iter().zip(kinds).zip(&self.ask_value);
        let rows = rows.map(|((name, kind), value)| (name.trim(), kind, value.trim()));
        rows.filter(|(name, _, value)| !name.is_empty() || !value.is_empty()).collect()
    }

    /// Whether rows after the first are filled in.
    fn asks_more_than_one(&self) -> bool {
        self.asked().len() > 1
    }

    /// The rows of the form. Faults are numbered by the rows of `asked`.
    fn rows(&self, faults: &Faults) -> Vec<AskRow> {
        let asked = self.asked();
        let row = |place: usize| {
            let (name, kind, value) = asked.get(place).copied().unwrap_or(("", "text", ""));
            let fault =
                |part: &str| faults.of(&format!("passphrase_fields.{place}.{part}")).to_owned();
            AskRow {
                number: place + 1,
                name: name.to_owned(),
                kinds: choices(KINDS, kind),
                value: value.to_owned(),
                name_error: fault("name"),
                value_error: fault("value"),
            }
        };
        (0..PASSPHRASE_ROWS.max(asked.len())).map(row).collect()
    }
}

/// A passphrase field to fill in.
#[derive(Debug)]
struct AskRow {
    number: usize,
    name: String,
    kinds: Vec<Choice>,
    value: String,
    name_error: String,
    value_error: String,
}

#[derive(Template)]
#[template(path = "cards/link_new.html")]
struct LinkContent<'a> {
    csrf: String,
    face: CardFace,
    fields: &'a LinkFields,
    rows: Vec<AskRow>,
    faults: &'a Faults,
}

/// GET /cards/{id}/links/new.
pub(super) async fn ask_for_link(
    CardManager(acting): CardManager,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let card = get_card(&acting, CardId(id)).await?;
    let fields = LinkFields { notify: true, ..LinkFields::default() };
    Ok(link_page(&acting, &card, &fields, &Faults::default()))
}

fn link_page(
    acting: &ActingMember,
    card: &CardRow,
    fields: &LinkFields,
    faults: &Faults,
) -> Response {
    let content = LinkContent {
        csrf: acting.csrf(),
        face: CardFace::new(card, &acting.company, acting.state.now()),
        rows: fields.rows(faults),
        fields,
        faults,
    };
    with_status(frame::page("Share card", content), faults.status)
}

/// POST /cards/{id}/links/new.
pub(super) async fn make_link(
    CardManager(acting): CardManager,
    PathId(id): PathId,
    SiteForm(typed): SiteForm<LinkFields>,
) -> Result<Response, ApiError> {
    let card = get_card(&acting, CardId(id)).await?;
    let body = FormBody::of(typed.body(card.profile.id));
    match share_card((&acting).into(), body.fields()?).await {
        Ok(link) => Ok(acting.go_on(&format!("/cards/{id}?link={}", link.0), Notice::LINK_MADE)),
        Err(error) => {
            let faults = Faults::of_refusal(error)?;
            Ok(link_page(&acting, &card, &typed, &faults))
        }
    }
}

/// POST /cards/{id}/links/{link}/delete.
pub(super) async fn delete_link(
    CardManager(acting): CardManager,
    PathIds(card, link): PathIds,
    _: SiteForm<IgnoredAny>,
) -> Result<Response, ApiError> {
    let (id, link) = (CardId(card), SharedLinkId(link));
    let card = get_card(&acting, id).await?;
    let found = acting.read(|view| view.find_shared_link(link)).await?;
    if found.is_none_or(|found| found.card != card.profile.slot) {
        return Err(ApiError::not_found());
    }
    acting
        .state
        .carry_out(AdminCommand::SharedLink(SharedLinkCommand::Delete(acting.company.id, link)))
        .await?;
    Ok(acting.go_on(&format!("/cards/{}", id.0), Notice::LINK_DELETED))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_is_left_blank_is_not_asked_for() {
        let card = CardId(Uuid::nil());
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let plain = LinkFields { notify: true, ..LinkFields::default() }.body(card);
        assert_eq!(plain, json!({"card": {"id": card.0}, "hide_balance": false}));
        let fields = LinkFields {
            email: " bob@example.com ".into(),
            ask_name: texts(&["", "Birthday", ""]),
            ask_kind: texts(&["text", "date", "text"]),
            ask_value: texts(&["", "1990-01-02", "lost"]),
            ..LinkFields::default()
        };
        let body = fields.body(card);
        assert_eq!(body["recipient"]["email"], "bob@example.com");
        let asked = json!([
            {"name": "Birthday", "type": "date", "value": "1990-01-02"},
            {"name": "", "type": "text", "value": "lost"},
        ]);
        assert_eq!(body["passphrase_fields"], asked);
        let faults = Faults::default().and("passphrase_fields.1.name", "Required.");
        let rows = fields.rows(&faults);
        assert_eq!((rows[1].value.as_str(), rows[1].name_error.as_str()), ("lost", "Required."));
        assert_eq!(rows.len(), PASSPHRASE_ROWS);
    }
}
