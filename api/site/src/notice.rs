//! What the next page says about what was just done.
//!
//! Only a short word travels, in a cookie, and a table here makes a sentence of it: nobody can put
//! words of his own on a page.

use axum::http::header::SET_COOKIE;
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use cardswitch_identity::state::AppState;

use super::cookies::SiteCookie;

/// How long it waits for the next page. Units: seconds.
const WAITING_S: i64 = 60;

/// Something that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    word: &'static str,
    text: &'static str,
    tone: Tone,
}

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    /// What was wanted has come about.
    Good,
    /// It was tried, in vain.
    Bad,
}

macro_rules! notices {
    ($($tone:ident: $($name:ident $word:literal $text:literal)*;)*) => {
        impl Notice {
            $($(
                #[doc = $text]
                pub const $name: Self = Self { word: $word, text: $text, tone: Tone::$tone };
            )*)*
            const ALL: &'static [Self] = &[$($(Self::$name,)*)*];
        }
    };
}

notices! {
Good:
    SIGNED_OUT "signed-out" "You are signed out."
    PASSWORD_SET "password-set" "Your password is set. Sign in with it."
    PASSWORD_CHANGED "password-changed" "Your password is changed. You are signed out everywhere else."
    PROFILE_SAVED "profile-saved" "Name saved."
    TOTP_ON "totp-on" "Your authenticator app is set up. You are asked for a code at each sign-in, and signed out everywhere else."
    TOTP_OFF "totp-off" "Sign-in no longer asks for a code of your authenticator app. You are signed out everywhere else."
    QUESTION_SET "question-set" "Your security question is set. You are signed out everywhere else."
    QUESTION_REMOVED "question-removed" "Your security question is removed. You are signed out everywhere else."
    SESSION_ENDED "session-ended" "That session is ended."
    SESSIONS_ENDED "sessions-ended" "All other sessions are ended."
    APP_SAVED "app-saved" "App saved."
    APP_WAITS "app-waits" "App saved. What the operator has approved stays in effect until the operator approves the changes."
    APP_DELETED "app-deleted" "The app is deleted. Its tokens open nothing any more."
    TOKEN_REVOKED "token-revoked" "The token is revoked. It opens nothing any more."
    DIMENSION_MADE "dimension-made" "Created."
    DIMENSION_SAVED "dimension-saved" "Saved."
    DIMENSION_DELETED "dimension-deleted" "Deleted."
    TRANSACTION_SAVED "transaction-saved" "Transaction saved."
    RECEIPT_KEPT "receipt-kept" "The receipt is kept."
    RECEIPT_DELETED "receipt-deleted" "The receipt is deleted."
    RECEIPT_LOST "receipt-lost" "The receipt is noted as lost."
    REQUISITION_MADE "requisition-made" "Request submitted. Track it here."
    REQUISITION_SAVED "requisition-saved" "Requisition saved."
    REQUISITION_CANCELED "requisition-canceled" "Request withdrawn."
    REQUISITION_APPROVED "requisition-approved" "The requisition is approved."
    REQUISITION_DENIED "requisition-denied" "The requisition is denied."
    MEMBER_INVITED "member-invited" "The member is invited. Whoever has no password yet gets a letter with a link to choose one."
    MEMBER_SAVED "member-saved" "Member saved."
    MEMBER_DEACTIVATED "member-deactivated" "The member is deactivated."
    MEMBER_DELETED "member-deleted" "The member is deleted."
    MEMBER_REACTIVATED "member-reactivated" "Member reactivated."
    LINK_SENT "link-sent" "A letter with a link to choose a password is on its way, unless several were sent just now."
    WEBHOOK_SAVED "webhook-saved" "Endpoint saved."
    WEBHOOK_ON "webhook-on" "The endpoint is on. It will receive new events."
    WEBHOOK_OFF "webhook-off" "The endpoint is off. Nothing is sent to it."
    WEBHOOK_DELETED "webhook-deleted" "The endpoint is deleted."
    WEBHOOK_ARRIVED "webhook-arrived" "Delivered."
    WEBHOOK_RECOVERED "webhook-recovered" "Events since then are being sent again."
    COMPANY_CHANGED "company-changed" "You are now acting for this company."
    CARD_MADE "card-made" "The card is made."
    CARD_SAVED "card-saved" "Card saved."
    ALLOWANCE_SAVED "allowance-saved" "Budget and limits are saved."
    CARD_SUSPENDED "card-suspended" "The card is suspended. It declines everything."
    CARD_OPENED "card-opened" "The card is active."
    CARD_CLOSED "card-closed" "The card is closed for good."
    LINK_MADE "link-made" "The link is made. It is the first one below."
    LINK_DELETED "link-deleted" "The link is deleted. It opens nothing any more.";
Bad:
    WEBHOOK_REFUSED "webhook-refused" "The receiver answered, but did not take it. Its status is in the list of deliveries."
    WEBHOOK_UNANSWERED "webhook-unanswered" "The receiver did not answer. The reason is in the list of deliveries."
    WEBHOOK_UNTOLD "webhook-untold" "Not sent: these events are no longer available to this endpoint.";
}

impl Notice {
    /// What the page says.
    #[must_use]
    pub const fn text(self) -> &'static str {
        self.text
    }

    /// Whether it says that something was in vain.
    #[must_use]
    pub const fn is_bad(self) -> bool {
        matches!(self.tone, Tone::Bad)
    }

    pub(super) fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|notice| notice.word == word)
    }
}

/// Goes on to the page at `path`, which will say `notice`.
#[must_use]
pub fn go_on(state: &AppState, path: &str, notice: Notice) -> Response {
    let cookie = SiteCookie::Notice.set(notice.word, WAITING_S, state.urls().is_behind_tls());
    (AppendHeaders([(SET_COOKIE, cookie)]), Redirect::to(path)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_notices_and_nothing_else_does() {
        for notice in Notice::ALL {
            assert_eq!(Notice::named(notice.word), Some(*notice));
        }
        assert_eq!(Notice::named("You have won"), None);
    }
}
