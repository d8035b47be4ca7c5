//! ISO 8583:1987 messages: what bytes mean, and nothing of what a switch does with them.
//!
//! | file | what |
//! |---|---|
//! | `fields` | the table of all data elements (DE): format, content class, length, sensitivity |
//! | `mti`, `bitmap`, `dialect` | message type, presence bits, the ways counterparts spell them |
//! | `frame` | messages out of a byte stream and back into it |
//! | `codec`, `message` | borrowed decoding: no allocation for a good message |
//! | `builder`, `encode` | owned messages |
//! | `echo`, `answer` | what an answer repeats of its request, and the answer |
//! | `describe` | a message as text, card data masked |
//! | `spelling` | what a stream seems to be that the dialect does not read |
//! | the other files | the inner structure of one data element each |
//!
//! No dependencies, no I/O, no clock. INVARIANT: no input makes this crate panic or read outside the frame, and no
//! `Debug` or `Display` of it shows a card number, a CVV or a PIN.

pub mod additional_amounts;
pub mod answer;
pub mod bitmap;
pub mod builder;
pub mod codec;
pub mod describe;
pub mod dialect;
pub mod echo;
mod encode;
pub mod fields;
pub mod frame;
pub mod merchant_location;
pub mod message;
pub mod mti;
pub mod number;
pub mod original_data;
pub mod pin_block;
pub mod private_use;
pub mod replacement_amounts;
pub mod spelling;
pub mod track2;

pub use additional_amounts::AdditionalAmount;
pub use answer::Answer;
pub use bitmap::Bitmap;
pub use builder::MessageBuilder;
pub use codec::{DecodeError, DecodeFault, decode, with_plain_texts};
pub use describe::describe;
pub use dialect::{BitmapEncoding, Dialect, FRAME_BYTES_MAX, LengthPrefix};
pub use echo::Echo;
pub use encode::EncodeError;
pub use fields::{Class, FIELDS, FieldSpec, Length, field};
pub use frame::{Frame, FramingLoss, Tpdu, next_frame, write_frame};
pub use merchant_location::MerchantLocation;
pub use message::Message;
pub use mti::Mti;
pub use original_data::OriginalData;
pub use pin_block::{Pin, decode_pin_block, encode_pin_block};
pub use private_use::{PresentmentNumber, PrivateUse, PrivateUseWriter};
pub use spelling::Spelling;
pub use track2::Track2;
