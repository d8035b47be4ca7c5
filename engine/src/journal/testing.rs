//! A disk in memory that fails on request: for tests of the journal, the store and the whole.
//!
//! Like a real disk it keeps written and synced bytes apart. Not part of the product; public so
//! that tests in other crates can use it.

mod pages;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use ::redb::StorageBackend;
use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use self::pages::SharedPages;
use crate::disk::{Disk, DiskAccess, DiskFile, Reservation};

/// Sectors a torn write is cut at.
const SECTOR_BYTES: usize = 512;

/// Which operation goes wrong, counted from 1. After the first fault the device is gone: every
/// later write, resize and sync fails too.
#[derive(Clone, Copy, Default, Debug)]
pub struct DiskFaultPlan {
    /// This write does nothing and fails.
    pub fail_write: Option<u64>,
    /// This write stores only that many bytes and fails.
    pub torn_write: Option<(u64, usize)>,
    /// This sync makes nothing durable and fails.
    pub fail_sync: Option<u64>,
    /// This sync makes everything durable and fails all the same.
    pub fail_after_sync: Option<u64>,
    /// This read fails, without taking the device away.
    pub fail_read: Option<u64>,
    /// Growing beyond this size fails, without taking the device away.
    pub disk_full_bytes: Option<u64>,
    /// This sync finds the disk full, without taking the device away.
    pub disk_full_sync: Option<u64>,
    /// Syncs that succeed make nothing durable.
    pub lies: bool,
}

/// The disk, a directory of files. Clones are the same disk; faults are counted over all files.
#[derive(Clone, Default)]
pub struct FaultyDisk {
    device: Arc<Mutex<Device>>,
}

#[derive(Clone, Default)]
struct Device {
    files: Vec<StoredFile>,
    /// Which file stands under a name.
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    plan: DiskFaultPlan,
    reads: u64,
    writes: u64,
    syncs: u64,
    gone: bool,
    /// The ends of `PausedWrite` that the next durable write takes.
    pause: Option<(Sender<()>, Receiver<()>)>,
}

/// The next durable write, which waits between its write and its sync.
pub struct PausedWrite {
    reached: Receiver<()>,
    go_on: Sender<()>,
}

impl PausedWrite {
    /// Waits until the write has come so far; returns whether one has, before the pause was taken back.
    pub fn is_reached(&self) -> bool {
        self.reached.recv().is_ok()
    }

    /// Lets the write go on.
    pub fn go_on(self) {
        drop(self.go_on);
    }
}

#[derive(Clone, Default)]
struct StoredFile {
    written: SharedPages,
    synced: SharedPages,
    unsynced: Vec<FileChange>,
    /// Whether a sync has failed: the system reads its bytes until the power fails, and holds them
    /// for written, so that no later sync writes them.
    has_failed_sync: bool,
}

impl StoredFile {
    fn sync(&mut self) {
        if self.has_failed_sync {
            for change in self.unsynced.drain(..) {
                apply(&mut self.synced, &change);
            }
        } else {
            self.unsynced.clear();
            self.synced = self.written.clone();
        }
    }
}

#[derive(Clone)]
enum FileChange {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl FaultyDisk {
    /// Sets what goes wrong from now on, and counts operations from zero again.
    pub fn plan(&self, plan: DiskFaultPlan) {
        let mut device = self.device.lock();
        device.plan = plan;
        (device.reads, device.writes, device.syncs) = (0, 0, 0);
    }

    /// Makes nothing durable from now on, besides the planned faults.
    pub fn lie(&self) {
        self.device.lock().plan.lies = true;
    }

    /// Makes the next durable write wait between its write and its sync.
    pub fn pause_next_write(&self) -> PausedWrite {
        let ((reach, reached), (go_on, going)) = (bounded(1), bounded(1));
        self.device.lock().pause = Some((reach, going));
        PausedWrite { reached, go_on }
    }

    /// Takes the pause back, if no write has taken it.
    pub fn forget_pause(&self) {
        self.device.lock().pause = None;
    }

    fn pause(&self) {
        let pause = self.device.lock().pause.take();
        if let Some((reach, going)) = pause
            && reach.send(()).is_ok()
        {
            // It goes on where the other end is dropped.
            let _ = going.recv();
        }
    }

    /// Returns how many syncs were asked for since the plan was set.
    pub fn syncs(&self) -> u64 {
        self.device.lock().syncs
    }

    /// Returns how many writes were asked for since the plan was set.
    pub fn writes(&self) -> u64 {
        self.device.lock().writes
    }

    /// Returns the size of all files. Units: bytes.
    pub fn bytes(&self) -> u64 {
        self.device.lock().bytes()
    }

    /// Returns the bytes of a file as a process would read them.
    /// Panics: if there is none.
    pub fn content(&self, name: &str) -> Vec<u8> {
        let device = self.device.lock();
        device.files[device.names[name]].written.to_vec()
    }

    /// Returns the disk after the process was killed: the system still had every write, and makes it
    /// durable, unless a sync has failed.
    pub fn after_kill(&self) -> Self {
        let mut device = self.device.lock().clone();
        for file in &mut device.files {
            if file.has_failed_sync {
                file.unsynced.clear();
            } else {
                file.sync();
            }
        }
        Self::restarted(device)
    }

