//! The file of keys: it reads back, and nothing that is not whole and of this master key passes.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::private_file::unfinished;

fn secrets() -> Secrets {
    Secrets::from_root([3; 32])
}

fn keys(count: u8) -> PanKeys {
    let with = |keys: PanKeys, byte: u8| {
        keys.with(Timestamp(1_767_600_000_123_000 + i64::from(byte)), Zeroizing::new([byte; 32]))
    };
    (1..=count).try_fold(PanKeys::default(), with).unwrap()
}

fn numbers(keys: &PanKeys) -> Vec<u32> {
    keys.generations().map(|generation| generation.0).collect()
}

#[test]
fn keys_read_back_from_a_private_file_that_shows_none() {
    let data = tempfile::tempdir().unwrap();
    assert_eq!(secrets().read_pan_keys(data.path()).unwrap(), PanKeys::default());
    for written in [keys(1), keys(3), keys(3).with_newest_alone()] {
        // An unfinished file that a crash left beside it does not matter.
        fs::write(unfinished(&PanKeys::path(data.path())), "cut").unwrap();
        secrets().write_pan_keys(data.path(), &written).unwrap();
        assert_eq!(secrets().read_pan_keys(data.path()).unwrap(), written);
        assert!(!unfinished(&PanKeys::path(data.path())).exists());
    }
    let path = PanKeys::path(data.path());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains("\noldest 3\ngeneration 3 2026-"), "{text}");
    assert!(!text.contains(&"03".repeat(8)), "a key in clear: {text}");
    let shown = format!("{:?}", keys(1));
    assert_eq!(shown, "[PanGeneration(0), PanGeneration(1)]");
}

#[test]
fn generations_are_counted_on_and_forgotten() {
    assert_eq!((numbers(&PanKeys::default()), PanKeys::default().newest().0), (vec![0], 0));
    let three = keys(3);
    assert_eq!((numbers(&three), three.newest().0), (vec![0, 1, 2, 3], 3));
    let last = three.with_newest_alone();
    assert_eq!((numbers(&last), last.newest().0), (vec![3], 3));
    let within = |oldest, newest| three.within(PanGeneration(oldest)..=PanGeneration(newest));
    assert_eq!(
        [within(0, 2), within(1, 2), within(3, 9)].map(|keys| numbers(&keys)),
        [vec![0, 1, 2], vec![1, 2], vec![3]]
    );
    assert_eq!(last.within(PanGeneration(0)..=PanGeneration(9)), last);
    let next = last.with(Timestamp(9), Zeroizing::new([9; 32])).unwrap();
    assert_eq!((numbers(&next), next.made_at(PanGeneration(4))), (vec![3, 4], Some(Timestamp(9))));
    assert_eq!(PanKeys::default().with_newest_alone(), PanKeys::default());
    let mut most = PanKeys::default();
    while most.generations().count() < PAN_GENERATIONS_MAX {
        most = most.with(Timestamp(0), Zeroizing::new([1; 32])).unwrap();
    }
    let refused = most.with(Timestamp(0), Zeroizing::new([1; 32]));
    assert!(matches!(refused, Err(PanKeysError::TooMany)));
    let data = tempfile::tempdir().unwrap();
    secrets().write_pan_keys(data.path(), &most).unwrap();
    assert_eq!(
        secrets().read_pan_keys(data.path()).unwrap(),
        most,
        "the most that is kept is read"
    );
}

#[test]
fn keys_of_one_history_are_put_together() {
    let (path, all) = (Path::new("there"), keys(3));
    let (early, late) = (keys(1), all.with_newest_alone());
    assert_eq!(numbers(&early.merged(&late, path).unwrap()), [0, 1, 3]);
    assert_eq!(late.merged(&all, path).unwrap(), all);
    assert_eq!(PanKeys::default().merged(&all, path).unwrap(), all);
    let other = PanKeys::default().with(Timestamp(0), Zeroizing::new([77; 32])).unwrap();
    let refused = all.merged(&other, path).unwrap_err();
    assert!(matches!(refused, PanKeysError::Differing(_, PanGeneration(1))), "{refused}");
}

#[test]
fn what_is_not_whole_or_of_another_master_is_refused() {
    let data = tempfile::tempdir().unwrap();
    secrets().write_pan_keys(data.path(), &keys(2)).unwrap();
    let path = PanKeys::path(data.path());
    let whole = fs::read(&path).unwrap();
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        secrets().read_pan_keys(data.path())
    };
    assert_eq!(read(&whole).unwrap(), keys(2));
    for position in 0..whole.len() {
        let mut changed = whole.clone();
        changed[position] ^= 1;
        assert!(read(&changed).is_err(), "byte {position}");
        let mut high = whole.clone();
        high[position] ^= 0x80;
        assert!(read(&high).is_err(), "byte {position}, no text");
        assert!(read(&whole[..position]).is_err(), "cut at {position}");
    }
    assert!(read(&[&whole[..], b"\n"].concat()).is_err(), "something behind it");
    // A line of another file of the same master: the sum is of all lines.
    let text = String::from_utf8(whole.clone()).unwrap();
    let without: String = text
        .lines()
        .filter(|line| !line.starts_with("generation 2"))
        .map(|l| format!("{l}\n"))
        .collect();
    let refused = read(without.as_bytes()).unwrap_err();
    assert!(refused.to_string().contains("are damaged or belong to another directory"));
    let later = text.replace("format 1", "format 2");
    assert!(matches!(read(later.as_bytes()), Err(PanKeysError::NewerFormat(_))));
    fs::write(&path, &whole).unwrap();
    let foreign = Secrets::from_root([4; 32]).read_pan_keys(data.path());
    assert!(matches!(foreign, Err(PanKeysError::Damaged(..))));
}
