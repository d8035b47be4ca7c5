//! The only change: folds records into the hot state, live and in replay alike.
//!
//! Effects carry after-images, so nothing is decided here. Derived state (indexes, timers, the
//! local day) follows from them and from the record's time.

use super::duplicates::{AnswerPlace, AnswersElsewhere, EnteredAnswer, NewestNumbers};
use super::recall::CacheState;
use super::replay::KeptTransaction;
use super::state::{AccountEntry, CompanyEntry, ShardState};
use super::timers::TimerKind;
use super::transactions::TransactionRoom;
use crate::command::effect::{Effect, IssuedCard, RememberedAnswer};
use crate::domain::account::{Account, AccountBalances};
use crate::domain::business_date::DayWindow;
use crate::domain::card::{CardRecord, CardState};
use crate::domain::company::{Company, CompanyState};
use crate::domain::ids::{CardSlot, LineSeq, RecordSeq, Timestamp, TransactionSeq};
use crate::domain::transaction::TransactionProgress;
use crate::packed::PackedProfile;

impl ShardState {
    /// Folds one record: its time, then its effects in order.
    pub fn apply_record(&mut self, seq: RecordSeq, at: Timestamp, effects: &[Effect]) {
        self.begin_record(seq, at);
        for effect in effects {
            self.note_change(effect);
            self.apply(effect);
        }
    }

    pub(super) fn begin_record(&mut self, seq: RecordSeq, at: Timestamp) {
        assert!(seq == self.last_seq.next(), "records are applied one after the other");
        assert!(at >= self.last_at, "time never goes back");
        self.last_seq = seq;
        self.advance_to(at);
    }

    /// Begins to take in cards from the tables, so many; nobody finds them before `index_cards`.
    pub fn begin_restore(&mut self, cards: u64) {
        self.cards.begin_restore(usize::try_from(cards).unwrap_or(0));
    }

    /// Makes room for so many transactions: an index that grows reads all its keys again each time.
    pub fn reserve(&mut self, transactions: u64) {
        let transactions = usize::try_from(transactions).unwrap_or(0);
        self.transactions.reserve(transactions);
        self.messages.reserve(transactions);
    }

    /// Lets the cards that were taken in be found.
    pub fn index_cards(&mut self) {
        self.cards.index_restored();
    }

    /// Goes on in this room, before records are replayed.
    pub fn move_into(&mut self, room: TransactionRoom) {
        self.transactions.move_into(room);
    }

    /// Puts the state where a checkpoint left it, after its effects were applied.
    pub fn resume_from(
        &mut self,
        seq: RecordSeq,
        at: Timestamp,
        transaction: TransactionSeq,
        line: LineSeq,
    ) {
        assert!(self.last_transaction <= transaction, "the checkpoint knows every transaction");
        self.transactions.begin_after(transaction);
        self.last_seq = seq;
        self.last_transaction = transaction;
        self.last_line = line;
        self.advance_to(at);
        self.expect_late_holds_from(at);
    }

    fn advance_to(&mut self, at: Timestamp) {
        self.last_at = at;
        // This record's own answer is not among those before it.
        let next =
            NewestNumbers { transaction: self.last_transaction.next(), record: self.last_seq };
        self.messages.forget_expired(at, next);
        self.early_reversals.forget_expired(at);
        self.keyed_answers.forget_expired(at);
        self.directory.forget_expired(at);
        if at >= self.days_end_at {
            self.turn_days(at);
        }
    }

    /// Finds the local day of each company anew where it is over.
    fn turn_days(&mut self, at: Timestamp) {
        self.days_end_at = Timestamp::MAX;
        for entry in &mut self.companies {
            if !entry.day.contains(at) {
                entry.day = DayWindow::containing(entry.company.zone, at);
            }
            self.days_end_at = self.days_end_at.min(entry.day.ends_at);
        }
    }

