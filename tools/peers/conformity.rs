//! Holds a peer to cardswitch's rules before it is measured: the same work, or no figure.
//!
//! Each row changes an ordinary card or purchase in one way and names the rules that then fail, by
//! the bit both peers use (the order of precedence), and the response code. Rules that span
//! purchases (a repeat, a single use, a budget that runs out, wrong PINs in a row) follow in steps.

use cardswitch_engine::domain::business_date::Interval;
use cardswitch_engine::domain::card::CardState;
use cardswitch_tools::{Outcome, fail};

use super::peer::{Books, Peer};
use super::program::{Card, Program, Purchase, Purchases, Verdict};

const OPENING_BALANCE: i64 = 1_000_000;
const AMOUNT: i64 = 1_000;
const PIN: u64 = 0xfeed_beef_dead_cafe;
/// One minute. Units: microseconds.
const MINUTE: i64 = 60_000_000;

/// The name of a change, the change, the rules that then fail, and the code.
type Row = (&'static str, fn(&mut Card, &mut Purchase, i64), u32, u16);

const ROWS: [Row; 33] = [
    ("an ordinary purchase", |_, _, _| {}, 0, 0),
    ("terminated", |card, _, _| card.state = CardState::Terminated, 1, 1000),
    ("below zero", |_, purchase, _| purchase.amount_minor = -1, 1 << 3, 1000),
    ("unactivated", |card, _, _| card.state = CardState::Unactivated, 1 << 4, 1201),
    ("suspended", |card, _, _| card.state = CardState::Suspended, 1 << 5, 1202),
    ("ended, but put off", |card, _, _| end(card), 1 << 5, 1202),
    (
        "ended, by its timer",
        |card, _, now| {
            end(card);
            card.ends_at = Some(now - MINUTE);
        },
        1 << 16,
        1501,
    ),
    ("expired", expire, 1 << 6, 1203),
    ("wrong expiry", |_, purchase, _| purchase.expiry = Some(4002), 1 << 8, 1301),
    ("no expiry shown", |_, purchase, _| purchase.expiry = None, 0, 0),
    (
        "wrong PIN",
        |card, purchase, _| (card.pin, purchase.pin) = (Some(PIN), Some(PIN + 1)),
        1 << 9,
        1302,
    ),
    ("right PIN", |card, purchase, _| (card.pin, purchase.pin) = (Some(PIN), Some(PIN)), 0, 0),
    ("a PIN to a card without", |_, purchase, _| purchase.pin = Some(PIN), 1 << 9, 1302),
    ("wrong CVV", |_, purchase, _| purchase.cvv_matches = Some(false), 1 << 10, 1303),
    ("no CVV shown", |_, purchase, _| purchase.cvv_matches = None, 0, 0),
    ("wrong ZIP", |_, purchase, _| purchase.zip = Some("94106"), 1 << 11, 1304),
    ("any ZIP to a card without", |card, _, _| card.zip = None, 0, 0),
    ("no ZIP shown", |_, purchase, _| purchase.zip = None, 0, 0),
    ("cash", |_, purchase, _| purchase.is_cash = true, 1 << 12, 1702),
    ("cash from a machine", |_, purchase, _| purchase.mcc = 6011, 1 << 12, 1702),
    ("before its start", |card, _, now| card.starts_at = Some(now + MINUTE), 1 << 15, 1501),
    ("after its start", |card, _, now| card.starts_at = Some(now - MINUTE), 0, 0),
    ("after its end", |card, _, now| card.ends_at = Some(now - MINUTE), 1 << 16, 1501),
    ("before its end", |card, _, now| card.ends_at = Some(now + MINUTE), 0, 0),
    ("out of scope", |card, _, _| card.scope = vec![5411, 742], 1 << 17, 1501),
    ("in scope", |card, _, _| card.scope = vec![5411, 5812], 0, 0),
    ("at the transaction limit", |card, _, _| card.transaction_limit = Some(AMOUNT), 0, 0),
    ("above it", |card, _, _| card.transaction_limit = Some(AMOUNT - 1), 1 << 18, 1503),
    ("at the daily limit", |card, _, _| card.daily_limit = Some(AMOUNT), 0, 0),
    ("above it", |card, _, _| card.daily_limit = Some(AMOUNT - 1), 1 << 19, 1502),
    ("at the budget", |card, _, _| card.budget = AMOUNT, 0, 0),
    ("above it", |card, _, _| card.budget = AMOUNT - 1, 1 << 20, 1502),
    (
        "two rules at once",
        |card, purchase, _| {
            (card.transaction_limit, purchase.is_cash) = (Some(AMOUNT - 1), true);
        },
        1 << 12 | 1 << 18,
        1702,
    ),
];

const fn end(card: &mut Card) {
    (card.state, card.is_ended) = (CardState::Suspended, true);
}

/// 2019-04-14, and its month on card and message alike.
fn expire(card: &mut Card, purchase: &mut Purchase, _: i64) {
    (card.expires_on, card.expiry, purchase.expiry) = (18_000, 1904, Some(1904));
}

/// The rules that steps are about, by their bit.
const SUSPENDED: u32 = 1 << 5;
const PIN_RULE: u32 = 1 << 9;
const DAILY: u32 = 1 << 19;
pub(crate) const BUDGET: u32 = 1 << 20;
pub(crate) const FUNDS: u32 = 1 << 21;

/// Cards after those of the rows, which the steps use; one for each interval at the end.
const SINGLE_USE: usize = ROWS.len();
const LIMITED: usize = SINGLE_USE + 1;
const WITH_PIN: usize = SINGLE_USE + 2;
const BUDGETED: usize = SINGLE_USE + 3;
const RICH: usize = SINGLE_USE + 4;
const INTERVALS: [Interval; 6] = [
    Interval::None,
    Interval::Daily,
    Interval::Weekly,
    Interval::Monthly,
    Interval::Quarterly,
    Interval::Yearly,
];

/// Checks the peer's rules at the instant `now`, one by one and in a batch, and counts the rows.
/// Units: `now` in microseconds since 1970.
/// Errors: the first answer that is another one; the stored sums differ from the answers.
pub(crate) fn check(peer: &mut impl Peer, now: i64) -> Outcome<usize> {
    let (program, mut purchases) = prepare(now);
    peer.found(&program)?;
    let mut asked = PeerTest { peer, purchases: Purchases::new(1, 3), held: Books::default() };
    // A row that fails no rule is for everybody.
    let rules = asked.peer.rules();
    let is_asked = |row: &&Row| row.2 & !rules == 0;
    let rows: Vec<&Row> = ROWS.iter().filter(is_asked).collect();
    let mut is_kept = ROWS.iter().map(|row| is_asked(&row));
    purchases.retain(|_| is_kept.next() == Some(true));
    // Half of the rows one by one, the others as one batch.
    let together = purchases.split_off(rows.len() / 2);
    let mut verdicts = Vec::new();
    for purchase in purchases {
        verdicts.extend(asked.authorize(&[purchase])?);
    }
    verdicts.extend(asked.authorize(&together)?);
    for ((name, _, failed, code), verdict) in rows.iter().zip(&verdicts) {
        ExpectedVerdict(name, *failed, *code).meets(verdict)?;
    }
    check_steps(&mut asked, &program)?;
    let (held, books) = (asked.held, peer.books()?);
    if books == held { Ok(rows.len()) } else { fail(format!("stored {books:?}, held {held:?}")) }
}

/// A peer, and what its approvals hold.
struct PeerTest<'a, P> {
    peer: &'a mut P,
    purchases: Purchases,
    held: Books,
}

