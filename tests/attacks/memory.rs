//! The memory of a running switch: a core dump is never written, and nobody but root looks in. Root finds the
//! keys that are in use, since the switch works with them. Root finds no secrets that are done with: numbers,
//! CVVs and PINs of answered purchases, the master key and the data key.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cardswitch_harness::{
    Acquirer, Installation, Purchase, Switch, TestCard, cardswitch_binary, run_cardswitch,
};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use hkdf::Hkdf;
use serde_json::json;
use sha2::Sha256;

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// The user of a process of the test, without rights, where the test itself is root's.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    fs::metadata("/proc/self").expect("this process has an owner").uid() == 0
}

#[test]
fn a_switch_leaves_no_core_dump() {
    let installation = Installation::init(60, 8_930);
    let switch = installation.serve_after("ulimit -c unlimited 2>/dev/null || true");
    let limits = fs::read_to_string(format!("/proc/{}/limits", switch.pid())).expect("limits");
    let core = limits.lines().find(|line| line.starts_with("Max core file size"));
    let core: Vec<&str> = core.expect("a limit of core files").split_whitespace().collect();
    assert_eq!(core[4..6], ["0", "0"], "{limits}");
    switch.stop();
}

/// The files in /proc that belong to root are closed to the user of the switch. If the test itself is root's, the
/// switch runs as another user.
#[test]
fn only_root_looks_into_a_switch() {
    let installation = Installation::init(60, 8_932);
    let (home, data) = (installation.home(), installation.data());
    let (serve, any_port) = (["serve", "--data", text(&data)], "127.0.0.1:0");
    let doors = ["--http", any_port, "--iso8583", any_port, "--metrics", any_port];
    let mut command = Command::new(home.join("cardswitch"));
    fs::copy(cardswitch_binary(), home.join("cardswitch")).expect("a copy that anybody may start");
    command.args(serve).args(doors).stdin(Stdio::null()).stdout(Stdio::piped());
    if is_root() {
        let owner = format!("{NOBODY}:{NOBODY}");
        let owned = Command::new("chown").args(["-R", &owner, text(home)]).status();
        assert!(owned.expect("chown is there").success());
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut child = command.spawn().expect("cardswitch starts");
    let mut ready = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut ready).expect("text");
    let owner =
        |name: &str| fs::metadata(format!("/proc/{}/{name}", child.id())).map(|at| at.uid());
    let owners = ["environ", "mem", "maps"].map(|name| owner(name).ok());
    child.kill().expect("it runs");
    child.wait().expect("it can be waited for");
    assert!(ready.starts_with("ready "), "{ready}");
    assert_eq!(owners, [Some(0); 3], "its memory is its user's");
}

/// Takes a core of a process as only root can.
fn core_of(switch: &Switch, home: &Path) -> Vec<u8> {
    let to = home.join("core");
    let gcore = ["gcore", "-o", text(&to), &switch.pid().to_string()].map(ToOwned::to_owned);
    let command = if is_root() { &gcore[..] } else { &[&["sudo".to_owned()], &gcore[..]].concat() };
    let taken = Command::new(&command[0]).args(&command[1..]).stdin(Stdio::null()).output();
    let taken = taken.expect("gdb is there, `./test` installs it");
    let path = PathBuf::from(format!("{}.{}", text(&to), switch.pid()));
    let core = fs::read(&path);
    let core = core.unwrap_or_else(|error| {
        let told = String::from_utf8_lossy(&taken.stderr);
        unreachable!(
            "gcore took no core ({error}): it needs root with the capability SYS_PTRACE, in a container \
             `--cap-add SYS_PTRACE`, and where this is not root sudo without a password; it said: {told}"
        )
    });
    fs::remove_file(path).expect("it is there");
    core
}

/// Bytes that must not be in the core, and a name for them.
struct Secret {
    name: String,
    bytes: Vec<u8>,
}

impl Secret {
    fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), bytes: bytes.into() }
    }
}

/// The names of those that are in the core, and what stands around each.
fn found_in(core: &[u8], secrets: &[Secret]) -> Vec<String> {
    let start = |bytes: &[u8]| usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
    let mut is_start = vec![false; 1 << 16];
    for secret in secrets {
        is_start[start(&secret.bytes)] = true;
    }
    let mut found = Vec::new();
    for at in 0..core.len() - 1 {
        if !is_start[start(&core[at..at + 2])] {
            continue;
        }
        for secret in secrets.iter().filter(|secret| core[at..].starts_with(&secret.bytes)) {
            let around = &core[at.saturating_sub(48)..(at + 64).min(core.len())];
            found.push(format!("{} in `{}`", secret.name, around.escape_ascii()));
        }
    }
    found
}

/// The secrets of a card in a purchase with everything its holder knows, as texts and as numbers.
fn secrets_of(card: &TestCard, pin: &str) -> Vec<Secret> {
    let name = |what: &str| format!("{what} of {}", card.card_id);
    let number: u64 = card.pan.parse().expect("digits");
    vec![
        Secret::new(name("the number"), card.pan.as_bytes()),
        Secret::new(name("the number"), number.to_le_bytes()),
        Secret::new(name("the PIN"), pin.as_bytes()),
        Secret::new(name("the CVV of a message"), format!("9203{}", card.cvv)),
        Secret::new(name("the CVV of a body"), format!("\"cvv\":\"{}\"", card.cvv)),
    ]
}

