//! `cardswitch app add`, `app approve`, `app delete` and `app list`.

use std::io::IsTerminal as _;

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessTokenCommand, NewAccessToken, NewTokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::app::{App, AppApproval, AppCommand, AppProfile, NewApp};
use cardswitch_engine::domain::company::{Company, CompanyState};
use cardswitch_engine::domain::ids::{AccessTokenId, AppId};
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::store::query::{Order, Page};
use cardswitch_identity::auth::drawn_secret::DrawnSecret;
use cardswitch_identity::oauth::redirect_urls::{REDIRECT_URLS_MAX, check_redirect_url};
use cardswitch_identity::oauth::scope;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::Failure;
use super::administration::{CompanyDataArgs, DataArgs, OfficeTask, parse_id};
use super::token::{Scope, access_scope};

/// The most characters of an app's name and web site.
const TEXT_CHARS_MAX: usize = 200;

/// The commands for apps.
#[derive(Debug, clap::Subcommand, Serialize, Deserialize)]
pub enum AppSubcommand {
    /// Register an app of a company; prints its client id and secret, this once
    Add(AddAppArgs),
    /// Approve the scopes that an app may ask for, with the name, web site and redirect URLs it shows
    /// people; what was changed since the last approval is shown first
    Approve(ApproveArgs),
    /// Delete an app of any company, with its tokens, codes and webhook endpoints
    Delete(AppDataArgs),
    /// List the apps of a company
    List(CompanyDataArgs),
}

/// The arguments of `app add`.
#[derive(Debug, clap::Args, Serialize, Deserialize)]
pub struct AddAppArgs {
    #[command(flatten)]
    of: CompanyDataArgs,
    /// Name of the app, as people see it when they let it in
    #[arg(long, value_name = "NAME")]
    name: LineText,
    /// Website of the app
    #[arg(long, default_value = "", value_name = "URL")]
    website: LineText,
    /// Redirect URL that codes may be sent to; may be repeated
    #[arg(long, value_name = "URL")]
    redirect_url: Vec<String>,
    /// Scopes that it may ask for, with commas between several; approved immediately [default: none, which reads]
    #[arg(long, value_name = "SCOPES", value_delimiter = ',')]
    scope: Vec<Scope>,
    /// Also make an access token of all that, to the company's own data; prints it, this once
    #[arg(long)]
    token: bool,
}

/// An app of a data directory.
#[derive(Debug, clap::Args, Serialize, Deserialize)]
pub struct AppDataArgs {
    #[command(flatten)]
    data: DataArgs,
    /// App: its client id
    #[arg(long, value_name = "CLIENT_ID", value_parser = parse_id)]
    app: Uuid,
}

/// The arguments of `app approve`.
#[derive(Debug, clap::Args, Serialize, Deserialize)]
pub struct ApproveArgs {
    #[command(flatten)]
    of: AppDataArgs,
    /// Scopes to approve, with commas between several [default: all that it asks for]
    #[arg(long, value_name = "SCOPES", value_delimiter = ',')]
    scope: Vec<Scope>,
    /// Approve changed names and addresses without being asked on the terminal
    #[arg(long)]
    yes: bool,
    /// The profile that a person at the terminal has seen and confirmed.
    #[arg(skip)]
    seen: Option<AppProfile>,
}

impl AppSubcommand {
    pub(super) const fn data(&self) -> &DataArgs {
        match self {
            Self::Add(args) => &args.of.data,
            Self::Approve(args) => &args.of.data,
            Self::Delete(of) => &of.data,
            Self::List(of) => &of.data,
        }
    }

    /// Has somebody at the terminal confirm what they were shown.
    /// Errors: they do not, or nobody is there.
    pub(super) fn confirm(&mut self, profile: AppProfile) -> Result<(), Failure> {
        let Self::Approve(args) = self else { return Ok(()) };
        if !is_confirmed()? {
            return Err(not_looked_at());
        }
        args.seen = Some(profile);
        Ok(())
    }

    pub(super) async fn carry_out(self, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
        match self {
            Self::Add(args) => add(args, task).await,
            Self::Approve(args) => approve(args, task).await,
            Self::Delete(of) => delete(of, task).await,
            Self::List(of) => list(of, task).await,
        }
    }
}

