//! PostgreSQL as a peer: a cluster of its own, its settings, and its client.
//!
//! The work itself is in `postgresql.sql`. Settings are those of a machine that does nothing else,
//! and where a choice is between fast and usual, it is fast, as long as every answer is durable.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::rc::Rc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, NoTls, Row, Statement};
use uuid::Uuid;

use crate::closed_loop::{self, Discipline, Lane, PeerFigures};
use crate::outcome::{Outcome, fail};
use crate::peer::{Books, Load, Peer, new_runtime};
use crate::program::{Card, MERCHANT, Program, Purchase, Purchases, Verdict};
use crate::server::{Home, User, end, find_program, free_port};

const SCHEMA: &str = include_str!("postgresql.sql");
const PACKAGE: &str = "postgresql-15";
const DIRECTORIES: [&str; 1] = ["/usr/lib/postgresql/15/bin"];
/// The superuser of the cluster; it listens on loopback only, for as long as the run takes.
const USER: &str = "peers";
const ACCOUNT: i32 = 1;
/// Connections where batches are allowed, and where each purchase is a transaction of its own.
const CONNECTIONS_BATCHED: [usize; 4] = [1, 2, 4, 8];
const CONNECTIONS_ONE_EACH: [usize; 4] = [1, 16, 32, 64];
/// Cards written by one statement while a program is founded.
const FOUNDING_CARDS: usize = 10_000;

/// A transaction that waits for the disk, whatever the session says, and writes next to nothing.
const FLUSH: &str = "SELECT set_config('synchronous_commit', 'on', true), \
     pg_logical_emit_message(true, '', '')";

/// The settings that differ from a fresh cluster.
const SETTINGS: [(&str, &str); 25] = [
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("max_connections", "100"),
    ("shared_buffers", "2GB"),
    ("huge_pages", "try"),
    ("work_mem", "64MB"),
    ("maintenance_work_mem", "512MB"),
    ("effective_cache_size", "8GB"),
    ("random_page_cost", "1.1"),
    ("jit", "off"),
    // The function's statements are planned once.
    ("plan_cache_mode", "force_generic_plan"),
    // Durability: each commit waits for its record on disk, and pages survive a torn write.
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    // Nobody replicates: the log carries what recovery needs and no more.
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("wal_compression", "lz4"),
    ("wal_buffers", "64MB"),
    // A checkpoint falls outside the run.
    ("checkpoint_timeout", "1h"),
    ("max_wal_size", "32GB"),
    ("min_wal_size", "4GB"),
    ("autovacuum_naptime", "10s"),
    ("autovacuum_vacuum_cost_delay", "1ms"),
    ("log_min_messages", "warning"),
    ("log_checkpoints", "off"),
];

const AUTHORIZE: &str = "SELECT * FROM authorize($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, \
     $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)";

/// How the client is set, apart from the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    pub(crate) discipline: Discipline,
    /// Units: microseconds. A commit waits so long for others where enough are open.
    pub(crate) commit_delay_us: u32,
}

/// A running cluster and its client.
pub(crate) struct Postgresql {
    runtime: Runtime,
    // Before the directory, so that the server has ended when it goes.
    server: Server,
    tuning: Tuning,
    purchases: Rc<RefCell<Purchases>>,
}

impl Postgresql {
    /// Makes a cluster and starts it.
    /// Errors: tells what is not installed.
    pub(crate) fn start(tuning: Tuning, purchases: Purchases) -> Outcome<Self> {
        let server = Server::start(tuning)?;
        let purchases = Rc::new(RefCell::new(purchases));
        Ok(Self { runtime: new_runtime()?, server, tuning, purchases })
    }

    fn execute(&self, statements: &str) -> Outcome<()> {
        self.runtime.block_on(async {
            let client = self.server.connect().await?;
            Ok(client.batch_execute(statements).await?)
        })
    }

    fn read_row(&self, query: &str) -> Outcome<Row> {
        self.runtime.block_on(async {
            let client = self.server.connect().await?;
            Ok(client.query_one(query, &[]).await?)
        })
    }

    async fn write_cards(&self, cards: &[Card]) -> Outcome<()> {
        let client = self.server.connect().await?;
        let statement = client.prepare(WRITE_CARDS).await?;
        for some in cards.chunks(FOUNDING_CARDS) {
            write_cards(&client, &statement, some).await?;
        }
        Ok(())
    }
}

