//! The shard against the model: after every command the same answer, the same books.

use std::collections::BTreeMap;

use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::record::records;
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::domain::ids::{AccountSlot, CardSlot, RecordSeq, Timestamp, TransactionSeq};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::posting::Book;
use cardswitch_engine::shard::ShardState;

use crate::driver::{Driver, id_mint};
use crate::model::{Model, date_in};
use crate::rng::{Rng, number_from_environment};
use crate::workload::Workload;

const STEPS: u64 = 100_000;
/// The model adds everything up each time, so a run is cut into programs of this length.
const STEPS_PER_PROGRAM: u64 = 5_000;
const STEPS_BETWEEN_AUDITS: u64 = 100;

/// A shard and its model on their way through one program.
pub(crate) struct Pair {
    pub(crate) driver: Driver,
    pub(crate) model: Model,
    pub(crate) workload: Workload,
    seed: u64,
    step: u64,
    /// How often each answer was given.
    answers: BTreeMap<String, u64>,
}

impl Pair {
    pub(crate) fn new(seed: u64) -> Self {
        let mut pair = Self {
            driver: Driver::new(ShardState::default()),
            model: Model::new(id_mint()),
            workload: Workload::new(seed),
            seed,
            step: 0,
            answers: BTreeMap::new(),
        };
        for command in pair.workload.opening() {
            pair.carry_out(&command);
        }
        pair
    }

    pub(crate) fn step(&mut self) {
        let command = self.workload.draw(&self.model);
        self.carry_out(&command);
    }

    fn carry_out(&mut self, command: &Command) {
        self.step += 1;
        let at = self.workload.pass_time();
        // The loop runs timers also when nobody asks.
        if self.workload.rng.chance(10) {
            self.driver.run_due(at);
        }
        let context = format!("seed {} step {} at {}: {command:?}", self.seed, self.step, at.0);
        let expected = self.model.expect(at.0, command);
        let mut found = self.driver.run(at, command);
        if let Reply::Done(seq) = &mut found {
            *seq = RecordSeq(0);
        }
        assert_eq!(found, expected, "{context}");
        *self.answers.entry(kind_of(&found)).or_default() += 1;
        if self.step.is_multiple_of(STEPS_BETWEEN_AUDITS) {
            self.audit(at);
        }
    }

    /// Compares everything.
    pub(crate) fn audit(&mut self, at: Timestamp) {
        let state = &self.driver.state;
        let context = format!("seed {} step {}", self.seed, self.step);
        for company in 0..self.model.companies.len() {
            let slot = AccountSlot(company as u32);
            let balances = state.balances(slot);
            assert_eq!(balances.ledger, Minor(self.model.ledger(company)), "{context}");
            assert_eq!(balances.held, Minor(self.model.holds(company)), "{context}");
            assert_eq!(balances.held, state.open_holds(slot), "{context}");
            let (incoming, outgoing) = self.model.in_transit(company);
            assert_eq!(balances.credits_in_transit, Minor(incoming), "{context}");
            assert_eq!(balances.debits_in_transit, Minor(outgoing), "{context}");
            let lines = self.model.companies[company].lines.len();
            assert_eq!(balances.line_count, lines as u64, "{context}");
        }
        assert_eq!(state.card_count(), self.model.cards.len());
        for card in 0..self.model.cards.len() {
            self.model.turn_pages(card, at.0);
            self.audit_card(card, at, &context);
        }
        for purchase in &self.model.purchases {
            let open = self.driver.state.transaction(TransactionSeq(purchase.seq)).unwrap();
            let context = format!("{context} transaction {}", purchase.seq);
            assert_eq!(open.progress.state, purchase.state, "{context}");
            assert_eq!(open.progress.held.total(), Minor(purchase.held()), "{context}");
            assert_eq!(open.progress.posted, Minor(purchase.posted), "{context}");
            assert_eq!(open.progress.refunded, Minor(purchase.refunded), "{context}");
            assert_eq!(open.progress.flags, purchase.flags, "{context}");
        }
    }

    fn audit_card(&self, at_card: usize, at: Timestamp, context: &str) {
        let (model, card) = (&self.model, &self.model.cards[at_card]);
        let record = self.driver.state.card(CardSlot(at_card as u32));
        let today = date_in(model.companies[card.company].zone, at.0);
        let today = cardswitch_engine::domain::business_date::BusinessDate::from_naive(today);
        let usage = record.usage.rolled(record.terms.interval, today);
        let context = format!("{context} card {at_card}");
        assert_eq!(usage.spent, Minor(model.spent(at_card)), "{context}");
        assert_eq!(usage.day_spent, Minor(model.day_spent(at_card)), "{context}");
        assert_eq!(usage.state, card.state, "{context}");
        assert_eq!(usage.suspension, card.reason, "{context}");
        assert_eq!(usage.pin_failures, card.wrong_pins, "{context}");
        assert_eq!(record.terms, card.terms, "{context}");
        assert_eq!((record.pin.0, record.zip.0), (card.pin, card.zip), "{context}");
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

/// Adds up the books of the journal: every posting, every line, every balance.
fn audit_books(payload: &[u8]) {
    let mut books: BTreeMap<(AccountSlot, Book), i64> = BTreeMap::new();
    let mut lines: BTreeMap<AccountSlot, (u64, i64)> = BTreeMap::new();
    let mut balances = BTreeMap::new();
    for record in records(payload) {
        for effect in record.unwrap().effects {
            match effect {
                Effect::Posting(posting) => {
                    assert!(posting.amount.is_positive());
                    *books.entry((posting.account, posting.from)).or_default() -= posting.amount.0;
                    *books.entry((posting.account, posting.to)).or_default() += posting.amount.0;
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

#[test]
fn the_shard_answers_as_the_model_does() {
    let steps = number_from_environment("CARDSWITCH_MODEL_STEPS").unwrap_or(STEPS);
    let seed = Rng::seed_from_environment();
    let stopwatch = Stopwatch::start();
    let mut answers: BTreeMap<String, u64> = BTreeMap::new();
    let mut done = 0;
    for program in 0..steps.div_ceil(STEPS_PER_PROGRAM) {
        let mut pair = Pair::new(seed + program);
        for _ in 0..STEPS_PER_PROGRAM.min(steps - done) {
            pair.step();
            done += 1;
        }
        let at = pair.workload.pass_time();
        pair.model.pass_time(at.0);
        pair.driver.run_due(at);
        pair.audit(at);
        audit_books(&pair.driver.payload);
        for (answer, count) in pair.answers {
            *answers.entry(answer).or_default() += count;
        }
    }
    let rate = u128::from(done) * 1_000 / stopwatch.elapsed().as_millis().max(1);
    println!("{done} steps, {rate} steps/s, answers: {answers:#?}");
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
        let kinds = ["authorization 1000 NotPending", "transfer Returned", "transfer Declined"];
        for kind in kinds {
            assert!(answers.contains_key(kind), "nothing was answered {kind}");
        }
    }
}
