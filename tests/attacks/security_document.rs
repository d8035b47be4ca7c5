//! `SECURITY.md` says what is so: its bounds are the constants of the code, its tests are there.

use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn document() -> String {
    fs::read_to_string(repository().join("SECURITY.md")).expect("SECURITY.md")
}

/// The cells of each row of the table under a heading, without its head.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let text = document();
    let (_, section) = text.split_once(&format!("\n## {heading}\n")).expect("the heading");
    let section = section.split("\n## ").next().unwrap_or(section);
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    lines.map(cells).collect()
}

/// The texts between back-quotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The value of a product, quotient or shift of whole numbers, as constants are written.
fn evaluate(expression: &str) -> u64 {
    let mut value = 0;
    let mut operator = "=";
    for word in expression.split_whitespace() {
        if matches!(word, "*" | "/" | "<<") {
            operator = word;
            continue;
        }
        let number: u64 = word.replace('_', "").parse().expect("a whole number");
        value = match operator {
            "*" => value * number,
            "/" => value / number,
            "<<" => value << number,
            _ => number,
        };
    }
    value
}

/// Every source file below a folder.
fn sources(folder: PathBuf) -> Vec<PathBuf> {
    let (mut folders, mut sources) = (vec![folder], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(path);
            }
        }
    }
    sources
}

/// The value of the only constant of a name in a crate, or in the file named behind it, in bytes, seconds or pieces.
fn constant(place: &str, name: &str) -> u64 {
    let (room, file) = place.split_once('/').unwrap_or((place, ""));
    let folder = match room {
        "api" | "engine" => repository().join(room).join("src"),
        room => repository().join("api").join(room).join("src"),
    };
    let start = format!("const {name}: ");
    let named = |path: &PathBuf| file.is_empty() || path.ends_with(file);
    let texts = sources(folder).into_iter().filter(named);
    let texts = texts.map(|path| fs::read_to_string(path).expect("a source"));
    let values: Vec<_> =
        texts.filter_map(|text| text.split_once(&start).map(|(_, rest)| rest.to_owned())).collect();
    let [rest] = &values[..] else { unreachable!("{place} has {} of {name}", values.len()) };
    let (_, expression) = rest.split_once(" = ").expect("a value");
    let expression = expression.split(';').next().unwrap_or_default();
    match expression.strip_prefix("Duration::from_secs(") {
        Some(seconds) => evaluate(seconds.trim_end_matches(')')),
        None => evaluate(expression),
    }
}

fn told(value: &str) -> u64 {
    let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
    let number: u64 = number.parse().expect(value);
    match unit {
        "" | "s" => number,
        "KiB" => number << 10,
        "MiB" => number << 20,
        other => unreachable!("an unknown unit: {other}"),
    }
}

#[test]
fn every_bound_is_the_constant_of_the_code() {
    let rows = rows("Boundaries and their bounds");
    assert!(rows.len() > 20, "{} bounds", rows.len());
    for row in rows {
        let [place, name] = quoted(&row[3])[..] else { unreachable!("{row:?}") };
        assert_eq!(constant(place, name), told(&row[2]), "{place} {name}: {}", row[1]);
    }
}

#[test]
fn every_promise_has_its_test() {
    let rows = rows("Promises");
    assert!(rows.len() > 15, "{} promises", rows.len());
    for row in rows {
        let named = quoted(&row[1]);
        assert!(!named.is_empty(), "{row:?}");
        for name in named {
            let places = [repository().join(name), repository().join("tests").join(name)];
            assert!(places.iter().any(|place| place.is_file()), "{name} is not there: {}", row[0]);
        }
    }
}
