//! The tags that people set on a transaction: dimensions, a note, a receipt.
//!
//! A transaction begins with the dimensions of its card. Changes by hand are stored beside it,
//! field by field: later changes are merged over earlier ones.

use serde::{Deserialize, Serialize};

use super::card::Dimensions;
use super::changes::changes;
use super::ids::{DimensionId, ReceiptId, Timestamp};
use super::text::{LineText, ParagraphText};

changes! {
    /// The changes by hand; absent fields are as the transaction was made.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct TagChanges {
        /// Its note; may be blank.
        note: Option<ParagraphText>,
        /// Its receipt: one, or none after its removal.
        receipt: Option<Option<Receipt>>,
        /// Its dimensions, by kind: set, or cleared.
        dimensions: [Option<Option<DimensionId>>; 4],
    }
}

impl TagChanges {
    /// Merges a later change over this one.
    pub fn merge(&mut self, later: &Self) {
        for (mine, theirs) in self.dimensions.iter_mut().zip(later.dimensions) {
            *mine = theirs.or(*mine);
        }
        self.note = later.note.clone().or_else(|| self.note.take());
        self.receipt = later.receipt.clone().or_else(|| self.receipt.take());
    }

    /// The dimensions of a transaction that was made with the dimensions `made`.
    pub fn dimensions_over(&self, made: &Dimensions) -> Dimensions {
        let mut dimensions = *made;
        for (dimension, change) in dimensions.iter_mut().zip(self.dimensions) {
            *dimension = change.unwrap_or(*dimension);
        }
        dimensions
    }
}

/// The file types of receipts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReceiptType {
    /// image/png
    Png,
    /// image/jpeg
    Jpeg,
    /// application/pdf
    Pdf,
}

/// A receipt. Its content is a file of its own, durable before any record names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Its public id.
    pub id: ReceiptId,
    /// The name of its file.
    pub filename: LineText,
    /// The type of its file.
    pub content_type: ReceiptType,
    /// The length of its content. Units: bytes.
    pub size: u32,
    /// SHA-256 of its content, which names the file.
    pub digest: [u8; 32],
    /// Whether it was lost: then only this and its date are known.
    pub is_lost: bool,
    /// The time of upload.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_later_change_lies_over_an_earlier_one_field_by_field() {
        let (old, new) = (DimensionId(Uuid::from_u128(1)), DimensionId(Uuid::from_u128(2)));
        let mut tags = TagChanges {
            dimensions: [Some(Some(old)), Some(Some(old)), None, None],
            note: Some("lunch".parse().unwrap()),
            receipt: None,
        };
        tags.merge(&TagChanges {
            dimensions: [Some(Some(new)), None, Some(None), None],
            note: None,
            receipt: Some(None),
        });
        assert_eq!(tags.note.as_deref(), Some("lunch"));
        assert_eq!(tags.receipt, Some(None));
        let made = [None, None, Some(old), Some(new)];
        assert_eq!(tags.dimensions_over(&made), [Some(new), Some(old), None, Some(new)]);
        assert_eq!(TagChanges::default().dimensions_over(&made), made);
    }
}
