"""TLS of both doors, judged by Python's `ssl` (OpenSSL) with certificates of PyPI `trustme`."""

import contextlib
import datetime
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest
import trustme
from conftest import address_of, binary, parse_address, routing, run_json, running
from test_pyiso8583 import Client, network_management

DAY = datetime.timedelta(days=1)
NOW = datetime.datetime.now(datetime.UTC)


def write_pems(directory, name, issued):
    """The chain and the key of a certificate as files."""
    chain, key = directory / f"{name}.pem", directory / f"{name}.key"
    chain.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    return str(chain), str(key)


def trusting(ca, shown=None):
    context = ssl.create_default_context()
    ca.configure_trust(context)
    if shown:
        shown.configure_cert(context)
    return context


def get(switch, path, context):
    headers = {"Authorization": "Token " + switch.credentials["access_token"]}
    request = urllib.request.Request(f"https://{switch.http}{path}", headers=headers)
    with urllib.request.urlopen(request, context=context) as answer:
        return answer.read()


@contextlib.contextmanager
def https(tmp_path, issued):
    chain, key = write_pems(tmp_path, "door", issued)
    with running(tmp_path, options=["--tls-certificate", chain, "--tls-key", key]) as switch:
        yield switch


def test_http_is_served_over_tls_and_plain_requests_learn_so(tmp_path):
    ca = trustme.CA()
    with https(tmp_path, ca.issue_cert("127.0.0.1")) as switch:
        assert b'"name"' in get(switch, "/v1/company", trusting(ca))
        # Links in answers begin as clients reach the switch.
        listed = get(switch, "/v1/cards?limit=1", trusting(ca))
        assert f"https://{switch.http}/v1/".encode() in listed, listed
        with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
            get(switch, "/v1/company", trusting(trustme.CA()))
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://{switch.http}/v1/company")
        assert refused.value.code == 400 and b"https://" in refused.value.read()
        # A monitor of the switch needs no certificate.
        assert urllib.request.urlopen(f"http://{switch.metrics}/readyz").status == 200


def test_http_1_1_is_agreed_on(tmp_path):
    ca = trustme.CA()
    with https(tmp_path, ca.issue_cert("127.0.0.1")) as switch:
        context = trusting(ca)
        context.set_alpn_protocols(["h2", "http/1.1"])
        with socket.create_connection(parse_address(switch.http)) as plain:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as secured:
                assert secured.selected_alpn_protocol() == "http/1.1"
                assert secured.version() == "TLSv1.3"


def until(condition):
    for _ in range(300):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it never came true")


@pytest.mark.parametrize("is_asked", [True, False], ids=["by SIGHUP", "when the files change"])
def test_new_certificates_are_used_without_a_restart(tmp_path, is_asked):
    old, new = trustme.CA(), trustme.CA()
    with https(tmp_path, old.issue_cert("127.0.0.1")) as switch:

        def ask_to_read():
            if is_asked:
                switch.process.send_signal(signal.SIGHUP)

        def is_trusted_by(ca):
            try:
                return bool(get(switch, "/v1/company", trusting(ca)))
            except urllib.error.URLError:
                return False

        kept = Kept(switch, trusting(old))
        write_pems(tmp_path, "door", new.issue_cert("127.0.0.1"))
        ask_to_read()
        until(lambda: is_trusted_by(new))
        assert not is_trusted_by(old)
        assert kept.status("/healthz") == 200, "connections that are open stay"

        # A certificate that cannot be used changes nothing.
        (tmp_path / "door.pem").write_text("no certificate")
        ask_to_read()
        for _ in range(3 if is_asked else 60):
            assert is_trusted_by(new)
            time.sleep(0.1)
        write_pems(tmp_path, "door", old.issue_cert("127.0.0.1"))
        ask_to_read()
        until(lambda: is_trusted_by(old))


class Kept:
    """A connection that is kept."""

    def __init__(self, switch, context):
        import http.client

        host, port = parse_address(switch.http)
        self.connection = http.client.HTTPSConnection(host, port, context=context)
        assert self.status("/healthz") == 200

    def status(self, path):
        self.connection.request("GET", path)
        answer = self.connection.getresponse()
        answer.read()
        return answer.status


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    data = tmp_path_factory.mktemp("tls") / "data"
    run_json("init", "--data", str(data))
    return data


def refusal(directory, certificate, key, client_ca=None):
    """What `serve` says when it does not start."""
    doors = ["--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0"]
    files = ["--tls-certificate", certificate, "--tls-key", key]
    files += ["--tls-client-ca", client_ca] if client_ca else []
    command = [binary(), "serve", "--data", str(directory), *doors, *files]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stderr
    return ran.stderr


