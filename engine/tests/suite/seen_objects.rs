//! Changes on condition that an object is as it was seen: refused without effects where it has changed.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::NetworkCommand;
use cardswitch_engine::command::reply::{NetworkReply, Rejection, Reply};
use cardswitch_engine::command::seen_object::{SeenObject, WatchedObject};
use cardswitch_engine::directory::access_token::{AccessTokenCommand, NewTokenGrant, TokenOrigin};
use cardswitch_engine::directory::allowance::{AllowanceChanges, AllowanceCommand};
use cardswitch_engine::directory::card::{CardChanges, CardCommand, NewCard};
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand};
use cardswitch_engine::directory::requisition::{RequisitionChanges, RequisitionCommand};
use cardswitch_engine::directory::shared_link::SharedLinkCommand;
use cardswitch_engine::directory::transaction::TransactionCommand;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::ids::{
    AllowanceId, CardId, CardSlot, MemberSlot, RecordSeq, RequisitionId, TransactionSeq,
};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::transaction_tags::TagChanges;
use uuid::Uuid;

use crate::office::{ADA, BOB, Office};
use crate::people::grant_of;
use crate::requisitions::new_requisition;
use crate::samples::{company_id, facts, member_id, network, new_card, pan, token_id};
use crate::shared_links::{link_id, new_link};
use crate::story::purchase;

const ADA_SLOT: MemberSlot = MemberSlot(0);
const BOB_SLOT: MemberSlot = MemberSlot(1);

fn asked(number: u128) -> RequisitionId {
    RequisitionId(Uuid::from_u128(number))
}

fn asking(number: u128, member: u64) -> AdminCommand {
    let new = new_requisition(asked(number), member);
    AdminCommand::Requisition(RequisitionCommand::Create(new))
}

fn amount(minor: i64) -> AdminCommand {
    let changes = RequisitionChanges { amount: Some(Minor(minor)), ..Default::default() };
    AdminCommand::Requisition(RequisitionCommand::Update(company_id(0), asked(1), changes))
}

fn renamed(member: u64, name: &str) -> AdminCommand {
    let changes = MemberChanges { first_name: Some(name.parse().unwrap()), ..Default::default() };
    AdminCommand::Member(MemberCommand::Update(company_id(0), member_id(member), changes))
}

fn card(number: u64, changes: CardChanges) -> AdminCommand {
    let id = CardId(Uuid::from_u64_pair(4, number));
    AdminCommand::Card(CardCommand::Update(company_id(0), id, changes))
}

fn given(number: u64, holder: u64) -> AdminCommand {
    let NewCard { mut order, .. } = new_card(number, 0, AllowanceTerms::budget(Minor(10_000)));
    order.assigned_to = Some(member_id(holder));
    let card = new_card(number, 0, order.terms);
    AdminCommand::Card(CardCommand::Issue(NewCard { order, ..card }))
}

fn budget(minor: i64) -> AdminCommand {
    let changes = AllowanceChanges { amount: Some(Minor(minor)), ..Default::default() };
    let id = AllowanceId(Uuid::from_u64_pair(5, 1));
    AdminCommand::Allowance(AllowanceCommand::Update(company_id(0), id, changes))
}

fn if_unchanged(object: WatchedObject, since: RecordSeq, command: AdminCommand) -> AdminCommand {
    AdminCommand::IfUnchanged(SeenObject { object, since }, Box::new(command))
}

/// A change of a requisition that changes nothing, so it has no record.
fn nothing() -> AdminCommand {
    let changes = RequisitionChanges::default();
    AdminCommand::Requisition(RequisitionCommand::Update(company_id(0), asked(1), changes))
}

/// A token of Ada's.
fn granted() -> AdminCommand {
    let grant =
        NewTokenGrant { origin: TokenOrigin::Operator, ..grant_of(1, 0, (None, Some(ADA))) };
    AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(grant)))
}

/// Has the first card buy something, whose note then changes by the command.
fn noted(office: &mut Office) -> AdminCommand {
    let bought = purchase(facts(pan(1), 100, 5));
    let reply = office.run(&network(NetworkCommand::Authorize(bought)));
    let Reply::Network(NetworkReply::Authorization(reply)) = reply else { panic!("{reply:?}") };
    let changes = TagChanges { note: Some("lunch".parse().unwrap()), ..TagChanges::default() };
    let id = reply.transaction.unwrap();
    AdminCommand::Transaction(TransactionCommand::Tag(company_id(0), id, changes))
}

