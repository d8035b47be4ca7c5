//! Redis as a peer: a server of its own, its settings, and its client.
//!
//! The work itself is in `redis.lua`.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::rc::Rc;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, cmd};
use cardswitch_tools::{Outcome, fail};
use chrono::Utc;
use chrono_tz::America::Los_Angeles;
use tokio::runtime::Runtime;

use super::closed_loop::{self, Discipline, Lane, PeerFigures};
use super::peer::{Books, Load, Peer, new_runtime};
use super::program::{Card, MERCHANT, Program, Purchase, Purchases, Verdict};
use crate::server::{Home, end, find_program, free_port};

const SCRIPT: &str = include_str!("redis.lua");
const PACKAGE: &str = "redis-server";
const CONNECTIONS: [usize; 4] = [1, 2, 4, 8];
const ACCOUNT: &str = "account";
/// Commands sent at a time while a program is founded.
const FOUNDING_CARDS: usize = 1_000;
/// The place of the spent sum in a card's usage.
const SPENT: std::ops::Range<usize> = 12..20;

const SETTINGS: [(&str, &str); 11] = [
    ("bind", "127.0.0.1"),
    ("save", ""),
    // Durability: answers leave after the fdatasync of what they say.
    ("appendonly", "yes"),
    ("appendfsync", "always"),
    // The file is not rewritten during a run: that would take the other core.
    ("auto-aof-rewrite-percentage", "0"),
    ("no-appendfsync-on-rewrite", "no"),
    ("maxmemory", "0"),
    ("io-threads", "1"),
    ("tcp-keepalive", "0"),
    ("timeout", "0"),
    ("daemonize", "no"),
];

/// A running server and its client.
pub(crate) struct Redis {
    runtime: Runtime,
    server: Server,
    /// The keys of the usage of every card.
    cards: Vec<Vec<u8>>,
    purchases: Rc<RefCell<Purchases>>,
}

impl Redis {
    /// Starts a server.
    /// Errors: tells what is not installed.
    pub(crate) fn start(purchases: Purchases) -> Outcome<Self> {
        let purchases = Rc::new(RefCell::new(purchases));
        let (runtime, server) = (new_runtime()?, Server::start()?);
        Ok(Self { runtime, server, cards: Vec::new(), purchases })
    }

    /// Sends one command and reads its answer.
    fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Outcome<T> {
        self.runtime.block_on(async {
            let mut connection = self.server.connect().await?;
            Ok(command.query_async(&mut connection).await?)
        })
    }

    async fn write_cards(&self, cards: &[Card]) -> Outcome<()> {
        let mut connection = self.server.connect().await?;
        for some in cards.chunks(FOUNDING_CARDS) {
            let mut command = cmd("MSET");
            for [key, record] in some.iter().flat_map(|card| [card_record(card), used_record(card)])
            {
                command.arg(key).arg(record);
            }
            let () = command.query_async(&mut connection).await?;
        }
        Ok(())
    }

    /// Sums what the cards have used.
    async fn read_cards_spent(&self) -> Outcome<i64> {
        let mut connection = self.server.connect().await?;
        let mut sum = 0;
        for some in self.cards.chunks(FOUNDING_CARDS) {
            let used: Vec<Vec<u8>> = cmd("MGET").arg(some).query_async(&mut connection).await?;
            for used in used {
                let spent = used.get(SPENT).and_then(|bytes| bytes.try_into().ok());
                sum += i64::from_be_bytes(spent.ok_or("a card's record is too short")?);
            }
        }
        Ok(sum)
    }
}

impl Peer for Redis {
    fn found(&mut self, program: &Program) -> Outcome<()> {
        self.ask::<()>(&cmd("FLUSHALL"))?;
        let mut account = Vec::new();
        for number in [program.opening_balance, 0, 0, 0, 0] {
            account.extend(number.to_be_bytes());
        }
        self.ask::<()>(cmd("SET").arg(ACCOUNT).arg(account))?;
        self.cards = program.cards.iter().map(|card| key_of("used:", card)).collect();
        self.runtime.block_on(self.write_cards(&program.cards))
    }

    fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>> {
        self.runtime.block_on(async { self.server.lane().await?.authorize(batch).await })
    }

