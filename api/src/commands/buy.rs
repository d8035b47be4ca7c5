//! `cardswitch buy`: a purchase as a merchant makes it, through the ISO 8583 door, told in words.
//!
//! The card is looked up over HTTP, its number too: the switch is a simulation. The verdicts of the
//! rules are read from `/v1`, in the words of `explain`.

use std::time::Duration;

use cardswitch_acquiring::de39::De39;
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_feed::{MessageExchange, SendRequest, send};
use cardswitch_iso8583::MerchantLocation;
use cardswitch_wire::amount::parse_amount;
use cardswitch_wire::currency::{parse_currency, render_currency};
use chrono::Utc;
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Failure;
use super::remote_switch::{BuyersCard, RemotePage, RemoteSwitch, SwitchArgs};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// The acquirer that all purchases come from. Source: ISO DE32.
const ACQUIRER: &str = "400999";
/// The answers without a decision.
const UNDECIDED: [De39; 4] =
    [De39::FORMAT_ERROR, De39::NOT_TAKEN, De39::DUPLICATE_CONFLICT, De39::OUTCOME_UNKNOWN];
const MERCHANT_ID: &str = "CARDSWITCH-BUY";
/// The refusal of two amounts of one currency.
const ONE_CURRENCY: &str =
    "--billing is for a price in another currency than the account's: name that by --currency";

/// The arguments of `buy`.
#[derive(Debug, clap::Args)]
pub struct BuyArgs {
    /// Card: its id, its last four digits, or its description or a part of it
    #[arg(value_name = "CARD")]
    card: String,
    /// Price, such as 24.50
    #[arg(value_name = "AMOUNT")]
    amount: String,
    /// Currency of the price (ISO 4217); another than the account's needs --billing
    #[arg(long, default_value = "USD", value_name = "CODE")]
    currency: String,
    /// What the price is in the account's currency, where --currency is another
    #[arg(long, value_name = "AMOUNT")]
    billing: Option<String>,
    /// Currency of --billing, which is the account's
    #[arg(long, default_value = "USD", value_name = "CODE", requires = "billing")]
    billing_currency: String,
    /// Merchant category code (ISO 18245)
    #[arg(long, default_value_t = 5812, value_name = "MCC", value_parser = clap::value_parser!(u16).range(1..=9999))]
    mcc: u16,
    /// Name of the merchant
    #[arg(long, default_value = "Noodle bar", value_name = "NAME")]
    merchant: String,
    /// Then settle the purchase, for this amount
    #[arg(long, value_name = "AMOUNT", group = "then")]
    clear: Option<String>,
    /// Then reverse the purchase
    #[arg(long, group = "then")]
    reverse: bool,
    /// Then settle the purchase and give the money back
    #[arg(long, group = "then")]
    refund: bool,
    #[command(flatten)]
    at: SwitchArgs,
}

/// Carries out `buy`: prints what was decided.
/// Errors: no such card, no answer or none that decides, a decline before what was to follow.
pub async fn run(args: BuyArgs) -> Result<(), Failure> {
    let switch = RemoteSwitch::of(&args.at)?;
    let card = switch.find_card(&args.card).await?;
    let sale = Sale::new(&args, card)?;
    let cleared = args.clear.as_deref().map(|text| minor(text, sale.currency)).transpose()?;
    let answer = switch.send("0100", sale.purchase()).await?;
    let answered = answer.element(39).map(str::as_bytes);
    if let Some(code) = UNDECIDED.iter().find(|code| answered == Some(&code.0[..])) {
        return Err(Failure::new(format!("{}: {}", code.words(), refused(&answer))));
    }
    let is_approved = switch.tell(&answer, &args, &sale).await?;
    if !is_approved {
        return match cleared.is_some() || args.reverse || args.refund {
            true => {
                Err(Failure::new("a declined purchase cannot be cleared, reversed or refunded"))
            }
            false => Ok(()),
        };
    }
    // A purchase that was approved in part is worth no more.
    let held = answer.element(4).and_then(|amount| amount.parse().ok()).unwrap_or(sale.amount);
    if let Some(cleared) = cleared {
        switch.follow_up("0220", sale.later("000000", cleared), "cleared").await?;
    } else if args.reverse {
        switch.follow_up("0400", sale.later("000000", held), "reversed").await?;
    } else if args.refund {
        switch.follow_up("0220", sale.later("000000", held), "cleared").await?;
        switch.follow_up("0220", sale.refund(&answer, held), "refunded").await?;
    }
    Ok(())
}

