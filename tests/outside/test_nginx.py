"""nginx before the switch, with kept connections to it: no request fails for what another one did.

Two thirds of the requests are refused before their bodies are read. If the switch ends a connection
without a word, nginx meets that in the midst of somebody else's request and answers 502.
"""

import http.client
import os
import pathlib
import random
import socket
import subprocess
import threading
import time

import pytest

from conftest import free_port, running

REQUESTS = 20_000
THREADS = 8
SIZES = [0, 1, 700, 8_000, 16_500, 60_000, 65_535, 65_537, 150_000, 1 << 20]
# Most bodies are small; a megabyte comes now and then.
WEIGHTS = [20, 10, 20, 15, 10, 8, 4, 4, 5, 1]

CONFIG = """
daemon off;
pid {directory}/nginx.pid;
error_log {directory}/error.log warn;
worker_processes 1;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    client_max_body_size 0;
    keepalive_requests 1000000;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $host;
    proxy_set_header X-Forwarded-For $remote_addr;
    upstream switch {{
        server {switch};
        keepalive 32;
        keepalive_timeout 8s;
        keepalive_requests 1000000;
    }}
    server {{
        listen 127.0.0.1:{whole};
        location / {{ proxy_pass http://switch; }}
    }}
    # Where it passes pieces on, nginx itself ends its client's connection after an early answer, and
    # does not say so: its connection to the switch is what is looked at here.
    server {{
        listen 127.0.0.1:{streamed};
        keepalive_timeout 0;
        location / {{ proxy_pass http://switch; proxy_request_buffering off; }}
    }}
}}
"""


@pytest.fixture
def nginx(tmp_path):
    """Starts nginx before a switch; returns its ports: one takes bodies whole, one passes pieces on."""
    processes = []

    def start(switch: str) -> list[int]:
        directory, ports = pathlib.Path(tmp_path / "nginx"), [free_port(), free_port()]
        directory.mkdir()
        text = CONFIG.format(directory=directory, switch=switch, whole=ports[0], streamed=ports[1])
        (directory / "nginx.conf").write_text(text)
        command = ["nginx", "-p", str(directory), "-c", "nginx.conf", "-e", f"{directory}/error.log"]
        # Where it may choose its user, its workers are who runs the test.
        if os.geteuid() == 0:
            command += ["-g", "user root;"]
        processes.append(subprocess.Popen(command))
        for port in ports:
            while True:
                assert processes[0].poll() is None, (directory / "error.log").read_text()
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    time.sleep(0.01)
        return ports

    yield start
    for process in processes:
        process.terminate()
        process.wait()


def requests_of(switch, poor):
    """Each kind of request: method, path, headers, its statuses; those that are valid have a body of
    their own."""
    json_type = {"Content-Type": "application/json"}
    form_type = {"Content-Type": "application/x-www-form-urlencoded"}
    admin = {"Authorization": "Token " + switch.credentials["access_token"]}
    network = {"Authorization": "Bearer " + switch.credentials["network_key"]}
    receipt = "/v1/transactions/0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f/receipt"
    purchase = b'{"card_id": "%s", "amount": 0.01}' % switch.card("ordinary")["card_id"].encode()
    valid = [
        ("GET", "/v1/company", admin, {200}, b""),
        ("POST", "/network/v1/authorizations", json_type | network, {200}, purchase),
        ("GET", "/login", {}, {200}, b""),
        ("GET", "/healthz", {}, {200}, b""),
    ]
    refused = [
        ("POST", "/v1/cards", json_type, {401}, None),
        ("POST", "/v1/cards", json_type | {"Idempotency-Key": "a"}, {401}, None),
        ("POST", receipt, {"Content-Type": "image/png"}, {401}, None),
        ("POST", receipt, {"Content-Type": "image/png"} | admin, {404}, None),
        ("POST", "/network/v1/authorizations", json_type, {401}, None),
        ("POST", "/network/v1/batch", json_type, {401}, None),
        ("POST", "/scim/v2/Users", json_type, {401}, None),
        ("POST", "/v1/members", json_type | {"Authorization": "Token " + poor}, {403, 429}, None),
        ("POST", "/login", form_type | {"Origin": "http://elsewhere.example"}, {403}, None),
        ("POST", "/nothing", {}, {404}, None),
        ("PUT", "/v1/company/nothing", {}, {404}, None),
        ("PUT", "/login", {}, {405}, None),
        ("POST", "/v1/cards", json_type | admin, {400, 413}, None),
        ("POST", "/v1/cards", {"Content-Type": "text/plain"} | admin, {415}, None),
        ("POST", "/v1/oauth/token", form_type, {400, 401, 413, 429}, None),
        ("POST", "/healthz", {}, {200}, None),
    ]
    # One in three is valid.
    return [valid, refused, refused]


def pieces_of(body: bytes, chance: random.Random):
    """The body in one piece or in many."""
    size = chance.choice([len(body), 1_400, 10_000]) or 1
    for start in range(0, len(body), size):
        yield body[start : start + size]


def test_no_request_fails_for_what_another_did(tmp_path, nginx):
    """20,000 requests of every kind through nginx: each has its own answer, and none a 502."""
    seed = int(os.environ.get("CARDSWITCH_SEED", time.time_ns()))
    print(f"CARDSWITCH_SEED={seed} repeats this run")
    with running(tmp_path, scope="accountant", options=["--token-requests-per-s", "0"]) as switch:
        ports, kinds = nginx(switch.http), requests_of(switch, switch.added_token)
        surprises, lock = {}, threading.Lock()

        def ask_many(number: int) -> None:
            chance = random.Random(seed + number)
            clients = [http.client.HTTPConnection("127.0.0.1", port) for port in ports]
            for _ in range(REQUESTS // THREADS):
                method, path, headers, statuses, body = chance.choice(chance.choice(kinds))
                if body is None:
                    body = b"x" * chance.choices(SIZES, WEIGHTS)[0]
                client = chance.choice(clients)
                sent = headers | {"Content-Length": str(len(body))}
                try:
                    client.request(method, path, pieces_of(body, chance), sent)
                    answer = client.getresponse()
                    answer.read()
                    status = answer.status
                except (OSError, http.client.HTTPException) as error:
                    client.close()
                    status = repr(error)
                if status not in statuses:
                    with lock:
                        met = (method, path, len(body), status)
                        surprises[met] = surprises.get(met, 0) + 1

        threads = [threading.Thread(target=ask_many, args=(n,)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        failed = sum(surprises.values())
        bad_gateways = sum(count for met, count in surprises.items() if met[3] == 502)
        print(f"{REQUESTS} requests, {bad_gateways} answered 502, {failed} otherwise than they ought")
        error_log = (tmp_path / "nginx" / "error.log").read_text()
        assert not surprises, f"{surprises}\n{error_log[-4000:]}"
