//! Record bytes as they were first written: a build that reads or writes them otherwise has changed
//! the format, which takes a new version byte and a new golden file beside this one.
//!
//! The records come from a short life of one card, executed with fixed times and keys.
//! `UPDATE_GOLDEN=1` writes the file anew. `people`, `increments`, `webhooks` and
//! `pan_key` have files of their own.

mod increments;
mod pan_key;
mod people;
mod webhooks;

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::{AdminCommand, NewAccount, NewCard, NewCompany};
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::network::{
    AuthorizationKind, Authorize, CardRef, MessageAmounts, NetworkCommand, NetworkRequest,
    OriginalRef, PartialApproval, Present, PresentmentNumber, PurchaseFacts, ReversalAmount,
    ReversalKind, Reverse,
};
use cardswitch_engine::command::record::{RecordView, append_record, record_views, records};
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::decision::{Change, Rule, explain};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::card::{CardState, MaskedPan, PanHash, SealedPan};
use cardswitch_engine::domain::company::{Address, VelocityLimits};
use cardswitch_engine::domain::credential::{
    ExpiryMonth, PackedZip, PinVerifier, PresentedCredentials, Shown,
};
use cardswitch_engine::domain::ids::{AccountId, AllowanceId, CardId, CompanyId, Timestamp};
use cardswitch_engine::domain::merchant::{Mcc, Merchant};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, NetworkTrace, OriginalKey, RetrievalKey, TraceKey,
};
use cardswitch_engine::domain::public_id::IdMint;
use cardswitch_engine::shard::{Moment, ShardState, execute};
use uuid::Uuid;

/// Records in the general form, by a company that limits velocity: as they are written, and as they
/// were before decisions kept their facts.
const OUTCOMES: Golden = Golden { path: "tests/golden/records_3.hex", ..OUTCOMES_WITHOUT_FACTS };
const OUTCOMES_WITHOUT_FACTS: Golden = Golden {
    path: "tests/golden/records_1.hex",
    velocity: VelocityLimits { per_minute: 10, per_hour: 100 },
};
/// Authorizations in the form of their own, by a company that limits nothing: likewise.
const AUTHORIZATIONS: Golden =
    Golden { path: "tests/golden/records_4.hex", ..AUTHORIZATIONS_WITHOUT_FACTS };
const AUTHORIZATIONS_WITHOUT_FACTS: Golden = Golden {
    path: "tests/golden/records_2.hex",
    velocity: VelocityLimits { per_minute: 0, per_hour: 0 },
};
const EVERY: [Golden; 4] =
    [OUTCOMES, AUTHORIZATIONS, OUTCOMES_WITHOUT_FACTS, AUTHORIZATIONS_WITHOUT_FACTS];
const ZONE: chrono_tz::Tz = chrono_tz::America::Los_Angeles;
const START: Timestamp = Timestamp(1_767_600_000_000_000);
const PAN_HASH: PanHash = PanHash(0x1122_3344_5566_7788);

/// A file of records, and whose they are.
struct Golden {
    path: &'static str,
    velocity: VelocityLimits,
}

impl Golden {
    fn path(&self) -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(self.path)
    }

    #[expect(clippy::unwrap_used, reason = "a test without its golden file has failed")]
    fn read(&self) -> Vec<u8> {
        from_hex(&std::fs::read_to_string(self.path()).unwrap())
    }

    /// Compares what this build writes with what the first one did, or keeps it as that.
    #[track_caller]
    fn expect(&self, written: &[u8]) {
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(self.path(), to_hex(written)).expect("a file that can be written");
        }
        let is_same = written == self.read();
        assert!(is_same, "the record format changed; see the head of this file: {}", self.path);
    }
}

#[test]
fn records_keep_their_bytes() {
    for golden in [OUTCOMES, AUTHORIZATIONS] {
        golden.expect(&life_of_a_card(golden.velocity));
    }
}

#[test]
fn golden_records_are_written_again_as_they_were() {
    for golden in EVERY {
        let (bytes, mut again) = (golden.read(), Vec::new());
        for record in records(&bytes).map(Result::unwrap) {
            append_record(&mut again, record.seq, record.at, &record.effects).unwrap();
        }
        assert!(again == bytes, "{}", golden.path);
    }
}

