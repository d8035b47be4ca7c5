//! Draws commands: the ordinary ones often, every odd one now and then, amounts at the edges.

use cardswitch_engine::command::admin::{
    AdminCommand, AllowanceChanges, CardChanges, CompanyChanges, MemberChanges, NewAccount,
    NewCard, NewCompany, NewMember, NewRequisition, RequisitionChanges, ResealedCard, Review,
    SettableCardState, Verdict,
};
use cardswitch_engine::command::keyed::{KeyClaim, KeyedCommand};
use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, Authorize, CardRef, ConcludeTransfer, Increment,
    InquireBalance, MessageAmounts, NetworkCommand, NetworkRequest, OriginalRef, PartialApproval,
    Present, PresentmentNumber, PurchaseFacts, Refund, ReversalAmount, ReversalKind, Reverse,
    Transfer, TransferConclusion, TransferTiming,
};
use cardswitch_engine::command::{Command, NotedCommand};
use cardswitch_engine::domain::allowance::{AllowanceTerms, Scope};
use cardswitch_engine::domain::business_date::{BusinessDate, Interval};
use cardswitch_engine::domain::card::{CardState, MaskedPan, PanHash, SealedPan};
use cardswitch_engine::domain::company::{Address, CompanyState, VelocityLimits};
use cardswitch_engine::domain::credential::{
    CvvCheck, ExpiryMonth, PackedZip, PinVerifier, PresentedCredentials,
};
use cardswitch_engine::domain::ids::{
    AccountId, AllowanceId, CardId, CompanyId, MemberId, RequisitionId, Timestamp, TransactionSeq,
};
use cardswitch_engine::domain::keyed_answer::KeyedContent;
use cardswitch_engine::domain::member::MemberRole;
use cardswitch_engine::domain::merchant::{Mcc, Merchant};
use cardswitch_engine::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, NetworkTrace, OriginalKey, RetrievalKey, TraceKey,
};
use cardswitch_engine::domain::pan_key::PanGeneration;
use cardswitch_engine::domain::transaction::{BankAccount, TransactionState, TransferDirection};
use cardswitch_engine::shard::authorization_id_of;
use chrono_tz::Tz;
use uuid::Uuid;

use crate::model::{DAY, HOUR, MINUTE, Model};
use crate::rng::Rng;
use crate::workload_people::{PeopleDrawn, draw_note, email_of};

/// 2026-02-20T10:00:00Z, a Friday two weeks before clocks change in the United States.
pub(crate) const START: i64 = 1_771_581_600_000_000;
const EURO: CurrencyCode = CurrencyCode(978);
const DOLLAR: CurrencyCode = CurrencyCode(840);
/// One zone with daylight saving, one whose clocks skip midnight, one half an hour off.
const ZONES: [Tz; 3] = [Tz::America__Los_Angeles, Tz::America__Santiago, Tz::Asia__Kolkata];
const CARDS_PER_COMPANY: u64 = 8;
const REQUESTS_REMEMBERED: usize = 40;
/// So few idempotency keys that each is used again within its day.
const KEYS: u64 = 8;

pub(crate) fn company_id(number: u64) -> CompanyId {
    CompanyId(Uuid::from_u64_pair(1, number))
}

fn account_id(company: u64) -> AccountId {
    AccountId(Uuid::from_u64_pair(3, company))
}

pub(crate) fn member_id(number: u64) -> MemberId {
    MemberId(Uuid::from_u64_pair(2, number))
}

/// The first members of each company; a company's number is that of its first one.
const MEMBERS_AT_FIRST: u64 = 3;

pub(crate) fn admin(command: AdminCommand) -> Command {
    Command::Admin(Box::new(command))
}

pub(crate) fn network(command: NetworkCommand) -> Command {
    Command::Network(Box::new(NetworkRequest { command, fingerprint: None }))
}

pub(crate) fn new_company(number: u64, zone: Tz, opening: i64, credit: i64) -> NewCompany {
    NewCompany {
        id: company_id(number),
        name: format!("Company {number}"),
        website: String::new(),
        zone,
        currency: DOLLAR,
        network: "visa".to_owned(),
        velocity: VelocityLimits::default(),
        partial_approval: false,
        billing_address: Address { zip_code: "94105".to_owned(), ..Address::default() },
        shipping_address: Address::default(),
        account: NewAccount {
            id: account_id(number),
            name: "Checking".to_owned(),
            number: format!("{number:012}"),
            credit_limit: Minor(credit),
            funding_source: None,
            opening_balance: Minor(opening),
        },
    }
}

