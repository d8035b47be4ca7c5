//! Companies and their members: approval, ids of their own, invitations.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::reply::{NetworkReply, Rejection, Reply};
use cardswitch_engine::directory::DirectoryRow;
use cardswitch_engine::directory::access_token::AccessTokenCommand;
use cardswitch_engine::directory::app::AppCommand;
use cardswitch_engine::directory::card::{CardChanges, CardCommand, CardDestination};
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand};
use cardswitch_engine::directory::member::{
    MemberChanges, MemberCommand, MemberRole, MemberState, NewMember,
};
use cardswitch_engine::directory::shared_link::{Recipient, SharedLinkChanges, SharedLinkCommand};
use cardswitch_engine::directory::ticket::{
    NewTicket, Ticket, TicketCommand, TicketContent, TicketState,
};
use cardswitch_engine::directory::user::NewInvite;
use cardswitch_engine::domain::account::FundingSource;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::company::{Address, CompanyState};
use cardswitch_engine::domain::credential::{PackedZip, PinVerifier};
use cardswitch_engine::domain::ids::{CardId, CardSlot, CompanySlot, Timestamp, UserSlot};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::limits;
use uuid::Uuid;

use super::{APP, code_of, exchange, grant_of, new_app, new_token, use_link};
use crate::desk::purchase;
use crate::model::HOUR;
use crate::office::{ADA, BOB, Office, leaving, new_member};
use crate::samples::{app_id, company_id, digest, member_id, new_card, ticket_id, user_id};
use crate::shared_links::{link_id, new_link};
use crate::webhook_endpoints::create as create_endpoint;

#[test]
fn a_company_that_is_not_approved_yet_buys_nothing() {
    let mut office = Office::open();
    office.give_card(1, None).unwrap();
    let code = |office: &mut Office, mark| match office.run(&purchase(100, mark)) {
        Reply::Network(NetworkReply::Authorization(reply)) => reply.response_code.number(),
        other => panic!("{other:?}"),
    };
    let rows =
        [(CompanyState::Pending, 1000), (CompanyState::Active, 0), (CompanyState::Closed, 1000)];
    for (mark, (state, expected)) in (1..).zip(rows) {
        let changes = CompanyChanges { state: Some(state), ..CompanyChanges::default() };
        office.does(AdminCommand::Company(CompanyCommand::Update(company_id(0), changes)));
        assert_eq!(code(&mut office, mark), expected, "{state:?}");
    }
}

/// A command once cleared the address of each card that it found without one, whatever had come
/// between.
#[test]
fn cards_without_an_address_of_their_own_follow_the_companys() {
    let mut office = Office::open();
    (1..=3).for_each(|number| office.give_card(number, None).unwrap());
    let card = |number| CardId(Uuid::from_u64_pair(4, number));
    let address = |zip: &str| Address { zip_code: zip.parse().unwrap(), ..Address::default() };
    let billing_address = Some(Some(address("60601")));
    let changes = CardChanges { billing_address, ..CardChanges::default() };
    office.does(AdminCommand::Card(CardCommand::Update(company_id(0), card(2), changes)));
    office.does(AdminCommand::Card(CardCommand::Terminate(company_id(0), card(3))));
    let changes =
        CompanyChanges { billing_address: Some(address("10005")), ..CompanyChanges::default() };
    office.does(AdminCommand::Company(CompanyCommand::Update(company_id(0), changes)));
    for number in 1..=3 {
        let follow = CardCommand::FollowBillingAddress(company_id(0), card(number));
        office.does(AdminCommand::Card(follow));
    }
    let zips = [0, 1, 2].map(|slot| office.driver.state.card(CardSlot(slot)).zip);
    assert_eq!(zips, ["10005", "60601", "94105"].map(PackedZip::pack));
    let of_others = CardCommand::FollowBillingAddress(company_id(1), card(1));
    assert_eq!(office.asks(AdminCommand::Card(of_others)), Err(Rejection::CardNotFound));
}

fn in_state(state: CompanyState) -> AdminCommand {
    let changes = CompanyChanges { state: Some(state), ..CompanyChanges::default() };
    AdminCommand::Company(CompanyCommand::Update(company_id(0), changes))
}

