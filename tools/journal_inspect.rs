//! Prints a journal, batch by batch: the time, the epoch and the kinds of its records.
//!
//! Reads only, also after the writer was killed: the journal is proven as an open for writing would
//! prove it, and not changed by a byte. A journal in use is refused.
//!
//! Hashes of credentials and tokens, sealed card numbers, names and addresses of people are never
//! printed. Effects are shown by slot, public id, amount and state, as they are serialized.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cardswitch_engine::command::NewTransaction;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::record::{Record, records};
use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::engine::PARTITION;
use cardswitch_engine::journal::log::{ReadOnlyJournal, open_read_only};
use cardswitch_engine::journal::{
    BatchKind, DirectoryId, JournalFollower, JournalIdentity, ProvenBatch,
};
use chrono::{DateTime, SecondsFormat};
use clap::Parser;
use serde_json::{Value, json};

/// Journal bytes read at a time.
const READ_BYTES: usize = 4 << 20;
/// Bytes of a batch's hash that are shown.
const HASH_PREFIX_BYTES: usize = 8;

/// Prints a journal, batch by batch.
#[derive(Debug, Parser)]
#[command(name = "journal-inspect", version)]
struct Arguments {
    /// A data directory, or a journal directory by itself.
    path: PathBuf,
    /// Prints each record's effects, too.
    #[arg(long)]
    records: bool,
    /// Leaves out the batches before this one.
    #[arg(long, default_value_t = 1)]
    from: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = BufWriter::new(io::stdout().lock());
    let outcome = inspect(&arguments, &mut out).and_then(|()| Ok(out.flush()?));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            // The batches proven before the error are shown before it, too.
            drop(out);
            eprintln!("journal-inspect: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the reader of the output has seen enough and closed the pipe.
fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn inspect(arguments: &Arguments, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    // The lock is held until the last batch is printed.
    let (journal, _directory) = open(&arguments.path)?;
    write_summary(&journal, out)?;
    let partition = journal.identity.partition;
    let first = journal.reader.before_first();
    let mut follower = JournalFollower::after(&journal.reader, partition, first);
    loop {
        let batches = follower.read_next(READ_BYTES)?;
        if batches.is_empty() {
            return Ok(());
        }
        for batch in batches.iter().filter(|batch| batch.header.number.0 >= arguments.from) {
            write_batch(batch, arguments.records, out)?;
        }
    }
}

/// Opens a journal, or the one of a data directory, which then stays locked.
fn open(path: &Path) -> Result<(ReadOnlyJournal, Option<DataDirectory>), Box<dyn Error>> {
    if path.join("head").exists() || !path.is_dir() {
        return Ok((open_read_only(path, None, None)?, None));
    }
    let directory = DataDirectory::open_read_only(path)?;
    let identity =
        JournalIdentity { directory_id: DirectoryId(directory.id()), partition: PARTITION };
    let journal = open_read_only(&directory.journal_path(), Some(&identity), None)?;
    Ok((journal, Some(directory)))
}

fn write_summary(journal: &ReadOnlyJournal, out: &mut impl Write) -> io::Result<()> {
    let ReadOnlyJournal { identity, first, tip, .. } = journal;
    writeln!(
        out,
        "journal of directory {}, partition {}: batches {} to {}, epoch {}, last record {}",
        hex(&identity.directory_id.0),
        identity.partition,
        first.0,
        tip.number.0,
        tip.epoch.0,
        tip.last_seq,
    )
}

fn write_batch(
    batch: &ProvenBatch,
    with_records: bool,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let header = &batch.header;
    let hash = hex(&batch.hash.0[..HASH_PREFIX_BYTES]);
    let place = format!("{:>8}  epoch {:<4}", header.number.0, header.epoch.0);
    if header.kind == BatchKind::Barrier {
        writeln!(out, "{place}  barrier  {hash}  next record {}", header.first_seq)?;
        return Ok(());
    }
    let records: Vec<Record> = records(batch.payload()).collect::<Result<_, _>>()?;
    let (first_at, last_at) = (records.first(), records.last());
    let time = |record: Option<&Record>| record.map_or_else(String::new, |record| time(record.at));
    writeln!(
        out,
        "{place}  batch    {hash}  records {}-{} ({}), {} bytes, {} to {}",
        header.first_seq,
        header.last_seq(),
        header.record_count,
        header.payload_len,
        time(first_at),
        time(last_at),
    )?;
    writeln!(out, "          {}", counts_of_kinds(&records))?;
    if with_records {
        records.iter().try_for_each(|record| write_record(record, out))?;
    }
    Ok(())
}

/// How many effects of each kind, in the order of their names.
fn counts_of_kinds(records: &[Record]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for effect in records.iter().flat_map(|record| &record.effects) {
        *counts.entry(parts_of(effect).0).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    counts.join(", ")
}

fn write_record(record: &Record, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "            record {} at {}", record.seq.0, time(record.at))?;
    for (kind, content) in record.effects.iter().map(parts_of) {
        writeln!(out, "              {kind} {}", describe(content))?;
    }
    Ok(())
}

/// The kind of an effect, and its content as it is serialized.
fn parts_of(effect: &Effect) -> (String, Value) {
    match effect {
        Effect::Row(row) => {
            (row.resource().to_owned(), json!({ "slot": row.slot(), "id": row.id() }))
        }
        Effect::Transaction(made) => {
            let NewTransaction { record, progress, usage, balances, .. } = &**made;
            let parts = json!({ "record": record, "progress": progress, "usage": usage });
            ("Transaction".to_owned(), json!([parts, { "balances": balances }]))
        }
        _ => {
            // By way of text: a `Value` takes no number as long as a key of a message.
            let text = serde_json::to_string(effect).unwrap_or_default();
            let variant: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap_or_default();
            variant.into_iter().next().unwrap_or_default()
        }
    }
}

/// The names of the fields that are shown: they move money or name a resource. None holds a secret, or
/// is about people.
const SHOWN: &str = "Token User account action actor amount balances card credit_limit day_spent from held id \
    kind ledger line_count object period posted profile progress record requested response_code seq slot \
    spent state to transaction usage";

/// The shown fields of an effect, behind its slot where it has one.
fn describe(mut content: Value) -> String {
    let slot = content.get(0).filter(|first| first.is_number()).map(|slot| format!("{slot} "));
    prune(&mut content);
    let shown = if content.is_object() || content.get(0).is_some() {
        content.to_string()
    } else {
        "(not shown)".to_owned()
    };
    format!("{}{shown}", slot.unwrap_or_default())
}

/// Keeps the shown fields alone.
fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| SHOWN.split(' ').any(|shown| shown == name));
            fields.values_mut().for_each(prune);
        }
        Value::Array(values) => {
            values.retain(|value| value.is_object());
            values.iter_mut().for_each(prune);
        }
        _ => {}
    }
}

