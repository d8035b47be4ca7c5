//! The rules of webhook endpoints, row by row, and that what was changed is told without its values.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::DirectoryRow;
use cardswitch_engine::directory::access_token::AccessTokenCommand;
use cardswitch_engine::directory::app::AppCommand;
use cardswitch_engine::directory::webhook_endpoint::{
    DisabledBy, EndpointState, GoneReceiver, NewSecret, NewWebhookEndpoint, WebhookEndpoint,
    WebhookEndpointChanges, WebhookEndpointCommand,
};
use cardswitch_engine::domain::ids::{Timestamp, WebhookEndpointId};
use cardswitch_engine::limits;
use uuid::Uuid;

use crate::audit_events::events_of;
use crate::office::Office;
use crate::people::{grant_of, new_app};
use crate::samples::{app_id, company_id};

/// The app of the first company, see `Office::with_people`.
const APP: u64 = 1;

fn id(number: u64) -> WebhookEndpointId {
    WebhookEndpointId(Uuid::from_u64_pair(14, number))
}

pub(crate) fn new_endpoint(number: u64, company: u64, app: Option<u64>) -> NewWebhookEndpoint {
    NewWebhookEndpoint {
        id: id(number),
        company: company_id(company),
        app: app.map(app_id),
        url: format!("https://receiver.example/{number}"),
        description: "Books".parse().unwrap(),
        sealed_secret: vec![1; 60],
    }
}

pub(crate) fn create(number: u64, company: u64, app: Option<u64>) -> AdminCommand {
    AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Create(new_endpoint(
        number, company, app,
    )))
}

fn update(number: u64, changes: WebhookEndpointChanges) -> AdminCommand {
    AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Update(
        company_id(0),
        id(number),
        changes,
    ))
}

fn enabled(is_enabled: bool) -> WebhookEndpointChanges {
    WebhookEndpointChanges { is_enabled: Some(is_enabled), ..WebhookEndpointChanges::default() }
}

/// That the receiver of an endpoint which was on since `enabled_at` is gone from `url`.
fn gone(url: &str, enabled_at: Timestamp) -> WebhookEndpointChanges {
    let gone = GoneReceiver { url: url.to_owned(), enabled_at };
    WebhookEndpointChanges { gone: Some(gone), ..WebhookEndpointChanges::default() }
}

fn rotated(secret: u8, overlap_until: i64) -> WebhookEndpointChanges {
    let secret = NewSecret { sealed: vec![secret; 60], overlap_until: Timestamp(overlap_until) };
    WebhookEndpointChanges { secret: Some(secret), ..WebhookEndpointChanges::default() }
}

/// The endpoints of the last record.
fn last_endpoints(office: &Office) -> Vec<WebhookEndpoint> {
    let endpoints = office.last_effects().into_iter().filter_map(|effect| match effect {
        Effect::Row(DirectoryRow::WebhookEndpoint(row)) => Some(*row),
        _ => None,
    });
    endpoints.collect()
}

fn last_endpoint(office: &Office) -> WebhookEndpoint {
    let [endpoint] = last_endpoints(office).try_into().unwrap();
    endpoint
}

#[test]
fn endpoints_are_made_changed_and_taken_away_by_their_company() {
    let mut office = Office::with_people();
    office.does(create(1, 0, None));
    let made = last_endpoint(&office);
    assert_eq!((made.id, made.app, made.state), (id(1), None, EndpointState::Enabled));
    assert!(made.is_enabled() && made.previous_secrets.is_empty());
    office.does(create(2, 0, Some(APP)));
    assert!(last_endpoint(&office).app.is_some());
    office.does(AdminCommand::App(AppCommand::Create(new_app(2, 1))));
    office.does(AdminCommand::App(AppCommand::Create(new_app(3, 0))));
    office.does(AdminCommand::App(AppCommand::Delete(company_id(0), app_id(3))));
    let not_found = Err(Rejection::NotFound);
    let rows = [
        ("the same id", create(1, 0, None), Err(Rejection::IdTaken)),
        ("no company", create(3, 9, None), Err(Rejection::CompanyNotFound)),
        ("no app", create(3, 0, Some(9)), Err(Rejection::AppNotFound)),
        ("another's app", create(3, 0, Some(2)), Err(Rejection::AppNotFound)),
        ("a deleted app", create(3, 0, Some(3)), Err(Rejection::AppNotFound)),
        ("none", update(9, enabled(false)), not_found),
        (
            "another's",
            AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Update(
                company_id(1),
                id(1),
                enabled(false),
            )),
            not_found,
        ),
        (
            "another's",
            AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Delete(company_id(1), id(1))),
            not_found,
        ),
        (
            "its own",
            AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Delete(company_id(0), id(1))),
            Ok(()),
        ),
        (
            "gone",
            AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Delete(company_id(0), id(1))),
            not_found,
        ),
        ("gone", update(1, enabled(true)), not_found),
        ("a gone one's id", create(1, 0, None), Err(Rejection::IdTaken)),
    ];
    for (story, command, expected) in rows {
        assert_eq!(office.asks(command), expected, "{story}");
    }
    office.assert_replays();
}

