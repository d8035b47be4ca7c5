#!/usr/bin/env python3
"""Times a cluster on this machine: one purchase at a time, many at a time, an export, changes of leader.

Starts `cardswitch cluster up` (three nodes, three etcd) in a temporary directory. Yardsticks are bare
transactions of the same etcd in the same run (`window-figures`): one compare, one value. Prints figures
and ratios. Needs etcd and PostgreSQL (Debian: etcd-server, postgresql-15) and Python 3.11; nothing else.
Takes about five minutes.

    cargo build --profile dist -p cardswitch-api -p cardswitch-tools
    tools/cluster_figures.py                        # 15 kills, 8 s of load, target/dist
    tools/cluster_figures.py --kills 3 --seconds 3 --binaries target/debug
"""

import argparse
import http.client
import json
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import export_figures

ROOT = pathlib.Path(__file__).resolve().parents[1]
NODES = (1, 2, 3)
# Purchases a second beside a running export; none: as many as there can be.
EXPORTED_RATES = (10_000, 20_000, None)


class Cluster:
    def __init__(self, binaries: pathlib.Path, home: pathlib.Path, ports: int):
        self.cardswitch = binaries / "cardswitch"
        self.home = home / "cluster"
        self.ports = ports
        command = [self.cardswitch, "cluster", "up", "--dir", self.home, "--ports", str(ports), "--cards", "1000"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if line.startswith("ready journal="):
                self.journal = line.strip().removeprefix("ready journal=")
                break
        else:
            raise SystemExit(f"the cluster did not start:\n{self.said}")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.network_key, self.token = (self.secret(name) for name in ("network key", "access token"))
        cards = (self.home / "cards.jsonl").read_text().splitlines()
        self.cards = [json.loads(line) for line in cards]
        self.leader()

    def secret(self, name: str) -> str:
        return next(line.split()[-1] for line in self.said.splitlines() if name in line)

    def status(self) -> dict:
        command = [self.cardswitch, "cluster", "status", "--json", "--journal", self.journal]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def is_ready(self, node: int) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.ports + 20 + node, timeout=1)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def leader(self) -> int:
        while True:
            for node in NODES:
                if self.is_ready(node):
                    return node
            time.sleep(0.02)

    def wait_until_whole(self) -> None:
        """Until every node follows or leads and has all records."""
        while True:
            try:
                nodes = self.status()["nodes"]
                if all(node["records_behind"] == 0 and node["seen_ms_ago"] < 2_000 for node in nodes):
                    return
            except subprocess.CalledProcessError:
                pass
            time.sleep(0.1)

    def pid(self, node: int) -> int:
        return int((self.home / f"node-{node}.pid").read_text())

    def etcd_leader(self) -> int:
        """The process of the member of etcd that leads the others."""
        for member in NODES:
            connection = http.client.HTTPConnection("127.0.0.1", self.ports + 30 + member, timeout=2)
            connection.request("POST", "/v3/maintenance/status", "{}")
            status = json.loads(connection.getresponse().read())
            if status["leader"] == status["header"]["member_id"]:
                return self.etcd_pid(member)
        raise SystemExit("no member of etcd leads")

    def etcd_pid(self, member: int) -> int:
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        children = {int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()}
        command = lambda pid: pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return next(pid for pid in children if f"etcd-{member}".encode() in command(pid))

    def purchase(self, connection: http.client.HTTPConnection, card: dict) -> bool:
        body = json.dumps({"card_id": card["card_id"], "amount": 0.01, "merchant": {"mcc": 5812, "name": "Bar"}})
        headers = {"Authorization": f"Bearer {self.network_key}", "Content-Type": "application/json"}
        connection.request("POST", "/network/v1/authorizations", body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status == 201 or answer.status == 200

    def time_to_answer(self, node: int, card: dict) -> float:
        """Until a purchase at the door of a node is answered. Units: seconds."""
        since = time.perf_counter()
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.ports + node, timeout=5)
                if self.purchase(connection, card):
                    return time.perf_counter() - since
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.002)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def quantile(values: list, share: float) -> float:
    return sorted(values)[int((len(values) - 1) * share)]


def spread(name: str, values: list, unit: float = 1e3) -> None:
    shares = [quantile(values, share) * unit for share in (0.0, 0.5, 0.99)]
    print(f"{name:<46} min {shares[0]:8.1f}  p50 {shares[1]:8.1f}  p99 {shares[2]:8.1f} ms")


