//! The notes of leaders in a map, which two connections share.

use std::collections::BTreeMap;
use std::time::Duration;

use cardswitch_engine::journal::testing::FaultyDisk;
use uuid::Uuid;

use super::*;
use crate::mail::cluster_mail::NotedMail;
use crate::mail::queue::{MailQueue, NextLetter, Tries, Urgency};
use crate::mail::store::{MailDirectory, MailStore};

const PREFIX: &str = "a/";

type NoteContents = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A connection of a node that leads in `epoch`.
#[derive(Debug)]
struct NoteMap {
    content: NoteContents,
    epoch: Option<u64>,
    /// Of so many changes no answer comes, though they are made.
    silent: u32,
    /// Whether they arrive when `let_late_arrive` has it.
    is_late: bool,
    late: Vec<(OwnerCondition, Vec<Note>)>,
    /// How many notes each change had.
    changes: Arc<Mutex<Vec<usize>>>,
}

impl NoteStore for NoteMap {
    type Error = io::Error;

    fn led_epoch(&mut self) -> io::Result<Option<Epoch>> {
        Ok(self.epoch.map(Epoch))
    }

    fn change(&mut self, condition: OwnerCondition, changes: Vec<Note>) -> io::Result<bool> {
        if self.is_late {
            self.late.push((condition, changes));
            return Err(io::ErrorKind::TimedOut.into());
        }
        let holds = self.make(condition, changes);
        if self.silent > 0 {
            self.silent -= 1;
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(holds)
    }

    fn list(&mut self, prefix: &str) -> io::Result<Vec<StoredNote>> {
        let content = self.content.lock().clone().into_iter();
        Ok(content.filter(|(name, _)| name.starts_with(prefix)).collect())
    }

    fn names(&mut self, prefix: &str) -> io::Result<Vec<String>> {
        Ok(self.list(prefix)?.into_iter().map(|(name, _)| name).collect())
    }

    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.content.lock().get(name).cloned())
    }
}

impl NoteMap {
    fn make(&mut self, condition: OwnerCondition, changes: Vec<Note>) -> bool {
        let mut content = self.content.lock();
        let owner = content.get(OWNER);
        let holds = match condition {
            OwnerCondition::Absent => owner.is_none(),
            OwnerCondition::Below(other) => owner.is_some_and(|owner| **owner < *other.as_bytes()),
        };
        if holds {
            self.changes.lock().push(changes.len());
            for (name, value) in changes {
                match value {
                    Some(value) => drop(content.insert(name, value)),
                    None => drop(content.remove(&name)),
                }
            }
        }
        holds
    }

    fn let_late_arrive(&mut self) {
        for (condition, changes) in std::mem::take(&mut self.late) {
            self.make(condition, changes);
        }
    }
}

fn leader(content: &NoteContents, epoch: impl Into<Option<u64>>) -> LeaderNotes<NoteMap> {
    let content = Arc::clone(content);
    let (epoch, changes, late) = (epoch.into(), Arc::default(), Vec::new());
    let store = NoteMap { content, epoch, silent: 0, is_late: false, late, changes };
    LeaderNotes::new(store, NoteBounds { changes_max: 2, bytes_max: 10 })
}

fn note(name: &str, content: &str) -> Note {
    (format!("a/{name}"), Some(content.as_bytes().to_vec()))
}

fn noted(name: &str, content: &str) -> (String, Vec<u8>) {
    (name.to_owned(), content.as_bytes().to_vec())
}

#[test]
fn a_former_leader_changes_no_note() {
    let content = NoteContents::default();
    let former = leader(&content, 9);
    assert!(matches!(former.write(vec![note("a", "0")]), Err(NotesError::Fenced)), "not yet its");
    former.take_over().unwrap();
    assert!(former.list(PREFIX).unwrap().is_empty());
    former.write(vec![note("a", "1"), note("b", "1")]).unwrap();
    let next = leader(&content, 10);
    next.take_over().unwrap();
    assert_eq!(next.list(PREFIX).unwrap(), [noted("a", "1"), noted("b", "1")]);
    assert_eq!(next.names(PREFIX).unwrap(), ["a", "b"]);
    assert_eq!(next.read("a/b").unwrap().as_deref(), Some(b"1".as_slice()));
    assert!(matches!(former.write(vec![note("a", "2")]), Err(NotesError::Fenced)));
    assert!(matches!(former.take_over(), Err(NotesError::Fenced)));
    next.write(vec![("a/b".to_owned(), None)]).unwrap();
    assert_eq!(next.list(PREFIX).unwrap(), [noted("a", "1")]);
    assert_eq!(next.read("a/b").unwrap(), None);
}

