//! The rows in PostgreSQL, and its answers: a prepared statement for the page and one for the count,
//! sent together on one connection of loopback.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::{Duration, SystemTime};

use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::transaction::TransactionKind;
use cardswitch_tools::Outcome;
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::history::{History, Row, id_of};
use super::question::{Filter, PAGE_LEN, QueryAnswer, Question};
use crate::postgresql::{ALONE, Cluster};

const SCHEMA: &str = include_str!("postgresql.sql");
const INDEXES: &str = include_str!("postgresql_indexes.sql");
/// Rows of one file that is copied in.
const COPIED_ROWS: usize = 1_000_000;

/// A running cluster with the rows, and a connection to it.
pub(crate) struct Postgresql {
    client: Client,
    statements: RefCell<BTreeMap<String, Statement>>,
    runtime: Runtime,
    // Ended when it goes, before its directory does.
    cluster: Cluster,
}

impl Postgresql {
    /// Makes a cluster, copies the history into it and makes the indexes.
    /// Errors: tells what is not installed.
    pub(crate) fn fill(history: &History) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let cluster = Cluster::start(ALONE.into())?;
        let client = runtime.block_on(cluster.connect())?;
        let statements = RefCell::default();
        let own = Self { client, statements, runtime, cluster };
        own.execute(SCHEMA)?;
        own.copy(history)?;
        own.execute(INDEXES)?;
        own.execute("VACUUM (ANALYZE, FREEZE) card_transaction")?;
        own.execute("CHECKPOINT")?;
        Ok(own)
    }

    fn execute(&self, statements: &str) -> Outcome<()> {
        Ok(self.runtime.block_on(self.client.batch_execute(statements))?)
    }

    /// Loads files on the server's side: the fastest way.
    fn copy(&self, history: &History) -> Outcome<()> {
        let path = self.cluster.path().join("rows");
        let mut rows = history.rows().peekable();
        while rows.peek().is_some() {
            let mut file = BufWriter::new(File::create(&path)?);
            for row in rows.by_ref().take(COPIED_ROWS) {
                write_row(&mut file, &row)?;
            }
            file.into_inner()?.sync_all()?;
            self.execute(&format!("COPY card_transaction FROM '{}'", path.display()))?;
        }
        Ok(std::fs::remove_file(&path)?)
    }

    /// Answers a question.
    pub(crate) fn answer(&self, question: &Question) -> Outcome<QueryAnswer> {
        self.runtime.block_on(self.ask(question))
    }

    /// Runs a statement that reads nothing, to measure its cost.
    pub(crate) fn answer_nothing(&self) -> Outcome<()> {
        self.runtime.block_on(async {
            let statement = self.statement("SELECT 1").await?;
            self.client.query_one(&statement, &[]).await?;
            Ok(())
        })
    }

    async fn ask(&self, question: &Question) -> Outcome<QueryAnswer> {
        let (condition, value) = match &question.filter {
            Filter::Id(seq) => return self.ask_by_id(seq.0).await,
            Filter::List(_, condition, value) => (*condition, i32::try_from(*value)?),
        };
        let time = if question.time.is_some() {
            " AND authorized_at >= $2 AND authorized_at < $3"
        } else {
            ""
        };
        let matching = format!("FROM card_transaction WHERE {condition}{time}");
        let offset = question.offset;
        let page = format!(
            "SELECT * {matching} ORDER BY authorized_at DESC, seq DESC \
             LIMIT {PAGE_LEN} OFFSET {offset}"
        );
        let page = self.statement(&page).await?;
        let count = self.statement(&format!("SELECT count(*) {matching}")).await?;
        let bounds = question.time.map(|(from, to)| (system_time(from), system_time(to)));
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&value];
        if let Some((from, to)) = &bounds {
            parameters.extend([from as &(dyn ToSql + Sync), to]);
        }
        // Sent together, so that one round trip is paid.
        let (page, count) = tokio::join!(
            self.client.query(&page, &parameters),
            self.client.query_one(&count, &parameters)
        );
        let count: i64 = count?.try_get(0)?;
        Ok(QueryAnswer { count: count.try_into()?, page: seqs_of(&page?)? })
    }

    async fn ask_by_id(&self, seq: u64) -> Outcome<QueryAnswer> {
        let id = id_of(seq).0;
        let statement = self.statement("SELECT * FROM card_transaction WHERE id = $1").await?;
        let rows = self.client.query(&statement, &[&id]).await?;
        let page = seqs_of(&rows)?;
        Ok(QueryAnswer { count: page.len() as u64, page })
    }

    /// A statement that is prepared once.
    async fn statement(&self, text: &str) -> Outcome<Statement> {
        let known = self.statements.borrow().get(text).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let statement = self.client.prepare(text).await?;
        self.statements.borrow_mut().insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// The sequence numbers of rows.
fn seqs_of(rows: &[tokio_postgres::Row]) -> Outcome<Vec<u64>> {
    rows.iter().map(|row| Ok(row.try_get::<_, i64>(0)?.try_into()?)).collect()
}

fn system_time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(at.0.unsigned_abs())
}

/// A row as COPY reads it.
fn write_row(file: &mut impl Write, row: &Row) -> std::io::Result<()> {
    let record = &row.record;
    let kind = if record.kind == TransactionKind::Verification { 2 } else { 0 };
    let at = chrono::DateTime::from_timestamp_micros(record.authorized_at.0).unwrap_or_default();
    write!(
        file,
        "{}\t{}\t{}\t{}\t{}\t{kind}\t{}\t{}\t{}",
        record.seq.0,
        record.id.0,
        record.company.0,
        record.card.map_or(0, |card| card.0),
        record.member.map_or(0, |member| member.0),
        row.state as u8,
        record.requested.0,
        at.format("%Y-%m-%d %H:%M:%S%.6f+00"),
    )?;
    match row.category {
        Some(number) => write!(file, "\t{number}")?,
        None => write!(file, "\t\\N")?,
    }
    writeln!(file, "\t445566\t5812\tBlue Bottle Coffee\tSan Francisco\tCA\tUS\t94103")
}
