//! What ends when a member leaves. Source: spec "States and transitions", Member.

use cardswitch_engine::domain::member::{Member, MemberRole, email_key};
use cardswitch_engine::domain::requisition::RequisitionStatus;
use cardswitch_engine::domain::shared_link::SharedLink;
use cardswitch_engine::domain::token_grant::TokenGrant;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{Page, RequisitionFilter};

use crate::routes::view::View;
use crate::site::members::member::held_by;
use crate::site::seen::Seen;
use crate::site::words::card_name;

/// How many cards are called by their names.
const CARDS_NAMED: usize = 100;

/// What ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Effects {
    /// The cards that are closed, by their names as far as those are shown.
    pub(super) cards: Vec<String>,
    /// How many cards those are in all.
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

impl Effects {
    /// How many cards are not named.
    pub(super) fn unnamed(&self) -> u64 {
        self.card_count.saturating_sub(self.cards.len() as u64)
    }

    /// What the form shows of it.
    pub(super) fn seen(&self) -> Seen {
        Seen::default()
            .field("cards", format!("{} {}", self.card_count, self.cards.join("\n")))
            .field("requisitions", self.requisitions)
            .field("shared links", self.links)
            .field("access tokens", self.tokens)
            .field("role", self.role_is_lost)
    }
}

/// What ends when this member leaves.
/// Cost: O(shared links and access tokens of the company).
pub(super) fn effects_of(view: &View<'_>, member: &Member) -> Result<Effects, StoreError> {
    let (snapshot, company) = (view.snapshot, view.company.slot);
    let cards = snapshot.list_cards(company, &held_by(member), &Page::first(CARDS_NAMED))?;
    let pending = RequisitionFilter {
        member: Some(member.slot),
        statuses: vec![RequisitionStatus::Pending],
        ..RequisitionFilter::default()
    };
    let requisitions = snapshot.list_requisitions(company, &pending, &Page::first(1))?;
    let memberships = snapshot.memberships(&member.email)?;
    Ok(Effects {
        cards: cards.rows.iter().map(|card| card_name(&card.profile)).collect(),
        card_count: cards.count,
        requisitions: requisitions.count,
        links: links_to(view, member)?,
        tokens: tokens_of(view, member)?,
        signs_out: memberships.iter().all(|(_, other)| other.slot == member.slot),
        role_is_lost: member.role != MemberRole::Member,
    })
}

/// How many shared links were sent to a member.
fn links_to(view: &View<'_>, member: &Member) -> Result<u64, StoreError> {
    let address = email_key(&member.email);
    let all = Page::first(usize::MAX);
    let links = view.snapshot.list_shared_links(view.company.slot, None, &all)?.rows;
    let is_theirs = |link: &&SharedLink| {
        let recipient = link.recipient.as_ref();
        recipient.is_some_and(|recipient| email_key(&recipient.email) == address)
    };
    Ok(links.iter().filter(is_theirs).count() as u64)
}

/// How many access tokens act for a member.
fn tokens_of(view: &View<'_>, member: &Member) -> Result<u64, StoreError> {
    let all = Page::first(usize::MAX);
    let tokens = view.snapshot.access_tokens(view.company.slot, &all)?.rows;
    let is_theirs = |grant: &TokenGrant| grant.member == Some(member.slot);
    Ok(tokens.iter().filter(|(_, grant)| grant.as_ref().is_some_and(is_theirs)).count() as u64)
}
