//! A switch in this process that scenarios are played against: the reference model, or the shard that it is to
//! equal. Each message becomes the command that both doors make of it.
//!
//! The company is that of `init`, with partial approval and the line of credit that scenarios are written for.

use std::collections::BTreeMap;

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::{
    ConcludeTransfer, NetworkCommand, NetworkRequest, Transfer, TransferConclusion, TransferTiming,
};
use cardswitch_engine::command::reply::{NetworkReply, Reply, TransferOutcome};
use cardswitch_engine::directory::allowance::{AllowanceChanges, AllowanceCommand};
use cardswitch_engine::directory::card::{CardChanges, CardCommand, SettableCardState};
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::domain::allowance::{AllowanceTerms, Scope};
use cardswitch_engine::domain::business_date::{BusinessDate, Interval};
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::company::Address;
use cardswitch_engine::domain::credential::PinVerifier;
use cardswitch_engine::domain::ids::{
    AccountSlot, AllowanceId, CardId, CardSlot, Timestamp, TransactionId, TransactionSeq,
};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::transaction::{BankAccount, TransactionState, TransferDirection};
use cardswitch_engine::shard::ShardState;
use cardswitch_feed::scenario::{
    AccountView, Act, CardView, Money, PlayedSwitch, ScenarioTransaction, StepAnswer, StepRequest,
    Terms, TransactionIds,
};
use cardswitch_feed::{Card, FeedError, Identity};
use cardswitch_sim::driver::{Driver, id_mint};
use cardswitch_sim::model::{DAY, Model, date_in};
use cardswitch_sim::samples::{account_id, admin, company_id, network, new_card, new_company};
use chrono_tz::Tz;
use uuid::Uuid;

use crate::messages::{CVV, answer_of, answered, command_of, failed, fingerprint_of};

/// The zone of the company that `init` makes.
pub(crate) const ZONE: Tz = Tz::America__Los_Angeles;
/// Its line of credit. Units: minor units.
pub(crate) const CREDIT_LIMIT: i64 = 50_000;
/// Its money: that of `init`. Units: minor units.
const OPENING_BALANCE: i64 = 5_000_000_000;
const CARD_YEARS_VALID: i64 = 4;

/// The one that executes commands.
enum Executor {
    Model(Box<Model>),
    Shard(Box<Driver>),
}

impl Executor {
    fn execute(&mut self, at: i64, command: &Command) -> Reply {
        match self {
            Self::Model(model) => model.expect(at, command),
            Self::Shard(driver) => driver.run(Timestamp(at), command),
        }
    }
}

/// A transaction that a message or a transfer has made.
struct OwnTransaction {
    id: TransactionId,
    /// The amount asked for, from the account's side. Units: minor units.
    amount: i64,
}

/// The state of a transaction.
struct Standing {
    state: TransactionState,
    held: i64,
    posted: i64,
}

/// The switch.
pub(crate) struct Inside {
    executor: Executor,
    now_us: i64,
    /// Commands since the clock stands still, which follow one another by microseconds.
    commands: i64,
    cards: u64,
    made: BTreeMap<(u64, u32), OwnTransaction>,
    /// The signed amounts of transfers.
    transfers: BTreeMap<Uuid, i64>,
}

impl Inside {
    /// The reference model. Units: microseconds since the Unix epoch.
    pub(crate) fn model(now_us: i64) -> Self {
        Self::new(Executor::Model(Box::new(Model::new(id_mint()))), now_us)
    }

    /// The shard that decides, alone in memory. Units: microseconds since the Unix epoch.
    pub(crate) fn shard(now_us: i64) -> Self {
        Self::new(Executor::Shard(Box::new(Driver::new(ShardState::default()))), now_us)
    }

    fn new(executor: Executor, now_us: i64) -> Self {
        let (made, transfers) = (BTreeMap::new(), BTreeMap::new());
        let mut inside = Self { executor, now_us, commands: 0, cards: 0, made, transfers };
        let mut company = new_company(0, ZONE, OPENING_BALANCE, CREDIT_LIMIT);
        company.partial_approval = true;
        inside.execute(&admin(AdminCommand::Company(CompanyCommand::Create(company))));
        inside
    }

    fn execute(&mut self, command: &Command) -> Reply {
        self.commands += 1;
        self.executor.execute(self.now_us + self.commands, command)
    }

