//! Dialect files: the effect of each key on the wire, and the error of a wrong file, with its line and field.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use cardswitch_dialects::import::import;
use cardswitch_dialects::{SHIPPED, check_framing, find, parse};
use cardswitch_iso8583::{Dialect, LengthPrefix, MessageBuilder, Mti, RepeatedFields, decode};

/// A short message, as a dialect writes it.
fn written(dialect: &Dialect) -> Vec<u8> {
    let mut plain = Vec::new();
    MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
        .set(2, b"41111")
        .set(3, b"000000")
        .set(39, b"05")
        .set_text(48, "92031231104010261011")
        .set(49, b"840")
        .encode(&mut plain)
        .unwrap();
    let mut out = Vec::new();
    dialect.translation.as_ref().unwrap().write(&plain, &RepeatedFields::NONE, &mut out).unwrap();
    // And it is read to the same again, but for what the dialect has no room for.
    let mut again = Vec::new();
    dialect
        .translation
        .as_ref()
        .unwrap()
        .read(&out, &mut again, &mut RepeatedFields::default())
        .unwrap();
    let (again, plain) = (decode(&again).unwrap(), decode(&plain).unwrap());
    for element in [2, 3, 39, 49] {
        assert_eq!(again.get(element), plain.get(element), "{element}");
    }
    out
}

#[test]
fn each_key_changes_the_wire() {
    // Type, bitmap, PAN, processing code, response code, tags, currency.
    let bits = b"\x60\0\0\0\x02\x01\x80\0";
    let tags = b"02092031231104010261011";
    let rows: [(&str, Vec<u8>); 7] = [
        (
            "prefix = \"binary\"",
            [b"0100", &bits[..], b"\x0541111", b"00000005", b"\0\x14", &tags[3..], b"840"].concat(),
        ),
        (
            "prefix = \"bcd\"\ndigits = \"bcd\"\nfiller = \"right\"",
            [
                b"0100",
                &bits[..],
                b"\x05\x41\x11\x1f",
                b"\0\0\x0005",
                b"\0\x20",
                &tags[3..],
                b"\x08\x40",
            ]
            .concat(),
        ),
        (
            "prefix = \"bcd\"\ndigits = \"bcd\"\ncounted = \"bytes\"\nfiller = \"right\"",
            [
                b"0100",
                &bits[..],
                b"\x03\x41\x11\x1f",
                b"\0\0\x0005",
                b"\0\x20",
                &tags[3..],
                b"\x08\x40",
            ]
            .concat(),
        ),
        (
            "bitmap = \"hex\"\nversion = 2003",
            [b"2100", &b"6000000002018000"[..], b"0541111", b"00000005", tags, b"840"].concat(),
        ),
        (
            "[fields]\n39 = { format = \"n 4\", read = { 1000 = \"00\", \"1*\" = \"05\" }, write = { \"00\" = \"1000\", \"05\" = \"1100\" } }",
            [b"0100", &bits[..], b"0541111", b"0000001100", tags, b"840"].concat(),
        ),
        (
            "[fields]\n48 = { format = \"ans ...999\", tags = { digits = [3, 2], read = { 092 = \"92\", 7XY = \"61\" } } }",
            [b"0100", &bits[..], b"0541111", b"00000005", b"014092031237XY011", b"840"].concat(),
        ),
        (
            "[fields]\n48 = { format = \"ans ...999\", element = 0 }",
            [b"0100", &b"\x60\0\0\0\x02\0\x80\0"[..], b"0541111", b"00000005", b"840"].concat(),
        ),
    ];
    for (text, expected) in rows {
        let dialect = parse("test.toml", text).unwrap();
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        assert_eq!(shown(&written(&dialect)), shown(&expected), "{text}");
    }
}

/// The error of a file, or `right`.
fn told(text: &str) -> String {
    parse("my.toml", text).map_or_else(|error| error.to_string(), |_| "right".to_owned())
}

#[test]
fn values_that_do_not_fit_are_told_their_line_and_field() {
    for (text, expected) in [
        (
            "[fields]\n39 = { format = \"n 3\", read = { 000 = \"00\" }, write = { \"00\" = \"0000\" } }",
            "line 2: field 39: `0000` is longer than it can be, which is 3",
        ),
        (
            "[fields]\n39 = { format = \"n 3\", write = { \"05\" = \"NO\" } }",
            "line 2: field 39: `NO` is not of class `n`, as it is",
        ),
        (
            "[fields]\n39 = { format = \"n 3\", read = { 100 = \"100\" } }",
            "line 2: field 39: `100` is longer than element 39 can be, which is 2",
        ),
        (
            "[fields]\n48 = { format = \"ans ...999\", tags = { digits = [3, 2], read = { 092 = \"xx\" } } }",
            "line 2: field 48: `092` = `xx` are no tags of this field and of 48",
        ),
    ] {
        let told = told(text);
        assert!(told.contains(expected), "{text}\n{told}");
    }
}