def bare(cluster: Cluster, binaries: pathlib.Path, size: int, seconds: int) -> dict:
    bare.runs = getattr(bare, "runs", 0) + 1
    address = cluster.journal.rsplit("/", 1)[0] + f"/bare-{bare.runs}"
    command = [binaries / "window-figures", address, str(size), str(seconds)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def one_at_a_time(cluster: Cluster, binaries: pathlib.Path, seconds: int) -> None:
    ratios = []
    for turn in range(3):
        yardstick = bare(cluster, binaries, 400, seconds)["p50_us"]
        command = load_command(cluster, binaries, cluster.leader(), seconds, connections=1, in_flight=1)
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        took = json.loads(shown)["run"]["latency_us"]
        ratios.append(took["p50"] / yardstick)
        print(f"one purchase at a time, turn {turn + 1}: p50 {took['p50'] / 1e3:.2f} ms, p99 {took['p99'] / 1e3:.2f} ms; "
              f"bare transaction p50 {yardstick / 1e3:.2f} ms")
    print(f"purchase / bare transaction, p50: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")


def many_at_a_time(cluster: Cluster, binaries: pathlib.Path, seconds: int) -> None:
    shares = []
    for turn in range(3):
        leader = cluster.leader()
        before = cluster.status()
        subprocess.run(load_command(cluster, binaries, leader, seconds), check=True, capture_output=True)
        after = cluster.status()
        rate = (after["record"] - before["record"]) / seconds
        records, size = batches_of(cluster, binaries, leader, turn, before["batch"])
        yardstick = bare(cluster, binaries, size, seconds)
        capacity = yardstick["per_second"] * records
        shares.append(rate / capacity)
        print(f"1,024 in flight: {rate:,.0f} records/s, in batches of {records:.0f} records and {size:,} bytes; "
              f"bare transactions of that size {yardstick['per_second']:.0f}/s carry {capacity:,.0f} records/s")
    print(f"share of what bare transactions carry: {', '.join(f'{share:.0%}' for share in shares)}")


def load_command(
    cluster: Cluster,
    binaries: pathlib.Path,
    leader: int,
    seconds: int,
    connections: int = 4,
    in_flight: int = 256,
    rate: int | None = None,
) -> list:
    load = [binaries / "load", "iso", "--address", f"127.0.0.1:{cluster.ports + 10 + leader}"]
    load += ["--cards", cluster.home / "cards.jsonl", "--connections", str(connections), "--in-flight", str(in_flight)]
    load += ["--rate", str(rate)] if rate else []
    return load + ["--warmup", "0", "--seconds", str(seconds), "--json"]


def batches_of(cluster: Cluster, binaries: pathlib.Path, node: int, turn: int, after: int) -> tuple[float, int]:
    """How many records and bytes a batch had on average, of those after a number, in a copy of a journal."""
    copy = cluster.home / f"copy-{turn}"
    shutil.copytree(cluster.home / f"node-{node}" / "journal", copy)
    shown = subprocess.run([binaries / "journal-inspect", copy], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^ *(\d+) .* batch .* \((\d+)\), (\d+) bytes", shown, re.M)
    sizes = [(int(records), int(size)) for number, records, size in found if int(number) > after]
    return sum(records for records, _ in sizes) / len(sizes), sum(size for _, size in sizes) // len(sizes)


def kills(cluster: Cluster, count: int) -> None:
    took = []
    for turn in range(count):
        leader = cluster.leader()
        door = next(node for node in NODES if node != leader)
        subprocess.run(["kill", "-KILL", str(cluster.pid(leader))], check=True)
        took.append(cluster.time_to_answer(door, cluster.cards[turn % len(cluster.cards)]))
        # Killed nodes come back after three seconds.
        time.sleep(3.2)
        cluster.wait_until_whole()
    spread(f"leader's process killed, {count} times", took)


def freezes(cluster: Cluster, count: int, with_etcd: bool) -> None:
    took = []
    for turn in range(count):
        leader = cluster.leader()
        door = next(node for node in NODES if node != leader)
        pids = [str(cluster.pid(leader))] + ([str(cluster.etcd_leader())] if with_etcd else [])
        # Nothing of it answers any more, as when a machine has lost its power or its network.
        subprocess.run(["kill", "-STOP", *pids], check=True)
        since = time.perf_counter()
        while not any(cluster.is_ready(node) for node in NODES if node != leader):
            time.sleep(0.005)
        cluster.time_to_answer(door, cluster.cards[turn % len(cluster.cards)])
        took.append(time.perf_counter() - since)
        subprocess.run(["kill", "-CONT", *pids], check=True)
        time.sleep(1)
        cluster.wait_until_whole()
    spread(f"leader{' and leader of etcd' if with_etcd else ''} silent, {count} times", took)


def export(cluster: Cluster, binaries: pathlib.Path, seconds: int) -> None:
    leader = cluster.leader()
    url = f"http://127.0.0.1:{cluster.ports + leader}"
    export_figures.beside_copy(cluster.cardswitch, url, cluster.token, 3)
    for rate in EXPORTED_RATES:
        load = load_command(cluster, binaries, leader, seconds, rate=rate)
        print(f"{rate:,} a second: " if rate else "1,024 in flight: ", end="")
        export_figures.lag_under(cluster.cardswitch, url, cluster.token, load)


def main() -> None:
    parser = argparse.ArgumentParser(description="Times a cluster on this machine.")
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--ports", type=int, default=17_000)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target/dist")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        cluster = Cluster(arguments.binaries, pathlib.Path(home), arguments.ports)
        try:
            one_at_a_time(cluster, arguments.binaries, arguments.seconds // 2 or 1)
            many_at_a_time(cluster, arguments.binaries, arguments.seconds)
            export(cluster, arguments.binaries, arguments.seconds)
            kills(cluster, arguments.kills)
            freezes(cluster, arguments.kills // 2 or 1, with_etcd=False)
            freezes(cluster, arguments.kills // 2 or 1, with_etcd=True)
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
