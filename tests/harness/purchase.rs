//! A purchase as an acquirer tells it: builds its authorization, reversal and presentment messages.
//!
//! The same value always builds the same bytes, so that sending it again is a true duplicate.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::cards::TestCard;
use crate::message::Message;

static SERIALS: AtomicU32 = AtomicU32::new(1);

/// A trace number that none of the last million messages of this test process had.
/// Source: ISO DE11.
pub fn next_stan() -> u32 {
    stan_of(next_serial())
}

/// Reference numbers come from the serial number, which never wraps; trace numbers do.
fn next_serial() -> u32 {
    SERIALS.fetch_add(1, Ordering::Relaxed)
}

fn stan_of(serial: u32) -> u32 {
    serial % 1_000_000
}

/// One purchase. Fields are public: a test changes what it is about.
#[derive(Debug, Clone)]
pub struct Purchase {
    /// DE2.
    pub pan: String,
    /// DE3.
    pub processing_code: String,
    /// DE4, in minor units of the account's currency.
    pub amount_minor: u64,
    /// DE11.
    pub stan: u32,
    /// DE37, twelve characters.
    pub rrn: String,
    /// DE18; `None` leaves it out.
    pub mcc: Option<u16>,
    /// DE14, if the terminal sends it.
    pub expiry_yymm: Option<String>,
    /// DE48 sub-element 92, if the terminal sends it.
    pub cvv: Option<String>,
    /// DE48 sub-element 80, if the terminal sends it.
    pub zip: Option<String>,
    /// DE52, if the terminal sends it.
    pub pin: Option<String>,
    /// The first 22 characters of DE43.
    pub merchant_name: String,
}

impl Purchase {
    /// A purchase of groceries on `card`, without any credentials.
    pub fn of(card: &TestCard, amount_minor: u64) -> Self {
        let serial = next_serial();
        Self {
            pan: card.pan.clone(),
            processing_code: "000000".to_owned(),
            amount_minor,
            stan: stan_of(serial),
            rrn: format!("RRN{serial:09}"),
            mcc: Some(5411),
            expiry_yymm: None,
            cvv: None,
            zip: None,
            pin: None,
            merchant_name: "HARNESS GROCERY".to_owned(),
        }
    }

    /// The authorization request.
    /// Source: MTI 0100.
    pub fn request(&self) -> Message {
        let mut message = self.core("0100");
        message.set_optional(14, self.expiry_yymm.as_deref());
        message.set_optional(48, self.additional_data().as_deref());
        if let Some(pin) = &self.pin {
            message.set_bytes(52, &pin_block(pin, &self.pan));
        }
        message
    }

    /// The reversal of what `authorization_id` stands for, in full.
    /// Source: MTI 0400.
    pub fn reversal(&self, authorization_id: &str) -> Message {
        let mut message = self.core("0400");
        message.set(11, &format!("{:06}", next_stan()));
        message.set(38, authorization_id);
        message.set(90, &original_data(self.stan));
        message
    }

    /// A reversal after which `remaining_minor` stays held.
    /// Source: MTI 0400 with DE95.
    pub fn partial_reversal(&self, authorization_id: &str, remaining_minor: u64) -> Message {
        let mut message = self.reversal(authorization_id);
        message.set(95, &format!("{remaining_minor:012}{:030}", 0));
        message
    }

    /// The presentment of `amount_minor`, the only and final one.
    /// Source: MTI 0220.
    pub fn presentment(&self, authorization_id: &str, amount_minor: u64) -> Message {
        let mut message = self.core("0220");
        message.set(4, &format!("{amount_minor:012}"));
        message.set(11, &format!("{:06}", next_stan()));
        message.set(38, authorization_id);
        message
    }

    fn core(&self, mti: &str) -> Message {
        let mut message = Message::new(mti);
        message.set(2, &self.pan);
        message.set(3, &self.processing_code);
        message.set(4, &format!("{:012}", self.amount_minor));
        message.set(7, TRANSMITTED_AT);
        message.set(11, &format!("{:06}", self.stan));
        message.set(12, "120000");
        message.set(13, "0115");
        message.set_optional(18, self.mcc.map(|mcc| format!("{mcc:04}")).as_deref());
        message.set(22, "012");
        message.set(25, "00");
        message.set(32, ACQUIRER);
        message.set(37, &self.rrn);
        message.set(41, "HARNESS1");
        message.set(42, "000000000424242");
        message.set(43, &format!("{:<22}{:<13}{:<3}US", self.merchant_name, "SAN FRANCISCO", "CA"));
        message.set(49, "840");
        message
    }

    fn additional_data(&self) -> Option<String> {
        let sub_element = |tag: &str, value: &String| format!("{tag}{:02}{value}", value.len());
        let zip = self.zip.as_ref().map(|zip| sub_element("80", zip));
        let cvv = self.cvv.as_ref().map(|cvv| sub_element("92", cvv));
        let both: String = [zip, cvv].into_iter().flatten().collect();
        (!both.is_empty()).then_some(both)
    }
}

/// Stored by the switch, compared only as part of a key.
/// Source: ISO DE7.
const TRANSMITTED_AT: &str = "0115120000";

/// Source: ISO DE32.
const ACQUIRER: &str = "400001";

/// Names the authorization with this trace number.
/// Source: ISO DE90.
fn original_data(stan: u32) -> String {
    format!("0100{stan:06}{TRANSMITTED_AT}{ACQUIRER:0>11}{:011}", 0)
}

/// A PIN under no key, as a local run takes it.
/// Source: ISO 9564-1 format 0.
fn pin_block(pin: &str, pan: &str) -> [u8; 8] {
    let pin_field = format!("0{}{pin:F<14}", pin.len());
    let account_field = format!("0000{}", &pan[pan.len() - 13..pan.len() - 1]);
    let parse = |text: &str| u64::from_str_radix(text, 16).expect("sixteen hex digits");
    (parse(&pin_field) ^ parse(&account_field)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pin_block_agrees_with_the_example_of_the_standard() {
        let block = pin_block("1234", "43219876543210987");
        let expected = [0x04, 0x12, 0xAC, 0x89, 0xAB, 0xCD, 0xEF, 0x67];
        assert_eq!(block, expected);
    }

    #[test]
    fn original_data_is_forty_two_digits() {
        let data = original_data(7);
        assert_eq!(data.len(), 42);
        assert!(data.starts_with("0100000007011512000000000400001"), "{data}");
    }
}
