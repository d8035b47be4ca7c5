//! The stored state of deliveries, across faults of the disk and formats.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cardswitch_engine::journal::testing::{DiskFaultPlan, FaultyBackend};
use redb::backends::FileBackend;

use super::*;
use crate::attempt::{AttemptFailure, AttemptKind, AttemptResult, Bodies};

const FIRST: WebhookEndpointId = WebhookEndpointId(Uuid::from_u128(1));
const SECOND: WebhookEndpointId = WebhookEndpointId(Uuid::from_u128(2));

/// The attempt at a place.
fn attempt(place: u64) -> Attempt {
    Attempt {
        id: Uuid::from_u128(u128::from(place)),
        message: Uuid::from_u128(9),
        kind: AttemptKind::Event,
        tries: 1,
        at: Timestamp(7),
        duration_ms: 12,
        result: AttemptResult::Unanswered(AttemptFailure::TooSlow),
        again_at: Some(Timestamp(8)),
        is_last: false,
        events: vec![EventNumber(3), EventNumber(5)],
        bodies: Bodies { request: "[]".to_owned(), answer: "slow".to_owned() },
    }
}

fn kept(number: u64) -> KeptLane {
    let gone_url = Some("https://a.example/".to_owned()).filter(|_| number.is_multiple_of(2));
    let (lane, on_since) = (Lane::after(EventNumber(number)), Timestamp(5));
    let companies = vec![CompanySlot(0), CompanySlot(300)];
    KeptLane { lane, attempts: number, on_since, gone_url, companies }
}

fn place(number: u64, at: i64) -> EventPlace {
    EventPlace { number: EventNumber(number), at: Some(Timestamp(at)) }
}

/// Pages in disorder made redb panic, and the switch did not start.
#[test]
fn a_damaged_file_is_put_aside_whatever_is_wrong_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let (file, aside) = (directory.path().join(FILE), directory.path().join(DAMAGED_FILE));
    let deliveries = Deliveries::open(directory.path()).unwrap();
    let lanes = vec![(FIRST, kept(7)), (SECOND, kept(8))];
    deliveries.save(&Changes { followed: place(40, 3), lanes, ..Changes::default() }).unwrap();
    drop(deliveries);
    let whole = std::fs::read(&file).unwrap();
    let mut put_aside = 0;
    for at in (0..whole.len()).step_by(509) {
        let mut flipped = whole.clone();
        flipped[at..].iter_mut().take(64).for_each(|byte| *byte ^= 0xff);
        for damaged in [flipped, whole[..at].to_vec()] {
            std::fs::write(&file, damaged).unwrap();
            let deliveries = Deliveries::open(directory.path()).unwrap();
            let loaded = deliveries.load().unwrap();
            let is_aside = std::fs::remove_file(&aside).is_ok();
            put_aside += usize::from(is_aside);
            assert!(!is_aside || loaded.followed.is_none(), "it begins anew");
            let followed = place(41, 3);
            deliveries.save(&Changes { followed, ..Changes::default() }).unwrap();
        }
    }
    assert!(put_aside > 0, "nothing was tested");
    // No damage: the file stays.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert!(Deliveries::open(directory.path()).is_err() && !aside.exists());
}

#[test]
fn what_was_saved_is_there_after_opening_again() {
    let directory = tempfile::tempdir().unwrap();
    let deliveries = Deliveries::open(directory.path()).unwrap();
    assert!(deliveries.load().unwrap().followed.is_none());
    let changes = Changes {
        followed: place(40, -3),
        lanes: vec![(FIRST, kept(7)), (SECOND, kept(8))],
        attempts: vec![(FIRST, 0, attempt(0))],
        ..Changes::default()
    };
    deliveries.save(&changes).unwrap();
    let series = deliveries.series();
    drop(deliveries);
    let deliveries = Deliveries::open(directory.path()).unwrap();
    let loaded = deliveries.load().unwrap();
    assert_eq!((loaded.followed, deliveries.series()), (Some(place(40, -3)), series));
    assert_eq!(loaded.lanes, [(FIRST, kept(7)), (SECOND, kept(8))]);
    assert_eq!(deliveries.attempts(FIRST).unwrap(), [attempt(0)]);
    assert!(deliveries.attempts(SECOND).unwrap().is_empty());
    let another = deliveries.draw_series();
    deliveries.save(&Changes { series: Some(another), ..Changes::default() }).unwrap();
    assert_eq!(deliveries.series(), another);
    drop(deliveries);
    assert!(another != series && Deliveries::open(directory.path()).unwrap().series() == another);
}

