//! `cardswitch cluster`.

pub mod join;
mod up;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cardswitch_cluster::{ClusterAddress, ClusterView, EtcdWindow, NodeRecord};
use cardswitch_engine::clock::Clock;
use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::engine::leave_chain;
use cardswitch_engine::journal::log::open_read_only;
use cardswitch_notify::webhooks::deliveries::FILE as DELIVERIES_FILE;
use cardswitch_notify::webhooks::places_file;

use super::Failure;
use crate::node_mark::{cluster_of, mark, node_of, require_alone, unmark};
use crate::node_peers::is_away;
use crate::opening::require_no_backup;

/// The commands for a cluster.
#[derive(Debug, clap::Subcommand)]
pub enum ClusterCommand {
    /// Make a cluster of a data directory that no switch has open: its first node
    Adopt(AdoptArgs),
    /// Make a node as a copy of a running one; needs the master key
    Join(join::JoinArgs),
    /// Take a data directory out of its cluster, for good: it becomes a switch of its own
    Leave(LeaveArgs),
    /// Take a node out of the cluster whose data directory is lost, for good
    Remove(RemoveArgs),
    /// Show the leader, and the newest record of each node
    Status(StatusArgs),
    /// Let another node lead, in good order
    StepDown(StepDownArgs),
    /// Run three nodes and three etcd on this machine, to try a cluster out
    Up(up::UpArgs),
    /// Kill the leader of a cluster that `up` runs, as a crash would
    KillLeader(up::KillLeaderArgs),
}

/// The arguments of `adopt`.
#[derive(Debug, clap::Args)]
pub struct AdoptArgs {
    /// Data directory
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    /// Cluster to make, such as etcd://10.0.0.1:2379,10.0.0.2:2379/prod
    #[arg(long, env = "CARDSWITCH_JOURNAL", value_name = "URL")]
    journal: ClusterAddress,
}

/// The arguments of `leave`.
#[derive(Debug, clap::Args)]
pub struct LeaveArgs {
    /// Data directory of a node that does not run
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
}

/// The arguments of `remove`.
#[derive(Debug, clap::Args)]
pub struct RemoveArgs {
    /// Cluster, such as etcd://10.0.0.1:2379,10.0.0.2:2379/prod
    #[arg(long, env = "CARDSWITCH_JOURNAL", value_name = "URL")]
    journal: ClusterAddress,
    /// Name of a node that does not run
    #[arg(long, value_name = "NAME")]
    node: String,
}

/// The arguments of `status`.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Cluster, such as etcd://10.0.0.1:2379,10.0.0.2:2379/prod
    #[arg(long, env = "CARDSWITCH_JOURNAL", value_name = "URL")]
    journal: ClusterAddress,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The arguments of `step-down`.
#[derive(Debug, clap::Args)]
pub struct StepDownArgs {
    /// Cluster, such as etcd://10.0.0.1:2379,10.0.0.2:2379/prod
    #[arg(long, env = "CARDSWITCH_JOURNAL", value_name = "URL")]
    journal: ClusterAddress,
}

/// How long another node may take to lead.
const STEP_DOWN_PATIENCE: Duration = Duration::from_secs(15);

/// Carries out `cluster`.
/// Errors: etcd does not answer; for `adopt`, a cluster is there already.
pub async fn run(command: ClusterCommand) -> Result<(), Failure> {
    let command = match command {
        ClusterCommand::Up(args) => return up::run(args).await,
        ClusterCommand::Join(args) => return join::join(args).await,
        command => command,
    };
    let carried_out = tokio::task::spawn_blocking(|| match command {
        ClusterCommand::Adopt(args) => adopt(&args),
        ClusterCommand::Leave(args) => leave(&args),
        ClusterCommand::Remove(args) => remove(&args),
        ClusterCommand::Status(args) => status(&args),
        ClusterCommand::StepDown(args) => step_down(&args),
        ClusterCommand::KillLeader(args) => up::kill_leader(&args),
        ClusterCommand::Up(_) | ClusterCommand::Join(_) => Ok(()),
    });
    carried_out.await?
}

fn at(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("`{}`: {error}", path.display()))
}

fn leave(args: &LeaveArgs) -> Result<(), Failure> {
    let directory = DataDirectory::open(&args.data)?;
    let cluster = cluster_of(&args.data)?;
    let cluster = cluster
        .ok_or_else(|| Failure::new(format!("`{}` is of no cluster", args.data.display())))?;
    // Before the mark goes: a process killed in between can leave once more.
    if let Some(node) = node_of(&args.data)? {
        let address = cluster.parse::<ClusterAddress>()?;
        // A cluster that is lost is left, too.
        if let Err(error) = ClusterView::remove(&address, &node) {
            println!(
                "{error}: the cluster still waits for {node}, until `cardswitch cluster remove --journal \
                 {cluster} --node {node}`"
            );
        }
    }
    let newest = leave_chain(&directory)?;
    // It may be of the time when the node led last: all webhooks since then would be sent once more.
    let deliveries = args.data.join(DELIVERIES_FILE);
    match fs::remove_file(&deliveries) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(at(&deliveries, &error));
        }
        _ => {}
    }
    places_file::remove(&args.data).map_err(|error| at(&args.data, &error))?;
    unmark(&args.data)?;
    let data = args.data.display();
    println!("{data} is no node of {cluster} any more; its newest record is {}", newest.0);
    Ok(())
}

