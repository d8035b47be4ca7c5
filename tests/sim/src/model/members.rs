//! Members of the model and their requisitions: active and former members, pending and decided requisitions.

use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::card::{CardOrder, NewCard};
use cardswitch_engine::directory::member::{MemberChanges, MemberRole, MemberState, NewMember};
use cardswitch_engine::directory::requisition::{
    NewRequisition, RequisitionChanges, RequisitionStatus, RequisitionVerdict, Review,
};
use cardswitch_engine::directory::user::NewInvite;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::card::{CardState, CardTexts, SuspensionReason};
use cardswitch_engine::domain::ids::{CompanyId, MemberId, RequisitionId, Timestamp};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::text::LineText;

use super::{Card, Member, Model, Requisition};

impl Model {
    pub(crate) fn create_member(&mut self, at: i64, new: &NewMember) -> Result<(), Rejection> {
        let company = self.open_company(new.company)?;
        if self.members.iter().any(|member| member.id == new.id) {
            return Err(Rejection::IdTaken);
        }
        let is_here =
            |member: &&Member| member.company == company && member.state != MemberState::Deleted;
        let wanted = new.email.to_lowercase();
        if self.members.iter().filter(is_here).any(|m| m.email.to_lowercase() == wanted) {
            return Err(Rejection::EmailTaken);
        }
        if !new.is_active && new.role != MemberRole::Member {
            return Err(Rejection::MemberInactive);
        }
        self.check_code(company, None, new.code.as_ref())?;
        self.check_external_id(company, None, new.external_id.as_ref())?;
        self.members.push(Member {
            id: new.id,
            company,
            email: new.email.clone(),
            code: new.code.clone(),
            role: new.role,
            state: if new.is_active { MemberState::Active } else { MemberState::Inactive },
            external_id: new.external_id.clone(),
            name: format!("{} {}", new.first_name, new.last_name),
        });
        let Some(invite) = new.invite.as_ref().filter(|_| new.is_active) else { return Ok(()) };
        // A link that cannot be issued leaves no member behind.
        let invited = self.invite(at, (company, &new.email), invite);
        if invited.is_err() {
            self.members.pop();
        }
        invited
    }

    fn check_code(
        &self,
        company: usize,
        owner: Option<usize>,
        code: Option<&String>,
    ) -> Result<(), Rejection> {
        let has_it = |(number, member): (usize, &Member)| {
            member.company == company
                && member.state != MemberState::Deleted
                && Some(number) != owner
                && code.is_some()
                && member.code.as_ref() == code
        };
        let is_taken = self.members.iter().enumerate().any(has_it);
        if is_taken { Err(Rejection::MemberCodeTaken) } else { Ok(()) }
    }

    pub(crate) fn update_member(
        &mut self,
        at: i64,
        (company, id): (CompanyId, MemberId),
        changes: &MemberChanges,
    ) -> Result<(), Rejection> {
        let member = self.member_of(company, id)?;
        if self.members[member].state == MemberState::Deleted {
            return Err(Rejection::MemberDeleted);
        }
        if let Some(code) = &changes.code {
            self.check_code(self.members[member].company, Some(member), code.as_ref())?;
        }
        if let Some(id) = &changes.external_id {
            let company = self.members[member].company;
            self.check_external_id(company, Some(member), id.as_ref())?;
        }
        let state = match changes.is_active {
            None => self.members[member].state,
            Some(true) => MemberState::Active,
            Some(false) => MemberState::Inactive,
        };
        let role = changes.role.unwrap_or(self.members[member].role);
        let is_active = MemberState::Active;
        let was = (self.members[member].state, self.members[member].role);
        if state != is_active && was.0 != is_active && role != was.1 {
            return Err(Rejection::MemberInactive);
        }
        let begins = state == MemberState::Active && state != self.members[member].state;
        if let Some(invite) = changes.invite.as_ref().filter(|_| begins) {
            // The invitation is the only thing that can be refused of a member who comes back.
            let (company, email) =
                (self.members[member].company, self.members[member].email.clone());
            self.open_company(self.companies[company].id)?;
            self.invite(at, (company, &email), invite)?;
        }
        self.put(at, member, (state, role))?;
        if let Some(id) = &changes.external_id {
            self.members[member].external_id.clone_from(id);
        }
        if let Some(code) = &changes.code {
            self.members[member].code.clone_from(code);
        }
        Ok(())
    }

