//! The order for a company: what operators and demonstrations say of a new one.

use cardswitch_engine::directory::company::{NewAccount, NewCompany};
use cardswitch_engine::domain::account::FundingSource;
use cardswitch_engine::domain::company::{Address, CompanyState, VelocityLimits};
use cardswitch_engine::domain::hold_table::HoldTable;
use cardswitch_engine::domain::ids::{AccountId, CompanyId, Timestamp};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::text::LineText;
use cardswitch_secrets::issuing::{IssueError, RandomSource};
use chrono_tz::Tz;

/// A company to make, as an operator describes it.
#[derive(Clone, Debug)]
pub struct CompanyOrder {
    /// Its name.
    pub name: LineText,
    /// Its web site.
    pub website: LineText,
    /// The zone of its days.
    pub zone: Tz,
    /// The currency of its account.
    pub currency: CurrencyCode,
    /// The opening balance of its account.
    pub opening_balance: Minor,
    /// Its line of credit.
    pub credit_limit: Minor,
    /// Velocity limits.
    pub velocity: VelocityLimits,
    /// Whether a purchase may be approved in part.
    pub partial_approval: bool,
    /// The lifetimes of its holds.
    pub hold_table: HoldTable,
    /// Whether it is approved.
    pub state: CompanyState,
    /// Its billing address; that of examples where absent.
    pub billing_address: Option<Address>,
    /// The bank account that funds it, blank for none; a verified one of its own name where absent.
    pub funding_source: Option<LineText>,
    /// Whether that is verified.
    pub funding_verified: Option<bool>,
}

impl CompanyOrder {
    /// The billing address of the company and of its cards.
    pub(super) fn billing_address(&self) -> Address {
        self.billing_address.clone().unwrap_or_else(company_address)
    }

    fn funding_source(&self) -> Option<FundingSource> {
        let Some(name) = &self.funding_source else {
            let name = LineText::spaced(&format!("{} operating account", self.name));
            let is_verified = self.funding_verified.unwrap_or(true);
            return Some(FundingSource { name, is_verified });
        };
        // Nobody has verified an account that is only named.
        let is_verified = self.funding_verified.unwrap_or(false);
        (!name.trim().is_empty()).then(|| FundingSource { name: name.clone(), is_verified })
    }
}

/// A company with its account, ids and account number drawn.
pub fn new_company(
    order: CompanyOrder,
    network: &str,
    at: Timestamp,
    random: &mut dyn RandomSource,
) -> Result<NewCompany, IssueError> {
    let mut digits = [0; 8];
    random.fill(&mut digits)?;
    let number = u64::from_le_bytes(digits) % 1_000_000_000_000;
    Ok(NewCompany {
        id: CompanyId(random.id(at)?),
        website: order.website.clone(),
        zone: order.zone,
        currency: order.currency,
        network: LineText::spaced(network),
        velocity: order.velocity,
        partial_approval: order.partial_approval,
        billing_address: order.billing_address(),
        shipping_address: company_address(),
        state: order.state,
        account: NewAccount {
            id: AccountId(random.id(at)?),
            name: LineText::spaced(&format!("{} spending account", order.name)),
            number: LineText::spaced(&format!("{number:012}")),
            credit_limit: order.credit_limit,
            funding_source: order.funding_source(),
            opening_balance: order.opening_balance,
        },
        hold_table: order.hold_table,
        name: order.name,
    })
}

fn company_address() -> Address {
    Address {
        attn: LineText::default(),
        address_1: LineText::spaced("1 Market Street"),
        address_2: LineText::default(),
        city: LineText::spaced("San Francisco"),
        state: LineText::spaced("CA"),
        zip_code: LineText::spaced("94105"),
        country: LineText::spaced("US"),
    }
}
