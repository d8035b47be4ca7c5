//! The inbox of a thread: it takes messages and sleeps without spinning.
//!
//! A receiver of crossbeam's yields its processor some times before it sleeps. When another thread
//! wants that processor, a yield costs the rest of a time slice, some milliseconds, whatever
//! arrives meanwhile. Here the receiver looks once and sleeps at once; a sender wakes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, SendError, Sender, TryRecvError, TrySendError, bounded};

/// Wakes one thread, which may wait for several things.
#[derive(Debug, Default)]
pub struct Doorbell {
    listener: OnceLock<Thread>,
    /// Rung since the listener last woke up; also before there was one.
    is_rung: AtomicBool,
}

impl Doorbell {
    /// Wakes the listener, or keeps it from falling asleep.
    pub fn ring(&self) {
        self.is_rung.store(true, Ordering::SeqCst);
        if let Some(listener) = self.listener.get() {
            listener.unpark();
        }
    }

    /// Sleeps until it rings, or until the time is up; always the same thread.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        self.listener.get_or_init(std::thread::current);
        if self.is_rung.swap(false, Ordering::SeqCst) {
            return;
        }
        match timeout {
            Some(timeout) => std::thread::park_timeout(timeout),
            None => std::thread::park(),
        }
        self.is_rung.store(false, Ordering::SeqCst);
    }
}

/// Makes an inbox for so many messages.
pub fn inbox<T>(capacity: usize) -> (InboxSender<T>, Inbox<T>) {
    let bell = Arc::new(Doorbell::default());
    let (sender, receiver) = bounded(capacity);
    let sender = InboxSender { sender: Some(sender), bell: Arc::clone(&bell) };
    (sender, Inbox { receiver, bell })
}

/// The receiving end: of one thread.
pub struct Inbox<T> {
    receiver: Receiver<T>,
    /// The bell that wakes the thread waiting here.
    pub bell: Arc<Doorbell>,
}

impl<T> Inbox<T> {
    /// Takes a message that is there.
    /// Errors: there is none, or there is none any more since all senders are gone.
    pub fn try_take(&self) -> Result<T, TryRecvError> {
        self.receiver.try_recv()
    }

    /// Takes the next message; waits for it. None when all senders are gone.
    pub fn take(&self) -> Option<T> {
        loop {
            match self.try_take() {
                Ok(message) => return Some(message),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => self.wait(None),
            }
        }
    }

    /// Sleeps until there may be something new, or until the time is up.
    pub fn wait(&self, timeout: Option<Duration>) {
        self.bell.wait(timeout);
    }
}

/// The sending end; it rings when it goes, too.
pub struct InboxSender<T> {
    /// None only while it is dropped.
    sender: Option<Sender<T>>,
    bell: Arc<Doorbell>,
}

crate::opaque!(for<T> Inbox<T>);
crate::opaque!(for<T> InboxSender<T>);

impl<T> InboxSender<T> {
    /// Sends a message; waits for room.
    /// Errors: the receiver is gone.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        let Some(sender) = &self.sender else { return Err(SendError(message)) };
        sender.send(message)?;
        self.bell.ring();
        Ok(())
    }

    /// Puts a message where there is room for it; the receiver learns of it by `ring`.
    /// Errors: there is none, or the receiver is gone.
    pub fn put(&self, message: T) -> Result<(), TrySendError<T>> {
        let Some(sender) = &self.sender else { return Err(TrySendError::Disconnected(message)) };
        sender.try_send(message)
    }

    /// Wakes the receiver.
    pub fn ring(&self) {
        self.bell.ring();
    }
}

impl<T> Drop for InboxSender<T> {
    fn drop(&mut self) {
        // The receiver must find it gone when it wakes up.
        drop(self.sender.take());
        self.bell.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_sent_arrives_in_order_and_the_end_is_seen() {
        let (sender, inbox) = inbox(4);
        let take_all = move || std::iter::from_fn(|| inbox.take()).collect::<Vec<_>>();
        let receiver = std::thread::spawn(take_all);
        (0..10_000).for_each(|number| sender.send(number).unwrap());
        drop(sender);
        assert_eq!(receiver.join().unwrap(), (0..10_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_bell_rung_before_anybody_listens_is_heard() {
        let bell = Doorbell::default();
        bell.ring();
        bell.wait(None);
    }

    #[test]
    fn waiting_ends_when_the_time_is_up() {
        let (_sender, inbox) = inbox::<()>(1);
        inbox.wait(Some(Duration::from_millis(1)));
        assert_eq!(inbox.try_take(), Err(TryRecvError::Empty));
    }
}
