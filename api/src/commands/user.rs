//! `cardswitch user add` and `user reset-second-factor`.
//!
//! Each part of `add` may be there already: an operator who names somebody a second time gives them
//! another role, another company, another name, or a new password.

use std::io::Read;

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand, MemberRole, NewMember};
use cardswitch_engine::directory::ticket::{NewTicket, NewTicketContent, TicketCommand};
use cardswitch_engine::directory::user::{NewUser, User, UserChanges, UserCommand};
use cardswitch_engine::domain::ids::{CompanyId, MemberId, TicketId, UserId};
use cardswitch_engine::domain::text::LineText;
use cardswitch_identity::auth::drawn_secret::DrawnSecret;
use cardswitch_identity::auth::passwords::{PASSWORD_CHARS_MAX, check_new, hash};
use cardswitch_notify::mail::News;
use cardswitch_v1::routes::members::NAME_CHARS_MAX;
use cardswitch_wire::email::is_email;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::Failure;
use super::administration::{DataArgs, OfficeTask, parse_id};

/// How long a link to set a password opens something. Units: microseconds.
const LINK_US: i64 = 7 * 24 * 60 * 60 * 1_000_000;

/// The commands for users.
#[derive(Debug, clap::Subcommand, Serialize, Deserialize)]
pub enum UserSubcommand {
    /// Add a user; prints a link to set a password, unless one is given
    Add(AddUserArgs),
    /// Ask somebody for the password alone again, as where a phone is lost, and sign them out
    /// everywhere
    ResetSecondFactor(ResetArgs),
}

/// The arguments of `user add`.
#[derive(Debug, clap::Args, Serialize, Deserialize)]
pub struct AddUserArgs {
    #[command(flatten)]
    at: DataArgs,
    /// Email address to sign in with
    #[arg(long, value_name = "EMAIL")]
    email: String,
    /// First name; required for a new user
    #[arg(long, value_name = "NAME")]
    first_name: Option<LineText>,
    /// Last name; required for a new user
    #[arg(long, value_name = "NAME")]
    last_name: Option<LineText>,
    /// Company of the membership
    #[arg(long, value_name = "COMPANY_ID", value_parser = parse_id)]
    company: Option<Uuid>,
    /// Role in that company [default: member]
    #[arg(long, value_name = "ROLE", requires = "company")]
    role: Option<Role>,
    /// Whether they may register apps for the company, whatever the role, until they leave it; without
    /// a value, yes
    #[arg(long, value_name = "BOOL", requires = "company", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    developer: Option<bool>,
    /// Read the password from the standard input
    #[arg(long)]
    password_stdin: bool,
    /// Its hash: the password itself goes no further than the process that reads it.
    #[arg(skip)]
    password_hash: Option<String>,
}

/// The arguments of `user reset-second-factor`.
#[derive(Debug, clap::Args, Serialize, Deserialize)]
pub struct ResetArgs {
    #[command(flatten)]
    at: DataArgs,
    /// Email address to sign in with
    #[arg(long, value_name = "EMAIL")]
    email: String,
}

/// A role by its name. Source: spec "Member", role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
enum Role {
    /// Everything in the company
    Administrator,
    /// The books
    Accountant,
    /// Reviews requisitions
    Reviewer,
    /// Uses cards
    Member,
}

impl From<Role> for MemberRole {
    fn from(role: Role) -> Self {
        match role {
            Role::Administrator => Self::Administrator,
            Role::Accountant => Self::Accountant,
            Role::Reviewer => Self::Reviewer,
            Role::Member => Self::Member,
        }
    }
}

impl UserSubcommand {
    pub(super) const fn data(&self) -> &DataArgs {
        match self {
            Self::Add(args) => &args.at,
            Self::ResetSecondFactor(args) => &args.at,
        }
    }

    /// Reads what the command asks for.
    /// Errors: that is no password.
    pub(super) async fn read_password(&mut self) -> Result<(), Failure> {
        if let Self::Add(args) = self
            && args.password_stdin
        {
            check(args)?;
            let password = read_password(&args.email)?;
            args.password_hash = Some(hash(&password).await?);
        }
        Ok(())
    }

    pub(super) async fn carry_out(self, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
        match self {
            Self::Add(args) => add(args, task).await,
            Self::ResetSecondFactor(args) => reset_second_factor(args, task).await,
        }
    }
}

async fn reset_second_factor(args: ResetArgs, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
    let known = find_user(task, &args.email).await?;
    let User { id, email, .. } =
        known.ok_or_else(|| Failure::new(format!("no user `{}`", args.email)))?;
    let changes =
        UserChanges { totp: Some(None), security_question: Some(None), ..UserChanges::default() };
    task.carry_out(AdminCommand::User(UserCommand::Update(id, changes))).await?;
    task.tell(
        json!({"user_id": id.0, "email": email}),
        format!("{email} is signed out, and signs in with the password alone"),
    );
    Ok(())
}

