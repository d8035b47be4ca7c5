//! Mail to people: written as files, one message each, to the directory `outbox` among the data.
//! Whoever runs the switch reads them there, or has a mail server take them.
//!
//! Links in letters open things, so the files are their owner's only. Names and addresses come from
//! strangers; headers are made by a library that encodes whatever a header cannot hold.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_engine::domain::ids::CompanyId;
use cardswitch_engine::domain::member::email_key;
use lettre::Message;
use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Body, Mailbox};
use parking_lot::Mutex;
use url::{Host, Url};
use uuid::Uuid;

use crate::secrets::token_digest;

/// The directory's name.
const DIRECTORY: &str = "outbox";
/// In what time letters to one address are counted.
const WINDOW: Duration = Duration::from_secs(15 * 60);
/// How many of them there may be that anybody can ask for.
const ASKED_FOR_MAX: usize = 3;
/// How many invitations one company may have sent in that time; whoever gets none can still ask for
/// a link to set a password.
const INVITATIONS_MAX: usize = 500;
/// How much of a name a subject shows: one word of any length would be one line of a header.
/// Units: characters.
const SUBJECT_NAME_CHARS_MAX: usize = 60;
/// The longest line that mail servers take. Units: bytes. Source: RFC 5322, 2.1.1.
const LINE_BYTES_MAX: usize = 998;
/// How many letters of one sort are remembered.
const REMEMBERED_MAX: usize = 10_000;

/// A message to one person.
#[derive(Clone, PartialEq, Eq)]
pub struct Letter {
    /// Whom it is for: an e-mail address.
    pub to: String,
    /// What it is about.
    pub subject: String,
    /// What it says.
    pub text: String,
}

impl fmt::Debug for Letter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it says opens things.
        write!(formatter, "Letter({})", self.subject)
    }
}

impl Letter {
    /// Tells how to set a new password.
    #[must_use]
    pub fn new_password(to: &str, link: &str) -> Self {
        let text = format!(
            "Somebody, probably you, has asked to set a new password for {to} at cardswitch.\n\n\
             Open this link within one hour to do so. It works once:\n\n{link}\n\n\
             If it was not you, do nothing: your password stays as it is.\n"
        );
        Self { to: to.to_owned(), subject: "Set a new password".to_owned(), text }
    }

    /// Invites a new member of `company`.
    #[must_use]
    pub fn invitation(to: &str, company: &str, link: &str) -> Self {
        let text = format!(
            "{company} has made you a member of its card program at cardswitch.\n\n\
             Open this link to choose a password. It works once:\n\n{link}\n\n\
             After that you sign in with {to}.\n"
        );
        let name: String = company.chars().take(SUBJECT_NAME_CHARS_MAX).collect();
        let subject = format!("Your invitation to {name}");
        Self { to: to.to_owned(), subject, text }
    }

    /// Tells that the password was changed.
    #[must_use]
    pub fn password_was_set(to: &str) -> Self {
        let text = format!(
            "The password of {to} at cardswitch was just set.\n\n\
             If it was not you, set a new one at once and tell the administrator of your company.\n"
        );
        Self { to: to.to_owned(), subject: "Your password was set".to_owned(), text }
    }
}

/// Why a letter was not sent.
#[derive(Debug)]
pub enum MailError {
    /// The address is none that mail goes to.
    Address(lettre::address::AddressError),
    /// The message cannot be put together.
    Message(lettre::error::Error),
    /// The file cannot be written.
    Write(io::Error),
}

impl fmt::Display for MailError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => write!(formatter, "no mail can go there: {error}"),
            Self::Message(error) => write!(formatter, "the message: {error}"),
            Self::Write(error) => write!(formatter, "the outbox: {error}"),
        }
    }
}

impl std::error::Error for MailError {}

/// Where letters are put.
#[derive(Debug)]
pub struct Outbox {
    directory: PathBuf,
    /// What follows the `@` of the switch's own address.
    domain: String,
    asked_for: Mutex<Recent<1>>,
    invitations: Mutex<Recent<2>>,
}

impl Outbox {
    /// The outbox of a data directory, for a site at `app_url`.
    /// Errors: the directory cannot be made.
    pub fn open(data: &Path, app_url: &str) -> io::Result<Self> {
        let directory = data.join(DIRECTORY);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let url = Url::parse(app_url).ok();
        // Mail goes to names only.
        let domain = match url.as_ref().and_then(Url::host) {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => "localhost".to_owned(),
        };
        let (asked_for, invitations) = (Mutex::default(), Mutex::default());
        Ok(Self { directory, domain, asked_for, invitations })
    }

    /// Where letters are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether a letter that anybody can ask for may go to `email` now; if so, it is counted.
    pub fn may_be_asked_for(&self, email: &str, now: Instant) -> bool {
        self.asked_for.lock().take([token_digest(&email_key(email))], [ASKED_FOR_MAX], now)
    }

