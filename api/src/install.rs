//! Makes a data directory ready for work: keys, companies, an administrator, a token, cards.
//!
//! Everything random comes from one source, so that a seeded installation is the same every time.
//! Such an installation is for simulations only, since its seed reveals its keys.

mod company_order;
mod unpublished_directory;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use argon2::password_hash::PasswordHasher;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::switch::Switch;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::backup::CopyError;
use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::command::{Command, NotedCommand, TimedCommand};
use cardswitch_engine::data_directory::{DataDirectory, DirectoryError};
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessTokenCommand, NewAccessToken, NewTokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::card::{CardCommand, CardOrder};
use cardswitch_engine::directory::company::{CompanyCommand, NewCompany};
use cardswitch_engine::directory::member::{MemberCommand, MemberRole, NewMember};
use cardswitch_engine::directory::user::{NewUser, UserCommand};
use cardswitch_engine::domain::audit::{Actor, AuditNote};
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::ids::{AccessTokenId, CompanyId, MemberId, Timestamp, UserId};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::engine::{Engine, EngineOptions, OpenError, Retention};
use cardswitch_engine::journal::limits::CommitLimits;
use cardswitch_engine::shard::CacheLimits;
use cardswitch_engine::store::Pacing;
use cardswitch_engine::submission::SubmitError;
use cardswitch_feed::Profile;
use cardswitch_secrets::hex::to_hex;
use cardswitch_secrets::issuing::{
    CardNumbers, DRAWS_MAX, DrawnCard, IssueError, Issuer, IssuingOrder, RandomSource,
};
use cardswitch_secrets::master_key::data_key::{DataKey, DataKeyError, WrappedKey, write_wrapped};
use cardswitch_secrets::master_key::source::MasterKeySource;
use cardswitch_secrets::master_key::{MasterKey, MasterKeyError};
use cardswitch_secrets::private_file::create_private;
use cardswitch_secrets::{Secrets, token_digest};
use cardswitch_wire::time::render_date;
use serde::{Deserialize, Serialize};

pub use self::company_order::{CompanyOrder, new_company};
pub use self::unpublished_directory::UnpublishedDirectory;
use crate::portfolio::{self, NO_FUNDS_BALANCE, VELOCITY};

/// How many cards are made at a time.
const CARDS_PER_BATCH: usize = 256;

/// The order for an installation.
#[derive(Clone, Debug)]
pub struct InstallationOrder {
    /// The data directory.
    pub data: PathBuf,
    /// The company.
    pub company: CompanyOrder,
    /// The administrator's e-mail address.
    pub admin_email: String,
    /// The first digits of card numbers.
    pub card_numbers: CardNumbers,
    /// The card network they belong to.
    pub network: String,
    /// How many test cards.
    pub cards: usize,
    /// The file for the test cards.
    pub cards_out: Option<PathBuf>,
    /// The time to record; the system's where absent.
    pub at: Option<Timestamp>,
    /// The place of the master key; the key is made there if it is missing.
    pub master_key: MasterKeySource,
}

/// The ids and secrets of a new installation; printed once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Credentials {
    /// The company's id.
    pub company_id: String,
    /// Its account's id.
    pub account_id: String,
    /// The administrator's e-mail address.
    pub admin_email: String,
    /// The administrator's password.
    pub admin_password: String,
    /// A token for `/v1`, scope admin, which acts for the administrator.
    pub access_token: String,
    /// The key of the HTTP network door.
    pub network_key: String,
}

/// One line of a cards file.
#[derive(Serialize)]
struct CardLine<'a> {
    card_id: String,
    allowance_id: String,
    pan: String,
    expiration: String,
    cvv: &'a str,
    pin: &'a str,
    zip: &'a str,
    profile: Profile,
}

/// Why an installation failed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Its place.
    #[error(transparent)]
    Place(#[from] CopyError),
    /// The master key, or the data key that it wraps.
    #[error(transparent)]
    Keys(#[from] DataKeyError),
    /// The engine.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No random bytes, or a card number that cannot be sealed.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// The engine took no command.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The engine refused a command.
    #[error("refused: {}", in_words(*.0))]
    Rejected(Rejection),
    /// The journal failed under a command.
    #[error("the journal failed")]
    OutcomeUnknown,
    /// The password could not be hashed.
    #[error("the password could not be hashed")]
    Password,
    /// The cards file cannot be written.
    #[error("cards file `{0}`{why}", why = unusable(.1))]
    CardsFile(PathBuf, io::Error),
}

fn unusable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AlreadyExists => " exists; it is not overwritten".into(),
        _ => format!(": {error}"),
    }
}

