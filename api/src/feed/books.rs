//! The feed's own ledger: what the switch must hold for each purchase, as far as the answers tell.
//!
//! A lost answer leaves several possibilities, so a purchase is kept as the set of states it may
//! be in at the switch ("worlds"). A certain answer carries every world over; an unknown one (96
//! or silence) keeps both the world before and the world after. What the switch shows is right
//! if it is one of the worlds.
//!
//! INVARIANT: messages count in the order in which they were sent, whatever the order of answers.

use std::collections::BTreeMap;

/// State of a transaction at the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// No transaction exists.
    Absent,
    Declined,
    Pending,
    Completed,
    Canceled,
}

/// One possible state of a purchase. Units: minor units of the account's currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct World {
    pub(super) state: State,
    pub(super) held_minor: u64,
    pub(super) posted_minor: u64,
}

/// What a message asks of the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// 0100 or an approved 0120: a hold.
    Hold { amount_minor: u64 },
    /// 0200: posted at once.
    Post { amount_minor: u64 },
    /// 0100 with amount zero.
    Verify,
    /// 0220 with processing code 20: money back. It makes room in the allowance where it names its
    /// purchase, and no more than was paid for that.
    Refund { amount_minor: u64 },
    /// 0120 that names a pending purchase: so much is held from now on.
    Complete { held_minor: u64 },
    /// 0100 with DE38: more is held.
    Increment { amount_minor: u64 },
    /// 0400 or 0420 without DE95.
    ReverseAll,
    /// 0400 with DE95: what stays held.
    ReverseTo { held_minor: u64 },
    /// 0220, the only or the final one.
    Present { amount_minor: u64 },
    /// 0220 with others to follow: the rest stays held.
    PresentPart { amount_minor: u64 },
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// No answer yet.
    Awaited,
    /// 96, or silence.
    Unknown,
    /// It left no trace at the switch.
    NotTaken,
    /// Refused, and recorded.
    Refused,
    /// Refused, and perhaps recorded.
    RefusedPerhapsRecorded,
    /// Done; an approval says for how much.
    Accepted { amount_minor: u64 },
}

/// Names a message of a purchase, for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryId {
    pub(super) purchase: u64,
    index: u16,
}

/// What the switch shows of one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TransactionView {
    pub(super) rrn: u64,
    pub(super) world: World,
    pub(super) response_code: Option<u16>,
    /// Whether it is flagged as giving back more than was paid; none where that is not shown.
    pub(super) over_refunded: Option<bool>,
}

/// Something that the feed and the switch see otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The card, by its identifier under `/v1`.
    pub card_id: String,
    /// The retrieval reference number, where one purchase is concerned.
    pub rrn: Option<String>,
    /// What the feed expected.
    pub expected: String,
    /// What the switch showed.
    pub found: String,
}

/// The ledger of a run.
#[derive(Default)]
pub(super) struct Books {
    purchases: BTreeMap<u64, PurchaseBook>,
    by_card: BTreeMap<u32, Vec<u64>>,
}

struct PurchaseBook {
    card: u32,
    rrn: u64,
    opened_us: u64,
    response_code: Option<u16>,
    /// Whether it takes from the allowance; a refund does not.
    takes: bool,
    /// What makes it a refund for a purchase.
    refund: Option<Refund>,
    worlds: Vec<World>,
    /// How many messages are folded into `worlds`; those after them wait in `open`.
    folded: u16,
    open: Vec<(Event, Outcome)>,
}

/// Money back for a purchase.
#[derive(Clone, Copy)]
struct Refund {
    of: u64,
    asked_minor: u64,
}

/// The page of a purchase's refund: purchases are fewer than that.
const fn refund_page(purchase: u64) -> u64 {
    purchase | 1 << 63
}

/// The switch may let a hold expire after 7 days; a little less, for the clocks between.
const HOLD_MAY_EXPIRE_US: u64 = (7 * 24 - 1) * 3600 * 1_000_000;

