//! The bounds of mail, but for those of waiting letters and of letters about declines: see `dispatch`.

use std::time::Duration;

/// The window in which letters to one address are counted.
pub(super) const WINDOW: Duration = Duration::from_secs(15 * 60);
/// How many of them there may be that any visitor can have sent.
pub(super) const ASKED_FOR_MAX: u32 = 3;
/// How many invitations one company may have sent in that time; invited members who get none can
/// still ask for a link to set a password.
pub(super) const INVITATIONS_MAX: u32 = 500;
/// How many shared links one company may have sent to one address in that time.
pub(super) const LINKS_TO_ADDRESS_MAX: u32 = 20;
/// How many shared links one company may have sent in that time.
pub(super) const LINKS_MAX: u32 = 500;
/// How many letters of one sort are remembered.
pub(super) const REMEMBERED_MAX: usize = 10_000;

/// How much of a name a subject shows: one word of any length would be one line of a header.
/// Units: characters.
pub(super) const SUBJECT_NAME_CHARS_MAX: usize = 60;
/// The longest line that mail servers take. Units: bytes. Source: RFC 5322, 2.1.1.
pub(super) const LINE_BYTES_MAX: usize = 998;
/// The width at which lines of plain text are broken. Units: characters. Source: RFC 5322, 2.1.1.
pub(super) const TEXT_LINE_CHARS_MAX: usize = 76;

/// How long one step of a conversation with a server may take: connecting, greeting, signing in.
pub(super) const STEP_WAIT: Duration = Duration::from_secs(20);
/// How long a server may take for one letter.
pub(super) const LETTER_WAIT: Duration = Duration::from_secs(60);
/// After so long without a letter a connection is closed.
pub(super) const IDLE_WAIT: Duration = Duration::from_secs(15);
/// After so many letters a connection is made anew: servers dislike endless ones.
pub(super) const LETTERS_PER_CONNECTION: u32 = 100;
/// How long a letter that is on its way may still take when the switch stops.
pub(super) const STOP_WAIT: Duration = Duration::from_secs(5);

/// How many letters about declines stay in the directory of letters that no server takes.
pub(super) const NOTICE_FILES_MAX: usize = 10_000;
/// How often new declines are read.
pub(super) const DECLINES_INTERVAL: Duration = Duration::from_secs(1);
