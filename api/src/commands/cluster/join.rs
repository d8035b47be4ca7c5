//! `cardswitch cluster join`: a node out of a running one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::{Response, header};
use cardswitch_cluster::{ClusterAddress, ClusterView};
use cardswitch_engine::backup::{CopyError, check_room};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::master_key::MASTER_KEY_FILE;
use cardswitch_secrets::master_key::data_key::WrappedKey;
use cardswitch_secrets::master_key::source::{MasterKeyArgs, MasterKeySource};
use cardswitch_secrets::private_file::{beside, remove_folder};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::at;
use crate::commands::Failure;
use crate::commands::backup::{RestoreArgs, restore};
use crate::handed_backup::BackupIntake;
use crate::node_call::NodeCall;
use crate::node_door::{BACKUP_AGAIN_S, BACKUP_PATH, BACKUP_SIZE_PATH, KEY_PATH};
use crate::opening::KeyedDirectory;

/// The arguments of `join`.
#[derive(Debug, clap::Args)]
pub struct JoinArgs {
    /// Data directory to make
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    /// Cluster, such as etcd://10.0.0.1:2379,10.0.0.2:2379/prod
    #[arg(long, env = "CARDSWITCH_JOURNAL", value_name = "URL")]
    journal: ClusterAddress,
    /// Name of the node to copy, which has to lead; the one that leads without it
    #[arg(long, value_name = "NODE")]
    from: Option<String>,
    #[command(flatten)]
    master_key: MasterKeyArgs,
    /// Do not copy the master key from its file into the new directory
    #[arg(long)]
    no_key_copy: bool,
}

impl JoinArgs {
    /// The arguments that make a new directory for the node of this one, with the key where it is
    /// now.
    pub(crate) fn renewing(
        place: KeyedDirectory<'_>,
        data: PathBuf,
        journal: ClusterAddress,
    ) -> Self {
        let is_inside = *place.master_key == MasterKeySource::InDirectory;
        let source = match is_inside {
            true => MasterKeySource::File(place.data.join(MASTER_KEY_FILE)),
            false => place.master_key.clone(),
        };
        let master_key = MasterKeyArgs::of(source);
        Self { data, journal, from: None, master_key, no_key_copy: !is_inside }
    }
}

/// The copies that stand beside each other at the end of a join: as it came, proven, and the directory itself.
const COPIES: u64 = 3;
/// The longest answer about the size of a backup. Units: bytes.
const SIZE_BYTES_MAX: usize = 4_096;
/// The longest wrapped key that is read. Units: bytes.
const KEY_BYTES_MAX: usize = 4_096;

/// Carries out `join`.
/// Errors: something is there already, the node does not answer, the master key is another one.
pub async fn join(args: JoinArgs) -> Result<(), Failure> {
    let folder = beside(&args.data, ".joining");
    // Of a join that was cut short, perhaps once the directory stood at its place.
    remove(&folder)?;
    if args.data.symlink_metadata().is_ok() {
        return Err(Failure::new(format!(
            "`{}` is there already: move it away first, a node is made anew",
            args.data.display()
        )));
    }
    let (journal, from) = (args.journal.clone(), args.from.clone());
    let found = tokio::task::spawn_blocking(move || find_node(&journal, from.as_deref()));
    let (name, door) = found.await??;
    let secrets = open_keys(door, &args).await?;
    // Before the other node makes a backup for nothing.
    check_room_to_join(&args.data, size_of_copy(door, &secrets).await?)?;
    let fetched = fetch(door, &secrets, &folder).await;
    let made = fetched.and_then(|()| {
        let JoinArgs { data, journal, master_key, no_key_copy, .. } = args;
        let told = format!("{} is a node of {journal} now, a copy of {name}", data.display());
        restore(&RestoreArgs::for_node(folder.clone(), data, master_key, no_key_copy, journal))?;
        println!("{told}");
        Ok(())
    });
    remove(&folder)?;
    made
}