/// An amount in minor units.
fn minor(text: &str, currency: CurrencyCode) -> Result<i64, Failure> {
    let code = render_currency(currency);
    let amount = parse_amount(text, currency).ok().filter(|amount| amount.is_positive());
    amount.map(|amount| amount.0).ok_or_else(|| {
        Failure::usage(format!("`{text}` is no amount: above 0, in {code}, such as 24.50"))
    })
}

fn currency(code: &str) -> Result<CurrencyCode, Failure> {
    parse_currency(code).ok_or_else(|| {
        Failure::usage(format!("`{code}` is no currency: three letters of ISO 4217"))
    })
}

/// The messages of one purchase.
struct Sale {
    card: BuyersCard,
    /// Its price. Units: minor units of `currency`.
    amount: i64,
    currency: CurrencyCode,
    /// The same in the currency of the account, where that is another one.
    billing: Option<(i64, CurrencyCode)>,
    mcc: u16,
    location: String,
    /// Not a number, so no other simulation takes it for its own. Source: ISO DE37.
    reference: String,
}

impl Sale {
    fn new(args: &BuyArgs, card: BuyersCard) -> Result<Self, Failure> {
        let (price, own) = (currency(&args.currency)?, currency(&args.billing_currency)?);
        let billing = args.billing.as_deref().map(|text| minor(text, own)).transpose()?;
        if billing.is_some() && price == own {
            return Err(Failure::usage(ONE_CURRENCY));
        }
        let place = MerchantLocation {
            name: &args.merchant,
            city: "San Francisco",
            state: "CA",
            country: "US",
        };
        let location = String::from_utf8(place.to_content().to_vec())?;
        let moment = Utc::now().timestamp_millis().rem_euclid(10_i64.pow(11));
        Ok(Self {
            card,
            amount: minor(&args.amount, price)?,
            currency: price,
            billing: billing.map(|billing| (billing, own)),
            mcc: args.mcc,
            location,
            reference: format!("B{moment:011}"),
        })
    }

    fn purchase(&self) -> Vec<(u8, String)> {
        let cvv = &self.card.cvv;
        let mut fields = self.later("000000", self.amount);
        fields.push((14, self.card.expiry.clone()));
        fields.push((48, format!("92{:02}{cvv}", cvv.len())));
        fields
    }

    /// A message about the purchase, which it names by acquirer and reference.
    fn later(&self, processing_code: &str, amount: i64) -> Vec<(u8, String)> {
        let mut fields = vec![
            (2, self.card.number.clone()),
            (3, processing_code.to_owned()),
            (4, amount.to_string()),
            (18, self.mcc.to_string()),
            (32, ACQUIRER.to_owned()),
            (37, self.reference.clone()),
            (42, MERCHANT_ID.to_owned()),
            (43, self.location.clone()),
            (49, self.currency.0.to_string()),
        ];
        if let Some((billing, currency)) = self.billing {
            fields.push((6, self.at_rate(amount, billing).to_string()));
            fields.push((51, currency.0.to_string()));
        }
        fields
    }

    /// An amount in the currency of the account, at the rate of the price, rounded up.
    fn at_rate(&self, amount: i64, billing: i64) -> i128 {
        let (product, price) = (i128::from(billing) * i128::from(amount), self.amount.into());
        product.div_euclid(price) + i128::from(product.rem_euclid(price) > 0)
    }

    /// Money back for the purchase: a transaction of its own, which names it by its authorization.
    fn refund(&self, approval: &MessageExchange, amount: i64) -> Vec<(u8, String)> {
        let mut fields = self.later("200000", amount);
        fields.retain(|(de, _)| *de != 37);
        fields.push((37, self.reference.replacen('B', "R", 1)));
        fields.extend(approval.element(38).map(|id| (38, id.to_owned())));
        fields
    }
}

