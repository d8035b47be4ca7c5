//! A cluster on this machine: three members of etcd and three nodes, each a process of its own, in one
//! network or each on a machine of its own.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::certificates::Certificate;
use crate::command::{CommandOutput, command_in, run_cardswitch};
use crate::http_client::{HttpClient, HttpRequest};
use crate::installation::{Installation, text_of};
use crate::lan::{LAN_ADDRESSES, Lan};
use crate::switch::Switch;

const NODES: usize = 3;
/// The machines of the nodes; those of etcd come behind.
const MACHINES: u8 = 3;
/// How long a leader may be silent, unless a test is about the default: so long that one that lives is not
/// taken for dead where other tests keep the machine busy.
const PATIENT: &[&str] = &["--leader-silence-ms", "2000"];
/// How often something that is waited for is looked at. Nothing here fails for being slow.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Three members of etcd and the nodes that were started.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Option<Switch>>,
    members: Vec<Member>,
    doors: Vec<[SocketAddr; 3]>,
    /// The address of the cluster's journal.
    pub journal: String,
    /// The installation of the first node's directory; everything of the others is beside it.
    pub installation: Installation,
    lan: Option<Lan>,
    /// Whether the clocks of nodes can be turned.
    has_clocks: bool,
    /// The arguments of each node that say how long a leader may be silent.
    silence: &'static [&'static str],
}

/// A member of etcd, at the same addresses each time.
#[derive(Debug)]
struct Member {
    namespace: Option<String>,
    arguments: Vec<String>,
    log: PathBuf,
    process: Option<Child>,
}

/// The name of a member.
pub fn etcd_name(member: usize) -> String {
    format!("etcd-{member}")
}

impl Cluster {
    /// Makes a cluster of `installation`, and starts all of it.
    #[track_caller]
    pub fn of(installation: Installation) -> Self {
        Self::make(installation, None, false, PATIENT)
    }

    /// The same with nodes that wait for a silent leader as long as nodes do by default. Nothing may run
    /// beside it.
    #[track_caller]
    pub fn with_default_silence(installation: Installation) -> Self {
        Self::make(installation, None, false, &[])
    }

    /// The same with a clock for each node that can be turned; see `turn_clock`.
    #[track_caller]
    pub fn with_clocks(installation: Installation) -> Self {
        Self::make(installation, None, true, PATIENT)
    }

    /// The same with machines of their own for each node and each member; see `node_machine`.
    #[track_caller]
    pub fn on_machines(installation: Installation) -> Self {
        Self::make(installation, Some(Lan::new(2 * MACHINES)), false, PATIENT)
    }

