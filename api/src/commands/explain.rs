//! `cardswitch explain`: why a transaction was approved or declined, from a directory at rest.

use std::path::PathBuf;

use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::decision::{
    DecisionMaker, Explanation, IncrementDecision, Quantity, RuleFinding, explain,
    explain_increment,
};
use cardswitch_engine::domain::allowance::Scope;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_engine::domain::public_id::IdMint;
use cardswitch_engine::domain::response_code::ResponseCode;
use cardswitch_engine::domain::transaction::TransactionFlags;
use cardswitch_engine::engine::PARTITION;
use cardswitch_engine::inspection::Inspection;
use cardswitch_engine::store::query::TransactionRow;
use cardswitch_secrets::master_key::data_key::open_keys;
use cardswitch_secrets::master_key::source::MasterKeyArgs;
use cardswitch_v1::routes::decision::{DecisionBody, INCREMENTS_MAX};
use cardswitch_wire::currency::render_currency;
use cardswitch_wire::explanation::Words;
use cardswitch_wire::glossary::{Audience, withdrawal_verdict};
use cardswitch_wire::urls::Urls;

use super::Failure;
use super::config_args::ConfigArgs;
use crate::opening::require_no_backup;

const COLUMNS: [&str; 6] = ["rule", "verdict", "input", "threshold", "used before", "used after"];

/// The arguments of `explain`.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// Data directory, not in use by a running switch
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    /// Transaction: its id
    #[arg(value_name = "TRANSACTION", value_parser = parse_id)]
    transaction: uuid::Uuid,
    #[command(flatten)]
    master_key: MasterKeyArgs,
    #[command(flatten)]
    config: ConfigArgs,
    /// Print one JSON object, that of GET /v1/transactions/:id/decision
    #[arg(long)]
    json: bool,
}

fn parse_id(text: &str) -> Result<uuid::Uuid, String> {
    text.parse().map_err(|_| "not an id: /v1/transactions lists them".to_owned())
}

/// Carries out `explain`; nothing in the directory changes.
pub fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let settings = args.config.read(&args.data)?;
    let ExplainedTransaction { row, increments, company } = find(args)?;
    if args.json {
        let urls = Urls::new(&settings.base_url_for(settings.http));
        let body = DecisionBody::new(&row, &increments, &company, &urls);
        println!("{}", serde_json::to_string(&body)?);
    } else {
        print!("{}", render(&row, &increments, &company));
    }
    Ok(())
}

/// The transaction to explain, and its company.
struct ExplainedTransaction {
    row: TransactionRow,
    increments: Vec<IncrementDecision>,
    company: Company,
}

/// Finds the transaction, its increments and its company.
fn find(args: &ExplainArgs) -> Result<ExplainedTransaction, Failure> {
    require_no_backup(&args.data)?;
    let inspection = Inspection::open(&args.data)?;
    let keys = open_keys(&args.data, &args.master_key.source())?;
    let id = TransactionId(args.transaction);
    let partition = u8::try_from(PARTITION)?;
    let cell = DataDirectory::cell_of(&args.data)?;
    let mint = IdMint::new(keys.secrets.id_key(), partition).in_cell(cell);
    let unknown = || Failure::new(format!("no transaction `{}`", args.transaction));
    let seq = mint.open_transaction_id(id).ok_or_else(unknown)?;
    let tables = inspection.read()?;
    let row = tables.transaction(seq)?;
    let row = row.filter(|row| row.record.id == id).ok_or_else(unknown)?;
    let increments = tables.increments(seq, INCREMENTS_MAX)?;
    let company = tables.company(row.record.company)?;
    Ok(ExplainedTransaction { row, increments, company: company.ok_or_else(unknown)? })
}

/// The printed text: the decision, a table of the rules, the least change; then the same of each
/// increment.
fn render(row: &TransactionRow, increments: &[IncrementDecision], company: &Company) -> String {
    let words = Words { currency: company.currency, zone: company.zone };
    let explanation = explain(&row.record, &row.progress, company.zone);
    let mut text = render_head(row, &explanation, &words);
    if !explanation.rules.is_empty() {
        text.push('\n');
        text.push_str(&render_table(&explanation, &words));
    }
    if row.record.facts.is_none() && explanation.decided_by == DecisionMaker::Rules {
        text.push_str("\nThe compared values were not kept for this decision.\n");
    }
    let scope = row.record.facts.map(|facts| facts.terms.scope).unwrap_or_default();
    text.push_str(&render_remedies(&explanation, &scope, &words));
    for (number, decision) in (1..).zip(increments) {
        text.push_str(&render_increment(number, decision, &words));
    }
    text
}

