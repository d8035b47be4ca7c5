//! The chain of batches: their layout on disk, sealing, and when a batch is valid.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..4 | magic | `CSWJ` |
//! | 4 | format version | 1 |
//! | 5 | kind | 0 barrier, 1 batch |
//! | 6..8 | partition | |
//! | 8..16 | epoch | rises with each open for writing |
//! | 16..24 | number | rises by one, barriers included |
//! | 24..32 | first record | sequence number; for a barrier the one that comes next |
//! | 32..36 | record count | 0 in a barrier, never 0 in a batch |
//! | 36..40 | payload length | bytes |
//! | 40..72 | previous | BLAKE3 of the whole batch before, zero before the first |
//! | 72..76 | place in its group | batches before it that were written together with it |
//! | 76..80 | CRC32C | over bytes 0..76 and the payload |
//! | 80.. | payload | opaque records |
//!
//! All numbers little endian. A change here is another fingerprint, see `layouts`.
//!
//! INVARIANT: a batch is valid only if its CRC is right and it continues the chain (same epoch,
//! next number, previous hash, next record), or is a barrier of a higher epoch that carries the
//! hash of the last valid batch. A batch of a superseded epoch is void to every reader, for ever.

use super::error::{ChainFault, ChainFaultKind};
use super::limits::BATCH_BYTES_MAX;

/// Bytes before the payload.
pub const BATCH_HEADER_BYTES: usize = 80;

pub(super) const BATCH_MAGIC: [u8; 4] = *b"CSWJ";
const FORMAT_VERSION: u8 = 1;

const VERSION_OFFSET: usize = 4;
const KIND_OFFSET: usize = 5;
const PARTITION_OFFSET: usize = 6;
const EPOCH_OFFSET: usize = 8;
pub(super) const NUMBER_OFFSET: usize = 16;
const FIRST_SEQ_OFFSET: usize = 24;
const RECORD_COUNT_OFFSET: usize = 32;
const PAYLOAD_LEN_OFFSET: usize = 36;
const PREVIOUS_OFFSET: usize = 40;
const GROUP_PLACE_OFFSET: usize = 72;
const CRC_OFFSET: usize = 76;

/// A batch's place in its partition; the first is 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BatchNumber(pub u64);

/// Counts the times a partition was opened for writing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Epoch(pub u64);

/// BLAKE3 of a whole batch, header included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainHash(pub [u8; 32]);

/// The purpose of a link of the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchKind {
    /// Opens an epoch; carries no records.
    Barrier,
    /// Carries records.
    Batch,
}

/// The fixed part of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchHeader {
    /// The purpose of the link.
    pub kind: BatchKind,
    /// The partition it belongs to.
    pub partition: u16,
    /// The epoch it was written in.
    pub epoch: Epoch,
    /// Its place in the partition.
    pub number: BatchNumber,
    /// Its first record; for a barrier the record that comes next.
    pub first_seq: u64,
    /// How many records it carries.
    pub record_count: u32,
    /// Bytes of records behind the header.
    pub payload_len: u32,
    /// The hash of the batch before it.
    pub previous: ChainHash,
    /// How many batches before it were written together with it, as one group.
    pub group_place: u32,
}

impl BatchHeader {
    /// Returns the first batch of its group: all before it were durable when it was written.
    pub fn group_start(&self) -> BatchNumber {
        BatchNumber(self.number.0.saturating_sub(u64::from(self.group_place)))
    }

    /// Returns the newest record up to and including this batch.
    pub fn last_seq(&self) -> u64 {
        self.first_seq.saturating_add(u64::from(self.record_count)).saturating_sub(1)
    }
}

/// A place in the chain: the batch that the next one continues. Checkpoints store it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainPosition {
    /// The epoch of the batch.
    pub epoch: Epoch,
    /// Its number.
    pub number: BatchNumber,
    /// Its hash.
    pub hash: ChainHash,
    /// The newest record up to and including it.
    pub last_seq: u64,
}

impl ChainPosition {
    /// Bytes of a stored position.
    pub const BYTES: usize = 56;

    /// The place before the first batch of any chain.
    pub const GENESIS: Self =
        Self { epoch: Epoch(0), number: BatchNumber(0), hash: ChainHash([0; 32]), last_seq: 0 };

