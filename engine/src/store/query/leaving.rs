//! The consequences of a member's leaving, for the confirmation before it.

use crate::directory::access_token::AccessToken;
use crate::directory::member::Member;
use crate::directory::requisition::Requisition;
use crate::directory::shared_link::SharedLink;
use crate::domain::card::CardState;
use crate::domain::email::email_key;
use crate::domain::ids::{CardId, CardSlot, MemberSlot};
use crate::limits;
use crate::store::error::StoreError;
use crate::store::query::Snapshot;
use crate::store::tables::{CARD_MARKS, CardMark};

/// The consequences of deactivating or deleting a member.
/// INVARIANT: the shard ends the same in its record of that, as long as nothing changes in between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeavingEffects {
    /// Cards that are closed for good: the first `limits::LEAVING_CARDS_NAMED_MAX` of them.
    pub cards: Vec<CardId>,
    /// The number of such cards in all.
    pub card_count: u64,
    /// The number of requisitions that are denied.
    pub pending_requisitions: u64,
    /// The number of links sent to them that are taken away.
    pub shared_links: u64,
    /// The number of access tokens acting for them that are revoked.
    pub tokens: u64,
    /// Whether their sessions end: they take part in no other company.
    pub sessions_end: bool,
}

impl Snapshot {
    /// The consequences of a member's leaving; none if there is no such member.
    /// Cost: O(cards, pending requisitions and links, tokens of the member).
    pub fn effects_of_leaving(&self, slot: MemberSlot) -> Result<LeavingEffects, StoreError> {
        let mut effects = LeavingEffects::default();
        let Some(member) = self.row::<Member>(slot)? else { return Ok(effects) };
        self.add_cards_of(slot, &mut effects)?;
        let pending = self.rows_under(&Requisition::PENDING_OF_MEMBER, &slot)?;
        effects.pending_requisitions = pending.len() as u64;
        let sent_to = (member.company, email_key(&member.email));
        effects.shared_links = self.rows_under(&SharedLink::BY_RECIPIENT, &sent_to)?.len() as u64;
        effects.tokens = self.tokens_acting_for(&member)?;
        let elsewhere = self.memberships(&member.email)?;
        effects.sessions_end = self.user_by_email(&member.email)?.is_some()
            && elsewhere.iter().all(|(_, other)| other.slot == slot);
        Ok(effects)
    }

    fn add_cards_of(
        &self,
        member: MemberSlot,
        effects: &mut LeavingEffects,
    ) -> Result<(), StoreError> {
        let mut cards = self.card_tables()?;
        let CardMark { kind, owner } = CardMark::member(member);
        let marks = self.table(CARD_MARKS)?;
        for entry in marks.range((kind, owner, 0)..=(kind, owner, u32::MAX))? {
            let card = cards.card(CardSlot(entry?.0.value().2))?;
            if card.record.usage.state == CardState::Terminated {
                continue;
            }
            effects.card_count += 1;
            if effects.cards.len() < limits::LEAVING_CARDS_NAMED_MAX {
                effects.cards.push(card.profile.id);
            }
        }
        Ok(())
    }

    fn tokens_acting_for(&self, member: &Member) -> Result<u64, StoreError> {
        Ok(self.rows_under(&AccessToken::OF_MEMBER, &member.slot)?.len() as u64)
    }
}
