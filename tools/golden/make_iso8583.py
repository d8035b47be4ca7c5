#!/usr/bin/env python3
"""Writes the golden ISO 8583 messages of api/iso8583 and api/dialects with an independent codec, pyiso8583.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install -r tools/golden/requirements.txt
    /tmp/golden/bin/python tools/golden/make_iso8583.py

Each file is one message in one dialect: `name: value` lines, of which `frame` is the whole message as hex and each
number is a data element of the default dialect (binary ones as hex). The card numbers are the well-known test numbers of the schemes. The files
are part of the repository; a change of this script must leave the ones that it does not mean to change as they are.
"""

import copy
import pathlib

import iso8583
from iso8583.specs import default, default_ascii

API = pathlib.Path(__file__).resolve().parents[2] / "api"
# The default dialect is the codec's own; the others are beside their files.
DEFAULT, OTHERS = API / "iso8583" / "tests" / "golden", API / "dialects" / "tests" / "golden"

PAN = "4111111111111111"
COMMON = {
    "2": PAN, "3": "000000", "4": "000000012345", "7": "0102030405", "11": "000042", "12": "030405", "13": "0102",
    "18": "5812", "22": "051", "25": "00", "32": "12345", "37": "RRN000000042", "41": "TERM0001",
    "42": "MERCHANT0000001", "43": "Blue Bottle           Oakland      CA US", "49": "840",
}


def with_common(mti, drop=(), **elements):
    """A message of the common elements, some of them dropped, others added as de<number>=value."""
    message = {"t": mti} | {de: value for de, value in COMMON.items() if de not in drop}
    return message | {name.removeprefix("de"): value for name, value in elements.items()}


def original(mti="0100"):
    """DE 90 that names the common message."""
    return mti + COMMON["11"] + COMMON["7"] + COMMON["32"].zfill(11) + "0" * 11


MESSAGES = {
    "0100_purchase": with_common(
        "0100", de14="2912", de48="92031238005941071104010161011", de52="0412AC89ABCDEF67"),
    "0100_track_2": with_common("0100", drop=("2",), de35=PAN + "=29122010000012345"),
    "0100_foreign": with_common("0100", de4="000000010000", de6="000000010850", de49="978", de51="840"),
    "0100_longest_pan": with_common("0101", de2="6304000000000000000", de28="D00000150"),
    "0110_partial_approval": {
        "t": "0110", "2": PAN, "3": "000000", "4": "000000003000", "11": "000042", "37": "RRN000000042",
        "38": "A00001", "39": "10", "44": "0 partial", "49": "840",
        "54": "0057840D0000000123450002840C000000000000"},
    "0120_advice": with_common("0120", de38="A00001", de39="00"),
    "0200_cash_with_mac": with_common("0200", de3="010000", de64="0011223344556677"),
    "0220_presentment": with_common("0220", de38="A00001", de48="1104010299161640995245000000",
                                    de90=original()),
    "0400_reversal": with_common("0400", drop=("18", "43"), de90=original()),
    "0421_partial_reversal": with_common(
        "0421", de38="A00001", de95="000000003050" + "0" * 12 + "C00000000" * 2, de90=original()),
    "0800_echo": {"t": "0800", "7": "0102030405", "11": "000001", "70": "301"},
    "0810_sign_on": {"t": "0810", "7": "0102030405", "11": "000001", "39": "00", "70": "001",
                     "128": "FFEEDDCCBBAA9988"},
    "0100_variable_elements": {
        "t": "0100", "2": "", "32": "0", "33": "98765432101", "34": "EXT 1", "36": "1234=5678", "44": "x" * 25,
        "45": "B4111111111111111^DOE/JANE^2912201", "48": "opaque, of no known form", "55": "9F2608A1B2C3D4E5F60718",
        "63": "~" * 999, "99": "1", "100": "22", "101": "file.txt", "102": "DE00 1234", "103": "", "104": "y" * 100,
        "127": "z"},
    "0600_each_fixed_element": None,  # filled in below
}


