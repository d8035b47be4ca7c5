"""The Standard Webhooks library of PyPI verifies what a real switch sends, before and after the secret was
replaced, and what `cardswitch listen` sends on."""

import http.server
import json
import queue
import subprocess
import threading
import urllib.request

import pytest
from conftest import binary, running
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

WAIT_S = 60


class Receiver:
    """Takes everything; `hooks` has headers and body of each webhook."""

    def __init__(self):
        self.hooks = queue.Queue()
        hooks = self.hooks

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                hooks.put((dict(self.headers.items()), body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next(self):
        return self.hooks.get(timeout=WAIT_S)


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()


def ask(switch, path: str, body=None) -> dict:
    headers = {
        "Authorization": "Token " + switch.credentials["access_token"],
        "Content-Type": "application/json",
    }
    data = json.dumps(body or {}).encode()
    request = urllib.request.Request(
        f"http://{switch.http}{path}", data=data, headers=headers, method="POST"
    )
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read())


def buy(switch) -> str:
    body = {
        "card_id": switch.card("ordinary")["card_id"],
        "amount": 12,
        "merchant": {"mcc": "5812"},
    }
    return switch.post("/network/v1/authorizations", body)["transaction_id"]


def test_signatures_are_verified(switch, receiver):
    endpoint = ask(switch, "/v1/webhook-endpoints", {"delivery_url": receiver.url})
    first = endpoint["secret"]
    transaction = buy(switch)
    headers, body = receiver.next()
    [event] = Webhook(first).verify(body, headers)
    assert event["event"] == "transaction.created"
    assert event["transaction"] == {"id": transaction}
    assert event["company"] == {"id": switch.credentials["company_id"]}
    with pytest.raises(WebhookVerificationError):
        Webhook(first).verify(body + b" ", headers)
    for name in ["Webhook-Id", "Webhook-Timestamp"]:
        forged = {key: "1" if key.lower() == name.lower() else value for key, value in headers.items()}
        with pytest.raises(WebhookVerificationError):
            Webhook(first).verify(body, forged)

    second = ask(switch, f"/v1/webhook-endpoints/{endpoint['id']}/rotate-secret")["secret"]
    assert second != first
    buy(switch)
    headers, body = receiver.next()
    for secret in [first, second]:
        Webhook(secret).verify(body, headers)


def test_listen_sends_events_on(switch, receiver):
    command = [binary(), "listen", "--url", f"http://{switch.http}"]
    command += ["--token", switch.credentials["access_token"], "--forward-to", receiver.url]
    process = subprocess.Popen(
        [*command, "--since", "2020-01-01T00:00:00Z"], stdout=subprocess.PIPE, text=True
    )
    try:
        secret = process.stdout.readline().split()[-1]
        transaction = buy(switch)
        while True:
            headers, body = receiver.next()
            [event] = Webhook(secret).verify(body, headers)
            if event["transaction"] == {"id": transaction}:
                break
        while transaction not in (line := process.stdout.readline()):
            assert line
        assert "transaction.created" in line and "-> 204" in line
    finally:
        process.kill()
        process.wait()


def test_listen_says_why_it_ends(switch):
    command = [binary(), "listen", "--url", f"http://{switch.http}", "--token", "nonsense"]
    ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=WAIT_S)
    assert ran.returncode == 1 and "401" in ran.stderr and "nonsense" not in ran.stderr
