//! Companies and their accounts: creation with an opening balance, and changes by operators.
//! Source: spec "Company", "Account".
//!
//! Decisions read both, so their rows are in the domain (`domain/company.rs`, `domain/account.rs`).

use super::change::{PartitionView, StateChange};
use crate::command::audit_line::AuditLine;
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::command::{Moment, NewTransaction, bank_record};
use crate::decision::RuleSet;
use crate::domain::account::{Account, AccountBalances, FundingSource};
use crate::domain::business_date::DayWindow;
use crate::domain::changes::{NamedChange, changes, replace};
use crate::domain::company::{Address, Company, CompanyState, SingleSignOn, VelocityLimits};
use crate::domain::hold_table::HoldTable;
use crate::domain::ids::{
    AccountId, AccountSlot, CompanyId, CompanySlot, LineSeq, Slot as _, TransactionSeq,
};
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::posting::{Book, Posting, StatementLine};
use crate::domain::text::LineText;
use crate::domain::transaction::{
    BankAccount, TransactionKind, TransactionProgress, TransactionState,
};
use chrono_tz::Tz;

commands! {
    /// The commands on companies.
    #[derive(Clone, Debug)]
    pub enum CompanyCommand(change) {
        /// Makes a company with its account.
        Create(new: NewCompany) makes new.id.0 =>
            AuditLine::of_company(new.id, "company.created", new.id.0),
            create(change, new);
        /// Changes a company.
        Update(id: CompanyId, changes: CompanyChanges) =>
            AuditLine::of_company(*id, "company.updated", id.0).with(changes.names()),
            update(change, *id, changes);
    }
}

/// A company to make.
#[derive(Clone, Debug)]
pub struct NewCompany {
    /// Its id.
    pub id: CompanyId,
    /// Its name.
    pub name: LineText,
    /// Its web site.
    pub website: LineText,
    /// The zone of its days.
    pub zone: Tz,
    /// The currency of its money.
    pub currency: CurrencyCode,
    /// The card network of its cards.
    pub network: LineText,
    /// Velocity limits.
    pub velocity: VelocityLimits,
    /// Whether a purchase may be approved in part.
    pub partial_approval: bool,
    /// The lifetimes of its holds.
    pub hold_table: HoldTable,
    /// Default billing address.
    pub billing_address: Address,
    /// Default shipping address of physical cards.
    pub shipping_address: Address,
    /// Whether it does business from the start.
    pub state: CompanyState,
    /// Its account.
    pub account: NewAccount,
}

/// An account to make with its company.
#[derive(Clone, Debug)]
pub struct NewAccount {
    /// Its id.
    pub id: AccountId,
    /// Its name.
    pub name: LineText,
    /// Its number, 12 digits.
    pub number: LineText,
    /// Its line of credit.
    pub credit_limit: Minor,
    /// The source of its funds.
    pub funding_source: Option<FundingSource>,
    /// Its opening balance: a settled transfer, statement line 1.
    pub opening_balance: Minor,
}

changes! {
    /// Changes of a company; absent fields stay.
    #[derive(Clone, Debug, Default)]
    pub struct CompanyChanges {
        /// Its name.
        name: Option<LineText>,
        /// Its web site.
        website: Option<LineText>,
        /// Its line of credit.
        credit_limit: Option<Minor>,
        /// Velocity limits.
        velocity as "risk": VelocityChanges,
        /// Whether a purchase may be approved in part.
        partial_approval: Option<bool>,
        /// The lifetimes of holds from now on.
        hold_table: Option<HoldTable>,
        /// Default billing address.
        billing_address: Option<Address>,
        /// Default shipping address of physical cards.
        shipping_address: Option<Address>,
        /// The bank account that its funds come from, by name; a blank name means none.
        funding_name as "funding_source": Option<LineText>,
        /// Whether that bank account was verified; another one is not, until this says so.
        funding_verified as "funding_source": Option<bool>,
        /// Whether it does business.
        state: Option<CompanyState>,
        /// The single sign-on settings of its members.
        sso: Option<Option<SingleSignOn>>,
    }
}

/// Changes of velocity limits; absent limits stay, zero switches a limit off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VelocityChanges {
    /// Attempts in a sliding minute.
    pub per_minute: Option<u16>,
    /// Attempts in a sliding hour.
    pub per_hour: Option<u16>,
}

impl VelocityChanges {
    /// Whether nothing is to change.
    pub const fn is_empty(&self) -> bool {
        self.per_minute.is_none() && self.per_hour.is_none()
    }
}

impl NamedChange for VelocityChanges {
    fn note(&self, name: &'static str, names: &mut Vec<&'static str>) {
        (!self.is_empty()).note(name, names);
    }
}

pub(crate) fn find_company(
    state: &dyn PartitionView,
    id: CompanyId,
) -> Result<CompanySlot, Rejection> {
    state.find_company(id).ok_or(Rejection::CompanyNotFound)
}

/// A company that is not closed.
pub(crate) fn find_open_company(
    state: &dyn PartitionView,
    id: CompanyId,
) -> Result<CompanySlot, Rejection> {
    let slot = find_company(state, id)?;
    check_open(state, slot).map(|()| slot)
}

/// Errors: `CompanyClosed`. A closed company makes nothing and sends nothing in its name; what it
/// has stays to be read, put in order and ended. One that waits for approval is set up meanwhile.
pub(crate) fn check_open(state: &dyn PartitionView, slot: CompanySlot) -> Result<(), Rejection> {
    match state.company(slot).state {
        CompanyState::Active | CompanyState::Pending => Ok(()),
        CompanyState::Closed => Err(Rejection::CompanyClosed),
    }
}

