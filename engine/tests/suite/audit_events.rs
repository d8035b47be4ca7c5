//! Audit events: the events that a noted change leaves, and the values in them; none of them has a
//! typed text.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::keyed_command::{KeyClaim, KeyedCommand};
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::command::{Command, NotedCommand};
use cardswitch_engine::directory::access_token::{AccessScope, AccessTokenCommand, NewAccessToken};
use cardswitch_engine::directory::allowance::{AllowanceChanges, AllowanceCommand};
use cardswitch_engine::directory::app::{AppCommand, NewApp};
use cardswitch_engine::directory::card::{CardChanges, CardCommand, SettableCardState};
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand, VelocityChanges};
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand, MemberRole};
use cardswitch_engine::directory::requisition::{
    RequisitionChanges, RequisitionCommand, RequisitionStatus, RequisitionVerdict, Review,
};
use cardswitch_engine::directory::ticket::{NewTicket, NewTicketContent, TicketCommand};
use cardswitch_engine::directory::user::{NewUser, PasswordLinkUse, UserChanges, UserCommand};
use cardswitch_engine::directory::webhook_endpoint::{
    DisabledBy, EndpointState, WebhookEndpointChanges, WebhookEndpointCommand,
};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::audit::{Actor, AuditEvent, AuditNote, AuditValue, ValueChange};
use cardswitch_engine::domain::business_date::Interval;
use cardswitch_engine::domain::card::{CardState, CardTexts};
use cardswitch_engine::domain::company::Address;
use cardswitch_engine::domain::hold_table::HoldTable;
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp};
use cardswitch_engine::domain::keyed_answer::KeyedContent;
use cardswitch_engine::domain::money::Minor;
use uuid::Uuid;

use crate::members::{asking, shared_link};
use crate::office::{BOB, FOREIGNER, Office, new_member};
use crate::samples::{
    app_id, company_id, digest, member_id, new_card, new_company, ticket_id, token_id, user_id,
};
use crate::webhook_endpoints::new_endpoint;

const OWN: CompanySlot = CompanySlot(0);
const SECRET: &str = "never to be written down";

fn bob() -> Actor {
    Actor::User { id: user_id(BOB), member: Some(member_id(BOB)) }
}

fn note() -> AuditNote {
    AuditNote { actor: bob(), address: Some("192.0.2.9".to_owned()) }
}

/// The events of a noted change.
pub(crate) fn events_of(
    office: &mut Office,
    change: AdminCommand,
) -> Result<Vec<AuditEvent>, Rejection> {
    events_by(office, bob(), change)
}

/// The events of a change by somebody.
fn events_by(
    office: &mut Office,
    actor: Actor,
    change: AdminCommand,
) -> Result<Vec<AuditEvent>, Rejection> {
    let records = office.driver.ends.len();
    let note = AuditNote { actor, ..note() };
    let noted = Command::Noted(Box::new(NotedCommand { note, change }));
    match office.run(&noted) {
        Reply::Done(_) if office.driver.ends.len() == records => Ok(Vec::new()),
        Reply::Done(_) => Ok(audits(office)),
        Reply::Rejected(rejection) => Err(rejection),
        other => panic!("{other:?}"),
    }
}

/// The events of the last record.
fn audits(office: &Office) -> Vec<AuditEvent> {
    let events = office.last_effects().into_iter().flat_map(|effect| match effect {
        Effect::Audit(event) => vec![*event],
        Effect::AuditGroup(group) => group.events().collect(),
        _ => Vec::new(),
    });
    events.collect()
}

fn ticket(number: u64, office: &Office, content: NewTicketContent) -> AdminCommand {
    AdminCommand::Ticket(TicketCommand::Issue(NewTicket {
        digest: digest(1, number),
        id: ticket_id(number),
        user: user_id(BOB),
        expires_at: Timestamp(office.now() + 3_600_000_000),
        address: SECRET.to_owned(),
        content,
    }))
}

