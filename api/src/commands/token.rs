//! `cardswitch token add`, `token list` and `token revoke`: on a data directory at rest.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::{AccessScope, AccessTokenCommand, NewAccessToken};
use cardswitch_engine::domain::ids::AccessTokenId;
use cardswitch_engine::store::query::{Order, Page};
use cardswitch_identity::auth::drawn_secret::DrawnSecret;
use cardswitch_identity::oauth::scope;
use cardswitch_secrets::issuing::{RandomSource, SystemRandom};
use cardswitch_wire::time::render_time;
use serde_json::json;

use super::Failure;
use super::at_rest::{CompanyDataArgs, carry_out, parse_id};

/// What can be done with access tokens.
#[derive(Debug, clap::Subcommand)]
pub enum TokenCommand {
    /// Add an access token of a company; prints it, this once
    Add(AddTokenArgs),
    /// List the access tokens of a company
    List(ListTokensArgs),
    /// Revoke an access token
    Revoke(RevokeArgs),
}

/// What `token add` takes.
#[derive(Debug, clap::Args)]
pub struct AddTokenArgs {
    #[command(flatten)]
    of: CompanyDataArgs,
    /// What it may do, with commas between several [default: read]
    #[arg(long, value_name = "SCOPES", value_delimiter = ',')]
    scope: Vec<Scope>,
}

/// What `token list` takes.
#[derive(Debug, clap::Args)]
pub struct ListTokensArgs {
    #[command(flatten)]
    of: CompanyDataArgs,
}

/// What `token revoke` takes.
#[derive(Debug, clap::Args)]
pub struct RevokeArgs {
    #[command(flatten)]
    of: CompanyDataArgs,
    /// Which one, as `token list` shows it
    #[arg(long, value_name = "TOKEN_ID", value_parser = parse_id)]
    token: uuid::Uuid,
}

/// A scope by its name. Source: spec "Authentication", scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Scope {
    /// Read, and keep the books
    Accountant,
    /// Everything but sign-on and provisioning
    Admin,
    /// Provisioning
    Scim,
    /// How members sign on
    Iam,
}

/// Carries out one of them.
pub async fn run(command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Add(args) => add(args).await,
        TokenCommand::List(args) => list(args).await,
        TokenCommand::Revoke(args) => revoke(args).await,
    }
}

async fn add(args: AddTokenArgs) -> Result<(), Failure> {
    let (switch, company) = args.of.open().await?;
    let DrawnSecret { text: access_token, digest } = DrawnSecret::draw().map_err(Failure::new)?;
    let at = switch.engine().clock().now();
    let token = NewAccessToken {
        id: AccessTokenId(SystemRandom.id(at).map_err(Failure::new)?),
        digest,
        company: company.id,
        scope: access_scope(&args.scope),
    };
    let token_id = token.id.0;
    carry_out(&switch, AdminCommand::AccessToken(AccessTokenCommand::Create(token))).await?;
    switch.engine().shut_down();
    if args.of.data.json {
        println!("{}", json!({"token_id": token_id, "access_token": access_token}));
    } else {
        println!("access token {access_token} (shown this once)");
    }
    Ok(())
}

async fn list(args: ListTokensArgs) -> Result<(), Failure> {
    let (switch, company) = args.of.open().await?;
    let page = Page { order: Order::OldestFirst, ..Page::first(usize::MAX) };
    let tokens = switch.read(|snapshot| snapshot.access_tokens(company.slot, &page)).await;
    let tokens = tokens.map_err(Failure::new)?.rows;
    switch.engine().shut_down();
    let rows = tokens.iter().map(|token| {
        (token.id.0, scope::names(token.scope), render_time(token.created_at), token.label())
    });
    if args.of.data.json {
        let shown: Vec<_> = rows
            .map(|(id, scope, created_at, label)| {
                json!({"token_id": id, "scope": scope, "created_at": created_at, "label": label})
            })
            .collect();
        println!("{}", json!({"tokens": shown}));
        return Ok(());
    }
    for (id, scope, created_at, label) in rows {
        let scope = if scope.is_empty() { "read".to_owned() } else { scope.join(",") };
        println!("{id}  {created_at}  {scope:<24}  {label}");
    }
    Ok(())
}

async fn revoke(args: RevokeArgs) -> Result<(), Failure> {
    let (switch, company) = args.of.open().await?;
    let id = AccessTokenId(args.token);
    let known = switch.read(|snapshot| snapshot.access_token_by_id(company.slot, id)).await;
    if known.map_err(Failure::new)?.is_none() {
        return Err(Failure::new(format!("the company has no token `{}`", args.token)));
    }
    carry_out(&switch, AdminCommand::AccessToken(AccessTokenCommand::Revoke(company.id, id)))
        .await?;
    switch.engine().shut_down();
    if args.of.data.json {
        println!("{}", json!({"token_id": args.token}));
    } else {
        println!("revoked token {}", args.token);
    }
    Ok(())
}

pub(super) fn access_scope(scopes: &[Scope]) -> AccessScope {
    AccessScope {
        accountant: scopes.contains(&Scope::Accountant),
        admin: scopes.contains(&Scope::Admin),
        scim: scopes.contains(&Scope::Scim),
        iam: scopes.contains(&Scope::Iam),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_has_what_is_named_and_nothing_else() {
        assert_eq!(access_scope(&[]), AccessScope::default());
        let iam = AccessScope { iam: true, ..AccessScope::default() };
        assert_eq!(access_scope(&[Scope::Iam]), iam);
        let both = AccessScope { admin: true, ..iam };
        assert_eq!(access_scope(&[Scope::Admin, Scope::Iam, Scope::Iam]), both);
    }
}
