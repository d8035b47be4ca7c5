//! A requisition: a member asks to buy something, a reviewer approves or denies it.

use serde::{Deserialize, Serialize};

use super::card::Dimensions;
use super::ids::{CardSlot, CompanySlot, MemberSlot, RequisitionId, RequisitionSlot, Timestamp};
use super::money::Minor;

/// How far a requisition has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RequisitionStatus {
    /// Nobody has reviewed it.
    Pending,
    /// A card fulfils it.
    Approved,
    /// A reviewer said no, or its member left.
    Denied,
    /// It was taken back.
    Canceled,
}

/// A purchase request. Source: spec "Requisition".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requisition {
    /// Where it stands.
    pub slot: RequisitionSlot,
    /// Its public id.
    pub id: RequisitionId,
    /// Whose it is.
    pub company: CompanySlot,
    /// What is asked for, in the account's currency.
    pub amount: Minor,
    /// How far it has come.
    pub status: RequisitionStatus,
    /// When it was approved.
    pub approved_at: Option<Timestamp>,
    /// The card that fulfils it.
    pub card: Option<CardSlot>,
    /// What books sort it by.
    pub dimensions: Dimensions,
    /// What is to be bought.
    pub description: String,
    /// Until when it is to be bought.
    pub end_time: Option<Timestamp>,
    /// Who asks.
    pub member: MemberSlot,
    /// More about it.
    pub note: Option<String>,
    /// Who approved or denied it last.
    pub reviewed_by: Option<MemberSlot>,
    /// When it was made.
    pub created_at: Timestamp,
}
