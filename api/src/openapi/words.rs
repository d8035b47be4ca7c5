//! The words that a field may hold, each set taken from the code that renders them. A field that
//! renders a word says so with `#[schema(value_type = words::CardState)]`.

use std::borrow::Cow;

use cardswitch_engine::decision::{DecidedBy, Rule};
use cardswitch_engine::domain::card::{CardState as State, SuspensionReason as Reason};
use cardswitch_engine::domain::transaction::TransactionFlags;
use cardswitch_engine::domain::transaction_tags::ReceiptType;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AnyOfBuilder, KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::{PartialSchema, ToSchema};

use crate::oauth::scope::NAMES;
use crate::receipts::media_type;
use crate::routes::access_tokens::ORIGINS;
use crate::routes::allowances::INTERVALS;
use crate::routes::audit_events::ACTOR_KINDS;
use crate::routes::decision::render_decided_by;
use crate::routes::members::ROLES;
use crate::routes::requisitions::STATUSES;
use crate::routes::transactions::{TRANSACTION_KINDS, TRANSACTION_STATES};
use crate::webhooks::attempt_words::{FAILURES, KINDS};
use crate::webhooks::composing::EVENT_NAMES;
use crate::webhooks::endpoints::STATES;
use crate::wire::reference::{CARD_STATES, render_card_state, render_suspension};

/// The schema of a text that is one of `words`.
pub fn one_of<W: Into<String>>(
    description: &str,
    words: impl IntoIterator<Item = W>,
) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .enum_values(Some(words.into_iter().map(Into::into)))
        .into()
}

/// Names a set of words: a schema of its own in the document.
#[macro_export]
macro_rules! words {
    ($($(#[doc = $description:literal])+ $name:ident: $words:expr;)*) => {$(
        $(#[doc = $description])+
        #[derive(Debug)]
        pub struct $name;

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                $crate::openapi::words::one_of(concat!($($description),+).trim(), $words)
            }
        }

        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                std::borrow::Cow::Borrowed(stringify!($name))
            }
        }
    )*};
}

words! {
    /// The state of a card.
    CardState: CARD_STATES.map(render_card_state);
    /// What a card's state can be set to.
    SettableCardState: [State::Active, State::Suspended].map(render_card_state);
    /// Why a card is suspended.
    SuspensionReason: [Reason::Manual, Reason::SingleUse, Reason::EndTime]
        .into_iter().filter_map(render_suspension);
    /// How often the budget resets.
    Interval: INTERVALS.map(|(name, _)| name);
    /// The state of a transaction.
    TransactionState: TRANSACTION_STATES;
    /// What kind of movement a transaction is.
    TransactionKind: TRANSACTION_KINDS;
    /// What reviewers look for.
    TransactionFlag: TransactionFlags(u16::MAX).names();
    /// A rule of the decision.
    RuleName: Rule::ALL.map(|rule| rule.name());
    /// The role of a member.
    MemberRole: ROLES.map(|(name, _)| name);
    /// What a member's role can be set to.
    SettableMemberRole: ["member", "reviewer"];
    /// The status of a requisition.
    RequisitionStatus: STATUSES.map(|(name, _)| name);
    /// What a requisition's status can be set to.
    RequisitionVerdict: ["approved", "denied"];
    /// What kind of file a receipt is.
    ReceiptMediaType: [ReceiptType::Png, ReceiptType::Jpeg, ReceiptType::Pdf].map(media_type);
    /// What happened to a transaction.
    EventName: EVENT_NAMES;
    /// Whether a webhook endpoint is told of events; one is gone if its receiver has said so.
    WebhookEndpointState: STATES;
    /// Why a webhook was sent.
    WebhookAttemptKind: KINDS;
    /// Why a webhook got no answer.
    WebhookFailure: FAILURES;
    /// What kind of value a viewer is asked for.
    PassphraseType: ["text", "date"];
    /// A scope of an access token.
    ScopeName: NAMES;
    /// How an access token came to be.
    TokenOriginName: ORIGINS;
    /// Who acted.
    ActorKind: ACTOR_KINDS;
    /// Whose word a decision was.
    DecidedByName: [DecidedBy::Rules, DecidedBy::Network, DecidedBy::Transfer]
        .map(render_decided_by);
}

/// An amount in a request: a number, or the same as text.
#[derive(Debug)]
pub struct AmountGiven;

/// An amount of 0 or more in a request: a number, or the same as text.
#[derive(Debug)]
pub struct Budget;

/// An amount above 0 in a request: a number, or the same as text.
#[derive(Debug)]
pub struct Limit;

/// The least that an amount may be.
#[derive(Clone, Copy)]
enum Least {
    Any,
    Zero,
    AboveZero,
}

/// The largest amount that may be sent. Units: major units.
const AMOUNT_MAX: f64 = 1_000_000_000_000.0;

fn amount_given(description: &str, least: Least) -> RefOr<Schema> {
    let number = ObjectBuilder::new()
        .schema_type(Type::Number)
        .examples([serde_json::json!(125)])
        .maximum(Some(AMOUNT_MAX));
    let (number, sign) = match least {
        Least::Any => (number.minimum(Some(-AMOUNT_MAX)), "-?"),
        Least::Zero => (number.minimum(Some(0.0)), ""),
        Least::AboveZero => (number.exclusive_minimum(Some(0.0)), ""),
    };
    let digits = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(format!(r"^{sign}[0-9]{{1,13}}(\.[0-9]{{1,4}})?$")));
    AnyOfBuilder::new().description(Some(description)).item(number).item(digits).into()
}

macro_rules! amounts {
    ($($name:ident: $least:ident, $description:literal;)*) => {$(
        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                amount_given($description, Least::$least)
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )*};
}

amounts! {
    AmountGiven: Any, "An amount: a number, or the same as text. At most as many decimals as the \
        currency has.";
    Budget: Zero, "An amount of 0 or more: a number, or the same as text. At most as many decimals \
        as the currency has.";
    Limit: AboveZero, "An amount above 0: a number, or the same as text. At most as many decimals \
        as the currency has.";
}

/// A number that is a name: digits, or a whole number.
#[derive(Debug)]
pub struct Code;

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Array(vec![Type::String, Type::Integer]))
            .description(Some("A number that is a name: digits, or a whole number."))
            .examples([serde_json::json!("4100")])
            .pattern(Some("^[0-9]{1,20}$"))
            .minimum(Some(0_usize))
            .into()
    }
}

impl ToSchema for Code {}

/// A reference to another object in a request.
#[derive(Debug, ToSchema)]
pub struct Reference {
    /// Which one.
    pub id: uuid::Uuid,
}

/// The bytes of a file, as they are.
#[derive(Debug)]
pub struct File;

impl PartialSchema for File {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("The bytes of a file, as they are."))
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))
            .into()
    }
}

impl ToSchema for File {}