fn secretive_app() -> NewApp {
    NewApp {
        id: app_id(1),
        company: company_id(0),
        name: SECRET.parse().unwrap(),
        website: SECRET.parse().unwrap(),
        secret_digest: [1; 32],
        redirect_urls: vec![SECRET.to_owned()],
        requested: AccessScope::default(),
    }
}

#[test]
fn an_event_says_who_did_what_to_which() {
    let mut office = Office::open();
    office.give_card(1, None).unwrap();
    let card = new_card(1, 0, AllowanceTerms::budget(Minor(1))).id;
    let text = || Some(SECRET.parse().unwrap());
    let texts = CardTexts { description: text(), ..CardTexts::default() };
    let named = CardChanges { texts, ..CardChanges::default() };
    let renamed = CompanyChanges { name: text(), ..CompanyChanges::default() };
    let rows = [
        (
            AdminCommand::Card(CardCommand::Update(company_id(0), card, named)),
            ("card.updated", "card", Some(card.0), vec!["description"]),
        ),
        (
            AdminCommand::Member(MemberCommand::Update(
                company_id(0),
                member_id(BOB),
                MemberChanges {
                    last_name: text(),
                    external_id: Some(text()),
                    ..MemberChanges::default()
                },
            )),
            ("member.updated", "member", Some(member_id(BOB).0), vec!["last_name", "external_id"]),
        ),
        (
            AdminCommand::Company(CompanyCommand::Update(company_id(0), renamed)),
            ("company.updated", "company", Some(company_id(0).0), vec!["name"]),
        ),
        (
            AdminCommand::App(AppCommand::Create(secretive_app())),
            ("app.created", "app", Some(app_id(1).0), vec![]),
        ),
        (
            AdminCommand::AccessToken(AccessTokenCommand::Create(NewAccessToken {
                id: token_id(1),
                digest: digest(2, 1),
                company: company_id(0),
                scope: AccessScope::default(),
            })),
            ("access_token.created", "access_token", Some(token_id(1).0), vec![]),
        ),
        (
            AdminCommand::Card(CardCommand::Terminate(company_id(0), card)),
            ("card.terminated", "card", Some(card.0), vec![]),
        ),
        (
            AdminCommand::Member(MemberCommand::Delete(company_id(0), member_id(BOB))),
            ("member.deleted", "member", Some(member_id(BOB).0), vec![]),
        ),
    ];
    for (change, (action, kind, object, fields)) in rows {
        let at = Timestamp(office.now() + 1_000_000);
        let mut events = events_of(&mut office, change).unwrap();
        assert!(!format!("{events:?}").contains(SECRET));
        events.iter_mut().for_each(|event| event.values.clear());
        let expected = AuditEvent {
            company: Some(CompanySlot(0)),
            at,
            actor: note().actor,
            address: note().address,
            action: action.to_owned(),
            object_kind: kind.to_owned(),
            object,
            fields: fields.into_iter().map(str::to_owned).collect(),
            values: Vec::new(),
        };
        assert_eq!(events, [expected]);
    }
}

