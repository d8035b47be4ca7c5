//! The texts above and below the rows of a statement, and the metadata of its file.

use cardswitch_engine::domain::company::{Address, Company};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_wire::currency::render_currency;
use cardswitch_wire::time::render_date;
use chrono::{DateTime, Utc};

use super::file::FileInfo;
use crate::export::Export;

/// The texts above and below the rows.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) company: String,
    pub(super) address: Vec<String>,
    pub(super) account: String,
    pub(super) number: String,
    pub(super) period: String,
    pub(super) currency: String,
    pub(super) drawn_at: String,
    created_at: DateTime<Utc>,
}

impl Head {
    /// The letterhead of a statement.
    pub(super) fn new(export: &Export) -> Self {
        let Export { company, account, period, .. } = export;
        Self {
            company: company.name.clone(),
            address: address_lines(company),
            account: account.name.clone(),
            number: account.number.clone(),
            period: format!("{} to {}", render_date(period.start), render_date(period.end)),
            currency: render_currency(account.currency),
            drawn_at: local_time(export.drawn_at, company),
            created_at: universal_time(export.drawn_at),
        }
    }

    /// The metadata that viewers show and libraries index.
    pub(super) fn file_info(&self) -> FileInfo {
        FileInfo {
            title: format!("Statement of account {}, {}", self.number, self.period),
            author: self.company.clone(),
            created_at: self.created_at,
        }
    }
}

fn address_lines(company: &Company) -> Vec<String> {
    let Address { address_1, address_2, city, state, zip_code, country, .. } =
        &company.billing_address;
    let street = joined(&[address_1, address_2], ", ");
    let place = joined(&[city, &joined(&[state, zip_code], " "), country], ", ");
    let lines = [street, place, company.website.clone()];
    lines.into_iter().filter(|line| !line.is_empty()).collect()
}

fn joined(parts: &[&str], between: &str) -> String {
    let parts: Vec<&str> =
        parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
    parts.join(between)
}

fn local_time(at: Timestamp, company: &Company) -> String {
    let local = universal_time(at).with_timezone(&company.zone);
    format!("{} ({})", local.format("%Y-%m-%d %H:%M"), company.zone)
}

fn universal_time(at: Timestamp) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(at.0).unwrap_or(DateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_leave_out_what_is_blank() {
        let text = |text: &str| text.to_owned();
        assert_eq!(joined(&[&text("1 Main St"), &text(" ")], ", "), "1 Main St");
        assert_eq!(joined(&[&text(""), &text("")], ", "), "");
        assert_eq!(joined(&[&text("Austin"), &text("TX 78701")], ", "), "Austin, TX 78701");
    }
}
