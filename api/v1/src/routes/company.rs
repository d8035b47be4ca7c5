//! The caller's company. Source: spec "Company".

use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, JsonBody};
use cardswitch_edge::json::Json;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand, VelocityChanges};
use cardswitch_engine::domain::company::{Company, SingleSignOn, VelocityLimits};
use cardswitch_identity::auth::Call;
use cardswitch_wire::address::ShippingAddressBody;
use cardswitch_wire::bodies;
use cardswitch_wire::body::{Parts, ValueRule, rule};
use cardswitch_wire::currency::render_currency;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::{self, Fields};
use cardswitch_wire::query::any_text;
use cardswitch_wire::time::render_time;
use cardswitch_wire::urls::Urls;
use cardswitch_wire::xml::is_well_formed;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::view::read_view;

/// The longest body of PUT /v1/company: metadata with every character escaped. Units: bytes.
pub const COMPANY_BODY_BYTES_MAX: usize = 512 * 1024;
/// The longest metadata of an identity provider. Units: bytes.
const IDP_METADATA_BYTES_MAX: usize = 128 * 1024;
/// The longest name of a domain. Source: RFC 1035, 2.3.4.
const DOMAIN_CHARS_MAX: usize = 253;
/// The longest part of a domain's name. Source: RFC 1035, 2.3.4.
const LABEL_CHARS_MAX: usize = 63;

/// A company as responses show it. Source: spec "Company".
#[derive(Debug, Serialize, ToSchema)]
pub struct CompanyBody {
    id: Uuid,
    url: String,
    name: String,
    website: String,
    /// The currency of its account (extension). Source: ISO 4217.
    currency: String,
    /// The zone of its days, periods and posting dates (extension). Source: IANA.
    time_zone: String,
    shipping_address: ShippingAddressBody,
    /// Single sign-on of its members; null for none.
    sso: Option<SingleSignOnBody>,
    /// Attempts of one card beyond which it looks like fraud.
    risk: RiskBody,
    created_at: String,
}

/// Velocity limits as responses show them.
#[derive(Debug, Serialize, ToSchema)]
pub struct RiskBody {
    /// Attempts in a sliding minute; null where they are not limited.
    #[schema(minimum = 1)]
    per_minute: Option<u16>,
    /// Attempts in a sliding hour; null where they are not limited.
    #[schema(minimum = 1)]
    per_hour: Option<u16>,
}

impl RiskBody {
    fn new(limits: VelocityLimits) -> Self {
        let shown = |limit: u16| (limit > 0).then_some(limit);
        Self { per_minute: shown(limits.per_minute), per_hour: shown(limits.per_hour) }
    }
}

/// Single sign-on as responses show it. Source: spec "Company", sso.
#[derive(Debug, Serialize, ToSchema)]
pub struct SingleSignOnBody {
    domain: String,
    idp_metadata: String,
}

impl CompanyBody {
    /// The company as it is shown.
    pub fn new(company: &Company, sso: Option<SingleSignOn>, urls: &Urls) -> Self {
        let sso = sso
            .map(|SingleSignOn { domain, idp_metadata }| SingleSignOnBody { domain, idp_metadata });
        Self {
            id: company.id.0,
            url: urls.path("/v1/company"),
            name: company.name.clone(),
            website: company.website.clone(),
            currency: render_currency(company.currency),
            time_zone: company.zone.name().to_owned(),
            shipping_address: ShippingAddressBody::new(company, urls),
            sso,
            risk: RiskBody::new(company.velocity),
            created_at: render_time(company.created_at),
        }
    }
}

/// Retrieve the company.
#[utoipa::path(get, path = "/v1/company", responses((status = 200, body = CompanyBody)))]
pub async fn get_company(call: Call) -> Answer<Json<CompanyBody>> {
    read_company(&call).await
}

async fn read_company(call: &Call) -> Result<Json<CompanyBody>, ApiError> {
    let body = read_view(call, |view| {
        // The caller's was read before what it asked for was done.
        let slot = view.company.slot;
        let company = view.snapshot.company(slot)?;
        let company = company.as_ref().unwrap_or(view.company);
        Ok(CompanyBody::new(company, view.snapshot.company_sso(slot)?, view.urls))
    });
    body.await.map(Json)
}

bodies! {
    /// Changes of a company.
    CompanyUpdate "CompanyUpdate" |fields| _ = parse_update(fields);
    /// Velocity limits as requests give them; null switches one off.
    RiskGiven "RiskGiven" |fields| _ = parse_risk(fields);
    /// Single sign-on as requests give it.
    SingleSignOnGiven "SingleSignOnGiven" |fields| _ = parse_sso(fields);
}

type Update = (Option<Option<SingleSignOn>>, Option<Option<VelocityChanges>>);

fn parse_update(fields: &mut Fields<'_>) -> Update {
    let about = "Single sign-on of its members; null ends it. Needs the scope `iam`.";
    let sso = fields.patch_object::<SingleSignOnGiven, _>("sso", about, parse_sso);
    let about = "Limits on attempts of one card; null switches both off. Needs the scope `admin`.";
    (sso, fields.patch_object::<RiskGiven, _>("risk", about, parse_risk))
}

