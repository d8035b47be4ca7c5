//! The fields typed of a card and its allowance, and the JSON of `/v1` that they stand for. The
//! reader of that JSON finds the faults in the values.
//!
//! Fields have the names of `/v1`, but for `holder` (an e-mail address), `kind` (virtual or
//! physical) and `codes` (the codes of `scope` that are not groups).

use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::merchant_category::MCC_MIN;
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::CardRow;
use cardswitch_v1::routes::allowances::INTERVALS;
use cardswitch_v1::routes::card_texts::CARD_TEXTS;
use cardswitch_v1::routes::view::View;
use cardswitch_wire::address::shipping_address_id;
use cardswitch_wire::reference::DIMENSION_FIELDS;
use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::list::holder;
use crate::dimension_choices::{ids_of, put_dimensions};
use crate::form_snapshot::FormSnapshot;
use crate::forms::TypedFields;
use crate::words::{field_amount, field_time, parse_field_time, typed_amount};

/// The kind of a field of an allowance.
#[derive(Clone, Copy)]
enum AllowanceField {
    Amount,
    Word,
    Tick,
    Time,
}

/// The fields of an allowance but its scope, each with its label.
const ALLOWANCE: [(&str, &str, AllowanceField); 7] = [
    ("amount", "budget", AllowanceField::Amount),
    ("interval", "reset interval", AllowanceField::Word),
    ("transaction_limit", "per-transaction limit", AllowanceField::Amount),
    ("daily_limit", "daily limit", AllowanceField::Amount),
    ("single_use", "single use", AllowanceField::Tick),
    ("start_time", "start", AllowanceField::Time),
    ("end_time", "end", AllowanceField::Time),
];

/// A form as it was typed. A field that the form does not have stays as it is.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub(super) struct CardFields {
    /// Groups of merchant categories that are ticked.
    #[serde(default)]
    pub(super) scope: Vec<String>,
    #[serde(flatten)]
    pub(super) typed: TypedFields,
}

impl CardFields {
    /// The fields of a card's form, as the card is.
    pub(super) fn of_card(card: &CardRow, view: &View<'_>) -> Result<Self, StoreError> {
        let holder = holder(card, view)?.map(|member| member.email).unwrap_or_default();
        let texts = card.profile.texts.named().into_iter().zip(CARD_TEXTS.named());
        let texts = texts.filter(|(_, (_, known))| known.is_changeable);
        let texts = texts.map(|((name, text), _)| (name, text.clone()));
        let dimensions = DIMENSION_FIELDS.into_iter().zip(ids_of(&card.profile.dimensions));
        let typed = texts.chain([("holder", holder)]).chain(dimensions).collect();
        Ok(Self { typed, scope: Vec::new() })
    }