fn remove(args: &RemoveArgs) -> Result<(), Failure> {
    let view = ClusterView::read(&args.journal)?;
    let (journal, name) = (&args.journal, &args.node);
    let node = view.nodes.iter().find(|node| node.name == *name);
    let node = node.ok_or_else(|| Failure::new(format!("{journal} has no node `{name}`")))?;
    if !is_away(node) {
        return Err(Failure::new(format!("{name} was there a moment ago: stop it first")));
    }
    ClusterView::remove(journal, name)?;
    println!("{name} is no node of {journal} any more");
    Ok(())
}

fn step_down(args: &StepDownArgs) -> Result<(), Failure> {
    let before = ClusterView::read(&args.journal)?;
    let mut others = before.nodes.iter().filter(|node| !node.is_of(before.tip.writer));
    if others.all(is_away) {
        return Err(Failure::new("no other node was there a moment ago, so nobody was asked"));
    }
    let after = ClusterView::step_down(&args.journal, STEP_DOWN_PATIENCE)?;
    let after = after.ok_or_else(|| Failure::new("no other node leads yet: is there one?"))?;
    let name = after.leader().map_or("another node", |leader| leader.name.as_str());
    println!("{name} leads, since epoch {}", after.tip.position.epoch.0);
    Ok(())
}

fn adopt(args: &AdoptArgs) -> Result<(), Failure> {
    let directory = DataDirectory::open_read_only(&args.data)?;
    require_no_backup(&args.data)?;
    // A node's journal may end in torn batches, which `leave` cuts.
    require_alone(&args.data)?;
    let journal = open_read_only(&directory.journal_path(), None, None)?;
    let tip = journal.tip;
    EtcdWindow::create(&args.journal, directory.id(), tip)?;
    mark(&args.data, &args.journal, None)?;
    println!(
        "{} is a cluster that goes on after record {} of {}",
        args.journal,
        tip.last_seq,
        args.data.display()
    );
    println!(
        "Start it with `cardswitch serve --data {} --journal {} --node NAME`; make other nodes of it \
         with `cardswitch cluster join`.",
        args.data.display(),
        args.journal
    );
    Ok(())
}

fn status(args: &StatusArgs) -> Result<(), Failure> {
    let view = ClusterView::read(&args.journal)?;
    let tip = view.tip.position;
    let leader = view.leader().map(|leader| leader.name.clone());
    if args.json {
        let nodes = view.nodes.iter().map(|node| {
            serde_json::json!({
                "name": node.name,
                "role": role(node, leader.as_deref()),
                "http": node.http,
                "iso8583": node.iso8583,
                "door": node.door,
                "record": node.record,
                "records_behind": tip.last_seq.saturating_sub(node.record),
                "seen_ms_ago": seen_ms_ago(node),
                "differing_settings": differing_settings(node, view.leader()),
            })
        });
        let nodes: Vec<_> = nodes.collect();
        let whole = serde_json::json!({
            "leader": leader, "epoch": tip.epoch.0, "batch": tip.number.0, "record": tip.last_seq,
            "etcd": view.etcd, "nodes": nodes,
        });
        println!("{whole}");
        return Ok(());
    }
    println!(
        "epoch {}, batch {}, record {}; etcd {}",
        tip.epoch.0, tip.number.0, tip.last_seq, view.etcd
    );
    for node in &view.nodes {
        println!(
            "{:<12} {:<8} http {} iso8583 {} record {} ({} behind), seen {:.1} s ago",
            node.name,
            role(node, leader.as_deref()),
            node.http,
            node.iso8583,
            node.record,
            tip.last_seq.saturating_sub(node.record),
            seen_ms_ago(node) as f64 / 1e3,
        );
        let differing = Vec::from_iter(differing_settings(node, view.leader())).join(", ");
        if !differing.is_empty() {
            println!("{:<12} settings that are not the leader's: {differing}", "");
        }
    }
    Ok(())
}

/// The names of the settings in which a node differs from the leader.
fn differing_settings<'a>(
    node: &'a NodeRecord,
    leader: Option<&'a NodeRecord>,
) -> BTreeSet<&'a str> {
    leader.map(|leader| leader.settings.differing(&node.settings)).unwrap_or_default()
}

fn role(node: &NodeRecord, leader: Option<&str>) -> &'static str {
    if leader == Some(node.name.as_str()) { "leads" } else { "follows" }
}

fn seen_ms_ago(node: &NodeRecord) -> i64 {
    (Clock::System.now().0 - node.at).max(0) / 1_000
}
