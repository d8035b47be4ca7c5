//! The form by which an app is registered and changed: the values typed, their faults, and the
//! parsed values.

use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::app::{App, AppProfile};
use cardswitch_engine::domain::text::LineText;
use cardswitch_identity::oauth::redirect_urls::{REDIRECT_URLS_MAX, check_redirect_url};
use cardswitch_identity::oauth::scope::{self, ScopeFault};
use cardswitch_identity::scope_words::{SCOPES, ScopeWords};
use serde::Deserialize;
use url::Url;

use super::faults::Faults;
use super::form_snapshot::FormSnapshot;
use super::forms::TypedFields;

/// The most characters a name has.
const NAME_CHARS_MAX: usize = 100;
/// The longest address of a web site. Units: bytes.
const WEBSITE_BYTES_MAX: usize = 300;

/// The scopes that are ticked.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ScopeTicks {
    #[serde(default)]
    scope: Vec<String>,
}

impl ScopeTicks {
    /// The scope that has those ticked.
    /// Errors: there is none of such a name, which no page of the site offers.
    pub(super) fn scope(&self) -> Result<AccessScope, ScopeFault> {
        scope::parse(&self.scope.join(" "))
    }
}

/// A form as it was sent: the scopes that are ticked, `name`, `website` and `redirect_urls`, one a line.
#[derive(Debug, Default, Deserialize)]
pub(super) struct AppFields {
    #[serde(default)]
    scope: Vec<String>,
    #[serde(flatten)]
    pub(super) typed: TypedFields,
}

/// The parsed values of the form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AppTerms {
    pub(super) name: LineText,
    /// Its web site.
    pub(super) website: LineText,
    /// The addresses to which codes may be sent.
    pub(super) redirect_urls: Vec<String>,
    /// The scope that the app requests: the most that it can be allowed.
    pub(super) requested: AccessScope,
}

/// A scope to tick.
#[derive(Debug)]
pub(super) struct ScopeBox {
    pub(super) name: &'static str,
    /// The access that it allows.
    pub(super) allows: &'static str,
    /// Whether it is ticked.
    pub(super) is_chosen: bool,
    /// Whether an operator has to approve it.
    pub(super) needs_approval: bool,
    /// Whether an operator has approved it.
    pub(super) is_approved: bool,
}

/// The form as it is shown.
#[derive(Debug)]
pub(super) struct AppForm {
    /// The values typed.
    pub(super) typed: TypedFields,
    /// The faults of the values typed.
    pub(super) faults: Faults,
    pub(super) scopes: Vec<ScopeBox>,
}

impl AppForm {
    /// An empty one.
    pub(super) fn blank() -> Self {
        let none = AccessScope::default();
        Self::of(TypedFields::default(), none, none)
    }

    /// The form of an app, with the values that its owner last edited.
    pub(super) fn of_app(app: &App) -> Self {
        let AppProfile { name, website, redirect_urls } = app.edited_profile();
        let redirect_urls = redirect_urls.join("\n");
        let typed = [("name", name), ("website", website), ("redirect_urls", redirect_urls)];
        Self::of(typed.into_iter().collect(), app.requested, app.approved)
    }

    /// The same, with faults.
    #[must_use]
    pub(super) fn with_faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    fn of(typed: TypedFields, chosen: AccessScope, approved: AccessScope) -> Self {
        let scope_box = |words: &ScopeWords| ScopeBox {
            name: words.name,
            allows: words.allows,
            is_chosen: words.is_in(chosen),
            needs_approval: words.alone().needs_approval(),
            is_approved: words.is_in(approved),
        };
        let scopes = SCOPES.iter().map(scope_box).collect();
        Self { typed, faults: Faults::default(), scopes }
    }
}

