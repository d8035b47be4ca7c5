//! The resources that people set up around cards: members, users, apps, dimensions, shared links,
//! requisitions, webhook endpoints; and keys that peers exchange. Only admin commands read them,
//! apart from a member's state.
//! The commands and rules of companies, cards, allowances, transactions and the key of card numbers
//! stand here, too. Their rows do not, since decisions read those.
//!
//! | file | contents |
//! |---|---|
//! | `row` | the traits of a row: its slot, its id, the entries of its indexes |
//! | `entry` | an index entry as bytes, the same in memory and in the tables |
//! | `rows` | the rows of one resource in memory, found by their indexes |
//! | `secret_rows` | rows without slots in memory, found by the digests of secrets |
//! | `change` | a change while its effects are chosen, and what rules may ask of the partition |
//! | one file a resource | its row, its indexes, its commands with their audit, their rules |
//! | `company`, `card`, `allowance`, `transaction`, `pan_key` | their commands and rules; their rows are in the domain |
//!
//! `each_resource!` is the one list of them. Records, replay, tables, restore, audit and hash are
//! generated from it.

pub mod access_token;
pub mod allowance;
pub mod app;
pub mod card;
pub(crate) mod change;
pub mod company;
pub mod dimension;
pub mod entry;
pub mod exchanged_key;
pub mod member;
pub mod pan_key;
pub mod requisition;
pub mod row;
pub mod rows;
pub mod secret_rows;
pub mod shared_link;
pub mod ticket;
pub mod transaction;
pub mod user;
pub mod webhook_endpoint;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::entry::{EntryBytes, Index, IndexKey as _};
use self::row::{CompanyRow, Row, SecretRow, SlotRow};
use self::rows::Rows;
use self::secret_rows::SecretRows;
use crate::domain::ids::{CompanySlot, Timestamp};

/// Hands the list of resources to a macro: the name of the rows, the file, the types of a row, of
/// its slot and of its commands; then the rows found by secrets, which have no slot. `of` names the
/// id by which callers find a row of their own company (`CompanyRow`). The order is part of the
/// record format.
macro_rules! each_resource {
    ($visit:ident) => {
        $visit! {
            members: member::Member(MemberSlot, MemberCommand),
            users: user::User(UserSlot, UserCommand),
            apps: app::App(AppSlot, AppCommand) of AppId,
            webhook_endpoints: webhook_endpoint::WebhookEndpoint(WebhookEndpointSlot, WebhookEndpointCommand) of WebhookEndpointId,
            dimensions: dimension::Dimension(DimensionSlot, DimensionCommand),
            shared_links: shared_link::SharedLink(SharedLinkSlot, SharedLinkCommand) of SharedLinkId,
            requisitions: requisition::Requisition(RequisitionSlot, RequisitionCommand) of RequisitionId,
            exchanged_keys: exchanged_key::ExchangedKey(ExchangedKeySlot, ExchangedKeyCommand),
            ;
            access_tokens: access_token::AccessToken(AccessTokenCommand),
            tickets: ticket::Ticket(TicketCommand),
        }
    };
}
pub(crate) use each_resource;

macro_rules! define_directory {
    (
        $($rows:ident: $file:ident::$row:ident($slot:ident, $_:ident) $(of $id:ident)?,)*;
        $($secrets:ident: $secret_file:ident::$secret:ident($__:ident),)*
    ) => {
        $(use self::$file::$row;)*
        $(use self::$secret_file::$secret;)*
        $(use crate::domain::ids::$slot;)*

        $($(impl CompanyRow for $row {
            type Id = crate::domain::ids::$id;

            const OF_COMPANY: Index<Self, CompanySlot> = Self::OF_COMPANY;

            fn company(&self) -> CompanySlot {
                self.company
            }
        })?)*

        define_directory! {
            $($rows: $row at slot,)*
            $($secrets: $secret at created_at digest,)*
        }

        $(impl SlotRow for $row {
            type Slot = $slot;

            fn slot(&self) -> $slot {
                self.slot
            }
        })*

        $(impl SecretRow for $secret {
            fn digest(&self) -> [u8; 32] {
                self.digest
            }
        })*

        impl DirectoryRow {
            /// The row's slot; none for a row found by a secret.
            pub const fn slot(&self) -> Option<u32> {
                match self {
                    $(Self::$row(row) => Some(row.slot.0),)*
                    $(Self::$secret(_) => None,)*
                }
            }
        }

        /// The rows of every resource in memory.
        #[derive(Clone, Debug, Default)]
        #[expect(missing_docs, reason = "each field holds the rows that it is named after")]
        pub struct Directory {
            $(pub $rows: Rows<$row>,)*
            $(pub $secrets: SecretRows<$secret>,)*
        }

        impl Directory {
            /// Removes the rows that expired at or before `at`. Cost: O(1) if none has.
            #[inline]
            pub fn forget_expired(&mut self, at: Timestamp) {
                $(self.$secrets.forget_expired(at);)*
            }
        }
    };
    ($($rows:ident: $row:ident at $($place:ident)+,)*) => {
        /// A row of any resource, as it stands after a change.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "each variant is the row that it is named after")]
        pub enum DirectoryRow {
            $($row(Box<$row>),)*
        }

        $(impl From<$row> for DirectoryRow {
            fn from(row: $row) -> Self {
                Self::$row(Box::new(row))
            }
        }

        impl Row for $row {
            const NAME: &'static str = stringify!($rows);

            fn append_place(&self, entry: &mut EntryBytes) {
                $(self.$place.append(entry);)+
            }

            fn id(&self) -> Uuid {
                self.id.0
            }

            fn created_at(&self) -> Timestamp {
                self.created_at
            }
        })*

        impl DirectoryRow {
            /// The name of its resource.
            pub const fn resource(&self) -> &'static str {
                match self {
                    $(Self::$row(_) => <$row as Row>::NAME,)*
                }
            }

            /// Its public id.
            pub const fn id(&self) -> Uuid {
                match self {
                    $(Self::$row(row) => row.id.0,)*
                }
            }
        }

        impl Directory {
            /// Puts a row in the place of the one before it.
            pub fn apply(&mut self, row: &DirectoryRow) {
                match row {
                    $(DirectoryRow::$row(row) => self.$rows.apply(row),)*
                }
            }
        }
    };
}
each_resource!(define_directory);
