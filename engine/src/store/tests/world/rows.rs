//! The resources of the imagined card program. Rows are drawn field by field, new ones and further
//! states of those there are, without a line for a resource: `fit` takes out what no shard would write.

use std::collections::BTreeMap;

use super::{COMPANIES, EMAILS, World};
use crate::command::effect::Effect;
use crate::directory::member::{Member, MemberState};
use crate::directory::{DirectoryRow, each_resource};
use crate::domain::card::DimensionKind;
use crate::domain::email::email_key;
use crate::domain::ids::*;
use crate::journal::testing::next_random;

macro_rules! define_draws {
    (
        $($rows:ident: $file:ident::$row:ident($slot:ident, $_:ident) $(of $id:ident)?,)*;
        $($secrets:ident: $secret_file:ident::$secret:ident($__:ident),)*
    ) => {
        /// Draws a row, for each resource.
        const DRAWS: &[fn(&mut World) -> DirectoryRow] = &[
            $(|world| {
                let mut row: crate::directory::$file::$row = world.draw();
                let known = &world.rows.$rows;
                (row.slot, row.created_at) = ($slot(u32::try_from(known.len()).unwrap()), world.at);
                if let Some(known) = one_of(&mut world.random, known) {
                    (row.slot, row.id, row.created_at) = (known.slot, known.id, known.created_at);
                }
                row.into()
            },)*
            $(|world| {
                let mut row: crate::directory::$secret_file::$secret = world.draw();
                row.created_at = world.at;
                if let Some(known) = one_of(&mut world.random, &world.rows.$secrets) {
                    (row.digest, row.id, row.created_at) = (known.digest, known.id, known.created_at);
                }
                row.into()
            },)*
        ];
    };
}
each_resource!(define_draws);

/// One of the rows, half of the time.
fn one_of<'r, K, R>(random: &mut u64, rows: &'r BTreeMap<K, R>) -> Option<&'r R> {
    let place = next_random(random) % (2 * rows.len() as u64).max(1);
    rows.values().nth(usize::try_from(place).unwrap())
}

impl World {
    pub(super) fn change_row(&mut self) {
        let resource = self.pick(DRAWS.len()).unwrap();
        let mut row = DRAWS[resource](self);
        self.fit(&mut row);
        self.rows.put(row.clone());
        self.record(vec![Effect::Row(row)]);
    }

    fn fit(&mut self, row: &mut DirectoryRow) {
        match row {
            DirectoryRow::Member(member) => self.fit_member(member),
            // Nobody else has the address, in any case and composition.
            DirectoryRow::User(user) => {
                let slot = user.slot.0;
                user.email = format!("{slot}{}", EMAILS[slot as usize % EMAILS.len()]);
            }
            // One of those that `dimension` names.
            DirectoryRow::Dimension(dimension) => {
                let slot = dimension.slot.0;
                dimension.id = super::dimension_at(slot);
                dimension.company = CompanySlot(slot % COMPANIES);
                dimension.kind = DimensionKind::ALL[slot as usize / 2 % 4];
            }
            DirectoryRow::ExchangedKey(exchanged) => {
                exchanged.key.door = format!("door-{}", exchanged.slot.0);
                exchanged.id = ExchangedKeyId::of(&exchanged.key.door, &exchanged.key.usage);
            }
            DirectoryRow::Ticket(ticket) => {
                let life = [60, 3_600, 43_200][usize::try_from(self.below(3)).unwrap()];
                ticket.expires_at = ticket.created_at.plus(life * Timestamp::SECOND);
            }
            _ => {}
        }
    }

    /// Gives a member one of few addresses now and then; who comes later with one in use is deleted.
    /// Members stay in their company.
    fn fit_member(&mut self, member: &mut Member) {
        if let Some(known) = self.rows.members.get(&member.slot.0) {
            member.company = known.company;
        }
        if let Some(email) = self.pick(2 * EMAILS.len()).and_then(|place| EMAILS.get(place)) {
            member.email = (*email).to_owned();
        }
        let key = email_key(&member.email);
        let is_used = self.rows.members.values().any(|other| {
            other.state != MemberState::Deleted
                && other.slot != member.slot
                && other.company == member.company
                && email_key(&other.email) == key
        });
        if is_used {
            member.state = MemberState::Deleted;
        }
    }

    pub(super) fn member_of(&mut self, company: CompanySlot) -> Option<MemberSlot> {
        let place = self.pick(self.rows.members.len())?;
        let member = self.rows.members.values().nth(place)?;
        (member.company == company).then_some(member.slot)
    }
}