/// An app of another company could have no endpoint that ends with its access.
#[test]
fn an_app_that_a_company_let_in_has_endpoints_there() {
    let mut office = Office::with_people();
    assert_eq!(office.asks(create(1, 1, Some(APP))), Err(Rejection::AppNotFound));
    let grant = Box::new(grant_of(1, 1, (Some(APP), None)));
    office.does(AdminCommand::AccessToken(AccessTokenCommand::Grant(grant)));
    office.does(create(1, 1, Some(APP)));
    assert!(last_endpoint(&office).app.is_some());
    office.does(AdminCommand::App(AppCommand::RevokeTokens(app_id(APP), company_id(1))));
    assert_eq!(office.asks(create(2, 1, Some(APP))), Err(Rejection::AppNotFound));
    // It goes with its app.
    office.does(AdminCommand::App(AppCommand::Delete(company_id(0), app_id(APP))));
    assert!(last_endpoints(&office).iter().all(|row| row.is_deleted && row.id == id(1)));
    office.assert_replays();
}

#[test]
fn whoever_disabled_an_endpoint_is_known() {
    use DisabledBy::{Gone, Person};
    use EndpointState::{Disabled, Enabled};
    // The endpoint that an attempt was made for: as it is now, as it was the time before it was
    // enabled last, or at another address.
    let now = |known: &WebhookEndpoint, _: Timestamp| gone(&known.url, known.enabled_at);
    let before = |known: &WebhookEndpoint, before: Timestamp| gone(&known.url, before);
    let elsewhere = |known: &WebhookEndpoint, _: Timestamp| {
        gone("https://books.example/before", known.enabled_at)
    };
    let on = |_: &WebhookEndpoint, _: Timestamp| enabled(true);
    let off = |_: &WebhookEndpoint, _: Timestamp| enabled(false);
    let both = |known: &WebhookEndpoint, _: Timestamp| WebhookEndpointChanges {
        is_enabled: Some(true),
        ..gone(&known.url, known.enabled_at)
    };
    type ChangeCase = fn(&WebhookEndpoint, Timestamp) -> WebhookEndpointChanges;
    // Changes one after the other, each with the state after it.
    let rows: [(ChangeCase, EndpointState); 12] = [
        (elsewhere, Enabled),
        (now, Disabled(Gone)),
        (now, Disabled(Gone)),
        (on, Enabled),
        // The answer to a request of before somebody enabled it again comes late.
        (before, Enabled),
        (off, Disabled(Person)),
        (now, Disabled(Person)),
        (on, Enabled),
        (on, Enabled),
        (now, Disabled(Gone)),
        (off, Disabled(Person)),
        (both, Enabled),
    ];
    let mut office = Office::with_people();
    office.does(create(1, 0, None));
    let mut known = last_endpoint(&office);
    let mut enabled_before = Timestamp(0);
    for (place, (asking, expected)) in rows.into_iter().enumerate() {
        let records = office.driver.ends.len();
        office.does(update(1, asking(&known, enabled_before)));
        assert_eq!(office.driver.ends.len() > records, expected != known.state, "row {place}");
        if expected != known.state {
            let changed = last_endpoint(&office);
            assert_eq!(changed.state, expected, "row {place}");
            let is_later = changed.enabled_at > known.enabled_at;
            assert_eq!(is_later, expected == Enabled, "row {place}");
            if is_later {
                enabled_before = known.enabled_at;
            }
            known = changed;
        }
    }
    office.assert_replays();
}

