#!/usr/bin/env python3
"""Writes the golden ISO 8583 messages of api/iso8583 and api/dialects with an independent codec, pyiso8583.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install -r api/dialects/tests/golden-requirements.txt
    /tmp/golden/bin/python api/dialects/tests/make_golden.py

Each file is one message in one dialect: `name: value` lines, of which `frame` is the whole message as hex and each
number is a data element of the default dialect (binary ones as hex). The card numbers are the well-known test numbers
of the schemes. The files of the default dialect are where the messages come from: each is written in every dialect, its
frame anew. A new message is a file with its `mti` and its elements. Messages of 1993 are written here, too.
"""

import copy
import pathlib

import iso8583
from iso8583.specs import default, default_ascii

API = pathlib.Path(__file__).resolve().parents[2]
# The default dialect is the codec's own; the others are beside their files.
DEFAULT, OTHERS = API / "iso8583" / "tests" / "golden", API / "dialects" / "tests" / "golden"


def read(file):
    """The message of a golden file, by its elements in the default dialect."""
    lines = (line.split(": ", 1) for line in file.read_text(encoding="ascii").splitlines())
    return {{"mti": "t"}.get(name, name): value for name, value in lines if name not in ("dialect", "frame")}


def write(name, dialect, spec, message, elements):
    """One golden file: a message, by its elements in the default dialect."""
    frame, _ = iso8583.encode(dict(message), spec)
    listed = sorted((int(de), value) for de, value in elements.items() if de.isdigit())
    lines = [f"dialect: {dialect}", f"frame: {frame.hex()}", f"mti: {elements['t']}"]
    lines += [f"{de}: {value}" for de, value in listed]
    folder, file = (DEFAULT, name) if dialect == "default" else (OTHERS, f"{name}.{dialect}")
    (folder / f"{file}.txt").write_text("\n".join(lines) + "\n", encoding="ascii")


def profile(spec):
    """The field profile: 120 characters of additional amounts, ICC data up to what three digits can say."""
    spec = copy.deepcopy(spec)
    spec["54"]["max_len"] = 120
    spec["55"]["max_len"] = 999
    return spec


SIGNED = {"28", "29", "30", "31", "97"}
# Neither digits nor a track.
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


PAN = "4111111111111111"
# Fields of 1993 that differ from those of 1987, as pyiso8583 describes fields.
FIELDS_1993 = {"12": 12, "15": 6, "22": 12, "25": 4, "26": 4, "28": 6, "29": 3, "39": 3}
# Its messages, each beside the file with its elements in the default dialect.
MESSAGES_1993 = {
    "1100_purchase": {
        "t": "1100", "2": PAN, "3": "000000", "4": "000000012345", "7": "0102030405", "11": "000042",
        "12": "260102030405", "14": "2912", "22": "510101510340", "24": "100", "26": "5812", "32": "12345",
        "37": "RRN000000042", "41": "TERM0001", "42": "MERCHANT0000001",
        "43": "Blue Bottle\\300 Webster St\\Oakland\\94607     CA USA", "49": "840"},
    "1110_declined": {
        "t": "1110", "2": PAN, "4": "000000012345", "11": "000042", "37": "RRN000000042", "39": "116", "44": "1101"},
    "1430_reversed": {"t": "1430", "2": PAN, "11": "000043", "38": "A00001", "39": "400"},
    "1400_reversal_by_56": {
        "t": "1400", "2": PAN, "3": "000000", "4": "000000012345", "7": "0102030501", "11": "000043",
        "12": "260102030500", "24": "400", "32": "12345", "49": "840",
        "56": "1100" + "000042" + "260102030405" + "0512345"},
    "1421_partial_reversal": {
        "t": "1421", "2": PAN, "3": "000000", "4": "000000003050", "7": "0102030501", "11": "000043",
        "12": "260102030500", "24": "401", "30": "000000012345" + "0" * 12, "38": "A00001", "49": "840",
        "56": "1100" + "000042" + "260102030405" + "0512345"},
    "1430_partly_reversed": {
        "t": "1430", "2": PAN, "4": "000000003050", "11": "000043", "30": "000000012345" + "0" * 12, "39": "400"},
    "1804_echo": {"t": "1804", "7": "0102030405", "11": "000001", "24": "831"},
    "1805_new_key": {
        "t": "1805", "7": "0102030405", "11": "000001", "24": "811", "48": "B0096P0TB00N0000"},
    "1814_sign_on": {"t": "1814", "7": "0102030405", "11": "000001", "24": "801", "39": "800"},
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
    messages = {file.stem: read(file) for file in sorted(DEFAULT.glob("*.txt"))}
    for dialect, spec in specs.items():
        for name, message in messages.items():
            write(name, dialect, spec, packed_values(message) if dialect == "bcd" else message, message)
    for name, message in MESSAGES_1993.items():
        write(name, "1993", of_1993(profile(default)), message, read(OTHERS / f"{name}.1993.txt"))


if __name__ == "__main__":
    main()
