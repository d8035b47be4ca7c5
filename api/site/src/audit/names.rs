//! What people call the actors and things that audit events name by their ids.

use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::audit::Actor;
use cardswitch_engine::domain::card::CardProfile;
use cardswitch_engine::domain::ids::{
    AccessTokenId, AllowanceId, AppId, CardId, DimensionId, MemberId, RequisitionId, SharedLinkId,
    TransactionId, UserId, WebhookEndpointId,
};
use cardswitch_engine::store::StoreError;
use cardswitch_identity::state::AppState;
use cardswitch_v1::routes::transactions::{find_transaction, sequence_of};
use cardswitch_v1::routes::view::View;
use uuid::Uuid;

use crate::words::{card_name, person, title};

/// A thing by name, and the page it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Thing {
    /// What it is called; blank where it has no name, or is gone.
    pub(super) name: String,
    /// Where its page is.
    pub(super) path: Option<String>,
}

impl Thing {
    fn new(name: String, path: String) -> Self {
        Self { name, path: Some(path) }
    }

    fn named(name: String) -> Self {
        Self { name, path: None }
    }
}

/// The thing of a kind that has this id; without a name where it is gone.
/// Errors: the tables cannot be read.
pub(super) fn thing(
    (state, view): (&AppState, &View<'_>),
    kind: &str,
    id: Uuid,
) -> Result<Thing, StoreError> {
    let (snapshot, company) = (view.snapshot, view.company.slot);
    let card = |card: CardProfile| Thing::new(card_name(&card), format!("/cards/{}", card.id.0));
    let found = match kind {
        "card" => view.find_card(CardId(id))?.map(|row| card(row.profile)),
        "allowance" => {
            let row = snapshot.card_by_allowance_id(company, AllowanceId(id))?;
            row.map(|row| card(row.profile))
        }
        "shared_link" => match snapshot.shared_link_by_id(company, SharedLinkId(id))? {
            Some(link) => snapshot.card(link.card)?.map(|row| card(row.profile)),
            None => None,
        },
        "member" => view
            .find_member(MemberId(id))?
            .map(|member| Thing::new(member_name(&member), format!("/members/{id}"))),
        "user" => snapshot
            .user_by_id(UserId(id))?
            .map(|user| Thing::named(person(&user.first_name, &user.last_name, &user.email))),
        "requisition" => {
            let row = snapshot.requisition_by_id(company, RequisitionId(id))?;
            row.map(|row| Thing::new(row.description, format!("/requisitions/{id}")))
        }
        "transaction" => match sequence_of(state, TransactionId(id)) {
            Ok(seq) => find_transaction(view, seq, TransactionId(id))?
                .map(|row| Thing::new(title(&row.record), format!("/transactions/{id}"))),
            Err(_) => None,
        },
        "category" | "department" | "label" | "location" => {
            let row = snapshot.dimension_by_id(company, DimensionId(id))?;
            row.map(|row| Thing::named(row.name))
        }
        "app" => {
            let row = snapshot.app_by_id(AppId(id))?.filter(|app| app.company == company);
            row.map(|app| Thing::new(app.name, format!("/apps/{id}")))
        }
        "webhook_endpoint" => {
            let row = snapshot.webhook_endpoint_by_id(company, WebhookEndpointId(id))?;
            row.map(|row| {
                let name = if row.description.is_empty() { row.url } else { row.description };
                Thing::new(name, format!("/webhooks/{id}"))
            })
        }
        "access_token" => Some(Thing::named(token_name(view, AccessTokenId(id))?)),
        "company" => Some(Thing::named(view.company.name.clone())),
        _ => None,
    };
    Ok(found.unwrap_or_default())
}

/// Who acted, by what people know them.
/// Errors: the tables cannot be read.
pub(super) fn actor_name(view: &View<'_>, actor: &Actor) -> Result<String, StoreError> {
    let snapshot = view.snapshot;
    Ok(match *actor {
        Actor::Operator => "Operator (CLI)".to_owned(),
        Actor::Switch => "The switch".to_owned(),
        Actor::User { id, .. } => {
            let user = snapshot.user_by_id(id)?;
            user.map_or_else(
                || "Deleted user".to_owned(),
                |user| person(&user.first_name, &user.last_name, &user.email),
            )
        }
        Actor::Token { id, .. } => token_name(view, id)?,
        Actor::App { id } => {
            let app = snapshot.app_by_id(id)?;
            app.map_or_else(|| "Deleted app".to_owned(), |app| format!("{} (app)", app.name))
        }
    })
}

fn token_name(view: &View<'_>, id: AccessTokenId) -> Result<String, StoreError> {
    let token = view.snapshot.any_access_token(id)?;
    let label = token.map(|token| token.label().to_owned()).filter(|label| !label.is_empty());
    Ok(label.map_or_else(|| "Operator token".to_owned(), |label| format!("{label} (token)")))
}

/// A member's name.
pub(super) fn member_name(member: &Member) -> String {
    person(&member.first_name, &member.last_name, &member.email)
}
