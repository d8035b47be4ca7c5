//! Members: people who can be assigned cards. Source: spec "Members", "States and transitions".
//!
//! A deleted member is found by id alone: its address and its code are free again.
//! A departure is one record, so no reader finds a member gone and a card of theirs open.
//! INVARIANT: a card that is not terminated has no holder, or an active member as its holder.

use serde::{Deserialize, Serialize};

use super::access_token::{AccessScope, AccessToken, revoke};
use super::card::terminate_card;
use super::change::{PartitionView, StateChange};
use super::company::{check_open, find_company, find_open_company};
use super::dimension::{change_dimensions, check_dimensions};
use super::requisition::deny_pending;
use super::row::indexes;
use super::shared_link::{SharedLink, gone};
use super::ticket::{Ticket, TicketKind, end};
use super::user::{
    NewInvite, User, close_account, find_user_by_email, invite, issue_link_to, memberships,
};
use crate::command::audit_line::{AuditLine, named};
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::domain::card::Dimensions;
use crate::domain::changes::{changes, replace};
use crate::domain::email::email_key;
use crate::domain::enumeration::enumeration;
use crate::domain::ids::{CompanyId, CompanySlot, DimensionId, MemberId, MemberSlot, Timestamp};
use crate::domain::text::LineText;
use crate::limits;

enumeration! {
    /// The rights of a member. Source: spec "Member", role.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum MemberRole {
        /// Full rights in the company.
        Administrator => "administrator",
        /// Books and read access.
        Accountant => "accountant",
        /// Reviews requisitions.
        Reviewer => "reviewer",
        /// Uses cards.
        Member => "member",
    }
}

impl MemberRole {
    /// Whether a member of this role may let a program act for them within a scope. A role may give
    /// only scopes whose operations it may perform itself; every scope includes reading.
    pub const fn may_allow(self, scope: AccessScope) -> bool {
        match self {
            Self::Administrator => true,
            Self::Accountant => !scope.admin && !scope.scim && !scope.iam,
            Self::Reviewer | Self::Member => false,
        }
    }
}

enumeration! {
    /// The state of a membership.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum MemberState {
        /// An active member.
        Active => "active",
        /// Deactivated.
        Inactive => "inactive",
        /// Gone from lists; cards and transactions keep referring to it.
        Deleted => "deleted",
    }
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The row's slot.
    pub slot: MemberSlot,
    /// Its public id.
    pub id: MemberId,
    /// The company of the member.
    pub company: CompanySlot,
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
    /// E-mail address, unique within the company.
    pub email: String,
    /// Its role.
    pub role: MemberRole,
    /// Employee id: digits only.
    pub code: Option<String>,
    /// The id that the company's identity provider gave it; none of a deleted one. Source: RFC 7643, 3.1.
    pub external_id: Option<String>,
    /// Its state.
    pub state: MemberState,
    /// Its department, label and location.
    pub dimensions: Dimensions,
    /// The time of creation.
    pub created_at: Timestamp,
}

impl Member {
    /// Whether the member is active.
    pub fn takes_part(&self) -> bool {
        self.state == MemberState::Active
    }
}

indexes! {
    Member(member), CHANGES_ACCESS: true, found if member.state != MemberState::Deleted;
    /// The members of a company.
    OF_COMPANY = 1: CompanySlot => member.company;
    /// Members of any company with an e-mail address, by its `email_key`.
    OF_PERSON = 3: String => email_key(&member.email);
    /// A company's member with an e-mail address, by its `email_key`.
    BY_EMAIL = 2: (CompanySlot, String) => (member.company, email_key(&member.email));
    /// A company's member with a code.
    BY_CODE = 4: (CompanySlot, String) =>
        member.code.clone().map(|code| (member.company, code));
    /// A company's member with an id that its identity provider gave.
    BY_EXTERNAL_ID = 5: (CompanySlot, String) =>
        member.external_id.clone().map(|id| (member.company, id));
}

commands! {
    /// The commands on members.
    #[derive(Clone, Debug)]
    pub enum MemberCommand(change) {
        /// Makes a member.
        Create(new: NewMember) makes new.id.0 =>
            AuditLine::of_company(new.company, "member.created", new.id.0).with(named([
                ("invitation", new.invite.is_some()),
                ("external_id", new.external_id.is_some()),
            ])),
            create(change, new);
        /// Changes a member.
        Update(company: CompanyId, id: MemberId, changes: MemberChanges) =>
            AuditLine::of_company(*company, "member.updated", id.0).with(changes.names()),
            update(change, (*company, *id), changes);
        /// Sends an active member a link to set a password, whether or not there is one.
        SendPasswordLink(company: CompanyId, id: MemberId, link: NewInvite) =>
            AuditLine::of_company(*company, "password_link.created", link.ticket.0),
            send_password_link(change, (*company, *id), link);
        /// Removes a member for good.
        Delete(company: CompanyId, id: MemberId) =>
            AuditLine::of_company(*company, "member.deleted", id.0),
            delete(change, (*company, *id));
    }
}