/// The field, and its value before and after.
type ToldValue = (&'static str, AuditValue, AuditValue);

/// Changes of a company, a webhook endpoint and a requisition, and what their events tell of them.
fn limits_of_others(office: &mut Office) -> Vec<(AdminCommand, Vec<ToldValue>)> {
    let company = company_id(0);
    let endpoint = new_endpoint(1, 0, None);
    office.does(AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Create(endpoint.clone())));
    let asked = asking(1, BOB, 10);
    office.does(AdminCommand::Requisition(RequisitionCommand::Create(asked.clone())));
    let velocity = VelocityChanges { per_minute: Some(4), per_hour: None };
    let holds: HoldTable = "10,7011=14".parse().unwrap();
    let limits = CompanyChanges {
        velocity,
        credit_limit: Some(Minor(900)),
        partial_approval: Some(true),
        hold_table: Some(holds.clone()),
        ..CompanyChanges::default()
    };
    let off = WebhookEndpointChanges { is_enabled: Some(false), ..Default::default() };
    let review = Some(Review { verdict: RequisitionVerdict::Deny, reviewed_by: None });
    let denied = RequisitionChanges { amount: Some(Minor(400)), review, ..Default::default() };
    let amount = |minor| AuditValue::Amount(Minor(minor));
    vec![
        (
            AdminCommand::Company(CompanyCommand::Update(company, limits)),
            vec![
                ("per_minute", AuditValue::None, AuditValue::Count(4)),
                ("partial_approval", AuditValue::Flag(false), AuditValue::Flag(true)),
                (
                    "hold_table",
                    AuditValue::HoldTable(HoldTable::default()),
                    AuditValue::HoldTable(holds),
                ),
                ("credit_limit", amount(0), amount(900)),
            ],
        ),
        (
            AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Update(
                company,
                endpoint.id,
                off,
            )),
            vec![(
                "state",
                AuditValue::EndpointState(EndpointState::Enabled),
                AuditValue::EndpointState(EndpointState::Disabled(DisabledBy::Person)),
            )],
        ),
        (
            AdminCommand::Requisition(RequisitionCommand::Update(company, asked.id, denied)),
            vec![
                ("amount", amount(500), amount(400)),
                (
                    "status",
                    AuditValue::RequisitionStatus(RequisitionStatus::Pending),
                    AuditValue::RequisitionStatus(RequisitionStatus::Denied),
                ),
            ],
        ),
    ]
}

/// The card of an approved requisition was in no event.
#[test]
fn a_card_made_by_an_approval_has_its_event() {
    let mut office = Office::open();
    let asked = asking(1, BOB, 10);
    office.does(AdminCommand::Requisition(RequisitionCommand::Create(asked.clone())));
    let drawn = new_card(1, 0, AllowanceTerms::budget(Minor(1)));
    let card = drawn.id.0;
    let verdict = RequisitionVerdict::ApproveWithNewCard(Box::new(drawn));
    let review = Some(Review { verdict, reviewed_by: None });
    let changes = RequisitionChanges { review, ..Default::default() };
    let command = RequisitionCommand::Update(company_id(0), asked.id, changes);
    let events = events_of(&mut office, AdminCommand::Requisition(command)).unwrap();
    let told: Vec<_> = events.iter().map(|event| (&*event.action, event.object)).collect();
    let expected = [("card.created", Some(card)), ("requisition.approved", Some(asked.id.0))];
    assert_eq!(told, expected);
}

