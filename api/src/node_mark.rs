//! The file that makes a data directory that of a node: `cluster` in it names its cluster in the first line, and in
//! the second the node, once it was one.
//!
//! A node's journal is a prefix of the cluster's chain. A writer outside the cluster would leave that
//! chain for ever, so only the node opens such a directory for writing.

use std::io;
use std::path::Path;

use cardswitch_cluster::ClusterAddress;
use cardswitch_secrets::private_file::replace;

const FILE: &str = "cluster";

/// Why a directory is not opened.
#[derive(Debug, thiserror::Error)]
pub enum NodeMarkError {
    /// It is a node's, and was to be opened by itself.
    #[error(
        "the data directory is that of a node of {0}: serve it with --journal, or take it out of the \
         cluster with `cardswitch cluster leave`"
    )]
    Node(String),
    /// It is a node's of another cluster.
    #[error(
        "the data directory is that of a node of {found}, not of {wanted}: take it out of that \
         cluster first, with `cardswitch cluster leave`"
    )]
    OtherCluster {
        /// The cluster that it is of.
        found: String,
        /// The cluster at hand.
        wanted: Box<ClusterAddress>,
    },
    /// The file cannot be read or written.
    #[error("`cluster` in the data directory: {0}")]
    File(#[from] io::Error),
}

/// The cluster that a directory is of, if it is a node's.
/// Errors: the file cannot be read.
pub fn cluster_of(data: &Path) -> Result<Option<String>, NodeMarkError> {
    Ok(mark_of(data)?.and_then(|mark| mark.into_iter().next()))
}

/// The name under which a directory was a node of its cluster last, if it ever was.
/// Errors: the file cannot be read.
pub fn node_of(data: &Path) -> Result<Option<String>, NodeMarkError> {
    Ok(mark_of(data)?.and_then(|mark| mark.into_iter().nth(1)))
}

fn mark_of(data: &Path) -> Result<Option<Vec<String>>, NodeMarkError> {
    match std::fs::read_to_string(data.join(FILE)) {
        Ok(text) => Ok(Some(text.lines().map(str::to_owned).collect())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Errors: the directory is a node's.
pub fn require_alone(data: &Path) -> Result<(), NodeMarkError> {
    cluster_of(data)?.map_or(Ok(()), |cluster| Err(NodeMarkError::Node(cluster)))
}

/// Errors: the directory is that of a node of another cluster than `cluster`, whose members may be other
/// ones than before.
pub fn require_not_of_another(data: &Path, cluster: &ClusterAddress) -> Result<(), NodeMarkError> {
    let found = cluster_of(data)?;
    let is_same = |found: &String| {
        found.parse().is_ok_and(|known: ClusterAddress| known.prefix == cluster.prefix)
    };
    match found {
        Some(found) if !is_same(&found) => {
            Err(NodeMarkError::OtherCluster { found, wanted: Box::new(cluster.clone()) })
        }
        _ => Ok(()),
    }
}

/// Makes the directory that of a node of `cluster`, which has a name from its first start on.
/// Errors: the file cannot be written.
pub fn mark(
    data: &Path,
    cluster: &ClusterAddress,
    node: Option<&str>,
) -> Result<(), NodeMarkError> {
    let node = node.map_or_else(String::new, |node| format!("{node}\n"));
    Ok(replace(&data.join(FILE), format!("{cluster}\n{node}").as_bytes())?)
}

/// Makes a node's directory one of its own again.
/// Errors: the file cannot be removed.
pub fn unmark(data: &Path) -> Result<(), NodeMarkError> {
    Ok(std::fs::remove_file(data.join(FILE))?)
}