    fn connections(&self) -> &'static [usize] {
        &CONNECTIONS
    }

    fn measure(&mut self, load: Load) -> Outcome<PeerFigures> {
        self.runtime.block_on(async {
            let mut lanes = Vec::new();
            for _ in 0..load.connections {
                lanes.push(self.server.lane().await?);
            }
            let discipline = Discipline::CardsToLanes;
            closed_loop::keep_in_flight(lanes, discipline, &self.purchases, load).await
        })
    }

    fn crash(&mut self) -> Outcome<()> {
        self.server.crash()?;
        self.runtime.block_on(self.server.wait_until_ready())
    }

    fn books(&mut self) -> Outcome<Books> {
        // Sums are beyond an integer's 53 bits in a double, so they come as text.
        let sums: (i64, i64, u64) = self.ask(cmd("EVAL").arg(BOOKS).arg(0))?;
        Ok(Books {
            account_held_minor: sums.0,
            cards_spent_minor: self.runtime.block_on(self.read_cards_spent())?,
            transactions_held_minor: sums.1,
            transactions_held: sums.2,
        })
    }

    fn durability(&mut self) -> Outcome<String> {
        let info: String = self.ask(cmd("INFO").arg("server"))?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        let mut shown = format!("Redis {}:", version.unwrap_or("?"));
        for name in ["appendonly", "appendfsync"] {
            let (_, value): (String, String) = self.ask(cmd("CONFIG").arg("GET").arg(name))?;
            shown += &format!(" {name}={value}");
        }
        Ok(shown)
    }
}

/// Sums of the account and of the transactions.
const BOOKS: &str = "
    local account, held, count = redis.call('GET', 'account'), 0, 0
    local last = select(5, struct.unpack('>i8i8i8i8i8', account))
    for n = 1, last do
        local amount = select(6, struct.unpack('>I4I2Bi8i8i8', redis.call('GET', 'txn:' .. n)))
        held = held + amount
        if amount > 0 then count = count + 1 end
    end
    local text = function(number) return string.format('%.0f', number) end
    return { text(select(4, struct.unpack('>i8i8i8i8', account))), text(held), text(count) }
";

/// The server's process, and where it lives.
struct Server {
    child: Child,
    home: Home,
    redis: PathBuf,
    port: u16,
}

impl Server {
    fn start() -> Outcome<Self> {
        let redis = find_program("redis-server", &["/usr/bin"], PACKAGE)?;
        let home = Home::new("measure-redis-", "root")?;
        let port = free_port()?;
        let child = launch(&home, &redis, port)?;
        Ok(Self { child, home, redis, port })
    }

    fn crash(&mut self) -> Outcome<()> {
        end(&mut self.child);
        self.child = launch(&self.home, &self.redis, self.port)?;
        Ok(())
    }

