//! The pages lead where they say: each relative link ends at a file, its anchor at a heading, and each
//! path in back-quotes below a top folder exists. Addresses elsewhere are not asked.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::tidy::repository;

/// Folders without pages of this project.
const FOREIGN: [&str; 2] = ["node_modules", "target"];
/// The folders that paths in back-quotes begin with.
const TOP: [&str; 5] = ["api/", "benches/", "engine/", "tests/", "tools/"];

/// Every page of the repository.
fn pages() -> Vec<PathBuf> {
    let (mut folders, mut pages) = (vec![repository().to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && !FOREIGN.contains(&name) && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(".md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// The text of a page without its blocks of code.
fn prose(page: &Path) -> String {
    let text = fs::read_to_string(page).expect("a page");
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(prose: &str) -> Vec<String> {
    let mut times = BTreeMap::new();
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let headings = headings.filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    let anchor = |heading: &str| {
        let kept = heading.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
        let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let before = times.entry(anchor.clone()).or_insert(0);
        *before += 1;
        if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
    };
    headings.map(anchor).collect()
}

/// The texts between a beginning and an end.
fn between<'a>(text: &'a str, start: &str, end: char) -> Vec<&'a str> {
    text.split(start).skip(1).filter_map(|rest| Some(rest.split_once(end)?.0)).collect()
}

#[test]
fn each_link_of_a_page_leads_somewhere() {
    let mut count = 0;
    for page in pages() {
        let text = prose(&page);
        for link in between(&text, "](", ')') {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            assert!(target.exists(), "{}: no file for `{link}`", page.display());
            let leads = anchor.is_empty() || anchors(&prose(&target)).iter().any(|it| it == anchor);
            assert!(leads, "{}: no heading for `{link}`", page.display());
            count += 1;
        }
    }
    assert!(count > 50, "{count} links");
}

#[test]
fn each_path_of_a_page_exists() {
    for page in pages() {
        for line in prose(&page).lines() {
            for path in line.split('`').skip(1).step_by(2) {
                let is_path = TOP.iter().any(|top| path.starts_with(top))
                    && path.chars().all(|char| char.is_alphanumeric() || "/._-".contains(char));
                assert!(
                    !is_path || repository().join(path).exists(),
                    "{}: no `{path}`",
                    page.display()
                );
            }
        }
    }
}
