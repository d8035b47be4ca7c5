//! The clocks of the nodes of a cluster, compared once a second, and at once by a node that has just come.
//!
//! A node asks each other one for the time by `GET /clock/NONCE`. The answer is the microseconds since 1970 and
//! a tag of both under the key of all nodes. Half of the way there and back is taken off; an answer that was
//! long under way counts for nothing.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cardswitch_cluster::{ClockStanding, Node, NodeRecord};
use cardswitch_engine::clock::{Clock, Stopwatch};
use cardswitch_secrets::hex::{from_hex, to_hex};
use cardswitch_secrets::{NodeCallKey, Secrets};
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;

use crate::node_call::NodeCall;
use crate::node_door::NodeDesk;

/// The path of a request for the time; a nonce stands behind it.
pub const CLOCK_PATH: &str = "/clock/";
/// How often clocks are compared, and how soon again until enough are known.
const COMPARE_EVERY: Duration = Duration::from_secs(1);
const COMPARE_SOON: Duration = Duration::from_millis(100);
/// The longest way there and back of an answer that counts. Half of it is how wrong it may be.
const WAY_MAX: Duration = Duration::from_millis(250);
/// The longest answer. Units: bytes.
const ANSWER_BYTES_MAX: usize = 256;

/// The answer of the node that is asked at `path`.
pub fn tell_time(secrets: &Secrets, path: &str) -> String {
    let now = Clock::System.now().0.to_string();
    let tag = secrets.node_call_tag(&[path.as_bytes(), b"\n", now.as_bytes()]);
    format!("{now} {}", to_hex(&tag).as_str())
}

/// Compares the clock with those of the other nodes for as long as the process lives.
pub async fn watch_clocks(node: Node, desk: Arc<OnceLock<NodeDesk>>) {
    loop {
        if let Some(desk) = desk.get() {
            let nodes = node.status.nodes().into_iter();
            let others = nodes.filter(|other| other.name != node.record.name);
            let asked = others.map(|other| compare(other, desk.secrets.clone()));
            let asked = asked.collect::<JoinSet<_>>().join_all().await;
            for (name, ahead_us) in asked.into_iter().flatten() {
                node.status.note_clock(name, ahead_us);
            }
        }
        let is_checked = node.status.clock() != ClockStanding::Unchecked;
        tokio::time::sleep(if is_checked { COMPARE_EVERY } else { COMPARE_SOON }).await;
    }
}

/// How far the clock of another node is ahead of this one; none where the answer does not count.
async fn compare(other: NodeRecord, secrets: Secrets) -> Option<(String, i64)> {
    let path = format!("{CLOCK_PATH}{}", Uuid::new_v4().simple());
    let (since, asked_at) = (Stopwatch::start(), Clock::System.now().0);
    let asked = NodeCall::get(path.clone());
    // A silent node keeps nobody waiting for the others.
    let answer = timeout(WAY_MAX, asked.ask(other.door, &secrets, ANSWER_BYTES_MAX)).await;
    let way = since.elapsed();
    let time = parse_time(&secrets, &path, &answer.ok()?.ok()?)?;
    let there = i64::try_from(way.as_micros() / 2).ok()?;
    (way <= WAY_MAX).then(|| (other.name, time - asked_at - there))
}

fn parse_time(secrets: &Secrets, path: &str, answer: &[u8]) -> Option<i64> {
    let (time, tag) = std::str::from_utf8(answer).ok()?.split_once(' ')?;
    let parts = [path.as_bytes(), b"\n", time.as_bytes()];
    let is_signed = secrets.is_node_call(&parts, &from_hex(tag)?);
    time.parse().ok().filter(|_| is_signed)
}
