//! Makes journals of a small card program from a seed: every kind of effect occurs, ids and
//! sequences are as a shard would give them, and the money adds up.

mod organization;
mod rows;

use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::drawing::draw;
use super::model::Rows;
use crate::command::NewTransaction;
use crate::command::effect::{
    EarlyReversal, Effect, IssuedCard, NetworkLogEntry, NetworkMessageKind, RememberedAnswer,
};
use crate::command::network::ReversalAmount;
use crate::command::record::Record;
use crate::command::reply::NetworkReply;
use crate::decision::RuleSet;
use crate::domain::account::AccountBalances;
use crate::domain::allowance::{AllowanceTerms, CardUsage};
use crate::domain::business_date::BusinessDate;
use crate::domain::card::{
    CardProfile, CardRecord, CardState, CardTexts, Dimensions, MaskedPan, PanHash, SealedPan,
};
use crate::domain::company::{Address, SingleSignOn};
use crate::domain::credential::{CredentialFailures, PackedZip, PinVerifier};
use crate::domain::ids::*;
use crate::domain::keyed_answer::{KeyedAnswer, KeyedContent};
use crate::domain::later_message::{LaterMessage, LaterMessageKind};
use crate::domain::money::{Conversion, CurrencyAmount, CurrencyCode, Minor};
use crate::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, NetworkTrace, OriginalKey,
};
use crate::domain::posting::{Book, Posting, StatementLine};
use crate::domain::response_code::{ResponseCode, SubReason};
use crate::domain::transaction::*;
use crate::domain::transaction_tags::TagChanges;
use crate::journal::testing::next_random;
use crate::packed::RowAnswer;

pub(super) const COMPANIES: u32 = 2;
pub(super) const EMAILS: [&str; 4] = ["ann@a.test", "Ann@a.test", "bob@a.test", "Éva@a.test"];
pub(super) const DESCRIPTIONS: [&str; 4] = ["Travel", "team travel", "Büro", ""];

/// A company's dimension of a kind, by its number among them; there may not be such a one yet, or
/// not any more.
pub(super) fn dimension(company: CompanySlot, kind: u32, number: u32) -> DimensionId {
    dimension_at(number * 8 + kind * 2 + company.0)
}

fn dimension_at(slot: u32) -> DimensionId {
    DimensionId(id(7, slot))
}

/// The id of kind `kind` at a slot.
pub(super) fn id(kind: u128, slot: u32) -> Uuid {
    Uuid::from_u128(kind << 64 | u128::from(slot))
}

/// Keys of answers that stand for a day, ten minutes, an hour.
const DAY_KEYS: u128 = 0;
const REPEAT_KEYS: u128 = 100;
const HOUR_KEYS: u128 = 200;

/// The program as its journal stands.
pub(super) struct World {
    random: u64,
    at: Timestamp,
    day: BusinessDate,
    records: Vec<Record>,
    balances: Vec<AccountBalances>,
    rows: Rows,
    cards: Vec<(CardProfile, CardUsage)>,
    transactions: Vec<(TransactionRecord, TransactionProgress)>,
    lines: u64,
    /// The last instant at which keys of answers were drawn, and how many before the last one.
    keys_drawn: (Timestamp, u128),
}

/// A journal of about `len` records.
pub(super) fn journal(seed: u64, len: usize) -> Vec<Record> {
    let mut world = World {
        random: seed,
        at: Timestamp(1_772_000_000_000_000),
        day: BusinessDate(20_500),
        records: Vec::new(),
        balances: Vec::new(),
        rows: Rows::default(),
        cards: Vec::new(),
        transactions: Vec::new(),
        lines: 0,
        keys_drawn: (Timestamp(0), 0),
    };
    for company in 0..COMPANIES {
        world.make_company(CompanySlot(company));
    }
    while world.records.len() < len {
        world.step();
    }
    world.records
}

impl World {
    fn below(&mut self, bound: u64) -> u64 {
        next_random(&mut self.random) % bound
    }

    fn pick(&mut self, len: usize) -> Option<usize> {
        let len = u64::try_from(len).unwrap();
        (len > 0).then(|| usize::try_from(self.below(len)).unwrap())
    }

