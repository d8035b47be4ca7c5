//! Draws the changes of companies, their cards and their allowances.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::allowance::{AllowanceChanges, AllowanceCommand};
use cardswitch_engine::directory::card::{CardChanges, CardCommand, NewCard, SettableCardState};
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand};
use cardswitch_engine::directory::pan_key::PanKeyCommand;
use cardswitch_engine::domain::allowance::{AllowanceTerms, Scope};
use cardswitch_engine::domain::business_date::{BusinessDate, Interval};
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::company::{Address, CompanyState};
use cardswitch_engine::domain::credential::PinVerifier;
use cardswitch_engine::domain::ids::{CardId, Timestamp};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::pan_key::PanGeneration;

use super::Workload;
use crate::model::{DAY, HOUR, Model};
use crate::rng::Rng;
use crate::samples::{admin, company_id, new_card, resealed};

/// What companies say of their holds: days for others, for categories and for groups.
const HOLD_TABLES: [&str; 8] =
    ["", "10", "2", "3=4", "3=1,7011=12", "21,2=9,7512=3,5411=1", "3=45,5541=2", "365,3501=31"];

impl Workload {
    pub(crate) fn draw_admin(&mut self, model: &Model) -> Command {
        let at = self.rng.below(model.cards.len() as u64) as usize;
        let card = &model.cards[at];
        let is_foreign = self.rng.chance(3);
        let company = if is_foreign {
            company_id(self.rng.below(5))
        } else {
            model.companies[card.company].id
        };
        let (id, allowance) = (card.id, card.allowance_id);
        admin(match self.rng.below(100) {
            0..42 => AdminCommand::Allowance(AllowanceCommand::Update(
                company,
                allowance,
                self.draw_allowance(model, at),
            )),
            42..72 => AdminCommand::Card(CardCommand::Update(
                company,
                id,
                self.draw_card_changes(card.company),
            )),
            72..75 => AdminCommand::Card(CardCommand::Terminate(company, id)),
            75..83 => AdminCommand::Card(CardCommand::SetPin(
                company,
                id,
                PinVerifier(self.rng.below(500)),
            )),
            83..90 => {
                AdminCommand::Company(CompanyCommand::Update(company, self.draw_company_changes()))
            }
            90 => self.draw_key_command(model, id),
            91 => {
                let company = self.rng.below(3);
                let mut cards = vec![self.draw_card(company), self.draw_card(company)];
                if self.rng.chance(20) {
                    cards[1].pan_hash = card.pan;
                }
                AdminCommand::Card(CardCommand::IssueTogether(cards))
            }
            92..94 => self.draw_member_command(company),
            94..96 => self.draw_requisition_command(model, id),
            _ => {
                let company = self.rng.below(3);
                let mut new = self.draw_card(company);
                if self.rng.chance(8) {
                    new.pan_hash = card.pan;
                }
                if self.rng.chance(8) {
                    new.id = card.id;
                }
                AdminCommand::Card(CardCommand::Issue(new))
            }
        })
    }

    /// Another network key, another key of card numbers, or a number sealed anew.
    fn draw_key_command(&mut self, model: &Model, card: CardId) -> AdminCommand {
        let PanGeneration(newest) = model.pan_generation;
        match self.rng.below(8) {
            0..4 => AdminCommand::SetNetworkKey([self.rng.below(256) as u8; 32]),
            4 => AdminCommand::PanKey(PanKeyCommand::Rotate(PanGeneration(newest + 1))),
            5 => AdminCommand::PanKey(PanKeyCommand::Reseal(vec![resealed(card, newest + 1)])),
            _ => AdminCommand::PanKey(PanKeyCommand::Reseal(vec![resealed(card, newest)])),
        }
    }

    fn draw_company_changes(&mut self) -> CompanyChanges {
        // Closed seldom, opened again soon.
        let state = match self.rng.below(40) {
            0 => CompanyState::Closed,
            1 => CompanyState::Pending,
            _ => CompanyState::Active,
        };
        let credit = self.rng.between(-10, 2_000_000);
        CompanyChanges {
            state: Some(state),
            credit_limit: self.rng.chance(30).then_some(Minor(credit)),
            partial_approval: self.rng.chance(20).then(|| self.rng.chance(70)),
            hold_table: self.rng.chance(20).then(|| self.rng.pick(&HOLD_TABLES).parse().unwrap()),
            name: Some("Another name".parse().unwrap()),
            ..CompanyChanges::default()
        }
    }