#[test]
fn only_decisions_of_this_format_have_facts() {
    let with_facts = |golden: Golden| {
        let bytes = golden.read();
        let effects = records(&bytes).flat_map(|record| record.unwrap().effects);
        let facts = effects.filter_map(|effect| match effect {
            Effect::Transaction(record, _) => record.facts,
            _ => None,
        });
        facts.collect::<Vec<_>>()
    };
    for golden in [OUTCOMES_WITHOUT_FACTS, AUTHORIZATIONS_WITHOUT_FACTS] {
        assert_eq!(with_facts(golden), []);
    }
    for (golden, limits) in [(OUTCOMES, true), (AUTHORIZATIONS, false)] {
        let facts = with_facts(golden);
        // An approval of 75.00, then a decline.
        let spent: Vec<_> = facts.iter().map(|facts| facts.usage.spent).collect();
        assert_eq!(spent, [Minor(0), Minor(7_500)]);
        assert!(facts.iter().all(|facts| facts.velocity.is_some() == limits));
    }
}

#[test]
fn a_decline_is_explained_as_far_as_its_facts_were_kept() {
    for (golden, knows) in EVERY.into_iter().zip([true, true, false, false]) {
        let bytes = golden.read();
        let effects = records(&bytes).flat_map(|record| record.unwrap().effects);
        let mut declines = effects.filter_map(|effect| match effect {
            Effect::Transaction(record, progress) if !record.response_code.is_approved() => {
                Some((record, progress))
            }
            _ => None,
        });
        let (record, progress) = declines.next().unwrap();
        let explanation = explain(&record, &progress, ZONE);
        let failed: Vec<_> = explanation.rules.iter().filter(|found| !found.passed).collect();
        assert_eq!((explanation.rules.len(), failed.len()), (Rule::ALL.len(), 1));
        assert_eq!(failed[0].rule, Rule::ExpirationDiffers);
        assert!(explanation.rules.iter().all(|found| found.compared.is_some() == knows));
        let changes: Vec<_> = explanation.remedies.iter().map(|remedy| remedy.change).collect();
        assert_eq!(changes, [Change::Otherwise][..usize::from(knows)], "{}", golden.path);
    }
}

#[test]
fn golden_records_still_fold() {
    for golden in EVERY {
        let mut state = ShardState::default();
        for record in records(&golden.read()) {
            let record = record.unwrap();
            state.apply_record(record.seq, record.at, &record.effects);
        }
        assert_eq!((state.last_seq().0, state.card_count()), (6, 1), "{}", golden.path);
    }
}

#[test]
fn each_file_holds_its_form_of_an_authorization() {
    let packed = |golden: Golden| {
        let bytes = golden.read();
        let views = record_views(&bytes).map(Result::unwrap);
        views.filter(|view| matches!(view, RecordView::Authorization(_))).count()
    };
    // The declined one counts wrong credentials besides, so it stays an outcome.
    assert_eq!(EVERY.map(packed), [0, 1, 0, 1]);
}

/// A company, a card, an approval, a decline, a partial reversal, a presentment: as records.
fn life_of_a_card(velocity: VelocityLimits) -> Vec<u8> {
    let commands = [
        admin(AdminCommand::CreateCompany(company(velocity))),
        admin(AdminCommand::IssueCard(card())),
        authorize(1, Minor(7_500), PresentedCredentials::default()),
        authorize(
            2,
            Minor(7_500),
            PresentedCredentials {
                expiry: Some(Shown::new(ExpiryMonth(2601))),
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
    ];
    records_of(&commands)
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
            card_acceptor_id: "4711".into(),
            name: "Blue Door Cafe".into(),
            city: "Oakland".into(),
            state: "CA".into(),
            country: "US".into(),
            zip: Default::default(),
        },
        trace: NetworkTrace {
            stan: format!("{number:06}").into(),
            rrn: format!("{number:012}").into(),
            acquirer: "123456".into(),
            terminal: "TERM0001".into(),
            transmission_time: "0105080000".into(),
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
        name: "Golden Ltd".to_owned(),
        website: "https://golden.example".to_owned(),
        zone: ZONE,
        currency: CurrencyCode(840),
        network: "visa".to_owned(),
        velocity,
        partial_approval: false,
        billing_address: Address::default(),
        shipping_address: Address::default(),
        account: NewAccount {
            id: AccountId(Uuid::from_u128(2)),
            name: "Spending".to_owned(),
            number: "000000000001".to_owned(),
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
        company: CompanyId(Uuid::from_u128(1)),
        pan_hash: PAN_HASH,
        sealed_pan: SealedPan(vec![9; 44]),
        last_four: *b"0001",
        pin: PinVerifier(5),
        zip: PackedZip::pack("94105"),
        expires_on: BusinessDate(22_000),
        terms: AllowanceTerms::budget(Minor(20_000)),
        state: CardState::Active,
        is_virtual: true,
        description: "Lunch".to_owned(),
        billing_name: "Lunch".to_owned(),
        billing_address: None,
        shipping_address: None,
        assigned_to: None,
        dimensions: [None; 4],
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
