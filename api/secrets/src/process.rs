//! Hardening of the process: only root sees its memory, only its user sees its files.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::io;

use rustix::fs::Mode;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit, umask,
};

/// Leaves no core dump, and lets only root look into the memory: card numbers and keys are there.
/// Errors: the system refuses.
pub fn keep_memory_private() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(())
}

/// Makes every file from now on its owner's alone, also those of code that sets no mode, such as
/// libraries.
pub fn keep_files_private() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// Does something with keys, and wipes the part of the stack that it used: a compiler leaves copies there of
/// whatever it moves.
pub fn wiping_stack<T>(work: impl FnOnce() -> T) -> T {
    let done = below(work);
    wipe_below();
    done
}

#[inline(never)]
fn below<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// More than reading, deriving and wrapping keys takes of the stack, files included. Units: bytes.
const KEY_STACK_BYTES: usize = 256 * 1024;

#[inline(never)]
fn wipe_below() {
    let mut stack = [0_u8; KEY_STACK_BYTES];
    // The compiler must not take it for unused.
    black_box(&mut stack);
}

/// Blocks from this size on are the system's again when they are freed, with all that was in them.
/// Units: bytes. Source: mallopt(3), the highest threshold that M_MMAP_THRESHOLD adapts to.
const UNMAPPED_BYTES: usize = 32 << 20;

/// The system's allocator, which wipes freed blocks. So a text with a card number in it is gone
/// with its owner, be that a buffer of ours, a parser or the HTTP library.
#[derive(Debug)]
pub struct WipingAllocator;

#[expect(unsafe_code, reason = "an allocator is unsafe by its interface")]
// SAFETY: memory comes from the system's allocator and goes back to it with the layout it came with.
unsafe impl GlobalAlloc for WipingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() < UNMAPPED_BYTES {
            // SAFETY: the block is the caller's until it is freed, and has this size.
            unsafe { wipe(block, layout.size()) };
        }
        // SAFETY: the caller's promise is that of the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if layout.size() >= UNMAPPED_BYTES {
            // The system moves its pages: nothing stays behind.
            // SAFETY: the caller's promise is that of the system's allocator.
            return unsafe { System.realloc(block, layout, bytes) };
        }
        // SAFETY: the caller promises that the size is right for the alignment.
        let grown = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        // SAFETY: the new block is another one, and each is at least as long as what is copied.
        unsafe {
            let moved = self.alloc(grown);
            if !moved.is_null() {
                std::ptr::copy_nonoverlapping(block, moved, layout.size().min(bytes));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// Overwrites memory that nobody reads any more.
///
/// # Safety
/// So many bytes from `block` on are the caller's to write.
#[expect(unsafe_code, reason = "an allocator is unsafe by its interface")]
unsafe fn wipe(block: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::write_bytes(block, 0, bytes) };
    // The compiler must not take these writes for dead ones.
    black_box(block);
}
