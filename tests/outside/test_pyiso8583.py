"""An independent client, PyPI `pyiso8583`, talks to a switch over its real socket.

Its default ASCII specification has binary fields and bitmaps in hex; the copy below has them as
the field profile of the switch says.
"""

import copy
import itertools
import socket
import struct

import iso8583
import pytest
from iso8583.specs import default_ascii

SPEC = copy.deepcopy(default_ascii)
for field in ("p", "1", "52", "64", "128"):
    SPEC[field] |= {"data_enc": "b", "max_len": 8}

STANS = itertools.count(1)


class Client:
    def __init__(self, address):
        self.socket = socket.create_connection(address)

    def send(self, message: dict) -> None:
        raw, _ = iso8583.encode(dict(message), SPEC)
        self.socket.sendall(struct.pack(">H", len(raw)) + raw)

    def receive(self) -> dict:
        (length,) = struct.unpack(">H", self._exactly(2))
        answer, _ = iso8583.decode(self._exactly(length), SPEC)
        return answer

    def ask(self, message: dict) -> dict:
        self.send(message)
        answer = self.receive()
        assert answer["11"] == message["11"]
        return answer

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            assert part, "the switch closed the connection"
            data += part
        return data


@pytest.fixture
def client(switch):
    return Client(switch.address)


def stan() -> str:
    return f"{next(STANS):06}"


def network_management(code: str) -> dict:
    return {"t": "0800", "7": "0115120000", "11": stan(), "70": code}


def purchase(card: dict, amount_minor: int) -> dict:
    number = stan()
    return {
        "t": "0100",
        "2": card["pan"],
        "3": "000000",
        "4": f"{amount_minor:012}",
        "7": "0115120000",
        "11": number,
        "12": "120000",
        "13": "0115",
        "14": card["expiration"][2:4] + card["expiration"][5:7],
        "18": "5411",
        "22": "012",
        "25": "00",
        "32": "400001",
        "37": f"PYISO8{number}",
        "41": "OUTSIDE1",
        "42": "000000000424242",
        "43": f"{'OUTSIDE GROCERY':<22}{'SAN FRANCISCO':<13}{'CA':<3}US",
        "48": "9203" + card["cvv"],
        "49": "840",
    }


def reversal(original: dict, authorization_id: str) -> dict:
    message = {key: original[key] for key in original if key not in ("14", "48")}
    data = "0100" + original["11"] + original["7"] + original["32"].zfill(11) + "0" * 11
    return message | {"t": "0400", "11": stan(), "38": authorization_id, "90": data}


def test_sign_on_echo_and_sign_off(client):
    for code in ("001", "301", "002"):
        answer = client.ask(network_management(code))
        assert (answer["t"], answer["39"], answer["70"]) == ("0810", "00", code)


def test_purchase_is_approved_and_reversed(switch, client):
    request = purchase(switch.card("ordinary"), 1250)
    approval = client.ask(request)
    assert (approval["t"], approval["39"]) == ("0110", "00")
    assert len(approval["38"]) == 6
    for field in ("2", "3", "4", "7", "11", "12", "13", "32", "37", "41", "42", "49"):
        assert approval[field] == request[field], field

    answer = client.ask(reversal(request, approval["38"]))
    assert (answer["t"], answer["39"]) == ("0410", "00")


def test_purchase_is_presented(switch, client):
    request = purchase(switch.card("ordinary"), 990)
    approval = client.ask(request)
    answer = client.ask(request | {"t": "0220", "11": stan(), "38": approval["38"]})
    assert (answer["t"], answer["39"]) == ("0230", "00")


@pytest.mark.parametrize(
    ("profile", "response", "code"),
    [
        ("suspended", "62", "1202"),
        ("unactivated", "78", "1201"),
        ("terminated", "05", "1000"),
        ("tiny_transaction_limit", "61", "1503"),
        ("tiny_allowance", "61", "1502"),
        ("no_funds", "51", "1101"),
    ],
)
def test_declines_say_why(switch, client, profile, response, code):
    answer = client.ask(purchase(switch.card(profile), 7500))
    assert answer["39"] == response
    assert answer["44"].split()[0] == code


def test_wrong_verification_value_is_declined(switch, client):
    card = dict(switch.card("ordinary"))
    card["cvv"] = "000" if card["cvv"] != "000" else "001"
    answer = client.ask(purchase(card, 100))
    assert (answer["39"], answer["44"].split()[0]) == ("82", "1303")


def test_answers_to_messages_in_flight_are_matched_by_their_fields(switch, client):
    requests = [purchase(switch.card("ordinary"), 1) for _ in range(50)]
    for request in requests:
        client.send(request)
    answers = {answer["11"]: answer for answer in (client.receive() for _ in requests)}
    assert sorted(answers) == sorted(request["11"] for request in requests)
    assert {answer["39"] for answer in answers.values()} == {"00"}
