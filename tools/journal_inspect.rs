//! Prints a journal, batch by batch: the time, the epoch and the kinds of its records.
//!
//! Reads only, also after the writer was killed: the journal is proven as an open for writing would
//! prove it, and not changed by a byte. A journal in use is refused.
//!
//! Hashes of credentials and tokens, sealed card numbers, names and addresses of people are never
//! printed. Effects are shown by slot, public id, amount and state.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cardswitch_engine::command::NewTransaction;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::record::{Record, records};
use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::domain::account::AccountBalances;
use cardswitch_engine::domain::allowance::CardUsage;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::transaction::TransactionProgress;
use cardswitch_engine::engine::PARTITION;
use cardswitch_engine::journal::log::{ReadOnlyJournal, open_read_only};
use cardswitch_engine::journal::{
    BatchKind, DirectoryId, JournalFollower, JournalIdentity, ProvenBatch,
};
use chrono::{DateTime, SecondsFormat};
use clap::Parser;

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
    let mut follower = JournalFollower::from_first(&journal.reader, partition)?;
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
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for effect in records.iter().flat_map(|record| &record.effects) {
        *counts.entry(kind_of(effect)).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    counts.join(", ")
}

fn write_record(record: &Record, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "            record {} at {}", record.seq.0, time(record.at))?;
    for effect in &record.effects {
        writeln!(out, "              {} {}", kind_of(effect), describe(effect))?;
    }
    Ok(())
}

const fn kind_of(effect: &Effect) -> &'static str {
    match effect {
        Effect::Company(_) => "company",
        Effect::Account(_) => "account",
        Effect::AccountBalances(..) => "account-balances",
        Effect::Row(row) => row.resource(),
        Effect::NetworkKey(_) => "network-key",
        Effect::CardIssued(_) => "card-issued",
        Effect::CardProfile(_) => "card-profile",
        Effect::CardPin(..) => "card-pin",
        Effect::CardZip(..) => "card-zip",
        Effect::AllowanceTerms(..) => "allowance-terms",
        Effect::CardUsage(..) => "card-usage",
        Effect::CardAttempts(..) => "card-attempts",
        Effect::CredentialFailures(..) => "credential-failures",
        Effect::Transaction(..) => "transaction",
        Effect::TransactionProgress(..) => "transaction-progress",
        Effect::Posting(_) => "posting",
        Effect::StatementLine(_) => "statement-line",
        Effect::Answer(_) => "answer",
        Effect::EarlyReversal(_) => "early-reversal",
        Effect::NetworkLog(_) => "network-log",
        Effect::TransactionTags(..) => "transaction-tags",
        Effect::CompanySso(..) => "company-sso",
        Effect::KeyedAnswer(_) => "keyed-answer",
        Effect::Audit(_) => "audit",
        Effect::Increment(_) => "increment",
        Effect::PanGenerations(_) => "pan-generations",
        Effect::CardNumber(..) => "card-number",
    }
}

/// The content of an effect that moves money or names a resource; nothing of secrets and people.
fn describe(effect: &Effect) -> String {
    match effect {
        Effect::Company(row) => format!("{} {} {:?}", row.slot.0, row.id.0, row.state),
        Effect::Account(row) => {
            format!("{} {} credit limit {}", row.slot.0, row.id.0, row.credit_limit.0)
        }
        Effect::AccountBalances(slot, row) => format!("{} {}", slot.0, describe_balances(row)),
        Effect::CardIssued(row) => {
            format!("{} {} account {}", row.profile.slot.0, row.profile.id.0, row.record.account.0)
        }
        Effect::CardUsage(slot, row) => format!("{} {}", slot.0, describe_usage(row)),
        Effect::Row(row) => {
            let slot = row.slot().map_or_else(String::new, |slot| format!("{slot} "));
            format!("{slot}{}", row.id())
        }
        Effect::Audit(row) => {
            let object = row.object.map_or_else(String::new, |object| format!(" {object}"));
            format!("{}{object} by {:?}", row.action, row.actor)
        }
        Effect::Transaction(made) => describe_transaction(made),
        Effect::TransactionProgress(seq, row) => format!("{} {}", seq.0, describe_progress(row)),
        Effect::Increment(row) => {
            format!("transaction {} amount {}", row.transaction.0, row.amount.0)
        }
        Effect::Posting(row) => format!(
            "account {} transaction {} {:?} to {:?} {}",
            row.account.0, row.transaction.0, row.from, row.to, row.amount.0
        ),
        Effect::StatementLine(row) => format!(
            "{} {} account {} number {} amount {} transaction {}",
            row.seq.0, row.id.0, row.account.0, row.number, row.amount.0, row.transaction.0
        ),
        _ => "(not shown)".to_owned(),
    }
}

/// A transaction as it was made, with what it left of its card and its account.
fn describe_transaction(made: &NewTransaction) -> String {
    let NewTransaction { record: row, progress, usage, balances, .. } = made;
    let card = row.card.map_or_else(String::new, |card| format!(" card {}", card.0));
    let usage = usage.map_or_else(String::new, |usage| format!(", {}", describe_usage(&usage)));
    let balances =
        balances.map_or_else(String::new, |after| format!(", {}", describe_balances(&after)));
    format!(
        "{} {} {:?}{card} account {} requested {} code {} {}{usage}{balances}",
        row.seq.0,
        row.id.0,
        row.kind,
        row.account.0,
        row.requested.0,
        row.response_code.number(),
        describe_progress(progress),
    )
}

fn describe_usage(row: &CardUsage) -> String {
    let (spent, today) = (row.spent.0, row.day_spent.0);
    format!("spent {spent} day {today} period {} {:?}", row.period, row.state)
}

fn describe_balances(row: &AccountBalances) -> String {
    format!("ledger {} held {} lines {}", row.ledger.0, row.held.0, row.line_count)
}

fn describe_progress(row: &TransactionProgress) -> String {
    format!("{:?} held {} posted {}", row.state, row.held.total().0, row.posted.0)
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
    use cardswitch_engine::command::record::append_record;
    use cardswitch_engine::domain::card::CardState;
    use cardswitch_engine::domain::credential::PinVerifier;
    use cardswitch_engine::domain::ids::{CardSlot, RecordSeq};
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
            "card-pin 1, card-usage 1",
            "card-usage 4 spent 0 day 0 period 0 Active",
            "card-pin (not shown)",
        ] {
            assert!(text.contains(expected), "`{expected}` is not in\n{text}");
        }
        assert!(!text.contains("3735928559") && !text.contains("deadbeef"), "{text}");
        assert_eq!(printed(&journal), text);
        assert_eq!(std::fs::read(&segment).unwrap(), before);
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
