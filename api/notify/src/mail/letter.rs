//! The words of each letter, the same in plain text and in HTML.
//!
//! Names and messages in letters come from strangers. They are shown as somebody's words, and never
//! become markup, headers or links.

use std::fmt;

use askama::Template;
use cardswitch_dispatch::mail::queue::Urgency;

use super::limits::{SUBJECT_NAME_CHARS_MAX, TEXT_LINE_CHARS_MAX};

/// A message to one person.
#[derive(Clone, PartialEq, Eq)]
pub struct Letter {
    /// The e-mail address of its reader.
    pub to: String,
    /// The subject.
    pub subject: String,
    /// The text.
    pub text: String,
    /// The same as a page.
    pub html: String,
    /// The order in which it goes.
    pub urgency: Urgency,
}

impl fmt::Debug for Letter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text holds links that open things.
        write!(formatter, "Letter({})", self.subject)
    }
}

/// A part of a letter.
#[derive(Clone, Debug)]
pub(super) enum LetterBlock {
    /// Sentences.
    Words(String),
    /// A link.
    Link {
        /// The effect of opening it.
        label: &'static str,
        /// The target.
        address: String,
    },
    /// A quotation, line by line.
    Quote {
        /// The writer.
        from: String,
        /// Their words.
        lines: Vec<String>,
    },
    /// Facts, each with its name.
    Facts(Vec<(&'static str, String)>),
}

#[derive(Template)]
#[template(path = "mail/letter.txt")]
struct TextPart<'a> {
    blocks: &'a [LetterBlock],
    reason: &'a str,
}

/// A letter before it is written out; as a template, its page.
#[derive(Debug, Template)]
#[template(path = "mail/letter.html")]
pub(super) struct Draft<'a> {
    /// The e-mail address of its reader.
    pub(super) to: &'a str,
    pub(super) subject: String,
    /// The heading of the page.
    pub(super) title: &'a str,
    /// The text.
    pub(super) blocks: Vec<LetterBlock>,
    /// The reason why its reader gets it.
    pub(super) reason: &'a str,
}

impl Draft<'_> {
    pub(super) fn written(self) -> Letter {
        // Writing into memory does not fail, and neither template calls anything that does.
        let text = TextPart { blocks: &self.blocks, reason: self.reason };
        let (text, html) = (text.render().unwrap_or_default(), self.render().unwrap_or_default());
        debug_assert!(!text.is_empty() && !html.is_empty());
        let (to, urgency) = (self.to.to_owned(), Urgency::InTurn);
        Letter { to, subject: self.subject, text, html, urgency }
    }
}

fn words(text: impl Into<String>) -> LetterBlock {
    LetterBlock::Words(text.into())
}

/// A name as it may stand in a subject.
pub(super) fn subject_name(name: &str) -> String {
    name.chars().take(SUBJECT_NAME_CHARS_MAX).collect()
}

impl Letter {
    /// The letter, to go before others.
    fn first(self) -> Self {
        Self { urgency: Urgency::First, ..self }
    }

    /// Brings a user the link to set a new password.
    pub fn new_password(to: &str, link: &str) -> Self {
        let blocks = vec![
            words(format!(
                "Someone, probably you, has asked to set a new password for {to} at cardswitch."
            )),
            words("Open this link within one hour to do so. It works once:"),
            LetterBlock::Link { label: "Set a new password", address: link.to_owned() },
            words("If it was not you, do nothing: your password stays as it is."),
        ];
        let reason = "You received this email because someone asked for it with your address.";
        let subject = "Set a new password".to_owned();
        Draft { to, subject, title: "Set a new password", blocks, reason }.written().first()
    }

    /// Invites a new member of `company`.
    pub fn invitation(to: &str, company: &str, link: &str) -> Self {
        let blocks = vec![
            words(format!("{company} has invited you to its card program at cardswitch.")),
            words("Open this link within seven days to choose a password. It works once:"),
            LetterBlock::Link { label: "Choose a password", address: link.to_owned() },
            words(format!("After that you sign in with {to}.")),
        ];
        let reason = "You received this email because an administrator entered your address. If you \
                      do not know the company, do nothing.";
        let subject = format!("Your invitation to {}", subject_name(company));
        Draft { to, subject, title: "You are invited", blocks, reason }.written().first()
    }

    /// Informs a user that the password was changed.
    pub fn password_was_set(to: &str) -> Self {
        let blocks = vec![
            words(format!("The password of {to} at cardswitch was just set.")),
            words(
                "If it was not you, set a new one immediately and tell the administrator of your \
                 company.",
            ),
        ];
        let reason = "You receive this email whenever your password is set.";
        let subject = "Your password was set".to_owned();
        Draft { to, subject, title: "Your password was set", blocks, reason }.written().first()
    }