#[test]
fn a_wrong_file_is_told_its_line_and_field() {
    for (text, expected) in [
        ("bitmapp = \"hex\"", "`my.toml`, line 1: unknown field `bitmapp`"),
        ("\ntext = \"utf-8\"", "line 2: unknown variant `utf-8`"),
        ("version = 1999", "line 1: version 1999 is none of 1987, 1993, 2003"),
        ("base = \"visa\"", "line 1: base `visa` is no shipped dialect, nor `none`"),
        ("length = \"three\"", "line 1: `three` is none of binary2"),
        ("length = \"delimiter 03\"", "a binary bitmap may hold"),
        (
            "bitmap = \"hex\"\nlength = \"delimiter 03\"",
            "field 52: its content may hold the bytes of `delimiter 03`",
        ),
        ("[fields]\n2 = \"n ..\"", "line 2: field 2: `n ..` has no end"),
        ("[fields]\n2 = \"n ..190\"", "line 2: field 2: its length of 2 digits ends at 99"),
        ("[fields]\n48 = \"ans ....9000\"", "line 2: field 48: it has no end: at most 2048"),
        ("[fields]\n3 = \"n 0\"", "line 2: field 3: its length is 0"),
        ("[fields]\n3 = \"q 6\"", "line 2: field 3: `q 6` is no format"),
        ("[fields]\n129 = \"n 6\"", "line 2: field 129: fields have numbers from 2 to 128"),
        ("[fields]\n3 = \"n 6\"\n3 = \"n 7\"", "line 3: duplicate key"),
        ("[fields]\n3 = { format = \"n 6\", elment = 3 }", "line 2: unknown field `elment`"),
        ("[fields]\n3 = 6", "line 2: invalid type: integer `6`, expected a format"),
        (
            "[fields]\n60 = { format = \"n 6\", element = 3 }",
            "line 2: field 60: it leads to element 3, to which field 3 leads",
        ),
        (
            "[fields]\n12 = { format = \"n 12\", parts = { 12 = \"0..6\", 13 = \"4..8\" } }\n13 = { format = \"n 4\", element = 0 }",
            "line 2: field 12: part 4..8 overlaps the one before it",
        ),
        (
            "[fields]\n12 = { format = \"n 12\", parts = { 12 = \"8..14\" } }",
            "line 2: field 12: no content has a part 8..14",
        ),
        (
            "[fields]\n39 = { format = \"n 3\", read = { 100 = \"05\", 101 = \"05\" } }",
            "line 2: field 39: two values lead to `05`",
        ),
        (
            "[fields]\n37 = { format = \"an 12\", digits = \"bcd\" }\n4 = { format = \"b 6\", element = 4 }",
            "line 3: field 4: its class `b` cannot lead to element 4",
        ),
        (
            "base = \"none\"\n[fields]\n2 = \"n ..19\"\n3 = \"n 6\"\n4 = \"n 12\"\n11 = \"n 6\"",
            "no field leads to element 39, response code",
        ),
        ("[types]\n18x4 = \"0800\"", "line 1: `18x4` is no message type"),
        ("[types]\n1804 = \"0800\"\n1800 = \"0800\"", "two message types lead to `0800`"),
    ] {
        let told = told(text);
        assert!(told.contains(expected), "{text}\n{told}");
    }
    let missing = find("/no/such/file.toml").map(|dialect| dialect.name).unwrap_err().to_string();
    assert!(
        missing.contains("neither a file nor a shipped dialect (default, ascii-hex"),
        "{missing}"
    );
}

#[test]
fn shipped_dialects_are_right_and_the_default_one_is_no_translation() {
    for (name, _) in SHIPPED {
        let dialect = find(name).unwrap();
        check_framing(&dialect).unwrap();
        assert_eq!(&*dialect.name, name);
        assert_eq!(dialect.framing.length, LengthPrefix::default());
        assert_eq!(dialect.translation.is_none(), name == "default");
    }
    let framed = parse("framed.toml", "length = \"ascii4\"\ntpdu = true").unwrap();
    assert!(framed.translation.is_none() && framed.framing.tpdu);
}

const MOOV: &str = r#"{
  "name": "a specification",
  "fields": {
    "0": {"type": "String", "length": 4, "enc": "BCD", "prefix": "BCD.Fixed"},
    "1": {"type": "Bitmap", "length": 8, "enc": "Binary", "prefix": "Hex.Fixed"},
    "2": {"type": "String", "length": 19, "enc": "BCD", "prefix": "BCD.LL"},
    "3": {"type": "Numeric", "length": 6, "enc": "BCD", "prefix": "BCD.Fixed"},
    "4": {"type": "String", "length": 12, "enc": "BCD", "prefix": "BCD.Fixed"},
    "11": {"type": "String", "length": 6, "enc": "BCD", "prefix": "BCD.Fixed"},
    "39": {"type": "String", "length": 2, "enc": "EBCDIC", "prefix": "EBCDIC.Fixed"},
    "48": {"type": "Composite", "length": 999, "prefix": "ASCII.LLL",
           "subfields": {"1": {"type": "String", "length": 3, "enc": "ASCII", "prefix": "ASCII.Fixed"}}},
    "49": {"type": "String", "length": 3, "enc": "ASCII", "prefix": "ASCII.Fixed"},
    "52": {"type": "Binary", "length": 8, "enc": "HexToASCII", "prefix": "Hex.Fixed"},
    "55": {"type": "Binary", "length": 255, "enc": "Binary", "prefix": "Binary.L"}
  }
}"#;

