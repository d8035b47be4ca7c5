//! The collection for Postman: its requests are sent to a switch one after the other, with the variables that its
//! scripts fill, and those that do not succeed are known.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use cardswitch_harness::{HttpClient, HttpRequest, HttpResponse, Installation, Switch};
use serde_json::Value;

/// The requests that a new switch cannot carry out, each with its answer.
const REFUSED: [(&str, u16); 3] = [
    // There is no app, and no challenge of one.
    ("POST /v1/oauth/token", 401),
    ("GET /v1/oauth/token/challenge", 404),
    ("POST /v1/oauth/token/revoke", 401),
];

/// A stream does not end.
const ENDLESS: &str = "/v1/events/stream";

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01";

/// The requests of the collection, and the variables as they stand.
struct Collection {
    address: SocketAddr,
    requests: Vec<Value>,
    variables: BTreeMap<String, String>,
    sent: u64,
}

impl Collection {
    fn read(switch: &Switch) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../api/examples/cardswitch.postman_collection.json");
        let text = std::fs::read_to_string(path).expect("the collection is there");
        let collection: Value = serde_json::from_str(&text).expect("the collection is JSON");
        let named =
            rows(&collection["variable"]).map(|row| (text_of(&row["key"]), text_of(&row["value"])));
        let mut variables: BTreeMap<_, _> = named.collect();
        let credentials = switch.credentials();
        let given = [
            ("base_url", String::new()),
            ("access_token", credentials.access_token.clone()),
            ("network_key", credentials.network_key.clone()),
        ];
        for (name, value) in given {
            let known = variables.insert(name.to_owned(), value);
            assert!(known.is_some(), "the collection has no variable `{name}`");
            let about = text_of(&collection["info"]["description"]);
            assert!(about.contains(&format!("`{name}`")), "{about}");
        }
        let folders = rows(&collection["item"]);
        let requests =
            folders.flat_map(|folder| rows(&folder["item"]).cloned().collect::<Vec<_>>());
        Self { address: switch.http, requests: requests.collect(), variables, sent: 1_000 }
    }

    /// A text with the values of its variables.
    fn filled(&self, text: &str) -> String {
        let mut parts = text.split("{{");
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once("}}").expect("a variable ends");
            assert!(self.variables.contains_key(name), "the collection has no `{name}`");
            filled += &self.variables[name];
            filled += rest;
        }
        filled
    }

    /// The path of a request.
    fn path(&self, url: &Value) -> String {
        let raw = self.filled(url["raw"].as_str().expect("an address"));
        rows(&url["variable"]).fold(raw, |path, variable| {
            let placeholder = format!(":{}", text_of(&variable["key"]));
            path.replace(&placeholder, &self.filled(&text_of(&variable["value"])))
        })
    }

    /// Sends a request, and does what its script does.
    fn play(&mut self, item: &Value) -> HttpResponse {
        // As in Postman, another value for each request.
        self.sent += 1;
        self.variables.insert("$timestamp".to_owned(), self.sent.to_string());
        let answer = self.send(&item["request"]);
        if is_success(&answer) {
            self.run_script(item, &answer);
        }
        answer
    }

    fn send(&self, request: &Value) -> HttpResponse {
        let headers = rows(&request["header"])
            .map(|header| (text_of(&header["key"]), self.filled(&text_of(&header["value"]))))
            .collect::<Vec<_>>();
        let headers: Vec<_> =
            headers.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let body = match request["body"]["mode"].as_str() {
            Some("raw") => self.filled(&text_of(&request["body"]["raw"])).into_bytes(),
            Some("file") => PNG.to_vec(),
            _ => Vec::new(),
        };
        let (method, path) = (text_of(&request["method"]), self.path(&request["url"]));
        HttpClient::anonymous(self.address).send(&HttpRequest {
            method: &method,
            path: &path,
            headers: &headers,
            body: &body,
        })
    }

    /// Does what the script behind a request does: lines of `fill("card_id", body.id);`.
    fn run_script(&mut self, item: &Value, answer: &HttpResponse) {
        let lines = rows(&item["event"]).flat_map(|event| rows(&event["script"]["exec"]));
        for line in lines.filter_map(Value::as_str) {
            let Some(call) = line.strip_prefix("fill(\"") else { continue };
            let (name, place) = call.split_once("\", body.").expect("a name and a place");
            let place = place.trim_end_matches(");").replace(['?', '.', '[', ']'], "/");
            let keys = place.split('/').filter(|key| !key.is_empty());
            let pointer: String = keys.map(|key| format!("/{key}")).collect();
            let id = answer.json().pointer(&pointer).and_then(|id| id.as_str().map(str::to_owned));
            assert!(self.variables.contains_key(name), "the collection has no `{name}`");
            if let Some(id) = id {
                self.variables.insert(name.to_owned(), id);
            }
        }
    }
}

fn rows(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text_of(text: &Value) -> String {
    text.as_str().expect("a text").to_owned()
}

fn is_success(answer: &HttpResponse) -> bool {
    (200..300).contains(&answer.status)
}

fn path_of(item: &Value) -> String {
    text_of(&item["request"]["url"]["raw"]).replace("{{base_url}}", "")
}

/// Whether a request makes what another one deletes.
fn makes(item: &Value, deletion: &Value) -> bool {
    let (made, deleted) = (path_of(item), path_of(deletion));
    let rest = deleted.strip_prefix(&made);
    item["request"]["method"] == "POST"
        && rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with("/:") && rest.matches('/').count() == 1
        })
}

#[test]
fn the_requests_of_the_collection_succeed_in_their_order() {
    let installation = Installation::init(1, 891);
    // The newest token is the one that is deleted.
    installation.add_token("admin");
    let switch = installation.serve_with(&["--clock", "manual"]);
    let mut collection = Collection::read(&switch);
    let requests = collection.requests.iter().filter(|item| path_of(item) != ENDLESS).cloned();
    let (deletions, others): (Vec<_>, Vec<_>) =
        requests.partition(|item| item["request"]["method"] == "DELETE");
    let mut refused = Vec::new();
    for item in others.iter().chain(&deletions) {
        // What is deleted is made anew: other folders may have used up the first.
        for maker in others.iter().filter(|maker| deletions.contains(item) && makes(maker, item)) {
            collection.play(maker);
        }
        let answer = collection.play(item);
        if !is_success(&answer) {
            let name = format!("{} {}", text_of(&item["request"]["method"]), path_of(item));
            refused.push((name, answer.status, answer.text()));
        }
    }
    let names: Vec<_> = refused.iter().map(|(name, status, _)| (name.as_str(), *status)).collect();
    assert_eq!(names, REFUSED, "{refused:#?}");
    let succeeded = others.len() + deletions.len() - refused.len();
    assert!(succeeded > 90, "{succeeded}");
}
