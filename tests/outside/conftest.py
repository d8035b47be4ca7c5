"""A switch of its own for each test that asks for one, started as a stranger would."""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def binary() -> str:
    """`CARDSWITCH_BIN`, else what `cargo build` makes."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return os.environ.get("CARDSWITCH_BIN", str(target / "debug" / "cardswitch"))


class Switch:
    """A running `cardswitch serve` with its test cards."""

    def __init__(self, cards, address, process):
        self.cards = cards
        self.address = address
        self.process = process

    def card(self, profile: str) -> dict:
        return next(card for card in self.cards if card["profile"] == profile)


@pytest.fixture
def switch(tmp_path):
    data, cards_file = str(tmp_path / "data"), tmp_path / "cards.jsonl"
    subprocess.run(
        [binary(), "init", "--data", data, "--cards", "60", "--cards-out", str(cards_file)]
        + ["--seed", "951", "--json"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    process = subprocess.Popen(
        [binary(), "serve", "--data", data, "--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        ready = process.stdout.readline().split()
        assert ready and ready[0] == "ready", ready
        host, port = dict(part.split("=") for part in ready[1:])["iso8583"].rsplit(":", 1)
        cards = [json.loads(line) for line in cards_file.read_text().splitlines()]
        yield Switch(cards, (host, int(port)), process)
        process.terminate()
        assert process.wait() == 0, "SIGTERM is a clean end"
    finally:
        process.kill()
        process.wait()
