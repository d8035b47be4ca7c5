//! What API clients and operators ask: one variant a resource, whose file says the rest.
//!
//! Commands name things by public id together with the caller's company, so that another
//! company's objects are simply not found.

use crate::directory::access_token::AccessTokenCommand;
use crate::directory::allowance::AllowanceCommand;
use crate::directory::app::AppCommand;
use crate::directory::card::CardCommand;
use crate::directory::company::CompanyCommand;
use crate::directory::dimension::DimensionCommand;
use crate::directory::member::MemberCommand;
use crate::directory::pan_key::PanKeyCommand;
use crate::directory::requisition::RequisitionCommand;
use crate::directory::shared_link::SharedLinkCommand;
use crate::directory::ticket::TicketCommand;
use crate::directory::transaction::TransactionCommand;
use crate::directory::user::{ProvenPassword, UserCommand};
use crate::directory::webhook_endpoint::WebhookEndpointCommand;

/// A change asked for by an API client or an operator.
#[derive(Clone, Debug)]
pub enum AdminCommand {
    /// Does what a password allows, where it is the password still.
    WithPassword(ProvenPassword, Box<AdminCommand>),
    /// Sets the key that opens the HTTP network door; only its SHA-256 is kept.
    SetNetworkKey([u8; 32]),
    /// Something about a company.
    Company(CompanyCommand),
    /// Something about a card.
    Card(CardCommand),
    /// Something about an allowance.
    Allowance(AllowanceCommand),
    /// Something beside a transaction.
    Transaction(TransactionCommand),
    /// Something about the key of card numbers.
    PanKey(PanKeyCommand),
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
}
