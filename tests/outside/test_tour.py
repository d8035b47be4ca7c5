"""The tour in api/docs/tour.md, run as a reader pastes it: line by line into one bash.

Only what a reader may change is changed: the binary and the two addresses at its head.
"""

import os
import pathlib
import re
import signal
import socket
import subprocess

from conftest import ROOT, binary

TOUR = ROOT / "api" / "docs" / "tour.md"
STEP = re.compile(r"^@@ (\d+) (\d+)$", re.MULTILINE)

# (part of a command, what it must print), in the order of the tour.
CLAIMS = [
    ("/v1/company", '"name":"Example Company"'),
    ("Team lunches", '"balance":200.00'),
    ("/network/v1/cards/$CARD", '"cvv":"'),
    ("buy 'Team lunches'", "approved: 24.50 USD at Noodle bar (5812)"),
    ("buy 'Team lunches'", "cleared"),
    ("buy $CARD 75", "declined 1501"),
    ("buy $CARD 75", "To approve it in full:"),
    ("48=9203$CVV", " 39  response code                        00"),
    ("48=9203$CVV", " 54  additional amounts                   0002840C000000016225"),
    ("failed_rules", "declined -75.00 Grocery ['out_of_scope', 'transaction_limit']"),
    ("failed_rules", "completed -28.00 Noodle bar"),
    ('"state": "suspended"', '"suspension_reason":"manual"'),
    ("/network/v1/authorizations", '"response_code":1202'),
    ("admin_password", "admin@example.com "),
    ("/login", "<title>Sign in"),
    ("$CARDSWITCH feed", "books: every transaction of 39 cards, 0 differences"),
    ("$CARDSWITCH feed", f"{'unanswered':<44}{0:>12}"),
    ("wait $SWITCH || echo", "killed"),
    ("$CARDSWITCH verify", " 0 wrong"),
    ("/v1/accounts", '"number":"'),
]


def tour_commands() -> list[str]:
    """The lines of the `sh` blocks of the tour."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", TOUR.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def free_addresses(count: int) -> list[str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def substituted(commands: list[str]) -> list[str]:
    http, iso8583 = free_addresses(2)
    given = {"CARDSWITCH": binary(), "HTTP": http, "ISO": iso8583}
    for name, value in given.items():
        places = [place for place, line in enumerate(commands) if line.startswith(f"{name}=")]
        assert len(places) == 1, f"the tour sets {name} once"
        commands[places[0]] = f"{name}={value}"
    return commands


def paste(commands: list[str], temporary: pathlib.Path) -> list[tuple[str, int]]:
    """What each command printed, and its exit code; the first that fails ends the tour."""
    mark = 'STATUS=$?; echo; echo "@@ {} $STATUS"; [ $STATUS = 0 ] || exit 1'
    script = "".join(f"{line}\n{mark.format(n)}\n" for n, line in enumerate(commands))
    # A file, not a pipe: a switch that is left behind would hold a pipe open.
    transcript = temporary / "transcript"
    with transcript.open("w") as output:
        shell = subprocess.Popen(
            ["bash"],
            cwd=ROOT,
            env=os.environ | {"TMPDIR": str(temporary)},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            shell.communicate(script)
        finally:
            end_session(shell)
    parts = STEP.split(transcript.read_text())
    transcript.unlink()
    return [(text, int(code)) for text, code in zip(parts[0:-1:3], parts[2::3])]


def end_session(shell: subprocess.Popen) -> None:
    """Ends what a tour that broke off left behind in the session made for it."""
    try:
        os.killpg(shell.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    shell.wait()


def test_tour_works_as_pasted(tmp_path):
    commands = tour_commands()
    results = paste(substituted(list(commands)), tmp_path)
    for command, (text, code) in zip(commands, results):
        assert code == 0, f"{command}\n{text}"
    assert len(results) == len(commands) > 20, results[-1:]
    for part, claim in CLAIMS:
        texts = [text for command, (text, _) in zip(commands, results) if part in command]
        assert any(claim in text for text in texts), f"{part}: no `{claim}` in {texts}"
    assert list(tmp_path.iterdir()) == [], "the tour clears up after itself"