def each_fixed_element(spec):
    """A message with all fixed elements of the standard, so that one wrong length anywhere shows."""
    message = {"t": "0600"}
    for de in map(str, range(2, 129)):
        entry = spec[de]
        # DE 65 is a third bitmap to this codec, and set by it alone.
        if entry["len_type"] != 0 or de == "65":
            continue
        digits = entry["max_len"] * 2 if entry["data_enc"] == "b" else entry["max_len"]
        value = ("0123456789" * 10)[int(de) % 10:][:digits]
        message[de] = "C" + value[1:] if de in SIGNED else value
    return message


def write(name, dialect, spec, message, elements=None):
    """One golden file: a message, and the elements that it is in the default dialect where these differ."""
    frame, _ = iso8583.encode(dict(message), spec)
    elements = elements or message
    listed = sorted((int(de), value) for de, value in elements.items() if de.isdigit() and de != "1")
    lines = [f"dialect: {dialect}", f"frame: {frame.hex()}", f"mti: {elements['t']}"]
    lines += [f"{de}: {value}" for de, value in listed]
    folder, file = (DEFAULT, name) if dialect == "default" else (OTHERS, f"{name}.{dialect}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{file}.txt").write_text("\n".join(lines) + "\n", encoding="ascii")


def profile(spec):
    """The field profile: 120 characters of additional amounts, ICC data up to what three digits can say."""
    spec = copy.deepcopy(spec)
    spec["54"]["max_len"] = 120
    spec["55"]["max_len"] = 999
    return spec


SIGNED = {"28", "29", "30", "31", "97"}
# What is neither digits nor a track.
TEXTS = {"34", "37", "38", "39", "40", "41", "42", "43", "44", "45", "46", "47", "48", "50", "54", "91", "92", "93",
         "94", "95", "98", "101", "102", "103", "104"}
TEXTS |= {str(de) for de in [*range(56, 64), *range(105, 128)]}


def ebcdic(spec):
    """All text in code page 37."""
    for entry in spec.values():
        if entry["data_enc"] != "b":
            entry["data_enc"] = "cp037"
        entry["len_enc"] = "cp037"
    return spec


