//! ISO 8583:1993, as an acquirer makes it of the elements of ISO 8583:1987.
//!
//! | 1987 | 1993 |
//! |---|---|
//! | type 0xxx, network management of origin 0 | 1xxx, of origin 4 |
//! | 12, 13 | 12: year, month, day and time |
//! | 18 | 26: business code |
//! | 22 | 22: twelve characters of point of service data |
//! | 39 | 39: action code of three digits |
//! | 43 | 43: `name\street\city\`, then postal code, region and country |
//! | 70 | 24: function code, which other messages have, too |
//! | 90 | 56: type, number, local date and time, acquirer with its length |
//! | 4, 95 | 30: the amounts before, 4: what stays |
//!
//! Source: ISO 8583:1993, table of data elements, tables A.1 (action codes) and A.8 (function codes).

use super::spelling::{Content, Extent, Kind};

/// The year of every message, and of those that they name.
const YEAR: &str = "26";

/// The fields that acquirers send or are answered with.
pub(super) const fn form_of(field: u8) -> Option<(Kind, Extent)> {
    Some(match field {
        2 | 32 | 56 => (Kind::Digits, Extent::Counted(2)),
        3 | 11 => (Kind::Digits, Extent::Fixed(6)),
        4 | 6 | 12 => (Kind::Digits, Extent::Fixed(12)),
        7 => (Kind::Digits, Extent::Fixed(10)),
        14 | 26 => (Kind::Digits, Extent::Fixed(4)),
        22 => (Kind::Text, Extent::Fixed(12)),
        23 | 24 | 39 | 49 | 51 => (Kind::Digits, Extent::Fixed(3)),
        30 => (Kind::Digits, Extent::Fixed(24)),
        35 => (Kind::Track, Extent::Counted(2)),
        37 => (Kind::Text, Extent::Fixed(12)),
        38 => (Kind::Text, Extent::Fixed(6)),
        41 => (Kind::Text, Extent::Fixed(8)),
        42 => (Kind::Text, Extent::Fixed(15)),
        43 | 44 | 102 => (Kind::Text, Extent::Counted(2)),
        47 | 48 | 54 | 60..=63 => (Kind::Text, Extent::Counted(3)),
        52 | 64 | 128 => (Kind::Bytes, Extent::Fixed(8)),
        55 => (Kind::Bytes, Extent::Counted(3)),
        _ => return None,
    })
}

/// The fields of a message. One that says the same in both versions keeps its number.
pub(super) fn fields_of(plain: &Content) -> Content {
    let mut fields = Content { mti: type_of(plain.mti), elements: plain.elements.clone() };
    for only_1987 in [13, 18, 25, 70, 90, 95] {
        fields.elements.remove(&only_1987);
    }
    let text = |element| plain.text(element);
    let made = [
        (3, text(3).map(|code| code.replacen("30", "31", usize::from(code.starts_with("30"))))),
        (12, text(13).zip(text(12)).map(|(date, time)| format!("{YEAR}{date}{time}"))),
        (22, text(22).map(|entry| format!("{entry:0<12}"))),
        (24, function_of(plain)),
        (26, text(18).map(str::to_owned)),
        (39, text(39).map(|code| action_of(code).to_owned())),
        (43, text(43).map(place_of)),
        (56, text(90).map(original_of)),
    ];
    for (field, content) in made {
        fields = content.into_iter().fold(fields, |fields, content| fields.with(field, content));
    }
    match text(95).map(|amounts| &amounts[..12]) {
        None => fields,
        Some(stays) => {
            // The second is in the currency of reconciliation.
            let before = text(4).unwrap_or("000000000000").repeat(2);
            fields.with(4, stays).with(30, before)
        }
    }
}

/// The type: what is sent for network management is of "other" origin, 5 when sent again.
fn type_of([_, class, function, origin]: [u8; 4]) -> [u8; 4] {
    [b'1', class, function, if class == b'8' { origin + 4 } else { origin }]
}

