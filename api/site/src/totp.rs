//! Setting up an authenticator app, and turning it off. GET and POST /account/totp.
//!
//! Until the first code proves that the app has it, a seed is nowhere but on the page, sealed for
//! its user, and in the app.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::user::{Totp, UserChanges};
use cardswitch_engine::domain::ids::UserId;
use cardswitch_identity::auth::totp::Seed;
use cardswitch_identity::state::AppState;
use cardswitch_secrets::hex::{from_hex, to_hex};
use cardswitch_secrets::issuing::SystemRandom;
use qrcodegen::{QrCode, QrCodeEcc};
use serde::Deserialize;

use super::device::Client;
use super::faults::with_status;
use super::forms::SiteForm;
use super::frame::page;
use super::next::ACCOUNT_PATH;
use super::notice::{Notice, go_on};
use super::password::{WRONG_PASSWORD, change_user, is_password_of};
use super::session::{RequiredSession, Session};
use super::words::in_fours;

const WRONG_CODE: &str = "Incorrect code. Check your phone’s clock.";
/// The blank margin around the picture, as the format demands. Units: modules.
const MARGIN: i32 = 4;

#[derive(Template)]
#[template(path = "account_totp.html")]
struct TotpContent<'a> {
    csrf: String,
    enrolment: Option<Enrolment>,
    code_error: &'a str,
    password_error: &'a str,
}

/// A seed on its way into an app.
struct Enrolment {
    size: i32,
    picture: String,
    typed: String,
    sealed: String,
}

/// The fields of the form.
#[derive(Deserialize)]
pub(super) struct TotpForm {
    action: TotpAction,
    #[serde(default)]
    seed: String,
    #[serde(default)]
    code: String,
    password: String,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum TotpAction {
    On,
    Off,
}

/// GET /account/totp.
pub(super) async fn show(
    RequiredSession(state, session): RequiredSession,
) -> Result<Response, ApiError> {
    let seed = match &session.user.totp {
        Some(_) => None,
        None => Some(Seed::draw(&mut SystemRandom)?),
    };
    shown(&state, &session, seed.as_ref(), ["", ""])
}

fn shown(
    state: &AppState,
    session: &Session,
    seed: Option<&Seed>,
    [code_error, password_error]: [&str; 2],
) -> Result<Response, ApiError> {
    let content = TotpContent {
        csrf: session.csrf(state),
        enrolment: seed.map(|seed| enrolment(state, session, seed)).transpose()?,
        code_error,
        password_error,
    };
    Ok(page("Authenticator app", content))
}

fn enrolment(state: &AppState, session: &Session, seed: &Seed) -> Result<Enrolment, ApiError> {
    let user = &session.user;
    let sealed = seed.seal(&state.secrets, user.id).map_err(|error| ApiError::internal(&error))?;
    let (size, picture) = picture_of(&seed.provisioning_uri(&user.email));
    Ok(Enrolment { size, picture, typed: in_fours(&seed.base32()), sealed: to_hex(&sealed) })
}

/// A QR code as the path of a drawing, and how wide it is; nothing where the text is too long.
fn picture_of(text: &str) -> (i32, String) {
    let Ok(code) = QrCode::encode_text(text, QrCodeEcc::Medium) else { return (0, String::new()) };
    let size = code.size();
    let places = (0..size).flat_map(|y| (0..size).map(move |x| (x, y)));
    let dark = places.filter(|(x, y)| code.get_module(*x, *y));
    let path = dark.map(|(x, y)| format!("M{},{}h1v1h-1z", x + MARGIN, y + MARGIN)).collect();
    (size + 2 * MARGIN, path)
}

/// POST /account/totp.
pub(super) async fn change(
    client: Client,
    RequiredSession(state, session): RequiredSession,
    SiteForm(form): SiteForm<TotpForm>,
) -> Result<Response, ApiError> {
    let is_on = session.user.totp.is_some();
    if is_on == (form.action == TotpAction::On) {
        // Done already, in another window: the page shows how it stands.
        return Ok(Redirect::to("/account/totp").into_response());
    }
    let seed = opened(&state, session.user.id, &form.seed);
    if form.action == TotpAction::On && seed.is_none() {
        return Ok(Redirect::to("/account/totp").into_response());
    }
    let refused = |errors| {
        let page = shown(&state, &session, seed.as_ref(), errors)?;
        Ok(with_status(page, StatusCode::BAD_REQUEST))
    };
    if !is_password_of(&state, &session.user, &client, &form.password).await? {
        return refused(["", WRONG_PASSWORD]);
    }
    let totp = match &seed {
        Some(seed) if form.action == TotpAction::On => {
            let code: String = form.code.chars().filter(|letter| !letter.is_whitespace()).collect();
            let Some(last_step) = seed.matching_step(&code, state.clock_time()) else {
                return refused([WRONG_CODE, ""]);
            };
            let sealed = seed.seal(&state.secrets, session.user.id);
            let sealed_seed = sealed.map_err(|error| ApiError::internal(&error))?;
            Some(Totp { sealed_seed, last_step })
        }
        _ => None,
    };
    let notice = if totp.is_some() { Notice::TOTP_ON } else { Notice::TOTP_OFF };
    let changes = UserChanges { totp: Some(totp), ..UserChanges::default() };
    let changed = change_user(&state, &session, changes).await?;
    Ok(changed.err().unwrap_or_else(|| go_on(&state, ACCOUNT_PATH, notice)))
}

/// The seed that a page was made with, where it was made for this user.
fn opened(state: &AppState, user: UserId, sealed: &str) -> Option<Seed> {
    Seed::open(&state.secrets, user, &from_hex(sealed)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_margin_and_its_corners() {
        let (size, path) = picture_of("otpauth://totp/cardswitch:ada%40example.com?secret=ABC");
        assert!(size >= 21 + 2 * MARGIN);
        for corner in [(MARGIN, MARGIN), (size - MARGIN - 1, MARGIN), (MARGIN, size - MARGIN - 1)] {
            assert!(path.contains(&format!("M{},{}h1v1h-1z", corner.0, corner.1)), "{corner:?}");
        }
        assert!(!path.contains("M3,") && !path.contains(",3h"));
        assert_eq!(picture_of(&"x".repeat(5_000)), (0, String::new()));
    }
}
