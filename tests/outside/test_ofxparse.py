"""An accounting program's view of the OFX statement: ofxparse reads it without complaint."""

import io
import json
import warnings
from decimal import Decimal

from bs4 import XMLParsedAsHTMLWarning
from ofxparse import OfxParser

# Names that trip a careless writer: markup, scripts, and more characters than OFX takes.
MERCHANTS = ["Café & <Söhne>", "山田太郎商店", "محل الورود", "=1+1", "A name longer than thirty-two characters"]


def spend(switch) -> list[Decimal]:
    """Posts a purchase with each merchant, a deposit and a withdrawal; returns what moved."""
    card = switch.card("ordinary")
    amounts = []
    for place, name in enumerate(MERCHANTS, start=1):
        amount = 10 * place + 0.25
        merchant = {"mid": "M-1", "mcc": 5812, "name": name, "city": "Austin", "state": "TX"}
        merchant |= {"country": "US", "zip": "78701"}
        body = {"card_number": card["pan"], "amount": amount, "merchant": merchant}
        answer = switch.post("/network/v1/authorizations", body)
        assert answer["approved"], answer
        posting = {"transaction_id": answer["transaction_id"], "amount": amount}
        switch.post("/network/v1/presentments", posting)
        amounts.append(Decimal(str(-amount)))
    bank_account = {"description": "First Bank", "name": "Checking", "number": "0042"}
    body = {"account_id": switch.credentials["account_id"], "amount": 1000, "settled": True}
    switch.post("/network/v1/transfers", body | {"bank_account": bank_account})
    # Of this withdrawal nothing is known but that it was one.
    switch.post("/network/v1/transfers", body | {"amount": -7})
    return amounts + [Decimal(1000), Decimal(-7)]


def test_every_line_is_read_with_its_id_day_and_amount(switch):
    amounts = spend(switch)
    account_path = f"/v1/accounts/{switch.credentials['account_id']}"
    account = json.loads(switch.get(account_path), parse_float=Decimal)
    page = switch.get(f"{account_path}/statement-lines?ordering=number&limit=1000")
    lines = json.loads(page, parse_float=Decimal)["results"]
    assert [line["amount"] for line in lines[1:]] == amounts

    # The company's days, so that a run around midnight finds its lines.
    days = f"start_date={lines[0]['date']}&end_date={lines[-1]['date']}"
    # ofxparse knows the headers of OFX 1 only, and takes a file without them for ASCII.
    header = b"ENCODING:UTF-8\n\n"
    file = io.BytesIO(header + switch.get(f"{account_path}/statement.ofx?{days}"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # How ofxparse calls its own parser, whatever the file.
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        ofx = OfxParser.parse(file, fail_fast=True)

    found = ofx.account
    assert (found.account_id, found.account_type) == (account["number"], "CHECKING")
    assert found.warnings == [] and found.statement.warnings == []
    statement = found.statement
    assert statement.discarded_entries == []
    assert statement.currency.upper() == "USD"
    assert statement.start_date.date().isoformat() == lines[0]["date"]
    assert statement.end_date.date().isoformat() == lines[-1]["date"]
    assert statement.balance == account["ledger_balance"]
    assert statement.available_balance == account["available_balance"]

    read = statement.transactions
    assert [each.id for each in read] == [line["id"] for line in lines]
    assert [each.amount for each in read] == [line["amount"] for line in lines]
    assert [each.date.date().isoformat() for each in read] == [line["date"] for line in lines]
    assert [each.memo for each in read] == [line["description"] for line in lines]
    assert [each.payee for each in read[1:]] == [
        *(name[:32].strip() for name in MERCHANTS),
        "Checking",
        "Withdrawal",
    ]
    assert [each.type for each in read] == ["xfer"] + ["pos"] * len(MERCHANTS) + ["xfer"] * 2
    assert [each.sic for each in read[1:-2]] == ["5812"] * len(MERCHANTS)
    assert sum(each.amount for each in read) == statement.balance, "the first line opened it"
