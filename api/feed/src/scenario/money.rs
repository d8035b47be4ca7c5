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

    /// Reads `12.34` or `80.00 EUR`.
    /// Errors: anything else, more decimals than the currency has, more than a message carries.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let money = Self::read(text)?;
        if money.minor.abs() > MINOR_MAX {
            let most = Self { minor: MINOR_MAX, ..money };
            return Err(format!("`{text}` is above {most}, the most that a message carries"));
        }
        Ok(money)
    }

    /// Reads an amount of any size, as balances have.
    pub(crate) fn parse_any(text: &str) -> Option<Self> {
        Self::read(text).ok()
    }

    fn read(text: &str) -> Result<Self, String> {
        let (number, code) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let currency = match code.trim() {
            "" => Some(ACCOUNT_CURRENCY),
            code => Currency::from_code(code),
        };
        let no_code =
            || format!("`{text}`: `{code}` is no currency; write three capitals, such as EUR");
        let currency = currency.ok_or_else(no_code)?;
        let code = currency.code();
        let no_decimals = || format!("`{text}`: {code} has no minor units, so no amounts");
        let decimals = u32::from(currency.exponent().ok_or_else(no_decimals)?);
        let no_number = || format!("`{text}` is not an amount such as 12.34 or \"80.00 EUR\"");
        let amount = Decimal::from_str(number).map_err(|_| no_number())?.normalize();
        if amount.scale() > decimals {
            return Err(format!("`{text}` has more than the {decimals} decimals of {code}"));
        }
        let minor = amount.checked_mul(Decimal::from(10_u64.pow(decimals)));
        let minor = minor.and_then(|minor| minor.to_i64());
        let minor = minor.ok_or_else(|| format!("`{text}` is more than any amount"))?;
        Ok(Self { minor, currency })
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
        Money::parse(text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_printed() {
        let rows = [
            ("12.34", 1_234, "12.34"),
            ("12.3", 1_230, "12.30"),
            ("-5", -500, "-5.00"),
            ("0", 0, "0.00"),
            ("80.00 EUR", 8_000, "80.00 EUR"),
            ("900 JPY", 900, "900 JPY"),
            ("1.500", 150, "1.50"),
        ];
        for (text, minor, shown) in rows {
            let money = Money::parse(text).unwrap();
            assert_eq!((money.minor, money.to_string().as_str()), (minor, shown), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_amount_is_told() {
        let rows = [
            ("900.5 JPY", "more than the 0 decimals of JPY"),
            ("1.005", "more than the 2 decimals of USD"),
            ("12.34 XYZ", "`XYZ` is no currency"),
            ("12.34 eur", "`eur` is no currency; write three capitals"),
            ("1 XAU", "XAU has no minor units"),
            ("10000000000", "above 9999999999.99, the most"),
            ("-10000000000 EUR", "above 9999999999.99 EUR"),
            ("9e27", "more than any amount"),
            ("many", "not an amount"),
            ("", "not an amount"),
        ];
        for (text, part) in rows {
            let message = Money::parse(text).expect_err(text);
            assert!(message.contains(part), "{text}: {message}");
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
