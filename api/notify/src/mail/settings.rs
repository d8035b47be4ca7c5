//! The mail server and the sender of letters: the part `[mail]` of the settings.
//!
//! Without `smtp_url` letters are files in `outbox`. Passwords never go over a line that others can
//! read: without TLS only a server on this machine gets one.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

use cardswitch_wire::disposition::decode_percents;
use lettre::message::Mailbox;
use lettre::transport::smtp::authentication::Credentials;
use serde::{Deserialize, Serialize, Serializer};
use url::{Host, Url};

use super::outbox::MailError;
use super::smtp::{SmtpAddress, TlsUse};

/// The ports at which servers take letters from programs, without and with TLS from the start.
/// Source: RFC 6409; RFC 8314.
const SUBMISSION_PORT: u16 = 587;
const SUBMISSIONS_PORT: u16 = 465;
/// The longest first wait that can be set. Units: seconds.
const RETRY_AFTER_S_MAX: u64 = 3600;
/// The placeholder of a password where settings are shown.
const HIDDEN: &str = "hidden";

/// A value that names nothing to be used: of which setting, and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError(pub &'static str, pub String);

cardswitch_wire::settings! {
    /// How mail is sent.
    "mail." MailSettings, MailFlags {
        /// Mail server, such as smtps://user@mail.example.com [default: none, emails are files in
        /// `outbox` of the data directory]
        #[arg(value_name = "URL", hide_env_values = true)]
        smtp_url: SmtpUrl,
        /// File with the password of the mail server, unless the URL has it
        /// [default: none]
        #[arg(value_name = "FILE")]
        smtp_password_file: PathBuf,
        /// Sender of emails, such as "Cards <no-reply@example.com>" [default: no-reply at the site]
        #[arg(long = "mail-from", value_name = "ADDRESS")]
        from: String,
        /// Seconds until an email that the server defers is sent again, doubled each time up to 4 h
        #[arg(long = "mail-retry-after-s", value_name = "SECONDS")]
        retry_after_s: u64 = 60,
        /// Whether cardholders get emails about declines and suspicious activity
        #[arg(long = "mail-declines", value_name = "BOOL")]
        declines: bool = true,
    }
}

/// The address of a server, perhaps with a password in it, which is never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct SmtpUrl(String);

impl SmtpUrl {
    /// The address without the password.
    pub fn shown(&self) -> String {
        let Ok(mut url) = Url::parse(&self.0) else { return "(not an address)".to_owned() };
        if url.password().is_some() && url.set_password(Some(HIDDEN)).is_err() {
            return "(not an address of a server)".to_owned();
        }
        url.to_string()
    }
}

impl From<&str> for SmtpUrl {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for SmtpUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown())
    }
}

impl Serialize for SmtpUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown())
    }
}

impl MailSettings {
    /// Checks the rules beyond the types.
    /// Errors: a value that names nothing to be used.
    pub fn check(&self) -> Result<(), SettingError> {
        if let Some(from) = &self.from
            && from.parse::<Mailbox>().is_err()
        {
            return Err(SettingError("mail.from (an e-mail address)", from.clone()));
        }
        if !(1..=RETRY_AFTER_S_MAX).contains(&self.retry_after_s) {
            let shown = self.retry_after_s.to_string();
            return Err(SettingError("mail.retry_after_s (1 to 3600)", shown));
        }
        if let Some(url) = &self.smtp_url
            && let Err(what) = parse_address(&url.0)
        {
            return Err(SettingError(what, url.shown()));
        }
        Ok(())
    }

    /// How long a letter waits first.
    pub(super) fn retry_wait(&self) -> Duration {
        Duration::from_secs(self.retry_after_s)
    }

    pub(super) fn sender(&self) -> Result<Option<Mailbox>, MailError> {
        let parse = |from: &String| from.parse().map_err(MailError::Address);
        self.from.as_ref().map(parse).transpose()
    }

