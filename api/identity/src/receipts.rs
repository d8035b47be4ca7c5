//! The files of receipts: `receipts/` in the data directory, each named by the SHA-256 of its
//! content in hex.
//!
//! A file is durable, itself and its entry in the directory, before anything names it. A file that
//! nothing names any more (an upload that a crash cut short, a receipt that was deleted) is removed
//! by a sweep: after the next start, and whenever so much was written that replaced receipts may fill
//! the disk.
//!
//! INVARIANT: a file never changes. The same content uploaded twice is one file.
//! INVARIANT: a sweep removes only what the tables do not name, as they are after each upload that has
//! ended before the sweep began; what was uploaded since, or is under way, stays.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cardswitch_engine::domain::ids::CompanySlot;
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::domain::transaction_tags::ReceiptType;
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_secrets::hex::{array_from_hex, to_hex};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use bytes::Bytes;
use cardswitch_edge::company_turns::{CompanyTurn, CompanyTurns};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields;

/// The name of their directory among the data.
pub const RECEIPTS_DIRECTORY: &str = "receipts";
/// The longest receipt. Units: bytes.
pub const RECEIPT_BYTES_MAX: usize = 10 << 20;
/// How much of a content is in memory while it is sent. Units: bytes.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// How many uploads are in memory at a time; others wait.
const UPLOADS_MAX: usize = 8;
/// How many of them are one company's, so that a slow sender holds up none of the others.
const UPLOADS_OF_COMPANY_MAX: usize = 2;
/// After how much that was written files that nothing names are removed. Units: bytes.
const SWEEP_BYTES: u64 = 256 << 20;
/// How long one waits for its turn.
const TURN_WAIT_MAX: Duration = Duration::from_secs(20);
/// The most characters of a file's name that are kept.
const FILENAME_CHARS_MAX: usize = 200;
/// How a digest is written: two hex digits a byte.
const NAME_LEN: usize = 64;

type Digest = [u8; 32];

/// Other machines that have the same receipts. Both calls may block.
pub trait ReceiptPeers: Send + Sync + std::fmt::Debug {
    /// Gives them a content. Peers that are away ask for it later.
    fn give(&self, digest: &[u8; 32], content: &[u8]);

    /// Returns the content that one of them has under a digest, unproven.
    fn fetch(&self, digest: &[u8; 32]) -> Option<Vec<u8>>;
}

/// The directory of receipts.
#[derive(Debug)]
pub struct ReceiptFiles {
    directory: PathBuf,
    peers: Option<Box<dyn ReceiptPeers>>,
    /// Turns to have an upload in memory.
    uploads: CompanyTurns,
    /// The number of the next file to be written, for a name of its own.
    parts: AtomicU64,
    uploads_noted: Arc<Mutex<UploadNotes>>,
    /// Bytes written since the last sweep began.
    written: AtomicU64,
    sweep_due: Notify,
}

/// The uploads that a sweep must know.
#[derive(Debug, Default)]
struct UploadNotes {
    /// The uploads since the sweep began, or the start, until orphans are removed: the names that are
    /// read of the tables for that may lack them.
    uploaded: Option<HashSet<Digest>>,
    /// The uploads whose change is not decided yet, each as often as there are.
    under_way: HashMap<Digest, usize>,
}

/// A content that is kept. No sweep removes it before this goes, which is once the change that names it
/// is answered.
#[derive(Debug)]
pub struct KeptReceipt {
    /// The SHA-256 of the content.
    pub digest: Digest,
    notes: Arc<Mutex<UploadNotes>>,
}

impl KeptReceipt {
    fn begin(digest: Digest, notes: &Arc<Mutex<UploadNotes>>) -> Self {
        *notes.lock().under_way.entry(digest).or_default() += 1;
        Self { digest, notes: Arc::clone(notes) }
    }
}

impl Drop for KeptReceipt {
    fn drop(&mut self) {
        if let Entry::Occupied(mut uploads) = self.notes.lock().under_way.entry(self.digest) {
            *uploads.get_mut() -= 1;
            if *uploads.get() == 0 {
                uploads.remove();
            }
        }
    }
}