#[test]
fn a_node_that_does_not_lead_takes_nothing_over() {
    let content = NoteContents::default();
    assert!(matches!(leader(&content, None).take_over(), Err(NotesError::Fenced)));
    assert!(content.lock().is_empty());
}

#[test]
fn a_lost_answer_of_a_take_over_is_repeated() {
    let content = NoteContents::default();
    let notes = leader(&content, 3);
    notes.held.lock().store.silent = 1;
    assert!(matches!(notes.take_over(), Err(NotesError::Store(_))));
    notes.take_over().unwrap();
    notes.write(vec![note("a", "1")]).unwrap();
}

#[test]
fn many_notes_are_several_changes_in_their_order() {
    let content = NoteContents::default();
    let notes = leader(&content, 3);
    notes.take_over().unwrap();
    let changes = Arc::clone(&notes.held.lock().store.changes);
    changes.lock().clear();
    notes.write(["a", "b", "c"].map(|name| note(name, "1")).into()).unwrap();
    assert_eq!(*changes.lock(), [3, 2], "by their number, with the owner");
    changes.lock().clear();
    notes.write(vec![note("a", "123456"), note("b", "123456"), note("c", "")]).unwrap();
    assert_eq!(*changes.lock(), [2, 3], "by their bytes");
    notes.write(Vec::new()).unwrap();
    assert_eq!(changes.lock().len(), 2);
}

/// Once, a note that etcd had not answered came behind the next one when it arrived: later notes left out what had
/// not changed since, and the next leader did not deliver it. The simulated world of seed 2 found it.
#[test]
fn a_note_that_arrives_late_comes_behind_none() {
    let content = NoteContents::default();
    let notes = leader(&content, 3);
    notes.take_over().unwrap();
    notes.held.lock().store.is_late = true;
    assert!(matches!(notes.write(vec![note("a", "1")]), Err(NotesError::Store(_))));
    notes.held.lock().store.is_late = false;
    notes.write(vec![note("a", "2")]).unwrap();
    notes.held.lock().store.let_late_arrive();
    notes.write(vec![note("b", "3")]).unwrap();
    let next = leader(&content, 4);
    next.take_over().unwrap();
    assert_eq!(next.list(PREFIX).unwrap(), [noted("a", "2"), noted("b", "3")]);
}

/// Mail of a node that had been a switch of its own, sent by the node that leads after it.
#[test]
fn mail_waits_for_the_next_leader() {
    let directory = MailDirectory::open(Arc::new(FaultyDisk::default())).unwrap();
    directory.write("cursor", b"7 9").unwrap();
    let [waiting, news] = [1, 2].map(Uuid::from_u128);
    let before = MailQueue::open(Arc::new(directory), Duration::ZERO).unwrap().0;
    before.add_letter(waiting, Urgency::InTurn, b"letter", Duration::ZERO).unwrap();

    let content = NoteContents::default();
    let first = Arc::new(leader(&content, 3));
    let mail = Arc::new(NotedMail::take_over(Arc::clone(&first), &*before.store, |_| ()).unwrap());
    assert!(before.store.names().unwrap().is_empty(), "it is moved");
    assert_eq!(mail.read("cursor").unwrap().as_deref(), Some(b"7 9".as_slice()));
    mail.write("cursor", b"8 9").unwrap();
    let (queue, _) = MailQueue::open(Arc::clone(&mail) as _, Duration::ZERO).unwrap();
    queue.hold(news, Urgency::First, b"news").unwrap();

    // Nor does a directory with an older cursor bring it back.
    before.store.write("cursor", b"1 1").unwrap();
    let second = Arc::new(leader(&content, 4));
    let taken = Arc::new(NotedMail::take_over(second, &*before.store, |_| ()).unwrap());
    assert_eq!(taken.read("cursor").unwrap().as_deref(), Some(b"8 9".as_slice()));
    assert!(mail.write("cursor", b"9 9").is_err() && queue.len() == 2);
    let (queue, held) = MailQueue::open(taken, Duration::ZERO).unwrap();
    assert_eq!(
        (held.as_slice(), queue.read_news(news).unwrap().as_slice()),
        (&[news][..], &b"news"[..])
    );
    queue.withdraw(news);
    assert_eq!(queue.next(Duration::ZERO), NextLetter::Due(waiting, Tries::default()));
    assert_eq!(queue.read_letter(waiting).unwrap(), (Urgency::InTurn, b"letter".to_vec()));
    queue.finish(waiting);
    assert!(queue.is_empty());
    assert_eq!(content.lock().keys().collect::<Vec<_>>(), ["mail/cursor", OWNER]);
}
