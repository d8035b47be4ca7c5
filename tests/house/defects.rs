//! The planted defects fit the sources: a patch that does not apply plants nothing.

use std::fs;

use super::tidy::repository;

/// Each hunk of a patch: its file, and the lines that it expects there.
fn hunks(patch: &str) -> Vec<(String, String)> {
    let (mut file, mut hunks) = ("", Vec::new());
    for line in patch.lines() {
        if let Some(path) = line.strip_prefix("+++ b/") {
            file = path;
        } else if line.starts_with("@@ ") {
            hunks.push((file.to_owned(), String::new()));
        } else if let Some((_, expected)) = hunks.last_mut()
            && let Some(kept) = line.strip_prefix(' ').or_else(|| line.strip_prefix('-'))
            && !line.starts_with("--- a/")
        {
            expected.push_str(&format!("{kept}\n"));
        }
    }
    hunks
}

#[test]
fn every_planted_defect_fits_the_sources() {
    let folder = repository().join("tests/sim/defects");
    let files =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut count = 0;
    for patch in files.filter(|path| path.extension().is_some_and(|kind| kind == "patch")) {
        let text = fs::read_to_string(&patch).expect("a patch");
        for (file, expected) in hunks(&text) {
            let source = fs::read_to_string(repository().join(&file)).expect("the file of a patch");
            assert!(source.contains(&expected), "{}: {file} has no such lines", patch.display());
            count += 1;
        }
    }
    assert!(count > 80, "there are that many");
}
