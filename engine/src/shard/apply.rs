//! The only change: folds records into the hot state, live and in replay alike.
//!
//! Effects carry after-images, so nothing is decided here; what is derived (indexes, timers, the
//! local day) follows from them and from the record's time.

use compact_str::CompactString;

use super::state::{AccountEntry, CompanyEntry, OpenTransaction, ShardState};
use super::timers::TimerKind;
use crate::command::effect::{Effect, IssuedCard};
use crate::domain::allowance::AllowanceTerms;
use crate::domain::business_date::DayWindow;
use crate::domain::card::{CardRecord, CardState};
use crate::domain::company::Company;
use crate::domain::ids::{CardSlot, LineSeq, RecordSeq, Timestamp, TransactionSeq};
use crate::domain::transaction::{
    TransactionKind, TransactionProgress, TransactionRecord, TransactionState,
};

impl ShardState {
    /// Folds one record: its time, then its effects in order.
    pub fn apply_record(&mut self, seq: RecordSeq, at: Timestamp, effects: &[Effect]) {
        assert!(seq == self.last_seq.next(), "records are applied one after the other");
        assert!(at >= self.last_at, "time never goes back");
        self.last_seq = seq;
        self.advance_to(at);
        for effect in effects {
            self.apply(effect);
        }
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
        self.last_seq = seq;
        self.last_transaction = transaction;
        self.last_line = line;
        self.advance_to(at);
    }

    fn advance_to(&mut self, at: Timestamp) {
        self.last_at = at;
        self.answers.forget_expired(at);
        self.early_reversals.forget_expired(at);
        for entry in &mut self.companies {
            if !entry.day.contains(at) {
                entry.day = DayWindow::containing(entry.company.zone, at);
            }
        }
    }

