//! A switch in another process, as commands reach it over HTTP: the cards that people name, and their
//! numbers, which a simulation tells.

use std::net::SocketAddr;

use cardswitch_engine::domain::search_key::search_key;
use cardswitch_feed::Line;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;
use uuid::Uuid;

use super::dev::find_access;
use super::http_client::{get_json, parse_url};
use super::http_tls_args::{HttpTls, HttpTlsArgs};
use super::line_args::LineArgs;
use super::{Failure, parse_address};
use crate::config::Settings;

/// How many cards are asked for at a time.
const CARDS_AT_A_TIME: usize = 1_000;
/// How many cards of the same name are listed.
const LISTED_MAX: usize = 20;

/// The address of a switch, and the key to it; without any of it the switch of `dev`.
#[derive(Debug, clap::Args)]
pub(super) struct SwitchArgs {
    /// ISO 8583 address of the switch [default: that of `dev`, else 127.0.0.1:8583]
    #[arg(long, env = "CARDSWITCH_CONNECT", value_name = "ADDR", value_parser = parse_address)]
    connect: Option<SocketAddr>,
    /// HTTP address of the switch [default: that of `dev`, else http://127.0.0.1:8080]
    #[arg(long, env = "CARDSWITCH_URL", value_name = "URL")]
    url: Option<String>,
    /// Network key, for the number of the card [default: that of `dev`]
    #[arg(long, env = "CARDSWITCH_NETWORK_KEY", value_name = "KEY", hide_env_values = true)]
    network_key: Option<String>,
    /// Access token, to find cards by their name and to explain declines [default: that of `dev`]
    #[arg(long, env = "CARDSWITCH_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,
    #[command(flatten)]
    http_tls: HttpTlsArgs,
    #[command(flatten)]
    line: LineArgs,
}

/// A card as its number is told by the switch.
pub(super) struct BuyersCard {
    pub(super) id: Uuid,
    pub(super) number: String,
    /// YYMM.
    pub(super) expiry: String,
    pub(super) cvv: String,
}

/// A switch in another process.
pub(super) struct RemoteSwitch {
    /// The line to the ISO 8583 door.
    pub(super) line: Line,
    url: Url,
    tls: HttpTls,
    network_key: String,
    pub(super) token: Option<String>,
}

impl RemoteSwitch {
    pub(super) fn of(args: &SwitchArgs) -> Result<Self, Failure> {
        let SwitchArgs { connect, url, network_key, token, http_tls, line } = args;
        let is_named = connect.is_some() || url.is_some();
        if !is_named && let Some((addresses, credentials)) = find_access() {
            let url = parse_url(&addresses.url)?;
            let or = |given: &Option<String>, kept| given.clone().unwrap_or(kept);
            return Ok(Self {
                line: line.line(addresses.iso8583.unwrap_or(Settings::default().iso8583))?,
                tls: http_tls.open([&url])?,
                url,
                network_key: or(network_key, credentials.network_key),
                token: Some(or(token, credentials.access_token)),
            });
        }
        let network_key = network_key.clone().ok_or_else(|| {
            Failure::usage("start `cardswitch dev`, or name a switch: --connect, --url, --network-key, --token")
        })?;
        let settings = Settings::default();
        let url = url.clone().unwrap_or_else(|| settings.base_url_for(settings.http));
        let url = parse_url(&url)?;
        Ok(Self {
            line: line.line(connect.unwrap_or(settings.iso8583))?,
            tls: http_tls.open([&url])?,
            url,
            network_key,
            token: token.clone(),
        })
    }

    fn address(&self, path: &str) -> Result<Url, Failure> {
        parse_url(&format!("{}{path}", self.url.as_str().trim_end_matches('/')))
    }

    pub(super) async fn of_network<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, Failure> {
        let authorization = format!("Bearer {}", self.network_key);
        get_json((&self.address(path)?, &self.tls), &authorization).await
    }

    /// Errors: there is no token, or it is of no use.
    pub(super) async fn of_company<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, Failure> {
        let token = self.token.as_ref().ok_or_else(|| {
            Failure::usage("an access token is needed for that: --token, or CARDSWITCH_TOKEN")
        })?;
        get_json((&self.address(path)?, &self.tls), &format!("Token {token}")).await
    }

    pub(super) async fn find_card(&self, named: &str) -> Result<BuyersCard, Failure> {
        let id = match named.parse() {
            Ok(id) => id,
            Err(_) => self.find_by_name(named).await?,
        };
        let unknown = || Failure::new(format!("no card `{named}`"));
        let path = format!("/network/v1/cards/{id}");
        let secrets: CardSecrets = self.of_network(&path).await?.ok_or_else(unknown)?;
        let CardSecrets { card_number: number, expiration, cvv } = secrets;
        let expiry = expiration.get(2..4).zip(expiration.get(5..7));
        let expiry = expiry.map(|(year, month)| format!("{year}{month}")).unwrap_or_default();
        Ok(BuyersCard { id, number, expiry, cvv })
    }

    /// The only card that ends in these digits or has this description.
    /// Errors: there is none, or there are several.
    async fn find_by_name(&self, named: &str) -> Result<Uuid, Failure> {
        let cards = self.cards().await?;
        let wanted = search_key(named);
        let described = |card: &&NamedCard| search_key(&card.description).contains(&wanted);
        let mut found: Vec<_> = cards.iter().filter(|card| card.last_four == named).collect();
        if found.is_empty() {
            found = cards.iter().filter(|card| search_key(&card.description) == wanted).collect();
        }
        if found.is_empty() {
            found = cards.iter().filter(described).collect();
        }
        match found.as_slice() {
            [] => Err(Failure::new(format!("no card ends in `{named}` or is described so"))),
            [card] => Ok(card.id),
            several => {
                for NamedCard { id, last_four, description } in several.iter().take(LISTED_MAX) {
                    println!("{id}  ending in {last_four}  {description}");
                }
                let count = several.len();
                Err(Failure::new(format!("`{named}` names {count} cards: name one by its id")))
            }
        }
    }

    async fn cards(&self) -> Result<Vec<NamedCard>, Failure> {
        let mut cards = Vec::new();
        loop {
            let offset = cards.len();
            let path = format!("/v1/cards?limit={CARDS_AT_A_TIME}&offset={offset}");
            let page: RemotePage<NamedCard> = self.of_company(&path).await?.unwrap_or_default();
            let count = page.results.len();
            cards.extend(page.results);
            if count < CARDS_AT_A_TIME {
                return Ok(cards);
            }
        }
    }
}

/// A page of a list.
#[derive(Deserialize)]
pub(super) struct RemotePage<T> {
    pub(super) results: Vec<T>,
}

impl<T> Default for RemotePage<T> {
    fn default() -> Self {
        Self { results: Vec::new() }
    }
}

/// The details of a card that pay with it.
#[derive(Deserialize)]
struct CardSecrets {
    card_number: String,
    /// As `2030-01-31`.
    expiration: String,
    cvv: String,
}

/// A card as lists have it.
#[derive(Deserialize)]
struct NamedCard {
    id: Uuid,
    last_four: String,
    description: String,
}
