//! Records of webhook endpoints and of looking at cards, as they were first written.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::{Command, NotedCommand};
use cardswitch_engine::directory::DirectoryRow;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::app::{AppCommand, NewApp};
use cardswitch_engine::directory::card::{CardCommand, NumberViewer};
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::directory::shared_link::{NewSharedLink, SharedLinkCommand};
use cardswitch_engine::directory::webhook_endpoint::{
    GoneReceiver, NewSecret, NewWebhookEndpoint, WebhookEndpointChanges, WebhookEndpointCommand,
};
use cardswitch_engine::domain::audit::{Actor, AuditNote};
use cardswitch_engine::domain::ids::{AppId, CompanyId, SharedLinkId, UserId, WebhookEndpointId};
use uuid::Uuid;

use super::{START, Timestamp, UNLIMITED, admin, card, company, effects_of};

const COMPANY: CompanyId = CompanyId(Uuid::from_u128(1));
const APP: AppId = AppId(Uuid::from_u128(22));
const OWN: WebhookEndpointId = WebhookEndpointId(Uuid::from_u128(40));
const OF_APP: WebhookEndpointId = WebhookEndpointId(Uuid::from_u128(41));
const LINK: SharedLinkId = SharedLinkId(Uuid::from_u128(42));

#[test]
fn records_of_webhook_endpoints_cover_their_life() {
    let (mut endpoints, mut shown) = (0, 0);
    for effect in effects_of("webhooks") {
        endpoints += usize::from(matches!(effect, Effect::Row(DirectoryRow::WebhookEndpoint(_))));
        let is_shown = |effect: &Effect| matches!(effect, Effect::Audit(event) if event.action == "card.number_shown");
        shown += usize::from(is_shown(&effect));
    }
    assert_eq!((endpoints, shown), (5, 1), "two made, two changed, one taken away");
}

pub(super) fn life_of_an_endpoint() -> Vec<Command> {
    let user = Actor::User { id: UserId(Uuid::from_u128(21)), member: None };
    vec![
        admin(AdminCommand::Company(CompanyCommand::Create(company(UNLIMITED)))),
        admin(AdminCommand::Card(CardCommand::Issue(card()))),
        admin(AdminCommand::App(AppCommand::Create(app()))),
        noted(
            user,
            AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Create(endpoint(OWN, None))),
        ),
        admin(AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Create(endpoint(
            OF_APP,
            Some(APP),
        )))),
        noted(
            user,
            AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Update(COMPANY, OWN, changes())),
        ),
        noted(
            Actor::Switch,
            AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Update(
                COMPANY,
                OF_APP,
                WebhookEndpointChanges {
                    gone: Some(GoneReceiver {
                        url: "https://books.example/hooks".to_owned(),
                        // The fifth command made it, and turned it on.
                        enabled_at: START.plus(4 * Timestamp::MINUTE),
                    }),
                    ..WebhookEndpointChanges::default()
                },
            )),
        ),
        admin(AdminCommand::App(AppCommand::Delete(COMPANY, APP))),
        admin(AdminCommand::SharedLink(SharedLinkCommand::Create(link()))),
        noted(
            user,
            AdminCommand::Card(CardCommand::NoteNumberShown(
                COMPANY,
                card().id,
                NumberViewer::Link(LINK),
            )),
        ),
        admin(AdminCommand::SharedLink(SharedLinkCommand::View(LINK))),
    ]
}

fn noted(actor: Actor, change: AdminCommand) -> Command {
    let note = AuditNote { actor, address: Some("192.0.2.1".to_owned()) };
    Command::Noted(Box::new(NotedCommand { note, change }))
}

fn app() -> NewApp {
    NewApp {
        id: APP,
        company: COMPANY,
        name: "Golden books".parse().expect("a plain text"),
        website: "https://books.example".parse().expect("a plain text"),
        secret_digest: [5; 32],
        redirect_urls: vec!["https://books.example/back".to_owned()],
        requested: AccessScope::default(),
    }
}

fn endpoint(id: WebhookEndpointId, app: Option<AppId>) -> NewWebhookEndpoint {
    NewWebhookEndpoint {
        id,
        company: COMPANY,
        app,
        url: "https://books.example/hooks".to_owned(),
        description: "Golden books".parse().expect("a plain text"),
        sealed_secret: vec![3; 60],
    }
}

fn changes() -> WebhookEndpointChanges {
    WebhookEndpointChanges {
        url: Some("https://books.example/elsewhere".to_owned()),
        description: Some("Other books".parse().expect("a plain text")),
        is_enabled: Some(false),
        secret: Some(NewSecret { sealed: vec![4; 60], overlap_until: START.plus(Timestamp::DAY) }),
        gone: None,
    }
}

fn link() -> NewSharedLink {
    NewSharedLink {
        id: LINK,
        company: COMPANY,
        card: card().id,
        key_digest: [6; 16],
        sealed_key: vec![7; 60],
        recipient: None,
        sealed_passphrase: None,
        hide_balance: true,
    }
}