def test_files_that_cannot_be_used_are_named(tmp_path, directory):
    ca = trustme.CA()
    chain, key = write_pems(tmp_path, "good", ca.issue_cert("127.0.0.1"))
    expired = ca.issue_cert("127.0.0.1", not_before=NOW - 2 * DAY, not_after=NOW - DAY)
    expired_chain, expired_key = write_pems(tmp_path, "expired", expired)
    later = ca.issue_cert("127.0.0.1", not_before=NOW + DAY, not_after=NOW + 2 * DAY)
    later_chain, later_key = write_pems(tmp_path, "later", later)
    _, other_key = write_pems(tmp_path, "other", ca.issue_cert("127.0.0.1"))
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    pipe = tmp_path / "pipe.pem"
    os.mkfifo(pipe)
    for certificate, private, words in [
        (expired_chain, expired_key, f"certificate `{expired_chain}`: has expired on "),
        (later_chain, later_key, f"certificate `{later_chain}`: is not valid before "),
        (str(text), key, f"certificate `{text}`: has no certificate in PEM form"),
        (str(tmp_path / "gone.pem"), key, f"certificate `{tmp_path}/gone.pem`: "),
        (chain, other_key, f"key `{other_key}`: "),
        (chain, str(text), f"key `{text}`: "),
        # Opening a pipe would wait for a writer.
        (str(pipe), key, f"certificate `{pipe}`: is no plain file"),
        (chain, str(pipe), f"key `{pipe}`: is no plain file"),
    ]:
        said = refusal(directory, certificate, private)
        assert words in said and "TLS of http" in said, said
    for authorities, words in [
        (expired_chain, f"client_ca `{expired_chain}`: has expired on "),
        (str(pipe), f"client_ca `{pipe}`: is no plain file"),
    ]:
        said = refusal(directory, chain, key, authorities)
        assert words in said and "TLS of http" in said, said


