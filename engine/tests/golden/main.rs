//! Record bytes: a build that reads or writes them otherwise has changed the layout of a directory.
//!
//! Until the first released version that is allowed: `UPDATE_GOLDEN=1` writes the files anew, and
//! `layouts.rs` gets another fingerprint. Each file holds the outcomes of a short life of one card, user
//! or endpoint, executed with fixed times and keys.

mod increments;
mod pan_key;
mod people;
mod webhooks;

use std::path::{Path, PathBuf};

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::network::{
    AuthorizationKind, Authorize, CardRef, MessageAmounts, NetworkCommand, NetworkRequest,
    OriginalRef, PartialApproval, Present, PresentmentNumber, PurchaseFacts, ReversalAmount,
    ReversalKind, Reverse,
};
use cardswitch_engine::command::record::{Record, append_record, records};
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::decision::{Change, Rule, explain};
use cardswitch_engine::directory::card::{CardCommand, CardOrder, NewCard};
use cardswitch_engine::directory::company::{CompanyCommand, NewAccount, NewCompany};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::card::{CardState, MaskedPan, PanHash, SealedPan};
use cardswitch_engine::domain::company::{Address, CompanyState, VelocityLimits};
use cardswitch_engine::domain::credential::{
    ExpiryMonth, PinVerifier, PresentedCredentials, PresentedValue,
};
use cardswitch_engine::domain::hold_table::HoldTable;
use cardswitch_engine::domain::ids::{AccountId, AllowanceId, CardId, CompanyId, Timestamp};
use cardswitch_engine::domain::merchant::{Mcc, Merchant};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, NetworkTrace, OriginalKey, RetrievalKey, TraceKey,
};
use cardswitch_engine::domain::public_id::IdMint;
use cardswitch_engine::shard::{Moment, ShardState, execute};
use uuid::Uuid;

const ZONE: chrono_tz::Tz = chrono_tz::America::Los_Angeles;
const START: Timestamp = Timestamp(1_767_600_000_000_000);
const PAN_HASH: PanHash = PanHash(0x1122_3344_5566_7788);

/// No limit on attempts.
const UNLIMITED: VelocityLimits = VelocityLimits { per_minute: 0, per_hour: 0 };
/// A limit, so that decisions count attempts.
const LIMITED: VelocityLimits = VelocityLimits { per_minute: 10, per_hour: 100 };

/// The commands whose outcomes a file holds.
type Life = fn() -> Vec<Command>;

/// Every file of records: its name and its life.
const LIVES: [(&str, Life); 6] = [
    ("card", || life_of_a_card(UNLIMITED)),
    ("card_with_velocity", || life_of_a_card(LIMITED)),
    ("increments", increments::life_of_a_stay),
    ("pan_key", pan_key::life_of_a_key),
    ("people", people::life_of_a_user),
    ("webhooks", webhooks::life_of_an_endpoint),
];

fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.hex"))
}

#[expect(clippy::unwrap_used, reason = "a test without its golden file has failed")]
fn read(name: &str) -> Vec<u8> {
    from_hex(&std::fs::read_to_string(path_of(name)).unwrap())
}

/// The effects of a file's records.
fn effects_of(name: &str) -> impl Iterator<Item = Effect> {
    let records: Vec<Record> = records(&read(name)).map(Result::unwrap).collect();
    records.into_iter().flat_map(|record| record.effects)
}

#[test]
fn records_keep_their_bytes() {
    for (name, life) in LIVES {
        let written = records_of(&life());
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path_of(name), to_hex(&written)).expect("a file that can be written");
        }
        assert!(written == read(name), "the layout changed, see the head of this file: {name}");
    }
}

#[test]
fn records_are_read_folded_and_written_again() {
    for (name, life) in LIVES {
        let (bytes, mut again) = (read(name), Vec::new());
        let mut state = ShardState::default();
        for record in records(&bytes).map(Result::unwrap) {
            append_record(&mut again, record.seq, record.at, &record.effects).unwrap();
            state.apply_record(record.seq, record.at, &record.effects);
        }
        assert!(again == bytes, "{name}");
        assert_eq!(state.last_seq().0, life().len() as u64, "{name}");
    }
}

