//! The administrative commands of the model.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::allowance::{AllowanceChanges, AllowanceCommand};
use cardswitch_engine::directory::card::{CardChanges, CardCommand, NewCard, SettableCardState};
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand, NewCompany};
use cardswitch_engine::directory::exchanged_key::{ExchangedKeyCommand, NewExchangedKey};
use cardswitch_engine::directory::member::MemberCommand;
use cardswitch_engine::directory::pan_key::{PanKeyCommand, ResealedCard};
use cardswitch_engine::directory::requisition::RequisitionCommand;
use cardswitch_engine::directory::user::ProvenPassword;
use cardswitch_engine::directory::webhook_endpoint::WebhookEndpointCommand;
use cardswitch_engine::domain::business_date::Interval;
use cardswitch_engine::domain::card::{CardState, SuspensionReason};
use cardswitch_engine::domain::company::CompanyState;
use cardswitch_engine::domain::credential::PackedZip;
use cardswitch_engine::domain::ids::{AllowanceId, CardId, CompanyId};
use cardswitch_engine::domain::money::Minor;

use super::people::Person;
use super::{Card, Company, Line, Model, date_in};

impl Model {
    pub(crate) fn admin(&mut self, at: i64, command: &AdminCommand) -> Result<(), Rejection> {
        match command {
            AdminCommand::Company(CompanyCommand::Create(new)) => self.create_company(new),
            AdminCommand::Company(CompanyCommand::Update(id, changes)) => {
                self.set_company(*id, changes)
            }
            AdminCommand::Member(MemberCommand::Create(new)) => self.create_member(at, new),
            AdminCommand::SetNetworkKey(_) | AdminCommand::NoteAct(_) => Ok(()),
            AdminCommand::ExchangedKey(ExchangedKeyCommand::Exchange(new)) => {
                self.exchange_key(new)
            }
            AdminCommand::PanKey(PanKeyCommand::Rotate(generation)) => {
                self.pan_generation = *generation;
                Ok(())
            }
            AdminCommand::PanKey(PanKeyCommand::Reseal(cards)) => self.reseal(cards),
            AdminCommand::Card(CardCommand::Issue(new)) => self.issue_card(at, new),
            AdminCommand::Card(CardCommand::Update(company, id, changes)) => {
                let card = self.card_of(*company, *id)?;
                self.update_card(at, card, changes)
            }
            AdminCommand::Card(CardCommand::Terminate(company, id)) => {
                let card = self.card_of(*company, *id)?;
                let card = &mut self.cards[card];
                (card.state, card.reason) = (CardState::Terminated, SuspensionReason::None);
                Ok(())
            }
            AdminCommand::Card(CardCommand::SetPin(company, id, pin)) => {
                self.open_company(*company)?;
                let card = self.card_of(*company, *id)?;
                if self.cards[card].state == CardState::Terminated {
                    return Err(Rejection::CardTerminated);
                }
                (self.cards[card].pin, self.cards[card].wrong_pins) = (pin.0, 0);
                Ok(())
            }
            AdminCommand::Allowance(AllowanceCommand::Update(company, id, changes)) => {
                let card = self.allowance_of(*company, *id)?;
                self.update_allowance(at, card, changes)
            }
            AdminCommand::Card(CardCommand::IssueTogether(cards)) => self.issue_cards(at, cards),
            // No purchase depends on any of it: `shared_links` tests it, step by step.
            AdminCommand::SharedLink(_) => panic!("not drawn: {command:?}"),
            AdminCommand::Member(MemberCommand::Update(company, id, changes)) => {
                self.update_member(at, (*company, *id), changes)
            }
            AdminCommand::Member(MemberCommand::SendPasswordLink(company, id, link)) => {
                self.send_password_link(at, (*company, *id), link)
            }
            AdminCommand::Member(MemberCommand::Delete(company, id)) => {
                self.delete_member(at, *company, *id)
            }
            AdminCommand::Requisition(command) => self.requisition(at, command),
            AdminCommand::WithPassword(proven, command) => {
                self.check_password(proven)?;
                self.admin(at, command)
            }
            AdminCommand::IfUnchanged(seen, command) => match self.may_have_changed(seen) {
                true => Err(Rejection::ChangedMeanwhile),
                false => self.admin(at, command),
            },
            AdminCommand::User(command) => self.user_command(at, command),
            AdminCommand::Ticket(command) => self.ticket_command(at, command),
            AdminCommand::AccessToken(command) => self.token_command(command),
            AdminCommand::App(command) => self.app_command(at, command),
            AdminCommand::WebhookEndpoint(command) => self.webhook_endpoint(command),
            // Commands whose rows no decision reads have tests of their own: `dimensions`, `looking`.
            _ => unreachable!("no program asks for it"),
        }
    }

