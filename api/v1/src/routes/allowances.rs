//! Allowances: the budget of a card and the restrictions on it. Source: spec "Allowances".

use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, JsonBody, PathId};
use cardswitch_edge::json::Json;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::allowance::{AllowanceChanges, AllowanceCommand};
use cardswitch_engine::domain::allowance::{AllowanceTerms, Scope};
use cardswitch_engine::domain::business_date::{Interval, date_at, start_of_date};
use cardswitch_engine::domain::ids::{AllowanceId, Timestamp};
use cardswitch_engine::domain::merchant_category;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::store::query::CardRow;
use cardswitch_identity::auth::Call;
use cardswitch_wire::amount::Amount;
use cardswitch_wire::bodies;
use cardswitch_wire::body::{Parts, Presence, ValueRule, budget, flag, instant, limit, part, rule};
use cardswitch_wire::fault::{Flaw, window_faults};
use cardswitch_wire::fields::{self, Fields};
use cardswitch_wire::time::render_time;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use super::view::{Reader, View, read_view};
use crate::words;

/// An allowance as responses show it. Source: spec "Allowance".
#[derive(Debug, Serialize, ToSchema)]
pub struct AllowanceBody {
    id: Uuid,
    url: String,
    amount: Amount,
    #[schema(value_type = Option<words::Interval>)]
    interval: Option<&'static str>,
    balance: Amount,
    daily_limit: Option<Amount>,
    transaction_limit: Option<Amount>,
    single_use: bool,
    start_time: Option<String>,
    end_time: Option<String>,
    scope: Vec<u16>,
    /// Extension: when the next period starts.
    next_reset_at: Option<String>,
    /// Extension: what was used.
    usage: UsageBody,
    created_at: String,
}

/// Usage of an allowance.
#[derive(Debug, Serialize, ToSchema)]
struct UsageBody {
    /// Of the period's budget.
    spent: Amount,
    /// On this day, in the company's zone.
    spent_today: Amount,
    /// Amount left of the daily limit.
    daily_balance: Option<Amount>,
    /// When the period began; after a change of the interval, from when its end is counted.
    period_start: String,
    /// When the next one begins, where the budget starts anew by itself.
    period_end: Option<String>,
    /// Amount that the card's pending purchases hold.
    held: Amount,
}

impl AllowanceBody {
    /// The allowance of a card as it stands at the view's moment.
    pub fn new(card: &CardRow, view: &View<'_>) -> Self {
        let (profile, terms) = (&card.profile, &card.record.terms);
        let (zone, currency) = (view.company.zone, view.company.currency);
        let today = date_at(zone, view.now);
        let usage = card.record.usage.rolled(terms.interval, today);
        let bound = |at, unbounded| (at != unbounded).then(|| render_time(at));
        let next_period = today.next_period_start(terms.interval);
        let next_reset_at = next_period.map(|date| render_time(start_of_date(zone, date)));
        Self {
            id: profile.allowance_id.0,
            url: view.urls.object("allowances", profile.allowance_id.0),
            amount: Amount::new(terms.amount, currency),
            interval: render_interval(terms.interval),
            balance: Amount::new(usage.allowance_balance(terms), currency),
            daily_limit: Amount::limit(terms.daily_limit, currency),
            transaction_limit: Amount::limit(terms.transaction_limit, currency),
            single_use: terms.single_use,
            start_time: bound(terms.starts_at, Timestamp::MIN),
            end_time: bound(terms.ends_at, Timestamp::MAX),
            scope: terms.scope.codes().to_vec(),
            next_reset_at: next_reset_at.clone(),
            usage: UsageBody {
                spent: Amount::new(usage.spent, currency),
                spent_today: Amount::new(usage.day_spent, currency),
                daily_balance: Amount::limit(usage.day_room(terms), currency),
                period_start: render_time(start_of_date(zone, usage.period_started_on)),
                period_end: next_reset_at,
                held: Amount::new(card.held, currency),
            },
            created_at: render_time(profile.created_at),
        }
    }
}

/// Every interval with its name on the wire.
pub const INTERVALS: [(&str, Interval); 5] = [
    ("daily", Interval::Daily),
    ("weekly", Interval::Weekly),
    ("monthly", Interval::Monthly),
    ("quarterly", Interval::Quarterly),
    ("yearly", Interval::Yearly),
];

/// An interval's name on the wire.
pub(super) fn render_interval(interval: Interval) -> Option<&'static str> {
    INTERVALS.iter().find(|(_, known)| *known == interval).map(|(name, _)| *name)
}