const JPOS: &str = r#"<?xml version="1.0"?>
<isopackager>
  <isofield id="0" length="4" name="type" class="org.jpos.iso.IFB_NUMERIC" pad="true"/>
  <isofield id="1" length="16" name="bitmap" class="org.jpos.iso.IFB_BITMAP"/>
  <isofield id="2" length="19" name="pan" class="org.jpos.iso.IFB_LLNUM" pad="true"/>
  <isofield id="3" length="6" name="code" class="org.jpos.iso.IFB_NUMERIC"/>
  <isofield
      id="4" length="12" name="amount" class="org.jpos.iso.IFB_NUMERIC"/>
  <isofield id="11" length="6" name="trace" class="org.jpos.iso.IFB_NUMERIC"/>
  <isofield id="39" length="2" name="response" class="org.jpos.iso.IFE_CHAR"/>
  <isofieldpackager id="48" length="999" name="private" class="org.jpos.iso.IFA_LLLCHAR"
      packager="org.jpos.iso.packager.GenericSubFieldPackager">
    <isofield id="3" length="3" name="part" class="org.jpos.iso.IFX_UNHEARD_OF"/>
  </isofieldpackager>
  <isofield id="49" length="3" name="currency" class="org.jpos.iso.IF_CHAR"/>
  <isofield id="52" length="8" name="pin" class="org.jpos.iso.IFA_BINARY"/>
  <isofield id="55" length="255" name="icc" class="org.jpos.iso.IFB_LLHBINARY"/>
</isopackager>
"#;

#[test]
fn specifications_of_other_tools_become_dialects() {
    let expected = [
        b"\x01\0",
        &b"\x60\0\0\0\x02\x01\x80\0"[..],
        b"\x05\x04\x11\x11",
        b"\0\0\0",
        b"\xf0\xf5",
        b"02092031231104010261011",
        b"840",
    ]
    .concat();
    for (file, text) in [("specification.json", MOOV), ("packager.xml", JPOS)] {
        let made = import(file, text).unwrap_or_else(|error| panic!("{error}"));
        let dialect = parse("made.toml", &made).unwrap();
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        assert_eq!(shown(&written(&dialect)), shown(&expected), "{made}");
        for line in ["52 = { format = \"b 8\", bytes = \"hex\" }", "base = \"none\""] {
            assert!(made.contains(line), "{made}");
        }
    }
}

#[test]
fn what_a_dialect_file_cannot_say_is_refused_by_field_and_line() {
    for (text, from, to, expected) in [
        (
            MOOV,
            "\"enc\": \"Binary\", \"prefix\": \"Binary.L\"",
            "\"enc\": \"BerTLVTag\", \"prefix\": \"BerTLV\"",
            "line 15: field 55: prefix `BerTLV`",
        ),
        (
            MOOV,
            "\"EBCDIC\", \"prefix\"",
            "\"UTF7\", \"prefix\"",
            "line 10: field 39: encoding `UTF7`",
        ),
        (MOOV, "\"49\"", "\"149\"", "line 13: field 149: fields have numbers from 0 to 128"),
        (MOOV, "\"BCD.LL\"", "\"Hex.LL\"", "line 6: field 2: prefix `Hex.LL`"),
        (
            MOOV,
            "\"length\": 19",
            "\"length\": 199",
            "line 6: field 2: its length of 2 digits ends at 99",
        ),
        (MOOV, "\"length\": 19", "\"length\": -1", "line 6: field 2: invalid value"),
        (MOOV, "\"39\"", "\"40\"", "no field leads to element 39"),
        (MOOV, "\"0\": {", "\"130\": {", "field 130"),
        (MOOV, "\"name\"", "name", "line 2: key must be a string"),
        (JPOS, "IFA_LLLCHAR", "IFEP_LLCHAR", "line 11: field 48: class `IFEP_LLCHAR`"),
        (JPOS, "IFB_LLNUM", "IFB_FLLNUM", "line 5: field 2: class `IFB_FLLNUM`"),
        (JPOS, "length=\"12\"", "size=\"12\"", "line 7: field 4: no `length`"),
        (JPOS, "id=\"49\"", "id=\"149\"", "line 15: field 149: fields end at 128"),
        (JPOS, "</isofieldpackager>", "</isofield>", "line 14"),
    ] {
        let text = text.replacen(from, to, 1);
        let error = import("theirs", &text).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}\n{error}");
    }
    let error = import("theirs", "field,length").unwrap_err().to_string();
    assert!(error.contains("neither a specification of moov-io"), "{error}");
}