impl AppFields {
    /// The parsed values of the fields.
    /// Errors: the form again, with its faults.
    pub(super) fn terms(&self, approved: AccessScope) -> Result<AppTerms, Box<AppForm>> {
        let name = parse_name(self.typed.of("name"));
        let website = parse_website(self.typed.of("website"));
        let redirect_urls = parse_redirect_urls(self.typed.of("redirect_urls"));
        let requested = self.requested();
        match (name, website, redirect_urls) {
            (Ok(name), Ok(website), Ok(redirect_urls)) => {
                Ok(AppTerms { name, website, redirect_urls, requested })
            }
            (name, website, redirect_urls) => {
                let errors = [name.err(), website.err(), redirect_urls.err()];
                let found = ["name", "website", "redirect_urls"].into_iter().zip(errors);
                let found = found.filter_map(|(name, error)| Some((name, error?)));
                let faults =
                    found.fold(Faults::default(), |faults, (name, error)| faults.and(name, &error));
                Err(Box::new(self.form(approved).with_faults(faults)))
            }
        }
    }

    /// The form as it was typed.
    pub(super) fn form(&self, approved: AccessScope) -> AppForm {
        AppForm::of(self.typed.clone(), self.requested(), approved)
    }

    fn requested(&self) -> AccessScope {
        // A scope name that no page offers counts as none.
        scope::parse(&self.scope.join(" ")).unwrap_or_default()
    }
}

/// The values of an app that its form shows, as its owner last edited them. The values that an
/// operator has approved are not the owner's to overwrite.
pub(super) fn seen(app: &App) -> FormSnapshot {
    let AppProfile { name, website, redirect_urls } = app.edited_profile();
    FormSnapshot::default()
        .field("name", &name)
        .field("web site", &website)
        .field("redirect URLs", redirect_urls.join("\n"))
        .field("scopes", scope::names(app.requested).join(" "))
}

fn parse_name(text: &str) -> Result<LineText, String> {
    let name = text.trim();
    // Invisible characters could make one app look like another.
    if name.chars().any(is_invisible) {
        return Err("Contains invisible characters.".to_owned());
    }
    match name.chars().count() {
        0 => Err("Required.".to_owned()),
        1..=NAME_CHARS_MAX => Ok(LineText::spaced(name)),
        _ => Err(format!("Use up to {NAME_CHARS_MAX} characters.")),
    }
}

/// Reads a list, one address a line.
/// Errors: one of them is none, there are too many, or one is listed twice.
fn parse_redirect_urls(lines: &str) -> Result<Vec<String>, String> {
    let mut urls: Vec<String> = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let shown: String = line.chars().take(80).collect();
        check_redirect_url(line).map_err(|fault| format!("{shown} {fault}."))?;
        if urls.iter().any(|known| known == line) {
            return Err(format!("{shown} is listed twice."));
        }
        urls.push(line.to_owned());
    }
    if urls.len() > REDIRECT_URLS_MAX {
        return Err(format!("There can be at most {REDIRECT_URLS_MAX} addresses."));
    }
    Ok(urls)
}

/// Controls, marks that turn the direction of writing, and blanks without width.
fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{feff}')
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(letter, '\u{2060}'..='\u{206f}')
}

