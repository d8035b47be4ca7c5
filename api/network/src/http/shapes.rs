//! The bodies of this door as the published document shows them. `requests` reads and `answers`
//! writes them by hand, for speed; the tests of both and of the document hold these to them.

use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use uuid::Uuid;

use cardswitch_wire::amount::Amount;
use cardswitch_wire::words::{AmountGiven, Budget, Limit, RuleName, one_of};

/// The schema of digits: text, or a JSON integer with them.
fn digits(len_min: u32, len_max: u32) -> RefOr<Schema> {
    let least = if len_min > 1 { 10_usize.pow(len_min - 1) } else { 0 };
    ObjectBuilder::new()
        .schema_type(SchemaType::Array(vec![Type::String, Type::Integer]))
        .pattern(Some(format!("^[0-9]{{{len_min},{len_max}}}$")))
        .minimum(Some(least))
        .maximum(Some(10_usize.pow(len_max) - 1))
        .into()
}

fn trace_number() -> RefOr<Schema> {
    digits(1, 6)
}

fn acquirer() -> RefOr<Schema> {
    digits(1, 11)
}

fn transmission_time() -> RefOr<Schema> {
    digits(10, 10)
}

fn category_code() -> RefOr<Schema> {
    digits(1, 4)
}

fn presentment_count() -> RefOr<Schema> {
    digits(1, 2)
}

fn uses() -> RefOr<Schema> {
    let words = ["purchase", "single_message", "cash", "verification", "balance_inquiry"];
    one_of("What the card is used for.", words)
}

/// Who sells.
#[derive(ToSchema)]
pub(super) struct MerchantGiven {
    /// The merchant id: a number or text of at most 15 characters. Source: ISO DE42.
    #[schema(value_type = Option<String>, nullable = false, max_length = 15)]
    mid: Option<String>,
    /// The merchant category code.
    #[schema(schema_with = category_code, required = false)]
    mcc: Option<u16>,
    /// Its name.
    #[schema(nullable = false, max_length = 64)]
    name: Option<String>,
    /// Its city.
    #[schema(nullable = false, max_length = 64)]
    city: Option<String>,
    /// Its state.
    #[schema(nullable = false, max_length = 16)]
    state: Option<String>,
    /// Its country.
    #[schema(nullable = false, max_length = 3)]
    country: Option<String>,
    /// Its ZIP.
    #[schema(nullable = false, max_length = 16)]
    zip: Option<String>,
    /// The merchant id as a terminal sends it, where it is not `mid`.
    #[schema(nullable = false, max_length = 15)]
    card_acceptor_id: Option<String>,
}

/// The card, by number or id, and the credentials shown with it.
#[derive(ToSchema)]
pub(super) struct CardGiven {
    /// The card's number; this or `card_id`.
    #[schema(pattern = "^[0-9]{8,19}$")]
    card_number: Option<String>,
    /// The card's id.
    card_id: Option<Uuid>,
    /// Its expiration, of which year and month count.
    #[schema(nullable = false, pattern = "^[0-9]{4}-[0-9]{2}(-[0-9]{2})?$")]
    expiration: Option<String>,
    /// Its CVV.
    #[schema(nullable = false)]
    cvv: Option<String>,
    /// Its PIN.
    #[schema(nullable = false)]
    pin: Option<String>,
    /// The ZIP of its holder.
    #[schema(nullable = false, max_length = 16)]
    zip: Option<String>,
}

/// How a message is told from others.
#[derive(ToSchema)]
pub(super) struct TraceGiven {
    /// The trace number. Source: ISO DE11.
    #[schema(schema_with = trace_number, required = false)]
    stan: Option<String>,
    /// The retrieval reference number. Source: ISO DE37.
    #[schema(nullable = false, max_length = 12)]
    rrn: Option<String>,
    /// The acquirer. Source: ISO DE32.
    #[schema(schema_with = acquirer, required = false)]
    acquirer: Option<String>,
    /// `MMDDhhmmss`. Source: ISO DE7.
    #[schema(schema_with = transmission_time, required = false)]
    transmission_time: Option<String>,
    /// The terminal. Source: ISO DE41.
    #[schema(nullable = false, max_length = 8)]
    terminal: Option<String>,
    /// When it happens; only a switch on a manual clock heeds it.
    #[schema(nullable = false)]
    time: Option<String>,
}

