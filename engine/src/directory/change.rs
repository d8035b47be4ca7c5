//! What one command changes, while its effects are chosen, and what its rules may ask for that.

use std::fmt::Debug;

use super::{Directory, DirectoryRow};
use crate::command::Moment;
use crate::command::effect::Effect;
use crate::command::record::append_record;
use crate::command::reply::Rejection;
use crate::domain::account::Account;
use crate::domain::business_date::DayWindow;
use crate::domain::card::{CardProfile, CardRecord, PanHash};
use crate::domain::company::{Company, SingleSignOn};
use crate::domain::ids::{
    AccountId, AllowanceId, CardId, CardSlot, CompanyId, CompanySlot, LineSeq, MemberSlot,
    RecordSeq, Timestamp, TransactionSeq,
};
use crate::domain::pan_key::PanGenerations;
use crate::limits;

/// What the rules of resources ask of the partition that they are in. The shard answers.
///
/// Methods that take a slot panic where nothing has it.
pub(crate) trait PartitionView: Debug {
    /// The newest record.
    fn last_record(&self) -> RecordSeq;
    /// The newest transaction.
    fn last_transaction(&self) -> TransactionSeq;
    /// The newest statement line.
    fn last_line(&self) -> LineSeq;
    /// The number of companies.
    fn company_count(&self) -> usize;
    /// The number of accounts.
    fn account_count(&self) -> usize;
    /// The number of cards.
    fn card_count(&self) -> usize;
    /// What people set up around cards.
    fn directory(&self) -> &Directory;
    /// Which generations of the key of card numbers are of use.
    fn pan_generations(&self) -> PanGenerations;
    /// The company with an id.
    fn find_company(&self, id: CompanyId) -> Option<CompanySlot>;
    /// A company.
    fn company(&self, slot: CompanySlot) -> &Company;
    /// How a company's members sign on elsewhere.
    fn single_sign_on(&self, slot: CompanySlot) -> Option<&SingleSignOn>;
    /// The local day of a company at an instant.
    fn day_at(&self, slot: CompanySlot, at: Timestamp) -> DayWindow;
    /// Whether an account has this id.
    fn has_account(&self, id: AccountId) -> bool;
    /// The accounts of a company.
    fn accounts_of(&self, slot: CompanySlot) -> Vec<&Account>;
    /// The card with an id.
    fn find_card(&self, id: CardId) -> Option<CardSlot>;
    /// The card with an allowance.
    fn find_card_by_allowance(&self, id: AllowanceId) -> Option<CardSlot>;
    /// The card with a number.
    fn find_card_by_number(&self, number: PanHash) -> Option<CardSlot>;
    /// What decisions read of a card.
    fn card(&self, slot: CardSlot) -> &CardRecord;
    /// What people know of a card.
    fn profile(&self, slot: CardSlot) -> CardProfile;
    /// Whose card it is.
    fn company_of(&self, slot: CardSlot) -> CompanySlot;
    /// The cards of a member that are not terminated, the oldest first.
    fn cards_held_by(&self, member: MemberSlot) -> Box<dyn Iterator<Item = CardSlot> + '_>;
}

/// What the rules of a command read and write. What was refused leaves effects that nobody applies.
#[derive(Debug)]
pub(crate) struct StateChange<'a, S: ?Sized = dyn PartitionView> {
    /// The state before the change.
    pub(crate) state: &'a S,
    /// When it was accepted.
    pub(crate) moment: &'a Moment<'a>,
    /// What it changes, as far as it is chosen.
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl<S: ?Sized> StateChange<'_, S> {
    /// Adds what changes.
    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }
}

impl StateChange<'_> {
    /// Puts a row in the place of the one before it.
    pub(crate) fn put(&mut self, row: impl Into<DirectoryRow>) {
        self.push(Effect::row(row));
    }

    /// Errors: `TooMuchAtOnce` where what follows is more than a record takes. The bounds on what a
    /// member has keep it from being so; links shared with one address are not bounded.
    pub(crate) fn check_room(&self) -> Result<(), Rejection> {
        let mut record = Vec::new();
        let (seq, at) = (self.state.last_record().next(), self.moment.at);
        let written = append_record(&mut record, seq, at, self.effects);
        let fits = record.len() + limits::RECORD_SPARE_BYTES <= limits::RECORD_BYTES_MAX;
        if written.is_ok() && fits { Ok(()) } else { Err(Rejection::TooMuchAtOnce) }
    }
}