    /// Returns the disk after a power failure that lost everything unsynced.
    pub fn after_power_failure(&self) -> Self {
        self.after(|device| device.names = device.durable_names.clone())
    }

    /// Returns the disk after a power failure that lost some unsynced writes and tore others: any
    /// sectors of them may be there.
    pub fn after_torn_power_failure(&self, seed: u64) -> Self {
        let mut state = seed;
        self.after(|device| {
            if next_random(&mut state).is_multiple_of(2) {
                device.names = device.durable_names.clone();
            }
            for file in &mut device.files {
                for change in std::mem::take(&mut file.unsynced) {
                    for part in surviving(change, &mut state) {
                        apply(&mut file.synced, &part);
                    }
                }
            }
        })
    }

    fn after(&self, power_failure: impl FnOnce(&mut Device)) -> Self {
        let mut device = self.device.lock().clone();
        power_failure(&mut device);
        for file in &mut device.files {
            file.written = file.synced.clone();
            file.unsynced.clear();
            file.has_failed_sync = false;
        }
        Self::restarted(device)
    }

    fn restarted(device: Device) -> Self {
        let Device { files, names, .. } = device;
        let durable_names = names.clone();
        let device = Device { files, names, durable_names, ..Device::default() };
        Self { device: Arc::new(Mutex::new(device)) }
    }

    /// Flips the bits of `mask` in the byte at `offset` of a file, written and durable alike.
    /// Panics: if there is none, or it is not that long.
    pub fn flip(&self, name: &str, offset: usize, mask: u8) {
        let mut device = self.device.lock();
        let at = device.names[name];
        let StoredFile { written, synced, .. } = &mut device.files[at];
        let mut byte = [0];
        written.read(offset, &mut byte).expect("the file is that long");
        written.write(offset, &[byte[0] ^ mask]);
        if synced.read(offset, &mut byte).is_ok() {
            synced.write(offset, &[byte[0] ^ mask]);
        }
    }

    fn file(&self, at: usize) -> FaultyFile {
        FaultyFile { disk: self.clone(), at }
    }
}

crate::opaque!(FaultyDisk);

impl Disk for FaultyDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.device.lock().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let at = self.device.lock().names.get(name).copied();
        at.map(|at| Arc::new(self.file(at)) as _).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut device = self.device.lock();
        device.check_alive()?;
        if device.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let at = device.files.len();
        device.files.push(StoredFile::default());
        device.names.insert(name.to_owned(), at);
        drop(device);
        Ok(Arc::new(self.file(at)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut device = self.device.lock();
        device.check_alive()?;
        let at = device.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        device.names.insert(to.to_owned(), at);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut device = self.device.lock();
        device.check_alive()?;
        device.names.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut device = self.device.lock();
        device.sync(|device| device.durable_names = device.names.clone())
    }
}

/// A file of such a disk.
#[derive(Clone, Debug)]
struct FaultyFile {
    disk: FaultyDisk,
    at: usize,
}

impl DiskFile for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.device.lock().files[self.at].written.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut device = self.disk.device.lock();
        device.reads += 1;
        if device.plan.fail_read == Some(device.reads) {
            return Err(io::Error::other("a fault was asked for"));
        }
        device.files[self.at].written.read(index(offset)?, out)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut device = self.disk.device.lock();
        device.check_alive()?;
        device.writes += 1;
        if device.plan.fail_write == Some(device.writes) {
            return device.give_up();
        }
        let offset = index(offset)?;
        if let Some((nth, kept)) = device.plan.torn_write
            && nth == device.writes
        {
            let bytes = bytes[..kept.min(bytes.len())].to_vec();
            device.change(self.at, FileChange::Write { offset, bytes });
            return device.give_up();
        }
        device.check_space(self.at, (offset + bytes.len()) as u64)?;
        device.change(self.at, FileChange::Write { offset, bytes: bytes.to_vec() });
        Ok(())
    }

    fn write_durably(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.write(offset, &parts.concat())?;
        self.disk.pause();
        self.sync()
    }

    fn reserve(&self, len: u64) -> io::Result<Reservation> {
        let mut device = self.disk.device.lock();
        device.check_alive()?;
        device.check_space(self.at, len)?;
        if (device.files[self.at].written.len() as u64) < len {
            device.change(self.at, FileChange::SetLen(index(len)?));
        }
        Ok(Reservation::Allocated)
    }

    fn sync(&self) -> io::Result<()> {
        let mut device = self.disk.device.lock();
        let synced = device.sync(|device| device.files[self.at].sync());
        if synced.is_err() {
            device.files[self.at].has_failed_sync = true;
        }
        synced
    }

    fn try_lock(&self, _access: DiskAccess) -> io::Result<bool> {
        Ok(true)
    }
}

impl Device {
    fn bytes(&self) -> u64 {
        self.names.values().map(|at| self.files[*at].written.len() as u64).sum()
    }

