//! The database that an export writes to. Its tables and what writes them are in `schema.sql`.
//!
//! INVARIANT: one export writes for a company: its connection holds a lock of the database. Pages and the place
//! behind them are one database transaction, so whenever an export dies, the next one goes on behind what is written.
//! A statement line never changes and has the next number of its account: the newest one is the place of these. What
//! was read is never ahead of the place's record, so a switch that lacks it has lost it.

use std::io;

use bytes::Bytes;
use futures_util::SinkExt;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, Statement, Transaction};
use uuid::Uuid;

use super::super::Failure;
use super::super::listen::StreamEnd;
use super::database_tls::SystemTls;
use super::feed::{ExportedCompany, ExportedLines, ExportedPages, LineMark};
use super::rows::{PageRows, columns};

/// How `tokio_postgres` begins to tell that TLS failed.
const HANDSHAKE: &str = "error performing TLS handshake";
const SCHEMA: &str = include_str!("schema.sql");
const MAKE_PAGE: &str =
    "CREATE TEMPORARY TABLE page (LIKE cardswitch.transactions) ON COMMIT DELETE ROWS";
const ADVANCE: &str = "UPDATE cardswitch.progress SET event_cursor = $3, seq = greatest(seq, $4), written_at = now(), \
    event_at = coalesce(($5::text)::timestamptz, event_at) \
    WHERE company_id = ($1::text)::uuid AND event_cursor IS NOT DISTINCT FROM $2";
/// The server gives up a client that is silent for 15 s, and its lock with it.
const SETTINGS: &str = "SET client_min_messages = warning; SET tcp_keepalives_idle = 5; \
    SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 2; SET tcp_user_timeout = '15s'";
/// The export before this one may be silent, and not given up yet.
const WAIT_FOR_LOCK: &str = "SET lock_timeout = '20s'";
const LOCK_COMPANY: &str =
    "SELECT pg_advisory_lock(hashtextextended('cardswitch export ' || ($1::text), 0))";
/// The refusal of an export for whose company another one writes.
const SECOND: &str = "another export of this company writes to this database: end one of them";
const BEGIN_COMPANY: &str = "INSERT INTO cardswitch.progress (company_id, currency, time_zone) \
    VALUES (($1::text)::uuid, $2, $3) ON CONFLICT DO NOTHING";
const READ_PLACE: &str = "SELECT event_cursor, seq FROM cardswitch.progress \
    WHERE company_id = ($1::text)::uuid";
const FORGET_PLACE: &str = "UPDATE cardswitch.progress SET event_cursor = NULL, seq = 0, \
    event_at = NULL, written_at = now() WHERE company_id = ($1::text)::uuid";
const REMOVE_TRANSACTIONS: &str =
    "DELETE FROM cardswitch.transactions WHERE company_id = ($1::text)::uuid";
const REMOVE_LINES: &str =
    "DELETE FROM cardswitch.statement_lines WHERE company_id = ($1::text)::uuid";
const NEWEST_LINE: &str = "SELECT number, id::text FROM cardswitch.statement_lines \
    WHERE account_id = ($1::text)::uuid ORDER BY number DESC LIMIT 1";
const ADD_LINES: &str = "WITH read AS (UPDATE cardswitch.progress SET seq = $4 \
    WHERE company_id = ($1::text)::uuid AND seq < $4) INSERT INTO cardswitch.statement_lines \
    SELECT ($1::text)::uuid, ($2::text)::uuid, (line->>'number')::bigint, (line->>'id')::uuid, \
    (line->'origin'->>'id')::uuid, (line->>'amount')::numeric, line->>'description', \
    (line->'card'->>'id')::uuid, (line->'member'->>'id')::uuid, (line->'merchant'->>'mcc')::integer, line->'merchant'->>'name', \
    line->'merchant'->>'country', (line->>'date')::date, (line->>'time')::timestamptz \
    FROM jsonb_array_elements(($3::text)::jsonb) AS line ON CONFLICT DO NOTHING";

/// The progress of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ExportedPlace {
    /// Behind the last event written; none before the first.
    pub(super) cursor: Option<String>,
    /// The switch's newest record when the newest row was read.
    pub(super) seq: u64,
}

