//! The words that a field may hold, and other small schemas of the published documents. Each set is
//! taken from the code that renders it. A field that renders a word says so with
//! `#[schema(value_type = words::CardState)]`.

use std::borrow::Cow;

use cardswitch_engine::decision::Rule;
use cardswitch_engine::domain::card::{CardState as State, SuspensionReason as Reason};
use cardswitch_engine::domain::transaction::{TransactionFlags, TransactionState as Transaction};
use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use crate::body::wrapped;
use crate::reference::render_suspension;
use crate::transaction::TRANSACTION_KINDS;

/// The schema of a text that is one of `words`.
pub fn one_of<W: Into<String>>(
    description: &str,
    words: impl IntoIterator<Item = W>,
) -> RefOr<Schema> {
    let words: Vec<String> = words.into_iter().map(Into::into).collect();
    wrapped(json!({"type": "string", "description": description, "enum": words}))
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

/// The largest amount that may be sent. Units: major units.
const AMOUNT_MAX: i64 = 1_000_000_000_000;

/// The schema of an amount, of which `least` bounds the number and `sign` the text.
fn amount(description: &str, least: (&str, i64), sign: &str) -> Value {
    let mut number = json!({"type": "number", "maximum": AMOUNT_MAX, "examples": [125]});
    number[least.0] = json!(least.1);
    let digits = format!(r"^{sign}[0-9]{{1,13}}(\.[0-9]{{1,4}})?$");
    let digits = json!({"type": "string", "pattern": digits});
    json!({"description": description, "anyOf": [number, digits]})
}

/// Names schemas; `about` in one is its description.
macro_rules! schemas {
    ($($(#[doc = $description:literal])+
        $name:ident = $schema:literal: |$about:ident| $value:expr;)*) => {$(
        $(#[doc = $description])+
        #[derive(Debug)]
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let $about = concat!($($description),+).trim();
                wrapped($value)
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed($schema)
            }
        }
    )*};
}

schemas! {
    /// An amount: a number, or the same as text. At most as many decimals as the currency has.
    RequestAmount = "AmountGiven": |about| amount(about, ("minimum", -AMOUNT_MAX), "-?");
    /// An amount of 0 or more: a number, or the same as text. At most as many decimals as the
    /// currency has.
    Budget = "Budget": |about| amount(about, ("minimum", 0), "");
    /// An amount above 0: a number, or the same as text. At most as many decimals as the currency
    /// has.
    Limit = "Limit": |about| amount(about, ("exclusiveMinimum", 0), "");
    /// A number that is a name: digits, or a whole number.
    Code = "Code": |about| json!({"type": ["string", "integer"], "description": about,
        "examples": ["4100"], "pattern": "^[0-9]{1,20}$", "minimum": 0});
    /// The bytes of a file, as they are.
    File = "File": |about| json!({"type": "string", "format": "binary", "description": about});
}

/// A reference to another object in a request.
#[derive(Debug, ToSchema)]
pub struct Reference {
    /// Which one.
    pub id: uuid::Uuid,
}