/// All that a company makes, or sends in its name. `office` has what each of it needs.
fn acts(office: &Office) -> Vec<AdminCommand> {
    let terms = AllowanceTerms::budget(Minor(10_000));
    let invited = |number: u64| MemberChanges {
        is_active: Some(true),
        invite: invite(office, number),
        ..MemberChanges::default()
    };
    let to_somebody = SharedLinkChanges {
        recipient: Some(Some(Recipient {
            name: "Carol".parse().unwrap(),
            email: "carol@example.com".to_owned(),
        })),
        ..SharedLinkChanges::default()
    };
    let card = CardId(Uuid::from_u64_pair(4, 1));
    let code = NewTicket {
        digest: digest(1, 61),
        id: ticket_id(61),
        user: user_id(BOB),
        expires_at: Timestamp(office.now() + HOUR),
        address: String::new(),
        content: code_of(APP, 0, BOB),
    };
    vec![
        AdminCommand::Member(MemberCommand::Create(new_member(60, 0, "sixty@example.com"))),
        AdminCommand::Member(MemberCommand::Update(company_id(0), member_id(5), invited(62))),
        send_link(office, 63, ADA),
        AdminCommand::Card(CardCommand::Issue(new_card(7, 0, terms))),
        AdminCommand::Card(CardCommand::IssueTogether(vec![new_card(8, 0, terms)])),
        AdminCommand::Card(CardCommand::SetPin(company_id(0), card, PinVerifier(7))),
        AdminCommand::SharedLink(SharedLinkCommand::Create(new_link(2, 1))),
        AdminCommand::SharedLink(SharedLinkCommand::Update(company_id(0), link_id(1), to_somebody)),
        create_endpoint(2, 0, None),
        AdminCommand::App(AppCommand::Create(new_app(2, 0))),
        AdminCommand::AccessToken(AccessTokenCommand::Create(new_token(60, 0))),
        AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(grant_of(
            61,
            0,
            (Some(APP), Some(BOB)),
        )))),
        AdminCommand::Ticket(TicketCommand::Issue(code)),
        exchange(50, 62, 0),
    ]
}

/// A company was closed for abuse, and its tokens and sessions went on to send letters.
#[test]
fn a_closed_company_makes_and_sends_nothing() {
    let mut office = Office::with_people();
    office.does(AdminCommand::Member(MemberCommand::Create(new_member(5, 0, "five@example.com"))));
    assert_eq!(office.update(5, leaving()), Ok(()));
    office.give_card(1, Some(BOB)).unwrap();
    office.does(AdminCommand::SharedLink(SharedLinkCommand::Create(new_link(1, 1))));
    office.does(create_endpoint(1, 0, None));
    office.issue(50, BOB, code_of(APP, 0, BOB)).unwrap();
    office.does(in_state(CompanyState::Closed));
    for act in acts(&office) {
        let told = format!("{act:?}");
        assert_eq!(office.asks(act), Err(Rejection::CompanyClosed), "{told}");
    }
    // What it has is put in order and ended.
    let card = CardId(Uuid::from_u64_pair(4, 1));
    let hidden = SharedLinkChanges { hide_balance: Some(true), ..SharedLinkChanges::default() };
    let ends = [
        AdminCommand::SharedLink(SharedLinkCommand::Update(company_id(0), link_id(1), hidden)),
        AdminCommand::SharedLink(SharedLinkCommand::Delete(company_id(0), link_id(1))),
        AdminCommand::Card(CardCommand::Terminate(company_id(0), card)),
        AdminCommand::Member(MemberCommand::Update(company_id(0), member_id(BOB), leaving())),
        AdminCommand::Member(MemberCommand::Delete(company_id(0), member_id(5))),
        AdminCommand::App(AppCommand::Delete(company_id(0), app_id(APP))),
    ];
    ends.into_iter().for_each(|end| office.does(end));
    office.assert_replays();
}