    #[track_caller]
    fn make(
        installation: Installation,
        lan: Option<Lan>,
        has_clocks: bool,
        silence: &'static [&'static str],
    ) -> Self {
        let (members, journal) = start_members(&installation, lan.as_ref());
        let doors = (0..MACHINES).map(|node| node_doors(lan.as_ref(), node)).collect();
        let nodes = (0..NODES).map(|_| None).collect();
        let mut cluster =
            Self { installation, members, doors, nodes, journal, lan, has_clocks, silence };
        cluster.wait_for_etcd();
        let key = cluster.data(0).join("master.key");
        std::fs::copy(key, cluster.master_key()).expect("the key can be copied");
        cluster.command(&["cluster", "adopt", "--data", text_of(&cluster.data(0))]).expect_done();
        for node in 1..NODES {
            cluster.copy(0, node);
        }
        if cluster.lan.is_some() {
            let settings = format!("iso8583_peers = [\"{LAN_ADDRESSES}\"]\n");
            for node in 0..NODES {
                let file = cluster.data(node).join("cardswitch.toml");
                std::fs::write(file, &settings).expect("a file can be written");
            }
        }
        (0..NODES).for_each(|node| cluster.start(node));
        cluster.wait_for_leader();
        cluster
    }

    /// The network that its machines are on.
    #[track_caller]
    pub fn lan(&self) -> &Lan {
        self.lan.as_ref().expect("it is on machines")
    }

    /// The directory of a node.
    pub fn data(&self, node: usize) -> PathBuf {
        match node {
            0 => self.installation.data(),
            _ => self.installation.home().join(format!("node-{node}")),
        }
    }

    /// The master key, kept apart from all directories.
    pub fn master_key(&self) -> PathBuf {
        self.installation.home().join("master.key")
    }

    /// Makes the directory of the node `to` anew, by a backup of the node `from`, running or not.
    #[track_caller]
    pub fn copy(&self, from: usize, to: usize) {
        let backup = self.installation.home().join("backup");
        let (from, to) = (self.data(from), self.data(to));
        // A missing directory needs no removal.
        drop((std::fs::remove_dir_all(&backup), std::fs::remove_dir_all(&to)));
        let key = self.master_key();
        run_cardswitch(&["backup", "--data", text_of(&from), "--to", text_of(&backup)])
            .expect_done();
        let (backup, key) = (text_of(&backup), text_of(&key));
        let restore = ["restore", "--from", backup, "--data", text_of(&to), "--master-key", key];
        run_cardswitch(&restore).expect_done();
    }

    /// Makes the directory of a node anew, out of the node that leads.
    #[track_caller]
    pub fn join(&self, node: usize) {
        let (data, key) = (self.data(node), self.master_key());
        // A missing directory needs no removal.
        drop(std::fs::remove_dir_all(&data));
        let join = ["cluster", "join", "--data", text_of(&data), "--master-key", text_of(&key)];
        self.command(&join).expect_done();
    }

    fn receipts(&self, node: usize) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.data(node).join("receipts"));
        let files = files.into_iter().flatten().map(|file| file.expect("a name").path());
        files.filter(|file| file.extension().is_none()).collect()
    }

    /// Waits until a node has so many files of receipts.
    pub fn wait_for_receipts(&self, node: usize, count: usize) {
        wait_for(|| (self.receipts(node).len() == count).then_some(()));
    }

    /// Spoils the files of a node's receipts.
    pub fn damage_receipts(&self, node: usize) {
        for file in self.receipts(node) {
            std::fs::write(file, "spoilt").expect("a file can be written");
        }
    }

    /// Runs a command on this cluster.
    pub fn command(&self, arguments: &[&str]) -> CommandOutput {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--journal", &self.journal]);
        run_cardswitch(&arguments)
    }

    /// Starts a node.
    #[track_caller]
    pub fn start(&mut self, node: usize) {
        let name = format!("node-{node}");
        let further = ["--journal", &self.journal, "--node", &name, "--allow-local-webhooks"];
        let further = [&further, self.silence].concat();
        let machine = node_machine(node);
        let namespace = self.lan.as_ref().map(|lan| lan.namespace(machine));
        let data = self.data(node);
        let place = (data.as_path(), self.doors[node]);
        let clock = if self.has_clocks { self.clock_of(node) } else { Vec::new() };
        let started = self.installation.serve_node(namespace.as_deref(), place, &further, &clock);
        self.nodes[node] = Some(started);
    }

    /// The variables of libfaketime, which looks at a file once a second.
    fn clock_of(&self, node: usize) -> Vec<(&'static str, String)> {
        let library =
            format!("/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1", std::env::consts::ARCH);
        assert!(
            Path::new(&library).exists(),
            "{library} is missing: `./test` installs libfaketime"
        );
        let file = self.clock_file(node);
        if !file.exists() {
            self.turn_clock(node, "+0");
        }
        vec![
            ("LD_PRELOAD", library),
            ("FAKETIME_TIMESTAMP_FILE", text_of(&file).to_owned()),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }

    fn clock_file(&self, node: usize) -> PathBuf {
        self.installation.home().join(format!("clock-{node}"))
    }

    /// Turns the clock of a node: `+2` is two seconds ahead of the system's.
    pub fn turn_clock(&self, node: usize, offset_s: &str) {
        // The reader never sees half of it.
        let (file, new) = (self.clock_file(node), self.clock_file(node).with_extension("new"));
        std::fs::write(&new, format!("{offset_s}\n")).expect("a file can be written");
        std::fs::rename(new, file).expect("a file can be renamed");
    }

    /// A node that runs.
    #[track_caller]
    pub fn node(&self, node: usize) -> &Switch {
        self.nodes[node].as_ref().expect("the node was started")
    }

    /// Takes a node out, to end it.
    #[track_caller]
    #[must_use]
    pub fn take(&mut self, node: usize) -> Switch {
        self.nodes[node].take().expect("the node was started")
    }

    /// The node that leads by its own word, if exactly one says so.
    pub fn leader(&self) -> Option<usize> {
        let mut leaders =
            (0..NODES).filter(|node| self.nodes[*node].is_some() && self.is_led_by(*node));
        leaders.next().filter(|_| leaders.next().is_none())
    }

    /// Whether a node says of itself that it leads.
    pub fn is_led_by(&self, node: usize) -> bool {
        self.role(node).as_deref() == Some("ready")
    }

    /// The word of what a node says of itself, if it answers.
    fn role(&self, node: usize) -> Option<String> {
        self.told_by(node)?["status"].as_str().map(str::to_owned)
    }

    /// A node's report on itself, if it answers.
    pub fn told_by(&self, node: usize) -> Option<Value> {
        let watcher = HttpClient::anonymous(self.doors[node][2]);
        let asked = HttpRequest { method: "GET", path: "/readyz", headers: &[], body: b"" };
        Some(watcher.try_send(&asked)?.json())
    }

    /// Waits until a node says something of itself.
    pub fn wait_until_told(&self, node: usize, is_so: impl Fn(&Value) -> bool) -> Value {
        wait_for(|| self.told_by(node).filter(&is_so))
    }

    /// Waits until a figure of a node is as it should be.
    #[track_caller]
    pub fn wait_for_figure(&self, node: usize, figure: &str, is_so: impl Fn(u64) -> bool) {
        let value_in = |line: &str| line.strip_prefix(figure)?.trim().parse().ok();
        wait_for(|| {
            let figures = self.node(node).watcher().get("/metrics").text();
            figures.lines().find_map(value_in).filter(|value| is_so(*value))
        });
    }

    /// Waits until the doors of a node are open; they are closed for a moment when it begins again.
    #[track_caller]
    pub fn wait_for_doors(&self, node: usize) -> &Switch {
        let is_open = |role: String| ["ready", "following"].contains(&role.as_str()).then_some(());
        wait_for(|| self.role(node).and_then(is_open));
        self.node(node)
    }

    /// Waits until one node leads.
    #[track_caller]
    pub fn wait_for_leader(&self) -> usize {
        wait_for(|| self.leader())
    }

    /// Waits until a node other than `old` leads, whatever `old` says of itself.
    #[track_caller]
    pub fn wait_for_other_leader(&self, old: usize) -> usize {
        wait_for(|| {
            (0..NODES)
                .find(|node| *node != old && self.nodes[*node].is_some() && self.is_led_by(*node))
        })
    }

    /// Waits until the cluster knows every node: one that it does not know yet is no part of it.
    pub fn wait_until_known(&self) {
        wait_for(|| (self.records().len() == NODES).then_some(()));
    }

    /// The nodes that the cluster knows, if etcd answers.
    pub fn records(&self) -> Vec<Value> {
        let status = self.status().unwrap_or_default();
        status["nodes"].as_array().cloned().unwrap_or_default()
    }

    /// Has another node lead. The same one leads again where no other was ready: then it is asked again.
    pub fn step_down(&self) {
        wait_for(|| (self.command(&["cluster", "step-down"]).code == Some(0)).then_some(()));
    }

    /// Waits until the cluster says that every running node has all that is in the chain.
    #[track_caller]
    pub fn wait_until_level(&self) {
        wait_for(|| {
            let status = self.status()?;
            let nodes = status["nodes"].as_array()?;
            nodes.iter().all(|node| node["records_behind"] == 0).then_some(())
        });
    }

    /// The output of `cluster status`, if etcd answers.
    pub fn status(&self) -> Option<Value> {
        let output = self.command(&["cluster", "status", "--json"]);
        (output.code == Some(0)).then(|| output.expect_json())
    }

    /// Kills a member of etcd.
    pub fn kill_etcd(&mut self, member: usize) {
        self.members[member].end();
    }

    /// Sends a member of etcd a signal, such as `STOP`.
    pub fn signal_etcd(&self, member: usize, name: &str) {
        let process = self.members[member].process.as_ref().expect("the member was started");
        let kill = format!("kill -{name} {}", process.id());
        let sent = Command::new("sh").args(["-c", &kill]).status().expect("sh is there");
        assert!(sent.success(), "the member was no longer running");
    }

    /// Starts a member of etcd that was killed.
    pub fn start_etcd(&mut self, member: usize) {
        self.members[member].start();
    }

    /// Starts every member of etcd again, which then speaks TLS alone, and with nobody who shows no
    /// certificate that `ca` has signed.
    pub fn restart_etcd_with_tls(&mut self, shown: &Certificate, ca: &Path) {
        for member in &mut self.members {
            member.end();
            for urls in ["--listen-client-urls", "--advertise-client-urls"] {
                let place = member.arguments.iter().position(|argument| argument == urls);
                let place = place.expect("a member has addresses") + 1;
                member.arguments[place] = member.arguments[place].replace("http://", "https://");
            }
            let (certificate, key) = (text_of(&shown.certificate), text_of(&shown.key));
            let further = ["--cert-file", certificate, "--key-file", key, "--client-cert-auth"];
            let further = further.into_iter().chain(["--trusted-ca-file", text_of(ca)]);
            member.arguments.extend(further.map(str::to_owned));
            member.start();
        }
    }

    /// Asks etcd by its JSON gateway, without TLS; `etcd_text` makes the keys.
    #[track_caller]
    pub fn ask_etcd(&self, path: &str, body: &Value) -> Value {
        let place = self.journal.trim_start_matches("etcd://").split([',', '/']).next();
        let address = place.and_then(|place| place.parse().ok()).expect("an address");
        HttpClient::anonymous(address).post(&format!("/v3/{path}"), body).expect(200)
    }

    /// A key of etcd, as JSON has it.
    pub fn etcd_text(&self, key: &str) -> String {
        BASE64_STANDARD.encode(key)
    }

    /// Waits until etcd has a leader.
    pub fn wait_for_etcd(&self) {
        wait_for(|| {
            let output = self.command(&["cluster", "status"]);
            (!output.stderr.contains("no member of etcd answers")).then_some(())
        });
    }

    /// Stops every node in good order.
    #[track_caller]
    pub fn stop(&mut self) {
        for node in self.nodes.iter_mut().filter_map(Option::take) {
            node.stop();
        }
    }
}