bodies! {
    /// Allowance of a new card.
    NewAllowance "NewAllowance" |fields| _ = parse_new_allowance(fields, CurrencyCode(0));
    /// Changes of an allowance; absent fields stay.
    AllowanceUpdate "AllowanceUpdate" |fields| {
        _ = parse_allowance_changes(fields, CurrencyCode(0));
    };
}

/// Reads what is to change about an allowance. `reset` and everything else is optional.
pub fn parse_allowance_changes(
    fields: &mut Fields<'_>,
    currency: CurrencyCode,
) -> AllowanceChanges {
    parse_fields(fields, currency, Presence::Optional)
}

/// Reads the fields of an allowance. A new one is told by its budget, which has to be given.
fn parse_fields(
    fields: &mut Fields<'_>,
    currency: CurrencyCode,
    amount: Presence,
) -> AllowanceChanges {
    let is_new = amount == Presence::Required;
    let about = if is_new { "The budget." } else { "The budget. Money spent stays spent." };
    let amount = fields.given("amount", about, amount, budget(currency));
    let about = "Interval after which the budget resets; null for never.";
    let interval = fields.patch("interval", about, rule(part::<words::Interval>, interval));
    let about =
        "Whether to start anew with nothing spent; needs an allowance whose `interval` is null.";
    let reset = match is_new {
        true => fields.optional("reset", fields::boolean),
        false => fields.may("reset", about, flag().example("false")),
    };
    let mut limited = |name, every: &str| {
        let limit = limit(currency, "must be above 0, or null for no limit");
        let cleared = if is_new { "" } else { "; null for no limit" };
        let about = format!("At most this much a {every}{cleared}.");
        fields.patch(name, &about, limit).map(|limit| limit.unwrap_or(Minor::UNLIMITED))
    };
    let daily_limit = limited("daily_limit", "day");
    let transaction_limit = limited("transaction_limit", "transaction");
    let single_use = fields.may("single_use", "Whether it serves one transaction.", flag());
    let starts_at = fields.patch("start_time", "Transactions before it are declined.", instant());
    let ends_at = fields.patch("end_time", "Transactions after it are declined.", instant());
    let about = "Merchant categories that alone may charge the card; empty for all.";
    let scope = fields.may("scope", about, rule(scope_schema, scope).example("[5812]"));
    AllowanceChanges {
        amount,
        interval: interval.map(Option::unwrap_or_default),
        reset: reset.unwrap_or(false),
        daily_limit,
        transaction_limit,
        single_use,
        starts_at: starts_at.map(|given| given.unwrap_or(Timestamp::MIN)),
        ends_at: ends_at.map(|given| given.unwrap_or(Timestamp::MAX)),
        scope,
    }
}

fn scope_schema(_: &mut Parts) -> Value {
    let items = json!({"type": "integer", "format": "int32", "minimum": 0});
    json!({"type": "array", "items": items, "maxItems": Scope::LEN_MAX})
}

/// Reads the allowance of a new card, whose budget has to be given.
pub fn parse_new_allowance(fields: &mut Fields<'_>, currency: CurrencyCode) -> AllowanceTerms {
    let given = parse_fields(fields, currency, Presence::Required);
    if given.amount.is_none() && !fields.is_faulty("amount") {
        fields.fault("amount", Flaw::required());
    }
    let plain = AllowanceTerms::budget(given.amount.unwrap_or_default());
    let terms = AllowanceTerms {
        amount: plain.amount,
        daily_limit: given.daily_limit.unwrap_or(plain.daily_limit),
        transaction_limit: given.transaction_limit.unwrap_or(plain.transaction_limit),
        starts_at: given.starts_at.unwrap_or(plain.starts_at),
        ends_at: given.ends_at.unwrap_or(plain.ends_at),
        scope: given.scope.unwrap_or(plain.scope),
        interval: given.interval.unwrap_or(plain.interval),
        single_use: given.single_use.unwrap_or(plain.single_use),
    };
    if terms.starts_at > terms.ends_at {
        window_faults().into_iter().for_each(|fault| fields.fault(&fault.param, fault.flaw));
    }
    terms
}

fn interval(value: &RawValue) -> Result<Interval, Flaw> {
    let text = fields::text(value).unwrap_or_default();
    let known = INTERVALS.iter().find(|(name, _)| *name == text).map(|(_, interval)| *interval);
    known.ok_or_else(|| {
        let names = INTERVALS.map(|(name, _)| format!("`{name}`")).join(", ");
        Flaw::new("unknown_value", format!("must be null or one of {names}"))
    })
}

