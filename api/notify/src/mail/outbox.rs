//! The place where letters are handed in: the queue before a mail server, or the directory `outbox`
//! among the data where none is configured, as one file each.
//!
//! Operators without a server read letters there, or have a mail server take them. Links in letters
//! open things, so the files are their owner's only.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use cardswitch_bounds::Windows;
use cardswitch_dispatch::mail::queue::QueueError;
use cardswitch_dispatch::mail::store::{MailStore, write_whole};
use cardswitch_engine::disk::RealDisk;
use cardswitch_engine::domain::email::email_key;
use cardswitch_engine::domain::ids::CompanyId;
use cardswitch_secrets::issuing::{RandomSource, SystemRandom};
use cardswitch_secrets::{SealError, Secrets, token_digest};
use parking_lot::Mutex;
use uuid::Uuid;

use super::letter::Letter;
use super::limits::{
    ASKED_FOR_MAX, INVITATIONS_MAX, LINKS_MAX, LINKS_TO_ADDRESS_MAX, NOTICE_FILES_MAX,
    REMEMBERED_MAX, WINDOW,
};
use super::message::Letterhead;
use super::news::News;
use super::notice_files::{NoticeFiles, notice_name};
use super::sealed_queue::{Parcel, SealedQueue, open_directory};
use super::settings::MailSettings;
use super::smtp::SmtpServer;

/// The directory's name.
const DIRECTORY: &str = "outbox";

/// Why a letter was not sent.
#[derive(Debug, thiserror::Error)]
pub enum MailError {
    /// The address is none that mail goes to.
    #[error("no mail can go there: {0}")]
    Address(lettre::address::AddressError),
    /// The message cannot be put together.
    #[error("the message: {0}")]
    Message(lettre::error::Error),
    /// A file cannot be written.
    #[error("a file of mail cannot be written: {0}")]
    Write(io::Error),
    /// It cannot be sealed.
    #[error(transparent)]
    Seal(SealError),
    /// It does not wait for a server.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The settings.
    #[error("{0}")]
    Settings(String),
}

impl MailError {
    /// Whether the letter itself is at fault, so that it can never be sent.
    pub(super) const fn is_of_letter(&self) -> bool {
        matches!(self, Self::Address(_) | Self::Message(_))
    }
}

/// The places of letters that wait, and of those that no server takes.
#[derive(Debug)]
pub struct MailPlace<'a> {
    /// The data directory.
    pub data: &'a Path,
    /// The letters that wait, of a cluster; else they are in the data directory.
    pub store: Option<Arc<dyn MailStore>>,
    /// The address of the site.
    pub app_url: &'a str,
}

/// The outbox: the queue of a server, or a directory.
#[derive(Debug)]
pub struct Outbox {
    pub(super) letterhead: Letterhead,
    /// The directory of letters that no server takes.
    pub directory: PathBuf,
    disk: RealDisk,
    pub(super) queue: SealedQueue,
    /// The files of letters about declines, once one was written.
    notices: Mutex<Option<NoticeFiles>>,
    /// The server that letters wait for, where one is configured.
    pub(super) server: Option<Arc<SmtpServer>>,
    /// Whether cardholders get letters about declines.
    pub(super) tells_declines: bool,
    /// News held before the start, until it is looked at.
    held: Mutex<Vec<Uuid>>,
    /// Whether a letter was lost since the start.
    has_lost: AtomicBool,
    asked_for: Mutex<Windows<[u8; 32]>>,
    invitations: Mutex<Windows<[u8; 32]>>,
    links: Mutex<Windows<[u8; 32]>>,
}

/// News that waits for the outcome of its change.
#[derive(Debug)]
pub struct HeldNews {
    /// The name of its file.
    pub(super) id: Uuid,
    /// The change.
    pub(super) news: News,
}

