//! The bounds of mail, but for those of waiting letters: see `dispatch`.

use std::time::Duration;

use cardswitch_dispatch::mail::limits::{QUEUE_IN_TURN_MAX, QUEUE_LETTERS_MAX};

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

/// Beyond so many, notices of declines wait where they come from: links are worth more.
pub(super) const QUEUE_NOTICES_MAX: usize = QUEUE_LETTERS_MAX / 2;
const _: () = assert!(QUEUE_NOTICES_MAX < QUEUE_IN_TURN_MAX);
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

/// How many letters about declines a cardholder gets in an hour, before one that there are more.
pub(super) const DECLINES_PER_HOUR_MAX: u32 = 10;
/// So many wrong credentials of one card in an hour are suspicious.
pub(super) const WRONG_CREDENTIALS_MAX: u32 = 3;
/// How many cardholders, and how many cards, are remembered.
pub(super) const CARDHOLDERS_MAX: usize = 10_000;
/// How often new declines are read.
pub(super) const DECLINES_INTERVAL: Duration = Duration::from_secs(1);
/// How many transactions are read before other work may go on.
pub(super) const DECLINES_SCAN_MAX: u64 = 20_000;
/// How often the cursor is written while no decline is found.
pub(super) const CURSOR_INTERVAL: Duration = Duration::from_secs(60);
