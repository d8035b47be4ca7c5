//! Redis as a peer: a server of its own, its settings, and its client.
//!
//! The work itself is in `redis.lua`.

use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, cmd};
use cardswitch_engine::decision::Rule;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_tools::{Outcome, fail};
use chrono::Utc;
use chrono_tz::America::Los_Angeles;
use rustix::process::Signal;

use super::closed_loop::Lane;
use super::peer::{Books, Peer};
use super::program::{Card, MERCHANT, MERCHANT_ID, Program, Purchase, TRACE, Verdict};
use super::rules::fill_in;
use crate::server::{Server, find_program};

pub(super) const SCRIPT: &str = include_str!("redis.lua");
const PACKAGE: &str = "redis-server";
const ACCOUNT: &str = "account";
/// Commands sent at a time while a program is founded.
const FOUNDING_CARDS: usize = 1_000;

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

/// A running server.
pub(crate) struct Redis(Server);

impl Redis {
    /// Starts a server.
    /// Errors: tells what is not installed.
    pub(crate) fn start() -> Outcome<Self> {
        let redis = find_program("redis-server", &["/usr/bin"], PACKAGE)?;
        let mut server = Server::new("measure-redis-", "root", Signal::KILL)?;
        let mut command = server.command(&redis)?;
        command.args(["--port", &server.port.to_string()]);
        for (name, value) in SETTINGS {
            command.arg(format!("--{name}")).arg(value);
        }
        server.start(command)?;
        Ok(Self(server))
    }

    async fn open(&self) -> Outcome<MultiplexedConnection> {
        let client = Client::open(format!("redis://127.0.0.1:{}", self.0.port))?;
        // An answer may take as long as the disk does.
        let patient = AsyncConnectionConfig::new().set_response_timeout(None);
        Ok(client.get_multiplexed_async_connection_with_config(&patient).await?)
    }

    /// Sends one command and reads its answer.
    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Outcome<T> {
        Ok(command.query_async(&mut self.open().await?).await?)
    }
}

impl Peer for Redis {
    type Lane = Connection;

    async fn found(&mut self, program: &Program) -> Outcome<()> {
        self.ask::<()>(&cmd("FLUSHALL")).await?;
        let numbers = [program.opening_balance, 0, 0, 0, 0];
        let account = numbers.map(i64::to_be_bytes).concat();
        self.ask::<()>(cmd("SET").arg(ACCOUNT).arg(account)).await?;
        for some in program.cards.chunks(FOUNDING_CARDS) {
            let mut command = cmd("MSET");
            for [key, record] in some.iter().flat_map(|card| [card_record(card), used_record(card)])
            {
                command.arg(key).arg(record);
            }
            self.ask::<()>(&command).await?;
        }
        Ok(())
    }

    async fn connect(&mut self, count: usize) -> Outcome<Vec<Connection>> {
        let mut lanes = Vec::new();
        let code = |rule: Rule| format!("[{}] = {}, ", rule as u8, rule.response_code().number());
        let script = fill_in(SCRIPT, code);
        for _ in 0..count {
            let mut connection = self.open().await?;
            let load = cmd("SCRIPT").arg("LOAD").arg(&script).to_owned();
            let script = load.query_async(&mut connection).await?;
            lanes.push(Connection { connection, script });
        }
        Ok(lanes)
    }

    /// While it loads its file it answers with an error.
    async fn crash(&mut self) -> Outcome<()> {
        const TRIES: usize = 3_000;
        self.0.crash()?;
        for _ in 0..TRIES {
            if self.ask::<Vec<u8>>(cmd("GET").arg(ACCOUNT)).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        fail("Redis is still loading its file")
    }

    async fn books(&mut self) -> Outcome<Books> {
        // Sums are beyond an integer's 53 bits in a double, so they come as text.
        let sums: (i64, i64, i64, u64) = self.ask(cmd("EVAL").arg(BOOKS).arg(0)).await?;
        Ok(Books {
            account_held_minor: sums.0,
            cards_spent_minor: sums.1,
            transactions_held_minor: sums.2,
            transactions_held: sums.3,
        })
    }

    async fn durability(&mut self) -> Outcome<String> {
        let info: String = self.ask(cmd("INFO").arg("server")).await?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        let mut shown = format!("Redis {}:", version.unwrap_or("?"));
        for name in ["appendonly", "appendfsync"] {
            let (_, value): (String, String) = self.ask(cmd("CONFIG").arg("GET").arg(name)).await?;
            shown += &format!(" {name}={value}");
        }
        Ok(shown)
    }
}

/// Sums of the account, of the cards and of the transactions, and how many of these hold something.
const BOOKS: &str = "
    local account, spent, held, count = redis.call('GET', 'account'), 0, 0, 0
    for _, key in ipairs(redis.call('KEYS', 'used:*')) do
        spent = spent + select(6, struct.unpack('>BBBBi8i8', redis.call('GET', key)))
    end
    local last = select(5, struct.unpack('>i8i8i8i8i8', account))
    for n = 1, last do
        local amount = select(6, struct.unpack('>I4I2Bi8i8i8', redis.call('GET', 'txn:' .. n)))
        held = held + amount
        if amount > 0 then count = count + 1 end
    end
    local text = function(number) return string.format('%.0f', number) end
    return { text(select(4, struct.unpack('>i8i8i8i8', account))), text(spent), text(held), text(count) }
";

/// A connection, and the digest of the script.
pub(crate) struct Connection {
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
    record.extend(MERCHANT_ID.to_be_bytes());
    record.extend(purchase.mcc.to_be_bytes());
    let (stan, rrn) = (purchase.stan(), purchase.rrn());
    for text in [MERCHANT.as_slice(), &[&stan, &rrn], &TRACE].concat() {
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
    let AllowanceTerms { amount, scope, interval, single_use, .. } = card.terms;
    let mut terms = Vec::with_capacity(70 + 2 * scope.codes().len());
    for number in [1, card.expires_on.0, i32::from(card.expiry())] {
        terms.extend(number.to_be_bytes());
    }
    terms.extend(card.pin.unwrap_or(0).to_be_bytes());
    terms.extend(card.zip.map_or([0; 8], padded));
    terms.extend(amount.0.to_be_bytes());
    for bound in card.bounds() {
        terms.extend(bound.unwrap_or(-1).to_be_bytes());
    }
    terms.extend([interval as u8, u8::from(single_use)]);
    for code in scope.codes() {
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
