//! A card program: companies with one account each, N cards, and an endless stream of purchases.
//!
//! Everything comes from a seed, so that two runs meet the same cards in the same order. Nearly
//! all purchases are approved: budgets and accounts are far larger than a run can spend.

mod bare_shard;
mod card_book;
mod card_draw;
mod follow_ups;
mod founding;
mod purchases;
mod random;

use cardswitch_engine::decision::{
    Facts, KnownAmounts, Question, RuleSet, VelocityFinding, decide,
};
use cardswitch_engine::domain::account::AccountBalances;
use cardswitch_engine::domain::allowance::{AllowanceTerms, CardUsage, Scope};
use cardswitch_engine::domain::business_date::{BusinessDate, DayWindow, Interval};
use cardswitch_engine::domain::card::{CardRecord, CardState, PanHash};
use cardswitch_engine::domain::credential::{
    Cvv, CvvPair, ExpiryMonth, PackedZip, PinVerifier, PresentedCredentials, PresentedValue,
};
use cardswitch_engine::domain::ids::{AccountSlot, Timestamp};
use cardswitch_engine::domain::merchant::Mcc;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use chrono_tz::Tz;

pub use bare_shard::{BareShard, is_approved};
pub use card_book::CardBook;
pub use card_draw::CardDraw;
pub use follow_ups::{FollowUp, is_done};
pub use founding::{Program, allowance_id, card_id, company_id, founding, new_card};
pub use purchases::{Draw, Draws, Purchases, merchant};
pub use random::{Random, mix};

/// When the program starts: 2026-11-21T12:00:00Z.
pub const START: Timestamp = Timestamp(1_795_262_400_000_000);
/// The local date of `START`.
pub const TODAY: BusinessDate = BusinessDate(20_778);
/// The last day of every card.
pub const EXPIRES_ON: BusinessDate = BusinessDate(25_567);
const US_DOLLAR: CurrencyCode = CurrencyCode(840);
const MERCHANT_CATEGORIES: [u16; 6] = [5812, 5411, 5541, 4121, 5999, 5732];
/// One card in so many is limited to a few merchant categories.
const SCOPED_EVERY: u64 = 4;

/// The keyed hash of card number `card`.
pub const fn pan_hash(card: u64) -> PanHash {
    PanHash(mix(card + 1))
}

/// The hot records alone, as they stand in a shard's array.
pub fn card_records(count: u64) -> Vec<CardRecord> {
    (0..count).map(card_record).collect()
}

/// The hot record of card number `card`.
pub fn card_record(card: u64) -> CardRecord {
    let usage = CardUsage {
        spent: Minor(i64::try_from(mix(card) % 50_000).unwrap_or(0)),
        period: 3,
        period_started_on: TODAY.period_start(Interval::Monthly),
        day: TODAY,
        state: CardState::Active,
        ..CardUsage::default()
    };
    CardRecord {
        pan_hash: pan_hash(card),
        pin: PinVerifier(0),
        zip: PackedZip::pack("94105"),
        account: AccountSlot(0),
        expires_on: EXPIRES_ON,
        usage,
        terms: terms_of(card),
    }
}

fn terms_of(card: u64) -> AllowanceTerms {
    let scope = if card.is_multiple_of(SCOPED_EVERY) {
        Scope::new(&MERCHANT_CATEGORIES).unwrap_or_default()
    } else {
        Scope::default()
    };
    AllowanceTerms {
        transaction_limit: Minor(100_000),
        interval: Interval::Monthly,
        scope,
        ..AllowanceTerms::budget(Minor(Minor::AMOUNT_MAX.0 / 1_000))
    }
}

/// The credentials that every cardholder of the program presents.
pub fn credentials() -> PresentedCredentials {
    let cvv = Cvv::parse(b"123");
    PresentedCredentials {
        expiry: Some(PresentedValue::new(ExpiryMonth::of(EXPIRES_ON))),
        cvv: Some(PresentedValue::new(CvvPair { shown: cvv, own: cvv })),
        pin: None,
        zip: Some(PresentedValue::new(PackedZip::pack("94105"))),
    }
}

/// One ordinary purchase, asked of card after card on one day.
#[derive(Clone, Debug)]
pub struct StandardPurchase {
    credentials: PresentedCredentials,
    day: DayWindow,
}

impl StandardPurchase {
    /// A purchase of 42 dollars at a restaurant, when the program starts.
    pub fn at_start() -> Self {
        Self { credentials: credentials(), day: DayWindow::containing(Tz::UTC, START) }
    }

    /// Decides it on a card, as the shard does: usage rolled to the day first.
    #[inline]
    pub fn decide(&self, card: &CardRecord, balances: &AccountBalances) -> RuleSet {
        let today = self.day.date;
        let facts = Facts {
            card,
            usage: card.usage.rolled_to(self.day.period_start(card.terms.interval), today),
            known: KnownAmounts {
                available_credit: balances.available_credit(Minor::ZERO),
                ..KnownAmounts::default()
            },
            is_company_closed: false,
            is_reversed_before: false,
            velocity: VelocityFinding::default(),
            failures: None,
        };
        let question = Question {
            amount: Minor(4_200),
            added_to: Minor::ZERO,
            mcc: Some(Mcc(5812)),
            is_cash: false,
            credentials: &self.credentials,
            at: START,
            today,
        };
        decide(&facts, &question).failed
    }
}

/// Balances that cover every purchase.
pub fn ample_balances() -> AccountBalances {
    AccountBalances { ledger: Minor(1_000_000_000), ..AccountBalances::default() }
}
