//! PostgreSQL as a peer: a cluster of its own, its settings, and its client.
//!
//! The work itself is in `postgresql.sql`. Settings are those of a machine that does nothing else,
//! and where a choice is between fast and usual, it is fast, as long as every answer is durable.

use cardswitch_engine::decision::Rule;
use cardswitch_tools::Outcome;
use chrono::DateTime;
use serde_json::{Value, json};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};
use uuid::Uuid;

use super::closed_loop::{Discipline, Lane};
use super::peer::{Books, Peer};
use super::program::{Card, MERCHANT, MERCHANT_ID, Program, Purchase, TRACE, Verdict};
use super::rules::{bit, fill_in};
use crate::postgresql::{ALONE, Cluster, Setting};

pub(super) const SCHEMA: &str = include_str!("postgresql.sql");
const ACCOUNT: i32 = 1;
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

/// A running cluster.
pub(crate) struct Postgresql {
    cluster: Cluster,
    discipline: Discipline,
}

impl Postgresql {
    /// Makes a cluster and starts it.
    /// Errors: tells what is not installed.
    pub(crate) fn start(discipline: Discipline) -> Outcome<Self> {
        Ok(Self { cluster: Cluster::start([ALONE.as_slice(), &SETTINGS].concat())?, discipline })
    }

    async fn read_row(&self, query: &str) -> Outcome<Row> {
        Ok(self.cluster.connect().await?.query_one(query, &[]).await?)
    }
}

impl Peer for Postgresql {
    type Lane = Connection;

    fn connections(&self) -> &'static [usize] {
        match self.discipline {
            Discipline::CardsToLanes => &[1, 2, 4, 8],
            Discipline::OneEach => &[1, 16, 32, 64],
        }
    }

    fn discipline(&self) -> Discipline {
        self.discipline
    }

    async fn found(&mut self, program: &Program) -> Outcome<()> {
        let client = self.cluster.connect().await?;
        client.batch_execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public;").await?;
        let code = |rule: Rule| {
            format!("WHEN v_failed & {} <> 0 THEN {} ", bit(rule), rule.response_code().number())
        };
        client.batch_execute(&fill_in(SCHEMA, code)).await?;
        let account = format!(
            "INSERT INTO account (id, zone, ledger_balance, credit_limit) \
             VALUES ({ACCOUNT}, 'America/Los_Angeles', {}, 0)",
            program.opening_balance
        );
        client.batch_execute(&account).await?;
        let write_cards = format!(
            "INSERT INTO card (account_id, {COLUMNS}) SELECT {ACCOUNT}, {COLUMNS} \
             FROM jsonb_populate_recordset(null::card, $1::text::jsonb)"
        );
        for some in program.cards.chunks(FOUNDING_CARDS) {
            let rows = Value::Array(some.iter().map(row_of).collect()).to_string();
            client.execute(&write_cards, &[&rows]).await?;
        }
        // Each is a transaction of its own: statements sent together would be one.
        for statement in ["VACUUM ANALYZE account", "VACUUM ANALYZE card", "CHECKPOINT"] {
            client.batch_execute(statement).await?;
        }
        Ok(())
    }

    async fn connect(&mut self, count: usize) -> Outcome<Vec<Connection>> {
        // A connection alone has nobody to let the account's lock go for.
        let releases_early = self.discipline == Discipline::OneEach && count > 1;
        let mut lanes = Vec::new();
        for _ in 0..count {
            let client = self.cluster.connect().await?;
            let statement = client.prepare(AUTHORIZE).await?;
            let mut flush = None;
            if releases_early {
                client.batch_execute("SET synchronous_commit = off").await?;
                flush = Some(client.prepare(FLUSH).await?);
            }
            lanes.push(Connection { client, statement, flush });
        }
        Ok(lanes)
    }

    async fn crash(&mut self) -> Outcome<()> {
        self.cluster.crash()
    }

    async fn books(&mut self) -> Outcome<Books> {
        let query = "SELECT (SELECT sum(held)::bigint FROM account), \
                            (SELECT coalesce(sum(spent), 0)::bigint FROM card), \
                            coalesce(sum(held), 0)::bigint, count(*) FILTER (WHERE held > 0) \
                       FROM card_transaction";
        let row = self.read_row(query).await?;
        let count: i64 = row.try_get(3)?;
        Ok(Books {
            account_held_minor: row.try_get(0)?,
            cards_spent_minor: row.try_get(1)?,
            transactions_held_minor: row.try_get(2)?,
            transactions_held: count.try_into()?,
        })
    }

    async fn durability(&mut self) -> Outcome<String> {
        let names = ["fsync", "synchronous_commit", "full_page_writes", "wal_sync_method"];
        let shown = names.map(|name| format!("'{name}=' || current_setting('{name}')"));
        let query = format!("SELECT version(), {}", shown.join(" || ' ' || "));
        let row = self.read_row(&query).await?;
        let (version, settings): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let version = version.split(" on ").next().unwrap_or_default();
        Ok(format!("{version}: {settings}"))
    }
}

