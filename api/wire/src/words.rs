//! The words that a field may hold, and other small schemas of the published documents. Each set is
//! taken from the code that renders it. A field that renders a word says so with
//! `#[schema(value_type = words::CardState)]`.

use std::borrow::Cow;

use cardswitch_engine::decision::Rule;
use cardswitch_engine::domain::card::{CardState as State, SuspensionReason as Reason};
use cardswitch_engine::domain::transaction::{TransactionFlags, TransactionState as Transaction};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AnyOfBuilder, KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::{PartialSchema, ToSchema};

use crate::reference::render_suspension;
use crate::transaction::TRANSACTION_KINDS;

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
                $crate::words::one_of(concat!($($description),+).trim(), $words)
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
    CardState: State::WORDS;
    /// State that a request can set for a card.
    SettableCardState: [State::Active, State::Suspended].map(State::word);
    /// Why a card is suspended.
    SuspensionReason: Reason::ALL.into_iter().filter_map(render_suspension);
    /// The state of a transaction.
    TransactionState: Transaction::WORDS;
    /// Kind of a transaction.
    TransactionKind: TRANSACTION_KINDS;
    /// Mark for reviewers.
    TransactionFlag: TransactionFlags(u16::MAX).names();
    /// A rule of the decision.
    RuleName: Rule::ALL.map(|rule| rule.name());
    /// Type of an answer of a viewer.
    PassphraseType: ["text", "date"];
}

/// The least that an amount may be.
#[derive(Clone, Copy)]
enum AmountMinimum {
    Any,
    Zero,
    AboveZero,
}

/// The largest amount that may be sent. Units: major units.
const AMOUNT_MAX: f64 = 1_000_000_000_000.0;

fn amount_given(description: &str, least: AmountMinimum) -> RefOr<Schema> {
    let number = ObjectBuilder::new()
        .schema_type(Type::Number)
        .examples([serde_json::json!(125)])
        .maximum(Some(AMOUNT_MAX));
    let (number, sign) = match least {
        AmountMinimum::Any => (number.minimum(Some(-AMOUNT_MAX)), "-?"),
        AmountMinimum::Zero => (number.minimum(Some(0.0)), ""),
        AmountMinimum::AboveZero => (number.exclusive_minimum(Some(0.0)), ""),
    };
    let digits = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(format!(r"^{sign}[0-9]{{1,13}}(\.[0-9]{{1,4}})?$")));
    AnyOfBuilder::new().description(Some(description)).item(number).item(digits).into()
}

macro_rules! amounts {
    ($($(#[doc = $description:literal])+ $name:ident = $schema:literal: $least:ident;)*) => {$(
        $(#[doc = $description])+
        #[derive(Debug)]
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                amount_given(concat!($($description),+).trim(), AmountMinimum::$least)
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed($schema)
            }
        }
    )*};
}

amounts! {
    /// An amount: a number, or the same as text. At most as many decimals as the currency has.
    RequestAmount = "AmountGiven": Any;
    /// An amount of 0 or more: a number, or the same as text. At most as many decimals as the
    /// currency has.
    Budget = "Budget": Zero;
    /// An amount above 0: a number, or the same as text. At most as many decimals as the currency
    /// has.
    Limit = "Limit": AboveZero;
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
