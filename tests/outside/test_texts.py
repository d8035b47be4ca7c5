"""Names that are legitimate and trip careless writers, read back by the programs that people use: spreadsheets (csv),
accounting programs (libofx, ofxtools), PDF viewers (poppler) and mail readers. Each sees the text that `/v1` shows."""

import csv
import email
import email.policy
import io
import json
import pathlib
import subprocess
import time
import unicodedata
import urllib.request

import pytest
from conftest import running
from ofxtools.Parser import OFXTree

# Right-to-left letters, combining marks, emoji of several code points, quotes, formulas, markup, references.
NAMES = [
    "Café & <Söhne>",
    "Cafe\u0301 Zu\u0308rich",
    "Пекарня «Хлеб»",
    "山田太郎商店",
    "מאפיית לחם 24",
    "محل الورود",
    "Farm 👩\u200d🌾 & 🦊",
    'Say "cheese", it\'s 5% off',
    "a;b,c\\d|e",
    "=1+1",
    "+49 30 1234",
    "-5",
    "@SUM(A1)",
    "&#65;&amp;&quot;]]>",
    "</NAME><MEMO>x",
    "A name longer than thirty-two characters, by far",
    "प्रिया क्षत्रिय",
    "தமிழ்ச்செல்வி",
    "กิน น้ำ",
    "សុខា မြန်မာ ශ්‍රී",
]


def ask(switch, method: str, path: str, body=None):
    headers = {"Authorization": "Token " + switch.credentials["access_token"], "Content-Type": "application/json"}
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{switch.http}{path}", sent, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read())


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A switch on which something was bought from each merchant, with the statement's days and lines."""
    home = tmp_path_factory.mktemp("texts")
    with running(home) as switch:
        card = switch.card("ordinary")
        for name in NAMES:
            body = {"card_number": card["pan"], "amount": 2, "merchant": {"mcc": 5812, "name": name}}
            bought = switch.post("/network/v1/authorizations", body)
            switch.post("/network/v1/presentments", {"transaction_id": bought["transaction_id"]})
        account = f"/v1/accounts/{switch.credentials['account_id']}"
        lines = ask(switch, "GET", f"{account}/statement-lines?ordering=number&limit=1000")["results"]
        days = f"start_date={lines[0]['date']}&end_date={lines[-1]['date']}"
        made = ask(switch, "GET", "/v1/transactions?ordering=created_at&limit=1000")["results"]
        shown = [row["merchant"]["name"] for row in made if row.get("merchant")]
        assert shown == NAMES, "what was sent is what is shown"

        def statement(kind: str) -> bytes:
            return switch.get(f"{account}/statement.{kind}?{days}")

        yield switch, home, lines, statement


def shortened(name: str) -> str:
    return name[:32].strip()


def test_libofx_sees_every_letter(world, tmp_path):
    _, _, lines, statement = world
    path = tmp_path / "statement.ofx"
    path.write_bytes(statement("ofx"))
    # Its exit status says nothing: it is 1 whatever was read.
    ran = subprocess.run(["ofxdump", str(path)], check=False, capture_output=True)
    dumped = ran.stdout.decode()
    found = {}
    for row in dumped.splitlines():
        key, _, value = row.strip().partition(": ")
        found.setdefault(key.strip(), []).append(value.strip())
    names = found["Name of payee or transaction description"]
    assert names[1:] == [shortened(name) for name in NAMES], dumped
    memos = found["Extra transaction information (memo)"]
    assert memos == [line["description"] for line in lines], dumped


def test_ofxtools_sees_every_letter(world):
    _, _, lines, statement = world
    tree = OFXTree()
    tree.parse(io.BytesIO(statement("ofx")))
    [read] = tree.convert().statements
    assert [row.name for row in read.transactions][1:] == [shortened(name) for name in NAMES]
    assert [row.memo for row in read.transactions] == [line["description"] for line in lines]


def test_spreadsheets_see_texts(world):
    _, _, _, statement = world
    rows = list(csv.DictReader(io.StringIO(statement("csv").decode(), newline="")))
    expected = ["'" + name if name[0] in "=+-@" else name for name in NAMES]
    assert [row["merchant"] for row in rows][1:] == expected
    assert all(len(row) == 15 and None not in row for row in rows)


def test_pdf_viewers_see_texts(world, tmp_path):
    _, _, _, statement = world
    path = tmp_path / "statement.pdf"
    path.write_bytes(statement("pdf"))
    text = subprocess.run(["pdftotext", "-raw", str(path), "-"], check=True, capture_output=True).stdout.decode()
    # Words, since poppler tells those that are written from right to left in the order of their places.
    for word in " ".join(NAMES).split():
        assert letters_of(word) in letters_of(text), f"{word!r} is not in {text}"


def letters_of(text: str) -> str:
    """Without what a page does not keep: spaces at ends of rows, marks of direction (poppler puts its own around what is
    written from right to left), emoji (no font has them)."""
    text = unicodedata.normalize("NFC", text)
    return "".join(letter for letter in text if not letter.isspace() and unicodedata.category(letter) not in ("Cf", "So"))


def test_mail_readers_see_one_subject(world):
    switch, home, _, _ = world
    member = {"email": "grace@example.com", "first_name": "Grace", "last_name": "Hopper"}
    member = ask(switch, "POST", "/v1/members", member)
    for name in NAMES[:8]:
        order = {"description": name, "is_virtual": True, "allowance": {"amount": 5}}
        card = ask(switch, "POST", "/v1/cards", order | {"assigned_to": {"id": member["id"]}})
        body = {"card_id": card["id"], "amount": 999, "merchant": {"mcc": 5812, "name": name}}
        assert not switch.post("/network/v1/authorizations", body)["approved"]
    end = time.monotonic() + 60
    while True:
        letters = [
            email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
            for path in (pathlib.Path(home) / "data" / "outbox").glob("*.eml")
        ]
        letters = [letter for letter in letters if letter["subject"].startswith("Declined")]
        if len(letters) == 8:
            break
        assert time.monotonic() < end, [letter["subject"] for letter in letters]
        time.sleep(0.05)
    assert {letter["subject"].partition(" at ")[2] for letter in letters} == set(NAMES[:8])
    for letter in letters:
        assert set(letter.keys()) == set(letters[0].keys()), letter.items()
        assert letter["to"] == "grace@example.com" and letter["bcc"] is None