    fn check_alive(&self) -> io::Result<()> {
        if self.gone { Err(io::Error::other("the device is gone")) } else { Ok(()) }
    }

    fn check_space(&self, at: usize, len: u64) -> io::Result<()> {
        let grown = len.saturating_sub(self.files[at].written.len() as u64);
        match self.plan.disk_full_bytes {
            Some(limit) if grown > 0 && self.bytes() + grown > limit => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    fn give_up(&mut self) -> io::Result<()> {
        self.gone = true;
        Err(io::Error::other("a fault was asked for"))
    }

    fn change(&mut self, at: usize, change: FileChange) {
        let file = &mut self.files[at];
        apply(&mut file.written, &change);
        file.unsynced.push(change);
    }

    fn sync(&mut self, make_durable: impl FnOnce(&mut Self)) -> io::Result<()> {
        self.check_alive()?;
        self.syncs += 1;
        if self.plan.fail_sync == Some(self.syncs) {
            return self.give_up();
        }
        if self.plan.disk_full_sync == Some(self.syncs) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if !self.plan.lies {
            make_durable(self);
        }
        if self.plan.fail_after_sync == Some(self.syncs) {
            return self.give_up();
        }
        Ok(())
    }
}

/// The part of an unsynced change that a power failure leaves.
fn surviving(change: FileChange, state: &mut u64) -> Vec<FileChange> {
    let FileChange::Write { offset, bytes } = change else { return vec![change] };
    let sectors = bytes.chunks(SECTOR_BYTES).enumerate();
    let kept: Vec<_> = match next_random(state) % 4 {
        0 => Vec::new(),
        1 => sectors.collect(),
        2 => {
            let count = bytes.len() as u64 / SECTOR_BYTES as u64 + 1;
            sectors.take(usize::try_from(next_random(state) % count).unwrap_or(0)).collect()
        }
        _ => sectors.filter(|_| next_random(state).is_multiple_of(2)).collect(),
    };
    let write = |(at, sector): (usize, &[u8])| FileChange::Write {
        offset: offset + at * SECTOR_BYTES,
        bytes: sector.to_vec(),
    };
    kept.into_iter().map(write).collect()
}

/// One file of a disk of its own, as redb uses it. Clones are the same file.
#[derive(Clone, Debug)]
pub struct FaultyBackend {
    file: FaultyFile,
}

impl Default for FaultyBackend {
    fn default() -> Self {
        Self::with_content(Vec::new())
    }
}

impl FaultyBackend {
    /// Makes an empty file on a disk that never fails.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a file with this content, all of it durable.
    pub fn with_content(content: Vec<u8>) -> Self {
        let mut written = SharedPages::default();
        written.write(0, &content);
        let file = StoredFile { synced: written.clone(), written, ..StoredFile::default() };
        let names = BTreeMap::from([("file".to_owned(), 0)]);
        let (files, durable_names) = (vec![file], names.clone());
        let device = Device { files, names, durable_names, ..Device::default() };
        Self::of(FaultyDisk { device: Arc::new(Mutex::new(device)) })
    }

    fn of(disk: FaultyDisk) -> Self {
        Self { file: disk.file(0) }
    }

    /// Sets what goes wrong from now on, and counts operations from zero again.
    pub fn plan(&self, plan: DiskFaultPlan) {
        self.file.disk.plan(plan);
    }

    /// Returns how many syncs were asked for since the plan was set.
    pub fn syncs(&self) -> u64 {
        self.file.disk.syncs()
    }

    /// Returns how many writes were asked for since the plan was set.
    pub fn writes(&self) -> u64 {
        self.file.disk.writes()
    }

    /// Flips the bits of `mask` in the byte at `offset`, written and durable alike.
    /// Panics: if it is not that long.
    pub fn flip(&self, offset: usize, mask: u8) {
        self.file.disk.flip("file", offset, mask);
    }

    /// Returns the bytes as a process would read them.
    pub fn content(&self) -> Vec<u8> {
        self.file.disk.device.lock().files[0].written.to_vec()
    }

    /// Returns the file after a power failure that lost everything unsynced.
    pub fn after_power_failure(&self) -> Self {
        Self::of(self.file.disk.after_power_failure())
    }

    /// Returns the file after the process was killed: the system still had every write.
    pub fn after_kill(&self) -> Self {
        Self::of(self.file.disk.after_kill())
    }

    /// Returns the file after a power failure that lost some unsynced writes and tore others.
    pub fn after_torn_power_failure(&self, seed: u64) -> Self {
        Self::of(self.file.disk.after_torn_power_failure(seed))
    }
}

impl StorageBackend for FaultyBackend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut device = self.file.disk.device.lock();
        device.check_alive()?;
        device.check_space(0, len)?;
        device.change(0, FileChange::SetLen(index(len)?));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut device = self.file.disk.device.lock();
        device.sync(|device| device.files[0].sync())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }
}

fn apply(content: &mut SharedPages, change: &FileChange) {
    match change {
        FileChange::SetLen(len) => content.resize(*len),
        FileChange::Write { offset, bytes } => content.write(*offset, bytes),
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