impl From<MasterKeyError> for InstallError {
    fn from(error: MasterKeyError) -> Self {
        Self::Keys(error.into())
    }
}

/// Makes the data directory and everything in it, of the cell that `random` names. `made` gets the number of
/// cards made so far. The caller shows or keeps the credentials, then publishes the directory.
/// Errors: see `InstallError`; an existing data directory is never touched.
pub async fn install(
    order: &InstallationOrder,
    random: &mut (dyn RandomSource + Send),
    made: &(dyn Fn(usize) + Sync),
) -> Result<(Credentials, UnpublishedDirectory), InstallError> {
    let mut unpublished = UnpublishedDirectory::begin(&order.data)?;
    let cards_out = order.cards_out.as_deref().map(|path| unpublished.path_of(path));
    let mut cards_file = cards_out.as_deref().map(open_cards_file).transpose()?;
    cards_out.map_or(Ok(()), |path| unpublished.add(path))?;
    let mut directory_id = [0; 16];
    random.fill(&mut directory_id)?;
    let drawn = MasterKey::draw(random)?;
    let mut data_key = DataKey::default();
    random.fill(data_key.as_mut_slice())?;
    let master = find_or_make_key(order, drawn, &mut unpublished)?;
    let directory = DataDirectory::create_in_cell(unpublished.path(), directory_id, random.cell())?;
    let secrets = Secrets::from_root(*data_key);
    let wrapped = WrappedKey::wrap(&data_key, &master, directory_id).map_err(DataKeyError::Seal)?;
    write_wrapped(directory.path(), &wrapped, &secrets)?;
    drop((master, data_key));
    let clock = order.at.map_or(Clock::System, Clock::manual);
    let at = clock.now();
    let options = EngineOptions {
        directory,
        id_key: secrets.id_key(),
        clock,
        retention: Retention::Forever,
        pacing: Pacing::default(),
        caches: CacheLimits::default(),
        commits: CommitLimits::default(),
    };
    let switch = Switch::new(Arc::new(Engine::open(options)?));
    let mut installer = Installer { order, switch, secrets, at, random };
    let credentials = installer.install_company().await?;
    if order.cards > 0 {
        installer.install_cards(&credentials, cards_file.as_mut(), made).await?;
    }
    installer.switch.engine.shut_down();
    Ok((credentials, unpublished))
}

/// The master key: the one that is there already, or else `drawn`, which goes with the directory.
/// Errors: it cannot be read or made.
fn find_or_make_key(
    order: &InstallationOrder,
    drawn: MasterKey,
    unpublished: &mut UnpublishedDirectory,
) -> Result<MasterKey, InstallError> {
    match order.master_key.read(&order.data) {
        Err(MasterKeyError::Missing(_)) => {}
        read => return Ok(read?),
    }
    if let Some(path) = order.master_key.own_path(&order.data) {
        let path = unpublished.path_of(&path);
        drawn.write_new(&path)?;
        unpublished.add(path)?;
    }
    Ok(drawn)
}

struct Installer<'a> {
    order: &'a InstallationOrder,
    switch: Switch,
    secrets: Secrets,
    at: Timestamp,
    random: &'a mut (dyn RandomSource + Send),
}

