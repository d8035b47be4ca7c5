//! The processes of a cluster, and how each is asked and stopped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cardswitch_feed::Card;
use cardswitch_load::cards::{Choice, read_cards};
use cardswitch_tools::switch::{cardswitch, run as run_cardswitch};
use cardswitch_tools::{Outcome, fail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::http::Http;

/// The numbers of the nodes, and of the members of etcd.
pub(crate) const NODES: [u16; 3] = [1, 2, 3];
/// How long one question to a node may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A running cluster; stopped with the value.
pub(crate) struct Nodes<'a> {
    runtime: &'a Runtime,
    child: Child,
    /// The first of the ports: HTTP doors, ISO 8583 doors, figures and etcd follow each other by ten.
    ports: u16,
    pub(crate) journal: String,
    pub(crate) token: String,
    network_key: String,
    pub(crate) cards: Vec<Card>,
    home: PathBuf,
    /// Dropped after the nodes have closed it.
    _directory: TempDir,
}

impl<'a> Nodes<'a> {
    /// Starts three nodes and three etcd, and waits until one leads.
    /// Errors: they do not start.
    pub(crate) fn up(runtime: &'a Runtime, ports: u16) -> Outcome<Self> {
        let directory = TempDir::new()?;
        let home = directory.path().join("cluster");
        let mut child = Command::new(cardswitch()?)
            .args(["cluster", "up", "--ports", &ports.to_string(), "--cards", "1000", "--dir"])
            .arg(&home)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let mut text = Vec::new();
        let journal = loop {
            let Some(line) = lines.next() else { return fail("the cluster did not start") };
            let line = line?;
            if let Some(journal) = line.strip_prefix("ready journal=") {
                break journal.to_owned();
            }
            text.push(line);
        };
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let secret = |name: &str| -> Outcome<String> {
            let line = text.iter().find(|line| line.contains(name));
            let word = line.and_then(|line| line.split_whitespace().last());
            Ok(word.ok_or("the cluster tells no secrets")?.to_owned())
        };
        let (network_key, token) = (secret("network key")?, secret("access token")?);
        let cards = read_cards(&home.join("cards.jsonl"), Choice::Ordinary)?;
        let _directory = directory;
        let nodes =
            Self { runtime, child, ports, journal, token, network_key, cards, home, _directory };
        nodes.leader();
        Ok(nodes)
    }

    pub(crate) fn http(&self, node: u16) -> SocketAddr {
        self.address(node)
    }

    pub(crate) fn iso8583(&self, node: u16) -> SocketAddr {
        self.address(10 + node)
    }

    fn address(&self, place: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports + place).into()
    }

    /// Asks one question; none where no answer comes.
    fn ask(
        &self,
        address: SocketAddr,
        question: impl AsyncFnOnce(&mut Http) -> Outcome<()>,
    ) -> bool {
        let asked = async { question(&mut Http::connect(address).await?).await };
        let answer = self.runtime.block_on(async { tokio::time::timeout(ANSWER_MAX, asked).await });
        matches!(answer, Ok(Ok(())))
    }

    fn is_ready(&self, node: u16) -> bool {
        self.ask(self.address(20 + node), async |node| node.get("/readyz", &[]).await.map(drop))
    }

    /// Waits until a node leads.
    pub(crate) fn leader(&self) -> u16 {
        self.wait_for_leader(NODES.into_iter())
    }

    /// Waits until one of these leads.
    pub(crate) fn wait_for_leader(&self, nodes: impl Iterator<Item = u16> + Clone) -> u16 {
        loop {
            if let Some(leader) = nodes.clone().find(|node| self.is_ready(*node)) {
                return leader;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn status(&self) -> Outcome<Value> {
        let arguments = ["cluster", "status", "--json", "--journal", &self.journal];
        Ok(serde_json::from_slice(&run_cardswitch(&arguments, "")?)?)
    }

    /// The newest record and batch.
    pub(crate) fn newest(&self) -> Outcome<(u64, u64)> {
        let status = self.status()?;
        status["record"].as_u64().zip(status["batch"].as_u64()).ok_or_else(|| "no status".into())
    }

    /// Waits until every node follows or leads and has all records.
    pub(crate) fn wait_until_whole(&self) {
        let is_abreast = |node: &Value| {
            node["records_behind"] == 0 && node["seen_ms_ago"].as_u64().is_some_and(|ms| ms < 2_000)
        };
        let is_whole =
            |status: Value| status["nodes"].as_array()?.iter().all(is_abreast).then_some(());
        while self.status().ok().and_then(is_whole).is_none() {
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The time until a purchase at the door of a node is answered.
    pub(crate) fn time_to_answer(&self, node: u16) -> Duration {
        let start = Instant::now();
        let card = &self.cards
            [usize::try_from(start.elapsed().subsec_nanos()).unwrap_or(0) % self.cards.len()];
        let merchant = json!({ "mcc": 5812, "name": "Bar" });
        let body = json!({ "card_id": card.card_id, "amount": 0.01, "merchant": merchant });
        let key = format!("Bearer {}", self.network_key);
        let purchase = async |door: &mut Http| {
            door.post("/network/v1/authorizations", &key, body.to_string()).await.map(drop)
        };
        while !self.ask(self.http(node), purchase) {
            thread::sleep(Duration::from_millis(2));
        }
        start.elapsed()
    }

    /// Signals a node's process.
    pub(crate) fn signal(&self, node: u16, signal: Signal) -> Outcome<()> {
        let pid = fs::read_to_string(self.home.join(format!("node-{node}.pid")))?;
        send_signal(pid.trim().parse()?, signal)
    }

    /// The member of etcd that leads the others.
    pub(crate) fn etcd_leader(&self) -> Outcome<u16> {
        let leads = |member: &u16| {
            let mut leads = false;
            self.ask(self.address(30 + member), async |etcd| {
                let status = etcd.post("/v3/maintenance/status", "", "{}".to_owned()).await?;
                let status: Value = serde_json::from_slice(&status)?;
                leads = status["leader"] == status["header"]["member_id"];
                Ok(())
            });
            leads
        };
        NODES.into_iter().find(leads).ok_or_else(|| "no member of etcd leads".into())
    }

    /// Signals a member's process. Source: proc(5), children and cmdline.
    pub(crate) fn signal_etcd(&self, member: u16, signal: Signal) -> Outcome<()> {
        let name = format!("etcd-{member}");
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            for pid in fs::read_to_string(task?.path().join("children"))?.split_whitespace() {
                let command = fs::read_to_string(format!("/proc/{pid}/cmdline"))?;
                if command.split('\0').any(|word| word == name) {
                    return send_signal(pid.parse()?, signal);
                }
            }
        }
        fail(format!("`{name}` does not run"))
    }

    /// A copy of a node's journal, which nobody writes to.
    pub(crate) fn copy_journal(&self, node: u16) -> Outcome<TempDir> {
        let copy = TempDir::new_in(&self.home)?;
        for entry in fs::read_dir(self.home.join(format!("node-{node}/journal")))? {
            let entry = entry?;
            fs::copy(entry.path(), copy.path().join(entry.file_name()))?;
        }
        Ok(copy)
    }
}

impl Drop for Nodes<'_> {
    fn drop(&mut self) {
        // A cluster that has ended needs no signal.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

fn send_signal(pid: i32, signal: Signal) -> Outcome<()> {
    Ok(kill_process(Pid::from_raw(pid).ok_or("no process has the number 0")?, signal)?)
}
