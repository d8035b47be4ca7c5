//! Postal addresses on the wire. Source: spec "Reference objects", address.

use cardswitch_engine::directory::card::CardDestination;
use cardswitch_engine::domain::company::{Address, Company};
use cardswitch_engine::domain::ids::CompanyId;
use cardswitch_engine::domain::text::LineText;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;
use uuid::Uuid;

use super::body::{line, rule, short_line};
use super::fault::Flaw;
use super::fields::{self, Fields};
use super::urls::Urls;
use crate::{bodies, words};

/// The most characters one line of an address has.
const LINE_CHARS_MAX: usize = 200;
/// The country of an address that names none.
const COUNTRY_DEFAULT: &str = "US";

/// An address as responses show it.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct AddressBody {
    /// Street and number.
    pub address_1: String,
    /// Second line, may be blank.
    pub address_2: String,
    /// City.
    pub city: String,
    /// State or province.
    pub state: String,
    /// Postal code.
    pub zip_code: String,
}

impl AddressBody {
    /// The address as it is shown.
    pub fn new(address: &Address) -> Self {
        Self {
            address_1: address.address_1.to_string(),
            address_2: address.address_2.to_string(),
            city: address.city.to_string(),
            state: address.state.to_string(),
            zip_code: address.zip_code.to_string(),
        }
    }
}

/// A company's shipping address as responses show it. Source: spec "Company", shipping_address.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct ShippingAddressBody {
    /// Its id.
    pub id: Uuid,
    /// Its address in this API.
    pub url: String,
    /// Addressee.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub attn: String,
    /// Street and number.
    pub address_1: String,
    /// Second line, may be blank.
    pub address_2: String,
    /// City.
    pub city: String,
    /// State or province.
    pub state: String,
    /// Postal code.
    pub zip_code: String,
    /// Two-letter country code.
    pub country: String,
}

impl ShippingAddressBody {
    /// The company's shipping address as it is shown.
    pub fn new(company: &Company, urls: &Urls) -> Self {
        let (id, address) = (shipping_address_id(company.id), company.shipping_address.clone());
        Self {
            id,
            url: urls.object("shipping-addresses", id),
            attn: address.attn.into(),
            address_1: address.address_1.into(),
            address_2: address.address_2.into(),
            city: address.city.into(),
            state: address.state.into(),
            zip_code: address.zip_code.into(),
            country: address.country.into(),
        }
    }
}

bodies! {
    /// An address as requests give it.
    NewAddress "NewAddress" |fields| _ = read_address(fields);
}

/// Shipping address of a physical card.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
pub enum NewShippingAddress {
    /// To this address.
    Address(NewAddress),
    /// To the company's own.
    Own(words::Reference),
}

/// The id of a company's one shipping address, derived from the company's.
pub fn shipping_address_id(company: CompanyId) -> Uuid {
    let digest = Sha256::new().chain_update(b"shipping address").chain_update(company.0).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Reads an address from the fields of an object.
pub fn read_address(fields: &mut Fields<'_>) -> Address {
    let country = rule(|_| json!({"type": "string", "pattern": "^[A-Za-z]{2}$"}), country);
    let blank = || short_line(LINE_CHARS_MAX);
    let given = || line(LINE_CHARS_MAX);
    let about = "Two-letter country code, `US` where there is none.";
    Address {
        attn: fields.patch("attn", "Addressee.", blank()).flatten().unwrap_or_default(),
        address_1: fields.must("address_1", "Street and number.", given()),
        address_2: fields.patch("address_2", "Second line.", blank()).flatten().unwrap_or_default(),
        city: fields.must("city", "City.", given()),
        state: fields.must("state", "State or province.", given()),
        zip_code: fields.must("zip_code", "Postal code.", given()),
        country: fields
            .patch("country", about, country)
            .flatten()
            .unwrap_or_else(|| LineText::spaced(COUNTRY_DEFAULT)),
    }
}

fn country(value: &serde_json::value::RawValue) -> Result<LineText, Flaw> {
    let code = fields::text(value).unwrap_or_default();
    if code.len() != 2 || !code.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Err(Flaw::new("not_a_country", "must be a country code of two letters"));
    }
    Ok(LineText::spaced(&code.to_ascii_uppercase()))
}

/// Reads where a physical card goes: an address, or a reference to the company's own.
pub fn read_shipping_address(fields: &mut Fields<'_>, company: CompanyId) -> CardDestination {
    if !fields.has("id") {
        return CardDestination::Address(read_address(fields));
    }
    if fields.optional("id", fields::id).is_some_and(|id| id != shipping_address_id(company)) {
        fields.fault("id", Flaw::not_found("shipping address"));
    }
    CardDestination::Company
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_street_city_state_and_zip() {
        let rows: &[(&str, &[&str])] = &[
            (r#"{"address_1":"1 A St","city":"B","state":"CA","zip_code":"94105"}"#, &[]),
            (
                r#"{"address_1":"1 A St","address_2":null,"city":"B","state":"CA",
                    "zip_code":"94105","country":"de","attn":"C"}"#,
                &[],
            ),
            ("{}", &["address_1", "city", "state", "zip_code"]),
            (
                r#"{"address_1":" ","city":5,"state":"CA","zip_code":"1","country":"USA"}"#,
                &["address_1", "city", "country"],
            ),
        ];
        for (json, expected) in rows {
            let mut fields = Fields::parse(json.as_bytes()).unwrap();
            read_address(&mut fields);
            let faults = fields.finish().err().unwrap_or_default();
            let names: Vec<_> = faults.iter().map(|fault| fault.param.as_str()).collect();
            assert_eq!(names, *expected, "{json}");
        }
    }

    #[test]
    fn a_shipping_address_has_one_id_for_ever() {
        let id = shipping_address_id(CompanyId(Uuid::nil()));
        assert_eq!(id, shipping_address_id(CompanyId(Uuid::nil())));
        assert_ne!(id, shipping_address_id(CompanyId(Uuid::max())));
    }
}
