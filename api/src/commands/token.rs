//! `cardswitch token add`, `token list` and `token revoke`.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::{AccessScope, AccessTokenCommand, NewAccessToken};
use cardswitch_engine::domain::ids::AccessTokenId;
use cardswitch_engine::store::query::{Order, Page};
use cardswitch_identity::auth::drawn_secret::DrawnSecret;
use cardswitch_identity::oauth::scope;
use cardswitch_wire::time::render_time;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Failure;
use super::administration::{CompanyDataArgs, DataArgs, OfficeTask, parse_id};

/// The commands for access tokens.
#[derive(Debug, clap::Subcommand, Serialize, Deserialize)]
pub enum TokenCommand {
    /// Add an access token of a company; prints it, this once
    Add(AddTokenArgs),
    /// List the access tokens of a company
    List(CompanyDataArgs),
    /// Revoke an access token
    Revoke(RevokeArgs),
}

/// The arguments of `token add`.
#[derive(Debug, clap::Args, Serialize, Deserialize)]
pub struct AddTokenArgs {
    #[command(flatten)]
    of: CompanyDataArgs,
    /// Scopes, with commas between several [default: none, which reads]
    #[arg(long, value_name = "SCOPES", value_delimiter = ',')]
    scope: Vec<Scope>,
}

/// The arguments of `token revoke`.
#[derive(Debug, clap::Args, Serialize, Deserialize)]
pub struct RevokeArgs {
    #[command(flatten)]
    of: CompanyDataArgs,
    /// Token: its id, as `token list` shows it
    #[arg(long, value_name = "TOKEN_ID", value_parser = parse_id)]
    token: uuid::Uuid,
}

/// A scope by its name. Source: spec "Authentication", scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub(super) enum Scope {
    /// Reads, and changes dimensions, notes and receipts
    Accountant,
    /// Everything but sign-on and provisioning
    Admin,
    /// Provisioning
    Scim,
    /// Single sign-on
    Iam,
}

impl TokenCommand {
    pub(super) const fn data(&self) -> &DataArgs {
        let of = match self {
            Self::Add(args) => &args.of,
            Self::List(of) => of,
            Self::Revoke(args) => &args.of,
        };
        &of.data
    }

    pub(super) async fn carry_out(self, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
        match self {
            Self::Add(args) => add(args, task).await,
            Self::List(of) => list(of, task).await,
            Self::Revoke(args) => revoke(args, task).await,
        }
    }
}

async fn add(args: AddTokenArgs, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
    let company = task.find_company(args.of.company).await?.id;
    let DrawnSecret { text: access_token, digest } = DrawnSecret::draw_token(&task.office.switch)?;
    let (id, scope) = (AccessTokenId(task.new_id()?), access_scope(&args.scope));
    let token = NewAccessToken { id, digest, company, scope };
    task.carry_out(AdminCommand::AccessToken(AccessTokenCommand::Create(token))).await?;
    task.tell(
        json!({"token_id": id.0, "access_token": access_token}),
        format!("access token {access_token} (shown this once)"),
    );
    Ok(())
}

async fn list(of: CompanyDataArgs, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
    let company = task.find_company(of.company).await?.slot;
    let page = Page { order: Order::OldestFirst, ..Page::first(usize::MAX) };
    let switch = &task.office.switch;
    let tokens = switch.read(|snapshot| snapshot.access_tokens(company, &page)).await?.rows;
    let rows = tokens.iter().map(|token| {
        (token.id.0, scope::names(token.scope), render_time(token.created_at), token.label())
    });
    if task.is_json {
        let shown: Vec<_> = rows
            .map(|(id, scope, created_at, label)| {
                json!({"token_id": id, "scope": scope, "created_at": created_at, "label": label})
            })
            .collect();
        task.line(json!({"tokens": shown}));
        return Ok(());
    }
    for (id, scope, created_at, label) in rows {
        let scope = if scope.is_empty() { "read".to_owned() } else { scope.join(",") };
        task.line(format!("{id}  {created_at}  {scope:<24}  {label}"));
    }
    Ok(())
}

async fn revoke(args: RevokeArgs, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
    let company = task.find_company(args.of.company).await?;
    let (switch, token) = (&task.office.switch, args.token);
    let id = AccessTokenId(token);
    if switch.read(|snapshot| snapshot.access_token_by_id(company.slot, id)).await?.is_none() {
        return Err(Failure::new(format!("the company has no token `{token}`")));
    }
    task.carry_out(AdminCommand::AccessToken(AccessTokenCommand::Revoke(company.id, id))).await?;
    task.tell(json!({"token_id": token}), format!("revoked token {token}"));
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
