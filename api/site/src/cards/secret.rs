//! The secrets with which a virtual card is used to pay: on the page of its number, and for guests.

use cardswitch_engine::domain::company::{Address, Company};
use cardswitch_engine::store::query::CardRow;

use cardswitch_edge::error::ApiError;
use cardswitch_identity::state::AppState;
use cardswitch_v1::routes::card_secrets::open_number;

use crate::words::in_fours;

/// Number, expiry, CVV and billing address.
pub(crate) struct CardSecret {
    /// The number as it is copied.
    pub(crate) number: String,
    /// The number in groups, as on a card.
    pub(crate) number_words: String,
    /// The expiry, such as `03/29`.
    pub(crate) expiry: String,
    /// The digits that are on the back of plastic.
    pub(crate) cvv: String,
    /// Line by line.
    pub(crate) address: Vec<String>,
}

impl CardSecret {
    /// Opens the number of a card.
    /// Errors: the company is closed, or the number was sealed with another key.
    pub(crate) fn open(
        state: &AppState,
        card: &CardRow,
        company: &Company,
    ) -> Result<Self, ApiError> {
        let (profile, record) = (&card.profile, &card.record);
        let pan = open_number(state, card, company)?;
        let number = pan.reveal();
        let address = profile.billing_address.as_ref();
        Ok(Self {
            number_words: in_fours(&number),
            number,
            expiry: record.expires_on.to_naive().format("%m/%y").to_string(),
            cvv: state.secrets.cvv(&pan).map(char::from).iter().collect(),
            address: address_lines(address.unwrap_or(&company.billing_address)),
        })
    }
}

/// An address as it is written on letters, without blank lines.
fn address_lines(address: &Address) -> Vec<String> {
    let place = format!("{} {} {}", address.city, address.state, address.zip_code);
    let lines = [&*address.address_1, &*address.address_2, &*place, &*address.country];
    lines.map(|line| line.trim().to_owned()).into_iter().filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_no_blank_lines() {
        let mut address = Address {
            address_1: "1 Main St".parse().unwrap(),
            address_2: " ".parse().unwrap(),
            city: "Austin".parse().unwrap(),
            state: "TX".parse().unwrap(),
            zip_code: "78701".parse().unwrap(),
            country: "US".parse().unwrap(),
            ..Address::default()
        };
        assert_eq!(address_lines(&address), ["1 Main St", "Austin TX 78701", "US"]);
        address.address_2 = "Floor 2".parse().unwrap();
        assert_eq!(address_lines(&address).len(), 4);
        assert!(address_lines(&Address::default()).is_empty());
    }
}
