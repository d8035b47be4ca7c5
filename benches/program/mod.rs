//! A card program: one company with one account, N cards, and an endless stream of purchases.
//!
//! Everything comes from a seed, so that two runs meet the same cards in the same order. Nearly
//! all purchases are approved: budgets and the account are far larger than a run can spend.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::{AdminCommand, NewAccount, NewCard, NewCompany};
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::network::{
    AuthorizationKind, Authorize, CardRef, MessageAmounts, NetworkCommand, NetworkRequest,
    PurchaseFacts,
};
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::decision::{Facts, Question, RuleSet, VelocityFinding, decide};
use cardswitch_engine::domain::account::AccountBalances;
use cardswitch_engine::domain::allowance::{AllowanceTerms, CardUsage, Scope};
use cardswitch_engine::domain::business_date::{BusinessDate, Interval};
use cardswitch_engine::domain::card::{CardRecord, CardState, MaskedPan, PanHash, SealedPan};
use cardswitch_engine::domain::company::{Address, VelocityLimits};
use cardswitch_engine::domain::credential::{
    CvvCheck, ExpiryMonth, PackedZip, PinVerifier, PresentedCredentials,
};
use cardswitch_engine::domain::ids::{
    AccountId, AccountSlot, AllowanceId, CardId, CompanyId, RecordSeq, Timestamp,
};
use cardswitch_engine::domain::merchant::{Mcc, Merchant};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, NetworkTrace, OriginalKey, RetrievalKey, TraceKey,
};
use cardswitch_engine::domain::public_id::IdMint;
use cardswitch_engine::shard::{Moment, ShardState, execute};
use uuid::Uuid;

/// When the program starts: 2026-11-21T12:00:00Z.
pub const START: Timestamp = Timestamp(1_795_262_400_000_000);
/// The local date of `START`.
pub const TODAY: BusinessDate = BusinessDate(20_778);
/// The last day of every card.
pub const EXPIRES_ON: BusinessDate = BusinessDate(25_567);
const COMPANY: CompanyId = CompanyId(Uuid::from_u128(0x0c0));
const US_DOLLAR: CurrencyCode = CurrencyCode(840);
const MERCHANT_CATEGORIES: [u16; 6] = [5812, 5411, 5541, 4121, 5999, 5732];
/// One card in so many is limited to a few merchant categories.
const SCOPED_EVERY: u64 = 4;

/// A small seeded generator (splitmix64): enough for a stream of cards, and no dependency.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// The next number below `bound`.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }
}

const fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// The keyed hash of card number `card`.
#[must_use]
pub const fn pan_hash(card: u64) -> PanHash {
    PanHash(mix(card + 1))
}

/// The hot records alone, as they stand in a shard's array.
#[must_use]
pub fn card_records(count: u64) -> Vec<CardRecord> {
    (0..count).map(card_record).collect()
}