/// A member to make.
#[derive(Clone, Debug)]
pub struct NewMember {
    /// Its id.
    pub id: MemberId,
    /// The company of the member.
    pub company: CompanyId,
    /// First name.
    pub first_name: LineText,
    /// Last name.
    pub last_name: LineText,
    /// E-mail address.
    pub email: String,
    /// Its role.
    pub role: MemberRole,
    /// Employee id: digits only.
    pub code: Option<String>,
    /// Its department, label and location.
    pub dimensions: Dimensions,
    /// Its id at the company's identity provider, unique within the company. Source: RFC 7643, 3.1.
    pub external_id: Option<LineText>,
    /// Whether it is active from the start.
    pub is_active: bool,
    /// The invitation to sign in, if it is invited; unused for an inactive member.
    pub invite: Option<NewInvite>,
}

changes! {
    /// Changes of a member; absent fields stay.
    #[derive(Clone, Debug, Default)]
    pub struct MemberChanges {
        /// First name.
        first_name: Option<LineText>,
        /// Last name.
        last_name: Option<LineText>,
        /// Its role.
        role: Option<MemberRole>,
        /// Employee id: digits only.
        code: Option<Option<String>>,
        /// Whether it is active.
        is_active: Option<bool>,
        /// Its id at the company's identity provider.
        external_id: Option<Option<LineText>>,
        /// The invitation to sign in, used if it becomes active and has no password.
        invite as "invitation": Option<NewInvite>,
        /// Its dimensions, by kind.
        dimensions: [Option<Option<DimensionId>>; 4],
    }
}

fn create(change: &mut StateChange<'_>, new: &NewMember) -> Result<(), Rejection> {
    let company = find_open_company(change.state, new.company)?;
    let members = &change.state.directory().members;
    let slot = members.slot_for(new.id.0)?;
    if members.first(&Member::BY_EMAIL, &(company, email_key(&new.email))).is_some() {
        return Err(Rejection::EmailTaken);
    }
    // SPEC "States and transitions": an inactive member has the role member.
    if !new.is_active && new.role != MemberRole::Member {
        return Err(Rejection::MemberInactive);
    }
    check_code(change.state, company, slot, new.code.as_deref())?;
    check_external_id(change.state, company, slot, new.external_id.as_deref())?;
    check_dimensions(change.state, company, &new.dimensions)?;
    let member = Member {
        slot,
        id: new.id,
        company,
        first_name: new.first_name.to_string(),
        last_name: new.last_name.to_string(),
        email: new.email.clone(),
        role: new.role,
        code: new.code.clone(),
        external_id: new.external_id.clone().map(String::from),
        state: if new.is_active { MemberState::Active } else { MemberState::Inactive },
        dimensions: new.dimensions,
        created_at: change.moment.at,
    };
    change.put(member.clone());
    let new_invite = new.invite.as_ref().filter(|_| new.is_active);
    new_invite.map_or(Ok(()), |new_invite| invite(change, &member, new_invite))
}

fn update(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, MemberId),
    changes: &MemberChanges,
) -> Result<(), Rejection> {
    let known = find_member(change.state, find_company(change.state, company)?, id)?;
    if known.state == MemberState::Deleted {
        return Err(Rejection::MemberDeleted);
    }
    let mut member = known.clone();
    replace(&mut member.first_name, &changes.first_name);
    replace(&mut member.last_name, &changes.last_name);
    replace(&mut member.role, &changes.role);
    if let Some(code) = &changes.code {
        check_code(change.state, known.company, known.slot, code.as_deref())?;
        member.code.clone_from(code);
    }
    if let Some(id) = &changes.external_id {
        check_external_id(change.state, known.company, known.slot, id.as_deref())?;
        member.external_id = id.clone().map(String::from);
    }
    change_dimensions(change.state, known.company, &mut member.dimensions, &changes.dimensions)?;
    if let Some(is_active) = changes.is_active {
        member.state = if is_active { MemberState::Active } else { MemberState::Inactive };
    }
    // A change of role is refused, not silently dropped. A deactivation is refused for the last
    // administrator alone: see `put_member`.
    if member.role != known.role && !member.takes_part() && !known.takes_part() {
        return Err(Rejection::MemberInactive);
    }
    let begins = member.takes_part() && !known.takes_part();
    put_member(change, member.clone())?;
    let Some(new_invite) = changes.invite.as_ref().filter(|_| begins) else { return Ok(()) };
    check_open(change.state, member.company)?;
    invite(change, &member, new_invite)
}