fn scope(value: &RawValue) -> Result<Scope, Flaw> {
    let codes: Vec<u64> = serde_json::from_str(value.get())
        .map_err(|_| Flaw::new("not_integers", "must be an array of merchant category numbers"))?;
    if codes.len() > Scope::LEN_MAX {
        let message = format!("must have at most {} values", Scope::LEN_MAX);
        return Err(Flaw::new("too_many", message));
    }
    let mut known = Vec::new();
    for code in codes {
        let exists = u16::try_from(code).ok().filter(|code| merchant_category::exists(*code));
        let Some(category) = exists else {
            return Err(Flaw::new(
                "unknown_value",
                format!("names `{code}`, no merchant category"),
            ));
        };
        if known.contains(&category) {
            return Err(Flaw::new("duplicate", format!("names `{code}` twice")));
        }
        known.push(category);
    }
    Scope::new(&known).ok_or_else(|| Flaw::new("too_many", "has too many values"))
}

/// Retrieve an allowance.
#[utoipa::path(
    get, path = "/v1/allowances/{allowance_id}", responses((status = 200, body = AllowanceBody)),
)]
pub async fn get_allowance(call: Call, PathId(id): PathId) -> Answer<Json<AllowanceBody>> {
    read_allowance(&call, AllowanceId(id)).await.map(Json)
}

/// Update an allowance.
#[utoipa::path(
    put, path = "/v1/allowances/{allowance_id}", request_body = AllowanceUpdate,
    responses((status = 200, body = AllowanceBody)),
)]
pub async fn update_allowance(
    call: Call,
    PathId(id): PathId,
    body: JsonBody,
) -> Answer<Json<AllowanceBody>> {
    let id = AllowanceId(id);
    read_allowance(&call, id).await?;
    change_allowance((&call).into(), id, body.fields()?).await?;
    read_allowance(&call, id).await.map(Json)
}

/// Changes what `fields` name of an allowance.
/// Errors: faults of the fields, or the reason why it was not changed.
pub async fn change_allowance(
    reader: Reader<'_>,
    id: AllowanceId,
    mut fields: Fields<'_>,
) -> Result<(), ApiError> {
    let changes = parse_allowance_changes(&mut fields, reader.company.currency);
    fields.finish()?;
    let command = AllowanceCommand::Update(reader.company.id, id, changes);
    Ok(reader.state.carry_out(AdminCommand::Allowance(command)).await?)
}

