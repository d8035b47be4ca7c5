//! Requests for consent, good and bad: the address and the content of the answer.

use cardswitch_engine::directory::member::{MemberRole, MemberState};
use cardswitch_engine::domain::card::Dimensions;
use cardswitch_engine::domain::company::{Address, VelocityLimits};
use cardswitch_engine::domain::hold_table::HoldTable;
use cardswitch_engine::domain::ids::{AppSlot, CompanyId, CompanySlot, MemberId, MemberSlot};
use cardswitch_engine::domain::money::CurrencyCode;
use uuid::Uuid;

use super::*;

const REDIRECT: &str = "https://app.example.com/callback";
const WITH_QUERY: &str = "https://app.example.com/back?tenant=7";
const ISSUER: &str = "https://cards.example.com";
const ISS: &str = "iss=https%3A%2F%2Fcards.example.com";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

fn app() -> App {
    App {
        slot: AppSlot(0),
        id: AppId(Uuid::from_u128(1)),
        company: CompanySlot(0),
        name: "Books".into(),
        website: "https://app.example.com".into(),
        secret_digest: [1; 32],
        redirect_urls: vec![REDIRECT.into(), WITH_QUERY.into()],
        revision: None,
        requested: AccessScope { admin: true, iam: true, ..AccessScope::default() },
        approved: AccessScope { admin: true, ..AccessScope::default() },
        is_bound: true,
        is_deleted: false,
        created_at: Timestamp(0),
    }
}

fn checked(query: &str) -> RequestCheck {
    QueryParameters::parse(query).check(Some(app()), ISSUER)
}

fn asked(query: &str) -> AuthorizationRequest {
    match checked(query) {
        RequestCheck::Ask(request) => *request,
        other => panic!("{query}: {other:?}"),
    }
}

#[test]
fn a_whole_request_is_put_before_a_member() {
    let whole = asked(&format!(
        "response_type=code&client_id=x&redirect_uri=https%3A%2F%2Fapp.example.com%2Fcallback\
         &scope=accountant,admin&state=a%26b+c&code_challenge={CHALLENGE}&code_challenge_method=S256"
    ));
    assert_eq!(whole.redirect_uri, REDIRECT);
    assert_eq!(whole.asked_redirect_uri.as_deref(), Some(REDIRECT));
    assert_eq!(scope::names(whole.scope), ["accountant", "admin"]);
    assert_eq!(whole.state.as_deref(), Some("a&b c"));
    assert_eq!(whole.code_challenge.as_deref(), Some(CHALLENGE));
}

#[test]
fn what_is_left_out_has_its_default() {
    let short = asked("response_type=code&redirect_uri=&scope=&state=&unknown=1&unknown=2");
    assert_eq!((short.redirect_uri.as_str(), short.asked_redirect_uri), (REDIRECT, None));
    assert_eq!(short.scope, AccessScope::default());
    assert_eq!((short.state, short.code_challenge), (None, None));
}

#[test]
fn nobody_is_sent_to_a_look_alike() {
    let look_alikes = [
        "https://app.example.com/Callback",
        "https://APP.example.com/callback",
        "HTTPS://app.example.com/callback",
        "http://app.example.com/callback",
        "https://app.example.com:443/callback",
        "https://app.example.com:8443/callback",
        "https://app.example.com/callback/",
        "https://app.example.com/callback/more",
        "https://app.example.com/callbackmore",
        "https://app.example.com/callback?next=https://evil.example",
        "https://app.example.com/callback#fragment",
        "https://app.example.com/callback#",
        "https://app.example.com/callback?",
        "https://app.example.com/x/../callback",
        "https://app.example.com%2Fcallback",
        "https://app.example.com/%63allback",
        "https://app.example.com//callback",
        "https://app.example.com\\callback",
        "https://app.example.com./callback",
        "https://app.example.com.evil.example/callback",
        "https://app.example.com@evil.example/callback",
        "https://evil.example\\@app.example.com/callback",
        "https://user@app.example.com/callback",
        "https://:@app.example.com/callback",
        "https://evil.example/https://app.example.com/callback",
        "https://app.example.com/callback\r\nlocation: https://evil.example",
        "https://app.example.com/callback\0",
        " https://app.example.com/callback",
        "https://app.example.com/callback ",
        "https://app.example.com/back",
        "https://app.example.com/back?tenant=8",
        "//app.example.com/callback",
        "/callback",
        "javascript:alert(1)",
        "https://аpp.example.com/callback",
    ];
    for uri in look_alikes {
        let mut query = form_urlencoded::Serializer::new(String::from("response_type=code"));
        query.append_pair("redirect_uri", uri);
        let told = checked(&query.finish());
        assert_eq!(told, RequestCheck::Page(PageFault::RedirectNotApproved), "{uri:?}");
    }
}

