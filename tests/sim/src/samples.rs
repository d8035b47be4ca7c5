//! Companies, cards, messages and ids as tests make them where they say nothing else: from the same
//! number the same ones.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::{
    CardRef, MessageAmounts, NetworkCommand, NetworkRequest, PurchaseFacts,
};
use cardswitch_engine::directory::card::{CardOrder, NewCard};
use cardswitch_engine::directory::company::{NewAccount, NewCompany};
use cardswitch_engine::directory::pan_key::ResealedCard;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::card::{CardState, MaskedPan, PanHash, SealedPan};
use cardswitch_engine::domain::company::{Address, CompanyState, VelocityLimits};
use cardswitch_engine::domain::credential::PinVerifier;
use cardswitch_engine::domain::hold_table::HoldTable;
use cardswitch_engine::domain::ids::{
    AccessTokenId, AccountId, AllowanceId, AppId, CardId, CompanyId, MemberId, TicketId, UserId,
};
use cardswitch_engine::domain::merchant::{Mcc, Merchant};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{NetworkTrace, OriginalKey, RetrievalKey};
use chrono_tz::Tz;
use uuid::Uuid;

/// 2026-02-20T10:00:00Z, a Friday two weeks before clocks change in the United States.
pub const START: i64 = 1_771_581_600_000_000;
pub const DOLLAR: CurrencyCode = CurrencyCode(840);

pub fn company_id(number: u64) -> CompanyId {
    CompanyId(Uuid::from_u64_pair(1, number))
}

pub fn member_id(number: u64) -> MemberId {
    MemberId(Uuid::from_u64_pair(2, number))
}

pub fn account_id(company: u64) -> AccountId {
    AccountId(Uuid::from_u64_pair(3, company))
}

pub fn user_id(number: u64) -> UserId {
    UserId(Uuid::from_u64_pair(10, number))
}

pub fn ticket_id(number: u64) -> TicketId {
    TicketId(Uuid::from_u64_pair(11, number))
}

pub fn app_id(number: u64) -> AppId {
    AppId(Uuid::from_u64_pair(12, number))
}

pub fn token_id(number: u64) -> AccessTokenId {
    AccessTokenId(Uuid::from_u64_pair(13, number))
}

/// The hash that stands for a secret.
pub fn digest(kind: u8, number: u64) -> [u8; 32] {
    let mut digest = [kind; 32];
    digest[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    digest
}

pub fn admin(command: AdminCommand) -> Command {
    Command::Admin(Box::new(command))
}

pub fn network(command: NetworkCommand) -> Command {
    Command::Network(Box::new(NetworkRequest { command, fingerprint: None }))
}

pub fn new_company(number: u64, zone: Tz, opening: i64, credit: i64) -> NewCompany {
    NewCompany {
        id: company_id(number),
        name: format!("Company {number}").parse().unwrap(),
        website: Default::default(),
        zone,
        currency: DOLLAR,
        network: "visa".parse().unwrap(),
        velocity: VelocityLimits::default(),
        partial_approval: false,
        hold_table: HoldTable::default(),
        billing_address: Address { zip_code: "94105".parse().unwrap(), ..Address::default() },
        shipping_address: Address::default(),
        state: CompanyState::Active,
        account: NewAccount {
            id: account_id(number),
            name: "Checking".parse().unwrap(),
            number: format!("{number:012}").parse().unwrap(),
            credit_limit: Minor(credit),
            funding_source: None,
            opening_balance: Minor(opening),
        },
    }
}

pub fn new_card(number: u64, company: u64, terms: AllowanceTerms) -> NewCard {
    NewCard {
        id: CardId(Uuid::from_u64_pair(4, number)),
        allowance_id: AllowanceId(Uuid::from_u64_pair(5, number)),
        pan_hash: PanHash(1_000 + number),
        sealed_pan: SealedPan(vec![7; 40]),
        last_four: *b"4242",
        pin: PinVerifier(100 + number),
        expires_on: BusinessDate::from_naive("2029-06-30".parse().unwrap()),
        state: CardState::Active,
        order: CardOrder::plain(
            company_id(company),
            terms,
            [format!("Card {number}").parse().unwrap(), "A. Holder".parse().unwrap()],
        ),
    }
}

/// A number sealed anew, as far as the shard looks at it.
pub fn resealed(card: CardId, generation: u32) -> ResealedCard {
    ResealedCard { card, sealed_pan: sealed_under(generation) }
}

/// A sealed number of the form that names its generation.
pub fn sealed_under(generation: u32) -> SealedPan {
    let mut sealed = vec![SealedPan::FORM_WITH_GENERATION];
    sealed.extend_from_slice(&generation.to_le_bytes());
    sealed.resize(49, 7);
    SealedPan(sealed)
}

pub fn pan(number: u64) -> CardRef {
    CardRef::Pan(PanHash(1_000 + number), MaskedPan::default())
}

/// The key of a message with this mark, whose last digits are its STAN.
pub fn original_key(mark: u64) -> OriginalKey {
    OriginalKey::new((mark % 1_000_000) as u32, mark, false, false)
}

/// The same key as of a sender who leaves out the time.
pub fn without_time(key: OriginalKey) -> OriginalKey {
    OriginalKey(key.0 | 1 << 63)
}

pub fn facts(card: CardRef, amount: i64, mark: u64) -> PurchaseFacts {
    PurchaseFacts {
        card,
        amounts: MessageAmounts { amount: Minor(amount), currency: None, billing: None },
        merchant: Merchant {
            mcc: Some(Mcc(5812)),
            name: "A Restaurant".parse().unwrap(),
            ..Merchant::default()
        },
        trace: NetworkTrace {
            stan: format!("{:06}", mark % 1_000_000).parse().unwrap(),
            rrn: format!("{mark:012}").parse().unwrap(),
            original_key: Some(original_key(mark)),
            retrieval_key: Some(RetrievalKey(mark)),
            ..NetworkTrace::default()
        },
    }
}
