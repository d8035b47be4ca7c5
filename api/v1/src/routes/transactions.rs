//! Transactions: card purchases and bank transfers, as they stand. Source: spec "Transactions".

use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, ListQuery, PathId};
use cardswitch_edge::json::Json;
use cardswitch_engine::domain::ids::{CardId, MemberId, TransactionId, TransactionSeq};
use cardswitch_engine::domain::merchant::Merchant;
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::domain::transaction::{
    BankAccount, TransactionKind, TransactionRecord, TransactionState,
};
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{
    ListPage, TransactionClasses, TransactionFilter, TransactionRow,
};
use cardswitch_identity::auth::Call;
use cardswitch_identity::state::AppState;
use cardswitch_wire::amount::Amount;
use cardswitch_wire::currency::render_currency;
use cardswitch_wire::page::{Listing, PageParameters, describe_ordering};
use cardswitch_wire::queries;
use cardswitch_wire::query::Query;
use cardswitch_wire::reference::{CardReference, DimensionReference, MemberReference};
use cardswitch_wire::time::render_time;
use cardswitch_wire::transaction::render_kind;
use cardswitch_wire::urls::Urls;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::dimensions::filter_dimensions;
use super::receipts::ReceiptBody;
use super::requisitions::RequisitionSummary;
use super::view::{View, list_view, read_view};
use crate::words;

/// The fields that a list can be ordered by: one instant under two names.
const ORDERINGS: &[&str] = &["created_at", "time"];

/// A transaction as responses show it. Source: spec "Transaction".
#[derive(Debug, Serialize, ToSchema)]
pub struct TransactionBody {
    pub(super) id: Uuid,
    pub(super) url: String,
    pub(super) amount: Amount,
    /// Amount asked for in the first message, in the merchant's currency. It stays when `amount` changes.
    foreign_amount: Option<Amount>,
    foreign_currency_code: Option<String>,
    #[schema(value_type = words::TransactionState)]
    pub(super) state: &'static str,
    card: Option<CardReference>,
    member: Option<MemberReference>,
    pub(super) category: Option<DimensionReference>,
    pub(super) department: Option<DimensionReference>,
    pub(super) location: Option<DimensionReference>,
    pub(super) label: Option<DimensionReference>,
    pub(super) receipt: Option<ReceiptBody>,
    pub(super) note: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) bank_account: Option<BankAccountBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) merchant: Option<MerchantBody>,
    /// The one that its card fulfils.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    requisition: Option<RequisitionSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    response_code: Option<u16>,
    pub(super) time: String,
    posted_at: Option<String>,
    created_at: String,
    /// Extension: what kind of movement it is.
    #[schema(value_type = words::TransactionKind)]
    kind: &'static str,
    /// Extension: every rule that failed, the deciding one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<words::RuleName>)]
    failed_rules: Vec<&'static str>,
    /// Extension: what reviewers look for.
    #[schema(value_type = Vec<words::TransactionFlag>)]
    flags: Vec<&'static str>,
    /// Extension: the purchase it gives money back for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    refund_of: Option<TransactionReference>,
}

/// The far end of a bank transfer.
#[derive(Debug, Serialize, ToSchema)]
pub struct BankAccountBody {
    description: String,
    name: String,
    number: String,
}

/// Merchant of a purchase. The ZIP has both names that clients know.
#[derive(Debug, Serialize, ToSchema)]
pub struct MerchantBody {
    mid: u64,
    mcc: Option<u16>,
    #[schema(value_type = String)]
    name: LineText,
    /// Card networks name no street.
    address: &'static str,
    #[schema(value_type = String)]
    city: LineText,
    #[schema(value_type = String)]
    state: LineText,
    #[schema(value_type = String)]
    zip: LineText,
    #[schema(value_type = String)]
    zip_code: LineText,
    #[schema(value_type = String)]
    country: LineText,
    /// Extension: the merchant id as the network sent it.
    #[schema(value_type = String)]
    card_acceptor_id: LineText,
}

/// Another transaction.
#[derive(Debug, Serialize, ToSchema)]
pub struct TransactionReference {
    id: Uuid,
    url: String,
}

