//! The faults of a form, each at its field: those that `/v1` finds in the same values, in words for
//! people.
//!
//! A form becomes the JSON that `/v1` takes and goes through its reader, so rules are one. Templates
//! ask for the fault of a field by the name it has there: `faults.of("allowance.amount")`.

use axum::http::StatusCode;
use axum::response::Response;

use cardswitch_edge::error::ApiError;
use cardswitch_wire::fault::{Fault, Flaw};
use cardswitch_wire::glossary::capitalized;

use super::form_snapshot::changed_meanwhile;

/// The faults of a form, and the message above it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    /// The status of a page that shows them.
    pub(super) status: StatusCode,
    alert: String,
    by_param: Vec<(String, String)>,
}

impl Faults {
    /// The faults that the reader found.
    pub(super) fn new(faults: &[Fault]) -> Self {
        let by_param = faults.iter().map(|fault| (fault.param.clone(), words_of(&fault.flaw)));
        let alert = "Please fix the highlighted fields.".to_owned();
        Self { status: StatusCode::BAD_REQUEST, alert, by_param: by_param.collect() }
    }

    /// The faults of a list's filters. The message names those that none of the form's `fields` shows.
    pub(super) fn of_filters(faults: &[Fault], fields: &[&str]) -> Self {
        let is_shown = |fault: &&Fault| fields.contains(&fault.param.as_str());
        let (shown, others): (Vec<&Fault>, Vec<&Fault>) = faults.iter().partition(is_shown);
        let named = others.iter().map(|fault| sentence(&fault.message())).collect::<Vec<_>>();
        let found = Self::new(faults);
        if named.is_empty() {
            return found;
        }
        let highlighted = Some(found.alert.clone()).filter(|_| !shown.is_empty());
        let alert = highlighted.into_iter().chain(named).collect::<Vec<_>>().join(" ");
        Self { alert, ..found }
    }

    /// The faults of a refusal that the visitor can do something about: its fields, or its message.
    /// Errors: any other failure, which has a page of its own.
    pub(super) fn of_refusal(error: ApiError) -> Result<Self, ApiError> {
        let status = error.status;
        match status.as_u16() {
            400 if !error.faults.is_empty() => Ok(Self::new(&error.faults)),
            412 => Ok(Self::conflict(changed_meanwhile(&[]))),
            400 | 409 => Ok(Self { status, ..Self::alert_only(sentence(error.message())) }),
            _ => Err(error),
        }
    }

    /// A fault of the whole form.
    pub(super) fn alert_only(alert: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, alert: alert.into(), by_param: Vec::new() }
    }

    /// The present state is in the way.
    pub(super) fn conflict(alert: impl Into<String>) -> Self {
        Self { status: StatusCode::CONFLICT, ..Self::alert_only(alert) }
    }

    /// The same with one more fault, which is a whole sentence.
    #[must_use]
    pub(super) fn and(mut self, param: &str, text: &str) -> Self {
        if self.alert.is_empty() {
            "Please fix the highlighted fields.".clone_into(&mut self.alert);
        }
        if self.status.is_success() {
            self.status = StatusCode::BAD_REQUEST;
        }
        self.by_param.push((param.to_owned(), text.to_owned()));
        self
    }

    /// The same, as faults of an object within another.
    #[must_use]
    pub(super) fn below(mut self, outer: &str) -> Self {
        for (param, _) in &mut self.by_param {
            *param = format!("{outer}.{param}");
        }
        self
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.alert.is_empty() && self.by_param.is_empty()
    }

    /// The message above the form; blank where there is none.
    pub(super) fn alert(&self) -> &str {
        &self.alert
    }

    /// The first fault of these fields, else the message; blank where there is none.
    pub(super) fn first(&self, params: &[&str]) -> &str {
        let faults = params.iter().map(|param| self.of(param));
        faults.chain([self.alert()]).find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// The fault of a field; blank where there is none.
    pub(super) fn of(&self, param: &str) -> &str {
        let found = self.by_param.iter().find(|(name, _)| name == param);
        found.map_or("", |(_, text)| text)
    }
}

/// A page that says why something was not done, with the status of that.
pub(super) fn with_status(mut page: Response, status: StatusCode) -> Response {
    *page.status_mut() = status;
    page
}

/// A fault in words for people: details of the format that only programs need are left out.
fn words_of(flaw: &Flaw) -> String {
    let known = match flaw.code {
        "required" | "blank" | "null" => "Required.",
        "not_a_number" => "Enter an amount, such as 1250.00.",
        "not_a_time" => "Must be a date and time, such as 2026-03-04 12:30.",
        "not_a_date" => "Must be a date, such as 2026-03-04.",
        "not_integers" => "Enter category codes of four digits, separated by commas.",
        "too_large" => "Enter an amount up to 1,000,000,000,000.",
        "after_end_time" => "Must not be after “Valid until”.",
        "before_start_time" => "Must not be before “Valid from”.",
        "control_character" => "Contains invisible characters.",
        "not_found" if flaw.message.ends_with("no member of this company") => {
            "No member has this email."
        }
        "not_a_reference" => "Choose from the list.",
        _ => return sentence(&flaw.message),
    };
    known.to_owned()
}

/// A message about a value as a sentence for people: names become words, and null becomes blank.
pub(super) fn sentence(message: &str) -> String {
    let words = message.replace("null for", "blank for").replace("`null`", "blank");
    let mut in_name = false;
    let plain: String = words
        .chars()
        .filter_map(|letter| match letter {
            '`' => {
                in_name = !in_name;
                None
            }
            '_' if in_name => Some(' '),
            letter => Some(letter),
        })
        .collect();
    let stop = if plain.ends_with(['.', '!', '?']) { "" } else { "." };
    capitalized(&plain) + stop
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_sentences() {
        let rows = [
            ("must be above 0", "Must be above 0."),
            ("must not be after `end_time`", "Must not be after end time."),
            ("must be above 0, or null for no limit", "Must be above 0, or blank for no limit."),
            ("must be a date, `yyyy-mm-dd`", "Must be a date, yyyy-mm-dd."),
            ("", "."),
        ];
        for (message, expected) in rows {
            assert_eq!(sentence(message), expected);
        }
    }

    #[test]
    fn faults_of_filters_without_a_field_are_named() {
        let [state, time] = ["state", "created_after"]
            .map(|name| Fault::new(name, Flaw::new("not_a_time", "must be a time")));
        let alert = |faults: &[Fault]| Faults::of_filters(faults, &["state"]).alert().to_owned();
        let highlighted = "Please fix the highlighted fields.";
        assert_eq!(alert(std::slice::from_ref(&state)), highlighted);
        assert_eq!(alert(std::slice::from_ref(&time)), "Created after must be a time.");
        let both = format!("{highlighted} Created after must be a time.");
        assert_eq!(alert(&[state, time]), both);
    }

    #[test]
    fn faults_stand_at_their_fields() {
        let faults = [Fault::new("allowance.amount", Flaw::required())];
        let shown = Faults::of_refusal(ApiError::invalid(faults.to_vec())).unwrap();
        assert_eq!(shown.of("allowance.amount"), "Required.");
        assert_eq!(shown.of("amount"), "");
        assert!(!shown.alert().is_empty() && !shown.is_empty());
        for refusal in [ApiError::card_not_virtual(), ApiError::precondition_failed()] {
            let conflict = Faults::of_refusal(refusal).unwrap();
            assert!(!conflict.alert().is_empty() && conflict.status == StatusCode::CONFLICT);
        }
        assert!(Faults::of_refusal(ApiError::not_found()).is_err());
        assert!(Faults::default().is_empty());
    }
}
