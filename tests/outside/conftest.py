"""A switch of its own for each test that asks for one, started as a stranger would."""

import contextlib
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def pytest_collection_modifyitems(items):
    """What takes longest comes first, so that nothing waits for it in the end."""
    items.sort(key=lambda item: "test_openapi" not in item.nodeid)


def binary() -> str:
    """`CARDSWITCH_BIN`, else what `cargo build` makes."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return os.environ.get("CARDSWITCH_BIN", str(target / "debug" / "cardswitch"))


# Ports that the system gives to nobody who names none. Each worker of pytest has some for itself.
PORTS_FIRST, PORTS_OF_WORKER, WORKERS_MAX = 20_000, 1_000, 12


def free_port() -> int:
    """A port for a server that starts later. Neither the system nor another worker takes it meanwhile."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = PORTS_FIRST + worker % WORKERS_MAX * PORTS_OF_WORKER
    while True:
        port = random.randrange(first, first + PORTS_OF_WORKER)
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


class Switch:
    """A running `cardswitch serve` with its test cards."""

    def __init__(self, cards, credentials, added_token, doors, process, log_file):
        self.cards = cards
        self.credentials = credentials
        self.added_token = added_token
        self.address = parse_address(doors["iso8583"])
        self.doors = {
            name.removeprefix("iso8583."): parse_address(address)
            for name, address in doors.items()
            if name.startswith("iso8583.")
        }
        self.http = doors["http"]
        self.metrics = doors["metrics"]
        self.process = process
        self._log_file = log_file

    def log(self) -> str:
        """What it has logged so far."""
        return self._log_file.read_text()

    def card(self, profile: str) -> dict:
        return next(card for card in self.cards if card["profile"] == profile)

    def get(self, path: str) -> bytes:
        """What `/v1` answers."""
        return self._ask(path, "Token " + self.credentials["access_token"], None)

    def post(self, path: str, body) -> dict:
        """What `/network/v1` answers."""
        key = "Bearer " + self.credentials["network_key"]
        return json.loads(self._ask(path, key, json.dumps(body).encode()))

    def _ask(self, path: str, authorization: str, body: bytes | None) -> bytes:
        headers = {"Authorization": authorization, "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self.http}{path}", data=body, headers=headers)
        with urllib.request.urlopen(request) as answer:
            return answer.read()


def parse_address(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


def run_json(*arguments: str) -> dict:
    """What a command prints with `--json`."""
    ran = subprocess.run([binary(), *arguments, "--json"], check=True, stdout=subprocess.PIPE)
    return json.loads(ran.stdout)


@contextlib.contextmanager
def running(tmp_path, scope: str | None = None, prepare=None, options=(), cell=None):
    """A switch of its own, of this cell, with a further access token of the scope where one is named. `prepare` is
    called with the data directory and what `init` printed before the switch starts, which it does with
    these `options`."""
    of_cell = ["--cell", cell] if cell else []
    data, cards_file = str(tmp_path / "data"), tmp_path / "cards.jsonl"
    made = run_json(
        *["init", "--data", data, "--cards", "60", "--cards-out", str(cards_file), "--seed", "951"],
        *of_cell,
    )
    added = None
    if scope:
        company = ["--company", made["company_id"], "--scope", scope]
        added = run_json("token", "add", "--data", data, *company)["access_token"]
    if prepare:
        prepare(data, made)
    doors = ["--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0"]
    log_file = tmp_path / "log"
    process = subprocess.Popen(
        [binary(), "serve", "--data", data, "--allow-local-webhooks", *doors, *options],
        stdout=subprocess.PIPE,
        stderr=log_file.open("w"),
        text=True,
    )
    try:
        ready = process.stdout.readline().split()
        assert ready and ready[0] == "ready", ready
        doors = dict(part.split("=") for part in ready[1:])
        cards = [json.loads(line) for line in cards_file.read_text().splitlines()]
        yield Switch(cards, made, added, doors, process, log_file)
        process.terminate()
        assert process.wait() == 0, "SIGTERM is a clean end"
    finally:
        process.kill()
        process.wait()
        # Shown where the test failed.
        print(log_file.read_text(), file=sys.stderr)


@pytest.fixture
def switch(tmp_path):
    with running(tmp_path) as switch:
        yield switch


@contextlib.contextmanager
def routing(cells, *options, log=None):
    """A router before cells, the first of which is the home cell."""
    doors = ["--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0", "--home", cells[0][:2]]
    command = [binary(), "route", *doors, *(f"--cell={cell}" for cell in cells), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        ready = process.stdout.readline().split()
        yield dict(part.split("=") for part in ready[1:])
        process.terminate()
        assert process.wait() == 0, "SIGTERM is a clean end"
    finally:
        process.kill()
        process.wait()


def address_of(cell, switch):
    """A switch that is a cell, as a router is told of it."""
    return f"{cell}=http://{switch.http},iso8583://{switch.address[0]}:{switch.address[1]}"
