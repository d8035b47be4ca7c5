//! Marks of what a campaign must have met: a simulator that never goes there proves nothing of it.

use std::fmt;

/// Something that rarely happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// A command waited for the tables while later ones were executed.
    PutAside,
    /// A command was answered with an unknown outcome.
    UnknownOutcome,
    /// A command without an answer had happened.
    Unheard,
    /// A start dropped a torn group.
    TornTail,
    /// A start dropped a group of batches of which a later one was whole.
    TornGroup,
    /// A start failed at a disk.
    FailedStart,
    /// The journal went on in another segment.
    NextSegment,
    /// The journal let go of a segment.
    Trimmed,
    /// A switch stopped since its journal had failed.
    JournalFailed,
    /// The tables were behind the journal when the switch came back.
    TablesBehind,
    /// A command was answered while the tables stood still, since their disk had failed.
    AnsweredAtStandstill,
    /// A change was refused, since nobody could read it while they stood still.
    ChangeRefused,
    /// A command was not carried out, since its rows could not be read.
    TablesUnread,
    /// A hold had not ended in time, since the tables could not be read.
    HoldLate,
    /// Parts moved while the journal's disk was at a write.
    MovedAmidWrite,
    /// Reads were compared with the model while commands were under way.
    ReadUnderWay,
    /// The clock went back while commands were under way.
    ClockBack,
    /// A timer ran by a clock that had leapt ahead.
    ClockLeap,
    /// A flipped bit refused a start.
    FlipRefused,
    /// A start went on with a flipped bit.
    FlipHarmless,
    /// A flipped bit of the tables refused a start.
    TablesFlipRefused,
    /// A start went on with a flipped bit in the tables, and some row could not be read.
    TablesFlipUnread,
    /// A command was not carried out, since a bit of a row had flipped under the running switch.
    FlippedRowUnread,
    /// A flipped bit of the tables changed nothing.
    TablesFlipHarmless,
    /// A start was refused since syncs had lied.
    LieRefused,
    /// A start after syncs had lied lacked an acknowledged record.
    LieLost,
    /// A change was made, since its object was as it had been seen.
    ConditionMet,
    /// Somebody was told that an object had changed since they saw it.
    ChangedMeanwhile,
    /// Somebody was told so of what they saw before a start.
    SeenBeforeStart,
    /// A node led in place of one that had died.
    LeaderDied,
    /// A node led in place of one that went on, which gave no answer from then on.
    LeaderFenced,
    /// Another node was quicker where one took over, with the same barrier.
    LeaderOvertaken,
    /// A node led and was never heard of again.
    GhostLeader,
    /// A batch arrived that its writer held for lost.
    LateWrite,
    /// A batch arrived, and its answer did not.
    LostAppendAnswer,
    /// A node was left behind by the window and began again as a copy.
    FollowerCopied,
    /// A webhook was tried once more.
    WebhookRetried,
    /// A webhook was given up after its last try.
    WebhookGivenUp,
    /// Somebody was told that events come once more, whatever crashes.
    RecoveryPromised,
    /// An endpoint was so far behind that its lane read the log by itself.
    LaneBehind,
    /// The switch went down while requests to receivers were under way.
    CrashAmidRequest,
    /// A webhook arrived after the switch had given up waiting.
    LateArrival,
    /// The state of deliveries could not be written down.
    WebhooksUnsaved,
    /// The state of deliveries could not be opened, since its disk failed.
    WebhooksFailedStart,
    /// The event log had lost its newest part.
    EventLogCut,
    /// A leader went on from the notes of another.
    DeliveriesTakenOver,
    /// A leader could not reach the notes, and leads no more.
    NotesNotReached,
    /// A webhook came once more, since another node leads.
    RepeatedAfterFailOver,
    /// A node that led delivered a webhook.
    FormerLeaderDelivered,
    /// A note of a node that led was refused.
    NoteRefused,
    /// A leader died when a part of its notes had arrived.
    LeaderDiedAmidNote,
    /// A note arrived, and its answer did not.
    LostNoteAnswer,
    /// A note arrived that its writer held for lost.
    LateNote,
    /// A note that its writer held for lost was refused when it arrived.
    LateNoteRefused,
    /// A letter or news was not written, and its caller was told.
    LetterRefused,
    /// The switch went down while it held news of a change.
    NewsHeldOverCrash,
    /// News of a change that was not made was forgotten.
    NewsWithdrawn,
    /// The mail server took a letter once more.
    LetterRepeated,
    /// A letter was given up, refused too often or too old.
    LetterGivenUp,
    /// The mail server was not reached.
    MailServerPaused,
    /// The switch went down after the mail server had taken a letter, before it knew.
    CrashAfterTaking,
    /// The switch went down after it knew, before the letter left the queue.
    CrashBeforeFinish,
    /// The tables had lost declines of which cardholders were told.
    DeclinesLost,
    /// Another transaction had the number of the last one of which cardholders were told.
    NoticePlaceReused,
    /// Declines were read again after a start.
    DeclinesReadAgain,
    /// A letter about a decline was handed in once more.
    NoticeHandedInAgain,
    /// The mail server took a letter about a decline once more.
    NoticeRepeated,
    /// A letter about a decline was not written, since the disk failed.
    NoticeNotWritten,
    /// Letters about declines were written, and their place was not.
    NoticePlaceUnwritten,
    /// The follower of declines could not start, since its place was not read or written.
    NoticesFailedStart,
    /// Declines waited, since too many letters did.
    NoticesHeldBack,
    /// A step handed in letters, and reached the end of its page with more transactions to read.
    DeclinePageEnded,
    /// A decline brought no letter, since the cardholder had enough.
    NoticeHeldForMore,
    /// A cardholder learned that there are more declines.
    MoreNotices,
    /// A cardholder was warned of suspicious declines.
    CardholderWarned,
    /// A decline brought no letter, since the cardholder had left.
    NoticeOfFormerMember,
    /// The switch went down after the mail server had taken a letter about a decline, before it
    /// knew.
    CrashAfterNotice,
    /// A letter about a decline was given up, refused too often or too old.
    NoticeGivenUp,
    /// A leader found letters that another had left.
    NoticesTakenOver,
    /// Webhooks went on among the same notes.
    NoticesBesideWebhooks,
    /// The mail server took a letter once more, since another node leads.
    NoticeRepeatedAfterFailOver,
    /// The mail server took a letter from a node that led.
    FormerLeaderMailed,
    /// A letter of a node that led was not noted.
    FormerNoticeRefused,
    /// A letter or its place was not noted, since the notes were silent for long.
    NoticeNotNoted,
    /// A message was not taken, since the engine had stopped.
    MessageNotTaken,
    /// An answer came to a connection that was gone.
    AnswerToNobody,
    /// A message without an answer was sent again on another connection.
    RepeatedOnAnotherLine,
    /// An acquirer heard that an outcome is unknown.
    UnknownOutcomeHeard,
    /// A message was answered again, as it was before.
    SameAnswerAgain,
    /// A connection was lost while its requests were with the engine.
    LineLostInFlight,
    /// A connection whose acquirer sent no more ended when all was answered.
    HalfCloseAnswered,
    /// A connection ended since its acquirer had sent no frame.
    LineOutOfStep,
    /// A connection ended in good order, since its door stopped.
    LineDrained,
    /// A door that stopped gave up waiting for an acquirer.
    DrainTimedOut,
    /// A connection ended since its acquirer was silent.
    SilentLineEnded,
    /// A connection ended since its acquirer was too slow.
    SlowLineCut,
    /// The door stopped.
    DoorStopped,
    /// The machine went down with its connections.
    CrashUnderSockets,
    /// A door took a new key.
    KeyExchanged,
    /// A door came back with a key that was exchanged.
    KeyKeptOverCrash,
    /// A door refused a key whose message was not new.
    KeyReplayRefused,
    /// A message was refused for its code.
    WrongCodeRefused,
    /// A message under the key before was taken.
    OldKeyTaken,
    /// A message was refused, since its key counted no more or not yet.
    OldKeyRefused,
    /// An acquirer read an answer in ASCII with binary bitmaps.
    AsciiSpoken,
    /// An acquirer read an answer in ASCII throughout.
    HexSpoken,
    /// An acquirer read an answer in EBCDIC.
    EbcdicSpoken,
    /// An acquirer read an answer with packed digits.
    PackedSpoken,
    /// An acquirer read an answer of ISO 8583:1993.
    Spoken1993,
    /// A message with a CMAC of TDES was taken.
    TdesCmacTaken,
    /// A PIN was read from a block of sixteen bytes.
    LongPinRead,
    /// A PIN counted as wrong, since its block was under no key that counts.
    PinUnread,
    /// The data of a chip came to a door that does not look at them.
    ChipDataUnread,
    /// A chip's cryptogram was not its card's.
    ChipDoubted,
    /// A chip was answered by its issuer.
    ChipAnswered,
    /// A card was named by its track.
    TrackRead,
    /// A message without a time was taken.
    UntimedTaken,
    /// A message with neither a time nor a reference was taken.
    UntracedTaken,
    /// Such a message was answered again.
    UntracedRepeated,
    /// A track with more than digits and an equals sign was read.
    OddTrackRead,
    /// A track that is none stood beside a card number.
    OddTrackIgnored,
    /// A card was named by a track that is none.
    OddTrackRefused,
    /// Elements of private use were of no use.
    PrivateDataIgnored,
    /// DE48 had a form that is not known.
    OpaqueDataIgnored,
    /// A message brought a time to a clock that is nobody's to turn.
    SuppliedTimeIgnored,
    /// A purchase was in a foreign currency.
    ForeignAsked,
    /// An acquirer asked for more on a purchase.
    IncreaseAsked,
    /// A part of a purchase was taken back.
    PartReversed,
    /// A part of a purchase was taken back in the manner of ISO 8583:1993.
    PartReversed1993,
    /// An answer came with its TPDU turned round.
    TpduTurned,
    /// An acquirer took a message back, since no answer had come in time.
    GivenUp,
    /// The answer to a message that was taken back came after all.
    LateAnswerHeard,
    /// A message was taken back before it was decided.
    ReversalFirst,
}