    /// While it loads its file it answers with an error.
    async fn wait_until_ready(&self) -> Outcome<()> {
        const TRIES: usize = 3_000;
        for _ in 0..TRIES {
            let mut connection = self.connect().await?;
            let answer: Result<Vec<u8>, _> =
                cmd("GET").arg(ACCOUNT).query_async(&mut connection).await;
            if answer.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        fail("Redis is still loading its file")
    }

    async fn connect(&self) -> Outcome<MultiplexedConnection> {
        let client = Client::open(format!("redis://127.0.0.1:{}", self.port))?;
        // An answer may take as long as the disk does.
        let patient = AsyncConnectionConfig::new().set_response_timeout(None);
        Ok(client.get_multiplexed_async_connection_with_config(&patient).await?)
    }

    async fn lane(&self) -> Outcome<Connection> {
        let mut connection = self.connect().await?;
        let load = cmd("SCRIPT").arg("LOAD").arg(SCRIPT).to_owned();
        let script = load.query_async(&mut connection).await?;
        Ok(Connection { connection, script })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn launch(home: &Home, redis: &Path, port: u16) -> Outcome<Child> {
    let mut command = home.command(redis)?;
    command.args(["--port", &port.to_string()]);
    for (name, value) in SETTINGS {
        command.arg(format!("--{name}")).arg(value);
    }
    home.start(&mut command, port)
}

/// A connection, and the digest of the script.
struct Connection {
    connection: MultiplexedConnection,
    script: String,
}

impl Lane for Connection {
    async fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>> {
        let epoch = chrono::NaiveDate::default();
        let today = Utc::now().with_timezone(&Los_Angeles).date_naive();
        let mut command = cmd("EVALSHA");
        command.arg(&self.script).arg(1).arg(ACCOUNT).arg((today - epoch).num_days());
        for field in batch.iter().flat_map(purchase_fields) {
            command.arg(field);
        }
        let answers: Vec<(i64, u16, u32, i64)> = command.query_async(&mut self.connection).await?;
        let verdict = |(transaction, response_code, failed_rules, allowance_balance)| Verdict {
            transaction: (transaction > 0).then_some(transaction),
            response_code,
            failed_rules,
            allowance_balance,
        };
        Ok(answers.into_iter().map(verdict).collect())
    }
}

/// The arguments of one purchase, in the script's order.
fn purchase_fields(purchase: &Purchase) -> [Vec<u8>; 10] {
    let flag = |is: bool| vec![if is { b'1' } else { b'0' }];
    [
        purchase.network_key.to_be_bytes().to_vec(),
        purchase.pan_hash.to_be_bytes().to_vec(),
        purchase.amount_minor.to_string().into_bytes(),
        purchase.mcc.to_string().into_bytes(),
        flag(purchase.is_cash),
        purchase.expiry.map_or_else(|| b"-1".to_vec(), |expiry| expiry.to_string().into_bytes()),
        purchase.cvv_matches.map_or_else(Vec::new, flag),
        purchase.pin.map_or_else(Vec::new, |pin| pin.to_be_bytes().to_vec()),
        purchase.zip.map_or_else(Vec::new, |zip| padded(zip).to_vec()),
        merchant_record(purchase),
    ]
}

/// Merchant and trace: each text behind its length.
fn merchant_record(purchase: &Purchase) -> Vec<u8> {
    let mut record = Vec::with_capacity(160);
    record.extend(MERCHANT.mid.to_be_bytes());
    record.extend(purchase.mcc.to_be_bytes());
    let (stan, rrn) = (purchase.stan(), purchase.rrn());
    let texts = [
        MERCHANT.card_acceptor_id,
        MERCHANT.name,
        MERCHANT.city,
        MERCHANT.state,
        MERCHANT.country,
        MERCHANT.zip,
        &stan,
        &rrn,
        MERCHANT.acquirer,
        MERCHANT.terminal,
        MERCHANT.transmission_time,
    ];
    for text in texts {
        record.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        record.extend(text.as_bytes());
    }
    record
}

fn padded(text: &str) -> [u8; 8] {
    let mut bytes = [0; 8];
    let count = text.len().min(bytes.len());
    bytes[..count].copy_from_slice(&text.as_bytes()[..count]);
    bytes
}

/// The key and the terms of a card, as the script unpacks them.
fn card_record(card: &Card) -> [Vec<u8>; 2] {
    let mut terms = Vec::with_capacity(70 + 2 * card.scope.len());
    for number in [1, card.expires_on, i32::from(card.expiry)] {
        terms.extend(number.to_be_bytes());
    }
    terms.extend(card.pin.unwrap_or(0).to_be_bytes());
    terms.extend(card.zip.map_or([0; 8], padded));
    let amounts = [card.daily_limit, card.transaction_limit, card.starts_at, card.ends_at];
    terms.extend(card.budget.to_be_bytes());
    for amount in amounts {
        terms.extend(amount.unwrap_or(-1).to_be_bytes());
    }
    terms.extend([card.interval as u8, u8::from(card.single_use)]);
    for code in &card.scope {
        terms.extend(code.to_be_bytes());
    }
    [key_of("card:", card), terms]
}

/// The key and the usage of a new card.
fn used_record(card: &Card) -> [Vec<u8>; 2] {
    let (state, suspension) = card.state_numbers();
    let mut used = vec![state, suspension, 0, 0];
    used.extend([0; 3 * 8 + 3 * 4]);
    [key_of("used:", card), used]
}

fn key_of(prefix: &str, card: &Card) -> Vec<u8> {
    [prefix.as_bytes(), &card.pan_hash.to_be_bytes()].concat()
}