impl Peer for Postgresql {
    fn found(&mut self, program: &Program) -> Outcome<()> {
        self.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public;")?;
        self.execute(SCHEMA)?;
        self.execute(&format!(
            "INSERT INTO account (id, zone, ledger_balance, credit_limit) \
             VALUES ({ACCOUNT}, 'America/Los_Angeles', {}, 0)",
            program.opening_balance
        ))?;
        self.runtime.block_on(self.write_cards(&program.cards))?;
        // Each is a transaction of its own: statements sent together would be one.
        self.execute("VACUUM ANALYZE account")?;
        self.execute("VACUUM ANALYZE card")?;
        self.execute("CHECKPOINT")
    }

    fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>> {
        self.runtime
            .block_on(async { self.server.lane(Release::AfterFlush).await?.authorize(batch).await })
    }

    fn connections(&self) -> &'static [usize] {
        match self.tuning.discipline {
            Discipline::CardsToLanes => &CONNECTIONS_BATCHED,
            Discipline::OneEach => &CONNECTIONS_ONE_EACH,
        }
    }

    fn measure(&mut self, load: Load) -> Outcome<PeerFigures> {
        let discipline = self.tuning.discipline;
        // A connection alone has nobody to let the account's lock go for.
        let release = if discipline == Discipline::OneEach && load.connections > 1 {
            Release::BeforeFlush
        } else {
            Release::AfterFlush
        };
        self.runtime.block_on(async {
            let mut lanes = Vec::new();
            for _ in 0..load.connections {
                lanes.push(self.server.lane(release).await?);
            }
            closed_loop::keep_in_flight(lanes, discipline, &self.purchases, load).await
        })
    }

    fn crash(&mut self) -> Outcome<()> {
        self.server.crash()
    }

    fn books(&mut self) -> Outcome<Books> {
        let row = self.read_row(
            "SELECT (SELECT sum(held)::bigint FROM account), \
                    (SELECT coalesce(sum(spent), 0)::bigint FROM card), \
                    coalesce(sum(held), 0)::bigint, count(*) FILTER (WHERE held > 0) \
               FROM card_transaction",
        )?;
        let count: i64 = row.try_get(3)?;
        Ok(Books {
            account_held_minor: row.try_get(0)?,
            cards_spent_minor: row.try_get(1)?,
            transactions_held_minor: row.try_get(2)?,
            transactions_held: count.try_into()?,
        })
    }

    fn durability(&mut self) -> Outcome<String> {
        let names = ["fsync", "synchronous_commit", "full_page_writes", "wal_sync_method"];
        let shown = names.map(|name| format!("'{name}=' || current_setting('{name}')"));
        let row = self.read_row(&format!("SELECT version(), {}", shown.join(" || ' ' || ")))?;
        let (version, settings): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let version = version.split(" on ").next().unwrap_or_default();
        Ok(format!("{version}: {settings}"))
    }
}

/// The server's process, and where it lives.
struct Server {
    child: Child,
    home: Home,
    postgres: PathBuf,
    pg_ctl: PathBuf,
    port: u16,
    commit_delay_us: u32,
}