async fn read_allowance(call: &Call, id: AllowanceId) -> Result<AllowanceBody, ApiError> {
    let body = read_view(call, |view| {
        let card = view.snapshot.card_by_allowance_id(view.company.slot, id)?;
        Ok(card.map(|card| AllowanceBody::new(&card, view)))
    });
    body.await?.ok_or_else(ApiError::not_found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USD: CurrencyCode = CurrencyCode(840);

    fn parse(json: &str) -> (AllowanceChanges, Vec<(String, &'static str)>) {
        let mut fields = Fields::parse(json.as_bytes()).unwrap();
        let changes = parse_allowance_changes(&mut fields, USD);
        let faults = fields.finish().err().unwrap_or_default();
        (changes, faults.into_iter().map(|fault| (fault.param, fault.flaw.code)).collect())
    }

    #[test]
    fn each_field_is_checked() {
        let rows: &[(&str, Option<(&str, &str)>)] = &[
            ("{}", None),
            (r#"{"balance": "x", "id": 5, "surprise": []}"#, None),
            (r#"{"amount": 0}"#, None),
            (r#"{"amount": "12.50"}"#, None),
            (r#"{"amount": -0.01}"#, Some(("amount", "negative"))),
            (r#"{"amount": null}"#, Some(("amount", "null"))),
            (r#"{"amount": 1.005}"#, Some(("amount", "too_many_decimals"))),
            (r#"{"amount": "NaN"}"#, Some(("amount", "not_a_number"))),
            (r#"{"amount": 1000000000001}"#, Some(("amount", "too_large"))),
            (r#"{"daily_limit": null, "transaction_limit": null}"#, None),
            (r#"{"daily_limit": 0}"#, Some(("daily_limit", "not_positive"))),
            (r#"{"transaction_limit": -1}"#, Some(("transaction_limit", "not_positive"))),
            (r#"{"interval": null}"#, None),
            (r#"{"interval": "weekly"}"#, None),
            (r#"{"interval": "yearly"}"#, None),
            (r#"{"interval": "hourly"}"#, Some(("interval", "unknown_value"))),
            (r#"{"interval": 7}"#, Some(("interval", "unknown_value"))),
            (r#"{"reset": true}"#, None),
            (r#"{"reset": "true"}"#, Some(("reset", "not_a_boolean"))),
            (r#"{"reset": null}"#, Some(("reset", "null"))),
            (r#"{"single_use": 1}"#, Some(("single_use", "not_a_boolean"))),
            (r#"{"start_time": "2026-03-01T00:00:00Z", "end_time": null}"#, None),
            (r#"{"start_time": "2026-03-01"}"#, Some(("start_time", "not_a_time"))),
            (r#"{"end_time": 5}"#, Some(("end_time", "not_a_time"))),
            (r#"{"scope": []}"#, None),
            (r#"{"scope": [5812, 3]}"#, None),
            (r#"{"scope": null}"#, Some(("scope", "null"))),
            (r#"{"scope": [5812, 5812]}"#, Some(("scope", "duplicate"))),
            (r#"{"scope": [0]}"#, Some(("scope", "unknown_value"))),
            (r#"{"scope": [71348]}"#, Some(("scope", "unknown_value"))),
            (r#"{"scope": [-5]}"#, Some(("scope", "not_integers"))),
            (r#"{"scope": [5812.0]}"#, Some(("scope", "not_integers"))),
            (r#"{"scope": ["5812"]}"#, Some(("scope", "not_integers"))),
            (r#"{"scope": 5812}"#, Some(("scope", "not_integers"))),
            (r#"{"scope": [1,2,3,4,5,6,7,8,9,10,11]}"#, Some(("scope", "too_many"))),
        ];
        for (json, expected) in rows {
            let (_, faults) = parse(json);
            let expected: Vec<_> =
                expected.iter().map(|(param, code)| ((*param).to_owned(), *code)).collect();
            assert_eq!(faults, expected, "{json}");
        }
    }

    #[test]
    fn every_field_at_fault_is_named_at_once() {
        let (_, faults) = parse(r#"{"amount": -1, "interval": "x", "scope": 1, "reset": 0}"#);
        let names: Vec<_> = faults.iter().map(|(param, _)| param.as_str()).collect();
        assert_eq!(names, ["amount", "interval", "reset", "scope"]);
    }

    #[test]
    fn absent_stays_and_null_takes_away() {
        let (changes, _) = parse("{}");
        assert_eq!((changes.daily_limit, changes.interval, changes.ends_at), (None, None, None));
        let (changes, _) = parse(
            r#"{"daily_limit": null, "interval": null, "start_time": null, "end_time": null}"#,
        );
        assert_eq!(changes.daily_limit, Some(Minor::UNLIMITED));
        assert_eq!(changes.interval, Some(Interval::None));
        assert_eq!(changes.starts_at, Some(Timestamp::MIN));
        assert_eq!(changes.ends_at, Some(Timestamp::MAX));
    }

    #[test]
    fn a_new_allowance_needs_its_amount_only() {
        let mut fields = Fields::parse(br#"{"amount": 50, "interval": "daily"}"#).unwrap();
        let terms = parse_new_allowance(&mut fields, USD);
        assert!(fields.finish().is_ok());
        let expected =
            AllowanceTerms { interval: Interval::Daily, ..AllowanceTerms::budget(Minor(5_000)) };
        assert_eq!(terms, expected);
        for (json, code) in [("{}", "required"), (r#"{"amount": null}"#, "null")] {
            let mut fields = Fields::parse(json.as_bytes()).unwrap();
            parse_new_allowance(&mut fields, USD);
            let faults = fields.finish().unwrap_err();
            let codes: Vec<_> = faults.iter().map(|fault| fault.flaw.code).collect();
            assert_eq!(codes, [code], "{json}");
        }
    }

    #[test]
    fn a_window_that_ends_before_it_starts_is_told_of_both_ends() {
        let noon = "2026-03-01T12:00:00Z";
        for (end, names) in [
            ("2026-03-01T11:59:59.999999Z", &["start_time", "end_time"][..]),
            (noon, &[]),
            ("2026-03-01T13:30:00+01:30", &[]),
        ] {
            let json = format!(r#"{{"amount": 5, "start_time": "{noon}", "end_time": "{end}"}}"#);
            let mut fields = Fields::parse(json.as_bytes()).unwrap();
            parse_new_allowance(&mut fields, USD);
            let faults = fields.finish().err().unwrap_or_default();
            let found: Vec<_> = faults.iter().map(|fault| fault.param.as_str()).collect();
            assert_eq!(found, names, "{end}");
        }
    }
}