fn function_of(plain: &Content) -> Option<String> {
    let code = match (plain.mti[1], plain.text(70)) {
        (b'8', Some("001")) => "801",
        (b'8', Some("002")) => "802",
        (b'8', Some("101")) => "811",
        (b'8', Some("301")) => "831",
        (b'8', other) => other?,
        (b'4', _) if plain.has(95) => "401",
        (b'4', _) => "400",
        (b'2', _) => "200",
        _ => "100",
    };
    Some(code.to_owned())
}

/// The action code of an advice.
fn action_of(code: &str) -> &'static str {
    match code {
        "00" => "000",
        "10" => "002",
        _ => "100",
    }
}

/// The message that another one names: its type, number, local time, and acquirer.
fn original_of(named: &str) -> String {
    let mti = type_of(named.as_bytes()[..4].try_into().unwrap());
    let (number, moment) = (&named[4..10], &named[10..20]);
    let acquirer = named[20..31].trim_start_matches('0');
    let mti = String::from_utf8_lossy(&mti);
    format!("{mti}{number}{YEAR}{moment}{:02}{acquirer}", acquirer.len())
}

fn place_of(place: &str) -> String {
    let [name, city, state] = [0..22, 22..35, 35..38].map(|part| place[part].trim_end());
    format!("{name}\\1 Main St\\{city}\\94607     {state:3}USA")
}

/// The code of 1987 for the action code in an answer of this type; none where it is none.
pub(super) fn answer_code([_, class, function, _]: [u8; 4], action: &str) -> Option<[u8; 2]> {
    let good = match (class, function) {
        (b'8', _) => "800",
        (b'4', _) => "400",
        (_, b'3') => "900",
        _ => "000",
    };
    Some(*match action {
        good_one if good_one == good => b"00",
        "002" => b"10",
        "100" => b"05",
        "101" => b"54",
        "102" => b"59",
        "104" => b"62",
        "111" => b"14",
        "116" => b"51",
        "117" => b"55",
        "119" => b"57",
        "121" => b"61",
        "122" => b"63",
        "125" => b"78",
        "129" => b"82",
        "902" => b"12",
        "904" => b"30",
        "907" => b"91",
        "909" => b"96",
        "913" => b"94",
        "914" => b"25",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::spelling::Spelling;
    use super::*;

    /// The bytes that the shipped dialects' golden files have, but for the second amount before.
    #[test]
    fn messages_have_the_bytes_of_the_golden_files() {
        let reversal = Content::new("0421").with(2, "4111111111111111").with(3, "000000");
        let reversal = reversal.with(4, "000000012345").with(7, "0102030501").with(11, "000043");
        let reversal = reversal.with(12, "030500").with(13, "0102").with(38, "A00001");
        let reversal = reversal.with(49, "840").with(95, format!("{:0<42}", "000000003050"));
        let reversal = reversal.with(90, "010000004201020304050000001234500000000000");
        let sign_on = Content::new("0800").with(7, "0102030405").with(11, "000001").with(70, "301");
        let rows = [
            (
                reversal,
                ["1421", "7230010404008100"],
                "16411111111111111100000000000000305001020305010000432601020305004010000000123450000\
                 00012345A0000184029110000004226010203040505123\
                 45",
            ),
            (sign_on, ["1804", "0220010000000000"], "0102030405000001831"),
        ];
        for (plain, [mti, bitmap], golden) in rows {
            let bytes = Spelling::Of1993.write(&fields_of(&plain));
            assert_eq!(bytes[..4], *mti.as_bytes());
            assert_eq!(bytes[4..12], u64::from_str_radix(bitmap, 16).unwrap().to_be_bytes());
            assert_eq!(String::from_utf8_lossy(&bytes[12..]), golden);
        }
    }

    #[test]
    fn an_action_code_is_of_its_kind_of_message() {
        for (mti, good) in [(b"1110", "000"), (b"1130", "900"), (b"1430", "400"), (b"1814", "800")]
        {
            assert_eq!(answer_code(*mti, good), Some(*b"00"));
            assert_eq!(answer_code(*mti, "116"), Some(*b"51"));
        }
        assert_eq!(answer_code(*b"1130", "000"), None);
    }
}