pub(crate) fn pan(number: u64) -> CardRef {
    CardRef::Pan(PanHash(1_000 + number), MaskedPan::default())
}

pub(crate) fn new_card(number: u64, company: u64, terms: AllowanceTerms) -> NewCard {
    NewCard {
        id: CardId(Uuid::from_u64_pair(4, number)),
        allowance_id: AllowanceId(Uuid::from_u64_pair(5, number)),
        company: company_id(company),
        pan_hash: PanHash(1_000 + number),
        sealed_pan: SealedPan(vec![7; 40]),
        last_four: *b"4242",
        pin: PinVerifier(100 + number),
        zip: PackedZip::pack("94105"),
        expires_on: BusinessDate::from_naive("2029-06-30".parse().unwrap()),
        terms,
        state: CardState::Active,
        is_virtual: true,
        description: format!("Card {number}"),
        billing_name: "A. Holder".to_owned(),
        billing_address: None,
        shipping_address: None,
        assigned_to: None,
        dimensions: [None; 4],
    }
}

/// A number sealed anew, as far as the shard looks at it.
pub(crate) fn resealed(card: CardId, generation: u32) -> ResealedCard {
    ResealedCard { card, sealed_pan: sealed_under(generation) }
}

/// A sealed number of the form that names its generation.
pub(crate) fn sealed_under(generation: u32) -> SealedPan {
    let mut sealed = vec![SealedPan::FORM_WITH_GENERATION];
    sealed.extend_from_slice(&generation.to_le_bytes());
    sealed.resize(49, 7);
    SealedPan(sealed)
}

pub(crate) fn facts(card: CardRef, amount: i64, mark: u64) -> PurchaseFacts {
    PurchaseFacts {
        card,
        amounts: MessageAmounts { amount: Minor(amount), currency: None, billing: None },
        merchant: Merchant {
            mcc: Some(Mcc(5812)),
            name: "A Restaurant".into(),
            ..Merchant::default()
        },
        trace: NetworkTrace {
            stan: format!("{:06}", mark % 1_000_000).into(),
            rrn: format!("{mark:012}").into(),
            original_key: Some(OriginalKey(mark)),
            retrieval_key: Some(RetrievalKey(mark)),
            ..NetworkTrace::default()
        },
    }
}

/// The source of commands.
pub(crate) struct Workload {
    pub(crate) rng: Rng,
    pub(crate) at: i64,
    marks: u64,
    cards: u64,
    members: u64,
    requisitions: u64,
    people: PeopleDrawn,
    /// How much people do yet, one thing soon after the other: what they are given ends soon.
    people_left: u64,
    /// The mark of the last reversal whose purchase had not come.
    early_mark: u64,
    /// A card that is tried again and again in a short time, and how often still.
    burst: Option<(CardRef, u64)>,
    requests: Vec<NetworkRequest>,
}

