//! The effects of a member's leaving. Source: spec "States and transitions", Member.

use cardswitch_engine::directory::member::{Member, MemberRole};
use cardswitch_engine::store::StoreError;
use cardswitch_v1::routes::view::View;

use crate::form_snapshot::FormSnapshot;
use crate::words::card_name;

/// The cards, requisitions, links, tokens and roles that end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Effects {
    /// The cards that are closed, by their names as far as those are shown.
    pub(super) cards: Vec<String>,
    pub(super) card_count: u64,
    /// How many requisitions are denied.
    pub(super) requisitions: u64,
    /// How many shared links that were sent to the member are taken away.
    pub(super) links: u64,
    /// How many access tokens that the member gave are revoked.
    pub(super) tokens: u64,
    /// Whether they are signed out, since they take part nowhere else.
    pub(super) signs_out: bool,
    /// Whether the role is lost that they have.
    pub(super) role_is_lost: bool,
}

/// How many cards are named at first sight; the list must not hide the form below it.
const CARDS_AT_FIRST_SIGHT: usize = 5;

impl Effects {
    /// The cards that are named at first sight.
    pub(super) fn first_cards(&self) -> &[String] {
        &self.cards[..self.cards.len().min(CARDS_AT_FIRST_SIGHT)]
    }

    /// The cards that are named on demand.
    pub(super) fn further_cards(&self) -> &[String] {
        &self.cards[self.first_cards().len()..]
    }

    /// How many cards are not named.
    pub(super) fn unnamed(&self) -> u64 {
        self.card_count.saturating_sub(self.cards.len() as u64)
    }

    /// The effects that the form shows, compared with those found when it is sent.
    pub(super) fn seen(&self) -> FormSnapshot {
        FormSnapshot::default()
            .field("cards", format!("{} {}", self.card_count, self.cards.join("\n")))
            .field("requisitions", self.requisitions)
            .field("shared links", self.links)
            .field("access tokens", self.tokens)
            .field("role", self.role_is_lost)
    }
}

/// The effects of this member's leaving.
/// Cost: O(cards and requisitions of the member, links and tokens of the company).
pub(super) fn effects_of(view: &View<'_>, member: &Member) -> Result<Effects, StoreError> {
    let ends = view.snapshot.effects_of_leaving(member.slot)?;
    let mut cards = Vec::new();
    for id in ends.cards {
        cards.extend(view.find_card(id)?.map(|card| card_name(&card.profile)));
    }
    Ok(Effects {
        cards,
        card_count: ends.card_count,
        requisitions: ends.pending_requisitions,
        links: ends.shared_links,
        tokens: ends.tokens,
        signs_out: ends.sessions_end,
        role_is_lost: member.role != MemberRole::Member,
    })
}
