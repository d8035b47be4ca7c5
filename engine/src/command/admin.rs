//! What API clients and operators ask: cards, allowances, companies, members, tokens.
//!
//! Commands name things by public id together with the caller's company, so that another
//! company's objects are simply not found.

use chrono_tz::Tz;

use crate::directory::dimension::DimensionCommand;
use crate::directory::member::MemberCommand;
use crate::directory::requisition::RequisitionCommand;
use crate::directory::shared_link::SharedLinkCommand;
use crate::directory::webhook_endpoint::WebhookEndpointCommand;
use crate::domain::account::FundingSource;
use crate::domain::allowance::{AllowanceTerms, Scope};
use crate::domain::business_date::{BusinessDate, Interval};
use crate::domain::card::{CardState, Dimensions, PanHash, SealedPan};
use crate::domain::company::{Address, CompanyState, SingleSignOn, VelocityLimits};
use crate::domain::credential::{PackedZip, PinVerifier};
use crate::domain::ids::{
    AccountId, AllowanceId, CardId, CompanyId, DimensionId, MemberId, Timestamp, TransactionId,
};
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::pan_key::PanGeneration;
use crate::domain::text::LineText;
use crate::domain::transaction_tags::TagChanges;

use super::audited::changes;
use crate::directory::access_token::AccessTokenCommand;
use crate::directory::app::AppCommand;
use crate::directory::ticket::TicketCommand;
use crate::directory::user::{ProvenPassword, UserCommand};

/// A change asked for by an API client or an operator.
#[derive(Clone, Debug)]
pub enum AdminCommand {
    /// Makes a company with its account.
    CreateCompany(NewCompany),
    /// Changes a company.
    SetCompany(CompanyId, CompanyChanges),
    /// Sets the key that opens the HTTP network door; only its SHA-256 is kept.
    SetNetworkKey([u8; 32]),
    /// Makes a card with its allowance.
    IssueCard(NewCard),
    /// Changes a card.
    UpdateCard(CompanyId, CardId, CardChanges),
    /// Closes a card for good.
    TerminateCard(CompanyId, CardId),
    /// Sets a card's PIN, which also clears its wrong tries.
    SetPin(CompanyId, CardId, PinVerifier),
    /// Changes an allowance.
    UpdateAllowance(CompanyId, AllowanceId, AllowanceChanges),
    /// Makes cards with their allowances, all of them or none.
    IssueCards(Vec<NewCard>),
    /// Tags a transaction, which the edge has found among the company's: its row neither goes nor
    /// changes hands.
    TagTransaction(CompanyId, TransactionId, TagChanges),
    /// Does what a password allows, where it is the password still.
    WithPassword(ProvenPassword, Box<AdminCommand>),
    /// Something about a member.
    Member(MemberCommand),
    /// Something about an access token.
    AccessToken(AccessTokenCommand),
    /// Something about a user.
    User(UserCommand),
    /// Something about a ticket.
    Ticket(TicketCommand),
    /// Something about an app.
    App(AppCommand),
    /// Something about a dimension.
    Dimension(DimensionCommand),
    /// Something about a shared link.
    SharedLink(SharedLinkCommand),
    /// Something about a requisition.
    Requisition(RequisitionCommand),
    /// Something about a webhook endpoint.
    WebhookEndpoint(WebhookEndpointCommand),
    /// Somebody was shown the number of a card: changes nothing, and is audited where there is a note.
    NoteCardShown(CompanyId, CardId),
    /// Tells of a new generation of the key of card numbers.
    RotatePanKey(PanGeneration),
    /// Seals card numbers under the newest generation; what is not there, or is sealed so already,
    /// stays.
    ResealCards(Vec<ResealedCard>),
    /// Lets go of all generations before the newest; the edge has seen that no card needs them.
    ForgetPanKeys(PanGeneration),
}

