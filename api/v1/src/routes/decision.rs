//! Why a transaction was approved or declined: every rule with what it compared, and what would
//! have approved it. An extension.

use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, PathId};
use cardswitch_edge::json::Json;
use cardswitch_engine::decision::{
    Change, DecisionFacts, DecisionMaker, Explanation, IncrementDecision, Quantity, Remedy, Rule,
    RuleFinding, explain, explain_increment,
};
use cardswitch_engine::domain::allowance::{AllowanceTerms, CardUsage, Scope};
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::credential::CredentialPresence;
use cardswitch_engine::domain::ids::{Timestamp, TransactionId};
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_engine::each_known_amount;
use cardswitch_engine::store::query::TransactionRow;
use cardswitch_identity::auth::Call;
use cardswitch_wire::amount::Amount;
use cardswitch_wire::currency::render_currency;
use cardswitch_wire::explanation::Words;
use cardswitch_wire::glossary::{Audience, withdrawal_verdict};
use cardswitch_wire::reference::render_suspension;
use cardswitch_wire::time::{render_date, render_time};
use cardswitch_wire::urls::Urls;
use serde::Serialize;
use utoipa::ToSchema;

use super::allowances::render_interval;
use super::transactions::{TransactionReference, find_transaction};
use super::view::read_view;
use crate::words;

/// So many increments of a transaction are explained: the first.
pub const INCREMENTS_MAX: usize = 100;

/// An explained decision as responses show it.
#[derive(Debug, Serialize, ToSchema)]
pub struct DecisionBody {
    transaction: TransactionReference,
    decided_at: String,
    /// `rules`, `network` or `bank_transfer`.
    #[schema(value_type = words::DecidedByName)]
    decided_by: &'static str,
    /// 0 where it was approved.
    response_code: u16,
    approved: bool,
    /// Requested amount; positive.
    amount: Amount,
    /// Approved amount, less than `amount` if only a part was approved. Null for a decline, for a
    /// verification, and for a part that the kept facts do not tell.
    approved_amount: Option<Amount>,
    currency: String,
    rules: Vec<RuleBody>,
    /// Changes that together would have approved the whole amount.
    least_change: Vec<RemedyBody>,
    /// If only amounts failed: the largest amount that would have been approved.
    approvable_amount: Option<Amount>,
    /// Facts of that time; null for decisions without kept facts.
    facts: Option<FactsBody>,
    /// Increments while it was pending, each with its decision; the first hundred.
    increments: Vec<IncrementBody>,
}

/// An increment of the transaction, with the decision on it.
#[derive(Debug, Serialize, ToSchema)]
struct IncrementBody {
    decided_at: String,
    /// 0 where it was approved.
    response_code: u16,
    approved: bool,
    /// Added amount; positive.
    amount: Amount,
    /// `amount`, or null where it was declined.
    approved_amount: Option<Amount>,
    /// Amount that the transaction held before.
    added_to: Amount,
    rules: Vec<RuleBody>,
    /// Changes that together would have approved the whole amount.
    least_change: Vec<RemedyBody>,
    /// If only amounts failed: the largest amount that would have been approved.
    approvable_amount: Option<Amount>,
    /// The facts of that time.
    facts: FactsBody,
}

/// Result of one rule.
#[derive(Debug, Serialize, ToSchema)]
struct RuleBody {
    #[schema(value_type = words::RuleName)]
    rule: &'static str,
    /// Of a decline by this rule.
    response_code: u16,
    passed: bool,
    input: Option<QuantityBody>,
    threshold: Option<QuantityBody>,
    usage_before: Option<QuantityBody>,
    usage_after: Option<QuantityBody>,
    explanation: String,
}

/// Something that was compared.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum QuantityBody {
    Amount(Amount),
    Count(u16),
    Text(String),
    Is(bool),
    Category(Option<u16>),
    Scope(Vec<u16>),
}

/// Change that would have satisfied one rule.
#[derive(Debug, Serialize, ToSchema)]
struct RemedyBody {
    #[schema(value_type = words::RuleName)]
    rule: &'static str,
    text: String,
    change: ChangeBody,
    /// Or else: from this instant on, nothing else happening meanwhile.
    after: Option<String>,
}

/// A change to what was asked or known.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ChangeBody {
    /// A limit, budget or credit that is higher.
    Raise { by: Amount, to: Amount },
    /// An amount of at most this.
    Amount { amount: Amount },
    /// An allowance that begins then, or before.
    StartTime { at_latest: String },
    /// An allowance that ends then, or after.
    EndTime { at_earliest: String },
    /// A card that is valid through this day, or longer.
    ValidThrough { at_earliest: String },
    /// No more attempts than this.
    Attempts { at_most: u16 },
    /// No more wrong credentials than this.
    WrongCredentials { at_most: u8 },
    /// A scope that has this category, or is empty.
    Scope { category: Option<u16> },
    /// A card in this state.
    CardState {
        #[schema(value_type = words::CardState)]
        state: &'static str,
    },
    /// Another fact: the right credential, no cash, no early reversal.
    Other {},
}