const ABSENT: World = World { state: State::Absent, held_minor: 0, posted_minor: 0 };
const DECLINED: World = World { state: State::Declined, held_minor: 0, posted_minor: 0 };
const CANCELED: World = World { state: State::Canceled, held_minor: 0, posted_minor: 0 };

impl Books {
    /// Opens the page of a purchase on a card.
    pub(super) fn open(&mut self, purchase: u64, card: u32, rrn: u64, opened_us: u64) {
        self.open_page(purchase, PurchaseBook::new(card, rrn, opened_us));
    }

    /// Opens the page of the refund for a purchase, where that has one.
    pub(super) fn open_refund(&mut self, purchase: u64, rrn: u64, opened_us: u64) {
        let Some(card) = self.purchases.get(&purchase).map(|book| book.card) else { return };
        let book = PurchaseBook::new(card, rrn, opened_us);
        let refund = Refund { of: purchase, asked_minor: 0 };
        self.open_page(refund_page(purchase), PurchaseBook { refund: Some(refund), ..book });
    }

    fn open_page(&mut self, page: u64, book: PurchaseBook) {
        self.by_card.entry(book.card).or_default().push(page);
        self.purchases.insert(page, book);
    }

    /// Enters a message about the refund for a purchase. `None` for one without a page.
    pub(super) fn sent_of_refund(&mut self, purchase: u64, event: Event) -> Option<EntryId> {
        self.sent(refund_page(purchase), event)
    }

    /// Enters a message that is being sent. `None` for a purchase without a page.
    pub(super) fn sent(&mut self, purchase: u64, event: Event) -> Option<EntryId> {
        let book = self.purchases.get_mut(&purchase)?;
        if let Event::Refund { amount_minor } = event {
            book.takes = false;
            book.refund = book.refund.map(|known| Refund { asked_minor: amount_minor, ..known });
        }
        book.open.push((event, Outcome::Awaited));
        let index = book.folded + u16::try_from(book.open.len()).ok()? - 1;
        Some(EntryId { purchase, index })
    }

    /// Enters what became of a message.
    pub(super) fn answered(&mut self, entry: EntryId, outcome: Outcome) {
        let Some(book) = self.purchases.get_mut(&entry.purchase) else { return };
        let Some(at) = entry.index.checked_sub(book.folded) else { return };
        let Some((_, known)) = book.open.get_mut(usize::from(at)) else { return };
        *known = later_word(*known, outcome);
        book.fold();
    }

    /// Enters the exact response code of a purchase's first answer.
    pub(super) fn set_response_code(&mut self, purchase: u64, code: u16) {
        if let Some(book) = self.purchases.get_mut(&purchase) {
            book.response_code.get_or_insert(code);
        }
    }

    /// Cards with at least one purchase.
    pub(super) fn cards(&self) -> impl Iterator<Item = u32> {
        self.by_card.keys().copied()
    }

    /// The least and the most that a card's purchases may have taken from its allowance, less what
    /// their refunds may have given back.
    pub(super) fn spent_bounds(&self, card: u32, now_us: u64) -> (i64, i64) {
        let of_card = self.by_card.get(&card).into_iter().flatten();
        let books = of_card.filter_map(|purchase| self.purchases.get(purchase));
        books.fold((0, 0), |sum, book| {
            let (least, most) = bounds(&self.taken(book, now_us));
            (sum.0 + least, sum.1 + most)
        })
    }

    /// What a page may have taken from the allowance; below zero what it may have given back.
    fn taken(&self, book: &PurchaseBook, now_us: u64) -> Vec<i64> {
        let signed = |minor: u64| i64::try_from(minor).unwrap_or(i64::MAX);
        let worlds = book.worlds_at(now_us);
        if book.takes {
            return worlds.iter().map(|w| signed(w.held_minor + w.posted_minor)).collect();
        }
        let Some(purchase) = book.refund.and_then(|refund| self.purchases.get(&refund.of)) else {
            return vec![0];
        };
        let paid = purchase.worlds_at(now_us);
        let given = |refund: &World| {
            let refunded = refund.posted_minor;
            paid.iter().map(move |paid| -signed(refunded.min(paid.posted_minor)))
        };
        worlds.iter().flat_map(given).collect()
    }