/// A connection to the database, for one company.
pub(super) struct Database {
    client: Client,
    /// Adds rows.
    add: Statement,
    /// Fills the page, which `merge` takes over.
    fill: Statement,
    merge: Statement,
    advance: Statement,
    newest_line: Statement,
    add_lines: Statement,
    company: String,
    /// How far the events are written.
    pub(super) place: ExportedPlace,
}

impl Database {
    /// Connects, makes what is missing, and reads how far the company's events are written.
    /// Errors: nobody is there, the database refuses, or another export of the company is connected.
    pub(super) async fn open(to: &Config, of: &ExportedCompany) -> Result<Self, StreamEnd> {
        let connected = to.connect(SystemTls).await;
        let (client, connection) = connected.map_err(|error| not_connected(to, error))?;
        // Its own error shows in what it fails.
        tokio::spawn(async move { drop(connection.await) });
        client.batch_execute(SETTINGS).await.map_err(ended)?;
        client.batch_execute(SCHEMA).await.map_err(ended)?;
        let company = of.id.to_string();
        client.batch_execute(WAIT_FOR_LOCK).await.map_err(ended)?;
        client.execute(LOCK_COMPANY, &[&company]).await.map_err(|error| match error.code() {
            Some(&SqlState::LOCK_NOT_AVAILABLE) => StreamEnd::Refused(Failure::new(SECOND)),
            _ => ended(error),
        })?;
        client.batch_execute("RESET lock_timeout").await.map_err(ended)?;
        client
            .execute(BEGIN_COMPANY, &[&company, &of.currency, &of.time_zone])
            .await
            .map_err(ended)?;
        let row = client.query_one(READ_PLACE, &[&company]).await.map_err(ended)?;
        let seq: i64 = row.try_get(1).map_err(ended)?;
        let cursor = row.try_get(0).map_err(ended)?;
        let place = ExportedPlace { cursor, seq: seq.unsigned_abs() };
        client.batch_execute(MAKE_PAGE).await.map_err(ended)?;
        let copy = |table| format!("COPY {table} ({}) FROM STDIN", columns().join(", "));
        let add = client.prepare(&copy("cardswitch.transactions")).await.map_err(ended)?;
        let fill = client.prepare(&copy("page")).await.map_err(ended)?;
        let merge = client.prepare(&merge_statement()).await.map_err(ended)?;
        let advance = client.prepare(ADVANCE).await.map_err(ended)?;
        let newest_line = client.prepare(NEWEST_LINE).await.map_err(ended)?;
        let add_lines = client.prepare(ADD_LINES).await.map_err(ended)?;
        Ok(Self { client, add, fill, merge, advance, newest_line, add_lines, company, place })
    }

    /// Removes the company's rows, in one database transaction with the place behind them.
    /// Errors: the connection broke.
    pub(super) async fn begin_afresh(&mut self) -> Result<(), StreamEnd> {
        let changes = self.client.transaction().await.map_err(ended)?;
        for statement in [FORGET_PLACE, REMOVE_TRANSACTIONS, REMOVE_LINES] {
            changes.execute(statement, &[&self.company]).await.map_err(ended)?;
        }
        changes.commit().await.map_err(ended)?;
        self.place = ExportedPlace::default();
        Ok(())
    }

