//! The lifetimes of holds: usual ones by merchant category, and those that a company sets instead.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::ids::Timestamp;
use super::merchant::Mcc;
use super::merchant_category::{MCC_MIN, exists, is_in_scope};

/// The days of a hold at a merchant that sells at once.
const DAYS: u16 = 7;
/// The days of a hold at a merchant that authorizes ahead.
const DAYS_AHEAD: u16 = 30;
/// The groups of merchants that authorize ahead: car rental and lodging.
const AHEAD: [u16; 2] = [2, 3];

/// The lifetimes that holds have unless their company says otherwise. Units: microseconds.
pub const USUAL_LIFETIMES: [i64; 2] = [lifetime_of(DAYS), lifetime_of(DAYS_AHEAD)];

const fn lifetime_of(days: u16) -> i64 {
    days as i64 * Timestamp::DAY
}

/// How many days the holds of a company's cards wait for their presentment, where not as usual.
///
/// As text: terms with commas between, such as `10,7011=14,4=21`. A term names a merchant category or
/// a group of them, and its days; one without a name is for merchants without a term of their own
/// that do not authorize ahead.
///
/// INVARIANT: the categories come before the groups, and these with the shortest days first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldTable {
    terms: Box<[HoldTerm]>,
    others: Option<u16>,
}

/// The days of a hold at some merchants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldTerm {
    /// A category, or a group of them, as in the scope of an allowance.
    pub merchants: u16,
    /// The days.
    pub days: u16,
}

impl HoldTable {
    /// The longest lifetime. Units: days.
    pub const DAYS_MAX: u16 = 365;
    /// The most terms of a table.
    pub const TERMS_MAX: usize = 100;

    /// The terms with merchants.
    pub fn terms(&self) -> &[HoldTerm] {
        &self.terms
    }

    /// The days at merchants without a term.
    pub const fn others(&self) -> Option<u16> {
        self.others
    }

    /// The lifetime of a hold at a merchant of this category. Units: microseconds.
    ///
    /// A term for the category goes before one for a group; of groups, the shortest days go first.
    pub fn lifetime(&self, mcc: Option<Mcc>) -> i64 {
        let is_among = |merchants: &[u16]| is_in_scope(merchants, mcc.map(|Mcc(code)| code));
        let term = self.terms.iter().find(|term| is_among(&[term.merchants]));
        lifetime_of(match term {
            Some(term) => term.days,
            None if is_among(&AHEAD) => DAYS_AHEAD,
            None => self.others.unwrap_or(DAYS),
        })
    }
}

/// Why a text is no table of holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HoldTableError {
    /// A term without days, or with too few or too many.
    #[error("`{0}` is no number of days: 1 to {max}", max = HoldTable::DAYS_MAX)]
    Days(String),
    /// Neither a category nor a group.
    #[error(
        "`{0}` is no merchant category and no group of them (`/v1/merchant-categories` has all)"
    )]
    Merchants(String),
    /// Two terms for the same merchants.
    #[error("`{0}` gives days to the same merchants again")]
    Repeated(String),
    /// More terms than a table holds.
    #[error("more than {max} terms", max = HoldTable::TERMS_MAX)]
    TooMany,
}

impl FromStr for HoldTable {
    type Err = HoldTableError;

    fn from_str(text: &str) -> Result<Self, HoldTableError> {
        let (mut terms, mut others) = (Vec::<HoldTerm>::new(), None);
        for term in text.split(',').map(str::trim).filter(|term| !term.is_empty()) {
            let is_repeated = match term.split_once('=') {
                None => others.replace(parse_days(term)?).is_some(),
                Some((merchants, days)) => {
                    let (merchants, days) =
                        (parse_merchants(merchants.trim())?, parse_days(days.trim())?);
                    let is_repeated = terms.iter().any(|known| known.merchants == merchants);
                    terms.push(HoldTerm { merchants, days });
                    is_repeated
                }
            };
            if is_repeated {
                return Err(HoldTableError::Repeated(term.to_owned()));
            }
        }
        if terms.len() > Self::TERMS_MAX {
            return Err(HoldTableError::TooMany);
        }
        terms.sort_unstable_by_key(|term| match term.merchants {
            category @ MCC_MIN.. => (false, category, 0),
            group => (true, term.days, group),
        });
        Ok(Self { terms: terms.into(), others })
    }
}

