//! The input of every contender: a card program, and purchases on it.
//!
//! Plain values only, from which each contender makes what it understands. The ordinary program
//! and stream are made from those of the benches; other cards exist for the check of the rules.

use cardswitch_benches::program::{self, Draw};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::credential::ExpiryMonth;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::Minor;

/// The account's opening balance. Units: minor units. Redis counts in doubles, exactly so far.
const OPENING_BALANCE: i64 = 1_000_000_000_000_000;
/// The month in which cards end. Units: YYMM.
const EXPIRY: u16 = 4001;
const ZIP: &str = "94105";

/// The merchant of every purchase: its number, then acceptor, name, city, state, country, ZIP.
pub(crate) const MERCHANT_ID: i64 = 445_566;
pub(crate) const MERCHANT: [&str; 6] =
    ["000000000445566", "Blue Bottle Coffee", "San Francisco", "CA", "US", "94103"];
/// Its acquirer, its terminal and the transmission time.
pub(crate) const TRACE: [&str; 3] = ["123456", "TERM0001", "1121120000"];

/// A card and its allowance.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    pub(crate) pan_hash: u64,
    pub(crate) state: CardState,
    /// Suspended because its window is over.
    pub(crate) is_ended: bool,
    pub(crate) expires_on: BusinessDate,
    pub(crate) pin: Option<u64>,
    pub(crate) zip: Option<&'static str>,
    pub(crate) terms: AllowanceTerms,
}

impl Card {
    /// Card number `card` of the ordinary program.
    pub(crate) fn ordinary(card: u64) -> Self {
        let record = program::card_record(card);
        Self {
            pan_hash: record.pan_hash.0,
            state: CardState::Active,
            is_ended: false,
            expires_on: record.expires_on,
            pin: None,
            zip: Some(ZIP),
            terms: record.terms,
        }
    }

    /// The month in which it ends. Units: YYMM.
    pub(crate) fn expiry(&self) -> u16 {
        ExpiryMonth::of(self.expires_on).0
    }

    /// The bounds that it may have: a day's limit, a transaction's, its start, its end.
    /// Units: minor units; microseconds since 1970.
    pub(crate) fn bounds(&self) -> [Option<i64>; 4] {
        let AllowanceTerms { daily_limit, transaction_limit, starts_at, ends_at, .. } = self.terms;
        let limit = |limit: Minor| (limit != Minor::UNLIMITED).then_some(limit.0);
        [
            limit(daily_limit),
            limit(transaction_limit),
            (starts_at != Timestamp::MIN).then_some(starts_at.0),
            (ends_at != Timestamp::MAX).then_some(ends_at.0),
        ]
    }

    /// State and reason of suspension as both peers number them.
    pub(crate) const fn state_numbers(&self) -> (u8, u8) {
        match self.state {
            CardState::Unactivated => (0, 0),
            CardState::Active => (1, 0),
            CardState::Suspended => (2, if self.is_ended { 3 } else { 1 }),
            CardState::Terminated => (3, 0),
        }
    }
}

/// A program: one account and its cards.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) opening_balance: i64,
    pub(crate) cards: Vec<Card>,
}

impl Program {
    /// The ordinary program of so many cards, whose purchases are all approved.
    pub(crate) fn ordinary(cards: u64) -> Self {
        Self { opening_balance: OPENING_BALANCE, cards: (0..cards).map(Card::ordinary).collect() }
    }
}

/// A purchase, with everything that a network message carries.
#[derive(Clone, Debug)]
pub(crate) struct Purchase {
    pub(crate) pan_hash: u64,
    /// Tells a repeat from another purchase.
    pub(crate) network_key: u128,
    pub(crate) amount_minor: i64,
    pub(crate) mcc: u16,
    pub(crate) is_cash: bool,
    /// Units: YYMM.
    pub(crate) expiry: Option<u16>,
    pub(crate) cvv_matches: Option<bool>,
    pub(crate) pin: Option<u64>,
    pub(crate) zip: Option<&'static str>,
    /// Counts the purchases of a stream: audit number and retrieval reference come from it.
    pub(crate) count: u64,
}

impl Purchase {
    /// Systems trace audit number. Source: ISO DE11.
    pub(crate) fn stan(&self) -> String {
        format!("{:06}", self.count % 1_000_000)
    }

    /// Retrieval reference number. Source: ISO DE37.
    pub(crate) fn rrn(&self) -> String {
        format!("{:012}", self.count)
    }
}

impl From<Draw> for Purchase {
    fn from(draw: Draw) -> Self {
        Self {
            pan_hash: draw.pan_hash.0,
            network_key: draw.key.0,
            amount_minor: draw.amount.0,
            mcc: draw.mcc.0,
            is_cash: false,
            expiry: Some(EXPIRY),
            cvv_matches: Some(true),
            pin: None,
            zip: Some(ZIP),
            count: draw.count,
        }
    }
}

/// How a purchase was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// None where no transaction is recorded: an unknown card.
    pub(crate) transaction: Option<i64>,
    pub(crate) response_code: u16,
    /// The rules that failed, by their bit.
    pub(crate) failed_rules: u32,
    pub(crate) allowance_balance: i64,
}

impl Verdict {
    pub(crate) const fn is_approved(&self) -> bool {
        self.response_code == 0
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_benches::program::{CardDraw, Random};

    /// Of 1,000 cards the first two have 1 and 0.50 of the 7.73 that all weights add up to.
    #[test]
    fn popular_cards_have_their_shares() {
        let (draw, mut random) = (CardDraw::zipf(1_000, 0.99), Random::new(7));
        let mut counts = vec![0_u32; 1_000];
        for _ in 0..1_000_000 {
            counts[usize::try_from(draw.next_card(&mut random)).unwrap()] += 1;
        }
        counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        for (count, share) in counts.iter().zip([0.1294, 0.0651]) {
            assert!((f64::from(*count) / 1e6 - share).abs() < 0.002, "{count}, not {share}");
        }
        assert!(counts[999] > 0, "every card is drawn");
    }
}
