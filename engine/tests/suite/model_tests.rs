//! The shard against the model: after every command the same answer, the same books.

use std::collections::BTreeMap;

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::record::records;
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::decision::{IncrementDecision, explain_increment};
use cardswitch_engine::directory::DirectoryRow;
use cardswitch_engine::directory::access_token::{AccessToken, TokenOrigin};
use cardswitch_engine::directory::ticket::TicketState;
use cardswitch_engine::domain::ids::{
    AccountSlot, CardSlot, MemberSlot, RecordSeq, Timestamp, TransactionSeq,
};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::posting::{Book, Posting};
use cardswitch_engine::shard::ShardState;

use cardswitch_sim::audit::audit_state;

use crate::driver::{Driver, id_mint};
use crate::model::{IncrementOutcome, Model};
use crate::names::Names;
use crate::rng::{DEFAULT_SEED, Rng, number_from_environment};
use crate::shrink::{Failure, failure_of, shrink};
use crate::state_hashes::StateHashes;
use crate::workload::Workload;

const STEPS: u64 = 100_000;
/// The model adds everything up each time, so a run is cut into programs of this length.
const STEPS_PER_PROGRAM: u64 = 5_000;
const STEPS_BETWEEN_AUDITS: usize = 100;

/// A shard and its model on their way through one program.
pub(crate) struct Pair {
    pub(crate) driver: Driver,
    pub(crate) model: Model,
    pub(crate) workload: Workload,
    seed: u64,
    /// Every step drawn since the opening, for shrinking.
    drawn: Vec<Step>,
    /// The number of times that each answer was given.
    answers: BTreeMap<String, u64>,
}

/// A command, and when it comes.
#[derive(Clone, Debug)]
struct Step {
    at: Timestamp,
    command: Command,
    /// Whether timers run before, for themselves: the loop runs them also when nobody asks.
    after_timers: bool,
    /// The newest transaction after it, where it made one.
    made: Option<TransactionSeq>,
}

impl Pair {
    pub(crate) fn new(seed: u64) -> Self {
        let mut pair = Self {
            driver: Driver::new(ShardState::default()),
            model: Model::new(id_mint()),
            workload: Workload::new(seed),
            seed,
            drawn: Vec::new(),
            answers: BTreeMap::new(),
        };
        for command in pair.workload.opening() {
            let mut step = pair.timed(command);
            pair.carry_out(&mut step);
        }
        pair
    }

    pub(crate) fn step(&mut self) {
        let command = self.workload.draw(&self.model);
        let mut step = self.timed(command);
        // The drawn steps include one that fails, for shrinking.
        self.drawn.push(step.clone());
        self.carry_out(&mut step);
        let at = step.at;
        self.drawn.pop();
        self.drawn.push(step);
        if self.drawn.len().is_multiple_of(STEPS_BETWEEN_AUDITS) {
            self.audit(at);
        }
    }

    fn timed(&mut self, command: Command) -> Step {
        let at = self.workload.pass_time();
        let after_timers = self.workload.rng.chance(10);
        Step { at, command, after_timers, made: None }
    }

    /// The same opening, then only these steps, compared in everything after each.
    fn replay(seed: u64, steps: &[Step]) -> Self {
        let mut pair = Self::new(seed);
        let mut names = Names::default();
        for step in steps {
            let mut again = Step { command: names.applied_to(&step.command), ..step.clone() };
            pair.carry_out(&mut again);
            if let (Some(before), Some(now)) = (step.made, again.made) {
                names.learn(step.at, before, now);
            }
            pair.audit(step.at);
        }
        pair
    }

    fn carry_out(&mut self, step: &mut Step) {
        let Step { at, command, after_timers, made } = step;
        let (at, newest) = (*at, self.model.last_seq);
        if *after_timers {
            self.driver.run_due(at);
        }
        let context = format!("{} at {}: {command:?}", self.context(), at.0);
        let expected = self.model.expect(at.0, command);
        let mut found = self.driver.run(at, command);
        if let Reply::Done(seq) = &mut found {
            *seq = RecordSeq(0);
        }
        *made = (self.model.last_seq > newest).then_some(TransactionSeq(self.model.last_seq));
        assert_eq!(found, expected, "{context}");
        *self.answers.entry(kind_of(&found)).or_default() += 1;
    }

