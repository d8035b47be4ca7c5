//! The loop's own promises: the time of each command, whatever the clock does.

mod asking_tables;

use crossbeam_channel::bounded;

use super::*;
use crate::command::Command;
use crate::command::admin::AdminCommand;
use crate::command::effect::IssuedCard;
use crate::command::record::records;
use crate::domain::account::{Account, AccountBalances};
use crate::domain::allowance::{AllowanceTerms, CardUsage};
use crate::domain::business_date::BusinessDate;
use crate::domain::card::{CardProfile, CardRecord, CardState, PanHash, SealedPan};
use crate::domain::company::{Address, Company, CompanyState, VelocityLimits};
use crate::domain::credential::{PackedZip, PinVerifier};
use crate::domain::hold_table::HoldTable;
use crate::domain::ids::{
    AccountId, AccountSlot, AllowanceId, CardId, CardSlot, CompanyId, CompanySlot, RecordSeq,
};
use crate::domain::money::{CurrencyCode, Minor};
use crate::inbox::{InboxSender, inbox};
use crate::loader::RecallSource;
use crate::store::{LateHolds, Watermark};

const NOON: Timestamp = Timestamp(1_772_539_200_000_000);

/// A company with cards whose allowances end one second after noon.
fn state_with_ending_cards(cards: u32) -> ShardState {
    with_cards(ShardState::default(), cards, NOON.plus(Timestamp::SECOND))
}

/// The state with a company, its funds, and cards whose allowances end at this time.
fn with_cards(mut state: ShardState, cards: u32, ends_at: Timestamp) -> ShardState {
    let company = Company {
        slot: CompanySlot(0),
        id: CompanyId(uuid::Uuid::from_u128(1)),
        name: String::new(),
        website: String::new(),
        zone: chrono_tz::UTC,
        currency: CurrencyCode(840),
        network: String::new(),
        velocity: VelocityLimits::default(),
        partial_approval: false,
        hold_table: HoldTable::default(),
        billing_address: Address::default(),
        shipping_address: Address::default(),
        state: CompanyState::Active,
        created_at: NOON,
    };
    let account = Account {
        slot: AccountSlot(0),
        id: AccountId(uuid::Uuid::from_u128(2)),
        company: company.slot,
        name: String::new(),
        number: String::new(),
        currency: company.currency,
        credit_limit: Minor::ZERO,
        funding_source: None,
        created_at: NOON,
    };
    let record = CardRecord {
        pan_hash: PanHash(1),
        pin: PinVerifier::default(),
        zip: PackedZip::default(),
        account: account.slot,
        expires_on: BusinessDate(30_000),
        usage: CardUsage { state: CardState::Active, ..CardUsage::default() },
        terms: AllowanceTerms { ends_at, ..AllowanceTerms::budget(Minor(1_000)) },
    };
    let profile = CardProfile {
        id: CardId(uuid::Uuid::from_u128(3)),
        allowance_id: AllowanceId(uuid::Uuid::from_u128(4)),
        company: company.slot,
        is_virtual: true,
        created_at: NOON,
        ..CardProfile::default()
    };
    let issue = |slot: u32| {
        let mut issued =
            IssuedCard { profile: profile.clone(), record, sealed_pan: SealedPan(Vec::new()) };
        issued.profile.slot = CardSlot(slot);
        issued.record.pan_hash = PanHash(u64::from(slot) + 1);
        Effect::CardIssued(Box::new(issued))
    };
    let funds = AccountBalances { ledger: Minor(100_000), ..AccountBalances::default() };
    let mut effects = vec![
        Effect::Company(Box::new(company)),
        Effect::Account(Box::new(account)),
        Effect::AccountBalances(AccountSlot(0), funds),
    ];
    effects.extend((0..cards).map(issue));
    state.apply_record(RecordSeq(1), NOON, &effects);
    state
}

fn shard_on(state: ShardState, clock: Clock) -> (Shard, Inbox<CommitRequest<ReplyBatch>>) {
    let (shard, committed, _edges) = shard_over(state, clock, None);
    (shard, committed)
}

type Ends = (Shard, Inbox<CommitRequest<ReplyBatch>>, InboxSender<Submission>);

/// Tables, the newest record that they show, and since when holds may be late.
type Tables = (Arc<dyn RecallSource>, Arc<Watermark>, Arc<LateHolds>);