/// The earlier purchase that a request is about.
#[derive(ToSchema)]
pub(super) struct OriginalGiven {
    /// Its transaction; this, or one of the others with a card.
    transaction_id: Option<Uuid>,
    /// Its authorization id. Source: ISO DE38.
    #[schema(nullable = false, pattern = "^[A-Za-z0-9]{6}$")]
    authorization_id: Option<String>,
    /// Its trace number.
    #[schema(schema_with = trace_number, required = false)]
    original_stan: Option<String>,
    /// Its transmission time.
    #[schema(schema_with = transmission_time, required = false)]
    original_transmission_time: Option<String>,
}

/// Money in the merchant's currency.
#[derive(ToSchema)]
pub(super) struct ForeignGiven {
    /// The currency of `amount`; the account's where there is none.
    #[schema(pattern = "^[A-Za-z]{3}$")]
    currency: Option<String>,
    /// The amount in the account's currency, needed where `currency` is another one.
    billing_amount: Option<Budget>,
}

/// An authorization: may this purchase be made?
#[derive(ToSchema)]
pub(super) struct AuthorizationRequest {
    /// What is asked for.
    #[schema(nullable = false)]
    amount: Option<Budget>,
    /// What the card is used for.
    #[schema(schema_with = uses, required = false)]
    kind: Option<String>,
    /// Whether the terminal can take a part.
    #[schema(nullable = false)]
    partial: Option<bool>,
    /// Who sells.
    merchant: Option<MerchantGiven>,
    #[serde(flatten)]
    card: CardGiven,
    #[serde(flatten)]
    foreign: ForeignGiven,
    #[serde(flatten)]
    trace: TraceGiven,
}

/// What was decided on the issuer's behalf, or the completion of a pending purchase.
#[derive(ToSchema)]
pub(super) struct AdviceRequest {
    /// What it is for.
    amount: Budget,
    /// Whether it was approved; true where it is absent.
    #[schema(nullable = false)]
    approved: Option<bool>,
    /// Who sells.
    merchant: Option<MerchantGiven>,
    #[serde(flatten)]
    card: CardGiven,
    #[serde(flatten)]
    foreign: ForeignGiven,
    #[serde(flatten)]
    trace: TraceGiven,
    #[serde(flatten)]
    original: OriginalGiven,
}

/// Gives back what a purchase holds.
#[derive(ToSchema)]
pub(super) struct ReversalRequest {
    /// How much is given back; all where this and `remaining` are absent.
    #[schema(nullable = false)]
    amount: Option<Limit>,
    /// How much stays.
    #[schema(nullable = false)]
    remaining: Option<Budget>,
    #[serde(flatten)]
    card: CardGiven,
    #[serde(flatten)]
    trace: TraceGiven,
    #[serde(flatten)]
    original: OriginalGiven,
}

/// Posts a purchase.
#[derive(ToSchema)]
pub(super) struct PresentmentRequest {
    /// What is posted; what is held where a transaction is named.
    #[schema(nullable = false)]
    amount: Option<Limit>,
    /// Which of several.
    #[schema(schema_with = presentment_count, required = false)]
    presentment_number: Option<u8>,
    /// How many there are.
    #[schema(schema_with = presentment_count, required = false)]
    presentment_count: Option<u8>,
    /// Who sells.
    merchant: Option<MerchantGiven>,
    #[serde(flatten)]
    card: CardGiven,
    #[serde(flatten)]
    foreign: ForeignGiven,
    #[serde(flatten)]
    trace: TraceGiven,
    #[serde(flatten)]
    original: OriginalGiven,
}

/// Gives money back for a purchase, or for none.
#[derive(ToSchema)]
pub(super) struct RefundRequest {
    /// What is given back.
    amount: Limit,
    /// Who sells; that of the purchase where one is named.
    merchant: Option<MerchantGiven>,
    #[serde(flatten)]
    card: CardGiven,
    #[serde(flatten)]
    foreign: ForeignGiven,
    #[serde(flatten)]
    trace: TraceGiven,
    #[serde(flatten)]
    original: OriginalGiven,
}

/// Adds to a pending purchase.
#[derive(ToSchema)]
pub(super) struct IncrementRequest {
    /// What is added.
    amount: Limit,
    /// Who sells.
    merchant: Option<MerchantGiven>,
    #[serde(flatten)]
    card: CardGiven,
    #[serde(flatten)]
    foreign: ForeignGiven,
    #[serde(flatten)]
    trace: TraceGiven,
    #[serde(flatten)]
    original: OriginalGiven,
}

