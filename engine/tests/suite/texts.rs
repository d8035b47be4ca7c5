//! No text comes into the engine unchecked: commands carry lines and paragraphs, whose types cannot hold
//! characters that steer. The plain strings that commands carry, in types of any depth, are all listed
//! here, each with what keeps it plain. Another one is a failure of this test, and is to be a `LineText`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The rooms whose types commands carry.
const ROOMS: [&str; 3] = ["command", "directory", "domain"];
/// Plain strings, each with the form that the edge holds it to.
const PLAIN: [(&str, &str); 16] = [
    ("address", "an address of the network, written by the switch"),
    ("answer_hash", "an encoded Argon2id hash"),
    ("code", "digits"),
    ("code_challenge", "base64url"),
    ("domain", "a domain name"),
    ("door", "the name of a door in the settings, a word"),
    ("email", "an e-mail address"),
    ("idp_metadata", "an XML document"),
    ("name", "the name of an app as it stands: an approval with another one is refused"),
    ("password_hash", "an encoded Argon2id hash"),
    ("path", "the path of an object, written by the switch"),
    ("redirect_uri", "a URL"),
    ("redirect_urls", "URLs"),
    ("url", "a URL"),
    ("usage", "the two characters of a key's usage"),
    ("website", "the web site of an app, as its name"),
];

/// The declarations of the public types of some code, by the names of the types.
fn declarations(code: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    code.lines().enumerate().filter_map(|(place, line)| {
        let (margin, declared) = line.split_once("pub ")?;
        let named = ["struct ", "enum "].iter().find_map(|kind| declared.strip_prefix(kind))?;
        let name = words(named.strip_suffix(" {")?).next()?;
        let lines = code.lines().skip(place + 1).take_while(|line| *line != format!("{margin}}}"));
        let parts = lines.map(str::trim).filter(|line| !line.starts_with(['/', '#']));
        // The commands of a resource are declared with their execution.
        let is_part = |line: &&str| !named.contains("(change)") || line.contains("=>");
        Some((name, parts.filter(is_part).map(|line| line.split("=>").next().unwrap()).collect()))
    })
}

/// The parts of a type that are strings of any kind but the checked ones.
fn plain_strings<'a>(declared: &[&'a str]) -> Vec<&'a str> {
    let parts = declared.iter().flat_map(|line| line.split([',', '(']));
    let named = parts.filter_map(|part| part.trim().trim_start_matches("pub ").split_once(": "));
    let is_plain =
        |kind: &str| words(kind).any(|word| ["String", "CompactString", "str"].contains(&word));
    named
        .filter(|(_, kind)| is_plain(kind))
        .filter_map(|(name, _)| name.split(' ').next())
        .collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric())
}

#[test]
fn commands_carry_no_text_that_was_not_checked() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = ROOMS.into_iter().flat_map(|room| fs::read_dir(source.join(room)).unwrap());
    let code: Vec<_> =
        files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    let types: BTreeMap<_, _> = code.iter().flat_map(|code| declarations(code)).collect();
    let (mut carried, mut found) = (BTreeSet::new(), BTreeSet::new());
    let mut waiting: Vec<_> =
        types.keys().copied().filter(|name| name.ends_with("Command")).collect();
    while let Some(name) = waiting.pop() {
        if let Some(declared) = types.get(name).filter(|_| carried.insert(name)) {
            found.extend(plain_strings(declared));
            let kinds = declared.iter().filter_map(|line| line.split_once(['(', ':']));
            waiting.extend(kinds.flat_map(|(_, kinds)| words(kinds)));
        }
    }
    assert!(carried.len() > 100, "{carried:?}");
    let listed: BTreeSet<_> = PLAIN.into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, listed);
}
