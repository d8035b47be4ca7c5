//! Turns at work that takes memory or threads: so many at a time, and so many of one company, so
//! that a company with much to do holds up none of the others.

use std::collections::HashMap;
use std::sync::Arc;

use cardswitch_engine::domain::ids::CompanySlot;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// See the head of this file.
#[derive(Debug)]
pub struct CompanyTurns {
    all: Arc<Semaphore>,
    of_company_max: usize,
    /// The places of companies that have a turn or wait for one.
    of_companies: Mutex<HashMap<CompanySlot, Arc<Semaphore>>>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct CompanyTurn {
    _of_company: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl CompanyTurns {
    /// So many turns at a time, and so many of them for one company.
    pub fn new(max: usize, of_company_max: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(max)), of_company_max, of_companies: Mutex::default() }
    }

    /// Waits for a turn of a company. None comes only where turns have ended for ever.
    // The place of the company comes first: no company has two in the line of all.
    pub async fn turn(&self, company: CompanySlot) -> Option<CompanyTurn> {
        let of_company = self.places_of(company).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(CompanyTurn { _of_company: of_company, _of_all: of_all })
    }

    fn places_of(&self, company: CompanySlot) -> Arc<Semaphore> {
        let mut companies = self.of_companies.lock();
        // Each turn, and each wait for one, has a handle to the places.
        companies.retain(|_, places| Arc::strong_count(places) > 1);
        let places = companies.entry(company);
        Arc::clone(places.or_insert_with(|| Arc::new(Semaphore::new(self.of_company_max))))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn turns_of_one_company_hold_up_no_other() {
        let turns = CompanyTurns::new(3, 2);
        let at_once = async |company| {
            timeout(Duration::ZERO, turns.turn(CompanySlot(company))).await.ok().flatten()
        };
        let held = [at_once(1).await.unwrap(), at_once(1).await.unwrap()];
        assert!(at_once(1).await.is_none(), "it has two");
        let other = at_once(2).await.unwrap();
        assert!(at_once(3).await.is_none(), "there are three");
        drop((held, other));
        assert!(at_once(1).await.is_some() && at_once(2).await.is_some());
        assert_eq!(turns.of_companies.lock().len(), 1, "who has none is forgotten");
    }
}