#[test]
fn what_leads_nowhere_safe_is_a_page() {
    let good = format!("redirect_uri={REDIRECT}");
    let rows = [
        ("client_id=a&client_id=a".to_owned(), PageFault::Repeated),
        (format!("{good}&{good}"), PageFault::Repeated),
        (format!("{good}&redirect_uri=https://evil.example"), PageFault::Repeated),
    ];
    for (query, fault) in rows {
        assert_eq!(checked(&format!("response_type=code&{query}")), RequestCheck::Page(fault));
    }
    let page = |app| QueryParameters::parse("response_type=token&scope=none").check(app, ISSUER);
    assert_eq!(page(None), RequestCheck::Page(PageFault::UnknownApp));
    let deleted = App { is_deleted: true, ..app() };
    assert_eq!(page(Some(deleted)), RequestCheck::Page(PageFault::UnknownApp));
    let nowhere = App { redirect_urls: Vec::new(), ..app() };
    assert_eq!(page(Some(nowhere)), RequestCheck::Page(PageFault::NoRedirectUrls));
}

#[test]
fn other_faults_are_told_at_the_apps_address() {
    let long = "s".repeat(STATE_BYTES_MAX + 1);
    let rows = [
        ("", "invalid_request"),
        ("response_type=", "invalid_request"),
        ("response_type=token", "unsupported_response_type"),
        ("response_type=code%20token", "unsupported_response_type"),
        ("response_type=CODE", "unsupported_response_type"),
        ("response_type=code&response_type=code", "invalid_request"),
        ("response_type=code&scope=none", "invalid_scope"),
        ("response_type=code&scope=everything", "invalid_scope"),
        ("response_type=code&scope=admin,iam", "invalid_scope"),
        ("response_type=code&scope=scim", "invalid_scope"),
        ("response_type=code&scope=&scope=admin", "invalid_request"),
        ("response_type=code&code_challenge=x&code_challenge_method=S256", "invalid_request"),
        ("response_type=code&code_challenge_method=S256", "invalid_request"),
        ("response_type=code&code_challenge_method=plain", "invalid_request"),
        (&format!("response_type=code&code_challenge={CHALLENGE}"), "invalid_request"),
        (
            &format!("response_type=code&code_challenge={CHALLENGE}&code_challenge_method=plain"),
            "invalid_request",
        ),
        (
            &format!("response_type=code&code_challenge={CHALLENGE}&code_challenge_method=s256"),
            "invalid_request",
        ),
        (&format!("response_type=code&state={long}"), "invalid_request"),
    ];
    for (query, error) in rows {
        let RequestCheck::Redirect(address) = checked(query) else { panic!("{query}") };
        let expected = format!("{REDIRECT}?error={error}&error_description=");
        assert!(address.starts_with(&expected), "{query}: {address}");
        assert!(!address.contains("state=") && address.contains(ISS), "{address}");
        let RequestCheck::Redirect(echoed) = checked(&format!("{query}&state=x%0d%0ay")) else {
            panic!("{query}")
        };
        let is_once = !query.contains("state=");
        assert_eq!(echoed.ends_with("&state=x%0D%0Ay"), is_once, "{echoed}");
    }
}

