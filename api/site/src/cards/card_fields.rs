//! What is typed of a card and its allowance, and the JSON of `/v1` that it stands for. What is wrong
//! with a value is for its reader there to say.

use std::collections::BTreeMap;

use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::merchant_category::MCC_MIN;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::CardRow;
use cardswitch_v1::routes::allowances::INTERVALS;
use cardswitch_v1::routes::view::View;
use cardswitch_wire::address::shipping_address_id;
use cardswitch_wire::reference::DIMENSION_FIELDS;
use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::list::holder;
use crate::dimension_choices::{Sent, ids_of, put_dimensions};
use crate::seen::Seen;
use crate::words::{field_amount, field_time, parse_field_time, typed_amount};

/// What was typed, field by field; forms that have only some of them leave the others as they are.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct CardFields {
    pub(super) description: String,
    pub(super) kind: String,
    pub(super) billing_name: String,
    /// The e-mail address of who holds it.
    pub(super) holder: String,
    pub(super) category: Option<String>,
    pub(super) department: Option<String>,
    pub(super) label: Option<String>,
    pub(super) location: Option<String>,
    pub(super) amount: String,
    pub(super) interval: String,
    pub(super) reset: bool,
    pub(super) transaction_limit: String,
    pub(super) daily_limit: String,
    pub(super) single_use: bool,
    pub(super) start_time: String,
    pub(super) end_time: String,
    /// Groups of merchant categories that are ticked.
    pub(super) scope: Vec<String>,
    /// Specific codes (MCC), with commas between them.
    pub(super) codes: String,
    /// What the form showed.
    pub(super) seen: String,
}

impl CardFields {
    /// What a form shows of a card.
    pub(super) fn of_card(card: &CardRow, view: &View<'_>) -> Result<Self, StoreError> {
        let holder = holder(card, view)?;
        let [category, department, label, location] = ids_of(&card.profile.dimensions).map(Some);
        Ok(Self {
            description: card.profile.texts.description.clone(),
            holder: holder.map(|member| member.email).unwrap_or_default(),
            category,
            department,
            label,
            location,
            ..Self::of_terms(&card.record.terms, view.company)
        })
    }

    /// What a form shows of an allowance.
    pub(super) fn of_terms(terms: &AllowanceTerms, company: &Company) -> Self {
        let shown = |amount| field_amount(amount, company.currency);
        let bound = |at, unbounded| match at {
            at if at == unbounded => String::new(),
            at => field_time(at, company.zone),
        };
        let interval = INTERVALS.iter().find(|(_, known)| *known == terms.interval);
        let (codes, groups): (Vec<u16>, Vec<u16>) =
            terms.scope.codes().iter().partition(|code| **code >= MCC_MIN);
        let codes: Vec<_> = codes.iter().map(|code| format!("{code:04}")).collect();
        Self {
            amount: shown(terms.amount),
            interval: interval.map(|(name, _)| (*name).to_owned()).unwrap_or_default(),
            transaction_limit: shown(terms.transaction_limit),
            daily_limit: shown(terms.daily_limit),
            single_use: terms.single_use,
            start_time: bound(terms.starts_at, Timestamp::MIN),
            end_time: bound(terms.ends_at, Timestamp::MAX),
            scope: groups.iter().map(u16::to_string).collect(),
            codes: codes.join(", "),
            ..Self::default()
        }
    }