#[test]
fn attempts_are_bounded_and_go_with_their_endpoint() {
    let directory = tempfile::tempdir().unwrap();
    let deliveries = Deliveries::open(directory.path()).unwrap();
    let attempts = (0..u64::from(ATTEMPTS_MAX) + 30).map(|place| (FIRST, place, attempt(place)));
    let lanes = vec![(FIRST, kept(7))];
    let changes = Changes { lanes, attempts: attempts.collect(), ..Changes::default() };
    deliveries.save(&changes).unwrap();
    let ids: std::collections::BTreeSet<_> =
        deliveries.attempts(FIRST).unwrap().iter().map(|attempt| attempt.id.as_u128()).collect();
    let expected: Vec<_> = (30..130).collect();
    assert_eq!(ids.into_iter().collect::<Vec<_>>(), expected);
    deliveries.save(&Changes { removed: vec![FIRST], ..Changes::default() }).unwrap();
    assert!(deliveries.attempts(FIRST).unwrap().is_empty());
    assert!(deliveries.load().unwrap().lanes.is_empty());
}

#[test]
fn damaged_values_are_refused() {
    let lane = render(&kept(7)).unwrap();
    assert_eq!(parse::<KeptLane>(&lane).unwrap(), kept(7));
    for bytes in [&[][..], &[9, 1, 2, 3], &lane[..lane.len() - 1]] {
        let (lane, attempt) = (parse::<KeptLane>(bytes), parse::<Attempt>(bytes));
        assert!(lane.is_err() && attempt.is_err(), "{bytes:?}");
    }
    let mut bytes = render(&attempt(1)).unwrap();
    bytes.pop();
    assert!(parse::<Attempt>(&bytes).is_err());
}

/// A disk without room for as long as `is_full`.
#[derive(Debug)]
struct Disk {
    file: FileBackend,
    is_full: Arc<AtomicBool>,
}

impl Disk {
    fn check(&self) -> io::Result<()> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.file.write(offset, data)
    }
}

#[test]
fn a_file_that_could_not_be_written_is_written_once_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE);
    let is_full = Arc::new(AtomicBool::new(false));
    let storage = {
        let is_full = Arc::clone(&is_full);
        move || {
            let mut options = std::fs::OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false);
            let file = FileBackend::new(options.open(&path).unwrap())?;
            Ok(SharedBackend::new(Disk { file, is_full: Arc::clone(&is_full) }))
        }
    };
    let deliveries = Deliveries::on(Box::new(storage), Box::new(Uuid::new_v4)).unwrap();
    let save = |number: u64| {
        let lanes = vec![(FIRST, kept(number))];
        let attempts = vec![(FIRST, number, attempt(number))];
        let followed = place(number, 1);
        deliveries.save(&Changes { followed, lanes, attempts, ..Changes::default() })
    };
    save(1).unwrap();
    is_full.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        assert!(matches!(save(2), Err(DeliveriesError::Database(_))));
    }
    is_full.store(false, Ordering::Relaxed);
    assert_eq!(deliveries.load().unwrap().followed, Some(place(1, 1)));
    save(3).unwrap();
    let loaded = deliveries.load().unwrap();
    assert_eq!((loaded.followed, loaded.lanes), (Some(place(3, 1)), vec![(FIRST, kept(3))]));
    assert_eq!(deliveries.attempts(FIRST).unwrap(), [attempt(1), attempt(3)]);
}

/// Once, a switch that went down while it made the file did not start any more: the file was held for
/// another program's. The simulated world of seed 394 found it.
#[test]
fn a_file_that_a_crash_left_unfinished_is_made_anew() {
    let open = |file: &FaultyBackend| {
        let file = file.clone();
        let storage = move || Ok(SharedBackend::new(file.clone()));
        Deliveries::on(Box::new(storage), Box::new(Uuid::new_v4))
    };
    let mut unfinished = 0;
    for nth in 1.. {
        let file = FaultyBackend::new();
        file.plan(DiskFaultPlan { fail_write: Some(nth), ..DiskFaultPlan::default() });
        let is_made = open(&file).is_ok();
        let torn = (0..20).map(|seed| file.after_torn_power_failure(seed));
        for left in torn.chain([file.after_kill(), file.after_power_failure()]) {
            unfinished += u64::from(!left.content().is_empty() && left.content()[0] == 0);
            open(&left).unwrap().save(&Changes::default()).unwrap();
        }
        if is_made && file.writes() < nth {
            break;
        }
    }
    assert!(unfinished > 0);
    let foreign = FaultyBackend::with_content(b"of another program".to_vec());
    assert!(open(&foreign).is_err());
}