/// The far end of a bank transfer.
#[derive(ToSchema)]
pub(super) struct BankAccountGiven {
    /// What the statement says.
    #[schema(nullable = false, max_length = 64)]
    description: Option<String>,
    /// Its name.
    #[schema(nullable = false, max_length = 64)]
    name: Option<String>,
    /// Its number.
    #[schema(nullable = false, max_length = 64)]
    number: Option<String>,
}

/// Money from the company's bank, or to it where the amount is below zero.
#[derive(ToSchema)]
pub(super) struct TransferRequest {
    /// The account.
    account_id: Uuid,
    /// How much; not 0.
    amount: AmountGiven,
    /// The far end.
    bank_account: Option<BankAccountGiven>,
    /// Whether it is posted at once.
    #[schema(nullable = false)]
    settled: Option<bool>,
    /// When it happens; only a switch on a manual clock heeds it.
    #[schema(nullable = false)]
    time: Option<String>,
}

/// Turns a manual clock: to `now`, or on by `advance`.
#[derive(ToSchema)]
pub(super) struct ClockRequest {
    /// The time it is to show.
    #[schema(nullable = false)]
    now: Option<String>,
    /// Seconds, or text such as `90s`, `15m`, `36h`, `7d`.
    #[schema(schema_with = span, required = false)]
    advance: Option<String>,
}

fn span() -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(SchemaType::Array(vec![Type::String, Type::Integer]))
        .pattern(Some("^[0-9]+[smhd]?$"))
        .minimum(Some(0_usize))
        .into()
}

/// The answer to an authorization, an increment or an advice.
#[derive(ToSchema)]
pub(super) struct AuthorizationAnswer {
    /// The transaction; null where none was made.
    transaction_id: Option<Uuid>,
    /// 0 where it was approved.
    response_code: u16,
    /// More on why not.
    sub_reason: Option<String>,
    /// Whether it was approved.
    approved: bool,
    /// How much of it.
    approved_amount: Amount,
    /// What later messages name it by.
    authorization_id: Option<String>,
    /// Every rule that failed, the deciding one first.
    failed_rules: Vec<RuleName>,
    /// What the allowance still has.
    allowance_balance: Option<Amount>,
}

/// The answer to a balance inquiry.
#[derive(ToSchema)]
pub(super) struct BalanceAnswer {
    /// 0 where it was approved.
    response_code: u16,
    /// Whether it was approved.
    approved: bool,
    /// Every rule that failed, the deciding one first.
    failed_rules: Vec<RuleName>,
    /// What the allowance still has.
    allowance_balance: Option<Amount>,
}

/// The answer to an authorization or a balance inquiry.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum CardUseAnswer {
    Authorization(AuthorizationAnswer),
    Balance(BalanceAnswer),
}

/// The answer to a reversal.
#[derive(ToSchema)]
pub(super) struct ReversalAnswer {
    /// The transaction; null where none is known.
    transaction_id: Option<Uuid>,
    /// 0 where it was reversed.
    response_code: u16,
    /// What came of it.
    #[schema(schema_with = reversal_outcomes)]
    outcome: String,
    /// How much was given back.
    given_back: Amount,
    /// How much is still held.
    remaining: Amount,
    /// What the allowance still has.
    allowance_balance: Option<Amount>,
}

fn reversal_outcomes() -> RefOr<Schema> {
    let words = ["reversed", "not_found", "nothing_held", "amount_out_of_range"];
    one_of("What came of it.", words)
}

/// The answer to a presentment or a refund.
#[derive(ToSchema)]
pub(super) struct PostingAnswer {
    /// The transaction; null where none is known.
    transaction_id: Option<Uuid>,
    /// 0 where it was posted.
    response_code: u16,
    /// What came of it.
    #[schema(schema_with = posting_outcomes)]
    outcome: String,
    /// How much was posted.
    posted: Amount,
    /// What the allowance still has.
    allowance_balance: Option<Amount>,
}

fn posting_outcomes() -> RefOr<Schema> {
    one_of("What came of it.", ["posted", "unknown_card", "not_found", "out_of_bounds"])
}

/// The answer to a transfer, and to its end.
#[derive(ToSchema)]
pub(super) struct TransferAnswer {
    /// The transaction.
    transaction_id: Option<Uuid>,
    /// 0 where it was approved.
    response_code: u16,
    /// Whether it was approved.
    approved: bool,
    /// What came of it.
    #[schema(schema_with = transfer_outcomes)]
    outcome: String,
    /// What the account still has.
    available_balance: Amount,
}

fn transfer_outcomes() -> RefOr<Schema> {
    one_of("What came of it.", ["in_transit", "settled", "returned", "declined"])
}
