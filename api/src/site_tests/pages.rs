//! The site as browsers and attackers meet it: what every page says, forms from elsewhere, texts that
//! are no markup.

use super::site_world::{EMAIL, OTHER_EMAIL, PASSWORD, ask_for_link, bench, sign_in};
use super::visitor_tests::{ORIGIN, Page, Visitor};

#[tokio::test]
async fn every_page_says_what_browsers_may_not_do_with_it() {
    let bench = bench().await;
    let mut signed_in = sign_in(&bench, EMAIL).await;
    let link = ask_for_link(&bench).await;
    let mut pages = Vec::new();
    for path in ["/", "/login", "/password/forgot", "/nothing", "/logout", "/login/second-factor"] {
        pages.push((path, Visitor::new(&bench).get(path).await));
    }
    for path in [&link, "/password/set/guessed", "/assets/none.css", "/docs"] {
        pages.push((path, Visitor::new(&bench).get(path).await));
    }
    for path in ["/account", "/account/password", "/account/totp", "/account/question"] {
        pages.push((path, signed_in.get(path).await));
        pages.push((path, Visitor::new(&bench).get(path).await.expect(303)));
    }
    pages.push(("a foreign form", Visitor::new(&bench).post("/login", &[]).await.expect(403)));
    pages.push(("no form", signed_in.send("POST", "/account", &[], "{}").await.expect(415)));
    for (path, page) in pages {
        let policy = page.header("content-security-policy");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert!(policy.starts_with("default-src 'none'; style-src 'self';"), "{path}: {policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("script-src"), "{path}: {policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(page.header(name), value, "{path}");
        }
        assert_eq!(page.header("cache-control"), "no-store", "{path}");
        assert!(!page.body.contains("<script") && !page.body.contains(" style="), "{path}");
    }
    assert!(
        signed_in.get("/account").await.header("strict-transport-security").contains("max-age")
    );
}

#[tokio::test]
async fn unknown_paths_are_pages_for_browsers_and_bodies_for_programs() {
    let bench = bench().await;
    let mut visitor = Visitor::new(&bench);
    let page = visitor.get("/nothing").await.expect(404);
    assert!(page.body.contains("Page not found") && page.header("content-type").contains("html"));
    for (path, headers) in [("/nothing", &[][..]), ("/v1/nothing", &[("accept", "text/html")])] {
        let body = visitor.send("GET", path, headers, "").await.expect(404);
        assert!(body.header("content-type").starts_with("application/json"), "{path}");
    }
    let page = visitor.send("DELETE", "/login", &[], "").await.expect(405);
    assert!(page.body.contains("Something went wrong") && page.header("allow").contains("GET"));
}

#[tokio::test]
async fn failures_keep_the_ways_on_of_who_signed_in() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    let nobody = "01890000-0000-7000-8000-000000000000";
    let rows = [
        ("GET", "/nothing".to_owned(), 404),
        ("GET", format!("/cards/{nobody}"), 404),
        ("GET", "/cards/not-an-id".to_owned(), 404),
        ("DELETE", "/cards".to_owned(), 405),
    ];
    for (method, path, status) in rows {
        let html = &[("accept", "text/html")];
        let page = visitor.send(method, &path, html, "").await.expect(status);
        for words in ["<nav class=\"ways\"", "href=\"/account\"", EMAIL, "action=\"/logout\""] {
            assert!(page.body.contains(words), "{path} {words}: {}", page.body);
        }
        let page = Visitor::new(&bench).send(method, &path, html, "").await;
        assert!(!page.body.contains("<nav"), "{path}: {}", page.body);
    }
    visitor.get("/account").await;
    let page = visitor.post_with("/account", &[], "csrf=wrong").await.expect(403);
    assert!(page.body.contains("<nav class=\"ways\""), "{}", page.body);
}

#[tokio::test]
async fn style_and_mark_are_kept_for_ever_under_their_own_names() {
    let bench = bench().await;
    let mut visitor = Visitor::new(&bench);
    let page = visitor.get("/login").await;
    for (mark, kind) in
        [("<link rel=\"stylesheet\" href=\"", "text/css"), ("<img src=\"", "image/svg")]
    {
        let path = page.body.split_once(mark).unwrap().1.split_once('"').unwrap().0;
        let asset = visitor.get(path).await.expect(200);
        assert!(asset.header("content-type").starts_with(kind), "{path}");
        assert!(asset.header("cache-control").contains("immutable"), "{path}");
        assert_eq!(asset.header("x-content-type-options"), "nosniff");
    }
}

