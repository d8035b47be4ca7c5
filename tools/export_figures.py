#!/usr/bin/env python3
"""Times `cardswitch export` beside PostgreSQL's own COPY of the same rows into the same table and indexes.

Starts a PostgreSQL of its own (Debian: postgresql-15), exports all transactions of a running switch, copies
them out and in again, and prints both rates and their ratio, turn by turn. Needs Python 3.11; nothing else.

    tools/export_figures.py --url http://127.0.0.1:8080 --token TOKEN
"""

import argparse
import os
import pathlib
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = pathlib.Path("/usr/lib/postgresql/15/bin")
TABLE = "cardswitch.transactions"
# Root may not run it.
PREFIX = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


class Postgresql:
    """A server of its own, which ends with the block."""

    def __enter__(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.home = self.run("mktemp", "--directory").strip()
        self.run(PROGRAMS / "initdb", f"--pgdata={self.home}/data", "--auth=trust", "--username=postgres")
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
        self.control("start", "--wait", "-o", options)
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/postgres"
        return self

    def __exit__(self, *_):
        self.control("stop", "--mode=immediate")
        self.run("rm", "-rf", self.home)

    def run(self, *command) -> str:
        return subprocess.run([*PREFIX, *command], check=True, capture_output=True, text=True, cwd="/").stdout

    def control(self, *arguments) -> None:
        command = [*PREFIX, PROGRAMS / "pg_ctl", f"--pgdata={self.home}/data", "--silent", f"--log={self.home}/log"]
        subprocess.run([*command, *arguments], check=True, cwd="/")

    def ask(self, *statements: str) -> str:
        command = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", self.url]
        for statement in statements:
            command += ["-c", statement]
        return self.run(*command).strip()


def export_command(binary: pathlib.Path, postgresql: Postgresql, url: str, token: str) -> list:
    return [binary, "export", "--to", postgresql.url, "--url", url, "--token", token]


def copy_back(postgresql: Postgresql) -> float:
    """Copies the rows out, and times how long they take to come in again. Units: seconds."""
    file = f"{postgresql.home}/rows"
    postgresql.ask(f"COPY {TABLE} TO '{file}'", f"TRUNCATE {TABLE}", "CHECKPOINT")
    since = time.perf_counter()
    postgresql.ask(f"COPY {TABLE} FROM '{file}'")
    return time.perf_counter() - since


def beside_copy(binary: pathlib.Path, url: str, token: str, turns: int) -> None:
    ratios = []
    with Postgresql() as postgresql:
        for turn in range(turns):
            postgresql.ask("SET client_min_messages = warning; DROP SCHEMA IF EXISTS cardswitch CASCADE", "CHECKPOINT")
            since = time.perf_counter()
            command = [*export_command(binary, postgresql, url, token), "--once"]
            subprocess.run(command, check=True, capture_output=True)
            exported = time.perf_counter() - since
            rows = int(postgresql.ask(f"SELECT count(*) FROM {TABLE}"))
            copied = copy_back(postgresql)
            ratios.append(copied / exported)
            print(f"export, turn {turn + 1}: {rows:,} rows at {rows / exported:,.0f}/s; COPY {rows / copied:,.0f}/s")
    print(f"export / COPY: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")


def lag_under(binary: pathlib.Path, url: str, token: str, load: list) -> None:
    """How far an export is behind while a load runs."""
    with Postgresql() as postgresql:
        following = subprocess.Popen(
            export_command(binary, postgresql, url, token), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        # What was there before is no part of it.
        before, now = "", ""
        while not now or now != before:
            time.sleep(1.5)
            try:
                before, now = now, postgresql.ask("SELECT event_at FROM cardswitch.progress")
            except subprocess.CalledProcessError:
                pass  # The export has not made its tables yet.
        since = postgresql.ask("SELECT now()")
        running = subprocess.Popen(load, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        behind = []
        while running.poll() is None:
            lag = "SELECT extract(epoch FROM written_at - event_at) FROM cardswitch.progress"
            behind += [float(told) for told in postgresql.ask(f"{lag} WHERE event_at > '{since}'").split()]
            time.sleep(0.2)
        following.terminate()
        following.wait()
        print(f"export under load: at most {max(behind, default=0):.2f} s from an event to its row")


def main() -> None:
    parser = argparse.ArgumentParser(description="Times `cardswitch export` beside COPY.")
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--token", required=True)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/dist/cardswitch")
    arguments = parser.parse_args()
    beside_copy(arguments.binary, arguments.url, arguments.token, arguments.turns)


if __name__ == "__main__":
    main()