impl Outbox {
    /// The outbox of a data directory, for a site at `app_url`, with no server: letters become
    /// files. Keys are drawn for the occasion, so nothing that waits is read by the next one.
    /// Errors: a directory cannot be made.
    pub fn open(data: &Path, app_url: &str) -> Result<Self, MailError> {
        let mut master = [0; 32];
        SystemRandom.fill(&mut master).map_err(|_| MailError::Seal(SealError::NoRandomness))?;
        let secrets = Arc::new(Secrets::from_root(master));
        let place = MailPlace { data, store: None, app_url };
        Self::open_with(place, secrets, &MailSettings::default())
    }

    /// The outbox at a place.
    /// Errors: a directory cannot be made, or the settings name no server that can be used.
    pub fn open_with(
        MailPlace { data, store, app_url }: MailPlace<'_>,
        secrets: Arc<Secrets>,
        settings: &MailSettings,
    ) -> Result<Self, MailError> {
        let letterhead = Letterhead::new(settings.sender()?, app_url)?;
        let directory = data.join(DIRECTORY);
        let disk = RealDisk::open(&directory).map_err(MailError::Write)?;
        let server = settings.server()?.map(|server| server.ready(&letterhead.domain));
        let store = store.map_or_else(|| Ok(Arc::new(open_directory(data)?) as _), Ok);
        let opened = store.and_then(|store| SealedQueue::open(store, secrets));
        let (queue, held) = opened.map_err(MailError::Write)?;
        Ok(Self {
            letterhead,
            directory,
            disk,
            queue,
            notices: Mutex::new(None),
            server: server.transpose()?.map(Arc::new),
            tells_declines: settings.declines,
            held: Mutex::new(held),
            has_lost: AtomicBool::new(false),
            asked_for: windows(),
            invitations: windows(),
            links: windows(),
        })
    }

    /// How many letters wait for a server, and news for the outcome of its change.
    pub fn waiting(&self) -> usize {
        self.queue.queue.len()
    }

    /// Whether a letter was lost since the start: it could not be kept or read.
    pub fn has_lost_letters(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }

    fn note_loss(&self) {
        self.has_lost.store(true, Ordering::Relaxed);
    }

    /// Whether a letter that any visitor can have sent may go to `email` now; if so, it is counted.
    pub fn may_be_asked_for(&self, email: &str, now: Instant) -> bool {
        let bounds = [(token_digest(&email_key(email)), ASKED_FOR_MAX)];
        self.asked_for.lock().take(bounds, now).is_ok()
    }

    /// Whether a company may have an invitation sent to `email` now; if so, it is counted. Letters
    /// that are asked for, and other companies' invitations, are counted apart: a company's
    /// invitations use up none of them.
    pub fn may_be_invited(&self, company: CompanyId, email: &str, now: Instant) -> bool {
        take(&self.invitations, (company, email), (ASKED_FOR_MAX, INVITATIONS_MAX), now)
    }

    /// Whether a company may have a shared link sent to `email` now; if so, it is counted. One
    /// company's letters to an address do not use up those of another.
    pub fn may_be_shared_with(&self, company: CompanyId, email: &str, now: Instant) -> bool {
        take(&self.links, (company, email), (LINKS_TO_ADDRESS_MAX, LINKS_MAX), now)
    }

    /// Whether a letter that news became may be sent now; if so, it is counted.
    pub(super) fn may_tell(&self, news: &News, letter: &Letter) -> bool {
        let now = Instant::now();
        match news {
            News::Invitation { company, .. } => {
                self.may_be_invited(CompanyId(*company), &letter.to, now)
            }
            News::SharedLink { company, .. } => {
                self.may_be_shared_with(CompanyId(*company), &letter.to, now)
            }
            // The request for the letter has counted it.
            News::NewPassword { .. } | News::PasswordWasSet { .. } => true,
        }
    }

    /// Keeps news on disk until it is known whether it is true; none where that fails, which is
    /// logged.
    pub async fn hold(self: &Arc<Self>, news: News) -> Option<HeldNews> {
        let outbox = Arc::clone(self);
        let held = tokio::task::spawn_blocking(move || {
            let id = Uuid::now_v7();
            outbox.queue.hold(id, &news).map(|()| HeldNews { id, news })
        });
        match held.await {
            Ok(Ok(held)) => Some(held),
            Ok(Err(error)) => {
                tracing::error!(%error, "no email will report a change");
                self.note_loss();
                None
            }
            Err(_) => None,
        }
    }