fn parse_website(text: &str) -> Result<LineText, String> {
    let website = text.trim();
    let url = Url::parse(website).ok();
    let is_address = url.is_some_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
    });
    if !is_address || website.chars().any(|letter| letter.is_whitespace() || is_invisible(letter)) {
        return Err("Write an address, such as https://example.com.".to_owned());
    }
    if website.len() > WEBSITE_BYTES_MAX {
        return Err(format!("Use up to {WEBSITE_BYTES_MAX} characters."));
    }
    Ok(LineText::spaced(website))
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::ids::{AppId, AppSlot, CompanySlot, Timestamp};
    use uuid::Uuid;

    use super::*;

    fn fields(name: &str, website: &str, redirect_urls: &str) -> AppFields {
        let typed = [("name", name), ("website", website), ("redirect_urls", redirect_urls)];
        AppFields { scope: vec!["admin".to_owned()], typed: typed.into_iter().collect() }
    }

    #[test]
    fn fields_become_terms_or_the_form_again() {
        let approved = AccessScope::default();
        let sent = fields(" Books ", "https://books.example", "https://books.example/cb\n");
        let terms = sent.terms(approved).unwrap();
        assert_eq!(
            (terms.name.as_str(), terms.website.as_str()),
            ("Books", "https://books.example")
        );
        assert_eq!(terms.redirect_urls, ["https://books.example/cb"]);
        assert_eq!(terms.requested, AccessScope { admin: true, ..approved });
        let wrong = fields("", "books", "http://books.example/cb").terms(approved).unwrap_err();
        assert!(!wrong.faults.alert().is_empty());
        let typed = wrong.typed.of("redirect_urls");
        assert_eq!(typed, "http://books.example/cb", "what was typed stays");
        for name in ["name", "website", "redirect_urls"] {
            assert!(!wrong.faults.of(name).is_empty(), "{wrong:?}");
        }
        assert!(wrong.scopes.iter().any(|shown| shown.name == "admin" && shown.is_chosen));
    }

    #[test]
    fn names_are_visible_and_web_sites_are_addresses() {
        let long = "x".repeat(NAME_CHARS_MAX + 1);
        for name in ["", " ", "a\u{202e}b", "a\u{200b}b", "a\nb", "a\0", &long] {
            assert!(parse_name(name).is_err(), "{name:?}");
        }
        for name in ["Books & Co <ltd>", "会計", "Größe", &long[1..]] {
            assert_eq!(parse_name(name).as_deref(), Ok(name));
        }
        for website in [
            "",
            "books.example",
            "javascript:alert(1)",
            "https://",
            "https://a@b.example",
            "https://a.example/ b",
        ] {
            assert!(parse_website(website).is_err(), "{website}");
        }
        assert!(parse_website("https://bücher.example/über-uns").is_ok());
    }

    #[test]
    fn a_list_has_one_address_a_line_and_none_twice() {
        let two = "https://a.example/1\r\n\r\n  https://a.example/2  \n";
        let urls = parse_redirect_urls(two).unwrap();
        assert_eq!(urls, ["https://a.example/1", "https://a.example/2"]);
        assert_eq!(parse_redirect_urls(" \n "), Ok(Vec::new()));
        let twice = parse_redirect_urls("https://a.example/\nhttps://a.example/").unwrap_err();
        assert!(twice.ends_with("is listed twice."), "{twice}");
        let wrong = parse_redirect_urls("https://a.example/\n\"><b>").unwrap_err();
        assert!(wrong.starts_with("\"><b> must"), "{wrong}");
        let many: Vec<_> =
            (0..=REDIRECT_URLS_MAX).map(|n| format!("https://a.example/{n}")).collect();
        assert!(parse_redirect_urls(&many.join("\n")).is_err());
        assert!(parse_redirect_urls(&many[1..].join("\n")).is_ok());
    }

    #[test]
    fn the_form_of_an_app_shows_what_is_approved() {
        let app = App {
            slot: AppSlot(0),
            id: AppId(Uuid::nil()),
            company: CompanySlot(0),
            name: "Books".to_owned(),
            website: "https://books.example".to_owned(),
            secret_digest: [0; 32],
            redirect_urls: vec!["https://a.example/".to_owned(), "https://b.example/".to_owned()],
            revision: None,
            requested: AccessScope { admin: true, iam: true, ..AccessScope::default() },
            approved: AccessScope { iam: true, ..AccessScope::default() },
            is_bound: true,
            is_deleted: false,
            created_at: Timestamp(0),
        };
        let shown = seen(&app).to_string();
        let other =
            App { name: "Ledgers".to_owned(), requested: AccessScope::default(), ..app.clone() };
        assert_eq!(seen(&other).changed_since(&shown), ["name", "scopes"]);
        let approved = App { approved: AccessScope::default(), ..app.clone() };
        assert!(seen(&approved).changed_since(&shown).is_empty(), "that is the operator's");
        let form = AppForm::of_app(&app);
        assert_eq!(form.typed.of("redirect_urls"), "https://a.example/\nhttps://b.example/");
        let shown: Vec<_> = form
            .scopes
            .iter()
            .map(|shown| (shown.name, shown.is_chosen, shown.is_approved))
            .collect();
        let expected = [
            ("accountant", false, false),
            ("admin", true, false),
            ("scim", false, false),
            ("iam", true, true),
        ];
        assert_eq!(shown, expected);
    }
}