    pub(crate) fn draw_card(&mut self, company: u64) -> NewCard {
        self.cards += 1;
        let rng = &mut self.rng;
        let mut terms = AllowanceTerms::budget(Minor(rng.between(20_000, 300_000)));
        terms.interval = draw_interval(rng);
        terms.daily_limit = draw_limit(rng);
        terms.transaction_limit = draw_limit(rng);
        terms.single_use = rng.chance(8);
        let mut card = new_card(self.cards, company, terms);
        if rng.chance(15) {
            card.pin = PinVerifier(0);
        }
        if rng.chance(20) {
            card.order.billing_address = Some(Address::default());
        }
        if rng.chance(20) {
            card.order.is_virtual = false;
            card.state = CardState::Unactivated;
        }
        let is_held = rng.chance(40);
        let days = rng.between(5, 900) as i32;
        card.expires_on = BusinessDate((self.at / DAY) as i32 + days);
        card.order.assigned_to = is_held.then(|| self.pick_member(company));
        card
    }

    fn draw_card_changes(&mut self, company: usize) -> CardChanges {
        let company = company as u64;
        let mut changes = CardChanges::default();
        if self.rng.chance(75) {
            let open = self.rng.chance(80);
            changes.state =
                Some(if open { SettableCardState::Active } else { SettableCardState::Suspended });
        }
        if self.rng.chance(30) {
            changes.assigned_to = Some(self.rng.chance(70).then(|| self.pick_member(company)));
        }
        if self.rng.chance(15) {
            let zip_code = self.rng.pick(&["94105", "10001", ""]).parse().unwrap();
            let address = Address { zip_code, ..Address::default() };
            changes.billing_address = Some(self.rng.chance(70).then_some(address));
        }
        changes
    }

    fn draw_allowance(&mut self, model: &Model, card: usize) -> AllowanceChanges {
        let mut changes = AllowanceChanges::default();
        let rng = &mut self.rng;
        if rng.chance(45) {
            // Now and then just the amount spent, or a little below it.
            let spent = model.spent(card).clamp(0, 1 << 40);
            let amount =
                if rng.chance(20) { spent - rng.between(0, 1) } else { rng.between(0, 400_000) };
            changes.amount = Some(Minor(amount));
        }
        if rng.chance(25) {
            changes.interval = Some(draw_interval(rng));
        }
        changes.reset = rng.chance(20);
        if rng.chance(25) {
            changes.daily_limit = Some(draw_limit(rng));
        }
        if rng.chance(25) {
            changes.transaction_limit = Some(draw_limit(rng));
        }
        if rng.chance(15) {
            changes.single_use = Some(rng.chance(25));
        }
        if rng.chance(15) {
            let starts_at = Timestamp(self.at + rng.between(-DAY, DAY));
            changes.starts_at = Some(if rng.chance(70) { Timestamp::MIN } else { starts_at });
        }
        if rng.chance(20) {
            let ends_at = Timestamp(self.at + rng.between(-HOUR, 9 * DAY));
            changes.ends_at = Some(if rng.chance(50) { Timestamp::MAX } else { ends_at });
        }
        if rng.chance(15) {
            let scopes: [&[u16]; 5] = [&[], &[], &[5812, 5411], &[10], &[3, 5812]];
            changes.scope = Scope::new(rng.pick(&scopes));
        }
        changes
    }
}

fn draw_interval(rng: &mut Rng) -> Interval {
    rng.pick(&[
        Interval::None,
        Interval::Daily,
        Interval::Weekly,
        Interval::Monthly,
        Interval::Quarterly,
        Interval::Yearly,
    ])
}

fn draw_limit(rng: &mut Rng) -> Minor {
    if rng.chance(60) { Minor::UNLIMITED } else { Minor(rng.between(0, 20_000)) }
}
