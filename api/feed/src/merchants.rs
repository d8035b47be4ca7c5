//! The merchants of the simulated network: an invented catalogue with real category codes.
//!
//! The catalogue is `data/merchants.csv`. The price of a purchase there, its currency and its rate
//! are drawn here; the buyers and their times in `traffic`.

use std::sync::LazyLock;

use iso_currency::Currency;

use super::random::Draws;

/// A merchant of the catalogue.
#[derive(Debug)]
pub(super) struct Merchant {
    /// Card acceptor id. Source: ISO DE42.
    pub(super) mid: &'static str,
    /// At most 22 characters. Source: ISO DE43.
    pub(super) name: &'static str,
    /// At most 13 characters. Source: ISO DE43.
    pub(super) city: &'static str,
    /// Two or three letters, or none. Source: ISO DE43.
    pub(super) state: &'static str,
    /// Two letters. Source: ISO DE43.
    pub(super) country: &'static str,
    /// The currency that the merchant charges in.
    pub(super) currency: Currency,
    /// Category code. Source: ISO DE18.
    pub(super) mcc: u16,
    /// A middling purchase, in US cents.
    typical_cents: u64,
}

/// The price of a purchase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Price {
    /// In minor units of the merchant's currency. Source: ISO DE4.
    pub(super) amount_minor: u64,
    /// In minor units of the account's currency. Source: ISO DE6.
    pub(super) billing_minor: u64,
}

/// All merchants with the running total of their weights.
pub(super) struct Catalogue {
    merchants: Vec<Merchant>,
    totals: Vec<u64>,
}

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    Catalogue::parse(include_str!("../data/merchants.csv"))
        .expect("the catalogue is compiled in and a unit test parses it")
});

/// The account's currency: that of the portfolio of `init`.
pub(super) const ACCOUNT_CURRENCY: Currency = Currency::USD;

/// Amounts by sixteenths of probability, in hundredths of the typical one: a bell on a
/// logarithmic scale, with the long tail that real purchases have.
const QUANTILES: [u64; 17] =
    [8, 25, 37, 46, 54, 62, 70, 78, 88, 98, 110, 124, 140, 162, 195, 260, 520];

/// US dollars for a thousand units of a currency, in cents.
const RATES: [(Currency, u64); 11] = [
    (Currency::EUR, 108_400),
    (Currency::GBP, 126_900),
    (Currency::CAD, 73_100),
    (Currency::MXN, 5_830),
    (Currency::JPY, 672),
    (Currency::CHF, 112_300),
    (Currency::SEK, 9_470),
    (Currency::AUD, 65_800),
    (Currency::INR, 1_197),
    (Currency::BHD, 265_300),
    (Currency::USD, 100_000),
];

/// The catalogue that is compiled in.
pub(super) fn catalogue() -> &'static Catalogue {
    &CATALOGUE
}

/// The category of the merchant in a slot, as the requests of scenarios name it. Source: ISO DE18.
pub fn merchant_category(slot: u16) -> u16 {
    catalogue().merchant(slot).mcc
}

/// Whether the simulated network has a merchant of a category.
pub fn has_merchant_of(mcc: u16) -> bool {
    catalogue().find(Some(mcc), ACCOUNT_CURRENCY).is_some()
}

impl Catalogue {
    fn parse(text: &'static str) -> Option<Self> {
        let (mut merchants, mut totals, mut total) = (Vec::new(), Vec::new(), 0);
        for line in text.lines().filter(|line| !line.starts_with('#')).skip(1) {
            let (merchant, weight) = parse_merchant(line)?;
            total += weight;
            totals.push(total);
            merchants.push(merchant);
        }
        (!merchants.is_empty()).then_some(Self { merchants, totals })
    }

    /// Draws a merchant by weight; returns its slot.
    pub(super) fn draw(&self, draws: &mut Draws) -> u16 {
        u16::try_from(draws.weighted(&self.totals)).unwrap_or(0)
    }

    /// Finds a merchant, of a category if one is named; one that charges in the currency comes
    /// first.
    pub(super) fn find(&self, mcc: Option<u16>, currency: Currency) -> Option<u16> {
        let is_of = |merchant: &Merchant| mcc.is_none_or(|mcc| merchant.mcc == mcc);
        let charges = |merchant: &Merchant| merchant.currency == currency && is_of(merchant);
        let found = self.merchants.iter().position(charges);
        let found = found.or_else(|| self.merchants.iter().position(is_of));
        found.and_then(|slot| u16::try_from(slot).ok())
    }