impl RemoteSwitch {
    async fn send(&self, mti: &str, fields: Vec<(u8, String)>) -> Result<MessageExchange, Failure> {
        let request = SendRequest { mti: mti.to_owned(), fields };
        let line = self.line.clone();
        let sent = move || send(&line, &request, PATIENCE);
        let sent = tokio::task::spawn_blocking(sent).await??;
        match sent.answer {
            Some(_) => Ok(sent),
            None => Err(Failure::new("no answer came in time")),
        }
    }

    /// Sends a message about a purchase, and tells what came of it.
    /// Errors: it was refused.
    async fn follow_up(
        &self,
        mti: &str,
        fields: Vec<(u8, String)>,
        done: &str,
    ) -> Result<(), Failure> {
        let answer = self.send(mti, fields).await?;
        if answer.element(39) == Some("00") {
            println!("{done}");
            return Ok(());
        }
        Err(Failure::new(format!("not {done}: {}", refused(&answer))))
    }

    /// Tells what was decided on a purchase. Returns whether it was approved.
    async fn tell(
        &self,
        answer: &MessageExchange,
        args: &BuyArgs,
        sale: &Sale,
    ) -> Result<bool, Failure> {
        let is_approved = matches!(answer.element(39), Some("00" | "10"));
        let transaction = self.transaction(sale).await?;
        let BuyArgs { amount, currency, merchant, .. } = args;
        let verdict = match answer.element(39) {
            Some("00") => "approved".to_owned(),
            Some("10") => "approved in part".to_owned(),
            _ => format!("declined {}", refused(answer)),
        };
        println!("{verdict}: {amount} {currency} at {merchant} ({})", sale.mcc);
        let Some(transaction) = transaction else { return Ok(is_approved) };
        if let Some(id) = answer.element(38) {
            println!("authorization {id}, transaction {transaction}");
        } else {
            println!("transaction {transaction}");
        }
        if answer.element(39) != Some("00") && self.token.is_some() {
            self.explain(transaction).await?;
        }
        Ok(is_approved)
    }

    /// The transaction of the purchase; none where the message was refused before.
    async fn transaction(&self, sale: &Sale) -> Result<Option<Uuid>, Failure> {
        let path = format!("/network/v1/cards/{}/transactions?limit=100", sale.card.id);
        let page: RemotePage<NetworkRow> = self.of_network(&path).await?.unwrap_or_default();
        let own = page.results.into_iter().find(|row| row.rrn == sale.reference);
        Ok(own.map(|row| row.transaction_id))
    }

    /// Prints the rules that failed, and what would have satisfied them.
    async fn explain(&self, transaction: Uuid) -> Result<(), Failure> {
        let path = format!("/v1/transactions/{transaction}/decision");
        let Some(decision) = self.of_company::<Decision>(&path).await? else { return Ok(()) };
        for RuleRow { rule, explanation, .. } in decision.rules.iter().filter(|row| !row.passed) {
            println!("  {rule}: {explanation}");
        }
        if !decision.least_change.is_empty() {
            println!("To approve it in full:");
        }
        for RemedyRow { rule, text } in &decision.least_change {
            println!("  {rule}: {text}");
        }
        if let Some(amount) = decision.approvable_amount {
            println!("or request at most {amount}");
        }
        Ok(())
    }
}

/// A transaction as the network sees it.
#[derive(Deserialize)]
struct NetworkRow {
    transaction_id: Uuid,
    rrn: String,
}

/// A decision as `/v1` explains it.
#[derive(Deserialize)]
struct Decision {
    rules: Vec<RuleRow>,
    least_change: Vec<RemedyRow>,
    /// As it is written: no number in between.
    approvable_amount: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct RuleRow {
    rule: String,
    passed: bool,
    explanation: String,
}

#[derive(Deserialize)]
struct RemedyRow {
    rule: String,
    text: String,
}

/// The exact code and its reason, else the code of the network. Source: ISO DE44, DE39.
fn refused(answer: &MessageExchange) -> String {
    let detail = answer.element(44).map(str::trim).filter(|detail| !detail.is_empty());
    detail.or(answer.element(39)).unwrap_or("without a code").to_owned()
}