    /// Warns a user whose second factor is guessed with the right password.
    pub fn password_is_known(to: &str, link: &str) -> Self {
        let blocks = vec![
            words(format!(
                "Somebody signed in to cardswitch with the password of {to} and then failed the \
                 second step five times."
            )),
            words(
                "If it was you, there is nothing to do. If not, somebody knows your password: set a \
                 new one here, and tell the administrator of your company.",
            ),
            LetterBlock::Link { label: "Set a new password", address: link.to_owned() },
        ];
        let reason = "You receive this email at most once a day, when the second step fails often.";
        let (subject, title) = ("Someone knows your password".to_owned(), "Was this you?");
        Draft { to, subject, title, blocks, reason }.written().first()
    }

    /// Brings a recipient the link to a card that `company` shares with them.
    pub fn shared_link(to: &str, share: &SharedCard<'_>) -> Self {
        let SharedCard { name, company, message, link, asks_passphrase } = share;
        let mut blocks = vec![
            words(format!("Hello {name},")),
            words(format!("{company} shares a payment card with you.")),
        ];
        if let Some(message) = message.filter(|message| !message.trim().is_empty()) {
            let lines = message.lines().map(str::to_owned).collect();
            blocks.push(LetterBlock::Quote { from: format!("Message from {company}"), lines });
        }
        blocks.push(words("Open this link to see its number and limits:"));
        blocks.push(LetterBlock::Link { label: "See the card", address: (*link).to_owned() });
        if *asks_passphrase {
            blocks.push(words(
                "The page asks you for something that only you and the sender know. cardswitch \
                 never asks for passwords of other accounts.",
            ));
        }
        blocks.push(words(
            "Anyone with the link sees the card: do not pass it on. It works until the company \
             revokes it.",
        ));
        let reason = "You received this email because someone at the company entered your address. \
                      If you do not know the company, do nothing.";
        let subject = format!("{} shares a card with you", subject_name(company));
        Draft { to, subject, title: "A card for you", blocks, reason }.written()
    }

    /// Informs a cardholder that a purchase with the card was declined.
    pub fn decline(to: &str, purchase: &DeclinedPurchase<'_>) -> Self {
        let DeclinedPurchase { cause: (cause, help), last_four, link, .. } = purchase;
        let blocks = vec![
            words(format!("A purchase with the card ending in {last_four} was declined.")),
            words(format!("{cause} {help}")),
            purchase.facts(),
            LetterBlock::Link { label: "See the transaction", address: (*link).to_owned() },
        ];
        let subject = format!("Declined: {} at {}", purchase.amount, purchase.place());
        let reason = CARDHOLDER;
        Draft { to, subject, title: "A purchase was declined", blocks, reason }.written()
    }

    /// Informs a cardholder that further purchases are declined without a letter each.
    pub fn more_declined(to: &str, link: &str) -> Self {
        let blocks = vec![
            words(
                "More purchases with your cards were declined. We’ve paused decline \
                 emails for up to an hour.",
            ),
            words("All of them are on the site:"),
            LetterBlock::Link { label: "See your transactions", address: link.to_owned() },
        ];
        let subject = "More purchases were declined".to_owned();
        let reason = CARDHOLDER;
        Draft { to, subject, title: "More purchases were declined", blocks, reason }.written()
    }

    /// Warns a cardholder that somebody else may be using the card.
    pub fn alert(to: &str, purchase: &DeclinedPurchase<'_>) -> Self {
        let DeclinedPurchase { cause: (cause, _), last_four, link, .. } = purchase;
        let blocks = vec![
            words(format!(
                "Someone may be trying out the card ending in {last_four}. Purchases were \
                 declined; the last of them is this one."
            )),
            purchase.facts(),
            words(cause.as_str()),
            words(
                "If you made these purchases, there is nothing to do. If not, tell the administrator of \
                 your company immediately: the card can be suspended or closed on the site.",
            ),
            LetterBlock::Link { label: "See the transaction", address: (*link).to_owned() },
            words("Nobody from cardswitch ever asks for your card number, PIN or password."),
        ];
        let subject = format!("Suspicious activity on the card ending in {last_four}");
        let reason = CARDHOLDER;
        Draft { to, subject, title: "Was this you?", blocks, reason }.written().first()
    }
}

/// Why cardholders get letters.
const CARDHOLDER: &str = "You received this email because the card is assigned to you.";

/// A purchase that was declined.
#[derive(Clone, Debug)]
pub struct DeclinedPurchase<'a> {
    /// The cause, and the remedy.
    pub cause: (String, &'static str),
    /// The last four digits of the card.
    pub last_four: String,
    /// The card's description.
    pub card: &'a str,
    /// The merchant's name; may be blank.
    pub merchant: &'a str,
    /// The merchant's town; may be blank.
    pub town: String,
    /// The amount requested.
    pub amount: String,
    /// The time, by the company's clock.
    pub time: String,
    /// The page of the transaction.
    pub link: &'a str,
}

