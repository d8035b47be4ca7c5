//! The companies of the imagined card program, and who did what.

use uuid::Uuid;

use super::{COMPANIES, World, id};
use crate::command::NewTransaction;
use crate::command::effect::Effect;
use crate::domain::account::{Account, AccountBalances};
use crate::domain::audit::{Actor, AuditEvent, AuditGroup, AuditValue, ValueChange};
use crate::domain::card::CardState;
use crate::domain::company::{Address, Company, CompanyState, VelocityLimits};
use crate::domain::hold_table::HoldTable;
use crate::domain::ids::*;
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::pan_key::{PanGeneration, PanGenerations};
use crate::domain::posting::{Book, Posting};
use crate::domain::transaction::*;

impl World {
    pub(super) fn make_company(&mut self, slot: CompanySlot) {
        let account = AccountSlot(slot.0);
        let balances = AccountBalances { ledger: Minor(100), line_count: 1, ..Default::default() };
        self.balances.push(balances);
        let mut progress = TransactionProgress::empty(TransactionState::Completed);
        progress.posted = Minor(-100);
        let record = self.new_record(slot, TransactionKind::BankTransfer, None, Minor(100));
        let (transaction, amount) = (record.seq, Minor(100));
        let line = self.line(account, 1, amount, &record);
        self.transactions.push((record.clone(), progress.clone()));
        self.record(vec![
            Effect::Company(Box::new(company(slot, "first name", self.at))),
            Effect::Account(Box::new(Account {
                slot: account,
                id: AccountId(id(2, slot.0)),
                company: slot,
                name: "main".into(),
                number: "000000000001".into(),
                currency: CurrencyCode(840),
                credit_limit: Minor::ZERO,
                funding_source: None,
                created_at: self.at,
            })),
            Effect::Transaction(Box::new(NewTransaction {
                balances: Some(balances),
                ..NewTransaction::of(record, progress)
            })),
            Effect::Posting(Posting {
                account,
                transaction,
                from: Book::Bank,
                to: Book::Funds,
                amount,
            }),
            line,
        ]);
    }

    pub(super) fn change_organization(&mut self) {
        let slot = CompanySlot(u32::try_from(self.below(u64::from(COMPANIES))).unwrap());
        let digest = [u8::try_from(self.below(200)).unwrap(); 32];
        let name = format!("name {}", self.below(9));
        self.record(vec![
            Effect::Company(Box::new(company(slot, &name, self.at))),
            Effect::NetworkKey(digest),
            Effect::PanGenerations(PanGenerations {
                oldest: PanGeneration(u32::from(digest[0]) / 2),
                newest: PanGeneration(u32::from(digest[0])),
            }),
        ]);
    }

    pub(super) fn note_event(&mut self) {
        let user = UserId(id(10, u32::try_from(self.below(3)).unwrap()));
        let token = AccessTokenId(id(6, u32::try_from(self.below(3)).unwrap()));
        let member = MemberId(id(3, u32::try_from(self.below(3)).unwrap()));
        let actor = match self.below(5) {
            0 => Actor::Operator,
            1 => Actor::Token { id: token, member: Some(member) },
            2 => Actor::User { id: user, member: None },
            3 => Actor::App { id: AppId(id(12, 0)) },
            _ => Actor::Switch,
        };
        let number = self.below(3);
        let company = (number > 0).then(|| self.company_slot());
        let object = (self.below(3) > 0).then(|| Uuid::from_u128(u128::from(number)));
        let event = AuditEvent {
            company,
            at: self.at,
            actor,
            address: (number == 1).then(|| "192.0.2.7".to_owned()),
            action: ["card.updated", "member.created", "card.terminated"]
                [usize::try_from(self.below(3)).unwrap()]
            .to_owned(),
            object_kind: "card".to_owned(),
            object,
            fields: vec!["state".to_owned()],
            values: vec![ValueChange {
                field: "state".to_owned(),
                old: AuditValue::None,
                new: AuditValue::CardState(CardState::Active),
            }],
        };
        let group = AuditGroup {
            event: AuditEvent { object: None, ..event.clone() },
            objects: (0..u128::from(number)).map(u128::to_be_bytes).collect(),
        };
        self.record(vec![Effect::Audit(Box::new(event)), Effect::AuditGroup(Box::new(group))]);
    }
}

fn company(slot: CompanySlot, name: &str, created_at: Timestamp) -> Company {
    Company {
        slot,
        id: CompanyId(id(1, slot.0)),
        name: name.to_owned(),
        website: String::new(),
        zone: chrono_tz::UTC,
        currency: CurrencyCode(840),
        network: "network".into(),
        velocity: VelocityLimits::default(),
        partial_approval: false,
        hold_table: HoldTable::default(),
        billing_address: Address::default(),
        shipping_address: Address::default(),
        state: CompanyState::Active,
        created_at,
    }
}
