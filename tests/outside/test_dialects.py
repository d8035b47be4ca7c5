"""Outside codecs talk to doors in their own formats: each is answered rightly at a door of its dialect, and gets a line
in the log that names this dialect at a door of another one. None is met with silence.

PyPI `iso8583sim` (its four formats, its length headers, with and without a TPDU), PyPI `pyiso8583` (its two
specifications) and npm `iso_8583`.
"""

import copy
import itertools
import json
import pathlib
import re
import socket
import subprocess
import time
import urllib.request

import iso8583
import pytest
from conftest import running
from iso8583.specs import default, default_ascii
from iso8583sim.core.types import ISO8583Message
from iso8583sim.net.framing import Framing
from iso8583sim.wire.codec import decode_message, encode_message
from iso8583sim.wire.format import WireFormat

HERE = pathlib.Path(__file__).parent
# The simulator's formats, with the dialects that they are. It packs the response code, too, which no other codec does.
DIALECTS = {"ascii-binary": "default", "ascii-hex": "ascii-hex", "ebcdic": "ebcdic", "bcd": "bcd"}
PACKED_FILE = 'base = "bcd"\n\n[fields]\n39 = "n 2"\n'
HEADERS = {"2b": "binary2", "4b": "binary4", "2a": "ascii2", "4a": "ascii4"}
TPDU = bytes.fromhex("6000010002")
TABLE = [
    (name, header, inclusive, tpdu)
    for name in DIALECTS
    for header in HEADERS
    for inclusive in (False, True)
    for tpdu in (False, True)
]
STANS = itertools.count(1)


def length(header: str, inclusive: bool) -> str:
    return HEADERS[header] + (" inclusive" if inclusive else "")


def door_name(name: str, header: str, inclusive: bool, tpdu: bool) -> str:
    return f"{name}-{header}" + ("-inclusive" if inclusive else "") + ("-tpdu" if tpdu else "")


def settings(packed_file: pathlib.Path) -> str:
    """A door for each row of the table, and one for each codec with a framing of its own."""
    doors = []
    for name, header, inclusive, tpdu in TABLE:
        dialect = str(packed_file) if name == "bcd" else DIALECTS[name]
        doors.append(
            "[[iso8583_doors]]\n"
            f'name = "{door_name(name, header, inclusive, tpdu)}"\n'
            'address = "127.0.0.1:0"\n'
            f"dialect = {json.dumps(dialect)}\n"
            f'length = "{length(header, inclusive)}"\n'
            f"tpdu = {str(tpdu).lower()}\n"
        )
    return "\n".join(doors)


@pytest.fixture(scope="module")
def many_doors(tmp_path_factory):
    """A switch with all these doors."""
    tmp_path = tmp_path_factory.mktemp("dialects")
    packed_file = tmp_path / "packed.toml"
    packed_file.write_text(PACKED_FILE)

    def prepare(data, _made):
        pathlib.Path(data, "cardswitch.toml").write_text(settings(packed_file))

    with running(tmp_path, prepare=prepare) as switch:
        yield switch


def echo() -> dict:
    return {7: "1215143022", 11: f"{next(STANS):06}", 70: "301"}


def purchase(card: dict) -> dict:
    number = f"{next(STANS):06}"
    return {
        2: card["pan"],
        3: "000000",
        4: "000000001250",
        7: "1215143022",
        11: number,
        12: "143022",
        13: "1215",
        14: card["expiration"][2:4] + card["expiration"][5:7],
        18: "5411",
        22: "051",
        24: "001",
        25: "00",
        32: "400001",
        37: f"DIALEC{number}",
        41: "TERM0001",
        42: "MERCHANT0000001",
        43: f"{'OUTSIDE GROCERY':<22}{'SAN FRANCISCO':<13}{'CA':<3}US",
        49: "840",
    }


def read_frame(stream: socket.socket, framing: Framing) -> tuple[bytes | None, bytes]:
    buffer = b""
    while True:
        frames, _rest = framing.split(buffer)
        if frames:
            return frames[0]
        part = stream.recv(4096)
        assert part, "the switch closed the connection"
        buffer += part


