//! The security question of a user's choice. GET and POST /account/question.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::user::{SecurityQuestion, UserChanges};
use cardswitch_engine::domain::text::LineText;
use cardswitch_identity::auth::passwords::hash;
use cardswitch_identity::auth::second_factor::normal_answer;
use cardswitch_identity::state::AppState;
use serde::Deserialize;

use super::device::Client;
use super::faults::with_status;
use super::forms::SiteForm;
use super::frame::page;
use super::next::ACCOUNT_PATH;
use super::notice::{Notice, go_on};
use super::password::{WRONG_PASSWORD, change_user, is_password_of};
use super::session::{RequiredSession, Session};

/// The longest question or answer. Units: characters.
const TEXT_CHARS_MAX: usize = 200;
/// The shortest answer. Units: characters.
const ANSWER_CHARS_MIN: usize = 3;

#[derive(Default, Template)]
#[template(path = "account_question.html")]
struct QuestionContent {
    csrf: String,
    question: String,
    is_set: bool,
    question_error: &'static str,
    answer_error: &'static str,
    password_error: &'static str,
    removal_error: &'static str,
}

/// The fields of the form.
#[derive(Deserialize)]
pub(super) struct QuestionForm {
    action: QuestionAction,
    #[serde(default)]
    question: String,
    #[serde(default)]
    answer: String,
    password: String,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum QuestionAction {
    Set,
    Remove,
}

/// GET /account/question.
pub(super) async fn show(RequiredSession(state, session): RequiredSession) -> Response {
    let asked = session.user.security_question.as_ref();
    let question = asked.map_or(String::new(), |asked| asked.question.to_string());
    shown(&state, &session, QuestionContent { question, ..Default::default() })
}

fn shown(state: &AppState, session: &Session, content: QuestionContent) -> Response {
    let is_set = session.user.security_question.is_some();
    let content = QuestionContent { csrf: session.csrf(state), is_set, ..content };
    page("Security question", content)
}

/// POST /account/question.
pub(super) async fn change(
    client: Client,
    RequiredSession(state, session): RequiredSession,
    SiteForm(form): SiteForm<QuestionForm>,
) -> Result<Response, ApiError> {
    let question = form.question.trim().to_owned();
    let refused = |content: QuestionContent| {
        let content = QuestionContent { question: question.clone(), ..content };
        Ok(with_status(shown(&state, &session, content), StatusCode::BAD_REQUEST))
    };
    let is_set = form.action == QuestionAction::Set;
    let question_error = question_error(&question);
    if is_set && !question_error.is_empty() {
        return refused(QuestionContent { question_error, ..Default::default() });
    }
    let answer = normal_answer(&form.answer);
    let answer_error = answer_error(&answer, &normal_answer(&question));
    if is_set && !answer_error.is_empty() {
        return refused(QuestionContent { answer_error, ..Default::default() });
    }
    if !is_password_of(&state, &session.user, &client, &form.password).await? {
        return refused(match form.action {
            QuestionAction::Set => {
                QuestionContent { password_error: WRONG_PASSWORD, ..Default::default() }
            }
            QuestionAction::Remove => {
                QuestionContent { removal_error: WRONG_PASSWORD, ..Default::default() }
            }
        });
    }
    let (asked, notice) = match form.action {
        QuestionAction::Set => {
            let asked = SecurityQuestion {
                question: LineText::spaced(&question),
                answer_hash: hash(&answer).await?,
            };
            (Some(asked), Notice::QUESTION_SET)
        }
        QuestionAction::Remove => (None, Notice::QUESTION_REMOVED),
    };
    let changes = UserChanges { security_question: Some(asked), ..UserChanges::default() };
    let changed = change_user(&state, &session, changes).await?;
    Ok(changed.err().unwrap_or_else(|| go_on(&state, ACCOUNT_PATH, notice)))
}

fn question_error(question: &str) -> &'static str {
    if question.is_empty() {
        "Enter a question."
    } else if question.chars().count() > TEXT_CHARS_MAX {
        "A question has at most 200 characters."
    } else if LineText::new(question).is_err() {
        "A question is one line of plain text."
    } else {
        ""
    }
}

fn answer_error(answer: &str, question: &str) -> &'static str {
    match answer.chars().count() {
        count if count < ANSWER_CHARS_MIN => "An answer has at least 3 characters.",
        count if count > TEXT_CHARS_MAX => "An answer has at most 200 characters.",
        _ if question.contains(answer) => "The question must not give the answer away.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_judged() {
        let long = "a".repeat(TEXT_CHARS_MAX + 1);
        for (question, is_fine) in
            [("First pet?", true), ("", false), ("a\nb", false), (long.as_str(), false)]
        {
            assert_eq!(question_error(question).is_empty(), is_fine, "{question}");
        }
        let rows = [
            ("rex", "first pet?", true),
            ("re", "first pet?", false),
            (long.as_str(), "first pet?", false),
            ("rex", "was it rex?", false),
        ];
        for (answer, question, is_fine) in rows {
            assert_eq!(answer_error(answer, question).is_empty(), is_fine, "{answer} {question}");
        }
    }
}
