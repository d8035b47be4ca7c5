//! A card program that a command makes for itself: a data directory with test cards, whose secrets are
//! kept beside them, and the way in that people are told.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_feed::{Card, Portfolio, Profile};
use cardswitch_secrets::issuing::CardNumbers;
use cardswitch_secrets::master_key::data_key::DATA_KEY_FILE;
use cardswitch_secrets::master_key::source::MasterKeySource;
use cardswitch_secrets::private_file::{create_private, replace};

use super::Failure;
use super::init::{demo_company, random_source};
use crate::config::Settings;
use crate::install::{Credentials, InstallationOrder, install};
use crate::server::Server;

const CARDS_FILE: &str = "cards.jsonl";
const CREDENTIALS_FILE: &str = "credentials.json";

/// A card program to make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    /// How many test cards.
    pub(super) cards: usize,
    /// The seed of all randomness; the system's randomness where absent.
    pub(super) seed: Option<u64>,
    /// When it is made; now where absent.
    pub(super) at: Option<Timestamp>,
}

/// The directory of a card program.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) path: PathBuf,
    /// Whether it goes with this value.
    pub(super) is_temporary: bool,
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.is_temporary {
            // A directory left behind in a temporary place harms nobody.
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

impl Home {
    /// A directory that stays.
    pub(super) const fn at(path: PathBuf) -> Self {
        Self { path, is_temporary: false }
    }

    /// A directory in `place` that goes with this value.
    pub(super) fn temporary(place: &Path, command: &str) -> Self {
        let name = format!("cardswitch-{command}-{}", std::process::id());
        Self { path: place.join(name), is_temporary: true }
    }

    /// The credentials of the program that is there.
    /// Errors: the file of the credentials cannot be read.
    pub(super) fn credentials(&self) -> Result<Option<Credentials>, Failure> {
        let path = self.path.join(CREDENTIALS_FILE);
        let Ok(text) = std::fs::read_to_string(&path) else { return Ok(None) };
        let read = serde_json::from_str(&text);
        read.map(Some).map_err(|error| unusable(&path, error))
    }

    /// Keeps another network key with the credentials, where a program is there.
    /// Errors: the file of the credentials cannot be read or written.
    pub(super) fn keep_network_key(&self, network_key: &str) -> Result<(), Failure> {
        let Some(credentials) = self.credentials()? else { return Ok(()) };
        let credentials = Credentials { network_key: network_key.to_owned(), ..credentials };
        let (path, text) = (self.path.join(CREDENTIALS_FILE), serde_json::to_vec(&credentials)?);
        replace(&path, &text).map_err(|error| unusable(&path, error))
    }

    /// Makes the program unless it is there; returns what opens it.
    pub(super) async fn install_if_needed(
        &self,
        program: Program,
        say: impl Fn(&str),
    ) -> Result<Credentials, Failure> {
        if let Some(credentials) = self.credentials()? {
            return Ok(credentials);
        }
        // A directory made by `init` has no such file: its secrets were shown once, not kept.
        if self.path.join(DATA_KEY_FILE).exists() {
            let what = "is a data directory without credentials.json, as of `init`: `serve` it, and `feed` it";
            return Err(unusable(&self.path, what));
        }
        say(&format!("making {} test cards", program.cards));
        let installation = self.installation(program)?;
        let mut random = random_source(program.seed, None);
        let (credentials, directory) = install(&installation, random.as_mut(), &|_| {}).await?;
        let text = serde_json::to_string(&credentials)?;
        let path = directory.path().join(CREDENTIALS_FILE);
        create_private(&path)
            .and_then(|mut file: File| writeln!(file, "{text}"))
            .map_err(|error| unusable(&path, error))?;
        directory.publish()?;
        Ok(credentials)
    }

    fn installation(&self, program: Program) -> Result<InstallationOrder, Failure> {
        let settings = Settings::default();
        let card_numbers = CardNumbers::new(&settings.bin)
            .ok_or_else(|| Failure::new("the default BIN is none"))?;
        Ok(InstallationOrder {
            data: self.path.clone(),
            company: demo_company().order()?,
            admin_email: "admin@example.com".to_owned(),
            card_numbers,
            network: settings.network,
            cards: program.cards,
            cards_out: Some(self.path.join(CARDS_FILE)),
            at: program.at,
            master_key: MasterKeySource::InDirectory,
        })
    }

    /// The test cards.
    /// Errors: their file cannot be read.
    pub(super) fn portfolio(&self) -> Result<Portfolio, Failure> {
        Portfolio::read(&self.path.join(CARDS_FILE)).map_err(Failure::new)
    }
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::new(format!("`{}`: {why}", path.display()))
}

/// The way into a switch: the site, `/v1`, the network, and a first purchase.
pub(super) struct WayIn<'a> {
    pub(super) server: &'a Server,
    pub(super) credentials: &'a Credentials,
    pub(super) portfolio: &'a Portfolio,
    /// Whether `buy` finds the switch by itself.
    pub(super) is_known: bool,
}

impl WayIn<'_> {
    /// The text for people, line by line.
    pub(super) fn lines(&self) -> Vec<String> {
        let Self { server, credentials, .. } = self;
        let Credentials { admin_email, admin_password, access_token, network_key, .. } =
            credentials;
        let url = format!("http://{}", server.http);
        let mut lines = vec![
            format!("sign in at    {url}/login"),
            format!("  e-mail      {admin_email}"),
            format!("  password    {admin_password}"),
            format!("access token  {access_token}"),
            format!("network key   {network_key}"),
        ];
        let Some(card) = self.card() else { return lines };
        let named = self.name_of(card);
        let program = program();
        let flags = if self.is_known {
            String::new()
        } else {
            let connect = server.iso8583();
            format!(
                " --connect {connect} --url {url} --network-key {network_key} --token {access_token}"
            )
        };
        lines.extend([
            format!("card          {} ending in {}", card.card_id, last_four(card)),
            "Try:".to_owned(),
            format!(
                "  curl -sS -H 'Authorization: Token {access_token}' {url}/v1/cards/{}",
                card.card_id
            ),
            format!("  {program} buy {named} 24.50 --mcc 5812{flags}"),
        ]);
        lines
    }

    /// A card that is approved.
    fn card(&self) -> Option<&Card> {
        let mut cards = self.portfolio.cards.iter();
        cards.find(|card| matches!(card.profile, None | Some(Profile::Ordinary)))
    }

    /// The last four digits where no other card ends so, else the id.
    fn name_of<'c>(&self, card: &'c Card) -> &'c str {
        let digits = last_four(card);
        let alike = self.portfolio.cards.iter().filter(|other| last_four(other) == digits);
        if alike.count() == 1 { digits } else { &card.card_id }
    }
}

fn last_four(card: &Card) -> &str {
    card.pan.get(card.pan.len().saturating_sub(4)..).unwrap_or_default()
}

/// This program, as the shell finds it.
fn program() -> String {
    const NAME: &str = "cardswitch";
    let Ok(own) = std::env::current_exe() else { return NAME.to_owned() };
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let first =
        std::env::split_paths(&paths).map(|path| path.join(NAME)).find(|path| path.is_file());
    if first.is_some_and(|first| first.canonicalize().is_ok_and(|first| first == own)) {
        return NAME.to_owned();
    }
    let here = std::env::current_dir().unwrap_or_default();
    own.strip_prefix(here).unwrap_or(&own).display().to_string()
}
