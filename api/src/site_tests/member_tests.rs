//! Members as the people of a company meet them, and as those do who should not.

use cardswitch_engine::directory::member::MemberRole;
use serde_json::{Value, json};

use super::company_world::{
    ACCOUNTANT, EVIL, MEMBER, REVIEWER, add_member, administer_other_company, card_of, close,
    company, make, member, shown, visitor,
};
use super::site_world::{EMAIL, PASSWORD, ask_for_link, letter, letters, link_in};
use super::visitor_tests::Visitor;
use crate::bench::{COMPANY, OTHER_COMPANY};

const JEAN: [(&str, &str); 5] = [
    ("first_name", "Jean"),
    ("last_name", "Bartik"),
    ("email", "jean@example.com"),
    ("role", "reviewer"),
    ("code", "0042"),
];

#[tokio::test]
async fn members_are_seen_and_managed_by_whom_the_rights_say() {
    let bench = company().await;
    let id = member(&bench, MEMBER).await.id.0;
    let path = format!("/members/{id}");
    for (email, sees, manages) in
        [(EMAIL, 200, 200), (ACCOUNTANT, 200, 403), (REVIEWER, 200, 403), (MEMBER, 403, 403)]
    {
        let mut visitor = visitor(&bench, email).await;
        for path in ["/members", &path, "/members?q=mary&state=active"] {
            let page = visitor.get(path).await.expect(sees);
            // The head of a page names its visitor.
            let (_, main) = page.body.split_once("<main").unwrap();
            assert_eq!(main.contains("mary@example.com"), sees == 200, "{email} {path}");
        }
        for way in ["deactivate", "delete"] {
            visitor.get(&format!("{path}/{way}")).await.expect(manages);
        }
        visitor.get("/members/new").await.expect(manages);
        if manages != 200 {
            let is_offered = visitor.get(&path).await.body.contains("Deactivate");
            assert!(!is_offered, "{email}");
            visitor.get("/account").await;
            for act in ["", "/deactivate", "/delete", "/reactivate", "/invite"] {
                let fields = [&JEAN[..], &[("is_confirmed", "true")]].concat();
                visitor.post(&format!("{path}{act}"), &fields).await.expect(403);
            }
            visitor.post("/members/new", &JEAN).await.expect(403);
        }
    }
    assert_eq!(shown(&bench, &format!("/v1{path}")).await["is_active"], true);
}

/// A page that was still open made its things in the company that was chosen since.
#[tokio::test]
async fn a_page_of_another_company_is_out_of_date() {
    let bench = company().await;
    let mut ada = visitor(&bench, EMAIL).await;
    administer_other_company(&bench).await;
    let form = ada.get("/members/new").await.expect(200);
    let file = format!("/statements/file?company={COMPANY}&month=2026-01&format=csv");
    ada.get(&file).await.expect(200);
    ada.post("/company", &[("company", &OTHER_COMPANY.to_string())]).await.expect(303);
    let page = ada.post_from(&form, "/members/new", &JEAN).await.expect(403);
    assert!(page.body.contains("This form is out of date"), "{}", page.body);
    ada.get(&file).await.expect(403);
    ada.post("/company", &[("company", &COMPANY.to_string())]).await.expect(303);
    ada.post_from(&form, "/members/new", &JEAN).await.expect(303);
}

