//! What API clients and operators ask: one variant a resource, whose file says the rest
//! (`resource::commands!`).
//!
//! Commands name things by public id together with the caller's company, so that another
//! company's objects are simply not found.

use uuid::Uuid;

use super::audited::{Audited, AuditedObject, AuditedPlace};
use super::effect::Effect;
use super::reply::Rejection;
use crate::directory::access_token::AccessTokenCommand;
use crate::directory::allowance::AllowanceCommand;
use crate::directory::app::AppCommand;
use crate::directory::card::CardCommand;
use crate::directory::change::StateChange;
use crate::directory::company::CompanyCommand;
use crate::directory::dimension::DimensionCommand;
use crate::directory::member::MemberCommand;
use crate::directory::pan_key::PanKeyCommand;
use crate::directory::requisition::RequisitionCommand;
use crate::directory::shared_link::SharedLinkCommand;
use crate::directory::ticket::TicketCommand;
use crate::directory::transaction::TransactionCommand;
use crate::directory::user::{ProvenPassword, UserCommand, check_password};
use crate::directory::webhook_endpoint::WebhookEndpointCommand;

/// Declares the commands: those of each resource, and the two of none.
macro_rules! define_admin_commands {
    ($($(#[$about:meta])+ $variant:ident($type:ty),)+) => {
        /// A change asked for by an API client or an operator.
        #[derive(Clone, Debug)]
        pub enum AdminCommand {
            /// Does what a password allows, where it is the password still.
            WithPassword(ProvenPassword, Box<AdminCommand>),
            /// Sets the key that opens the HTTP network door; only its SHA-256 is kept.
            SetNetworkKey([u8; 32]),
            $($(#[$about])+ $variant($type),)+
        }

        impl AdminCommand {
            /// The id of the one object of a resource that it makes.
            #[must_use]
            pub fn made_id(&self) -> Option<Uuid> {
                match self {
                    Self::WithPassword(..) | Self::SetNetworkKey(_) => None,
                    $(Self::$variant(command) => command.made_id(),)+
                }
            }

            /// The audit line of the command.
            #[must_use]
            pub fn audited(&self) -> Audited<'_> {
                match self {
                    Self::WithPassword(_, command) => command.audited(),
                    Self::SetNetworkKey(_) => {
                        Audited::new(AuditedPlace::Switch, "network_key.set", AuditedObject::Unnamed)
                    }
                    $(Self::$variant(command) => command.audited(),)+
                }
            }

            /// Adds the effects of the command to the change.
            /// Errors: what it names is not there, or a rule is against it.
            pub(crate) fn execute(&self, change: &mut StateChange<'_>) -> Result<(), Rejection> {
                match self {
                    Self::WithPassword(proven, command) => {
                        check_password(change.state, proven)?;
                        command.execute(change)
                    }
                    Self::SetNetworkKey(digest) => {
                        change.push(Effect::NetworkKey(*digest));
                        Ok(())
                    }
                    $(Self::$variant(command) => command.execute(change),)+
                }
            }
        }
    };
}

define_admin_commands! {
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
