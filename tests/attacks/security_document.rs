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

/// The value of a constant of a file, in bytes, seconds or pieces.
fn constant(file: &str, name: &str) -> u64 {
    let source = fs::read_to_string(repository().join(file)).expect(file);
    let start = format!("const {name}: ");
    let (_, rest) =
        source.split_once(&start).unwrap_or_else(|| unreachable!("{file} has no {name}"));
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
        let [file, name] = quoted(&row[3])[..] else { unreachable!("{row:?}") };
        assert_eq!(constant(file, name), told(&row[2]), "{file} {name}: {}", row[1]);
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
