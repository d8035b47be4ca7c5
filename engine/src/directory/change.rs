//! One command's change of state, while its effects are chosen, and the questions its rules may
//! ask.

use std::fmt::Debug;

use super::{Directory, DirectoryRow};
use crate::command::Moment;
use crate::command::effect::Effect;
use crate::command::record::append_record;
use crate::command::reply::Rejection;
use crate::command::seen_object::SeenObject;
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

/// The questions that the rules of resources ask of their partition, which the shard answers.
///
/// Methods that take a slot panic if no row has it.
pub(crate) trait PartitionView: Debug {
    /// The newest record.
    fn last_record(&self) -> RecordSeq;
    /// Whether an object may have changed since it was read.
    fn may_have_changed(&self, seen: &SeenObject) -> bool;
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
    /// The resources that people set up around cards.
    fn directory(&self) -> &Directory;
    /// The generations of the key of card numbers that are in use.
    fn pan_generations(&self) -> PanGenerations;
    /// The company with an id.
    fn find_company(&self, id: CompanyId) -> Option<CompanySlot>;
    /// A company.
    fn company(&self, slot: CompanySlot) -> &Company;
    /// The single sign-on settings of a company.
    fn single_sign_on(&self, slot: CompanySlot) -> Option<&SingleSignOn>;
    /// The local day of a company at an instant.
    fn day_at(&self, slot: CompanySlot, at: Timestamp) -> DayWindow;
    /// Whether an account has this id.
    fn has_account(&self, id: AccountId) -> bool;
    /// The account of a company.
    fn account_of(&self, slot: CompanySlot) -> Option<&Account>;
    /// The card with an id.
    fn find_card(&self, id: CardId) -> Option<CardSlot>;
    /// The card with an allowance.
    fn find_card_by_allowance(&self, id: AllowanceId) -> Option<CardSlot>;
    /// The card with a number.
    fn find_card_by_number(&self, number: PanHash) -> Option<CardSlot>;
    /// The part of a card that decisions read.
    fn card(&self, slot: CardSlot) -> &CardRecord;
    /// The part of a card that people read.
    fn profile(&self, slot: CardSlot) -> CardProfile;
    /// The company that owns a card.
    fn company_of(&self, slot: CardSlot) -> CompanySlot;
    /// The cards of a member that are not terminated, the oldest first.
    fn cards_held_by(&self, member: MemberSlot) -> Box<dyn Iterator<Item = CardSlot> + '_>;
}

/// The inputs and effects of a command's rules. Effects of a refused command are never applied.
#[derive(Debug)]
pub(crate) struct StateChange<'a, S: ?Sized = dyn PartitionView> {
    /// The state before the change.
    pub(crate) state: &'a S,
    /// The moment of the command's acceptance.
    pub(crate) moment: &'a Moment<'a>,
    /// The effects chosen so far.
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl<S: ?Sized> StateChange<'_, S> {
    /// Adds an effect.
    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }
}

impl StateChange<'_> {
    /// Puts a row in the place of the one before it.
    pub(crate) fn put(&mut self, row: impl Into<DirectoryRow>) {
        self.push(Effect::row(row));
    }

    /// Puts a row in the place of the known one, where they differ.
    pub(crate) fn put_changed<R: Into<DirectoryRow> + PartialEq>(&mut self, row: R, known: &R) {
        if row != *known {
            self.put(row);
        }
    }

    /// Checks that the effects fit one record. Errors: `TooMuchAtOnce`. The bounds on what ends with
    /// a member prevent that.
    pub(crate) fn check_room(&self) -> Result<(), Rejection> {
        let mut record = Vec::new();
        let (seq, at) = (self.state.last_record().next(), self.moment.at);
        let written = append_record(&mut record, seq, at, self.effects);
        let fits = record.len() + limits::RECORD_SPARE_BYTES <= limits::RECORD_BYTES_MAX;
        if written.is_ok() && fits { Ok(()) } else { Err(Rejection::TooMuchAtOnce) }
    }
}
