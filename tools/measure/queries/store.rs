//! The rows in the tables of cardswitch, and its answers: in process, as handlers ask them.

use cardswitch_engine::command::NewTransaction;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::record::{append_record, record_views};
use cardswitch_engine::directory::dimension::Dimension;
use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_engine::domain::ids::{
    CompanySlot, DimensionSlot, RecordSeq, Timestamp, TransactionSeq,
};
use cardswitch_engine::domain::transaction::{
    TransactionProgress, TransactionRecord, TransactionState,
};
use cardswitch_engine::domain::transaction_tags::TagChanges;
use cardswitch_engine::journal::{BatchNumber, ChainHash, ChainPosition, Epoch};
use cardswitch_engine::store::query::{Order, Page};
use cardswitch_engine::store::{CommitKind, Projection, Store};
use cardswitch_tools::Outcome;
use tempfile::TempDir;

use super::history::{History, Row, all_categories, category_id};
use super::question::{Filter, PAGE_LEN, QueryAnswer, Question};

/// Rows of one commit: as many as come in some ten milliseconds under load.
const COMMIT_ROWS: usize = 4_000;
/// Commits between two checkpoints.
const CHECKPOINT_COMMITS: u64 = 100;
/// The greatest company.
const COMPANY: CompanySlot = CompanySlot(0);

/// A store with the rows; its file goes with it.
pub(crate) struct CardswitchStore {
    store: Store,
    _directory: TempDir,
}

impl CardswitchStore {
    /// Makes a store and projects the history into it.
    pub(crate) fn fill(history: &History) -> Outcome<Self> {
        let directory = tempfile::tempdir()?;
        let store = Store::create(&directory.path().join("store.redb"), [3; 16])?;
        let (late, payload) = (Vec::new(), Vec::new());
        let mut filling = StoreFiller { store: &store, seq: 0, commits: 0, late, payload };
        let mut projection = Projection::default();
        for (slot, (company, number)) in (0..).zip(all_categories()) {
            let effect = Effect::row(new_category(slot, company, number)?);
            filling.project(&mut projection, history.time_of(0), effect)?;
        }
        for (place, row) in history.rows().enumerate() {
            filling.take(&mut projection, &row)?;
            if place % COMMIT_ROWS == COMMIT_ROWS - 1 {
                let projection = std::mem::take(&mut projection);
                filling.commit(projection, row.record.authorized_at, CommitKind::Visible)?;
            }
        }
        let end = history.time_of(history.size);
        filling.commit(projection, end, CommitKind::Visible)?;
        filling.commit(Projection::default(), end, CommitKind::Checkpoint)?;
        Ok(Self { store, _directory: directory })
    }

    /// Answers a question.
    pub(crate) fn answer(&self, question: &Question) -> Outcome<QueryAnswer> {
        let snapshot = self.store.read()?;
        let filter = match &question.filter {
            Filter::List(filter, ..) => filter,
            Filter::Id(seq) => {
                let found = snapshot.transaction(*seq)?;
                let page: Vec<u64> = found.into_iter().map(|row| row.record.seq.0).collect();
                return Ok(QueryAnswer { count: page.len() as u64, page });
            }
        };
        let page = Page {
            limit: PAGE_LEN,
            offset: usize::try_from(question.offset)?,
            created_after: question.time.map(|(from, _)| from),
            created_before: question.time.map(|(_, to)| to),
            order: Order::NewestFirst,
        };
        let listed = snapshot.list_transactions(COMPANY, filter, &page)?;
        let page = listed.rows.iter().map(|row| row.record.seq.0).collect();
        Ok(QueryAnswer { count: listed.count, page })
    }
}

/// A store on its way.
struct StoreFiller<'a> {
    store: &'a Store,
    /// The newest record.
    seq: u64,
    commits: u64,
    /// Transactions that are completed with the next commit.
    late: Vec<TransactionSeq>,
    /// The record at hand.
    payload: Vec<u8>,
}

impl StoreFiller<'_> {
    fn project(
        &mut self,
        projection: &mut Projection,
        at: Timestamp,
        effect: Effect,
    ) -> Outcome<()> {
        self.seq += 1;
        self.payload.clear();
        append_record(&mut self.payload, RecordSeq(self.seq), at, &[effect])?;
        for record in record_views(&self.payload) {
            projection.project(record?)?;
        }
        Ok(())
    }

    fn take(&mut self, projection: &mut Projection, row: &Row) -> Outcome<()> {
        let (seq, at) = (row.record.seq, row.record.authorized_at);
        let category = row.category.map(category_id);
        let state = if row.is_late { TransactionState::Pending } else { row.state };
        let made = NewTransaction::of(row.record.clone(), progress_of(&row.record, state));
        self.project(projection, at, Effect::Transaction(Box::new(made)))?;
        if category != row.record.dimensions[0] {
            let mut tags = TagChanges::default();
            tags.dimensions[0] = Some(category);
            let tags = Effect::TransactionTags(seq, Box::new(tags));
            self.project(projection, at, tags)?;
        }
        if row.is_late {
            self.late.push(seq);
        }
        Ok(())
    }

    /// Writes a run; waiting transactions become completed in a run of their own.
    fn commit(&mut self, projection: Projection, at: Timestamp, kind: CommitKind) -> Outcome<()> {
        self.write(&projection, kind)?;
        let mut changes = Projection::default();
        for seq in std::mem::take(&mut self.late) {
            let progress = TransactionProgress::empty(TransactionState::Completed);
            let change = Effect::TransactionProgress(seq, Box::new(progress));
            self.project(&mut changes, at, change)?;
        }
        self.commits += 1;
        let is_due = self.commits.is_multiple_of(CHECKPOINT_COMMITS);
        self.write(&changes, if is_due { CommitKind::Checkpoint } else { kind })
    }

    fn write(&self, projection: &Projection, kind: CommitKind) -> Outcome<()> {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&self.seq.to_le_bytes());
        let position = ChainPosition {
            epoch: Epoch(1),
            number: BatchNumber(self.seq),
            hash: ChainHash(hash),
            last_seq: self.seq,
        };
        self.store.commit(projection, position, kind)?;
        Ok(())
    }
}

fn new_category(slot: u32, company: u64, number: u64) -> Outcome<Dimension> {
    Ok(Dimension {
        slot: DimensionSlot(slot),
        id: category_id(number),
        company: CompanySlot(company.try_into()?),
        kind: DimensionKind::ALL[0],
        name: format!("category {number}"),
        code: None,
        parent: None,
        is_deleted: false,
        created_at: Timestamp(0),
    })
}

fn progress_of(record: &TransactionRecord, state: TransactionState) -> TransactionProgress {
    let mut progress = TransactionProgress::empty(state);
    if state == TransactionState::Completed {
        progress.posted = record.requested;
        progress.posted_at = Some(record.authorized_at);
    }
    progress
}
