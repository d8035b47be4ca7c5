//! People see the profile of an app that an operator has approved, and their codes go to its addresses: a
//! long walk through everything that can be done to an app, its owner's members and their roles.
//!
//! The story: an approved app was renamed and pointed elsewhere by a plain member named developer,
//! who then gave it a secret of their own; the administrator of another company saw a bank's name,
//! and handed over `admin`.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::app::{App, AppApproval, AppCommand, AppProfile, NewApp};
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand, MemberRole};
use cardswitch_engine::directory::user::{UserChanges, UserCommand};
use cardswitch_engine::domain::ids::{AppId, CompanyId, MemberId};
use cardswitch_identity::oauth::scope::{names, parse};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use url::form_urlencoded::Serializer;
use uuid::Uuid;

use super::site_world::{EMAIL, OTHER_EMAIL, OTHER_USER, bench, sign_in};
use super::visitor_tests::{Page, Visitor};
use crate::bench::{Bench, COMPANY, OTHER_COMPANY};
use crate::test_world::{by_switch, new_member};

const STEPS: usize = 400;
/// A walk goes on until the other company's administrator was asked for something; a right switch gets
/// there long before this.
const STEPS_MAX: usize = 50 * STEPS;
const NAMES: [&str; 3] = ["Zebra", "Quagga", "Okapi"];
const SITES: [&str; 3] = ["zebra.example", "quagga.example", "okapi.example"];
const BACK: [&str; 3] = ["back-one.example", "back-two.example", "back-three.example"];
const SCOPES: [&str; 6] = ["", "accountant", "admin", "scim", "iam", "admin scim iam"];
const APP: AppId = AppId(Uuid::from_u128(0xa44));

struct Walk<'a> {
    bench: &'a Bench,
    random: ChaCha20Rng,
    /// The plain member who may register apps, now and then.
    developer: Visitor<'a>,
    /// The administrator of another company.
    victim: Visitor<'a>,
    role: MemberRole,
    /// The profile and scope that the operator has approved last.
    approved: Option<(AppProfile, AccessScope)>,
    /// The number of times that a privileged scope was about to be given.
    asked: usize,
}

impl Walk<'_> {
    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.random.next_u32()).unwrap() % count
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn app(&self) -> App {
        let found = self.bench.state.switch.read_at_once(|snapshot| snapshot.app_by_id(APP));
        found.unwrap().unwrap()
    }

    async fn operator(&self, command: AdminCommand) {
        by_switch(&self.bench.state).carry_out(command).await.unwrap();
    }

    async fn step(&mut self) {
        match self.below(10) {
            0..3 => self.edit().await,
            3 => self.replace_secret().await,
            4 => self.approve().await,
            5 => self.change_developer().await,
            6 => self.change_role().await,
            _ => self.ask_victim().await,
        }
    }

    async fn edit(&mut self) {
        let path = format!("/apps/{}", APP.0);
        let page = self.developer.get(&path).await;
        let Some(seen) = page.field("seen") else { return };
        let mut body = Serializer::new(String::new());
        body.append_pair("csrf", &page.csrf().unwrap()).append_pair("seen", &seen);
        body.append_pair("name", self.one(&NAMES));
        body.append_pair("website", &format!("https://{}", self.one(&SITES)));
        let back = format!("https://{}/a\nhttps://{}/b", self.one(&BACK), self.one(&BACK));
        body.append_pair("redirect_urls", &back);
        for name in self.one(&SCOPES).split(' ').filter(|name| !name.is_empty()) {
            body.append_pair("scope", name);
        }
        let sent = body.finish();
        self.developer.post_with(&path, &[], &sent).await.expect(303);
    }

    /// A developer who is no administrator gets no secret of an approved app.
    async fn replace_secret(&mut self) {
        let (path, before) = (format!("/apps/{}", APP.0), self.app());
        let page = self.developer.get(&path).await;
        if page.status != 200 {
            return;
        }
        let told = self.developer.post(&format!("{path}/secret"), &[]).await;
        let may = self.role == MemberRole::Administrator || !before.is_bound;
        assert_eq!(told.status, if may { 200 } else { 403 }, "{:?} {before:?}", self.role);
        assert_eq!(self.app().secret_digest != before.secret_digest, may);
    }

    async fn approve(&mut self) {
        let (app, scope) = (self.app(), parse(self.one(&SCOPES)).unwrap());
        let profile = app.edited_profile();
        let approval = AppApproval { profile: profile.clone(), scope };
        self.operator(AdminCommand::App(AppCommand::Approve(CompanyId(COMPANY), APP, approval)))
            .await;
        self.approved = Some((profile, scope.common(app.requested)));
    }

    async fn change_developer(&mut self) {
        let develops = Some((CompanyId(COMPANY), self.below(3) > 0));
        let changes = UserChanges { develops, ..UserChanges::default() };
        self.operator(AdminCommand::User(UserCommand::Update(OTHER_USER, changes))).await;
    }

    async fn change_role(&mut self) {
        use MemberRole::{Accountant, Administrator, Member, Reviewer};
        let role = self.one(&[Administrator, Accountant, Reviewer, Member, Member]);
        let found = self.bench.state.switch.read_at_once(|snapshot| {
            let company = snapshot.company_by_id(CompanyId(COMPANY))?.unwrap();
            snapshot.member_by_email(company.slot, OTHER_EMAIL)
        });
        let member = found.unwrap().unwrap().id;
        let changes = MemberChanges { role: Some(role), ..MemberChanges::default() };
        let command =
            AdminCommand::Member(MemberCommand::Update(CompanyId(COMPANY), member, changes));
        match by_switch(&self.bench.state).carry_out(command).await {
            Ok(()) => self.role = role,
            // Somebody has to administer the company.
            Err(error) => assert!(format!("{error:?}").contains("LastAdministrator"), "{error:?}"),
        }
    }

    async fn ask_victim(&mut self) {
        let scope = self.one(&SCOPES);
        let mut query = Serializer::new(String::new());
        query.append_pair("response_type", "code").append_pair("client_id", &APP.0.to_string());
        query.append_pair("scope", scope);
        if self.below(2) == 0 {
            query.append_pair("redirect_uri", &format!("https://{}/a", self.one(&BACK)));
        }
        let path = format!("/v1/oauth/authorize?{}", query.finish());
        let page = self.victim.get(&path).await;
        let is_privileged = parse(scope).unwrap().needs_approval();
        if page.status != 200 || !is_privileged {
            return;
        }
        self.asked += 1;
        let (profile, approved) = self.approved.clone().expect("somebody approved it");
        let asked = parse(scope).unwrap();
        assert_eq!(asked.common(approved), asked, "{scope} of {:?}", names(approved));
        assert_eq!(shown(&page, &NAMES), [profile.name.as_str()]);
        assert!(shown(&page, &SITES).iter().all(|site| profile.website.ends_with(site)));
        let is_approved = |back: &&str| profile.redirect_urls.iter().any(|url| url.contains(back));
        assert!(shown(&page, &BACK).iter().all(is_approved), "{}", page.body);
        let company = OTHER_COMPANY.to_string();
        let fields = [("company", company.as_str()), ("decision", "allow")];
        let sent_on = self.victim.post(&path, &fields).await.expect(200);
        let targets = shown(&sent_on, &BACK);
        assert!(!targets.is_empty() && targets.iter().all(is_approved), "{}", sent_on.body);
    }
}

