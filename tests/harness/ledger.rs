//! The ledger by the switch's own word: the transactions of a card, as `/network/v1` lists them.

use serde_json::Value;

use crate::http_client::HttpClient;

/// One transaction of a card as the switch tells it. Amounts in minor units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkTransaction {
    /// Its id in `/v1`.
    pub transaction_id: String,
    /// The retrieval reference number of its authorization.
    pub rrn: String,
    /// `pending`, `completed`, `declined` or `canceled`.
    pub state: String,
    /// Its amount, whatever its sign.
    pub amount_minor: i64,
    /// The amount still held.
    pub held_minor: i64,
    /// The amount posted.
    pub posted_minor: i64,
    /// 0 or the code of the decline.
    pub response_code: i64,
    /// The authorization id of an approval.
    pub authorization_id: Option<String>,
}

/// Every transaction of a card, over as many pages as there are.
#[track_caller]
pub fn transactions_of_card(network_api: &HttpClient, card_id: &str) -> Vec<NetworkTransaction> {
    let mut found = Vec::new();
    loop {
        let offset = found.len();
        let path = format!("/network/v1/cards/{card_id}/transactions?limit=1000&offset={offset}");
        let page = network_api.when_led(|client| client.get(&path)).expect(200);
        let results = page["results"].as_array().expect("a list has results");
        found.extend(results.iter().map(parse_transaction));
        let count = page["count"].as_u64().expect("a list has a count");
        let count = usize::try_from(count).expect("a count fits");
        if found.len() >= count {
            assert_eq!(found.len(), count, "count and results of {card_id} disagree");
            return found;
        }
        assert!(!results.is_empty(), "an empty page before the end of {card_id}'s list");
    }
}

/// A JSON amount (number or numeric text) in hundredths.
#[track_caller]
pub fn minor(amount: &Value) -> i64 {
    let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
    let (negative, digits) = text.strip_prefix('-').map_or((false, text.as_str()), |d| (true, d));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    assert!(fraction.len() <= 2, "`{text}` has more than two decimals");
    let minor: i64 = format!("{whole}{fraction:0<2}").parse().expect("an amount is a number");
    if negative { -minor } else { minor }
}

fn parse_transaction(row: &Value) -> NetworkTransaction {
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    NetworkTransaction {
        transaction_id: text("transaction_id"),
        rrn: text("rrn"),
        state: text("state"),
        amount_minor: minor(&row["amount"]).abs(),
        held_minor: minor(&row["held"]),
        posted_minor: minor(&row["posted"]),
        response_code: row["response_code"].as_i64().unwrap_or_default(),
        authorization_id: row["authorization_id"].as_str().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_amounts_as_hundredths() {
        let rows = [
            (json!(12), 1200),
            (json!(12.5), 1250),
            (json!(-0.05), -5),
            (json!("100.00"), 10_000),
            (json!(0), 0),
        ];
        for (amount, expected) in rows {
            assert_eq!(minor(&amount), expected, "{amount}");
        }
    }
}