    pub(crate) fn send_password_link(
        &mut self,
        at: i64,
        (company, id): (CompanyId, MemberId),
        link: &NewInvite,
    ) -> Result<(), Rejection> {
        let company = self.open_company(company)?;
        let member = self.active_member(company, id)?;
        let email = self.members[member].email.clone();
        self.send_link(at, (company, &email), link)
    }

    pub(crate) fn delete_member(
        &mut self,
        at: i64,
        company: CompanyId,
        id: MemberId,
    ) -> Result<(), Rejection> {
        let member = self.member_of(company, id)?;
        if self.members[member].state == MemberState::Deleted {
            return Ok(());
        }
        self.put(at, member, (MemberState::Deleted, MemberRole::Member))?;
        self.members[member].external_id = None;
        self.free_address(at, &self.members[member].email.clone());
        Ok(())
    }

    /// A member who is not active has no role, no working card and no pending requisition.
    fn put(
        &mut self,
        at: i64,
        member: usize,
        (state, role): (MemberState, MemberRole),
    ) -> Result<(), Rejection> {
        let is_active = state == MemberState::Active;
        let role = if is_active { role } else { MemberRole::Member };
        let administrators = |model: &Self| {
            let company = model.members[member].company;
            let is_one = |m: &&Member| {
                m.company == company
                    && m.state == MemberState::Active
                    && m.role == MemberRole::Administrator
            };
            model.members.iter().filter(is_one).count()
        };
        let before = administrators(self);
        let known = (self.members[member].state, self.members[member].role);
        (self.members[member].state, self.members[member].role) = (state, role);
        if before > 0 && administrators(self) == 0 {
            (self.members[member].state, self.members[member].role) = known;
            return Err(Rejection::LastAdministrator);
        }
        if !is_active && state != known.0 {
            self.shut_out(at, member);
        } else if role != known.1 {
            self.narrow(at, member, role);
        }
        if !is_active {
            for card in self.cards.iter_mut().filter(|card| card.holder == Some(member)) {
                (card.state, card.reason) = (CardState::Terminated, SuspensionReason::None);
            }
            for asked in self.requisitions.iter_mut().filter(|asked| asked.member == member) {
                if asked.status == RequisitionStatus::Pending {
                    asked.status = RequisitionStatus::Denied;
                }
            }
        }
        Ok(())
    }

    fn member_of(&self, company: CompanyId, id: MemberId) -> Result<usize, Rejection> {
        let company = self.company(company)?;
        let is_it = |member: &Member| member.id == id && member.company == company;
        self.members.iter().position(is_it).ok_or(Rejection::MemberNotFound)
    }

    pub(crate) fn active_member(&self, company: usize, id: MemberId) -> Result<usize, Rejection> {
        let is_it = |member: &Member| {
            member.id == id && member.company == company && member.state == MemberState::Active
        };
        self.members.iter().position(is_it).ok_or(Rejection::MemberNotFound)
    }

    pub fn member_count(&self) -> usize {
        self.members.len()
    }

    /// The id of a member, and the address.
    pub fn member_contact(&self, member: usize) -> (MemberId, &str) {
        (self.members[member].id, &self.members[member].email)
    }

    pub fn is_active(&self, member: usize) -> bool {
        self.members[member].state == MemberState::Active
    }

    pub(crate) fn is_holder_gone(&self, card: &Card) -> bool {
        card.holder.is_some_and(|holder| self.members[holder].state != MemberState::Active)
    }

    /// The holder of a card after it was given away.
    pub(crate) fn holder_after(
        &self,
        card: usize,
        wanted: Option<Option<MemberId>>,
    ) -> Result<Option<usize>, Rejection> {
        let card = &self.cards[card];
        let Some(wanted) = wanted else { return Ok(card.holder) };
        if wanted == card.holder.map(|holder| self.members[holder].id) {
            return Ok(card.holder);
        }
        if card.state == CardState::Terminated {
            return Err(Rejection::CardTerminated);
        }
        wanted.map(|id| self.active_member(card.company, id)).transpose()
    }

    pub(crate) fn create_requisition(&mut self, new: &NewRequisition) -> Result<(), Rejection> {
        let company = self.company(new.company)?;
        if self.requisitions.iter().any(|asked| asked.id == new.id) {
            return Err(Rejection::IdTaken);
        }
        let member = self.active_member(company, new.member)?;
        if new.amount <= Minor(0) {
            return Err(Rejection::OutOfBounds);
        }
        let is_pending = |asked: &&Requisition| {
            asked.member == member && asked.status == RequisitionStatus::Pending
        };
        if self.requisitions.iter().filter(is_pending).count() >= 50 {
            return Err(Rejection::TooManyRequisitions);
        }
        self.requisitions.push(Requisition {
            description: new.description.to_string(),
            id: new.id,
            company,
            member,
            amount: new.amount.0,
            end_time: new.end_time.map(|at| at.0),
            status: RequisitionStatus::Pending,
        });
        Ok(())
    }