fn parse_days(text: &str) -> Result<u16, HoldTableError> {
    let days = text.parse().ok().filter(|days| (1..=HoldTable::DAYS_MAX).contains(days));
    days.ok_or_else(|| HoldTableError::Days(text.to_owned()))
}

fn parse_merchants(text: &str) -> Result<u16, HoldTableError> {
    let merchants = text.parse().ok().filter(|merchants| exists(*merchants));
    merchants.ok_or_else(|| HoldTableError::Merchants(text.to_owned()))
}

impl fmt::Display for HoldTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = self.others.map(|days| days.to_string());
        let terms =
            self.terms.iter().map(|HoldTerm { merchants, days }| format!("{merchants}={days}"));
        formatter.write_str(&others.into_iter().chain(terms).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(table: &str, code: Option<u16>) -> i64 {
        let table: HoldTable = table.parse().unwrap();
        table.lifetime(code.map(Mcc)) / Timestamp::DAY
    }

    #[test]
    fn stays_and_rentals_are_held_longer() {
        let codes = [3351, 3500, 3501, 3999, 7011, 7033, 7512, 7519];
        assert_eq!(codes.map(|code| days("", Some(code))), [30; 8]);
        let codes = [0, 3350, 4000, 7010, 7013, 7514];
        assert_eq!(codes.map(|code| days("", Some(code))), [7; 6]);
        assert_eq!(days("", None), 7);
    }

    #[test]
    fn a_company_says_otherwise_for_some_merchants_or_for_all_others() {
        // The table, the merchant's category, the days.
        let rows = [
            ("10", Some(5411), 10),
            ("10", None, 10),
            ("10", Some(7011), 30),
            ("10,7011=14", Some(7011), 14),
            ("10,7011=14", Some(7012), 30),
            ("3=2", Some(7011), 2),
            ("3=2", Some(7512), 30),
            ("3=2", Some(5411), 7),
            ("3=2,7011=21", Some(7011), 21),
            ("3=2,7011=21", Some(7012), 2),
            ("7011=21", None, 7),
            ("365,5411=1", Some(5411), 1),
        ];
        for (table, code, expected) in rows {
            assert_eq!(days(table, code), expected, "{table} at {code:?}");
        }
    }

    #[test]
    fn of_two_groups_of_one_merchant_the_shorter_days_hold() {
        let of = |code: u16| (1..MCC_MIN).filter(move |group| is_in_scope(&[*group], Some(code)));
        let (code, pair) = (MCC_MIN..10_000)
            .find_map(|code| {
                Some((code, of(code).collect::<Vec<_>>())).filter(|(_, of)| of.len() > 1)
            })
            .unwrap();
        let (first, second) = (pair[0], pair[1]);
        assert_eq!(days(&format!("{first}=3,{second}=9"), Some(code)), 3);
        assert_eq!(days(&format!("{first}=9,{second}=3"), Some(code)), 3);
    }

    #[test]
    fn a_table_is_written_as_it_is_read() {
        let rows = [("", ""), (" 10 ", "10"), ("3=21, 7011 = 14,,10", "10,7011=14,3=21")];
        for (given, shown) in rows {
            assert_eq!(given.parse::<HoldTable>().unwrap().to_string(), shown);
        }
        let known = (MCC_MIN..10_000).filter(|code| exists(*code)).take(HoldTable::TERMS_MAX + 1);
        let many: Vec<_> = known.map(|code| format!("{code}=9")).collect();
        let refused = [
            ("0", "`0` is no number of days: 1 to 365"),
            ("7011=366", "`366` is no number of days: 1 to 365"),
            ("7011=", "`` is no number of days: 1 to 365"),
            ("a week", "`a week` is no number of days: 1 to 365"),
            (
                "699=8",
                "`699` is no merchant category and no group of them (`/v1/merchant-categories` has all)",
            ),
            ("7,8", "`8` gives days to the same merchants again"),
            ("7011=8,7011=8", "`7011=8` gives days to the same merchants again"),
            (&many.join(","), "more than 100 terms"),
        ];
        for (given, why) in refused {
            assert_eq!(given.parse::<HoldTable>().unwrap_err().to_string(), why, "{given}");
        }
    }
}
