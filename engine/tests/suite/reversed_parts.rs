//! A reversal of one message of a purchase gives back in the period and on the day in which that message took.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::{AuthorizationKind, PresentmentNumber, ReversalAmount};
use cardswitch_engine::directory::allowance::{AllowanceChanges, AllowanceCommand};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::ids::{CardSlot, Timestamp};
use cardswitch_engine::domain::money::Minor;

use crate::samples::{admin, company_id, facts, new_card, pan};
use crate::story::{Story, by_retrieval, named_by};

/// A reset of the budget, or midnight, between two messages of a purchase.
#[derive(Clone, Copy, Debug)]
enum Between {
    Reset,
    Midnight,
}

impl Between {
    fn pass(self, story: &mut Story) {
        match self {
            Self::Midnight => story.at += Timestamp::DAY,
            Self::Reset => {
                let changes = AllowanceChanges { reset: true, ..AllowanceChanges::default() };
                let id = new_card(1, 0, AllowanceTerms::budget(Minor(1))).allowance_id;
                let reset = AllowanceCommand::Update(company_id(0), id, changes);
                story.run(&admin(AdminCommand::Allowance(reset)));
            }
        }
    }

    /// What is used of the present budget, or of the present day.
    fn used(self, story: &Story) -> i64 {
        let usage = story.driver.state.card(CardSlot(0)).usage;
        match self {
            Self::Reset => usage.spent.0,
            Self::Midnight => usage.day_spent.0,
        }
    }
}

fn reverse(story: &mut Story, mark: u64, amount: ReversalAmount) -> i64 {
    story.reverse(named_by(mark), amount).given_back.0
}

/// A reversal of yesterday's increment made room today: a day, or a budget, gave more than it has.
#[test]
fn an_increment_gives_back_where_it_took() {
    for between in [Between::Reset, Between::Midnight] {
        let mut story = Story::begin();
        story.authorize(facts(pan(1), 10_000, 5), AuthorizationKind::Purchase);
        story.increment(2_000, 6, None);
        between.pass(&mut story);
        story.increment(3_000, 7, None);
        assert_eq!(reverse(&mut story, 6, ReversalAmount::GiveBack(Minor(500))), 500);
        assert_eq!(between.used(&story), 3_000, "{between:?}");
        assert_eq!(reverse(&mut story, 6, ReversalAmount::Full), 1_500);
        assert_eq!(between.used(&story), 3_000, "{between:?}");
        assert_eq!(reverse(&mut story, 7, ReversalAmount::GiveBack(Minor(1_000))), 1_000);
        assert_eq!(between.used(&story), 2_000, "{between:?}");
        // The rest of the purchase: the newest part first.
        let rest = ReversalAmount::GiveBack(Minor(5_000));
        assert_eq!(story.reverse(by_retrieval(5), rest).given_back, Minor(5_000));
        assert_eq!(between.used(&story), 0, "{between:?}");
    }
}

/// The same of presentments; what one took of a hold is of the hold's period and day.
#[test]
fn a_presentment_gives_back_where_it_took() {
    for between in [Between::Reset, Between::Midnight] {
        let mut story = Story::begin();
        story.authorize(facts(pan(1), 5_000, 5), AuthorizationKind::Purchase);
        let present = |story: &mut Story, number, amount, mark| {
            let number = PresentmentNumber { number, count: 3 };
            story.present_part(facts(pan(1), amount, mark), by_retrieval(5), number);
        };
        present(&mut story, 1, 3_000, 90);
        between.pass(&mut story);
        present(&mut story, 2, 2_400, 91);
        present(&mut story, 3, 700, 92);
        assert_eq!(between.used(&story), 1_100, "{between:?}");
        assert_eq!(reverse(&mut story, 90, ReversalAmount::Full), 3_000);
        assert_eq!(between.used(&story), 1_100, "{between:?}");
        assert_eq!(reverse(&mut story, 91, ReversalAmount::Full), 2_400);
        assert_eq!(between.used(&story), 700, "{between:?}");
        assert_eq!(reverse(&mut story, 92, ReversalAmount::Full), 700);
        assert_eq!((between.used(&story), story.spent()), (0, Minor(0)), "{between:?}");
    }
}
