//! A slow and obvious model of a card program, to compare the shard with.
//!
//! Sums are not stored: the spending of a card is the sum over all its purchases, a balance is the sum of its
//! statement lines. Periods are found by walking the calendar day by day. It shares the words of the engine
//! (commands, replies), not its ways.

mod admin;
mod looks;
mod lookups;
mod members;
mod network;
mod parts;
mod people;
mod sums;
mod tickets;
mod tokens;
mod transfers;

use std::collections::BTreeSet;

use self::parts::{HeldPart, take_last, total};
use cardswitch_engine::command::Command;
use cardswitch_engine::command::keyed_command::KeyedCommand;
use cardswitch_engine::command::network::{PresentmentNumber, ReversalAmount};
use cardswitch_engine::command::reply::{NetworkReply, Rejection, Reply};
use cardswitch_engine::decision::RuleSet;
use cardswitch_engine::directory::exchanged_key::NewExchangedKey;
use cardswitch_engine::directory::member::{MemberRole, MemberState};
use cardswitch_engine::directory::requisition::RequisitionStatus;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::business_date::Interval;
use cardswitch_engine::domain::card::{CardState, PanHash, SuspensionReason};
use cardswitch_engine::domain::company::VelocityLimits;
use cardswitch_engine::domain::hold_table::HoldTable;
use cardswitch_engine::domain::ids::{
    AccountId, AllowanceId, CardId, CompanyId, MemberId, RecordSeq, RequisitionId, Timestamp,
    TransactionId, TransactionSeq, WebhookEndpointId,
};
use cardswitch_engine::domain::keyed_answer::KeyedContent;
use cardswitch_engine::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{
    Fingerprint, MessageClass, OriginalKey, RetrievalKey,
};
use cardswitch_engine::domain::pan_key::PanGeneration;
use cardswitch_engine::domain::public_id::IdMint;
use cardswitch_engine::domain::response_code::ResponseCode;
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::domain::transaction::{TransactionFlags, TransactionKind, TransactionState};
use cardswitch_engine::shard::ShardState;
use chrono::{DateTime, Datelike, NaiveDate, Weekday};
use chrono_tz::Tz;

pub const DAY: i64 = 24 * HOUR;
pub const HOUR: i64 = 3_600_000_000;
pub const MINUTE: i64 = 60_000_000;

#[derive(Clone)]
pub struct Company {
    pub id: CompanyId,
    account_id: AccountId,
    pub zone: Tz,
    pub currency: u16,
    pub credit_limit: i64,
    pub is_closed: bool,
    /// Whether it is closed rather than not approved yet.
    is_shut: bool,
    velocity: VelocityLimits,
    zip: String,
    allows_partial: bool,
    hold_table: HoldTable,
    pub lines: Vec<Line>,
}

/// A statement line.
#[derive(Clone)]
pub struct Line {
    pub amount: i64,
    /// The further content of a line of a card; the model has none for transfers.
    pub of_card: Option<LineOfCard>,
}

#[derive(Clone)]
pub struct LineOfCard {
    pub seq: u64,
    pub card: usize,
    /// A member, by number.
    pub member: Option<usize>,
    pub description: String,
}

#[derive(Clone, PartialEq)]
struct Member {
    id: MemberId,
    company: usize,
    email: String,
    code: Option<String>,
    role: MemberRole,
    state: MemberState,
    external_id: Option<LineText>,
    name: String,
}

#[derive(Clone, PartialEq)]
pub struct Requisition {
    pub id: RequisitionId,
    pub company: usize,
    member: usize,
    description: String,
    amount: i64,
    end_time: Option<i64>,
    pub status: RequisitionStatus,
}

#[derive(Clone)]
pub struct Card {
    pub id: CardId,
    pub allowance_id: AllowanceId,
    pub pan: PanHash,
    pub company: usize,
    pub expires_on: NaiveDate,
    pub pin: u64,
    pub zip: u64,
    /// The ZIP of an address of its own.
    own_zip: Option<LineText>,
    pub is_virtual: bool,
    description: String,
    /// A member, by number.
    holder: Option<usize>,
    pub state: CardState,
    pub reason: SuspensionReason,
    pub wrong_pins: u8,
    /// When the first wrong credential of the running hour was seen, and how many there were.
    wrong_credentials: Option<(i64, u64)>,
    attempts: Vec<i64>,
    pub terms: AllowanceTerms,
    /// The period, by number, and the day from which its next boundary is looked for.
    period: u64,
    anchor: NaiveDate,
    today: NaiveDate,
}