fn time(at: Timestamp) -> String {
    DateTime::from_timestamp_micros(at.0).map_or_else(
        || format!("{} us", at.0),
        |time| time.to_rfc3339_opts(SecondsFormat::Micros, true),
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::command::effect::RememberedAnswer;
    use cardswitch_engine::command::record::append_record;
    use cardswitch_engine::command::reply::NetworkReply;
    use cardswitch_engine::domain::allowance::CardUsage;
    use cardswitch_engine::domain::card::CardState;
    use cardswitch_engine::domain::credential::PinVerifier;
    use cardswitch_engine::domain::ids::{CardSlot, RecordSeq};
    use cardswitch_engine::domain::network_key::{
        DuplicateKey, DuplicateWindow, Fingerprint, TraceKey,
    };
    use cardswitch_engine::journal::chain::BatchBuilder;
    use cardswitch_engine::journal::log::Expectation;
    use cardswitch_engine::journal::{ChainPosition, Journal, LogJournal, LogRetention};

    use super::*;

    const ID: [u8; 16] = [0xab; 16];

    /// A data directory whose journal has one batch of two records.
    fn directory_with_two_records(path: &Path) {
        let directory = DataDirectory::create(path, ID).unwrap();
        let identity = JournalIdentity { directory_id: DirectoryId(ID), partition: PARTITION };
        let expected = Expectation { identity, checkpoint: Some(ChainPosition::GENESIS) };
        let retention = LogRetention::of_bytes(1 << 20);
        let mut journal =
            LogJournal::open(&directory.journal_path(), &expected, retention).unwrap();
        let usage = CardUsage { state: CardState::Active, ..CardUsage::default() };
        let pin = Effect::CardPin(CardSlot(4), PinVerifier(0xdead_beef));
        let mut payload = Vec::new();
        let effects = [[Effect::CardUsage(CardSlot(4), usage)], [pin]];
        for (seq, effects) in (1..).zip(&effects) {
            let at = Timestamp(1_795_262_400_000_000 + i64::try_from(seq).unwrap());
            append_record(&mut payload, RecordSeq(seq), at, effects).unwrap();
        }
        let mut builder = BatchBuilder::start(Vec::new());
        builder.push(2, &payload);
        let batch = builder.seal(PARTITION, &journal.tip());
        journal.append(&[batch]).unwrap();
    }

    fn printed(path: &Path) -> String {
        let mut out = Vec::new();
        let arguments = Arguments { path: path.to_owned(), records: true, from: 1 };
        inspect(&arguments, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn prints_batches_and_effects_from_either_directory_and_changes_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        directory_with_two_records(&path);
        let journal = path.join("journal");
        let segment = journal.join("0000000000000001.segment");
        let before = std::fs::read(&segment).unwrap();
        let text = printed(&path);
        for expected in [
            "directory abababababababababababababababab, partition 0: batches 1 to 2, epoch 1",
            "barrier",
            "records 1-2 (2)",
            "2026-11-21T12:00:00.000001Z to 2026-11-21T12:00:00.000002Z",
            "CardPin 1, CardUsage 1",
            r#"CardUsage 4 [{"spent":0,"day_spent":0,"period":0,"state":"Active"}]"#,
            "CardPin 4 (not shown)",
        ] {
            assert!(text.contains(expected), "`{expected}` is not in\n{text}");
        }
        assert!(!text.contains("3735928559") && !text.contains("deadbeef"), "{text}");
        assert_eq!(printed(&journal), text);
        assert_eq!(std::fs::read(&segment).unwrap(), before);
    }

    /// Once, half of all batches had an effect called `Err(Error("number out of range"..`.
    #[test]
    fn an_answer_kept_under_a_long_key_has_its_name() {
        let fingerprint = Fingerprint {
            key: DuplicateKey(u128::MAX),
            trace: Some(TraceKey(u128::MAX - 1)),
            content: 7,
            window: DuplicateWindow::Day,
        };
        let answer = RememberedAnswer {
            fingerprint,
            shares_trace: false,
            expires_at: Timestamp(0),
            reply: NetworkReply::Conflict,
        };
        let (kind, content) = parts_of(&Effect::Answer(Box::new(answer)));
        assert_eq!(kind, "Answer");
        assert!(!describe(content).contains("fingerprint"));
    }

    #[test]
    fn refuses_what_is_no_journal() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("journal");
        std::fs::write(&file, "something else").unwrap();
        let arguments = Arguments { path: file, records: false, from: 1 };
        let error = inspect(&arguments, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("not a journal"), "{error}");
    }
}
