//! `cardswitch cluster up`: three nodes and three etcd, each a process of its own, in one directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use cardswitch_cluster::{ClusterAddress, ClusterView, OpenWindowError};
use cardswitch_engine::clock::Stopwatch;
use rustix::process::{Pid, Signal, kill_process};

use super::at;
use crate::commands::init::{SHOWN_ONCE, shown_secrets};
use crate::commands::{Failure, StopSignal, announce, complain};
use crate::install::Credentials;

/// How many nodes and members there are: the fewest of which one may fail.
const NODES: u16 = 3;
/// How long etcd may take to elect a leader.
const ETCD_PATIENCE: Duration = Duration::from_secs(20);
/// How often something that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a node is away after it has died.
const RESTART_AFTER: Duration = Duration::from_secs(3);

/// The arguments of `up`.
#[derive(Debug, clap::Args)]
pub struct UpArgs {
    /// Directory of all of it, made if it is not there
    #[arg(long, value_name = "DIR", default_value = "cardswitch-cluster")]
    dir: PathBuf,
    /// First of the ports, of which 45 are used
    #[arg(long, value_name = "PORT", default_value_t = 18_080)]
    ports: u16,
    /// Program of etcd
    #[arg(long, env = "CARDSWITCH_ETCD", value_name = "FILE", default_value = "etcd")]
    etcd: PathBuf,
    /// Test cards that the new directory begins with
    #[arg(long, value_name = "N", default_value_t = 200)]
    cards: u32,
}

/// The arguments of `kill-leader`.
#[derive(Debug, clap::Args)]
pub struct KillLeaderArgs {
    /// Directory of `cluster up`
    #[arg(long, value_name = "DIR", default_value = "cardswitch-cluster")]
    dir: PathBuf,
}

/// The places and ports of a cluster on this machine.
struct ClusterLayout<'a> {
    dir: &'a Path,
    ports: u16,
}

impl ClusterLayout<'_> {
    fn data(&self, node: u16) -> PathBuf {
        self.dir.join(format!("node-{node}"))
    }

    fn http(&self, node: u16) -> u16 {
        self.ports + node
    }

    fn iso8583(&self, node: u16) -> u16 {
        self.ports + 10 + node
    }

    fn metrics(&self, node: u16) -> u16 {
        self.ports + 20 + node
    }

    fn etcd_client(&self, member: u16) -> u16 {
        self.ports + 30 + member
    }

    fn etcd_peer(&self, member: u16) -> u16 {
        self.ports + 40 + member
    }

    fn journal(&self) -> String {
        self.journal_of(1)
    }

    /// The same as a node has it: it asks the member of its number first, as one on its machine.
    fn journal_of(&self, node: u16) -> String {
        let members = (node..=NODES).chain(1..node);
        let members: Vec<_> =
            members.map(|member| format!("127.0.0.1:{}", self.etcd_client(member))).collect();
        format!("etcd://{}/local", members.join(","))
    }

    fn journal_file(&self) -> PathBuf {
        self.dir.join("journal")
    }

    fn pid_file(&self, node: &str) -> PathBuf {
        self.dir.join(format!("{node}.pid"))
    }
}

/// Carries out `up`: runs until Ctrl-C or SIGTERM, and ends the processes that it started.
/// Errors: etcd is missing, a port is in use, or the directory cannot be made.
pub(super) async fn run(args: UpArgs) -> Result<(), Failure> {
    let layout = ClusterLayout { dir: &args.dir, ports: args.ports };
    let mut stop = StopSignal::listen()?;
    fs::create_dir_all(&args.dir).map_err(|error| at(&args.dir, &error))?;
    let mut members = Vec::new();
    for member in 1..=NODES {
        members.push(Member(start_etcd(&args, &layout, member)?));
        println!("etcd-{member}   http://127.0.0.1:{}", layout.etcd_client(member));
    }
    fs::write(layout.journal_file(), layout.journal())
        .map_err(|error| at(&layout.journal_file(), &error))?;
    tokio::task::block_in_place(|| prepare(&args, &layout))?;
    let is_stopping = Arc::<AtomicBool>::default();
    let mut nodes = Vec::new();
    for node in 1..=NODES {
        let (start, pid_file) = (node_command(&layout, node)?, layout.pid_file(&name_of(node)));
        nodes.push(keep_running(start, pid_file, Arc::clone(&is_stopping)));
        println!(
            "node-{node}   http://127.0.0.1:{} iso8583 127.0.0.1:{} metrics 127.0.0.1:{}",
            layout.http(node),
            layout.iso8583(node),
            layout.metrics(node)
        );
    }
    println!("ready journal={}", layout.journal());
    println!(
        "Try: cardswitch feed --connect 127.0.0.1:{} --cards {} --duration 1m   (any node's door will do)",
        layout.iso8583(2),
        args.dir.join("cards.jsonl").display()
    );
    println!("     cardswitch cluster status --journal {}", layout.journal());
    println!("     cardswitch cluster step-down --journal {}", layout.journal());
    println!("     cardswitch cluster kill-leader --dir {}", args.dir.display());
    stop.received().await;
    // Nodes before etcd: the leader answers the requests that it has taken.
    is_stopping.store(true, Ordering::Release);
    for node in 1..=NODES {
        signal(&layout.pid_file(&name_of(node)), Signal::TERM);
    }
    for node in nodes {
        // A thread that panicked has printed why.
        drop(node.join());
    }
    Ok(())
}