#[derive(Clone)]
pub struct Purchase {
    pub seq: u64,
    pub at: i64,
    pub card: usize,
    /// The holder of the card then.
    pub member: Option<usize>,
    merchant: String,
    pub kind: TransactionKind,
    pub state: TransactionState,
    held: Vec<HeldPart>,
    cleared: Vec<HeldPart>,
    /// Of a refund: the parts of its purchase that it gave back.
    given_back: Vec<HeldPart>,
    pub requested: i64,
    pub foreign: Option<CurrencyAmount>,
    /// The rate of what is held.
    hold_rate: Option<Rate>,
    pub posted: i64,
    pub refunded: i64,
    presented: Vec<PresentmentNumber>,
    /// The messages that changed it and that a reversal may name.
    later: Vec<LaterMessage>,
    is_final: bool,
    /// Whether a presentment made it.
    is_posted_only: bool,
    expires_at: i64,
    pub flags: TransactionFlags,
    pub original_key: Option<OriginalKey>,
    pub retrieval_key: Option<RetrievalKey>,
    mcc: Option<u16>,
    refund_of: Option<usize>,
}

/// A message that changed a purchase, with what is left of its amount.
#[derive(Clone)]
struct LaterMessage {
    key: Option<OriginalKey>,
    is_posting: bool,
    amount: i64,
    left: i64,
    /// The parts of what is left; none of a completion, which is about the whole purchase.
    parts: Vec<HeldPart>,
    rate: Option<Rate>,
}

impl LaterMessage {
    /// Gives so much back, the newest parts first. Returns them.
    fn give_back(&mut self, amount: i64) -> Vec<HeldPart> {
        self.left -= amount;
        let amount = amount.min(total(&self.parts));
        take_last(&mut self.parts, amount)
    }

    fn class(&self) -> MessageClass {
        if self.is_posting { MessageClass::Financial } else { MessageClass::Authorization }
    }
}

/// What a message asked in another currency, and what that came to.
#[derive(Clone, Copy)]
struct Rate {
    currency: CurrencyCode,
    asked: i64,
    billed: i64,
}

impl Rate {
    /// The rate of a message; nothing of another currency has none.
    fn of(asked: Option<CurrencyAmount>, billed: i64) -> Option<Self> {
        let CurrencyAmount { amount: Minor(asked), currency } = asked?;
        (asked > 0).then_some(Self { currency, asked, billed })
    }
}

/// A purchase that was declined, with a card that a member held.
#[derive(Clone)]
pub struct Decline {
    pub seq: u64,
    pub at: i64,
    pub card: usize,
    /// The holder of the card then.
    pub member: usize,
    pub code: ResponseCode,
}

/// Money from the bank, or to it: below zero.
#[derive(Clone)]
pub struct Transfer {
    pub seq: u64,
    at: i64,
    company: usize,
    pub amount: i64,
    pub state: TransactionState,
}

/// The outcome of an increment.
#[derive(Clone, Debug, PartialEq)]
pub struct IncrementOutcome {
    pub seq: u64,
    pub at: i64,
    pub amount: i64,
    pub added_to: i64,
    pub failed: RuleSet,
}

#[derive(Clone)]
struct Answer {
    fingerprint: Fingerprint,
    expires_at: i64,
    reply: NetworkReply,
}

#[derive(Clone)]
struct UnmatchedReversal {
    card: Option<usize>,
    original_key: Option<OriginalKey>,
    class: Option<MessageClass>,
    retrieval_key: Option<RetrievalKey>,
    asked: ReversalAmount,
    expires_at: i64,
}

#[derive(Clone)]
struct UsedKey {
    key: [u8; 32],
    request: [u8; 32],
    expires_at: i64,
    is_answered: bool,
}

