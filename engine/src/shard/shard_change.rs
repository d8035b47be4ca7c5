//! The changes of a command, as the shard's own rules read and write them, and the shard's answers
//! to the rules of resources.

use super::early_reversals::MessageMarks;
use super::state::ShardState;
use crate::command::network::ReversalAmount;
use crate::command::seen_object::SeenObject;
use crate::directory::Directory;
use crate::directory::change::{PartitionView, StateChange};
use crate::domain::account::Account;
use crate::domain::business_date::DayWindow;
use crate::domain::card::{CardProfile, CardRecord, PanHash};
use crate::domain::company::{Company, SingleSignOn};
use crate::domain::ids::{
    AccountId, AllowanceId, CardId, CardSlot, CompanyId, CompanySlot, LineSeq, MemberSlot,
    RecordSeq, Timestamp, TransactionSeq,
};
use crate::domain::network_key::MessageClass;
use crate::domain::pan_key::PanGenerations;

/// A change whose rules see all of the shard.
pub(super) type ShardChange<'a> = StateChange<'a, ShardState>;

impl ShardChange<'_> {
    /// The amount of an early reversal of the very message of these marks and class.
    pub(super) fn reversal_before(
        &self,
        marks: MessageMarks,
        class: MessageClass,
    ) -> Option<ReversalAmount> {
        self.state.early_reversals.of_message(marks, class, self.moment.at)
    }

    /// The same change for the rules of resources.
    pub(super) fn for_resources(&mut self) -> StateChange<'_> {
        StateChange { state: self.state, moment: self.moment, effects: self.effects }
    }
}

impl PartitionView for ShardState {
    fn last_record(&self) -> RecordSeq {
        self.last_seq
    }

    fn may_have_changed(&self, seen: &SeenObject) -> bool {
        self.recent_changes.may_have(seen)
    }

    fn last_transaction(&self) -> TransactionSeq {
        self.last_transaction
    }

    fn last_line(&self) -> LineSeq {
        self.last_line
    }

    fn company_count(&self) -> usize {
        self.companies.len()
    }

    fn account_count(&self) -> usize {
        self.accounts.len()
    }

    fn card_count(&self) -> usize {
        self.cards.len()
    }

    fn directory(&self) -> &Directory {
        &self.directory
    }

    fn pan_generations(&self) -> PanGenerations {
        self.pan_generations
    }

    fn find_company(&self, id: CompanyId) -> Option<CompanySlot> {
        self.company_by_id.get(&id).copied()
    }

    fn company(&self, slot: CompanySlot) -> &Company {
        &self.company(slot).company
    }

    fn single_sign_on(&self, slot: CompanySlot) -> Option<&SingleSignOn> {
        self.single_sign_on.get(&slot)
    }

    fn day_at(&self, slot: CompanySlot, at: Timestamp) -> DayWindow {
        self.day_at(slot, at)
    }

    fn has_account(&self, id: AccountId) -> bool {
        self.account_by_id.contains_key(&id)
    }

    fn account_of(&self, slot: CompanySlot) -> Option<&Account> {
        // Both are made in one step, so both have the same place.
        let entry = self.accounts.get(slot.index())?;
        assert!(entry.company == slot, "a company has one account, made with it");
        Some(&entry.account)
    }

    fn find_card(&self, id: CardId) -> Option<CardSlot> {
        self.cards.find_by_id(id)
    }

    fn find_card_by_allowance(&self, id: AllowanceId) -> Option<CardSlot> {
        self.cards.find_by_allowance(id)
    }

    fn find_card_by_number(&self, number: PanHash) -> Option<CardSlot> {
        self.cards.find_by_pan(number)
    }

    fn card(&self, slot: CardSlot) -> &CardRecord {
        self.card(slot)
    }

    fn profile(&self, slot: CardSlot) -> CardProfile {
        self.cards.profile(slot)
    }

    fn company_of(&self, slot: CardSlot) -> CompanySlot {
        self.cards.head(slot).company
    }

    fn cards_held_by(&self, member: MemberSlot) -> Box<dyn Iterator<Item = CardSlot> + '_> {
        Box::new(self.cards.held_by(member))
    }
}