    /// Renders the position for a checkpoint: epoch, number, record, hash.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..8].copy_from_slice(&self.epoch.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.last_seq.to_le_bytes());
        bytes[24..].copy_from_slice(&self.hash.0);
        bytes
    }

    /// Reads what `to_bytes` wrote.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        Self {
            epoch: Epoch(u64_at(bytes, 0)),
            number: BatchNumber(u64_at(bytes, 8)),
            last_seq: u64_at(bytes, 16),
            hash: ChainHash(array_at(bytes, 24)),
        }
    }
}

/// A batch that is ready to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SealedBatch {
    /// Its header.
    pub header: BatchHeader,
    /// Its hash, which the next one carries.
    pub hash: ChainHash,
    /// Header and records as they are stored.
    pub bytes: Vec<u8>,
}

impl SealedBatch {
    /// Returns the place in the chain after this batch.
    pub fn position(&self) -> ChainPosition {
        position_after(&self.header, self.hash)
    }

    /// Returns its records.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[BATCH_HEADER_BYTES..]
    }
}

/// Gathers records in the buffer that is stored: what is encoded into it is not copied again.
#[derive(Debug)]
pub struct BatchBuilder {
    bytes: Vec<u8>,
    record_count: u32,
}

impl BatchBuilder {
    /// Starts a batch in `buffer`, whose old content is dropped and whose capacity is kept.
    pub fn start(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.resize(BATCH_HEADER_BYTES, 0);
        Self { bytes: buffer, record_count: 0 }
    }

    /// Adds encoded records.
    pub fn push(&mut self, record_count: u32, records: &[u8]) {
        self.record_count = self.record_count.saturating_add(record_count);
        self.bytes.extend_from_slice(records);
    }

    /// Adds the records of another batch.
    pub fn append(&mut self, other: &Self) {
        self.push(other.record_count, other.records());
    }

    /// Adds a record that `encode` appends to the buffer.
    /// Errors: those of `encode`, after which the batch is of no use.
    pub fn encode<E>(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        encode(&mut self.bytes)?;
        self.record_count += 1;
        Ok(())
    }

    /// Returns the encoded records.
    pub fn records(&self) -> &[u8] {
        &self.bytes[BATCH_HEADER_BYTES..]
    }

    /// Returns how many records there are.
    pub const fn record_count(&self) -> u32 {
        self.record_count
    }

    /// Gives the buffer back.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the size of the batch as it stands, header included.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Tells whether no record was added yet.
    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// Closes the batch as the continuation of `tip`, in its epoch, in a group of its own.
    pub fn seal(self, partition: u16, tip: &ChainPosition) -> SealedBatch {
        self.seal_in_group(partition, tip, 0)
    }

    /// As `seal`, to be written together with the `group_place` batches before it.
    pub fn seal_in_group(
        self,
        partition: u16,
        tip: &ChainPosition,
        group_place: u32,
    ) -> SealedBatch {
        assert!(self.record_count > 0, "a batch carries records");
        assert!(self.bytes.len() <= BATCH_BYTES_MAX, "the caller bounds a batch");
        self.close(BatchKind::Batch, Link { partition, epoch: tip.epoch, group_place }, tip)
    }

    fn close(self, kind: BatchKind, link: Link, tip: &ChainPosition) -> SealedBatch {
        let Link { partition, epoch, group_place } = link;
        let payload_len = u32::try_from(self.bytes.len() - BATCH_HEADER_BYTES)
            .expect("BATCH_BYTES_MAX is below u32::MAX");
        let header = BatchHeader {
            kind,
            partition,
            epoch,
            number: BatchNumber(tip.number.0 + 1),
            first_seq: tip.last_seq + 1,
            record_count: self.record_count,
            payload_len,
            previous: tip.hash,
            group_place,
        };
        let mut bytes = self.bytes;
        write_header(&header, &mut bytes);
        let hash = hash_of(&bytes);
        SealedBatch { header, hash, bytes }
    }
}

/// The fields of a link that do not follow from the link before it.
struct Link {
    partition: u16,
    epoch: Epoch,
    group_place: u32,
}

/// Makes the barrier that opens the epoch after `tip`.
pub fn seal_barrier(partition: u16, tip: &ChainPosition) -> SealedBatch {
    let link = Link { partition, epoch: Epoch(tip.epoch.0 + 1), group_place: 0 };
    BatchBuilder::start(Vec::new()).close(BatchKind::Barrier, link, tip)
}

