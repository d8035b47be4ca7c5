//! Admin changes: each resource says what its commands change.

use super::state_change::StateChange;
use crate::command::admin::AdminCommand;
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::directory::user::check_password;

pub(super) fn execute_admin(
    change: &mut StateChange<'_>,
    command: &AdminCommand,
) -> Result<(), Rejection> {
    match command {
        AdminCommand::WithPassword(proven, command) => {
            check_password(change.state, proven)?;
            execute_admin(change, command)
        }
        AdminCommand::SetNetworkKey(digest) => {
            change.push(Effect::NetworkKey(*digest));
            Ok(())
        }
        AdminCommand::Company(command) => command.execute(change),
        AdminCommand::Card(command) => command.execute(change),
        AdminCommand::Allowance(command) => command.execute(change),
        AdminCommand::Transaction(command) => command.execute(change),
        AdminCommand::PanKey(command) => command.execute(change),
        AdminCommand::Member(command) => command.execute(change),
        AdminCommand::AccessToken(command) => command.execute(change),
        AdminCommand::User(command) => command.execute(change),
        AdminCommand::Ticket(command) => command.execute(change),
        AdminCommand::App(command) => command.execute(change),
        AdminCommand::Dimension(command) => command.execute(change),
        AdminCommand::SharedLink(command) => command.execute(change),
        AdminCommand::Requisition(command) => command.execute(change),
        AdminCommand::WebhookEndpoint(command) => command.execute(change),
    }
}