fn send_password_link(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, MemberId),
    link: &NewInvite,
) -> Result<(), Rejection> {
    let company = find_open_company(change.state, company)?;
    let member = find_active_member(change.state, company, id)?;
    issue_link_to(change, member, link)
}

/// Deletes a member; a second time changes nothing.
fn delete(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, MemberId),
) -> Result<(), Rejection> {
    let known = find_member(change.state, find_company(change.state, company)?, id)?;
    let gone = Member { state: MemberState::Deleted, external_id: None, ..known.clone() };
    if known.state == MemberState::Deleted {
        return Ok(());
    }
    put_member(change, gone)?;
    free_address(change, known);
    change.check_room()
}

/// Stores a changed member, with the consequences of the change.
fn put_member(change: &mut StateChange<'_>, mut member: Member) -> Result<(), Rejection> {
    let known = change.state.directory().members.get(member.slot);
    assert!(known.id == member.id && known.email == member.email, "a member keeps id and address");
    if member.state != MemberState::Active {
        // SPEC "States and transitions": on leaving, the role becomes member.
        member.role = MemberRole::Member;
    }
    if administers(known) && !administers(&member) && !has_other_administrator(change.state, known)
    {
        return Err(Rejection::LastAdministrator);
    }
    if member == *known {
        return Ok(());
    }
    let leaves = member.state != MemberState::Active && member.state != known.state;
    let (before, now) = (known.role, member.role);
    change.put(member);
    if leaves {
        leave(change, known);
        change.check_room()?;
    } else if before != now {
        narrow(change, (known.slot, now));
    }
    Ok(())
}

/// Ends everything that depends on an active member: cards, requests, links, access.
fn leave(change: &mut StateChange<'_>, member: &Member) {
    for card in change.state.cards_held_by(member.slot) {
        terminate_card(change, card);
    }
    deny_pending(change, member.slot);
    unshare_with(change, member);
    shut_out(change, member);
    end_developing(change, member);
}

/// Takes back the right to register apps for the company.
fn end_developing(change: &mut StateChange<'_>, member: &Member) {
    let user = find_user_by_email(change.state, &member.email);
    if let Some(user) = user.filter(|user| user.developer_of.contains(&member.company)) {
        let mut developer_of = user.developer_of.clone();
        developer_of.retain(|company| *company != member.company);
        change.put(User { developer_of, ..user.clone() });
    }
}

/// Ends a member's sessions, codes and tokens. Sessions belong to the user, so they end only if the
/// user has no active membership and develops nothing elsewhere: any company may add any address and
/// let it go again.
fn shut_out(change: &mut StateChange<'_>, member: &Member) {
    let directory = change.state.directory();
    let takes_part_elsewhere = others_of_address(change.state, member).any(Member::takes_part);
    if let Some(user) = find_user_by_email(change.state, &member.email)
        && !takes_part_elsewhere
        && !develops_elsewhere(user, member)
    {
        let sessions = directory.tickets.open_of(user.slot, TicketKind::Session, change.moment.at);
        sessions.for_each(|ticket| end(change, ticket));
    }
    let of_member = &Ticket::OPEN_CODES_OF_MEMBER;
    let codes = directory.tickets.open_under(of_member, &member.slot, change.moment.at);
    codes.for_each(|ticket| end(change, ticket));
    let tokens = directory.access_tokens.under(&AccessToken::OF_MEMBER, &member.slot);
    tokens.for_each(|token| revoke(change, token));
}

/// Closes the account of an address once its last member is deleted, unless it develops elsewhere. A
/// later member with the address is invited as another user, and the earlier one cannot get in.
fn free_address(change: &mut StateChange<'_>, member: &Member) {
    let is_last = others_of_address(change.state, member).next().is_none();
    let user = find_user_by_email(change.state, &member.email);
    if let Some(user) = user.filter(|user| is_last && !develops_elsewhere(user, member)) {
        close_account(change, user);
    }
}

/// Whether the user registers apps for a company that is not the member's.
fn develops_elsewhere(user: &User, member: &Member) -> bool {
    user.developer_of.iter().any(|company| *company != member.company)
}

/// The other members with this address that are not deleted, of any company.
fn others_of_address<'a>(
    state: &'a dyn PartitionView,
    member: &Member,
) -> impl Iterator<Item = &'a Member> {
    let own = member.slot;
    memberships(state, &member.email).filter(move |other| other.slot != own)
}

/// Ends codes and revokes tokens of a member whose scope exceeds its new role.
fn narrow(change: &mut StateChange<'_>, (member, role): (MemberSlot, MemberRole)) {
    let directory = change.state.directory();
    let of_member = &Ticket::OPEN_CODES_OF_MEMBER;
    let codes = directory.tickets.open_under(of_member, &member, change.moment.at);
    let is_beyond =
        |ticket: &&Ticket| ticket.code().is_some_and(|code| !role.may_allow(code.scope));
    codes.filter(is_beyond).for_each(|ticket| end(change, ticket));
    let tokens = directory.access_tokens.under(&AccessToken::OF_MEMBER, &member);
    tokens.filter(|token| !role.may_allow(token.scope)).for_each(|token| revoke(change, token));
}