/// A member of etcd, which ends with this value.
struct Member(Child);

impl Drop for Member {
    fn drop(&mut self) {
        // A process that has ended needs no kill, so its error is dropped.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn name_of(node: u16) -> String {
    format!("node-{node}")
}

fn start_etcd(args: &UpArgs, layout: &ClusterLayout<'_>, member: u16) -> Result<Child, Failure> {
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let others = (1..=NODES).map(|other| format!("etcd-{other}={}", url(layout.etcd_peer(other))));
    let others: Vec<_> = others.collect();
    let (client, peer) = (url(layout.etcd_client(member)), url(layout.etcd_peer(member)));
    let mut command = Command::new(&args.etcd);
    command.args(["--name", &format!("etcd-{member}")]);
    command.arg("--data-dir").arg(layout.dir.join(format!("etcd-{member}")));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &others.join(","), "--initial-cluster-state", "new"]);
    command.args(["--heartbeat-interval", "50", "--election-timeout", "500"]);
    let log = create(&layout.dir.join(format!("etcd-{member}.log")))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::new(format!(
            "`{}` is not installed: take the package etcd-server, or name the program with --etcd",
            args.etcd.display()
        )),
        _ => at(&args.etcd, &error),
    })
}

fn create(path: &Path) -> Result<fs::File, Failure> {
    let opened = fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(|error| at(path, &error))
}

/// Makes the directories of the nodes, where they are not there from the last time.
fn prepare(args: &UpArgs, layout: &ClusterLayout<'_>) -> Result<(), Failure> {
    let journal = layout.journal();
    if layout.data(NODES).exists() {
        return Ok(());
    }
    wait_for_etcd(&journal)?;
    let cards = layout.dir.join("cards.jsonl");
    let first = layout.data(1);
    let made = run_self(&[
        "init".as_ref(),
        "--json".as_ref(),
        "--data".as_ref(),
        first.as_os_str(),
        "--cards".as_ref(),
        args.cards.to_string().as_ref(),
        "--cards-out".as_ref(),
        cards.as_os_str(),
    ])?;
    println!("{}", made_text(&serde_json::from_str(&made)?, (&first, &cards, args.cards)));
    let journal: &std::ffi::OsStr = journal.as_ref();
    let (adopt, data) = (["cluster".as_ref(), "adopt".as_ref()], "--data".as_ref());
    run_self(&[adopt[0], adopt[1], data, first.as_os_str(), "--journal".as_ref(), journal])?;
    let backup = layout.dir.join("backup");
    let (to, from) = ("--to".as_ref(), "--from".as_ref());
    run_self(&["backup".as_ref(), data, first.as_os_str(), to, backup.as_os_str()])?;
    let key = first.join("master.key");
    for node in 2..=NODES {
        let place = layout.data(node);
        let restore: [&std::ffi::OsStr; 7] = [
            "restore".as_ref(),
            from,
            backup.as_os_str(),
            data,
            place.as_os_str(),
            "--master-key".as_ref(),
            key.as_os_str(),
        ];
        run_self(&restore)?;
    }
    fs::remove_dir_all(&backup).map_err(|error| at(&backup, &error))
}

/// What is shown of the first directory. The nodes listen elsewhere than one switch does, and are served
/// already.
fn made_text(credentials: &Credentials, (data, cards, count): (&Path, &Path, u32)) -> String {
    let mut lines = shown_secrets(data, credentials, None);
    lines.push(format!("  test cards      {count} in {}", cards.display()));
    lines.push(SHOWN_ONCE.to_owned());
    lines.join("\n")
}

fn wait_for_etcd(journal: &str) -> Result<(), Failure> {
    let address: ClusterAddress = journal.parse()?;
    let since = Stopwatch::start();
    while since.elapsed() < ETCD_PATIENCE {
        match ClusterView::read(&address) {
            Ok(_) | Err(OpenWindowError::Absent(_)) => return Ok(()),
            Err(OpenWindowError::Etcd(_)) => std::thread::sleep(LOOK_EVERY),
            Err(error) => return Err(Failure::new(error)),
        }
    }
    Err(Failure::new("etcd does not answer: see its logs in the directory"))
}

