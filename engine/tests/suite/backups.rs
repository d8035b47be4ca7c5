//! Backups of an engine at work, and directories that come out of them, as of any moment.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cardswitch_engine::backup::{
    CopyBeside, CopyError, CopyStage, RestoreRequest, copy_at_rest, restore,
};
use cardswitch_engine::data_directory::{DataDirectory, DirectoryError};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::engine::OpenError;
use cardswitch_engine::verify::{Verification, verify};

use crate::desk::{Desk, authorization, purchase};
use crate::samples::START;

/// A second of the manual clock. Units: microseconds.
const SECOND: i64 = 1_000_000;

fn proven(path: &Path) -> Verification {
    let found = verify(path).unwrap();
    let wrong: Vec<_> = found.figures.iter().filter(|figure| !figure.is_right()).collect();
    assert!(wrong.is_empty(), "{}: {wrong:?}", path.display());
    found
}

/// No files stand beside those of the engine.
fn nothing(_copy: &Path, _stage: CopyStage) -> io::Result<()> {
    Ok(())
}

fn spend(desk: &Desk, marks: std::ops::Range<u64>) {
    for mark in marks {
        let at = START + mark as i64 * SECOND;
        assert!(authorization(desk.ask_at(at, purchase(1, mark))).response_code.is_approved());
    }
}

#[test]
fn a_backup_holds_what_was_answered_before_it_and_is_proven_like_any_directory() {
    let parent = tempfile::tempdir().unwrap();
    let (data, backup) = (parent.path().join("data"), parent.path().join("backup"));
    let desk = Desk::create(&data);
    desk.set_up_budget(1_000_000);
    spend(&desk, 1..200);
    let copied = desk.engine.back_up(&backup, CopyBeside::new(0, &mut nothing)).unwrap();
    assert_eq!(copied.last_seq, desk.engine.durable_seq());
    desk.engine.shut_down();
    drop(desk);
    let (original, copy) = (proven(&data), proven(&backup));
    assert_eq!((original.state_hash, original.records), (copy.state_hash, copy.records));
    // It is one that an engine goes on with.
    let desk = Desk::open(&backup);
    spend(&desk, 200..210);
    desk.engine.shut_down();
    drop(desk);
    assert_eq!(proven(&backup).records, copy.records + 10);
}

/// Once, the files beside the engine's did not count: with many receipts a backup could fill the disk and end the
/// switch.
#[test]
fn a_backup_is_not_begun_without_room_for_the_files_beside_the_engines() {
    let parent = tempfile::tempdir().unwrap();
    let (data, backup) = (parent.path().join("data"), parent.path().join("backup"));
    let desk = Desk::create(&data);
    assert!(desk.engine.check_room_for_backup(&backup, 0).unwrap() > 0);
    let refused = desk.engine.back_up(&backup, CopyBeside::new(u64::MAX, &mut nothing));
    let refused = refused.unwrap_err();
    let earlier = desk.engine.check_room_for_backup(&backup, u64::MAX).unwrap_err();
    for error in [refused, earlier] {
        assert!(matches!(error, CopyError::NoRoom { needed: u64::MAX, .. }), "{error}");
    }
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "nothing is left behind");
    desk.engine.shut_down();
}

#[test]
fn only_a_copy_that_was_cut_short_makes_room_for_another() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let (backup, unfinished) = (parent.path().join("b"), parent.path().join("b.unfinished"));
    let desk = Desk::create(&data);
    desk.set_up_budget(1_000_000);
    fs::create_dir(&unfinished).unwrap();
    fs::write(unfinished.join("letters"), "mine").unwrap();
    let error = desk.engine.back_up(&backup, CopyBeside::new(0, &mut nothing)).unwrap_err();
    assert!(matches!(error, CopyError::InTheWay(_)), "{error}");
    assert_eq!(fs::read_to_string(unfinished.join("letters")).unwrap(), "mine");
    // A copy that another process is making.
    fs::remove_file(unfinished.join("letters")).unwrap();
    let other = DataDirectory::create(&unfinished, [7; 16]).unwrap();
    let error = desk.engine.back_up(&backup, CopyBeside::new(0, &mut nothing)).unwrap_err();
    assert!(matches!(error, CopyError::Directory(DirectoryError::InUse(_))), "{error}");
    // A copy that was cut short, and one that had not begun.
    drop(other);
    desk.engine.back_up(&backup, CopyBeside::new(0, &mut nothing)).unwrap();
    fs::remove_dir_all(&backup).unwrap();
    fs::create_dir(&unfinished).unwrap();
    desk.engine.back_up(&backup, CopyBeside::new(0, &mut nothing)).unwrap();
    assert!(!unfinished.exists());
    desk.engine.shut_down();
}