    fn draw<T: DeserializeOwned>(&mut self) -> T {
        draw(&mut self.random, self.at)
    }

    fn amount(&mut self) -> Minor {
        Minor(i64::try_from(self.below(10_000) + 1).unwrap())
    }

    fn dimensions(&mut self, company: CompanySlot) -> Dimensions {
        [0, 1, 2, 3].map(|kind| {
            let number = u32::try_from(self.below(6)).unwrap();
            (number < 3).then(|| dimension(company, kind, number))
        })
    }

    fn record(&mut self, effects: Vec<Effect>) {
        let seq = RecordSeq(self.records.len() as u64 + 1);
        self.rows.forget(self.at);
        self.records.push(Record { seq, at: self.at, effects });
        // Some records share their instant, as a timer's do with the record before it.
        let step = [0, 1, 60, 3_600, 40_000][usize::try_from(self.below(5)).unwrap()];
        self.at = self.at.plus(step * Timestamp::SECOND);
        self.day = BusinessDate(i32::try_from(self.at.0 / Timestamp::DAY).unwrap());
    }

    fn step(&mut self) {
        match self.below(30) {
            0..3 => self.make_card(),
            3 => self.change_card(),
            4 => self.change_card_parts(),
            5..10 => self.authorize(),
            10 => self.decline(),
            11..14 => self.clear(),
            14 => self.release(),
            15 => self.remember(),
            16 => self.change_organization(),
            17 => self.tag(),
            18 => self.keep_answer(),
            19 => self.note_event(),
            20..29 => self.change_row(),
            _ => self.log(),
        }
    }

    fn make_card(&mut self) {
        let slot = CardSlot(u32::try_from(self.cards.len()).unwrap());
        let company = CompanySlot(u32::try_from(self.below(u64::from(COMPANIES))).unwrap());
        let profile = CardProfile {
            slot,
            id: CardId(id(4, slot.0)),
            allowance_id: AllowanceId(id(5, slot.0)),
            company,
            texts: CardTexts {
                description: DESCRIPTIONS[usize::try_from(self.below(4)).unwrap()].into(),
                ..CardTexts::from_fn(|_| "A CARD".into())
            },
            is_virtual: true,
            last_four: if slot.0.is_multiple_of(3) { *b"0007" } else { *b"4242" },
            assigned_to: self.member_of(company),
            dimensions: self.dimensions(company),
            shipping_address: Some(Address::default()),
            created_at: self.at,
            ..CardProfile::default()
        };
        let state = if self.below(2) == 0 { CardState::Active } else { CardState::Unactivated };
        let usage = CardUsage { state, day: self.day, ..CardUsage::default() };
        let record = CardRecord {
            pan_hash: PanHash(u64::from(slot.0) * 7_919),
            pin: PinVerifier(1),
            zip: PackedZip(2),
            account: AccountSlot(company.0),
            expires_on: BusinessDate(30_000),
            usage,
            terms: AllowanceTerms::budget(Minor(1_000_000)),
        };
        self.cards.push((profile.clone(), usage));
        let sealed_pan = SealedPan(vec![u8::try_from(slot.0 % 251).unwrap(); 40]);
        self.record(vec![Effect::CardIssued(Box::new(IssuedCard { profile, record, sealed_pan }))]);
    }

    fn change_card(&mut self) {
        let Some(place) = self.pick(self.cards.len()) else { return };
        let company = self.cards[place].0.company;
        let (assigned_to, dimensions) = (self.member_of(company), self.dimensions(company));
        let profile = &mut self.cards[place].0;
        (profile.assigned_to, profile.dimensions) = (assigned_to, dimensions);
        profile.texts.description = "renamed travel".into();
        let profile = profile.clone();
        self.record(vec![Effect::CardProfile(Box::new(profile))]);
    }

