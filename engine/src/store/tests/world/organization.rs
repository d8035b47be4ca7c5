//! The organization of the imagined card program: companies, members, dimensions, shared links, requisitions.

use super::{COMPANIES, EMAILS, World, id};
use crate::command::NewTransaction;
use crate::command::effect::Effect;
use crate::directory::dimension::Dimension;
use crate::directory::member::{Member, MemberRole, MemberState};
use crate::directory::requisition::{Requisition, RequisitionStatus};
use crate::directory::shared_link::{Recipient, SharedLink};
use crate::domain::account::{Account, AccountBalances};
use crate::domain::card::DimensionKind;
use crate::domain::company::{Address, Company, CompanyState, VelocityLimits};
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

    pub(super) fn make_member(&mut self) {
        let slot = MemberSlot(u32::try_from(self.members.len()).unwrap());
        let email = EMAILS[usize::try_from(self.below(4)).unwrap()].to_owned();
        let company = CompanySlot(u32::try_from(self.below(u64::from(COMPANIES))).unwrap());
        self.free_email(company, &email);
        let member = Member {
            slot,
            id: MemberId(id(3, slot.0)),
            company,
            first_name: format!("first {}", slot.0),
            last_name: "last".into(),
            email,
            role: MemberRole::Member,
            code: None,
            external_id: None,
            state: MemberState::Active,
            dimensions: [None; 4],
            created_at: self.at,
        };
        self.members.push(member.clone());
        self.record(vec![Effect::row(member)]);
    }

    /// Deletes the member with the address: the shard would refuse a second owner.
    pub(super) fn free_email(&mut self, company: CompanySlot, email: &str) {
        let holder = self.members.iter_mut().find(|member| {
            member.company == company
                && member.state != MemberState::Deleted
                && member.email.to_lowercase() == email.to_lowercase()
        });
        if let Some(holder) = holder {
            holder.state = MemberState::Deleted;
            holder.external_id = None;
            let gone = holder.clone();
            self.record(vec![Effect::row(gone)]);
        }
    }

    pub(super) fn change_member(&mut self) {
        let Some(place) = self.pick(self.members.len()) else { return };
        let number = self.below(1_000);
        let member = &mut self.members[place];
        if member.state != MemberState::Deleted {
            member.email = format!("New{number}-{place}@a.test");
        }
        let member = member.clone();
        self.record(vec![Effect::row(member)]);
    }

    pub(super) fn member_of(&mut self, company: CompanySlot) -> Option<MemberSlot> {
        let place = self.pick(self.members.len())?;
        Some(&self.members[place]).filter(|member| member.company == company).map(|m| m.slot)
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

    /// Makes a dimension, or changes one: those that `dimension` names, one after the other.
    pub(super) fn change_dimension(&mut self) {
        let is_new = self.dimensions == 0 || self.below(2) == 0;
        let place =
            if is_new { u64::from(self.dimensions) } else { self.below(self.dimensions.into()) };
        let slot = u32::try_from(place).unwrap();
        self.dimensions = self.dimensions.max(slot + 1);
        let row = Dimension {
            slot: DimensionSlot(slot),
            id: DimensionId(id(7, slot)),
            company: CompanySlot(slot % COMPANIES),
            kind: DimensionKind::ALL[slot as usize / 2 % 4],
            name: format!("dimension {}", self.below(9)),
            code: (self.below(2) == 0).then(|| format!("{}", 1_000 * slot)),
            parent: None,
            is_deleted: self.below(5) == 0,
            created_at: Timestamp(i64::from(slot)),
        };
        self.record(vec![Effect::row(row)]);
    }

    pub(super) fn change_link(&mut self) {
        let number = self.below(4);
        let Some(card) = self.pick(self.cards.len()) else { return };
        let known = self.pick(self.links.len()).filter(|_| number > 0);
        let place = known.unwrap_or(self.links.len());
        if known.is_none() {
            let slot = u32::try_from(place).unwrap();
            let card = &self.cards[card].0;
            self.links.push(SharedLink {
                slot: SharedLinkSlot(slot),
                id: SharedLinkId(id(8, slot)),
                company: card.company,
                card: card.slot,
                key_digest: [u8::try_from(slot % 251).unwrap(); 16],
                sealed_key: vec![1; 60],
                recipient: None,
                sealed_passphrase: None,
                hide_balance: false,
                last_viewed_at: None,
                is_deleted: false,
                created_at: self.at,
            });
        }
        let at = self.at;
        let link = &mut self.links[place];
        link.is_deleted |= number == 1;
        link.last_viewed_at = (number == 2).then_some(at);
        link.recipient = (number == 3)
            .then(|| Recipient { name: "Ann".parse().unwrap(), email: EMAILS[0].to_owned() });
        let link = link.clone();
        self.record(vec![Effect::row(link)]);
    }

    pub(super) fn change_requisition(&mut self) {
        let number = self.below(4);
        let (amount, dimensions) = (self.amount(), self.dimensions(CompanySlot(0)));
        let known = self.pick(self.requisitions.len()).filter(|_| number > 0);
        let place = known.unwrap_or(self.requisitions.len());
        if known.is_none() {
            let Some(member) = self.pick(self.members.len()) else { return };
            let slot = u32::try_from(place).unwrap();
            self.requisitions.push(Requisition {
                slot: RequisitionSlot(slot),
                id: RequisitionId(id(9, slot)),
                company: self.members[member].company,
                amount,
                status: RequisitionStatus::Pending,
                approved_at: None,
                card: None,
                dimensions,
                description: "a chair".to_owned(),
                end_time: None,
                member: self.members[member].slot,
                note: None,
                reviewed_by: None,
                created_at: self.at,
            });
        }
        let (at, card) = (self.at, self.pick(self.cards.len()));
        let card = card.map(|card| self.cards[card].0.slot);
        let requisition = &mut self.requisitions[place];
        match number {
            1 => requisition.status = RequisitionStatus::Denied,
            2 => {
                requisition.status = RequisitionStatus::Approved;
                (requisition.card, requisition.approved_at) = (card, Some(at));
            }
            _ => requisition.note = Some(format!("note {}", at.0)),
        }
        let requisition = requisition.clone();
        self.record(vec![Effect::row(requisition)]);
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
        billing_address: Address::default(),
        shipping_address: Address::default(),
        state: CompanyState::Active,
        created_at,
    }
}