    fn change(&mut self, command: AdminCommand) -> Result<(), FeedError> {
        match self.execute(&admin(command)) {
            Reply::Done(_) => Ok(()),
            other => Err(failed(format!("{other:?}"))),
        }
    }

    fn standing(&self, seq: TransactionSeq) -> Option<Standing> {
        match &self.executor {
            Executor::Model(model) => {
                let purchase = model.purchases.iter().find(|purchase| purchase.seq == seq.0);
                let of_purchase = purchase.map(|purchase| {
                    let (held, posted) = (purchase.held(), purchase.posted);
                    Standing { state: purchase.state, held, posted }
                });
                let transfer = model.transfers.iter().find(|transfer| transfer.seq == seq.0);
                let of_transfer = || {
                    transfer.map(|transfer| Standing { state: transfer.state, held: 0, posted: 0 })
                };
                of_purchase.or_else(of_transfer)
            }
            Executor::Shard(driver) => driver.state.transaction(seq).map(|open| {
                let progress = &open.progress;
                let (held, posted) = (progress.held.total().0, progress.posted.0);
                Standing { state: progress.state, held, posted }
            }),
        }
    }

    /// A transaction as it is shown: declined ones are in no book.
    fn shown(&self, made: &OwnTransaction) -> ScenarioTransaction {
        let seq = id_mint().open_transaction_id(made.id).unwrap_or(TransactionSeq(0));
        let declined = Standing { state: TransactionState::Declined, held: 0, posted: 0 };
        let Standing { state, held, posted } = self.standing(seq).unwrap_or(declined);
        let (word, amount) = match state {
            TransactionState::Pending => ("pending", -held),
            TransactionState::Completed => ("completed", -posted),
            TransactionState::Canceled => ("canceled", 0),
            TransactionState::Declined => ("declined", made.amount),
        };
        ScenarioTransaction {
            state: word.to_owned(),
            amount: Money::of_account(amount),
            held: Some(Money::of_account(held)),
            posted: Some(Money::of_account(posted)),
        }
    }

    fn transferred(&mut self, reply: Reply) -> Result<StepAnswer, FeedError> {
        let Reply::Network(NetworkReply::Transfer(reply)) = reply else {
            return Err(failed(format!("{reply:?}")));
        };
        let first = answered(reply.response_code, None);
        // The network's bank answers by statuses what no transfer can be.
        let (code, reason) = match reply.outcome {
            TransferOutcome::NotFound => (404, Some("not_found")),
            TransferOutcome::WrongState => (409, Some("transfer_concluded")),
            _ => (first.code, None),
        };
        let transaction_id = reply.transaction.map(|id| id.0.to_string());
        let known = TransactionIds { authorization_id: None, transaction_id };
        Ok(StepAnswer { code, reason: reason.map(str::to_owned), known, ..first })
    }

    /// Keeps the transaction that a message opens.
    fn keep(&mut self, asked: &StepRequest<'_>, id: Option<TransactionId>) {
        let Some(id) = id.filter(|_| asked.act.opens(asked.original.is_some())) else { return };
        let billed = asked.details.billing.or(asked.act.amount());
        let amount = billed.map_or(0, |money| money.minor);
        let amount = if matches!(asked.act, Act::Refund(_)) { amount } else { -amount };
        let Identity { rrn, stan, .. } = asked.identity;
        self.made.entry((rrn, stan)).or_insert(OwnTransaction { id, amount });
    }
}

impl PlayedSwitch for Inside {
    fn clock_us(&mut self) -> Result<i64, FeedError> {
        Ok(self.now_us)
    }

    fn set_clock(&mut self, at_us: i64) -> Result<i64, FeedError> {
        (self.now_us, self.commands) = (at_us, 0);
        self.execute(&Command::Tick);
        Ok(at_us)
    }

    fn make_card(&mut self, (_, terms): (&str, &Terms), now_us: i64) -> Result<Card, FeedError> {
        self.cards += 1;
        let mut new = new_card(self.cards, 0, new_terms(terms, now_us)?);
        new.pin = PinVerifier(0);
        new.order.billing_address = Some(Address::default());
        let expiration = date_in(ZONE, now_us + CARD_YEARS_VALID * 365 * DAY);
        new.expires_on = BusinessDate::from_naive(expiration);
        let (card_id, allowance_id) = (new.id.0.to_string(), new.allowance_id.0.to_string());
        self.change(AdminCommand::Card(CardCommand::Issue(new)))?;
        let (cvv, pan) = (Some(CVV.to_owned()), self.cards.to_string());
        let (pin, zip, profile, interval) = (None, None, None, None);
        Ok(Card { card_id, allowance_id, pan, expiration, cvv, pin, zip, profile, interval })
    }