impl TransactionBody {
    /// The transaction as it is shown.
    /// Errors: an object that it refers to cannot be read.
    pub fn new(row: &TransactionRow, view: &View<'_>) -> Result<Self, StoreError> {
        let (record, progress) = (&row.record, &row.progress);
        let [category, department, label, location] =
            view.dimension_references(&row.dimensions())?;
        let is_declined = progress.state == TransactionState::Declined;
        // SPEC: "Transaction": purchases are negative, refunds and transfers in are positive; the
        // engine counts from the merchant's side.
        let amount = -progress.amount(record.kind, record.requested);
        let time = render_time(record.authorized_at);
        Ok(Self {
            id: record.id.0,
            url: view.urls.object("transactions", record.id.0),
            amount: Amount::new(amount, view.company.currency),
            foreign_amount: foreign_amount(record),
            foreign_currency_code: record.foreign.map(|foreign| render_currency(foreign.currency)),
            state: progress.state.word(),
            card: view.card_reference(record.card)?,
            member: view.member_reference(record.member)?,
            category,
            department,
            location,
            label,
            receipt: row.receipt().map(|receipt| ReceiptBody::new(receipt, record.id, view.urls)),
            note: row.note().to_owned(),
            bank_account: record.bank_account.as_ref().map(BankAccountBody::new),
            merchant: record.merchant.as_ref().map(MerchantBody::new),
            requisition: view.requisition_of(record.card)?,
            response_code: is_declined.then(|| record.response_code.number()),
            time: time.clone(),
            posted_at: progress.shown_posted_at().map(render_time),
            created_at: time,
            kind: render_kind(record.kind),
            failed_rules: record.failed_rules.iter().map(|rule| rule.name()).collect(),
            flags: progress.flags.names().collect(),
            refund_of: refunded(record, view)?,
        })
    }
}

fn foreign_amount(record: &TransactionRecord) -> Option<Amount> {
    let foreign = record.foreign?;
    let is_refund = record.kind == TransactionKind::Refund;
    let amount = if is_refund { foreign.amount } else { -foreign.amount };
    Some(Amount::new(amount, foreign.currency))
}

fn refunded(
    record: &TransactionRecord,
    view: &View<'_>,
) -> Result<Option<TransactionReference>, StoreError> {
    let Some(seq) = record.refund_of else { return Ok(None) };
    let purchase = view.snapshot.transaction(seq)?;
    Ok(purchase.map(|row| TransactionReference::new(row.record.id, view.urls)))
}

impl TransactionReference {
    /// The reference to a transaction.
    pub fn new(id: TransactionId, urls: &Urls) -> Self {
        Self { id: id.0, url: urls.object("transactions", id.0) }
    }
}

impl BankAccountBody {
    fn new(account: &BankAccount) -> Self {
        Self {
            description: account.description.to_string(),
            name: account.name.to_string(),
            number: account.number.to_string(),
        }
    }
}

impl MerchantBody {
    pub(super) fn new(merchant: &Merchant) -> Self {
        Self {
            mid: merchant.mid,
            mcc: merchant.mcc.map(|mcc| mcc.0),
            name: merchant.name.clone(),
            address: "",
            city: merchant.city.clone(),
            state: merchant.state.clone(),
            zip: merchant.zip.clone(),
            zip_code: merchant.zip.clone(),
            country: merchant.country.clone(),
            card_acceptor_id: merchant.card_acceptor_id.clone(),
        }
    }
}

queries! {
    /// The filters of a list of transactions.
    TransactionFilters |query| _ = ListTransactionsRequest::parse(query);
}

/// The filters of GET /v1/transactions, read; ids stay ids until the tables are at hand.
#[derive(Debug)]
pub struct ListTransactionsRequest {
    card: Option<CardId>,
    member: Option<MemberId>,
    filter: TransactionFilter,
}

