//! TigerBeetle as a peer: one replica of its own, and its own client.
//!
//! It is a ledger and no switch. An authorization is two linked pending transfers: one takes from
//! the card's budget, one from the company's funds, and the debits of neither may exceed its
//! credits. No other rule is looked at, no merchant is stored, and an answer has no balance.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use ::tigerbeetle::{
    Account, AccountFilter, AccountFilterFlags, AccountFlags, Client, CreateAccountStatus,
    CreateTransferResult, CreateTransferStatus, Error, Transfer, TransferFlags,
};
use cardswitch_engine::decision::Rule;
use cardswitch_tools::{Outcome, fail};
use rustix::process::Signal;

use super::closed_loop::Lane;
use super::peer::{Books, Peer};
use super::program::{Program, Purchase, Verdict};
use super::rules::bit;
use crate::server::Server;

const DATA_FILE: &str = "0_0.tigerbeetle";
/// Events in one request. Source: the limits of `create_transfers`.
const EVENTS_MAX: usize = 8_189;
const PURCHASES_MAX: usize = EVENTS_MAX / 2;
/// The client tries for ever; a server that is gone must not hold the run.
const ANSWER_MAX: Duration = Duration::from_secs(300);

const LEDGER: u32 = 840;
/// Cards have the accounts above these.
const COMPANY: u128 = 1;
const NETWORK: u128 = 2;
const FUNDING: u128 = 3;
/// The code of accounts, and of transfers that are no purchase.
const CODE: u16 = 1;

/// A replica and its sessions.
pub(crate) struct Tigerbeetle {
    /// A session stays open from one load to the next; the server keeps a table of them.
    sessions: Vec<Rc<Client>>,
    server: Server,
    program: PathBuf,
    cards: Vec<u128>,
}

impl Tigerbeetle {
    /// Takes this server, which `found` starts.
    /// Errors: there is none.
    pub(crate) fn at(program: &Path) -> Outcome<Self> {
        let Ok(program) = program.canonicalize() else {
            return fail(format!("there is no `{}`", program.display()));
        };
        let server = Server::new("measure-tigerbeetle-", "root", Signal::KILL)?;
        Ok(Self { sessions: Vec::new(), server, program, cards: Vec::new() })
    }

    fn format_and_start(&mut self) -> Outcome<()> {
        self.server.end();
        let file = self.server.path().join(DATA_FILE);
        if file.exists() {
            std::fs::remove_file(file)?;
        }
        let mut format = self.server.command(&self.program)?;
        format.args(["format", "--cluster=0", "--replica=0", "--replica-count=1", DATA_FILE]);
        self.server.run(&mut format)?;
        let mut start = self.server.command(&self.program)?;
        start
            .arg("start")
            .arg(format!("--addresses=127.0.0.1:{}", self.server.port))
            .arg(DATA_FILE);
        self.server.start(start)
    }

    fn session(&mut self) -> Outcome<Rc<Client>> {
        self.sessions(1)?;
        Ok(Rc::clone(&self.sessions[0]))
    }

    fn sessions(&mut self, count: usize) -> Outcome<&[Rc<Client>]> {
        while self.sessions.len() < count {
            let address = format!("127.0.0.1:{}", self.server.port);
            self.sessions.push(Rc::new(Client::new(0, &address)?));
        }
        Ok(&self.sessions[..count])
    }
}

impl Peer for Tigerbeetle {
    type Lane = Session;

    fn rules(&self) -> u32 {
        bit(Rule::AllowanceBalance) | bit(Rule::AvailableCredit)
    }

    async fn found(&mut self, program: &Program) -> Outcome<()> {
        self.sessions.clear();
        self.format_and_start()?;
        self.cards = program.cards.iter().map(|card| card_account(card.pan_hash)).collect();
        let limited = AccountFlags::DebitsMustNotExceedCredits;
        let mut accounts = vec![
            account(COMPANY, limited),
            account(NETWORK, AccountFlags::empty()),
            account(FUNDING, AccountFlags::empty()),
        ];
        accounts.extend(self.cards.iter().map(|card| account(*card, limited)));
        let mut funds = vec![funding(COMPANY, program.opening_balance)?];
        for card in &program.cards {
            funds.push(funding(card_account(card.pan_hash), card.terms.amount.0)?);
        }
        let session = self.session()?;
        for some in accounts.chunks(EVENTS_MAX) {
            let results = answer(session.create_accounts(some)).await?;
            if results.iter().any(|result| result.status != CreateAccountStatus::Created) {
                return fail("an account is not created");
            }
        }
        for some in funds.chunks(EVENTS_MAX) {
            let results = answer(session.create_transfers(some)).await?;
            if results.iter().any(|result| result.status != CreateTransferStatus::Created) {
                return fail("an account is not funded");
            }
        }
        Ok(())
    }

