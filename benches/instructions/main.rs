//! A program of a known amount of work, for `benches/instructions/check` to count its
//! instructions.
//!
//! `instructions STAGE COUNT` makes the same small card program every time, then takes COUNT
//! purchases through one stage. Two runs with different counts differ by the purchases alone, so
//! that start and end cancel out. Nothing here looks at a clock or a random source.

use std::hint::black_box;
use std::process::ExitCode;

use cardswitch_dialects::find;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::record::{append_record, record_views};
use cardswitch_engine::journal::{BatchNumber, ChainPosition};
use cardswitch_engine::store::{CommitKind, Projection, Store};
use cardswitch_iso8583::{
    AnswerMessage, Dialect, Echo, MessageBuilder, Mti, RepeatedFields, decode,
};
use cardswitch_program::{
    BareShard, Program, Purchases, Random, StandardPurchase, ample_balances, card_records,
    founding, pan_hash,
};
use redb::backends::InMemoryBackend;

const CARDS: u64 = 1_000;
const SEED: u64 = 17;
/// As many as the shard takes at a time, at most.
const BATCH_LEN: u64 = 500;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let stage = arguments.next().unwrap_or_default();
    let count = arguments.next().and_then(|count| count.parse().ok());
    match (stage.as_str(), count) {
        ("decide", Some(count)) => report(decide(count)),
        ("shard_and_record", Some(count)) => report(take_and_record(count)),
        ("engine_batches", Some(count)) => report(take_batches(count)),
        ("batches_projected", Some(count)) => report(project(count)),
        (dialect, Some(count)) if dialect.starts_with(CODEC) => {
            report(translate(&dialect[CODEC.len()..], count))
        }
        _ => {
            eprintln!(
                "usage: instructions \
                 decide|shard_and_record|engine_batches|batches_projected|codec_DIALECT COUNT"
            );
            ExitCode::FAILURE
        }
    }
}

/// Prints what came out, so that no work can be optimized away.
fn report(result: u64) -> ExitCode {
    println!("{result}");
    ExitCode::SUCCESS
}

/// The rules alone. Returns how many purchases they approve.
fn decide(count: u64) -> u64 {
    let (cards, balances, asked) =
        (card_records(CARDS), ample_balances(), StandardPurchase::at_start());
    let mut random = Random::new(SEED);
    let mut approved = 0;
    for _ in 0..count {
        let slot = usize::try_from(random.below(CARDS)).unwrap_or(0);
        approved += u64::from(asked.decide(&cards[slot], &balances).is_empty());
    }
    approved
}

/// `execute`, encode and `apply`. Returns how many bytes the records have.
fn take_and_record(count: u64) -> u64 {
    let (mut shard, mut purchases) = (BareShard::with_cards(CARDS), Purchases::new(CARDS, SEED));
    let (mut payload, mut bytes) = (Vec::with_capacity(1 << 16), 0);
    for _ in 0..count {
        shard.take_and_encode(&purchases.next_command(), |seq, at, effects| {
            payload.clear();
            let written = append_record(&mut payload, seq, at, effects);
            assert!(written.is_ok(), "the effects of one command fit a record");
            bytes += payload.len() as u64;
        });
    }
    bytes
}

/// As `take_and_record` in a shard with the limits of an engine, batch by batch as its loop takes
/// them. Returns how many bytes the records have.
fn take_batches(count: u64) -> u64 {
    let mut shard = BareShard::bounded();
    shard.found(Program::of_one_company(CARDS));
    let mut bytes = 0;
    purchase_batches(&mut shard, count, |payload| bytes += payload.len() as u64);
    bytes
}

/// Takes so many purchases; shows the records of each batch to `visit`.
fn purchase_batches(shard: &mut BareShard, count: u64, mut visit: impl FnMut(&[u8])) {
    let mut purchases = Purchases::new(CARDS, SEED);
    let mut payload = Vec::with_capacity(1 << 20);
    for _ in 0..count / BATCH_LEN {
        let commands: Vec<_> = (0..BATCH_LEN).map(|_| purchases.next_command()).collect();
        payload.clear();
        take_batch(shard, &commands, &mut payload);
        visit(&payload);
    }
}

