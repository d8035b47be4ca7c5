//! A merchant as a card network names it.

use serde::{Deserialize, Serialize};

use super::text::LineText;

/// A merchant category code. Source: ISO 18245, ISO DE18.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mcc(pub u16);

impl Mcc {
    /// Manual and automated cash disbursement: a cash withdrawal, for any processing code.
    pub const CASH: [Self; 2] = [Self(6010), Self(6011)];
}

/// The merchant of a purchase. Source: ISO DE18, DE42, DE43; spec "Transaction", merchant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merchant {
    /// The merchant's number, derived at the edge if the network sends text.
    pub mid: u64,
    /// Its category, if the message names one.
    pub mcc: Option<Mcc>,
    /// The merchant id as sent.
    pub card_acceptor_id: LineText,
    /// Name.
    pub name: LineText,
    /// City.
    pub city: LineText,
    /// State or province, may be blank.
    pub state: LineText,
    /// Two-letter country code, may be blank.
    pub country: LineText,
    /// Postal code, may be blank.
    pub zip: LineText,
}
