//! Guesses of a password from many addresses at once: 511 a minute were judged at one account, and its
//! owner waited 22 seconds. They are judged one after the other now, and the owner's device apart.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cardswitch_harness::{Browser, HttpClient, Installation};
use serde_json::Value;

const ADDRESSES: u8 = 120;
const ATTACK: Duration = Duration::from_secs(20);
/// The number of first tries until each waits the longest, and that wait.
const FREE: f64 = 9.0;
const PACE_S: f64 = 5.0;

#[test]
fn guesses_from_many_addresses_are_one_budget_and_the_owner_has_another() {
    let installation = Installation::init(1, 42);
    let credentials = installation.credentials.clone();
    let switch = installation.serve_with(&["--trusted-proxies", "127.0.0.1"]);
    let (email, password) = (credentials.admin_email.as_str(), &credentials.admin_password);
    let mut owner = Browser::new(switch.http);
    owner.sign_in(email, password);
    assert_eq!(owner.post("/logout", &[]).status, 303);

    let (judged, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    let (http, began) = (switch.http, Instant::now());
    let owners_wait = thread::scope(|scope| {
        for last in 0..ADDRESSES {
            let (judged, is_over) = (&judged, &is_over);
            scope.spawn(move || {
                let from = format!("203.0.113.{last}");
                let forwarded = [("x-forwarded-for", from.as_str())];
                let mut thief = Browser::new(http);
                while !is_over.load(Ordering::Relaxed) {
                    thief.get("/login");
                    let fields = [("email", email), ("password", "a wrong password")];
                    let status = thief.post_with("/login", &fields, &forwarded).status;
                    assert!([401, 429, 503].contains(&status), "{status}");
                    judged.fetch_add(u32::from(status == 401), Ordering::Relaxed);
                    if status != 401 {
                        // No client asks again at once, and the machine has others to serve.
                        thread::sleep(Duration::from_millis(200));
                    }
                }
            });
        }
        thread::sleep(ATTACK);
        let seconds = began.elapsed().as_secs_f64();
        let count = judged.load(Ordering::Relaxed);
        let asked = Instant::now();
        owner.sign_in(email, password);
        let owners_wait = asked.elapsed();
        is_over.store(true, Ordering::Relaxed);
        eprintln!("{count} guesses judged in {seconds:.1} s; the owner waited {owners_wait:?}");
        assert!(f64::from(count) <= FREE + seconds / PACE_S, "{count} guesses in {seconds} s");
        owners_wait
    });
    // A client in the line waits at least as long as one step of its pace.
    assert!(owners_wait.as_secs_f64() < PACE_S, "the owner waited {owners_wait:?} in a line");

    let bearer = format!("Bearer {}", credentials.access_token);
    let client = HttpClient::with_authorization(http, &bearer);
    let listed: Value = client.get("/v1/audit-events?limit=100").json();
    let rows = listed["results"].as_array().expect("events");
    let failed = rows.iter().filter(|event| event["action"] == "user.sign_in_failed").count();
    assert!((1..=8).contains(&failed), "{failed} events of {} guesses", judged.into_inner());
    switch.stop();
    installation.verify_ok();
}