def packed(spec):
    """Types, lengths and numbers packed, a zero in front of an odd number of digits."""
    for de, entry in spec.items():
        if entry["len_type"]:
            entry |= {"len_enc": "bcd", "len_type": 1 if entry["len_type"] == 2 else 2}
        if de in SIGNED:
            entry |= {"data_enc": "b", "max_len": 1 + entry["max_len"] // 2}
        elif de == "t" or (de.isdigit() and entry["data_enc"] != "b" and de not in TEXTS):
            entry |= {"data_enc": "b", "len_count": "nibbles", "left_pad": "0"}
    return spec


def packed_values(message):
    """Values as this codec takes them for packed fields: D separates tracks, a sign is a byte of its own."""
    signs = {de: value[0].encode().hex() + value[1:] for de, value in message.items() if de in SIGNED}
    tracks = {de: message[de].replace("=", "D") for de in ("35", "36") if de in message}
    return message | signs | tracks


# Fields of 1993 that differ from those of 1987, as pyiso8583 describes fields.
FIELDS_1993 = {"12": 12, "15": 6, "22": 12, "25": 4, "26": 4, "28": 6, "29": 3, "39": 3}
MESSAGES_1993 = {
    "1100_purchase": (
        {"t": "1100", "2": PAN, "3": "000000", "4": "000000012345", "7": "0102030405", "11": "000042",
         "12": "260102030405", "14": "2912", "22": "510101510340", "24": "100", "26": "5812", "32": "12345",
         "37": "RRN000000042", "41": "TERM0001", "42": "MERCHANT0000001",
         "43": "Blue Bottle\\300 Webster St\\Oakland\\94607     CA USA", "49": "840"},
        {"t": "0100", "2": PAN, "3": "000000", "4": "000000012345", "7": "0102030405", "11": "000042",
         "12": "030405", "13": "0102", "14": "2912", "18": "5812", "32": "12345", "37": "RRN000000042",
         "41": "TERM0001", "42": "MERCHANT0000001", "43": "Blue Bottle           Oakland      CA   ", "49": "840",
         "70": "100"}),
    "1110_declined": (
        {"t": "1110", "2": PAN, "4": "000000012345", "11": "000042", "37": "RRN000000042", "39": "116",
         "44": "1101"},
        {"t": "0110", "2": PAN, "4": "000000012345", "11": "000042", "37": "RRN000000042", "39": "51",
         "44": "1101"}),
    "1430_reversed": (
        {"t": "1430", "2": PAN, "11": "000043", "38": "A00001", "39": "400"},
        {"t": "0430", "2": PAN, "11": "000043", "38": "A00001", "39": "00"}),
    "1400_reversal_by_56": (
        {"t": "1400", "2": PAN, "3": "000000", "4": "000000012345", "7": "0102030501", "11": "000043",
         "12": "260102030500", "24": "400", "32": "12345", "49": "840",
         "56": "1100" + "000042" + "260102030405" + "0512345"},
        {"t": "0400", "2": PAN, "3": "000000", "4": "000000012345", "7": "0102030501", "11": "000043",
         "12": "030500", "13": "0102", "32": "12345", "49": "840", "70": "400",
         "90": original()}),
    "1421_partial_reversal": (
        {"t": "1421", "2": PAN, "3": "000000", "4": "000000003050", "7": "0102030501", "11": "000043",
         "12": "260102030500", "24": "401", "30": "000000012345" + "0" * 12, "38": "A00001", "49": "840",
         "56": "1100" + "000042" + "260102030405" + "0512345"},
        {"t": "0421", "2": PAN, "3": "000000", "4": "000000012345", "7": "0102030501", "11": "000043",
         "12": "030500", "13": "0102", "38": "A00001", "49": "840", "70": "401", "90": original(),
         "95": "000000003050" + "0" * 12 + "C00000000" * 2}),
    "1430_partly_reversed": (
        {"t": "1430", "2": PAN, "4": "000000003050", "11": "000043", "30": "000000012345" + "0" * 12, "39": "400"},
        {"t": "0430", "2": PAN, "4": "000000012345", "11": "000043", "39": "00",
         "95": "000000003050" + "0" * 12 + "C00000000" * 2}),
    "1804_echo": (
        {"t": "1804", "7": "0102030405", "11": "000001", "24": "831"},
        {"t": "0800", "7": "0102030405", "11": "000001", "70": "301"}),
    "1814_sign_on": (
        {"t": "1814", "7": "0102030405", "11": "000001", "24": "801", "39": "800"},
        {"t": "0810", "7": "0102030405", "11": "000001", "39": "00", "70": "001"}),
}


def of_1993(spec):
    """The fields of 1993 that its messages here have."""
    for de, length in FIELDS_1993.items():
        spec[de]["max_len"] = length
    for de, length in (("43", 99), ("44", 99), ("56", 35)):
        spec[de] |= {"len_type": 2, "max_len": length}
    spec["30"]["max_len"] = 24
    return spec


def main():
    """All messages in all dialects."""
    specs = {
        "default": profile(default),
        "ascii-hex": profile(default_ascii),
        "ebcdic": ebcdic(profile(default)),
        "bcd": packed(profile(default)),
    }
    for dialect, spec in specs.items():
        for name, message in MESSAGES.items():
            message = message or each_fixed_element(profile(default))
            written = packed_values(message) if dialect == "bcd" else message
            write(name, dialect, spec, written, message)
    for name, (message, elements) in MESSAGES_1993.items():
        write(name, "1993", of_1993(profile(default)), message, elements)


if __name__ == "__main__":
    main()
