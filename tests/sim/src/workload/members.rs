//! Draws members, their requisitions and decisions.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand, MemberRole, NewMember};
use cardswitch_engine::directory::requisition::{
    NewRequisition, RequisitionChanges, RequisitionCommand, RequisitionVerdict, Review,
};
use cardswitch_engine::domain::ids::{CardId, CompanyId, MemberId, RequisitionId, Timestamp};
use cardswitch_engine::domain::money::Minor;
use uuid::Uuid;

use super::people::email_of;
use super::{MEMBERS_AT_FIRST, Workload};
use crate::model::{DAY, HOUR, Model};
use crate::rng::Rng;
use crate::samples::{company_id, member_id};

impl Workload {
    pub(crate) fn draw_member(&mut self, company: u64) -> NewMember {
        let number = self.members;
        self.members += 1;
        let email = email_of(number, company);
        let roles = [MemberRole::Member, MemberRole::Administrator, MemberRole::Reviewer];
        NewMember {
            id: member_id(number),
            company: company_id(company),
            first_name: "Ada".parse().unwrap(),
            last_name: format!("Lovelace {number}").parse().unwrap(),
            email: if self.rng.chance(50) { email.to_uppercase() } else { email },
            role: roles[number as usize % roles.len()],
            code: self.rng.chance(30).then(|| format!("{:03}", self.rng.below(20))),
            dimensions: [None; 4],
            external_id: self
                .rng
                .chance(20)
                .then(|| format!("ext{}", self.rng.below(2)).parse().unwrap()),
            is_active: self.rng.chance(90),
            invite: self
                .rng
                .chance(20)
                .then(|| self.people.draw_invite(&mut self.rng, self.at, number)),
        }
    }

    /// A first member of a company, or any member.
    pub(crate) fn pick_member(&mut self, company: u64) -> MemberId {
        let number = if self.rng.chance(85) {
            company * MEMBERS_AT_FIRST + self.rng.below(MEMBERS_AT_FIRST)
        } else {
            self.rng.below(self.members + 1)
        };
        member_id(number)
    }

    pub(crate) fn draw_member_command(&mut self, company: CompanyId) -> AdminCommand {
        let number = self.rng.below(3);
        let id = self.pick_member(number);
        let company = if self.rng.chance(90) { company_id(number) } else { company };
        match self.rng.below(100) {
            0..20 => AdminCommand::Member(MemberCommand::Create(self.draw_member(number))),
            20..25 => AdminCommand::Member(MemberCommand::Delete(company, id)),
            25..28 => {
                let user = self.rng.below(self.members);
                let link = self.people.draw_invite(&mut self.rng, self.at, user);
                AdminCommand::Member(MemberCommand::SendPasswordLink(company, id, link))
            }
            _ => {
                let roles = [MemberRole::Member, MemberRole::Reviewer];
                let code = self.rng.chance(30).then(|| format!("{:03}", self.rng.below(20)));
                let external = self
                    .rng
                    .chance(70)
                    .then(|| format!("ext{}", self.rng.below(2)).parse().unwrap());
                let changes = MemberChanges {
                    // A member who left comes back soon.
                    is_active: self.rng.chance(60).then(|| self.rng.chance(80)),
                    role: self.rng.chance(20).then(|| self.rng.pick(&roles)),
                    code: self.rng.chance(40).then_some(code),
                    external_id: self.rng.chance(20).then_some(external),
                    ..MemberChanges::default()
                };
                AdminCommand::Member(MemberCommand::Update(company, id, changes))
            }
        }
    }

    pub(crate) fn draw_requisition_command(&mut self, model: &Model, card: CardId) -> AdminCommand {
        let company = self.rng.below(3);
        let draw_end = |rng: &mut Rng, at: i64| {
            rng.chance(30).then(|| Timestamp(at + rng.between(-HOUR, 3 * DAY)))
        };
        if model.requisitions.is_empty() || self.rng.chance(40) {
            self.requisitions += 1;
            return AdminCommand::Requisition(RequisitionCommand::Create(NewRequisition {
                id: RequisitionId(Uuid::from_u64_pair(6, self.requisitions)),
                company: company_id(company),
                member: self.pick_member(company),
                amount: Minor(self.rng.between(0, 20_000)),
                description: "A chair".parse().unwrap(),
                end_time: draw_end(&mut self.rng, self.at),
                note: None,
                dimensions: [None; 4],
            }));
        }
        // Mostly a late one: the others were decided.
        let newest = model.requisitions.len() as u64;
        let asked = newest - 1 - self.rng.below(newest.min(6));
        let asked = &model.requisitions[asked as usize];
        let number = asked.company as u64;
        let company = if self.rng.chance(95) { company_id(number) } else { company_id(company) };
        if self.rng.chance(10) {
            return AdminCommand::Requisition(RequisitionCommand::Cancel(company, asked.id));
        }
        let amount = self.rng.between(-1, 20_000);
        let mut changes = RequisitionChanges {
            amount: self.rng.chance(30).then_some(Minor(amount)),
            end_time: self.rng.chance(20).then(|| draw_end(&mut self.rng, self.at)),
            ..RequisitionChanges::default()
        };
        if changes.is_empty() || self.rng.chance(60) {
            let verdict = match self.rng.below(10) {
                0..3 => RequisitionVerdict::Deny,
                3..6 => RequisitionVerdict::ApproveWithCard(card),
                _ => RequisitionVerdict::ApproveWithNewCard(Box::new(self.draw_card(number))),
            };
            let reviewed_by = self.rng.chance(50).then(|| self.pick_member(number));
            changes.review = Some(Review { verdict, reviewed_by });
        }
        AdminCommand::Requisition(RequisitionCommand::Update(company, asked.id, changes))
    }
}