#[test]
fn a_secret_is_rotated_with_an_overlap() {
    let mut office = Office::with_people();
    office.does(create(1, 0, None));
    let until = office.now() + 3_600_000_000;
    office.does(update(1, rotated(2, until)));
    let endpoint = last_endpoint(&office);
    assert_eq!(endpoint.sealed_secret, vec![2; 60]);
    assert_eq!(signing(&endpoint, until - 1), [2, 1]);
    // Rotated again, each signs until its own end: the receiver may have any of them.
    office.does(update(1, rotated(3, until + 5)));
    let endpoint = last_endpoint(&office);
    assert_eq!(signing(&endpoint, until - 1), [3, 2, 1]);
    assert_eq!(signing(&endpoint, until), [3, 2]);
    assert_eq!(signing(&endpoint, until + 5), [3]);
    assert_eq!(endpoint.overlap_until(Timestamp(until)), Some(Timestamp(until + 5)));
    assert_eq!(endpoint.overlap_until(Timestamp(until + 5)), None);
    // One more than there may be is refused, until one has ended.
    office.does(update(1, rotated(4, until + 5)));
    office.does(update(1, rotated(5, until + 5)));
    let refused = office.asks(update(1, rotated(6, until + 5)));
    assert_eq!(refused, Err(Rejection::TooManyWebhookSecrets));
    office.wait_until(until);
    office.does(update(1, rotated(6, until + 3_600_000_000)));
    assert_eq!(last_endpoint(&office).previous_secrets.len(), 1, "what has ended is forgotten");
    // Without an overlap no other is kept.
    let now = office.now();
    office.does(update(1, rotated(7, now)));
    assert_eq!(last_endpoint(&office).previous_secrets, []);
    office.assert_replays();
}

/// The first bytes of the secrets that sign at `at`.
fn signing(endpoint: &WebhookEndpoint, at: i64) -> Vec<u8> {
    endpoint.signing_secrets(Timestamp(at)).map(|sealed| sealed[0]).collect()
}

#[test]
fn an_app_takes_its_endpoints_with_it_and_nothing_of_their_secrets_stays() {
    let mut office = Office::with_people();
    for (number, app) in [(1, Some(APP)), (2, None), (3, Some(APP))] {
        office.does(create(number, 0, app));
    }
    office
        .does(AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Delete(company_id(0), id(3))));
    office.does(AdminCommand::App(AppCommand::Delete(company_id(0), app_id(APP))));
    let tombstone = last_endpoint(&office);
    assert_eq!((tombstone.id, tombstone.is_deleted), (id(1), true));
    assert!(tombstone.url.is_empty() && tombstone.sealed_secret.is_empty());
    assert!(tombstone.description.is_empty() && !tombstone.is_enabled());
    office.does(update(2, enabled(false)));
    office.assert_replays();
}

#[test]
fn a_company_has_no_more_endpoints_than_it_may() {
    let mut office = Office::with_people();
    let room = limits::WEBHOOK_ENDPOINTS_OF_COMPANY_MAX as u64;
    for number in 0..room {
        office.does(create(number, 0, Some(APP).filter(|_| number % 2 == 0)));
    }
    assert_eq!(office.asks(create(room, 0, None)), Err(Rejection::TooManyWebhookEndpoints));
    office.does(create(room, 1, None));
    office
        .does(AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Delete(company_id(0), id(0))));
    office.does(create(room + 1, 0, None));
    office.does(AdminCommand::App(AppCommand::Delete(company_id(0), app_id(APP))));
    assert_eq!(last_endpoints(&office).len() as u64, room / 2 - 1);
    office.assert_replays();
}

#[test]
fn what_is_changed_is_audited_by_its_name() {
    let mut office = Office::with_people();
    let everything = WebhookEndpointChanges {
        url: Some("https://elsewhere.example".to_owned()),
        description: Some("Other books".parse().unwrap()),
        is_enabled: Some(false),
        ..rotated(2, office.now() * 2)
    };
    let created = "webhook_endpoint.created";
    let updated = "webhook_endpoint.updated";
    let all = vec!["url", "description", "state", "secret"];
    let rows = [
        (create(1, 0, None), created, vec![]),
        (update(1, everything), updated, all),
        (update(1, enabled(true)), updated, vec!["state"]),
        (update(1, enabled(false)), updated, vec!["state"]),
        (
            AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Delete(company_id(0), id(1))),
            "webhook_endpoint.deleted",
            vec![],
        ),
    ];
    for (command, action, fields) in rows {
        let [event] = events_of(&mut office, command).unwrap().try_into().unwrap();
        assert_eq!((event.action.as_str(), event.object), (action, Some(id(1).0)));
        assert_eq!(
            (event.object_kind.as_str(), event.fields),
            ("webhook_endpoint", { fields.into_iter().map(str::to_owned).collect() })
        );
    }
}

#[test]
fn that_a_receiver_is_gone_is_audited_as_a_change_of_state() {
    let mut office = Office::with_people();
    office.does(create(1, 0, None));
    let known = last_endpoint(&office);
    let report = update(1, gone(&known.url, known.enabled_at));
    let [event] = events_of(&mut office, report).unwrap().try_into().unwrap();
    assert_eq!(event.action, "webhook_endpoint.updated");
    assert_eq!(event.fields, ["state"]);
}