    fn change_card_parts(&mut self) {
        let Some(place) = self.pick(self.cards.len()) else { return };
        let value = self.below(100);
        let (at, day) = (self.at, self.day);
        let (profile, usage) = &mut self.cards[place];
        let slot = profile.slot;
        usage.state = CardState::Suspended;
        if value < 30 {
            usage.start_period(day);
        }
        let usage = *usage;
        let amount = Minor(i64::try_from(value).unwrap());
        self.record(vec![
            Effect::CardPin(slot, PinVerifier(value + 1)),
            Effect::CardZip(slot, PackedZip(value)),
            Effect::CardNumber(slot, SealedPan(vec![u8::try_from(value).unwrap(); 45])),
            Effect::AllowanceTerms(slot, Box::new(AllowanceTerms::budget(amount))),
            Effect::CardUsage(slot, usage),
            Effect::CardAttempts(slot, vec![at; usize::try_from(value % 4).unwrap()]),
            Effect::CredentialFailures(slot, CredentialFailures { since: at, count: 1 }),
        ]);
    }

    fn new_record(
        &mut self,
        company: CompanySlot,
        kind: TransactionKind,
        card: Option<usize>,
        requested: Minor,
    ) -> TransactionRecord {
        let seq = TransactionSeq(self.transactions.len() as u64 + 1);
        let profile = card.map(|card| self.cards[card].0.clone());
        let euros = CurrencyAmount { amount: requested, currency: CurrencyCode(978) };
        TransactionRecord {
            seq,
            id: TransactionId(Uuid::from_u128(u128::from(seq.0))),
            kind,
            company,
            account: AccountSlot(company.0),
            card: profile.as_ref().map(|profile| profile.slot),
            member: profile.as_ref().and_then(|profile| profile.assigned_to),
            requested,
            foreign: (card.is_some() && seq.0.is_multiple_of(3)).then_some(euros),
            merchant: None,
            bank_account: None,
            trace: NetworkTrace::default(),
            response_code: ResponseCode::Approved,
            sub_reason: SubReason::None,
            failed_rules: RuleSet::default(),
            facts: None,
            refund_of: None,
            authorized_at: self.at,
            dimensions: profile.map_or([None; 4], |profile| profile.dimensions),
        }
    }

    fn authorize(&mut self) {
        let Some(card) = self.pick(self.cards.len()) else { return };
        let (company, amount) = (self.cards[card].0.company, self.amount());
        // Now and then a part of what was asked for.
        let beyond = if self.below(8) == 0 { self.amount() } else { Minor::ZERO };
        let requested = amount + beyond;
        let record = self.new_record(company, TransactionKind::Purchase, Some(card), requested);
        let mut progress = TransactionProgress::empty(TransactionState::Pending);
        if !beyond.is_zero() {
            progress.flags.insert(TransactionFlags::PARTIALLY_APPROVED);
        }
        let usage = &mut self.cards[card].1;
        *usage = usage.rolled(crate::domain::business_date::Interval::None, self.day);
        usage.take(amount);
        progress.held.push(amount, usage);
        let usage = *usage;
        let account = record.account;
        self.balances[account.index()].held += amount;
        self.transactions.push((record.clone(), progress.clone()));
        let balances = self.balances[account.index()];
        let (given, other) = (self.row_answer(), self.answer(24));
        let mut made = NewTransaction {
            usage: Some(usage),
            balances: Some(balances),
            ..NewTransaction::of(record, progress)
        };
        // With an answer that the row says, one that it does not say, or none; and with images beside it.
        let beside = match self.below(4) {
            0 => {
                made.answer = Some(given);
                vec![]
            }
            1 => vec![other],
            2 => vec![],
            _ => {
                (made.usage, made.balances) = (None, None);
                let usage = Effect::CardUsage(self.cards[card].0.slot, usage);
                vec![usage, Effect::AccountBalances(account, balances), other]
            }
        };
        self.record([vec![Effect::Transaction(Box::new(made))], beside].concat());
    }