impl ReceiptFiles {
    /// Opens the receipts of a data directory; makes their directory where it is missing.
    pub fn open(data: &Path) -> io::Result<Self> {
        let directory = data.join(RECEIPTS_DIRECTORY);
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        // An existing directory is synced too: its maker may have been killed before the sync.
        File::open(data)?.sync_all()?;
        Ok(Self {
            directory,
            peers: None,
            uploads: CompanyTurns::new(UPLOADS_MAX, UPLOADS_OF_COMPANY_MAX),
            parts: AtomicU64::new(0),
            uploads_noted: Arc::new(Mutex::new(UploadNotes {
                uploaded: Some(HashSet::new()),
                under_way: HashMap::new(),
            })),
            written: AtomicU64::new(0),
            sweep_due: Notify::new(),
        })
    }

    /// The same with other machines, which get the kept contents, and give missing ones.
    #[must_use]
    pub fn with_peers(self, peers: Box<dyn ReceiptPeers>) -> Self {
        Self { peers: Some(peers), ..self }
    }

    /// Waits for a company's turn to have an upload in memory; none where that takes too long.
    pub async fn turn(&self, company: CompanySlot) -> Option<CompanyTurn> {
        tokio::time::timeout(TURN_WAIT_MAX, self.uploads.turn(company)).await.ok()?
    }

    /// Keeps a content, durably. Cost: blocks for two syncs, and for peers.
    pub fn keep(&self, content: &[u8]) -> io::Result<KeptReceipt> {
        let kept = KeptReceipt::begin(digest_of(content), &self.uploads_noted);
        let digest = self.keep_here(content)?;
        if let Some(peers) = &self.peers {
            peers.give(&digest, content);
        }
        Ok(kept)
    }

    /// Keeps a content as `keep`, on this machine alone.
    pub fn keep_here(&self, content: &[u8]) -> io::Result<Digest> {
        let digest = digest_of(content);
        // From here on the content is no orphan.
        if let Some(uploaded) = &mut self.uploads_noted.lock().uploaded {
            uploaded.insert(digest);
        }
        let path = self.path(&digest);
        // A damaged file is written anew.
        if self.read_here(&digest).is_err() {
            let part = self.parts.fetch_add(1, Ordering::Relaxed);
            let part = path.with_extension(format!("{part}.part"));
            write_new(&part, content).inspect_err(|_| drop(std::fs::remove_file(&part)))?;
            std::fs::rename(&part, &path)?;
            let bytes = content.len() as u64;
            if self.written.fetch_add(bytes, Ordering::Relaxed) + bytes >= SWEEP_BYTES {
                self.sweep_due.notify_one();
            }
        }
        // An existing file is synced too: its entry may be no more durable than the upload beside
        // this one.
        File::open(&self.directory)?.sync_all()?;
        Ok(digest)
    }

    /// Reads a content; one that is missing or damaged is fetched from peers first.
    /// Errors: `InvalidData` where the content does not match the file's name.
    pub fn read(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        self.read_here(digest).or_else(|error| {
            let fetched = self.peers.as_ref().and_then(|peers| peers.fetch(digest));
            let Some(content) = fetched.filter(|content| digest_of(content) == *digest) else {
                return Err(error);
            };
            self.keep_here(&content)?;
            Ok(content)
        })
    }

    /// Opens a content, to be read in pieces; one that is missing or damaged is fetched as in `read`.
    /// Errors: as `read`. Cost: blocks, and reads the file once to prove it.
    pub fn open_content(&self, digest: &Digest) -> io::Result<ReceiptContent> {
        self.open_here(digest).or_else(|_| {
            self.read(digest)?;
            self.open_here(digest)
        })
    }

    fn open_here(&self, digest: &Digest) -> io::Result<ReceiptContent> {
        let mut content = ReceiptContent(File::open(self.path(digest))?);
        let mut hash = Sha256::new();
        loop {
            let piece = content.next_piece()?;
            if piece.is_empty() {
                break;
            }
            hash.update(&piece);
        }
        if Digest::from(hash.finalize()) != *digest {
            return Err(damaged());
        }
        content.0.rewind()?;
        Ok(content)
    }

    /// Fetches the files that are `named` and missing from peers. A file that none of them has
    /// stays missing.
    pub fn fetch_missing(&self, named: &HashSet<Digest>) {
        if self.peers.is_some() {
            for digest in named.iter().filter(|digest| !self.path(digest).exists()) {
                // The next reader of the file gets the failure.
                drop(self.read(digest));
            }
        }
    }

