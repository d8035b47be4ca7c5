//! Shared links and single sign-on: refusals, rows of the tables, and both again after a start.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand};
use cardswitch_engine::directory::shared_link::{
    NewSharedLink, Recipient, SharedLink, SharedLinkChanges, SharedLinkCommand,
};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::company::SingleSignOn;
use cardswitch_engine::domain::ids::{CardId, CardSlot, CompanyId, CompanySlot, SharedLinkId};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::limits;
use cardswitch_engine::store::Snapshot;
use cardswitch_engine::store::query::Page;
use uuid::Uuid;

use crate::desk::Desk;
use crate::samples::{admin, company_id, new_card, new_company};

const OWN: CompanySlot = CompanySlot(0);

/// Two companies, with cards 1 and 2 of the first and card 3 of the second.
fn set_up(desk: &Desk) {
    for company in [0, 1] {
        let new = new_company(company, chrono_tz::UTC, 1_000, 0);
        desk.change(AdminCommand::Company(CompanyCommand::Create(new)));
    }
    for (card, company) in [(1, 0), (2, 0), (3, 1)] {
        let terms = AllowanceTerms::budget(Minor(100));
        desk.change(AdminCommand::Card(CardCommand::Issue(new_card(card, company, terms))));
    }
}

pub(crate) fn card_id(number: u64) -> CardId {
    new_card(number, 0, AllowanceTerms::budget(Minor(0))).id
}

pub(crate) fn link_id(number: u64) -> SharedLinkId {
    SharedLinkId(Uuid::from_u64_pair(9, number))
}

fn digest(number: u64) -> [u8; 16] {
    u128::from(number).to_le_bytes()
}

pub(crate) fn new_link(number: u64, card: u64) -> NewSharedLink {
    NewSharedLink {
        id: link_id(number),
        company: company_id(0),
        card: card_id(card),
        key_digest: digest(number),
        sealed_key: vec![1; 60],
        recipient: Some(recipient("ada@example.com")),
        sealed_passphrase: Some(vec![2; 60]),
        hide_balance: false,
    }
}

fn recipient(email: &str) -> Recipient {
    Recipient { name: "Ada".parse().unwrap(), email: email.to_owned() }
}

fn refusal(desk: &Desk, command: AdminCommand) -> Option<Rejection> {
    match desk.ask(admin(command)) {
        Reply::Done(_) => None,
        Reply::Rejected(rejection) => Some(rejection),
        other => panic!("{other:?}"),
    }
}

fn listed(snapshot: &Snapshot, card: Option<u32>) -> Vec<SharedLinkId> {
    let page = Page::first(limits::PAGE_LEN_MAX);
    let listed = snapshot.list_shared_links(OWN, card.map(CardSlot), &page).unwrap();
    assert_eq!(listed.count, listed.rows.len() as u64);
    listed.rows.iter().map(|link| link.id).collect()
}

#[test]
fn links_are_refused_for_reasons() {
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::create(&directory.path().join("data"));
    set_up(&desk);
    desk.change(AdminCommand::SharedLink(SharedLinkCommand::Create(new_link(1, 1))));
    desk.change(AdminCommand::Card(CardCommand::Terminate(company_id(0), card_id(2))));
    let (own, other) = (company_id(0), company_id(1));
    let nobody = CompanyId(Uuid::nil());
    let change = || SharedLinkChanges { hide_balance: Some(true), ..SharedLinkChanges::default() };
    let create = |new| AdminCommand::SharedLink(SharedLinkCommand::Create(new));
    let rows = [
        (create(new_link(1, 1)), Some(Rejection::IdTaken)),
        (create(new_link(2, 2)), Some(Rejection::CardTerminated)),
        (create(new_link(2, 3)), Some(Rejection::CardNotFound)),
        (create(new_link(2, 4)), Some(Rejection::CardNotFound)),
        (
            create(NewSharedLink { company: nobody, ..new_link(2, 1) }),
            Some(Rejection::CompanyNotFound),
        ),
        (
            AdminCommand::SharedLink(SharedLinkCommand::Update(own, link_id(2), change())),
            Some(Rejection::NotFound),
        ),
        (
            AdminCommand::SharedLink(SharedLinkCommand::Update(other, link_id(1), change())),
            Some(Rejection::NotFound),
        ),
        (
            AdminCommand::SharedLink(SharedLinkCommand::Delete(other, link_id(1))),
            Some(Rejection::NotFound),
        ),
        (AdminCommand::SharedLink(SharedLinkCommand::Update(own, link_id(1), change())), None),
        (AdminCommand::SharedLink(SharedLinkCommand::Delete(own, link_id(1))), None),
        (
            AdminCommand::SharedLink(SharedLinkCommand::Delete(own, link_id(1))),
            Some(Rejection::NotFound),
        ),
        (
            AdminCommand::SharedLink(SharedLinkCommand::Update(own, link_id(1), change())),
            Some(Rejection::NotFound),
        ),
        (create(new_link(1, 1)), Some(Rejection::IdTaken)),
        (create(new_link(2, 1)), None),
    ];
    for (command, expected) in rows {
        let told = format!("{command:?}");
        assert_eq!(refusal(&desk, command), expected, "{told}");
    }
}