#[derive(Clone)]
pub struct Model {
    pub ids: IdMint,
    pub companies: Vec<Company>,
    members: Vec<Member>,
    pub requisitions: Vec<Requisition>,
    pub cards: Vec<Card>,
    /// Every purchase that was not declined.
    pub purchases: Vec<Purchase>,
    /// Every purchase that was declined to a member, in order.
    pub declines: Vec<Decline>,
    /// The retrieval references of purchases that were declined, in order.
    pub declined_references: Vec<RetrievalKey>,
    /// Every transfer but the opening balances.
    pub transfers: Vec<Transfer>,
    /// Every increment of a purchase that was judged.
    pub increments: Vec<IncrementOutcome>,
    pub last_seq: u64,
    /// The keys of zones that were exchanged, in order.
    pub exchanged_keys: Vec<NewExchangedKey>,
    answers: Vec<Answer>,
    early: Vec<UnmatchedReversal>,
    /// Idempotency keys that have not expired.
    keys: Vec<UsedKey>,
    pub users: Vec<people::Person>,
    /// The tickets that are remembered, and some that the switch has forgotten.
    pub tickets: Vec<tickets::Ticket>,
    apps: Vec<tokens::App>,
    pub tokens: Vec<tokens::Token>,
    webhook_endpoints: Vec<WebhookEndpointId>,
    pub pan_generation: PanGeneration,
    /// The holds that have not ended in time.
    pub late_holds: LateHolds,
    looks: looks::Looks,
}

/// The holds that do not end in time, since a switch cannot read its tables.
#[derive(Clone, Debug)]
pub struct LateHolds {
    /// Those that end later than this.
    known_until: i64,
    /// Those of these purchases.
    put_off: BTreeSet<u64>,
}

impl LateHolds {
    pub fn of(state: &ShardState) -> Self {
        let (known_until, last) = (state.timers_known_until().0, state.last_at().0);
        // A start does not know whether more holds end at the instant of its newest record. That of the record did.
        let known_until = if known_until + 1 == last { last } else { known_until };
        Self { known_until, put_off: state.holds_put_off().map(|seq| seq.0).collect() }
    }

    pub const fn none() -> Self {
        Self { known_until: i64::MAX, put_off: BTreeSet::new() }
    }

    fn has(&self, purchase: &Purchase) -> bool {
        purchase.expires_at > self.known_until || self.put_off.contains(&purchase.seq)
    }
}

fn is_first_day(interval: Interval, day: NaiveDate) -> bool {
    match interval {
        Interval::None => false,
        Interval::Daily => true,
        Interval::Weekly => day.weekday() == Weekday::Mon,
        Interval::Monthly => day.day() == 1,
        Interval::Quarterly => day.day() == 1 && [1, 4, 7, 10].contains(&day.month()),
        Interval::Yearly => day.day() == 1 && day.month() == 1,
    }
}

pub fn date_in(zone: Tz, at: i64) -> NaiveDate {
    DateTime::from_timestamp_micros(at).unwrap().with_timezone(&zone).date_naive()
}

impl Purchase {
    pub fn held(&self) -> i64 {
        total(&self.held)
    }

    /// Whether a hold of it ends by `at`.
    fn is_due(&self, at: i64) -> bool {
        !self.held.is_empty() && self.expires_at <= at
    }

    fn is_at_once(&self) -> bool {
        self.kind == TransactionKind::SingleMessagePurchase || self.is_posted_only
    }

    /// Closes a purchase whose holds are all gone.
    fn close_if_nothing_is_held(&mut self) {
        if self.held.is_empty() {
            self.expires_at = i64::MAX;
            if self.posted == 0 {
                self.state = TransactionState::Canceled;
            }
        }
    }
}

impl Model {
    pub fn new(ids: IdMint) -> Self {
        Self {
            ids,
            companies: Vec::new(),
            members: Vec::new(),
            requisitions: Vec::new(),
            cards: Vec::new(),
            purchases: Vec::new(),
            declines: Vec::new(),
            declined_references: Vec::new(),
            transfers: Vec::new(),
            increments: Vec::new(),
            last_seq: 0,
            exchanged_keys: Vec::new(),
            answers: Vec::new(),
            early: Vec::new(),
            keys: Vec::new(),
            users: Vec::new(),
            tickets: Vec::new(),
            apps: Vec::new(),
            tokens: Vec::new(),
            webhook_endpoints: Vec::new(),
            pan_generation: PanGeneration::default(),
            late_holds: LateHolds::none(),
            looks: looks::Looks::default(),
        }
    }

    /// The reply to a command that made no record: nothing is forgotten by its time, and no page turned, behind which
    /// a crash can take the clock back.
    pub fn expect_without_record(&mut self, at: i64, command: &Command) -> Reply {
        let remembered = (self.answers.clone(), self.early.clone(), self.keys.clone());
        let pages = self.cards.iter().map(|card| (card.period, card.anchor, card.today));
        let pages: Vec<_> = pages.collect();
        let reply = self.expect(at, command);
        (self.answers, self.early, self.keys) = remembered;
        for (card, page) in self.cards.iter_mut().zip(pages) {
            (card.period, card.anchor, card.today) = page;
        }
        reply
    }

