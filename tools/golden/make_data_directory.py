#!/usr/bin/env python3
"""Writes a golden data directory: what a build has written, with what it said of it.

    tools/golden/make_data_directory.py BINARY NAME

makes `tests/recovery/golden/NAME.tar.gz` with

    data/            a data directory whose switch was killed while its tables were behind its journal
    cards.jsonl      the test cards, as `init` wrote them
    credentials.json what `init` printed
    expected.json    path -> what `/v1` answered just before the kill

A NAME that begins with `deliveries` makes a directory with webhooks under way instead, and `deliveries.json` with what each
endpoint is still to be told (tests/recovery/golden_deliveries.rs).

Run it with the build whose format is to be kept, before the format changes; archives are never made again. Later builds
have to open each of them and answer the same (tests/recovery/golden_directory.rs).
"""

import base64
import http.server
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE_URL = "http://golden.example"
START = "2026-03-02T12:00:00Z"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LISTS = [
    *["cards", "transactions", "shared-links", "requisitions", "members", "accounts"],
    *["categories", "departments", "labels", "locations", "access-tokens", "audit-events", "webhook-endpoints"],
]


class Maker:
    """A switch that is being filled."""

    def __init__(self, binary: str, home: pathlib.Path):
        self.binary, self.home, self.data = binary, home, home / "data"
        common = ["init", "--data", str(self.data), "--seed", "20260302", "--time", START]
        further = ["--cards", "40", "--cards-out", str(home / "cards.jsonl"), "--partial-approval"]
        self.made = self.run_json(*common, *further, "--credit-limit", "500")
        self.process = None

    def run_json(self, *arguments: str) -> dict:
        ran = subprocess.run([self.binary, *arguments, "--json"], check=True, stdout=subprocess.PIPE)
        return json.loads(ran.stdout)

    def serve(self, *further: str):
        doors = ["--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0", "--clock", "manual", "--base-url", BASE_URL]
        self.process = subprocess.Popen(
            [self.binary, "serve", "--data", str(self.data), *doors, *further], stdout=subprocess.PIPE, text=True
        )
        ready = dict(part.split("=") for part in self.process.stdout.readline().split()[1:])
        self.http, self.iso8583 = ready["http"], ready["iso8583"]

    def end(self, how: signal.Signals):
        self.process.send_signal(how)
        self.process.wait()

    def ask(self, method: str, path: str, body=None, content_type="application/json"):
        key = self.made["network_key"] if path.startswith("/network") else self.made["access_token"]
        headers = {"Authorization": f"Token {key}", "Content-Type": content_type}
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"http://{self.http}{path}", data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                text = answer.read()
        except urllib.error.HTTPError as refusal:
            sys.exit(f"{method} {path}: {refusal.read().decode()}")
        return json.loads(text) if text else None

    def feed(self, *arguments: str):
        doors = ["--connect", self.iso8583, "--http", f"http://{self.http}"]
        keys = ["--network-key", self.made["network_key"], "--access-token", self.made["access_token"]]
        subprocess.run([self.binary, "feed", *doors, *keys, *arguments], check=True, stdout=subprocess.DEVNULL)

    def fill(self):
        """Something of everything that a data directory holds."""
        cards = str(self.home / "cards.jsonl")
        self.feed("--cards", cards, "--speed", "max", "--duration", "2d", "--rate", "0.004", "--seed", "3")
        for scenario in sorted((ROOT / "tests" / "scenarios").glob("*.toml")):
            self.feed("--scenario", str(scenario))
        food = self.ask("POST", "/v1/categories", {"name": "Food", "code": "10"})
        gone = self.ask("POST", "/v1/categories", {"name": "Gone", "code": "11", "parent": {"id": food["id"]}})
        sales = self.ask("POST", "/v1/departments", {"name": "Sales"})
        self.ask("POST", "/v1/labels", {"name": "Trip"})
        self.ask("POST", "/v1/locations", {"name": "Oakland"})
        member = {"first_name": "Grace", "last_name": "Hopper", "email": "grace@example.com"}
        grace = self.ask("POST", "/v1/members", member | {"department": {"id": sales["id"]}, "code": "7"})
        leaver = self.ask("POST", "/v1/members", member | {"first_name": "Alan", "email": "alan@example.com"})
        allowance = {"amount": 250, "interval": "monthly", "daily_limit": 80, "scope": [5812, 5814]}
        card = {"allowance": allowance, "description": "Golden card", "is_virtual": True}
        for assignee in grace, leaver:
            shown = self.ask("POST", "/v1/cards", card | {"assigned_to": {"id": assignee["id"]}})
            link = {"card": {"id": shown["id"]}, "hide_balance": True, "recipient": None}
            fields = [{"name": "Birthday", "value": "1906-12-09", "type": "date"}]
            self.ask("POST", "/v1/shared-links", link | {"passphrase_fields": fields})
            asked = {"amount": 40, "description": "Books", "member": {"id": assignee["id"]}}
            self.ask("POST", "/v1/requisitions", asked)
        approved = self.ask("POST", "/v1/requisitions", asked | {"member": {"id": grace["id"]}, "amount": 12.5})
        self.ask("PUT", f"/v1/requisitions/{approved['id']}", {"status": "approved"})
        self.ask("DELETE", f"/v1/members/{leaver['id']}")
        newest = self.ask("GET", "/v1/transactions?limit=3")["results"]
        for transaction, category in zip(newest, [food, gone, food]):
            tags = {"category": {"id": category["id"]}, "note": "golden"}
            self.ask("PUT", f"/v1/transactions/{transaction['id']}", tags)
        # Off, so that what is said of them does not change by itself.
        for url in "https://golden.invalid/one", "https://golden.invalid/two":
            endpoint = self.ask("POST", "/v1/webhook-endpoints", {"delivery_url": url})
            self.ask("PUT", f"/v1/webhook-endpoints/{endpoint['id']}", {"is_enabled": False})
        boundary = b"golden"
        head = b'Content-Disposition: form-data; name="file"; filename="receipt.png"\r\nContent-Type: image/png\r\n\r\n'
        form = b"--" + boundary + b"\r\n" + head + PNG + b"\r\n--" + boundary + b"--\r\n"
        path = f"/v1/transactions/{newest[0]['id']}/receipt"
        self.ask("POST", path, form, f"multipart/form-data; boundary={boundary.decode()}")
        self.ask("DELETE", f"/v1/categories/{gone['id']}")

    def buy(self, card: dict, amount: int) -> str:
        body = {"card_id": card["card_id"], "amount": amount, "merchant": {"mcc": "5812"}}
        return self.ask("POST", "/network/v1/authorizations", body)["transaction_id"]

    def fill_deliveries(self) -> list:
        """Endpoints with messages that wait, that are under way, and that are off. Returns what each is to be told."""
        card = next(
            card
            for card in map(json.loads, (self.home / "cards.jsonl").read_text().splitlines())
            if card["profile"] == "ordinary"
        )
        refusing, silent, taking = (Receiver(manner) for manner in ("refuses", "is silent", "takes"))
        endpoints = {}
        for name, receiver in {"waiting": refusing, "under way": silent, "off": taking}.items():
            endpoint = self.ask("POST", "/v1/webhook-endpoints", {"delivery_url": receiver.url})
            endpoints[name] = endpoint["id"]
        since = self.ask("GET", "/v1/events?limit=1000")["cursor"]
        bought = [self.buy(card, amount) for amount in (1, 2, 3)]
        self.wait_until(lambda: refusing.ids and silent.ids and taking.ids)
        off = f"/v1/webhook-endpoints/{endpoints['off']}"
        self.wait_until(lambda: self.ask("GET", off)["delivery"]["last_delivered_at"])
        self.ask("PUT", off, {"is_enabled": False})
        # Events of a transaction that waits stand behind it; those of others wait, too.
        for transaction in bought:
            self.ask("POST", "/network/v1/reversals", {"transaction_id": transaction})
        bought.append(self.buy(card, 4))
        waiting = f"/v1/webhook-endpoints/{endpoints['waiting']}"
        self.wait_until(lambda: self.ask("GET", waiting)["delivery"]["waiting"])
        # Deliveries are written down about once a second.
        time.sleep(3)
        events = self.ask("GET", f"/v1/events?limit=1000&after={since}")["results"]
        told = [{"event": event["event"], "transaction": event["transaction"]["id"]} for event in events]
        return [
            {"id": endpoints["waiting"], "messages": sorted(set(refusing.ids)), "events": told},
            {"id": endpoints["under way"], "messages": sorted(set(silent.ids)), "events": told},
            {"id": endpoints["off"], "messages": [], "events": []},
        ]

    @staticmethod
    def wait_until(is_so):
        while not is_so():
            time.sleep(0.05)

    def answers(self) -> dict:
        """What `/v1` says of all that."""
        paths = [f"/v1/{name}?limit=1000" for name in LISTS]
        account = self.made["account_id"]
        paths += [f"/v1/accounts/{account}/statement-lines?limit=1000", "/v1/company"]
        answers = {path: self.ask("GET", path) for path in paths}
        cards = answers["/v1/cards?limit=1000"]["results"]
        more = [f"/v1/cards/{card['id']}" for card in cards]
        return answers | {path: self.ask("GET", path) for path in more}


