//! The rules of members, row by row: creation, changes, and the consequences of leaving.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::network::{
    AuthorizationKind, Authorize, NetworkCommand, OriginalRef, PartialApproval, Present,
    PresentmentNumber, Refund, ReversalAmount, ReversalKind, Reverse,
};
use cardswitch_engine::command::reply::{NetworkReply, Rejection, Reply};
use cardswitch_engine::directory::DirectoryRow;
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessToken, TokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::card::{CardChanges, CardCommand, NewCard, SettableCardState};
use cardswitch_engine::directory::member::{
    MemberChanges, MemberCommand, MemberRole, MemberState, NewMember,
};
use cardswitch_engine::directory::requisition::{
    NewRequisition, RequisitionCommand, RequisitionStatus,
};
use cardswitch_engine::directory::shared_link::{
    NewSharedLink, Recipient, SharedLink, SharedLinkChanges, SharedLinkCommand,
};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::allowance::CardUsage;
use cardswitch_engine::domain::card::{CardState, DimensionKind};
use cardswitch_engine::domain::credential::PresentedCredentials;
use cardswitch_engine::domain::ids::{
    CardId, CardSlot, CompanySlot, DimensionId, MemberSlot, RequisitionId, SharedLinkId,
    SharedLinkSlot, Timestamp,
};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::limits;
use uuid::Uuid;

use crate::audit_events::events_of;
use crate::desk::purchase;
use crate::model::DAY;
use crate::office::{ADA, BOB, FOREIGNER, Office, leaving, new_member, with_role};
use crate::samples::{
    START, company_id, digest, facts, member_id, network, new_card, pan, token_id,
};
use crate::shared_links::{link_id, new_link};

fn with_code(code: &str) -> MemberChanges {
    MemberChanges { code: Some(Some(code.to_owned())), ..MemberChanges::default() }
}

#[test]
fn members_are_made_with_an_address_and_a_code_of_their_own() {
    let mut office = Office::open();
    office.does(AdminCommand::Member(MemberCommand::Update(
        company_id(0),
        member_id(BOB),
        with_code("7"),
    )));
    let coded = |number, email: &str, code: &str| NewMember {
        code: Some(code.to_owned()),
        ..new_member(number, 0, email)
    };
    let tagged = NewMember {
        dimensions: [None, Some(DimensionId(Uuid::nil())), None, None],
        ..new_member(9, 0, "new@example.com")
    };
    let rows = [
        (new_member(ADA, 0, "new@example.com"), Err(Rejection::IdTaken)),
        (new_member(9, 0, "bob@example.com"), Err(Rejection::EmailTaken)),
        (new_member(9, 0, "BOB@Example.COM"), Err(Rejection::EmailTaken)),
        (new_member(9, 7, "new@example.com"), Err(Rejection::CompanyNotFound)),
        (coded(9, "new@example.com", "7"), Err(Rejection::MemberCodeTaken)),
        (tagged, Err(Rejection::DimensionNotFound(DimensionKind::Department))),
        (coded(9, "new@example.com", "07"), Ok(())),
        // A code taken in one company is free in another.
        (NewMember { company: company_id(1), ..coded(10, "new@example.com", "7") }, Ok(())),
    ];
    for (new, expected) in rows {
        let told = format!("{new:?}");
        assert_eq!(
            office.asks(AdminCommand::Member(MemberCommand::Create(new))),
            expected,
            "{told}"
        );
    }
}

