//! ISO 8583 messages: the meaning of their bytes, and nothing of their processing in a switch.
//!
//! | file | what |
//! |---|---|
//! | `fields` | the table of all data elements (DE): format, content class, length, sensitivity |
//! | `mti`, `bitmap` | message type, presence bits |
//! | `frame`, `length_prefix` | messages out of a byte stream and back into it |
//! | `dialect`, `translation` | the ways counterparts spell messages, and between them and the default one |
//! | `codec`, `message` | borrowed decoding: no allocation for a good message |
//! | `builder`, `encode` | owned messages |
//! | `echo`, `repeated_fields`, `wire_runs`, `answer` | what an answer repeats of its request, and the answer |
//! | `describe` | a message as text, card data masked |
//! | `spelling` | what a stream seems to be that the dialect does not read |
//! | `text_line` | the line that an error in a text file names |
//! | the other files | the inner structure of one data element each |
//!
//! No dependencies, no I/O, no clock. INVARIANT: no input makes this crate panic or read outside the frame, and no
//! `Debug` or `Display` of it shows a card number, a CVV or a PIN.

pub mod additional_amounts;
pub mod alphabet;
pub mod answer;
pub mod bitmap;
pub mod builder;
pub mod codec;
pub mod describe;
pub mod dialect;
pub mod echo;
mod encode;
pub mod field_form;
pub mod fields;
pub mod frame;
mod layout;
pub mod length_prefix;
pub mod merchant_location;
pub mod message;
pub mod mti;
pub mod number;
pub mod original_data;
mod originals_1993;
pub mod pin_block;
pub mod private_use;
pub mod repeated_fields;
pub mod replacement_amounts;
pub mod spelling;
mod text_line;
pub mod track2;
mod translate_in;
mod translate_out;
pub mod translation;
mod wire_runs;

pub use additional_amounts::AdditionalAmount;
pub use alphabet::Alphabet;
pub use answer::AnswerMessage;
pub use bitmap::{Bitmap, BitmapEncoding};
pub use builder::MessageBuilder;
pub use codec::{DecodeError, DecodeFault, decode, with_plain_texts};
pub use describe::describe;
pub use dialect::{Dialect, FRAME_BYTES_MAX, Framing};
pub use echo::Echo;
pub use encode::EncodeError;
pub use fields::{Class, FIELDS, FieldSpec, Length, field};
pub use frame::{Frame, FramingLoss, Tpdu, next_frame, write_frame};
pub use length_prefix::LengthPrefix;
pub use merchant_location::MerchantLocation;
pub use message::Message;
pub use mti::Mti;
pub use original_data::OriginalData;
pub use pin_block::{Pin, decode_pin_block, encode_pin_block};
pub use private_use::{PresentmentSequence, PrivateUse, PrivateUseWriter};
pub use repeated_fields::RepeatedFields;
pub use spelling::Spelling;
pub use text_line::line_of;
pub use track2::Track2;
pub use translate_in::{TranslatedMessage, TranslationFault};
pub use translation::Translation;
