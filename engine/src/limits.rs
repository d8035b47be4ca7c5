//! Every bound of the engine: queues, batches, buffers, waits. Exceeding one has a typed answer.

/// The longest record. Units: bytes.
pub const RECORD_BYTES_MAX: usize = 1 << 20;
/// How far the clock may be behind the newest record before that is told. Units: microseconds.
pub const CLOCK_BEHIND_MAX: i64 = 10 * 1_000_000;
/// How many cards are made at once at most.
pub const CARDS_AT_ONCE_MAX: usize = 100;
/// The most that cards made at once take in their record. Units: bytes.
pub const CARDS_AT_ONCE_BYTES_MAX: usize = RECORD_BYTES_MAX / 4 * 3;
/// How many shared links of one card there are at most, without those that were deleted.
pub const SHARED_LINKS_OF_CARD_MAX: usize = 100;
/// How many links a company has sent to one address at most, without those that were deleted: a member
/// with the address takes all of them away on leaving, in one record.
pub const SHARED_LINKS_TO_ADDRESS_MAX: usize = 1_000;
/// How much time lies between two views of a shared link that are noted. Units: microseconds.
pub const LINK_VIEW_INTERVAL: i64 = 60 * 1_000_000;
/// How many webhook endpoints a company has at most, those of its apps among them: deleting an app
/// takes away its endpoints, in one record.
pub const WEBHOOK_ENDPOINTS_OF_COMPANY_MAX: usize = 100;
/// Replaced secrets of a webhook endpoint that sign still.
pub const WEBHOOK_SECRETS_BEFORE_MAX: usize = 4;
/// How many cards are named in the list of consequences when a member leaves.
pub const LEAVING_CARDS_NAMED_MAX: usize = 100;
/// How long a value of the event log gets before the next one begins. Units: bytes.
pub const EVENT_BLOCK_BYTES: usize = 1_000;
/// How many commands may wait for the shard; beyond, submissions are refused at once.
pub const QUEUED_COMMANDS_MAX: usize = 16_384;
/// How many commands the shard takes at a time.
pub const SHARD_BATCH_LEN_MAX: usize = 512;
/// How many commands a caller decides on its own thread at most.
pub const DECIDED_IN_PLACE_MAX: usize = 4;
/// How many commands may wait for the tables beside the shard; beyond, it takes no others.
pub const COMMANDS_ASIDE_MAX: usize = 1_024;
/// How much of a record commands leave free that fill one with their consequences, for the audit of
/// these.
/// Units: bytes.
pub const RECORD_SPARE_BYTES: usize = 192 << 10;
/// How many cards that are not terminated one member may hold: leaving closes them all in one record.
pub const MEMBER_CARDS_MAX: usize = 10_000;
/// How many requisitions of one member may be pending: leaving denies them all in the same record.
pub const MEMBER_REQUISITIONS_PENDING_MAX: usize = 25;
/// How many bytes of records the shard gathers before it hands them to the committer, even in the
/// middle of a batch: the journal takes no request beyond a bound of its own.
pub const HAND_OVER_BYTES: usize = 256 << 10;
/// How many shard batches may wait for the committer; beyond, the shard waits.
pub const COMMIT_QUEUE_LEN_MAX: usize = 64;
/// How large the journal's file is kept where nothing else is said. Units: bytes.
pub const JOURNAL_BYTES_DEFAULT: u64 = 256 << 20;
/// How many journal bytes one commit of the projector takes. Units: bytes.
pub const PROJECTION_BYTES_MAX: usize = 4 << 20;
/// The time between two commits of the tables while records keep coming. Units: milliseconds.
pub const VISIBLE_INTERVAL_MS: u64 = 10;
/// The same while a reader waits. Units: milliseconds.
pub const AWAITED_INTERVAL_MS: u64 = 2;
/// How many records may be visible in the tables without being durable there; about as many are
/// replayed at a start.
pub const CHECKPOINT_RECORDS_MAX: u64 = 1_000_000;
/// How much is written to the tables' file before the system is asked to begin writing it to the
/// disk. Units: bytes.
pub const WRITE_BACK_BYTES: usize = 256 << 10;
/// The longest time between two checkpoints while records come. Units: milliseconds.
pub const CHECKPOINT_INTERVAL_MS: u64 = 5_000;
/// How many index entries a projection merges at most with one commit.
pub const RUN_MERGE_ENTRIES_MAX: u64 = 400_000;
/// How many transactions a start takes into memory at most; older ones are read when asked for.
pub const RESTORED_TRANSACTIONS_MAX: usize = 32_768;
/// How many decoded batches of the journal may wait to be applied at a start.
pub const DECODED_BATCHES_MAX: usize = 8;
/// How many holds that end soon are read at a time, about.
pub const HOLDS_READ_MAX: usize = 16_384;
/// The store's page cache. Units: bytes.
pub const STORE_CACHE_BYTES: usize = 256 << 20;
/// The page cache of a start, which reads every card once. Units: bytes.
pub const START_CACHE_BYTES: usize = 8 << 20;
/// Known counts of lists in runs, about 3 MB of them. Beyond, all are forgotten and counted again.
pub const RUN_COUNTS_MAX: usize = 1 << 16;
/// How many differing cards or transactions an audit names, of each kind and account.
pub const AUDIT_DETAILS_MAX: usize = 20;
/// The most rows a page of a list has.
pub const PAGE_LEN_MAX: usize = 1_000;
/// How many idempotency keys are remembered of a company's tokens with a scope that needs approval,
/// and of its others; beyond, they wait until one has expired.
pub const KEYS_PER_COMPANY_MAX: usize = 100_000;
/// How many are remembered of all companies together.
pub const KEYS_MAX: usize = 1_000_000;
/// The longest answer kept under an idempotency key, as it is sealed. Units: bytes.
pub const KEYED_ANSWER_BYTES_MAX: usize = RECORD_BYTES_MAX - (16 << 10);
/// How many tickets of a kind are open for a user at most; one more ends the oldest.
pub const TICKETS_OF_USER_MAX: usize = 100;
/// How many tickets are remembered of all users together.
pub const TICKETS_MAX: usize = 1_000_000;
/// How many links to set a password that one company sent are open at most.
pub const PASSWORD_LINKS_OF_COMPANY_MAX: usize = 10_000;
/// How many used codes of a user are remembered at most; one more forgets the oldest.
pub const USED_CODES_OF_USER_MAX: usize = 100;
/// How many tokens of a member open anything at most; one more displaces the member's oldest of the
/// same app and kind of grant, or is refused.
pub const TOKENS_OF_MEMBER_MAX: usize = 100;
/// How many tokens of an app open anything at most, by the same rule; deleting the app revokes all,
/// in one record.
pub const TOKENS_OF_APP_MAX: usize = 5_000;
/// How many of them open one company's data at most, by the same rule: no company shuts an app to
/// the others.
pub const TOKENS_OF_APP_IN_COMPANY_MAX: usize = 1_000;
/// How many reversals that came before their message are remembered of one card; one more forgets
/// the oldest.
pub const EARLY_REVERSALS_OF_CARD_MAX: usize = 1_000;
/// How many are remembered of all cards together; one more forgets the oldest of all.
pub const EARLY_REVERSALS_MAX: usize = 1 << 18;
/// How many changes of objects are remembered: requests that looked at one before them are refused.
pub const RECENT_CHANGES_MAX: usize = 1 << 16;
/// How many card numbers are sealed anew by one command at most.
pub const RESEALED_CARDS_MAX: usize = 64;
/// The longest card number as it is sealed. Units: bytes.
pub const SEALED_PAN_BYTES_MAX: usize = 256;
/// How many levels a tree of categories, departments, labels or locations has at most.
pub const DIMENSION_LEVELS_MAX: usize = 10;
/// How many children one of them has at most: deleting it moves all of them, in one record.
pub const DIMENSION_CHILDREN_MAX: usize = 1_000;
/// The longest name of one. Units: bytes.
pub const DIMENSION_NAME_BYTES_MAX: usize = 800;
/// The longest code of one. Units: digits.
pub const DIMENSION_CODE_DIGITS_MAX: usize = 20;
/// More than the bytes that one takes in a record beside its name and code. Units: bytes.
const DIMENSION_REST_BYTES: usize = 96;

const _: () = assert!(
    (DIMENSION_CHILDREN_MAX + 1)
        * (DIMENSION_NAME_BYTES_MAX + DIMENSION_CODE_DIGITS_MAX + DIMENSION_REST_BYTES)
        < RECORD_BYTES_MAX
);
const _: () = assert!(
    (MEMBER_CARDS_MAX + MEMBER_REQUISITIONS_PENDING_MAX + SHARED_LINKS_TO_ADDRESS_MAX) * 16
        < RECORD_SPARE_BYTES - (16 << 10)
);
const _: () = assert!(PASSWORD_LINKS_OF_COMPANY_MAX * 100 <= TICKETS_MAX);
const _: () = assert!(SHARD_BATCH_LEN_MAX <= QUEUED_COMMANDS_MAX);
