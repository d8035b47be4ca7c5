//! `cardswitch audit list`.

use cardswitch_engine::domain::audit::AuditEvent;
use cardswitch_engine::store::query::{AuditFilter, Order, Page};
use cardswitch_v1::routes::audit_events::actor_kind;
use cardswitch_wire::time::render_time;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Failure;
use super::administration::{DataArgs, OfficeTask};

/// The commands for the switch's own audit log.
#[derive(Debug, clap::Subcommand, Serialize, Deserialize)]
pub enum AuditCommand {
    /// List the changes that belong to no company, such as those of keys
    List(DataArgs),
}

impl AuditCommand {
    pub(super) const fn data(&self) -> &DataArgs {
        let Self::List(data) = self;
        data
    }

    pub(super) async fn carry_out(self, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
        let Self::List(_) = self;
        let page = Page { order: Order::OldestFirst, ..Page::first(usize::MAX) };
        let filter = AuditFilter::default();
        let switch = &task.office.switch;
        let listed = switch.read(|snapshot| snapshot.audit_events(None, &filter, &page)).await?;
        if task.is_json {
            let shown: Vec<_> = listed.rows.iter().map(render_json).collect();
            task.line(json!({"events": shown}));
            return Ok(());
        }
        for event in &listed.rows {
            let (at, actor) = (render_time(event.at), actor_kind(event.actor));
            let address = event.address.as_deref().unwrap_or_default();
            let object = event.object.map(|id| id.to_string()).unwrap_or_default();
            let line = format!("{at}  {actor:<8}  {:<24}  {object}  {address}", event.action);
            task.line(line.trim_end());
        }
        Ok(())
    }
}

fn render_json(event: &AuditEvent) -> serde_json::Value {
    json!({
        "created_at": render_time(event.at),
        "actor": actor_kind(event.actor),
        "address": event.address,
        "action": event.action,
        "object": event.object,
    })
}