fn render_increment(number: usize, decision: &IncrementDecision, words: &Words) -> String {
    let explanation = explain_increment(decision, words.zone);
    let mut text = format!(
        "\nincrement {number}\ndecided      {}\nrequested    {} more on {} {}\nanswer       {}\n\n",
        words.instant(decision.decided_at),
        words.amount(decision.amount),
        words.amount(decision.added_to),
        render_currency(words.currency),
        render_answer(decision.failed_rules.response_code()),
    );
    text.push_str(&render_table(&explanation, words));
    text.push_str(&render_remedies(&explanation, &decision.facts.terms.scope, words));
    text
}

fn render_answer(response_code: ResponseCode) -> String {
    if response_code.is_approved() {
        "approved".to_owned()
    } else {
        format!("declined, {}", response_code.number())
    }
}

/// The answer to a transaction, with the amount where only a part was approved.
fn render_first_answer(row: &TransactionRow, explanation: &Explanation, words: &Words) -> String {
    if !row.progress.flags.contains(TransactionFlags::PARTIALLY_APPROVED) {
        return render_answer(row.record.response_code);
    }
    let part = explanation
        .approved_amount
        .map(|part| format!(", {} {}", words.amount(part), render_currency(words.currency)));
    format!("partially approved{}", part.unwrap_or_default())
}

fn render_head(row: &TransactionRow, explanation: &Explanation, words: &Words) -> String {
    let by = match explanation.decided_by {
        DecisionMaker::Rules => "by the rules",
        DecisionMaker::Network if !explanation.rules.is_empty() => {
            "by the network; the rules were evaluated but did not decide"
        }
        DecisionMaker::Network => "by the network; the rules were not evaluated",
        DecisionMaker::Transfer => "as a bank transfer; the rules of cards do not apply",
    };
    let (record, answer) = (&row.record, render_first_answer(row, explanation, words));
    format!(
        "transaction  {}\ndecided      {} {by}\nrequested    {} {}\nanswer       {answer}\n",
        record.id.0,
        words.instant(record.authorized_at),
        words.amount(record.requested),
        render_currency(words.currency),
    )
}

fn render_table(explanation: &Explanation, words: &Words) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    let cells = |finding| cells(finding, explanation.decided_by, words);
    rows.extend(explanation.rules.iter().map(cells));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; COLUMNS.len()] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let line = |row: &[String; COLUMNS.len()]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn cells(
    finding: &RuleFinding,
    decided_by: DecisionMaker,
    words: &Words,
) -> [String; COLUMNS.len()] {
    let shown = |quantity: Option<Quantity>| {
        quantity.map_or_else(|| "-".to_owned(), |quantity| words.quantity(&quantity))
    };
    let compared = finding.compared;
    let usage = compared.and_then(|compared| compared.usage);
    let input = match (compared, decided_by) {
        (Some(compared), _) => words.input(finding.rule, &compared.input),
        // Its figures are not kept, and the rule's name says credit, which does not count.
        (None, DecisionMaker::Transfer) => withdrawal_verdict(finding.passed).to_owned(),
        (None, _) => "-".to_owned(),
    };
    [
        finding.rule.name().to_owned(),
        if finding.passed { "pass" } else { "FAIL" }.to_owned(),
        input,
        shown(compared.and_then(|compared| compared.threshold)),
        shown(usage.map(|[before, _]| before)),
        shown(usage.map(|[_, after]| after)),
    ]
}

fn render_remedies(explanation: &Explanation, scope: &Scope, words: &Words) -> String {
    let mut text = String::new();
    if !explanation.remedies.is_empty() {
        text.push_str("\nTo approve it in full:\n");
    }
    for remedy in &explanation.remedies {
        text.push_str(&format!("  {}: {}\n", remedy.rule.name(), words.remedy(remedy, scope)));
    }
    if let Some(amount) = explanation.amount_at_most {
        text.push_str(&format!("or request at most {}\n", words.amount(amount)));
    }
    text
}
