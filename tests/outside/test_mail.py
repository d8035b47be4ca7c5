"""Mail by SMTP: a real server (aiosmtpd) takes what the switch sends, and Python's own parser reads it. The server
is down, slow, put out, forgetful; the switch is killed in between; no letter is lost and nothing waits for it."""

import asyncio
import contextlib
import email
import email.policy
import ipaddress
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from datetime import datetime, timedelta, timezone

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from conftest import binary, free_port, run_json
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

# No requests takes so long; what does is stuck.
PATIENCE_S = 60
PASSWORD = "correct horse battery"
EVIL = "<script>alert(1)</script>\"'\u200f\U0001f4a3"


class Postbox:
    """What a mail server has taken, and how it behaves."""

    def __init__(self):
        self.taken = []
        self.commands = []
        # Its answers to the next recipients; then it is content.
        self.answers = []
        self.delay_s = 0

    async def handle_RCPT(self, server, session, envelope, address, options):
        self.commands.append(address)
        if self.answers:
            return self.answers.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        self.taken.append((envelope.rcpt_tos, message))
        return "250 taken"

    def to(self, address: str) -> list:
        return [message for receivers, message in list(self.taken) if receivers == [address]]

    def wait_for(self, address: str, count: int = 1) -> list:
        wait_until(lambda: len(self.to(address)) >= count, f"letter {count} to {address}")
        return self.to(address)


def wait_until(is_so, what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.02)


@contextlib.contextmanager
def mail_server(postbox: Postbox, port: int, **options):
    server = Controller(postbox, hostname="127.0.0.1", port=port, **options)
    server.start()
    try:
        yield server
    finally:
        server.stop(no_assert=True)