#[test]
fn decisions_keep_their_facts() {
    for (name, is_limited) in [("card", false), ("card_with_velocity", true)] {
        let facts: Vec<_> = effects_of(name)
            .filter_map(|effect| match effect {
                Effect::Transaction(made) => made.record.facts,
                _ => None,
            })
            .collect();
        // An approval of 75.00, then a decline.
        let spent: Vec<_> = facts.iter().map(|facts| facts.usage.spent).collect();
        assert_eq!(spent, [Minor(0), Minor(7_500)]);
        assert!(facts.iter().all(|facts| facts.velocity.is_some() == is_limited));
    }
}

#[test]
fn a_decline_is_explained_by_its_facts() {
    for name in ["card", "card_with_velocity"] {
        let decline = effects_of(name).find_map(|effect| match effect {
            Effect::Transaction(made) if !made.record.response_code.is_approved() => Some(made),
            _ => None,
        });
        let made = decline.unwrap();
        let explanation = explain(&made.record, &made.progress, ZONE);
        let failed: Vec<_> = explanation.rules.iter().filter(|found| !found.passed).collect();
        assert_eq!((explanation.rules.len(), failed.len()), (Rule::ALL.len(), 1));
        assert_eq!(failed[0].rule, Rule::ExpirationDiffers);
        assert!(explanation.rules.iter().all(|found| found.compared.is_some()));
        let changes: Vec<_> = explanation.remedies.iter().map(|remedy| remedy.change).collect();
        assert_eq!(changes, [Change::Otherwise], "{name}");
    }
}

#[test]
fn an_authorization_is_one_effect_where_it_changes_nothing_besides() {
    let alone = |name| {
        let records: Vec<Record> = records(&read(name)).map(Result::unwrap).collect();
        let is_alone = |record: &&Record| matches!(record.effects[..], [Effect::Transaction(_)]);
        records.iter().filter(is_alone).count()
    };
    // The declined one counts wrong credentials besides, and velocity counts every attempt.
    assert_eq!(["card", "card_with_velocity"].map(alone), [1, 0]);
}

/// A company, a card, an approval, a decline, a partial reversal, a presentment.
fn life_of_a_card(velocity: VelocityLimits) -> Vec<Command> {
    vec![
        admin(AdminCommand::Company(CompanyCommand::Create(company(velocity)))),
        admin(AdminCommand::Card(CardCommand::Issue(card()))),
        authorize(1, Minor(7_500), PresentedCredentials::default()),
        authorize(
            2,
            Minor(7_500),
            PresentedCredentials {
                expiry: Some(PresentedValue::new(ExpiryMonth(2601))),
                ..Default::default()
            },
        ),
        network(
            3,
            NetworkCommand::Reverse(Reverse {
                card: Some(card_ref()),
                original: OriginalRef {
                    retrieval_key: Some(RetrievalKey(101)),
                    ..Default::default()
                },
                amount: ReversalAmount::Remaining(Minor(5_000)),
                kind: ReversalKind::Request,
            }),
        ),
        network(
            4,
            NetworkCommand::Present(Present {
                facts: Some(facts(1, Minor(5_000))),
                amounts: Some(amounts(Minor(5_000))),
                original: OriginalRef {
                    original_key: Some(OriginalKey(201)),
                    ..Default::default()
                },
                number: PresentmentNumber::ONLY,
            }),
        ),
    ]
}

/// The records of commands, each a minute after the one before.
fn records_of(commands: &[Command]) -> Vec<u8> {
    let ids = IdMint::new(*b"golden id key 16", 0);
    let (mut state, mut payload) = (ShardState::default(), Vec::new());
    for (place, command) in (0..).zip(commands) {
        let at = START.plus(place * Timestamp::MINUTE);
        let mut effects = Vec::new();
        let reply = execute(&state, &Moment { at, ids: &ids }, command, &mut effects);
        assert!(!matches!(reply, Reply::Rejected(_)), "{command:?}: {reply:?}");
        let seq = state.last_seq().next();
        append_record(&mut payload, seq, at, &effects).expect("a record within its bound");
        state.apply_record(seq, at, &effects);
    }
    payload
}