    /// Whether a company may have an invitation sent to `email` now; if so, it is counted. Apart
    /// from letters that are asked for: nobody loses those by what a company does.
    pub fn may_be_invited(&self, company: CompanyId, email: &str, now: Instant) -> bool {
        let keys = [token_digest(&email_key(email)), token_digest(&company.0.to_string())];
        self.invitations.lock().take(keys, [ASKED_FOR_MAX, INVITATIONS_MAX], now)
    }

    /// Sends a letter; a failure is logged, for whoever caused it has been answered.
    pub async fn post(self: &Arc<Self>, letter: Letter) {
        let outbox = Arc::clone(self);
        let posted = tokio::task::spawn_blocking(move || outbox.write(&letter)).await;
        if let Ok(Err(error)) = posted {
            tracing::error!(%error, "a letter was not sent");
        }
    }

    /// Writes a letter to its file.
    /// Errors: the address takes no mail, or the file cannot be written.
    pub fn write(&self, letter: &Letter) -> Result<PathBuf, MailError> {
        let message = self.message(letter)?;
        let id = Uuid::now_v7();
        let path = self.directory.join(format!("{id}.eml"));
        // Whoever watches the directory must not take half a letter.
        let unfinished = self.directory.join(format!(".{id}"));
        let write = || {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&unfinished)?;
            file.write_all(&message.formatted())?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(MailError::Write)?;
        Ok(path)
    }

    fn message(&self, letter: &Letter) -> Result<Message, MailError> {
        let mailbox = |name: Option<&str>, address: &str| {
            let address = address.parse().map_err(MailError::Address)?;
            Ok(Mailbox::new(name.map(str::to_owned), address))
        };
        let from = mailbox(Some("cardswitch"), &format!("no-reply@{}", self.domain))?;
        Message::builder()
            .from(from)
            .to(mailbox(None, &letter.to)?)
            .subject(letter.subject.as_str())
            .message_id(Some(format!("<{}@{}>", Uuid::now_v7(), self.domain)))
            .date_now()
            .header(ContentType::TEXT_PLAIN)
            .body(body_of(&letter.text))
            .map_err(MailError::Message)
    }
}

/// Letters of one sort that were sent of late, each under what they are counted by.
#[derive(Debug, Default)]
struct Recent<const KEYS: usize>(VecDeque<([[u8; 32]; KEYS], Instant)>);

impl<const KEYS: usize> Recent<KEYS> {
    /// Counts a letter, unless there were already as many as there may be under one of its keys.
    fn take(&mut self, keys: [[u8; 32]; KEYS], most: [usize; KEYS], now: Instant) -> bool {
        let letters = &mut self.0;
        while letters.front().is_some_and(|(_, at)| now.duration_since(*at) >= WINDOW) {
            letters.pop_front();
        }
        let count_of =
            |place: usize| letters.iter().filter(|(known, _)| known[place] == keys[place]).count();
        if (0..KEYS).any(|place| count_of(place) >= most[place]) {
            return false;
        }
        if letters.len() >= REMEMBERED_MAX {
            letters.pop_front();
        }
        letters.push_back((keys, now));
        true
    }
}

/// The text as it is, where every mail server takes it: encoded, it would cut links in two, and
/// whoever runs the switch reads them in the file.
fn body_of(text: &str) -> Body {
    let is_plain = text.is_ascii() && !text.contains(['\0', '\r']);
    if is_plain && text.lines().all(|line| line.len() <= LINE_BYTES_MAX) {
        let lines = text.replace('\n', "\r\n").into_bytes();
        return Body::dangerous_pre_encoded(lines, ContentTransferEncoding::SevenBit);
    }
    Body::new(text.to_owned())
}

#[cfg(test)]
mod tests {
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
        for part in ["To: ada@example.com\r\n", "Subject: Set a new password\r\n", &link] {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert!(message.contains("no-reply@localhost"), "{message}");
        assert!(!message.replace("\r\n", "").contains(['\r', '\n']), "lines end as mail's do");
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
        for company in [busy, other, busy] {
            assert!(outbox.may_be_invited(company, "ada@example.com", now));
        }
        assert!(!outbox.may_be_invited(other, "ADA@example.com", now), "three to one address");
        assert!(outbox.may_be_asked_for("ada@example.com", now));
        for number in 2..INVITATIONS_MAX {
            assert!(outbox.may_be_invited(busy, &format!("{number}@example.com"), now), "{number}");
        }
        assert!(!outbox.may_be_invited(busy, "last@example.com", now), "all of one company");
        assert!(outbox.may_be_invited(other, "last@example.com", now));
        assert!(outbox.may_be_invited(busy, "last@example.com", now + WINDOW));
    }
}
