//! Currencies by their ISO 4217 codes and exponents.

use cardswitch_engine::domain::money::CurrencyCode;
use iso_currency::Currency;

/// The exponent of a currency this build does not know: by far the most common one.
const EXPONENT_DEFAULT: u32 = 2;

/// How many decimals amounts of a currency have; two where the currency is not known.
/// Source: ISO 4217.
pub fn exponent(currency: CurrencyCode) -> u32 {
    Currency::from_numeric(currency.0)
        .and_then(Currency::exponent)
        .map_or(EXPONENT_DEFAULT, u32::from)
}

/// The three letters of a currency; its three digits where it is not known.
pub fn render_currency(currency: CurrencyCode) -> String {
    Currency::from_numeric(currency.0)
        .map_or_else(|| format!("{:03}", currency.0), |known| known.code().to_owned())
}

/// Parses three letters, in any case, of a currency that has minor units.
pub fn parse_currency(text: &str) -> Option<CurrencyCode> {
    let currency = Currency::from_code(&text.to_ascii_uppercase())?;
    currency.exponent()?;
    Some(CurrencyCode(currency.numeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_exponents_are_those_of_iso_4217() {
        for (letters, number, decimals) in
            [("USD", 840, 2), ("EUR", 978, 2), ("JPY", 392, 0), ("KWD", 414, 3), ("CLF", 990, 4)]
        {
            let code = CurrencyCode(number);
            assert_eq!(parse_currency(letters), Some(code));
            assert_eq!(parse_currency(&letters.to_lowercase()), Some(code));
            assert_eq!(render_currency(code), letters);
            assert_eq!(exponent(code), decimals, "{letters}");
        }
        for unknown in ["", "US", "USDX", "ZZZ", "XAU", "840"] {
            assert_eq!(parse_currency(unknown), None, "{unknown}");
        }
        assert_eq!(render_currency(CurrencyCode(7)), "007");
        assert_eq!(exponent(CurrencyCode(7)), 2);
    }
}