    /// An answer that follows from a transaction's row; it renews a key of the few.
    fn row_answer(&mut self) -> RowAnswer {
        let (window, keys) = match self.below(2) {
            0 => (DuplicateWindow::Day, DAY_KEYS),
            _ => (DuplicateWindow::RepeatsOnly { is_repeat: false }, REPEAT_KEYS),
        };
        let key = self.renewed_key(keys);
        let fingerprint = Fingerprint { key, trace: None, content: self.below(1_000), window };
        let balance = self.amount();
        RowAnswer {
            fingerprint,
            shares_trace: false,
            allowance_balance: balance,
            currency: CurrencyCode(840),
        }
    }

    fn decline(&mut self) {
        let Some(card) = self.pick(self.cards.len()) else { return };
        let (company, amount) = (self.cards[card].0.company, self.amount());
        let (kind, state) = match self.below(4) {
            0 => (TransactionKind::Verification, TransactionState::Canceled),
            1 => (TransactionKind::Verification, TransactionState::Declined),
            _ => (TransactionKind::Purchase, TransactionState::Declined),
        };
        let record = self.new_record(company, kind, Some(card), amount);
        let progress = TransactionProgress::empty(state);
        self.transactions.push((record.clone(), progress.clone()));
        self.record(vec![Effect::Transaction(Box::new(NewTransaction::of(record, progress)))]);
    }

    fn open_purchase(&mut self) -> Option<(usize, usize)> {
        let place = self.pick(self.transactions.len())?;
        let (record, progress) = &self.transactions[place];
        let card = record.card.filter(|_| !progress.held.is_empty())?;
        Some((place, card.index()))
    }

    fn clear(&mut self) {
        let Some((place, card)) = self.open_purchase() else { return };
        let (record, progress) = &mut self.transactions[place];
        let amount = progress.held.total();
        let (cleared, usage) = (&mut progress.cleared, &self.cards[card].1);
        progress.held.take_oldest(amount, |piece| cleared.add(piece, usage));
        let (kind, key) =
            (LaterMessageKind::Presentment(None), OriginalKey(amount.0.unsigned_abs()));
        let conversion = Conversion::of(record.foreign, amount);
        progress.later.add(LaterMessage::new(kind, Some(key), amount, conversion));
        progress.posted += amount;
        progress.state = TransactionState::Completed;
        progress.posted_at.get_or_insert(self.at);
        let (record, progress) = (record.clone(), progress.clone());
        let balances = &mut self.balances[record.account.index()];
        balances.held -= amount;
        balances.ledger -= amount;
        balances.line_count += 1;
        let balances = *balances;
        let line = self.line(record.account, balances.line_count, -amount, &record);
        let (account, transaction) = (record.account, record.seq);
        self.record(vec![
            Effect::TransactionProgress(transaction, Box::new(progress)),
            Effect::Posting(Posting {
                account,
                transaction,
                from: Book::Holds,
                to: Book::NetworkSettlement,
                amount,
            }),
            line,
            Effect::CardUsage(self.cards[card].0.slot, self.cards[card].1),
            Effect::AccountBalances(account, balances),
        ]);
    }

    fn release(&mut self) {
        let Some((place, card)) = self.open_purchase() else { return };
        let (profile, usage) = &mut self.cards[card];
        let slot = profile.slot;
        let (record, progress) = &mut self.transactions[place];
        let amount = progress.held.total();
        progress.held.take_newest(amount, |piece| {
            usage.give_back(piece.amount, piece.period, piece.day);
        });
        progress.state = TransactionState::Canceled;
        let (account, transaction) = (record.account, record.seq);
        let progress = progress.clone();
        let balances = &mut self.balances[account.index()];
        balances.held -= amount;
        let effects = vec![
            Effect::TransactionProgress(transaction, Box::new(progress)),
            Effect::Posting(Posting {
                account,
                transaction,
                from: Book::Holds,
                to: Book::Funds,
                amount,
            }),
            Effect::CardUsage(slot, *usage),
            Effect::AccountBalances(account, *balances),
        ];
        self.record(effects);
    }

