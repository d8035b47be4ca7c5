//! People and programs of the imagined card program: users, tickets, apps, tokens, external ids, exchanged
//! keys, and who did what.

use uuid::Uuid;

use super::{EMAILS, World, id};
use crate::command::effect::Effect;
use crate::directory::access_token::{AccessScope, AccessToken, TokenGrant, TokenOrigin};
use crate::directory::app::App;
use crate::directory::exchanged_key::{ExchangedKey, NewExchangedKey};
use crate::directory::member::MemberState;
use crate::directory::ticket::{AuthorizationCode, Ticket, TicketContent, TicketState};
use crate::directory::user::{Totp, User};
use crate::directory::webhook_endpoint::{DisabledBy, EndpointState, WebhookEndpoint};
use crate::domain::audit::{Actor, AuditEvent, AuditValue, ValueChange};
use crate::domain::card::CardState;
use crate::domain::ids::*;

/// The people known so far, and their rows.
#[derive(Default)]
pub(super) struct People {
    users: Vec<User>,
    tickets: Vec<Ticket>,
    apps: Vec<App>,
    tokens: Vec<AccessToken>,
    endpoints: Vec<WebhookEndpoint>,
    exchanged_keys: Vec<ExchangedKey>,
    /// The number of external ids given out: none twice.
    external_ids: u32,
}

impl World {
    pub(super) fn change_people(&mut self) {
        match self.below(9) {
            0 => self.change_user(),
            1 | 2 => self.change_ticket(),
            3 => self.change_app(),
            4 => self.change_token(),
            5 => self.change_external_id(),
            6 => self.change_endpoint(),
            7 => self.exchange_key(),
            _ => self.note_event(),
        }
    }

    fn change_user(&mut self) {
        let known = self.pick(self.people.users.len()).filter(|_| self.people.users.len() == 3);
        let place = known.unwrap_or(self.people.users.len());
        if known.is_none() {
            let slot = u32::try_from(place).unwrap();
            self.people.users.push(User {
                slot: UserSlot(slot),
                id: UserId(id(10, slot)),
                // The first two are one address.
                email: EMAILS[place + 1].to_owned(),
                first_name: "Ann".to_owned(),
                last_name: format!("user {slot}"),
                password_hash: None,
                totp: None,
                security_question: None,
                developer_of: Vec::new(),
                is_closed: false,
                created_at: self.at,
            });
        }
        let step = self.below(100);
        let user = &mut self.people.users[place];
        user.password_hash = (step > 30).then(|| format!("hash {step}"));
        user.totp = (step > 60).then(|| Totp { sealed_seed: vec![3; 28], last_step: step });
        let user = user.clone();
        self.record(vec![Effect::row(user)]);
    }

    /// Issues a ticket, or uses or ends one that is open.
    fn change_ticket(&mut self) {
        let at = self.at;
        let open: Vec<_> = self.people.tickets.iter().filter(|ticket| ticket.is_open(at)).collect();
        let open: Vec<_> = open.iter().map(|ticket| ticket.digest).collect();
        let known = self.pick(open.len()).filter(|_| self.below(3) == 0);
        let ticket = match known.map(|place| open[place]) {
            Some(digest) => {
                let state = if self.below(2) == 0 { TicketState::Used } else { TicketState::Ended };
                let mut tickets = self.people.tickets.iter_mut();
                let ticket = tickets.find(|ticket| ticket.digest == digest).unwrap();
                ticket.state = state;
                ticket.clone()
            }
            None => {
                let Some(ticket) = self.new_ticket() else { return };
                self.people.tickets.push(ticket.clone());
                ticket
            }
        };
        self.record(vec![Effect::row(ticket)]);
    }