#[test]
fn a_card_has_room_for_so_many_links() {
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::create(&directory.path().join("data"));
    set_up(&desk);
    let room = limits::SHARED_LINKS_OF_CARD_MAX as u64;
    for number in 0..room {
        desk.change(AdminCommand::SharedLink(SharedLinkCommand::Create(new_link(number, 1))));
    }
    let another = || AdminCommand::SharedLink(SharedLinkCommand::Create(new_link(room, 1)));
    assert_eq!(refusal(&desk, another()), Some(Rejection::TooManySharedLinks));
    desk.change(AdminCommand::SharedLink(SharedLinkCommand::Create(new_link(room + 1, 2))));
    desk.change(AdminCommand::SharedLink(SharedLinkCommand::Delete(company_id(0), link_id(0))));
    assert_eq!(refusal(&desk, another()), None, "deleted ones take no room");
}

#[test]
fn the_tables_show_links_as_they_stand_also_after_a_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let desk = Desk::create(&path);
    set_up(&desk);
    for (number, card) in [(1, 1), (2, 2), (3, 1), (4, 1)] {
        desk.change(AdminCommand::SharedLink(SharedLinkCommand::Create(new_link(number, card))));
    }
    let changes = SharedLinkChanges {
        recipient: Some(Some(recipient("bo@example.com"))),
        sealed_passphrase: Some(None),
        hide_balance: None,
    };
    desk.change(AdminCommand::SharedLink(SharedLinkCommand::Update(
        company_id(0),
        link_id(3),
        changes,
    )));
    desk.change(AdminCommand::SharedLink(SharedLinkCommand::Delete(company_id(0), link_id(4))));
    // A closed card keeps its links.
    desk.change(AdminCommand::Card(CardCommand::Terminate(company_id(0), card_id(2))));
    let sso = SingleSignOn { domain: "example.com".to_owned(), idp_metadata: "<a/>".to_owned() };
    let changes = |sso: Option<&SingleSignOn>| CompanyChanges {
        sso: Some(sso.cloned()),
        ..CompanyChanges::default()
    };
    let set = |sso| AdminCommand::Company(CompanyCommand::Update(company_id(0), changes(sso)));
    let changed = desk.change(set(Some(&sso)));
    assert_eq!(desk.change(set(Some(&sso))), changed, "nothing is recorded twice");

    let check = |desk: &Desk| {
        let snapshot = desk.read();
        assert_eq!(listed(&snapshot, None), [3, 2, 1].map(link_id));
        assert_eq!(listed(&snapshot, Some(0)), [3, 1].map(link_id));
        let newest: SharedLink = snapshot.shared_link_of_card(CardSlot(0)).unwrap().unwrap();
        assert_eq!(newest.recipient, Some(recipient("bo@example.com")));
        assert_eq!((newest.sealed_passphrase, newest.last_viewed_at), (None, None));
        assert_eq!(snapshot.own::<SharedLink>(OWN, link_id(4)).unwrap(), None);
        assert_eq!(snapshot.own::<SharedLink>(CompanySlot(1), link_id(1)).unwrap(), None);
        let by_key = |number| snapshot.shared_link_by_key(digest(number)).unwrap();
        assert_eq!(by_key(1).map(|link| link.id), Some(link_id(1)));
        assert_eq!(by_key(4), None, "a deleted link opens nothing");
        let tombstone =
            snapshot.row::<SharedLink>(cardswitch_engine::domain::ids::SharedLinkSlot(3));
        let tombstone = tombstone.unwrap().unwrap();
        assert!(tombstone.is_deleted && tombstone.sealed_key.is_empty());
        assert_eq!((tombstone.recipient, tombstone.sealed_passphrase), (None, None));
        assert_eq!(snapshot.company_sso(OWN).unwrap().as_ref(), Some(&sso));
        assert_eq!(snapshot.company_sso(CompanySlot(1)).unwrap(), None);
    };
    check(&desk);
    desk.engine.shut_down();
    drop(desk);

    let desk = Desk::open(&path);
    check(&desk);
    assert_eq!(
        refusal(&desk, AdminCommand::SharedLink(SharedLinkCommand::Create(new_link(1, 1)))),
        Some(Rejection::IdTaken)
    );
    desk.change(set(None));
    assert_eq!(desk.read().company_sso(OWN).unwrap(), None);
    assert_eq!(
        refusal(
            &desk,
            AdminCommand::Company(CompanyCommand::Update(CompanyId(Uuid::nil()), changes(None)))
        ),
        Some(Rejection::CompanyNotFound)
    );
}