#[test]
fn what_was_changed_since_it_was_seen_is_changed_no_more() {
    let mut office = Office::open();
    office.does(asking(1, BOB));
    let (object, since) = (WatchedObject::Row(asked(1).0), office.driver.state.last_seq());
    office.does(if_unchanged(object, since, amount(700)));
    let before = office.driver.state.state_hash();
    let late = if_unchanged(object, since, amount(900));
    assert_eq!(office.asks(late), Err(Rejection::ChangedMeanwhile));
    assert_eq!(office.driver.state.state_hash(), before, "a refusal leaves no effects");
    let since = office.driver.state.last_seq();
    office.does(if_unchanged(object, since, amount(900)));
    office.assert_replays();
}

#[test]
fn each_object_is_watched_with_what_is_shown_of_it() {
    use WatchedObject::{Card, Leaving, Row, Transaction};
    let mut office = Office::open();
    office.does(asking(1, BOB));
    office.give_card(1, None).unwrap();
    // Each of the two companies has its deposit before.
    let (first, bought) = (Card(CardSlot(0)), Transaction(TransactionSeq(3)));
    let noted = noted(&mut office);
    let link = AdminCommand::SharedLink(SharedLinkCommand::Create(new_link(1, 1)));
    let described = CardChanges::default();
    let texts = |text: &str| {
        let mut changes = described.clone();
        changes.texts.description = Some(text.parse().unwrap());
        changes
    };
    let to_bob = CardChanges { assigned_to: Some(Some(member_id(BOB))), ..described.clone() };
    let rows: [(&str, AdminCommand, &[WatchedObject]); 11] = [
        ("amount", amount(600), &[Row(asked(1).0), Leaving(BOB_SLOT)]),
        ("name", renamed(ADA, "Eve"), &[Row(member_id(ADA).0), Leaving(ADA_SLOT)]),
        ("text", card(1, texts("Other")), &[first]),
        ("budget", budget(1), &[first]),
        ("holder", card(1, to_bob), &[first, Leaving(BOB_SLOT)]),
        ("issued", given(2, ADA), &[Leaving(ADA_SLOT)]),
        ("issued to Bob", given(3, BOB), &[Leaving(BOB_SLOT)]),
        ("request", asking(2, ADA), &[Row(asked(2).0), Leaving(ADA_SLOT)]),
        ("token", granted(), &[Row(token_id(1).0), Leaving(ADA_SLOT)]),
        ("link sent to Ada", link, &[Row(link_id(1).0), Leaving(ADA_SLOT)]),
        ("note", noted, &[bought]),
    ];
    let all = [
        Row(asked(1).0),
        Row(asked(2).0),
        Row(member_id(ADA).0),
        first,
        Card(CardSlot(1)),
        Leaving(ADA_SLOT),
        Leaving(BOB_SLOT),
        Row(token_id(1).0),
        Row(link_id(1).0),
        bought,
    ];
    for (told, command, changed) in rows {
        let since = office.driver.state.last_seq();
        office.does(command);
        for object in all {
            let expected =
                if changed.contains(&object) { Err(Rejection::ChangedMeanwhile) } else { Ok(()) };
            let asked = if_unchanged(object, since, nothing());
            assert_eq!(office.asks(asked), expected, "{told}: {object:?}");
        }
    }
}

/// The shard that begins knows no changes of the one before it, whatever its tables show.
#[test]
fn what_was_seen_before_a_start_counts_as_changed() {
    let mut office = Office::open();
    office.does(asking(1, BOB));
    let (object, before) = (WatchedObject::Row(asked(1).0), office.driver.state.last_seq());
    office.does(renamed(ADA, "Eve"));
    office.does(if_unchanged(object, before, nothing()));
    office.driver.state.go_live();
    let late = if_unchanged(object, before, nothing());
    assert_eq!(office.asks(late), Err(Rejection::ChangedMeanwhile));
    office.does(if_unchanged(object, office.driver.state.last_seq(), nothing()));
}