    fn new_ticket(&mut self) -> Option<Ticket> {
        let user = self.pick(self.people.users.len())?;
        let number = u32::try_from(self.people.tickets.len()).unwrap();
        let mut digest = [0; 32];
        // Digests do not have the order in which tickets are issued.
        digest[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_le_bytes());
        let kind = self.below(3);
        let code = self.code();
        let content = match (kind, code) {
            (0, Some(code)) => TicketContent::AuthorizationCode(Box::new(code)),
            (1, _) => TicketContent::PasswordLink {
                is_invite: number.is_multiple_of(2),
                sent_by: number.is_multiple_of(3).then_some(CompanySlot(0)),
            },
            _ => TicketContent::Session { user_agent: format!("browser {number}") },
        };
        let life = [60, 3_600, 43_200][usize::try_from(self.below(3)).unwrap()];
        Some(Ticket {
            digest,
            id: TicketId(id(11, number)),
            user: UserSlot(u32::try_from(user).unwrap()),
            created_at: self.at,
            expires_at: self.at.plus(life * Timestamp::SECOND),
            address: "192.0.2.7".to_owned(),
            state: TicketState::Open,
            content,
        })
    }

    fn code(&mut self) -> Option<AuthorizationCode> {
        let (app, member) = (self.pick(self.people.apps.len())?, self.pick(self.members.len())?);
        Some(AuthorizationCode {
            app: self.people.apps[app].slot,
            company: self.members[member].company,
            member: self.members[member].slot,
            redirect_uri: Some("https://app.test/back".to_owned()),
            scope: AccessScope { accountant: true, ..AccessScope::default() },
            code_challenge: None,
            token: None,
        })
    }

    fn change_app(&mut self) {
        let known = self.pick(self.people.apps.len()).filter(|_| self.below(2) == 0);
        let place = known.unwrap_or(self.people.apps.len());
        if known.is_none() {
            let slot = u32::try_from(place).unwrap();
            let app = App {
                slot: AppSlot(slot),
                id: AppId(id(12, slot)),
                company: self.company_slot(),
                name: format!("app {slot}"),
                website: "https://app.test".to_owned(),
                secret_digest: [7; 32],
                redirect_urls: vec!["https://app.test/back".to_owned()],
                revision: None,
                requested: AccessScope::default(),
                approved: AccessScope::default(),
                is_bound: false,
                is_deleted: false,
                created_at: self.at,
            };
            self.people.apps.push(app);
        }
        let number = self.below(4);
        let app = &mut self.people.apps[place];
        app.is_deleted |= number == 0;
        app.requested.admin = number == 1;
        app.revision = (number == 2).then(|| Box::new(app.profile()));
        let app = app.clone();
        self.record(vec![Effect::row(app)]);
    }

    /// Makes an endpoint, of a company or of an app, or changes one.
    fn change_endpoint(&mut self) {
        let known = self.pick(self.people.endpoints.len()).filter(|_| self.below(2) == 0);
        let place = known.unwrap_or(self.people.endpoints.len());
        if known.is_none() {
            let slot = u32::try_from(place).unwrap();
            let app = self.pick(self.people.apps.len()).filter(|_| self.below(2) == 0);
            let app = app.map(|app| self.people.apps[app].clone());
            let endpoint = WebhookEndpoint {
                slot: WebhookEndpointSlot(slot),
                id: WebhookEndpointId(id(13, slot)),
                company: app.as_ref().map_or_else(|| self.company_slot(), |app| app.company),
                app: app.map(|app| app.slot),
                url: format!("https://app.test/hooks/{slot}"),
                description: String::new(),
                sealed_secret: vec![9; 40],
                previous_secrets: Vec::new(),
                state: EndpointState::Enabled,
                created_at: self.at,
                enabled_at: self.at,
                is_deleted: false,
            };
            self.people.endpoints.push(endpoint);
        }
        let number = self.below(5);
        let endpoint = &mut self.people.endpoints[place];
        endpoint.is_deleted |= number == 0;
        endpoint.state = match number {
            1 => EndpointState::Disabled(DisabledBy::Gone),
            2 => EndpointState::Disabled(DisabledBy::Person),
            _ => EndpointState::Enabled,
        };
        if endpoint.state == EndpointState::Enabled {
            endpoint.enabled_at = self.at;
        }
        endpoint.previous_secrets = vec![(vec![8; 40], self.at); usize::from(number == 3)];
        let endpoint = endpoint.clone();
        self.record(vec![Effect::row(endpoint)]);
    }

