//! A company's data at one moment: the rows that rendering an object needs beyond its own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use cardswitch_engine::directory::dimension::Dimension;
use cardswitch_engine::directory::member::{Member, MemberState};
use cardswitch_engine::directory::shared_link::SharedLink;
use cardswitch_engine::domain::card::{DimensionKind, Dimensions};
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{
    CardId, CardSlot, DimensionId, MemberId, MemberSlot, SharedLinkId, Timestamp,
};
use cardswitch_engine::store::query::{CardRow, CardTables, ListPage, Page};
use cardswitch_engine::store::{Snapshot, StoreError};

use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, ListQuery};
use cardswitch_edge::json::Json;
use cardswitch_edge::lasting_access::LastingAccess;
use cardswitch_identity::actor_state::ActorState;
use cardswitch_identity::auth::Call;
use cardswitch_secrets::Secrets;
use cardswitch_secrets::link_secrets::{LinkKey, PassphraseField, open_passphrase};
use cardswitch_wire::page::{Listing, envelope, parse_page};
use cardswitch_wire::query::Query;
use cardswitch_wire::reference::{
    CardReference, DimensionReference, MemberReference, SharedLinkReference, render_last_four,
};
use cardswitch_wire::urls::Urls;

use super::requisitions::RequisitionSummary;

/// The tables as the caller's company sees them.
#[derive(Debug)]
pub struct View<'a> {
    /// The tables.
    pub snapshot: &'a Snapshot,
    /// The company whose objects are shown.
    pub company: &'a Company,
    /// The addresses of objects.
    pub urls: &'a Urls,
    /// The secrets that open the keys in shared links.
    pub secrets: &'a Secrets,
    /// Whether the caller may see shared links.
    pub shows_links: bool,
    /// The moment for which periods and days are shown.
    pub now: Timestamp,
    seen: References,
}

/// What was looked up for this view: the rows of a page name the same cards and people again and again.
#[derive(Debug, Default)]
struct References {
    /// Where cards are read, once one was.
    card_tables: RefCell<Option<CardTables>>,
    cards: ReferenceCache<CardSlot, CardReference>,
    members: ReferenceCache<MemberSlot, MemberReference>,
    dimensions: ReferenceCache<DimensionId, DimensionReference>,
    requisitions: ReferenceCache<CardSlot, RequisitionSummary>,
    /// Whether there is any; most companies have none.
    has_requisitions: Cell<Option<bool>>,
}

/// References by what they lead to; none where that is gone.
#[derive(Debug)]
struct ReferenceCache<K, R>(RefCell<BTreeMap<K, Option<R>>>);

impl<K, R> Default for ReferenceCache<K, R> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<K: Ord, R: Clone> ReferenceCache<K, R> {
    /// The reference to `key`, rendered once.
    fn get_or_render(
        &self,
        key: K,
        render: impl FnOnce() -> Result<Option<R>, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        if let Some(reference) = self.0.borrow().get(&key) {
            return Ok(reference.clone());
        }
        let reference = render()?;
        self.0.borrow_mut().insert(key, reference.clone());
        Ok(reference)
    }
}

/// Who reads a company's data and changes it, and the extent of the reading.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The state in the hands of the actor.
    pub state: &'a ActorState,
    /// The company whose objects are shown.
    pub company: &'a Company,
    /// Whether the caller may see shared links.
    pub shows_links: bool,
}

impl<'a> From<&'a Call> for Reader<'a> {
    fn from(Call(state, caller): &'a Call) -> Self {
        Self { state, company: &caller.company, shows_links: caller.scope.admin }
    }
}

