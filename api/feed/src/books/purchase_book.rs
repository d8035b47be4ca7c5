//! The ledger's page of one purchase or refund: its messages, their outcomes, and the states it may
//! be in by now.

use super::worlds::{
    ABSENT, CANCELED, Event, Outcome, PossibleState, State, carry, describe, is_certain, later_word,
};
use super::{PurchaseMismatch, TransactionView};

/// The switch may let a hold expire after 7 days; a little less, for the clocks between.
const HOLD_MAY_EXPIRE_US: u64 = (7 * 24 - 1) * 3600 * 1_000_000;

/// The page of a purchase, or of a refund.
pub(super) struct PurchaseBook {
    pub(super) card: u32,
    pub(super) rrn: u64,
    opened_us: u64,
    response_code: Option<u16>,
    /// Whether it takes from the allowance; a refund does not.
    pub(super) takes: bool,
    /// The purchase that it refunds, if any.
    pub(super) refund: Option<Refund>,
    worlds: Vec<PossibleState>,
    /// The number of messages folded into `worlds`; those after them wait in `open`.
    folded: u16,
    open: Vec<(Event, Outcome)>,
}

/// Money back for a purchase.
#[derive(Clone, Copy)]
pub(super) struct Refund {
    pub(super) of: u64,
    pub(super) asked_minor: u64,
}

impl PurchaseBook {
    pub(super) fn new(card: u32, rrn: u64, opened_us: u64) -> Self {
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

    /// Makes it the page of the refund for a purchase.
    pub(super) fn for_refund_of(self, purchase: u64) -> Self {
        Self { refund: Some(Refund { of: purchase, asked_minor: 0 }), ..self }
    }

    /// Enters a message that is being sent. Returns its place.
    pub(super) fn sent(&mut self, event: Event) -> Option<u16> {
        if let Event::Refund { amount_minor } = event {
            self.takes = false;
            self.refund = self.refund.map(|known| Refund { asked_minor: amount_minor, ..known });
        }
        self.open.push((event, Outcome::Awaited));
        Some(self.folded + u16::try_from(self.open.len()).ok()? - 1)
    }

    /// Enters what became of the message at a place.
    pub(super) fn answered(&mut self, index: u16, outcome: Outcome) {
        let Some(at) = index.checked_sub(self.folded) else { return };
        let Some((_, known)) = self.open.get_mut(usize::from(at)) else { return };
        *known = later_word(*known, outcome);
        self.fold();
    }

    /// Enters the exact response code of the first answer.
    pub(super) fn set_response_code(&mut self, code: u16) {
        self.response_code.get_or_insert(code);
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
    pub(super) fn worlds_at(&self, now_us: u64) -> Vec<PossibleState> {
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

    /// Compares what the switch shows under its reference number.
    pub(super) fn compare(
        &self,
        found: &[&TransactionView],
        now_us: u64,
    ) -> Option<PurchaseMismatch> {
        let worlds = self.worlds_at(now_us);
        let is_right = match found {
            [] => worlds.contains(&ABSENT),
            [view] => worlds.contains(&view.world) && self.agrees_on_code(view),
            _ => false,
        };
        let code = |code: Option<u16>| code.map_or(String::new(), |code| format!(" {code}"));
        (!is_right).then(|| PurchaseMismatch {
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
