//! The options of a company: `init` and `company add` take them for a new one, which has defaults,
//! and `company set` for a change, which leaves what is not named.

use std::str::FromStr;

use cardswitch_engine::domain::company::{Address, CompanyState, VelocityLimits};
use cardswitch_engine::domain::hold_table::HoldTable;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::text::LineText;
use cardswitch_wire::address::read_address;
use cardswitch_wire::amount::parse_amount;
use cardswitch_wire::currency::{exponent, render_currency};
use cardswitch_wire::fault::Fault;
use cardswitch_wire::fields::Fields;
use clap::builder::RangedI64ValueParser;
use serde::{Deserialize, Serialize};

use super::Failure;

/// How a company is described on the command line.
#[derive(Clone, Debug, clap::Args, Serialize, Deserialize)]
pub struct CompanyOptions {
    /// Name of the company; `Example Company` if it is new
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(super) name: Option<LineText>,
    /// Website of the company; `https://example.com` if it is new
    #[arg(long, value_name = "URL")]
    pub(super) website: Option<LineText>,
    /// Line of credit of its account; none if it is new
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
    credit_limit: Option<String>,
    /// Attempts one card may make in a minute, at most 1000; 0 switches the limit off
    #[arg(long, value_name = "N", value_parser = attempts())]
    pub(super) velocity_per_minute: Option<u16>,
    /// Attempts one card may make in an hour, at most 1000; 0 switches the limit off
    #[arg(long, value_name = "N", value_parser = attempts())]
    pub(super) velocity_per_hour: Option<u16>,
    /// Whether a purchase may be approved in part, where the terminal can take less; without a
    /// value, yes
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub(super) partial_approval: Option<bool>,
    /// Days that holds wait for their presentment: a number, then MERCHANTS=DAYS for a category or a
    /// group of /v1/merchant-categories, with commas between; blank for the usual ones, which are 7,
    /// and 30 for lodging and car rental. Holds that wait already keep their end
    #[arg(long, value_name = "DAYS")]
    pub(super) hold_days: Option<HoldTable>,
    /// Whether the company is approved: before that, its cards are declined and no app is let in
    #[arg(long, value_name = "BOOL")]
    approved: Option<bool>,
    /// Billing address of cards without one of their own: all of it, as a JSON object with address_1,
    /// city, state, zip_code and, if need be, attn, address_2 and country
    #[arg(long, value_name = "JSON")]
    billing_address: Option<String>,
    /// Name of the bank account that the money comes from; blank for none
    #[arg(long, value_name = "NAME")]
    pub(super) funding_source: Option<LineText>,
    /// Whether that bank account is verified
    #[arg(long, value_name = "BOOL")]
    pub(super) funding_verified: Option<bool>,
}

/// Reads a name, which tells companies apart for people.
fn parse_name(text: &str) -> Result<LineText, String> {
    if text.trim().is_empty() {
        return Err("write a name".to_owned());
    }
    text.parse().map_err(|error: <LineText as FromStr>::Err| error.to_string())
}

/// Reads a velocity limit.
fn attempts() -> RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(0..=i64::from(VelocityLimits::ATTEMPTS_MAX))
}

impl CompanyOptions {
    /// Errors: no amount of the currency, or below zero.
    pub(super) fn credit_limit(&self, currency: CurrencyCode) -> Result<Option<Minor>, Failure> {
        let limit = self.credit_limit.as_deref();
        limit.map(|text| read_amount("--credit-limit", text, currency)).transpose()
    }

    /// The state that approval, or its absence, puts the company into.
    pub(super) fn state(&self) -> Option<CompanyState> {
        let state = |approved| if approved { CompanyState::Active } else { CompanyState::Pending };
        self.approved.map(state)
    }

    /// The billing address, by the rules of the API.
    /// Errors: no JSON object, or a rule is broken.
    pub(super) fn billing_address(&self) -> Result<Option<Address>, Failure> {
        self.billing_address.as_deref().map(parse_address).transpose()
    }
}

/// The amount that the option `flag` gives.
/// Errors: none of the currency, or below zero.
pub(super) fn read_amount(
    flag: &str,
    text: &str,
    currency: CurrencyCode,
) -> Result<Minor, Failure> {
    let amount = parse_amount(text, currency).ok().filter(|amount| *amount >= Minor::ZERO);
    amount.ok_or_else(|| {
        let (code, decimals) = (render_currency(currency), exponent(currency));
        Failure::usage(format!(
            "`{text}` is no amount for {flag}: 0 or more, in {code} with up to {decimals} decimals"
        ))
    })
}

fn parse_address(text: &str) -> Result<Address, Failure> {
    let mut fields = Fields::parse(text.as_bytes())
        .ok_or_else(|| Failure::usage(format!("`{text}` is no JSON object: an address is one")))?;
    let address = read_address(&mut fields);
    fields.finish().map_err(|faults| {
        let told: Vec<_> = faults.iter().map(Fault::message).collect();
        Failure::usage(format!("--billing-address: {}", told.join(", ")))
    })?;
    Ok(address)
}