    /// Gives one of three doors a key, or another one.
    fn exchange_key(&mut self) {
        let known = self.pick(self.people.exchanged_keys.len());
        let place = known.filter(|_| self.people.exchanged_keys.len() == 3);
        let place = place.unwrap_or(self.people.exchanged_keys.len());
        let slot = u32::try_from(place).unwrap();
        let (door, usage) = (format!("door-{slot}"), "M3".to_owned());
        let before = self.people.exchanged_keys.get(place);
        let row = ExchangedKey {
            slot: ExchangedKeySlot(slot),
            id: ExchangedKeyId::of(&door, &usage),
            key: NewExchangedKey {
                door,
                usage,
                sealed: vec![7; 45],
                check_value: [1, 2, 3],
                base: [4, 5, 6],
                sent_at: self.at,
                overlap_until: self.at,
            },
            sealed_before: before.map(|row| row.key.sealed.clone()),
            is_void: place == 2,
            created_at: before.map_or(self.at, |row| row.created_at),
        };
        match self.people.exchanged_keys.get_mut(place) {
            Some(known) => known.clone_from(&row),
            None => self.people.exchanged_keys.push(row.clone()),
        }
        self.record(vec![Effect::row(row)]);
    }

    /// Makes a token, mostly for somebody, or revokes one.
    fn change_token(&mut self) {
        let known = self.pick(self.people.tokens.len()).filter(|_| self.below(3) == 0);
        if let Some(place) = known {
            let token = &mut self.people.tokens[place];
            token.is_revoked = true;
            let token = token.clone();
            return self.record(vec![Effect::row(token)]);
        }
        let number = u32::try_from(self.people.tokens.len()).unwrap();
        let mut digest = [u8::try_from(number % 200).unwrap(); 32];
        digest[28..].copy_from_slice(&number.to_le_bytes());
        let (app, member) = (self.pick(self.people.apps.len()), self.pick(self.members.len()));
        let company = match member {
            Some(member) => self.members[member].company,
            None => self.company_slot(),
        };
        let grant = TokenGrant {
            app: app.map(|app| self.people.apps[app].slot),
            member: member.map(|member| self.members[member].slot),
            origin: TokenOrigin::Code,
            label: format!("token {number}"),
        };
        let token = AccessToken {
            digest,
            id: AccessTokenId(id(6, number)),
            company,
            scope: AccessScope::default(),
            is_revoked: false,
            created_at: self.at,
            grant: (self.below(4) > 0).then_some(grant),
        };
        self.people.tokens.push(token.clone());
        self.record(vec![Effect::row(token)]);
    }

    /// Sets or clears an external id, or has two members swap theirs.
    fn change_external_id(&mut self) {
        let Some(member) = self.pick(self.members.len()) else { return };
        let number = self.people.external_ids;
        self.people.external_ids += 1;
        let row = &mut self.members[member];
        if row.state != MemberState::Deleted {
            row.external_id = (!number.is_multiple_of(4)).then(|| format!("external {number}"));
            let row = row.clone();
            self.record(vec![Effect::row(row)]);
        }
    }

    fn note_event(&mut self) {
        let user = UserId(id(10, u32::try_from(self.below(3)).unwrap()));
        let token = AccessTokenId(id(6, u32::try_from(self.below(3)).unwrap()));
        let member = MemberId(id(3, u32::try_from(self.below(3)).unwrap()));
        let actor = match self.below(5) {
            0 => Actor::Operator,
            1 => Actor::Token { id: token, member: Some(member) },
            2 => Actor::User { id: user, member: None },
            3 => Actor::App { id: AppId(id(12, 0)) },
            _ => Actor::Switch,
        };
        let number = self.below(3);
        let company = (number > 0).then(|| self.company_slot());
        let object = (self.below(3) > 0).then(|| Uuid::from_u128(u128::from(number)));
        let event = AuditEvent {
            company,
            at: self.at,
            actor,
            address: (number == 1).then(|| "192.0.2.7".to_owned()),
            action: ["card.updated", "member.created", "card.terminated"]
                [usize::try_from(self.below(3)).unwrap()]
            .to_owned(),
            object_kind: "card".to_owned(),
            object,
            fields: vec!["state".to_owned()],
            values: vec![ValueChange {
                field: "state".to_owned(),
                old: AuditValue::None,
                new: AuditValue::CardState(CardState::Active),
            }],
        };
        self.record(vec![Effect::Audit(Box::new(event))]);
    }
}