/// A card with its number sealed anew.
#[derive(Clone, Debug)]
pub struct ResealedCard {
    /// Which card.
    pub card: CardId,
    /// The same number under another key.
    pub sealed_pan: SealedPan,
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
    /// Default billing address.
    pub billing_address: Address,
    /// Where physical cards go.
    pub shipping_address: Address,
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
    /// Where its money comes from.
    pub funding_source: Option<FundingSource>,
    /// What it starts with: a settled transfer, statement line 1.
    pub opening_balance: Minor,
}

changes! {
    /// What to change about a company; absent stays.
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
        /// Default billing address.
        billing_address: Option<Address>,
        /// Where physical cards go.
        shipping_address: Option<Address>,
        /// Where the money comes from.
        funding_source: Option<Option<FundingSource>>,
        /// Whether it does business.
        state: Option<CompanyState>,
        /// How its members sign on elsewhere.
        sso: Option<Option<SingleSignOn>>,
    }
}

/// Changes of velocity limits; absent stays, zero switches a limit off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VelocityChanges {
    /// Attempts in a sliding minute.
    pub per_minute: Option<u16>,
    /// Attempts in a sliding hour.
    pub per_hour: Option<u16>,
}

impl VelocityChanges {
    /// Whether nothing is to change.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.per_minute.is_none() && self.per_hour.is_none()
    }
}

/// A card to make.
#[derive(Clone, Debug)]
pub struct NewCard {
    /// Its id.
    pub id: CardId,
    /// The id of its allowance.
    pub allowance_id: AllowanceId,
    /// Whose card.
    pub company: CompanyId,
    /// The hash it is found by.
    pub pan_hash: PanHash,
    /// Its number, sealed.
    pub sealed_pan: SealedPan,
    /// The last four digits of its number.
    pub last_four: [u8; 4],
    /// The keyed value of its PIN, if one is set.
    pub pin: PinVerifier,
    /// Its billing ZIP.
    pub zip: PackedZip,
    /// The last date on which it is valid.
    pub expires_on: BusinessDate,
    /// Its allowance.
    pub terms: AllowanceTerms,
    /// Its first state: active for virtual cards, unactivated for physical ones.
    pub state: CardState,
    /// Virtual or physical.
    pub is_virtual: bool,
    /// Shown above it.
    pub description: LineText,
    /// Embossed on it.
    pub billing_name: LineText,
    /// Its own billing address.
    pub billing_address: Option<Address>,
    /// Where a physical card goes.
    pub shipping_address: Option<Address>,
    /// Who holds it.
    pub assigned_to: Option<MemberId>,
    /// Its dimensions.
    pub dimensions: Dimensions,
}

/// The states a card can be put into. Source: spec "States and transitions".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettableCardState {
    /// Open it.
    Active,
    /// Close it for now.
    Suspended,
}

changes! {
    /// What to change about a card; absent stays.
    #[derive(Clone, Debug, Default)]
    pub struct CardChanges {
        /// Shown above it.
        description: Option<LineText>,
        /// Its state.
        state: Option<SettableCardState>,
        /// Who holds it.
        assigned_to: Option<Option<MemberId>>,
        /// Its own billing address and the ZIP in it.
        billing_address: Option<Option<Address>>,
        /// Its dimensions, by kind.
        dimensions: [Option<Option<DimensionId>>; 4],
    }
}

changes! {
    /// What to change about an allowance; absent stays.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct AllowanceChanges {
        /// The budget.
        amount: Option<Minor>,
        /// How often it starts anew.
        interval: Option<Interval>,
        /// Start a new period with nothing spent.
        reset: bool,
        /// The daily limit; `Minor::UNLIMITED` takes it away.
        daily_limit: Option<Minor>,
        /// The transaction limit; `Minor::UNLIMITED` takes it away.
        transaction_limit: Option<Minor>,
        /// Whether the first purchase suspends the card.
        single_use: Option<bool>,
        /// First instant; `Timestamp::MIN` takes it away.
        starts_at as "start_time": Option<Timestamp>,
        /// Last instant; `Timestamp::MAX` takes it away.
        ends_at as "end_time": Option<Timestamp>,
        /// Merchant categories.
        scope: Option<Scope>,
    }
}