/// A batch whose bytes are proven, borrowed from where they were read.
#[derive(Clone, Copy, Debug)]
pub struct BatchView<'a> {
    /// Its header.
    pub header: BatchHeader,
    /// Its hash.
    pub hash: ChainHash,
    /// Its records.
    pub payload: &'a [u8],
}

impl BatchView<'_> {
    /// Returns the place in the chain after this batch.
    pub fn position(&self) -> ChainPosition {
        position_after(&self.header, self.hash)
    }
}

/// The next link of a chain, as its reader treats it.
#[derive(Clone, Copy, Debug)]
pub enum ChainLink<'a> {
    /// Records that count.
    Batch(BatchView<'a>),
    /// An epoch that opens.
    Barrier(BatchView<'a>),
    /// A batch of a superseded epoch, to be passed over.
    Void(BatchHeader),
}

/// Walks a chain and proves each link of it.
#[derive(Clone, Debug)]
pub struct ChainCursor {
    partition: u16,
    tip: ChainPosition,
}

impl ChainCursor {
    /// Starts at a known place; the next link has to continue it.
    pub fn after(partition: u16, tip: ChainPosition) -> Self {
        Self { partition, tip }
    }

    /// Returns the last valid batch, or where it started.
    pub fn tip(&self) -> ChainPosition {
        self.tip
    }

    /// Proves the next link and moves on to it.
    /// Errors: the fault with its offset; the cursor stays where it was.
    pub fn accept<'a>(&mut self, bytes: &'a [u8]) -> Result<ChainLink<'a>, ChainFault> {
        let header = decode_header(bytes)?;
        let fault = |offset, what| ChainFault { number: Some(header.number), offset, what };
        if header.partition != self.partition {
            return Err(fault(PARTITION_OFFSET, ChainFaultKind::Partition(header.partition)));
        }
        if header.epoch < self.tip.epoch {
            return Ok(ChainLink::Void(header));
        }
        check_continues(&header, &self.tip).map_err(|(offset, what)| fault(offset, what))?;
        let hash = hash_of(bytes);
        self.tip = position_after(&header, hash);
        let view = BatchView { header, hash, payload: &bytes[BATCH_HEADER_BYTES..] };
        Ok(match header.kind {
            BatchKind::Batch => ChainLink::Batch(view),
            BatchKind::Barrier => ChainLink::Barrier(view),
        })
    }
}

/// Reads a batch's header and checks everything that the batch alone can tell.
/// Errors: the fault with its offset.
pub fn decode_header(bytes: &[u8]) -> Result<BatchHeader, ChainFault> {
    let header = peek_header(bytes)?;
    let fault = |offset, what| ChainFault { number: Some(header.number), offset, what };
    if crc_of(bytes) != u32_at(bytes, CRC_OFFSET) {
        return Err(fault(CRC_OFFSET, ChainFaultKind::Checksum));
    }
    let has_records = header.record_count > 0;
    if has_records != (header.kind == BatchKind::Batch) {
        return Err(fault(RECORD_COUNT_OFFSET, ChainFaultKind::RecordCount));
    }
    Ok(header)
}

/// Whether bytes call themselves the batch after `tip`, whatever else of their header is damaged.
pub(super) fn claims_to_follow(header: &[u8], tip: &ChainPosition) -> bool {
    let is_next = u64_at(header, NUMBER_OFFSET) == tip.number.0 + 1;
    let previous: [u8; 32] = array_at(header, PREVIOUS_OFFSET);
    is_next || (tip.number.0 > 0 && previous == tip.hash.0)
}

/// Reads a header without its checksum, for seeking and for searching damaged files.
pub(super) fn peek_header(bytes: &[u8]) -> Result<BatchHeader, ChainFault> {
    let header = peek_header_prefix(bytes)?;
    if bytes.len() - BATCH_HEADER_BYTES != header.payload_len as usize {
        let number = Some(header.number);
        return Err(ChainFault {
            number,
            offset: PAYLOAD_LEN_OFFSET,
            what: ChainFaultKind::Length,
        });
    }
    Ok(header)
}

