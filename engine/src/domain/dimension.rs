//! A category, department, label or location: what books sort cards and transactions by.

use serde::{Deserialize, Serialize};

use super::card::DimensionKind;
use super::ids::{CompanySlot, DimensionId, DimensionSlot, Timestamp};

/// An accounting dimension. Source: spec "Category, department, label, location".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimension {
    /// Where it stands.
    pub slot: DimensionSlot,
    /// Its public id.
    pub id: DimensionId,
    /// Whose it is.
    pub company: CompanySlot,
    /// Which of the four it is.
    pub kind: DimensionKind,
    /// What it is called.
    pub name: String,
    /// Digits that bookkeeping knows it by; unique within company and kind.
    pub code: Option<String>,
    /// What it is a part of: another of its company and kind.
    pub parent: Option<DimensionSlot>,
    /// Gone: whatever carried it carries it no more. Nothing else is rewritten for that.
    pub is_deleted: bool,
    /// When it was made.
    pub created_at: Timestamp,
}