/// One that waits for approval is set up meanwhile.
#[test]
fn a_company_that_is_not_approved_yet_is_set_up() {
    let mut office = Office::with_people();
    office.does(AdminCommand::Member(MemberCommand::Create(new_member(5, 0, "five@example.com"))));
    assert_eq!(office.update(5, leaving()), Ok(()));
    office.give_card(1, Some(BOB)).unwrap();
    office.does(AdminCommand::SharedLink(SharedLinkCommand::Create(new_link(1, 1))));
    office.issue(50, BOB, code_of(APP, 0, BOB)).unwrap();
    office.does(in_state(CompanyState::Pending));
    acts(&office).into_iter().for_each(|act| office.does(act));
}

/// An order was drawn by the addresses at the head of its request, and kept the old ones.
#[test]
fn a_card_is_made_by_the_addresses_that_the_company_has_by_then() {
    let mut office = Office::open();
    let mut drawn = new_card(1, 0, AllowanceTerms::budget(Minor(10_000)));
    drawn.order.shipping_address = Some(CardDestination::Company);
    let address = |zip: &str| Address { zip_code: zip.parse().unwrap(), ..Address::default() };
    let changes = CompanyChanges {
        billing_address: Some(address("10005")),
        shipping_address: Some(address("60601")),
        ..CompanyChanges::default()
    };
    office.does(AdminCommand::Company(CompanyCommand::Update(company_id(0), changes)));
    office.does(AdminCommand::Card(CardCommand::Issue(drawn)));
    match office.last_effects().as_slice() {
        [Effect::CardIssued(card)] => {
            assert_eq!(card.record.zip, PackedZip::pack("10005"));
            assert_eq!(card.profile.shipping_address, Some(address("60601")));
        }
        other => panic!("{other:?}"),
    }
}

/// A verification was computed from an earlier read, and fell upon another bank account.
#[test]
fn another_bank_account_is_not_verified() {
    let mut office = Office::open();
    let source =
        |name: &str, is_verified| FundingSource { name: name.parse().unwrap(), is_verified };
    let rows = [
        (Some("First"), None, Some(source("First", false))),
        (None, Some(true), Some(source("First", true))),
        (Some("Second"), None, Some(source("Second", false))),
        (Some("Third"), Some(true), Some(source("Third", true))),
        (Some(""), None, None),
    ];
    for (name, funding_verified, expected) in rows {
        let funding_name = name.map(|name| name.parse().unwrap());
        let changes = CompanyChanges { funding_name, funding_verified, ..Default::default() };
        office.does(AdminCommand::Company(CompanyCommand::Update(company_id(0), changes)));
        match office.last_effects().as_slice() {
            [Effect::Account(account)] => assert_eq!(account.funding_source, expected),
            other => panic!("{name:?}: {other:?}"),
        }
    }
    let same = CompanyChanges { name: Some("Another".parse().unwrap()), ..Default::default() };
    office.does(AdminCommand::Company(CompanyCommand::Update(company_id(0), same)));
    assert_eq!(told(&office), ["Company"]);
}

#[test]
fn a_line_of_credit_is_an_amount() {
    let mut office = Office::open();
    let changed = |limit| CompanyChanges { credit_limit: Some(limit), ..Default::default() };
    let beyond = Minor(Minor::AMOUNT_MAX.0 + 1);
    for (limit, is_taken) in
        [(Minor(-1), false), (Minor::ZERO, true), (Minor::AMOUNT_MAX, true), (beyond, false)]
    {
        let update = CompanyCommand::Update(company_id(0), changed(limit));
        let expected = if is_taken { Ok(()) } else { Err(Rejection::OutOfBounds) };
        assert_eq!(office.asks(AdminCommand::Company(update)), expected, "{limit:?}");
    }
}