fn card_record(card: u64) -> CardRecord {
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

/// What every cardholder of the program proves.
#[must_use]
pub fn credentials() -> PresentedCredentials {
    PresentedCredentials {
        expiry: Some(ExpiryMonth::of(EXPIRES_ON)),
        cvv: Some(CvvCheck::Match),
        pin: None,
        zip: Some(PackedZip::pack("94105")),
    }
}

/// Decides one ordinary purchase on a card, as the shard asks it: usage rolled to today first.
#[must_use]
#[inline]
pub fn decide_purchase(
    card: &CardRecord,
    balances: &AccountBalances,
    credentials: &PresentedCredentials,
) -> RuleSet {
    let facts = Facts {
        card,
        usage: card.usage.rolled(card.terms.interval, TODAY),
        balances,
        credit_limit: Minor::ZERO,
        is_company_closed: false,
        is_reversed_before: false,
        velocity: VelocityFinding::default(),
        failures: None,
    };
    let question = Question {
        amount: Minor(4_200),
        mcc: Some(Mcc(5812)),
        is_cash: false,
        credentials,
        at: START,
        today: TODAY,
    };
    decide(&facts, &question)
}

/// Balances that cover every purchase.
#[must_use]
pub fn ample_balances() -> AccountBalances {
    AccountBalances { ledger: Minor(1_000_000_000), ..AccountBalances::default() }
}

/// The commands that make the program: its company, then its cards under these hashes.
pub fn founding(cards: u64, pan_hash: impl Fn(u64) -> PanHash) -> impl Iterator<Item = Command> {
    let company = AdminCommand::CreateCompany(new_company());
    let cards = (0..cards).map(move |card| AdminCommand::IssueCard(new_card(card, pan_hash(card))));
    std::iter::once(company).chain(cards).map(|command| Command::Admin(Box::new(command)))
}

fn new_company() -> NewCompany {
    NewCompany {
        id: COMPANY,
        name: "Bench and Company".to_owned(),
        website: String::new(),
        zone: chrono_tz::America::Los_Angeles,
        currency: US_DOLLAR,
        network: "Visa".to_owned(),
        velocity: VelocityLimits::default(),
        partial_approval: false,
        billing_address: Address::default(),
        shipping_address: Address::default(),
        account: NewAccount {
            id: AccountId(Uuid::from_u128(0x0acc)),
            name: "Operating".to_owned(),
            number: "000000000001".to_owned(),
            credit_limit: Minor::ZERO,
            funding_source: None,
            opening_balance: Minor::AMOUNT_MAX,
        },
    }
}

fn new_card(card: u64, pan_hash: PanHash) -> NewCard {
    NewCard {
        id: CardId(Uuid::from_u128(1 << 64 | u128::from(card))),
        allowance_id: AllowanceId(Uuid::from_u128(2 << 64 | u128::from(card))),
        company: COMPANY,
        pan_hash,
        sealed_pan: SealedPan(vec![0; 56]),
        last_four: *b"1111",
        pin: PinVerifier(0),
        zip: PackedZip::pack("94105"),
        expires_on: EXPIRES_ON,
        terms: terms_of(card),
        state: CardState::Active,
        is_virtual: true,
        description: "Travel".to_owned(),
        billing_name: "A CARDHOLDER".to_owned(),
        billing_address: None,
        shipping_address: None,
        assigned_to: None,
        dimensions: [None; 4],
    }
}

/// An endless stream of authorizations on random cards of the program.
#[derive(Clone, Debug)]
pub struct Purchases {
    random: Random,
    cards: u64,
    count: u64,
}

impl Purchases {
    /// A stream over so many cards.
    #[must_use]
    pub const fn new(cards: u64, seed: u64) -> Self {
        Self { random: Random::new(seed), cards, count: 0 }
    }

    /// The next purchase, with everything that a network message carries.
    pub fn next_command(&mut self) -> Command {
        self.count += 1;
        let card = self.random.below(self.cards);
        let mark = self.random.next();
        let amount = Minor(i64::try_from(100 + mark % 20_000).unwrap_or(100));
        let fingerprint = Fingerprint {
            key: DuplicateKey(u128::from(mark) << 64 | u128::from(self.count)),
            trace: Some(TraceKey(u128::from(mark))),
            content: mix(card ^ mark),
            window: DuplicateWindow::Day,
        };
        let mcc = MERCHANT_CATEGORIES[usize::from(mark.to_le_bytes()[0]) % 6];
        let authorize = Authorize {
            facts: PurchaseFacts {
                card: CardRef::Pan(pan_hash(card), MaskedPan::default()),
                amounts: MessageAmounts { amount, currency: Some(US_DOLLAR), billing: None },
                merchant: merchant(mcc),
                trace: trace(mark, self.count),
            },
            kind: AuthorizationKind::Purchase,
            credentials: credentials(),
        };
        Command::Network(Box::new(NetworkRequest {
            command: NetworkCommand::Authorize(authorize),
            fingerprint: Some(fingerprint),
        }))
    }
}

fn merchant(mcc: u16) -> Merchant {
    Merchant {
        mid: 445_566,
        mcc: Some(Mcc(mcc)),
        card_acceptor_id: "000000000445566".into(),
        name: "Blue Bottle Coffee".into(),
        city: "San Francisco".into(),
        state: "CA".into(),
        country: "US".into(),
        zip: "94103".into(),
    }
}

fn trace(mark: u64, count: u64) -> NetworkTrace {
    NetworkTrace {
        stan: format!("{:06}", count % 1_000_000).into(),
        rrn: format!("{:012}", count).into(),
        acquirer: "123456".into(),
        terminal: "TERM0001".into(),
        transmission_time: "1121120000".into(),
        original_key: Some(OriginalKey(mark)),
        retrieval_key: Some(RetrievalKey(mix(mark))),
    }
}

/// A shard that holds the program, without a journal: `execute` and `apply`, one after the other.
#[derive(Clone, Debug)]
pub struct BareShard {
    /// The hot state.
    pub state: ShardState,
    ids: IdMint,
    at: Timestamp,
    effects: Vec<Effect>,
}

impl BareShard {
    /// A shard with so many cards.
    #[must_use]
    pub fn with_cards(cards: u64) -> Self {
        let mut shard = Self {
            state: ShardState::default(),
            ids: IdMint::new([7; 16], 0),
            at: START,
            effects: Vec::new(),
        };
        for command in founding(cards, pan_hash) {
            let reply = shard.take(&command);
            assert!(matches!(reply, Reply::Done(_)), "the program is founded: {reply:?}");
        }
        shard
    }

    /// Executes one command and applies what it changes.
    pub fn take(&mut self, command: &Command) -> Reply {
        self.take_and_encode(command, |_, _, _| {})
    }

    /// As `take`; `encode` sees sequence, time and effects before they are applied.
    pub fn take_and_encode(
        &mut self,
        command: &Command,
        encode: impl FnOnce(RecordSeq, Timestamp, &[Effect]),
    ) -> Reply {
        self.at = self.at.plus(1);
        self.effects.clear();
        let moment = Moment { at: self.at, ids: &self.ids };
        let reply = execute(&self.state, &moment, command, &mut self.effects);
        if !self.effects.is_empty() {
            let seq = self.state.last_seq().next();
            encode(seq, self.at, &self.effects);
            self.state.apply_record(seq, self.at, &self.effects);
        }
        reply
    }
}