    fn line(
        &mut self,
        account: AccountSlot,
        number: u64,
        amount: Minor,
        record: &TransactionRecord,
    ) -> Effect {
        self.lines += 1;
        Effect::StatementLine(Box::new(StatementLine {
            seq: LineSeq(self.lines),
            id: StatementLineId(Uuid::from_u128(u128::from(self.lines))),
            account,
            number,
            amount,
            transaction: record.seq,
            card: record.card,
            member: record.member,
            description: "line".into(),
            merchant: record.merchant.clone().filter(|_| number.is_multiple_of(3)).map(Box::new),
            posted_on: self.day,
            posted_at: self.at,
        }))
    }

    fn answer(&mut self, hours: i64) -> Effect {
        let key = self.renewed_key(if hours == 24 { DAY_KEYS } else { HOUR_KEYS });
        let content = self.below(1_000);
        let window = DuplicateWindow::Day;
        Effect::Answer(Box::new(RememberedAnswer {
            fingerprint: Fingerprint { key, trace: None, content, window },
            shares_trace: false,
            expires_at: self.at.plus(hours * Timestamp::HOUR),
            reply: NetworkReply::Conflict,
        }))
    }

    /// One of few keys, so that one is renewed now and then: by an answer that ends later, as
    /// nothing else takes the place of one that still stands.
    fn renewed_key(&mut self, first: u128) -> DuplicateKey {
        let (drawn_at, drawn) = self.keys_drawn;
        let drawn = if drawn_at == self.at { drawn + 1 } else { 0 };
        self.keys_drawn = (self.at, drawn);
        DuplicateKey(first + u128::from(self.below(40)) + 1_000 * drawn)
    }

    fn remember(&mut self) {
        let answer = self.answer(1);
        let original_key = Some(OriginalKey(self.below(20)));
        let expires_at = self.at.plus(24 * Timestamp::HOUR);
        let part = Minor(i64::try_from(self.below(9_000)).unwrap());
        let amount = match self.below(4) {
            0 => ReversalAmount::Full,
            1 => ReversalAmount::GiveBack(part),
            2 => ReversalAmount::Remaining(part),
            _ => ReversalAmount::RemainingOriginal(part),
        };
        let reversal =
            EarlyReversal { card: None, original_key, retrieval_key: None, amount, expires_at };
        self.record(vec![answer, Effect::EarlyReversal(Box::new(reversal))]);
    }

    fn company_slot(&mut self) -> CompanySlot {
        CompanySlot(u32::try_from(self.below(u64::from(COMPANIES))).unwrap())
    }

    fn tag(&mut self) {
        let Some(place) = self.pick(self.transactions.len()) else { return };
        let wanted = self.dimensions(self.transactions[place].0.company);
        let dimensions = wanted.map(|wanted| (self.below(2) == 0).then_some(wanted));
        let note = (self.below(2) == 0).then(|| format!("note {place}").parse().unwrap());
        let seq = self.transactions[place].0.seq;
        let changes = TagChanges { dimensions, note, receipt: None };
        self.record(vec![Effect::TransactionTags(seq, Box::new(changes))]);
    }

    fn keep_answer(&mut self) {
        let company = self.company_slot();
        let metadata = self.below(3);
        let sso = (metadata > 0).then(|| {
            Box::new(SingleSignOn {
                domain: "a.test".to_owned(),
                idp_metadata: format!("<xml>{metadata}</xml>"),
            })
        });
        let answer = KeyedAnswer {
            key: [u8::try_from(self.below(200)).unwrap(); 32],
            request: [1; 32],
            made_at: self.at,
            expires_at: self.at.plus(24 * Timestamp::HOUR),
            status: 201,
            content: match self.below(2) {
                0 => KeyedContent::Object { path: "/v1/company".to_owned() },
                _ => KeyedContent::Body(vec![7; 20]),
            },
        };
        self.record(vec![Effect::CompanySso(company, sso), Effect::KeyedAnswer(Box::new(answer))]);
    }

    fn log(&mut self) {
        let entry = NetworkLogEntry {
            at: self.at,
            kind: NetworkMessageKind::Reversal,
            masked_pan: MaskedPan::default(),
            amount: self.amount(),
            currency: None,
            rrn: "r".into(),
            reason: SubReason::UnknownCard,
        };
        self.record(vec![Effect::NetworkLog(Box::new(entry))]);
    }
}
