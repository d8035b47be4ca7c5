//! Packed texts of many cards, a block each (`packed/profile.rs`), one behind the other: no allocation
//! and no header for each. A replaced text leaves a hole; when half of everything is holes, all is
//! packed anew.

/// Bytes of one chunk; a longer block has a chunk of its own.
const CHUNK_BYTES: usize = 1 << 20;

/// The place of one card's texts: chunk, start within it and length, 24, 20 and 20 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextRef(u64);

impl TextRef {
    const PART_BITS: u32 = 20;
    const PART_MASK: usize = (1 << Self::PART_BITS) - 1;

    /// INVARIANT: a block is shorter than the record that brought it, which `limits` bounds, and
    /// starts within its chunk.
    fn new(chunk: usize, start: usize, len: usize) -> Self {
        assert!(start <= Self::PART_MASK, "a block starts within its chunk");
        assert!(len <= Self::PART_MASK, "the texts of a card fit the record they came in");
        Self(
            (chunk as u64) << (2 * Self::PART_BITS)
                | (start as u64) << Self::PART_BITS
                | len as u64,
        )
    }

    const fn chunk(self) -> usize {
        (self.0 >> (2 * Self::PART_BITS)) as usize
    }

    const fn start(self) -> usize {
        (self.0 >> Self::PART_BITS) as usize & Self::PART_MASK
    }

    #[expect(clippy::cast_possible_truncation, reason = "cut to the bits of a part")]
    const fn len(self) -> usize {
        self.0 as usize & Self::PART_MASK
    }
}

const _: () = assert!(crate::limits::RECORD_BYTES_MAX <= TextRef::PART_MASK + 1);
const _: () = assert!(CHUNK_BYTES <= TextRef::PART_MASK + 1);

/// The texts of all cards.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    chunks: Vec<Vec<u8>>,
    live: usize,
    holes: usize,
}

impl Texts {
    pub(super) fn get(&self, place: TextRef) -> &[u8] {
        &self.chunks[place.chunk()][place.start()..place.start() + place.len()]
    }

    /// Keeps a block; in the place of the one it replaces where it is not longer.
    pub(super) fn put(&mut self, block: &[u8], replaced: Option<TextRef>) -> TextRef {
        if let Some(place) = replaced {
            self.live -= place.len();
            self.holes += place.len();
            if block.len() <= place.len() {
                let start = place.start();
                self.chunks[place.chunk()][start..start + block.len()].copy_from_slice(block);
                self.live += block.len();
                self.holes -= block.len();
                return TextRef::new(place.chunk(), start, block.len());
            }
        }
        self.append(block)
    }

    fn append(&mut self, block: &[u8]) -> TextRef {
        let has_room = |chunk: &Vec<u8>| chunk.len() + block.len() < CHUNK_BYTES;
        if !self.chunks.last().is_some_and(has_room) {
            self.chunks.push(Vec::with_capacity(CHUNK_BYTES.max(block.len())));
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let start = chunk.len();
        chunk.extend_from_slice(block);
        self.live += block.len();
        TextRef::new(number, start, block.len())
    }

    pub(super) fn is_wasteful(&self) -> bool {
        self.holes > self.live + CHUNK_BYTES
    }

    /// Packs everything anew; `places` are those of all blocks there are.
    pub(super) fn compact<'a>(&mut self, places: impl Iterator<Item = &'a mut TextRef>) {
        let mut packed = Self::default();
        for place in places {
            *place = packed.append(self.get(*place));
        }
        assert!(packed.live == self.live, "every block was taken along");
        *self = packed;
    }

    /// Memory taken. Units: bytes.
    pub(super) fn bytes(&self) -> usize {
        self.chunks.iter().map(Vec::capacity).sum()
    }
}