    /// The fields of an allowance's form, as the allowance is.
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
        let typed = [
            ("amount", shown(terms.amount)),
            ("interval", interval.map(|(name, _)| (*name).to_owned()).unwrap_or_default()),
            ("transaction_limit", shown(terms.transaction_limit)),
            ("daily_limit", shown(terms.daily_limit)),
            ("single_use", if terms.single_use { "true".to_owned() } else { String::new() }),
            ("start_time", bound(terms.starts_at, Timestamp::MIN)),
            ("end_time", bound(terms.ends_at, Timestamp::MAX)),
            ("codes", codes.join(", ")),
        ];
        let scope = groups.iter().map(u16::to_string).collect();
        Self { typed: typed.into_iter().collect(), scope }
    }

    /// The values of the card itself that a form shows.
    pub(super) fn seen_profile(&self) -> FormSnapshot {
        let texts = CARD_TEXTS.named().into_iter().filter(|(_, text)| text.is_changeable);
        let names = texts.map(|(name, _)| name).chain(["holder"]).chain(DIMENSION_FIELDS);
        FormSnapshot::default().fields(names.map(|name| (name, self.typed.of(name))))
    }

    /// The values of the allowance that a form shows.
    pub(super) fn seen_allowance(&self) -> FormSnapshot {
        FormSnapshot::default()
            .fields(ALLOWANCE.map(|(name, words, _)| (words, self.typed.of(name))))
            .field("merchants", format!("{} {}", self.scope.join(","), self.typed.of("codes")))
    }

    /// The body that makes a card.
    pub(super) fn new_card(&self, holder: Option<Uuid>, company: &Company) -> Map<String, Value> {
        let mut body = self.changed_profile(&Self::default(), holder);
        let is_virtual = self.typed.of("kind") != "physical";
        body.insert("is_virtual".into(), is_virtual.into());
        if !is_virtual {
            let own = shipping_address_id(company.id);
            body.insert("shipping_address".into(), json!({"id": own}));
        }
        let allowance = self.changed_allowance(&Self::default(), (company.zone, company.currency));
        body.insert("allowance".into(), allowance.into());
        body
    }

    /// The values of the card itself that differ from those a form showed.
    pub(super) fn changed_profile(&self, shown: &Self, holder: Option<Uuid>) -> Map<String, Value> {
        let mut body = Map::new();
        for (name, text) in CARD_TEXTS.named() {
            if self.typed.of(name) != shown.typed.of(name) {
                let typed = self.typed.of(name).trim();
                let is_none = typed.is_empty() && text.is_optional;
                body.insert(name.into(), if is_none { Value::Null } else { typed.into() });
            }
        }
        let typed = self.typed.of("holder").trim();
        if typed != shown.typed.of("holder") {
            let holder = if typed.is_empty() { None } else { holder };
            body.insert("assigned_to".into(), holder.map_or(Value::Null, |id| json!({"id": id})));
        }
        let mut changed = self.typed.dimensions();
        for (value, shown) in changed.iter_mut().zip(shown.typed.dimensions()) {
            *value = value.filter(|value| value.trim() != shown.unwrap_or_default());
        }
        put_dimensions(&mut body, changed);
        body
    }

    /// The values of the allowance that differ from those a form showed. A value that was set
    /// elsewhere more finely than a form shows, such as to the second, stays.
    pub(super) fn changed_allowance(
        &self,
        shown: &Self,
        of: (Tz, CurrencyCode),
    ) -> Map<String, Value> {
        let mut body = Map::new();
        for (name, _, field) in ALLOWANCE {
            if self.typed.of(name) != shown.typed.of(name) {
                body.insert(name.into(), self.allowance_value(name, field, of));
            }
        }
        if self.typed.is_ticked("reset") {
            body.insert("reset".into(), true.into());
        }
        let codes = [self, shown].map(|fields| fields.typed.of("codes").trim());
        if (&self.scope, codes[0]) != (&shown.scope, codes[1]) {
            body.insert("scope".into(), self.scope_value());
        }
        body
    }

    fn allowance_value(
        &self,
        name: &str,
        field: AllowanceField,
        (zone, currency): (Tz, CurrencyCode),
    ) -> Value {
        match (field, self.typed.of(name).trim()) {
            (AllowanceField::Tick, _) => self.typed.is_ticked(name).into(),
            (_, "") => Value::Null,
            (AllowanceField::Amount, typed) => typed_amount(typed, currency).into(),
            (AllowanceField::Word, typed) => typed.into(),
            (AllowanceField::Time, typed) => {
                parse_field_time(typed, zone).unwrap_or_else(|| typed.to_owned()).into()
            }
        }
    }

    /// Groups and codes as numbers; a text that is no number stays, and the reader refuses it.
    fn scope_value(&self) -> Value {
        let codes = self.typed.of("codes").split([',', ' ', ';']).filter(|code| !code.is_empty());
        let number = |text: &str| text.parse::<u64>().map_or_else(|_| text.into(), Value::from);
        self.scope.iter().map(String::as_str).chain(codes).map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: (Tz, CurrencyCode) = (Tz::America__Los_Angeles, CurrencyCode(840));

    fn fields<const N: usize>(typed: [(&'static str, &str); N]) -> CardFields {
        CardFields { scope: Vec::new(), typed: typed.into_iter().collect() }
    }

    fn typed(end_time: &str, codes: &str) -> CardFields {
        let typed = [("amount", "1,000"), ("interval", "monthly")];
        let typed = typed.into_iter().chain([("end_time", end_time), ("codes", codes)]);
        CardFields { scope: vec!["3".into()], typed: typed.collect() }
    }

    fn shown() -> CardFields {
        typed("2026-07-01T10:30", "5812, 5411")
    }

    #[test]
    fn what_is_typed_becomes_what_the_api_takes() {
        let body = shown().changed_allowance(&CardFields::default(), OF);
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
        let body = |typed: &CardFields| Value::Object(typed.changed_allowance(&shown(), OF));
        assert_eq!(body(&shown()), json!({}));
        assert_eq!(body(&typed("", "")), json!({"end_time": null, "scope": [3]}));
        let odd = typed("soon", "food");
        assert_eq!(body(&odd), json!({"end_time": "soon", "scope": [3, "food"]}));
        let ticked = fields([("reset", "true"), ("single_use", "true")]);
        let body = Value::Object(ticked.changed_allowance(&CardFields::default(), OF));
        assert_eq!(body, json!({"reset": true, "single_use": true}));
    }

    #[test]
    fn what_a_form_of_a_card_does_not_have_stays() {
        let id = Uuid::nil();
        let profile = |typed: &CardFields, shown: &CardFields| {
            Value::Object(typed.changed_profile(shown, Some(id)))
        };
        let (holder, blank) = (fields([("holder", "ada@example.com")]), CardFields::default());
        assert_eq!(profile(&holder, &blank), json!({"assigned_to": {"id": id}}));
        assert_eq!(profile(&blank, &holder), json!({"assigned_to": null}));
        assert_eq!(profile(&holder, &holder), json!({}));
        let sorted = fields([("category", "x"), ("label", "y")]);
        let cleared = fields([("category", "x"), ("label", "")]);
        assert_eq!(profile(&sorted, &sorted), json!({}));
        assert_eq!(profile(&cleared, &sorted), json!({"label": null}));
        assert_eq!(profile(&cleared, &blank), json!({"category": {"id": "x"}}));
        assert_eq!(profile(&blank, &sorted), json!({}));
        let named = fields([("description", " a "), ("billing_name", " ")]);
        assert_eq!(profile(&named, &blank), json!({"description": "a", "billing_name": null}));
    }
}
