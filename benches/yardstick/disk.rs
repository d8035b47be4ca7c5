//! The least cost of anything durable: blocks written into a file that was made ready for them, and
//! bytes appended to one that grows, both with fdatasync. The cost of tables: a commit of redb.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use cardswitch_load::blocks::PreallocatedFile;
use redb::{Database, Durability, TableDefinition};

use crate::Must;
use crate::installation::temporary_directory;
use crate::meter::{Bench, Latencies, Meter};

const VALUES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("values");
/// Keys used in turn, so that the file stays small.
const KEYS: u64 = 256;
/// Bytes of the value that stands for one authorization.
const VALUE_BYTES: usize = 100;

/// A redb file with one table, and nothing around it.
#[derive(Debug)]
pub struct BareDatabase {
    database: Database,
    next_key: u64,
    keys: u64,
}

impl BareDatabase {
    /// A new file in `directory`, whose keys are used in turn.
    #[must_use]
    pub fn create(directory: &Path) -> Self {
        let file = tempfile::tempfile_in(directory).must("make a file");
        let database = Database::builder().create_file(file).must("make a database");
        Self { database, next_key: 0, keys: KEYS }
    }

    /// The same where every value is kept.
    #[must_use]
    pub fn create_growing(directory: &Path) -> Self {
        Self { keys: u64::MAX, ..Self::create(directory) }
    }

    /// Commits these values under the next keys, durable or visible only.
    pub fn commit(&mut self, values: &[&[u8]], durability: Durability) {
        let mut write_txn = self.database.begin_write().must("begin the one write");
        write_txn.set_durability(durability).must("set the durability");
        {
            let mut table = write_txn.open_table(VALUES).must("open the table");
            for value in values {
                self.next_key = (self.next_key + 1) % self.keys;
                table.insert(self.next_key, *value).must("insert a value");
            }
        }
        write_txn.commit().must("commit to the disk");
    }
}

/// A file, and nothing around it.
#[derive(Debug)]
pub struct BareAppend(File);

impl BareAppend {
    /// A new file in `directory`.
    #[must_use]
    pub fn create(directory: &Path) -> Self {
        Self(tempfile::tempfile_in(directory).must("make a file"))
    }

    /// Appends `bytes`; they are durable when it returns.
    pub fn append(&mut self, bytes: &[u8]) {
        self.write(bytes);
        self.sync();
    }

    /// Appends `bytes` to the system's cache.
    pub fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).must("write to the disk");
    }

    /// Makes durable what was written.
    pub fn sync(&self) {
        self.0.sync_data().must("sync the disk");
    }
}

/// The least cost of a durable answer, measured just before the figures it is compared with: a disk
/// is never twice the same.
#[derive(Debug, Default)]
pub struct DiskYardstick {
    /// One block written into a preallocated file with fdatasync.
    pub block: Meter,
    /// Single blocks, one after the other.
    pub blocks: Latencies,
    /// 100 bytes appended with fdatasync.
    pub append: Meter,
}

/// How long each of the two is looked at.
const LOOK: Duration = Duration::from_millis(1_500);

impl DiskYardstick {
    /// Takes it on the disk that `TMPDIR` names, and prints it; nothing where `name` is not asked
    /// for.
    #[must_use]
    pub fn take(bench: &Bench, name: &str) -> Self {
        if !bench.wants(name) {
            return Self::default();
        }
        let directory = temporary_directory();
        let value = [7; VALUE_BYTES];
        let mut preallocated = PreallocatedFile::create(directory.path()).must("make a file");
        let (block, blocks) =
            repeat(|| preallocated.write_durably(&value).must("write to the disk"));
        let mut file = BareAppend::create(directory.path());
        let (append, appends) = repeat(|| file.append(&value));
        println!("YARDSTICK before {name}: a block {blocks}; append + fdatasync {appends}");
        Self { block, blocks, append }
    }
}

impl DiskYardstick {
    /// Prints latencies at a fixed rate of arrival as multiples of single blocks made durable.
    pub fn print_open_loop(&self, name: &str, waited: &Latencies) {
        let times = |percent| waited.percentile_us(percent) / self.blocks.percentile_us(percent);
        println!(
            "RATIO {name}: {waited} from when each was due; p50 {:.2}, p99 {:.2} times a block's",
            times(50.0),
            times(99.0)
        );
    }
}

fn repeat(mut work: impl FnMut()) -> (Meter, Latencies) {
    let (mut meter, mut latencies) = (Meter::default(), Latencies::default());
    let start = Instant::now();
    while start.elapsed() < LOOK {
        let before = Instant::now();
        work();
        let elapsed = before.elapsed();
        meter.note(1, elapsed);
        latencies.note(elapsed);
    }
    (meter, latencies)
}
