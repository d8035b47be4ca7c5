//! Amounts at the edge: decimals on the wire, integers of minor units inside.
//!
//! INVARIANT: no amount passes through a binary floating point number, in or out. Amounts are read
//! from the text of the JSON number (or numeric text). They are written as exact JSON numbers with
//! as many decimals as the currency has.

use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use rust_decimal::Decimal;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::fault::Flaw;
use super::{currency, fields};

/// The largest amount that may be sent, in either direction. Units: major units.
const AMOUNT_MAX_MAJOR: i64 = 1_000_000_000_000;
/// Longer texts are no amounts.
const TEXT_BYTES_MAX: usize = 64;

/// Whole digits of a plain amount, which is below the largest there is.
const PLAIN_DIGITS_MAX: u32 = 12;
const _: () = assert!(10_i64.pow(PLAIN_DIGITS_MAX) <= AMOUNT_MAX_MAJOR);

/// An amount as responses show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    minor: Minor,
    code: CurrencyCode,
}

impl Amount {
    /// The amount in the currency's major units.
    pub fn new(minor: Minor, code: CurrencyCode) -> Self {
        Self { minor, code }
    }

    /// Appends it, digits only: an exact JSON number.
    pub fn append_to(&self, out: &mut String) {
        write_amount(out, self.minor, self.code);
    }

    /// The amount, or none for `Minor::UNLIMITED`.
    pub fn limit(minor: Minor, code: CurrencyCode) -> Option<Self> {
        (minor != Minor::UNLIMITED).then(|| Self::new(minor, code))
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.append_to(&mut text);
        formatter.pad(&text)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(TEXT_BYTES_MAX);
        self.append_to(&mut text);
        let number: &RawValue = serde_json::from_str(&text).map_err(serde::ser::Error::custom)?;
        number.serialize(serializer)
    }
}

impl PartialSchema for Amount {
    fn schema() -> RefOr<Schema> {
        let description = "An exact number with as many decimals as the currency has.";
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .description(Some(description))
            .examples([serde_json::json!(125.5)])
            .into()
    }
}

impl ToSchema for Amount {}

/// Appends an amount as responses show it, digits only: an exact JSON number.
pub fn write_amount(out: &mut String, minor: Minor, code: CurrencyCode) {
    let unit = 10_u64.pow(currency::exponent(code));
    let magnitude = minor.0.unsigned_abs();
    if minor.0 < 0 {
        out.push('-');
    }
    write_number(out, magnitude / unit, 1);
    if unit > 1 {
        out.push('.');
        write_number(out, magnitude % unit, unit.ilog10());
    }
}

/// Appends a sum of amounts as `write_amount` would. It may be beyond what one amount can be.
pub fn write_sum(out: &mut String, sum: i128, code: CurrencyCode) {
    let unit = 10_u128.pow(currency::exponent(code));
    let magnitude = sum.unsigned_abs();
    let sign = if sum < 0 { "-" } else { "" };
    out.push_str(&format!("{sign}{}", magnitude / unit));
    if unit > 1 {
        let digits = unit.ilog10() as usize;
        out.push_str(&format!(".{:0digits$}", magnitude % unit));
    }
}

/// Appends a number with at least so many digits.
pub fn write_number(out: &mut String, number: u64, digits_min: u32) {
    let digits = number.checked_ilog10().unwrap_or(0) + 1;
    for place in (0..digits.max(digits_min)).rev() {
        let digit = number / 10_u64.saturating_pow(place) % 10;
        // INVARIANT: a remainder of ten is a digit.
        out.push(char::from_digit(u32::try_from(digit).unwrap_or(0), 10).unwrap_or('0'));
    }
}

fn not_a_number() -> Flaw {
    Flaw::new("not_a_number", "must be a decimal number")
}

fn too_many_decimals(exponent: u32) -> Flaw {
    Flaw::new("too_many_decimals", format!("must have at most {exponent} decimals"))
}

fn too_large() -> Flaw {
    Flaw::new("too_large", "must be within 1000000000000")
}

/// Parses an amount from a JSON number or from numeric text in quotes.
pub fn parse_json_amount(value: &RawValue, code: CurrencyCode) -> Result<Minor, Flaw> {
    let json = value.get();
    if json.starts_with('"') {
        let text = fields::borrowed_text(value).map_err(|_| not_a_number())?;
        parse_amount(&text, code)
    } else {
        parse_amount(json, code)
    }
}