    fn pending_requisition(
        &self,
        company: CompanyId,
        id: RequisitionId,
    ) -> Result<usize, Rejection> {
        let company = self.company(company)?;
        let is_it = |asked: &Requisition| asked.id == id && asked.company == company;
        let found = self.requisitions.iter().position(is_it);
        let found = found.ok_or(Rejection::NotFound)?;
        match self.requisitions[found].status {
            RequisitionStatus::Pending => Ok(found),
            _ => Err(Rejection::RequisitionDecided),
        }
    }

    pub(crate) fn cancel_requisition(
        &mut self,
        company: CompanyId,
        id: RequisitionId,
    ) -> Result<(), Rejection> {
        let found = self.pending_requisition(company, id)?;
        self.requisitions[found].status = RequisitionStatus::Canceled;
        Ok(())
    }

    pub(crate) fn update_requisition(
        &mut self,
        at: i64,
        company: CompanyId,
        id: RequisitionId,
        changes: &RequisitionChanges,
    ) -> Result<(), Rejection> {
        let found = self.pending_requisition(company, id)?;
        let amount = changes.amount.map_or(self.requisitions[found].amount, |amount| amount.0);
        let end_time = changes
            .end_time
            .map_or(self.requisitions[found].end_time, |end_time| end_time.map(|at| at.0));
        if amount <= 0 {
            return Err(Rejection::OutOfBounds);
        }
        if let Some(review) = &changes.review {
            let terms = AllowanceTerms {
                ends_at: end_time.map_or(Timestamp::MAX, Timestamp),
                single_use: true,
                ..AllowanceTerms::budget(Minor(amount))
            };
            self.review(at, company, (found, terms), review)?;
        }
        let asked = &mut self.requisitions[found];
        (asked.amount, asked.end_time) = (amount, end_time);
        Ok(())
    }

    fn review(
        &mut self,
        at: i64,
        company: CompanyId,
        (asked, terms): (usize, AllowanceTerms),
        review: &Review,
    ) -> Result<(), Rejection> {
        if let Some(id) = review.reviewed_by {
            let reviewer = self.active_member(self.requisitions[asked].company, id);
            let role = reviewer.map(|reviewer| self.members[reviewer].role);
            if !matches!(role, Ok(MemberRole::Administrator | MemberRole::Reviewer)) {
                return Err(Rejection::ReviewerNotFound);
            }
        }
        let has_ended = at > terms.ends_at.0;
        let status = match &review.verdict {
            RequisitionVerdict::Deny => RequisitionStatus::Denied,
            RequisitionVerdict::ApproveWithCard(id) => {
                let card = self.card_of(company, *id)?;
                if self.cards[card].state == CardState::Terminated {
                    return Err(Rejection::CardTerminated);
                }
                RequisitionStatus::Approved
            }
            RequisitionVerdict::ApproveWithNewCard(drawn) => {
                let holder = self.members[self.requisitions[asked].member].id;
                let order = CardOrder {
                    company,
                    terms,
                    is_virtual: true,
                    assigned_to: Some(holder),
                    texts: CardTexts {
                        description: self.requisitions[asked].description.parse().unwrap(),
                        ..drawn.order.texts.clone()
                    },
                    ..drawn.order.clone()
                };
                let state = CardState::Active;
                let card = NewCard { state, order, ..(**drawn).clone() };
                self.issue_card(at, &card)?;
                if has_ended {
                    self.cards.pop();
                }
                RequisitionStatus::Approved
            }
        };
        if status == RequisitionStatus::Approved && has_ended {
            return Err(Rejection::RequisitionEnded);
        }
        self.requisitions[asked].status = status;
        Ok(())
    }

    /// Whether no other member of the company, that is not deleted, has this external id.
    pub(crate) fn check_external_id(
        &self,
        company: usize,
        owner: Option<usize>,
        id: Option<&LineText>,
    ) -> Result<(), Rejection> {
        let Some(id) = id else { return Ok(()) };
        let has_it = |(number, member): (usize, &Member)| {
            member.company == company
                && Some(number) != owner
                && member.external_id.as_ref() == Some(id)
        };
        let is_taken = self.members.iter().enumerate().any(has_it);
        if is_taken { Err(Rejection::ExternalIdTaken) } else { Ok(()) }
    }
}