    /// Folds one effect.
    pub fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Company(company) => self.apply_company(company),
            Effect::Account(account) => {
                self.account_by_id.insert(account.id, account.slot);
                match self.accounts.get_mut(account.slot.index()) {
                    Some(entry) => entry.account.clone_from(account),
                    None => push_at(
                        &mut self.accounts,
                        account.slot.index(),
                        AccountEntry { account: (**account).clone(), balances: Default::default() },
                    ),
                }
            }
            Effect::AccountBalances(slot, balances) => {
                self.accounts[slot.index()].balances = *balances;
            }
            Effect::Member(member) => {
                self.member_by_id.insert(member.id, member.slot);
                put_at(&mut self.members, member.slot.index(), (**member).clone());
            }
            Effect::AccessToken(token) => {
                self.tokens.insert(token.digest, (**token).clone());
            }
            Effect::NetworkKey(digest) => self.network_key = Some(*digest),
            Effect::CardIssued(card) => self.apply_card_issued(card),
            Effect::CardProfile(profile) => {
                put_at(&mut self.profiles, profile.slot.index(), (**profile).clone());
            }
            Effect::CardPin(slot, pin) => self.cards[slot.index()].pin = *pin,
            Effect::CardZip(slot, zip) => self.cards[slot.index()].zip = *zip,
            Effect::AllowanceTerms(slot, terms) => self.apply_terms(*slot, terms),
            Effect::CardUsage(slot, usage) => {
                let mut record = *self.card(*slot);
                record.usage = *usage;
                self.replace_card(*slot, record);
            }
            Effect::CardAttempts(slot, attempts) => {
                self.attempts.insert(*slot, attempts.clone());
            }
            Effect::CredentialFailures(slot, failures) => {
                self.failures.insert(*slot, *failures);
            }
            Effect::Transaction(record, progress) => self.apply_transaction(record, progress),
            Effect::TransactionProgress(seq, progress) => self.apply_progress(*seq, progress),
            Effect::StatementLine(line) => self.last_line = self.last_line.max(line.seq),
            Effect::Answer(answer) => self.answers.insert((**answer).clone()),
            Effect::EarlyReversal(reversal) => self.early_reversals.insert(*reversal),
            // Read from the tables only.
            Effect::Posting(_) | Effect::NetworkLog(_) => {}
        }
    }

    fn apply_company(&mut self, company: &Company) {
        self.company_by_id.insert(company.id, company.slot);
        let day = DayWindow::containing(company.zone, self.last_at);
        let entry = CompanyEntry { company: company.clone(), day };
        put_at(&mut self.companies, company.slot.index(), entry);
    }

    fn apply_card_issued(&mut self, card: &IssuedCard) {
        let slot = card.profile.slot;
        assert!(slot.index() == self.cards.len(), "cards are issued slot after slot");
        self.cards.push(card.record);
        self.profiles.push(card.profile.clone());
        self.card_by_pan.insert(card.record.pan_hash, slot);
        self.card_by_id.insert(card.profile.id, slot);
        self.card_by_allowance.insert(card.profile.allowance_id, slot);
        self.timers.reschedule(
            TimerKind::AllowanceEnd(slot),
            Timestamp::MAX,
            end_timer_of(&card.record),
        );
    }

    fn apply_terms(&mut self, slot: CardSlot, terms: &AllowanceTerms) {
        let mut record = *self.card(slot);
        record.terms = *terms;
        self.replace_card(slot, record);
    }

    fn replace_card(&mut self, slot: CardSlot, record: CardRecord) {
        let held = &mut self.cards[slot.index()];
        let (from, to) = (end_timer_of(held), end_timer_of(&record));
        *held = record;
        self.timers.reschedule(TimerKind::AllowanceEnd(slot), from, to);
    }

    fn apply_transaction(&mut self, record: &TransactionRecord, progress: &TransactionProgress) {
        self.last_transaction = self.last_transaction.max(record.seq);
        if progress.state == TransactionState::Declined {
            return;
        }
        self.index_by_keys(record);
        let open = OpenTransaction {
            card: record.card,
            account: record.account,
            kind: record.kind,
            authorized_at: record.authorized_at,
            requested: record.requested,
            foreign: record.foreign,
            merchant_name: record
                .merchant
                .as_ref()
                .map_or_else(CompactString::default, |m| m.name.clone()),
            progress: progress.clone(),
        };
        self.timers.reschedule(
            TimerKind::HoldExpiry(record.seq),
            Timestamp::MAX,
            expiry_timer_of(progress),
        );
        self.transactions.insert(record.seq, open);
    }

    /// A key names the newest transaction that carries it. Only a refund never takes a key over: it
    /// may carry the marks of the purchase it gives back, and those keep naming the purchase.
    fn index_by_keys(&mut self, record: &TransactionRecord) {
        let TransactionRecord { seq, ref trace, kind, .. } = *record;
        let is_refund = kind == TransactionKind::Refund;
        if let Some(key) =
            trace.original_key.filter(|key| !is_refund || !self.by_original.contains_key(key))
        {
            self.by_original.insert(key, seq);
        }
        if let Some(key) =
            trace.retrieval_key.filter(|key| !is_refund || !self.by_retrieval.contains_key(key))
        {
            self.by_retrieval.insert(key, seq);
        }
    }

    fn apply_progress(&mut self, seq: TransactionSeq, progress: &TransactionProgress) {
        let Some(open) = self.transactions.get_mut(&seq) else {
            unreachable!("progress is reported only of transactions the shard holds");
        };
        let (from, to) = (expiry_timer_of(&open.progress), expiry_timer_of(progress));
        open.progress = progress.clone();
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

fn expiry_timer_of(progress: &TransactionProgress) -> Timestamp {
    if progress.held.is_empty() { Timestamp::MAX } else { progress.hold_expires_at }
}

/// Replaces the entry at `index`, or appends it there.
fn put_at<T>(entries: &mut Vec<T>, index: usize, entry: T) {
    match entries.get_mut(index) {
        Some(existing) => *existing = entry,
        None => push_at(entries, index, entry),
    }
}

fn push_at<T>(entries: &mut Vec<T>, index: usize, entry: T) {
    assert!(index == entries.len(), "slots are given out one after the other");
    entries.push(entry);
}
