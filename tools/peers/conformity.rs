//! Holds a peer to cardswitch's rules before it is measured: the same work, or no figure.
//!
//! cardswitch's own shard is asked first; the peer has to fail the same rules, by the bit both peers
//! use (the order of precedence), with the same response code. Each row changes an ordinary card or
//! purchase in one way. Rules that span purchases (a repeat, a single use, a budget that runs out,
//! wrong PINs in a row) follow in steps.

use cardswitch_benches::program::{CardDraw, Draws, START};
use cardswitch_engine::domain::allowance::Scope;
use cardswitch_engine::domain::business_date::{BusinessDate, Interval};
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::Minor;
use cardswitch_tools::{Outcome, fail};

use super::closed_loop::Lane;
use super::peer::Peer;
use super::program::{Card, Program, Purchase, Verdict};
use super::rules::{bit, evaluated};
use super::shard::Shard;

const OPENING_BALANCE: i64 = 1_000_000;
const AMOUNT: i64 = 1_000;
const PIN: u64 = 0xfeed_beef_dead_cafe;
/// One minute. Units: microseconds.
const MINUTE: i64 = 60_000_000;

/// The name of a change, and the change, at an instant.
type Row = (&'static str, fn(&mut Card, &mut Purchase, i64));

const ROWS: [Row; 38] = [
    ("an ordinary purchase", |_, _, _| {}),
    ("terminated", |card, _, _| card.state = CardState::Terminated),
    ("below zero", |_, purchase, _| purchase.amount_minor = -1),
    ("unactivated", |card, _, _| card.state = CardState::Unactivated),
    ("suspended", |card, _, _| card.state = CardState::Suspended),
    ("ended, but put off", |card, _, _| end(card)),
    ("ended, by its timer", |card, _, now| {
        end(card);
        card.terms.ends_at = Timestamp(now - MINUTE);
    }),
    // 2019-04-14, and its month on card and message alike.
    ("expired", |card, purchase, _| {
        (card.expires_on, purchase.expiry) = (BusinessDate(18_000), Some(1904));
    }),
    ("wrong expiry", |_, purchase, _| purchase.expiry = Some(4002)),
    ("no expiry shown", |_, purchase, _| purchase.expiry = None),
    ("wrong PIN", |card, purchase, _| (card.pin, purchase.pin) = (Some(PIN), Some(PIN + 1))),
    ("right PIN", |card, purchase, _| (card.pin, purchase.pin) = (Some(PIN), Some(PIN))),
    ("a PIN to a card without", |_, purchase, _| purchase.pin = Some(PIN)),
    ("wrong CVV", |_, purchase, _| purchase.cvv_matches = Some(false)),
    ("no CVV shown", |_, purchase, _| purchase.cvv_matches = None),
    ("wrong ZIP", |_, purchase, _| purchase.zip = Some("94106")),
    ("any ZIP to a card without", |card, _, _| card.zip = None),
    ("no ZIP shown", |_, purchase, _| purchase.zip = None),
    ("cash", |_, purchase, _| purchase.is_cash = true),
    ("cash from a machine", |_, purchase, _| purchase.mcc = 6011),
    ("before its start", |card, _, now| card.terms.starts_at = Timestamp(now + MINUTE)),
    ("after its start", |card, _, now| card.terms.starts_at = Timestamp(now - MINUTE)),
    ("after its end", |card, _, now| card.terms.ends_at = Timestamp(now - MINUTE)),
    ("before its end", |card, _, now| card.terms.ends_at = Timestamp(now + MINUTE)),
    ("out of scope", |card, _, _| card.terms.scope = scope(&[5411, 742])),
    ("in scope", |card, _, _| card.terms.scope = scope(&[5411, 5812])),
    ("at the transaction limit", |card, _, _| card.terms.transaction_limit = Minor(AMOUNT)),
    ("above it", |card, _, _| card.terms.transaction_limit = Minor(AMOUNT - 1)),
    ("at the daily limit", |card, _, _| card.terms.daily_limit = Minor(AMOUNT)),
    ("above it", |card, _, _| card.terms.daily_limit = Minor(AMOUNT - 1)),
    ("at the budget", |card, _, _| card.terms.amount = Minor(AMOUNT)),
    ("above it", |card, _, _| card.terms.amount = Minor(AMOUNT - 1)),
    ("without a period", |card, _, _| card.terms.interval = Interval::None),
    ("of a day's period", |card, _, _| card.terms.interval = Interval::Daily),
    ("of a week's", |card, _, _| card.terms.interval = Interval::Weekly),
    ("of a quarter's", |card, _, _| card.terms.interval = Interval::Quarterly),
    ("of a year's", |card, _, _| card.terms.interval = Interval::Yearly),
    ("two rules at once", |card, purchase, _| {
        (card.terms.transaction_limit, purchase.is_cash) = (Minor(AMOUNT - 1), true);
    }),
];

const fn end(card: &mut Card) {
    (card.state, card.is_ended) = (CardState::Suspended, true);
}

fn scope(codes: &[u16]) -> Scope {
    Scope::new(codes).unwrap_or_default()
}

/// Purchases on one card, one after the other, each with a repeat: the name, the card, each amount
/// and PIN.
type Steps = (&'static str, fn(&mut Card), &'static [(i64, Option<u64>)]);

const WRONG: Option<u64> = Some(PIN + 1);
const STEPS: [Steps; 5] = [
    (
        "a budget",
        |card| card.terms.amount = Minor(2_500),
        &[(1_500, None), (1_001, None), (1_000, None)],
    ),
    // The first is a verification.
    (
        "a single use",
        |card| card.terms.single_use = true,
        &[(0, None), (AMOUNT, None), (AMOUNT, None)],
    ),
    (
        "a budget and a day's limit",
        |card| (card.terms.amount, card.terms.daily_limit) = (Minor(2_500), Minor(2_000)),
        &[(1_500, None), (501, None), (1_001, None), (500, None)],
    ),
    // Three wrong PINs in a row make the right one wrong.
    (
        "wrong PINs in a row",
        |card| card.pin = Some(PIN),
        &[
            (AMOUNT, WRONG),
            (AMOUNT, Some(PIN)),
            (AMOUNT, WRONG),
            (AMOUNT, WRONG),
            (AMOUNT, WRONG),
            (AMOUNT, Some(PIN)),
            (AMOUNT, Some(PIN)),
            (AMOUNT, None),
        ],
    ),
    // Five wrong credentials close the card to all of them.
    (
        "wrong credentials",
        |card| card.pin = Some(PIN),
        &[
            (AMOUNT, WRONG),
            (AMOUNT, WRONG),
            (AMOUNT, Some(PIN)),
            (AMOUNT, WRONG),
            (AMOUNT, WRONG),
            (AMOUNT, Some(PIN)),
            (AMOUNT, WRONG),
            (AMOUNT, Some(PIN)),
            (AMOUNT, None),
        ],
    ),
];

/// Checks the peer's rules at the instant `now`, one by one and in batches, and counts the rows.
/// Units: `now` in microseconds since 1970.
/// Errors: the first answer that is another one than cardswitch's; other sums are stored.
pub(crate) async fn check(peer: &mut impl Peer, now: i64) -> Outcome<usize> {
    let mut shard = Shard::empty();
    shard.found(&prepare(START.0).0)?;
    let (program, purchases) = prepare(now);
    peer.found(&program).await?;
    let mut both = Comparison { shard, peer, answers: Vec::new(), rules: 0 };
    let rows: Vec<Case> = ROWS.iter().map(|row| row.0).zip(purchases).collect();
    // Half of the rows one by one, the others as one batch.
    let (singly, together) = rows.split_at(ROWS.len() / 2);
    for row in singly {
        both.ask(std::slice::from_ref(row)).await?;
    }
    both.ask(together).await?;
    let rows = both.answers.len();
    let mut stream = Draws::over(CardDraw::uniform(1), 3);
    let mut buy = |card: &Card, amount_minor| {
        let purchase = Purchase::from(stream.next_draw());
        Purchase { pan_hash: card.pan_hash, amount_minor, mcc: 5812, ..purchase }
    };
    both.ask(&[("an unknown card", buy(&ordinary(999_999), AMOUNT))]).await?;
    // A repeat has the first answer, in the same batch and in a later one, also if it is a refusal.
    let [first, other] = [(); 2].map(|()| ("repeats", buy(&program.cards[0], AMOUNT)));
    both.ask(&[first.clone(), other.clone(), first.clone()]).await?;
    both.ask(&[other, first]).await?;
    for (card, (name, _, steps)) in program.cards[ROWS.len()..].iter().zip(STEPS) {
        for (amount, pin) in steps {
            let case = [(name, Purchase { pin: *pin, ..buy(card, *amount) })];
            both.ask(&case).await?;
            both.ask(&case).await?;
        }
    }
    let left = OPENING_BALANCE - both.shard.books().account_held_minor;
    for amount in [left + 1, left, 1] {
        both.ask(&[("the account's funds", buy(&program.cards[RICH], amount))]).await?;
    }
    let rules = evaluated().map(bit).sum::<u32>() & both.peer.rules();
    if both.rules != rules {
        return fail(format!("the cases fail the rules {:#x} only", both.rules));
    }
    let (books, expected) = (both.peer.books().await?, both.shard.books());
    if books == expected {
        Ok(rows)
    } else {
        fail(format!("it stored {books:?}, not {expected:?}"))
    }
}

/// The card without a limit of its own, after those of the rows and the steps.
const RICH: usize = ROWS.len() + STEPS.len();

/// The program at an instant, and the purchase of each row.
fn prepare(now: i64) -> (Program, Vec<Purchase>) {
    let mut stream = Draws::over(CardDraw::uniform(1), 2);
    let mut cards: Vec<Card> = (0..=RICH as u64).map(ordinary).collect();
    let purchase = |((_, change), card): (&Row, &mut Card)| {
        let mut purchase = Purchase::from(stream.next_draw());
        purchase.pan_hash = card.pan_hash;
        (purchase.amount_minor, purchase.mcc) = (AMOUNT, 5812);
        change(card, &mut purchase, now);
        purchase
    };
    let purchases = ROWS.iter().zip(&mut cards).map(purchase).collect();
    for (card, (_, change, _)) in cards[ROWS.len()..].iter_mut().zip(STEPS) {
        change(card);
    }
    cards[RICH].terms.transaction_limit = Minor::UNLIMITED;
    (Program { opening_balance: OPENING_BALANCE, cards }, purchases)
}

fn ordinary(number: u64) -> Card {
    let mut card = Card::ordinary(number);
    card.terms.scope = Scope::default();
    card
}

/// A purchase under the name of its case.
type Case = (&'static str, Purchase);

/// A peer beside cardswitch's shard.
struct Comparison<'a, P> {
    shard: Shard,
    peer: &'a mut P,
    /// The peer's answers so far, by the key of the purchase.
    answers: Vec<(u128, Verdict)>,
    /// The rules that purchases failed.
    rules: u32,
}

impl<P: Peer> Comparison<'_, P> {
    /// Asks both a batch, the peer only those that fail no rule that it does not have.
    async fn ask(&mut self, batch: &[Case]) -> Outcome<()> {
        let (mut cases, mut expected, rules) = (Vec::new(), Vec::new(), self.peer.rules());
        for case in batch {
            let verdicts = self.shard.authorize(std::slice::from_ref(&case.1))?;
            for verdict in verdicts.into_iter().filter(|verdict| verdict.failed_rules & !rules == 0)
            {
                self.rules |= verdict.failed_rules;
                cases.push(case);
                expected.push(verdict);
            }
        }
        let purchases: Vec<Purchase> = cases.iter().map(|case| case.1.clone()).collect();
        let verdicts = self.peer.connect(1).await?[0].authorize(&purchases).await?;
        if verdicts.len() != cases.len() {
            return fail(format!("{} answers to {}", verdicts.len(), cases.len()));
        }
        for (((name, purchase), expected), verdict) in
            cases.into_iter().zip(&expected).zip(verdicts)
        {
            if !self.is_like(purchase, expected, &verdict) {
                return fail(format!("{name}: {expected:x?} expected, answered {verdict:x?}"));
            }
            self.answers.push((purchase.network_key, verdict));
        }
        Ok(())
    }

    /// Whether an answer is that of the shard, that to a repeat the first one, and an approval a
    /// transaction of its own.
    fn is_like(&self, purchase: &Purchase, expected: &Verdict, verdict: &Verdict) -> bool {
        let decision = |verdict: &Verdict| (verdict.failed_rules, verdict.response_code);
        if decision(verdict) != decision(expected) {
            return false;
        }
        let first = self.answers.iter().find(|(key, _)| *key == purchase.network_key);
        if let Some((_, first)) = first {
            return first == verdict;
        }
        let is_new = self.answers.iter().all(|(_, other)| other.transaction != verdict.transaction);
        match verdict.transaction {
            Some(_) => is_new && expected.transaction.is_some(),
            None => !expected.is_approved(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use cardswitch_engine::decision::Rule;

    use super::super::peer::Books;
    use super::*;

    /// The shard as a peer, and whether it approves declines at the daily limit.
    #[derive(Clone)]
    struct ShardPeer(Rc<RefCell<Shard>>, bool);

    impl Lane for ShardPeer {
        async fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>> {
            let mut verdicts = self.0.borrow_mut().authorize(batch)?;
            for verdict in
                verdicts.iter_mut().filter(|verdict| verdict.failed_rules == bit(Rule::DailyLimit))
            {
                if self.1 {
                    (verdict.failed_rules, verdict.response_code) = (0, 0);
                }
            }
            Ok(verdicts)
        }
    }

    impl Peer for ShardPeer {
        type Lane = Self;

        async fn found(&mut self, program: &Program) -> Outcome<()> {
            self.0.borrow_mut().found(program)
        }

        async fn connect(&mut self, _: usize) -> Outcome<Vec<Self>> {
            Ok(vec![self.clone()])
        }

        async fn crash(&mut self) -> Outcome<()> {
            Ok(())
        }

        async fn books(&mut self) -> Outcome<Books> {
            Ok(self.0.borrow().books())
        }

        async fn durability(&mut self) -> Outcome<String> {
            Ok("none".to_owned())
        }
    }

    #[tokio::test]
    async fn cardswitch_answers_as_itself_and_a_wrong_answer_is_found() {
        let shard = |is_lenient| ShardPeer(Rc::new(RefCell::new(Shard::empty())), is_lenient);
        assert_eq!(check(&mut shard(false), START.0).await.unwrap(), ROWS.len());
        let error = check(&mut shard(true), START.0).await.unwrap_err().to_string();
        assert!(error.starts_with("above it: "), "{error}");
    }
}
