#!/usr/bin/env python3
"""Writes the golden ISO 8583 messages of api/iso8583/tests/golden with an independent codec, pyiso8583.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install -r tools/golden/requirements.txt
    /tmp/golden/bin/python tools/golden/make_iso8583.py

Each file is one message in one dialect: `name: value` lines, of which `frame` is the whole message as hex and each
number is a data element (binary ones as hex). The card numbers are the well-known test numbers of the schemes. The files
are part of the repository; a change of this script must leave the ones that it does not mean to change as they are.
"""

import copy
import pathlib

import iso8583
from iso8583.specs import default, default_ascii

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "api" / "iso8583" / "tests" / "golden"

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
    signed = {"28", "29", "30", "31", "97"}
    message = {"t": "0600"}
    for de in map(str, range(2, 129)):
        entry = spec[de]
        # DE 65 is a third bitmap to this codec, and set by it alone.
        if entry["len_type"] != 0 or de == "65":
            continue
        digits = entry["max_len"] * 2 if entry["data_enc"] == "b" else entry["max_len"]
        value = ("0123456789" * 10)[int(de) % 10:][:digits]
        message[de] = "C" + value[1:] if de in signed else value
    return message


def write(name, dialect, spec, message):
    """One golden file."""
    frame, _ = iso8583.encode(message, spec)
    elements = sorted((int(de), value) for de, value in message.items() if de.isdigit() and de != "1")
    lines = [f"dialect: {dialect}", f"frame: {frame.hex()}", f"mti: {message['t']}"]
    lines += [f"{de}: {value}" for de, value in elements]
    (GOLDEN / f"{name}.{dialect}.txt").write_text("\n".join(lines) + "\n", encoding="ascii")


def main():
    """All messages in both dialects."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for dialect, spec in {"binary": copy.deepcopy(default), "hex_text": copy.deepcopy(default_ascii)}.items():
        # The field profile: 120 characters of additional amounts, ICC data up to what three digits can say.
        spec["54"]["max_len"] = 120
        spec["55"]["max_len"] = 999
        for name, message in MESSAGES.items():
            write(name, dialect, spec, dict(message or each_fixed_element(spec)))


if __name__ == "__main__":
    main()