impl Workload {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            at: START,
            marks: 0,
            cards: 0,
            members: 0,
            requisitions: 0,
            people: PeopleDrawn::default(),
            people_left: 0,
            early_mark: EARLY,
            burst: None,
            requests: Vec::new(),
        }
    }

    /// Three companies (rich, with velocity limits, almost empty) with a few cards each.
    pub(crate) fn opening(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        let money = [(900_000_000, 0), (50_000_000, 1_000_000), (20_000, 5_000)];
        for (number, (zone, (opening, credit))) in (0..).zip(ZONES.into_iter().zip(money)) {
            let mut company = new_company(number, zone, opening, credit);
            company.partial_approval = number != 1;
            if number == 1 {
                company.velocity = VelocityLimits { per_minute: 4, per_hour: 25 };
            }
            commands.push(admin(AdminCommand::CreateCompany(company)));
            for _ in 0..MEMBERS_AT_FIRST {
                let member = self.draw_member(number);
                commands.push(admin(AdminCommand::CreateMember(member)));
            }
            for _ in 0..CARDS_PER_COMPANY {
                let card = self.draw_card(number);
                commands.push(admin(AdminCommand::IssueCard(card)));
            }
        }
        commands
    }

    /// Moves the clock: mostly a little, now and then over days, weeks and months.
    pub(crate) fn pass_time(&mut self) -> Timestamp {
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

    pub(crate) fn draw(&mut self, model: &Model) -> Command {
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
        let (key, content) = (DuplicateKey(u128::from(self.marks)), self.marks);
        let trace = Some(TraceKey(u128::from(self.marks)));
        match self.rng.below(10) {
            0..5 => None,
            5..8 => Some(Fingerprint { key, trace, content, window: DuplicateWindow::Day }),
            _ => {
                let window = DuplicateWindow::RepeatsOnly { is_repeat: false };
                Some(Fingerprint { key, trace: None, content, window })
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

    fn draw_network(&mut self, model: &Model) -> NetworkCommand {
        match self.rng.below(100) {
            0..40 => NetworkCommand::Authorize(self.draw_authorize(model)),
            40..45 => NetworkCommand::Increment(self.draw_increment(model)),
            45 => NetworkCommand::Transfer(self.draw_transfer(model)),
            46..48 => NetworkCommand::ConcludeTransfer(self.draw_conclusion(model)),
            48..64 => NetworkCommand::Reverse(self.draw_reverse(model)),
            64..82 => NetworkCommand::Present(self.draw_present(model)),
            82..88 => NetworkCommand::Refund(self.draw_refund(model)),
            88..96 => NetworkCommand::Advise(self.draw_advise(model)),
            _ => NetworkCommand::InquireBalance(InquireBalance {
                card: self.draw_card_ref(model),
                credentials: self.draw_credentials(model, None),
            }),
        }
    }

    /// A card: one of a busy few, or any; sometimes by its id, seldom one that does not exist.
    fn draw_card_ref(&mut self, model: &Model) -> CardRef {
        if self.rng.chance(1) {
            return pan(9_999_999);
        }
        if let Some((card, left)) = self.burst {
            self.burst = (left > 0).then(|| (card, left - 1));
            return card;
        }
        let count = model.cards.len() as u64;
        // The newest cards take their turn, since old ones expire and are terminated.
        let newest = self.rng.below(count.min(16)) + 1;
        let at = if self.rng.chance(60) { count - newest } else { self.rng.below(count) };
        let card = &model.cards[at as usize];
        let card = if self.rng.chance(10) {
            CardRef::Id(card.id)
        } else {
            CardRef::Pan(card.pan, MaskedPan::default())
        };
        if self.rng.chance(2) {
            self.burst = Some((card, self.rng.between(3, 12) as u64));
        }
        card
    }

    fn draw_amount(&mut self, model: &Model, card: CardRef) -> i64 {
        let known = model.cards.iter().position(|known| match card {
            CardRef::Pan(pan, _) => known.pan == pan,
            CardRef::Id(id) => known.id == id,
        });
        let edge = |amount: Minor| amount.0.clamp(0, 10_000_000);
        match (self.rng.below(100), known) {
            (0..3, _) => 0,
            (3..7, Some(card)) => {
                edge(Minor(model.allowance_balance(card))) + self.rng.between(0, 1)
            }
            (7..11, Some(card)) => {
                edge(model.cards[card].terms.transaction_limit) + self.rng.between(0, 1)
            }
            (11..14, Some(card)) => {
                let room = model.cards[card].terms.daily_limit.0 - model.day_spent(card);
                edge(Minor(room)) + self.rng.between(0, 1)
            }
            (14, _) => -self.rng.between(1, 5_000),
            (15, _) => Minor::AMOUNT_MAX.0 + self.rng.between(1, 5),
            _ => self.rng.between(1, 6_000),
        }
    }

    fn draw_facts(&mut self, model: &Model, card: CardRef) -> PurchaseFacts {
        self.marks += 1;
        let mut facts = facts(card, self.draw_amount(model, card), self.marks);
        let stays = [3501, 7011, 7512, 5411, 5541, 6011, 4111, 5999];
        if self.rng.chance(40) {
            facts.merchant.mcc = Some(Mcc(self.rng.pick(&stays)));
        } else if self.rng.chance(3) {
            facts.merchant.mcc = None;
        }
        if self.rng.chance(12) {
            facts.amounts = self.draw_foreign(facts.amounts.amount);
        }
        facts.merchant.name = MERCHANTS[self.marks as usize % MERCHANTS.len()].into();
        if self.rng.chance(10) {
            facts.trace.original_key = None;
        }
        if self.rng.chance(10) {
            facts.trace.retrieval_key = None;
        }
        facts
    }

    /// The amount is billed; the merchant asks in euros.
    fn draw_foreign(&mut self, billed: Minor) -> MessageAmounts {
        let asked = Minor(billed.0.clamp(0, 1 << 40) * self.rng.between(70, 99) / 100);
        let currency = self.rng.pick(&[DOLLAR, DOLLAR, DOLLAR, DOLLAR, EURO]);
        let billing = CurrencyAmount { amount: billed, currency };
        let billing = (!self.rng.chance(5)).then_some(billing);
        MessageAmounts { amount: asked, currency: Some(EURO), billing }
    }

    fn draw_credentials(&mut self, model: &Model, card: Option<CardRef>) -> PresentedCredentials {
        let known = model.cards.iter().find(|known| match card {
            Some(CardRef::Pan(pan, _)) => known.pan == pan,
            Some(CardRef::Id(id)) => known.id == id,
            None => false,
        });
        let mut shown = PresentedCredentials::default();
        let is_wrong = |rng: &mut Rng| rng.chance(12);
        if self.rng.chance(30) {
            let right = known.map_or(2906, |card| {
                use chrono::Datelike;
                (card.expires_on.year() % 100) as u16 * 100 + card.expires_on.month() as u16
            });
            let wrong = u16::from(is_wrong(&mut self.rng));
            shown.expiry = Some(ExpiryMonth(right + wrong));
        }
        if self.rng.chance(25) {
            let wrong = u64::from(is_wrong(&mut self.rng));
            shown.pin = Some(PinVerifier(known.map_or(5, |card| card.pin) + wrong));
        }
        if self.rng.chance(25) {
            let wrong = is_wrong(&mut self.rng);
            shown.cvv = Some(if wrong { CvvCheck::Mismatch } else { CvvCheck::Match });
        }
        if self.rng.chance(20) {
            let wrong = u64::from(is_wrong(&mut self.rng));
            shown.zip = Some(PackedZip(known.map_or(0, |card| card.zip) + wrong));
        }
        shown
    }

    fn draw_authorize(&mut self, model: &Model) -> Authorize {
        let card = self.draw_card_ref(model);
        let kind = match self.rng.below(100) {
            0..78 => AuthorizationKind::Purchase,
            78..94 => AuthorizationKind::SingleMessage,
            94..98 => AuthorizationKind::Verification,
            _ => AuthorizationKind::Cash,
        };
        let mut facts = self.draw_facts(model, card);
        if kind == AuthorizationKind::Verification {
            facts.amounts = MessageAmounts { amount: Minor::ZERO, currency: None, billing: None };
        }
        // Some purchases were reversed before they came: their mark was drawn for that already.
        if self.rng.chance(6) {
            facts.trace.original_key = Some(OriginalKey(self.early_mark));
        }
        let credentials = self.draw_credentials(model, Some(card));
        let takes_partial = self.rng.chance(30);
        let partial =
            if takes_partial { PartialApproval::Taken } else { PartialApproval::NotTaken };
        Authorize { facts, kind, credentials, partial }
    }

    fn draw_increment(&mut self, model: &Model) -> Increment {
        let (original, card, _) = self.draw_original(model);
        let of_whom = match card {
            Some(card) => card,
            None => self.draw_card_ref(model),
        };
        let facts = self.draw_facts(model, of_whom);
        let otherwise = self.rng.chance(50).then(|| Box::new(self.draw_authorize(model)));
        Increment {
            card: card.filter(|_| self.rng.chance(80)),
            amounts: facts.amounts,
            mcc: facts.merchant.mcc.filter(|_| self.rng.chance(60)),
            credentials: self.draw_credentials(model, Some(of_whom)),
            original,
            otherwise,
        }
    }

    /// Money from or to the bank; withdrawals often just about what there is.
    fn draw_transfer(&mut self, model: &Model) -> Transfer {
        let company = self.rng.below(model.companies.len() as u64 + 1);
        let direction = self.rng.pick(&[TransferDirection::Deposit, TransferDirection::Withdrawal]);
        let available = model
            .companies
            .get(company as usize)
            .map_or(0, |_| model.available(company as usize).clamp(1, 1 << 40));
        let amount = match self.rng.below(10) {
            0 => available + self.rng.between(0, 1),
            1 => -self.rng.between(0, 5),
            2 => Minor::AMOUNT_MAX.0 + 1,
            _ => self.rng.between(1, 50_000),
        };
        let settled = self.rng.chance(30);
        Transfer {
            account: account_id(company),
            direction,
            amount: Minor(amount),
            bank_account: BankAccount {
                description: "Operating account".to_owned(),
                name: "First Bank".to_owned(),
                number: "1234".to_owned(),
            },
            timing: if settled { TransferTiming::AtOnce } else { TransferTiming::InTransit },
        }
    }

    /// A transfer of the last few, or something that is none.
    fn draw_conclusion(&mut self, model: &Model) -> ConcludeTransfer {
        let count = model.transfers.len() as u64;
        let transaction = if count > 0 && self.rng.chance(90) {
            let back = self.rng.below(count.min(6));
            model.transfer_id((count - 1 - back) as usize)
        } else {
            let at = self.rng.below(model.purchases.len().max(1) as u64) as usize;
            model.purchases.get(at).map_or_else(
                || model.ids.transaction_id(Timestamp(self.at), TransactionSeq(1 << 30)),
                |_| model.id_of(at),
            )
        };
        let conclusion = self.rng.pick(&[TransferConclusion::Settle, TransferConclusion::Return]);
        ConcludeTransfer { transaction, conclusion }
    }

    /// A purchase: likely one that is still open, and how a message names it, with its card.
    fn draw_original(&mut self, model: &Model) -> (OriginalRef, Option<CardRef>, Option<usize>) {
        let mut named = OriginalRef::default();
        let count = model.purchases.len() as u64;
        if count == 0 || self.rng.chance(6) {
            self.early_mark = EARLY + self.marks;
            named.original_key = Some(OriginalKey(self.early_mark));
            return (named, None, None);
        }
        let is_open = |at: &usize| model.purchases[*at].held() > 0;
        let open: Vec<_> = (0..model.purchases.len()).rev().filter(is_open).take(30).collect();
        let at = if self.rng.chance(65) && !open.is_empty() {
            self.rng.pick(&open)
        } else {
            let back = self.rng.below(count.min(60));
            (count - 1 - back) as usize
        };
        let purchase = &model.purchases[at];
        match self.rng.below(4) {
            0 => named.transaction = Some(model.id_of(at)),
            1 => named.authorization_id = Some(authorization_id_of(TransactionSeq(purchase.seq))),
            2 => named.original_key = purchase.original_key,
            _ => named.retrieval_key = purchase.retrieval_key,
        }
        let card = CardRef::Pan(model.cards[purchase.card].pan, MaskedPan::default());
        let card = if self.rng.chance(4) { self.draw_card_ref(model) } else { card };
        (named, Some(card), Some(at))
    }

    fn draw_reverse(&mut self, model: &Model) -> Reverse {
        let (original, card, found) = self.draw_original(model);
        let found = found.map(|at| &model.purchases[at]);
        let (open, foreign) = found
            .map_or((500, None), |found| (found.held().max(found.posted.abs()), found.foreign));
        let part = Minor(self.rng.between(0, open.clamp(1, 1 << 40)));
        let amount = match self.rng.below(100) {
            0..45 => ReversalAmount::Full,
            45..62 => ReversalAmount::GiveBack(part),
            62..80 => ReversalAmount::Remaining(part),
            80..92 => ReversalAmount::RemainingOriginal(foreign.map_or(part, |foreign| {
                Minor(self.rng.between(0, foreign.amount.0.clamp(1, 1 << 40)))
            })),
            92..94 => ReversalAmount::GiveBack(Minor(open + 1)),
            94..96 => ReversalAmount::Remaining(Minor(open + 1)),
            96 => ReversalAmount::GiveBack(Minor(-1)),
            97 => ReversalAmount::Remaining(Minor(i64::MIN)),
            98 => ReversalAmount::RemainingOriginal(Minor(-1)),
            _ => ReversalAmount::RemainingOriginal(Minor(i64::MAX)),
        };
        let kind = if self.rng.chance(50) { ReversalKind::Request } else { ReversalKind::Advice };
        let card = card.filter(|_| self.rng.chance(70));
        Reverse { card, original, amount, kind }
    }

    fn draw_present(&mut self, model: &Model) -> Present {
        let (original, card, found) = self.draw_original(model);
        let number = match self.rng.below(10) {
            0..6 => PresentmentNumber::ONLY,
            _ => {
                let count = self.rng.between(2, 3) as u8;
                PresentmentNumber { number: self.rng.between(1, 3) as u8, count }
            }
        };
        let held = found.map_or(500, |at| model.purchases[at].held());
        let amount = match self.rng.below(20) {
            0..8 => held,
            8..13 => self.rng.between(0, held.clamp(1, 1 << 40)),
            13..17 => held + self.rng.between(1, 2_000),
            17 => 0,
            18 => self.rng.between(1, 4_000),
            _ => -self.rng.between(1, 9),
        };
        let card = match card {
            Some(card) => card,
            None => self.draw_card_ref(model),
        };
        let mut facts = self.draw_facts(model, card);
        facts.amounts.amount = Minor(amount);
        let amounts = facts.amounts;
        let has_facts = self.rng.chance(85);
        Present {
            facts: has_facts.then_some(facts),
            amounts: (!self.rng.chance(10)).then_some(amounts),
            original,
            number,
        }
    }

    fn draw_refund(&mut self, model: &Model) -> Refund {
        let (mut original, card, found) = self.draw_original(model);
        let card = match card {
            Some(card) => card,
            None => self.draw_card_ref(model),
        };
        let mut facts = self.draw_facts(model, card);
        let posted = found.map_or(0, |at| model.purchases[at].posted);
        if posted > 0 && self.rng.chance(70) {
            facts.amounts.amount = Minor(self.rng.between(0, posted + 10));
        }
        // Many a refund carries the retrieval reference of its purchase as its own.
        if let Some(at) = found.filter(|_| self.rng.chance(50)) {
            facts.trace.retrieval_key = model.purchases[at].retrieval_key;
        }
        if self.rng.chance(30) {
            original = OriginalRef::default();
        }
        Refund { facts, original }
    }

    fn draw_advise(&mut self, model: &Model) -> Advise {
        let (mut original, card, found) = self.draw_original(model);
        let card = match card {
            Some(card) => card,
            None => self.draw_card_ref(model),
        };
        let mut facts = self.draw_facts(model, card);
        let is_pending = |at: usize| model.purchases[at].state == TransactionState::Pending;
        if found.is_some_and(is_pending) && self.rng.chance(60) {
            facts.amounts.amount = Minor(self.rng.between(-1, 9_000));
        } else if self.rng.chance(80) {
            original = OriginalRef::default();
        }
        let declined = self.rng.chance(15);
        let outcome = if declined { AdviceOutcome::Declined } else { AdviceOutcome::Approved };
        Advise { facts, credentials: self.draw_credentials(model, Some(card)), outcome, original }
    }

    fn draw_admin(&mut self, model: &Model) -> Command {
        let at = self.rng.below(model.cards.len() as u64) as usize;
        let card = &model.cards[at];
        let is_foreign = self.rng.chance(3);
        let company = if is_foreign {
            company_id(self.rng.below(5))
        } else {
            model.companies[card.company].id
        };
        let (id, allowance) = (card.id, card.allowance_id);
        admin(match self.rng.below(100) {
            0..42 => {
                AdminCommand::UpdateAllowance(company, allowance, self.draw_allowance(model, at))
            }
            42..72 => AdminCommand::UpdateCard(company, id, self.draw_card_changes(card.company)),
            72..75 => AdminCommand::TerminateCard(company, id),
            75..83 => AdminCommand::SetPin(company, id, PinVerifier(self.rng.below(500))),
            83..90 => AdminCommand::SetCompany(company, self.draw_company_changes()),
            90 => self.draw_key_command(model, id),
            91 => {
                let company = self.rng.below(3);
                let mut cards = vec![self.draw_card(company), self.draw_card(company)];
                if self.rng.chance(20) {
                    cards[1].pan_hash = card.pan;
                }
                AdminCommand::IssueCards(cards)
            }
            92..94 => self.draw_member_command(company),
            94..96 => self.draw_requisition_command(model, id),
            _ => {
                let company = self.rng.below(3);
                let mut new = self.draw_card(company);
                if self.rng.chance(8) {
                    new.pan_hash = card.pan;
                }
                if self.rng.chance(8) {
                    new.id = card.id;
                }
                AdminCommand::IssueCard(new)
            }
        })
    }

    /// Another network key, another key of card numbers, or a number sealed anew.
    fn draw_key_command(&mut self, model: &Model, card: CardId) -> AdminCommand {
        let PanGeneration(newest) = model.pan_generation;
        match self.rng.below(8) {
            0..4 => AdminCommand::SetNetworkKey([self.rng.below(256) as u8; 32]),
            4 => AdminCommand::RotatePanKey(PanGeneration(newest + 1)),
            5 => AdminCommand::ResealCards(vec![resealed(card, newest + 1)]),
            _ => AdminCommand::ResealCards(vec![resealed(card, newest)]),
        }
    }

    /// One of the first members of a company, or anybody.
    fn pick_member(&mut self, company: u64) -> MemberId {
        let number = if self.rng.chance(85) {
            company * MEMBERS_AT_FIRST + self.rng.below(MEMBERS_AT_FIRST)
        } else {
            self.rng.below(self.members + 1)
        };
        member_id(number)
    }

    fn draw_member(&mut self, company: u64) -> NewMember {
        let number = self.members;
        self.members += 1;
        let email = email_of(number, company);
        let roles = [MemberRole::Member, MemberRole::Administrator, MemberRole::Reviewer];
        NewMember {
            id: member_id(number),
            company: company_id(company),
            first_name: "Ada".to_owned(),
            last_name: format!("Lovelace {number}"),
            email: if self.rng.chance(50) { email.to_uppercase() } else { email },
            role: roles[number as usize % roles.len()],
            code: self.rng.chance(30).then(|| format!("{:03}", self.rng.below(20))),
            dimensions: [None; 4],
            external_id: self.rng.chance(20).then(|| format!("ext{}", self.rng.below(6))),
            is_active: self.rng.chance(90),
            invite: self
                .rng
                .chance(20)
                .then(|| self.people.draw_invite(&mut self.rng, self.at, number)),
        }
    }

    fn draw_member_command(&mut self, company: CompanyId) -> AdminCommand {
        let number = self.rng.below(3);
        let id = self.pick_member(number);
        let company = if self.rng.chance(90) { company_id(number) } else { company };
        match self.rng.below(100) {
            0..20 => AdminCommand::CreateMember(self.draw_member(number)),
            20..25 => AdminCommand::DeleteMember(company, id),
            _ => {
                let roles = [MemberRole::Member, MemberRole::Reviewer];
                let code = self.rng.chance(30).then(|| format!("{:03}", self.rng.below(20)));
                let external = self.rng.chance(70).then(|| format!("ext{}", self.rng.below(6)));
                let changes = MemberChanges {
                    // Who left comes back soon.
                    is_active: self.rng.chance(60).then(|| self.rng.chance(80)),
                    role: self.rng.chance(20).then(|| self.rng.pick(&roles)),
                    code: self.rng.chance(40).then_some(code),
                    external_id: self.rng.chance(20).then_some(external),
                    ..MemberChanges::default()
                };
                AdminCommand::UpdateMember(company, id, changes)
            }
        }
    }

    fn draw_requisition_command(&mut self, model: &Model, card: CardId) -> AdminCommand {
        let company = self.rng.below(3);
        let draw_end = |rng: &mut Rng, at: i64| {
            rng.chance(30).then(|| Timestamp(at + rng.between(-HOUR, 3 * DAY)))
        };
        if model.requisitions.is_empty() || self.rng.chance(40) {
            self.requisitions += 1;
            return AdminCommand::CreateRequisition(NewRequisition {
                id: RequisitionId(Uuid::from_u64_pair(6, self.requisitions)),
                company: company_id(company),
                member: self.pick_member(company),
                amount: Minor(self.rng.between(0, 20_000)),
                description: "A chair".to_owned(),
                end_time: draw_end(&mut self.rng, self.at),
                note: None,
                dimensions: [None; 4],
            });
        }
        // Mostly a late one: the others were decided.
        let newest = model.requisitions.len() as u64;
        let asked = newest - 1 - self.rng.below(newest.min(6));
        let asked = &model.requisitions[asked as usize];
        let number = asked.company as u64;
        let company = if self.rng.chance(95) { company_id(number) } else { company_id(company) };
        if self.rng.chance(10) {
            return AdminCommand::CancelRequisition(company, asked.id);
        }
        let amount = self.rng.between(-1, 20_000);
        let mut changes = RequisitionChanges {
            amount: self.rng.chance(30).then_some(Minor(amount)),
            end_time: self.rng.chance(20).then(|| draw_end(&mut self.rng, self.at)),
            ..RequisitionChanges::default()
        };
        if changes.is_empty() || self.rng.chance(60) {
            let verdict = match self.rng.below(10) {
                0..3 => Verdict::Deny,
                3..6 => Verdict::ApproveWithCard(card),
                _ => Verdict::ApproveWithNewCard(Box::new(self.draw_card(number))),
            };
            let reviewed_by = self.rng.chance(50).then(|| self.pick_member(number));
            changes.review = Some(Review { verdict, reviewed_by });
        }
        AdminCommand::UpdateRequisition(company, asked.id, changes)
    }

    fn draw_company_changes(&mut self) -> CompanyChanges {
        // Closed seldom, opened again soon.
        let state = match self.rng.below(40) {
            0 => CompanyState::Closed,
            1 => CompanyState::Pending,
            _ => CompanyState::Active,
        };
        let credit = self.rng.between(-10, 2_000_000);
        CompanyChanges {
            state: Some(state),
            credit_limit: self.rng.chance(30).then_some(Minor(credit)),
            partial_approval: self.rng.chance(20).then(|| self.rng.chance(70)),
            name: Some("Another name".to_owned()),
            ..CompanyChanges::default()
        }
    }

    fn draw_card_changes(&mut self, company: usize) -> CardChanges {
        let company = company as u64;
        let mut changes = CardChanges::default();
        if self.rng.chance(75) {
            let open = self.rng.chance(80);
            changes.state =
                Some(if open { SettableCardState::Active } else { SettableCardState::Suspended });
        }
        if self.rng.chance(30) {
            changes.assigned_to = Some(self.rng.chance(70).then(|| self.pick_member(company)));
        }
        if self.rng.chance(15) {
            let zip_code = self.rng.pick(&["94105", "10001", ""]).to_owned();
            let address = Address { zip_code, ..Address::default() };
            changes.billing_address = Some(self.rng.chance(70).then_some(address));
        }
        changes
    }

    fn draw_allowance(&mut self, model: &Model, card: usize) -> AllowanceChanges {
        let mut changes = AllowanceChanges::default();
        let rng = &mut self.rng;
        if rng.chance(45) {
            // Now and then just what is spent, or a little below it.
            let spent = model.spent(card).clamp(0, 1 << 40);
            let amount =
                if rng.chance(20) { spent - rng.between(0, 1) } else { rng.between(0, 400_000) };
            changes.amount = Some(Minor(amount));
        }
        if rng.chance(25) {
            changes.interval = Some(draw_interval(rng));
        }
        changes.reset = rng.chance(20);
        if rng.chance(25) {
            changes.daily_limit = Some(draw_limit(rng));
        }
        if rng.chance(25) {
            changes.transaction_limit = Some(draw_limit(rng));
        }
        if rng.chance(15) {
            changes.single_use = Some(rng.chance(25));
        }
        if rng.chance(15) {
            let starts_at = Timestamp(self.at + rng.between(-DAY, DAY));
            changes.starts_at = Some(if rng.chance(70) { Timestamp::MIN } else { starts_at });
        }
        if rng.chance(20) {
            let ends_at = Timestamp(self.at + rng.between(-HOUR, 9 * DAY));
            changes.ends_at = Some(if rng.chance(50) { Timestamp::MAX } else { ends_at });
        }
        if rng.chance(15) {
            let scopes: [&[u16]; 5] = [&[], &[], &[5812, 5411], &[10], &[3, 5812]];
            changes.scope = Scope::new(rng.pick(&scopes));
        }
        changes
    }

    fn draw_card(&mut self, company: u64) -> NewCard {
        self.cards += 1;
        let rng = &mut self.rng;
        let mut terms = AllowanceTerms::budget(Minor(rng.between(20_000, 300_000)));
        terms.interval = draw_interval(rng);
        terms.daily_limit = draw_limit(rng);
        terms.transaction_limit = draw_limit(rng);
        terms.single_use = rng.chance(8);
        let mut card = new_card(self.cards, company, terms);
        if rng.chance(15) {
            card.pin = PinVerifier(0);
        }
        if rng.chance(20) {
            card.zip = PackedZip::default();
        }
        if rng.chance(20) {
            card.is_virtual = false;
            card.state = CardState::Unactivated;
        }
        let is_held = rng.chance(40);
        let days = rng.between(5, 900) as i32;
        card.expires_on = BusinessDate((self.at / DAY) as i32 + days);
        card.assigned_to = is_held.then(|| self.pick_member(company));
        card
    }
}

/// What merchants are called; one says nothing.
const MERCHANTS: [&str; 3] = ["A Restaurant", "A Hotel", ""];

/// Marks of purchases that are reversed before they come.
const EARLY: u64 = 1 << 60;

fn draw_interval(rng: &mut Rng) -> Interval {
    rng.pick(&[
        Interval::None,
        Interval::Daily,
        Interval::Weekly,
        Interval::Monthly,
        Interval::Quarterly,
        Interval::Yearly,
    ])
}

fn draw_limit(rng: &mut Rng) -> Minor {
    if rng.chance(60) { Minor::UNLIMITED } else { Minor(rng.between(0, 20_000)) }
}
