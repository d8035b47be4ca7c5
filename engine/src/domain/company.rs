//! A company: the owner of cards and money, and the rules it sets for all its cards.

use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use super::enumeration::enumeration;
use super::hold_table::HoldTable;
use super::ids::{CompanyId, CompanySlot, Timestamp};
use super::money::CurrencyCode;
use super::named_texts::named_texts;

named_texts! {
    /// A postal address. Source: spec "Reference objects".
    pub struct Address {
        /// The addressee, if it is not the cardholder.
        attn,
        /// Street and number.
        address_1,
        /// Second line.
        address_2,
        /// City.
        city,
        /// State or province.
        state,
        /// Postal code.
        zip_code,
        /// Two-letter country code.
        country,
    }
}

/// Velocity limits: the number of tries of one card in a period before they count as fraud; zero
/// switches a limit off. Units: attempts, at most `ATTEMPTS_MAX`.
///
/// Of each card as many attempts are noted as the larger limit needs, none where both are off. So a
/// limit that is raised or set finds at most that many from before, and counts all from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VelocityLimits {
    /// Attempts in a sliding minute.
    pub per_minute: u16,
    /// Attempts in a sliding hour.
    pub per_hour: u16,
}

impl VelocityLimits {
    /// The largest limit. Each try is noted with those before it, up to that many.
    pub const ATTEMPTS_MAX: u16 = 1_000;

    /// Whether both limits are at most the largest.
    pub const fn is_within_bounds(&self) -> bool {
        self.per_minute <= Self::ATTEMPTS_MAX && self.per_hour <= Self::ATTEMPTS_MAX
    }

    /// Whether any limit is set.
    pub const fn is_set(&self) -> bool {
        self.per_minute > 0 || self.per_hour > 0
    }
}

enumeration! {
    /// The state of a company.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub enum CompanyState {
        /// In business.
        #[default]
        Active => "active",
        /// Closed: its cards decline as terminated ones do.
        Closed => "closed",
        /// Not approved yet: its cards decline as those of a closed company do.
        Pending => "pending",
    }
}

/// A company.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Company {
    /// The row's slot.
    pub slot: CompanySlot,
    /// Its public id.
    pub id: CompanyId,
    /// Its name.
    pub name: String,
    /// Its web site.
    pub website: String,
    /// The zone of its days, periods and posting dates. Never changes.
    pub zone: Tz,
    /// The currency of its account. Never changes.
    pub currency: CurrencyCode,
    /// The card network its cards are issued on.
    pub network: String,
    /// Velocity limits of its cards.
    pub velocity: VelocityLimits,
    /// Whether a purchase may be approved in part.
    pub partial_approval: bool,
    /// The lifetimes of its holds.
    pub hold_table: HoldTable,
    /// The billing address of cards without their own.
    pub billing_address: Address,
    /// The shipping address of physical cards.
    pub shipping_address: Address,
    /// Its state.
    pub state: CompanyState,
    /// The time of creation.
    pub created_at: Timestamp,
}

/// The single sign-on settings of a company's members. Source: spec "Company", sso.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SingleSignOn {
    /// The e-mail domain of the members.
    pub domain: String,
    /// The metadata of the identity provider, as XML.
    pub idp_metadata: String,
}