/// Runs another command of this program, and returns what it prints.
fn run_self(arguments: &[&std::ffi::OsStr]) -> Result<String, Failure> {
    let program = std::env::current_exe()?;
    let run = Command::new(program).args(arguments).stdin(Stdio::null()).output()?;
    if run.status.success() {
        return Ok(String::from_utf8_lossy(&run.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&run.stderr);
    Err(Failure::new(said.trim().trim_start_matches("cardswitch: ")))
}

/// Makes the command that starts a node, a new one each time.
fn node_command(
    layout: &ClusterLayout<'_>,
    node: u16,
) -> Result<impl FnMut() -> io::Result<Command> + Send + 'static, Failure> {
    let program = std::env::current_exe()?;
    let address = |port: u16| format!("127.0.0.1:{port}");
    let (data, name, journal) = (layout.data(node), name_of(node), layout.journal_of(node));
    let doors = [layout.http(node), layout.iso8583(node), layout.metrics(node)].map(address);
    let log = layout.dir.join(format!("{name}.log"));
    Ok(move || {
        let log = fs::OpenOptions::new().create(true).append(true).open(&log)?;
        let mut command = Command::new(&program);
        command.arg("serve").arg("--data").arg(&data);
        command.args(["--journal", &journal, "--node", &name]);
        command.args(["--http", &doors[0], "--iso8583", &doors[1], "--metrics", &doors[2]]);
        command.arg("--allow-local-webhooks");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command)
    })
}

/// Keeps a node running: a node that dies comes back after a while.
fn keep_running(
    mut command: impl FnMut() -> io::Result<Command> + Send + 'static,
    pid_file: PathBuf,
    is_stopping: Arc<AtomicBool>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while !is_stopping.load(Ordering::Acquire) {
            match command().and_then(|mut command| command.spawn()) {
                Ok(mut child) => {
                    if let Err(error) = fs::write(&pid_file, child.id().to_string()) {
                        complain(format_args!("`{}`: {error}", pid_file.display()));
                    }
                    if let Ok(status) = child.wait() {
                        let node = pid_file.with_extension("");
                        announce(format_args!("{} ended: {status}", node.display()));
                    }
                }
                Err(error) => complain(format_args!("a node does not start: {error}")),
            }
            let since = Stopwatch::start();
            while since.elapsed() < RESTART_AFTER && !is_stopping.load(Ordering::Acquire) {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    })
}

/// Sends a signal to the process whose id is in a file; a process that is gone needs none.
fn signal(pid_file: &Path, signal: Signal) -> bool {
    let pid = fs::read_to_string(pid_file).ok().and_then(|text| text.trim().parse().ok());
    let pid = pid.and_then(Pid::from_raw).filter(|pid| is_node(*pid));
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// Whether a process is a node, and not another one that got the same id.
fn is_node(pid: Pid) -> bool {
    let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|argument| argument == b"--node")
}

/// Carries out `kill-leader`.
/// Errors: no node leads, or the leader is no node of this directory.
pub(super) fn kill_leader(args: &KillLeaderArgs) -> Result<(), Failure> {
    let layout = ClusterLayout { dir: &args.dir, ports: 0 };
    let file = layout.journal_file();
    let journal = fs::read_to_string(&file).map_err(|error| at(&file, &error))?;
    let address: ClusterAddress = journal.trim().parse()?;
    let view = ClusterView::read(&address)?;
    let leader = view.leader().ok_or_else(|| Failure::new("no node leads"))?;
    if !signal(&layout.pid_file(&leader.name), Signal::KILL) {
        return Err(Failure::new(format!("{} is not running here", leader.name)));
    }
    println!("killed {}, which led since epoch {}", leader.name, view.tip.position.epoch.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, it was told to sign in at a port where nobody listens, and to serve what is served already.
    #[test]
    fn the_first_directory_is_shown_without_the_next_step_of_one_switch() {
        let made = r#"{"company_id": "a1", "account_id": "a2", "admin_email": "a3",
            "admin_password": "a4", "access_token": "a5", "network_key": "a6"}"#;
        let (data, cards) = (Path::new("/c/node-1"), Path::new("/c/cards.jsonl"));
        let text = made_text(&serde_json::from_str(made).unwrap(), (data, cards, 7));
        for shown in ["a1", "a2", "a3", "a4", "a5", "a6", "/c/node-1", "7 in /c/cards.jsonl"] {
            assert!(text.contains(shown), "{text}");
        }
        assert!(!text.contains("sign in") && !text.contains("Next:"), "{text}");
    }
}
