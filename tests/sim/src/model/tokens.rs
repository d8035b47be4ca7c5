//! Apps and tokens of the model.

use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessTokenCommand, NewAccessToken, NewTokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::app::AppCommand;
use cardswitch_engine::directory::member::MemberRole;
use cardswitch_engine::domain::ids::{AccessTokenId, AppId, CompanyId, MemberId};

use super::Model;

#[derive(Clone)]
pub(crate) struct App {
    id: AppId,
    pub(super) company: usize,
    pub(super) is_deleted: bool,
}

#[derive(Clone)]
pub struct Token {
    id: AccessTokenId,
    pub digest: [u8; 32],
    pub(super) company: usize,
    app: Option<usize>,
    pub(super) member: Option<usize>,
    pub(super) scope: AccessScope,
    pub(super) is_by_password: bool,
    pub is_revoked: bool,
}

impl Token {
    pub(super) const fn member(&self) -> Option<usize> {
        self.member
    }
}

impl Model {
    pub(crate) fn token_command(&mut self, command: &AccessTokenCommand) -> Result<(), Rejection> {
        match command {
            AccessTokenCommand::Create(new) => self.make_token(new, (None, None)).map(drop),
            AccessTokenCommand::Grant(new) => self.grant_token(new),
            AccessTokenCommand::Revoke(company, id) => {
                let company = self.company(*company)?;
                let is_it = |token: &&mut Token| {
                    token.id == *id && token.company == company && !token.is_revoked
                };
                let token = self.tokens.iter_mut().find(is_it);
                token.ok_or(Rejection::TokenNotFound)?.is_revoked = true;
                Ok(())
            }
        }
    }

    pub(crate) fn app_command(&mut self, at: i64, command: &AppCommand) -> Result<(), Rejection> {
        match command {
            AppCommand::RevokeTokens(app, company) => {
                let company = self.company(*company)?;
                let app = self.app(*app)?;
                self.end_tickets(at, |ticket| {
                    ticket.code.is_some_and(|code| code.app == app && code.company == company)
                });
                self.revoke_tokens(|token| token.app == Some(app) && token.company == company);
                Ok(())
            }
            AppCommand::Create(new) => {
                let company = self.open_company(new.company)?;
                if self.apps.iter().any(|app| app.id == new.id) {
                    return Err(Rejection::IdTaken);
                }
                self.apps.push(App { id: new.id, company, is_deleted: false });
                Ok(())
            }
            AppCommand::Update(company, id, _) => {
                let app = self.own_app(*company, *id)?;
                self.check_open(self.apps[app].company)
            }
            // No decision reads the page of an app: see `people::apps`.
            AppCommand::Approve(company, id, _) => self.own_app(*company, *id).map(drop),
            AppCommand::Delete(company, id) => {
                let app = self.own_app(*company, *id)?;
                self.apps[app].is_deleted = true;
                self.revoke_tokens(|token| token.app == Some(app));
                Ok(())
            }
        }
    }

    pub(super) fn make_token(
        &mut self,
        new: &NewAccessToken,
        (app, member): (Option<usize>, Option<usize>),
    ) -> Result<usize, Rejection> {
        let company = self.open_company(new.company)?;
        let is_taken =
            |known: &Token| !known.is_revoked && (known.id == new.id || known.digest == new.digest);
        if self.tokens.iter().any(is_taken) {
            return Err(Rejection::IdTaken);
        }
        let (id, digest) = (new.id, new.digest);
        let (is_by_password, is_revoked) = (false, false);
        self.tokens.push(Token {
            id,
            digest,
            company,
            app,
            member,
            scope: new.scope,
            is_by_password,
            is_revoked,
        });
        Ok(self.tokens.len() - 1)
    }

    fn grant_token(&mut self, new: &NewTokenGrant) -> Result<(), Rejection> {
        let made = self.make_token(&new.token, (None, None))?;
        let owners = new.app.map(|id| self.admissible_app(id)).transpose().and_then(|app| {
            let company = self.tokens[made].company;
            let member = new.member.map(|id| self.granting_member(company, id, new.token.scope));
            let member = member.transpose()?;
            Ok((app, member))
        });
        match owners {
            Ok((app, member)) => {
                let token = &mut self.tokens[made];
                (token.app, token.member) = (app, member);
                token.is_by_password = new.origin == TokenOrigin::Password;
                Ok(())
            }
            Err(rejection) => {
                self.tokens.pop();
                Err(rejection)
            }
        }
    }

    pub(super) fn revoke_tokens(&mut self, is_meant: impl Fn(&Token) -> bool) {
        for token in self.tokens.iter_mut().filter(|token| is_meant(token)) {
            token.is_revoked = true;
        }
    }

    pub(super) fn granting_member(
        &self,
        company: usize,
        id: MemberId,
        scope: AccessScope,
    ) -> Result<usize, Rejection> {
        let member = self.active_member(company, id)?;
        match is_beyond(self.members[member].role, scope) {
            true => Err(Rejection::ScopeNotAllowed),
            false => Ok(member),
        }
    }

    pub(super) fn app(&self, id: AppId) -> Result<usize, Rejection> {
        let is_it = |app: &App| app.id == id && !app.is_deleted;
        self.apps.iter().position(is_it).ok_or(Rejection::AppNotFound)
    }

    /// One whose company is not closed.
    pub(super) fn admissible_app(&self, id: AppId) -> Result<usize, Rejection> {
        let app = self.app(id)?;
        self.check_open(self.apps[app].company).map(|()| app)
    }

    fn own_app(&self, company: CompanyId, id: AppId) -> Result<usize, Rejection> {
        let company = self.company(company)?;
        let app = self.app(id)?;
        if self.apps[app].company == company { Ok(app) } else { Err(Rejection::AppNotFound) }
    }
}

/// Whether a scope is more than a role may give.
pub(super) fn is_beyond(role: MemberRole, scope: AccessScope) -> bool {
    match role {
        MemberRole::Administrator => false,
        MemberRole::Accountant => scope.admin || scope.scim || scope.iam,
        MemberRole::Reviewer | MemberRole::Member => true,
    }
}