class Switch:
    """A switch that sends by a mail server, started and ended as often as a test likes."""

    def __init__(self, tmp_path: pathlib.Path, smtp_url: str, **environment):
        self.data = tmp_path / "data"
        self.cards_file = tmp_path / "cards.jsonl"
        self.log_file = tmp_path / "log"
        arguments = ["--cards", "60", "--cards-out", str(self.cards_file), "--seed", "7707"]
        self.made = run_json("init", "--data", str(self.data), *arguments)
        (self.data / "cardswitch.toml").write_text("[mail]\nretry_after_s = 1\n")
        self.environment = os.environ | environment | {
            "CARDSWITCH_SMTP_URL": smtp_url,
            "CARDSWITCH_MAIL_FROM": "Acme Cards <cards@acme.example.com>",
            "RUST_LOG": "debug",
        }
        self.process = None

    def start(self):
        arguments = ["--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0"]
        with open(self.log_file, "a") as log:
            self.process = subprocess.Popen(
                [binary(), "serve", "--data", str(self.data), *arguments],
                stdout=subprocess.PIPE, stderr=log, text=True, env=self.environment,
            )
        ready = self.process.stdout.readline().split()
        assert ready and ready[0] == "ready", self.log_file.read_text()
        doors = dict(part.split("=") for part in ready[1:])
        self.http = doors["http"]
        return self

    def end(self, how: int = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        code = self.process.wait(timeout=PATIENCE_S)
        assert code == (0 if how == signal.SIGTERM else -how), code

    def ask(self, method: str, path: str, body=None):
        request = urllib.request.Request(
            f"http://{self.http}{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": "Token " + self.made["access_token"], "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def invite(self, address: str, name: str = "Grace"):
        return self.ask("POST", "/v1/members", {"first_name": name, "last_name": "Hopper", "email": address})

    def share(self, recipient: dict, **more):
        card = json.loads(self.cards_file.read_text().splitlines()[0])["card_id"]
        return self.ask("POST", "/v1/shared-links", {"card": {"id": card}, "recipient": recipient} | more)

    def waiting(self, *kinds: str) -> list:
        """Files of letters that are ready to go, or of what waits in another way."""
        return [path for kind in kinds or ("first", "due") for path in (self.data / "mail").glob(f"*.{kind}")]


@pytest.fixture
def postbox():
    return Postbox()


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def switch(tmp_path, port):
    switch = Switch(tmp_path, f"smtp://127.0.0.1:{port}")
    yield switch
    if switch.process and switch.process.poll() is None:
        switch.process.kill()
        switch.process.wait()


def parts_of(message) -> tuple[str, str]:
    """The plain and the HTML part, in this order and none beside them."""
    assert message.get_content_type() == "multipart/alternative"
    plain, html = message.iter_parts()
    assert (plain.get_content_type(), html.get_content_type()) == ("text/plain", "text/html")
    assert not message.defects and not plain.defects and not html.defects
    return tuple(part.get_content().replace("\r\n", "\n") for part in (plain, html))


def link_in(text: str) -> str:
    return re.search(r"http://\S+", text).group()


def test_letters_have_both_parts_and_lead_where_they_say(switch, postbox, port):
    with mail_server(postbox, port):
        switch.start()
        switch.invite("grace@example.com")
        [letter] = postbox.wait_for("grace@example.com")
        plain, html = parts_of(letter)
        assert letter["from"] == "Acme Cards <cards@acme.example.com>"
        assert letter["to"] == "grace@example.com"
        assert letter["subject"].startswith("Your invitation to ")
        assert letter["auto-submitted"] == "auto-generated" and letter["message-id"] and letter["date"]
        link = link_in(plain)
        assert f'href="{link}"' in html
        page = urllib.request.urlopen(f"http://{switch.http}{urllib.parse.urlsplit(link).path}").read().decode()
        assert "Set your password" in page
        wait_until(lambda: not switch.waiting() and not switch.waiting("held"), "an empty queue")
        assert list((switch.data / "outbox").glob("*")) == []
        switch.end()


def test_a_shared_link_brings_its_message_unless_nobody_is_to_be_told(switch, postbox, port):
    with mail_server(postbox, port):
        switch.start()
        recipient = {"name": "Bo " + EVIL, "email": "bo@example.com", "message": "For you.\nAda " + EVIL}
        link = switch.share(recipient, passphrase_fields=[{"name": "Pet", "value": "Rex"}])
        [letter] = postbox.wait_for("bo@example.com")
        plain, html = parts_of(letter)
        assert link["link"] in plain and f'href="{link["link"]}"' in html
        assert "> For you.\n> Ada" in plain and EVIL in plain
        assert "<script" not in html and "Rex" not in plain + html
        path = link["url"].split("/v1", 1)[1]
        switch.ask("PUT", f"/v1{path}", {"hide_balance": True})
        silent = {"name": "Cy", "email": "cy@example.com"}
        switch.ask("PUT", f"/v1{path}", {"recipient": silent | {"notify": False}})
        switch.share(silent | {"notify": False})
        switch.ask("PUT", f"/v1{path}", {"recipient": {"name": "Di", "email": "di@example.com"}})
        postbox.wait_for("di@example.com")
        assert len(postbox.taken) == 2, [receivers for receivers, _ in postbox.taken]


def test_a_dead_server_loses_nothing_across_kill_9_and_blocks_nothing(switch, postbox, port):
    switch.start()
    addresses = [f"member{number}@example.com" for number in range(12)]
    longest = 0
    for number, address in enumerate(addresses):
        asked = time.monotonic()
        switch.invite(address)
        longest = max(longest, time.monotonic() - asked)
        if number in (3, 7):
            # Some letters are written by then, others are known to be owed.
            switch.end(signal.SIGKILL)
            switch.start()
    assert longest < 5, "a member waited for the mail server"
    wait_until(lambda: len(switch.waiting()) == 12, "all letters")
    for path in switch.waiting():
        content = path.read_bytes()
        assert b"example.com" not in content and oct(path.stat().st_mode)[-3:] == "600"
    switch.end()
    switch.start()
    with mail_server(postbox, port):
        for address in addresses:
            postbox.wait_for(address)
        wait_until(lambda: not switch.waiting(), "an empty queue")
        counts = {address: len(postbox.to(address)) for address in addresses}
        assert set(counts.values()) == {1}, counts
        switch.end()
    log = switch.log_file.read_text()
    assert "emails wait for the mail server" in log
    assert "member1@" not in log and "password/set/" not in log


def test_letters_to_sign_in_with_go_before_bulk(switch, postbox, port):
    switch.start()
    for number in range(6):
        switch.share({"name": "Bo", "email": f"bulk{number}@example.com"})
    wait_until(lambda: len(switch.waiting("due")) == 6, "bulk")
    switch.invite("late@example.com")
    wait_until(lambda: len(switch.waiting("first")) == 1, "an invitation")
    with mail_server(postbox, port):
        for number in range(6):
            postbox.wait_for(f"bulk{number}@example.com")
        # One of the others may have been on its way when the server came.
        assert "late@example.com" in postbox.commands[:2], postbox.commands
        wait_until(lambda: not switch.waiting(), "an empty queue")


def test_a_slow_server_holds_up_nobody_and_gets_its_letters_once(switch, postbox, port):
    postbox.delay_s = 2
    with mail_server(postbox, port):
        switch.start()
        asked = time.monotonic()
        for number in range(4):
            switch.invite(f"slow{number}@example.com")
        assert time.monotonic() - asked < 4
        for number in range(4):
            assert len(postbox.wait_for(f"slow{number}@example.com")) == 1
        switch.end()


def test_letters_that_are_put_off_come_later_and_let_others_pass(switch, postbox, port):
    postbox.answers = ["451 greylisted", "452 4.2.2 full", "250"]
    postbox.answers.pop()
    with mail_server(postbox, port):
        switch.start()
        switch.invite("late@example.com")
        wait_until(lambda: postbox.commands == ["late@example.com"], "the first try")
        postbox.wait_for("late@example.com")
        assert postbox.commands.count("late@example.com") == 3
        ids = {message["message-id"] for message in postbox.to("late@example.com")}
        assert len(ids) == 1


def test_a_letter_refused_for_good_is_given_up_and_named_by_its_id_only(switch, postbox, port):
    postbox.answers = ["550 5.1.1 <nobody@example.com> unknown"] * 3
    with mail_server(postbox, port):
        switch.start()
        switch.invite("nobody@example.com")
        wait_until(lambda: postbox.commands.count("nobody@example.com") == 3, "the third try")
        wait_until(lambda: not switch.waiting(), "an empty queue")
        switch.invite("grace@example.com")
        postbox.wait_for("grace@example.com")
        switch.end()
    log = switch.log_file.read_text()
    assert "given up" in log and "nobody@example.com" not in log


def test_a_server_that_drops_connections_gets_every_letter(switch, postbox, port):
    class Careless(Postbox):
        async def handle_DATA(self, server, session, envelope):
            if len(self.commands) % 2:
                # Broken off after the letter was read, before it was answered for.
                server.transport.abort()
                return "451 never seen"
            return await super().handle_DATA(server, session, envelope)

    careless = Careless()
    with mail_server(careless, port):
        switch.start()
        for number in range(4):
            switch.invite(f"member{number}@example.com")
        for number in range(4):
            careless.wait_for(f"member{number}@example.com")


def certificate(directory: pathlib.Path):
    """One for 127.0.0.1 that signs itself, and a server context with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mail.test")])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    chain, private = directory / "mail.pem", directory / "mail.key"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, private)
    return chain, context


def test_passwords_go_by_tls_to_a_server_that_is_who_it_says(tmp_path, postbox, port):
    chain, context = certificate(tmp_path)
    seen = []

    def authenticate(server, session, envelope, mechanism, data):
        seen.append((data.login, data.password))
        return AuthResult(success=data.password == b"Zanz:bar@77")

    options = {
        "tls_context": context, "require_starttls": True, "auth_required": True, "authenticator": authenticate,
    }
    url = f"smtp://ada@127.0.0.1:{port}?tls=required"
    password_file = tmp_path / "password"
    password_file.write_text("Zanz:bar@77\n")
    switch = Switch(
        tmp_path, url, SSL_CERT_FILE=str(chain), CARDSWITCH_SMTP_PASSWORD_FILE=str(password_file)
    )
    with mail_server(postbox, port, **options):
        switch.start()
        switch.invite("grace@example.com")
        postbox.wait_for("grace@example.com")
        assert set(seen) == {(b"ada", b"Zanz:bar@77")}
        switch.end()
        # Nobody vouches for it: it gets neither password nor letter.
        del switch.environment["SSL_CERT_FILE"]
        seen.clear()
        switch.start()
        switch.invite("bob@example.com")
        wait_until(lambda: "it does not encrypt" in switch.log_file.read_text(), "a complaint")
        assert not seen and not postbox.to("bob@example.com")
        switch.end()
    assert "Zanz" not in switch.log_file.read_text()
    shown = subprocess.run(
        [binary(), "serve", "--data", str(switch.data), "--smtp-url", "smtps://a:Zanz@mail.example.com", "--print-config"],
        check=True, capture_output=True, text=True,
    ).stdout
    assert "a:hidden@mail.example.com" in shown and "Zanz" not in shown


def test_a_server_that_cannot_be_meant_is_refused_at_the_start(tmp_path):
    switch = Switch(tmp_path, "smtp://ada:Zanz@mail.example.com?tls=none")
    run = subprocess.run(
        [binary(), "serve", "--data", str(switch.data)], env=switch.environment, capture_output=True, text=True
    )
    assert run.returncode != 0
    assert "a password needs TLS" in run.stderr and "Zanz" not in run.stderr


def assign_card(switch: Switch, address: str) -> tuple[str, str]:
    """A new card of a member with a limit of 20.00, and the member's path."""
    member = switch.invite(address)
    card = switch.ask("POST", "/v1/cards", {
        "description": "Books " + EVIL, "is_virtual": True, "assigned_to": {"id": member["id"]},
        "allowance": {"amount": 500, "transaction_limit": 20},
    })
    return card["id"], f"/v1/members/{member['id']}"


def buy(switch: Switch, card: str, amount: str, **more) -> dict:
    body = {
        "card_id": card, "amount": amount,
        "merchant": {"mid": "4711", "mcc": 5942, "name": "Shop " + EVIL[:20], "city": "Berlin", "country": "DE"},
    }
    request = urllib.request.Request(
        f"http://{switch.http}/network/v1/authorizations", data=json.dumps(body | more).encode(),
        headers={"Authorization": "Bearer " + switch.made["network_key"], "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())


def about(postbox: Postbox, address: str, start: str) -> list:
    return [letter for letter in postbox.to(address) if letter["subject"].startswith(start)]


def test_cardholders_are_told_of_declines_across_kill_9_and_not_without_end(switch, postbox, port):
    switch.start()
    card, _ = assign_card(switch, "grace@example.com")
    assert buy(switch, card, "19.99")["approved"]
    declined = buy(switch, card, "20.01")
    assert declined["response_code"] == 1503
    # Whether the letter is written by then or not, it is owed.
    switch.end(signal.SIGKILL)
    switch.start()
    with mail_server(postbox, port):
        wait_until(lambda: about(postbox, "grace@example.com", "Declined: "), "a letter about the decline")
        [letter] = about(postbox, "grace@example.com", "Declined: ")
        assert letter["subject"].startswith("Declined: 20.01 USD at Shop")
        plain, html = parts_of(letter)
        for part in ("Over the per-transaction limit.", "20.01 USD", "Berlin, DE", declined["transaction_id"]):
            assert part in plain.replace("\n", " ") and part in html, part
        assert "<script" not in html and "500" not in plain
        for _ in range(14):
            buy(switch, card, "30")
        wait_until(lambda: about(postbox, "grace@example.com", "More purchases"), "the last letter")
        time.sleep(2)
        counts = [len(about(postbox, "grace@example.com", start)) for start in ("Declined: ", "More purchases")]
        # The restart forgets how many there were before it.
        assert counts in ([11, 1], [10, 1]), counts
        switch.end()


def test_guessing_warns_the_cardholder_once_and_leavers_hear_nothing(switch, postbox, port):
    with mail_server(postbox, port):
        switch.start()
        card, member = assign_card(switch, "grace@example.com")
        # The fifth locks the card's credentials; a purchase that shows none goes on.
        asked = [{"expiration": "2020-01"}] * 6 + [{}]
        codes = [buy(switch, card, "1", **more)["response_code"] for more in asked]
        assert codes == [1301] * 5 + [1701, 0], codes
        wait_until(lambda: about(postbox, "grace@example.com", "Suspicious"), "the warning")
        # The one that brings the warning, and the one that finds the credentials locked, have no letter of their own.
        declined = lambda: len(about(postbox, "grace@example.com", "Declined: "))
        wait_until(lambda: declined() == 4, "the letters about the other declines")
        [warning] = about(postbox, "grace@example.com", "Suspicious")
        plain, _ = parts_of(warning)
        assert "PIN or password" in plain
        before = len(postbox.taken)
        switch.ask("PUT", member, {"is_active": False})
        other, _ = assign_card(switch, "bob@example.com")
        buy(switch, card, "1")
        buy(switch, other, "30")
        wait_until(lambda: about(postbox, "bob@example.com", "Declined: "), "the other's letter")
        assert {receivers[0] for receivers, _ in postbox.taken[before:]} == {"bob@example.com"}
        switch.end()
