//! Rules that hold in all rooms, held by a test, not by memory: which crate may know which, one name for each
//! type of a crate and for each public type of all, names that are nouns, no drawers, no file of tests that
//! nothing builds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates of `api/`, lowest first: each may know the engine and those before it.
const ROOMS: [&str; 17] = [
    "bounds",
    "iso8583",
    "dialects",
    "wire",
    "secrets",
    "zone",
    "dispatch",
    "acquiring",
    "edge",
    "network",
    "cluster",
    "route",
    "statements",
    "notify",
    "identity",
    "v1",
    "site",
];
/// Counterparts of the switch: they know nothing of its inside.
const COUNTERPARTS: [&str; 2] = ["feed", "load"];
/// The crates whose steps a simulator drives: time and randomness are given to them.
const SIMULATED_ROOMS: [&str; 1] = ["acquiring"];
/// The ways to a clock or to randomness that nobody gave.
const UNGIVEN_SOURCES: [&str; 9] = [
    "Instant::now",
    "SystemTime",
    "Utc::now",
    "Local::now",
    "Clock::System",
    "getrandom",
    "SystemRandom",
    "new_v4",
    "now_v7",
];
/// Names that say nothing of what is in a file.
const DRAWERS: [&str; 7] = ["common", "helpers", "manager", "misc", "service", "types", "util"];
/// Names end with a noun, and these are none: irregular participles, question words, adverbs. Any word in
/// `ed` is a participle, unless it is one of `NOUNS_IN_ED`.
const NOT_NOUNS: [&str; 45] = [
    "again",
    "ahead",
    "aside",
    "been",
    "begun",
    "behind",
    "beyond",
    "bound",
    "broken",
    "done",
    "drawn",
    "found",
    "given",
    "gone",
    "heard",
    "held",
    "how",
    "kept",
    "known",
    "lost",
    "made",
    "meanwhile",
    "met",
    "now",
    "often",
    "proven",
    "seen",
    "sent",
    "shown",
    "spoken",
    "taken",
    "then",
    "thrown",
    "together",
    "told",
    "until",
    "what",
    "when",
    "where",
    "which",
    "who",
    "whom",
    "whose",
    "why",
    "written",
];
const NOUNS_IN_ED: [&str; 3] = ["feed", "seed", "speed"];

pub(super) fn repository() -> &'static Path {
    // INVARIANT: this crate stands in a folder of the repository.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a parent")
}

/// The crates of this project that a crate depends on; its tests may know more.
fn known_by(manifest: &Path) -> Vec<String> {
    let text = fs::read_to_string(manifest).expect("a manifest");
    let product = text.split("[dev-dependencies]").next().unwrap_or_default();
    let names = product.lines().filter_map(|line| line.strip_prefix("cardswitch-"));
    names.filter_map(|rest| Some(rest.split_once(".workspace")?.0.to_owned())).collect()
}

/// The sources of a folder, files of tests apart.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        // A world is what tests ask.
        if ["tests", "world"].contains(&name) || name.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The types that a file declares outside of functions and of its module of tests, in lines with this start.
fn types_of(path: &Path, start: &str) -> Vec<String> {
    let text = fs::read_to_string(path).expect("a source");
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = product.lines().filter(|line| line.starts_with(start));
    lines.filter_map(type_in).map(str::to_owned).collect()
}

/// The names of several types in the sources of these folders, with the files that declare them in lines
/// with this start.
fn shared_names(folders: &[PathBuf], start: &str) -> BTreeMap<String, Vec<PathBuf>> {
    let mut files_of: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in folders.iter().flat_map(|folder| sources(folder)) {
        for name in types_of(&path, start) {
            files_of.entry(name).or_default().push(path.clone());
        }
    }
    assert!(!files_of.is_empty(), "no types in {folders:?}");
    files_of.retain(|_, files| files.len() > 1);
    files_of
}

/// The type that a line declares.
fn type_in(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.split_once(' ')?.1,
        None => line,
    };
    let kind = ["struct ", "enum ", "trait ", "type ", "union "];
    let rest = kind.into_iter().find_map(|kind| line.strip_prefix(kind))?;
    rest.split(|char: char| !char.is_alphanumeric()).next()
}