/// Takes a batch, and appends its records to `payload`.
fn take_batch(shard: &mut BareShard, commands: &[Command], payload: &mut Vec<u8>) {
    let mut encode = |seq, at, effects: &[Effect]| {
        let written = append_record(payload, seq, at, effects);
        assert!(written.is_ok(), "the effects of one command fit a record");
    };
    shard.take_batch(commands, &mut encode, &mut |_| {});
}

/// As `take_batches`; each batch becomes one visible commit of tables in memory. Returns the number of
/// records.
fn project(count: u64) -> u64 {
    let store = Store::open_with_backend(InMemoryBackend::new(), [0; 16]).expect(IN_MEMORY);
    let mut position = ChainPosition::GENESIS;
    let mut commit = |payload: &[u8]| {
        let mut projection = Projection::default();
        projection.reserve(payload.len());
        for record in record_views(payload) {
            projection.project(record.expect(IN_MEMORY)).expect(IN_MEMORY);
        }
        position.number = BatchNumber(position.number.0 + 1);
        position.last_seq += projection.records;
        store.commit(&projection, position, CommitKind::Visible).expect(IN_MEMORY);
    };
    let (mut shard, mut payload) = (BareShard::bounded(), Vec::new());
    let founding: Vec<_> = founding(Program::of_one_company(CARDS), pan_hash).collect();
    take_batch(&mut shard, &founding, &mut payload);
    commit(&payload);
    purchase_batches(&mut shard, count, commit);
    shard.state.last_seq().0
}

const IN_MEMORY: &str = "records and tables in memory are sound";

/// Runs the codec on a message in one of the shipped dialects: it is read, the elements that its
/// answer repeats are kept, and it is answered as approved. Returns the bytes of the answers.
fn translate(dialect: &str, count: u64) -> u64 {
    let dialect = find(dialect).expect(SHIPPED);
    let frame = purchase(&dialect);
    let (mut plain, mut repeated) = (Vec::with_capacity(4_096), RepeatedFields::NONE);
    let (mut out, mut bytes) = (Vec::with_capacity(4_096), 0);
    for _ in 0..count {
        let frame = black_box(&frame[..]);
        plain.clear();
        out.clear();
        let message = match &dialect.translation {
            Some(translation) => {
                let read = translation.read(frame, &mut plain, &mut repeated).expect(SHIPPED);
                read.message(&plain)
            }
            None => decode(frame),
        };
        let echo = Echo::of(&message.expect(SHIPPED));
        let approved = AnswerMessage::to(&echo).expect(SHIPPED);
        let approved = approved.set(38, b"A1B2C3").set(39, b"00").set(44, b"0");
        let approved = approved.set(54, b"0002840C000000012345");
        match &dialect.translation {
            Some(translation) => {
                translation.write_answer(&approved, &repeated, &mut out).expect(SHIPPED);
            }
            None => approved.encode(&mut out).expect(SHIPPED),
        }
        bytes += black_box(&out).len() as u64;
    }
    bytes
}

const CODEC: &str = "codec_";
const SHIPPED: &str = "a shipped dialect";

/// A purchase of seventeen elements, as a dialect has it.
fn purchase(dialect: &Dialect) -> Vec<u8> {
    let mut plain = Vec::new();
    let built = MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
        .set_text(2, "4111111111111111")
        .set_number(3, 0)
        .set_number(4, 1_250)
        .set_number(7, 115_120_000)
        .set_number(11, 42)
        .set_number(12, 120_000)
        .set_number(13, 115)
        .set_number(14, 2_912)
        .set_number(18, 5_411)
        .set_number(22, 51)
        .set_number(25, 0)
        .set_text(32, "400001")
        .set_text(37, "RRN000000042")
        .set_text(41, "TERM0001")
        .set_text(42, "MERCHANT0000001")
        .set_text(43, "OUTSIDE GROCERY       SAN FRANCISCOCA US")
        .set_number(49, 840);
    built.encode(&mut plain).expect(SHIPPED);
    let mut wire = Vec::new();
    match &dialect.translation {
        Some(translation) => {
            translation.write(&plain, &RepeatedFields::NONE, &mut wire).expect(SHIPPED)
        }
        None => wire = plain,
    }
    wire
}