    /// The server to send by.
    /// Errors: no server is named so, or the password cannot be read.
    pub(super) fn server(&self) -> Result<Option<SmtpAddress>, MailError> {
        let Some(url) = &self.smtp_url else { return Ok(None) };
        let unusable =
            |what| MailError::Settings(format!("`{}` is no value for {what}", url.shown()));
        let ParsedAddress { mut address, user, password } =
            parse_address(&url.0).map_err(unusable)?;
        let password = match (&self.smtp_password_file, password) {
            (Some(path), None) => Some(read_password(path)?),
            (_, password) => password,
        };
        address.retry_wait = self.retry_wait();
        address.credentials = user.map(|user| Credentials::new(user, password.unwrap_or_default()));
        Ok(Some(address))
    }
}

fn read_password(path: &Path) -> Result<String, MailError> {
    let text = fs::read_to_string(path).map_err(|error| {
        MailError::Settings(format!("mail.smtp_password_file `{}`: {error}", path.display()))
    })?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

struct ParsedAddress {
    address: SmtpAddress,
    user: Option<String>,
    password: Option<String>,
}

/// Errors: the setting, and the form that its value must have.
fn parse_address(text: &str) -> Result<ParsedAddress, &'static str> {
    const NO_SERVER: &str = "mail.smtp_url (smtp://host or smtps://host)";
    let url = Url::parse(text).map_err(|_| NO_SERVER)?;
    let is_wrapped = match url.scheme() {
        "smtps" => true,
        "smtp" => false,
        _ => return Err(NO_SERVER),
    };
    if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
        return Err(NO_SERVER);
    }
    // The library does not parse URLs of unknown schemes any further: an address may still stand
    // here as text.
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or(NO_SERVER)?;
    let host = Host::parse(host).map_err(|_| NO_SERVER)?;
    let is_here = is_this_machine(&host);
    let tls = match tls_asked(&url)?.as_deref() {
        Some("none") if !is_wrapped => TlsUse::None,
        Some("opportunistic") if !is_wrapped => TlsUse::Opportunistic,
        Some("required") if !is_wrapped => TlsUse::Required,
        None if is_wrapped => TlsUse::Wrapped,
        None if is_here => TlsUse::None,
        None => TlsUse::Required,
        Some(_) => return Err("mail.smtp_url (tls: required, opportunistic or none)"),
    };
    let decoded = |text: &str| decode_percents(text).ok_or(NO_SERVER);
    let user = Some(url.username()).filter(|user| !user.is_empty()).map(decoded).transpose()?;
    let password = url.password().map(decoded).transpose()?;
    let is_readable = matches!(tls, TlsUse::None | TlsUse::Opportunistic);
    if user.is_some() && is_readable && !is_here {
        return Err("mail.smtp_url (a password needs TLS)");
    }
    let port = if is_wrapped { SUBMISSIONS_PORT } else { SUBMISSION_PORT };
    let host = match host {
        Host::Domain(name) => name,
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    };
    let address = SmtpAddress {
        host,
        port: url.port().unwrap_or(port),
        tls,
        credentials: None,
        retry_wait: Duration::ZERO,
    };
    Ok(ParsedAddress { address, user, password })
}

