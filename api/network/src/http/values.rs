//! The values in bodies: the rule for each kind, with what is wrong where it refuses.

use std::borrow::Cow;

use cardswitch_engine::command::network::AuthorizationKind;
use cardswitch_engine::domain::credential::ExpiryMonth;
use cardswitch_engine::domain::merchant::Mcc;
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_engine::domain::network_key::AuthorizationId;
use cardswitch_engine::domain::text::LineText;
use cardswitch_secrets::pan::Pan;
use cardswitch_wire::body::{Parts, ValueRule, rule};
use cardswitch_wire::currency::parse_currency;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields;
use cardswitch_wire::time::parse_date;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use zeroize::Zeroize;

use cardswitch_acquiring::advice_texts::note_spaced;
use cardswitch_acquiring::marks::parse_authorization_id;

/// The treatment of steering characters: controls and overrides of the writing direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steering {
    /// The text is refused.
    Refused,
    /// A space replaces each: the body tells of the past.
    Spaced,
}

/// A text of one line, of at most `chars_max` characters.
pub(super) fn line<'a>(chars_max: usize, steering: Steering) -> impl ValueRule<'a, LineText> {
    rule(line_schema(chars_max), move |value| read_line(value, chars_max, steering))
}

fn line_schema(chars_max: usize) -> impl Fn(&mut Parts) -> Value {
    move |_| json!({"type": "string", "maxLength": chars_max})
}

fn read_line(value: &RawValue, chars_max: usize, steering: Steering) -> Result<LineText, Flaw> {
    if steering == Steering::Refused {
        return fields::short_text(value, chars_max);
    }
    let sent = fields::borrowed_short_text(value, chars_max)?;
    let text = LineText::spaced(&sent);
    if text != *sent {
        note_spaced(&"/network/v1");
    }
    Ok(text)
}

/// A text of a form.
fn patterned<'a, T>(
    pattern: &'static str,
    read: impl Fn(&str) -> Option<T>,
    flaw: fn() -> Flaw,
) -> impl ValueRule<'a, T> {
    let schema = move |_: &mut Parts| json!({"type": "string", "pattern": pattern});
    rule(schema, move |value| read(&fields::borrowed_text(value)?).ok_or_else(flaw))
}

pub(super) fn card_number<'a>() -> impl ValueRule<'a, Pan> {
    let flaw = || Flaw::new("not_a_card_number", "must be a text of 8 to 19 digits");
    let schema = |_: &mut Parts| json!({"type": "string", "pattern": "^[0-9]{8,19}$"});
    rule(schema, move |value| {
        let mut text = fields::borrowed_text(value)?;
        let pan = Pan::parse(text.as_bytes());
        if let Cow::Owned(text) = &mut text {
            text.zeroize();
        }
        pan.ok_or_else(flaw)
    })
}

pub(super) fn secret<'a>() -> impl ValueRule<'a, Cow<'a, str>> {
    rule(|_| json!({"type": "string"}), fields::borrowed_text)
}

pub(super) fn currency<'a>() -> impl ValueRule<'a, CurrencyCode> {
    let flaw = || Flaw::new("unknown_currency", "must be a currency code such as `USD`");
    patterned("^[A-Za-z]{3}$", parse_currency, flaw)
}

/// A request about a card that is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CardUse {
    Authorize(AuthorizationKind),
    InquireBalance,
}

pub(super) fn card_use<'a>() -> impl ValueRule<'a, CardUse> {
    let words = || CARD_USES.map(|(word, _)| word);
    rule(
        move |_| json!({"type": "string", "enum": words()}),
        move |value| {
            let text = fields::borrowed_text(value)?;
            let found = CARD_USES.iter().find(|(word, _)| *word == text);
            found.map(|(_, card_use)| *card_use).ok_or_else(|| {
                let words = words().map(|word| format!("`{word}`")).join(", ");
                Flaw::new("unknown_value", format!("must be one of {words}"))
            })
        },
    )
}

