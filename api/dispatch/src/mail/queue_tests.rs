//! The mail queue across restarts and crashes: the waiting letters, and their order.

use cardswitch_engine::disk::Disk;
use cardswitch_engine::journal::testing::{DiskFaultPlan, FaultyDisk};

use super::*;
use crate::mail::limits::FILE_BYTES_MAX;
use crate::mail::store::MailDirectory;

const START: Duration = Duration::ZERO;
const MINUTE: Duration = Duration::from_secs(60);
const NEVER: Tries = Tries { all: 0, refusals: 0 };

fn open(disk: &FaultyDisk) -> (MailQueue, Vec<Uuid>) {
    let store = MailDirectory::open(Arc::new(disk.clone())).unwrap();
    MailQueue::open(Arc::new(store), START).unwrap()
}

fn add(queue: &MailQueue, id: Uuid, urgency: Urgency) -> Result<(), QueueError> {
    queue.add_letter(id, urgency, id.as_bytes(), START)
}

fn ids<const N: usize>() -> [Uuid; N] {
    std::array::from_fn(|at| Uuid::from_u128(at as u128 + 1))
}

#[test]
fn letters_outlive_the_process_in_their_order_and_news_beside_them() {
    let disk = FaultyDisk::default();
    let (queue, held) = open(&disk);
    assert!(held.is_empty() && queue.next(START) == NextLetter::None);
    let [one, two, three, news, other] = ids();
    for id in [one, two, three] {
        add(&queue, id, Urgency::InTurn).unwrap();
    }
    queue.hold(news, Urgency::First, b"news").unwrap();
    queue.hold(other, Urgency::First, b"news").unwrap();
    queue.withdraw(other);
    assert_eq!(queue.len(), 4);

    let (queue, held) = open(&disk.after_kill());
    assert_eq!((held.as_slice(), queue.len()), ([news].as_slice(), 4));
    assert_eq!(queue.read_news(news).unwrap(), b"news");
    for id in [one, two, three] {
        assert_eq!(queue.next(START), NextLetter::Due(id, NEVER));
        let (urgency, letter) = queue.read_letter(id).unwrap();
        assert_eq!((urgency, letter.as_slice()), (Urgency::InTurn, id.as_bytes().as_slice()));
        queue.finish(id);
    }
    assert_eq!((queue.next(START), queue.len()), (NextLetter::None, 1));
}

#[test]
fn news_becomes_a_letter_once_whatever_a_crash_leaves() {
    let disk = FaultyDisk::default();
    let (queue, _) = open(&disk);
    let [id, half] = ids();
    queue.hold(id, Urgency::InTurn, b"news").unwrap();
    add(&queue, id, Urgency::InTurn).unwrap();
    assert_eq!((disk.names().unwrap(), queue.len()), (vec![format!("{id}.due")], 1));
    // The files left by a process killed before it removed the held file, within another letter, and
    // within the file of the last decline.
    for name in [format!("{id}.held"), format!(".{half}.due.part"), ".cursor.part".to_owned()] {
        disk.create(&name).unwrap();
    }
    let (queue, held) = open(&disk);
    assert!(held.is_empty());
    assert_eq!(disk.names().unwrap(), [format!("{id}.due")]);
    assert_eq!(queue.next(START), NextLetter::Due(id, NEVER));
    queue.finish(id);
    let (queue, held) = open(&disk);
    assert!(held.is_empty() && queue.is_empty(), "its letter would come again");
}

/// Letters go first also before those that waited earlier, and also after a restart.
#[test]
fn letters_that_go_first_wait_behind_no_others() {
    let disk = FaultyDisk::default();
    let (queue, _) = open(&disk);
    let [bulk, first, more, second] = ids();
    for (id, urgency) in [
        (bulk, Urgency::InTurn),
        (first, Urgency::First),
        (more, Urgency::InTurn),
        (second, Urgency::First),
    ] {
        add(&queue, id, urgency).unwrap();
    }
    assert_eq!(queue.next(START), NextLetter::Due(first, NEVER));
    // A letter that was put off holds up no other, and goes first when it is due again.
    queue.put_back(first, Tries { all: 1, refusals: 0 }, MINUTE);
    for expected in [second, bulk, more] {
        assert_eq!(queue.next(START), NextLetter::Due(expected, NEVER));
    }
    let (queue, held) = open(&disk);
    assert!(held.is_empty() && queue.len() == 4);
    for expected in [first, second, bulk, more] {
        assert_eq!(queue.next(START), NextLetter::Due(expected, NEVER));
        queue.finish(expected);
    }
    assert_eq!((queue.len(), disk.names().unwrap()), (0, Vec::new()));
}

