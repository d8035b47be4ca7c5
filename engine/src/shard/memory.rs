//! Memory that is read at random: lines asked for ahead of their use, and huge pages.
//!
//! The calls that need `unsafe` are hints: they read and write nothing that a program can see, so
//! the hot state is the same without them, only slower.

#![expect(unsafe_code, reason = "hints to the processor and to the system, nothing else")]

use std::sync::atomic::{AtomicUsize, Ordering};

/// Asks for the cache line that holds `place`, so that it is near when it is read soon.
#[inline]
pub(super) fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = std::ptr::from_ref(place).cast::<i8>();
        // SAFETY: a prefetch is a hint for any address, and this one comes from a reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// The least size worth huge pages. Units: bytes.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A vector with room for `capacity` entries, on huge pages where the system grants them.
pub(super) fn with_huge_capacity<T>(capacity: usize) -> Vec<T> {
    let entries = Vec::with_capacity(capacity);
    ask_for_huge_pages(&entries);
    entries
}

/// Memory that is made present at a time: meanwhile no other thread gets new memory. Units: bytes.
const PIECE_BYTES: usize = 2 << 20;

/// The pieces of some memory that have been made present. Threads that ask for the same memory
/// share the work.
#[derive(Debug, Default)]
pub(super) struct Pieces(AtomicUsize);

impl Pieces {
    /// Makes all pages under a vector's reservation present, where the system can do so: filling it
    /// waits for none.
    pub(super) fn make_present<T>(&self, entries: &Vec<T>) {
        let bytes = entries.capacity().saturating_mul(size_of::<T>());
        loop {
            let start = self.0.fetch_add(1, Ordering::Relaxed).saturating_mul(PIECE_BYTES);
            if start >= bytes {
                return;
            }
            #[cfg(target_os = "linux")]
            advise(entries, start..bytes.min(start + PIECE_BYTES), libc::MADV_POPULATE_WRITE);
        }
    }
}

/// Zero words, on huge pages where the system grants them; no page is there before it is used.
pub(super) fn zeroed_words(count: usize) -> Vec<u64> {
    let words = vec![0; count];
    ask_for_huge_pages(&words);
    words
}

/// Asks for huge pages under all that a vector has reserved, before it is first touched.
fn ask_for_huge_pages<T>(entries: &Vec<T>) {
    let bytes = entries.capacity().saturating_mul(size_of::<T>());
    if bytes < HUGE_PAGE_BYTES {
        return;
    }
    #[cfg(target_os = "linux")]
    advise(entries, 0..bytes, libc::MADV_HUGEPAGE);
}

/// Gives the system advice about the whole pages under some of the bytes that a vector has reserved.
#[cfg(target_os = "linux")]
fn advise<T>(entries: &Vec<T>, bytes: std::ops::Range<usize>, advice: libc::c_int) {
    let reserved = entries.capacity().saturating_mul(size_of::<T>());
    let (first, end) = (bytes.start.min(reserved), bytes.end.min(reserved));
    let start = entries.as_ptr().cast::<u8>().wrapping_add(first);
    let skipped = start.align_offset(PAGE_BYTES);
    let whole_pages = (end - first).saturating_sub(skipped) / PAGE_BYTES * PAGE_BYTES;
    let first_page = start.wrapping_add(skipped).cast_mut().cast();
    // SAFETY: the range lies within the vector's own allocation; both pieces of advice change which
    // pages are under it, never their content, and a refusal leaves everything as it is.
    unsafe { libc::madvise(first_page, whole_pages, advice) };
}

#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 4096;