/// All sources of the project, those of tests and tools among them.
fn all_sources(folder: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            paths.extend(all_sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    paths
}

/// Whether the last word of a name, of a type or a file, may be a noun.
fn ends_with_a_noun(name: &str) -> bool {
    let start = name.rfind(|char: char| char.is_uppercase() || char == '_').unwrap_or_default();
    let word = name[start..].trim_start_matches('_').to_lowercase();
    let is_participle = word.ends_with("ed") && !NOUNS_IN_ED.contains(&word.as_str());
    !is_participle && !NOT_NOUNS.contains(&word.as_str())
}

fn crates() -> Vec<PathBuf> {
    let rooms = ROOMS.iter().chain(&COUNTERPARTS).map(|room| repository().join("api").join(room));
    rooms.chain([repository().join("engine"), repository().join("api")]).collect()
}

#[test]
fn every_crate_is_a_room() {
    let api = repository().join("api");
    for folder in fs::read_dir(&api).expect("a folder") {
        let folder = folder.expect("an entry").path();
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // The fuzz targets are a workspace of their own.
        let is_room = ROOMS.contains(&name) || COUNTERPARTS.contains(&name) || name == "fuzz";
        assert!(is_room || !folder.join("Cargo.toml").is_file(), "`{name}` has no place");
    }
}

#[test]
fn crates_know_only_those_below_them() {
    let api = repository().join("api");
    for (place, room) in ROOMS.iter().enumerate() {
        for known in known_by(&api.join(room).join("Cargo.toml")) {
            let is_below = known == "engine" || ROOMS[..place].contains(&known.as_str());
            assert!(is_below, "`{room}` knows `{known}`, which does not stand below it");
        }
    }
    assert_eq!(known_by(&api.join("feed/Cargo.toml")), ["iso8583"], "it is a counterpart");
    assert_eq!(known_by(&api.join("load/Cargo.toml")), ["feed", "iso8583"], "so is this");
    assert!(known_by(&repository().join("engine/Cargo.toml")).is_empty(), "it knows no edge");
}

#[test]
fn a_type_name_stands_once_in_a_crate() {
    for folder in crates() {
        let shared = shared_names(&[folder.join("src")], "");
        assert!(shared.is_empty(), "names of several types: {shared:#?}");
    }
}

#[test]
fn tests_of_a_crate_leave_its_public_type_names_alone() {
    for folder in crates() {
        let public =
            sources(&folder.join("src")).into_iter().flat_map(|path| types_of(&path, "pub "));
        let public: Vec<_> = public.collect();
        for path in all_sources(&folder.join("src")) {
            let is_of_tests = !sources(&folder.join("src")).contains(&path);
            let again = types_of(&path, "").into_iter().filter(|name| public.contains(name));
            let again: Vec<_> = again.filter(|_| is_of_tests).collect();
            assert!(again.is_empty(), "{} takes public names again: {again:?}", path.display());
        }
    }
}

#[test]
fn a_type_name_stands_once_in_the_api() {
    let folders: Vec<_> = crates().iter().map(|folder| folder.join("src")).collect();
    let of_api: Vec<_> =
        folders.into_iter().filter(|folder| folder.starts_with(repository().join("api"))).collect();
    let shared = shared_names(&of_api, "");
    assert!(shared.is_empty(), "names of several types: {shared:#?}");
}

#[test]
fn a_public_type_name_stands_in_one_crate() {
    let mut folders: Vec<_> = crates().iter().map(|folder| folder.join("src")).collect();
    folders.extend(["benches", "tools"].map(|name| repository().join(name)));
    let shared = shared_names(&folders, "pub ");
    assert!(shared.is_empty(), "public names of several types: {shared:#?}");
}

#[test]
fn types_and_files_are_named_by_nouns() {
    for name in ["Found", "AmountGiven", "Why", "kept", "texts_shown"] {
        assert!(!ends_with_a_noun(name), "`{name}` ends with no noun");
    }
    for path in all_sources(repository()) {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let text = fs::read_to_string(&path).expect("a source");
        for name in text.lines().filter_map(|line| type_in(line.trim_start())).chain([stem]) {
            assert!(ends_with_a_noun(name), "`{name}` in {} ends with no noun", path.display());
        }
    }
}

#[test]
fn no_file_is_a_drawer() {
    for folder in crates() {
        for path in sources(&folder.join("src")) {
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            assert!(!DRAWERS.contains(&name), "{} has no noun", path.display());
        }
    }
}

#[test]
fn nothing_that_is_simulated_reads_a_clock_or_draws() {
    for room in SIMULATED_ROOMS {
        for path in all_sources(&repository().join("api").join(room).join("src")) {
            let text = fs::read_to_string(&path).expect("a source");
            for source in UNGIVEN_SOURCES {
                assert!(!text.contains(source), "{} has `{source}`", path.display());
            }
        }
    }
}

#[test]
fn every_file_of_tests_belongs_to_a_binary() {
    let tests = repository().join("tests");
    let manifest = fs::read_to_string(tests.join("Cargo.toml")).expect("a manifest");
    for folder in fs::read_dir(&tests).expect("a folder") {
        let folder = folder.expect("an entry").path();
        let Some(root) = root_of(&folder) else { continue };
        let declared = fs::read_to_string(&root).expect("a source");
        let root = root.strip_prefix(&tests).expect("a file of the tests");
        assert!(manifest.contains(&format!("path = {root:?}")), "nothing builds {root:?}");
        for source in sources_beside(&folder) {
            let line = format!("mod {source};\n");
            assert!(declared.contains(&line), "{root:?} lacks `{}`", line.trim());
        }
    }
}

/// The root file of a binary or library of a folder, if there are sources in it.
fn root_of(folder: &Path) -> Option<PathBuf> {
    let roots = ["main.rs", "lib.rs"].map(|name| folder.join(name));
    let found = roots.into_iter().find(|root| root.is_file());
    assert!(
        found.is_some() || sources_beside(folder).is_empty(),
        "{} has sources without a root",
        folder.display()
    );
    found
}

/// The modules of a folder, by name.
fn sources_beside(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let sources = paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let stems = sources.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    stems.filter(|stem| stem != "main" && stem != "lib").collect()
}