    /// News held before the start; only the first call returns it.
    pub(super) async fn held_before(self: &Arc<Self>) -> Vec<HeldNews> {
        let outbox = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || {
            let ids = std::mem::take(&mut *outbox.held.lock());
            let read = |id| match outbox.queue.read_news(id) {
                Ok(news) => Some(HeldNews { id, news }),
                Err(error) => {
                    tracing::error!(email = %id, %error, "no email will report a change");
                    outbox.note_loss();
                    None
                }
            };
            ids.into_iter().filter_map(read).collect()
        });
        read.await.unwrap_or_default()
    }

    /// Forgets news of a change that was not made.
    pub async fn withdraw(self: &Arc<Self>, held: HeldNews) {
        let outbox = Arc::clone(self);
        drop(tokio::task::spawn_blocking(move || outbox.queue.queue.withdraw(held.id)).await);
    }

    /// Sends the letter that news became.
    pub(super) async fn send_held(self: &Arc<Self>, held: HeldNews, letter: Letter) {
        let outbox = Arc::clone(self);
        let sent = tokio::task::spawn_blocking(move || {
            outbox.hand_in(&letter, held.id)?;
            if outbox.server.is_none() {
                outbox.queue.queue.withdraw(held.id);
            }
            Ok::<_, MailError>(())
        });
        log_failure(sent.await.ok());
    }

    /// Sends a letter. A failure is logged, for the caller has been answered. For letters of
    /// changes there is `AppState::carry_out_and_tell`, which loses none by a crash in between.
    pub async fn post(self: &Arc<Self>, letter: Letter) {
        let outbox = Arc::clone(self);
        let id = Uuid::now_v7();
        let sent = tokio::task::spawn_blocking(move || outbox.hand_in(&letter, id)).await.ok();
        // An address that takes no mail is no fault of the switch.
        if matches!(&sent, Some(Err(error)) if !error.is_of_letter()) {
            self.note_loss();
        }
        log_failure(sent);
    }

    /// Puts a letter where letters go, under an id of its own.
    /// Errors: the address takes no mail, or the file cannot be written.
    /// Cost: blocks for two syncs.
    pub(super) fn hand_in(&self, letter: &Letter, id: Uuid) -> Result<(), MailError> {
        if self.server.is_none() {
            return self.write_as(letter, id).map(drop);
        }
        let message = self.letterhead.message(letter, id)?.formatted();
        let message = String::from_utf8(message).map_err(|_| QueueError::Foreign)?;
        let parcel = Parcel { to: letter.to.clone(), message };
        self.queue.add_letter(id, letter.urgency, &parcel)
    }

    /// Puts a letter about a decline where letters go. As a file, it stays among the newest only.
    /// Errors: as `hand_in`, or the directory cannot be read.
    /// Cost: as `hand_in`; the first time reads the directory.
    pub(super) fn hand_in_notice(&self, letter: &Letter, id: Uuid) -> Result<(), MailError> {
        if self.server.is_some() {
            return self.hand_in(letter, id);
        }
        self.write_notice(letter, id, NOTICE_FILES_MAX)
    }

    fn write_notice(&self, letter: &Letter, id: Uuid, kept_max: usize) -> Result<(), MailError> {
        let mut notices = self.notices.lock();
        let mut files = match notices.take() {
            Some(files) => files,
            None => NoticeFiles::open(&self.directory, kept_max).map_err(MailError::Write)?,
        };
        let name = notice_name(id);
        let written = self.write_named(letter, id, &name);
        if written.is_ok() {
            files.add(&self.disk, name);
        }
        *notices = Some(files);
        written.map(drop)
    }

    /// Writes a letter to its file.
    /// Errors: the address takes no mail, or the file cannot be written.
    pub fn write(&self, letter: &Letter) -> Result<PathBuf, MailError> {
        self.write_as(letter, Uuid::now_v7())
    }

    fn write_as(&self, letter: &Letter, id: Uuid) -> Result<PathBuf, MailError> {
        self.write_named(letter, id, &format!("{id}.eml"))
    }

    fn write_named(&self, letter: &Letter, id: Uuid, name: &str) -> Result<PathBuf, MailError> {
        let message = self.letterhead.message(letter, id)?;
        // Programs that watch the directory must not take half a letter, and news that became this
        // letter is withdrawn next: that must not outlive the letter.
        write_whole(&self.disk, name, &message.formatted()).map_err(MailError::Write)?;
        Ok(self.directory.join(name))
    }
}