#[test]
fn changes_are_refused_for_one_reason_each() {
    let mut office = Office::open();
    office.does(AdminCommand::Member(MemberCommand::Update(
        company_id(0),
        member_id(BOB),
        with_code("7"),
    )));
    let inactive = Rejection::MemberInactive;
    let rows = [
        (ADA, with_code("7"), Err(Rejection::MemberCodeTaken)),
        (BOB, with_code("7"), Ok(())),
        (ADA, leaving(), Err(Rejection::LastAdministrator)),
        (ADA, with_role(MemberRole::Member), Err(Rejection::LastAdministrator)),
        (ADA, with_role(MemberRole::Administrator), Ok(())),
        (FOREIGNER, leaving(), Err(Rejection::MemberNotFound)),
        (99, leaving(), Err(Rejection::MemberNotFound)),
        (BOB, leaving(), Ok(())),
        (BOB, leaving(), Ok(())),
        // A role for a deactivated member was dropped without a word.
        (BOB, with_role(MemberRole::Reviewer), Err(Rejection::MemberInactive)),
        (BOB, with_role(MemberRole::Member), Ok(())),
        (BOB, MemberChanges { role: Some(MemberRole::Reviewer), ..leaving() }, Err(inactive)),
        (BOB, MemberChanges { is_active: Some(true), ..with_role(MemberRole::Reviewer) }, Ok(())),
        (BOB, MemberChanges { role: Some(MemberRole::Administrator), ..leaving() }, Ok(())),
        (BOB, MemberChanges { is_active: Some(true), ..leaving() }, Ok(())),
    ];
    for (number, changes, expected) in rows {
        let told = format!("{number}: {changes:?}");
        assert_eq!(office.update(number, changes), expected, "{told}");
    }
    let deletions = [
        (company_id(0), ADA, Err(Rejection::LastAdministrator)),
        (company_id(0), FOREIGNER, Err(Rejection::MemberNotFound)),
        (company_id(7), BOB, Err(Rejection::CompanyNotFound)),
        (company_id(0), BOB, Ok(())),
        (company_id(0), BOB, Ok(())),
    ];
    for (company, number, expected) in deletions {
        let command = AdminCommand::Member(MemberCommand::Delete(company, member_id(number)));
        assert_eq!(office.asks(command), expected, "{company:?} {number}");
    }
    assert_eq!(office.update(BOB, with_role(MemberRole::Reviewer)), Err(Rejection::MemberDeleted));
    // Address and code are free again.
    let again = NewMember { code: Some("7".to_owned()), ..new_member(9, 0, "bob@example.com") };
    office.does(AdminCommand::Member(MemberCommand::Create(again)));
}

#[test]
fn a_second_administrator_lets_the_first_go() {
    let mut office = Office::open();
    let carol = NewMember { role: MemberRole::Administrator, ..new_member(5, 0, "c@example.com") };
    office.does(AdminCommand::Member(MemberCommand::Create(carol)));
    assert_eq!(office.update(ADA, leaving()), Ok(()));
    assert_eq!(office.update(5, leaving()), Err(Rejection::LastAdministrator));
    // A member who comes back is no administrator any more.
    let back = MemberChanges { is_active: Some(true), ..MemberChanges::default() };
    assert_eq!(office.update(ADA, back), Ok(()));
    assert_eq!(office.update(5, leaving()), Err(Rejection::LastAdministrator));
}