/// Set up or end single sign-on; set velocity limits.
#[utoipa::path(
    put, path = "/v1/company", request_body = CompanyUpdate,
    responses((status = 200, body = CompanyBody)),
)]
pub async fn update_company(
    call: Call,
    body: JsonBody<COMPANY_BODY_BYTES_MAX>,
) -> Answer<Json<CompanyBody>> {
    let Call(state, caller) = &call;
    let mut fields = body.fields()?;
    for (name, scope, has_scope) in
        [("sso", "iam", caller.scope.iam), ("risk", "admin", caller.scope.admin)]
    {
        if fields.is_sent(name) && !has_scope {
            return Err(ApiError::scope_too_small(scope));
        }
    }
    let (sso, risk) = parse_update(&mut fields);
    fields.finish()?;
    // Null is no limit at all.
    let off = VelocityChanges { per_minute: Some(0), per_hour: Some(0) };
    let velocity = risk.map_or_else(VelocityChanges::default, |risk| risk.unwrap_or(off));
    if sso.is_some() || !velocity.is_empty() {
        let changes = CompanyChanges { sso, velocity, ..CompanyChanges::default() };
        state
            .carry_out(AdminCommand::Company(CompanyCommand::Update(caller.company.id, changes)))
            .await?;
    }
    read_company(&call).await
}

fn parse_risk(fields: &mut Fields<'_>) -> VelocityChanges {
    let mut limit = |name, about| {
        let range = |_: &mut Parts| json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": VelocityLimits::ATTEMPTS_MAX});
        fields.patch(name, about, rule(range, attempts)).map(Option::unwrap_or_default)
    };
    VelocityChanges {
        per_minute: limit(
            "per_minute",
            "Attempts in a sliding minute; counted from when a limit is set.",
        ),
        per_hour: limit(
            "per_hour",
            "Attempts in a sliding hour; after a change, those before count as far as the earlier limits needed them.",
        ),
    }
}

/// A number of attempts, above zero.
fn attempts(value: &RawValue) -> Result<u16, Flaw> {
    let range = 1..=VelocityLimits::ATTEMPTS_MAX;
    let flaw =
        || Flaw::new("out_of_range", format!("must be a whole number from 1 to {}", range.end()));
    value.get().parse().ok().filter(|limit| range.contains(limit)).ok_or_else(flaw)
}

fn parse_sso(fields: &mut Fields<'_>) -> SingleSignOn {
    let pattern = r"^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$";
    let domain = rule(move |_| json!({"type": "string", "pattern": pattern}), domain);
    let metadata = rule(|_| any_text(), idp_metadata).example("\"<EntityDescriptor/>\"");
    let about = "The identity provider's metadata: XML.";
    SingleSignOn {
        domain: fields.must("domain", "The domain of the members' addresses.", domain),
        idp_metadata: fields.must("idp_metadata", about, metadata),
    }
}

/// A domain's name in small letters, of two labels or more. Source: RFC 1123, 2.1.
fn domain(value: &RawValue) -> Result<String, Flaw> {
    let name = fields::text(value)?.to_ascii_lowercase();
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=LABEL_CHARS_MAX).contains(&label.len())
            && label.bytes().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_name = name.len() <= DOMAIN_CHARS_MAX && name.contains('.');
    if is_name && name.split('.').all(is_label) {
        return Ok(name);
    }
    Err(Flaw::new("not_a_domain", "must be the name of a domain, such as `example.com`"))
}

fn idp_metadata(value: &RawValue) -> Result<String, Flaw> {
    let text = fields::text(value)?;
    if text.len() > IDP_METADATA_BYTES_MAX {
        let message = format!("must have at most {IDP_METADATA_BYTES_MAX} bytes");
        return Err(Flaw::new("too_long", message));
    }
    if !is_well_formed(&text) {
        return Err(Flaw::new("not_xml", "must be well-formed XML without a document type"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_names_of_hosts() {
        let long = format!("{}.com", "a".repeat(64));
        let rows = [
            ("example.com", Ok("example.com")),
            ("Mail.Example.CO.UK", Ok("mail.example.co.uk")),
            ("xn--bcher-kva.example", Ok("xn--bcher-kva.example")),
            ("localhost", Err(())),
            ("example.com.", Err(())),
            (".example.com", Err(())),
            ("-a.com", Err(())),
            ("a b.com", Err(())),
            ("b\u{fc}cher.example", Err(())),
            ("https://example.com", Err(())),
            (long.as_str(), Err(())),
            ("", Err(())),
        ];
        for (text, expected) in rows {
            let quoted = format!("\"{text}\"");
            let value: &RawValue = serde_json::from_str(&quoted).unwrap();
            let read = domain(value).map_err(|_| ());
            assert_eq!(read.as_deref(), expected.as_ref().map(|name| *name), "{text}");
        }
    }
}
