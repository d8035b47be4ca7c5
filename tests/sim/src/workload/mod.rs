//! Draws commands: the ordinary ones often, every odd one now and then, amounts at the edges. The
//! same seed draws the same ones.

mod admin;
mod members;
mod network;
mod people;
mod purchases;
mod transfers;

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::keyed_command::{KeyClaim, KeyedCommand};
use cardswitch_engine::command::network::{CardRef, NetworkRequest};
use cardswitch_engine::command::{Command, NotedCommand};
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::directory::member::MemberCommand;
use cardswitch_engine::domain::company::VelocityLimits;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::keyed_answer::KeyedContent;
use cardswitch_engine::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, TraceKey,
};
use chrono_tz::Tz;

use self::people::{PeopleCounts, draw_note};
use crate::model::{DAY, HOUR, MINUTE, Model};
use crate::rng::Rng;
use crate::samples::{START, admin, new_company};

/// A zone with daylight saving, a zone whose clocks skip midnight, a zone half an hour off.
const ZONES: [Tz; 3] = [Tz::America__Los_Angeles, Tz::America__Santiago, Tz::Asia__Kolkata];
/// The first members of each company have numbers that follow those of the company before.
const MEMBERS_AT_FIRST: u64 = 3;
const CARDS_PER_COMPANY: u64 = 8;
const REQUESTS_REMEMBERED: usize = 40;
/// The number of idempotency keys, so small that each is used again within its day.
const KEYS: u64 = 8;
/// Marks of purchases that are reversed before they come.
const EARLY: u64 = 1 << 36;

/// The source of commands.
pub struct Workload {
    pub rng: Rng,
    pub at: i64,
    marks: u64,
    cards: u64,
    members: u64,
    requisitions: u64,
    people: PeopleCounts,
    /// The number of acts of people still to come, one soon after the other: their tickets end soon.
    people_left: u64,
    /// The mark of the last reversal whose purchase had not come.
    early_mark: u64,
    /// A card that is tried again and again in a short time, and how often still.
    burst: Option<(CardRef, u64)>,
    requests: Vec<NetworkRequest>,
}

impl Workload {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            at: START,
            marks: 0,
            cards: 0,
            members: 0,
            requisitions: 0,
            people: PeopleCounts::default(),
            people_left: 0,
            early_mark: EARLY,
            burst: None,
            requests: Vec::new(),
        }
    }

    /// Three companies (rich, with velocity limits, almost empty) with a few cards each.
    pub fn opening(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        let money = [(900_000_000, 0), (50_000_000, 1_000_000), (20_000, 5_000)];
        for (number, (zone, (opening, credit))) in (0..).zip(ZONES.into_iter().zip(money)) {
            let mut company = new_company(number, zone, opening, credit);
            company.partial_approval = number != 1;
            if number == 1 {
                company.velocity = VelocityLimits { per_minute: 4, per_hour: 25 };
            }
            commands.push(admin(AdminCommand::Company(CompanyCommand::Create(company))));
            for _ in 0..MEMBERS_AT_FIRST {
                let member = self.draw_member(number);
                commands.push(admin(AdminCommand::Member(MemberCommand::Create(member))));
            }
            for _ in 0..CARDS_PER_COMPANY {
                let card = self.draw_card(number);
                commands.push(admin(AdminCommand::Card(CardCommand::Issue(card))));
            }
        }
        commands
    }

    /// Moves the clock: mostly a little, now and then over days, weeks and months.
    pub fn pass_time(&mut self) -> Timestamp {
        let jump = match self.rng.below(1_000) {
            _ if self.burst.is_some() || self.people_left > 0 => self.rng.between(1, 15_000_000),
            0..300 => self.rng.between(1, 2_000_000),
            300..780 => self.rng.between(1, MINUTE),
            780..930 => self.rng.between(1, HOUR),
            930..975 => self.rng.between(HOUR, DAY),
            975..995 => self.rng.between(DAY, 8 * DAY),
            _ => self.rng.between(8 * DAY, 40 * DAY),
        };
        self.at += jump;
        Timestamp(self.at)
    }

    pub fn draw(&mut self, model: &Model) -> Command {
        if self.people_left == 0 && self.rng.chance(1) {
            self.people_left = self.rng.below(20);
        }
        if self.people_left > 0 {
            self.people_left -= 1;
            let command = admin(self.people.draw(&mut self.rng, self.at));
            return self.draw_key(command);
        }
        if self.rng.chance(12) {
            let command = self.draw_admin(model);
            return self.draw_key(command);
        }
        if self.rng.chance(1) {
            return Command::Tick;
        }
        if self.rng.chance(7) && !self.requests.is_empty() {
            return self.draw_repeat();
        }
        let command = self.draw_network(model);
        let fingerprint = self.draw_fingerprint();
        let request = NetworkRequest { command, fingerprint };
        if request.fingerprint.is_some() {
            self.requests.truncate(REQUESTS_REMEMBERED);
            self.requests.insert(0, request.clone());
        }
        Command::Network(Box::new(request))
    }

    /// Puts some changes under one of a few idempotency keys, or only an answer.
    fn draw_key(&mut self, command: Command) -> Command {
        let Command::Admin(change) = command else { return command };
        if self.rng.chance(25) {
            return Command::Admin(change);
        }
        let note = draw_note(&mut self.rng);
        if self.rng.chance(35) {
            return Command::Noted(Box::new(NotedCommand { note, change: *change }));
        }
        let note = self.rng.chance(50).then_some(note);
        let change = self.rng.chance(60).then_some(*change);
        let content = match change {
            Some(_) => KeyedContent::Object { path: "/v1/cards".to_owned() },
            None => KeyedContent::Body(vec![1, 2, 3]),
        };
        let (key, request) = (self.rng.below(KEYS) as u8, self.rng.below(5) as u8 / 4);
        let claim = KeyClaim { key: [key; 32], request: [request; 32], status: 200, content };
        Command::Keyed(Box::new(KeyedCommand { claim, change, note }))
    }

    fn draw_fingerprint(&mut self) -> Option<Fingerprint> {
        self.marks += 1;
        let traced = traced(self.marks);
        match self.rng.below(10) {
            0..5 => None,
            5..8 => Some(traced),
            _ => {
                let window = DuplicateWindow::RepeatsOnly { is_repeat: false };
                Some(Fingerprint { trace: None, window, ..traced })
            }
        }
    }

    /// A message that was sent before: as it was, marked as a repeat, or with something else in it.
    fn draw_repeat(&mut self) -> Command {
        let at = self.rng.below(self.requests.len() as u64) as usize;
        let mut request = self.requests[at].clone();
        if let Some(print) = &mut request.fingerprint {
            if let DuplicateWindow::RepeatsOnly { is_repeat } = &mut print.window {
                *is_repeat = self.rng.chance(70);
            }
            if self.rng.chance(20) {
                print.content += 1_000_000;
            }
            if self.rng.chance(20) {
                // Messages of one key have one trace, so another key is one of its own.
                self.marks += 1;
                print.key = DuplicateKey(u128::from(u64::MAX) + u128::from(self.marks));
            }
        }
        Command::Network(Box::new(request))
    }
}

/// The identity of a message with a trace.
fn traced(mark: u64) -> Fingerprint {
    Fingerprint {
        key: DuplicateKey(u128::from(mark)),
        // Never a key's number: both stand for hashes, of which no half is the other's.
        trace: Some(TraceKey(u128::from(!mark))),
        content: mark,
        window: DuplicateWindow::Day,
    }
}