    fn context(&self) -> String {
        format!("seed {} step {}", self.seed, self.drawn.len())
    }

    /// Compares everything.
    pub(crate) fn audit(&mut self, at: Timestamp) {
        let context = self.context();
        audit_state(&mut self.model, &self.driver.state, at, &context);
        let is_in_memory = |seq: u64| self.driver.state.transaction(TransactionSeq(seq)).is_some();
        assert!(
            self.model.purchases.iter().all(|purchase| is_in_memory(purchase.seq)),
            "{context}"
        );
    }
}

fn kind_of(reply: &Reply) -> String {
    match reply {
        Reply::Network(NetworkReply::Authorization(reply)) => {
            format!("authorization {} {:?}", reply.response_code.number(), reply.sub_reason)
        }
        Reply::Network(NetworkReply::Reversal(reply)) => format!("reversal {:?}", reply.outcome),
        Reply::Network(NetworkReply::Posting(reply)) => format!("posting {:?}", reply.outcome),
        Reply::Network(NetworkReply::Balance(reply)) => {
            format!("balance {}", reply.response_code.number())
        }
        Reply::Network(NetworkReply::Transfer(reply)) => format!("transfer {:?}", reply.outcome),
        other => format!("{other:?}"),
    }
}

/// Compares every line of the journal with the model's: its text, and its member with that of its
/// transaction.
fn audit_lines(pair: &Pair) {
    let mut members = BTreeMap::new();
    let mut counts = vec![0; pair.model.companies.len()];
    for record in records(&pair.driver.payload) {
        let effects = record.unwrap().effects;
        for effect in &effects {
            if let Effect::Transaction(made) = effect {
                members.insert(made.record.seq, made.record.member);
            }
        }
        for effect in effects {
            let Effect::StatementLine(line) = effect else { continue };
            let company = line.account.index();
            let expected = &pair.model.companies[company].lines[counts[company]];
            counts[company] += 1;
            let context = format!("seed {} company {company} {line:?}", pair.seed);
            assert_eq!(line.amount, Minor(expected.amount), "{context}");
            assert_eq!(line.member, members[&line.transaction], "{context}");
            let Some(of_card) = &expected.of_card else { continue };
            let member = of_card.member.map(|member| MemberSlot(member as u32));
            let card = Some(CardSlot(of_card.card as u32));
            let expected = (TransactionSeq(of_card.seq), card, member, &of_card.description);
            let found = (line.transaction, line.card, line.member, &line.description);
            assert_eq!(found, expected, "{context}");
        }
    }
    let expected: Vec<_> = pair.model.companies.iter().map(|company| company.lines.len()).collect();
    assert_eq!(counts, expected, "seed {}", pair.seed);
}

/// Compares every increment of the journal with the model's, and explains it: the kept facts lead
/// to the same decision again, and a decline names the terms that would have approved it.
fn audit_increments(pair: &Pair) {
    let effects = records(&pair.driver.payload).flat_map(|record| record.unwrap().effects);
    let decisions = effects.filter_map(|effect| match effect {
        Effect::Increment(decision) => Some(*decision),
        _ => None,
    });
    let decisions: Vec<_> = decisions.collect();
    let done = |decision: &IncrementDecision| IncrementOutcome {
        seq: decision.transaction.0,
        at: decision.decided_at.0,
        amount: decision.amount.0,
        added_to: decision.added_to.0,
        failed: decision.failed_rules,
    };
    let done: Vec<_> = decisions.iter().map(done).collect();
    assert_eq!(done, pair.model.increments, "seed {}", pair.seed);
    for decision in &decisions {
        let card = pair.driver.state.transaction(decision.transaction).unwrap().card.unwrap();
        let company = pair.model.cards[card.index()].company;
        let explained = explain_increment(decision, pair.model.companies[company].zone);
        let is_approved = decision.failed_rules.is_empty();
        let context = format!("seed {} {decision:?}", pair.seed);
        assert_eq!(explained.remedies.is_empty(), is_approved, "{context}");
        assert!(explained.rules.iter().all(|found| found.compared.is_some()), "{context}");
    }
}

