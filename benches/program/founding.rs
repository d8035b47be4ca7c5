//! The commands that make the program.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::card::{CardCommand, CardOrder, NewCard};
use cardswitch_engine::directory::company::{CompanyCommand, NewAccount, NewCompany};
use cardswitch_engine::domain::card::{CardState, PanHash, SealedPan};
use cardswitch_engine::domain::company::{Address, CompanyState, VelocityLimits};
use cardswitch_engine::domain::credential::PinVerifier;
use cardswitch_engine::domain::hold_table::HoldTable;
use cardswitch_engine::domain::ids::{AccountId, AllowanceId, CardId, CompanyId};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::text::LineText;
use uuid::Uuid;

use super::{EXPIRES_ON, US_DOLLAR, terms_of};

/// How large a program is.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its cards.
    pub cards: u64,
    /// How many of them share a company and its account.
    pub cards_per_company: u64,
}

impl Program {
    /// All cards in one company: its lists are as long as they can be.
    pub const fn of_one_company(cards: u64) -> Self {
        Self { cards, cards_per_company: u64::MAX }
    }

    /// Companies with a thousand cards each.
    pub const fn of_many_companies(cards: u64) -> Self {
        Self { cards, cards_per_company: 1_000 }
    }

    /// How many companies, and accounts, it has.
    pub const fn companies(&self) -> u64 {
        self.cards.div_ceil(self.cards_per_company)
    }
}

/// The commands that make a program: its companies, then its cards under these hashes.
pub fn founding(
    program: Program,
    pan_hash: impl Fn(u64) -> PanHash,
) -> impl Iterator<Item = Command> {
    let companies = (0..program.companies())
        .map(|company| AdminCommand::Company(CompanyCommand::Create(new_company(company))));
    let cards = (0..program.cards).map(move |card| {
        let company = company_id(card / program.cards_per_company);
        AdminCommand::Card(CardCommand::Issue(new_card(card, company, pan_hash(card))))
    });
    companies.chain(cards).map(|command| Command::Admin(Box::new(command)))
}

/// The id of company number `company`.
pub const fn company_id(company: u64) -> CompanyId {
    CompanyId(Uuid::from_u128(3 << 64 | company as u128))
}

/// The id of card number `card`.
pub const fn card_id(card: u64) -> CardId {
    CardId(Uuid::from_u128(1 << 64 | card as u128))
}

/// The id of the allowance of card number `card`.
pub const fn allowance_id(card: u64) -> AllowanceId {
    AllowanceId(Uuid::from_u128(2 << 64 | card as u128))
}

fn new_company(company: u64) -> NewCompany {
    NewCompany {
        id: company_id(company),
        name: LineText::spaced("Bench and Company"),
        website: LineText::default(),
        zone: chrono_tz::America::Los_Angeles,
        currency: US_DOLLAR,
        network: LineText::spaced("Visa"),
        velocity: VelocityLimits::default(),
        partial_approval: false,
        hold_table: HoldTable::default(),
        billing_address: Address { zip_code: LineText::spaced("94105"), ..Address::default() },
        shipping_address: Address::default(),
        state: CompanyState::Active,
        account: NewAccount {
            id: AccountId(Uuid::from_u128(4 << 64 | u128::from(company))),
            name: LineText::spaced("Operating"),
            number: LineText::spaced(&format!("{:012}", company + 1)),
            credit_limit: Minor::ZERO,
            funding_source: None,
            opening_balance: Minor::AMOUNT_MAX,
        },
    }
}

/// An ordinary card; its number is sealed with no key.
pub fn new_card(card: u64, company: CompanyId, pan_hash: PanHash) -> NewCard {
    let texts = ["Travel", "A CARDHOLDER"].map(LineText::spaced);
    NewCard {
        id: card_id(card),
        allowance_id: allowance_id(card),
        pan_hash,
        sealed_pan: SealedPan(vec![0; 56]),
        last_four: *b"1111",
        pin: PinVerifier(0),
        expires_on: EXPIRES_ON,
        state: CardState::Active,
        order: CardOrder::plain(company, terms_of(card), texts),
    }
}