fn not_looked_at() -> Failure {
    Failure::new("nothing is approved: look at the changes, and say --yes to approve them")
}

async fn add(args: AddAppArgs, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
    check(&args)?;
    let company = task.find_company(args.of.company).await?;
    if args.token && company.state != CompanyState::Active {
        let what = format!("{} is closed or not approved: no app can be let in", company.name);
        return Err(Failure::new(what));
    }
    let DrawnSecret { text: secret, digest } = DrawnSecret::draw()?;
    let id = AppId(task.new_id()?);
    let scope = access_scope(&args.scope);
    let name = args.name.clone();
    let new = NewApp {
        id,
        company: company.id,
        name: args.name,
        website: args.website,
        secret_digest: digest,
        redirect_urls: args.redirect_url,
        requested: scope,
    };
    task.carry_out(AdminCommand::App(AppCommand::Create(new))).await?;
    // From here on there is an app: whatever becomes of the rest, its secret is told.
    if !task.is_json {
        task.line(format!("client id      {}", id.0));
        task.line(format!("client secret  {secret} (shown this once)"));
    }
    let access_token = approve_new(task, &company, (id, name), scope, args.token).await;
    if task.is_json {
        let mut made = json!({"client_id": id.0, "client_secret": secret});
        if let Ok(Some(access_token)) = &access_token {
            made["access_token"] = access_token.as_str().into();
        }
        task.line(made);
    } else if let Ok(Some(access_token)) = &access_token {
        task.line(format!("access token   {access_token} (shown this once)"));
    }
    let but = |failure: Failure| Failure::new(format!("the app is made, but {}", failure.message));
    access_token.map(drop).map_err(but)
}

/// Approves what a new app asks for and, if wanted, makes a token of it for the app's own company.
async fn approve_new(
    task: &OfficeTask<'_>,
    company: &Company,
    (id, name): (AppId, LineText),
    scope: AccessScope,
    has_token: bool,
) -> Result<Option<String>, Failure> {
    let (app, _) = find_app(task, id).await?;
    let approval = AppApproval { profile: app.edited_profile(), scope };
    task.carry_out(AdminCommand::App(AppCommand::Approve(company.id, id, approval))).await?;
    if !has_token {
        return Ok(None);
    }
    let DrawnSecret { text, digest } = DrawnSecret::draw_token(&task.office.switch)?;
    let token_id = AccessTokenId(task.new_id()?);
    let token = NewAccessToken { id: token_id, digest, company: company.id, scope };
    let grant = NewTokenGrant {
        token,
        app: Some(id),
        member: None,
        origin: TokenOrigin::OwnCompany,
        label: name,
    };
    let grant = AccessTokenCommand::Grant(Box::new(grant));
    task.carry_out(AdminCommand::AccessToken(grant)).await?;
    Ok(Some(text))
}

fn check(args: &AddAppArgs) -> Result<(), Failure> {
    let is_long = |text: &LineText| text.chars().count() > TEXT_CHARS_MAX;
    if args.name.trim().is_empty() || is_long(&args.name) || is_long(&args.website) {
        let what = format!("name and web site are one line of at most {TEXT_CHARS_MAX} characters");
        return Err(Failure::usage(what));
    }
    if args.redirect_url.len() > REDIRECT_URLS_MAX {
        let what = format!("an app has at most {REDIRECT_URLS_MAX} redirect URLs");
        return Err(Failure::usage(what));
    }
    for url in &args.redirect_url {
        check_redirect_url(url)
            .map_err(|fault| Failure::usage(format!("--redirect-url `{url}` {fault}")))?;
    }
    Ok(())
}

