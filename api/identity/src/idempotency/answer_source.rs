//! The place of the answer to a change that was made and never answered: a GET that shows the
//! object.
//!
//! The claim names it in one text, which the record of the change keeps:
//!
//! | text | the answer |
//! |---|---|
//! | nothing | no content, or `{}` |
//! | path | GET of the path |
//! | path, `#`, name | the member of that name in GET of the path |
//! | `results:` and paths with commas between | `{"results": [..]}`, with GET of each |

use axum::http::{Method, StatusCode};
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::card::CardCommand;

const RESULTS: &str = "results:";

/// The text, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerSource<'a> {
    Nothing,
    Object(&'a str),
    Member(&'a str, &'a str),
    Results(Vec<&'a str>),
}

impl<'a> AnswerSource<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        if let Some(paths) = text.strip_prefix(RESULTS) {
            return Self::Results(paths.split(',').collect());
        }
        match text.split_once('#') {
            Some((path, name)) => Self::Member(path, name),
            None if text.is_empty() => Self::Nothing,
            None => Self::Object(text),
        }
    }
}

/// The status of the answer to a request that has this command carried out, and the place of its
/// content.
pub(super) fn shown_at(
    method: &Method,
    path: &str,
    command: &AdminCommand,
) -> (StatusCode, String) {
    if method == Method::DELETE {
        return (StatusCode::NO_CONTENT, String::new());
    }
    let is_post = method == Method::POST;
    let status = if is_post { StatusCode::CREATED } else { StatusCode::OK };
    // A receipt is a file to GET; the answer about it is in its transaction.
    if let Some(transaction) = path.strip_suffix("/receipt") {
        return (status, format!("{transaction}#receipt"));
    }
    // The secret was in the answer that was never given: its owner asks for another.
    if let Some(endpoint) = path.strip_suffix("/rotate-secret") {
        return (StatusCode::OK, endpoint.to_owned());
    }
    let shown = match command {
        AdminCommand::Card(CardCommand::SetPin(_, card, _)) => format!("/v1/cards/{}", card.0),
        AdminCommand::Card(CardCommand::IssueTogether(cards)) => {
            let paths: Vec<_> = cards.iter().map(|new| format!("/v1/cards/{}", new.id.0)).collect();
            format!("{RESULTS}{}", paths.join(","))
        }
        _ if is_post => command.made_id().map(|id| format!("{path}/{id}")).unwrap_or_default(),
        _ => path.to_owned(),
    };
    (status, shown)
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::directory::card::CardChanges;

    use cardswitch_engine::domain::credential::PinVerifier;
    use cardswitch_engine::domain::ids::{CardId, CompanyId};
    use uuid::Uuid;

    use super::*;

    const COMPANY: CompanyId = CompanyId(Uuid::nil());
    const CARD: CardId = CardId(Uuid::from_u128(7));

    #[test]
    fn answers_are_found_by_method_path_and_command() {
        let update = AdminCommand::Card(CardCommand::Update(COMPANY, CARD, CardChanges::default()));
        let set_pin = AdminCommand::Card(CardCommand::SetPin(COMPANY, CARD, PinVerifier(1)));
        let card = format!("/v1/cards/{}", CARD.0);
        let rows = [
            (Method::PUT, card.as_str(), &update, 200, card.as_str()),
            (Method::DELETE, card.as_str(), &update, 204, ""),
            (Method::PUT, "/v1/cards/x/pin", &set_pin, 200, card.as_str()),
            (Method::POST, "/v1/things", &update, 201, ""),
            (
                Method::POST,
                "/v1/transactions/t/receipt",
                &update,
                201,
                "/v1/transactions/t#receipt",
            ),
            (Method::PUT, "/v1/transactions/t/receipt", &update, 200, "/v1/transactions/t#receipt"),
            (Method::DELETE, "/v1/transactions/t/receipt", &update, 204, ""),
        ];
        for (method, path, command, status, shown) in rows {
            let found = shown_at(&method, path, command);
            assert_eq!((found.0.as_u16(), found.1.as_str()), (status, shown), "{method} {path}");
        }
    }

    #[test]
    fn the_text_is_taken_apart() {
        let rows = [
            ("", AnswerSource::Nothing),
            ("/v1/a", AnswerSource::Object("/v1/a")),
            ("/v1/a#b", AnswerSource::Member("/v1/a", "b")),
            ("results:/v1/a", AnswerSource::Results(vec!["/v1/a"])),
            ("results:/v1/a,/v1/b", AnswerSource::Results(vec!["/v1/a", "/v1/b"])),
        ];
        for (text, shown) in rows {
            assert_eq!(AnswerSource::parse(text), shown, "{text}");
        }
    }
}