/// Adds up the books of the journal: every posting, every line, every balance.
fn audit_books(payload: &[u8]) {
    let mut books: BTreeMap<(AccountSlot, Book), i64> = BTreeMap::new();
    let mut lines: BTreeMap<AccountSlot, (u64, i64)> = BTreeMap::new();
    let mut balances = BTreeMap::new();
    for record in records(payload) {
        let mut post = |posting: Posting| {
            assert!(posting.amount.is_positive());
            *books.entry((posting.account, posting.from)).or_default() -= posting.amount.0;
            *books.entry((posting.account, posting.to)).or_default() += posting.amount.0;
        };
        for effect in record.unwrap().effects {
            match effect {
                Effect::Posting(posting) => post(posting),
                Effect::Transaction(made) => {
                    made.posting().into_iter().for_each(&mut post);
                    balances.extend(made.balances.map(|after| (made.record.account, after)));
                }
                Effect::StatementLine(line) => {
                    let (count, sum) = lines.entry(line.account).or_default();
                    *count += 1;
                    *sum += line.amount.0;
                    assert_eq!(line.number, *count, "lines are numbered without gaps");
                }
                Effect::AccountBalances(slot, after) => {
                    balances.insert(slot, after);
                }
                _ => {}
            }
        }
    }
    assert!(!balances.is_empty());
    for (account, balances) in balances {
        let book = |book| books.get(&(account, book)).copied().unwrap_or(0);
        let sum: i64 = Book::ALL.into_iter().map(book).sum();
        assert_eq!(sum, 0, "a posting takes what it gives");
        assert_eq!(Minor(book(Book::Holds)), balances.held);
        assert_eq!(Minor(book(Book::TransitIn)), balances.credits_in_transit);
        assert_eq!(Minor(book(Book::TransitOut)), balances.debits_in_transit);
        let ledger = book(Book::Funds) + book(Book::Holds) + book(Book::TransitOut);
        assert_eq!(Minor(ledger), balances.ledger);
        assert_eq!(lines[&account], (balances.line_count, balances.ledger.0));
    }
}

fn run_program(pair: &mut Pair, length: u64) {
    for _ in 0..length {
        pair.step();
    }
    let at = pair.workload.pass_time();
    pair.model.pass_time(at.0);
    pair.driver.run_due(at);
    pair.audit(at);
    audit_books(&pair.driver.payload);
    audit_lines(pair);
    audit_increments(pair);
    for told in audit_people(&pair.driver.payload, &pair.model, at) {
        *pair.answers.entry(told.to_owned()).or_default() += 1;
    }
}

/// Compares what the journal says of users, tickets and tokens. Returns what came to pass.
fn audit_people(payload: &[u8], model: &Model, at: Timestamp) -> Vec<&'static str> {
    let (mut users, mut tickets) = (BTreeMap::new(), BTreeMap::new());
    let (mut tokens, mut told) = (BTreeMap::new(), Vec::new());
    for record in records(payload) {
        for effect in record.unwrap().effects {
            told.extend(told_by(&effect));
            match effect {
                Effect::Row(DirectoryRow::User(row)) => {
                    users.insert(row.slot.0, row.password_hash.is_some());
                }
                Effect::Row(DirectoryRow::Ticket(row)) => drop(tickets.insert(row.digest, *row)),
                Effect::Row(DirectoryRow::AccessToken(row)) => {
                    tokens.insert(row.digest, row.is_revoked);
                }
                _ => {}
            }
        }
    }
    let expected: Vec<_> = model.users.iter().map(|user| user.password.is_some()).collect();
    assert_eq!(users.into_values().collect::<Vec<_>>(), expected);
    let expected = model.tokens.iter().map(|token| (token.digest, token.is_revoked)).collect();
    assert_eq!(tokens, expected);
    tickets.retain(|_, ticket| ticket.forgotten_at() > at);
    let tickets: BTreeMap<_, _> =
        tickets.into_iter().map(|(digest, ticket)| (digest, ticket.state)).collect();
    let known = model.tickets.iter().filter(|ticket| ticket.is_known(at.0));
    assert_eq!(tickets, known.map(|ticket| (ticket.digest, ticket.state)).collect());
    told
}