impl<'a> Reader<'a> {
    fn view(self, snapshot: &'a Snapshot, now: Timestamp) -> View<'a> {
        View {
            snapshot,
            company: self.company,
            urls: self.state.urls(),
            secrets: &self.state.secrets,
            shows_links: self.shows_links,
            now,
            seen: References::default(),
        }
    }
}

/// Reads a company's data.
/// Errors: the tables cannot be read.
pub async fn read_view<'a, T: Send>(
    reader: impl Into<Reader<'a>>,
    read: impl FnOnce(&View<'_>) -> Result<T, StoreError> + Send,
) -> Result<T, ApiError> {
    let reader = reader.into();
    let now = reader.state.now();
    Ok(reader.state.switch.read(|snapshot| read(&reader.view(snapshot, now))).await?)
}

/// Reads lists of the caller's company.
/// Errors: those of `read_lists_during`.
pub async fn read_lists<T: Send>(
    call: &Call,
    read: impl Fn(&View<'_>) -> Result<T, StoreError> + Send,
) -> Result<T, ApiError> {
    read_lists_during((call.into(), call.1.lasting_access(&call.0.switch)), read).await
}

/// Reads a company's lists. If they turn out to be long, `read` begins again, apart from others'
/// requests.
/// Errors: the tables cannot be read; the access ended before that.
pub async fn read_lists_during<T: Send>(
    (reader, access): (Reader<'_>, LastingAccess),
    read: impl Fn(&View<'_>) -> Result<T, StoreError> + Send,
) -> Result<T, ApiError> {
    let now = reader.state.now();
    let lists = |snapshot: &Snapshot| read(&reader.view(snapshot, now));
    let listed = reader.state.switch.read_lists((reader.company.slot, access), lists).await?;
    listed.ok_or_else(ApiError::unauthorized)
}

/// The field that most lists can be ordered by.
pub(super) const BY_CREATION: &[&str] = &["created_at"];

/// Reads the filters of a list that has none.
pub(super) const fn unfiltered(_: &mut Query) {}

/// Answers with a page of a list that can be ordered by `orderings`: `parse` reads its filters, and
/// `find` its rows.
/// Errors: faults of the query; the tables cannot be read.
pub(super) async fn list_view<F: Send + Sync, T: Send>(
    call: &Call,
    ListQuery { mut query, address }: ListQuery,
    orderings: &[&str],
    parse: impl FnOnce(&mut Query) -> F,
    find: impl Fn(&View<'_>, &F, &Page) -> Result<ListPage<T>, StoreError> + Send + Sync,
) -> Answer<Json<Listing<T>>> {
    let page = parse_page(&mut query, orderings);
    let filters = parse(&mut query);
    query.finish()?;
    let listed = read_lists(call, |view| find(view, &filters, &page)).await?;
    Ok(Json(envelope(listed, &page, &address, call.0.urls())))
}

impl View<'_> {
    /// Finds a card of the company.
    pub fn find_card(&self, id: CardId) -> Result<Option<CardRow>, StoreError> {
        self.snapshot.card_by_id(self.company.slot, id)
    }

    /// Finds a member of the company, one that was deleted too.
    pub fn find_member(&self, id: MemberId) -> Result<Option<Member>, StoreError> {
        self.snapshot.member_by_id(self.company.slot, id)
    }

    /// Whether cards can be assigned to this member; to nobody they always can.
    pub fn is_assignable(&self, id: Option<MemberId>) -> Result<bool, StoreError> {
        let Some(id) = id else { return Ok(true) };
        let member = self.find_member(id)?;
        Ok(member.is_some_and(|member| member.state == MemberState::Active))
    }

    /// Whether a card can be assigned to this member, or is already, be the member active or not.
    pub fn can_hold(&self, id: Option<MemberId>, card: CardId) -> Result<bool, StoreError> {
        let holder = self.find_card(card)?.and_then(|card| card.profile.assigned_to);
        let holder = holder.map(|slot| self.snapshot.row::<Member>(slot)).transpose()?.flatten();
        let is_holder = id.is_some() && holder.map(|member| member.id) == id;
        Ok(is_holder || self.is_assignable(id)?)
    }

    /// The reference to a member.
    pub fn member_reference(
        &self,
        slot: Option<MemberSlot>,
    ) -> Result<Option<MemberReference>, StoreError> {
        let Some(slot) = slot else { return Ok(None) };
        self.seen.members.get_or_render(slot, || {
            let member = self.snapshot.row::<Member>(slot)?;
            Ok(member.map(|member| MemberReference::new(&member, self.urls)))
        })
    }

    /// The reference to a card.
    pub fn card_reference(
        &self,
        slot: Option<CardSlot>,
    ) -> Result<Option<CardReference>, StoreError> {
        let Some(slot) = slot else { return Ok(None) };
        self.seen.cards.get_or_render(slot, || {
            let mut tables = self.seen.card_tables.borrow_mut();
            let tables = match &mut *tables {
                Some(opened) => opened,
                unopened => unopened.insert(self.snapshot.card_tables()?),
            };
            tables.look_at(slot, |card| CardReference {
                id: card.profile.id.0,
                url: self.urls.object("cards", card.profile.id.0),
                state: card.record.usage.state.word(),
                description: card.profile.texts.description().to_owned(),
                last_four: render_last_four(card.profile.last_four),
            })
        })
    }

    /// The requisition that a card fulfils.
    pub(super) fn requisition_of(
        &self,
        card: Option<CardSlot>,
    ) -> Result<Option<RequisitionSummary>, StoreError> {
        let Some(card) = card else { return Ok(None) };
        if !self.has_requisitions()? {
            return Ok(None);
        }
        self.seen.requisitions.get_or_render(card, || {
            let requisition = self.snapshot.requisition_of_card(card)?;
            Ok(requisition.map(|row| RequisitionSummary::new(row, self.company.currency)))
        })
    }

    fn has_requisitions(&self) -> Result<bool, StoreError> {
        let known = self.seen.has_requisitions.get();
        let found = known.map_or_else(|| self.snapshot.has_requisitions(self.company.slot), Ok)?;
        self.seen.has_requisitions.set(Some(found));
        Ok(found)
    }

    /// The public id of a card.
    pub fn card_id(&self, slot: CardSlot) -> Result<CardId, StoreError> {
        let card = self.snapshot.card(slot)?;
        card.map(|card| card.profile.id)
            .ok_or_else(|| StoreError::Inconsistent { what: format!("no card at {}", slot.0) })
    }

    /// Finds a shared link of the company that was not deleted.
    pub fn find_shared_link(&self, id: SharedLinkId) -> Result<Option<SharedLink>, StoreError> {
        self.snapshot.own(self.company.slot, id)
    }

    /// The newest link by which a card is shared, for callers who may see links. A link shows its
    /// card to any holder, so not every token may read it.
    pub fn shared_link_of(
        &self,
        card: CardSlot,
    ) -> Result<Option<SharedLinkReference>, StoreError> {
        if !self.shows_links {
            return Ok(None);
        }
        let link = self.snapshot.shared_link_of_card(card)?;
        link.map(|link| {
            Ok(SharedLinkReference {
                id: link.id.0,
                url: self.urls.object("shared-links", link.id.0),
                link: self.link_address(&link)?,
            })
        })
        .transpose()
    }

    /// The address under which anyone can see a shared card.
    /// Errors: its key was not sealed here.
    pub fn link_address(&self, link: &SharedLink) -> Result<String, StoreError> {
        let key = LinkKey::open(self.secrets, link.id, &link.sealed_key).ok_or_else(not_ours)?;
        Ok(self.urls.shared_link(&key.text()))
    }

    /// The passphrase of a shared card; none where it needs none.
    /// Errors: it was not sealed here.
    pub fn passphrase_of(
        &self,
        link: &SharedLink,
    ) -> Result<Option<Vec<PassphraseField>>, StoreError> {
        let Some(sealed) = &link.sealed_passphrase else { return Ok(None) };
        open_passphrase(self.secrets, link.id, sealed).map(Some).ok_or_else(not_ours)
    }

    /// Finds a category, department, label or location of the company that is not deleted.
    pub fn find_dimension(
        &self,
        kind: DimensionKind,
        id: DimensionId,
    ) -> Result<Option<Dimension>, StoreError> {
        let found = self.live_dimension(id)?;
        Ok(found.filter(|dimension| dimension.kind == kind))
    }

    /// For each dimension, whether it is not the company's, or not of its kind, or deleted.
    pub fn unknown_dimensions(&self, wanted: &Dimensions) -> Result<[bool; 4], StoreError> {
        let mut is_unknown = [false; 4];
        for ((kind, id), is_unknown) in
            DimensionKind::ALL.into_iter().zip(wanted).zip(&mut is_unknown)
        {
            if let Some(id) = id {
                *is_unknown = self.find_dimension(kind, *id)?.is_none();
            }
        }
        Ok(is_unknown)
    }

    /// The references to dimensions. A deleted dimension shows as none: its deletion leaves the
    /// objects that carry it untouched.
    pub fn dimension_references(
        &self,
        dimensions: &Dimensions,
    ) -> Result<[Option<DimensionReference>; 4], StoreError> {
        let mut references = [const { None }; 4];
        for (id, reference) in dimensions.iter().zip(&mut references) {
            *reference = self.dimension_reference(*id)?;
        }
        Ok(references)
    }

    /// The reference to a category, department, label or location; none where it was deleted.
    pub fn dimension_reference(
        &self,
        id: Option<DimensionId>,
    ) -> Result<Option<DimensionReference>, StoreError> {
        let Some(id) = id else { return Ok(None) };
        self.seen.dimensions.get_or_render(id, || {
            let found = self.live_dimension(id)?;
            Ok(found.map(|dimension| DimensionReference::new(&dimension, self.urls)))
        })
    }

    fn live_dimension(&self, id: DimensionId) -> Result<Option<Dimension>, StoreError> {
        let found = self.snapshot.dimension_by_id(self.company.slot, id)?;
        Ok(found.filter(|dimension| !dimension.is_deleted))
    }
}

fn not_ours() -> StoreError {
    StoreError::Inconsistent { what: "a shared link was sealed with another key".to_owned() }
}
