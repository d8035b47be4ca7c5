//! No text comes into the engine unchecked: commands carry lines and paragraphs, whose types cannot hold
//! characters that steer. The plain strings that commands carry are all listed here, each with what
//! keeps it plain; another one is a failure of this test, and is to be a `LineText`.

use std::collections::BTreeSet;

/// Files all of whose types are commands or parts of them.
const COMMANDS: [&str; 2] =
    [include_str!("../../src/command/admin.rs"), include_str!("../../src/command/network.rs")];
const ACCESS_TOKEN: &str = include_str!("../../src/directory/access_token.rs");
const ALLOWANCE: &str = include_str!("../../src/directory/allowance.rs");
const APP: &str = include_str!("../../src/directory/app.rs");
const CARD: &str = include_str!("../../src/directory/card.rs");
const COMPANY: &str = include_str!("../../src/directory/company.rs");
const EXCHANGED_KEY: &str = include_str!("../../src/directory/exchanged_key.rs");
const DIMENSION: &str = include_str!("../../src/directory/dimension.rs");
const MEMBER: &str = include_str!("../../src/directory/member.rs");
const PAN_KEY: &str = include_str!("../../src/directory/pan_key.rs");
const REQUISITION: &str = include_str!("../../src/directory/requisition.rs");
const SHARED_LINK: &str = include_str!("../../src/directory/shared_link.rs");
const TICKET: &str = include_str!("../../src/directory/ticket.rs");
const USER: &str = include_str!("../../src/directory/user.rs");
const WEBHOOK_ENDPOINT: &str = include_str!("../../src/directory/webhook_endpoint.rs");
/// Types of resources and of the domain that commands carry, by their files.
const CARRIED: [(&str, &str); 45] = [
    ("NewCompany", COMPANY),
    ("NewAccount", COMPANY),
    ("CompanyChanges", COMPANY),
    ("VelocityChanges", COMPANY),
    ("NewCard", CARD),
    ("CardOrder", CARD),
    ("CardChanges", CARD),
    ("AllowanceChanges", ALLOWANCE),
    ("ResealedCard", PAN_KEY),
    ("NewWebhookEndpoint", WEBHOOK_ENDPOINT),
    ("WebhookEndpointChanges", WEBHOOK_ENDPOINT),
    ("GoneReceiver", WEBHOOK_ENDPOINT),
    ("NewExchangedKey", EXCHANGED_KEY),
    ("NewAccessToken", ACCESS_TOKEN),
    ("NewTokenGrant", ACCESS_TOKEN),
    ("NewApp", APP),
    ("AppChanges", APP),
    ("AppApproval", APP),
    ("AppProfile", APP),
    ("NewMember", MEMBER),
    ("MemberChanges", MEMBER),
    ("NewTicket", TICKET),
    ("NewAuthorizationCode", TICKET),
    ("CodeExchange", TICKET),
    ("NewUser", USER),
    ("UserChanges", USER),
    ("PasswordLinkUse", USER),
    ("ProvenPassword", USER),
    ("NewInvite", USER),
    ("Address", include_str!("../../src/domain/company.rs")),
    ("SingleSignOn", include_str!("../../src/domain/company.rs")),
    ("FundingSource", include_str!("../../src/domain/account.rs")),
    ("BankAccount", include_str!("../../src/domain/transaction.rs")),
    ("Merchant", include_str!("../../src/domain/merchant.rs")),
    ("NetworkTrace", include_str!("../../src/domain/network_key.rs")),
    ("Receipt", include_str!("../../src/domain/transaction_tags.rs")),
    ("TagChanges", include_str!("../../src/domain/transaction_tags.rs")),
    ("Recipient", SHARED_LINK),
    ("NewSharedLink", SHARED_LINK),
    ("SharedLinkChanges", SHARED_LINK),
    ("NewRequisition", REQUISITION),
    ("RequisitionChanges", REQUISITION),
    ("NewDimension", DIMENSION),
    ("DimensionChanges", DIMENSION),
    ("SecurityQuestion", USER),
];
/// Plain strings, each with the form that the edge holds it to.
const PLAIN: [(&str, &str); 15] = [
    ("address", "an address of the network, written by the switch"),
    ("answer_hash", "an encoded Argon2id hash"),
    ("code", "digits"),
    ("code_challenge", "base64url"),
    ("domain", "a domain name"),
    ("door", "the name of a door in the settings, a word"),
    ("email", "an e-mail address"),
    ("idp_metadata", "an XML document"),
    ("name", "the name of an app as it stands: an approval with another one is refused"),
    ("password_hash", "an encoded Argon2id hash"),
    ("redirect_uri", "a URL"),
    ("redirect_urls", "URLs"),
    ("url", "a URL"),
    ("usage", "the two characters of a key's usage"),
    ("website", "the web site of an app, as its name"),
];

/// The names of fields that are strings of any kind but the checked ones.
fn plain_strings(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let (name, kind) = line.trim().trim_start_matches("pub ").split_once(": ")?;
        let is_field = name
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter == '_' || letter.is_ascii_digit());
        let is_plain = ["String", "CompactString", "str"].iter().any(|plain| {
            kind.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == *plain)
        });
        (is_field && is_plain).then_some(name)
    })
}

#[test]
fn commands_carry_no_text_that_was_not_checked() {
    let carried = CARRIED.map(|(name, source)| {
        let (_, rest) = source.split_once(&format!("pub struct {name} {{")).expect(name);
        rest.split_once("\n}").expect("a struct ends").0
    });
    let found: BTreeSet<_> = COMMANDS.into_iter().chain(carried).flat_map(plain_strings).collect();
    let listed: BTreeSet<_> = PLAIN.into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, listed);
}