/// Once, a copy that was cut short while its identity was written stood in the way of all later ones, as did one of
/// another build.
#[test]
fn a_copy_that_has_no_identity_of_this_build_makes_room_for_another() {
    let parent = tempfile::tempdir().unwrap();
    let (backup, unfinished) = (parent.path().join("b"), parent.path().join("b.unfinished"));
    let desk = Desk::create(&parent.path().join("data"));
    desk.set_up_budget(1_000_000);
    let back_up = || desk.engine.back_up(&backup, CopyBeside::new(0, &mut nothing));
    let identity = fs::read_to_string(parent.path().join("data").join("directory")).unwrap();
    let of_another_build = identity.replace("layouts ", "layouts 0");
    let leftovers =
        [("directory.new", &identity[..20]), ("directory", ""), ("directory", &of_another_build)];
    for (name, content) in leftovers {
        fs::create_dir(&unfinished).unwrap();
        fs::write(unfinished.join(name), content).unwrap();
        back_up().unwrap();
        fs::remove_dir_all(&backup).unwrap();
    }
    // A copy that another process has just begun, and somebody's letters.
    fs::create_dir(&unfinished).unwrap();
    let begun = fs::File::create(unfinished.join("directory.new")).unwrap();
    begun.lock().unwrap();
    let error = back_up().unwrap_err();
    assert!(matches!(error, CopyError::Directory(DirectoryError::InUse(_))), "{error}");
    drop(begun);
    fs::write(unfinished.join("letters"), "mine").unwrap();
    let error = back_up().unwrap_err();
    assert!(matches!(error, CopyError::InTheWay(_)), "{error}");
    assert_eq!(fs::read_to_string(unfinished.join("letters")).unwrap(), "mine");
    desk.engine.shut_down();
}

