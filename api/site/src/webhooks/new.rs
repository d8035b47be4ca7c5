//! A new endpoint, and its secret, once. GET and POST /webhooks/new.

use askama::Template;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::app::App;
use cardswitch_engine::store::query::Page;
use cardswitch_identity::webhook_endpoints::{self, GivenEndpoint};
use cardswitch_wire::fault::Flaw;

use super::form::body_of;
use crate::apps::SecretPage;
use crate::choices::Choice;
use crate::faults::{Faults, with_status};
use crate::forms::{FormBody, SiteForm, TypedFields};
use crate::frame;
use crate::rights::{ActingMember, WebhookManager};

/// How many apps can be chosen from.
const APPS_MAX: usize = 100;

#[derive(Template)]
#[template(path = "webhooks/new.html")]
struct NewEndpointContent<'a> {
    csrf: String,
    company: &'a str,
    form: &'a TypedFields,
    faults: &'a Faults,
    address_hint: &'static str,
    apps: Vec<Choice>,
}

/// GET /webhooks/new.
pub(super) async fn show(WebhookManager(acting): WebhookManager) -> Result<Response, ApiError> {
    new_page(&acting, &TypedFields::default(), &Faults::default()).await
}

async fn new_page(
    acting: &ActingMember,
    form: &TypedFields,
    faults: &Faults,
) -> Result<Response, ApiError> {
    let company = &acting.company;
    let read = acting
        .state
        .switch
        .read(|snapshot| snapshot.list_own::<App>(company.slot, &Page::first(APPS_MAX)));
    let own = Choice {
        value: String::new(),
        label: format!("Transactions of {}", company.name),
        is_chosen: form.of("app").is_empty(),
    };
    let of_apps = read.await?.rows.into_iter().map(|app| Choice {
        label: format!("Transactions of all companies that allow {}", app.name),
        is_chosen: form.of("app") == app.id.0.to_string(),
        value: app.id.0.to_string(),
    });
    let apps = std::iter::once(own).chain(of_apps).collect();
    let csrf = acting.csrf();
    let address_hint = acting.state.webhooks.reach.hint();
    let content =
        NewEndpointContent { csrf, company: &company.name, form, faults, address_hint, apps };
    let page = frame::page("Add a webhook endpoint", content);
    Ok(with_status(page, faults.status))
}

/// POST /webhooks/new.
pub(super) async fn create(
    WebhookManager(acting): WebhookManager,
    SiteForm(form): SiteForm<TypedFields>,
) -> Result<Response, ApiError> {
    let acting = acting.without_claim();
    let body = FormBody::of(body_of(&form));
    let mut fields = body.fields()?;
    let given = GivenEndpoint::parse(&mut fields, acting.state.webhooks.reach);
    if !webhook_endpoints::is_own_app(&acting.state, &acting.company, given.app).await? {
        fields.fault("app", Flaw::not_found("app"));
    }
    let made = match fields.finish() {
        Ok(()) => webhook_endpoints::create(&acting.state, acting.company.id, given).await,
        Err(faults) => Err(ApiError::invalid(faults)),
    };
    match made {
        Ok((id, secret)) => {
            let shown = SecretPage {
                heading: "Endpoint added",
                text: "Events are sent to it from now on, signed with this secret.",
                shown: vec![("Signing secret", secret.text())],
                onward: format!("/webhooks/{}", id.0),
            };
            Ok(shown.page("Signing secret"))
        }
        Err(error) => new_page(&acting, &form, &Faults::of_refusal(error)?).await,
    }
}
