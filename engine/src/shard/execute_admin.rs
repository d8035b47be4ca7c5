//! Admin changes: each resource says what its commands change.

use super::shard_change::ShardChange;
use crate::command::admin::AdminCommand;
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::directory::user::check_password;

pub(super) fn execute_admin(
    change: &mut ShardChange<'_>,
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
        AdminCommand::Company(command) => command.execute(&mut change.for_resources()),
        AdminCommand::Card(command) => command.execute(&mut change.for_resources()),
        AdminCommand::Allowance(command) => command.execute(&mut change.for_resources()),
        AdminCommand::Transaction(command) => command.execute(&mut change.for_resources()),
        AdminCommand::PanKey(command) => command.execute(&mut change.for_resources()),
        AdminCommand::Member(command) => command.execute(&mut change.for_resources()),
        AdminCommand::AccessToken(command) => command.execute(&mut change.for_resources()),
        AdminCommand::User(command) => command.execute(&mut change.for_resources()),
        AdminCommand::Ticket(command) => command.execute(&mut change.for_resources()),
        AdminCommand::App(command) => command.execute(&mut change.for_resources()),
        AdminCommand::Dimension(command) => command.execute(&mut change.for_resources()),
        AdminCommand::SharedLink(command) => command.execute(&mut change.for_resources()),
        AdminCommand::Requisition(command) => command.execute(&mut change.for_resources()),
        AdminCommand::WebhookEndpoint(command) => command.execute(&mut change.for_resources()),
    }
}