#[test]
fn external_ids_are_a_companys_own() {
    let mut office = Office::open();
    let called = |id: Option<&str>| MemberChanges {
        external_id: Some(id.map(|id| id.parse().unwrap())),
        ..MemberChanges::default()
    };
    let taken = Err(Rejection::ExternalIdTaken);
    let new = |number: u64, company, id: &str| {
        let member = new_member(number, company, &format!("m{number}@example.com"));
        let member = NewMember { external_id: Some(id.parse().unwrap()), ..member };
        AdminCommand::Member(MemberCommand::Create(member))
    };
    office.does(new(10, 0, "x"));
    assert_eq!(office.asks(new(11, 0, "x")), taken);
    assert_eq!(office.asks(new(11, 1, "x")), Ok(()), "another company");
    assert_eq!(office.asks(new(12, 0, "X")), Ok(()), "another case is another id");
    assert_eq!(office.update(BOB, called(Some("x"))), taken);
    assert_eq!(office.update(10, called(Some("x"))), Ok(()), "its own");
    assert_eq!(office.update(10, called(None)), Ok(()));
    assert_eq!(office.update(BOB, called(Some("x"))), Ok(()));
    // A deactivated member keeps the id, a deleted one does not.
    assert_eq!(office.update(BOB, leaving()), Ok(()));
    assert_eq!(office.update(10, called(Some("x"))), taken);
    office.does(AdminCommand::Member(MemberCommand::Delete(company_id(0), member_id(BOB))));
    assert_eq!(office.update(10, called(Some("x"))), Ok(()));
    office.assert_replays();
}

#[test]
fn an_invitation_makes_a_user_and_a_link_where_there_are_none() {
    let mut office = Office::with_people();
    let invited = |office: &mut Office, number: u64, company, email: &str| {
        let new = new_member(number, company, email);
        let new = NewMember { invite: invite(office, number), ..new };
        office.asks(AdminCommand::Member(MemberCommand::Create(new)))
    };
    // The address is new.
    assert_eq!(invited(&mut office, 20, 0, "new@example.com"), Ok(()));
    assert_eq!(told(&office), ["members", "users", "tickets"]);
    // The user has no password yet, and is a member of another company.
    assert_eq!(invited(&mut office, 21, 1, "New@example.com"), Ok(()));
    assert_eq!(told(&office), ["members", "tickets"]);
    // The user has a password.
    assert_eq!(invited(&mut office, 22, 1, "ada@example.com"), Ok(()));
    assert_eq!(told(&office), ["members"]);
    // Both links open until one of them is used.
    office.does(use_link(21));
    assert_eq!(office.asks(use_link(20)), Err(Rejection::TicketSpent));
    // A user's id or a link's secret that is in use leaves no member behind.
    let member = new_member(23, 0, "third@example.com");
    let taken = NewInvite { user: user_id(ADA), ..invite(&office, 23).unwrap() };
    let taken = NewMember { invite: Some(taken), ..member };
    assert_eq!(
        office.asks(AdminCommand::Member(MemberCommand::Create(taken))),
        Err(Rejection::IdTaken)
    );
    assert_eq!(invited(&mut office, 23, 0, "third@example.com"), Ok(()));
    office.assert_replays();
}

#[test]
fn who_takes_no_part_is_invited_on_coming_back() {
    let mut office = Office::open();
    let new = NewMember {
        is_active: false,
        role: MemberRole::Member,
        invite: invite(&office, 20),
        ..new_member(20, 0, "new@example.com")
    };
    let reviewer = NewMember { role: MemberRole::Reviewer, ..new.clone() };
    let refused = Err(Rejection::MemberInactive);
    assert_eq!(office.asks(AdminCommand::Member(MemberCommand::Create(reviewer))), refused);
    office.does(AdminCommand::Member(MemberCommand::Create(new)));
    assert_eq!(told(&office), ["members"], "nobody is invited who takes no part");
    match office.last_effects().as_slice() {
        [Effect::Row(DirectoryRow::Member(member))] => {
            assert_eq!((member.state, member.role), (MemberState::Inactive, MemberRole::Member));
        }
        other => panic!("{other:?}"),
    }
    let change = |is_active, invite| MemberChanges {
        is_active: Some(is_active),
        invite,
        ..MemberChanges::default()
    };
    let first = invite(&office, 20);
    assert_eq!(office.update(20, change(true, first)), Ok(()));
    assert_eq!(told(&office), ["members", "users", "tickets"]);
    let records = office.driver.ends.len();
    let second = invite(&office, 21);
    assert_eq!(office.update(20, change(true, second)), Ok(()));
    assert_eq!(office.driver.ends.len(), records, "whoever takes part is not invited again");
    office.does(use_link(20));
    assert_eq!(office.update(20, leaving()), Ok(()));
    let third = invite(&office, 22);
    assert_eq!(office.update(20, change(true, third)), Ok(()));
    assert_eq!(told(&office), ["members"], "who has a password needs no link");
    office.assert_replays();
}