async fn approve(args: ApproveArgs, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
    let (app, company) = find_app(task, AppId(args.of.app)).await?;
    let named = access_scope(&args.scope);
    if named.common(app.requested) != named {
        let what = format!("{} asks for {} and no more", app.name, in_words(app.requested));
        return Err(Failure::new(what));
    }
    let approved = if args.scope.is_empty() { app.requested } else { named };
    if !task.is_json && args.seen.is_none() {
        print_profile(&app, task);
    }
    // Nobody is asked about what they were not shown.
    if !args.yes && args.seen.is_none() && app.revision.is_some() {
        if task.is_json {
            return Err(not_looked_at());
        }
        task.ask_about(app.edited_profile());
        return Ok(());
    }
    let profile = args.seen.unwrap_or_else(|| app.edited_profile());
    let approval = AppApproval { profile: profile.clone(), scope: approved };
    task.carry_out(AdminCommand::App(AppCommand::Approve(company.id, app.id, approval))).await?;
    let words = format!("{} may ask for {}", profile.name, in_words(approved));
    task.tell(shown(&App { approved, ..app.with_profile(profile) }), words);
    Ok(())
}

async fn delete(of: AppDataArgs, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
    let (app, company) = find_app(task, AppId(of.app)).await?;
    task.carry_out(AdminCommand::App(AppCommand::Delete(company.id, app.id))).await?;
    let words = format!("{} is deleted, and its access tokens open nothing", app.name);
    task.tell(json!({"client_id": app.id.0}), words);
    Ok(())
}

/// Shows what people will see of an app, and what of it is new.
fn print_profile(app: &App, task: &mut OfficeTask<'_>) {
    task.line(app.id.0);
    let (old, new) = (app.profile(), app.edited_profile());
    let mut line = |what: &str, old: &str, new: &str| match old == new {
        true => task.line(format!("  {what:<14}{new}")),
        false => task.line(format!("  {what:<14}{new}  (was: {old})")),
    };
    let (old_urls, new_urls) = (old.redirect_urls.join(" "), new.redirect_urls.join(" "));
    line("name", &old.name, &new.name);
    line("web site", &old.website, &new.website);
    line("redirect URLs", &old_urls, &new_urls);
}

/// Asks on a terminal; elsewhere nobody is there to look.
fn is_confirmed() -> Result<bool, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Ok(false);
    }
    eprint!("Approve these changes? [y/N] ");
    let mut answer = String::new();
    std::io::BufRead::read_line(&mut input.lock(), &mut answer)?;
    Ok(answer.trim().eq_ignore_ascii_case("y"))
}

/// Errors: there is no such app.
async fn find_app(task: &OfficeTask<'_>, id: AppId) -> Result<(App, Company), Failure> {
    let found = task.office.switch.read(|snapshot| {
        let app = snapshot.app_by_id(id)?.filter(|app| !app.is_deleted);
        let Some(app) = app else { return Ok(None) };
        Ok(snapshot.company(app.company)?.map(|company| (app, company)))
    });
    found.await?.ok_or_else(|| Failure::new(format!("no app `{}`", id.0)))
}

async fn list(of: CompanyDataArgs, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
    let company = task.find_company(of.company).await?.slot;
    let page = Page { order: Order::OldestFirst, ..Page::first(usize::MAX) };
    let apps =
        task.office.switch.read(|snapshot| snapshot.list_own::<App>(company, &page)).await?.rows;
    if task.is_json {
        let shown: Vec<_> = apps.iter().map(shown).collect();
        task.line(json!({"apps": shown}));
        return Ok(());
    }
    for app in apps {
        let (requested, approved) = (in_words(app.requested), in_words(app.approved));
        task.line(format!("{}  {}", app.id.0, app.name));
        task.line(format!("  asks for {requested}; approved: {approved}"));
        for url in &app.redirect_urls {
            task.line(format!("  {url}"));
        }
        if app.revision.is_some() {
            task.line("  changes wait for approval:");
            print_profile(&app, task);
        }
    }
    Ok(())
}

fn shown(app: &App) -> serde_json::Value {
    json!({
        "client_id": app.id.0,
        "name": app.name,
        "website": app.website,
        "redirect_urls": app.redirect_urls,
        "requested": scope::names(app.requested),
        "approved": scope::names(app.approved),
        "revision": app.revision.as_ref().map(|waiting| json!({
            "name": waiting.name,
            "website": waiting.website,
            "redirect_urls": waiting.redirect_urls,
        })),
    })
}

fn in_words(scope: AccessScope) -> String {
    let names = scope::names(scope);
    if names.is_empty() { "reading alone".to_owned() } else { names.join(", ") }
}
