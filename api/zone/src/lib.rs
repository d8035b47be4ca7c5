//! The cryptography that both ends of a line share: zone keys and their exchange, codes that
//! authenticate messages, PIN blocks under a zone key, cryptograms of chip cards.
//!
//! | file | contents |
//! |---|---|
//! | `key` | a key of TDES or AES, its check value |
//! | `key_block` | keys under other keys: TR-31, versions B and D |
//! | `key_file` | the keys of a door as its file has them |
//! | `mac`, `mac_place` | ISO 9797-1 algorithm 3, CMAC; the place of a code in a message |
//! | `pin` | ISO 9564 formats 0, 3 and 4 under a zone key |
//! | `chip`, `tlv` | ARQC and ARPC of EMV; the elements of DE55 |
//!
//! Keys are for tests: they are in memory, in no security module. No connection and no engine is known here.
//!
//! INVARIANT: no `Debug`, no error and no log line shows a key or a PIN.

pub mod chip;
pub mod key;
pub mod key_block;
pub mod key_file;
pub mod mac;
mod mac_place;
pub mod pin;
pub mod tlv;

pub use chip::{ChipData, IssuerKey, VerifiedCard};
pub use key::{Algorithm, KeyFault, ZoneKey};
pub use key_block::{KeyBlockFault, KeyUsage};
pub use key_file::{KeyFileError, ZoneKeys};
pub use mac::{MAC_BYTES, MacAlgorithm, MacKey};
pub use mac_place::MacPlace;
pub use pin::PinKey;