    /// Whether a refund has to be flagged for giving back more than was paid; none where that is
    /// not known, or where it is no refund of a purchase.
    fn is_over_refunded(&self, book: &PurchaseBook, now_us: u64) -> Option<bool> {
        let refund = book.refund?;
        let paid = self.purchases.get(&refund.of)?.worlds_at(now_us);
        let mut over = paid.iter().map(|paid| refund.asked_minor > paid.posted_minor);
        let first = over.next()?;
        over.all(|other| other == first).then_some(first)
    }

    /// Compares what the switch shows of a card's transactions with the ledger.
    /// `is_ours` tells whether a reference number is one of this run.
    pub(super) fn compare(
        &self,
        card: u32,
        views: &[TransactionView],
        now_us: u64,
        is_ours: impl Fn(u64) -> bool,
    ) -> Vec<Mismatch> {
        let mut shown: BTreeMap<u64, Vec<&TransactionView>> = BTreeMap::new();
        for view in views.iter().filter(|view| is_ours(view.rrn)) {
            shown.entry(view.rrn).or_default().push(view);
        }
        let mut mismatches = Vec::new();
        for purchase in self.by_card.get(&card).into_iter().flatten() {
            let Some(book) = self.purchases.get(purchase) else { continue };
            let found = shown.remove(&book.rrn).unwrap_or_default();
            mismatches.extend(book.compare(&found, now_us));
            mismatches.extend(self.compare_flag(book, &found, now_us));
        }
        mismatches.extend(shown.into_iter().map(|(rrn, found)| Mismatch {
            rrn,
            expected: "nothing: this purchase was never sent".to_owned(),
            found: found.iter().map(|view| describe(&view.world)).collect::<Vec<_>>().join(", "),
        }));
        mismatches
    }

    /// Compares the flag of a refund that is there.
    fn compare_flag(
        &self,
        book: &PurchaseBook,
        found: &[&TransactionView],
        now_us: u64,
    ) -> Option<Mismatch> {
        let [TransactionView { over_refunded: Some(found), .. }] = found else { return None };
        let expected = self.is_over_refunded(book, now_us).filter(|expected| expected != found)?;
        let text = |is_flagged| if is_flagged { "flagged over_refunded" } else { "not so flagged" };
        Some(Mismatch {
            rrn: book.rrn,
            expected: text(expected).to_owned(),
            found: text(*found).to_owned(),
        })
    }
}

/// The least and the most of some amounts.
fn bounds(amounts: &[i64]) -> (i64, i64) {
    let least = amounts.iter().min().copied().unwrap_or(0);
    (least, amounts.iter().max().copied().unwrap_or(0))
}

/// A purchase that the switch shows otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mismatch {
    pub(super) rrn: u64,
    pub(super) expected: String,
    pub(super) found: String,
}

impl PurchaseBook {
    fn new(card: u32, rrn: u64, opened_us: u64) -> Self {
        Self {
            card,
            rrn,
            opened_us,
            response_code: None,
            takes: true,
            refund: None,
            worlds: vec![ABSENT],
            folded: 0,
            open: Vec::new(),
        }
    }

    /// Folds the messages at the front whose outcome can no longer change.
    fn fold(&mut self) {
        while let Some((event, outcome)) =
            self.open.first().copied().filter(|(_, o)| is_certain(*o))
        {
            self.worlds = carry(&self.worlds, event, outcome);
            self.open.remove(0);
            self.folded += 1;
        }
    }

    /// All states the purchase may be in by now.
    fn worlds_at(&self, now_us: u64) -> Vec<World> {
        let mut worlds = self
            .open
            .iter()
            .fold(self.worlds.clone(), |worlds, (event, outcome)| carry(&worlds, *event, *outcome));
        let may_have_expired = now_us.saturating_sub(self.opened_us) >= HOLD_MAY_EXPIRE_US;
        if may_have_expired && worlds.iter().any(|world| world.state == State::Pending) {
            worlds.push(CANCELED);
        }
        worlds
    }