fn find_node(
    journal: &ClusterAddress,
    from: Option<&str>,
) -> Result<(String, SocketAddr), Failure> {
    let view = ClusterView::read(journal)?;
    let node = match from {
        Some(name) => view.nodes.iter().find(|node| node.name == name),
        None => view.leader(),
    };
    let node = node.ok_or_else(|| {
        Failure::new(match from {
            Some(name) => {
                format!("{journal} has no node `{name}`: see `cardswitch cluster status`")
            }
            None => format!("no node of {journal} leads"),
        })
    })?;
    Ok((node.name.clone(), node.door))
}

/// The keys of the cluster, which the master key opens.
async fn open_keys(door: SocketAddr, args: &JoinArgs) -> Result<Secrets, Failure> {
    let master = args.master_key.source().read_apart(&args.data)?;
    let call = NodeCall::get(KEY_PATH.to_owned());
    let text = call.ask(door, &master, KEY_BYTES_MAX).await?;
    let text = String::from_utf8_lossy(&text);
    let wrapped = WrappedKey::parse(&mut text.lines())
        .ok_or_else(|| Failure::new(format!("the node at {door} has no key: {text}")))?;
    let kept_at = PathBuf::from(format!("http://{door}{KEY_PATH}"));
    let data_key = wrapped.open_with(&master, &kept_at)?;
    Ok(Secrets::from_root(*data_key))
}

/// The size of the copy that the node would hand out, about. Units: bytes.
async fn size_of_copy(door: SocketAddr, secrets: &Secrets) -> Result<u64, Failure> {
    let call = NodeCall::get(BACKUP_SIZE_PATH.to_owned());
    let said = call.ask(door, secrets, SIZE_BYTES_MAX).await?;
    let said = String::from_utf8_lossy(&said);
    said.parse().map_err(|_| Failure::new(format!("the node at {door} tells no size: {said}")))
}

/// Errors: there is no room for a node at `data` that is a copy of so many bytes.
fn check_room_to_join(data: &Path, copy_bytes: u64) -> Result<(), CopyError> {
    check_room(data, copy_bytes.saturating_mul(COPIES))
}

async fn fetch(door: SocketAddr, secrets: &Secrets, folder: &Path) -> Result<(), Failure> {
    let answer = ask_for_backup(door, secrets).await?;
    let status = answer.status();
    let mut body = answer.into_body();
    if !status.is_success() {
        let said = body.collect().await?.to_bytes();
        let said = String::from_utf8_lossy(&said).into_owned();
        return Err(Failure::new(format!("the node at {door} answers {status}: {said}")));
    }
    let mut intake = BackupIntake::new(folder).map_err(|error| at(folder, &error))?;
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        if let Some(piece) = frame.data_ref() {
            intake.take(piece).map_err(|error| at(folder, &error))?;
        }
    }
    if intake.is_whole {
        return Ok(());
    }
    Err(Failure::new(format!("the node at {door} broke off: see its log")))
}

/// Asks for a backup, and waits while the node makes another one.
async fn ask_for_backup(
    door: SocketAddr,
    secrets: &Secrets,
) -> Result<Response<Incoming>, Failure> {
    let mut is_told = false;
    loop {
        let call = NodeCall::get(BACKUP_PATH.to_owned());
        let answer = call.send(door, secrets).await?;
        if !answer.headers().contains_key(header::RETRY_AFTER) {
            return Ok(answer);
        }
        if !std::mem::replace(&mut is_told, true) {
            println!("the node at {door} makes another backup: waits for it");
        }
        tokio::time::sleep(Duration::from_secs(BACKUP_AGAIN_S)).await;
    }
}

fn remove(folder: &Path) -> Result<(), Failure> {
    remove_folder(folder).map_err(|error| at(folder, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_for_which_there_is_no_room_is_not_begun() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        check_room_to_join(&data, 1).unwrap();
        let found = rustix::fs::statvfs(home.path()).unwrap();
        // There is room for one copy, not for three.
        let free = found.f_bavail * found.f_frsize;
        let refused = check_room_to_join(&data, free / 2).unwrap_err();
        assert!(refused.to_string().contains("MiB are free there"), "{refused}");
    }
}