impl DeclinedPurchase<'_> {
    fn place(&self) -> String {
        let merchant = self.merchant.trim();
        if merchant.is_empty() { "a merchant".to_owned() } else { subject_name(merchant) }
    }

    fn facts(&self) -> LetterBlock {
        let facts = [
            ("Merchant", self.merchant.to_owned()),
            ("Place", self.town.clone()),
            ("Amount", self.amount.clone()),
            ("Time", self.time.clone()),
            ("Card", format!("ending in {}", self.last_four)),
            ("Used for", self.card.to_owned()),
        ];
        let known = facts.into_iter().filter(|(_, value)| !value.trim().is_empty());
        LetterBlock::Facts(known.collect())
    }
}

/// A card that is shared.
#[derive(Clone, Copy)]
pub struct SharedCard<'a> {
    /// The recipient's name.
    pub name: &'a str,
    /// The name of the company that owns the card.
    pub company: &'a str,
    /// The message of its administrator.
    pub message: Option<&'a str>,
    /// The address that opens it.
    pub link: &'a str,
    /// Whether it has a passphrase.
    pub asks_passphrase: bool,
}

cardswitch_engine::opaque!(SharedCard<'_>);

/// A text in lines of plain mail, each begun with `start`. Words are not cut, however long.
fn lines_of(text: &str, start: &str) -> String {
    let mut lines = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let word_chars = word.chars().count();
        if length > 0 && length + 1 + word_chars > TEXT_LINE_CHARS_MAX {
            lines.push('\n');
            length = 0;
        }
        let before = if length == 0 { start } else { " " };
        lines.push_str(before);
        lines.push_str(word);
        length += before.chars().count() + word_chars;
    }
    // An empty line of a quotation is part of it, too.
    if lines.is_empty() { start.trim_end().to_owned() } else { lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIL: &str = "<script>alert(1)</script>\"'&\u{202e}\u{1f4a3}\r\nBcc: eve@example.com";

    fn shared(company: &str, message: Option<&str>) -> Letter {
        let share = SharedCard {
            name: "Grace",
            company,
            message,
            link: "https://cards.example.com/s/k",
            asks_passphrase: true,
        };
        Letter::shared_link("grace@example.com", &share)
    }

    #[test]
    fn both_parts_say_the_same() {
        let link = "https://cards.example.com/password/set/0123";
        let letters = [
            (Letter::new_password("ada@example.com", link), vec!["ada@example.com", link]),
            (Letter::invitation("ada@example.com", "Acme", link), vec!["Acme has invited", link]),
            (Letter::password_was_set("ada@example.com"), vec!["tell the administrator"]),
            (shared("Acme", Some("Hi\nthere")), vec!["Hello Grace,", "/s/k", "Hi", "there"]),
        ];
        for (letter, parts) in letters {
            let unbroken = letter.text.replace('\n', " ");
            for part in parts {
                assert!(unbroken.contains(part), "{part} in {}", letter.text);
                assert!(letter.html.contains(part), "{part} in {}", letter.html);
            }
        }
    }

    #[test]
    fn nothing_that_somebody_wrote_becomes_markup() {
        for letter in [
            shared(EVIL, Some(EVIL)),
            Letter::invitation("ada@example.com", EVIL, "l"),
            Letter::new_password("<b>@example.com", "javascript:\"><script>"),
        ] {
            for part in ["<script", "<b>", "\"><"] {
                assert!(!letter.html.contains(part), "{part} in {}", letter.html);
            }
        }
    }

    #[test]
    fn words_of_others_are_quoted_line_by_line() {
        let letter = shared("Acme", Some("Pay here:\n\nhttps://evil.example.com/pay"));
        assert!(letter.text.contains("> Pay here:\n>\n> https://evil.example.com/pay\n"));
        assert!(!letter.html.contains("href=\"https://evil"), "{}", letter.html);
        assert!(!shared("Acme", Some(" \n ")).text.contains("Message from"));
    }

    #[test]
    fn lines_are_short_unless_a_word_is_long() {
        let text = lines_of(&"word ".repeat(100), "> ");
        assert!(text.lines().all(|line| line.starts_with("> ") && line.len() <= 78), "{text}");
        let long = "x".repeat(200);
        assert_eq!(lines_of(&format!("a {long} b"), ""), format!("a\n{long}\nb"));
        assert_eq!((lines_of("", ""), lines_of(" ", "> ")), (String::new(), ">".to_owned()));
    }
}
