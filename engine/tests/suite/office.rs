//! A shard that a test asks by hand, and the people of its companies.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::record::records;
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand, MemberRole, NewMember};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::ids::{CardSlot, Timestamp};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::posting::StatementLine;
use cardswitch_engine::shard::ShardState;

use crate::driver::Driver;
use crate::samples::{START, admin, company_id, member_id, new_card, new_company};

/// A shard asked once a second. Two companies; in the first Ada (1) administers, Bob (2) is a member.
pub(crate) struct Office {
    pub(crate) driver: Driver,
    at: i64,
}

pub(crate) const ADA: u64 = 1;
pub(crate) const BOB: u64 = 2;
pub(crate) const FOREIGNER: u64 = 3;

pub(crate) fn new_member(number: u64, company: u64, email: &str) -> NewMember {
    NewMember {
        id: member_id(number),
        company: company_id(company),
        first_name: "Member".parse().unwrap(),
        last_name: number.to_string().parse().unwrap(),
        email: email.to_owned(),
        role: MemberRole::Member,
        code: None,
        dimensions: [None; 4],
        external_id: None,
        is_active: true,
        invite: None,
    }
}

impl Office {
    /// Lets time pass. Units: microseconds.
    pub(crate) fn pass(&mut self, time: i64) {
        self.at += time;
    }

    pub(crate) fn open() -> Self {
        let mut office = Self { driver: Driver::new(ShardState::default()), at: START };
        for number in 0..2 {
            let company = new_company(number, chrono_tz::UTC, 1_000_000, 0);
            office.does(AdminCommand::Company(CompanyCommand::Create(company)));
        }
        let ada = new_member(ADA, 0, "Ada@Example.com");
        let ada = NewMember { role: MemberRole::Administrator, ..ada };
        office.does(AdminCommand::Member(MemberCommand::Create(ada)));
        office.does(AdminCommand::Member(MemberCommand::Create(new_member(
            BOB,
            0,
            "bob@example.com",
        ))));
        office.does(AdminCommand::Member(MemberCommand::Create(new_member(
            FOREIGNER,
            1,
            "bob@example.com",
        ))));
        office
    }

    pub(crate) fn now(&self) -> i64 {
        self.at
    }

    /// The next question comes a second later.
    pub(crate) fn wait_until(&mut self, at: i64) {
        assert!(at >= self.at, "time never goes back");
        self.at = at;
    }

    pub(crate) fn run(&mut self, command: &Command) -> Reply {
        self.at += 1_000_000;
        self.driver.run(Timestamp(self.at), command)
    }

    pub(crate) fn asks(&mut self, command: AdminCommand) -> Result<(), Rejection> {
        match self.run(&admin(command)) {
            Reply::Done(_) => Ok(()),
            Reply::Rejected(rejection) => Err(rejection),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn does(&mut self, command: AdminCommand) {
        let told = format!("{command:?}");
        assert_eq!(self.asks(command), Ok(()), "{told}");
    }

    pub(crate) fn update(&mut self, number: u64, changes: MemberChanges) -> Result<(), Rejection> {
        self.asks(AdminCommand::Member(MemberCommand::Update(
            company_id(0),
            member_id(number),
            changes,
        )))
    }

    /// Makes a card for a member; its number is also that of its slot, from 1.
    pub(crate) fn give_card(&mut self, number: u64, holder: Option<u64>) -> Result<(), Rejection> {
        let mut card = new_card(number, 0, AllowanceTerms::budget(Minor(10_000)));
        card.order.assigned_to = holder.map(member_id);
        self.asks(AdminCommand::Card(CardCommand::Issue(card)))
    }

    /// The effects of the last record.
    pub(crate) fn last_effects(&self) -> Vec<Effect> {
        let ends = &self.driver.ends;
        let start = ends.len().checked_sub(2).map_or(0, |place| ends[place]);
        let mut last = records(&self.driver.payload[start..]);
        last.next().unwrap().unwrap().effects
    }

    /// The one statement line of the last record; the transaction has the same member.
    pub(crate) fn last_line(&self) -> StatementLine {
        let lines = self.last_effects().into_iter().filter_map(|effect| match effect {
            Effect::StatementLine(line) => Some(*line),
            _ => None,
        });
        let lines: Vec<_> = lines.collect();
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        let transaction = self.driver.state.transaction(line.transaction).unwrap();
        assert_eq!(transaction.member, line.member);
        line.clone()
    }

    pub(crate) fn state_of(&self, card: u64) -> CardState {
        self.driver.state.card(CardSlot(card as u32 - 1)).usage.state
    }
}

pub(crate) fn leaving() -> MemberChanges {
    MemberChanges { is_active: Some(false), ..MemberChanges::default() }
}

pub(crate) fn with_role(role: MemberRole) -> MemberChanges {
    MemberChanges { role: Some(role), ..MemberChanges::default() }
}