fn told_by(effect: &Effect) -> Option<&'static str> {
    match effect {
        Effect::Row(DirectoryRow::Ticket(ticket))
            if ticket.state == TicketState::Used && ticket.code().is_none() =>
        {
            Some("password by a link")
        }
        Effect::Row(DirectoryRow::Ticket(ticket)) if ticket.state == TicketState::Ended => {
            Some("ticket ended")
        }
        Effect::Row(DirectoryRow::AccessToken(token)) if token.is_revoked => Some("token revoked"),
        Effect::Row(DirectoryRow::AccessToken(token)) if is_of_code(token) => {
            Some("token for a code")
        }
        Effect::Audit(_) => Some("change audited"),
        _ => None,
    }
}

fn is_of_code(token: &AccessToken) -> bool {
    token.grant.as_ref().is_some_and(|grant| grant.origin == TokenOrigin::Code)
}

/// The failure, with the fewest steps after the opening that fail in the same file: a replay
/// compares everything after each step, so it may see the same fault by another check.
fn shrunk(pair: &Pair, failure: Failure) -> String {
    let fails = |steps: &[Step]| {
        let again = failure_of(|| Pair::replay(pair.seed, steps));
        again.is_some_and(|again| again.file() == failure.file())
    };
    // A failure that only a program's end shows has nothing to shrink.
    let steps = if fails(&pair.drawn) { shrink(pair.drawn.clone(), fails) } else { Vec::new() };
    let listed: String = steps.iter().map(|step| format!("\n  {step:?}")).collect();
    let Failure { place, message } = failure;
    format!("{message}\nat {place}, with {} of {} steps:{listed}", steps.len(), pair.drawn.len())
}

/// A check that fails as soon as something was reversed needs a purchase and its reversal.
#[test]
fn a_failing_program_shrinks_to_the_steps_it_needs() {
    let mut pair = Pair::new(Rng::seed_from_environment());
    let reversed = "reversal Reversed";
    while !pair.answers.contains_key(reversed) {
        pair.step();
    }
    let has_reversed =
        |steps: &[Step]| Pair::replay(pair.seed, steps).answers.contains_key(reversed);
    let steps = shrink(pair.drawn.clone(), has_reversed);
    assert!(pair.drawn.len() > steps.len() && (2..=3).contains(&steps.len()), "{steps:#?}");
}

#[test]
fn the_shard_answers_as_the_model_does() {
    let steps = number_from_environment("CARDSWITCH_MODEL_STEPS").unwrap_or(STEPS);
    let seed = Rng::seed_from_environment();
    let stopwatch = Stopwatch::start();
    let mut answers: BTreeMap<String, u64> = BTreeMap::new();
    let mut hashes = StateHashes::default();
    let mut done = 0;
    for program in 0..steps.div_ceil(STEPS_PER_PROGRAM) {
        let mut pair = Pair::new(seed + program);
        let length = STEPS_PER_PROGRAM.min(steps - done);
        if let Some(failure) = failure_of(|| run_program(&mut pair, length)) {
            panic!("{}", shrunk(&pair, failure));
        }
        done += length;
        hashes.add(&pair.driver.state);
        for (answer, count) in pair.answers {
            *answers.entry(answer).or_default() += count;
        }
    }
    let rate = u128::from(done) * 1_000 / stopwatch.elapsed().as_millis().max(1);
    println!("{done} steps, {rate} steps/s, answers: {answers:#?}");
    if (seed, steps) == (DEFAULT_SEED, STEPS) {
        hashes.check();
    }
    // A workload that no longer reaches an answer would prove nothing about it.
    if steps >= STEPS {
        let codes =
            [0, 1000, 1101, 1201, 1202, 1203, 1301, 1302, 1303, 1304, 1501, 1502, 1503, 1701, 1702];
        for code in codes {
            let prefix = format!("authorization {code} ");
            let count: u64 =
                answers.iter().filter(|entry| entry.0.starts_with(&prefix)).map(|e| e.1).sum();
            assert!(count > 0, "no authorization was answered {code}");
        }
        let kinds = [
            "authorization 1000 NotPending",
            "transfer Returned",
            "transfer Declined",
            "Rejected(LastAdministrator)",
            "Rejected(StartsAfterEnd)",
            "Rejected(RequisitionDecided)",
            "Rejected(TicketSpent)",
            "Rejected(StepUsed)",
            "Rejected(ExternalIdTaken)",
            "token for a code",
            "password by a link",
            "ticket ended",
            "token revoked",
            "change audited",
        ];
        for kind in kinds {
            assert!(answers.contains_key(kind), "nothing was answered {kind}");
        }
    }
}