    fn compare(&self, found: &[&TransactionView], now_us: u64) -> Option<Mismatch> {
        let worlds = self.worlds_at(now_us);
        let is_right = match found {
            [] => worlds.contains(&ABSENT),
            [view] => worlds.contains(&view.world) && self.agrees_on_code(view),
            _ => false,
        };
        let code = |code: Option<u16>| code.map_or(String::new(), |code| format!(" {code}"));
        (!is_right).then(|| Mismatch {
            rrn: self.rrn,
            expected: worlds.iter().map(describe).collect::<Vec<_>>().join(" or ")
                + &code(self.response_code),
            found: match found {
                [] => "nothing".to_owned(),
                views => views
                    .iter()
                    .map(|view| describe(&view.world) + &code(view.response_code))
                    .collect::<Vec<_>>()
                    .join(" and "),
            },
        })
    }

    /// A code that either side does not know cannot differ.
    fn agrees_on_code(&self, view: &TransactionView) -> bool {
        match (self.response_code, view.response_code) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => true,
        }
    }
}

const fn is_certain(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::Awaited | Outcome::Unknown | Outcome::NotTaken)
}

/// What is known of a message after one more word on it. The first certain word stays, and
/// that a repeat was not taken says nothing about the first try.
const fn later_word(known: Outcome, word: Outcome) -> Outcome {
    match (known, word) {
        (Outcome::Unknown, Outcome::NotTaken) => known,
        _ if is_certain(known) => known,
        _ => word,
    }
}

/// Carries every world over a message.
fn carry(worlds: &[World], event: Event, outcome: Outcome) -> Vec<World> {
    let mut carried: Vec<World> = match outcome {
        Outcome::NotTaken => worlds.to_vec(),
        Outcome::Refused => worlds.iter().map(|world| refuse(*world, event)).collect(),
        Outcome::RefusedPerhapsRecorded => {
            worlds.iter().flat_map(|world| [*world, refuse(*world, event)]).collect()
        }
        Outcome::Accepted { amount_minor } => {
            worlds.iter().map(|world| accept(*world, with_amount(event, amount_minor))).collect()
        }
        Outcome::Awaited | Outcome::Unknown => worlds
            .iter()
            .flat_map(|world| [*world, refuse(*world, event), accept(*world, event)])
            .collect(),
    };
    carried.sort_unstable();
    carried.dedup();
    carried
}

/// An opening message may be approved for less than it asked.
fn with_amount(event: Event, amount_minor: u64) -> Event {
    match event {
        Event::Hold { .. } => Event::Hold { amount_minor },
        Event::Post { .. } => Event::Post { amount_minor },
        Event::Refund { .. } => Event::Refund { amount_minor },
        other => other,
    }
}

/// A refused opening is recorded as declined; a refused later message changes nothing.
fn refuse(world: World, event: Event) -> World {
    let opens = matches!(
        event,
        Event::Hold { .. } | Event::Post { .. } | Event::Refund { .. } | Event::Verify
    );
    if opens && world == ABSENT { DECLINED } else { world }
}

/// The money rules, as far as the feed uses them.
fn accept(world: World, event: Event) -> World {
    match (event, world.state) {
        (Event::Hold { amount_minor }, State::Absent) => {
            World { state: State::Pending, held_minor: amount_minor, posted_minor: 0 }
        }
        (Event::Post { amount_minor } | Event::Refund { amount_minor }, State::Absent) => {
            World { state: State::Completed, held_minor: 0, posted_minor: amount_minor }
        }
        (Event::Verify, State::Absent) => CANCELED,
        (Event::Complete { held_minor }, State::Pending) => World { held_minor, ..world },
        (Event::Increment { amount_minor }, State::Pending) => {
            World { held_minor: world.held_minor + amount_minor, ..world }
        }
        // What is posted by one message is given back by a compensating line; the feed never
        // reverses what a presentment has posted.
        (Event::ReverseAll, State::Pending | State::Completed) => CANCELED,
        (Event::ReverseTo { held_minor: 0 }, State::Pending) => CANCELED,
        (Event::ReverseTo { held_minor }, State::Pending) => {
            World { held_minor: held_minor.min(world.held_minor), ..world }
        }
        (Event::PresentPart { amount_minor }, _) => World {
            state: State::Completed,
            held_minor: world.held_minor.saturating_sub(amount_minor),
            posted_minor: world.posted_minor + amount_minor,
        },
        (Event::Present { amount_minor }, _) => World {
            state: State::Completed,
            held_minor: 0,
            posted_minor: world.posted_minor + amount_minor,
        },
        _ => world,
    }
}

