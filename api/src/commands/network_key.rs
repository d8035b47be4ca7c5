//! `cardswitch network-key replace`.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_identity::auth::drawn_secret::DrawnSecret;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Failure;
use super::administration::{DataArgs, OfficeTask};
use super::home::Home;

/// The commands for the key of the HTTP network door.
#[derive(Debug, clap::Subcommand, Serialize, Deserialize)]
pub enum NetworkKeyCommand {
    /// Make another key for `/network/v1`; prints it, this once. The former one opens nothing any more
    Replace(DataArgs),
}

impl NetworkKeyCommand {
    pub(super) const fn data(&self) -> &DataArgs {
        let Self::Replace(data) = self;
        data
    }

    pub(super) async fn carry_out(self, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
        let Self::Replace(_) = self;
        let DrawnSecret { text: network_key, digest } =
            DrawnSecret::draw_token(&task.office.switch)?;
        task.carry_out(AdminCommand::SetNetworkKey(digest)).await?;
        let data = task.office.switch.engine.directory.path();
        let kept = Home::at(data.to_owned()).keep_network_key(&network_key);
        task.tell(
            json!({"network_key": network_key}),
            format!("network key {network_key} (shown this once)"),
        );
        // Shown in any case: the former one opens nothing any more.
        kept
    }
}
