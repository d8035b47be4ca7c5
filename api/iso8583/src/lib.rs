//! ISO 8583:1987 codec.