    fn change_allowance(
        &mut self,
        card: &Card,
        terms: &Terms,
        now_us: i64,
    ) -> Result<(), FeedError> {
        let id = AllowanceId(uuid(&card.allowance_id)?);
        let changes = changes_to(terms, now_us)?;
        let command = AllowanceCommand::Update(company_id(0), id, changes);
        self.change(AdminCommand::Allowance(command))
    }

    fn set_card_state(&mut self, card: &Card, state: &str) -> Result<(), FeedError> {
        let state = match state {
            "active" => SettableCardState::Active,
            _ => SettableCardState::Suspended,
        };
        let changes = CardChanges { state: Some(state), ..CardChanges::default() };
        let id = CardId(uuid(&card.card_id)?);
        self.change(AdminCommand::Card(CardCommand::Update(company_id(0), id, changes)))
    }

    fn terminate_card(&mut self, card: &Card) -> Result<(), FeedError> {
        let id = CardId(uuid(&card.card_id)?);
        self.change(AdminCommand::Card(CardCommand::Terminate(company_id(0), id)))
    }

    fn account(&mut self) -> Result<(String, AccountView), FeedError> {
        let (ledger, available, incoming) = match &self.executor {
            Executor::Model(model) => (model.ledger(0), model.available(0), model.in_transit(0).0),
            Executor::Shard(driver) => {
                let balances = driver.state.balances(AccountSlot(0));
                let available = balances.available_balance();
                (balances.ledger.0, available.0, balances.credits_in_transit.0)
            }
        };
        let view = AccountView {
            ledger: Money::of_account(ledger),
            available: Money::of_account(available),
            available_credit: Money::of_account(available + CREDIT_LIMIT),
            pending_credits: Money::of_account(incoming),
        };
        Ok((account_id(0).0.to_string(), view))
    }

    fn transfer(
        &mut self,
        (_, amount): (&str, Money),
        is_settled: bool,
    ) -> Result<StepAnswer, FeedError> {
        let is_deposit = amount.minor >= 0;
        let command = NetworkCommand::Transfer(Transfer {
            account: account_id(0),
            direction: match is_deposit {
                true => TransferDirection::Deposit,
                false => TransferDirection::Withdrawal,
            },
            amount: Minor(amount.minor.abs()),
            bank_account: BankAccount {
                description: "Scenario".parse().map_err(failed)?,
                name: "Checking".parse().map_err(failed)?,
                number: "000123".parse().map_err(failed)?,
            },
            timing: if is_settled { TransferTiming::AtOnce } else { TransferTiming::InTransit },
        });
        let reply = self.execute(&network(command));
        let answered = self.transferred(reply)?;
        if let Some(id) = &answered.known.transaction_id {
            self.transfers.insert(uuid(id)?, amount.minor);
        }
        Ok(answered)
    }

    fn conclude(&mut self, id: &str, how: &str) -> Result<StepAnswer, FeedError> {
        let conclusion =
            if how == "settle" { TransferConclusion::Settle } else { TransferConclusion::Return };
        let transaction = TransactionId(uuid(id)?);
        let command = ConcludeTransfer { transaction, conclusion };
        let reply = self.execute(&network(NetworkCommand::ConcludeTransfer(command)));
        self.transferred(reply)
    }

    fn ask(&mut self, asked: &StepRequest<'_>) -> Result<Option<StepAnswer>, FeedError> {
        let command = command_of(asked)?;
        let fingerprint = Some(fingerprint_of(asked));
        let request = NetworkRequest { command, fingerprint };
        let reply = match self.execute(&Command::Network(Box::new(request))) {
            Reply::Network(reply) => reply,
            other => return Err(failed(format!("{other:?}"))),
        };
        let (answered, id) = answer_of(&reply, asked);
        self.keep(asked, id);
        Ok(Some(answered))
    }