/// Parses an amount: digits with an optional sign, fraction and power of ten. Zeros at the end of
/// the fraction do not count as decimals.
/// Units: major units in, minor units of the currency `code` out.
pub fn parse_amount(text: &str, code: CurrencyCode) -> Result<Minor, Flaw> {
    let exponent = currency::exponent(code);
    if let Some(minor) = parse_plain_amount(text, exponent) {
        return Ok(minor);
    }
    let decimal = parse_decimal(text, exponent)?.normalize();
    if decimal.abs() > Decimal::from(AMOUNT_MAX_MAJOR) {
        return Err(too_large());
    }
    if decimal.scale() > exponent {
        return Err(too_many_decimals(exponent));
    }
    let minor = decimal * Decimal::from(10_i64.pow(exponent));
    i64::try_from(minor).map(Minor).map_err(|_| too_large())
}

/// Parses what amounts nearly always are: few digits, with at most as many decimals as the currency
/// has. None says nothing about the others.
fn parse_plain_amount(text: &str, exponent: u32) -> Option<Minor> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let has_point = whole.len() < text.len();
    let decimals = u32::try_from(fraction.len()).ok().filter(|decimals| *decimals <= exponent)?;
    if whole.is_empty()
        || whole.len() > PLAIN_DIGITS_MAX as usize
        || has_point && fraction.is_empty()
    {
        return None;
    }
    let digits = whole.bytes().chain(fraction.bytes());
    let number = digits.into_iter().try_fold(0_i64, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
    })?;
    Some(Minor(number * 10_i64.pow(exponent - decimals)))
}

/// Parses the text exactly; digits beyond what a decimal holds are refused, never rounded.
fn parse_decimal(text: &str, exponent: u32) -> Result<Decimal, Flaw> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(not_a_number());
    }
    let (mantissa, power) = match text.split_once(['e', 'E']) {
        Some((mantissa, power)) => (mantissa, parse_power(power)?),
        None => (text, 0),
    };
    let unsigned = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    if !is_digits(whole) || !is_digits(fraction) {
        return Err(not_a_number());
    }
    let fraction = fraction.trim_end_matches('0');
    let sign = if mantissa.starts_with('-') { "-" } else { "" };
    let decimal =
        Decimal::from_str_exact(&format!("{sign}{whole}.{fraction}0")).map_err(|_| too_large())?;
    // A number too small for its scale has more decimals than any currency.
    shift(decimal, power)?.ok_or_else(|| too_many_decimals(exponent))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn parse_power(text: &str) -> Result<i32, Flaw> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !is_digits(digits) || digits.len() > 3 {
        return Err(not_a_number());
    }
    text.parse().map_err(|_| not_a_number())
}