macro_rules! define_facts_body {
    ($($(#[$about:meta])* $amount:ident = |$_:ident| $read:expr;)+) => {
        /// Facts of the decision.
        #[derive(Debug, Serialize, ToSchema)]
        struct FactsBody {
            #[schema(value_type = words::CardState)]
            card_state: &'static str,
            #[schema(value_type = Option<words::SuspensionReason>)]
            suspension_reason: Option<&'static str>,
            /// The last day on which the card is valid.
            valid_through: String,
            allowance: TermsBody,
            usage: RuleUsageBody,
            $($(#[$about])* $amount: Amount,)+
            /// Credentials that the message carried; of an advice none, since none is compared.
            credentials: Vec<&'static str>,
        }

        impl FactsBody {
            fn new(facts: &DecisionFacts, currency: CurrencyCode) -> Self {
                Self {
                    card_state: facts.usage.state.word(),
                    suspension_reason: render_suspension(facts.usage.suspension),
                    valid_through: render_date(facts.expires_on),
                    allowance: TermsBody::new(&facts.terms, currency),
                    usage: RuleUsageBody::new(&facts.usage, currency),
                    $($amount: Amount::new(facts.known.$amount, currency),)+
                    credentials: render_credentials(facts.credentials),
                }
            }
        }
    };
}
each_known_amount!(define_facts_body);

/// An allowance as it was.
#[derive(Debug, Serialize, ToSchema)]
struct TermsBody {
    amount: Amount,
    #[schema(value_type = Option<words::Interval>)]
    interval: Option<&'static str>,
    daily_limit: Option<Amount>,
    transaction_limit: Option<Amount>,
    single_use: bool,
    start_time: Option<String>,
    end_time: Option<String>,
    scope: Vec<u16>,
}

/// The use before it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DecisionUsage)]
struct RuleUsageBody {
    spent: Amount,
    period_started_on: String,
    spent_today: Amount,
    day: String,
}

impl DecisionBody {
    /// The decision on a transaction of the company, and on each of its increments.
    pub fn new(
        row: &TransactionRow,
        increments: &[IncrementDecision],
        company: &Company,
        urls: &Urls,
    ) -> Self {
        let record = &row.record;
        let explanation = explain(record, &row.progress, company.zone);
        let words = Words { currency: company.currency, zone: company.zone };
        let amount = |minor| Amount::new(minor, company.currency);
        let scope = record.facts.as_ref().map(|facts| facts.terms.scope);
        let rule = |found: &RuleFinding| match explanation.decided_by {
            DecisionMaker::Transfer => RuleBody::of_transfer(found, &words),
            _ => RuleBody::new(found, &words),
        };
        Self {
            transaction: TransactionReference::new(record.id, urls),
            decided_at: render_time(record.authorized_at),
            decided_by: render_decided_by(explanation.decided_by),
            response_code: record.response_code.number(),
            approved: record.response_code.is_approved(),
            amount: amount(record.requested),
            approved_amount: explanation.approved_amount.map(amount),
            currency: render_currency(company.currency),
            rules: explanation.rules.iter().map(rule).collect(),
            least_change: remedies(&explanation, scope.unwrap_or_default(), &words),
            approvable_amount: explanation.amount_at_most.map(amount),
            facts: record.facts.map(|facts| FactsBody::new(&facts, company.currency)),
            increments: increments.iter().map(|done| IncrementBody::new(done, &words)).collect(),
        }
    }
}

impl IncrementBody {
    fn new(decision: &IncrementDecision, words: &Words) -> Self {
        let explanation = explain_increment(decision, words.zone);
        let amount = |minor| Amount::new(minor, words.currency);
        let failed = decision.failed_rules;
        Self {
            decided_at: render_time(decision.decided_at),
            response_code: failed.response_code().number(),
            approved: failed.is_empty(),
            amount: amount(decision.amount),
            approved_amount: explanation.approved_amount.map(amount),
            added_to: amount(decision.added_to),
            rules: explanation.rules.iter().map(|found| RuleBody::new(found, words)).collect(),
            least_change: remedies(&explanation, decision.facts.terms.scope, words),
            approvable_amount: explanation.amount_at_most.map(amount),
            facts: FactsBody::new(&decision.facts, words.currency),
        }
    }
}

fn remedies(explanation: &Explanation, scope: Scope, words: &Words) -> Vec<RemedyBody> {
    let body = |remedy: &Remedy| RemedyBody {
        rule: remedy.rule.name(),
        text: words.remedy(remedy, &scope),
        change: ChangeBody::new(remedy.change, words.currency),
        after: remedy.after.map(render_time),
    };
    explanation.remedies.iter().map(body).collect()
}

/// The party that decided.
pub const fn render_decided_by(decided_by: DecisionMaker) -> &'static str {
    match decided_by {
        DecisionMaker::Rules => "rules",
        DecisionMaker::Network => "network",
        DecisionMaker::Transfer => "bank_transfer",
    }
}

impl RuleBody {
    fn new(finding: &RuleFinding, words: &Words) -> Self {
        let RuleFinding { rule, passed, compared } = *finding;
        let body = |quantity| QuantityBody::new(quantity, words.currency);
        let usage = compared.and_then(|compared| compared.usage);
        Self {
            rule: rule.name(),
            response_code: rule.response_code().number(),
            passed,
            input: compared.map(|compared| body(compared.input)),
            threshold: compared.and_then(|compared| compared.threshold).map(body),
            usage_before: usage.map(|[before, _]| body(before)),
            usage_after: usage.map(|[_, after]| body(after)),
            explanation: words.finding(finding),
        }
    }
}

impl RuleBody {
    /// The finding on a bank transfer: only money of the account counts.
    fn of_transfer(finding: &RuleFinding, words: &Words) -> Self {
        let body = Self::new(finding, words);
        match finding.rule {
            Rule::AvailableCredit => {
                Self { explanation: withdrawal_verdict(finding.passed).to_owned(), ..body }
            }
            _ => body,
        }
    }
}

impl QuantityBody {
    fn new(quantity: Quantity, currency: CurrencyCode) -> Self {
        match quantity {
            Quantity::Amount(amount) => Self::Amount(Amount::new(amount, currency)),
            Quantity::Count(count) => Self::Count(count),
            Quantity::Instant(at) => Self::Text(render_time(at)),
            Quantity::Date(date) => Self::Text(render_date(date)),
            Quantity::Card(state, _) => Self::Text(state.word().to_owned()),
            Quantity::Is(is) => Self::Is(is),
            Quantity::Category(category) => Self::Category(category.map(|mcc| mcc.0)),
            Quantity::Scope(scope) => Self::Scope(scope.codes().to_vec()),
        }
    }
}

impl ChangeBody {
    fn new(change: Change, currency: CurrencyCode) -> Self {
        let amount = |minor| Amount::new(minor, currency);
        match change {
            Change::Raise { by, to } => Self::Raise { by: amount(by), to: amount(to) },
            Change::Amount(least) => Self::Amount { amount: amount(least) },
            Change::StartBy(at) => Self::StartTime { at_latest: render_time(at) },
            Change::EndFrom(at) => Self::EndTime { at_earliest: render_time(at) },
            Change::ValidThrough(date) => Self::ValidThrough { at_earliest: render_date(date) },
            Change::Attempts(at_most) => Self::Attempts { at_most },
            Change::WrongCredentials(at_most) => Self::WrongCredentials { at_most },
            Change::Category(mcc) => Self::Scope { category: mcc.map(|mcc| mcc.0) },
            Change::ActiveCard => Self::CardState { state: "active" },
            Change::Otherwise => Self::Other {},
        }
    }
}

impl RuleUsageBody {
    fn new(usage: &CardUsage, currency: CurrencyCode) -> Self {
        Self {
            spent: Amount::new(usage.spent, currency),
            period_started_on: render_date(usage.period_started_on),
            spent_today: Amount::new(usage.day_spent, currency),
            day: render_date(usage.day),
        }
    }
}

fn render_credentials(shown: CredentialPresence) -> Vec<&'static str> {
    let credentials = [
        (CredentialPresence::EXPIRY, "expiration"),
        (CredentialPresence::CVV, "cvv"),
        (CredentialPresence::PIN, "pin"),
        (CredentialPresence::ZIP, "zip"),
    ];
    let shown = credentials.into_iter().filter(|(bit, _)| shown.contains(*bit));
    shown.map(|(_, name)| name).collect()
}

impl TermsBody {
    fn new(terms: &AllowanceTerms, currency: CurrencyCode) -> Self {
        let bound = |at, unbounded| (at != unbounded).then(|| render_time(at));
        Self {
            amount: Amount::new(terms.amount, currency),
            interval: render_interval(terms.interval),
            daily_limit: Amount::limit(terms.daily_limit, currency),
            transaction_limit: Amount::limit(terms.transaction_limit, currency),
            single_use: terms.single_use,
            start_time: bound(terms.starts_at, Timestamp::MIN),
            end_time: bound(terms.ends_at, Timestamp::MAX),
            scope: terms.scope.codes().to_vec(),
        }
    }
}

/// Explain why a transaction was approved or declined.
#[utoipa::path(
    get, path = "/v1/transactions/{transaction_id}/decision",
    responses((status = 200, body = DecisionBody)),
)]
pub async fn get_decision(call: Call, PathId(id): PathId) -> Answer<Json<DecisionBody>> {
    let Call(state, _) = &call;
    let id = TransactionId(id);
    let seq = state.switch.engine.ids.open_transaction_id(id);
    let seq = seq.ok_or_else(ApiError::not_found)?;
    let body = read_view(&call, |view| {
        let Some(row) = find_transaction(view, seq, id)? else { return Ok(None) };
        let increments = view.snapshot.increments(seq, INCREMENTS_MAX)?;
        Ok(Some(DecisionBody::new(&row, &increments, view.company, view.urls)))
    });
    body.await?.map(Json).ok_or_else(ApiError::not_found)
}