#[test]
fn backups_under_load_are_whole_each_one() {
    let parent = tempfile::tempdir().unwrap();
    let desk = Desk::create(&parent.path().join("data"));
    desk.set_up_budget(1_000_000_000);
    let is_over = AtomicBool::new(false);
    let engine = Arc::clone(&desk.engine);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut mark = 1;
            while !is_over.load(Ordering::Relaxed) {
                spend(&desk, mark..mark + 100);
                mark += 100;
            }
        });
        let mut seen = 0;
        for number in 0..5 {
            let before = engine.durable_seq();
            let path = parent.path().join(format!("backup-{number}"));
            let copied = engine.back_up(&path, CopyBeside::new(0, &mut nothing)).unwrap();
            assert!(copied.last_seq >= before && copied.last_seq.0 >= seen);
            seen = copied.last_seq.0;
            assert_eq!(proven(&path).records, seen);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_directory_comes_back_as_of_any_moment_the_journal_reaches() {
    let parent = tempfile::tempdir().unwrap();
    let (data, backup) = (parent.path().join("data"), parent.path().join("backup"));
    let desk = Desk::create(&data);
    desk.set_up_budget(1_000_000);
    spend(&desk, 1..50);
    // The tables copied are later than the moment that is refused below.
    desk.read();
    let copied = desk.engine.back_up(&backup, CopyBeside::new(0, &mut nothing)).unwrap();
    spend(&desk, 50..120);
    desk.engine.shut_down();
    drop(desk);
    let whole = proven(&data);
    let at = |mark: i64| Timestamp(START + mark * SECOND);
    // Restored by the backup alone; with the journal of the lost directory; as of moments in
    // between.
    let rows = [
        (None, None, copied.last_seq.0),
        (Some(&data), None, whole.records),
        (Some(&data), Some(at(119)), whole.records),
        (Some(&data), Some(at(80)), copied.last_seq.0 + 31),
        (Some(&data), Some(Timestamp(at(80).0 - 1)), copied.last_seq.0 + 30),
        (Some(&data), Some(at(49)), copied.last_seq.0),
    ];
    for (number, (journal, until, records)) in rows.into_iter().enumerate() {
        let to = parent.path().join(format!("restored-{number}"));
        let wanted = RestoreRequest {
            further_journal: journal.map(|path| path.as_path()),
            until,
            check: None,
        };
        let restored = restore(&backup, &to, &wanted, CopyBeside::new(0, &mut nothing)).unwrap();
        assert_eq!((restored.last_seq.0, proven(&to).records), (records, records), "{wanted:?}");
        let has_all = journal.is_none() || records == whole.records;
        assert_eq!(restored.is_cut, !has_all, "{wanted:?}");
        let desk = Desk::open(&to);
        let mark = 1_000 + number as u64;
        spend(&desk, mark..mark + 1);
        desk.engine.shut_down();
        drop(desk);
        proven(&to);
    }
    let to = parent.path().join("restored-1");
    assert_eq!(proven(&data).state_hash, whole.state_hash, "the source is only read");
    assert!(matches!(
        restore(&backup, &to, &RestoreRequest::default(), CopyBeside::new(0, &mut nothing)),
        Err(CopyError::Exists(_))
    ));
    let early = RestoreRequest { until: Some(at(1)), ..RestoreRequest::default() };
    let to = parent.path().join("early");
    assert!(matches!(
        restore(&backup, &to, &early, CopyBeside::new(0, &mut nothing)),
        Err(CopyError::TooLate { .. })
    ));
    assert!(!to.exists());
}

#[test]
fn what_cannot_be_copied_leaves_nothing_behind() {
    let parent = tempfile::tempdir().unwrap();
    let (data, to) = (parent.path().join("data"), parent.path().join("copy"));
    let desk = Desk::create(&data);
    desk.set_up_budget(1_000);
    spend(&desk, 1..20);
    // In use by the engine.
    assert!(matches!(
        copy_at_rest(&data, &to, CopyBeside::new(0, &mut nothing)),
        Err(CopyError::Directory(_))
    ));
    assert!(matches!(
        desk.engine.back_up(&data, CopyBeside::new(0, &mut nothing)),
        Err(CopyError::Exists(_))
    ));
    desk.engine.shut_down();
    drop(desk);
    copy_at_rest(&data, &to, CopyBeside::new(0, &mut nothing)).unwrap();
    assert_eq!(proven(&to).state_hash, proven(&data).state_hash);
    fs::remove_dir_all(&to).unwrap();
    // Another directory's journal, and damage in the middle of one.
    let other = parent.path().join("other");
    let foreign =
        cardswitch_engine::data_directory::DataDirectory::create(&other, [9; 16]).unwrap();
    let options = crate::desk::options(foreign, crate::desk::manual());
    drop(cardswitch_engine::engine::Engine::open(options).unwrap());
    let wanted = RestoreRequest { further_journal: Some(&other), until: None, check: None };
    assert!(matches!(
        restore(&data, &to, &wanted, CopyBeside::new(0, &mut nothing)),
        Err(CopyError::Open(OpenError::Journal(_)))
    ));
    let journal = data.join("journal").join("0000000000000001.segment");
    let mut bytes = fs::read(&journal).unwrap();
    // The last batch, which was acknowledged.
    let place = bytes.windows(4).rposition(|window| window == b"CSWJ").unwrap() + 100;
    bytes[place] ^= 1;
    fs::write(&journal, bytes).unwrap();
    assert!(copy_at_rest(&data, &to, CopyBeside::new(0, &mut nothing)).is_err());
    let left: Vec<_> = fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

/// A journal is named to bring something back: silence would pass for that.
#[test]
fn a_journal_that_adds_nothing_or_tells_another_history_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let path = |name: &str| parent.path().join(name);
    let (data, early, later) = (path("data"), path("early"), path("later"));
    let desk = Desk::create(&data);
    desk.set_up_budget(1_000_000);
    spend(&desk, 1..20);
    desk.engine.back_up(&early, CopyBeside::new(0, &mut nothing)).unwrap();
    spend(&desk, 20..40);
    desk.engine.back_up(&later, CopyBeside::new(0, &mut nothing)).unwrap();
    desk.engine.shut_down();
    drop(desk);
    // A copy that went on by itself, and further than the original.
    let fork = path("fork");
    restore(&early, &fork, &RestoreRequest::default(), CopyBeside::new(0, &mut nothing)).unwrap();
    let desk = Desk::open(&fork);
    spend(&desk, 100..160);
    desk.engine.shut_down();
    drop(desk);
    let with = |journal: &Path| {
        let wanted = RestoreRequest { further_journal: Some(journal), until: None, check: None };
        restore(&later, &path("restored"), &wanted, CopyBeside::new(0, &mut nothing))
    };
    for journal in [&early, &later] {
        let refused = with(journal).unwrap_err();
        assert!(matches!(refused, CopyError::NothingFurther { last: Some(_), .. }), "{refused}");
        assert!(refused.to_string().contains("it adds nothing"), "{refused}");
    }
    let refused = with(&fork).unwrap_err();
    assert!(matches!(refused, CopyError::OtherHistory { .. }), "{refused}");
    assert!(!path("restored").exists() && !path("restored.unfinished").exists());
}
