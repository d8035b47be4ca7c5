//! Audit events of views alone: of the number of a card, of a card by its link.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::DirectoryRow;
use cardswitch_engine::directory::access_token::{AccessScope, AccessTokenCommand, NewAccessToken};
use cardswitch_engine::directory::card::{CardChanges, CardCommand, NumberViewer};
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand};
use cardswitch_engine::directory::member::MemberRole;
use cardswitch_engine::directory::shared_link::{SharedLink, SharedLinkCommand};
use cardswitch_engine::domain::company::CompanyState;
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp};
use cardswitch_engine::limits;

use crate::audit_events::events_of;
use crate::office::{ADA, BOB, FOREIGNER, Office, with_role};
use crate::samples::{company_id, digest, member_id, token_id};
use crate::shared_links::{card_id, link_id, new_link};

#[test]
fn whoever_is_shown_a_number_is_noted_and_nothing_changes() {
    let mut office = Office::open();
    office.give_card(1, None).unwrap();
    let shown = |company, card| shown_to(NumberViewer::Member(member_id(ADA)), (company, card));
    let [event] = events_of(&mut office, shown(0, 1)).unwrap().try_into().unwrap();
    assert_eq!((event.action.as_str(), event.object_kind.as_str()), ("card.number_shown", "card"));
    assert_eq!((event.object, event.company), (Some(card_id(1).0), Some(CompanySlot(0))));
    assert!(event.fields.is_empty());
    assert_eq!(office.last_effects().len(), 1, "the event and nothing else");
    // Another company's card, or none, is not found and not noted.
    for (company, card) in [(1, 1), (0, 9)] {
        let refused = events_of(&mut office, shown(company, card));
        assert_eq!(refused.unwrap_err(), Rejection::CardNotFound);
    }
    // A view without an actor leaves no event.
    let records = office.driver.ends.len();
    office.does(shown(0, 1));
    assert_eq!(office.driver.ends.len(), records);
    office.assert_replays();
}

fn shown_to(viewer: NumberViewer, (company, card): (u64, u64)) -> AdminCommand {
    let (company, card) = (company_id(company), card_id(card));
    AdminCommand::Card(CardCommand::NoteNumberShown(company, card, viewer))
}

/// A password was compared for seconds, and the number shown to whom the card was taken from
/// meanwhile.
#[test]
fn a_number_is_shown_to_whom_it_may_be_shown_now() {
    let mut office = Office::open();
    office.give_card(1, Some(BOB)).unwrap();
    office.give_card(2, None).unwrap();
    office.does(AdminCommand::SharedLink(SharedLinkCommand::Create(new_link(1, 1))));
    let member = |number| NumberViewer::Member(member_id(number));
    let link = |number| NumberViewer::Link(link_id(number));
    let nobody = Err(Rejection::MemberNotFound);
    let rows = [
        ("the holder", member(BOB), 1, Ok(())),
        ("an administrator", member(ADA), 1, Ok(())),
        ("the link", link(1), 1, Ok(())),
        ("another's card", member(BOB), 2, nobody),
        ("another company's member", member(FOREIGNER), 1, nobody),
        ("no link", link(9), 1, Err(Rejection::NotFound)),
        ("another card's link", link(1), 2, Err(Rejection::NotFound)),
    ];
    for (told, viewer, card, expected) in rows {
        assert_eq!(office.asks(shown_to(viewer, (0, card))), expected, "{told}");
    }
    let company_in = |state| {
        let changes = CompanyChanges { state: Some(state), ..CompanyChanges::default() };
        AdminCommand::Company(CompanyCommand::Update(company_id(0), changes))
    };
    office.does(company_in(CompanyState::Closed));
    for viewer in [member(BOB), member(ADA), link(1)] {
        let refused = Err(Rejection::CompanyClosed);
        assert_eq!(office.asks(shown_to(viewer, (0, 1))), refused, "{viewer:?}");
    }
    office.does(company_in(CompanyState::Active));
    let changes = CardChanges { assigned_to: Some(None), ..CardChanges::default() };
    office.does(AdminCommand::Card(CardCommand::Update(company_id(0), card_id(1), changes)));
    assert_eq!(office.asks(shown_to(member(BOB), (0, 1))), nobody, "the former holder");
    office.does(AdminCommand::SharedLink(SharedLinkCommand::Delete(company_id(0), link_id(1))));
    let gone = office.asks(shown_to(link(1), (0, 1)));
    assert_eq!(gone, Err(Rejection::NotFound), "a deleted link");
    office.does(AdminCommand::Card(CardCommand::Terminate(company_id(0), card_id(1))));
    let closed = office.asks(shown_to(member(ADA), (0, 1)));
    assert_eq!(closed, Err(Rejection::CardTerminated), "a closed card");
}