    async fn connect(&mut self, count: usize) -> Outcome<Vec<Session>> {
        Ok(self.sessions(count)?.iter().map(Rc::clone).map(Session).collect())
    }

    async fn crash(&mut self) -> Outcome<()> {
        // A client without its server prints a warning with each try.
        self.sessions.clear();
        self.server.crash()
    }

    async fn books(&mut self) -> Outcome<Books> {
        let session = self.session()?;
        let company = answer(session.lookup_accounts(&[COMPANY])).await?;
        let mut books = Books { account_held_minor: pending(&company)?, ..Books::default() };
        for some in self.cards.chunks(EVENTS_MAX) {
            books.cards_spent_minor += pending(&answer(session.lookup_accounts(some)).await?)?;
        }
        add_holds(&session, &mut books).await?;
        Ok(books)
    }

    async fn durability(&mut self) -> Outcome<String> {
        let output = Command::new(&self.program).args(["version", "--verbose"]).output()?;
        let text = String::from_utf8(output.stdout)?;
        let mut lines = text.lines();
        let version = lines.next().unwrap_or_default().replace(" version", "");
        let direct = lines.filter(|line| line.starts_with("process.direct_io"));
        let settings: Vec<&str> = direct.collect();
        Ok(format!("{version}: {}, O_DSYNC, one replica", settings.join(" ")))
    }
}

/// Adds the holds that transfers of the company's account are.
async fn add_holds(session: &Client, books: &mut Books) -> Outcome<()> {
    let mut timestamp_min = 0;
    loop {
        let filter = AccountFilter {
            account_id: COMPANY,
            timestamp_min,
            limit: u32::try_from(EVENTS_MAX)?,
            flags: AccountFilterFlags::Debits,
            ..AccountFilter::default()
        };
        let holds = answer(session.get_account_transfers(filter)).await?;
        for hold in &holds {
            books.transactions_held_minor += i64::try_from(hold.amount)?;
            books.transactions_held += u64::from(hold.amount > 0);
        }
        let Some(last) = holds.last() else { return Ok(()) };
        timestamp_min = last.timestamp + 1;
    }
}

/// One session of the client; it has one request in flight.
pub(crate) struct Session(Rc<Client>);

impl Lane for Session {
    async fn authorize(&mut self, batch: &[Purchase]) -> Outcome<Vec<Verdict>> {
        let mut verdicts = Vec::with_capacity(batch.len());
        for some in batch.chunks(PURCHASES_MAX) {
            let mut holds = Vec::with_capacity(2 * some.len());
            for purchase in some {
                holds.extend(holds_of(purchase)?);
            }
            let results = answer(self.0.create_transfers(&holds)).await?;
            for pair in results.chunks_exact(2) {
                verdicts.push(verdict_of(&pair[0], &pair[1])?);
            }
        }
        Ok(verdicts)
    }
}

async fn answer<T>(request: impl Future<Output = Result<T, Error>>) -> Outcome<T> {
    match tokio::time::timeout(ANSWER_MAX, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => fail(format!("TigerBeetle does not answer within {ANSWER_MAX:?}")),
    }
}

/// The holds on the card's budget and on the company's funds: both are made, or neither.
fn holds_of(purchase: &Purchase) -> Outcome<[Transfer; 2]> {
    // The count is in the upper half: identifiers that ascend are what TigerBeetle stores fastest.
    let id = purchase.network_key.rotate_left(64) << 1;
    let card = Transfer {
        id,
        debit_account_id: card_account(purchase.pan_hash),
        credit_account_id: NETWORK,
        amount: u128::try_from(purchase.amount_minor)?,
        ledger: LEDGER,
        code: purchase.mcc,
        flags: TransferFlags::Pending | TransferFlags::Linked,
        ..Transfer::default()
    };
    let flags = TransferFlags::Pending;
    Ok([card, Transfer { id: id | 1, debit_account_id: COMPANY, flags, ..card }])
}

