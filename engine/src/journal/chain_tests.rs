use super::*;

const PARTITION: u16 = 2;

fn sealed(tip: &ChainPosition, records: &[u8]) -> SealedBatch {
    let mut builder = BatchBuilder::start(Vec::new());
    builder.push(u32::try_from(records.len()).unwrap(), records);
    builder.seal(PARTITION, tip)
}

/// A chain of a barrier and `batches` batches of three records.
fn chain(batches: usize) -> Vec<SealedBatch> {
    let mut chain = vec![seal_barrier(PARTITION, &ChainPosition::GENESIS)];
    for _ in 0..batches {
        let tip = chain.last().unwrap().position();
        chain.push(sealed(&tip, b"abc"));
    }
    chain
}

/// Changes a sealed batch and makes its checksum right again.
fn forged(batch: &SealedBatch, change: impl FnOnce(&mut BatchHeader)) -> Vec<u8> {
    let mut header = batch.header;
    change(&mut header);
    let mut bytes = batch.bytes.clone();
    write_header(&header, &mut bytes);
    bytes
}

fn cursor_after(batch: &SealedBatch) -> ChainCursor {
    ChainCursor::after(PARTITION, batch.position())
}

#[test]
fn a_chain_is_accepted_link_by_link() {
    let chain = chain(3);
    let mut cursor = ChainCursor::after(PARTITION, ChainPosition::GENESIS);
    assert!(matches!(cursor.accept(&chain[0].bytes), Ok(ChainLink::Barrier(_))));
    for batch in &chain[1..] {
        let Ok(ChainLink::Batch(view)) = cursor.accept(&batch.bytes) else { panic!("refused") };
        assert_eq!((view.header, view.hash, view.payload), (batch.header, batch.hash, &b"abc"[..]));
    }
    assert_eq!(cursor.tip(), chain[3].position());
    assert_eq!(chain[3].position().last_seq, 9);
}

#[test]
fn faults_are_named_with_their_offset() {
    let chain = chain(3);
    let next = &chain[2];
    type Change = fn(&mut BatchHeader);
    let rows: [(&str, Change, usize, ChainFaultKind); 8] = [
        (
            "gap",
            |h| h.number = BatchNumber(7),
            16,
            ChainFaultKind::Gap { expected: BatchNumber(3) },
        ),
        (
            "repeated",
            |h| h.number = BatchNumber(2),
            16,
            ChainFaultKind::Gap { expected: BatchNumber(3) },
        ),
        ("broken link", |h| h.previous.0[31] ^= 1, 40, ChainFaultKind::BrokenLink),
        ("record gap", |h| h.first_seq += 1, 24, ChainFaultKind::SequenceGap { expected: 4 }),
        ("partition", |h| h.partition = 9, 6, ChainFaultKind::Partition(9)),
        ("no barrier", |h| h.epoch = Epoch(2), 8, ChainFaultKind::EpochWithoutBarrier),
        ("empty batch", |h| h.record_count = 0, 32, ChainFaultKind::RecordCount),
        ("full barrier", |h| h.kind = BatchKind::Barrier, 32, ChainFaultKind::RecordCount),
    ];
    for (name, change, offset, what) in rows {
        let mut cursor = cursor_after(&chain[1]);
        let fault = cursor.accept(&forged(next, change)).unwrap_err();
        assert_eq!((fault.offset, fault.what), (offset, what), "{name}");
        assert_eq!(cursor.tip(), chain[1].position(), "{name}: the cursor stays");
        assert!(cursor.accept(&next.bytes).is_ok(), "{name}: the true one is still accepted");
    }
}

#[test]
fn every_flipped_byte_is_refused() {
    let chain = chain(1);
    for at in 0..chain[1].bytes.len() {
        let mut bytes = chain[1].bytes.clone();
        bytes[at] ^= 0x40;
        assert!(cursor_after(&chain[0]).accept(&bytes).is_err(), "byte {at}");
    }
}

#[test]
fn every_torn_length_is_refused() {
    let chain = chain(1);
    for len in 0..chain[1].bytes.len() {
        let fault = cursor_after(&chain[0]).accept(&chain[1].bytes[..len]).unwrap_err();
        assert_eq!(fault.what, ChainFaultKind::Length, "{len} bytes");
    }
}

#[test]
fn a_newer_layout_is_named() {
    let mut bytes = chain(1)[1].bytes.clone();
    bytes[VERSION_OFFSET] = 2;
    assert_eq!(decode_header(&bytes).unwrap_err().what, ChainFaultKind::NewerFormat(2));
}

#[test]
fn a_barrier_of_a_higher_epoch_continues_the_chain() {
    let chain = chain(2);
    let tip = chain[2].position();
    let barrier = seal_barrier(PARTITION, &tip);
    let mut cursor = ChainCursor::after(PARTITION, tip);
    assert!(matches!(cursor.accept(&barrier.bytes), Ok(ChainLink::Barrier(_))));
    let next = sealed(&barrier.position(), b"d");
    assert!(matches!(cursor.accept(&next.bytes), Ok(ChainLink::Batch(_))));
    assert_eq!((next.header.epoch, next.header.first_seq), (Epoch(2), 7));
}

#[test]
fn a_barrier_that_does_not_raise_the_epoch_is_refused() {
    let chain = chain(2);
    let barrier = seal_barrier(PARTITION, &chain[2].position());
    let bytes = forged(&barrier, |header| header.epoch = Epoch(1));
    let fault = cursor_after(&chain[2]).accept(&bytes).unwrap_err();
    assert_eq!(fault.what, ChainFaultKind::BarrierWithoutEpoch);
}

#[test]
fn a_batch_of_a_superseded_epoch_is_void_for_ever() {
    let chain = chain(2);
    let late = sealed(&chain[2].position(), b"late");
    let barrier = seal_barrier(PARTITION, &chain[2].position());
    let mut cursor = cursor_after(&barrier);
    let next = sealed(&barrier.position(), b"d");
    for _ in 0..2 {
        assert!(matches!(cursor.accept(&late.bytes), Ok(ChainLink::Void(h)) if h == late.header));
        assert_eq!(cursor.tip(), barrier.position());
    }
    assert!(cursor.accept(&next.bytes).is_ok());
    assert!(matches!(cursor.accept(&late.bytes), Ok(ChainLink::Void(_))));
}

#[test]
fn a_position_is_read_back() {
    let position = chain(2)[2].position();
    assert_eq!(ChainPosition::from_bytes(&position.to_bytes()), position);
}

/// The golden bytes of format 1, made outside of this code from the layout table: a journal
/// written once has to stay readable.
#[test]
fn the_layout_is_the_golden_one() {
    let barrier = seal_barrier(PARTITION, &ChainPosition::GENESIS);
    let batch = sealed(&barrier.position(), b"abc");
    assert_eq!(hex(&barrier.bytes), GOLDEN_BARRIER);
    assert_eq!(hex(&batch.bytes), GOLDEN_BATCH);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const GOLDEN_BARRIER: &str = concat!(
    "4353574a010002000100000000000000010000000000000001000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000000000003c668683",
);
const GOLDEN_BATCH: &str = concat!(
    "4353574a010102000100000000000000020000000000000001000000000000000300000003000000",
    "5a7841855ddd4ec59a573fe93c5050298825d2fa023039019808b9451673f3bc000000002fc082ae",
    "616263",
);
