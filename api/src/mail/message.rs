//! Letters as MIME messages: plain text first, HTML as the richer alternative.
//!
//! Headers are made by a library that encodes whatever a header cannot hold.

use std::net::IpAddr;

use lettre::Message;
use lettre::message::header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Body, Mailbox, MultiPart, SinglePart};
use url::{Host, Url};
use uuid::Uuid;

use super::letter::Letter;
use super::limits::LINE_BYTES_MAX;
use super::outbox::MailError;

/// What mail goes by where the site is at no name.
const NO_DOMAIN: &str = "localhost";

/// What every letter says of where it comes from.
#[derive(Clone, Debug)]
pub(super) struct Letterhead {
    /// Who writes.
    from: Mailbox,
    /// What follows the `@` in the ids of messages, and what the switch calls itself to servers.
    domain: String,
}

impl Letterhead {
    /// That of a site at `app_url`, from the address in the settings or one of its own.
    /// Errors: there is no address at the name of the site.
    pub(super) fn new(from: Option<Mailbox>, app_url: &str) -> Result<Self, MailError> {
        let url = Url::parse(app_url).ok();
        // Mail goes to names only.
        let domain = match url.as_ref().and_then(Url::host) {
            Some(Host::Domain(name)) if name.parse::<IpAddr>().is_err() => name.to_owned(),
            _ => NO_DOMAIN.to_owned(),
        };
        let from = match from {
            Some(from) => from,
            None => {
                let address = format!("no-reply@{domain}").parse().map_err(MailError::Address)?;
                Mailbox::new(Some("cardswitch".to_owned()), address)
            }
        };
        Ok(Self { from, domain })
    }

    /// Who writes.
    pub(super) const fn from(&self) -> &Mailbox {
        &self.from
    }

    /// What the switch calls itself.
    pub(super) fn domain(&self) -> &str {
        &self.domain
    }

    /// A letter as it goes over the wire; the same id makes the same Message-ID.
    /// Errors: the address takes no mail.
    pub(super) fn message(&self, letter: &Letter, id: Uuid) -> Result<Message, MailError> {
        let to = letter.to.parse().map_err(MailError::Address)?;
        let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
        let parts = MultiPart::alternative()
            .singlepart(part(ContentType::TEXT_PLAIN, &letter.text))
            .singlepart(part(ContentType::TEXT_HTML, &letter.html));
        Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to))
            .subject(letter.subject.as_str())
            .message_id(Some(format!("<{id}@{}>", self.domain)))
            .date_now()
            // Source: RFC 3834, 5: nobody's absence is told to a machine.
            .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
            .multipart(parts)
            .map_err(MailError::Message)
    }
}

fn part(kind: ContentType, text: &str) -> SinglePart {
    SinglePart::builder().header(kind).body(body_of(text))
}

/// The text as it is, where every mail server takes it: encoded, it would cut links in two, and
/// whoever runs the switch reads them in the file.
fn body_of(text: &str) -> Body {
    let is_plain = text.is_ascii() && !text.contains(['\0', '\r']);
    if is_plain && text.lines().all(|line| line.len() <= LINE_BYTES_MAX) {
        let lines = text.replace('\n', "\r\n").into_bytes();
        return Body::dangerous_pre_encoded(lines, ContentTransferEncoding::SevenBit);
    }
    Body::new(text.to_owned())
}