const CARD_USES: [(&str, CardUse); 5] = [
    ("purchase", CardUse::Authorize(AuthorizationKind::Purchase)),
    ("single_message", CardUse::Authorize(AuthorizationKind::SingleMessage)),
    ("cash", CardUse::Authorize(AuthorizationKind::Cash)),
    ("verification", CardUse::Authorize(AuthorizationKind::Verification)),
    ("balance_inquiry", CardUse::InquireBalance),
];

pub(super) fn authorization_id<'a>() -> impl ValueRule<'a, AuthorizationId> {
    let flaw = || Flaw::new("not_an_authorization_id", "must be six letters and digits");
    patterned("^[A-Za-z0-9]{6}$", parse_authorization_id, flaw)
}

/// An expiration: a date, of which year and month count, or year and month alone.
pub(super) fn expiry_month<'a>() -> impl ValueRule<'a, ExpiryMonth> {
    let read = |text: &str| {
        let date = parse_date(text).or_else(|| parse_date(&format!("{text}-01")));
        date.map(ExpiryMonth::of)
    };
    let flaw = || Flaw::new("not_a_date", "must be a date, yyyy-mm-dd");
    patterned("^[0-9]{4}-[0-9]{2}(-[0-9]{2})?$", read, flaw)
}

/// Text of so many digits, or a JSON integer with them.
pub(super) fn digits<'a>(len_min: u32, len_max: u32) -> impl ValueRule<'a, Cow<'a, str>> {
    rule(digits_schema(len_min, len_max), move |value| read_digits(value, len_min, len_max))
}

fn digits_schema(len_min: u32, len_max: u32) -> impl Fn(&mut Parts) -> Value {
    let least = if len_min > 1 { 10_u64.pow(len_min - 1) } else { 0 };
    let pattern = move || format!("^[0-9]{{{len_min},{len_max}}}$");
    move |_| {
        json!({
            "type": ["string", "integer"], "pattern": pattern(),
            "minimum": least, "maximum": 10_u64.pow(len_max) - 1,
        })
    }
}

fn read_digits(value: &RawValue, len_min: u32, len_max: u32) -> Result<Cow<'_, str>, Flaw> {
    let is_quoted = value.get().starts_with('"');
    let text = if is_quoted { fields::borrowed_text(value)? } else { Cow::Borrowed(value.get()) };
    let fits = (len_min as usize..=len_max as usize).contains(&text.len());
    if fits && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(text);
    }
    let message = match len_min {
        _ if len_min == len_max => format!("must be {len_max} digits"),
        _ => format!("must be {len_min} to {len_max} digits"),
    };
    Err(Flaw::new("not_digits", message))
}

/// A trace number, with zeros in front as messages have it. Source: ISO DE11.
pub(super) fn trace_number<'a>() -> impl ValueRule<'a, Cow<'a, str>> {
    rule(digits_schema(1, 6), |value| {
        let digits = read_digits(value, 1, 6)?;
        Ok(if digits.len() == 6 { digits } else { Cow::Owned(format!("{digits:0>6}")) })
    })
}

/// A merchant id: a number, or text as a terminal sends it. Source: ISO DE42.
pub(super) fn merchant_id<'a>(steering: Steering) -> impl ValueRule<'a, LineText> {
    rule(line_schema(15), move |value| match value.get().starts_with('"') {
        true => read_line(value, 15, steering),
        false => read_digits(value, 1, 16).map(|digits| LineText::spaced(&digits)),
    })
}

pub(super) fn category_code<'a>() -> impl ValueRule<'a, Mcc> {
    let flaw = || Flaw::new("not_a_category", "must be a merchant category code of 4 digits");
    rule(digits_schema(1, 4), move |value| {
        let digits = read_digits(value, 1, 4).map_err(|_| flaw())?;
        digits.parse().map(Mcc).map_err(|_| flaw())
    })
}

pub(super) fn presentment_count<'a>() -> impl ValueRule<'a, u8> {
    let flaw = || Flaw::new("out_of_range", "must be 1 to 99");
    rule(digits_schema(1, 2), move |value| {
        let digits = read_digits(value, 1, 2).map_err(|_| flaw())?;
        digits.parse().ok().filter(|count| *count > 0).ok_or_else(flaw)
    })
}
