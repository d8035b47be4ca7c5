//! The consequences of a member's leaving, as they are announced and as they come.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessTokenCommand;
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::directory::member::{MemberCommand, MemberRole, NewMember};
use cardswitch_engine::directory::requisition::{RequisitionCommand, RequisitionStatus};
use cardswitch_engine::directory::shared_link::{NewSharedLink, Recipient, SharedLinkCommand};
use cardswitch_engine::directory::ticket::{NewTicket, NewTicketContent, TicketCommand};
use cardswitch_engine::directory::user::UserCommand;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::ids::{CompanySlot, MemberSlot, RequisitionId, Timestamp, UserSlot};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::limits;
use cardswitch_engine::store::Snapshot;
use cardswitch_engine::store::query::{LeavingEffects, Page};
use uuid::Uuid;

use crate::desk::Desk;
use crate::office::{ADA, BOB, FOREIGNER, new_member};
use crate::people::{grant_of, new_user};
use crate::requisitions::new_requisition;
use crate::samples::{
    START, company_id, digest, member_id, new_card, new_company, ticket_id, user_id,
};
use crate::shared_links::{card_id, new_link};

const OWN: CompanySlot = CompanySlot(0);
/// Bob's, and that of his other membership.
const BOB_SLOT: MemberSlot = MemberSlot(1);
const CARDS: u64 = limits::LEAVING_CARDS_NAMED_MAX as u64 + 5;

/// The present counts: open cards, requisitions, links and tokens of Bob's, open sessions.
fn standing(snapshot: &Snapshot) -> [usize; 5] {
    let page = Page::first(limits::PAGE_LEN_MAX);
    let cards = snapshot.list_cards(OWN, &Default::default(), &page).unwrap().rows;
    let is_open = |state| state != CardState::Terminated;
    let open = cards.iter().filter(|card| {
        card.profile.assigned_to == Some(BOB_SLOT) && is_open(card.record.usage.state)
    });
    let requisitions = snapshot.list_requisitions(OWN, &Default::default(), &page).unwrap().rows;
    let pending = requisitions.iter().filter(|row| row.status == RequisitionStatus::Pending);
    let links = snapshot.list_shared_links(OWN, None, &page).unwrap().rows;
    let tokens = snapshot.access_tokens(OWN, &page).unwrap().rows;
    let acting = tokens.iter().filter(|token| token.member() == Some(BOB_SLOT));
    let sessions = snapshot.sessions_of(UserSlot(0)).unwrap().len();
    [open.count(), pending.count(), links.len(), acting.count(), sessions]
}

fn set_up(desk: &Desk) {
    for company in [0, 1] {
        let new = new_company(company, chrono_tz::UTC, 1_000, 0);
        desk.change(AdminCommand::Company(CompanyCommand::Create(new)));
    }
    let mut ada = new_member(ADA, 0, "ada@example.com");
    ada.role = MemberRole::Administrator;
    desk.change(AdminCommand::Member(MemberCommand::Create(ada)));
    for (member, company) in [(BOB, 0), (FOREIGNER, 1)] {
        let bob = new_member(member, company, "bob@example.com");
        let bob = NewMember { role: MemberRole::Accountant, ..bob };
        desk.change(AdminCommand::Member(MemberCommand::Create(bob)));
    }
    desk.change(AdminCommand::User(UserCommand::Create(new_user(BOB, "Bob@Example.com"))));
    desk.change(AdminCommand::Ticket(TicketCommand::Issue(NewTicket {
        digest: digest(1, 1),
        id: ticket_id(1),
        user: user_id(BOB),
        expires_at: Timestamp(START * 2),
        address: String::new(),
        content: NewTicketContent::Session { user_agent: Default::default() },
    })));
    for card in 1..=CARDS + 1 {
        let mut new = new_card(card, 0, AllowanceTerms::budget(Minor(100)));
        // The last one is Ada's.
        let holder = if card > CARDS { ADA } else { BOB };
        new.order.assigned_to = Some(member_id(holder));
        desk.change(AdminCommand::Card(CardCommand::Issue(new)));
    }
    desk.change(AdminCommand::Card(CardCommand::Terminate(company_id(0), card_id(1))));
    for (number, email) in
        [(1, "BOB@example.com"), (2, "carol@example.com"), (3, "bob@example.com")]
    {
        let recipient = Some(Recipient { name: "B".parse().unwrap(), email: email.to_owned() });
        let link = NewSharedLink { recipient, ..new_link(number, CARDS + 1) };
        desk.change(AdminCommand::SharedLink(SharedLinkCommand::Create(link)));
    }
    for (number, member) in [(1, BOB), (2, BOB), (3, ADA)] {
        let new = new_requisition(RequisitionId(Uuid::from_u64_pair(15, number)), member);
        desk.change(AdminCommand::Requisition(RequisitionCommand::Create(new)));
    }
    let taken_back = RequisitionId(Uuid::from_u64_pair(15, 2));
    desk.change(AdminCommand::Requisition(RequisitionCommand::Cancel(company_id(0), taken_back)));
    for (number, member) in [(1, Some(BOB)), (2, Some(ADA)), (3, None), (4, Some(BOB))] {
        let grant = grant_of(number, 0, (None, member));
        desk.change(AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(grant))));
    }
}

#[test]
fn what_is_said_to_end_ends() {
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::create(&directory.path().join("data"));
    set_up(&desk);
    let before = standing(&desk.read());
    let said = desk.read().effects_of_leaving(BOB_SLOT).unwrap();
    assert_eq!(before, [CARDS as usize - 1, 2, 3, 2, 1]);
    assert_eq!((said.card_count, said.cards.len()), (CARDS - 1, limits::LEAVING_CARDS_NAMED_MAX));
    assert_eq!(said.cards[0], card_id(2), "the first is closed already");
    assert_eq!((said.pending_requisitions, said.shared_links, said.tokens), (1, 2, 2));
    assert!(!said.sessions_end, "he takes part elsewhere");
    let nobody = desk.read().effects_of_leaving(MemberSlot(99)).unwrap();
    assert_eq!(nobody, LeavingEffects::default());

    let elsewhere =
        AdminCommand::Member(MemberCommand::Delete(company_id(1), member_id(FOREIGNER)));
    desk.change(elsewhere);
    let said = desk.read().effects_of_leaving(BOB_SLOT).unwrap();
    assert!(said.sessions_end);
    desk.change(AdminCommand::Member(MemberCommand::Delete(company_id(0), member_id(BOB))));
    let after = standing(&desk.read());
    let ended: Vec<_> = before.iter().zip(after).map(|(before, after)| before - after).collect();
    assert_eq!(ended, [CARDS as usize - 1, 1, 2, 2, 1]);
    let nothing = desk.read().effects_of_leaving(BOB_SLOT).unwrap();
    assert_eq!(nothing.card_count + nothing.pending_requisitions + nothing.tokens, 0);
}
