//! A reader of the tables at a fixed rate while they are written.

use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use cardswitch_engine::domain::ids::{CompanySlot, TransactionSeq};
use cardswitch_engine::store::query::{Page, TransactionFilter};
use cardswitch_engine::store::{Store, StoreError};

use super::Companion;
use crate::program::Random;

/// Reads a second.
const READS_PER_S: u32 = 1_000;
/// Rows of a page.
const PAGE_LEN: usize = 50;

/// Reads one transaction, then a page, and so on, until it is finished.
pub fn read_tables(store: &Arc<Store>) -> Companion<()> {
    let (store, mut random) = (Arc::clone(store), Random::new(31));
    Companion::start(move |stopped| {
        let start = Instant::now();
        let mut turn = 0;
        while stopped.try_recv() == Err(TryRecvError::Empty) {
            let due = start + Duration::from_secs(1) * turn / READS_PER_S;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            read(&store, &mut random, turn).expect("read the tables");
            turn += 1;
        }
    })
}

fn read(store: &Store, random: &mut Random, turn: u32) -> Result<(), StoreError> {
    let snapshot = store.read()?;
    let newest = snapshot.checkpoint()?.last_transaction.0;
    let seq = TransactionSeq(1 + random.below(newest.max(1)));
    let found = snapshot.transaction(seq)?;
    if turn.is_multiple_of(2) {
        assert!(found.is_some() || newest == 0, "a transaction that is there is found");
        return Ok(());
    }
    let page = Page::first(PAGE_LEN);
    // The first transaction, the opening balance, has no card.
    let card = found.and_then(|found| found.record.card);
    let listed = match card.filter(|_| turn % 4 == 1) {
        Some(card) => snapshot.list_card_transactions(card, &page)?,
        None => {
            let filter = TransactionFilter::default();
            snapshot.list_transactions(CompanySlot(0), &filter, &page)?
        }
    };
    assert!(newest == 0 || !listed.rows.is_empty(), "a list that has rows shows some");
    Ok(())
}