/// Reads a header of which nothing is known but that enough bytes may be there.
pub(super) fn peek_header_prefix(bytes: &[u8]) -> Result<BatchHeader, ChainFault> {
    let fault = |offset, what| ChainFault { number: None, offset, what };
    if bytes.len() < BATCH_HEADER_BYTES {
        return Err(fault(bytes.len(), ChainFaultKind::Length));
    }
    if bytes[..BATCH_MAGIC.len()] != BATCH_MAGIC {
        return Err(fault(0, ChainFaultKind::Magic));
    }
    if bytes[VERSION_OFFSET] > FORMAT_VERSION {
        return Err(fault(VERSION_OFFSET, ChainFaultKind::NewerFormat(bytes[VERSION_OFFSET])));
    }
    let kind = match bytes[KIND_OFFSET] {
        0 => BatchKind::Barrier,
        1 => BatchKind::Batch,
        other => return Err(fault(KIND_OFFSET, ChainFaultKind::Kind(other))),
    };
    Ok(BatchHeader {
        kind,
        partition: u16::from_le_bytes(array_at(bytes, PARTITION_OFFSET)),
        epoch: Epoch(u64_at(bytes, EPOCH_OFFSET)),
        number: BatchNumber(u64_at(bytes, NUMBER_OFFSET)),
        first_seq: u64_at(bytes, FIRST_SEQ_OFFSET),
        record_count: u32_at(bytes, RECORD_COUNT_OFFSET),
        payload_len: u32_at(bytes, PAYLOAD_LEN_OFFSET),
        previous: ChainHash(array_at(bytes, PREVIOUS_OFFSET)),
        group_place: u32_at(bytes, GROUP_PLACE_OFFSET),
    })
}

fn check_continues(
    header: &BatchHeader,
    tip: &ChainPosition,
) -> Result<(), (usize, ChainFaultKind)> {
    match header.kind {
        BatchKind::Batch if header.epoch != tip.epoch => {
            return Err((EPOCH_OFFSET, ChainFaultKind::EpochWithoutBarrier));
        }
        BatchKind::Barrier if header.epoch == tip.epoch => {
            return Err((EPOCH_OFFSET, ChainFaultKind::BarrierWithoutEpoch));
        }
        BatchKind::Batch | BatchKind::Barrier => {}
    }
    let expected = BatchNumber(tip.number.0 + 1);
    if header.number != expected {
        return Err((NUMBER_OFFSET, ChainFaultKind::Gap { expected }));
    }
    if header.previous != tip.hash {
        return Err((PREVIOUS_OFFSET, ChainFaultKind::BrokenLink));
    }
    let expected = tip.last_seq + 1;
    if header.first_seq != expected {
        return Err((FIRST_SEQ_OFFSET, ChainFaultKind::SequenceGap { expected }));
    }
    Ok(())
}

fn position_after(header: &BatchHeader, hash: ChainHash) -> ChainPosition {
    ChainPosition { epoch: header.epoch, number: header.number, hash, last_seq: header.last_seq() }
}

fn write_header(header: &BatchHeader, bytes: &mut [u8]) {
    bytes[..BATCH_MAGIC.len()].copy_from_slice(&BATCH_MAGIC);
    bytes[VERSION_OFFSET] = FORMAT_VERSION;
    bytes[KIND_OFFSET] = match header.kind {
        BatchKind::Barrier => 0,
        BatchKind::Batch => 1,
    };
    put(bytes, PARTITION_OFFSET, &header.partition.to_le_bytes());
    put(bytes, EPOCH_OFFSET, &header.epoch.0.to_le_bytes());
    put(bytes, NUMBER_OFFSET, &header.number.0.to_le_bytes());
    put(bytes, FIRST_SEQ_OFFSET, &header.first_seq.to_le_bytes());
    put(bytes, RECORD_COUNT_OFFSET, &header.record_count.to_le_bytes());
    put(bytes, PAYLOAD_LEN_OFFSET, &header.payload_len.to_le_bytes());
    put(bytes, PREVIOUS_OFFSET, &header.previous.0);
    put(bytes, GROUP_PLACE_OFFSET, &header.group_place.to_le_bytes());
    let crc = crc_of(bytes);
    put(bytes, CRC_OFFSET, &crc.to_le_bytes());
}

fn crc_of(bytes: &[u8]) -> u32 {
    let head = crc32c::crc32c(&bytes[..CRC_OFFSET]);
    crc32c::crc32c_append(head, &bytes[BATCH_HEADER_BYTES..])
}

fn hash_of(bytes: &[u8]) -> ChainHash {
    ChainHash(*blake3::hash(bytes).as_bytes())
}

fn put(bytes: &mut [u8], offset: usize, field: &[u8]) {
    bytes[offset..offset + field.len()].copy_from_slice(field);
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, offset))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, offset))
}

/// Callers have checked that the bytes reach behind the field.
fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[offset..offset + N]);
    field
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
