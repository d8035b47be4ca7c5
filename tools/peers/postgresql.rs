//! PostgreSQL as a peer: a cluster of its own, its settings, and its client.
//!
//! The work itself is in `postgresql.sql`. Settings are those of a machine that does nothing else,
//! and where a choice is between fast and usual, it is fast, as long as every answer is durable.

use std::cell::RefCell;
use std::rc::Rc;

use cardswitch_engine::domain::business_date::Interval;
use cardswitch_tools::Outcome;
use tokio::runtime::Runtime;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};
use uuid::Uuid;

use super::closed_loop::{self, Discipline, Lane, PeerFigures};
use super::peer::{Books, Load, Peer, new_runtime};
use super::program::{Card, MERCHANT, Program, Purchase, Purchases, Verdict};
use crate::postgresql::{ALONE, Cluster, Setting};

const SCHEMA: &str = include_str!("postgresql.sql");
const ACCOUNT: i32 = 1;
/// Connections where batches are allowed, and where each purchase is a transaction of its own.
const CONNECTIONS_BATCHED: [usize; 4] = [1, 2, 4, 8];
const CONNECTIONS_ONE_EACH: [usize; 4] = [1, 16, 32, 64];
/// Cards written by one statement while a program is founded.
const FOUNDING_CARDS: usize = 10_000;

/// A transaction that waits for the disk, whatever the session says, and writes next to nothing.
const FLUSH: &str = "SELECT set_config('synchronous_commit', 'on', true), \
     pg_logical_emit_message(true, '', '')";

/// The settings beside those of a machine that does nothing else.
const SETTINGS: [Setting; 11] = [
    ("max_connections", "100"),
    // The function's statements are planned once.
    ("plan_cache_mode", "force_generic_plan"),
    // Durability: each commit waits for its record on disk, and pages survive a torn write.
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    ("wal_compression", "lz4"),
    ("wal_buffers", "64MB"),
    ("min_wal_size", "4GB"),
    ("autovacuum_naptime", "10s"),
    ("autovacuum_vacuum_cost_delay", "1ms"),
    ("log_checkpoints", "off"),
];

const AUTHORIZE: &str = "SELECT * FROM authorize($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, \
     $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)";

/// A running cluster and its client.
pub(crate) struct Postgresql {
    runtime: Runtime,
    cluster: Cluster,
    discipline: Discipline,
    purchases: Rc<RefCell<Purchases>>,
}

impl Postgresql {
    /// Makes a cluster and starts it.
    /// Errors: tells what is not installed.
    pub(crate) fn start(discipline: Discipline, purchases: Purchases) -> Outcome<Self> {
        let cluster = Cluster::start([ALONE.as_slice(), &SETTINGS].concat())?;
        let purchases = Rc::new(RefCell::new(purchases));
        Ok(Self { runtime: new_runtime()?, cluster, discipline, purchases })
    }

    fn execute(&self, statements: &str) -> Outcome<()> {
        self.runtime.block_on(async {
            let client = self.cluster.connect().await?;
            Ok(client.batch_execute(statements).await?)
        })
    }

    fn read_row(&self, query: &str) -> Outcome<Row> {
        self.runtime.block_on(async {
            let client = self.cluster.connect().await?;
            Ok(client.query_one(query, &[]).await?)
        })
    }

    async fn lane(&self, release: Release) -> Outcome<Connection> {
        let client = self.cluster.connect().await?;
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

    async fn write_cards(&self, cards: &[Card]) -> Outcome<()> {
        let client = self.cluster.connect().await?;
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
            .block_on(async { self.lane(Release::AfterFlush).await?.authorize(batch).await })
    }

    fn connections(&self) -> &'static [usize] {
        match self.discipline {
            Discipline::CardsToLanes => &CONNECTIONS_BATCHED,
            Discipline::OneEach => &CONNECTIONS_ONE_EACH,
        }
    }

    fn measure(&mut self, load: Load) -> Outcome<PeerFigures> {
        let discipline = self.discipline;
        // A connection alone has nobody to let the account's lock go for.
        let release = if discipline == Discipline::OneEach && load.connections > 1 {
            Release::BeforeFlush
        } else {
            Release::AfterFlush
        };
        self.runtime.block_on(async {
            let mut lanes = Vec::new();
            for _ in 0..load.connections {
                lanes.push(self.lane(release).await?);
            }
            closed_loop::keep_in_flight(lanes, discipline, &self.purchases, load).await
        })
    }

    fn crash(&mut self) -> Outcome<()> {
        self.cluster.crash()
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
                &column(cards, |card| unit_of(card.interval)),
                &column(cards, |card| card.single_use),
                &column(cards, |card| i16::from(card.state_numbers().0)),
                &column(cards, |card| i16::from(card.state_numbers().1)),
            ],
        )
        .await?;
    Ok(())
}

/// The unit of `date_trunc`.
const fn unit_of(interval: Interval) -> Option<&'static str> {
    match interval {
        Interval::None => None,
        Interval::Daily => Some("day"),
        Interval::Weekly => Some("week"),
        Interval::Monthly => Some("month"),
        Interval::Quarterly => Some("quarter"),
        Interval::Yearly => Some("year"),
    }
}

fn scope_literal(card: &Card) -> String {
    let codes: Vec<String> = card.scope.iter().map(u16::to_string).collect();
    format!("{{{}}}", codes.join(","))
}