    fn card(&mut self, card: &Card) -> Result<CardView, FeedError> {
        let at = self.now_us + self.commands;
        let slot: u32 = card.pan.parse::<u32>().map_err(failed)? - 1;
        let (terms, spent, day_spent, state) = match &mut self.executor {
            Executor::Model(model) => {
                let slot = slot as usize;
                let closed = model.cards[slot].clone();
                model.turn_pages(slot, at);
                let (spent, day_spent) = (model.spent(slot), model.day_spent(slot));
                model.cards[slot] = closed;
                let card = &model.cards[slot];
                (card.terms, spent, day_spent, card.state)
            }
            Executor::Shard(driver) => {
                let record = driver.state.card(CardSlot(slot));
                let today = BusinessDate::from_naive(date_in(ZONE, at));
                let usage = record.usage.rolled(record.terms.interval, today);
                (record.terms, usage.spent.0, usage.day_spent.0, usage.state)
            }
        };
        let state = match state {
            CardState::Unactivated => "unactivated",
            CardState::Active => "active",
            CardState::Suspended => "suspended",
            CardState::Terminated => "terminated",
        };
        let has_daily_limit = terms.daily_limit != Minor::UNLIMITED;
        Ok(CardView {
            balance: Money::of_account(terms.amount.0 - spent),
            daily_balance: has_daily_limit
                .then(|| Money::of_account(terms.daily_limit.0 - day_spent)),
            state: state.to_owned(),
        })
    }

    fn card_transaction(
        &mut self,
        _: &Card,
        Identity { rrn, stan, .. }: Identity,
    ) -> Result<Option<ScenarioTransaction>, FeedError> {
        Ok(self.made.get(&(rrn, stan)).map(|made| self.shown(made)))
    }

    fn transaction(&mut self, id: &str) -> Result<ScenarioTransaction, FeedError> {
        let id = uuid(id)?;
        let amount = self.transfers.get(&id).copied().unwrap_or(0);
        let shown = self.shown(&OwnTransaction { id: TransactionId(id), amount });
        let amount = if shown.state == "canceled" { 0 } else { amount };
        let amount = Money::of_account(amount);
        Ok(ScenarioTransaction { amount, held: None, posted: None, ..shown })
    }
}

fn uuid(text: &str) -> Result<Uuid, FeedError> {
    text.parse().map_err(failed)
}

fn new_terms(terms: &Terms, now_us: i64) -> Result<AllowanceTerms, FeedError> {
    let changes = changes_to(terms, now_us)?;
    let plain = AllowanceTerms::budget(changes.amount.unwrap_or(Minor::ZERO));
    Ok(AllowanceTerms {
        daily_limit: changes.daily_limit.unwrap_or(plain.daily_limit),
        transaction_limit: changes.transaction_limit.unwrap_or(plain.transaction_limit),
        starts_at: changes.starts_at.unwrap_or(plain.starts_at),
        ends_at: changes.ends_at.unwrap_or(plain.ends_at),
        scope: changes.scope.unwrap_or(plain.scope),
        interval: changes.interval.unwrap_or(plain.interval),
        single_use: changes.single_use.unwrap_or(plain.single_use),
        ..plain
    })
}

fn changes_to(terms: &Terms, now_us: i64) -> Result<AllowanceChanges, FeedError> {
    let minor = |money: Option<Money>| money.map(|money| Minor(money.minor));
    let instant = |span: u64| Timestamp(now_us + i64::try_from(span).unwrap_or(0) * 1_000_000);
    let interval = terms.interval.as_deref().map(|word| {
        let intervals = INTERVALS.into_iter().find(|(_, name)| *name == word);
        intervals.map(|(interval, _)| interval).ok_or_else(|| failed(format!("`{word}`")))
    });
    Ok(AllowanceChanges {
        amount: minor(terms.amount),
        interval: interval.transpose()?,
        daily_limit: minor(terms.daily_limit),
        transaction_limit: minor(terms.transaction_limit),
        single_use: terms.single_use,
        starts_at: terms.starts_in.map(|span| instant(span.0)),
        ends_at: terms.ends_in.map(|span| instant(span.0)),
        scope: terms.scope.as_deref().and_then(Scope::new),
        ..AllowanceChanges::default()
    })
}

/// The periods of allowances, as `/v1` names them.
pub(crate) const INTERVALS: [(Interval, &str); 5] = [
    (Interval::Daily, "daily"),
    (Interval::Weekly, "weekly"),
    (Interval::Monthly, "monthly"),
    (Interval::Quarterly, "quarterly"),
    (Interval::Yearly, "yearly"),
];
