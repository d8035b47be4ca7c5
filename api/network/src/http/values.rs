//! The values in bodies: one reader for each kind, with what is wrong where it refuses.

use std::borrow::Cow;

use cardswitch_engine::command::network::AuthorizationKind;
use cardswitch_engine::domain::credential::ExpiryMonth;
use cardswitch_engine::domain::merchant::Mcc;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::AuthorizationId;
use cardswitch_engine::domain::text::LineText;
use cardswitch_wire::amount::parse_json_amount;
use cardswitch_wire::currency::parse_currency;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields;
use cardswitch_wire::time::parse_date;
use serde_json::value::RawValue;

use crate::marks::parse_authorization_id;
use crate::told_texts::note_spaced;

/// The lowest amount that makes sense.
#[derive(Clone, Copy)]
pub(super) enum Lowest {
    Zero,
    AboveZero,
    /// Below zero too, for money that may go either way.
    NotZero,
}

impl Lowest {
    fn flaw(self) -> Flaw {
        match self {
            Self::Zero => Flaw::new("negative", "must not be negative"),
            Self::AboveZero => Flaw::new("not_positive", "must be above zero"),
            Self::NotZero => Flaw::new("zero", "must not be zero"),
        }
    }
}

/// The treatment of steering characters: controls and overrides of the writing direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steering {
    /// The text is refused.
    Refused,
    /// Each becomes a space: what the body tells has happened already.
    Spaced,
}

/// Reads a text of one line, of at most `chars_max` characters.
pub(super) fn line(
    value: &RawValue,
    chars_max: usize,
    steering: Steering,
) -> Result<LineText, Flaw> {
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

/// Reads an amount that is not below the lowest that makes sense.
pub(super) fn amount(
    value: &RawValue,
    currency: CurrencyCode,
    lowest: Lowest,
) -> Result<Minor, Flaw> {
    let amount = parse_json_amount(value, currency)?;
    let is_enough = match lowest {
        Lowest::Zero => amount >= Minor::ZERO,
        Lowest::AboveZero => amount.is_positive(),
        Lowest::NotZero => !amount.is_zero(),
    };
    if is_enough { Ok(amount) } else { Err(lowest.flaw()) }
}

pub(super) fn currency(value: &RawValue) -> Result<CurrencyCode, Flaw> {
    let flaw = || Flaw::new("unknown_currency", "must be a currency code such as `USD`");
    parse_currency(&fields::borrowed_text(value)?).ok_or_else(flaw)
}

/// What may be asked of a card that is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CardUse {
    Authorize(AuthorizationKind),
    InquireBalance,
}

pub(super) fn card_use(value: &RawValue) -> Result<CardUse, Flaw> {
    Ok(CardUse::Authorize(match &*fields::borrowed_text(value)? {
        "purchase" => AuthorizationKind::Purchase,
        "single_message" => AuthorizationKind::SingleMessage,
        "cash" => AuthorizationKind::Cash,
        "verification" => AuthorizationKind::Verification,
        "balance_inquiry" => return Ok(CardUse::InquireBalance),
        _ => {
            let message = "must be one of `purchase`, `single_message`, `cash`, `verification`, \
                           `balance_inquiry`";
            return Err(Flaw::new("unknown_value", message));
        }
    }))
}

pub(super) fn authorization_id(value: &RawValue) -> Result<AuthorizationId, Flaw> {
    let flaw = || Flaw::new("not_an_authorization_id", "must be six letters and digits");
    parse_authorization_id(&fields::borrowed_text(value)?).ok_or_else(flaw)
}

/// Reads an expiration: a date, of which year and month count, or year and month alone.
pub(super) fn expiry_month(value: &RawValue) -> Result<ExpiryMonth, Flaw> {
    let text = fields::borrowed_text(value)?;
    let date = parse_date(&text).or_else(|| parse_date(&format!("{text}-01")));
    date.map(ExpiryMonth::of).ok_or_else(|| Flaw::new("not_a_date", "must be a date, yyyy-mm-dd"))
}

/// Reads text of so many digits, or a JSON integer with them.
pub(super) fn digits(
    value: &RawValue,
    len_min: usize,
    len_max: usize,
) -> Result<Cow<'_, str>, Flaw> {
    let is_quoted = value.get().starts_with('"');
    let text = if is_quoted { fields::borrowed_text(value)? } else { Cow::Borrowed(value.get()) };
    let fits = (len_min..=len_max).contains(&text.len());
    if fits && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(text);
    }
    let message = match len_min {
        _ if len_min == len_max => format!("must be {len_max} digits"),
        _ => format!("must be {len_min} to {len_max} digits"),
    };
    Err(Flaw::new("not_digits", message))
}

/// Reads a trace number, with zeros in front as messages have it. Source: ISO DE11.
pub(super) fn trace_number(value: &RawValue) -> Result<Cow<'_, str>, Flaw> {
    let digits = digits(value, 1, 6)?;
    Ok(if digits.len() == 6 { digits } else { Cow::Owned(format!("{digits:0>6}")) })
}

/// Reads a merchant id: a number, or text as a terminal sends it. Source: ISO DE42.
pub(super) fn merchant_id(value: &RawValue, steering: Steering) -> Result<LineText, Flaw> {
    match value.get().starts_with('"') {
        true => line(value, 15, steering),
        false => digits(value, 1, 16).map(|digits| LineText::spaced(&digits)),
    }
}

pub(super) fn category_code(value: &RawValue) -> Result<Mcc, Flaw> {
    let flaw = || Flaw::new("not_a_category", "must be a merchant category code of 4 digits");
    let digits = digits(value, 1, 4).map_err(|_| flaw())?;
    digits.parse().map(Mcc).map_err(|_| flaw())
}

pub(super) fn presentment_count(value: &RawValue) -> Result<u8, Flaw> {
    let flaw = || Flaw::new("out_of_range", "must be 1 to 99");
    let digits = digits(value, 1, 2).map_err(|_| flaw())?;
    digits.parse().ok().filter(|count| *count > 0).ok_or_else(flaw)
}
