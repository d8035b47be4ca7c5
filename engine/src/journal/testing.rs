//! A disk in memory that fails on request: for tests of the journal, the store and the whole.
//!
//! It keeps what a real disk keeps apart: what has been written, and what of it has been synced.
//! Not part of the product; public so that tests in other crates can use it.

use std::fmt;
use std::io;
use std::sync::Arc;

use ::redb::StorageBackend;
use parking_lot::Mutex;

/// Sectors a torn write is cut at.
const SECTOR_BYTES: usize = 512;

/// Which operation goes wrong, counted from 1. After the first fault the device is gone: every
/// later write, resize and sync fails too.
#[derive(Clone, Copy, Default, Debug)]
pub struct FaultPlan {
    /// This write does nothing and fails.
    pub fail_write: Option<u64>,
    /// This write stores only that many bytes and fails.
    pub torn_write: Option<(u64, usize)>,
    /// This sync makes nothing durable and fails.
    pub fail_sync: Option<u64>,
    /// This sync makes everything durable and fails all the same.
    pub fail_after_sync: Option<u64>,
    /// Growing beyond this size fails, without taking the device away.
    pub disk_full_bytes: Option<u64>,
}

/// The disk. Clones are the same disk.
#[derive(Clone, Default)]
pub struct FaultyBackend {
    disk: Arc<Mutex<Disk>>,
}

#[derive(Default)]
struct Disk {
    written: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<JournalChange>,
    plan: FaultPlan,
    writes: u64,
    syncs: u64,
    gone: bool,
}

#[derive(Clone)]
enum JournalChange {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl FaultyBackend {
    /// Makes an empty disk that never fails.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a disk with this content, all of it durable.
    pub fn with_content(content: Vec<u8>) -> Self {
        let disk = Disk { written: content.clone(), synced: content, ..Disk::default() };
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// Sets what goes wrong from now on, and counts operations from zero again.
    pub fn plan(&self, plan: FaultPlan) {
        let mut disk = self.disk.lock();
        (disk.plan, disk.writes, disk.syncs) = (plan, 0, 0);
    }

    /// Returns how many syncs were asked for since the plan was set.
    pub fn syncs(&self) -> u64 {
        self.disk.lock().syncs
    }

    /// Returns how many writes were asked for since the plan was set.
    pub fn writes(&self) -> u64 {
        self.disk.lock().writes
    }

    /// Returns the bytes as a process would read them.
    pub fn content(&self) -> Vec<u8> {
        self.disk.lock().written.clone()
    }

    /// Returns the disk after a power failure that lost everything unsynced.
    pub fn after_power_failure(&self) -> Self {
        Self::with_content(self.disk.lock().synced.clone())
    }

    /// Returns the disk after the process was killed: the system still had every write.
    pub fn after_kill(&self) -> Self {
        Self::with_content(self.content())
    }

    /// Returns the disk after a power failure that lost some unsynced writes and tore others.
    pub fn after_torn_power_failure(&self, seed: u64) -> Self {
        let disk = self.disk.lock();
        let mut content = disk.synced.clone();
        let mut state = seed;
        for change in &disk.unsynced {
            match (next_random(&mut state) % 3, change) {
                (0, JournalChange::Write { offset, bytes }) => {
                    let sectors = (bytes.len() / SECTOR_BYTES).max(1) as u64;
                    let kept = usize::try_from(next_random(&mut state) % sectors).unwrap_or(0);
                    let bytes = bytes[..kept * SECTOR_BYTES].to_vec();
                    apply(&mut content, &JournalChange::Write { offset: *offset, bytes });
                }
                (1, JournalChange::Write { .. }) => {}
                _ => apply(&mut content, change),
            }
        }
        Self::with_content(content)
    }

    /// Flips the bits of `mask` in the byte at `offset`, written and durable alike.
    /// Panics: if the disk is not that long.
    pub fn flip(&self, offset: usize, mask: u8) {
        let mut disk = self.disk.lock();
        disk.written[offset] ^= mask;
        if let Some(byte) = disk.synced.get_mut(offset) {
            *byte ^= mask;
        }
    }
}

impl fmt::Debug for FaultyBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyBackend").finish_non_exhaustive()
    }
}

impl StorageBackend for FaultyBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.lock().written.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let disk = self.disk.lock();
        let start = index(offset)?;
        let Some(found) = disk.written.get(start..start + out.len()) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.check_alive()?;
        disk.check_space(len)?;
        let change = JournalChange::SetLen(index(len)?);
        disk.change(change);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.check_alive()?;
        disk.syncs += 1;
        if disk.plan.fail_sync == Some(disk.syncs) {
            return disk.give_up();
        }
        let unsynced = std::mem::take(&mut disk.unsynced);
        for change in &unsynced {
            apply(&mut disk.synced, change);
        }
        if disk.plan.fail_after_sync == Some(disk.syncs) {
            return disk.give_up();
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.check_alive()?;
        disk.writes += 1;
        if disk.plan.fail_write == Some(disk.writes) {
            return disk.give_up();
        }
        let offset = index(offset)?;
        if let Some((nth, kept)) = disk.plan.torn_write
            && nth == disk.writes
        {
            let bytes = data[..kept.min(data.len())].to_vec();
            disk.change(JournalChange::Write { offset, bytes });
            return disk.give_up();
        }
        disk.check_space((offset + data.len()) as u64)?;
        disk.change(JournalChange::Write { offset, bytes: data.to_vec() });
        Ok(())
    }
}

impl Disk {
    fn check_alive(&self) -> io::Result<()> {
        if self.gone { Err(io::Error::other("the device is gone")) } else { Ok(()) }
    }

    fn check_space(&self, len: u64) -> io::Result<()> {
        match self.plan.disk_full_bytes {
            Some(limit) if len > limit && len > self.written.len() as u64 => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    fn give_up(&mut self) -> io::Result<()> {
        self.gone = true;
        Err(io::Error::other("a fault was asked for"))
    }

    fn change(&mut self, change: JournalChange) {
        apply(&mut self.written, &change);
        self.unsynced.push(change);
    }
}

fn apply(content: &mut Vec<u8>, change: &JournalChange) {
    match change {
        JournalChange::SetLen(len) => content.resize(*len, 0),
        JournalChange::Write { offset, bytes } => {
            let end = offset + bytes.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[*offset..end].copy_from_slice(bytes);
        }
    }
}

fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(io::Error::other)
}

/// A splitmix64 step: enough to choose which writes are lost, repeatable from the seed.
pub fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