def first_complaint(command, *arguments):
    """The first line of stderr of a command that goes on trying."""
    with subprocess.Popen([binary(), command, *arguments], stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        process.kill()
    return line


def test_our_tools_show_a_certificate_to_the_http_address(tmp_path):
    ca = trustme.CA()
    chain, key = write_pems(tmp_path, "door", ca.issue_cert("127.0.0.1"))
    shown, shown_key = write_pems(tmp_path, "client", ca.issue_cert("client.example.com"))
    authority = tmp_path / "authority.pem"
    authority.write_bytes(ca.cert_pem.bytes())
    options = ["--tls-certificate", chain, "--tls-key", key, "--tls-client-ca", str(authority)]
    believing = ["--http-ca", str(authority)]
    showing = [*believing, "--http-certificate", shown, "--http-key", shown_key]
    asks = "the switch asks for a certificate that it believes (--http-certificate)"
    with running(tmp_path, options=options) as switch:
        made, door = switch.credentials, "{}:{}".format(*switch.address)
        token = ["--token", made["access_token"]]
        named = ["--connect", door, "--network-key", made["network_key"]]

        def run(command, *arguments):
            return subprocess.run([binary(), command, *arguments], capture_output=True, text=True)

        def buy(*flags, url=f"https://{switch.http}"):
            card = switch.card("ordinary")["card_id"]
            return run("buy", card, "12.50", *named, *token, "--url", url, *flags)

        assert buy(*showing).returncode == 0
        assert asks in buy(*believing).stderr
        assert "UnknownIssuer" in buy().stderr
        plain = buy(*showing, url=f"http://{switch.http}")
        assert plain.returncode == 2 and "begins with https" in plain.stderr, plain
        # Without a comparison of every transaction it would have failed.
        pace = ["--rate=50", "--duration=2s", "--cards", str(tmp_path / "cards.jsonl")]
        fed = run("feed", *named, *pace, "--http", f"https://{switch.http}", *showing)
        assert fed.returncode == 0, fed
        at = ["--url", f"https://{switch.http}", *token, *believing]
        nowhere = ["--to", "postgres://nobody@127.0.0.1:1/nothing"]
        assert asks in first_complaint("listen", *at)
        assert asks in first_complaint("export", *nowhere, *at)
        # With a certificate it comes as far as the database.
        assert asks not in first_complaint("export", *nowhere, *at, *showing[2:])


class Line(Client):
    """A connection to the ISO 8583 door over TLS."""

    def __init__(self, switch, context):
        plain = socket.create_connection(switch.address)
        self.socket = context.wrap_socket(plain, server_hostname="127.0.0.1")


@pytest.fixture
def mutual(tmp_path):
    """A switch whose ISO 8583 door takes certificates of an authority, and that authority."""
    ca = trustme.CA()
    chain, key = write_pems(tmp_path, "door", ca.issue_cert("127.0.0.1"))
    authority = tmp_path / "authority.pem"
    authority.write_bytes(ca.cert_pem.bytes())

    files = {"certificate": chain, "key": key, "client-ca": authority}
    options = [f"--iso8583-tls-{name}={file}" for name, file in files.items()]
    with running(tmp_path, options=options) as switch:
        yield switch, ca


def echo(line):
    return line.ask(network_management("301"))["39"]


def test_a_peer_shows_a_certificate_of_the_authority(mutual):
    switch, ca = mutual
    peer = ca.issue_cert("acquirer.example.com", common_name="acquirer-1")
    line = Line(switch, trusting(ca, peer))
    assert echo(line) == "00"
    # Many at once, through records of TLS that cut messages anywhere.
    for _ in range(200):
        line.send(network_management("301"))
    assert {line.receive()["39"] for _ in range(200)} == {"00"}
    line.socket.unwrap().close()


def test_others_are_closed_and_harm_nobody(mutual):
    switch, ca = mutual
    neighbour = Line(switch, trusting(ca, ca.issue_cert("neighbour.example.com")))
    other = trustme.CA()
    self_signed = trustme.CA()
    expired = ca.issue_cert("old.example.com", not_before=NOW - 2 * DAY, not_after=NOW - DAY)

    def shows_itself():
        context = trusting(ca)
        with self_signed.private_key_pem.tempfile() as key, self_signed.cert_pem.tempfile() as cert:
            context.load_cert_chain(cert, key)
        return context

    for context in [
        trusting(ca),
        trusting(ca, expired),
        trusting(ca, other.issue_cert("acquirer.example.com")),
        shows_itself(),
    ]:
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            # TLS 1.3 tells a client only once it reads.
            echo(Line(switch, context))
        assert echo(neighbour) == "00"
    for first_bytes in [b"\x00\x100800" + b"\0" * 12, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff"]:
        with socket.create_connection(switch.address) as plain:
            plain.sendall(first_bytes)
            plain.shutdown(socket.SHUT_WR)
            plain.settimeout(30)
            said = b""
            with contextlib.suppress(ConnectionError):
                while part := plain.recv(1000):
                    said += part
            assert b"0810" not in said
        assert echo(neighbour) == "00"


@contextlib.contextmanager
def secured_listener(context):
    """Agrees on TLS with whoever comes and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    plain, _ = listener.accept()
                    with contextlib.suppress(ssl.SSLError, ConnectionError), plain:
                        context.wrap_socket(plain, server_side=True).close()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_router_does_not_believe_a_cell_whose_certificate_has_expired(tmp_path, switch):
    ca = trustme.CA()
    authority = tmp_path / "authority.pem"
    authority.write_bytes(ca.cert_pem.bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    expired = ca.issue_cert("127.0.0.1", not_before=NOW - 2 * DAY, not_after=NOW - DAY)
    expired.configure_cert(context)
    log = tmp_path / "route.log"
    with secured_listener(context) as port, log.open("w") as written:
        other = f"02=https://127.0.0.1:{port},iso8583s://127.0.0.1:{port}"
        cells = [address_of("01", switch), other]
        with routing(cells, "--cell-ca", str(authority), log=written) as route:
            neighbour = Client(parse_address(route["iso8583"]))
            to_other = network_management("301") | {"2": "4537110002123452"}
            assert neighbour.ask(to_other)["39"] == "91"
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://{route['http']}/s/{'02' * 32}")
            assert refused.value.code == 503 and b"cell_down" in refused.value.read()
            assert neighbour.ask(network_management("301"))["39"] == "00"
    lines = [line for line in log.read_text().splitlines() if "WARN" in line]
    assert len(lines) >= 2 and all("xpired" in line for line in lines), lines


def test_a_router_speaks_tls_at_both_doors(tmp_path, switch):
    ca = trustme.CA()
    chain, key = write_pems(tmp_path, "door", ca.issue_cert("127.0.0.1"))
    authority = tmp_path / "authority.pem"
    authority.write_bytes(ca.cert_pem.bytes())
    http = ["--tls-certificate", chain, "--tls-key", key]
    iso = ["--iso8583-tls-certificate", chain, "--iso8583-tls-key", key]
    with routing([address_of("01", switch)], *http, *iso, "--iso8583-tls-client-ca", str(authority)) as route:
        door = SimpleNamespace(
            http=route["http"],
            address=parse_address(route["iso8583"]),
            credentials=switch.credentials,
        )
        assert b'"name"' in get(door, "/v1/company", trusting(ca))
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://{door.http}/v1/company")
        assert refused.value.code == 400 and b"https://" in refused.value.read()
        line = Line(door, trusting(ca, ca.issue_cert("acquirer.example.com")))
        for _ in range(200):
            line.send(network_management("301"))
        assert {line.receive()["39"] for _ in range(200)} == {"00"}
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            echo(Line(door, trusting(ca)))
        assert echo(line) == "00"
        line.socket.unwrap().close()


def test_a_door_without_tls_still_names_a_hello(switch):
    with socket.create_connection(switch.address) as plain, pytest.raises(OSError):
        trusting(trustme.CA()).wrap_socket(plain, server_hostname="127.0.0.1")
    assert Client(switch.address).ask(network_management("301"))["39"] == "00"