#[tokio::test]
async fn forms_from_elsewhere_change_nothing() {
    let bench = bench().await;
    let mut visitor = sign_in(&bench, EMAIL).await;
    let own = visitor.get("/account").await.csrf().unwrap();
    let mut other = sign_in(&bench, OTHER_EMAIL).await;
    let others = other.get("/account").await.csrf().unwrap();
    let mut anonymous = Visitor::new(&bench);
    let unsigned = anonymous.get("/login").await.csrf().unwrap();
    // A form bound to the visitor before sign-in counts no more after it.
    visitor.cookies.insert("__Host-form".into(), anonymous.cookies["__Host-form"].clone());
    let from_here = [("origin", ORIGIN), ("sec-fetch-site", "same-origin")];
    let foreign: [&[(&str, &str)]; 5] = [
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("origin", ORIGIN), ("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "https://cards.example.com.evil.example")],
    ];
    let tail = "&first_name=Eve&last_name=Evil";
    let mut rows: Vec<(&[(&str, &str)], String)> = vec![
        (&from_here, format!("csrf={others}{tail}")),
        (&from_here, format!("csrf={unsigned}{tail}")),
        (&from_here, format!("csrf={tail}")),
        (&from_here, tail[1..].to_owned()),
        (&from_here, format!("csrf={}{tail}", &own[..own.len() - 1])),
        (&from_here, format!("csrf=wrong&csrf={own}{tail}")),
    ];
    rows.extend(foreign.map(|headers| (headers, format!("csrf={own}{tail}"))));
    for (headers, body) in rows {
        let page = visitor.post_with("/account", headers, &body).await.expect(403);
        let is_refused = ["Blocked: cross-site request", "This form is out of date"];
        assert!(is_refused.iter().any(|title| page.body.contains(title)), "{headers:?} {body}");
    }
    for path in ["/logout", "/company", "/account/password", "/account/totp", "/account/question"] {
        visitor.post_with(path, &from_here, "csrf=wrong").await.expect(403);
    }
    let page = visitor.get("/account").await.expect(200);
    assert!(page.body.contains("value=\"Byron\"") && !page.body.contains("Evil"));

    let right = format!("csrf={own}{tail}");
    visitor.post_with("/account", &[], &right).await.expect(303);
    assert!(visitor.get("/account").await.body.contains("value=\"Evil\""));
}

#[tokio::test]
async fn no_text_becomes_markup_or_a_header() {
    let bench = bench().await;
    let evil = "\"><script>alert(1)</script>'&<b>";
    let harmless = |page: &Page| !page.body.contains("<script") && !page.body.contains("<b>");
    let mut visitor = Visitor::new(&bench);
    let fields = [("email", evil), ("password", evil), ("next", "/\"><script>")];
    let page = visitor.fill("/login", &fields).await.expect(401);
    assert!(harmless(&page) && page.body.contains("&#60;script&#62;alert(1)"), "{}", page.body);
    assert!(harmless(&visitor.get("/login?next=/%22%3E%3Cscript%3E").await));
    assert!(harmless(&visitor.get("/%22%3E%3Cscript%3E").await));
    assert!(harmless(&visitor.get("/password/set/%22%3E%3Cscript%3E").await));
    visitor.cookies.insert("__Host-notice".into(), "You have won".into());
    assert!(!visitor.get("/login").await.body.contains("won"));

    visitor = Visitor::new(&bench);
    visitor.user_agent = evil;
    visitor.fill("/login", &[("email", EMAIL), ("password", PASSWORD)]).await.expect(303);
    visitor.get("/account").await;
    let names = [("first_name", evil), ("last_name", evil)];
    visitor.post("/account", &names).await.expect(303);
    let page = visitor.get("/account").await;
    assert!(harmless(&page) && page.body.matches("&#60;script&#62;").count() >= 4, "{}", page.body);
    let question = [("action", "set"), ("question", evil), ("answer", "rexes")];
    let question = [&question[..], &[("password", PASSWORD)]].concat();
    visitor.fill("/account/question", &question).await.expect(303);
    assert!(harmless(&visitor.get("/account/question").await));
    let mut asked = Visitor::new(&bench);
    asked.fill("/login", &[("email", EMAIL), ("password", PASSWORD)]).await.expect(303);
    assert!(harmless(&asked.get("/login/second-factor").await.expect(200)));

    // Names are one line of bounded length.
    for name in ["a\r\nset-cookie: a=b", "a\u{0}", "a\u{7f}", &"a".repeat(101)] {
        let names = [("first_name", name), ("last_name", "")];
        let page = visitor.fill("/account", &names).await.expect(400);
        assert!(page.body.contains("id=\"first_name-error\""), "{}", page.body);
    }
}

#[tokio::test]
async fn forms_are_bounded() {
    let bench = bench().await;
    let mut visitor = Visitor::new(&bench);
    visitor.get("/login").await;
    visitor.post("/login", &[("email", &"a".repeat(70_000))]).await.expect(413);
    visitor.post("/login", &[("email", EMAIL)]).await.expect(400);
    let twice = [("email", EMAIL), ("email", OTHER_EMAIL), ("password", PASSWORD)];
    visitor.post("/login", &twice).await.expect(400);
    assert_eq!(visitor.session(), None);
}