#[tokio::test]
async fn whoever_is_invited_chooses_a_password_and_signs_in() {
    let bench = company().await;
    let mut ada = visitor(&bench, EMAIL).await;
    let known = letters(&bench).len();
    let page = ada.fill("/members/new", &JEAN).await.expect(303);
    let path = page.location().to_owned();
    let page = ada.get(&path).await.expect(200);
    for part in ["Jean Bartik", "jean@example.com", "Reviewer", "0042", "Active", "Member invited"]
    {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    assert!(ada.get("/members").await.body.contains(&path));
    let link = link_in(&letter(&bench, known).await);
    let mut jean = Visitor::new(&bench);
    let fields = [("password", PASSWORD), ("repeated", PASSWORD)];
    jean.fill(&link, &fields).await.expect(303);
    let fields = [("email", "jean@example.com"), ("password", PASSWORD)];
    jean.fill("/login", &fields).await.expect(303);
    jean.get("/requisitions").await.expect(200);
}

#[tokio::test]
async fn faults_of_a_member_stand_at_their_fields_and_what_was_typed_stays() {
    let bench = company().await;
    let mut ada = visitor(&bench, EMAIL).await;
    ada.fill("/members/new", &JEAN).await.expect(303);
    let rows = [
        (("first_name", ""), 400, "Required."),
        (("last_name", "a\0b"), 400, "Contains invisible characters."),
        (("email", "nobody"), 400, "Must be an email address"),
        (("email", "JEAN@example.com"), 409, "Another member has this email address."),
        (("code", "0042"), 409, "Another member has this employee ID."),
        (("code", "4-2"), 400, "Must be digits only."),
        (("role", "administrator"), 400, "Must be member or reviewer."),
    ];
    let other = [("email", "kay@example.com"), ("code", "43")];
    for ((name, value), status, words) in rows {
        let mut fields = [&JEAN[..2], &other[..]].concat();
        fields.retain(|(known, _)| *known != name);
        fields.push((name, value));
        let page = ada.fill("/members/new", &fields).await.expect(status);
        let told = format!("id=\"{name}-error\">{words}");
        assert!(page.body.contains(&told), "{told}: {}", page.body);
        let kept = fields.iter().filter(|(known, _)| *known != name);
        for (_, value) in kept {
            assert!(page.body.contains(value), "{name}: {value} is gone");
        }
    }
    assert_eq!(shown(&bench, "/v1/members").await["count"], 5);
}

#[tokio::test]
async fn two_who_change_one_member_see_each_other() {
    let bench = company().await;
    let department = make(&bench, "/v1/departments", json!({"name": "Sales"})).await;
    let id = member(&bench, MEMBER).await.id.0;
    let path = format!("/members/{id}");
    let mut ada = visitor(&bench, EMAIL).await;
    let page = ada.get(&path).await.expect(200);
    assert!(page.body.contains(">Sales</option>") && !page.body.contains("name=\"location\""));
    let seen = page.field("seen").unwrap();
    let fields = |first, role, seen| {
        [("first_name", first), ("last_name", "Keller"), ("role", role), ("seen", seen)]
    };
    let sent = fields("Mary", "reviewer", &seen);
    let sent = [&sent[..], &[("department", &department), ("code", "7")]].concat();
    ada.post(&path, &sent).await.expect(303);
    let body = shown(&bench, &format!("/v1{path}")).await;
    assert_eq!(body["department"]["name"], "Sales");
    assert_eq!((&body["role"], &body["code"]), (&json!("reviewer"), &json!("7")));

    let page = ada.post(&path, &fields("Marie", "member", &seen)).await.expect(409);
    for part in ["someone else changed this", "role, employee id and department", "value=\"Mary\""]
    {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    let seen = page.field("seen").unwrap();
    // Fields that the form does not send stay; a wrong value stays as typed.
    let page = ada.post(&path, &fields("", "member", &seen)).await.expect(400);
    assert!(page.body.contains("id=\"first_name-error\"") && page.body.contains("Keller"));
    ada.post(&path, &fields("Marie", "member", &seen)).await.expect(303);
    let body = shown(&bench, &format!("/v1{path}")).await;
    assert_eq!((&body["first_name"], &body["code"]), (&json!("Marie"), &Value::Null));
    assert_eq!(body["department"]["name"], "Sales");
}

#[tokio::test]
async fn what_ends_is_shown_before_a_member_leaves() {
    let bench = company().await;
    let mary = member(&bench, MEMBER).await;
    let path = format!("/members/{}", mary.id.0);
    let card = card_of(&bench, MEMBER, "Lunches").await;
    let request = json!({"member": {"id": mary.id.0}, "amount": 5, "description": "Pens"});
    let request = make(&bench, "/v1/requisitions", request).await;
    let link = json!({"card": {"id": card}, "recipient": {"name": "M", "email": "MARY@example.com",
        "notify": false}});
    make(&bench, "/v1/shared-links", link).await;
    let mut open = visitor(&bench, MEMBER).await;
    open.get("/account").await.expect(200);

    let mut ada = visitor(&bench, EMAIL).await;
    let page = ada.get(&format!("{path}/deactivate")).await.expect(200);
    for part in [
        "1 card is closed",
        "Lunches ••••",
        "1 pending requisition is denied",
        "1 shared link that was sent to them stops working",
        "signed out everywhere",
    ] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    assert!(!page.body.contains("The role becomes"), "it is that already");
    let seen = page.field("seen").unwrap();
    let act = format!("{path}/deactivate");
    let page = ada.post(&act, &[("seen", &seen)]).await.expect(400);
    assert!(page.body.contains("Tick the box to confirm"), "{}", page.body);
    // Another card means that something else would end than was agreed to.
    card_of(&bench, MEMBER, "Travel").await;
    let yes = [("seen", seen.as_str()), ("is_confirmed", "true")];
    let page = ada.post(&act, &yes).await.expect(409);
    assert!(page.body.contains("someone else changed this") && page.body.contains("2 cards are"));
    assert_eq!(shown(&bench, &format!("/v1{path}")).await["is_active"], true);
    let seen = page.field("seen").unwrap();
    let yes = [("seen", seen.as_str()), ("is_confirmed", "true")];
    ada.post(&act, &yes).await.expect(303);
    assert_eq!(shown(&bench, &format!("/v1{path}")).await["is_active"], false);
    assert_eq!(shown(&bench, &format!("/v1/cards/{card}")).await["state"], "terminated");
    assert_eq!(shown(&bench, &format!("/v1/requisitions/{request}")).await["status"], "denied");
    assert_eq!(shown(&bench, "/v1/shared-links").await["count"], 0);
    assert!(open.get("/account").await.expect(303).location().starts_with("/login"));

    // A second time there is nothing to do.
    assert_eq!(ada.get(&act).await.expect(303).location(), path);
    assert_eq!(ada.post(&act, &yes).await.expect(303).location(), path);
    let page = ada.get(&path).await.expect(200);
    assert!(page.body.contains("Deactivated") && page.body.contains("Reactivate"));
    ada.post(&format!("{path}/reactivate"), &[]).await.expect(303);
    assert_eq!(shown(&bench, &format!("/v1{path}")).await["is_active"], true);
    assert_eq!(shown(&bench, &format!("/v1/cards/{card}")).await["state"], "terminated");
}

#[tokio::test]
async fn hundreds_of_cards_do_not_hide_the_question() {
    let bench = company().await;
    for count in 0..103 {
        card_of(&bench, MEMBER, &format!("Contract {count}")).await;
    }
    let path = format!("/members/{}", member(&bench, MEMBER).await.id.0);
    let mut ada = visitor(&bench, EMAIL).await;
    let page = ada.get(&format!("{path}/deactivate")).await.expect(200);
    for part in
        ["103 cards are closed", "Show 95 more", "And 3 more", "/cards?holder=mary%40example.com"]
    {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    let [at_first_sight, folded] =
        page.body.split("<details class=\"fold\">").collect::<Vec<_>>()[..]
    else {
        panic!("one list is folded");
    };
    let named = |text: &str| text.matches("<li>Contract").count();
    assert_eq!((named(at_first_sight), named(folded)), (5, 95));
    let seen = page.field("seen").unwrap();
    let yes = [("seen", seen.as_str()), ("is_confirmed", "true")];
    ada.post(&format!("{path}/deactivate"), &yes).await.expect(303);
    assert_eq!(shown(&bench, "/v1/cards?state=terminated").await["count"], 103);
}

#[tokio::test]
async fn a_deleted_member_is_gone_from_the_list_and_keeps_a_page() {
    let bench = company().await;
    let path = format!("/members/{}", member(&bench, REVIEWER).await.id.0);
    let mut ada = visitor(&bench, EMAIL).await;
    let page = ada.get(&format!("{path}/delete")).await.expect(200);
    for part in ["cannot be undone", "Their role becomes Member", "No card is closed"] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    let seen = page.field("seen").unwrap();
    let yes = [("seen", seen.as_str()), ("is_confirmed", "true")];
    let gone = ada.post(&format!("{path}/delete"), &yes).await.expect(303);
    assert_eq!(gone.location(), "/members");
    assert!(!ada.get("/members").await.expect(200).body.contains(&path));
    let page = ada.get(&path).await.expect(200);
    assert!(page.body.contains("This member was deleted") && !page.body.contains("Save</button>"));
    ada.get("/members").await;
    for act in ["/deactivate", "/delete"] {
        assert_eq!(ada.post(&format!("{path}{act}"), &yes).await.expect(303).location(), path);
    }
    ada.post(&format!("{path}/invite"), &[]).await.expect(404);
    let page = ada.post(&format!("{path}/reactivate"), &[]).await.expect(409);
    assert!(page.body.contains("deleted member cannot be changed"), "{}", page.body);
    // The account is closed: asking for a new password shows the same page and sends nothing.
    let forgotten = [("email", REVIEWER)];
    Visitor::new(&bench).fill("/password/forgot", &forgotten).await.expect(200);
    ask_for_link(&bench).await;
    let told = |letter: &String| letter.contains(&format!("To: {REVIEWER}"));
    assert!(!letters(&bench).iter().any(told));
}

#[tokio::test]
async fn the_last_administrator_stays() {
    let bench = company().await;
    let path = format!("/members/{}", member(&bench, EMAIL).await.id.0);
    let mut ada = visitor(&bench, EMAIL).await;
    for way in ["deactivate", "delete"] {
        let page = ada.get(&format!("{path}/{way}")).await.expect(200);
        assert!(page.body.contains("This is you") && page.body.contains("to this company only"));
        let seen = page.field("seen").unwrap();
        let yes = [("seen", seen.as_str()), ("is_confirmed", "true")];
        let page = ada.post(&format!("{path}/{way}"), &yes).await.expect(409);
        assert!(page.body.contains("no active administrator"), "{way}: {}", page.body);
    }
    let page = ada.get(&path).await.expect(200);
    assert!(page.body.contains("value=\"administrator\" selected"), "{}", page.body);
    let seen = page.field("seen").unwrap();
    let fields = [("first_name", "Ada"), ("last_name", "King"), ("seen", seen.as_str())];
    let lesser = [&fields[..], &[("role", "member")]].concat();
    ada.post(&path, &lesser).await.expect(409);
    let same = [&fields[..], &[("role", "administrator")]].concat();
    ada.post(&path, &same).await.expect(303);
    assert_eq!(shown(&bench, &format!("/v1{path}")).await["last_name"], "King");
}

#[tokio::test]
async fn a_letter_is_sent_again_and_tells_the_inviter_nothing() {
    let bench = company().await;
    add_member(&bench, 301, "new@example.com", MemberRole::Member).await;
    let mut ada = visitor(&bench, EMAIL).await;
    // Mary has a password; the new member has none, and not even an account.
    for (email, subject) in [(MEMBER, "Set a new password"), ("new@example.com", "invitation")] {
        let path = format!("/members/{}", member(&bench, email).await.id.0);
        ada.get(&path).await.expect(200);
        let known = letters(&bench).len();
        let page = ada.post(&format!("{path}/invite"), &[]).await.expect(303);
        let letter = letter(&bench, known).await;
        assert!(letter.contains(subject) && letter.contains(email), "{letter}");
        let said = ada.get(page.location()).await.expect(200);
        assert!(said.body.contains("is on its way"), "{}", said.body);
        Visitor::new(&bench).get(&link_in(&letter)).await.expect(200);
    }
    let events = shown(&bench, "/v1/audit-events?action=password_link.created").await;
    assert_eq!(events["count"], 2, "{events}");
    // However often it is asked for, nobody is flooded.
    let path = format!("/members/{}/invite", member(&bench, MEMBER).await.id.0);
    for _ in 0..10 {
        ada.post(&path, &[]).await.expect(303);
    }
    add_member(&bench, 302, "last@example.com", MemberRole::Member).await;
    let last = format!("/members/{}/invite", member(&bench, "last@example.com").await.id.0);
    ada.post(&last, &[]).await.expect(303);
    loop {
        let all = letters(&bench);
        if all.iter().any(|letter| letter.contains("To: last@example.com")) {
            let to_mary = all.iter().filter(|letter| letter.contains("To: mary@")).count();
            assert!((1..=3).contains(&to_mary), "{to_mary}");
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// An e-mail was said to be on its way, and none was sent.
#[tokio::test]
async fn a_closed_company_is_told_that_it_sends_no_link() {
    let bench = company().await;
    let path = format!("/members/{}", member(&bench, MEMBER).await.id.0);
    let mut ada = visitor(&bench, EMAIL).await;
    ada.get(&path).await.expect(200);
    close(&bench).await;
    let page = ada.post(&format!("{path}/invite"), &[]).await.expect(409);
    assert!(page.body.contains("The company is closed."), "{}", page.body);
}

#[tokio::test]
async fn members_of_another_company_do_not_exist() {
    let bench = company().await;
    let path = format!("/members/{}", member(&bench, MEMBER).await.id.0);
    let mut ada = visitor(&bench, EMAIL).await;
    administer_other_company(&bench).await;
    ada.post("/company", &[("company", &OTHER_COMPANY.to_string())]).await.expect(303);
    assert!(!ada.get("/members").await.expect(200).body.contains("mary@example.com"));
    for way in ["", "/deactivate", "/delete"] {
        ada.get(&format!("{path}{way}")).await.expect(404);
    }
    ada.get("/members/new").await.expect(200);
    for act in ["", "/deactivate", "/delete", "/reactivate", "/invite"] {
        let fields = [&JEAN[..], &[("is_confirmed", "true")]].concat();
        ada.post(&format!("{path}{act}"), &fields).await.expect(404);
    }
    ada.post("/company", &[("company", &COMPANY.to_string())]).await.expect(303);
    assert_eq!(shown(&bench, &format!("/v1{path}")).await["is_active"], true);
}

#[tokio::test]
async fn no_text_of_a_member_becomes_markup() {
    let bench = company().await;
    make(&bench, "/v1/departments", json!({"name": EVIL})).await;
    let mut ada = visitor(&bench, EMAIL).await;
    let fields = [("first_name", EVIL), ("last_name", EVIL), ("email", "evil@example.com")];
    let path = ada.fill("/members/new", &fields).await.expect(303).location().to_owned();
    card_of(&bench, "evil@example.com", EVIL).await;
    let mut pages = Vec::new();
    for path in ["/members", &path, &format!("{path}/delete"), "/requisitions/new"] {
        pages.push(ada.get(path).await.expect(200));
    }
    let all = ["first_name", "last_name", "email", "role", "code", "department", "seen"];
    let evil = all.map(|name| (name, EVIL));
    pages.push(ada.fill("/members/new", &evil).await.expect(400));
    pages.push(ada.fill(&path, &evil).await.expect(409));
    let seen = ada.get(&path).await.field("seen").unwrap();
    let evil = [&evil[..6], &[("seen", &*seen)]].concat();
    pages.push(ada.post(&path, &evil).await.expect(400));
    let sent = [("is_confirmed", "true"), ("seen", EVIL)];
    pages.push(ada.post(&format!("{path}/delete"), &sent).await.expect(409));
    let query = [("q", EVIL), ("state", EVIL)];
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    pages.push(ada.get(&format!("/members?{query}")).await.expect(200));
    for page in pages {
        assert!(
            !page.body.contains("<script>alert") && !page.body.contains("<b>"),
            "{}",
            page.body
        );
    }
}