/// Each activation sent one more link: the 101st ended the oldest, which another company had sent.
#[test]
fn a_company_ends_no_link_of_another() {
    let mut office = Office::with_people();
    let newcomer = "new@example.com";
    let invited = |office: &mut Office, number: u64, company, email: &str| {
        let new = new_member(number, company, email);
        let new = NewMember { invite: invite(office, number), ..new };
        office.does(AdminCommand::Member(MemberCommand::Create(new)));
    };
    invited(&mut office, 20, 1, newcomer);
    invited(&mut office, 21, 0, newcomer);
    for number in 100..=100 + limits::TICKETS_OF_USER_MAX as u64 {
        assert_eq!(office.update(21, leaving()), Ok(()));
        let invite = invite(&office, number);
        let again = MemberChanges { is_active: Some(true), invite, ..MemberChanges::default() };
        assert_eq!(office.update(21, again), Ok(()));
        let ended = vec![(TicketState::Ended, 1), (TicketState::Open, 1)];
        assert_eq!(office.last_ends().0, ended, "its own earlier link");
    }
    let sent_again = send_link(&office, 300, 21);
    office.does(sent_again);
    assert_eq!(office.last_ends().0, [(TicketState::Ended, 1), (TicketState::Open, 1)]);
    office.does(use_link(20));
    office.assert_replays();
}

/// One company's invitations took the room of all tickets: nobody of any company could sign in.
#[test]
fn open_links_of_a_company_are_bounded() {
    let mut office = Office::with_people();
    let now = Timestamp(office.now());
    let link = |number: u64| Ticket {
        digest: digest(3, number),
        id: ticket_id(number),
        user: UserSlot(0),
        created_at: now,
        expires_at: now.plus(HOUR),
        address: String::new(),
        state: TicketState::Open,
        content: TicketContent::PasswordLink { is_invite: true, sent_by: Some(CompanySlot(0)) },
    };
    let links = (1..limits::PASSWORD_LINKS_OF_COMPANY_MAX as u64).map(link).map(Effect::row);
    let (links, state) = (links.collect::<Vec<_>>(), &mut office.driver.state);
    state.apply_record(state.last_seq().next(), now, &links);
    let invited = |office: &mut Office, number: u64, company| {
        let new = new_member(number, company, &format!("m{number}@example.com"));
        let new = NewMember { invite: invite(office, number), ..new };
        office.asks(AdminCommand::Member(MemberCommand::Create(new)))
    };
    assert_eq!(invited(&mut office, 20_000, 0), Ok(()), "the last one");
    let full = Err(Rejection::TooManyPasswordLinks);
    assert_eq!(invited(&mut office, 20_001, 0), full);
    let sent_again = send_link(&office, 20_002, BOB);
    assert_eq!(office.asks(sent_again), full);
    assert_eq!(invited(&mut office, 20_003, 1), Ok(()), "another company");
    assert_eq!(office.issue(20_004, BOB, super::link()), Ok(()), "asked for by the user");
    office.does(use_link(20_000));
    assert_eq!(invited(&mut office, 20_005, 0), Ok(()), "one was used");
    office.wait_until(office.now() + HOUR);
    assert_eq!(invited(&mut office, 20_006, 0), Ok(()), "the others have expired");
}

fn invite(office: &Office, number: u64) -> Option<NewInvite> {
    let expires_at = Timestamp(office.now() + HOUR);
    let (user, ticket) = (user_id(number), ticket_id(number));
    Some(NewInvite { user, digest: digest(1, number), ticket, expires_at })
}

/// A further link of the first company to one of its members.
fn send_link(office: &Office, number: u64, member: u64) -> AdminCommand {
    let link = invite(office, number).unwrap();
    AdminCommand::Member(MemberCommand::SendPasswordLink(company_id(0), member_id(member), link))
}

/// The names of what the newest record changed.
fn told(office: &Office) -> Vec<String> {
    let name = |effect: &Effect| match effect {
        Effect::Row(row) => row.resource().to_owned(),
        other => format!("{other:?}").split(['(', ' ']).next().unwrap().to_owned(),
    };
    office.last_effects().iter().map(name).collect()
}
