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

/// The domain of message ids where neither the site nor the sender has a name.
const NO_DOMAIN: &str = "localhost";

/// The sender's part of every letter.
#[derive(Clone, Debug)]
pub(super) struct Letterhead {
    /// The sender's address.
    pub(super) from: Mailbox,
    /// The domain in the ids of messages, which is also the switch's name to servers.
    pub(super) domain: String,
}

impl Letterhead {
    /// The letterhead of a site at `app_url`, from the address in the settings or one of its own.
    /// Errors: there is no address at the name of the site.
    pub(super) fn new(from: Option<Mailbox>, app_url: &str) -> Result<Self, MailError> {
        let of_sender =
            || from.as_ref().map(|from| from.email.domain()).filter(|name| is_name(name));
        let domain = name_of(app_url).or_else(|| of_sender().map(str::to_owned));
        let domain = domain.unwrap_or_else(|| NO_DOMAIN.to_owned());
        let from = match from {
            Some(from) => from,
            None => {
                let address = format!("no-reply@{domain}").parse().map_err(MailError::Address)?;
                Mailbox::new(Some("cardswitch".to_owned()), address)
            }
        };
        Ok(Self { from, domain })
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
            // Source: RFC 3834, 5: suppresses automatic replies.
            .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
            .multipart(parts)
            .map_err(MailError::Message)
    }
}

/// The name that a site is at, where others can know it by that.
fn name_of(app_url: &str) -> Option<String> {
    match Url::parse(app_url).ok()?.host()? {
        Host::Domain(name) if is_name(name) => Some(name.to_owned()),
        _ => None,
    }
}

/// Whether it is a name, and not this machine's for itself: mail goes to names only.
fn is_name(domain: &str) -> bool {
    domain != NO_DOMAIN && !domain.starts_with('[') && domain.parse::<IpAddr>().is_err()
}

fn part(kind: ContentType, text: &str) -> SinglePart {
    SinglePart::builder().header(kind).body(body_of(text))
}

/// The text unencoded, where every mail server takes it: an encoding would cut links in two, and
/// operators read them in the file.
fn body_of(text: &str) -> Body {
    let is_plain = text.is_ascii() && !text.contains(['\0', '\r']);
    if is_plain && text.lines().all(|line| line.len() <= LINE_BYTES_MAX) {
        let lines = text.replace('\n', "\r\n").into_bytes();
        return Body::dangerous_pre_encoded(lines, ContentTransferEncoding::SevenBit);
    }
    Body::new(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cardswitch_dispatch::mail::queue::Urgency;

    #[test]
    fn ids_of_messages_are_of_the_site_or_of_its_sender() {
        let rows = [
            ("https://cards.example.com", None, "cards.example.com"),
            ("https://cards.example.com", Some("no-reply@example.com"), "cards.example.com"),
            ("http://127.0.0.1:8080", Some("no-reply@example.com"), "example.com"),
            ("http://[::1]:8080", Some("Cards <no-reply@example.com>"), "example.com"),
            ("http://localhost:8080", Some("no-reply@example.com"), "example.com"),
            ("http://127.0.0.1:8080", None, "localhost"),
        ];
        for (app_url, from, domain) in rows {
            let from = from.map(|from| from.parse().unwrap());
            let head = Letterhead::new(from, app_url).unwrap();
            let letter = Letter {
                to: "ada@example.com".to_owned(),
                subject: "Hello".to_owned(),
                text: "Hello".to_owned(),
                html: "<p>Hello".to_owned(),
                urgency: Urgency::InTurn,
            };
            let message = head.message(&letter, Uuid::nil()).unwrap().formatted();
            let message = String::from_utf8(message).unwrap();
            let id = format!("Message-ID: <{}@{domain}>\r\n", Uuid::nil());
            assert!(message.contains(&id), "{app_url}: {message}");
        }
    }
}