async fn add(args: AddUserArgs, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
    check(&args)?;
    let password_hash = args.password_hash.clone();
    let known = find_user(task, &args.email).await?;
    let (first_name, last_name) = names(&args, known.as_ref())?;
    if let Some(company) = args.company {
        add_member(task, &args, company, (&first_name, &last_name)).await?;
    }
    let develops = args.company.map(CompanyId).zip(args.developer);
    let is_open = password_hash.is_some();
    let has_password = is_open || known.as_ref().is_some_and(|user| user.password_hash.is_some());
    let user = match known {
        Some(user) => {
            let changes = UserChanges {
                first_name: args.first_name,
                last_name: args.last_name,
                password_hash,
                develops,
                ..UserChanges::default()
            };
            let news = changes.password_hash.as_ref();
            let news = news.map(|hash| News::password_was_set(user.id, hash));
            let change = AdminCommand::User(UserCommand::Update(user.id, changes));
            task.carry_out_and_tell(change, news).await?;
            user.id
        }
        None => {
            let id = UserId(task.new_id()?);
            let new = NewUser {
                id,
                email: args.email.clone(),
                first_name,
                last_name,
                password_hash,
                developer_of: develops
                    .filter(|(_, does)| *does)
                    .map(|(company, _)| company)
                    .into_iter()
                    .collect(),
            };
            task.carry_out(AdminCommand::User(UserCommand::Create(new))).await?;
            id
        }
    };
    let link = if has_password { None } else { Some(issue_link(task, user).await?) };
    let email = args.email;
    let mut words = match is_deactivated(task, &email).await? {
        true => format!("{email} is deactivated: --company makes them a member again"),
        false => format!("{email} can sign in"),
    };
    if let Some(link) = &link {
        let how = "set a password within 7 days, by this link (shown this once):";
        words.push_str(&format!("\n  {how}\n  {link}"));
    }
    task.tell(json!({"user_id": user.0, "email": email, "password_link": link}), words);
    Ok(())
}

/// Errors: it is no email address.
pub(super) fn check_email(email: &str) -> Result<(), Failure> {
    let refused = || Failure::usage(format!("`{email}` is no e-mail address"));
    if is_email(email) { Ok(()) } else { Err(refused()) }
}

fn check(args: &AddUserArgs) -> Result<(), Failure> {
    check_email(&args.email)?;
    let is_name =
        |name: &&LineText| !name.trim().is_empty() && name.chars().count() <= NAME_CHARS_MAX;
    match args.first_name.iter().chain(&args.last_name).find(|name| !is_name(name)) {
        Some(name) => Err(Failure::usage(format!("`{name}` is no name"))),
        None => Ok(()),
    }
}

/// The first line of the standard input.
fn read_password(email: &str) -> Result<Zeroizing<String>, Failure> {
    let mut text = Zeroizing::new(String::new());
    let bytes_max = PASSWORD_CHARS_MAX as u64 * 4 + 2;
    std::io::stdin().take(bytes_max).read_to_string(&mut text)?;
    let password = Zeroizing::new(text.trim_end_matches(['\n', '\r']).to_owned());
    check_new(&password, email).map_err(Failure::usage)?;
    Ok(password)
}

async fn find_user(task: &OfficeTask<'_>, email: &str) -> Result<Option<User>, Failure> {
    Ok(task.office.switch.read(|snapshot| snapshot.user_by_email(email)).await?)
}

/// Whether a user is a member of companies, but active in none.
async fn is_deactivated(task: &OfficeTask<'_>, email: &str) -> Result<bool, Failure> {
    let found = task.office.switch.read(|snapshot| {
        Ok(snapshot.is_of_members(email)? && snapshot.memberships(email)?.is_empty())
    });
    Ok(found.await?)
}

/// The names given, else those that are known.
fn names(args: &AddUserArgs, known: Option<&User>) -> Result<(LineText, LineText), Failure> {
    let first = args.first_name.clone().or(known.map(|user| LineText::spaced(&user.first_name)));
    let last = args.last_name.clone().or(known.map(|user| LineText::spaced(&user.last_name)));
    let needed = || Failure::usage("somebody new needs --first-name and --last-name");
    first.zip(last).ok_or_else(needed)
}

/// Makes somebody a member of a company, or gives them another role there.
async fn add_member(
    task: &OfficeTask<'_>,
    args: &AddUserArgs,
    company: Uuid,
    (first_name, last_name): (&LineText, &LineText),
) -> Result<(), Failure> {
    let (company, switch) = (task.find_company(company).await?, &task.office.switch);
    let known = switch.read(|snapshot| snapshot.member_by_email(company.slot, &args.email)).await?;
    let role = args.role.map(MemberRole::from);
    let command = match known {
        Some(member) => {
            let changes = MemberChanges { role, is_active: Some(true), ..MemberChanges::default() };
            AdminCommand::Member(MemberCommand::Update(company.id, member.id, changes))
        }
        None => AdminCommand::Member(MemberCommand::Create(NewMember {
            id: MemberId(task.new_id()?),
            company: company.id,
            first_name: first_name.clone(),
            last_name: last_name.clone(),
            email: args.email.clone(),
            role: role.unwrap_or(MemberRole::Member),
            code: None,
            dimensions: Default::default(),
            external_id: None,
            is_active: true,
            invite: None,
        })),
    };
    task.carry_out(command).await
}

/// Issues a link to set a password with.
async fn issue_link(task: &OfficeTask<'_>, user: UserId) -> Result<String, Failure> {
    let (key, office) = (DrawnSecret::draw()?, task.office);
    let ticket = NewTicket {
        digest: key.digest,
        id: TicketId(task.new_id()?),
        user,
        expires_at: office.switch.engine.now().plus(LINK_US),
        address: String::new(),
        content: NewTicketContent::PasswordLink { is_invite: true },
    };
    task.carry_out(AdminCommand::Ticket(TicketCommand::Issue(ticket))).await?;
    Ok(office.urls.password_link(&key.text))
}