    fn check_password(&self, proven: &ProvenPassword) -> Result<(), Rejection> {
        let is_it = |user: &&Person| user.id == proven.user;
        let user = self.users.iter().find(is_it).ok_or(Rejection::UserNotFound)?;
        let totp_seed = user.totp.as_ref().map(|totp| totp.sealed_seed.clone());
        // No program sets security questions.
        let is_current = (&user.password, &totp_seed) == (&proven.password_hash, &proven.totp_seed);
        if is_current && !user.is_closed { Ok(()) } else { Err(Rejection::PasswordChanged) }
    }

    /// A later message brings a later key.
    fn exchange_key(&mut self, new: &NewExchangedKey) -> Result<(), Rejection> {
        let is_same =
            |known: &&NewExchangedKey| (&known.door, &known.usage) == (&new.door, &new.usage);
        let known = self.exchanged_keys.iter().rfind(is_same);
        if known.is_some_and(|known| new.sent_at <= known.sent_at) {
            return Err(Rejection::ZoneKeyRepeated);
        }
        self.exchanged_keys.push(new.clone());
        Ok(())
    }

    fn requisition(&mut self, at: i64, command: &RequisitionCommand) -> Result<(), Rejection> {
        match command {
            RequisitionCommand::Create(new) => self.create_requisition(new),
            RequisitionCommand::Update(company, id, changes) => {
                self.update_requisition(at, *company, *id, changes)
            }
            RequisitionCommand::Cancel(company, id) => self.cancel_requisition(*company, *id),
        }
    }

    /// No decision reads an endpoint: `webhooks` of the world looks at its deliveries.
    fn webhook_endpoint(&mut self, command: &WebhookEndpointCommand) -> Result<(), Rejection> {
        match command {
            WebhookEndpointCommand::Create(new) => {
                self.open_company(new.company)?;
                if self.webhook_endpoints.contains(&new.id) {
                    return Err(Rejection::IdTaken);
                }
                self.webhook_endpoints.push(new.id);
                Ok(())
            }
            WebhookEndpointCommand::Update(_, id, _) if self.webhook_endpoints.contains(id) => {
                Ok(())
            }
            _ => unreachable!("no program asks for it"),
        }
    }

    fn issue_cards(&mut self, at: i64, cards: &[NewCard]) -> Result<(), Rejection> {
        let count_before = self.cards.len();
        let made = cards.iter().try_for_each(|new| self.issue_card(at, new));
        if made.is_err() {
            self.cards.truncate(count_before);
        }
        made
    }

    /// No decision reads the key that seals a number.
    fn reseal(&self, cards: &[ResealedCard]) -> Result<(), Rejection> {
        let newest = self.pan_generation;
        let is_newest = cards.iter().all(|card| card.sealed_pan.generation() == newest);
        if is_newest { Ok(()) } else { Err(Rejection::PanKeyOutdated) }
    }

    pub(crate) fn company(&self, id: CompanyId) -> Result<usize, Rejection> {
        let found = self.companies.iter().position(|company| company.id == id);
        found.ok_or(Rejection::CompanyNotFound)
    }

    /// A company that is not closed.
    pub(crate) fn open_company(&self, id: CompanyId) -> Result<usize, Rejection> {
        let company = self.company(id)?;
        self.check_open(company).map(|()| company)
    }

    pub(crate) fn check_open(&self, company: usize) -> Result<(), Rejection> {
        if self.companies[company].is_shut { Err(Rejection::CompanyClosed) } else { Ok(()) }
    }

    pub(crate) fn card_of(&self, company: CompanyId, id: CardId) -> Result<usize, Rejection> {
        let company = self.company(company)?;
        let is_it = |card: &Card| card.id == id && card.company == company;
        self.cards.iter().position(is_it).ok_or(Rejection::CardNotFound)
    }

    fn allowance_of(&self, company: CompanyId, id: AllowanceId) -> Result<usize, Rejection> {
        let company = self.company(company)?;
        let is_it = |card: &Card| card.allowance_id == id && card.company == company;
        self.cards.iter().position(is_it).ok_or(Rejection::AllowanceNotFound)
    }

    fn create_company(&mut self, new: &NewCompany) -> Result<(), Rejection> {
        let is_taken = |known: &Company| known.id == new.id || known.account_id == new.account.id;
        if self.companies.iter().any(is_taken) {
            return Err(Rejection::IdTaken);
        }
        let opening = new.account.opening_balance.0;
        let mut lines = Vec::new();
        if opening > 0 {
            self.last_seq += 1;
            lines.push(Line { amount: opening, of_card: None });
        }
        self.companies.push(Company {
            id: new.id,
            account_id: new.account.id,
            zone: new.zone,
            allows_partial: new.partial_approval,
            hold_table: new.hold_table.clone(),
            currency: new.currency.0,
            credit_limit: new.account.credit_limit.0,
            is_closed: new.state != CompanyState::Active,
            is_shut: new.state == CompanyState::Closed,
            velocity: new.velocity,
            zip: new.billing_address.zip_code.to_string(),
            lines,
        });
        Ok(())
    }