    /// The dimensions, in the order of their kinds.
    pub(super) fn dimensions(&self) -> Sent<'_> {
        [&self.category, &self.department, &self.label, &self.location].map(Option::as_deref)
    }

    /// The texts of the card itself, by the names that they have in `/v1`.
    fn texts(&self) -> [(&'static str, &str); 1] {
        [("description", &self.description)]
    }

    /// What a form shows of the card itself.
    pub(super) fn seen_profile(&self) -> Seen {
        let dimensions = DIMENSION_FIELDS.into_iter().zip(self.dimensions());
        let dimensions = dimensions.map(|(name, value)| (name, value.unwrap_or_default()));
        let fields = self.texts().into_iter().chain([("holder", &*self.holder)]).chain(dimensions);
        fields.fold(Seen::default(), |seen, (name, value)| seen.field(name, value))
    }

    /// What a form shows of the allowance.
    pub(super) fn seen_allowance(&self) -> Seen {
        Seen::default()
            .field("budget", &self.amount)
            .field("reset interval", &self.interval)
            .field("per-transaction limit", &self.transaction_limit)
            .field("daily limit", &self.daily_limit)
            .field("single use", self.single_use)
            .field("start", &self.start_time)
            .field("end", &self.end_time)
            .field("merchants", format!("{} {}", self.scope.join(","), self.codes))
    }

    /// The body that makes a card.
    pub(super) fn new_card(&self, holder: Option<Uuid>, company: &Company) -> Map<String, Value> {
        let mut body = self.changed_profile(&Self::default(), holder);
        let is_virtual = self.kind != "physical";
        body.insert("is_virtual".into(), is_virtual.into());
        if !is_virtual {
            let own = shipping_address_id(company.id);
            body.insert("shipping_address".into(), json!({"id": own}));
        }
        if !self.billing_name.trim().is_empty() {
            body.insert("billing_name".into(), self.billing_name.trim().into());
        }
        let allowance = self.changed_allowance(&Self::default(), company.zone);
        body.insert("allowance".into(), allowance.into());
        body
    }

    /// What of the card itself is other than a form showed.
    pub(super) fn changed_profile(&self, shown: &Self, holder: Option<Uuid>) -> Map<String, Value> {
        let mut body = Map::new();
        for ((name, typed), (_, shown)) in self.texts().into_iter().zip(shown.texts()) {
            if typed != shown {
                body.insert(name.into(), typed.trim().into());
            }
        }
        if self.holder.trim() != shown.holder {
            let holder = if self.holder.trim().is_empty() { None } else { holder };
            body.insert("assigned_to".into(), holder.map_or(Value::Null, |id| json!({"id": id})));
        }
        let mut changed = self.dimensions();
        for (value, shown) in changed.iter_mut().zip(shown.dimensions()) {
            *value = value.filter(|value| value.trim() != shown.unwrap_or_default());
        }
        put_dimensions(&mut body, changed);
        body
    }

    /// What of the allowance is other than a form showed: what was set elsewhere more finely than a
    /// form shows, such as seconds, stays.
    pub(super) fn changed_allowance(&self, shown: &Self, zone: Tz) -> Map<String, Value> {
        let mut body = BTreeMap::new();
        let amounts = [
            ("amount", &self.amount, &shown.amount),
            ("transaction_limit", &self.transaction_limit, &shown.transaction_limit),
            ("daily_limit", &self.daily_limit, &shown.daily_limit),
        ];
        for (name, typed, _) in amounts.into_iter().filter(|(_, typed, shown)| typed != shown) {
            let is_none = typed.trim().is_empty();
            body.insert(name, if is_none { Value::Null } else { typed_amount(typed).into() });
        }
        if self.interval != shown.interval {
            let interval = (!self.interval.is_empty()).then_some(self.interval.as_str());
            body.insert("interval", interval.into());
        }
        let times = [
            ("start_time", &self.start_time, &shown.start_time),
            ("end_time", &self.end_time, &shown.end_time),
        ];
        for (name, typed, _) in times.into_iter().filter(|(_, typed, shown)| typed != shown) {
            body.insert(name, time_value(typed, zone));
        }
        if self.single_use != shown.single_use {
            body.insert("single_use", self.single_use.into());
        }
        if self.reset {
            body.insert("reset", true.into());
        }
        if (&self.scope, self.codes.trim()) != (&shown.scope, shown.codes.as_str()) {
            body.insert("scope", self.scope_value());
        }
        body.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Groups and codes as numbers; what is none stays text, which the reader refuses.
    fn scope_value(&self) -> Value {
        let codes = self.codes.split([',', ' ', ';']).filter(|code| !code.is_empty());
        let number = |text: &str| text.parse::<u64>().map_or_else(|_| text.into(), Value::from);
        self.scope.iter().map(String::as_str).chain(codes).map(number).collect()
    }
}

fn time_value(typed: &str, zone: Tz) -> Value {
    match typed.trim() {
        "" => Value::Null,
        typed => parse_field_time(typed, zone).unwrap_or_else(|| typed.to_owned()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: Tz = Tz::America__Los_Angeles;

    fn typed() -> CardFields {
        CardFields {
            amount: "1,000".into(),
            interval: "monthly".into(),
            end_time: "2026-07-01T10:30".into(),
            scope: vec!["3".into()],
            codes: "5812, 5411".into(),
            ..CardFields::default()
        }
    }

    #[test]
    fn what_is_typed_becomes_what_the_api_takes() {
        let body = typed().changed_allowance(&CardFields::default(), ZONE);
        let expected = json!({
            "amount": "1000",
            "interval": "monthly",
            "end_time": "2026-07-01T17:30:00.000000Z",
            "scope": [3, 5812, 5411],
        });
        assert_eq!(Value::Object(body), expected);
    }

    #[test]
    fn only_what_is_other_than_was_shown_is_sent() {
        let shown = typed();
        let body = |typed: &CardFields| Value::Object(typed.changed_allowance(&shown, ZONE));
        assert_eq!(body(&shown), json!({}));
        let cleared = CardFields { end_time: String::new(), codes: String::new(), ..typed() };
        assert_eq!(body(&cleared), json!({"end_time": null, "scope": [3]}));
        let odd = CardFields { start_time: "soon".into(), codes: "food".into(), ..typed() };
        assert_eq!(body(&odd), json!({"start_time": "soon", "scope": [3, "food"]}));
        let reset = CardFields { reset: true, single_use: true, ..typed() };
        assert_eq!(body(&reset), json!({"reset": true, "single_use": true}));
        let (holder, blank) = (
            CardFields { holder: "ada@example.com".into(), ..CardFields::default() },
            CardFields::default(),
        );
        let id = Uuid::nil();
        let profile = |typed: &CardFields, shown: &CardFields| {
            Value::Object(typed.changed_profile(shown, Some(id)))
        };
        let expected = json!({"assigned_to": {"id": id}});
        assert_eq!(profile(&holder, &blank), expected);
        assert_eq!(profile(&blank, &holder), json!({"assigned_to": null}));
        assert_eq!(profile(&holder, &holder), json!({}));
        let some = |text: &str| Some(text.to_owned());
        let sorted = CardFields { category: some("x"), label: some("y"), ..CardFields::default() };
        let cleared = CardFields { category: some("x"), label: some(""), ..CardFields::default() };
        assert_eq!(profile(&sorted, &sorted), json!({}));
        assert_eq!(profile(&cleared, &sorted), json!({"label": null}));
        assert_eq!(profile(&cleared, &blank), json!({"category": {"id": "x"}}));
        assert_eq!(profile(&blank, &sorted), json!({}), "what a form does not have stays");
    }
}