class Receiver:
    """A receiver of webhooks that refuses them, is silent or takes them; `ids` are those of the messages that came."""

    def __init__(self, manner: str):
        self.ids = ids = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                ids.append(self.headers["webhook-id"])
                if manner == "is silent":
                    time.sleep(600)
                self.send_response(204 if manner == "takes" else 503)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_port}/hook"
        threading.Thread(target=server.serve_forever, daemon=True).start()


def main():
    binary, name = sys.argv[1:]
    has_deliveries = name.startswith("deliveries")
    with tempfile.TemporaryDirectory() as temporary:
        home = pathlib.Path(temporary)
        maker = Maker(binary, home)
        app = ["app", "add", "--data", str(maker.data), "--company", maker.made["company_id"], "--name", "Golden app"]
        maker.run_json(*app, "--redirect-url", "https://golden.example/back", "--scope", "admin", "--token")
        maker.serve(*(["--allow-local-webhooks"] if has_deliveries else []))
        try:
            deliveries = maker.fill_deliveries() if has_deliveries else maker.fill()
            expected = maker.answers()
        finally:
            maker.end(signal.SIGKILL)
        maker.run_json("verify", "--data", str(maker.data))
        if has_deliveries:
            # How they do changes by itself.
            expected = {path: answer for path, answer in expected.items() if "webhook-endpoints" not in path}
            (home / "deliveries.json").write_text(json.dumps(deliveries, indent=1))
        (home / "expected.json").write_text(json.dumps(expected, indent=1))
        (home / "credentials.json").write_text(json.dumps(maker.made, indent=1))
        shutil.rmtree(maker.data / "outbox", ignore_errors=True)
        archive = ROOT / "tests" / "recovery" / "golden" / f"{name}.tar.gz"
        archive.parent.mkdir(exist_ok=True)
        with tarfile.open(archive, "w:gz") as tar:
            parts = ["data", "cards.jsonl", "credentials.json", "expected.json"]
            for part in [*parts, "deliveries.json"] if has_deliveries else parts:
                tar.add(home / part, arcname=part)
        counts = {path: answer["count"] for path, answer in expected.items() if "count" in answer}
        print(archive, archive.stat().st_size, json.dumps(counts, indent=1))


if __name__ == "__main__":
    main()