    /// Writes pages and the place behind them. Returns how many transactions it has written.
    /// Errors: the connection broke, or somebody put the place back by hand.
    pub(super) async fn write(&mut self, pages: &ExportedPages) -> Result<u64, StreamEnd> {
        let written = match self.write_rows(&pages.rows, pages).await {
            // The place was put back by hand: rows that the pages make are there already.
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                self.write_rows(&pages.rows.as_changed(), pages).await
            }
            written => written,
        };
        let moved = || StreamEnd::Broken("the place of this export has moved".to_owned());
        let written = written.map_err(ended)?.ok_or_else(moved)?;
        let seq = self.place.seq.max(pages.next.seq);
        self.place = ExportedPlace { seq, ..pages.next.clone() };
        Ok(written)
    }

    /// The newest line of an account that is written.
    /// Errors: the connection broke.
    pub(super) async fn newest_line(&self, account: Uuid) -> Result<Option<LineMark>, StreamEnd> {
        let row = self.client.query_opt(&self.newest_line, &[&account.to_string()]).await;
        let Some(row) = row.map_err(ended)? else { return Ok(None) };
        let (number, id) = (row.try_get(0).map_err(ended)?, row.try_get(1).map_err(ended)?);
        let broken = |error| StreamEnd::Broken(format!("PostgreSQL: the id of a line: {error}"));
        Ok(Some(LineMark { number, id: Uuid::parse_str(id).map_err(broken)? }))
    }

    /// Writes lines of an account. Returns how many were not there yet.
    /// Errors: the connection broke.
    pub(super) async fn add_lines(
        &mut self,
        account: Uuid,
        page: &ExportedLines,
    ) -> Result<u64, StreamEnd> {
        let (account, seq) = (account.to_string(), row_seq(page.seq));
        let parameters: [&(dyn ToSql + Sync); 4] = [&self.company, &account, &page.lines, &seq];
        let added = self.client.execute(&self.add_lines, &parameters).await.map_err(ended)?;
        self.place.seq = self.place.seq.max(page.seq);
        Ok(added)
    }

    /// None where the place has moved since.
    async fn write_rows(
        &mut self,
        rows: &PageRows,
        pages: &ExportedPages,
    ) -> Result<Option<u64>, Error> {
        let Self { client, add, fill, merge, advance, company, place, .. } = self;
        let seq = row_seq(pages.next.seq);
        let changes = client.transaction().await?;
        let mut written = 0;
        if !rows.made.is_empty() {
            written += copy_in(&changes, add, &rows.made).await?;
        }
        if !rows.changed.is_empty() {
            copy_in(&changes, fill, &rows.changed).await?;
            written += changes.execute(merge, &[]).await?;
        }
        let advanced = changes
            .execute(advance, &[company, &place.cursor, &pages.next.cursor, &seq, &pages.newest_at])
            .await?;
        if advanced == 0 {
            return Ok(None);
        }
        changes.commit().await?;
        Ok(Some(written))
    }
}

fn row_seq(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// Returns how many rows were copied.
async fn copy_in(changes: &Transaction<'_>, copy: &Statement, rows: &Bytes) -> Result<u64, Error> {
    let sink = changes.copy_in(copy).await?;
    tokio::pin!(sink);
    sink.send(rows.clone()).await?;
    sink.finish().await
}

/// Rows of the page take the place of those that are there, unless these are of a later event.
fn merge_statement() -> String {
    let names = columns().join(", ");
    let renewed = columns().map(|column| format!("{column} = excluded.{column}")).join(", ");
    format!(
        "INSERT INTO cardswitch.transactions AS known ({names}) SELECT {names} FROM page \
         ON CONFLICT (id) DO UPDATE SET {renewed} WHERE excluded.sequence >= known.sequence"
    )
}

/// The end of a connection that was not made, with its hosts. One that no try makes is refused: a certificate that is
/// not trusted, a database without TLS. A handshake that breaks off is tried again.
fn not_connected(to: &Config, error: Error) -> StreamEnd {
    let is_handshake = error.to_string().starts_with(HANDSHAKE);
    let breaks_off = chain(&error).any(|cause| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() != io::ErrorKind::InvalidData)
    });
    let hosts: Vec<_> = to.get_hosts().iter().map(host_name).collect();
    let named = |words| format!("{}: {words}", hosts.join(", "));
    match ended(error) {
        StreamEnd::Broken(words) if is_handshake && !breaks_off => {
            StreamEnd::Refused(Failure::new(named(words)))
        }
        StreamEnd::Broken(words) => StreamEnd::Broken(named(words)),
        StreamEnd::Refused(failure) => StreamEnd::Refused(Failure::new(named(failure.message))),
    }
}

fn host_name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

/// An error and its causes.
fn chain(error: &Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error as _), |cause: &&(dyn std::error::Error + 'static)| {
        cause.source()
    })
}

/// An error that passes by itself is tried again: a database that starts, stops or is full.
fn ended(error: Error) -> StreamEnd {
    let passes = |code: &SqlState| {
        ["08", "40", "53", "57"].iter().any(|class| code.code().starts_with(class))
    };
    let words = match error.as_db_error() {
        Some(refused) => refused.message().to_owned(),
        None => chain(&error).map(ToString::to_string).collect::<Vec<_>>().join(": "),
    };
    let words = format!("PostgreSQL: {words}");
    match error.code() {
        Some(code) if !passes(code) => StreamEnd::Refused(Failure::new(words)),
        _ => StreamEnd::Broken(words),
    }
}
