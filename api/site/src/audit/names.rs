//! The names of the actors and things that audit events hold by their ids.

use cardswitch_engine::directory::app::App;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::directory::requisition::Requisition;
use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::domain::audit::Actor;
use cardswitch_engine::domain::ids::{
    AccessTokenId, AllowanceId, AppId, CardId, DimensionId, MemberId, RequisitionId, SharedLinkId,
    TransactionId, UserId, WebhookEndpointId,
};
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::CardRow;
use cardswitch_identity::state::AppState;
use cardswitch_v1::routes::transactions::{find_transaction, sequence_of};
use cardswitch_v1::routes::view::View;
use uuid::Uuid;

use crate::words::{card_name, person, title};

/// A thing by name, and the page it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Thing {
    /// Its name; blank where it has no name, or is gone.
    pub(super) name: String,
    /// The path of its page.
    pub(super) path: Option<String>,
}

impl Thing {
    fn new(name: String, path: String) -> Self {
        Self { name, path: Some(path) }
    }

    fn named(name: String) -> Self {
        Self { name, path: None }
    }

    fn card(row: CardRow) -> Self {
        let card = row.profile;
        Self::new(card_name(&card), format!("/cards/{}", card.id.0))
    }
}

/// Declares the kinds of things: the name in audit events, the words of the filter where it offers the
/// kind, and the thing with an id, which is none where it is gone.
macro_rules! kinds {
    (
        |$state:ident, $view:ident, $id:ident|
        $($kind:literal $($plural:literal)? => $thing:expr,)+
    ) => {
        /// The kinds of things that a filter offers.
        pub(super) const KINDS: &[(&str, &str)] =
            &[("", "Everything"), $($(($kind, $plural),)?)+];

        /// The thing of a kind that has this id; without a name where it is gone.
        /// Errors: the tables cannot be read.
        pub(super) fn thing(
            ($state, $view): (&AppState, &View<'_>),
            kind: &str,
            $id: Uuid,
        ) -> Result<Thing, StoreError> {
            let found = match kind {
                $($kind => $thing,)+
                _ => None,
            };
            Ok(found.unwrap_or_default())
        }
    };
}

kinds! { |state, view, id|
    "card" "Cards" => view.find_card(CardId(id))?.map(Thing::card),
    "allowance" "Budgets and limits" => {
        view.snapshot.card_by_allowance_id(view.company.slot, AllowanceId(id))?.map(Thing::card)
    },
    "shared_link" "Shared links" => match view.find_shared_link(SharedLinkId(id))? {
        Some(link) => view.snapshot.card(link.card)?.map(Thing::card),
        None => None,
    },
    "transaction" "Transactions" => match sequence_of(state, TransactionId(id)) {
        Ok(seq) => find_transaction(view, seq, TransactionId(id))?
            .map(|row| Thing::new(title(&row.record), format!("/transactions/{id}"))),
        Err(_) => None,
    },
    "requisition" "Requisitions" => view
        .snapshot
        .own::<Requisition>(view.company.slot, RequisitionId(id))?
        .map(|row| Thing::new(row.description, format!("/requisitions/{id}"))),
    "member" "Members" => view
        .find_member(MemberId(id))?
        .map(|member| Thing::new(member_name(&member), format!("/members/{id}"))),
    "user" "Users" => user_name(view, UserId(id))?.map(Thing::named),
    "session" "Sessions" => None,
    "category" "Categories" => dimension(view, id)?,
    "department" "Departments" => dimension(view, id)?,
    "label" "Labels" => dimension(view, id)?,
    "location" => dimension(view, id)?,
    "app" "Apps" => view
        .snapshot
        .app_by_id(AppId(id))?
        .filter(|app| app.company == view.company.slot)
        .map(|app| Thing::new(app.name, format!("/apps/{id}"))),
    "access_token" "Access tokens" => {
        Some(Thing::named(token_name(view, AccessTokenId(id))?))
    },
    "webhook_endpoint" "Webhook endpoints" => view
        .snapshot
        .own::<WebhookEndpoint>(view.company.slot, WebhookEndpointId(id))?
        .map(|row| {
            let name = if row.description.is_empty() { row.url } else { row.description };
            Thing::new(name, format!("/webhooks/{id}"))
        }),
    "company" "Company" => Some(Thing::named(view.company.name.clone())),
}

fn dimension(view: &View<'_>, id: Uuid) -> Result<Option<Thing>, StoreError> {
    let row = view.snapshot.dimension_by_id(view.company.slot, DimensionId(id))?;
    Ok(row.map(|row| Thing::named(row.name)))
}

/// The actor's name, as people know it.
/// Errors: the tables cannot be read.
pub(super) fn actor_name(view: &View<'_>, actor: &Actor) -> Result<String, StoreError> {
    let snapshot = view.snapshot;
    Ok(match *actor {
        Actor::Operator => "Operator (CLI)".to_owned(),
        Actor::Switch => "The switch".to_owned(),
        Actor::User { id, member } => {
            match member.map_or(Ok(None), |member| view.find_member(member))? {
                Some(member) => member_name(&member),
                None => user_name(view, id)?.unwrap_or_else(|| "Deleted user".to_owned()),
            }
        }
        Actor::Token { id, .. } => token_name(view, id)?,
        Actor::App { id } => {
            let app = snapshot.app_by_id(id)?;
            app.map_or_else(|| "Deleted app".to_owned(), |app| format!("{} (app)", app.name))
        }
    })
}

/// The name of a user's member in the company, else the e-mail address: a name that users choose
/// themselves may be another person's. A closed account has no member: the address may be another's.
fn user_name(view: &View<'_>, id: UserId) -> Result<Option<String>, StoreError> {
    let Some(user) = view.snapshot.user_by_id(id)? else { return Ok(None) };
    let member = view.snapshot.member_by_email(view.company.slot, &user.email)?;
    let member = member.filter(|_| !user.is_closed);
    Ok(Some(member.map_or(user.email, |member| member_name(&member))))
}

/// The name of a token that nobody was granted.
const OPERATOR_TOKEN: &str = "Operator token";

fn token_name(view: &View<'_>, id: AccessTokenId) -> Result<String, StoreError> {
    let Some(token) = view.snapshot.any_access_token(id)? else {
        return Ok(OPERATOR_TOKEN.to_owned());
    };
    if !token.label().is_empty() {
        return Ok(format!("{} (token)", token.label()));
    }
    // A token that ended with its app is called by the app's name.
    let app = token.app().map_or(Ok(None), |app| view.snapshot.row::<App>(app))?;
    Ok(app.map_or_else(|| OPERATOR_TOKEN.to_owned(), |app| format!("{} (token)", app.name)))
}

/// A member's name.
pub(super) fn member_name(member: &Member) -> String {
    person(&member.first_name, &member.last_name, &member.email)
}
