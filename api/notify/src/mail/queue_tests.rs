//! The mail queue across restarts and crashes: the waiting letters, their order, and their secrecy.

use std::os::unix::fs::PermissionsExt;

use cardswitch_engine::directory::shared_link::Recipient;

use super::*;

const KEY: &str = "7f3a-key-of-a-link";

fn secrets() -> Arc<Secrets> {
    Arc::new(Secrets::from_root([5; 32]))
}

fn parcel(to: &str) -> Parcel {
    Parcel { to: to.to_owned(), message: format!("To: {to}\r\n\r\n{KEY}\r\n") }
}

fn news() -> News {
    News::NewPassword { key: KEY.to_owned() }
}

fn names(data: &Path) -> Vec<String> {
    let entries = fs::read_dir(data.join(DIRECTORY)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn letters_outlive_the_process_in_their_order_and_news_beside_them() {
    let data = tempfile::tempdir().unwrap();
    let (queue, held) = Queue::open(data.path(), secrets()).unwrap();
    assert!(held.is_empty() && queue.next(Instant::now()) == Next::Nothing);
    let ids: Vec<_> = (0..5).map(|_| Uuid::now_v7()).collect();
    for id in &ids[..3] {
        queue.add_letter(*id, Urgency::InTurn, &parcel(&format!("{id}@example.com"))).unwrap();
    }
    queue.hold(ids[3], &news()).unwrap();
    queue.hold(ids[4], &news()).unwrap();
    queue.withdraw(ids[4]);
    assert_eq!(queue.len(), 4);
    drop(queue);

    let (queue, held) = Queue::open(data.path(), secrets()).unwrap();
    assert_eq!((held.as_slice(), queue.len()), (&ids[3..4], 4));
    assert!(matches!(queue.read_news(ids[3]).unwrap(), News::NewPassword { key } if key == KEY));
    for id in &ids[..3] {
        assert_eq!(queue.next(Instant::now()), Next::Letter(*id, Tries::default()));
        assert_eq!(queue.read_letter(*id).unwrap().to, format!("{id}@example.com"));
        queue.finish(*id);
    }
    assert_eq!((queue.next(Instant::now()), queue.len()), (Next::Nothing, 1));
}

#[test]
fn news_becomes_a_letter_once_whatever_a_crash_leaves() {
    let data = tempfile::tempdir().unwrap();
    let (queue, _) = Queue::open(data.path(), secrets()).unwrap();
    let id = Uuid::now_v7();
    queue.hold(id, &news()).unwrap();
    let before = fs::read(data.path().join(DIRECTORY).join(format!("{id}.held"))).unwrap();
    queue.add_letter(id, Urgency::InTurn, &parcel("ada@example.com")).unwrap();
    assert_eq!((names(data.path()), queue.len()), (vec![format!("{id}.due")], 1));
    // The files left by a process killed before it removed the held file, and within another
    // letter.
    fs::write(data.path().join(DIRECTORY).join(format!("{id}.held")), before).unwrap();
    fs::write(data.path().join(DIRECTORY).join(format!(".{}", Uuid::now_v7())), b"x").unwrap();
    let (queue, held) = Queue::open(data.path(), secrets()).unwrap();
    assert!(held.is_empty());
    assert_eq!(names(data.path()), [format!("{id}.due")]);
    assert!(matches!(queue.next(Instant::now()), Next::Letter(found, _) if found == id));
    queue.finish(id);
    let (queue, held) = Queue::open(data.path(), secrets()).unwrap();
    assert!(held.is_empty() && queue.len() == 0, "it is told of again");
}

#[test]
fn files_are_sealed_private_and_bound_to_their_names() {
    let data = tempfile::tempdir().unwrap();
    let (queue, _) = Queue::open(data.path(), secrets()).unwrap();
    let [id, other] = [Uuid::now_v7(), Uuid::now_v7()];
    queue.add_letter(id, Urgency::InTurn, &parcel("ada@example.com")).unwrap();
    let path = queue.path(id, MailFile::Due);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(queue.directory.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let bytes = fs::read(&path).unwrap();
    for clear in [KEY, "ada@example.com"] {
        assert!(!bytes.windows(clear.len()).any(|part| part == clear.as_bytes()), "{clear}");
    }
    for copy in [queue.path(other, MailFile::Due), queue.path(id, MailFile::Held)] {
        fs::write(&copy, &bytes).unwrap();
    }
    assert!(matches!(queue.read_letter(other), Err(MailError::Foreign)));
    assert!(matches!(queue.read_news(id), Err(MailError::Foreign)));
    let (foreign, _) = Queue::open(data.path(), Arc::new(Secrets::from_root([6; 32]))).unwrap();
    assert!(matches!(foreign.read_letter(id), Err(MailError::Foreign)));
}

/// Letters go first also before those that waited earlier, and also after a restart.
#[test]
fn letters_that_go_first_wait_behind_no_others() {
    let data = tempfile::tempdir().unwrap();
    let (queue, _) = Queue::open(data.path(), secrets()).unwrap();
    let ids: Vec<_> = (0..4).map(|_| Uuid::now_v7()).collect();
    let [bulk, first, more, second] = [ids[0], ids[1], ids[2], ids[3]];
    for (id, urgency) in [
        (bulk, Urgency::InTurn),
        (first, Urgency::First),
        (more, Urgency::InTurn),
        (second, Urgency::First),
    ] {
        queue.add_letter(id, urgency, &parcel("ada@example.com")).unwrap();
    }
    assert!(matches!(queue.next(Instant::now()), Next::Letter(id, _) if id == first));
    assert_eq!(queue.read_letter(first).unwrap().to, "ada@example.com");
    // A letter that was put off holds up no other, and goes first when it is due again.
    queue.again(first, Tries { all: 1, refusals: 0 }, Duration::from_secs(60));
    let mut order = Vec::new();
    while let Next::Letter(id, _) = queue.next(Instant::now()) {
        order.push(id);
    }
    assert_eq!(order, [second, bulk, more]);
    drop(queue);

    let (queue, held) = Queue::open(data.path(), secrets()).unwrap();
    assert!(held.is_empty() && queue.len() == 4);
    for expected in [first, second, bulk, more] {
        assert!(matches!(queue.next(Instant::now()), Next::Letter(id, _) if id == expected));
        queue.finish(expected);
    }
    assert_eq!((queue.len(), names(data.path())), (0, Vec::new()));
}

#[test]
fn bulk_leaves_room_for_letters_that_go_first() {
    let data = tempfile::tempdir().unwrap();
    let (queue, _) = Queue::open(data.path(), secrets()).unwrap();
    queue.waiting.lock().files = QUEUE_IN_TURN_MAX;
    let add = |urgency| queue.add_letter(Uuid::now_v7(), urgency, &parcel("ada@example.com"));
    assert!(matches!(add(Urgency::InTurn), Err(MailError::Full)));
    let shared = News::SharedLink {
        company: Uuid::nil(),
        link: Uuid::nil(),
        recipient: Recipient { name: "Bo".parse().unwrap(), email: "bo@example.com".to_owned() },
        message: None,
    };
    assert!(matches!(queue.hold(Uuid::now_v7(), &shared), Err(MailError::Full)));
    queue.hold(Uuid::now_v7(), &news()).unwrap();
    add(Urgency::First).unwrap();
    queue.waiting.lock().files = QUEUE_LETTERS_MAX;
    assert!(matches!(add(Urgency::First), Err(MailError::Full)));
}

#[test]
fn a_letter_that_was_put_off_waits_behind_others() {
    let data = tempfile::tempdir().unwrap();
    let (queue, _) = Queue::open(data.path(), secrets()).unwrap();
    let [first, second] = [Uuid::now_v7(), Uuid::now_v7()];
    queue.add_letter(first, Urgency::InTurn, &parcel("ada@example.com")).unwrap();
    queue.add_letter(second, Urgency::InTurn, &parcel("bob@example.com")).unwrap();
    let tries = Tries { all: 1, refusals: 0 };
    assert!(matches!(queue.next(Instant::now()), Next::Letter(id, _) if id == first));
    queue.again(first, tries, Duration::from_secs(60));
    assert!(matches!(queue.next(Instant::now()), Next::Letter(id, _) if id == second));
    let Next::Wait(at) = queue.next(Instant::now()) else { panic!("it waits") };
    assert_eq!(queue.next(at), Next::Letter(first, tries));
    assert!(age(first) < Duration::from_secs(3_600), "{:?}", age(first));
}