/// The given words that stand on a page.
fn shown<'a>(page: &Page, words: &[&'a str]) -> Vec<&'a str> {
    words.iter().filter(|word| page.body.contains(**word)).copied().collect()
}

#[tokio::test]
async fn what_a_consent_page_shows_is_what_an_operator_approved() {
    let seed = std::env::var("CARDSWITCH_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| Uuid::now_v7().as_u64_pair().1);
    eprintln!("CARDSWITCH_SEED={seed} repeats this walk");
    let bench = bench().await;
    let office = CompanyId(COMPANY);
    let developer = new_member(MemberId(Uuid::now_v7()), office, OTHER_EMAIL);
    let other = bench.state.switch.read_at_once(|snapshot| {
        let company = snapshot.company_by_id(CompanyId(OTHER_COMPANY))?.unwrap();
        snapshot.member_by_email(company.slot, EMAIL)
    });
    let role = Some(MemberRole::Administrator);
    let administers = MemberChanges { role, ..MemberChanges::default() };
    let victim = other.unwrap().unwrap().id;
    let app = NewApp {
        id: APP,
        company: office,
        name: NAMES[0].parse().unwrap(),
        website: format!("https://{}", SITES[0]).parse().unwrap(),
        secret_digest: [7; 32],
        redirect_urls: vec![format!("https://{}/a", BACK[0])],
        requested: parse("admin scim iam").unwrap(),
    };
    for command in [
        AdminCommand::Member(MemberCommand::Create(developer)),
        AdminCommand::Member(MemberCommand::Update(CompanyId(OTHER_COMPANY), victim, administers)),
        AdminCommand::App(AppCommand::Create(app)),
    ] {
        by_switch(&bench.state).carry_out(command).await.unwrap();
    }
    let mut walk = Walk {
        random: ChaCha20Rng::seed_from_u64(seed),
        developer: sign_in(&bench, OTHER_EMAIL).await,
        victim: sign_in(&bench, EMAIL).await,
        bench: &bench,
        role: MemberRole::Member,
        approved: None,
        asked: 0,
    };
    let mut steps = 0;
    while steps < STEPS || walk.asked == 0 {
        assert!(steps < STEPS_MAX, "nobody was ever asked for a scope that needs approval");
        walk.step().await;
        steps += 1;
    }
}
