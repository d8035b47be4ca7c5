//! Amounts as scenarios write and print them: decimals of the account's currency, or with the code
//! of another one behind.

use std::fmt;
use std::str::FromStr;

use iso_currency::Currency;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::merchants::ACCOUNT_CURRENCY;

/// The largest amount that a message carries. Source: ISO DE4, twelve digits.
const MINOR_MAX: i64 = 999_999_999_999;

/// An amount in a currency; below zero only where it is expected, never where it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Money {
    /// Units: minor units of `currency`.
    pub minor: i64,
    /// Its currency.
    pub currency: Currency,
}

impl Money {
    /// An amount of the account's currency. Units: minor units.
    pub const fn of_account(minor: i64) -> Self {
        Self { minor, currency: ACCOUNT_CURRENCY }
    }

    /// An amount of a currency by its number; none of an unknown one. Units: minor units. Source: ISO 4217.
    pub fn of_currency(minor: i64, numeric: u16) -> Option<Self> {
        Some(Self { minor, currency: Currency::from_numeric(numeric)? })
    }

    /// The number of its currency. Source: ISO 4217.
    pub fn numeric(self) -> u16 {
        self.currency.numeric()
    }

    /// Reads `12.34` or `80.00 EUR`; none of anything else, of more decimals than there are, and
    /// of more than a message carries.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::parse_any(text).filter(|money| money.minor.abs() <= MINOR_MAX)
    }

    /// Reads an amount of any size, as balances have.
    pub(crate) fn parse_any(text: &str) -> Option<Self> {
        let (number, code) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let currency = match code.trim() {
            "" => ACCOUNT_CURRENCY,
            code => Currency::from_code(code)?,
        };
        let minor_units = Decimal::from(10_u64.pow(u32::from(currency.exponent()?)));
        let minor = Decimal::from_str(number).ok()?.checked_mul(minor_units)?;
        let minor = Some(minor).filter(|minor| minor.fract().is_zero())?.to_i64()?;
        Some(Self { minor, currency })
    }

    /// Whether it is in another currency than the account's.
    pub(crate) fn is_foreign(self) -> bool {
        self.currency != ACCOUNT_CURRENCY
    }

    /// The number without its currency.
    pub(crate) fn decimal(self) -> String {
        let exponent = self.currency.exponent().map_or(0, u32::from);
        Decimal::new(self.minor, exponent).to_string()
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.decimal())?;
        if self.is_foreign() {
            write!(f, " {}", self.currency.code())?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MoneyVisitor)
    }
}

/// A number in the account's currency, text in another one.
impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.decimal().parse::<f64>() {
            Ok(number) if !self.is_foreign() => serializer.serialize_f64(number),
            _ => serializer.collect_str(self),
        }
    }
}

/// Takes what TOML has for amounts: whole numbers, numbers with decimals, text.
struct MoneyVisitor;

impl Visitor<'_> for MoneyVisitor {
    type Value = Money;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount such as 12.34 or \"80.00 EUR\"")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Money, E> {
        self.visit_str(&number.to_string())
    }

    // The shortest text that reads back as the same number is the one in the file.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Money, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Money, E> {
        Money::parse(text).ok_or_else(|| E::custom(format_args!("`{text}` is not an amount")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_printed() {
        let rows = [
            ("12.34", Some((1_234, "12.34"))),
            ("12.3", Some((1_230, "12.30"))),
            ("-5", Some((-500, "-5.00"))),
            ("0", Some((0, "0.00"))),
            ("80.00 EUR", Some((8_000, "80.00 EUR"))),
            ("900 JPY", Some((900, "900 JPY"))),
            ("900.5 JPY", None),
            ("1.005", None),
            ("12.34 XYZ", None),
            ("10000000000", None),
            ("many", None),
            ("", None),
        ];
        for (text, expected) in rows {
            let found = Money::parse(text).map(|money| (money.minor, money.to_string()));
            let expected = expected.map(|(minor, shown)| (minor, shown.to_owned()));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn numbers_of_toml_are_the_decimals_written() {
        #[derive(serde::Deserialize)]
        struct Row {
            amount: Money,
        }
        for (text, minor) in [("100.10", 10_010), ("9999999999.99", MINOR_MAX), ("7", 700)] {
            let row: Row = toml::from_str(&format!("amount = {text}")).unwrap();
            assert_eq!(row.amount, Money::of_account(minor), "{text}");
        }
    }
}