fn windows() -> Mutex<Windows<[u8; 32]>> {
    Mutex::new(Windows::new(WINDOW, REMEMBERED_MAX))
}

/// Whether a company may have a letter sent to an address; if so, it is counted.
fn take(
    windows: &Mutex<Windows<[u8; 32]>>,
    (company, email): (CompanyId, &str),
    (to_address_max, all_max): (u32, u32),
    now: Instant,
) -> bool {
    let company = company.0.to_string();
    let pair = token_digest(&format!("{company} {}", email_key(email)));
    let bounds = [(pair, to_address_max), (token_digest(&company), all_max)];
    windows.lock().take(bounds, now).is_ok()
}

fn log_failure(sent: Option<Result<(), MailError>>) {
    if let Some(Err(error)) = sent {
        tracing::error!(%error, "an email was not sent");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn outbox() -> (tempfile::TempDir, Outbox) {
        let directory = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(directory.path(), "http://127.0.0.1:8080").unwrap();
        (directory, outbox)
    }

    fn headers_of(message: &str) -> &str {
        message.split_once("\r\n\r\n").unwrap().0
    }

    #[test]
    fn a_letter_is_a_file_for_its_owner_only() {
        let (_directory, outbox) = outbox();
        let link = format!("http://127.0.0.1:8080/password/set/{}", "0123abcd".repeat(8));
        let path = outbox.write(&Letter::new_password("ada@example.com", &link)).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let message = fs::read_to_string(&path).unwrap();
        let parts = [
            "To: ada@example.com\r\n",
            "Subject: Set a new password\r\n",
            "multipart/alternative",
            "Content-Type: text/plain; charset=utf-8\r\n",
            "Content-Type: text/html; charset=utf-8\r\n",
            &format!("\r\n{link}\r\n"),
            &format!("href=\"{link}\""),
            "no-reply@localhost",
        ];
        for part in parts {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert!(!message.replace("\r\n", "").contains(['\r', '\n']), "lines end as mail's do");
    }

    #[tokio::test]
    async fn letters_that_cannot_be_written_are_lost_and_those_to_no_address_are_not() {
        let (_directory, outbox) = outbox();
        let outbox = Arc::new(outbox);
        outbox.post(Letter::new_password("a, b@example.com", "l")).await;
        assert!(!outbox.has_lost_letters());
        fs::remove_dir_all(&outbox.directory).unwrap();
        outbox.post(Letter::new_password("ada@example.com", "l")).await;
        assert!(outbox.has_lost_letters());
    }

    #[test]
    fn what_mail_servers_do_not_take_as_it_is_is_encoded() {
        let (_directory, outbox) = outbox();
        for company in ["Bücher & Söhne", &"x".repeat(2_000), "a\rb", "a\0b"] {
            let path = outbox.write(&Letter::invitation("ada@example.com", company, "l")).unwrap();
            let message = fs::read(&path).unwrap();
            let lines = message.split(|byte| *byte == b'\n');
            assert!(message.is_ascii() && lines.map(<[u8]>::len).max() < Some(1_000), "{company}");
        }
    }

    /// Once, without a mail server every declined purchase left a file for ever.
    #[test]
    fn of_letters_about_declines_the_newest_stay_and_of_others_all() {
        let (home, opened) = outbox();
        let names = || {
            let names = fs::read_dir(&opened.directory).unwrap();
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        let link = opened.write(&Letter::new_password("ada@example.com", "l")).unwrap();
        let letter = Letter::more_declined("ada@example.com", "l");
        let [first, second, third, fourth] = [1, 2, 3, 4].map(Uuid::from_u128);
        for id in [first, second, second, third] {
            opened.write_notice(&letter, id, 2).unwrap();
        }
        let kept: Vec<String> = names();
        assert!(kept.len() == 3 && !kept.contains(&notice_name(first)), "{kept:?}");
        let next = Outbox::open(home.path(), "http://127.0.0.1:8080").unwrap();
        next.write_notice(&letter, fourth, 2).unwrap();
        let kept: Vec<String> = names();
        assert!(kept.len() == 3 && kept.contains(&notice_name(fourth)), "{kept:?}");
        assert!(link.exists());
        next.hand_in_notice(&letter, first).unwrap();
        assert!(opened.directory.join(notice_name(first)).exists());
    }

    #[test]
    fn no_text_becomes_a_header() {
        let (_directory, outbox) = outbox();
        let company = "Evil\r\nBcc: eve@example.com\r\n\r\n<b>";
        let path = outbox.write(&Letter::invitation("ada@example.com", company, "l")).unwrap();
        let message = fs::read_to_string(&path).unwrap();
        let names = headers_of(&message).lines().filter(|line| !line.starts_with([' ', '\t']));
        assert!(!names.map(str::to_lowercase).any(|line| line.starts_with("bcc")), "{message}");
        for to in ["ada@example.com\r\nBcc: eve@example.com", "a, b@example.com", "<ada@x.y>", ""] {
            assert!(outbox.write(&Letter::new_password(to, "l")).is_err(), "{to}");
        }
    }

    #[test]
    fn nobody_is_flooded_with_letters_that_anybody_can_ask_for() {
        let (_directory, outbox) = outbox();
        let now = Instant::now();
        for _ in 0..ASKED_FOR_MAX {
            assert!(outbox.may_be_asked_for("ada@example.com", now));
        }
        assert!(!outbox.may_be_asked_for("ADA@example.com", now));
        assert!(outbox.may_be_asked_for("bob@example.com", now));
        assert!(outbox.may_be_asked_for("ada@example.com", now + WINDOW));
    }

    #[test]
    fn companies_flood_nobody_with_invitations_and_take_no_other_letters_from_them() {
        let (_directory, outbox) = outbox();
        let now = Instant::now();
        let [busy, other] = [1, 2].map(|id| CompanyId(Uuid::from_u128(id)));
        for _ in 0..ASKED_FOR_MAX {
            assert!(outbox.may_be_invited(busy, "ada@example.com", now));
        }
        assert!(!outbox.may_be_invited(busy, "ADA@example.com", now), "three to one address");
        assert!(outbox.may_be_invited(other, "ada@example.com", now), "its own letters");
        assert!(outbox.may_be_asked_for("ada@example.com", now));
        for number in ASKED_FOR_MAX..INVITATIONS_MAX {
            assert!(outbox.may_be_invited(busy, &format!("{number}@example.com"), now), "{number}");
        }
        assert!(!outbox.may_be_invited(busy, "last@example.com", now), "all of one company");
        assert!(outbox.may_be_invited(other, "last@example.com", now));
        assert!(outbox.may_be_invited(busy, "last@example.com", now + WINDOW));
    }

    #[test]
    fn shared_links_flood_nobody_either() {
        let (_directory, outbox) = outbox();
        let now = Instant::now();
        let [busy, other] = [1, 2].map(|id| CompanyId(Uuid::from_u128(id)));
        for _ in 0..LINKS_TO_ADDRESS_MAX {
            assert!(outbox.may_be_shared_with(busy, "ada@example.com", now));
        }
        assert!(!outbox.may_be_shared_with(busy, "ADA@example.com", now));
        assert!(outbox.may_be_shared_with(other, "ada@example.com", now), "its own letters");
        assert!(outbox.may_be_shared_with(busy, "ada@example.com", now + WINDOW));
    }
}