#[test]
fn bulk_leaves_room_for_letters_that_go_first() {
    let (queue, _) = open(&FaultyDisk::default());
    let [bulk, news, held, first, last] = ids();
    queue.waiting.lock().files = QUEUE_IN_TURN_MAX;
    assert!(matches!(add(&queue, bulk, Urgency::InTurn), Err(QueueError::Full)));
    assert!(matches!(queue.hold(news, Urgency::InTurn, b""), Err(QueueError::Full)));
    queue.hold(held, Urgency::First, b"").unwrap();
    add(&queue, first, Urgency::First).unwrap();
    queue.waiting.lock().files = QUEUE_LETTERS_MAX;
    assert!(matches!(add(&queue, last, Urgency::First), Err(QueueError::Full)));
}

#[test]
fn a_letter_that_was_put_off_waits_behind_others() {
    let (queue, _) = open(&FaultyDisk::default());
    let [first, second] = ids();
    add(&queue, first, Urgency::InTurn).unwrap();
    add(&queue, second, Urgency::InTurn).unwrap();
    let tries = Tries { all: 1, refusals: 0 };
    assert_eq!(queue.next(START), NextLetter::Due(first, NEVER));
    queue.put_back(first, tries, MINUTE);
    assert_eq!(queue.next(START), NextLetter::Due(second, NEVER));
    assert_eq!(queue.next(START), NextLetter::At(MINUTE));
    assert_eq!(queue.next(MINUTE), NextLetter::Due(first, tries));
}

#[test]
fn a_file_that_cannot_be_written_takes_no_room() {
    let disk = FaultyDisk::default();
    let (queue, _) = open(&disk);
    let [letter, news] = ids();
    disk.plan(DiskFaultPlan { disk_full_bytes: Some(0), ..DiskFaultPlan::default() });
    assert!(matches!(add(&queue, letter, Urgency::First), Err(QueueError::Write(_))));
    assert!(matches!(queue.hold(news, Urgency::First, b"x"), Err(QueueError::Write(_))));
    assert_eq!((queue.len(), queue.next(START)), (0, NextLetter::None));
    assert_eq!(disk.names().unwrap(), Vec::<String>::new());
}

/// The story of the bug: the directory was not synced, so the letter's caller was refused. The next
/// time the file was found, and the caller was told that the letter waits: it was neither durable
/// nor among the letters to send.
#[test]
fn a_letter_whose_entry_was_not_synced_is_not_taken_for_written() {
    let disk = FaultyDisk::default();
    let (queue, _) = open(&disk);
    let [id] = ids();
    disk.plan(DiskFaultPlan { fail_sync: Some(2), ..DiskFaultPlan::default() });
    for _ in 0..2 {
        assert!(matches!(add(&queue, id, Urgency::InTurn), Err(QueueError::Write(_))));
        assert_eq!((queue.len(), queue.next(START)), (0, NextLetter::None));
    }
    assert_eq!(disk.names().unwrap(), [format!("{id}.due")]);
    let (queue, _) = open(&disk.after_power_failure());
    assert!(queue.is_empty());
    add(&queue, id, Urgency::InTurn).unwrap();
    add(&queue, id, Urgency::InTurn).unwrap();
    assert_eq!((queue.len(), queue.next(START)), (1, NextLetter::Due(id, NEVER)));
    add(&queue, id, Urgency::InTurn).unwrap();
    assert_eq!(queue.next(START), NextLetter::None, "it is on its way");
}

#[test]
fn a_file_that_is_too_long_was_not_written_here() {
    let disk = FaultyDisk::default();
    let [id] = ids();
    let file = disk.create(&format!("{id}.held")).unwrap();
    file.write(FILE_BYTES_MAX, b"x").unwrap();
    let (queue, held) = open(&disk);
    assert_eq!(held, [id]);
    assert!(matches!(queue.read_news(id), Err(QueueError::Foreign)));
}

#[test]
fn an_id_tells_when_its_letter_was_handed_in() {
    let id = uuid::Builder::from_unix_timestamp_millis(60_000, &[7; 10]).into_uuid();
    assert_eq!(age(id, 3 * MINUTE), 2 * MINUTE);
    assert_eq!(age(id, START), START, "a clock that was put back");
}
