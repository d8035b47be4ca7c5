#!/usr/bin/env python3
"""Makes an account of many statement lines and exports it in each format from a real switch.

Prints for each format the time until the last byte, the size, and what the peak of the switch's
resident memory (VmHWM) grew by; each format has a process of its own, warmed up with a short
statement. Linux only, Python 3.11 or newer, nothing to install.

    cargo build --profile dist -p cardswitch-api
    tools/statement_figures.py                      # 100,000 lines, target/dist/cardswitch
    tools/statement_figures.py --lines 20000 --binary target/debug/cardswitch
"""

import argparse
import http.client
import json
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
FORMATS = ["csv", "ofx", "pdf"]
# As many as stay well below the longest body.
BATCH_LEN = 100
MERCHANTS = ["Harbor Grocery", "Blue Bottle Coffee", "Café Müller", "Northwind Air", "東京書店"]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times statements of many lines.")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--binary", default=str(ROOT / "target/dist/cardswitch"))
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


class Switch:
    """A running `cardswitch serve`."""

    def __init__(self, binary: str, data: str, log):
        arguments = ["serve", "--data", data, "--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [binary] + arguments, stdout=subprocess.PIPE, stderr=log, text=True
        )
        ready = dict(part.split("=") for part in self.process.stdout.readline().split()[1:])
        self.http = http.client.HTTPConnection(ready["http"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.close()
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()

    def post(self, path: str, key: str, body) -> list:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self.http.request("POST", path, json.dumps(body), headers)
        answer = self.http.getresponse()
        text = answer.read()
        assert answer.status == 200, text[:500]
        return json.loads(text)

    def download(self, path: str, token: str) -> int:
        """Reads an answer as it comes and keeps none of it; returns how long it was."""
        self.http.request("GET", path, headers={"Authorization": f"Token {token}"})
        answer = self.http.getresponse()
        assert answer.status == 200, answer.read()[:500]
        size = 0
        while part := answer.read(1 << 16):
            size += len(part)
        return size

    def memory_kib(self, name: str) -> int:
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name))

    def forget_peak(self) -> None:
        """Source: proc(5), clear_refs."""
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")


def install(binary: str, directory: str) -> tuple[dict, list[dict]]:
    cards_file = pathlib.Path(directory, "cards.jsonl")
    arguments = ["init", "--data", f"{directory}/data", "--cards", "200", "--seed", "7", "--json"]
    arguments += ["--cards-out", str(cards_file), "--opening-balance", "90000000000"]
    made = subprocess.run([binary] + arguments, check=True, stdout=subprocess.PIPE)
    cards = [json.loads(line) for line in cards_file.read_text().splitlines()]
    return json.loads(made.stdout), [card for card in cards if card["profile"] == "ordinary"]


def fill(switch: Switch, key: str, cards: list[dict], lines: int) -> None:
    """Posts forced presentments: each is one statement line."""
    for start in range(0, lines, BATCH_LEN):
        batch = [forced(cards, number) for number in range(start, min(lines, start + BATCH_LEN))]
        answers = switch.post("/network/v1/batch", key, batch)
        refused = [answer for answer in answers if answer.get("outcome") != "posted"]
        assert not refused, refused[0]


def forced(cards: list[dict], number: int) -> dict:
    merchant = {"mid": f"M{number % 97}", "mcc": 5411, "name": MERCHANTS[number % len(MERCHANTS)]}
    merchant |= {"city": "Austin", "state": "TX", "country": "US", "zip": "78701"}
    card = cards[number % len(cards)]["pan"]
    body = {"type": "presentment", "card_number": card, "amount": f"{1 + number % 9}.{number % 100:02}"}
    return body | {"rrn": f"{number:012}", "acquirer": "400001", "merchant": merchant}


def export(binary: str, directory: str, credentials: dict, format: str, log) -> dict:
    account = f"/v1/accounts/{credentials['account_id']}"
    token = credentials["access_token"]
    with Switch(binary, f"{directory}/data", log) as switch:
        switch.download(f"{account}/statement.{format}?end_date=2020-01-31", token)
        switch.forget_peak()
        before = switch.memory_kib("VmHWM")
        started = time.monotonic()
        size = switch.download(f"{account}/statement.{format}", token)
        seconds = time.monotonic() - started
        grown = switch.memory_kib("VmHWM") - before
    return {
        "format": format,
        "seconds": round(seconds, 3),
        "size_bytes": size,
        "memory_before_kib": before,
        "memory_grown_kib": grown,
    }


def main() -> None:
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as directory, open(f"{directory}/serve.log", "w") as log:
        credentials, cards = install(arguments.binary, directory)
        with Switch(arguments.binary, f"{directory}/data", log) as switch:
            fill(switch, credentials["network_key"], cards, arguments.lines)
        figures = [
            export(arguments.binary, directory, credentials, format, log) for format in FORMATS
        ]
    if arguments.json:
        print(json.dumps({"lines": arguments.lines, "figures": figures}))
        return
    print(f"{arguments.lines} lines   seconds    size MB   memory before MB   grown by MB")
    for each in figures:
        print(
            f"{each['format']:<{len(str(arguments.lines)) + 6}} {each['seconds']:9.2f}"
            f" {each['size_bytes'] / 1e6:10.1f} {each['memory_before_kib'] / 1024:18.1f}"
            f" {each['memory_grown_kib'] / 1024:13.1f}"
        )


if __name__ == "__main__":
    main()
