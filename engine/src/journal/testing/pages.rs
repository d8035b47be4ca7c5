//! The bytes of a simulated file, in pages that its copies share until one of them is written: a sync
//! and a crash copy no bytes.
//!
//! INVARIANT: bytes that were never written, or only as zeroes, and bytes behind the end are zero.

use std::io;
use std::sync::Arc;

const PAGE_LEN: usize = 4096;

type DiskPage = [u8; PAGE_LEN];

static ZEROES: DiskPage = [0; PAGE_LEN];

/// See the head of this file. Pages of zeroes take no memory.
#[derive(Clone, Default)]
pub(super) struct SharedPages {
    pages: Vec<Option<Arc<DiskPage>>>,
    len: usize,
}

impl SharedPages {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Cuts the file, or makes it longer by zeroes.
    pub(super) fn resize(&mut self, len: usize) {
        if len < self.len
            && let Some(Some(last)) = self.pages.get_mut(len / PAGE_LEN)
        {
            Arc::make_mut(last)[len % PAGE_LEN..].fill(0);
        }
        self.pages.resize(len.div_ceil(PAGE_LEN), None);
        self.len = len;
    }

    /// Fills `out` from `offset` on.
    /// Errors: `UnexpectedEof` behind the end.
    pub(super) fn read(&self, offset: usize, out: &mut [u8]) -> io::Result<()> {
        if offset + out.len() > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for Piece { page, start, part } in pieces(offset, out.len()) {
            let (end, out) = (start + part.len(), &mut out[part]);
            match &self.pages[page] {
                Some(page) => out.copy_from_slice(&page[start..end]),
                None => out.fill(0),
            }
        }
        Ok(())
    }

    /// Writes bytes, behind the end as well.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        if offset + bytes.len() > self.len {
            self.resize(offset + bytes.len());
        }
        for Piece { page, start, part } in pieces(offset, bytes.len()) {
            let bytes = &bytes[part];
            let page = &mut self.pages[page];
            match page.as_mut().map(Arc::make_mut) {
                Some(page) => page[start..start + bytes.len()].copy_from_slice(bytes),
                None if *bytes == ZEROES[..bytes.len()] => {}
                None => {
                    let mut made = ZEROES;
                    made[start..start + bytes.len()].copy_from_slice(bytes);
                    *page = Some(Arc::new(made));
                }
            }
        }
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let pages: Vec<&[u8]> =
            self.pages.iter().map(|page| page.as_deref().unwrap_or(&ZEROES).as_slice()).collect();
        let mut content = pages.concat();
        content.truncate(self.len);
        content
    }
}

/// The part of some bytes that stands in one page, from `start` on.
struct Piece {
    page: usize,
    start: usize,
    part: std::ops::Range<usize>,
}

fn pieces(offset: usize, len: usize) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (page, start) = ((offset + at) / PAGE_LEN, (offset + at) % PAGE_LEN);
        let end = len.min(at + PAGE_LEN - start);
        let part = std::mem::replace(&mut at, end)..end;
        (!part.is_empty()).then_some(Piece { page, start, part })
    })
}

#[cfg(test)]
mod tests {
    use super::super::next_random;
    use super::*;

    #[test]
    fn pages_hold_what_a_vector_holds_and_copies_stay_as_they_were() {
        let (mut pages, mut plain) = (SharedPages::default(), Vec::new());
        let (mut copy, mut plain_copy) = (pages.clone(), plain.clone());
        let mut state = 7;
        let mut random = |below: usize| usize::try_from(next_random(&mut state)).unwrap() % below;
        for _ in 0..4_000 {
            match random(10) {
                0 => {
                    let len = random(6 * PAGE_LEN);
                    plain.resize(len, 0);
                    pages.resize(len);
                }
                1 => (copy, plain_copy) = (pages.clone(), plain.clone()),
                kind => {
                    let (offset, len) = (random(5 * PAGE_LEN), 1 + random(2 * PAGE_LEN));
                    let bytes = vec![if kind == 2 { 0 } else { random(256).to_le_bytes()[0] }; len];
                    plain.resize(plain.len().max(offset + len), 0);
                    plain[offset..offset + len].copy_from_slice(&bytes);
                    pages.write(offset, &bytes);
                }
            }
            assert_eq!((pages.len(), copy.len()), (plain.len(), plain_copy.len()));
            if random(20) == 0 {
                assert!(pages.to_vec() == plain && copy.to_vec() == plain_copy);
            }
            let offset = random(plain.len() + 1);
            let mut read = vec![1; random(plain.len() - offset + 1)];
            pages.read(offset, &mut read).unwrap();
            assert!(read == plain[offset..offset + read.len()]);
            let mut beyond = vec![0; plain.len() + 1];
            assert!(pages.read(0, &mut beyond).is_err());
        }
    }
}
