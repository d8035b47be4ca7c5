//! The least cost of anything durable: blocks written into a file that was made ready for them, with
//! fdatasync. The cost of tables: a commit of redb.

use std::path::Path;
use std::time::{Duration, Instant};

use cardswitch_load::blocks::PreallocatedFile;
use redb::{Database, Durability, TableDefinition};

use crate::installation::temporary_directory;
use crate::meter::Latencies;

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
    pub fn create(directory: &Path) -> Self {
        let file = tempfile::tempfile_in(directory).expect("make a file");
        let database = Database::builder().create_file(file).expect("make a database");
        Self { database, next_key: 0, keys: KEYS }
    }

    /// The same where every value is kept.
    pub fn create_growing(directory: &Path) -> Self {
        Self { keys: u64::MAX, ..Self::create(directory) }
    }

    /// How long it takes to commit 100 bytes durably, again and again for so long.
    pub fn time_commits(&mut self, duration: Duration) -> Latencies {
        time_each(duration, || self.commit(&[&[7; VALUE_BYTES]], Durability::Immediate))
    }

    /// Commits these values under the next keys, durable or visible only.
    pub fn commit(&mut self, values: &[&[u8]], durability: Durability) {
        let mut write_txn = self.database.begin_write().expect("begin the one write");
        write_txn.set_durability(durability).expect("set the durability");
        {
            let mut table = write_txn.open_table(VALUES).expect("open the table");
            for value in values {
                self.next_key = (self.next_key + 1) % self.keys;
                table.insert(self.next_key, *value).expect("insert a value");
            }
        }
        write_txn.commit().expect("commit to the disk");
    }
}

/// How long some work takes, again and again for so long.
pub fn time_each(duration: Duration, mut work: impl FnMut()) -> Latencies {
    let (mut latencies, start) = (Latencies::default(), Instant::now());
    while start.elapsed() < duration {
        let before = Instant::now();
        work();
        latencies.note(before.elapsed());
    }
    latencies
}

/// The least cost of a durable answer, measured just before the figures it is compared with: a disk
/// is never twice the same. One block written into a preallocated file with fdatasync, one after the
/// other.
#[derive(Debug)]
pub struct DiskYardstick(pub Latencies);

/// How long they are looked at.
const LOOK: Duration = Duration::from_millis(1_500);

impl DiskYardstick {
    /// Takes it on the disk that `TMPDIR` names, and prints it.
    pub fn take(name: &str) -> Self {
        let directory = temporary_directory();
        let mut file = PreallocatedFile::create(directory.path()).expect("make a file");
        let blocks = time_each(LOOK, || {
            file.write_durably(&[7; VALUE_BYTES]).expect("write to the disk");
        });
        println!("YARDSTICK before {name}: a block {blocks}");
        Self(blocks)
    }

    /// Prints latencies at a fixed rate of arrival as multiples of single blocks made durable.
    pub fn print_open_loop(&self, name: &str, waited: &Latencies) {
        let times = |percent| waited.percentile_us(percent) / self.0.percentile_us(percent);
        println!(
            "RATIO {name}: {waited} from when each was due; p50 {:.2}, p99 {:.2} times a block's",
            times(50.0),
            times(99.0)
        );
    }
}