fn create(change: &mut StateChange<'_>, new: &NewCompany) -> Result<(), Rejection> {
    if change.state.find_company(new.id).is_some() || change.state.has_account(new.account.id) {
        return Err(Rejection::IdTaken);
    }
    if !new.velocity.is_within_bounds() {
        return Err(Rejection::OutOfBounds);
    }
    let company = CompanySlot::next_after(change.state.company_count()).ok_or(Rejection::Full)?;
    let account = AccountSlot::next_after(change.state.account_count()).ok_or(Rejection::Full)?;
    change.push(Effect::Company(Box::new(Company {
        slot: company,
        id: new.id,
        name: new.name.to_string(),
        website: new.website.to_string(),
        zone: new.zone,
        currency: new.currency,
        network: new.network.to_string(),
        velocity: new.velocity,
        partial_approval: new.partial_approval,
        hold_table: new.hold_table.clone(),
        billing_address: new.billing_address.clone(),
        shipping_address: new.shipping_address.clone(),
        state: new.state,
        created_at: change.moment.at,
    })));
    change.push(Effect::Account(Box::new(Account {
        slot: account,
        id: new.account.id,
        company,
        name: new.account.name.to_string(),
        number: new.account.number.to_string(),
        currency: new.currency,
        credit_limit: new.account.credit_limit,
        funding_source: new.account.funding_source.clone(),
        created_at: change.moment.at,
    })));
    open_balance(change, new, (company, account))
}

/// The opening balance: a settled bank transfer, and statement line 1.
fn open_balance(
    change: &mut StateChange<'_>,
    new: &NewCompany,
    (company, account): (CompanySlot, AccountSlot),
) -> Result<(), Rejection> {
    let NewAccount { opening_balance: amount, credit_limit, .. } = new.account;
    if !amount.is_amount() || !credit_limit.is_amount() {
        return Err(Rejection::OutOfBounds);
    }
    if amount.is_zero() {
        return Ok(());
    }
    let seq = change.state.last_transaction().next();
    let mut progress = TransactionProgress::empty(TransactionState::Completed);
    progress.posted = -amount;
    progress.is_final = true;
    progress.posted_at = Some(change.moment.at);
    let (place, moved) = ((seq, company, account), (TransactionKind::BankTransfer, amount));
    let record = bank_record(change.moment, place, moved, bank_account_of(new), RuleSet::EMPTY);
    let balances = AccountBalances { ledger: amount, line_count: 1, ..AccountBalances::default() };
    let made = NewTransaction { balances: Some(balances), ..NewTransaction::of(record, progress) };
    change.push(Effect::Transaction(Box::new(made)));
    change.push(Effect::Posting(Posting {
        account,
        transaction: seq,
        from: Book::Bank,
        to: Book::Funds,
        amount,
    }));
    let line = change.state.last_line().next();
    change.push(Effect::StatementLine(Box::new(opening_line(
        change.moment,
        new,
        account,
        (seq, line),
    ))));
    Ok(())
}

const OPENING_DESCRIPTION: &str = "Opening balance";

fn bank_account_of(new: &NewCompany) -> BankAccount {
    let source = new.account.funding_source.as_ref();
    BankAccount {
        description: LineText::spaced(OPENING_DESCRIPTION),
        name: source.map(|source| source.name.clone()).unwrap_or_default(),
        number: LineText::default(),
    }
}

fn opening_line(
    moment: &Moment<'_>,
    new: &NewCompany,
    account: AccountSlot,
    (transaction, seq): (TransactionSeq, LineSeq),
) -> StatementLine {
    StatementLine {
        seq,
        id: moment.ids.line_id(moment.at, seq),
        account,
        number: 1,
        amount: new.account.opening_balance,
        transaction,
        card: None,
        member: None,
        description: OPENING_DESCRIPTION.to_owned(),
        merchant: None,
        posted_on: DayWindow::containing(new.zone, moment.at).date,
        posted_at: moment.at,
    }
}

fn update(
    change: &mut StateChange<'_>,
    id: CompanyId,
    changes: &CompanyChanges,
) -> Result<(), Rejection> {
    let slot = find_company(change.state, id)?;
    let known = change.state.company(slot);
    let mut company = known.clone();
    replace(&mut company.name, &changes.name);
    replace(&mut company.website, &changes.website);
    replace(&mut company.velocity.per_minute, &changes.velocity.per_minute);
    replace(&mut company.velocity.per_hour, &changes.velocity.per_hour);
    if !company.velocity.is_within_bounds() {
        return Err(Rejection::OutOfBounds);
    }
    replace(&mut company.partial_approval, &changes.partial_approval);
    replace(&mut company.hold_table, &changes.hold_table);
    replace(&mut company.billing_address, &changes.billing_address);
    replace(&mut company.shipping_address, &changes.shipping_address);
    replace(&mut company.state, &changes.state);
    if company != *known {
        change.push(Effect::Company(Box::new(company)));
    }
    if let Some(known) = change.state.account_of(slot) {
        let mut account = known.clone();
        replace(&mut account.credit_limit, &changes.credit_limit);
        account.funding_source = FundingSource::changed(
            known.funding_source.as_ref(),
            changes.funding_name.as_ref(),
            changes.funding_verified,
        );
        if !account.credit_limit.is_amount() {
            return Err(Rejection::OutOfBounds);
        }
        if account != *known {
            change.push(Effect::Account(Box::new(account)));
        }
    }
    if let Some(sso) = &changes.sso
        && change.state.single_sign_on(slot) != sso.as_ref()
    {
        change.push(Effect::CompanySso(slot, sso.clone().map(Box::new)));
    }
    Ok(())
}