#[test]
fn leaving_is_one_record_with_all_that_ends() {
    let mut office = Office::open();
    for (number, holder) in [(1, Some(BOB)), (2, Some(ADA)), (3, None), (4, Some(BOB))] {
        office.give_card(number, holder).unwrap();
    }
    let third = CardId(Uuid::from_u64_pair(4, 3));
    let to_bob = CardChanges { assigned_to: Some(Some(member_id(BOB))), ..Default::default() };
    office.does(AdminCommand::Card(CardCommand::Update(company_id(0), third, to_bob)));
    office.does(AdminCommand::Card(CardCommand::Terminate(
        company_id(0),
        CardId(Uuid::from_u64_pair(4, 4)),
    )));
    for (number, who) in [(1, BOB), (2, ADA), (3, BOB)] {
        office.does(AdminCommand::Requisition(RequisitionCommand::Create(asking(number, who, 4))));
    }
    office.does(AdminCommand::Requisition(RequisitionCommand::Cancel(
        company_id(0),
        RequisitionId(Uuid::from_u128(3)),
    )));
    for (slot, email) in [(0, "BOB@example.com"), (1, "ada@example.com"), (2, "bob@example.com")] {
        let company = CompanySlot(u32::from(slot == 2));
        let link = SharedLink { company, ..shared_link(slot, email, 32) };
        office.driver.state.apply(&Effect::row(link));
    }

    let changes = MemberChanges { role: Some(MemberRole::Reviewer), ..leaving() };
    assert_eq!(office.update(BOB, changes), Ok(()));
    let mut told = Vec::new();
    for effect in office.last_effects() {
        told.push(match effect {
            Effect::Row(DirectoryRow::Member(member)) => {
                assert_eq!((member.id, member.role), (member_id(BOB), MemberRole::Member));
                format!("member {:?}", member.state)
            }
            Effect::CardUsage(slot, usage) => format!("card {} {:?}", slot.0, usage.state),
            Effect::Row(DirectoryRow::Requisition(asked)) => {
                format!("requisition {} {:?}", asked.slot.0, asked.status)
            }
            Effect::Row(DirectoryRow::SharedLink(link)) => {
                assert!(link.is_deleted && link.sealed_passphrase.is_none());
                format!("link {}", link.slot.0)
            }
            other => panic!("{other:?}"),
        });
    }
    let inactive = format!("member {:?}", MemberState::Inactive);
    let denied = format!("requisition 0 {:?}", RequisitionStatus::Denied);
    let closed = ["card 0 Terminated", "card 2 Terminated"];
    let expected = [inactive.as_str(), closed[0], closed[1], denied.as_str(), "link 0"];
    assert_eq!(told, expected);
    let states = [1, 2, 3, 4].map(|card| office.state_of(card));
    assert_eq!(states[1], CardState::Active);
    assert!([0, 2, 3].iter().all(|place| states[*place] == CardState::Terminated));

    // Deletion only adds that nobody can log in.
    office.does(AdminCommand::Member(MemberCommand::Delete(company_id(0), member_id(BOB))));
    match office.last_effects().as_slice() {
        [Effect::Row(DirectoryRow::Member(member))] => {
            assert_eq!(member.state, MemberState::Deleted);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_next_purchase_is_declined_as_with_a_closed_card() {
    let mut office = Office::open();
    // The desk's card has this number.
    office.give_card(1, Some(BOB)).unwrap();
    let code = |office: &mut Office, mark| match office.run(&purchase(100, mark)) {
        Reply::Network(NetworkReply::Authorization(reply)) => reply.response_code.number(),
        other => panic!("{other:?}"),
    };
    assert_eq!(code(&mut office, 1), 0);
    assert_eq!(office.update(BOB, leaving()), Ok(()));
    assert_eq!(code(&mut office, 2), 1000);
    let back = MemberChanges { is_active: Some(true), ..MemberChanges::default() };
    assert_eq!(office.update(BOB, back), Ok(()));
    assert_eq!(code(&mut office, 3), 1000, "coming back opens no card");
}

/// A line named the holder of the card when the merchant settled. It names the member who made the
/// purchase, whatever happens to the card and however late.
#[test]
fn lines_name_who_made_the_purchase_whoever_holds_the_card_since() {
    let mut office = Office::open();
    office.give_card(1, Some(BOB)).unwrap();
    let bought = |number: u64| OriginalRef {
        retrieval_key: facts(pan(1), 0, number).trace.retrieval_key,
        ..OriginalRef::default()
    };
    for mark in [1, 2, 3] {
        office.run(&purchase(100, mark));
    }
    let at_once = Authorize {
        facts: facts(pan(1), 100, 4),
        kind: AuthorizationKind::SingleMessage,
        credentials: PresentedCredentials::default(),
        partial: PartialApproval::default(),
    };
    office.run(&network(NetworkCommand::Authorize(at_once)));
    let present = |named: u64, own: Option<u64>, number: u8| Present {
        facts: own.map(|mark| facts(pan(1), 40, mark)),
        amounts: Some(facts(pan(1), 40, 0).amounts),
        original: bought(named),
        number: PresentmentNumber { number, count: 2 },
    };
    let refund = |mark: u64, named: u64| {
        let original = if named == 0 { OriginalRef::default() } else { bought(named) };
        NetworkCommand::Refund(Refund { facts: facts(pan(1), 10, mark), original })
    };
    let reverse = |named: u64| {
        let (amount, kind) = (ReversalAmount::Full, ReversalKind::Request);
        let (card, original) = (Some(pan(1)), bought(named));
        NetworkCommand::Reverse(Reverse { card, original, amount, kind })
    };
    let steps = [
        ("the first of two", NetworkCommand::Present(present(1, None, 1)), BOB),
        ("the last of two", NetworkCommand::Present(present(1, Some(1), 2)), BOB),
        ("after the last", NetworkCommand::Present(present(1, None, 9)), BOB),
        ("a refund of it", refund(11, 1), BOB),
        ("the refund back", reverse(11), BOB),
        ("what was settled at once, back", reverse(4), BOB),
        ("never authorized", NetworkCommand::Present(present(77, Some(77), 1)), ADA),
        ("a refund of nothing known", refund(12, 0), ADA),
        ("that refund back", reverse(12), ADA),
    ];
    let to = |who: Option<u64>| CardChanges {
        assigned_to: Some(who.map(member_id)),
        ..CardChanges::default()
    };
    let card = CardId(Uuid::from_u64_pair(4, 1));
    office.does(AdminCommand::Card(CardCommand::Update(company_id(0), card, to(Some(ADA)))));
    for (what, command, who) in steps {
        office.run(&network(command));
        let line = office.last_line();
        assert_eq!(line.member, Some(MemberSlot(who as u32 - 1)), "{what}");
        assert_eq!(line.description, format!("A Restaurant - Card 1 - Member {who}"), "{what}");
    }
    // The card has no holder, and the hold of the purchase has long ended.
    office.does(AdminCommand::Card(CardCommand::Update(company_id(0), card, to(None))));
    office.pass(40 * DAY);
    office.run(&network(NetworkCommand::Present(present(2, None, 1))));
    let line = office.last_line();
    assert_eq!(line.description, format!("A Restaurant - Card 1 - Member {BOB}"));
    office.run(&network(NetworkCommand::Present(present(78, Some(78), 1))));
    let line = office.last_line();
    assert_eq!((line.member, line.description.as_str()), (None, "A Restaurant - Card 1"));
    // A deleted member is still named.
    office.does(AdminCommand::Member(MemberCommand::Delete(company_id(0), member_id(BOB))));
    office.run(&network(NetworkCommand::Present(present(3, None, 1))));
    assert_eq!(office.last_line().member, Some(MemberSlot(BOB as u32 - 1)));
}

#[test]
fn cards_go_to_members_who_take_part() {
    let mut office = Office::open();
    office.give_card(1, None).unwrap();
    assert_eq!(office.give_card(2, Some(FOREIGNER)), Err(Rejection::MemberNotFound));
    assert_eq!(office.give_card(2, Some(99)), Err(Rejection::MemberNotFound));
    office.give_card(2, Some(BOB)).unwrap();
    assert_eq!(office.update(BOB, leaving()), Ok(()));
    assert_eq!(office.give_card(3, Some(BOB)), Err(Rejection::MemberNotFound));
    let assign = |office: &mut Office, card: u64, holder: Option<u64>| {
        let assigned_to = Some(holder.map(member_id));
        let changes = CardChanges { assigned_to, ..CardChanges::default() };
        let card = CardId(Uuid::from_u64_pair(4, card));
        office.asks(AdminCommand::Card(CardCommand::Update(company_id(0), card, changes)))
    };
    assert_eq!(assign(&mut office, 1, Some(BOB)), Err(Rejection::MemberNotFound));
    assert_eq!(assign(&mut office, 1, Some(ADA)), Ok(()));
    // Bob's card was closed with him: it stays his.
    assert_eq!(assign(&mut office, 2, Some(BOB)), Ok(()));
    assert_eq!(assign(&mut office, 2, Some(ADA)), Err(Rejection::CardTerminated));
    assert_eq!(assign(&mut office, 2, None), Err(Rejection::CardTerminated));
}

/// A physical card was once activated without a holder: it was suspended first, then opened.
#[test]
fn a_physical_card_becomes_active_only_with_a_holder() {
    let mut office = Office::open();
    let mut card = new_card(1, 0, AllowanceTerms::budget(Minor(10_000)));
    (card.order.is_virtual, card.state) = (false, CardState::Unactivated);
    office.does(AdminCommand::Card(CardCommand::Issue(card)));
    let put = |office: &mut Office, state, assigned_to: Option<Option<u64>>| {
        let assigned_to = assigned_to.map(|holder| holder.map(member_id));
        let changes = CardChanges { state, assigned_to, ..CardChanges::default() };
        let card = CardId(Uuid::from_u64_pair(4, 1));
        let command = CardCommand::Update(company_id(0), card, changes);
        office.asks(AdminCommand::Card(command)).map(|()| office.state_of(1))
    };
    let (active, suspended) = (SettableCardState::Active, SettableCardState::Suspended);
    let refused = Err(Rejection::AssigneeMissing);
    let rows = [
        (Some(active), None, refused),
        (Some(suspended), None, Ok(CardState::Suspended)),
        (Some(active), None, refused),
        (Some(active), Some(Some(ADA)), Ok(CardState::Active)),
        // An active card stays active without its holder.
        (Some(active), Some(None), Ok(CardState::Active)),
        (Some(suspended), None, Ok(CardState::Suspended)),
        (Some(active), None, refused),
        (Some(active), Some(Some(BOB)), Ok(CardState::Active)),
        (Some(suspended), None, Ok(CardState::Suspended)),
        (Some(active), Some(None), refused),
        (Some(active), None, Ok(CardState::Active)),
    ];
    for (row, (state, holder, expected)) in rows.into_iter().enumerate() {
        assert_eq!(put(&mut office, state, holder), expected, "row {row}");
    }
}

/// All that a member may have goes with the member, in one record; one card more is refused.
#[test]
fn a_member_with_all_that_one_may_have_still_leaves() {
    let mut office = Office::open();
    let cards = limits::MEMBER_CARDS_MAX as u64;
    for number in 1..=cards {
        office.give_card(number, Some(BOB)).unwrap();
    }
    assert_eq!(office.give_card(cards + 1, Some(BOB)), Err(Rejection::TooManyCards));
    office.give_card(cards + 1, Some(ADA)).unwrap();
    let last = CardId(Uuid::from_u64_pair(4, cards + 1));
    let to_bob = CardChanges { assigned_to: Some(Some(member_id(BOB))), ..Default::default() };
    let command = AdminCommand::Card(CardCommand::Update(company_id(0), last, to_bob.clone()));
    assert_eq!(office.asks(command), Err(Rejection::TooManyCards));
    let two = [cards + 2, cards + 3].map(|number| {
        let mut card = new_card(number, 0, AllowanceTerms::budget(Minor(10_000)));
        card.order.assigned_to = Some(member_id(BOB));
        card
    });
    let together = |cards: &[NewCard]| AdminCommand::Card(CardCommand::IssueTogether(cards.into()));
    assert_eq!(office.asks(together(&two)), Err(Rejection::TooManyCards));
    // A card that is closed makes room, for one.
    office.does(AdminCommand::Card(CardCommand::Terminate(
        company_id(0),
        CardId(Uuid::from_u64_pair(4, 1)),
    )));
    assert_eq!(office.asks(together(&two)), Err(Rejection::TooManyCards));
    office.does(AdminCommand::Card(CardCommand::Update(company_id(0), last, to_bob)));

    let pending = limits::MEMBER_REQUISITIONS_PENDING_MAX as u64;
    for number in 0..pending {
        office.does(AdminCommand::Requisition(RequisitionCommand::Create(asking(
            number, BOB, 4_000,
        ))));
    }
    let links = limits::SHARED_LINKS_TO_ADDRESS_MAX;
    for slot in 0..links {
        let link = shared_link(slot as u32, "bob@example.com", 100);
        office.driver.state.apply(&Effect::row(link));
    }
    let one_more = AdminCommand::Requisition(RequisitionCommand::Create(asking(pending, BOB, 4)));
    assert_eq!(office.asks(one_more), Err(Rejection::TooManyRequisitions));
    let tokens = limits::TOKENS_OF_MEMBER_MAX;
    for number in 0..tokens {
        // Bob is the second member.
        office.driver.state.apply(&Effect::row(token_of(MemberSlot(1), number as u64)));
    }
    // Cards in full use take more of the record than new ones.
    for slot in (1..=cards as u32).map(CardSlot) {
        let usage = office.driver.state.card(slot).usage;
        office.driver.state.apply(&Effect::CardUsage(slot, in_full_use(usage)));
    }
    let leave = MemberCommand::Update(company_id(0), member_id(BOB), leaving());
    let events = events_of(&mut office, AdminCommand::Member(leave)).unwrap();
    assert_eq!(events.len(), 1 + links + (cards + pending) as usize);
    let audits = 4;
    let closed = links + tokens + (cards + pending) as usize;
    assert_eq!(office.last_effects().len(), 1 + closed + audits);
    assert_eq!(office.state_of(cards + 1), CardState::Terminated);
}

/// Links to a member's own address filled the record of leaving: the deactivation was refused.
#[test]
fn an_address_has_room_for_so_many_links() {
    let mut office = Office::open();
    office.give_card(1, None).unwrap();
    let room = limits::SHARED_LINKS_TO_ADDRESS_MAX as u64;
    for slot in 0..room - 1 {
        // Of many cards, none of which has too many.
        let link = shared_link(slot as u32, "bob@example.com", 1);
        let link = SharedLink { card: CardSlot(1 + slot as u32), ..link };
        office.driver.state.apply(&Effect::row(link));
    }
    let share = |number, email: &str| {
        let recipient = Recipient { name: "Bob".parse().unwrap(), email: email.to_owned() };
        let link = NewSharedLink { recipient: Some(recipient), ..new_link(number, 1) };
        AdminCommand::SharedLink(SharedLinkCommand::Create(link))
    };
    let send_to = |email: &str| {
        let recipient = Recipient { name: "Bob".parse().unwrap(), email: email.to_owned() };
        let changes = SharedLinkChanges { recipient: Some(Some(recipient)), ..Default::default() };
        AdminCommand::SharedLink(SharedLinkCommand::Update(company_id(0), link_id(2), changes))
    };
    let full = Err(Rejection::TooManyLinksToAddress);
    let delete = AdminCommand::SharedLink(SharedLinkCommand::Delete(company_id(0), link_id(1)));
    let rows = [
        ("the last one", share(1, "bob@example.com"), Ok(())),
        ("one more", share(2, "BOB@example.com"), full),
        ("another address", share(2, "carol@example.com"), Ok(())),
        ("an old link", send_to("bob@example.com"), full),
        ("its own address", send_to("Carol@example.com"), Ok(())),
        ("a deletion", delete, Ok(())),
        ("an old link, once more", send_to("bob@example.com"), Ok(())),
    ];
    for (told, command, expected) in rows {
        assert_eq!(office.asks(command), expected, "{told}");
    }
}

#[test]
fn what_does_not_fit_a_record_is_refused_and_changes_nothing() {
    let mut office = Office::open();
    for slot in 0..20_000 {
        let link = shared_link(slot, "bob@example.com", 100);
        office.driver.state.apply(&Effect::row(link));
    }
    let before = office.driver.state.state_hash();
    assert_eq!(office.update(BOB, leaving()), Err(Rejection::TooMuchAtOnce));
    assert_eq!(office.driver.state.state_hash(), before);
}

pub(crate) fn asking(number: u64, who: u64, text_bytes: usize) -> NewRequisition {
    NewRequisition {
        id: RequisitionId(Uuid::from_u128(u128::from(number))),
        company: company_id(0),
        member: member_id(who),
        amount: Minor(500),
        description: "x".repeat(text_bytes).parse().unwrap(),
        end_time: None,
        note: Some("y".repeat(text_bytes).parse().unwrap()),
        dimensions: [None; 4],
    }
}

/// The largest values that a card's usage has.
fn in_full_use(usage: CardUsage) -> CardUsage {
    CardUsage {
        spent: Minor::AMOUNT_MAX,
        day_spent: Minor::AMOUNT_MAX,
        period: u32::MAX,
        pin_failures: u8::MAX,
        ..usage
    }
}

/// A token that acts for a member, with a long label.
fn token_of(member: MemberSlot, number: u64) -> AccessToken {
    AccessToken {
        digest: digest(3, number),
        id: token_id(number),
        company: CompanySlot(0),
        scope: AccessScope::default(),
        is_revoked: false,
        created_at: Timestamp(START),
        grant: Some(TokenGrant {
            app: None,
            member: Some(member),
            origin: TokenOrigin::Password,
            label: "z".repeat(800),
        }),
    }
}

pub(crate) fn shared_link(slot: u32, email: &str, sealed_bytes: usize) -> SharedLink {
    SharedLink {
        slot: SharedLinkSlot(slot),
        id: SharedLinkId(Uuid::from_u128(u128::from(slot))),
        company: CompanySlot(0),
        card: CardSlot(0),
        key_digest: u128::from(slot).to_be_bytes(),
        sealed_key: vec![1; sealed_bytes],
        recipient: Some(Recipient { name: "Bob".parse().unwrap(), email: email.to_owned() }),
        sealed_passphrase: Some(vec![2; sealed_bytes]),
        hide_balance: false,
        last_viewed_at: None,
        is_deleted: false,
        created_at: Timestamp(START),
    }
}
