//! The least cost of anything durable: blocks written into a file that was made ready for them, with
//! fdatasync. The cost of tables: a commit of redb.

use std::path::Path;
use std::time::{Duration, Instant};

use cardswitch_load::blocks::PreallocatedFile;
use redb::{Database, Durability, TableDefinition};

use crate::Must;
use crate::installation::temporary_directory;
use crate::meter::{Latencies, Meter};

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

    /// Commits 100 bytes durably; returns how long that took.
    pub fn commit_one(&mut self) -> Duration {
        let start = Instant::now();
        self.commit(&[&[7; VALUE_BYTES]], Durability::Immediate);
        start.elapsed()
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

/// The least cost of a durable answer, measured just before the figures it is compared with: a disk
/// is never twice the same.
#[derive(Debug, Default)]
pub struct DiskYardstick {
    /// One block written into a preallocated file with fdatasync.
    pub block: Meter,
    /// Single blocks, one after the other.
    pub blocks: Latencies,
}

/// How long they are looked at.
const LOOK: Duration = Duration::from_millis(1_500);

impl DiskYardstick {
    /// Takes it on the disk that `TMPDIR` names, and prints it.
    #[must_use]
    pub fn take(name: &str) -> Self {
        let directory = temporary_directory();
        let mut file = PreallocatedFile::create(directory.path()).must("make a file");
        let (mut own, start) = (Self::default(), Instant::now());
        while start.elapsed() < LOOK {
            let before = Instant::now();
            file.write_durably(&[7; VALUE_BYTES]).must("write to the disk");
            let elapsed = before.elapsed();
            own.block.note(1, elapsed);
            own.blocks.note(elapsed);
        }
        println!("YARDSTICK before {name}: a block {}", own.blocks);
        own
    }

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