    fn set_company(&mut self, id: CompanyId, changes: &CompanyChanges) -> Result<(), Rejection> {
        let company = self.company(id)?;
        let company = &mut self.companies[company];
        if changes.credit_limit.is_some_and(|limit| limit.0 < 0) {
            return Err(Rejection::OutOfBounds);
        }
        if let Some(limit) = changes.credit_limit {
            company.credit_limit = limit.0;
        }
        if let Some(allows_partial) = changes.partial_approval {
            company.allows_partial = allows_partial;
        }
        if let Some(table) = &changes.hold_table {
            company.hold_table = table.clone();
        }
        if let Some(state) = changes.state {
            company.is_closed = state != CompanyState::Active;
            company.is_shut = state == CompanyState::Closed;
        }
        Ok(())
    }

    pub(crate) fn issue_card(&mut self, at: i64, new: &NewCard) -> Result<(), Rejection> {
        let order = &new.order;
        let company = self.open_company(order.company)?;
        if self.cards.iter().any(|card| card.id == new.id || card.allowance_id == new.allowance_id)
        {
            return Err(Rejection::IdTaken);
        }
        if self.cards.iter().any(|card| card.pan == new.pan_hash) {
            return Err(Rejection::CardNumberTaken);
        }
        let holder = order.assigned_to.map(|id| self.active_member(company, id)).transpose()?;
        let today = date_in(self.companies[company].zone, at);
        let own_zip = order.billing_address.as_ref().map(|address| address.zip_code.clone());
        let zip = own_zip.as_deref().unwrap_or(&self.companies[company].zip);
        self.cards.push(Card {
            id: new.id,
            allowance_id: new.allowance_id,
            pan: new.pan_hash,
            company,
            expires_on: new.expires_on.to_naive(),
            pin: new.pin.0,
            zip: PackedZip::pack(zip).0,
            own_zip,
            is_virtual: order.is_virtual,
            description: order.texts.description.to_string(),
            holder,
            state: new.state,
            reason: SuspensionReason::None,
            wrong_pins: 0,
            wrong_credentials: None,
            attempts: Vec::new(),
            terms: order.terms,
            period: 0,
            anchor: today,
            today,
        });
        Ok(())
    }

    fn update_card(
        &mut self,
        at: i64,
        card: usize,
        changes: &CardChanges,
    ) -> Result<(), Rejection> {
        let company_zip = self.companies[self.cards[card].company].zip.clone();
        let holder = self.holder_after(card, changes.assigned_to)?;
        let card = &mut self.cards[card];
        match changes.state {
            Some(_) if card.state == CardState::Terminated => {
                return Err(Rejection::CardTerminated);
            }
            Some(SettableCardState::Active)
                if card.state != CardState::Active && !card.is_virtual && holder.is_none() =>
            {
                return Err(Rejection::AssigneeMissing);
            }
            Some(SettableCardState::Active) if at > card.terms.ends_at.0 => {
                return Err(Rejection::AllowanceEnded);
            }
            Some(SettableCardState::Active) => {
                (card.state, card.reason) = (CardState::Active, SuspensionReason::None);
            }
            Some(SettableCardState::Suspended) if card.state != CardState::Suspended => {
                (card.state, card.reason) = (CardState::Suspended, SuspensionReason::Manual);
            }
            _ => {}
        }
        card.holder = holder;
        if let Some(address) = &changes.billing_address {
            card.own_zip = address.as_ref().map(|address| address.zip_code.clone());
            card.zip = PackedZip::pack(card.own_zip.as_deref().unwrap_or(&company_zip)).0;
        }
        Ok(())
    }

    fn update_allowance(
        &mut self,
        at: i64,
        card: usize,
        changes: &AllowanceChanges,
    ) -> Result<(), Rejection> {
        let before = self.cards[card].terms;
        let mut terms = before;
        terms.amount = changes.amount.unwrap_or(terms.amount);
        terms.interval = changes.interval.unwrap_or(terms.interval);
        terms.daily_limit = changes.daily_limit.unwrap_or(terms.daily_limit);
        terms.transaction_limit = changes.transaction_limit.unwrap_or(terms.transaction_limit);
        terms.single_use = changes.single_use.unwrap_or(terms.single_use);
        terms.starts_at = changes.starts_at.unwrap_or(terms.starts_at);
        terms.ends_at = changes.ends_at.unwrap_or(terms.ends_at);
        terms.scope = changes.scope.unwrap_or(terms.scope);
        if changes.reset && terms.interval != Interval::None {
            return Err(Rejection::ResetNeedsNoInterval);
        }
        if [terms.amount, terms.daily_limit, terms.transaction_limit].iter().any(|m| *m < Minor(0))
        {
            return Err(Rejection::OutOfBounds);
        }
        if terms.starts_at > terms.ends_at {
            return Err(Rejection::StartsAfterEnd);
        }
        self.turn_pages(card, at);
        let card = &mut self.cards[card];
        card.terms = terms;
        if changes.reset {
            card.period += 1;
            card.anchor = card.today;
        } else if terms.interval != before.interval {
            card.anchor = card.today;
        }
        Ok(())
    }
}
