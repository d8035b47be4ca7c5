//! The input of every contender: a card program, and an endless stream of purchases on it.
//!
//! Plain values only, from which each contender makes what it understands. The ordinary program
//! and stream are those of the benches, value for value (a test below holds them together); other
//! cards exist for the check of the rules.

use cardswitch_benches::program::{CardDraw, Random, pan_hash};

/// The account's opening balance. Units: minor units. Redis counts in doubles, exactly so far.
pub(crate) const OPENING_BALANCE: i64 = 1_000_000_000_000_000;
/// 2040-01-01. Units: days since 1970.
const EXPIRES_ON: i32 = 25_567;
/// The month of `EXPIRES_ON`. Units: YYMM.
const EXPIRY: u16 = 4001;
const ZIP: &str = "94105";
const MERCHANT_CATEGORIES: [u16; 6] = [5812, 5411, 5541, 4121, 5999, 5732];
/// One card in so many is limited to a few merchant categories.
const SCOPED_EVERY: u64 = 4;

/// The merchant of every purchase.
pub(crate) const MERCHANT: Merchant = Merchant {
    mid: 445_566,
    card_acceptor_id: "000000000445566",
    name: "Blue Bottle Coffee",
    city: "San Francisco",
    state: "CA",
    country: "US",
    zip: "94103",
    acquirer: "123456",
    terminal: "TERM0001",
    transmission_time: "1121120000",
};

/// A merchant, its terminal and its acquirer.
#[derive(Debug)]
pub(crate) struct Merchant {
    pub(crate) mid: i64,
    pub(crate) card_acceptor_id: &'static str,
    pub(crate) name: &'static str,
    pub(crate) city: &'static str,
    pub(crate) state: &'static str,
    pub(crate) country: &'static str,
    pub(crate) zip: &'static str,
    pub(crate) acquirer: &'static str,
    pub(crate) terminal: &'static str,
    pub(crate) transmission_time: &'static str,
}

/// A card's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CardState {
    Unactivated,
    Active,
    Suspended,
    /// Suspended because its window is over.
    Ended,
    Terminated,
}

impl CardState {
    /// State and reason of suspension as both peers number them.
    pub(crate) const fn numbers(self) -> (u8, u8) {
        match self {
            Self::Unactivated => (0, 0),
            Self::Active => (1, 0),
            Self::Suspended => (2, 1),
            Self::Ended => (2, 3),
            Self::Terminated => (3, 0),
        }
    }
}

/// How often a budget starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interval {
    Never,
    Daily,
    Weekly,
    Monthly,
    Quarterly,
    Yearly,
}

impl Interval {
    /// The number in the record of a card in Redis.
    pub(crate) const fn number(self) -> u8 {
        self as u8
    }

    /// The unit of PostgreSQL's `date_trunc`.
    pub(crate) const fn unit(self) -> Option<&'static str> {
        match self {
            Self::Never => None,
            Self::Daily => Some("day"),
            Self::Weekly => Some("week"),
            Self::Monthly => Some("month"),
            Self::Quarterly => Some("quarter"),
            Self::Yearly => Some("year"),
        }
    }
}

/// A card and its allowance. Units: minor units of the account's currency.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    pub(crate) pan_hash: u64,
    pub(crate) state: CardState,
    /// Units: days since 1970.
    pub(crate) expires_on: i32,
    /// Units: YYMM.
    pub(crate) expiry: u16,
    pub(crate) pin: Option<u64>,
    pub(crate) zip: Option<&'static str>,
    pub(crate) budget: i64,
    pub(crate) daily_limit: Option<i64>,
    pub(crate) transaction_limit: Option<i64>,
    /// Units: microseconds since 1970, as `ends_at`.
    pub(crate) starts_at: Option<i64>,
    pub(crate) ends_at: Option<i64>,
    /// Merchant categories; empty without a restriction.
    pub(crate) scope: Vec<u16>,
    pub(crate) interval: Interval,
    pub(crate) single_use: bool,
}