/// A refused identifier is remembered, its reason is not: it is known from the account.
fn verdict_of(card: &CreateTransferResult, company: &CreateTransferResult) -> Outcome<Verdict> {
    use CreateTransferStatus::{
        Created, DebitAccountNotFound, ExceedsCredits, Exists, IdAlreadyFailed, LinkedEventFailed,
    };
    let decline = |rule: Rule| (None, rule.response_code().number(), bit(rule));
    let (transaction, response_code, failed_rules) = match (card.status, company.status) {
        (Created, Created) | (Exists, LinkedEventFailed) => (Some(card.timestamp), 0, 0),
        (ExceedsCredits | IdAlreadyFailed, LinkedEventFailed) => decline(Rule::AllowanceBalance),
        (LinkedEventFailed, ExceedsCredits | IdAlreadyFailed) => decline(Rule::AvailableCredit),
        (DebitAccountNotFound, LinkedEventFailed) => (None, 1000, 0),
        other => return fail(format!("TigerBeetle answers {other:?}")),
    };
    let transaction = transaction.map(i64::try_from).transpose()?;
    Ok(Verdict { transaction, response_code, failed_rules, allowance_balance: 0 })
}

fn card_account(pan_hash: u64) -> u128 {
    1 << 64 | u128::from(pan_hash)
}

fn account(id: u128, flags: AccountFlags) -> Account {
    Account { id, ledger: LEDGER, code: CODE, flags, ..Account::default() }
}

/// A transfer that is posted at once, named by the account that it funds.
fn funding(account: u128, amount_minor: i64) -> Outcome<Transfer> {
    Ok(Transfer {
        id: account,
        debit_account_id: FUNDING,
        credit_account_id: account,
        amount: u128::try_from(amount_minor)?,
        ledger: LEDGER,
        code: CODE,
        ..Transfer::default()
    })
}

/// The sum that these accounts hold.
fn pending(accounts: &[Account]) -> Outcome<i64> {
    let sum: u128 = accounts.iter().map(|account| account.debits_pending).sum();
    Ok(i64::try_from(sum)?)
}

#[cfg(test)]
mod tests {
    use cardswitch_benches::program::{CardDraw, Draws};

    use super::*;

    #[test]
    fn a_purchase_is_two_holds_whose_identifiers_ascend() {
        let mut draws = Draws::over(CardDraw::uniform(10), 1);
        let mut last = 1 << 65;
        for _ in 0..100 {
            let purchase = Purchase::from(draws.next_draw());
            let [card, company] = holds_of(&purchase).unwrap();
            assert!(last < card.id && card.id < company.id, "{last}, {card:?}, {company:?}");
            last = company.id;
            assert_eq!(card.flags, TransferFlags::Pending | TransferFlags::Linked);
            assert_eq!(company.flags, TransferFlags::Pending);
            assert_eq!((card.amount, company.debit_account_id), (company.amount, COMPANY));
            assert!(card.debit_account_id > FUNDING);
        }
        let refund = Purchase { amount_minor: -1, ..Purchase::from(draws.next_draw()) };
        assert!(holds_of(&refund).is_err());
    }

    #[test]
    fn a_refusal_has_the_reason_of_its_account() {
        use CreateTransferStatus::{ExceedsCredits, Exists, LinkedEventFailed};
        let verdict = |card, company| {
            let result = |status| CreateTransferResult {
                timestamp: 7,
                status,
                reserved: ::tigerbeetle::Reserved::default(),
            };
            verdict_of(&result(card), &result(company))
        };
        let repeat = verdict(Exists, LinkedEventFailed).unwrap();
        assert_eq!((repeat.transaction, repeat.response_code), (Some(7), 0));
        let over = verdict(ExceedsCredits, LinkedEventFailed).unwrap();
        assert_eq!((over.response_code, over.failed_rules), (1502, bit(Rule::AllowanceBalance)));
        let empty = verdict(LinkedEventFailed, ExceedsCredits).unwrap();
        assert_eq!((empty.response_code, empty.failed_rules), (1101, bit(Rule::AvailableCredit)));
        assert!(verdict(LinkedEventFailed, LinkedEventFailed).is_err());
    }
}