fn describe(world: &World) -> String {
    let name = match world.state {
        State::Absent => return "nothing".to_owned(),
        State::Declined => return "declined".to_owned(),
        State::Pending => "pending",
        State::Completed => "completed",
        State::Canceled => "canceled",
    };
    format!("{name} (held {}, posted {})", world.held_minor, world.posted_minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn pending(held_minor: u64) -> World {
        World { state: State::Pending, held_minor, posted_minor: 0 }
    }

    const fn completed(posted_minor: u64) -> World {
        World { state: State::Completed, held_minor: 0, posted_minor }
    }

    const HOLD: Event = Event::Hold { amount_minor: 500 };
    const PART_200: Event = Event::PresentPart { amount_minor: 200 };
    const FUEL_300: Event = Event::Complete { held_minor: 300 };
    const REFUND: Event = Event::Refund { amount_minor: 500 };
    const ADD_100: Event = Event::Increment { amount_minor: 100 };
    const KEEP_200: Event = Event::ReverseTo { held_minor: 200 };
    const PRESENT: Event = Event::Present { amount_minor: 500 };
    const DONE: Outcome = Outcome::Accepted { amount_minor: 500 };
    const DAY_US: u64 = 86_400_000_000;

    type Messages = &'static [(Event, Outcome)];

    fn worlds_after(messages: &[(Event, Outcome)], now_us: u64) -> Vec<World> {
        let mut books = Books::default();
        books.open(0, 0, 7, 0);
        let entries: Vec<_> =
            messages.iter().map(|(event, _)| books.sent(0, *event).unwrap()).collect();
        // Answers come in the opposite order: it must not matter.
        for (entry, (_, outcome)) in entries.into_iter().zip(messages).rev() {
            books.answered(entry, *outcome);
        }
        books.purchases[&0].worlds_at(now_us)
    }

    #[test]
    fn answers_lead_to_the_states_they_allow() {
        let rows: &[(&str, Messages, &[World])] = &[
            ("approved", &[(HOLD, DONE)], &[pending(500)]),
            ("declined", &[(HOLD, Outcome::Refused)], &[DECLINED]),
            ("1000", &[(HOLD, Outcome::RefusedPerhapsRecorded)], &[ABSENT, DECLINED]),
            ("91", &[(HOLD, Outcome::NotTaken)], &[ABSENT]),
            ("96", &[(HOLD, Outcome::Unknown)], &[ABSENT, DECLINED, pending(500)]),
            ("in part", &[(HOLD, Outcome::Accepted { amount_minor: 300 })], &[pending(300)]),
            ("0200", &[(Event::Post { amount_minor: 500 }, DONE)], &[completed(500)]),
            ("verified", &[(Event::Verify, DONE)], &[CANCELED]),
            ("cleared", &[(HOLD, DONE), (PRESENT, DONE)], &[completed(500)]),
            ("reversed", &[(HOLD, DONE), (Event::ReverseAll, DONE)], &[CANCELED]),
            (
                "a parcel",
                &[(HOLD, DONE), (PART_200, DONE)],
                &[World { held_minor: 300, ..completed(200) }],
            ),
            (
                "a parcel lost, then the last",
                &[(HOLD, DONE), (PART_200, Outcome::Unknown), (PRESENT, DONE)],
                &[completed(500), completed(700)],
            ),
            ("more", &[(HOLD, DONE), (ADD_100, DONE)], &[pending(600)]),
            ("no more", &[(HOLD, DONE), (ADD_100, Outcome::Refused)], &[pending(500)]),
            (
                "perhaps more",
                &[(HOLD, DONE), (ADD_100, Outcome::Unknown)],
                &[pending(500), pending(600)],
            ),
            (
                "perhaps more, then cleared",
                &[(HOLD, DONE), (ADD_100, Outcome::Unknown), (PRESENT, DONE)],
                &[completed(500)],
            ),
            ("kept 200", &[(HOLD, DONE), (KEEP_200, DONE)], &[pending(200)]),
            ("kept 0", &[(HOLD, DONE), (Event::ReverseTo { held_minor: 0 }, DONE)], &[CANCELED]),
            (
                "kept and cleared",
                &[(HOLD, DONE), (KEEP_200, DONE), (Event::Present { amount_minor: 200 }, DONE)],
                &[completed(200)],
            ),
            (
                "96 then reversed",
                &[(HOLD, Outcome::Unknown), (Event::ReverseAll, DONE)],
                &[ABSENT, DECLINED, CANCELED],
            ),
            (
                "presentment lost",
                &[(HOLD, DONE), (PRESENT, Outcome::Unknown)],
                &[pending(500), completed(500)],
            ),
            (
                "reversal refused",
                &[(HOLD, DONE), (Event::ReverseAll, Outcome::Refused)],
                &[pending(500)],
            ),
            ("overtaken", &[(HOLD, Outcome::Refused), (Event::ReverseAll, DONE)], &[DECLINED]),
            (
                "0200 reversed",
                &[(Event::Post { amount_minor: 500 }, DONE), (Event::ReverseAll, DONE)],
                &[CANCELED],
            ),
        ];
        for (name, messages, expected) in rows {
            assert_eq!(worlds_after(messages, 0), *expected, "{name}");
        }
    }

    #[test]
    fn completions_and_refunds_lead_to_the_states_they_allow() {
        let rows: &[(&str, Messages, &[World])] = &[
            ("filled up", &[(HOLD, DONE), (FUEL_300, DONE)], &[pending(300)]),
            (
                "perhaps filled up",
                &[(HOLD, DONE), (FUEL_300, Outcome::Unknown)],
                &[pending(300), pending(500)],
            ),
            ("refunded", &[(REFUND, DONE)], &[completed(500)]),
            ("refund reversed", &[(REFUND, DONE), (Event::ReverseAll, DONE)], &[CANCELED]),
        ];
        for (name, messages, expected) in rows {
            assert_eq!(worlds_after(messages, 0), *expected, "{name}");
        }
    }

    #[test]
    fn an_old_hold_may_have_expired() {
        assert_eq!(worlds_after(&[(HOLD, DONE)], 6 * DAY_US), [pending(500)]);
        assert_eq!(worlds_after(&[(HOLD, DONE)], 7 * DAY_US), [pending(500), CANCELED]);
        assert_eq!(worlds_after(&[(HOLD, DONE), (PRESENT, DONE)], 9 * DAY_US), [completed(500)]);
    }

    #[test]
    fn a_repeat_may_settle_what_was_unknown_but_not_change_what_was_certain() {
        let mut books = Books::default();
        books.open(0, 0, 7, 0);
        let hold = books.sent(0, HOLD).unwrap();
        books.answered(hold, Outcome::Unknown);
        books.answered(hold, DONE);
        books.answered(hold, Outcome::Refused);
        assert_eq!(books.purchases[&0].worlds_at(0), [pending(500)]);
    }

    #[test]
    fn a_queue_full_answer_to_a_repeat_settles_nothing() {
        let mut books = Books::default();
        books.open(0, 0, 7, 0);
        let hold = books.sent(0, HOLD).unwrap();
        books.answered(hold, Outcome::Unknown);
        books.answered(hold, Outcome::NotTaken);
        assert_eq!(books.purchases[&0].worlds_at(0).len(), 3);
    }

    #[test]
    fn bounds_add_up_over_a_card() {
        let mut books = Books::default();
        for (purchase, outcome) in [(0, DONE), (1, Outcome::Unknown), (2, Outcome::Refused)] {
            books.open(purchase, 4, 100 + purchase, 0);
            let entry = books.sent(purchase, HOLD).unwrap();
            books.answered(entry, outcome);
        }
        books.open(3, 4, 103, 0);
        let refund = books.sent(3, REFUND).unwrap();
        books.answered(refund, DONE);
        assert_eq!(books.spent_bounds(4, 0), (500, 1000));
        assert_eq!(books.spent_bounds(5, 0), (0, 0));
    }

    /// A purchase of 500 that has settled, and its refund; what is taken and what is flagged then.
    #[test]
    fn a_refund_gives_back_no_more_than_was_paid() {
        type Row = (&'static str, Messages, (i64, i64), bool);
        let rows: &[Row] = &[
            ("whole", &[(REFUND, DONE)], (0, 0), false),
            (
                "in part",
                &[(Event::Refund { amount_minor: 120 }, Outcome::Accepted { amount_minor: 120 })],
                (380, 380),
                false,
            ),
            (
                "over",
                &[(Event::Refund { amount_minor: 600 }, Outcome::Accepted { amount_minor: 600 })],
                (0, 0),
                true,
            ),
            ("perhaps", &[(REFUND, Outcome::Unknown)], (0, 500), false),
            ("refused", &[(REFUND, Outcome::Refused)], (500, 500), false),
            ("taken back", &[(REFUND, DONE), (Event::ReverseAll, DONE)], (500, 500), false),
            (
                "perhaps taken back",
                &[(REFUND, DONE), (Event::ReverseAll, Outcome::Unknown)],
                (0, 500),
                false,
            ),
        ];
        for (name, messages, spent, is_over) in rows {
            let mut books = Books::default();
            books.open(0, 4, 100, 0);
            for event in [HOLD, PRESENT] {
                let entry = books.sent(0, event).unwrap();
                books.answered(entry, DONE);
            }
            books.open_refund(0, 101, 0);
            for (event, outcome) in *messages {
                let entry = books.sent_of_refund(0, *event).unwrap();
                books.answered(entry, *outcome);
            }
            assert_eq!(books.spent_bounds(4, 0), *spent, "{name}");
            let refund = &books.purchases[&refund_page(0)];
            assert_eq!(books.is_over_refunded(refund, 0), Some(*is_over), "{name}");
            let view = |rrn, world, over_refunded| TransactionView {
                rrn,
                world,
                response_code: Some(0),
                over_refunded,
            };
            let refunded = *refund.worlds_at(0).last().unwrap();
            for (flag, differences) in [(None, 0), (Some(*is_over), 0), (Some(!is_over), 1)] {
                let views = [view(100, completed(500), Some(false)), view(101, refunded, flag)];
                let found = books.compare(4, &views, 0, |_| true);
                assert_eq!(found.len(), differences, "{name}: {found:?}");
            }
        }
    }

    #[test]
    fn what_the_switch_shows_is_compared() {
        let mut books = Books::default();
        books.open(0, 4, 100, 0);
        let entry = books.sent(0, HOLD).unwrap();
        books.answered(entry, DONE);
        books.set_response_code(0, 0);
        let view = |rrn, world, code| TransactionView {
            rrn,
            world,
            response_code: Some(code),
            over_refunded: None,
        };
        let rows: &[(&str, Vec<TransactionView>, usize)] = &[
            ("right", vec![view(100, pending(500), 0)], 0),
            ("another run's", vec![view(100, pending(500), 0), view(9, pending(1), 0)], 0),
            ("missing", vec![], 1),
            ("twice", vec![view(100, pending(500), 0), view(100, pending(500), 0)], 1),
            ("other amount", vec![view(100, pending(501), 0)], 1),
            ("other state", vec![view(100, completed(500), 0)], 1),
            ("other code", vec![view(100, pending(500), 1502)], 1),
            ("invented", vec![view(100, pending(500), 0), view(101, pending(5), 0)], 1),
        ];
        for (name, views, expected) in rows {
            let mismatches = books.compare(4, views, 0, |rrn| rrn >= 100);
            assert_eq!(mismatches.len(), *expected, "{name}: {mismatches:?}");
        }
    }
}