    /// Folds one effect.
    pub fn apply(&mut self, effect: &Effect) {
        if let Some(made) = self.fold(effect) {
            self.take_in(KeptTransaction::of(made, self.last_seq));
        }
    }

    /// Folds one effect, but hands back a new transaction for the caller to take in.
    pub(super) fn fold<'e, T>(&mut self, effect: &'e Effect<T>) -> Option<&'e T> {
        match effect {
            Effect::Company(company) => self.apply_company(company),
            Effect::Account(account) => self.apply_account(account),
            Effect::AccountBalances(slot, balances) => {
                self.accounts[slot.index()].balances = *balances;
            }
            Effect::Row(row) => self.directory.apply(row),
            Effect::NetworkKey(digest) => self.network_key = Some(*digest),
            Effect::CardIssued(card) => self.apply_card_issued(card),
            Effect::CardProfile(profile) => self.cards.set_profile(profile),
            Effect::PanGenerations(generations) => self.pan_generations = *generations,
            Effect::CardPin(slot, pin) => self.cards.record_mut(*slot).pin = *pin,
            Effect::CardZip(slot, zip) => self.cards.record_mut(*slot).zip = *zip,
            Effect::AllowanceTerms(slot, terms) => {
                self.change_card(*slot, |record| record.terms = **terms);
            }
            Effect::CardUsage(slot, usage) => {
                self.change_card(*slot, |record| record.usage = *usage);
                if usage.state == CardState::Terminated {
                    self.cards.let_go(*slot);
                }
            }
            Effect::CardAttempts(slot, attempts) => {
                self.attempts.insert(*slot, attempts.clone());
            }
            Effect::CredentialFailures(slot, failures) => {
                self.failures.insert(*slot, *failures);
            }
            Effect::Transaction(made) => return Some(made),
            Effect::TransactionProgress(seq, progress) => self.apply_progress(*seq, progress),
            Effect::StatementLine(line) => self.last_line = self.last_line.max(line.seq),
            Effect::Answer(answer) => self.apply_answer(answer),
            Effect::EarlyReversal(reversal) => self.early_reversals.insert(**reversal),
            Effect::CompanySso(company, Some(row)) => {
                self.single_sign_on.insert(*company, (**row).clone());
            }
            Effect::CompanySso(company, None) => drop(self.single_sign_on.remove(company)),
            Effect::KeyedAnswer(answer) => self.keyed_answers.insert(answer),
            // Read from the tables only.
            Effect::Posting(_)
            | Effect::NetworkLog(_)
            | Effect::TransactionTags(..)
            | Effect::Audit(_)
            | Effect::AuditGroup(_)
            | Effect::Increment(_)
            | Effect::CardNumber(..) => {}
        }
        None
    }

    fn apply_company(&mut self, company: &Company) {
        self.company_by_id.insert(company.id, company.slot);
        let day = DayWindow::containing(company.zone, self.last_at);
        self.days_end_at =
            if self.companies.is_empty() { day.ends_at } else { self.days_end_at.min(day.ends_at) };
        let entry = CompanyEntry {
            day,
            velocity: company.velocity,
            hold_table: company.hold_table.clone(),
            is_closed: company.state != CompanyState::Active,
            company: Box::new(company.clone()),
        };
        put_at(&mut self.companies, company.slot.index(), entry);
    }

    fn apply_account(&mut self, account: &Account) {
        self.account_by_id.insert(account.id, account.slot);
        let known = self.accounts.get(account.slot.index());
        let entry = AccountEntry {
            balances: known.map_or_else(AccountBalances::default, |entry| entry.balances),
            credit_limit: account.credit_limit,
            currency: account.currency,
            company: account.company,
            account: Box::new(account.clone()),
        };
        put_at(&mut self.accounts, account.slot.index(), entry);
    }

    fn apply_card_issued(&mut self, card: &IssuedCard) {
        self.cards.issue(&card.profile, card.record);
        self.time_allowance(card.profile.slot, &card.record);
    }

    /// Takes in a card that a start has read.
    pub fn take_in_card(&mut self, profile: &PackedProfile<'_>, record: CardRecord) {
        self.cards.push(profile, record);
        self.time_allowance(profile.slot, &record);
    }

    fn time_allowance(&mut self, slot: CardSlot, record: &CardRecord) {
        let kind = TimerKind::AllowanceEnd(slot);
        self.timers.reschedule(kind, Timestamp::MAX, end_timer_of(record));
    }

    fn change_card(&mut self, slot: CardSlot, change: impl FnOnce(&mut CardRecord)) {
        let record = self.cards.record_mut(slot);
        let from = end_timer_of(record);
        change(record);
        let to = end_timer_of(record);
        self.timers.reschedule(TimerKind::AllowanceEnd(slot), from, to);
    }

    /// Takes in a transaction that was made, with what it moved.
    pub(super) fn take_in(&mut self, made: KeptTransaction) {
        let (seq, usage, balances) = (made.seq, made.usage, made.balances);
        let entered = made.open.entered_answer(AnswerPlace::Transaction(seq));
        self.last_transaction = self.last_transaction.max(seq);
        let kind = TimerKind::HoldExpiry(seq);
        self.timers.reschedule(kind, Timestamp::MAX, expiry_timer_of(&made.open.progress));
        self.transactions.push(seq, made.open);
        if let Some((slot, usage)) = usage {
            self.change_card(slot, |record| record.usage = usage);
        }
        if let Some((slot, balances)) = balances {
            self.accounts[slot.index()].balances = balances;
        }
        if let Some(entered) = entered {
            self.enter_answer(&entered);
        }
    }

    /// Keeps an answer that follows from no transaction.
    fn apply_answer(&mut self, answer: &RememberedAnswer) {
        let place = self.messages.keep(self.last_seq, answer.clone());
        self.enter_answer(&EnteredAnswer::of(place, answer));
    }

    fn enter_answer(&mut self, entered: &EnteredAnswer) {
        let mut newest = self.newest();
        if let AnswerPlace::Record(seq) = entered.place {
            newest.record = newest.record.max(seq);
        }
        let recalled = self.caching.as_ref().map_or(&[][..], CacheState::answers);
        let elsewhere = AnswersElsewhere { transactions: &self.transactions, recalled };
        self.messages.enter(entered, newest, &elsewhere);
    }

    fn apply_progress(&mut self, seq: TransactionSeq, progress: &TransactionProgress) {
        let Some(open) = self.transactions.get_mut(seq) else {
            // Only the replay of a journal's tail speaks of what the tables alone have.
            let Some(caching) = &mut self.caching else {
                unreachable!("a shard without limits holds every transaction");
            };
            return caching.patch(seq, progress, self.last_seq);
        };
        let (from, to) = (expiry_timer_of(&open.progress), expiry_timer_of(progress));
        open.progress.clone_from(progress);
        open.changed_seq = self.last_seq;
        self.timers.reschedule(TimerKind::HoldExpiry(seq), from, to);
    }
}

/// The first instant past the allowance's window, while its card is active.
fn end_timer_of(record: &CardRecord) -> Timestamp {
    if record.usage.state == CardState::Active {
        record.terms.ends_at.plus(1)
    } else {
        Timestamp::MAX
    }
}

pub(super) fn expiry_timer_of(progress: &TransactionProgress) -> Timestamp {
    if progress.held.is_empty() { Timestamp::MAX } else { progress.hold_expires_at }
}

/// Replaces the entry at `index`, or appends it there.
pub(super) fn put_at<T>(entries: &mut Vec<T>, index: usize, entry: T) {
    match entries.get_mut(index) {
        Some(existing) => *existing = entry,
        None => push_at(entries, index, entry),
    }
}

fn push_at<T>(entries: &mut Vec<T>, index: usize, entry: T) {
    assert!(index == entries.len(), "slots are given out one after the other");
    entries.push(entry);
}