impl Installer<'_> {
    async fn install_company(&mut self) -> Result<Credentials, InstallError> {
        let company = self.create_company(self.order.company.clone()).await?;
        let (password, password_hash) = self.draw_password()?;
        let administrator = MemberId(self.random.id(self.at)?);
        let member = AdminCommand::Member(MemberCommand::Create(NewMember {
            id: administrator,
            company: company.id,
            first_name: LineText::spaced("Ada"),
            last_name: LineText::spaced("Admin"),
            email: self.order.admin_email.clone(),
            role: MemberRole::Administrator,
            code: None,
            dimensions: Default::default(),
            external_id: None,
            is_active: true,
            invite: None,
        }));
        let user = AdminCommand::User(UserCommand::Create(NewUser {
            id: UserId(self.random.id(self.at)?),
            email: self.order.admin_email.clone(),
            first_name: LineText::spaced("Ada"),
            last_name: LineText::spaced("Admin"),
            password_hash: Some(password_hash),
            developer_of: Vec::new(),
        }));
        let access_token = self.random.token()?;
        let token = NewAccessToken {
            id: AccessTokenId(self.random.id(self.at)?),
            digest: token_digest(&access_token),
            company: company.id,
            scope: AccessScope { admin: true, ..AccessScope::default() },
        };
        let token = AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(NewTokenGrant {
            token,
            app: None,
            member: Some(administrator),
            origin: TokenOrigin::Operator,
            label: LineText::default(),
        })));
        let network_key = self.random.token()?;
        let key = AdminCommand::SetNetworkKey(token_digest(&network_key));
        self.carry_out(vec![member, user, token, key]).await?;
        Ok(Credentials {
            company_id: company.id.0.to_string(),
            account_id: company.account.id.0.to_string(),
            admin_email: self.order.admin_email.clone(),
            admin_password: password,
            access_token,
            network_key,
        })
    }

    async fn create_company(&mut self, order: CompanyOrder) -> Result<NewCompany, InstallError> {
        let company = new_company(order, &self.order.network, self.at, self.random)?;
        self.carry_out(vec![AdminCommand::Company(CompanyCommand::Create(company.clone()))])
            .await?;
        Ok(company)
    }

    async fn install_cards(
        &mut self,
        credentials: &Credentials,
        mut cards_file: Option<&mut BufWriter<std::fs::File>>,
        made: &(dyn Fn(usize) + Sync),
    ) -> Result<(), InstallError> {
        let own = CompanyId(credentials.company_id.parse().unwrap_or_default());
        let template = self.order.company.clone();
        let no_funds = CompanyOrder {
            name: LineText::spaced("Penniless Ltd"),
            opening_balance: NO_FUNDS_BALANCE,
            credit_limit: Minor::ZERO,
            ..template.clone()
        };
        let velocity =
            CompanyOrder { name: LineText::spaced("Watchful Ltd"), velocity: VELOCITY, ..template };
        let no_funds = self.create_company(no_funds).await?.id;
        let velocity = self.create_company(velocity).await?.id;
        let company_of = |profile| match profile {
            Profile::NoFunds => no_funds,
            Profile::Velocity => velocity,
            _ => own,
        };
        for start in (0..self.order.cards).step_by(CARDS_PER_BATCH) {
            let end = (start + CARDS_PER_BATCH).min(self.order.cards);
            let mut batch = Vec::with_capacity(end - start);
            for place in start..end {
                let profile = portfolio::profile_at(place);
                batch.push(self.draw_card(place, profile, company_of(profile))?);
            }
            self.issue(&mut batch).await?;
            if let Some(file) = cards_file.as_mut() {
                self.write_lines(&batch, file)?;
            }
            made(end);
        }
        Ok(())
    }

    fn draw_card(
        &mut self,
        place: usize,
        profile: Profile,
        company: CompanyId,
    ) -> Result<TestCard, InstallError> {
        let pin = format!("{:04}", self.draw_below(10_000)?);
        let zone = self.order.company.zone;
        let name = format!("Test card {}", place + 1);
        let texts = [format!("{name}, {profile:?}"), name].map(|text| LineText::spaced(&text));
        let terms = portfolio::terms_of(profile, self.at);
        let is_virtual = portfolio::state_of(profile) != CardState::Unactivated;
        let order = IssuingOrder {
            order: CardOrder { is_virtual, ..CardOrder::plain(company, terms, texts) },
            zone,
            pin: Some(pin.clone()),
        };
        let issuer = Issuer { numbers: &self.order.card_numbers, secrets: &self.secrets };
        let mut drawn = issuer.draw_card(&order, self.at, &mut *self.random)?;
        drawn.card.state = portfolio::state_of(profile);
        if let Some(expires_on) = portfolio::expires_on(profile, zone, self.at) {
            drawn.card.expires_on = expires_on;
        }
        Ok(TestCard { profile, pin, order, drawn })
    }

    /// Makes a batch of cards; a number that is in use is drawn again.
    async fn issue(&mut self, batch: &mut [TestCard]) -> Result<(), InstallError> {
        let mut waiting: Vec<usize> = (0..batch.len()).collect();
        for _ in 0..DRAWS_MAX {
            let commands = waiting.iter().map(|place| {
                AdminCommand::Card(CardCommand::Issue(batch[*place].drawn.card.clone()))
            });
            let replies = self.ask(commands.collect()).await?;
            let mut again = Vec::new();
            for (place, reply) in waiting.iter().copied().zip(replies) {
                match reply {
                    Reply::Rejected(Rejection::CardNumberTaken) => again.push(place),
                    other => done(other)?,
                }
            }
            if again.is_empty() {
                return Ok(());
            }
            for place in &again {
                let issuer = Issuer { numbers: &self.order.card_numbers, secrets: &self.secrets };
                let card = &mut batch[*place];
                let redrawn = issuer.draw_card(&card.order, self.at, &mut *self.random)?;
                let (state, expires_on) = (card.drawn.card.state, card.drawn.card.expires_on);
                card.drawn = redrawn;
                card.drawn.card.state = state;
                card.drawn.card.expires_on = expires_on;
            }
            waiting = again;
        }
        Err(InstallError::Rejected(Rejection::CardNumberTaken))
    }

    fn write_lines(
        &self,
        batch: &[TestCard],
        file: &mut BufWriter<std::fs::File>,
    ) -> Result<(), InstallError> {
        let path = || self.order.cards_out.clone().unwrap_or_default();
        let zip = &*self.order.company.billing_address().zip_code;
        for TestCard { profile, pin, drawn, .. } in batch {
            let cvv = self.secrets.cvv(&drawn.pan);
            let line = CardLine {
                card_id: drawn.card.id.0.to_string(),
                allowance_id: drawn.card.allowance_id.0.to_string(),
                pan: drawn.pan.reveal(),
                expiration: render_date(drawn.card.expires_on),
                cvv: std::str::from_utf8(&cvv).unwrap_or_default(),
                pin,
                zip,
                profile: *profile,
            };
            serde_json::to_writer(&mut *file, &line)
                .map_err(io::Error::from)
                .and_then(|()| file.write_all(b"\n"))
                .map_err(|error| InstallError::CardsFile(path(), error))?;
        }
        file.flush().map_err(|error| InstallError::CardsFile(path(), error))
    }

    async fn ask(&self, commands: Vec<AdminCommand>) -> Result<Vec<Reply>, InstallError> {
        Ok(self.switch.ask_many(commands.into_iter().map(by_operator).collect()).await?)
    }

    async fn carry_out(&self, commands: Vec<AdminCommand>) -> Result<(), InstallError> {
        self.ask(commands).await?.into_iter().try_for_each(done)
    }

    fn draw_below(&mut self, limit: u32) -> Result<u32, InstallError> {
        let mut bytes = [0; 4];
        self.random.fill(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes) % limit)
    }

    /// A password and its Argon2id hash.
    fn draw_password(&mut self) -> Result<(String, String), InstallError> {
        let mut bytes = [0; 12];
        self.random.fill(&mut bytes)?;
        let password = to_hex(&bytes);
        let mut salt = [0; 16];
        self.random.fill(&mut salt)?;
        let hash = argon2::Argon2::default()
            .hash_password_with_salt(password.as_bytes(), &salt)
            .map_err(|_| InstallError::Password)?;
        Ok((password, hash.to_string()))
    }
}

