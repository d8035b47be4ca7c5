//! Amounts as people read them: with the sign of their currency and thousands apart.

use cardswitch_engine::domain::money::{CurrencyCode, Minor};

use cardswitch_wire::amount::write_amount;
use cardswitch_wire::currency::{exponent, render_currency};

/// Currencies whose signs stand for no other; all others are named by their three letters.
const SIGNS: [(&str, &str); 5] =
    [("USD", "$"), ("EUR", "€"), ("GBP", "£"), ("JPY", "¥"), ("INR", "₹")];

const NO_AMOUNT: &str = "?";

/// An amount in words, such as `$1,234.50` or `−CHF 7.00`.
/// Units: minor units of `currency`.
pub(crate) fn money(amount: Minor, currency: CurrencyCode) -> String {
    let mut plain = String::new();
    write_amount(&mut plain, amount, currency);
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => ("−", digits),
        None => ("", plain.as_str()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{}{point}{fraction}", unit(currency), in_thousands(whole))
}

/// The sign or code of a currency, as it stands before the digits.
fn unit(currency: CurrencyCode) -> String {
    let name = render_currency(currency);
    let known = SIGNS.iter().find(|(letters, _)| *letters == name);
    known.map_or_else(|| format!("{name}\u{a0}"), |(_, sign)| (*sign).to_owned())
}

/// An amount as typed or as `money` shows it, in the form that `/v1` takes, without its direction.
pub(crate) fn unsigned_amount(text: &str, currency: CurrencyCode) -> String {
    typed_amount(text.trim_start_matches(['-', '−']), currency)
}

/// An amount as a field shows it: digits and a point alone; blank for one without a limit.
pub(crate) fn field_amount(amount: Minor, currency: CurrencyCode) -> String {
    let mut plain = String::new();
    if amount != Minor::UNLIMITED {
        write_amount(&mut plain, amount, currency);
    }
    plain
}

/// An amount as typed, in the form that `/v1` takes: without blanks around it, without the sign of its
/// currency, and without commas that stand between thousands. Its reader judges whether it is an
/// amount, and refuses a comma that could be a decimal point.
pub(crate) fn typed_amount(text: &str, currency: CurrencyCode) -> String {
    let text = text.trim();
    let unit = unit(currency);
    let unit = unit.trim_end();
    let split = text.split_at_checked(unit.len());
    let digits = split.filter(|(start, _)| start.eq_ignore_ascii_case(unit)).map(|(_, rest)| rest);
    let text = digits.unwrap_or(text).trim_start();
    // Programs may write powers of ten; where people type one it is a slip, which the reader refuses.
    if text.contains(['e', 'E']) {
        return NO_AMOUNT.to_owned();
    }
    let (whole, rest) =
        text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let is_decimal = rest.is_none() && exponent(currency) == 3 && whole.matches(',').count() == 1;
    let is_apart = whole.contains(',')
        && !is_decimal
        && first != "0"
        && (1..=3).contains(&first.len())
        && groups.all(|group| group.len() == 3 && group.bytes().all(|byte| byte.is_ascii_digit()));
    match rest {
        Some(rest) if is_apart => format!("{}.{rest}", whole.replace(',', "")),
        None if is_apart => whole.replace(',', ""),
        _ => text.to_owned(),
    }
}

/// A number with its thousands apart.
pub(crate) fn grouped(count: u64) -> String {
    in_thousands(&count.to_string())
}

fn in_thousands(digits: &str) -> String {
    let mut apart = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_between_thousands_are_read_over_and_no_others() {
        let rows = [
            (" 12.50 ", "12.50"),
            ("1,000", "1000"),
            ("12,345,678.90", "12345678.90"),
            // A comma that could be a decimal point stays for the reader to refuse.
            ("1,5", "1,5"),
            ("1,50", "1,50"),
            ("1234,567", "1234,567"),
            (",100", ",100"),
            ("1,00a", "1,00a"),
            ("0,500", "0,500"),
            ("$2,500", "2500"),
            (" $ 7.50", "7.50"),
            ("usd 7", "usd 7"),
            ("€7", "€7"),
            ("1e6", NO_AMOUNT),
            ("1E6", NO_AMOUNT),
            ("", ""),
        ];
        for (typed, expected) in rows {
            assert_eq!(typed_amount(typed, CurrencyCode(840)), expected, "{typed}");
        }
        // Dinars have three decimals.
        let rows = [("1,500", "1,500"), ("1,500.000", "1500.000"), ("1,500,000", "1500000")];
        for (typed, expected) in rows {
            assert_eq!(typed_amount(typed, CurrencyCode(414)), expected, "{typed}");
        }
        assert_eq!(field_amount(Minor(-5), CurrencyCode(840)), "-0.05");
        assert_eq!(field_amount(Minor::UNLIMITED, CurrencyCode(840)), "");
    }

    #[test]
    fn numbers_have_their_thousands_apart() {
        let rows = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (count, expected) in rows {
            assert_eq!(grouped(count), expected);
        }
    }

    #[test]
    fn amounts_have_signs_thousands_and_the_decimals_of_their_currency() {
        let rows = [
            (0, 840, "$0.00"),
            (5, 840, "$0.05"),
            (99_999, 840, "$999.99"),
            (100_000, 840, "$1,000.00"),
            (-123_456_789, 840, "−$1,234,567.89"),
            (1_234, 978, "€12.34"),
            (1_234_567, 392, "¥1,234,567"),
            (1_234_567, 414, "KWD\u{a0}1,234.567"),
            (-700, 756, "−CHF\u{a0}7.00"),
            (i64::MIN, 392, "−¥9,223,372,036,854,775,808"),
        ];
        for (minor, currency, expected) in rows {
            let (amount, currency) = (Minor(minor), CurrencyCode(currency));
            assert_eq!(money(amount, currency), expected);
            let plain = field_amount(amount, currency);
            let digits = plain.trim_start_matches('-');
            // The text is searched for as it was copied, or as it was typed after reading it.
            for text in [expected.to_owned(), expected.replace('\u{a0}', " ").to_lowercase()] {
                assert_eq!(unsigned_amount(&text, currency), digits, "{text}");
            }
            assert_eq!(unsigned_amount(digits, currency), digits);
        }
        assert_eq!(unsigned_amount("€5", CurrencyCode(840)), "€5");
    }
}