impl Card {
    /// Card number `card` of the ordinary program.
    pub(crate) fn ordinary(card: u64) -> Self {
        let is_scoped = card.is_multiple_of(SCOPED_EVERY);
        Self {
            pan_hash: pan_hash(card).0,
            state: CardState::Active,
            expires_on: EXPIRES_ON,
            expiry: EXPIRY,
            pin: None,
            zip: Some(ZIP),
            budget: 10_000_000_000_000,
            daily_limit: None,
            transaction_limit: Some(100_000),
            starts_at: None,
            ends_at: None,
            scope: if is_scoped { MERCHANT_CATEGORIES.to_vec() } else { Vec::new() },
            interval: Interval::Monthly,
            single_use: false,
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

/// An endless stream of purchases on random cards of the ordinary program.
#[derive(Debug)]
pub(crate) struct Purchases {
    random: Random,
    draw: CardDraw,
    count: u64,
}

impl Purchases {
    /// A stream over so many cards.
    pub(crate) const fn new(cards: u64, seed: u64) -> Self {
        Self::over(CardDraw::uniform(cards), seed)
    }

    /// A stream over the cards of a draw.
    pub(crate) const fn over(draw: CardDraw, seed: u64) -> Self {
        Self { random: Random::new(seed), draw, count: 0 }
    }

    /// The next purchase.
    pub(crate) fn next_purchase(&mut self) -> Purchase {
        self.count += 1;
        let card = self.draw.next_card(&mut self.random);
        let mark = self.random.next();
        Purchase {
            pan_hash: pan_hash(card).0,
            network_key: u128::from(mark) << 64 | u128::from(self.count),
            amount_minor: i64::try_from(100 + mark % 20_000).unwrap_or(100),
            mcc: MERCHANT_CATEGORIES[usize::from(mark.to_le_bytes()[0]) % 6],
            is_cash: false,
            expiry: Some(EXPIRY),
            cvv_matches: Some(true),
            pin: None,
            zip: Some(ZIP),
            count: self.count,
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
    use cardswitch_benches::program;
    use cardswitch_engine::command::Command;
    use cardswitch_engine::command::network::{CardRef, NetworkCommand};
    use cardswitch_engine::domain::credential::{Comparison, CredentialPresence, ExpiryMonth};
    use cardswitch_engine::domain::ids::Timestamp;

    use super::*;

    /// cardswitch gets the benches' stream, the peers get this one: they must not part.
    #[test]
    fn the_stream_is_that_of_the_benches() {
        for draw in [CardDraw::uniform(10_000), CardDraw::zipf(10_000, 0.99)] {
            let theirs = program::Purchases::over(draw.clone(), 13);
            check_streams(Purchases::over(draw, 13), theirs);
        }
    }

    fn check_streams(mut ours: Purchases, mut theirs: program::Purchases) {
        for _ in 0..1_000 {
            let purchase = ours.next_purchase();
            let Command::Network(request) = theirs.next_command() else { unreachable!() };
            let NetworkCommand::Authorize(authorize) = &request.command else { unreachable!() };
            let facts = &authorize.facts;
            let CardRef::Pan(hash, _) = facts.card else { unreachable!() };
            assert_eq!(hash.0, purchase.pan_hash);
            assert_eq!(facts.amounts.amount.0, purchase.amount_minor);
            assert_eq!(facts.merchant.mcc.map(|mcc| mcc.0), Some(purchase.mcc));
            assert_eq!(request.fingerprint.map(|print| print.key.0), Some(purchase.network_key));
            assert_eq!(facts.trace.stan.to_string(), purchase.stan());
            assert_eq!(facts.trace.rrn.to_string(), purchase.rrn());
            assert_eq!(facts.merchant.name.to_string(), MERCHANT.name);
            let shown = authorize.credentials.expiry;
            assert_eq!(shown.is_some(), purchase.expiry.is_some());
            let mut comparison = Comparison::open(None, Timestamp(0)).expect("nothing locks it");
            let is_same = |month: ExpiryMonth| Some(month.0) == purchase.expiry;
            assert!(!comparison.differs(CredentialPresence::EXPIRY, shown, is_same));
        }
    }

    fn counts(draw: &CardDraw, cards: usize, draws: u32) -> Vec<u32> {
        let (mut random, mut counts) = (Random::new(7), vec![0; cards]);
        for _ in 0..draws {
            counts[usize::try_from(draw.next_card(&mut random)).unwrap()] += 1;
        }
        counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        counts
    }

    /// Of 1,000 cards the first two have 1 and 0.50 of the 7.73 that all weights add up to.
    #[test]
    fn popular_cards_have_their_shares() {
        let skewed = counts(&CardDraw::zipf(1_000, 0.99), 1_000, 1_000_000);
        for (count, share) in skewed.iter().zip([0.1294, 0.0651]) {
            assert!((f64::from(*count) / 1e6 - share).abs() < 0.002, "{count}, not {share}");
        }
        assert!(skewed[999] > 0, "every card is drawn");
        let uniform = counts(&CardDraw::uniform(1_000), 1_000, 1_000_000);
        assert!(uniform[0] < 1_200 && uniform[999] > 800, "{uniform:?}");
        for cards in 1..4 {
            let few = counts(&CardDraw::zipf(cards, 0.5), usize::try_from(cards).unwrap(), 99);
            assert_eq!(few.iter().sum::<u32>(), 99);
        }
    }

    /// So are the cards that an authorization looks at.
    #[test]
    fn the_cards_are_those_of_the_benches() {
        for (record, number) in program::card_records(100).into_iter().zip(0..) {
            let card = Card::ordinary(number);
            assert_eq!(record.pan_hash.0, card.pan_hash);
            assert_eq!(record.expires_on.0, card.expires_on);
            assert_eq!(record.terms.amount.0, card.budget);
            assert_eq!(Some(record.terms.transaction_limit.0), card.transaction_limit);
            assert_eq!(record.terms.scope.codes(), card.scope);
            assert_eq!(record.terms.single_use, card.single_use);
        }
    }
}