impl<P: Peer> PeerTest<'_, P> {
    fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>> {
        let verdicts = self.peer.authorize(batch)?;
        for (purchase, verdict) in batch.iter().zip(&verdicts) {
            if verdict.is_approved() {
                self.held.account_held_minor += purchase.amount_minor;
                self.held.cards_spent_minor += purchase.amount_minor;
                self.held.transactions_held_minor += purchase.amount_minor;
                self.held.transactions_held += 1;
            }
        }
        Ok(verdicts)
    }

    /// A new purchase of so much.
    fn purchase(&mut self, card: &Card, amount_minor: i64) -> Purchase {
        let purchase = self.purchases.next_purchase();
        Purchase { pan_hash: card.pan_hash, amount_minor, mcc: 5812, ..purchase }
    }

    /// Buys for so much, and expects this verdict.
    fn buy(&mut self, card: &Card, amount_minor: i64, expected: &ExpectedVerdict) -> Outcome<()> {
        let purchase = self.purchase(card, amount_minor);
        let verdicts = self.authorize(&[purchase])?;
        expected.meets(&verdicts[0])
    }
}

/// The expected answer: its name here, the rules that fail, and the code.
struct ExpectedVerdict(&'static str, u32, u16);

impl ExpectedVerdict {
    fn meets(&self, verdict: &Verdict) -> Outcome<()> {
        let Self(name, failed, code) = *self;
        if verdict.failed_rules == failed && verdict.response_code == code {
            return Ok(());
        }
        fail(format!("{name}: rules {failed:#x} and code {code} expected, answered {verdict:x?}"))
    }
}

fn prepare(now: i64) -> (Program, Vec<Purchase>) {
    let mut stream = Purchases::new(1, 2);
    let (mut cards, mut purchases) = (Vec::new(), Vec::new());
    for ((_, change, _, _), number) in ROWS.iter().zip(0..) {
        let mut card = ordinary(number);
        let mut purchase = stream.next_purchase();
        purchase.pan_hash = card.pan_hash;
        (purchase.amount_minor, purchase.mcc) = (AMOUNT, 5812);
        change(&mut card, &mut purchase, now);
        cards.push(card);
        purchases.push(purchase);
    }
    for number in 0..5 + INTERVALS.len() as u64 {
        cards.push(ordinary(1_000 + number));
    }
    cards[SINGLE_USE].single_use = true;
    (cards[LIMITED].budget, cards[LIMITED].daily_limit) = (2_500, Some(2_000));
    cards[WITH_PIN].pin = Some(PIN);
    cards[BUDGETED].budget = 2_500;
    cards[RICH].transaction_limit = None;
    for (card, interval) in cards[RICH + 1..].iter_mut().zip(INTERVALS) {
        card.interval = interval;
    }
    (Program { opening_balance: OPENING_BALANCE, cards }, purchases)
}

fn ordinary(number: u64) -> Card {
    Card { scope: Vec::new(), ..Card::ordinary(number) }
}

fn check_steps<P: Peer>(asked: &mut PeerTest<'_, P>, program: &Program) -> Outcome<()> {
    check_unknown_card(asked)?;
    check_repeats(asked, &program.cards[0])?;
    check_budget(asked, &program.cards[BUDGETED])?;
    let rules = asked.peer.rules();
    if rules & SUSPENDED != 0 {
        check_single_use(asked, &program.cards[SINGLE_USE])?;
    }
    if rules & DAILY != 0 {
        check_daily_limit(asked, &program.cards[LIMITED])?;
    }
    if rules & PIN_RULE != 0 {
        check_pins(asked, &program.cards[WITH_PIN])?;
    }
    for card in &program.cards[RICH + 1..] {
        asked.buy(card, AMOUNT, &ExpectedVerdict("each interval", 0, 0))?;
    }
    let left = OPENING_BALANCE - asked.held.account_held_minor;
    let card = &program.cards[RICH];
    asked.buy(card, left + 1, &ExpectedVerdict("more than the account has", FUNDS, 1101))?;
    asked.buy(card, left, &ExpectedVerdict("all that it has", 0, 0))?;
    asked.buy(card, 1, &ExpectedVerdict("of an empty account", FUNDS, 1101))
}

fn check_unknown_card<P: Peer>(asked: &mut PeerTest<'_, P>) -> Outcome<()> {
    let purchase = asked.purchase(&ordinary(999_999), AMOUNT);
    let verdict = asked.authorize(&[purchase])?[0];
    ExpectedVerdict("an unknown card", 0, 1000).meets(&verdict)?;
    if verdict.transaction.is_some() { fail("an unknown card has a transaction") } else { Ok(()) }
}

/// A repeat has the first answer and changes nothing, in the same batch and in a later one.
fn check_repeats<P: Peer>(asked: &mut PeerTest<'_, P>, card: &Card) -> Outcome<()> {
    let first = asked.purchase(card, AMOUNT);
    let other = asked.purchase(card, AMOUNT);
    let verdicts = asked.peer.authorize(&[first.clone(), other.clone(), first.clone()])?;
    let later = asked.peer.authorize(&[other, first.clone()])?;
    let sum = 2 * first.amount_minor;
    asked.held.account_held_minor += sum;
    asked.held.cards_spent_minor += sum;
    asked.held.transactions_held_minor += sum;
    asked.held.transactions_held += 2;
    let is_repeated = verdicts[0].is_approved()
        && verdicts[1].is_approved()
        && verdicts[0].transaction != verdicts[1].transaction
        && verdicts[2] == verdicts[0]
        && later == [verdicts[1], verdicts[0]];
    if is_repeated { Ok(()) } else { fail(format!("repeats answer {verdicts:?}, then {later:?}")) }
}

/// A budget that runs out, and a refusal that stays one: its repeat is refused for the same reason.
fn check_budget<P: Peer>(asked: &mut PeerTest<'_, P>, card: &Card) -> Outcome<()> {
    asked.buy(card, 1_500, &ExpectedVerdict("first of a budget", 0, 0))?;
    let over = [asked.purchase(card, 1_001)];
    let refused = asked.authorize(&over)?;
    ExpectedVerdict("more than is left", BUDGET, 1502).meets(&refused[0])?;
    let repeated = asked.authorize(&over)?;
    if repeated != refused {
        return fail(format!("a refusal {refused:?} is repeated as {repeated:?}"));
    }
    asked.buy(card, 1_000, &ExpectedVerdict("all that is left", 0, 0))
}

fn check_single_use<P: Peer>(asked: &mut PeerTest<'_, P>, card: &Card) -> Outcome<()> {
    asked.buy(card, 0, &ExpectedVerdict("verification of a single use", 0, 0))?;
    // It holds nothing, so it is no hold in the books.
    asked.held.transactions_held -= 1;
    asked.buy(card, AMOUNT, &ExpectedVerdict("single use", 0, 0))?;
    asked.buy(card, AMOUNT, &ExpectedVerdict("single use again", SUSPENDED, 1202))
}

fn check_daily_limit<P: Peer>(asked: &mut PeerTest<'_, P>, card: &Card) -> Outcome<()> {
    asked.buy(card, 1_500, &ExpectedVerdict("first of a day", 0, 0))?;
    asked.buy(card, 501, &ExpectedVerdict("more than is left of it", DAILY, 1502))?;
    asked.buy(card, 1_001, &ExpectedVerdict("more than is left of both", DAILY | BUDGET, 1502))?;
    asked.buy(card, 500, &ExpectedVerdict("all that is left of it", 0, 0))
}

/// Three wrong PINs in a row make the right one wrong; five wrong credentials close the card.
fn check_pins<P: Peer>(asked: &mut PeerTest<'_, P>, card: &Card) -> Outcome<()> {
    let wrong = Some(PIN + 1);
    let tries = [
        ("wrong, once", wrong, 1 << 9, 1302),
        ("right after one", Some(PIN), 0, 0),
        ("wrong, first in a row", wrong, 1 << 9, 1302),
        ("wrong, second", wrong, 1 << 9, 1302),
        ("wrong, third", wrong, 1 << 9, 1302),
        ("right after three", Some(PIN), 1 << 9, 1302),
        ("after five wrong credentials", None, 1 << 7, 1701),
    ];
    for (name, pin, failed, code) in tries {
        let purchase = Purchase { pin, ..asked.purchase(card, AMOUNT) };
        let verdicts = asked.authorize(&[purchase])?;
        ExpectedVerdict(name, failed, code).meets(&verdicts[0])?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "conformity_tests.rs"]
mod tests;
