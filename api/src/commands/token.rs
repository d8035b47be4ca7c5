//! `cardswitch token add`: on a data directory at rest.

use std::path::PathBuf;

use cardswitch_engine::command::admin::{AdminCommand, NewAccessToken};
use cardswitch_engine::domain::ids::{AccessTokenId, CompanyId};
use cardswitch_engine::domain::member::AccessScope;
use serde_json::json;

use super::Failure;
use super::company::{carry_out, open, parse_id};
use crate::issuing::{RandomSource, SystemRandom};
use crate::secrets::token_digest;

/// What can be done with access tokens.
#[derive(Debug, clap::Subcommand)]
pub enum TokenCommand {
    /// Add an access token of a company; prints it, this once
    Add(AddArgs),
}

/// What `token add` takes.
#[derive(Debug, clap::Args)]
pub struct AddArgs {
    /// Data directory, not in use by a running switch
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    /// Whose data it opens
    #[arg(long, value_name = "COMPANY_ID", value_parser = parse_id)]
    company: uuid::Uuid,
    /// What it may do, with commas between several [default: read]
    #[arg(long, value_name = "SCOPES", value_delimiter = ',')]
    scope: Vec<Scope>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A scope by its name. Source: spec "Authentication", scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Scope {
    /// Read, and keep the books
    Accountant,
    /// Everything but sign-on and provisioning
    Admin,
    /// Provisioning
    Scim,
    /// How members sign on
    Iam,
}

/// Carries out `token add`.
pub async fn run(command: TokenCommand) -> Result<(), Failure> {
    let TokenCommand::Add(args) = command;
    let switch = open(&args.data)?;
    let id = CompanyId(args.company);
    let found = switch.read(|snapshot| snapshot.company_by_id(id)).await.map_err(Failure::new)?;
    if found.is_none() {
        return Err(Failure::new(format!("no company `{}`", args.company)));
    }
    let mut random = SystemRandom;
    let mut bytes = [0; 32];
    random.fill(&mut bytes).map_err(Failure::new)?;
    let access_token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let at = switch.engine().clock().now();
    let token = NewAccessToken {
        id: AccessTokenId(random.id(at).map_err(Failure::new)?),
        digest: token_digest(&access_token),
        company: id,
        scope: access_scope(&args.scope),
    };
    let token_id = token.id.0;
    carry_out(&switch, AdminCommand::CreateAccessToken(token)).await?;
    switch.engine().shut_down();
    if args.json {
        println!("{}", json!({"token_id": token_id, "access_token": access_token}));
    } else {
        println!("access token {access_token} (shown this once)");
    }
    Ok(())
}

fn access_scope(scopes: &[Scope]) -> AccessScope {
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