impl Member {
    fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log);
        let mut etcd = Command::new("etcd");
        etcd.args(&self.arguments);
        let process = command_in(self.namespace.as_deref(), etcd)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a log file can be made"))
            .spawn();
        self.process = Some(process.expect("etcd is installed, as `./test` does"));
    }

    fn end(&mut self) {
        if let Some(mut process) = self.process.take() {
            // A process that has ended needs no kill.
            drop(process.kill());
            drop(process.wait());
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.end();
    }
}

/// The machine of a node, where each has one.
pub fn node_machine(node: usize) -> u8 {
    u8::try_from(node).expect("few nodes")
}

/// The machine of a member of etcd.
pub fn etcd_machine(member: usize) -> u8 {
    MACHINES + node_machine(member)
}

fn node_doors(lan: Option<&Lan>, machine: u8) -> [SocketAddr; 3] {
    let on = |lan: &Lan| [8080, 8583, 9090].map(|port| lan.door(machine, port));
    lan.map_or_else(free_addresses, on)
}

fn start_members(installation: &Installation, lan: Option<&Lan>) -> (Vec<Member>, String) {
    let on =
        |lan: &Lan, member: usize| [2379, 2380, 0].map(|port| lan.door(etcd_machine(member), port));
    let place = |member| lan.map_or_else(free_addresses, |lan| on(lan, member));
    let addresses: Vec<[SocketAddr; 3]> = (0..NODES).map(place).collect();
    let peer = |member: usize| format!("{}=http://{}", etcd_name(member), addresses[member][1]);
    let peers = (0..NODES).map(peer).collect::<Vec<_>>().join(",");
    let start = |member: usize| {
        let name = etcd_name(member);
        let [client, peer, _] = addresses[member].map(|address| format!("http://{address}"));
        let home = installation.home();
        let data = text_of(&home.join(&name)).to_owned();
        let arguments = [
            ["--name", &name],
            ["--data-dir", &data],
            ["--listen-client-urls", &client],
            ["--advertise-client-urls", &client],
            ["--listen-peer-urls", &peer],
            ["--initial-advertise-peer-urls", &peer],
            ["--initial-cluster", &peers],
            ["--heartbeat-interval", "50"],
            ["--election-timeout", "500"],
        ];
        let arguments = arguments.iter().flatten().map(|text| (*text).to_owned()).collect();
        let log = home.join(format!("{name}.log"));
        let namespace = lan.map(|lan| lan.namespace(etcd_machine(member)));
        let mut member = Member { namespace, arguments, log, process: None };
        member.start();
        member
    };
    let members: Vec<_> = (0..NODES).map(start).collect();
    let clients: Vec<_> = addresses.iter().map(|address| address[0].to_string()).collect();
    (members, format!("etcd://{}/test", clients.join(",")))
}

/// Addresses that nobody listens at, of ports that the system gives to nobody who names none: they are
/// still free when a node begins again.
pub fn free_addresses() -> [SocketAddr; 3] {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    [(); 3].map(|()| {
        loop {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            let port = 20_000 + (std::process::id().wrapping_mul(61) + step) % 12_000;
            let port = u16::try_from(port).expect("a port below 32,000");
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            if TcpListener::bind(address).is_ok() {
                return address;
            }
        }
    })
}

#[track_caller]
fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        thread::sleep(LOOK_EVERY);
    }
}