/// A test card and what its holder knows.
struct TestCard {
    profile: Profile,
    pin: String,
    order: IssuingOrder,
    drawn: DrawnCard,
}

/// A refusal of the engine in the words of the API.
pub fn in_words(rejection: Rejection) -> String {
    ApiError::from(WriteError::Rejected(rejection)).message().replace('`', "")
}

/// A change made by the operator at the command line.
pub fn by_operator(command: AdminCommand) -> TimedCommand {
    let note = AuditNote { actor: Actor::Operator, address: None };
    Command::Noted(Box::new(NotedCommand { note, change: command })).into()
}

fn done(reply: Reply) -> Result<(), InstallError> {
    match reply {
        Reply::Rejected(rejection) => Err(InstallError::Rejected(rejection)),
        Reply::OutcomeUnknown => Err(InstallError::OutcomeUnknown),
        _ => Ok(()),
    }
}

fn open_cards_file(path: &Path) -> Result<BufWriter<std::fs::File>, InstallError> {
    let file = create_private(path);
    file.map(BufWriter::new).map_err(|error| InstallError::CardsFile(path.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use cardswitch_secrets::issuing::SystemRandom;

    use super::*;
    use crate::commands::init::demo_company;

    /// Once, it left an empty file of cards, which the next try refused to overwrite.
    #[tokio::test]
    async fn an_installation_that_makes_no_directory_leaves_no_cards_file() {
        let home = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| home.path().join(name));
        let cards_out = home.path().join("cards.jsonl");
        for (data, cards, is_made) in [(&first, 0, true), (&first, 1, false), (&second, 1, true)] {
            let order = InstallationOrder {
                data: data.clone(),
                company: demo_company().order().unwrap(),
                admin_email: "ada@example.com".to_owned(),
                card_numbers: CardNumbers::new("45371100").unwrap(),
                network: "visa".to_owned(),
                cards,
                cards_out: (cards > 0).then(|| cards_out.clone()),
                at: None,
                master_key: MasterKeySource::InDirectory,
            };
            let installed = install(&order, &mut SystemRandom, &|_| {}).await;
            let published = installed.map(|(_, directory)| directory.publish().unwrap());
            let error = published.map_err(|error| error.to_string()).err();
            assert_eq!(error.is_none(), is_made, "{error:?}");
            assert_eq!(cards_out.exists(), is_made && cards > 0);
        }
    }
}