    /// Reads a content as `read`, on this machine alone.
    pub fn read_here(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        let bytes_max = RECEIPT_BYTES_MAX as u64 + 1;
        File::open(self.path(digest))?.take(bytes_max).read_to_end(&mut content)?;
        if digest_of(&content) == *digest {
            return Ok(content);
        }
        Err(damaged())
    }

    /// Waits until so much was written since the last sweep that there should be one.
    pub async fn wait_for_sweep(&self) {
        self.sweep_due.notified().await;
    }

    /// Begins a sweep. Uploads that have ended before are in the tables that show everything that is
    /// durable now; the others are noted until orphans are removed.
    pub fn begin_sweep(&self) {
        self.written.store(0, Ordering::Relaxed);
        let mut notes = self.uploads_noted.lock();
        notes.uploaded = Some(notes.under_way.keys().copied().collect());
    }

    /// Removes the files that are not `named`, and returns how many. It ends a sweep, with the names in
    /// tables that show everything from before it began; the first began when this was opened. Uploads
    /// may go on meanwhile.
    pub fn remove_orphans(&self, named: &HashSet<Digest>) -> io::Result<usize> {
        let removed = self.remove_others(named);
        self.uploads_noted.lock().uploaded = None;
        removed
    }

    fn remove_others(&self, named: &HashSet<Digest>) -> io::Result<usize> {
        let mut removed = 0;
        for entry in std::fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let Some(digest) = name.to_str().and_then(parse_digest) else { continue };
            let is_part = name.len() > NAME_LEN;
            // Held while the file goes, so that no upload of the same finds it there.
            let notes = self.uploads_noted.lock();
            let is_new = notes.uploaded.as_ref().is_none_or(|uploaded| uploaded.contains(&digest));
            if !is_new && (is_part || !named.contains(&digest)) {
                std::fs::remove_file(self.directory.join(&name))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.directory.join(to_hex(digest))
    }
}

/// A content that was proven, read from its file in pieces.
#[derive(Debug)]
pub struct ReceiptContent(File);

impl ReceiptContent {
    /// The next piece; an empty one at the end. Cost: blocks.
    pub fn next_piece(&mut self) -> io::Result<Bytes> {
        let mut piece = vec![0; PIECE_BYTES_MAX];
        let bytes = self.0.read(&mut piece)?;
        piece.truncate(bytes);
        Ok(piece.into())
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a receipt is not what its name says")
}

fn digest_of(content: &[u8]) -> Digest {
    Sha256::digest(content).into()
}

/// The receipts that the tables name. Cost: reads the tags of every transaction that has any.
pub fn named_receipts(snapshot: &Snapshot) -> Result<HashSet<[u8; 32]>, StoreError> {
    let mut named = HashSet::new();
    snapshot.each_transaction_tags(|_, tags| {
        if let Some(Some(receipt)) = tags.receipt {
            named.insert(receipt.digest);
        }
    })?;
    Ok(named)
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    // A file that a crash left under this name is overwritten.
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// The SHA-256 of a finished receipt, by its file's name below the data directory.
pub fn receipt_digest(name: &str) -> Option<[u8; 32]> {
    let name = name.strip_prefix(RECEIPTS_DIRECTORY)?.strip_prefix('/')?;
    parse_digest(name).filter(|_| name.len() == NAME_LEN)
}

/// The digest a file's name begins with; none for a file that is not one of these.
fn parse_digest(name: &str) -> Option<Digest> {
    let (hex, rest) = name.split_at_checked(NAME_LEN)?;
    let digest = array_from_hex(hex).filter(|_| rest.is_empty() || rest.ends_with(".part"));
    digest.map(|digest| *digest)
}

/// The type of a content, by its first bytes; none where it is no receipt. A client's word for it
/// does not count.
pub fn sniff(content: &[u8]) -> Option<ReceiptType> {
    const BEGINNINGS: [(&[u8], ReceiptType); 3] = [
        (b"\x89PNG\r\n\x1a\n", ReceiptType::Png),
        (b"\xff\xd8\xff", ReceiptType::Jpeg),
        (b"%PDF-", ReceiptType::Pdf),
    ];
    let found = BEGINNINGS.into_iter().find(|(beginning, _)| content.starts_with(beginning));
    found.map(|(_, kind)| kind)
}

/// The media type of a receipt.
pub const fn media_type(kind: ReceiptType) -> &'static str {
    match kind {
        ReceiptType::Png => "image/png",
        ReceiptType::Jpeg => "image/jpeg",
        ReceiptType::Pdf => "application/pdf",
    }
}

/// How the names of receipts end; the first is given to those that end otherwise.
const fn endings(kind: ReceiptType) -> &'static [&'static str] {
    match kind {
        ReceiptType::Png => &[".png"],
        ReceiptType::Jpeg => &[".jpg", ".jpeg"],
        ReceiptType::Pdf => &[".pdf"],
    }
}

/// The name a receipt is kept under: the last part of the client's name for it, with an ending for
/// its type, since that opens it elsewhere; `receipt` where nothing is left.
/// Errors: a character that steers.
pub fn filename(given: Option<&str>, kind: ReceiptType) -> Result<LineText, Flaw> {
    let last = given.unwrap_or_default().rsplit(['/', '\\']).next().unwrap_or_default().trim();
    let name = if last.trim_matches('.').is_empty() { "receipt" } else { last };
    let lower = name.to_ascii_lowercase();
    let endings = endings(kind);
    let ending = endings.iter().copied().find(|ending| lower.ends_with(ending));
    let stem = ending.map_or(name, |ending| &name[..name.len() - ending.len()]);
    let ending = ending.map_or(endings[0], |ending| &name[name.len() - ending.len()..]);
    let kept: String = stem.chars().take(FILENAME_CHARS_MAX - ending.len()).collect();
    fields::plain(LineText::new(&format!("{kept}{ending}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_are_told_by_how_they_begin() {
        let rows: [(&[u8], Option<ReceiptType>); 8] = [
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0", Some(ReceiptType::Png)),
            (b"\x89PNG\n\x1a\n", None),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", Some(ReceiptType::Jpeg)),
            (b"%PDF-1.7\n", Some(ReceiptType::Pdf)),
            (b" %PDF-1.7\n", None),
            (b"<svg xmlns=", None),
            (b"GIF89a", None),
            (b"", None),
        ];
        for (content, kind) in rows {
            assert_eq!(sniff(content), kind, "{content:?}");
        }
    }

    #[test]
    fn names_are_the_last_part_of_what_was_given_and_end_as_their_content() {
        let long = "x".repeat(300);
        let long_with_ending = format!("{long}.png");
        let cut = format!("{}.png", "x".repeat(FILENAME_CHARS_MAX - 4));
        let rows = [
            (Some("lunch.png"), "lunch.png"),
            (Some("../../etc/passwd"), "passwd.png"),
            (Some("C:\\scans\\lunch 1.png"), "lunch 1.png"),
            (Some("Quittung für 東京.png"), "Quittung für 東京.png"),
            (Some("Scan.PNG"), "Scan.PNG"),
            (Some("evil.hta"), "evil.hta.png"),
            (Some("evil.png.exe "), "evil.png.exe.png"),
            (Some("lunch.pdf"), "lunch.pdf.png"),
            (Some("of \"Søren\", 5%"), "of \"Søren\", 5%.png"),
            (Some(".png"), ".png"),
            (Some(long.as_str()), &cut),
            (Some(long_with_ending.as_str()), &cut),
            (Some(".."), "receipt.png"),
            (Some("scans/"), "receipt.png"),
            (Some(""), "receipt.png"),
            (None, "receipt.png"),
        ];
        for (given, expected) in rows {
            assert_eq!(filename(given, ReceiptType::Png).unwrap(), *expected, "{given:?}");
        }
        assert_eq!(filename(Some("a.JPEG"), ReceiptType::Jpeg).unwrap(), "a.JPEG");
        assert_eq!(filename(None, ReceiptType::Jpeg).unwrap(), "receipt.jpg");
        for hostile in ["a\r\nset-cookie: b", "a\u{202e}gnp.exe", "a\0.png", "a\u{2028}b"] {
            let flaw = filename(Some(hostile), ReceiptType::Png).unwrap_err();
            assert_eq!(flaw.code, "control_character", "{hostile:?}");
        }
    }

    #[test]
    fn the_same_content_is_one_file_that_is_told_from_a_damaged_one() {
        let data = tempfile::tempdir().unwrap();
        let files = ReceiptFiles::open(data.path()).unwrap();
        let digest = files.keep(b"%PDF-1.7 lunch").unwrap().digest;
        assert_eq!(files.keep(b"%PDF-1.7 lunch").unwrap().digest, digest);
        let names = || std::fs::read_dir(data.path().join("receipts")).unwrap().count();
        assert_eq!(names(), 1);
        assert_eq!(files.read(&digest).unwrap(), b"%PDF-1.7 lunch");
        let reopened = ReceiptFiles::open(data.path()).unwrap();
        assert_eq!(reopened.read(&digest).unwrap(), b"%PDF-1.7 lunch");
        let mut content = reopened.open_content(&digest).unwrap();
        let pieces = [content.next_piece().unwrap(), content.next_piece().unwrap()];
        assert_eq!(pieces, [&b"%PDF-1.7 lunch"[..], b""]);
        std::fs::write(files.path(&digest), b"%PDF-1.7 dinner").unwrap();
        assert_eq!(files.read(&digest).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let refused = files.open_content(&digest).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn what_nothing_names_is_removed_but_nothing_that_is_new() {
        let data = tempfile::tempdir().unwrap();
        let files = ReceiptFiles::open(data.path()).unwrap();
        let named = files.keep(b"%PDF-1.7 named").unwrap().digest;
        let orphan = files.keep(b"%PDF-1.7 orphan").unwrap().digest;
        let again = files.keep(b"%PDF-1.7 uploaded again").unwrap().digest;
        std::fs::write(files.path(&orphan).with_extension("0.part"), b"%PDF").unwrap();
        std::fs::write(files.directory.join("README"), b"not a receipt").unwrap();

        let files = ReceiptFiles::open(data.path()).unwrap();
        let new = files.keep(b"%PDF-1.7 new").unwrap().digest;
        files.keep(b"%PDF-1.7 uploaded again").unwrap();
        assert_eq!(files.remove_orphans(&HashSet::from([named])).unwrap(), 2);
        for digest in [named, again, new] {
            files.read(&digest).unwrap();
        }
        assert_eq!(files.read(&orphan).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(files.directory.join("README").exists());
    }

    /// Once, replaced receipts stayed until the next start: a cardholder who replaced one of 10 MiB in a
    /// loop filled the disk.
    #[test]
    fn a_sweep_removes_what_was_replaced_and_nothing_that_is_under_way() {
        let data = tempfile::tempdir().unwrap();
        let files = ReceiptFiles::open(data.path()).unwrap();
        files.remove_orphans(&HashSet::new()).unwrap();
        let keep = |content: &[u8]| files.keep(content).unwrap();
        let replaced = keep(b"%PDF-1.7 replaced").digest;
        let named = keep(b"%PDF-1.7 named").digest;
        let under_way = keep(b"%PDF-1.7 under way");
        let twice = [keep(b"%PDF-1.7 twice"), keep(b"%PDF-1.7 twice")];
        let [one, other] = twice;
        drop(one);
        files.begin_sweep();
        let ended = under_way.digest;
        drop(under_way);
        let new = keep(b"%PDF-1.7 new").digest;
        assert_eq!(files.remove_orphans(&HashSet::from([named])).unwrap(), 1);
        for digest in [named, ended, other.digest, new] {
            files.read(&digest).unwrap();
        }
        assert_eq!(files.read(&replaced).unwrap_err().kind(), io::ErrorKind::NotFound);

        drop(other);
        files.begin_sweep();
        assert_eq!(files.remove_orphans(&HashSet::from([named])).unwrap(), 3);
        assert!(files.uploads_noted.lock().under_way.is_empty());
    }

    #[test]
    fn digests_are_read_back_from_names() {
        let digest = Digest::from(Sha256::digest(b"x"));
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        for (name, expected) in [
            (name.clone(), Some(digest)),
            (format!("{name}.7.part"), Some(digest)),
            (format!("{name}.txt"), None),
            ("README".to_owned(), None),
            ("é".repeat(40), None),
        ] {
            assert_eq!(parse_digest(&name), expected, "{name}");
        }
    }
}