impl ListTransactionsRequest {
    /// Reads the filters; faults stay in the query.
    pub fn parse(query: &mut Query) -> Self {
        let before = query.time("before", "Authorized before this time.");
        let after = query.time("after", "Authorized at this time or after it.");
        let card = query.id("card", "Made with this card.").map(CardId);
        let member = query.id("member", "Of this member.").map(MemberId);
        let dimensions = filter_dimensions(query);
        let classes = parse_classes(query);
        let about = "By what the list is ordered; `-` for the newest first.";
        describe_ordering(query, about, "created_at|time", "-created_at");
        let filter = TransactionFilter {
            before,
            after,
            dimensions,
            classes,
            ..TransactionFilter::default()
        };
        Self { card, member, filter }
    }

    /// The filter as the tables take it; none where it names what is unknown.
    /// Errors: the tables cannot be read.
    pub fn resolve(&self, view: &View<'_>) -> Result<Option<TransactionFilter>, StoreError> {
        let mut filter = self.filter;
        if view.unknown_dimensions(&filter.dimensions)?.contains(&true) {
            return Ok(None);
        }
        if let Some(id) = self.card {
            let Some(card) = view.find_card(id)? else { return Ok(None) };
            filter.card = Some(card.profile.slot);
        }
        if let Some(id) = self.member {
            let Some(member) = view.find_member(id)? else { return Ok(None) };
            filter.member = Some(member.slot);
        }
        Ok(Some(filter))
    }
}

/// Extension: the filters by state and kind.
fn parse_classes(query: &mut Query) -> TransactionClasses {
    let about = "In one of these states; several with commas between them (extension).";
    let name = ("state", "transaction states");
    let states = query.words(name, about, &TransactionState::WORDS, TransactionState::parse);
    // Commas alone name no state, and ask for nothing.
    let mut classes = match states.is_empty() {
        true => TransactionClasses::ALL,
        false => TransactionClasses::in_states(&states),
    };
    let about = "Without declined ones, where `true` (extension).";
    if query.flag("exclude_declines", about) == Some(true) {
        classes = classes.without_declines();
    }
    let about = "Without checks of a card that moved no money, where `true` (extension).";
    if query.flag("exclude_verifications", about) == Some(true) {
        classes = classes.without_verifications();
    }
    classes
}

/// List transactions, declined ones too, the newest first.
#[utoipa::path(
    get, path = "/v1/transactions", params(PageParameters, TransactionFilters),
    responses((status = 200, body = Listing<TransactionBody>)),
)]
pub async fn list_transactions(
    call: Call,
    list: ListQuery,
) -> Answer<Json<Listing<TransactionBody>>> {
    list_view(&call, list, ORDERINGS, ListTransactionsRequest::parse, |view, request, page| {
        let Some(filter) = request.resolve(view)? else { return Ok(ListPage::EMPTY) };
        let found = view.snapshot.list_transactions(view.company.slot, &filter, page)?;
        found.load(|row| TransactionBody::new(&row, view))
    })
    .await
}

/// Retrieve a transaction.
#[utoipa::path(
    get, path = "/v1/transactions/{transaction_id}",
    responses((status = 200, body = TransactionBody)),
)]
pub async fn get_transaction(call: Call, PathId(id): PathId) -> Answer<Json<TransactionBody>> {
    read_transaction(&call, TransactionId(id)).await.map(Json)
}

/// Errors: the company has no such transaction.
pub(super) async fn read_transaction(
    call: &Call,
    id: TransactionId,
) -> Result<TransactionBody, ApiError> {
    let Call(state, _) = call;
    let seq = sequence_of(state, id)?;
    let body = read_view(call, |view| {
        let own = find_transaction(view, seq, id)?;
        own.map(|row| TransactionBody::new(&row, view)).transpose()
    });
    body.await?.ok_or_else(ApiError::not_found)
}

/// The sequence number in an id. Errors: a forged id, told from a real one without a look-up.
pub fn sequence_of(state: &AppState, id: TransactionId) -> Result<TransactionSeq, ApiError> {
    state.switch.engine.ids.open_transaction_id(id).ok_or_else(ApiError::not_found)
}

/// Finds a transaction of the company by its id and what the id says.
pub fn find_transaction(
    view: &View<'_>,
    seq: TransactionSeq,
    id: TransactionId,
) -> Result<Option<TransactionRow>, StoreError> {
    let row = view.snapshot.transaction(seq)?;
    Ok(row.filter(|row| row.record.company == view.company.slot && row.record.id == id))
}