fn shard_over(state: ShardState, clock: Clock, tables: Option<Tables>) -> Ends {
    let (edges, from_edges) = inbox(1);
    let wired = |(tables, watermark, late_holds)| RecallWiring {
        loader: Loader::new(tables, &from_edges.bell),
        watermark,
        late_holds,
        ends_holds_late: true,
    };
    let recall = tables.map(wired);
    let (committer, committed) = inbox(limits::COMMIT_QUEUE_LEN_MAX);
    let (_, spent_buffers) = bounded(1);
    let wiring = ShardWiring {
        inbox: from_edges,
        queued: Arc::default(),
        committer: CommitDesk::passing_on(committer),
        spent_buffers,
        clock: Arc::new(clock),
        ids: IdMint::new([7; 16], 0),
        recall,
        meters: Arc::default(),
    };
    (Shard::new(state, wiring), committed, edges)
}

fn take(shard: &mut Shard, now: Timestamp, command: &TimedCommand) -> Reply {
    match shard.take(now, command) {
        CommandOutcome::Done(reply) => reply.unwrap(),
        CommandOutcome::Aside => panic!("a shard without limits asks nobody"),
    }
}

fn set_network_key() -> TimedCommand {
    Command::Admin(Box::new(AdminCommand::SetNetworkKey([1; 32]))).into()
}

/// A timer ran while no command came; then the clock went back behind it, and the next command was
/// given a time before the timer's: the shard stopped at its own assertion.
#[test]
fn a_clock_that_goes_back_behind_a_timer_changes_no_order() {
    let (mut shard, _committed) = shard_on(state_with_ending_cards(1), Clock::System);
    shard.run_due_timers(NOON.plus(Timestamp::MINUTE));
    let timer_ran_at = shard.state.last_at();
    assert_eq!(timer_ran_at, NOON.plus(Timestamp::SECOND + 1));
    assert_eq!(take(&mut shard, NOON.plus(5), &set_network_key()), Reply::Done(RecordSeq(3)));
    assert!(shard.state.last_at() > timer_ran_at);
}

#[test]
fn commands_have_times_of_their_own_in_the_order_they_came() {
    let (mut shard, _committed) = shard_on(ShardState::default(), Clock::System);
    let readings = [NOON, NOON, NOON.plus(-Timestamp::DAY), NOON.plus(9), NOON.plus(3)];
    let stamped: Vec<_> = readings.iter().map(|now| shard.stamp(*now, None)).collect();
    assert_eq!(stamped, [NOON, NOON.plus(1), NOON.plus(2), NOON.plus(9), NOON.plus(10)]);
}

#[test]
fn only_a_manual_clock_honours_a_supplied_time_and_it_never_goes_back() {
    let later = NOON.plus(Timestamp::DAY);
    let (mut shard, _committed) = shard_on(ShardState::default(), Clock::System);
    assert_eq!(shard.stamp(NOON, Some(later)), NOON);
    let (mut shard, _committed) = shard_on(ShardState::default(), Clock::manual(NOON));
    assert_eq!(shard.stamp(NOON, Some(later)), later);
    assert_eq!(shard.stamp(NOON, Some(NOON.plus(-1))), later.plus(1));
}

#[test]
fn a_supplied_time_beyond_the_calendar_moves_no_clock() {
    let (mut shard, _committed) = shard_on(ShardState::default(), Clock::manual(NOON));
    let last = Timestamp::CALENDAR_MAX;
    for beyond in [last.plus(1), Timestamp::MAX] {
        shard.stamp(NOON, Some(beyond));
        assert_eq!(shard.wiring.clock.now(), NOON);
    }
    assert_eq!(shard.stamp(NOON, Some(last)), last);
}

/// After a long rest every hold and allowance that ended meanwhile is due at once: as one request
/// they were more than the journal takes, and the switch stopped, again at each start.
#[test]
fn a_flood_of_timers_is_handed_over_in_pieces_the_journal_takes() {
    const CARDS: u32 = 20_000;
    let (mut shard, committed) = shard_on(state_with_ending_cards(CARDS), Clock::System);
    shard.run_due_timers(NOON.plus(Timestamp::MINUTE));
    assert!(shard.hand_over(ReplyBatch::default()));
    let requests: Vec<_> = std::iter::from_fn(|| committed.try_take().ok()).collect();
    assert!(requests.len() > 1, "a flood that fits one request proves nothing");
    let mut last_seq = 1;
    for request in requests {
        assert!(request.records.len() < limits::HAND_OVER_BYTES + limits::RECORD_BYTES_MAX);
        assert_eq!(request.last_seq, last_seq + u64::from(request.records.record_count()));
        last_seq = request.last_seq;
    }
    assert_eq!(last_seq, 1 + u64::from(CARDS));
}