impl Mark {
    pub const ALL: [Self; 133] = [
        Self::PutAside,
        Self::UnknownOutcome,
        Self::Unheard,
        Self::TornTail,
        Self::TornGroup,
        Self::FailedStart,
        Self::NextSegment,
        Self::Trimmed,
        Self::JournalFailed,
        Self::TablesBehind,
        Self::AnsweredAtStandstill,
        Self::ChangeRefused,
        Self::TablesUnread,
        Self::HoldLate,
        Self::MovedAmidWrite,
        Self::ReadUnderWay,
        Self::ClockBack,
        Self::ClockLeap,
        Self::FlipRefused,
        Self::FlipHarmless,
        Self::TablesFlipRefused,
        Self::TablesFlipUnread,
        Self::FlippedRowUnread,
        Self::TablesFlipHarmless,
        Self::LieRefused,
        Self::LieLost,
        Self::ConditionMet,
        Self::ChangedMeanwhile,
        Self::SeenBeforeStart,
        Self::LeaderDied,
        Self::LeaderFenced,
        Self::LeaderOvertaken,
        Self::GhostLeader,
        Self::LateWrite,
        Self::LostAppendAnswer,
        Self::FollowerCopied,
        Self::WebhookRetried,
        Self::WebhookGivenUp,
        Self::RecoveryPromised,
        Self::LaneBehind,
        Self::CrashAmidRequest,
        Self::LateArrival,
        Self::WebhooksUnsaved,
        Self::WebhooksFailedStart,
        Self::EventLogCut,
        Self::DeliveriesTakenOver,
        Self::NotesNotReached,
        Self::RepeatedAfterFailOver,
        Self::FormerLeaderDelivered,
        Self::NoteRefused,
        Self::LeaderDiedAmidNote,
        Self::LostNoteAnswer,
        Self::LateNote,
        Self::LateNoteRefused,
        Self::LetterRefused,
        Self::NewsHeldOverCrash,
        Self::NewsWithdrawn,
        Self::LetterRepeated,
        Self::LetterGivenUp,
        Self::MailServerPaused,
        Self::CrashAfterTaking,
        Self::CrashBeforeFinish,
        Self::DeclinesLost,
        Self::NoticePlaceReused,
        Self::DeclinesReadAgain,
        Self::NoticeHandedInAgain,
        Self::NoticeRepeated,
        Self::NoticeNotWritten,
        Self::NoticePlaceUnwritten,
        Self::NoticesFailedStart,
        Self::NoticesHeldBack,
        Self::DeclinePageEnded,
        Self::NoticeHeldForMore,
        Self::MoreNotices,
        Self::CardholderWarned,
        Self::NoticeOfFormerMember,
        Self::CrashAfterNotice,
        Self::NoticeGivenUp,
        Self::NoticesTakenOver,
        Self::NoticesBesideWebhooks,
        Self::NoticeRepeatedAfterFailOver,
        Self::FormerLeaderMailed,
        Self::FormerNoticeRefused,
        Self::NoticeNotNoted,
        Self::MessageNotTaken,
        Self::AnswerToNobody,
        Self::RepeatedOnAnotherLine,
        Self::UnknownOutcomeHeard,
        Self::SameAnswerAgain,
        Self::LineLostInFlight,
        Self::HalfCloseAnswered,
        Self::LineOutOfStep,
        Self::LineDrained,
        Self::DrainTimedOut,
        Self::SilentLineEnded,
        Self::SlowLineCut,
        Self::DoorStopped,
        Self::CrashUnderSockets,
        Self::KeyExchanged,
        Self::KeyKeptOverCrash,
        Self::KeyReplayRefused,
        Self::WrongCodeRefused,
        Self::OldKeyTaken,
        Self::OldKeyRefused,
        Self::AsciiSpoken,
        Self::HexSpoken,
        Self::EbcdicSpoken,
        Self::PackedSpoken,
        Self::Spoken1993,
        Self::TdesCmacTaken,
        Self::LongPinRead,
        Self::PinUnread,
        Self::ChipDataUnread,
        Self::ChipDoubted,
        Self::ChipAnswered,
        Self::TrackRead,
        Self::UntimedTaken,
        Self::UntracedTaken,
        Self::UntracedRepeated,
        Self::OddTrackRead,
        Self::OddTrackIgnored,
        Self::OddTrackRefused,
        Self::PrivateDataIgnored,
        Self::OpaqueDataIgnored,
        Self::SuppliedTimeIgnored,
        Self::ForeignAsked,
        Self::IncreaseAsked,
        Self::PartReversed,
        Self::PartReversed1993,
        Self::TpduTurned,
        Self::GivenUp,
        Self::LateAnswerHeard,
        Self::ReversalFirst,
    ];
}

/// How often each mark was passed.
#[derive(Clone, Debug)]
pub struct Marks([u64; Mark::ALL.len()]);

impl Default for Marks {
    fn default() -> Self {
        Self([0; Mark::ALL.len()])
    }
}

impl Marks {
    pub(crate) fn pass(&mut self, mark: Mark) {
        self.0[mark as usize] += 1;
    }

    pub(crate) fn pass_if(&mut self, mark: Mark, has_happened: bool) {
        self.0[mark as usize] += u64::from(has_happened);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    /// The marks that were never passed.
    pub fn missed(&self) -> Vec<Mark> {
        Mark::ALL.into_iter().filter(|mark| self.0[*mark as usize] == 0).collect()
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mark in Mark::ALL {
            writeln!(f, "  {mark:?}: {}", self.0[mark as usize])?;
        }
        Ok(())
    }
}
