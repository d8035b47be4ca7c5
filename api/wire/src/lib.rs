//! The texts of HTTP and their conversion to the engine's values: amounts, times, currencies,
//! fields of request bodies, query parameters, pages, addresses of objects.
//!
//! Everything here is pure: text in, values or faults out. Status codes live in `error.rs`.

pub mod address;
pub mod amount;
pub mod body;
pub mod currency;
pub mod disposition;
pub mod email;
pub mod error_codes;
pub mod explanation;
pub mod fault;
pub mod fields;
pub mod glossary;
pub mod json_keys;
pub mod page;
pub mod query;
pub mod reference;
mod settings;
pub mod time;
pub mod transaction;
pub mod urls;
pub mod words;
pub mod xml;
