//! The names of a user's attributes: in filters, in paths of PATCH, and as keys of bodies.
//!
//! Names are compared in any case, and may have their schema before them, as a URN and a colon.
//! Source: RFC 7643, sections 4.1 and 4.3; RFC 7644, 3.10.

use std::sync::LazyLock;

use cardswitch_edge::error::ApiError;
use cardswitch_wire::fault::Flaw;

use super::filter::Filter;

/// The schema of users.
pub(super) const USER_SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
/// The schema of what employers add to users.
pub(super) const ENTERPRISE_SCHEMA: &str =
    "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
/// The prefix of the names of its attributes.
pub(super) const ENTERPRISE_PREFIX: &str = "enterprise:";
/// The short form of `ENTERPRISE_SCHEMA` in the names below.
const ENTERPRISE: &str = "enterprise";

/// A field that a filter can compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// The id given here.
    Id,
    /// The id given by the client.
    ExternalId,
    /// The e-mail address that people sign in with.
    UserName,
    /// First name.
    GivenName,
    /// Last name.
    FamilyName,
    /// Both names.
    DisplayName,
    /// Whether the member takes part.
    Active,
    /// The role.
    UserType,
    /// The only e-mail address.
    Email,
    /// The purpose of the e-mail address.
    EmailType,
    /// Whether it is the first one.
    EmailPrimary,
    /// The member's code.
    EmployeeNumber,
    /// The name of the department.
    Department,
    /// When it was made.
    Created,
    /// The type of the resource.
    ResourceType,
}

/// The way in which the values of a field compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparisonKind {
    /// Text, in any case the same.
    Text,
    /// Text that is the same only in the same case.
    ExactText,
    /// True or false.
    Flag,
    /// An instant.
    Time,
}

#[rustfmt::skip]
const FIELDS: &[(&str, Field, ComparisonKind)] = &[
    ("id", Field::Id, ComparisonKind::ExactText),
    ("externalid", Field::ExternalId, ComparisonKind::ExactText),
    ("username", Field::UserName, ComparisonKind::Text),
    ("name.givenname", Field::GivenName, ComparisonKind::Text),
    ("name.familyname", Field::FamilyName, ComparisonKind::Text),
    ("displayname", Field::DisplayName, ComparisonKind::Text),
    ("active", Field::Active, ComparisonKind::Flag),
    ("usertype", Field::UserType, ComparisonKind::Text),
    ("emails", Field::Email, ComparisonKind::Text),
    ("emails.value", Field::Email, ComparisonKind::Text),
    ("emails.type", Field::EmailType, ComparisonKind::Text),
    ("emails.primary", Field::EmailPrimary, ComparisonKind::Flag),
    ("enterprise:employeenumber", Field::EmployeeNumber, ComparisonKind::Text),
    ("enterprise:department", Field::Department, ComparisonKind::Text),
    ("meta.created", Field::Created, ComparisonKind::Time),
    ("meta.resourcetype", Field::ResourceType, ComparisonKind::ExactText),
];

impl Field {
    /// The field of this name and how it compares; none where users have no such attribute.
    pub(super) fn find(name: &str) -> Option<(Self, ComparisonKind)> {
        let name = canonical(name);
        let row = FIELDS.iter().find(|(known, ..)| *known == name)?;
        Some((row.1, row.2))
    }
}

/// An attribute that a change can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The e-mail address that people sign in with.
    UserName,
    /// First and last name together.
    Name,
    /// First name.
    GivenName,
    /// Last name.
    FamilyName,
    /// Whether the member takes part.
    Active,
    /// The role.
    UserType,
    /// The id given by the client.
    ExternalId,
    /// The list of e-mail addresses, which has one, that of `UserName`.
    Emails,
    /// Everything that employers add.
    Enterprise,
    /// The member's code.
    EmployeeNumber,
    /// The department.
    Department,
    /// An attribute that only this side sets.
    Settled,
    /// A standard attribute that members do not have: taken and forgotten.
    Unkept,
}

#[rustfmt::skip]
const TARGETS: &[(&str, Target)] = &[
    ("username", Target::UserName),
    ("name", Target::Name),
    ("name.givenname", Target::GivenName),
    ("name.familyname", Target::FamilyName),
    ("active", Target::Active),
    ("usertype", Target::UserType),
    ("externalid", Target::ExternalId),
    ("emails", Target::Emails),
    ("emails.value", Target::Emails),
    (ENTERPRISE, Target::Enterprise),
    ("enterprise:employeenumber", Target::EmployeeNumber),
    ("enterprise:department", Target::Department),
    ("id", Target::Settled),
    ("meta", Target::Settled),
    ("schemas", Target::Settled),
];

