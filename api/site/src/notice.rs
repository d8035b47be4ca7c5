//! The sentence on the next page about what was just done.
//!
//! Only a short word travels, in a cookie, and a table here makes a sentence of it: nobody can put
//! words of their own on a page.

use axum::http::header::SET_COOKIE;
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use cardswitch_identity::state::AppState;

use super::cookies::SiteCookie;

/// How long it waits for the next page. Units: seconds.
const WAITING_S: i64 = 60;

/// A notice about something that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    word: &'static str,
    text: &'static str,
}

macro_rules! notices {
    ($($name:ident $word:literal $text:literal)*) => {
        impl Notice {
            $(
                #[doc = $text]
                pub const $name: Self = Self { word: $word, text: $text };
            )*
            const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

notices! {
    SIGNED_OUT "signed-out" "Signed out."
    SIGN_IN_LOST "sign-in-lost" "You were signed out. Your changes were not saved."
    PASSWORD_SET "password-set" "Password set. Sign in with it."
    PASSWORD_CHANGED "password-changed" "Password changed. You are signed out everywhere else."
    PROFILE_SAVED "profile-saved" "Name saved."
    TOTP_ON "totp-on" "Authenticator app set up. You are asked for a code at each sign-in, and signed out everywhere else."
    TOTP_OFF "totp-off" "Sign-in no longer asks for a code of your authenticator app. You are signed out everywhere else."
    QUESTION_SET "question-set" "Security question set. You are signed out everywhere else."
    QUESTION_REMOVED "question-removed" "Security question removed. You are signed out everywhere else."
    SESSION_ENDED "session-ended" "Session ended."
    SESSIONS_ENDED "sessions-ended" "All other sessions ended."
    APP_SAVED "app-saved" "App saved."
    APP_WAITS "app-waits" "App saved. The approved version stays in effect until the operator approves the changes."
    APP_DELETED "app-deleted" "App deleted. Its tokens no longer work."
    TOKEN_REVOKED "token-revoked" "Token revoked. It no longer works."
    DIMENSION_MADE "dimension-made" "Created."
    DIMENSION_SAVED "dimension-saved" "Saved."
    DIMENSION_DELETED "dimension-deleted" "Deleted."
    TRANSACTION_SAVED "transaction-saved" "Transaction saved."
    RECEIPT_KEPT "receipt-kept" "Receipt uploaded."
    RECEIPT_DELETED "receipt-deleted" "Receipt deleted."
    RECEIPT_LOST "receipt-lost" "Receipt marked as lost."
    REQUISITION_MADE "requisition-made" "Request submitted. Track it here."
    REQUISITION_SAVED "requisition-saved" "Requisition saved."
    REQUISITION_CANCELED "requisition-canceled" "Request withdrawn."
    REQUISITION_APPROVED "requisition-approved" "Requisition approved."
    REQUISITION_DENIED "requisition-denied" "Requisition denied."
    MEMBER_INVITED "member-invited" "Member invited. A member without a password gets an email with a link to choose one."
    MEMBER_SAVED "member-saved" "Member saved."
    MEMBER_DEACTIVATED "member-deactivated" "Member deactivated."
    MEMBER_DELETED "member-deleted" "Member deleted."
    MEMBER_REACTIVATED "member-reactivated" "Member reactivated."
    LINK_SENT "link-sent" "An email with a link to choose a password is on its way, unless several were sent just now."
    WEBHOOK_SAVED "webhook-saved" "Endpoint saved."
    WEBHOOK_ON "webhook-on" "Endpoint enabled. It will receive new events."
    WEBHOOK_OFF "webhook-off" "Endpoint disabled. Nothing is sent to it."
    WEBHOOK_DELETED "webhook-deleted" "Endpoint deleted."
    WEBHOOK_RECOVERED "webhook-recovered" "Replaying events since then."
    COMPANY_CHANGED "company-changed" "You are now acting for this company."
    CARD_MADE "card-made" "Card created."
    CARD_SAVED "card-saved" "Card saved."
    ALLOWANCE_SAVED "allowance-saved" "Budget and limits saved."
    CARD_SUSPENDED "card-suspended" "Card suspended. It declines every purchase."
    CARDS_SUSPENDED "cards-suspended" "Cards suspended. They decline every purchase."
    CARD_OPENED "card-opened" "Card activated."
    CARD_CLOSED "card-closed" "Card closed."
    LINK_MADE "link-made" "Link created."
    LINK_DELETED "link-deleted" "Link deleted. It no longer works."
}

impl Notice {
    /// The sentence on the page.
    pub const fn text(self) -> &'static str {
        self.text
    }

    pub(super) fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|notice| notice.word == word)
    }
}

/// Goes on to the page at `path`, which will say `notice`.
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