fn admin(command: AdminCommand) -> Command {
    Command::Admin(Box::new(command))
}

fn network(number: u128, command: NetworkCommand) -> Command {
    let fingerprint = Some(Fingerprint {
        key: DuplicateKey(number),
        trace: Some(TraceKey(number)),
        content: 7,
        window: DuplicateWindow::Day,
    });
    Command::Network(Box::new(NetworkRequest { command, fingerprint }))
}

fn authorize(number: u64, amount: Minor, credentials: PresentedCredentials) -> Command {
    let kind = AuthorizationKind::Purchase;
    let command = Authorize {
        facts: facts(number, amount),
        kind,
        credentials,
        partial: PartialApproval::default(),
    };
    network(u128::from(number), NetworkCommand::Authorize(command))
}

fn facts(number: u64, amount: Minor) -> PurchaseFacts {
    PurchaseFacts {
        card: card_ref(),
        amounts: amounts(amount),
        merchant: Merchant {
            mid: 4_711,
            mcc: Some(Mcc(5812)),
            card_acceptor_id: "4711".parse().expect("a plain text"),
            name: "Blue Door Cafe".parse().expect("a plain text"),
            city: "Oakland".parse().expect("a plain text"),
            state: "CA".parse().expect("a plain text"),
            country: "US".parse().expect("a plain text"),
            zip: Default::default(),
        },
        trace: NetworkTrace {
            stan: format!("{number:06}").parse().expect("a plain text"),
            rrn: format!("{number:012}").parse().expect("a plain text"),
            acquirer: "123456".parse().expect("a plain text"),
            terminal: "TERM0001".parse().expect("a plain text"),
            transmission_time: "0105080000".parse().expect("a plain text"),
            original_key: Some(OriginalKey(200 + number)),
            retrieval_key: Some(RetrievalKey(100 + number)),
        },
    }
}

fn amounts(amount: Minor) -> MessageAmounts {
    MessageAmounts { amount, currency: Some(CurrencyCode(840)), billing: None }
}

fn card_ref() -> CardRef {
    let masked = MaskedPan { first_six: *b"453711", last_four: *b"0001" };
    CardRef::Pan(PAN_HASH, masked)
}

fn company(velocity: VelocityLimits) -> NewCompany {
    NewCompany {
        id: CompanyId(Uuid::from_u128(1)),
        name: "Golden Ltd".parse().expect("a plain text"),
        website: "https://golden.example".parse().expect("a plain text"),
        zone: ZONE,
        currency: CurrencyCode(840),
        network: "visa".parse().expect("a plain text"),
        velocity,
        partial_approval: false,
        hold_table: HoldTable::default(),
        billing_address: Address {
            zip_code: "94105".parse().expect("a plain text"),
            ..Address::default()
        },
        shipping_address: Address::default(),
        state: CompanyState::Active,
        account: NewAccount {
            id: AccountId(Uuid::from_u128(2)),
            name: "Spending".parse().expect("a plain text"),
            number: "000000000001".parse().expect("a plain text"),
            credit_limit: Minor::ZERO,
            funding_source: None,
            opening_balance: Minor(100_000),
        },
    }
}

fn card() -> NewCard {
    NewCard {
        id: CardId(Uuid::from_u128(3)),
        allowance_id: AllowanceId(Uuid::from_u128(4)),
        pan_hash: PAN_HASH,
        sealed_pan: SealedPan(vec![9; 44]),
        last_four: *b"0001",
        pin: PinVerifier(5),
        expires_on: BusinessDate(22_000),
        state: CardState::Active,
        order: CardOrder::plain(
            CompanyId(Uuid::from_u128(1)),
            AllowanceTerms::budget(Minor(20_000)),
            ["Lunch", "Lunch"].map(|text| text.parse().expect("a plain text")),
        ),
    }
}

fn to_hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(48).map(|chunk| line(chunk) + "\n").collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|symbol| !symbol.is_whitespace()).collect();
    let byte = |pair: &[char]| {
        u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hex digits")
    };
    digits.chunks(2).map(byte).collect()
}