/// The columns of a card that are written.
const COLUMNS: &str = "pan_hash, expires_on, expiry, pin, zip, budget, daily_limit, \
     transaction_limit, starts_at, ends_at, scope, period_unit, single_use, state, suspension";

fn row_of(card: &Card) -> Value {
    let [daily_limit, transaction_limit, starts_at, ends_at] = card.bounds();
    let time = |at: Option<i64>| DateTime::from_timestamp_micros(at?);
    let (state, suspension) = card.state_numbers();
    // As `date_trunc` names them; null: never by itself.
    let units = [None, Some("day"), Some("week"), Some("month"), Some("quarter"), Some("year")];
    json!({
        "pan_hash": card.pan_hash.cast_signed(),
        "expires_on": card.expires_on.to_naive().to_string(),
        "expiry": card.expiry(),
        "pin": card.pin.map(u64::cast_signed),
        "zip": card.zip,
        "budget": card.terms.amount.0,
        "daily_limit": daily_limit,
        "transaction_limit": transaction_limit,
        "starts_at": time(starts_at).map(|at| at.to_rfc3339()),
        "ends_at": time(ends_at).map(|at| at.to_rfc3339()),
        "scope": card.terms.scope.codes(),
        "period_unit": units[card.terms.interval as usize],
        "single_use": card.terms.single_use,
        "state": state,
        "suspension": suspension,
    })
}

/// A connection with its prepared statements.
pub(crate) struct Connection {
    client: Client,
    statement: Statement,
    /// None where a transaction lets its locks go after the flush that makes it durable, as
    /// PostgreSQL does by itself: then one that waits for the account waits for the disk, too. Else
    /// the transaction commits without waiting, and this one behind it on the same connection waits
    /// until the log up to itself is on disk. Only then is the purchase answered. A crash in between
    /// loses both, and every transaction that saw the first: the log is lost from its end.
    flush: Option<Statement>,
}

impl Connection {
    /// Calls the function, and returns when what it did is on disk.
    async fn call(&self, columns: &Columns, account_first: bool) -> Result<Row, Error> {
        let first: [&(dyn ToSql + Sync); 2] = [&ACCOUNT, &account_first];
        let parameters: Vec<_> =
            first.into_iter().chain(columns.iter().map(|one| &**one)).collect();
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
        let columns = columns_of(batch);
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
type Columns = Vec<Box<dyn ToSql + Sync>>;

fn columns_of(batch: &[Purchase]) -> Columns {
    fn column<T: ToSql + Sync + 'static>(
        batch: &[Purchase],
        field: impl Fn(&Purchase) -> T,
    ) -> Box<dyn ToSql + Sync> {
        Box::new(batch.iter().map(field).collect::<Vec<T>>())
    }
    let text = |text: &'static str| column(batch, move |_| text);
    let mut columns = vec![
        column(batch, |purchase| Uuid::from_u128(purchase.network_key)),
        column(batch, |purchase| purchase.pan_hash.cast_signed()),
        column(batch, |purchase| purchase.amount_minor),
        column(batch, |purchase| purchase.mcc.cast_signed()),
        column(batch, |purchase| purchase.is_cash),
        column(batch, |purchase| purchase.expiry.map(i32::from)),
        column(batch, |purchase| purchase.cvv_matches),
        column(batch, |purchase| purchase.pin.map(u64::cast_signed)),
        column(batch, |purchase| purchase.zip),
        column(batch, |_| MERCHANT_ID),
    ];
    columns.extend(MERCHANT.map(text));
    columns.extend([column(batch, Purchase::stan), column(batch, Purchase::rrn)]);
    columns.extend(TRACE.map(text));
    columns
}