fn check_external_id(
    state: &dyn PartitionView,
    company: CompanySlot,
    owner: MemberSlot,
    id: Option<&str>,
) -> Result<(), Rejection> {
    let key = |id: &str| (company, id.to_owned());
    let known =
        id.and_then(|id| state.directory().members.first(&Member::BY_EXTERNAL_ID, &key(id)));
    if known.is_none_or(|known| known.slot == owner) {
        Ok(())
    } else {
        Err(Rejection::ExternalIdTaken)
    }
}

/// Deletes the links that were sent to a member. A deleted link opens nothing, so its passphrase
/// goes too.
fn unshare_with(change: &mut StateChange<'_>, member: &Member) {
    let sent_to = (member.company, email_key(&member.email));
    for known in change.state.directory().shared_links.under(&SharedLink::BY_RECIPIENT, &sent_to) {
        change.put(gone(known));
    }
}

fn administers(member: &Member) -> bool {
    member.state == MemberState::Active && member.role == MemberRole::Administrator
}

/// Whether the company has another administrator. Cost: O(members of the company), paid for
/// administrators only.
fn has_other_administrator(state: &dyn PartitionView, known: &Member) -> bool {
    let mut members = state.directory().members.under(&Member::OF_COMPANY, &known.company);
    members.any(|other| other.slot != known.slot && administers(other))
}

/// A company's member in any state.
fn find_member(
    state: &dyn PartitionView,
    company: CompanySlot,
    id: MemberId,
) -> Result<&Member, Rejection> {
    let member = state.directory().members.find(id.0).ok_or(Rejection::MemberNotFound)?;
    if member.company == company { Ok(member) } else { Err(Rejection::MemberNotFound) }
}

/// A company's active member.
pub(crate) fn find_active_member(
    state: &dyn PartitionView,
    company: CompanySlot,
    id: MemberId,
) -> Result<&Member, Rejection> {
    let member = find_member(state, company, id)?;
    if member.state == MemberState::Active { Ok(member) } else { Err(Rejection::MemberNotFound) }
}

/// A company's active member whose role may allow a scope.
pub(crate) fn find_granting_member(
    state: &dyn PartitionView,
    (company, id): (CompanySlot, MemberId),
    scope: AccessScope,
) -> Result<&Member, Rejection> {
    let member = find_active_member(state, company, id)?;
    if member.role.may_allow(scope) { Ok(member) } else { Err(Rejection::ScopeNotAllowed) }
}

/// A company's member who can be given one more card.
/// Cost: O(cards of the member), which are bounded.
pub(crate) fn find_assignee(
    state: &dyn PartitionView,
    company: CompanySlot,
    id: MemberId,
) -> Result<MemberSlot, Rejection> {
    let member = find_active_member(state, company, id)?.slot;
    check_room_for_cards(state, member, 1)?;
    Ok(member)
}

/// Errors: `TooManyCards` if a member cannot be given so many cards more.
/// Cost: O(cards of the member), which are bounded.
pub(crate) fn check_room_for_cards(
    state: &dyn PartitionView,
    member: MemberSlot,
    added: usize,
) -> Result<(), Rejection> {
    let is_full = state.cards_held_by(member).count() + added > limits::MEMBER_CARDS_MAX;
    if is_full { Err(Rejection::TooManyCards) } else { Ok(()) }
}

fn check_code(
    state: &dyn PartitionView,
    company: CompanySlot,
    owner: MemberSlot,
    code: Option<&str>,
) -> Result<(), Rejection> {
    let Some(code) = code else { return Ok(()) };
    let known = state.directory().members.first(&Member::BY_CODE, &(company, code.to_owned()));
    if known.is_none_or(|known| known.slot == owner) {
        Ok(())
    } else {
        Err(Rejection::MemberCodeTaken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_allows_no_more_than_it_may_itself() {
        let none = AccessScope::default();
        let rows = [
            (none, true),
            (AccessScope { accountant: true, ..none }, true),
            (AccessScope { admin: true, ..none }, false),
            (AccessScope { scim: true, ..none }, false),
            (AccessScope { iam: true, ..none }, false),
        ];
        for (scope, of_accountants) in rows {
            assert!(MemberRole::Administrator.may_allow(scope), "{scope:?}");
            assert_eq!(MemberRole::Accountant.may_allow(scope), of_accountants, "{scope:?}");
            assert!(!MemberRole::Reviewer.may_allow(scope), "{scope:?}");
            assert!(!MemberRole::Member.may_allow(scope), "{scope:?}");
        }
    }
}