/// Multiplies by ten to the `power`; none where that leaves more decimals than can be held.
fn shift(decimal: Decimal, power: i32) -> Result<Option<Decimal>, Flaw> {
    if decimal.is_zero() {
        return Ok(Some(Decimal::ZERO));
    }
    let step = Decimal::from(10);
    let mut shifted = decimal.normalize();
    for _ in 0..power.max(0) {
        shifted = shifted.checked_mul(step).ok_or_else(too_large)?.normalize();
    }
    let scale = i64::from(shifted.scale()) + i64::from(-power.min(0));
    let scale = u32::try_from(scale).map_err(|_| too_large())?;
    Ok(shifted.set_scale(scale).is_ok().then_some(shifted))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USD: CurrencyCode = CurrencyCode(840);
    const JPY: CurrencyCode = CurrencyCode(392);
    const KWD: CurrencyCode = CurrencyCode(414);

    #[test]
    fn amounts_read_exactly_or_not_at_all() {
        let rows = [
            ("0", USD, Ok(0)),
            ("-0", USD, Ok(0)),
            ("-0.00", USD, Ok(0)),
            ("12.5", USD, Ok(1_250)),
            ("12.50", USD, Ok(1_250)),
            ("12.500000000000000000000000000000000000", USD, Ok(1_250)),
            ("-30.25", USD, Ok(-3_025)),
            ("0.1", USD, Ok(10)),
            ("0.29", USD, Ok(29)),
            ("1e2", USD, Ok(10_000)),
            ("1.5E+1", USD, Ok(1_500)),
            ("1250e-2", USD, Ok(1_250)),
            ("0e999", USD, Ok(0)),
            ("0012", USD, Ok(1_200)),
            ("1000000000000", USD, Ok(100_000_000_000_000)),
            ("-1000000000000", USD, Ok(-100_000_000_000_000)),
            ("999999999999.99", USD, Ok(99_999_999_999_999)),
            ("1000000000000.01", USD, Err(too_large())),
            ("1e13", USD, Err(too_large())),
            ("1e999", USD, Err(too_large())),
            ("99999999999999999999999999999999999999", USD, Err(too_large())),
            ("0.001", USD, Err(too_many_decimals(2))),
            ("1e-3", USD, Err(too_many_decimals(2))),
            ("1e-300", USD, Err(too_many_decimals(2))),
            ("100", JPY, Ok(100)),
            ("100.0", JPY, Ok(100)),
            ("100.5", JPY, Err(too_many_decimals(0))),
            ("1.234", KWD, Ok(1_234)),
            ("", USD, Err(not_a_number())),
            ("-", USD, Err(not_a_number())),
            ("+5", USD, Err(not_a_number())),
            (" 5", USD, Err(not_a_number())),
            ("5.", USD, Err(not_a_number())),
            (".5", USD, Err(not_a_number())),
            ("1_000", USD, Err(not_a_number())),
            ("1,000", USD, Err(not_a_number())),
            ("1e", USD, Err(not_a_number())),
            ("1e1.5", USD, Err(not_a_number())),
            ("0x10", USD, Err(not_a_number())),
            ("NaN", USD, Err(not_a_number())),
            ("Infinity", USD, Err(not_a_number())),
            ("true", USD, Err(not_a_number())),
            ("\u{0661}", USD, Err(not_a_number())),
        ];
        for (text, code, expected) in rows {
            assert_eq!(parse_amount(text, code), expected.map(Minor), "{text}");
        }
        assert!(parse_amount("1e-99", USD).is_err());
        assert!(parse_amount("0.0000000000000000000000000000000000000001", USD).is_err());
    }

    #[test]
    fn sums_are_written_as_amounts_are_and_beyond() {
        let (mut amount, mut sum) = (String::new(), String::new());
        for code in [USD, JPY, KWD] {
            for minor in [0, 5, -5, 1_250, -1_204, i64::MAX, i64::MIN] {
                write_amount(&mut amount, Minor(minor), code);
                write_sum(&mut sum, i128::from(minor), code);
            }
        }
        assert_eq!(sum, amount);
        let mut beyond = String::new();
        write_sum(&mut beyond, -10 * i128::from(i64::MAX), USD);
        assert_eq!(beyond, "-922337203685477580.70");
    }

    #[test]
    fn plain_amounts_are_read_as_all_others_are() {
        for text in ["0", "7", "007.5", "12.50", "999999999999.99", "999999999999", "0.1"] {
            let plain = parse_plain_amount(text, 2).map(Ok);
            let decimal = parse_decimal(text, 2).unwrap() * Decimal::from(100);
            assert_eq!(plain, Some(i64::try_from(decimal).map(Minor)), "{text}");
        }
        for text in ["", ".", "5.", ".5", "1.500", "-1", "1e2", "1000000000000", "1 ", "x", "1.x"] {
            assert_eq!(parse_plain_amount(text, 2), None, "{text}");
        }
    }

    #[test]
    fn json_numbers_and_numeric_text_are_amounts_and_nothing_else_is() {
        let rows = [
            ("12.30", Some(1_230)),
            ("\"12.30\"", Some(1_230)),
            ("\"\\u0031\"", Some(100)),
            ("\"NaN\"", None),
            ("null", None),
            ("[1]", None),
            ("{}", None),
            ("false", None),
        ];
        for (json, expected) in rows {
            let value: &RawValue = serde_json::from_str(json).unwrap();
            assert_eq!(parse_json_amount(value, USD).ok(), expected.map(Minor), "{json}");
        }
    }

    #[test]
    fn amounts_print_with_the_decimals_of_the_currency() {
        let rows = [
            (0, USD, "0.00"),
            (-3_025, USD, "-30.25"),
            (5, USD, "0.05"),
            (100_000_000_000_000, USD, "1000000000000.00"),
            (100, JPY, "100"),
            (1_234, KWD, "1.234"),
        ];
        for (minor, code, expected) in rows {
            let json = serde_json::to_string(&Amount::new(Minor(minor), code)).unwrap();
            assert_eq!(json, expected);
            assert_eq!(parse_amount(expected, code), Ok(Minor(minor)));
        }
        let extremes = [i64::MIN, i64::MIN + 1, -1, 0, 1, 9, 10, 99, 100, 999, i64::MAX];
        for (minor, code) in extremes.iter().flat_map(|minor| [USD, JPY, KWD].map(|c| (*minor, c)))
        {
            let expected = Decimal::new(minor, currency::exponent(code)).to_string();
            assert_eq!(Amount::new(Minor(minor), code).to_string(), expected);
        }
        let balance = Amount::new(Minor(9_007_199_254_740_993), USD);
        assert_eq!(serde_json::to_string(&balance).unwrap(), "90071992547409.93");
        assert_eq!(Amount::limit(Minor::UNLIMITED, USD), None);
    }
}