#[test]
fn answers_go_behind_what_the_address_has() {
    let plain = asked("response_type=code&state=a%26code%3Dx%23%22%3Cb%3E");
    assert_eq!(
        plain.granted("c0de"),
        format!("{REDIRECT}?code=c0de&{ISS}&state=a%26code%3Dx%23%22%3Cb%3E")
    );
    let with_query =
        asked("response_type=code&redirect_uri=https://app.example.com/back?tenant%3D7");
    assert_eq!(with_query.granted("c0de"), format!("{WITH_QUERY}&code=c0de&{ISS}"));
    assert_eq!(
        with_parameters("https://a.example/?", &[("code", "1")]),
        "https://a.example/?code=1"
    );
    let descriptions = [
        (GrantRefusal::Declined, "The+request+was+declined"),
        (GrantRefusal::NoAccount, "No+account"),
        (GrantRefusal::PendingApproval, "Pending+approval"),
        (GrantRefusal::NotAllowed, "The+member+may+not+authorize+this+request"),
    ];
    for (refusal, description) in descriptions {
        let told = format!("error=access_denied&error_description={description}");
        let expected = format!("{WITH_QUERY}&{told}&{ISS}");
        assert_eq!(with_query.refused(refusal), expected);
    }
}

pub(crate) fn company(state: CompanyState) -> Company {
    Company {
        slot: CompanySlot(0),
        id: CompanyId(Uuid::nil()),
        name: "Acme".into(),
        website: String::new(),
        zone: chrono_tz::UTC,
        currency: CurrencyCode(840),
        network: "visa".into(),
        velocity: VelocityLimits::default(),
        partial_approval: false,
        hold_table: HoldTable::default(),
        billing_address: Address::default(),
        shipping_address: Address::default(),
        state,
        created_at: Timestamp(0),
    }
}

fn member(role: MemberRole) -> Member {
    Member {
        slot: MemberSlot(0),
        id: MemberId(Uuid::nil()),
        company: CompanySlot(0),
        first_name: "Ada".into(),
        last_name: "Lovelace".into(),
        email: "ada@example.com".into(),
        role,
        code: None,
        state: MemberState::Active,
        dimensions: Dimensions::default(),
        external_id: None,
        created_at: Timestamp(0),
    }
}

/// A scope, the memberships of the user who is asked for it, and the number of those that may give
/// it.
type ConsentCase<'a> = (AccessScope, &'a [(CompanyState, MemberRole)], Result<usize, GrantRefusal>);

#[test]
fn only_administrators_and_accountants_of_approved_companies_grant() {
    use CompanyState::{Active, Closed, Pending};
    use MemberRole::{Accountant, Administrator, Member as Plain, Reviewer};
    let read = AccessScope::default();
    let admin = AccessScope { admin: true, ..read };
    let rows: [ConsentCase<'_>; 12] = [
        (read, &[], Err(GrantRefusal::NoAccount)),
        (read, &[(Closed, Administrator)], Err(GrantRefusal::NoAccount)),
        (read, &[(Pending, Administrator)], Err(GrantRefusal::PendingApproval)),
        (read, &[(Pending, Plain), (Closed, Administrator)], Err(GrantRefusal::PendingApproval)),
        (read, &[(Active, Plain)], Err(GrantRefusal::NotAllowed)),
        (read, &[(Active, Reviewer), (Pending, Administrator)], Err(GrantRefusal::NotAllowed)),
        (read, &[(Active, Accountant)], Ok(1)),
        (read, &[(Active, Administrator), (Active, Plain)], Ok(1)),
        (read, &[(Active, Administrator), (Active, Accountant)], Ok(2)),
        (admin, &[(Active, Accountant)], Err(GrantRefusal::NotAllowed)),
        (admin, &[(Active, Administrator), (Active, Accountant)], Ok(1)),
        (admin, &[(Pending, Administrator), (Active, Administrator)], Ok(1)),
    ];
    for (scope, memberships, expected) in rows {
        let whole: Vec<_> =
            memberships.iter().map(|(state, role)| (company(*state), member(*role))).collect();
        let found = find_grantable(scope, &whole).map(|found| found.len());
        assert_eq!(found, expected, "{scope:?} {memberships:?}");
    }
}