    /// The merchant in a slot that [`Catalogue::draw`] gave.
    pub(super) fn merchant(&self, slot: u16) -> &Merchant {
        &self.merchants[usize::from(slot) % self.merchants.len()]
    }
}

impl Merchant {
    /// Draws what a purchase costs here. A foreign price is converted at the day's rate, give
    /// or take two in a hundred, and rounded up to a minor unit.
    pub(super) fn draw_price(&self, draws: &mut Draws) -> Price {
        let cents = (self.typical_cents * draw_quantile(draws) / 10_000).max(1);
        let rate = self.rate_cents_per_thousand() * draws.between(980, 1020) / 1000;
        if self.currency == ACCOUNT_CURRENCY {
            return Price { amount_minor: cents, billing_minor: cents };
        }
        let units_per_major = 10_u64.pow(u32::from(self.currency.exponent().unwrap_or(0)));
        let amount_minor = (cents * 1000 * units_per_major / rate.max(1)).max(1);
        Price {
            amount_minor,
            billing_minor: (amount_minor * rate).div_ceil(1000 * units_per_major),
        }
    }

    /// Tells whether the merchant charges in another currency than the account's.
    pub(super) fn is_foreign(&self) -> bool {
        self.currency != ACCOUNT_CURRENCY
    }

    fn rate_cents_per_thousand(&self) -> u64 {
        RATES
            .iter()
            .find(|(currency, _)| *currency == self.currency)
            .map_or(100_000, |(_, rate)| *rate)
    }
}

/// Draws from the table of quantiles. Units: ten-thousandths of the typical amount.
fn draw_quantile(draws: &mut Draws) -> u64 {
    let (at, between) = (draws.below(16), draws.below(100));
    let low = usize::try_from(at).map_or(QUANTILES[0], |at| QUANTILES[at]);
    let high = usize::try_from(at + 1).map_or(low, |at| QUANTILES[at]);
    low * 100 + (high - low) * between
}

/// Parses a line: mid, name, city, state, country, currency, mcc, typical amount, weight.
fn parse_merchant(line: &'static str) -> Option<(Merchant, u64)> {
    let columns: Vec<&str> = line.split(',').collect();
    let [mid, name, city, state, country, currency, mcc, typical, weight] = columns[..] else {
        return None;
    };
    let merchant = Merchant {
        mid,
        name,
        city,
        state,
        country,
        currency: Currency::from_code(currency)?,
        mcc: mcc.parse().ok()?,
        typical_cents: typical.parse().ok()?,
    };
    Some((merchant, weight.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_merchant_fits_its_fields() {
        let categories = include_str!("../../../engine/data/merchant_categories.csv");
        let catalogue = catalogue();
        assert!(catalogue.merchants.len() > 150);
        for merchant in &catalogue.merchants {
            assert!(merchant.name.len() <= 22 && merchant.name.is_ascii(), "{merchant:?}");
            assert!(merchant.city.len() <= 13 && merchant.city.is_ascii(), "{merchant:?}");
            assert!(merchant.mid.len() == 15 && merchant.country.len() == 2, "{merchant:?}");
            assert!(RATES.iter().any(|(currency, _)| *currency == merchant.currency));
            assert!(categories.contains(&format!("\n{:04},", merchant.mcc)), "{merchant:?}");
        }
        assert!(catalogue.merchants.iter().any(Merchant::is_foreign));
    }

    #[test]
    fn prices_are_positive_and_foreign_ones_convert() {
        let mut draws = Draws::new(11, 0);
        for merchant in &catalogue().merchants {
            for _ in 0..20 {
                let price = merchant.draw_price(&mut draws);
                assert!(
                    price.amount_minor > 0 && price.billing_minor > 0,
                    "{merchant:?} {price:?}"
                );
                let low = merchant.typical_cents * 7 / 100;
                let high = merchant.typical_cents * 11 / 2 + 1000;
                assert!((low..high).contains(&price.billing_minor), "{merchant:?} {price:?}");
                let same = price.amount_minor == price.billing_minor;
                assert!(same || merchant.is_foreign(), "{merchant:?} {price:?}");
            }
        }
    }
}