    /// The reply that the shard has to give. Record numbers are not modelled: `Done` carries zero.
    pub fn expect(&mut self, at: i64, command: &Command) -> Reply {
        self.pass_time(at);
        match command {
            Command::Network(request) => Reply::Network(self.network(at, request)),
            Command::Admin(command) => match self.admin(at, command) {
                Ok(()) => Reply::Done(RecordSeq(0)),
                Err(rejection) => Reply::Rejected(rejection),
            },
            Command::Noted(command) => match self.admin(at, &command.change) {
                Ok(()) => Reply::Done(RecordSeq(0)),
                Err(rejection) => Reply::Rejected(rejection),
            },
            Command::Keyed(command) => match self.keyed(at, command) {
                Ok(()) => Reply::Done(RecordSeq(0)),
                Err(rejection) => Reply::Rejected(rejection),
            },
            Command::Tick => Reply::Ticked,
        }
    }

    /// A key is used once; the request that used it may add the answer, once.
    fn keyed(&mut self, at: i64, command: &KeyedCommand) -> Result<(), Rejection> {
        let claim = &command.claim;
        let is_answered = matches!(claim.content, KeyedContent::Body(_));
        if let Some(known) = self.keys.iter_mut().find(|known| known.key == claim.key) {
            let is_open = !known.is_answered && known.request == claim.request;
            if command.change.is_some() || !is_open {
                return Err(Rejection::KeyTaken);
            }
            known.is_answered = is_answered;
            return Ok(());
        }
        if let Some(change) = &command.change {
            self.admin(at, change)?;
        }
        let (key, request, expires_at) = (claim.key, claim.request, at + DAY);
        self.keys.push(UsedKey { key, request, expires_at, is_answered });
        Ok(())
    }

    /// Lets time pass up to that of a record, which ends remembered answers and keys, too.
    pub fn pass_time(&mut self, at: i64) {
        self.run_timers(at);
        self.answers.retain(|answer| answer.expires_at > at);
        self.early.retain(|early| early.expires_at > at);
        self.keys.retain(|key| key.expires_at > at);
    }

    /// Ends allowances and holds whose time has come.
    pub fn run_timers(&mut self, at: i64) {
        for card in &mut self.cards {
            if card.state == CardState::Active && at > card.terms.ends_at.0 {
                (card.state, card.reason) = (CardState::Suspended, SuspensionReason::EndTime);
            }
        }
        for purchase in &mut self.purchases {
            if purchase.is_due(at) && !self.late_holds.has(purchase) {
                purchase.held.clear();
                purchase.flags.insert(TransactionFlags::HOLD_EXPIRED);
                purchase.close_if_nothing_is_held();
            }
        }
    }

    pub fn is_a_hold_late(&self, at: i64) -> bool {
        self.purchases.iter().any(|purchase| purchase.is_due(at) && self.late_holds.has(purchase))
    }

    /// Opens a card's book on the local day of `at`.
    pub fn turn_pages(&mut self, card: usize, at: i64) {
        let zone = self.companies[self.cards[card].company].zone;
        let card = &mut self.cards[card];
        let (today, interval) = (date_in(zone, at), card.terms.interval);
        let mut days = card.anchor.iter_days().skip(1).take_while(|day| *day <= today);
        if days.any(|day| is_first_day(interval, day)) {
            card.period += 1;
            card.anchor = today;
        }
        card.today = card.today.max(today);
    }

    pub fn transfer_id(&self, transfer: usize) -> TransactionId {
        let Transfer { seq, at, .. } = self.transfers[transfer];
        self.ids.transaction_id(Timestamp(at), TransactionSeq(seq))
    }

    /// Writes a line in the name of a purchase, and of its member.
    fn write_line(&mut self, purchase: usize, amount: i64, merchant: &str) {
        let Purchase { seq, card, member, .. } = self.purchases[purchase];
        let mut said = vec![merchant.to_owned(), self.cards[card].description.clone()];
        said.extend(member.map(|member| self.members[member].name.clone()));
        said.retain(|part| !part.is_empty());
        let description = said.join(" - ");
        let of_card = Some(LineOfCard { seq, card, member, description });
        self.companies[self.cards[card].company].lines.push(Line { amount, of_card });
    }
}
