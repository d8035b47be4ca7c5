//! The conversation with a mail server: one connection, kept while letters come.
//!
//! A server's words about a letter may name its reader, so only their codes leave this file.

use std::time::Duration;

use cardswitch_dispatch::mail::sending::MailOutcome;
use lettre::address::Envelope;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use tokio::time::timeout;

use super::limits::{LETTER_WAIT, LETTERS_PER_CONNECTION, STEP_WAIT};
use super::outbox::MailError;

/// "Service not available": said of a connection, not of a letter. Source: RFC 5321, 4.2.2.
const CLOSING: u16 = 421;

/// How a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsUse {
    /// TLS from the first byte.
    Wrapped,
    /// STARTTLS, or no connection.
    Required,
    /// STARTTLS where the server has it.
    Opportunistic,
    /// Never.
    None,
}

/// A server as the settings name it.
#[derive(Debug)]
pub(super) struct SmtpAddress {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: TlsUse,
    pub(super) credentials: Option<Credentials>,
    /// How long a letter waits that the server puts off.
    pub(super) retry_wait: Duration,
}

impl SmtpAddress {
    /// The server, ready for connections of a switch that calls itself `hello`.
    /// Errors: TLS is demanded and cannot be had.
    pub(super) fn ready(self, hello: &str) -> Result<SmtpServer, MailError> {
        let unusable = |error| MailError::Settings(format!("TLS with the mail server: {error}"));
        let tls_parameters = match self.tls {
            TlsUse::None => None,
            _ => Some(TlsParameters::new(self.host.clone()).map_err(unusable)?),
        };
        let hello = ClientId::Domain(hello.to_owned());
        Ok(SmtpServer { address: self, tls_parameters, hello })
    }
}

/// A mail server.
pub(super) struct SmtpServer {
    pub(super) address: SmtpAddress,
    tls_parameters: Option<TlsParameters>,
    hello: ClientId,
}

cardswitch_engine::opaque!(SmtpServer);

/// The way to a server: at most one connection at a time.
pub(super) struct Route<'a> {
    server: &'a SmtpServer,
    connection: Option<AsyncSmtpConnection>,
    /// How many letters went over it.
    letters: u32,
}

impl<'a> Route<'a> {
    pub(super) const fn new(server: &'a SmtpServer) -> Self {
        Self { server, connection: None, letters: 0 }
    }

    pub(super) const fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    /// Sends a message, over the connection there is or a new one.
    /// Cost: bounded in time; connections of misbehaving servers are dropped.
    pub(super) async fn send(&mut self, envelope: &Envelope, message: &[u8]) -> MailOutcome {
        if self.letters >= LETTERS_PER_CONNECTION {
            self.close().await;
        }
        let was_open = self.is_open();
        let outcome = self.send_once(envelope, message).await;
        // Servers close idle connections: only the next letter finds that out.
        if was_open && matches!(outcome, MailOutcome::Unreached(_)) {
            return self.send_once(envelope, message).await;
        }
        outcome
    }

    async fn send_once(&mut self, envelope: &Envelope, message: &[u8]) -> MailOutcome {
        // Taken out, so that a connection on which anything went wrong, or which is abandoned on
        // the way, is never used again.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => match self.server.connect().await {
                Ok(connection) => {
                    self.letters = 0;
                    connection
                }
                Err(reason) => return MailOutcome::Unreached(reason),
            },
        };
        match timeout(LETTER_WAIT, connection.send(envelope, message)).await {
            Ok(Ok(_)) => {
                self.connection = Some(connection);
                self.letters += 1;
                MailOutcome::Taken
            }
            Ok(Err(error)) => outcome_of(&error),
            Err(_) => MailOutcome::Unreached("it takes too long"),
        }
    }

    /// Ends the connection, if there is one.
    pub(super) async fn close(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            // The answer changes nothing.
            let _ = timeout(Duration::from_secs(1), connection.quit()).await;
        }
    }
}

fn outcome_of(error: &SmtpError) -> MailOutcome {
    match error.status().map(u16::from) {
        Some(CLOSING) => MailOutcome::Unreached("it is closing"),
        Some(code) if error.is_permanent() => MailOutcome::Refused(code),
        Some(code) => MailOutcome::PutOff(code),
        // An address that the server has no means for.
        None if error.is_client() => MailOutcome::Refused(0),
        None => MailOutcome::Unreached("it broke off"),
    }
}

impl SmtpServer {
    /// Errors: the reason, in words that name nobody.
    async fn connect(&self) -> Result<AsyncSmtpConnection, &'static str> {
        let address = (self.address.host.as_str(), self.address.port);
        let wrapped = self.tls_parameters.clone().filter(|_| self.address.tls == TlsUse::Wrapped);
        let connecting = AsyncSmtpConnection::connect_tokio1(
            address,
            Some(STEP_WAIT),
            &self.hello,
            wrapped,
            None,
        );
        let mut connection = step(connecting, "it cannot be reached").await?;
        if let Some(tls) = self.tls_to_start(&connection) {
            step(connection.starttls(tls, &self.hello), "it does not encrypt").await?;
        }
        if let Some(credentials) = &self.address.credentials {
            step(connection.auth(DEFAULT_MECHANISMS, credentials), "it does not let the switch in")
                .await?;
        }
        Ok(connection)
    }

    fn tls_to_start(&self, connection: &AsyncSmtpConnection) -> Option<TlsParameters> {
        match self.address.tls {
            TlsUse::Required => self.tls_parameters.clone(),
            TlsUse::Opportunistic if connection.can_starttls() => self.tls_parameters.clone(),
            _ => None,
        }
    }
}

async fn step<T>(
    step: impl Future<Output = Result<T, SmtpError>>,
    refusal: &'static str,
) -> Result<T, &'static str> {
    match timeout(STEP_WAIT, step).await {
        Ok(done) => done.map_err(|_| refusal),
        Err(_) => Err("it takes too long"),
    }
}
