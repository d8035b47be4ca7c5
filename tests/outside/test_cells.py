"""PyPI `iso8583sim`, in its own formats, talks through a router to cells of its dialect."""

import json
import re
import socket
import subprocess

import pytest
from conftest import address_of, binary, parse_address, routing, running
from iso8583sim.core.types import ISO8583Message
from iso8583sim.net.framing import Framing
from iso8583sim.wire.codec import decode_message, encode_message
from iso8583sim.wire.format import WireFormat
from test_dialects import PACKED_FILE, TPDU, echo, length, purchase, read_frame

ROWS = [("ebcdic", "2b", False, False), ("ascii-hex", "4b", True, False), ("bcd", "4a", False, True)]
# A cell that nobody serves.
DOWN = "01=http://127.0.0.1:1,iso8583://127.0.0.1:1"


class Peer:
    """One connection in one format."""

    def __init__(self, address, name, header, inclusive, tpdu):
        self.wire = WireFormat.preset(name)
        self.framing = Framing(header, TPDU if tpdu else None, inclusive)
        self.socket = socket.create_connection(address)

    def ask(self, mti: str, fields: dict) -> dict:
        message = ISO8583Message(mti=mti, fields={0: mti, **fields})
        self.socket.sendall(self.framing.frame(encode_message(message, self.wire)))
        tpdu, answer = read_frame(self.socket, self.framing)
        answer = decode_message(answer, self.wire)
        assert answer.mti == mti[:2] + "1" + mti[3]
        assert answer.fields[11] == fields[11]
        assert tpdu == (bytes.fromhex("6000020001") if self.framing.tpdu else None)
        return answer.fields


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_router_speaks_the_dialect_of_its_peers_and_cells(tmp_path, row):
    name, header, inclusive, tpdu = row
    dialect = name
    if name == "bcd":
        dialect = str(tmp_path / "packed.toml")
        (tmp_path / "packed.toml").write_text(PACKED_FILE)
    spoken = ["--dialect", dialect, "--length", length(header, inclusive), *["--tpdu"] * tpdu]
    for cell in ["01", "02"]:
        (tmp_path / cell).mkdir()
    with (
        running(tmp_path / "01", cell="01", options=spoken) as first,
        running(tmp_path / "02", cell="02", options=spoken) as second,
        routing([address_of("01", first), address_of("02", second)], *spoken) as route,
    ):
        peer = Peer(parse_address(route["iso8583"]), *row)
        assert peer.ask("0800", echo())[39] == "00"
        for cell in [first, second]:
            answer = peer.ask("0100", purchase(cell.card("ordinary")))
            assert (answer[39], len(answer[38])) == ("00", 6)
            found = json.loads(cell.get("/v1/transactions?exclude_declines=true"))
            assert [one["amount"] for one in found["results"] if one["amount"] < 0] == [-12.5]
        # The home cell knows no such card.
        unknown = purchase(first.card("ordinary")) | {2: "4537110099000000"}
        assert peer.ask("0100", unknown)[39] == "14"
        # The router's own answers are in the dialect, too.
        second.process.terminate()
        second.process.wait()
        lost = peer.ask("0100", purchase(second.card("ordinary")))
        assert lost[39] in ("91", "96"), lost
        refused = peer.ask("0100", purchase(second.card("ordinary")))
        assert (refused[39], refused[44].split()) == ("91", ["1000", "not_taken"])
        assert peer.ask("0100", purchase(first.card("ordinary")))[39] == "00"


def test_a_router_reads_and_answers_the_version_of_1993(tmp_path):
    spoken = ["--dialect", "1993"]
    with (
        running(tmp_path, cell="02", options=spoken) as switch,
        routing([DOWN, address_of("02", switch)], *spoken) as route,
    ):
        fields = purchase(switch.card("ordinary"))
        for number, code in [(fields[2], "00"), ("4537110001123450", "91")]:
            sent = [f"{de}={content}" for de, content in (fields | {2: number}).items()]
            command = [binary(), "send", "--connect", route["iso8583"], *spoken, "--mti", "0100"]
            ran = subprocess.run([*command, *sent], capture_output=True, text=True)
            _, answer = ran.stdout.split("MTI  0110")
            assert re.search(rf"^ 39 .* {code}\b", answer, re.MULTILINE), (ran.stdout, ran.stderr)
