//! The users that filters find, texts that are no filters, and bounds on the depth of a filter.

use super::*;

/// The values of a user in no department.
fn value_of(field: Field) -> Option<FieldValue<'static>> {
    Some(match field {
        Field::Id => FieldValue::Text("0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f"),
        Field::ExternalId => FieldValue::Text("Ext-7"),
        Field::UserName | Field::Email => FieldValue::Text("Ada@Example.com"),
        Field::GivenName => FieldValue::Text("Ada"),
        Field::FamilyName => FieldValue::Text("Love \"L\" lace"),
        Field::DisplayName => FieldValue::Text("Ada Lovelace"),
        Field::Active | Field::EmailPrimary => FieldValue::Flag(true),
        Field::UserType => FieldValue::Text("member"),
        Field::EmailType => FieldValue::Text("work"),
        Field::EmployeeNumber => FieldValue::Text("0042"),
        Field::Department => return None,
        Field::Created => FieldValue::Time(parse_time("2026-03-01T10:00:00Z")?),
        Field::ResourceType => FieldValue::Text("User"),
    })
}

#[track_caller]
fn finds(text: &str) -> bool {
    Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}")).accepts(&mut value_of)
}

#[test]
fn every_operator_finds_what_it_says() {
    let rows = [
        (r#"userName eq "ada@example.com""#, true),
        (r#"username EQ "ADA@EXAMPLE.COM""#, true),
        (r#"userName eq "ada""#, false),
        (r#"userName ne "ada""#, true),
        (r#"userName co "@EXAMPLE""#, true),
        (r#"userName sw "ada""#, true),
        (r#"userName sw "example""#, false),
        (r#"userName ew ".com""#, true),
        (r#"name.givenName gt "abc""#, true),
        (r#"name.givenName ge "ada""#, true),
        (r#"name.givenName lt "ada""#, false),
        (r#"name.givenName le "ada""#, true),
        (r#"externalId eq "Ext-7""#, true),
        (r#"externalId eq "ext-7""#, false),
        (r#"externalId pr"#, true),
        ("active eq true", true),
        ("active ne true", false),
        (r#"active eq "True""#, true),
        ("active eq false", false),
        (r#"meta.created gt "2026-03-01T09:00:00Z""#, true),
        (r#"meta.created ge "2026-03-01T11:00:00+01:00""#, true),
        (r#"meta.created lt "2026-03-01T10:00:00Z""#, false),
        (r#"name.familyName eq "love \"l\" lace""#, true),
        (r#"name.familyName co "(""#, false),
        ("urn:ietf:params:scim:schemas:core:2.0:User:userName pr", true),
        (
            r#"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:employeeNumber eq "0042""#,
            true,
        ),
        ("urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department pr", false),
        (r#"emails eq "ada@example.com""#, true),
        (r#"emails.type eq "home""#, false),
        // No user has these attributes.
        ("title pr", false),
        ("nothing.at.all pr", false),
        (r#"title eq "x""#, false),
        (r#"title ne "x""#, true),
        ("title eq null", true),
        ("title eq 5", false),
        ("userName eq null", false),
        ("userName ne null", true),
    ];
    for (text, expected) in rows {
        assert_eq!(finds(text), expected, "{text}");
    }
}

#[test]
fn and_binds_before_or_and_parentheses_before_both() {
    let (yes, no) = ("active eq true", "active eq false");
    let rows = [
        (format!("{yes} and {yes}"), true),
        (format!("{yes} and {no}"), false),
        (format!("{no} or {yes}"), true),
        (format!("{yes} or {yes} and {no}"), true),
        (format!("({yes} or {yes}) and {no}"), false),
        (format!("{no} and {no} or {yes}"), true),
        (format!("{no} and ({no} or {yes})"), false),
        (format!("not ({no})"), true),
        (format!("NOT({yes} and {no}) AND {yes}"), true),
        (format!("not ({yes}) or {yes}"), true),
        (format!("not (not ({yes}))"), true),
        (format!("(({yes}))"), true),
        (r#"emails[type eq "work" and value co "@example.com"]"#.into(), true),
        (r#"emails[type eq "home" or not (value co "ada")]"#.into(), false),
        (format!(r#"emails[type eq "work"] and {no}"#), false),
    ];
    for (text, expected) in rows {
        assert_eq!(finds(&text), expected, "{text}");
    }
}

#[test]
fn what_is_no_filter_is_refused_in_one_way() {
    let deep = format!("{}active pr{}", "(".repeat(21), ")".repeat(21));
    let deeper = "(".repeat(FILTER_BYTES_MAX);
    let nots = "not (".repeat(800);
    let wide = vec!["a pr"; TESTS_MAX + 1].join(" or ");
    let long = format!("userName eq \"{}\"", "x".repeat(FILTER_BYTES_MAX));
    let rows = [
        "",
        " ",
        "userName",
        "userName eq",
        "userName eq ada",
        "userName is \"ada\"",
        "eq \"ada\"",
        "userName eq \"ada",
        "userName eq \"ada\\\"",
        "userName eq \"\\x\"",
        "userName eq 'ada'",
        "userName eq true",
        "userName gt null",
        "active gt true",
        "active co \"t\"",
        "active eq \"yes\"",
        "meta.created eq \"today\"",
        "meta.created co \"2026-03-01T10:00:00Z\"",
        "active pr and",
        "and active pr",
        "active pr active pr",
        "active pr or or active pr",
        "not active pr",
        "not",
        "()",
        "(active pr",
        "active pr)",
        "emails[type pr",
        "emails[type pr)",
        "(emails[type pr)]",
        "emails[]",
        "emails[a[b pr]]",
        "emails type pr]",
        "userName eq \"a\" ; drop",
        "userName eq {}",
        "\u{0}",
        "userName eq \u{1F600}",
        deep.as_str(),
        deeper.as_str(),
        nots.as_str(),
        wide.as_str(),
        long.as_str(),
    ];
    for text in rows {
        let refused = Filter::parse(text);
        assert_eq!(refused.err().map(|error| error.code), Some("invalid_filter"), "{text:.60}");
    }
    let as_deep_as_may_be = format!("{}active pr{}", "(".repeat(20), ")".repeat(20));
    assert!(finds(&as_deep_as_may_be));
}

#[test]
fn the_one_text_asked_for_is_told() {
    let sole = |text: &str| {
        let filter = Filter::parse(text).unwrap();
        filter.sole_text().map(|(field, text)| (field, text.to_owned()))
    };
    assert_eq!(sole(r#"userName eq "Ada""#), Some((Field::UserName, "ada".into())));
    assert_eq!(sole(r#"externalId eq "Ada""#), Some((Field::ExternalId, "Ada".into())));
    for text in ["userName pr", r#"userName ne "a""#, "active eq true", r#"not (userName eq "a")"#]
    {
        assert_eq!(sole(text), None, "{text}");
    }
    assert_eq!(sole(r#"userName eq "a" or active eq true"#), None);
}