#[test]
fn tokens_of_the_company_with_the_scope_admin_see_numbers_until_they_are_revoked() {
    let mut office = Office::open();
    office.give_card(1, None).unwrap();
    let tokens = [(1, 0, true), (2, 0, false), (3, 1, true)];
    for (number, company, admin) in tokens {
        office.does(AdminCommand::AccessToken(AccessTokenCommand::Create(NewAccessToken {
            id: token_id(number),
            digest: digest(2, number),
            company: company_id(company),
            scope: AccessScope { admin, accountant: true, ..AccessScope::default() },
        })));
    }
    let unknown = Err(Rejection::TokenNotFound);
    for (token, expected) in [(1, Ok(())), (2, unknown), (3, unknown), (9, unknown)] {
        let shown = office.asks(shown_to(NumberViewer::Token(token_id(token)), (0, 1)));
        assert_eq!(shown, expected, "{token}");
    }
    let revoked = AccessTokenCommand::Revoke(company_id(0), token_id(1));
    office.does(AdminCommand::AccessToken(revoked));
    assert_eq!(office.asks(shown_to(NumberViewer::Token(token_id(1)), (0, 1))), unknown);
}

#[test]
fn administrators_see_the_number_of_anybodys_card_and_no_other_role_does() {
    let mut office = Office::open();
    office.give_card(1, None).unwrap();
    let nobody = Err(Rejection::MemberNotFound);
    for (role, expected) in [
        (MemberRole::Administrator, Ok(())),
        (MemberRole::Accountant, nobody),
        (MemberRole::Reviewer, nobody),
        (MemberRole::Member, nobody),
    ] {
        assert_eq!(office.update(BOB, with_role(role)), Ok(()));
        let shown = office.asks(shown_to(NumberViewer::Member(member_id(BOB)), (0, 1)));
        assert_eq!(shown, expected, "{role:?}");
    }
}

fn last_link(office: &Office) -> SharedLink {
    match office.last_effects().as_slice() {
        [Effect::Row(DirectoryRow::SharedLink(link))] => (**link).clone(),
        other => panic!("no link alone: {other:?}"),
    }
}

#[test]
fn a_view_of_a_shared_card_is_noted_once_a_minute_and_not_audited() {
    let mut office = Office::open();
    office.give_card(1, None).unwrap();
    office.does(AdminCommand::SharedLink(SharedLinkCommand::Create(new_link(1, 1))));
    let made = last_link(&office);
    let view = || AdminCommand::SharedLink(SharedLinkCommand::View(link_id(1)));
    assert_eq!(events_of(&mut office, view()), Ok(Vec::new()), "no event");
    let first = office.now();
    let expected = SharedLink { last_viewed_at: Some(Timestamp(first)), ..made.clone() };
    assert_eq!(last_link(&office), expected, "nothing else of it changes");
    let mut noted = 1;
    let records = office.driver.ends.len();
    for _ in 0..125 {
        let before = office.driver.ends.len();
        office.does(view());
        if office.driver.ends.len() > before {
            noted += 1;
            let at = last_link(&office).last_viewed_at.unwrap();
            let since = i64::from(noted - 1) * limits::LINK_VIEW_INTERVAL;
            assert_eq!(at, Timestamp(first + since), "view {noted}");
        }
    }
    assert_eq!((noted, office.driver.ends.len() - records), (3, 2));
    let unknown = office.asks(AdminCommand::SharedLink(SharedLinkCommand::View(link_id(9))));
    assert_eq!(unknown, Err(Rejection::NotFound));
    office.does(AdminCommand::SharedLink(SharedLinkCommand::Delete(company_id(0), link_id(1))));
    assert_eq!(office.asks(view()), Err(Rejection::NotFound));
    office.assert_replays();
}