/// Standard attributes that members do not have; those within them are meant too.
#[rustfmt::skip]
const UNKEPT: &[&str] = &[
    "displayname", "nickname", "profileurl", "title", "preferredlanguage", "locale", "timezone",
    "password", "phonenumbers", "ims", "photos", "addresses", "groups", "entitlements", "roles",
    "x509certificates", "name.formatted", "name.middlename", "name.honorificprefix",
    "name.honorificsuffix", "emails.type", "emails.primary", "emails.display",
    "enterprise:costcenter", "enterprise:organization", "enterprise:division", "enterprise:manager",
];

impl Target {
    /// The attribute that the key of a body names; none where users have no such attribute.
    pub(super) fn find(name: &str) -> Option<Self> {
        let name = canonical(name);
        let known = TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target);
        known.or_else(|| is_unkept(&name).then_some(Self::Unkept))
    }

    /// The attribute that the path of a PATCH names. A filter in it is read and then ignored, since
    /// no attribute here has several values.
    /// Errors: the path cannot be read, or users have no such attribute.
    pub(super) fn parse(path: &str) -> Result<Self, ApiError> {
        let unknown = || {
            let message = format!("`{}` is no path to an attribute of users", shorten(path));
            ApiError::invalid_field("path", Flaw::new("invalid_path", message))
        };
        let name = match path.split_once('[') {
            None => path.to_owned(),
            Some((list, rest)) => {
                let (inner, tail) = rest.rsplit_once(']').ok_or_else(unknown)?;
                Filter::parse(&format!("{list}[{inner}]"))?;
                format!("{list}{tail}")
            }
        };
        Self::find(name.trim()).ok_or_else(unknown)
    }
}

fn is_unkept(name: &str) -> bool {
    let is_within = |known: &&str| {
        let rest = name.strip_prefix(*known);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    UNKEPT.iter().any(is_within)
}

/// A name as the tables above have it: small letters, without the schema of users, and with a short
/// word for that of employers.
pub(super) fn canonical(name: &str) -> String {
    static SCHEMAS: LazyLock<[String; 2]> =
        LazyLock::new(|| [USER_SCHEMA.to_lowercase(), ENTERPRISE_SCHEMA.to_lowercase()]);
    let [user, enterprise] = &*SCHEMAS;
    let name = name.to_lowercase();
    if let Some(rest) = name.strip_prefix(enterprise.as_str()) {
        return format!("{ENTERPRISE}{rest}");
    }
    match name.strip_prefix(user.as_str()).and_then(|rest| rest.strip_prefix(':')) {
        Some(rest) => rest.to_owned(),
        None => name,
    }
}

/// As much of a client's text as belongs into a message.
pub(super) fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    text.chars().filter(|letter| !letter.is_control()).take(CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_with_their_schema() {
        let rows = [
            ("userName", Some(Target::UserName)),
            ("USERNAME", Some(Target::UserName)),
            ("urn:ietf:params:scim:schemas:core:2.0:User:userName", Some(Target::UserName)),
            ("urn:ietf:params:scim:schemas:core:2.0:user:name.givenName", Some(Target::GivenName)),
            (ENTERPRISE_SCHEMA, Some(Target::Enterprise)),
            (
                "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department",
                Some(Target::Department),
            ),
            ("department", None),
            ("name.givenName.x", None),
            ("title", Some(Target::Unkept)),
            ("addresses.locality", Some(Target::Unkept)),
            ("titles", None),
            ("meta", Some(Target::Settled)),
            ("", None),
            ("urn:example:other:userName", None),
        ];
        for (name, expected) in rows {
            assert_eq!(Target::find(name), expected, "{name}");
        }
    }

    #[test]
    fn paths_may_have_a_filter() {
        let rows = [
            (r#"emails[type eq "work"].value"#, Some(Target::Emails)),
            (r#"emails[type eq "work"]"#, Some(Target::Emails)),
            (r#"roles[primary eq "True"].value"#, Some(Target::Unkept)),
            (r#"phoneNumbers[type eq "a]b"].value"#, Some(Target::Unkept)),
            ("emails[type eq]", None),
            ("emails[type eq \"work\"", None),
            ("emails]", None),
            ("name.nothing", None),
            ("", None),
        ];
        for (path, expected) in rows {
            assert_eq!(Target::parse(path).ok(), expected, "{path}");
        }
    }
}