fn is_this_machine(host: &Host<String>) -> bool {
    match host {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

fn tls_asked(url: &Url) -> Result<Option<String>, &'static str> {
    let mut asked = None;
    for (name, value) in url.query_pairs() {
        if name != "tls" || asked.is_some() {
            return Err("mail.smtp_url (only ?tls= may follow)");
        }
        asked = Some(value.into_owned());
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address, and the host, port and use of TLS that it means; none where it is refused.
    type Row = (&'static str, Option<(&'static str, u16, TlsUse)>);

    fn settings(url: &str) -> MailSettings {
        MailSettings { smtp_url: Some(url.into()), ..MailSettings::default() }
    }

    #[test]
    fn servers_are_named_by_addresses_and_passwords_need_tls() {
        use TlsUse::{None as Clear, Opportunistic, Required, Wrapped};
        let rows: [Row; 21] = [
            ("smtps://mail.example.com", Some(("mail.example.com", 465, Wrapped))),
            ("smtps://u:p@mail.example.com:4465/", Some(("mail.example.com", 4465, Wrapped))),
            ("smtp://mail.example.com", Some(("mail.example.com", 587, Required))),
            ("smtp://u:p%40@mail.example.com:25", Some(("mail.example.com", 25, Required))),
            ("smtp://mail.example.com?tls=required", Some(("mail.example.com", 587, Required))),
            ("smtp://mail.lan?tls=opportunistic", Some(("mail.lan", 587, Opportunistic))),
            ("smtp://mail.lan:25?tls=none", Some(("mail.lan", 25, Clear))),
            ("smtp://127.0.0.1:2525", Some(("127.0.0.1", 2525, Clear))),
            ("smtp://u:p@localhost:2525", Some(("localhost", 2525, Clear))),
            ("smtp://[::1]:2525", Some(("::1", 2525, Clear))),
            ("smtp://u:p@mail.lan?tls=none", None),
            ("smtp://u:p@mail.lan?tls=opportunistic", None),
            ("smtps://mail.example.com?tls=none", None),
            ("smtp://mail.example.com?tls=maybe", None),
            ("smtp://mail.example.com?password=p", None),
            ("smtp://mail.example.com/path", None),
            ("http://mail.example.com", None),
            ("mail.example.com:25", None),
            ("smtp://", None),
            ("smtp://u:%ff@mail.example.com", None),
            ("", None),
        ];
        for (url, expected) in rows {
            let checked = settings(url).check();
            assert_eq!(checked.is_ok(), expected.is_some(), "{url}: {checked:?}");
            let Some((host, port, tls)) = expected else { continue };
            let server = settings(url).server().unwrap().unwrap();
            assert_eq!((server.host.as_str(), server.port, server.tls), (host, port, tls), "{url}");
            assert_eq!(server.credentials.is_some(), url.contains('@'), "{url}");
        }
        assert!(MailSettings::default().server().unwrap().is_none());
    }

    #[test]
    fn passwords_are_never_shown() {
        let settings = settings("smtps://ada:Zanzibar@mail.example.com");
        let shown = [format!("{settings:?}"), toml::to_string(&settings).unwrap()];
        for shown in shown {
            assert!(shown.contains("ada:hidden@mail.example.com"), "{shown}");
            assert!(!shown.contains("Zanzibar"), "{shown}");
        }
        let refused = self::settings("smtp://ada:Zanzibar@mail.example.com?tls=no").check();
        let shown = format!("{:?}", refused.unwrap_err());
        assert!(!shown.contains("Zanzibar") && shown.contains("tls"), "{shown}");
    }

    #[test]
    fn a_password_may_stand_in_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        let mut settings = settings("smtps://ada@mail.example.com");
        settings.smtp_password_file = Some(path.clone());
        let missing = settings.server().err().unwrap().to_string();
        assert!(missing.contains("smtp_password_file"), "{missing}");
        fs::write(&path, "Zanzibar\n").unwrap();
        let expected = Credentials::new("ada".to_owned(), "Zanzibar".to_owned());
        assert!(settings.server().unwrap().unwrap().credentials == Some(expected));
    }

    #[test]
    fn other_values_are_checked() {
        for (from, retry_after_s, is_fine) in [
            (Some("cardswitch <no-reply@example.com>"), 60, true),
            (Some("no-reply@example.com"), 3600, true),
            (Some("nobody"), 60, false),
            (Some("a@example.com, b@example.com"), 60, false),
            (None, 0, false),
            (None, 3601, false),
        ] {
            let from = from.map(str::to_owned);
            let settings = MailSettings { from, retry_after_s, ..MailSettings::default() };
            assert_eq!(settings.check().is_ok(), is_fine, "{settings:?}");
        }
    }
}
