//! The number of answers that wait for events at a time: in all, and of one company.
//!
//! A stream is being sent while it waits; a page is not yet, and so holds one of the places that
//! there are for requests at work. Fewer of those may wait, so that most are left to others.

use std::collections::BTreeMap;
use std::sync::Arc;

use cardswitch_engine::domain::ids::CompanySlot;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use cardswitch_bounds::TooManyTries;

/// The bound of one company.
const STREAMS_OF_COMPANY_MAX: usize = 20;
/// The time to ask again after. Units: seconds.
const RETRY_AFTER_S: u32 = 10;

/// The open streams.
#[derive(Debug)]
pub(super) struct Streams {
    open: Mutex<BTreeMap<CompanySlot, usize>>,
    max: usize,
    pages: Arc<Semaphore>,
}

/// The place of a stream, given back when it is dropped.
#[derive(Debug)]
pub struct StreamPlace {
    streams: Arc<Streams>,
    company: CompanySlot,
}

/// The place of a page that waits.
#[derive(Debug)]
pub struct PagePlace {
    _place: StreamPlace,
    _of_pages: OwnedSemaphorePermit,
}

impl Streams {
    /// None yet, and never more than so many, nor so many pages among them.
    pub(super) fn new(max: usize, pages_max: usize) -> Self {
        Self { open: Mutex::default(), max, pages: Arc::new(Semaphore::new(pages_max)) }
    }

    /// Takes a place for a page.
    /// Errors: none is free.
    pub(super) fn take_for_page(
        self: &Arc<Self>,
        company: CompanySlot,
    ) -> Result<PagePlace, TooManyTries> {
        let of_pages = Arc::clone(&self.pages).try_acquire_owned();
        let of_pages = of_pages.map_err(|_| TooManyTries { retry_after_s: RETRY_AFTER_S })?;
        Ok(PagePlace { _place: self.take(company)?, _of_pages: of_pages })
    }

    /// Takes a place.
    /// Errors: none is free.
    pub(super) fn take(
        self: &Arc<Self>,
        company: CompanySlot,
    ) -> Result<StreamPlace, TooManyTries> {
        let mut open = self.open.lock();
        let all: usize = open.values().sum();
        let of_company = open.get(&company).copied().unwrap_or(0);
        if all >= self.max || of_company >= STREAMS_OF_COMPANY_MAX {
            return Err(TooManyTries { retry_after_s: RETRY_AFTER_S });
        }
        open.insert(company, of_company + 1);
        Ok(StreamPlace { streams: Arc::clone(self), company })
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock();
        match open.get_mut(&self.company) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&self.company)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAMS_MAX: usize = 1_000;
    const PAGES_MAX: usize = 256;

    #[test]
    fn pages_that_wait_leave_places_to_streams() {
        let streams = Arc::new(Streams::new(STREAMS_MAX, PAGES_MAX));
        let companies = (0..).flat_map(|company| [CompanySlot(company); 10]);
        let mut pages: Vec<_> = companies
            .take(PAGES_MAX)
            .map(|company| streams.take_for_page(company).unwrap())
            .collect();
        assert!(streams.take_for_page(CompanySlot(99)).is_err());
        assert!(streams.take(CompanySlot(99)).is_ok());
        drop(pages.pop());
        assert!(streams.take_for_page(CompanySlot(99)).is_ok());
        drop(pages);
        assert!(streams.open.lock().is_empty());
    }

    #[test]
    fn one_company_does_not_take_all_places() {
        let streams = Arc::new(Streams::new(STREAMS_MAX, PAGES_MAX));
        let take = |company| streams.take(CompanySlot(company));
        let mut places: Vec<_> = (0..STREAMS_OF_COMPANY_MAX).map(|_| take(1).unwrap()).collect();
        assert!(take(1).is_err());
        places.push(take(2).unwrap());
        drop(places.remove(0));
        places.push(take(1).unwrap());
        drop(places);
        assert!(streams.open.lock().is_empty());
        let all: Vec<_> = (0..50).flat_map(|company| (0..20).map(move |_| company)).collect();
        let _places: Vec<_> = all.into_iter().map(|company| take(company).unwrap()).collect();
        assert!(take(99).is_err());
    }
}
