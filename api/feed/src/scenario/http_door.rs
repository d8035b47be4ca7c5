//! The HTTP door: the request of a step as a JSON body, and the answer to it.

use serde_json::{Map, Value, json};

use super::act::Act;
use super::file::{Credential, Naming, Presentment};
use super::iso_door::WRONG_PIN;
use super::money::Money;
use super::step_request::{StepAnswer, StepRequest, TransactionIds};
use super::switch_api::{HttpAnswer, SwitchApi};
use crate::FeedError;
use crate::merchants::catalogue;
use crate::message::{Identity, acquirer, given, given_expiry, transmission_time};

/// Sends what is asked and waits for the answer. Its key makes the same message a repeat.
/// Errors: a broken connection.
pub(super) fn ask(
    api: &mut SwitchApi<'_>,
    asked: &StepRequest<'_>,
) -> Result<StepAnswer, FeedError> {
    let Identity { rrn, stan, .. } = asked.identity;
    let key = format!("{rrn:012}-{stan}");
    let answer = api.send((place(asked.act), &key), &body(asked))?;
    Ok(answered(&answer))
}

const fn place(act: Act) -> &'static str {
    match act {
        Act::Advise(_) => "/network/v1/advices",
        Act::Increment(_) => "/network/v1/increments",
        Act::Present(_) => "/network/v1/presentments",
        Act::Refund(_) => "/network/v1/refunds",
        Act::Reverse => "/network/v1/reversals",
        _ => "/network/v1/authorizations",
    }
}

fn body(asked: &StepRequest<'_>) -> Value {
    let (act, details) = (asked.act, asked.details);
    let decimal = |money: Money| json!(money.decimal());
    let mut body = Map::new();
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(key.to_owned(), value);
        }
    };
    set("card_number", Some(json!(asked.card.pan)));
    set("stan", Some(json!(asked.identity.stan)));
    set("transmission_time", Some(json!(time_text(asked.identity))));
    set("acquirer", Some(json!(acquirer(asked.merchant).to_string())));
    set("kind", kind(act).map(|kind| json!(kind)));
    set("amount", act.amount().map(decimal));
    set("currency", act.amount().map(|amount| json!(amount.currency.code())));
    // The rest is told in the account's currency.
    let remaining = details.keep.map(|keep| details.billing.unwrap_or(keep));
    set("remaining", remaining.map(decimal));
    set("billing_amount", details.billing.filter(|_| remaining.is_none()).map(decimal));
    set("partial", (details.partial == Some(true)).then_some(json!(true)));
    set("approved", (details.declined == Some(true)).then_some(json!(false)));
    if let Some(Presentment { number, count }) = details.number {
        set("presentment_number", Some(json!(number)));
        set("presentment_count", Some(json!(count)));
    }
    if act != Act::Reverse && act != Act::Inquire {
        set("merchant", Some(merchant(asked.merchant)));
    }
    if act.is_card_use() {
        let expiry = given_expiry(asked.card, details.given(Credential::Expiry));
        let expiry = expiry.map(|yymm| format!("20{}-{}", &yymm[..2], &yymm[2..]));
        set("expiration", expiry.map(Value::from));
        let cvv = given(asked.card.cvv.as_deref(), details.given(Credential::Cvv));
        set("cvv", cvv.map(Value::from));
        let is_pin_wrong = details.is_wrong(Credential::Pin);
        set("pin", is_pin_wrong.then_some(json!(WRONG_PIN)));
    }
    for (key, value) in naming(asked) {
        set(key, Some(Value::from(value)));
    }
    Value::Object(body)
}

/// The reference number of the message, and its names for the transaction that it is about.
fn naming(asked: &StepRequest<'_>) -> Vec<(&'static str, String)> {
    let rrn = |rrn: u64| ("rrn", format!("{rrn:012}"));
    let own = rrn(asked.identity.rrn);
    let Some(original) = &asked.original else { return vec![own] };
    let known = original.known.as_ref();
    let authorization_id = known.and_then(|known| known.authorization_id);
    match (asked.details.by, authorization_id) {
        (Some(Naming::Rrn), _) => vec![rrn(original.identity.rrn)],
        (None, _) => match known.map(|known| known.transaction_id.clone()) {
            None => vec![rrn(original.identity.rrn)],
            Some(None) => vec![own],
            Some(Some(id)) => vec![own, ("transaction_id", id)],
        },
        (Some(Naming::AuthorizationId), Some(id)) => {
            vec![own, ("authorization_id", String::from_utf8_lossy(&id).into_owned())]
        }
        (Some(_), _) => vec![
            own,
            ("original_stan", original.identity.stan.to_string()),
            ("original_transmission_time", time_text(original.identity)),
        ],
    }
}

/// MMDDhhmmss, UTC.
fn time_text(identity: Identity) -> String {
    String::from_utf8_lossy(&transmission_time(identity.sent_us)).into_owned()
}

const fn kind(act: Act) -> Option<&'static str> {
    match act {
        Act::Purchase(_) => Some("single_message"),
        Act::Cash(_) => Some("cash"),
        Act::Verify => Some("verification"),
        Act::Inquire => Some("balance_inquiry"),
        _ => None,
    }
}

fn merchant(slot: u16) -> Value {
    let merchant = catalogue().merchant(slot);
    json!({
        "mid": merchant.mid,
        "mcc": merchant.mcc,
        "name": merchant.name,
        "city": merchant.city,
        "state": merchant.state,
        "country": merchant.country,
    })
}

/// The content of an answer; an error of the door has its status and its code.
pub(super) fn answered(answer: &HttpAnswer) -> StepAnswer {
    let HttpAnswer { status, body } = answer;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let code = body["response_code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let code = code.unwrap_or(*status);
    let reason = [&body["sub_reason"], &body["outcome"], &body["detail"]["code"]]
        .into_iter()
        .find_map(text)
        // Other words for what is done say no more than the code.
        .filter(|reason| code != 0 || reason == "already_posted");
    let money = |value: &Value| Money::parse_any(&value.to_string());
    let authorization_id = body["authorization_id"].as_str();
    StepAnswer {
        code,
        reason,
        approved: money(&body["approved_amount"]).filter(|_| code == 0),
        balance: money(&body["allowance_balance"]),
        known: TransactionIds {
            authorization_id: authorization_id.and_then(|id| id.as_bytes().try_into().ok()),
            transaction_id: text(&body["transaction_id"]),
        },
    }
}