/// Buys through both doors with everything that its holder knows. Returns the connections, still open:
/// that of the card network, and one that HTTP keeps.
fn buy(switch: &Switch, card: &TestCard, pin: &str) -> (Acquirer, TcpStream) {
    let mut purchase = Purchase::of(card, 100);
    purchase.cvv = Some(card.cvv.clone());
    purchase.zip = Some(card.zip.clone());
    purchase.pin = Some(pin.to_owned());
    let mut acquirer = switch.acquirer();
    assert_eq!(acquirer.ask(&purchase.request()).response(), "00");
    acquirer.assert_alive();
    let body = json!({
        "card_number": card.pan, "amount": 1, "pin": pin, "cvv": card.cvv, "zip": card.zip,
        "merchant": {"mid": "1", "mcc": 5411, "name": "Cafe"},
    });
    let answer = switch.network_api().post("/network/v1/authorizations", &body).expect(200);
    assert_eq!(answer["response_code"], 0, "{answer}");
    let path = format!("/v1/cards/{}/number", card.card_id);
    assert_eq!(switch.api().get(&path).expect(200)["number"], card.pan.as_str());
    (acquirer, buy_on_a_kept_connection(switch, &body.to_string()))
}

fn buy_on_a_kept_connection(switch: &Switch, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(switch.http).expect("HTTP is served");
    let head = format!(
        "POST /network/v1/authorizations HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        switch.http,
        switch.credentials().network_key,
        body.len(),
    );
    stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).expect("it is open");
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    while !answer.ends_with(b"}") {
        let count = stream.read(&mut part).expect("it is open");
        assert!(count > 0, "{}", answer.escape_ascii());
        answer.extend_from_slice(&part[..count]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", answer.escape_ascii());
    stream
}

/// The data key, opened as `engine/DESIGN.md` and `data.key` describe it.
fn data_key_of(data: &Path) -> Vec<u8> {
    let bytes_of = |hex: &str| -> Vec<u8> {
        let pairs = (0..hex.len()).step_by(2);
        pairs.map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits")).collect()
    };
    let master = fs::read_to_string(data.join("master.key")).expect("a master key");
    let file = fs::read_to_string(data.join("data.key")).expect("a data key");
    let lines: Vec<&str> = file.lines().collect();
    let mut wrap = [0; 32];
    let source = Hkdf::<Sha256>::new(Some(b"cardswitch master key 1"), &bytes_of(master.trim()));
    source.expand(b"data key wrap", &mut wrap).expect("32 bytes");
    let context = format!("{}\n{}\n", lines[2], lines[3]);
    let sealed = bytes_of(lines[4].strip_prefix("key ").expect("a wrapped key"));
    let nonce: [u8; 12] = sealed[1..13].try_into().expect("12 bytes");
    let payload = Payload { msg: &sealed[13..], aad: context.as_bytes() };
    let cipher = ChaCha20Poly1305::new(&Key::from(wrap));
    cipher.decrypt(&Nonce::from(nonce), payload).expect("the master key opens it")
}

#[test]
fn nothing_that_is_finished_is_in_memory() {
    let installation = Installation::init(120, 8_931);
    let data = installation.data();
    let cards: Vec<TestCard> =
        installation.cards.with_profile("ordinary").into_iter().cloned().collect();
    let switch = installation.serve();
    let (mut secrets, mut connections) = (Vec::new(), Vec::new());
    for (number, card) in (0_u64..).zip(&cards) {
        // Nine digits are nowhere by chance.
        let pin = format!("{}", 918_273_000 + number * 7);
        let path = format!("/v1/cards/{}/pin", card.card_id);
        switch.api().put(&path, &json!({ "pin": pin })).expect(200);
        connections.push(buy(&switch, card, &pin));
        secrets.extend(secrets_of(card, &pin));
    }
    let rotated = run_cardswitch(&["rotate-master-key", "--data", text(&data), "--json"]);
    rotated.expect_json();
    for (name, file) in [("the master key", "master.key"), ("the old master key", "master.key.old")]
    {
        let key = fs::read_to_string(data.join(file)).expect("a key");
        let bytes = (0..64).step_by(2).map(|at| u8::from_str_radix(&key[at..at + 2], 16).unwrap());
        secrets.push(Secret::new(format!("{name} as text"), key.trim()));
        secrets.push(Secret::new(name, bytes.collect::<Vec<_>>()));
    }
    secrets.push(Secret::new("the data key", data_key_of(&data)));
    // The path of the directory is there: finding it proves that the search works.
    let marker = [Secret::new("the path", text(&data))];
    let core = core_of(&switch, installation.home());
    assert!(!found_in(&core, &marker).is_empty(), "{} bytes of core hold nothing", core.len());
    let found = found_in(&core, &secrets);
    println!("{} purchases, {} bytes of core, {} finds", 2 * cards.len(), core.len(), found.len());
    assert!(
        found.is_empty(),
        "{} finds, such as\n{}",
        found.len(),
        found[..found.len().min(12)].join("\n")
    );
    switch.stop();
}