#[test]
fn limits_states_roles_and_holders_are_told_before_and_after() {
    let mut office = Office::open();
    office.give_card(1, None).unwrap();
    let new = new_card(1, 0, AllowanceTerms::budget(Minor(1)));
    let limits = AllowanceChanges {
        amount: Some(Minor(2_500)),
        daily_limit: Some(Minor(700)),
        interval: Some(Interval::Monthly),
        single_use: Some(false),
        ..AllowanceChanges::default()
    };
    let suspended = CardChanges {
        state: Some(SettableCardState::Suspended),
        assigned_to: Some(Some(member_id(BOB))),
        ..CardChanges::default()
    };
    let role = MemberChanges { role: Some(MemberRole::Reviewer), ..MemberChanges::default() };
    let company = company_id(0);
    let rows = [
        (
            AdminCommand::Allowance(AllowanceCommand::Update(company, new.allowance_id, limits)),
            vec![
                ("amount", AuditValue::Amount(Minor(10_000)), AuditValue::Amount(Minor(2_500))),
                (
                    "interval",
                    AuditValue::Interval(Interval::None),
                    AuditValue::Interval(Interval::Monthly),
                ),
                ("daily_limit", AuditValue::None, AuditValue::Amount(Minor(700))),
            ],
        ),
        (
            AdminCommand::Card(CardCommand::Update(company, new.id, suspended)),
            vec![
                (
                    "state",
                    AuditValue::CardState(CardState::Active),
                    AuditValue::CardState(CardState::Suspended),
                ),
                ("assigned_to", AuditValue::None, AuditValue::Member(member_id(BOB).0)),
            ],
        ),
        (
            AdminCommand::Member(MemberCommand::Update(company, member_id(BOB), role)),
            vec![(
                "role",
                AuditValue::Role(MemberRole::Member),
                AuditValue::Role(MemberRole::Reviewer),
            )],
        ),
    ];
    let others = limits_of_others(&mut office);
    for (change, expected) in rows.into_iter().chain(others) {
        let events = events_of(&mut office, change).unwrap();
        let values = events[0]
            .values
            .iter()
            .map(|ValueChange { field, old, new }| (field.as_str(), old.clone(), new.clone()));
        assert_eq!(values.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn what_changes_nothing_or_is_refused_leaves_no_event() {
    let mut office = Office::open();
    office.give_card(1, None).unwrap();
    let card = new_card(1, 0, AllowanceTerms::budget(Minor(1))).id;
    let unchanged =
        AdminCommand::Card(CardCommand::Update(company_id(0), card, CardChanges::default()));
    assert_eq!(events_of(&mut office, unchanged), Ok(vec![]));
    // Values that it has, on a day that has begun since.
    office.pass(Timestamp::DAY);
    let card_row = new_card(1, 0, AllowanceTerms::budget(Minor(1)));
    let known = AllowanceChanges { amount: Some(Minor(10_000)), ..AllowanceChanges::default() };
    let known = AllowanceCommand::Update(company_id(0), card_row.allowance_id, known);
    let billing_address = Some(Some(Address::default()));
    let known_address = CardChanges { billing_address, ..CardChanges::default() };
    let known_address = CardCommand::Update(company_id(0), card, known_address);
    office.does(AdminCommand::Card(known_address.clone()));
    for command in [AdminCommand::Allowance(known), AdminCommand::Card(known_address)] {
        assert_eq!(events_of(&mut office, command), Ok(vec![]));
    }
    let foreign = AdminCommand::Card(CardCommand::Terminate(company_id(1), card));
    let records = office.driver.ends.len();
    assert_eq!(events_of(&mut office, foreign), Err(Rejection::CardNotFound));
    assert_eq!(office.driver.ends.len(), records);
    // Without a note nobody is told.
    office.does(AdminCommand::Card(CardCommand::Terminate(company_id(0), card)));
    assert_eq!(audits(&office), []);
}

#[test]
fn the_event_of_a_keyed_change_is_in_its_record() {
    let mut office = Office::open();
    let new = new_card(1, 0, AllowanceTerms::budget(Minor(1)));
    let keyed = |note, change| {
        let content = KeyedContent::Object { path: String::new() };
        let claim = KeyClaim { key: [1; 32], request: [2; 32], status: 201, content };
        Command::Keyed(Box::new(KeyedCommand { claim, change, note }))
    };
    office.run(&keyed(Some(note()), Some(AdminCommand::Card(CardCommand::Issue(new)))));
    match office.last_effects().as_slice() {
        [Effect::CardIssued(_), Effect::Audit(event), Effect::KeyedAnswer(_)] => {
            assert_eq!(event.action, "card.created");
        }
        other => panic!("{other:?}"),
    }
    // A repeat is refused, and only what changes something is noted.
    let records = office.driver.ends.len();
    let new = new_card(2, 0, AllowanceTerms::budget(Minor(1)));
    let again = office.run(&keyed(Some(note()), Some(AdminCommand::Card(CardCommand::Issue(new)))));
    assert_eq!(again, Reply::Rejected(Rejection::KeyTaken));
    assert_eq!(office.driver.ends.len(), records);
}

#[test]
fn each_of_many_objects_has_an_event_and_a_new_company_the_first_of_its_own() {
    let mut office = Office::open();
    let cards: Vec<_> =
        (1..4).map(|number| new_card(number, 1, AllowanceTerms::budget(Minor(1)))).collect();
    let ids: Vec<_> = cards.iter().map(|card| Some(card.id.0)).collect();
    let events =
        events_of(&mut office, AdminCommand::Card(CardCommand::IssueTogether(cards))).unwrap();
    assert_eq!(events.iter().map(|event| event.object).collect::<Vec<_>>(), ids);
    assert!(events.iter().all(|event| event.company == Some(CompanySlot(1))));
    let company = new_company(7, chrono_tz::UTC, 0, 0);
    let events =
        events_of(&mut office, AdminCommand::Company(CompanyCommand::Create(company))).unwrap();
    let told = (events.len(), events[0].company, events[0].action.as_str());
    assert_eq!(told, (1, Some(CompanySlot(2)), "company.created"));
    for (command, action) in [
        (AdminCommand::SetNetworkKey([1; 32]), "network_key.set"),
        (AdminCommand::NoteAct("backup.made"), "backup.made"),
    ] {
        let events = events_of(&mut office, command).unwrap();
        let told = (events[0].company, events[0].object, events[0].action.as_str());
        assert_eq!(told, (None, None, action));
    }
}

#[test]
fn what_a_user_does_is_told_to_one_company() {
    let mut office = Office::open();
    let one = vec![Some(CompanySlot(0))];
    let companies =
        |events: &[AuditEvent]| -> Vec<_> { events.iter().map(|event| event.company).collect() };
    let mut told = |change: AdminCommand, action: &str, object: Uuid| {
        let events = events_of(&mut office, change).unwrap();
        assert!(events.iter().all(|event| event.action == action && event.object == Some(object)));
        assert!(!format!("{events:?}").contains(SECRET));
        companies(&events)
    };
    let user = NewUser {
        id: user_id(BOB),
        email: "BOB@example.com".to_owned(),
        first_name: SECRET.parse().unwrap(),
        last_name: SECRET.parse().unwrap(),
        password_hash: None,
        developer_of: Vec::new(),
    };
    assert_eq!(
        told(AdminCommand::User(UserCommand::Create(user)), "user.created", user_id(BOB).0),
        one
    );
    let changes = UserChanges { password_hash: Some(SECRET.to_owned()), ..UserChanges::default() };
    let update = AdminCommand::User(UserCommand::Update(user_id(BOB), changes));
    assert_eq!(told(update, "user.updated", user_id(BOB).0), one);

    let session = NewTicketContent::Session { user_agent: SECRET.parse().unwrap() };
    let sign_in = ticket(1, &office, session);
    let events = events_of(&mut office, sign_in).unwrap();
    assert_eq!((companies(&events), events[0].action.as_str()), (one.clone(), "session.created"));
    assert_eq!(events[0].object, Some(ticket_id(1).0));
    let link = ticket(2, &office, NewTicketContent::PasswordLink { is_invite: false });
    assert_eq!(companies(&events_of(&mut office, link).unwrap()), one);
    let set = PasswordLinkUse { digest: digest(1, 2), password_hash: SECRET.to_owned() };
    let events =
        events_of(&mut office, AdminCommand::User(UserCommand::UsePasswordLink(set))).unwrap();
    assert_eq!(companies(&events), one);
    assert!(events.iter().all(|event| event.object == Some(user_id(BOB).0)));
    assert!(!format!("{events:?}").contains(SECRET));

    // The acting member names the company; else it is the one where they take part for longest, not
    // one that added their address later. A user who is a member nowhere leaves no event in any
    // company.
    let leaving = MemberChanges { is_active: Some(false), ..MemberChanges::default() };
    assert_eq!(office.update(BOB, leaving), Ok(()));
    let ending = AdminCommand::User(UserCommand::UseTotpStep(user_id(BOB), 1));
    assert_eq!(events_of(&mut office, ending), Err(Rejection::StepUsed));
    let session = || NewTicketContent::Session { user_agent: Default::default() };
    let again = ticket(3, &office, session());
    assert_eq!(companies(&events_of(&mut office, again).unwrap()), one, "he acts as that member");
    let again = ticket(4, &office, session());
    let signing_in = Actor::User { id: user_id(BOB), member: None };
    let events = events_by(&mut office, signing_in, again).unwrap();
    assert_eq!(companies(&events), [Some(CompanySlot(1))], "the only one he takes part in");
    let back = MemberChanges { is_active: Some(true), ..MemberChanges::default() };
    assert_eq!(office.update(BOB, back), Ok(()));
    let again = ticket(5, &office, session());
    assert_eq!(companies(&events_by(&mut office, signing_in, again).unwrap()), one);
    let elsewhere = Actor::User { id: user_id(BOB), member: Some(member_id(FOREIGNER)) };
    let again = ticket(6, &office, session());
    let events = events_by(&mut office, elsewhere, again).unwrap();
    assert_eq!(companies(&events), [Some(CompanySlot(1))]);
    let stranger = NewUser {
        id: user_id(77),
        email: "nobody@example.com".to_owned(),
        first_name: Default::default(),
        last_name: Default::default(),
        password_hash: None,
        developer_of: Vec::new(),
    };
    let make = AdminCommand::User(UserCommand::Create(stranger));
    let events = events_by(&mut office, Actor::Switch, make).unwrap();
    assert_eq!(companies(&events), [None]);
}

#[test]
fn a_member_made_with_an_invitation_is_one_event() {
    let mut office = Office::open();
    let expires_at = Timestamp(office.now() + 3_600_000_000);
    let (user, ticket) = (user_id(30), ticket_id(30));
    let invite = cardswitch_engine::directory::user::NewInvite {
        user,
        digest: digest(1, 30),
        ticket,
        expires_at,
    };
    let mut new = new_member(30, 0, "invited@example.com");
    new.invite = Some(invite);
    let events = events_of(&mut office, AdminCommand::Member(MemberCommand::Create(new))).unwrap();
    let fields: Vec<_> = events.iter().flat_map(|event| event.fields.clone()).collect();
    assert_eq!((events.len(), fields), (1, vec!["invitation".to_owned()]));
}

/// The log of a card that closed with its holder had nothing after `card.created`.
#[test]
fn all_that_closes_with_a_member_has_an_event_of_its_own() {
    let changes = MemberChanges { is_active: Some(false), ..MemberChanges::default() };
    let (company, id) = (company_id(0), member_id(BOB));
    let left = [MemberCommand::Update(company, id, changes), MemberCommand::Delete(company, id)];
    for command in left {
        let mut office = Office::open();
        for (number, holder) in [(1, Some(BOB)), (2, Some(BOB)), (3, Some(BOB)), (4, None)] {
            office.give_card(number, holder).unwrap();
        }
        let cards =
            [1, 2, 3].map(|number| new_card(number, 0, AllowanceTerms::budget(Minor(1))).id);
        let suspend =
            CardChanges { state: Some(SettableCardState::Suspended), ..CardChanges::default() };
        office.does(AdminCommand::Card(CardCommand::Update(company, cards[1], suspend)));
        office.does(AdminCommand::Card(CardCommand::Terminate(company, cards[2])));
        let request = asking(1, BOB, 4_000);
        let requisition = request.id;
        office.does(AdminCommand::Requisition(RequisitionCommand::Create(request)));
        let link = shared_link(0, "bob@example.com", 10);
        let link_id = link.id;
        office.driver.state.apply(&Effect::row(link));
        let events = events_of(&mut office, AdminCommand::Member(command)).unwrap();
        assert!(events.iter().all(|event| event.actor == bob() && event.company == Some(OWN)));
        let closed: Vec<_> =
            events[1..].iter().map(|event| (&*event.action, event.object.unwrap())).collect();
        let expected = [
            ("card.terminated", cards[0].0),
            ("card.terminated", cards[1].0),
            ("requisition.denied", requisition.0),
            ("shared_link.deleted", link_id.0),
        ];
        assert_eq!(closed, expected);
        let card_states = events[1..3].iter().map(|event| event.values[0].old.clone());
        let before = [CardState::Active, CardState::Suspended].map(AuditValue::CardState);
        assert_eq!(card_states.collect::<Vec<_>>(), before);
    }
}
