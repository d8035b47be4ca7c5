//! The switch's books by balance inquiries: the allowance of each card, before and after a run.
//!
//! This works with any switch that answers processing code 30 with DE54; it sees sums, not single
//! transactions.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::{Duration, Instant};

use super::books::{Books, Difference};
use super::client::DoorConnection;
use super::message::{AnswerFields, AnswerKey, Identity, balance_inquiry};
use super::portfolio::Portfolio;
use super::report::{ComparedBooks, Comparison};

/// The most cards that are asked for: the first of the file.
const CARDS_MAX: u32 = 20_000;

/// Inquiries under way at once, on a switch that keeps its own clock.
const WINDOW: usize = 64;

/// Allowance balances by slot of the portfolio. Units: minor units of the account's currency.
pub(super) type Balances = BTreeMap<u32, i64>;

/// The settings of inquiries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inquiry {
    /// The time since the Unix epoch.
    pub(super) at_us: u64,
    pub(super) is_virtual: bool,
    /// Reference numbers count down from here.
    pub(super) first_rrn: u64,
    pub(super) answer_timeout: Duration,
}

/// Asks for the balance of every card. A card that declines the inquiry is left out.
/// Errors: those of the connection.
pub(super) fn read(
    connection: &mut DoorConnection,
    portfolio: &Portfolio,
    inquiry: Inquiry,
) -> io::Result<Balances> {
    let (mut balances, mut awaited) = (Balances::new(), HashMap::new());
    let window = if inquiry.is_virtual { 1 } else { WINDOW };
    for slot in 0..u32::try_from(portfolio.len()).unwrap_or(CARDS_MAX).min(CARDS_MAX) {
        let Some(card) = portfolio.card(slot) else { continue };
        let identity = Identity {
            stan: slot % 999_999 + 1,
            rrn: inquiry.first_rrn.saturating_sub(slot.into()),
            sent_us: inquiry.at_us,
        };
        let virtual_us = inquiry.is_virtual.then_some(inquiry.at_us);
        let (bytes, key) = balance_inquiry(card, identity, virtual_us);
        connection.send(&bytes)?;
        awaited.insert(key, slot);
        collect(connection, &mut awaited, &mut balances, (window - 1, inquiry))?;
    }
    collect(connection, &mut awaited, &mut balances, (0, inquiry))?;
    Ok(balances)
}

/// Takes answers in until at most so many are awaited, or none comes in time.
fn collect(
    connection: &mut DoorConnection,
    awaited: &mut HashMap<AnswerKey, u32>,
    balances: &mut Balances,
    (left_max, inquiry): (usize, Inquiry),
) -> io::Result<()> {
    let deadline = Instant::now() + inquiry.answer_timeout;
    while awaited.len() > left_max {
        let left = deadline.saturating_duration_since(Instant::now());
        let Some(message) = connection.receive(Some(left))? else {
            awaited.clear();
            return Ok(());
        };
        let Some(answer) = AnswerFields::parse(&message) else { continue };
        if let Some(slot) = awaited.remove(&answer.key)
            && let (b"00", Some(balance)) = (&answer.response, answer.available_minor)
        {
            balances.insert(slot, balance);
        }
    }
    Ok(())
}

/// Compares the change of each balance with the books; cards that told none stay unchecked.
pub(super) fn compare(
    books: &Books,
    portfolio: &Portfolio,
    (before, after): (&Balances, &Balances),
    now_us: u64,
) -> (Comparison, Vec<Difference>) {
    let is_told = |slot: &u32| before.contains_key(slot) && after.contains_key(slot);
    let unchecked = books.cards().filter(|slot| !is_told(slot)).count();
    let mut cards = 0;
    let mut differences = Vec::new();
    for (slot, balance_before) in before {
        let (Some(balance_after), Some(card)) = (after.get(slot), portfolio.card(*slot)) else {
            continue;
        };
        if card.resets() {
            continue;
        }
        cards += 1;
        let (least, most) = books.spent_bounds(*slot, now_us);
        let spent = balance_before - balance_after;
        if !(least..=most).contains(&spent) {
            differences.push(Difference {
                card_id: card.card_id.clone(),
                rrn: None,
                expected: format!("{least} to {most} taken from the allowance"),
                found: spent.to_string(),
            });
        }
    }
    (Comparison { compared: ComparedBooks::Balances, cards, unchecked }, differences)
}

#[cfg(test)]
mod tests {
    use super::super::books::{Event, Outcome};
    use super::*;

    #[test]
    fn the_change_of_a_balance_must_be_what_the_books_say() {
        let line = |at: u32, more: &str| {
            format!(
                r#"{{"card_id":"c{at}","pan":"999999000000000{at}","expiration":"2030-01-31"{more}}}"#
            )
        };
        let lines = [line(0, ""), line(1, ""), line(2, r#","interval":"daily""#)].join("\n");
        let portfolio = Portfolio::parse(&lines).unwrap();
        let mut books = Books::default();
        for card in 0..3 {
            books.open(card.into(), card, card.into(), 0);
            let entry = books.sent(card.into(), Event::Hold { amount_minor: 500 }).unwrap();
            let outcomes = [Outcome::Accepted { amount_minor: 500 }, Outcome::Unknown];
            books.answered(entry, outcomes[usize::from(card == 1)]);
        }
        let before = Balances::from([(0, 1000), (1, 1000), (2, 1000)]);
        for (after, differences) in [
            ([(0, 500), (1, 500), (2, 0)], 0),
            ([(0, 500), (1, 1000), (2, 0)], 0),
            ([(0, 499), (1, 1000), (2, 0)], 1),
            ([(0, 1000), (1, 499), (2, 0)], 2),
        ] {
            let after = Balances::from(after);
            let (Comparison { cards: compared, unchecked, .. }, found) =
                compare(&books, &portfolio, (&before, &after), 0);
            let counts = (compared, unchecked, found.len());
            assert_eq!(counts, (2, 0, differences), "{after:?}: {found:?}");
        }
        let silent = Balances::from([(0, 500)]);
        let (Comparison { cards: compared, unchecked, .. }, found) =
            compare(&books, &portfolio, (&before, &silent), 0);
        assert_eq!((compared, unchecked, found.len()), (1, 2, 0));
    }
}