@pytest.mark.parametrize("row", TABLE, ids=lambda row: door_name(*row))
def test_simulator_is_answered_in_its_own_format(many_doors, row):
    name, header, inclusive, tpdu = row
    wire, framing = WireFormat.preset(name), Framing(header, TPDU if tpdu else None, inclusive)
    asked = [("0800", echo())]
    # Two digits end at 99 bytes, which no purchase fits into.
    if header != "2a":
        asked.append(("0100", purchase(many_doors.card("ordinary"))))
    with socket.create_connection(many_doors.doors[door_name(*row)]) as stream:
        for mti, fields in asked:
            message = ISO8583Message(mti=mti, fields={0: mti, **fields})
            stream.sendall(framing.frame(encode_message(message, wire)))
            answered_tpdu, answer = read_frame(stream, framing)
            answer = decode_message(answer, wire)
            assert answer.mti == mti[:2] + "1" + mti[3]
            assert answer.fields[39] == "00", answer.fields
            for number, value in fields.items():
                if number in answer.fields:
                    assert answer.fields[number].strip() == value.strip(), number
            assert {7, 11}.issubset(answer.fields)
            assert answered_tpdu == (bytes.fromhex("6000020001") if tpdu else None)
            if mti == "0100":
                assert len(answer.fields[38]) == 6
                assert answer.fields[44].split()[0] == "0"


@pytest.mark.parametrize("row", TABLE[1:], ids=lambda row: door_name(*row))
def test_simulator_is_told_apart_at_the_door_of_another_dialect(many_doors, row):
    name, header, inclusive, tpdu = row
    wire, framing = WireFormat.preset(name), Framing(header, TPDU if tpdu else None, inclusive)
    message = ISO8583Message(mti="0800", fields={0: "0800", **echo()})
    said = f"start with --dialect {DIALECTS[name]}"
    if (header, inclusive) != ("2b", False):
        form = length(header, inclusive)
        said += f' --length "{form}"' if inclusive else f" --length {form}"
    said += " --tpdu" if tpdu else ""
    with socket.create_connection(many_doors.address) as stream:
        stream.sendall(framing.frame(encode_message(message, wire)))
        stream.shutdown(socket.SHUT_WR)
        while stream.recv(4096):
            pass
    # The peer learns that its connection ends before the log does; the runner ends a wait for what never comes.
    while not re.search(re.escape(said) + "( peer=| door=|$)", many_doors.log(), re.MULTILINE):
        time.sleep(0.01)
    labels = f'dialect="{DIALECTS[name]}",length="{length(header, inclusive)}",tpdu="{str(tpdu).lower()}"'
    assert f"cardswitch_iso8583_foreign_total{{{labels}}}" in figures(many_doors)


def figures(switch) -> str:
    with urllib.request.urlopen(f"http://{switch.metrics}/metrics") as answer:
        return answer.read().decode()


# The simulator's formats differ from one another in the first bytes; pyiso8583 has two, npm iso_8583 one.
PYISO = {"default": default, "ascii-hex": default_ascii}


@pytest.mark.parametrize("header", ["2b", "4b", "4a"])
@pytest.mark.parametrize("dialect", PYISO)
def test_pyiso8583_is_answered_in_its_own_specification(many_doors, dialect, header):
    name = {"default": "ascii-binary", "ascii-hex": "ascii-hex"}[dialect]
    spec, framing = copy.deepcopy(PYISO[dialect]), Framing(header)
    request = {"t": "0100"} | {
        str(number): value for number, value in purchase(many_doors.card("ordinary")).items()
    }
    with socket.create_connection(many_doors.doors[door_name(name, header, False, False)]) as stream:
        raw, _ = iso8583.encode(dict(request), spec)
        stream.sendall(framing.frame(bytes(raw)))
        _tpdu, raw = read_frame(stream, framing)
    answer, _ = iso8583.decode(raw, spec)
    assert (answer["t"], answer["39"], answer["11"]) == ("0110", "00", request["11"])
    assert answer["43"] == request["43"]


@pytest.mark.parametrize("profile", ["ordinary", "suspended"])
def test_npm_iso_8583_is_answered(many_doors, profile):
    """Its messages are of the default dialect behind two bytes of length."""
    fields = {str(number): value for number, value in purchase(many_doors.card(profile)).items()}
    host, port = many_doors.address
    ran = subprocess.run(
        ["node", HERE / "iso_8583_client.js", host, str(port), json.dumps({"0": "0100"} | fields)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    answer = json.loads(ran.stdout)
    assert answer["0"] == "0110"
    assert answer["39"] == {"ordinary": "00", "suspended": "62"}[profile]
    assert answer["11"] == fields["11"]
