//! An audit event in words: the action, its thing, and the values before and after.

use cardswitch_engine::directory::member::MemberState;
use cardswitch_engine::domain::audit::{AuditEvent, AuditValue, ValueChange};
use cardswitch_engine::domain::card::{CardState, SuspensionReason};
use cardswitch_engine::domain::company::CompanyState;
use cardswitch_engine::domain::hold_table::HoldTable;
use cardswitch_engine::domain::ids::MemberId;
use cardswitch_engine::store::StoreError;
use cardswitch_v1::routes::view::View;

use super::names::member_name;
use crate::members::role_words;
use crate::webhooks::endpoint_badge;
use crate::words::{card_badge, every, merchant_kind, moment, money, requisition_badge};

/// The actions of signing in and out, which a list folds together.
pub(super) const SIGN_INS: [&str; 5] = [
    "session.created",
    "session.ended",
    "user.sign_in_failed",
    "user.totp_used",
    "user.sessions_ended",
];

/// The verb of the sentence: the words between the actor and the name of the thing.
pub(super) fn deed(action: &str) -> String {
    let known = match action {
        "session.created" => "signed in",
        "session.ended" => "signed out",
        "user.sign_in_failed" => "failed to sign in",
        "user.totp_used" => "used a one-time code",
        "user.sessions_ended" => "ended sessions of",
        "user.password_set" => "set the password of",
        "password_link.created" => "asked for a link to set a password",
        "authorization_code.created" => "allowed an app",
        "authorization_code.revoked" => "withdrew the approval of an app",
        "app.tokens_revoked" => "revoked the tokens of the app",
        "card.terminated" => "closed the card",
        "card.number_shown" => "viewed the number of the card",
        "allowance.updated" => "changed the limits of the card",
        "requisition.canceled" => "withdrew the requisition",
        "network_key.set" => "set the network key",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let (kind, verb) = action.split_once('.').unwrap_or((action, "changed"));
    let verb = if verb == "updated" { "changed" } else { verb };
    let noun = match kind {
        "shared_link" => "a link to the card",
        kind => return format!("{} the {}", verb.replace('_', " "), kind.replace('_', " ")),
    };
    format!("{verb} {noun}")
}

/// The end of the sentence: the values before and after where they are known, and the names of other
/// fields where no other deed is told.
/// Errors: the tables cannot be read.
pub(super) fn changes(event: &AuditEvent, view: &View<'_>) -> Result<String, StoreError> {
    let kind = event.object_kind.as_str();
    let mut values = Vec::new();
    for ValueChange { field, old, new } in &event.values {
        let (old, new) = (value(old, view)?, value(new, view)?);
        values.push(format!("{}: {old} → {new}", field_words(kind, field)));
    }
    let is_told = |name: &&String| !event.values.iter().any(|change| change.field == **name);
    let names = event.fields.iter().filter(is_told).map(|name| field_words(kind, name));
    let names = names.collect::<Vec<_>>().join(", ");
    let is_sign_in = SIGN_INS.contains(&event.action.as_str());
    let lead = match (values.is_empty(), is_sign_in) {
        (_, true) => ", ",
        (true, false) => ": ",
        (false, false) => " ",
    };
    if !names.is_empty() && (is_sign_in || deed(&event.action).starts_with("changed")) {
        values.push(names);
    }
    Ok(if values.is_empty() { String::new() } else { format!("{lead}{}", values.join("; ")) })
}

/// The name of a field, as the form of the `kind` calls it.
fn field_words(kind: &str, name: &str) -> String {
    let known = match name {
        "amount" if kind == "allowance" => "budget",
        "end_time" if kind == "requisition" => "buy by",
        "interval" => "resets",
        "transaction_limit" => "per-transaction limit",
        "hold_table" => "days of holds",
        "start_time" => "valid from",
        "end_time" => "valid until",
        "scope" => "allowed merchants",
        "assigned_to" => "cardholder",
        "state" => "status",
        "reset" => "spending reset to zero",
        "code" => "accounting code",
        "totp" => "authenticator app",
        name => return name.replace('_', " "),
    };
    known.to_owned()
}

fn value(value: &AuditValue, view: &View<'_>) -> Result<String, StoreError> {
    Ok(match value {
        AuditValue::None => "none".to_owned(),
        AuditValue::Amount(amount) => money(*amount, view.company.currency),
        AuditValue::Interval(interval) => every(*interval).to_owned(),
        AuditValue::Instant(at) => moment(*at, view.company.zone).words,
        AuditValue::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        AuditValue::Categories(codes) if codes.is_empty() => "all".to_owned(),
        AuditValue::Categories(codes) => {
            codes.iter().map(|code| merchant_kind(*code)).collect::<Vec<_>>().join(", ")
        }
        AuditValue::HoldTable(table) => hold_days(table),
        AuditValue::CardState(state) => state_words(*state).to_owned(),
        AuditValue::Role(role) => role_words(*role).to_owned(),
        AuditValue::MemberState(state) => match state {
            MemberState::Active => "active",
            MemberState::Inactive => "deactivated",
            MemberState::Deleted => "deleted",
        }
        .to_owned(),
        AuditValue::Count(count) => count.to_string(),
        AuditValue::CompanyState(state) => match state {
            CompanyState::Active => "active",
            CompanyState::Pending => "waiting for approval",
            CompanyState::Closed => "closed",
        }
        .to_owned(),
        AuditValue::RequisitionStatus(status) => requisition_badge(*status).word.to_owned(),
        AuditValue::EndpointState(state) => endpoint_badge(*state, None).word.to_owned(),
        AuditValue::Member(id) => {
            let member = view.find_member(MemberId(*id))?;
            member.map_or_else(|| "deleted member".to_owned(), |member| member_name(&member))
        }
    })
}

/// The days that a company gives holds, such as `Car rental 21, otherwise 10`.
fn hold_days(table: &HoldTable) -> String {
    let terms = table.terms().iter();
    let terms = terms.map(|term| format!("{} {}", merchant_kind(term.merchants), term.days));
    let others = table.others().map(|days| format!("otherwise {days}"));
    let told: Vec<_> = terms.chain(others).collect();
    if told.is_empty() { "as usual".to_owned() } else { told.join(", ") }
}

fn state_words(state: CardState) -> &'static str {
    card_badge(state, SuspensionReason::Manual).word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_holds_are_told_by_merchants() {
        let rows = [
            ("", "as usual"),
            ("10", "otherwise 10"),
            ("2=21", "Car rental 21"),
            ("10,2=21", "Car rental 21, otherwise 10"),
        ];
        for (table, words) in rows {
            assert_eq!(hold_days(&table.parse().unwrap()), words, "{table}");
        }
    }

    #[test]
    fn actions_become_deeds() {
        let rows = [
            ("card.created", "created the card"),
            ("card.updated", "changed the card"),
            ("allowance.updated", "changed the limits of the card"),
            ("shared_link.deleted", "deleted a link to the card"),
            ("webhook_endpoint.created", "created the webhook endpoint"),
            ("session.created", "signed in"),
            ("pan_key.rotated", "rotated the pan key"),
        ];
        for (action, expected) in rows {
            assert_eq!(deed(action), expected);
        }
        for action in SIGN_INS {
            assert!(!deed(action).contains('.'), "{action}");
        }
    }

    #[test]
    fn fields_are_called_as_forms_call_them() {
        let rows = [
            ("allowance", "amount", "budget"),
            ("requisition", "amount", "amount"),
            ("requisition", "end_time", "buy by"),
            ("allowance", "daily_limit", "daily limit"),
            ("card", "state", "status"),
        ];
        for (kind, name, expected) in rows {
            assert_eq!(field_words(kind, name), expected);
        }
    }
}