impl Server {
    fn start(tuning: Tuning) -> Outcome<Self> {
        let find = |name| find_program(name, &DIRECTORIES, PACKAGE);
        let (initdb, postgres, pg_ctl) = (find("initdb")?, find("postgres")?, find("pg_ctl")?);
        let home = Home::new("peers-postgresql-", User::unprivileged(&["postgres", "nobody"])?)?;
        let mut command = home.command(&initdb)?;
        command.args(["--pgdata=data", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        command.args([format!("--username={USER}"), "--wal-segsize=64".to_owned()]);
        home.run(&mut command)?;
        let (port, commit_delay_us) = (free_port()?, tuning.commit_delay_us);
        let child = launch(&home, &postgres, port, commit_delay_us)?;
        let server = Self { child, home, postgres, pg_ctl, port, commit_delay_us };
        new_runtime()?.block_on(server.wait_until_ready())?;
        Ok(server)
    }

    /// It listens before it is ready; recovery is in between.
    async fn wait_until_ready(&self) -> Outcome<()> {
        const TRIES: usize = 3_000;
        for _ in 0..TRIES {
            if self.connect().await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        fail("PostgreSQL listens, but takes no connection")
    }

    fn crash(&mut self) -> Outcome<()> {
        self.stop();
        self.child = launch(&self.home, &self.postgres, self.port, self.commit_delay_us)?;
        new_runtime()?.block_on(self.wait_until_ready())
    }

    /// At once and without a checkpoint: to the files it is a crash.
    fn stop(&mut self) {
        if let Ok(mut command) = self.home.command(&self.pg_ctl) {
            command.args(["stop", "--pgdata=data", "--mode=immediate", "--silent"]);
            // If this fails, the kill below ends it.
            drop(command.status());
        }
        end(&mut self.child);
    }

    async fn connect(&self) -> Outcome<Client> {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port).user(USER).dbname("postgres");
        let (client, connection) = config.connect(NoTls).await?;
        // It ends with its client, who is told of any failure.
        tokio::spawn(connection);
        Ok(client)
    }

    async fn lane(&self, release: Release) -> Outcome<Connection> {
        let client = self.connect().await?;
        let statement = client.prepare(AUTHORIZE).await?;
        let flush = match release {
            Release::AfterFlush => None,
            Release::BeforeFlush => {
                client.batch_execute("SET synchronous_commit = off").await?;
                Some(client.prepare(FLUSH).await?)
            }
        };
        Ok(Connection { client, statement, flush })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn launch(home: &Home, postgres: &Path, port: u16, commit_delay_us: u32) -> Outcome<Child> {
    let mut command = home.server_command(postgres)?;
    command.args(["-D", "data", "-p", &port.to_string()]);
    for (name, value) in SETTINGS {
        command.arg(format!("--{name}={value}"));
    }
    command.arg(format!("--commit_delay={commit_delay_us}"));
    command.arg("--commit_siblings=2");
    home.start(&mut command, port)
}

/// When a transaction lets its locks go, beside the flush that makes it durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    /// As PostgreSQL does by itself: a transaction that waits for the account waits for the disk,
    /// too.
    AfterFlush,
    /// The transaction commits without waiting, and a second one behind it on the same connection
    /// waits until the log up to itself is on disk. Only then is the purchase answered. A crash in
    /// between loses both, and every transaction that saw the first: the log is lost from its end.
    BeforeFlush,
}

/// A connection with its prepared statements.
struct Connection {
    client: Client,
    statement: Statement,
    flush: Option<Statement>,
}

impl Connection {
    /// Calls the function, and returns when what it did is on disk.
    async fn call(&self, columns: &Columns, account_first: bool) -> Result<Row, Error> {
        let parameters = columns.parameters(&account_first);
        let authorized = self.client.query_one(&self.statement, &parameters);
        let Some(flush) = &self.flush else { return authorized.await };
        // Both are sent at once, and carried out in this order.
        let (authorized, flushed) = tokio::join!(authorized, self.client.query_one(flush, &[]));
        flushed?;
        authorized
    }
}

impl Lane for Connection {
    async fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>> {
        let columns = Columns::of(batch);
        match self.call(&columns, false).await {
            Ok(row) => read_verdicts(&row),
            // Others took the funds while this batch was decided: again, with the account locked.
            Err(error) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {
                read_verdicts(&self.call(&columns, true).await?)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn read_verdicts(row: &Row) -> Outcome<Vec<Verdict>> {
    let transactions: Vec<Option<i64>> = row.try_get(0)?;
    let codes: Vec<i16> = row.try_get(1)?;
    let failed: Vec<i32> = row.try_get(2)?;
    let balances: Vec<i64> = row.try_get(3)?;
    let columns = transactions.into_iter().zip(codes).zip(failed).zip(balances);
    let verdicts = columns.map(|(((transaction, code), failed), allowance_balance)| {
        Ok(Verdict {
            transaction,
            response_code: code.try_into()?,
            failed_rules: failed.try_into()?,
            allowance_balance,
        })
    });
    verdicts.collect()
}

/// A batch as the function takes it: an array for each parameter.
struct Columns {
    key: Vec<Uuid>,
    pan_hash: Vec<i64>,
    amount: Vec<i64>,
    mcc: Vec<i16>,
    is_cash: Vec<bool>,
    expiry: Vec<Option<i32>>,
    cvv_matches: Vec<Option<bool>>,
    pin: Vec<Option<i64>>,
    zip: Vec<Option<&'static str>>,
    mid: Vec<i64>,
    /// Acceptor, name, city, state, country, ZIP.
    merchant: [Vec<&'static str>; 6],
    stan: Vec<String>,
    rrn: Vec<String>,
    /// Acquirer, terminal, transmission time.
    trace: [Vec<&'static str>; 3],
}

impl Columns {
    fn of(batch: &[Purchase]) -> Self {
        let merchant = [
            MERCHANT.card_acceptor_id,
            MERCHANT.name,
            MERCHANT.city,
            MERCHANT.state,
            MERCHANT.country,
            MERCHANT.zip,
        ];
        let trace = [MERCHANT.acquirer, MERCHANT.terminal, MERCHANT.transmission_time];
        let count = batch.len();
        Self {
            key: batch.iter().map(|purchase| Uuid::from_u128(purchase.network_key)).collect(),
            pan_hash: batch.iter().map(|purchase| purchase.pan_hash.cast_signed()).collect(),
            amount: batch.iter().map(|purchase| purchase.amount_minor).collect(),
            mcc: batch.iter().map(|purchase| purchase.mcc.cast_signed()).collect(),
            is_cash: batch.iter().map(|purchase| purchase.is_cash).collect(),
            expiry: batch.iter().map(|purchase| purchase.expiry.map(i32::from)).collect(),
            cvv_matches: batch.iter().map(|purchase| purchase.cvv_matches).collect(),
            pin: batch.iter().map(|purchase| purchase.pin.map(u64::cast_signed)).collect(),
            zip: batch.iter().map(|purchase| purchase.zip).collect(),
            mid: vec![MERCHANT.mid; count],
            merchant: merchant.map(|text| vec![text; count]),
            stan: batch.iter().map(Purchase::stan).collect(),
            rrn: batch.iter().map(Purchase::rrn).collect(),
            trace: trace.map(|text| vec![text; count]),
        }
    }

    fn parameters<'a>(&'a self, account_first: &'a bool) -> Vec<&'a (dyn ToSql + Sync)> {
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![
            &ACCOUNT,
            account_first,
            &self.key,
            &self.pan_hash,
            &self.amount,
            &self.mcc,
            &self.is_cash,
            &self.expiry,
            &self.cvv_matches,
            &self.pin,
            &self.zip,
            &self.mid,
        ];
        parameters.extend(self.merchant.iter().map(|texts| texts as &(dyn ToSql + Sync)));
        parameters.push(&self.stan);
        parameters.push(&self.rrn);
        parameters.extend(self.trace.iter().map(|texts| texts as &(dyn ToSql + Sync)));
        parameters
    }
}

/// Times come as microseconds, scopes as array literals.
const WRITE_CARDS: &str = "\
    INSERT INTO card (pan_hash, account_id, expires_on, expiry, pin, zip, budget, daily_limit, \
                      transaction_limit, starts_at, ends_at, scope, period_unit, single_use, \
                      state, suspension) \
    SELECT c.pan_hash, 1, date '1970-01-01' + c.expires_on, c.expiry, c.pin, c.zip, c.budget, \
           c.daily_limit, c.transaction_limit, \
           timestamptz '1970-01-01Z' + c.starts_at * interval '1 microsecond', \
           timestamptz '1970-01-01Z' + c.ends_at * interval '1 microsecond', \
           c.scope::smallint[], c.period_unit, c.single_use, c.state, c.suspension \
      FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[], $5::text[], \
                  $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], \
                  $11::text[], $12::text[], $13::boolean[], $14::smallint[], $15::smallint[]) \
           AS c(pan_hash, expires_on, expiry, pin, zip, budget, daily_limit, transaction_limit, \
                starts_at, ends_at, scope, period_unit, single_use, state, suspension)";

async fn write_cards(client: &Client, statement: &Statement, cards: &[Card]) -> Outcome<()> {
    fn column<T>(cards: &[Card], field: impl Fn(&Card) -> T) -> Vec<T> {
        cards.iter().map(field).collect()
    }
    client
        .execute(
            statement,
            &[
                &column(cards, |card| card.pan_hash.cast_signed()),
                &column(cards, |card| card.expires_on),
                &column(cards, |card| i32::from(card.expiry)),
                &column(cards, |card| card.pin.map(u64::cast_signed)),
                &column(cards, |card| card.zip),
                &column(cards, |card| card.budget),
                &column(cards, |card| card.daily_limit),
                &column(cards, |card| card.transaction_limit),
                &column(cards, |card| card.starts_at),
                &column(cards, |card| card.ends_at),
                &column(cards, scope_literal),
                &column(cards, |card| card.interval.unit()),
                &column(cards, |card| card.single_use),
                &column(cards, |card| i16::from(card.state.numbers().0)),
                &column(cards, |card| i16::from(card.state.numbers().1)),
            ],
        )
        .await?;
    Ok(())
}

fn scope_literal(card: &Card) -> String {
    let codes: Vec<String> = card.scope.iter().map(u16::to_string).collect();
    format!("{{{}}}", codes.join(","))
}
