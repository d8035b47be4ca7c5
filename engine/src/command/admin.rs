//! Commands of API clients and operators: one variant a resource, whose file declares the rest
//! (`resource::commands!`).
//!
//! Commands name things by public id together with the caller's company, so that another
//! company's objects are simply not found.

use uuid::Uuid;

use super::audit_line::{AuditLine, AuditTarget, AuditedPlace};
use super::effect::Effect;
use super::reply::Rejection;
use super::seen_object::SeenObject;
use crate::directory::allowance::AllowanceCommand;
use crate::directory::card::CardCommand;
use crate::directory::change::StateChange;
use crate::directory::company::CompanyCommand;
use crate::directory::each_resource;
use crate::directory::pan_key::PanKeyCommand;
use crate::directory::transaction::TransactionCommand;
use crate::directory::user::{ProvenPassword, check_password};

/// Declares the commands: those of each resource, those of their neighbours, and those of no
/// resource.
macro_rules! define_admin_commands {
    (
        $($rows:ident: $file:ident::$row:ident($slot:ident, $command:ident) $(of $id:ident)?,)*;
        $($secrets:ident: $secret_file:ident::$secret:ident($secret_command:ident),)*
    ) => {
        $(use crate::directory::$file::$command;)*
        $(use crate::directory::$secret_file::$secret_command;)*

        define_admin_commands! {
            Company(CompanyCommand),
            Card(CardCommand),
            Allowance(AllowanceCommand),
            Transaction(TransactionCommand),
            PanKey(PanKeyCommand),
            $($row($command),)*
            $($secret($secret_command),)*
        }
    };
    ($($variant:ident($type:ty),)+) => {
        /// A change requested by an API client or an operator.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "a variant holds the commands that it is named after")]
        pub enum AdminCommand {
            /// Executes a command that a password permits, if the password is still current.
            WithPassword(ProvenPassword, Box<AdminCommand>),
            /// Executes a command if an object is still as its maker has seen it.
            IfUnchanged(SeenObject, Box<AdminCommand>),
            /// Sets the key that opens the HTTP network door; only its SHA-256 is kept.
            SetNetworkKey([u8; 32]),
            /// Changes nothing: its audit event tells what was done with files, by an action such as `backup.made`.
            NoteAct(&'static str),
            $($variant($type),)+
        }

        impl AdminCommand {
            /// The id of the one object that the command makes.
            pub fn made_id(&self) -> Option<Uuid> {
                match self {
                    Self::WithPassword(..) | Self::SetNetworkKey(_) | Self::NoteAct(_) => None,
                    Self::IfUnchanged(_, command) => command.made_id(),
                    $(Self::$variant(command) => command.made_id(),)+
                }
            }

            /// The audit line of the command.
            pub fn audited(&self) -> AuditLine<'_> {
                match self {
                    Self::WithPassword(_, command) | Self::IfUnchanged(_, command) => {
                        command.audited()
                    }
                    Self::SetNetworkKey(_) => {
                        AuditLine::new(AuditedPlace::Switch, "network_key.set", AuditTarget::Unnamed)
                    }
                    Self::NoteAct(action) => {
                        AuditLine::new(AuditedPlace::Switch, action, AuditTarget::Unnamed)
                    }
                    $(Self::$variant(command) => command.audited(),)+
                }
            }

            /// Adds the effects of the command to the change.
            /// Errors: a named object does not exist, or a rule forbids the change.
            pub(crate) fn execute(&self, change: &mut StateChange<'_>) -> Result<(), Rejection> {
                match self {
                    Self::WithPassword(proven, command) => {
                        check_password(change.state, proven)?;
                        command.execute(change)
                    }
                    Self::IfUnchanged(seen, command) => {
                        if change.state.may_have_changed(seen) {
                            return Err(Rejection::ChangedMeanwhile);
                        }
                        command.execute(change)
                    }
                    Self::SetNetworkKey(digest) => {
                        change.push(Effect::NetworkKey(*digest));
                        Ok(())
                    }
                    Self::NoteAct(_) => Ok(()),
                    $(Self::$variant(command) => command.execute(change),)+
                }
            }
        }
    };
}

each_resource!(define_admin_commands);
