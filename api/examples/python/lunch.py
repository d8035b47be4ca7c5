"""Creates a card, buys with it, follows the event, and handles a decline. Python 3.9, no packages."""

import json
import os
import urllib.error
import urllib.request
import uuid

URL = os.environ["CARDSWITCH_URL"]
TOKEN = "Token " + os.environ["CARDSWITCH_ACCESS_TOKEN"]
KEY = "Bearer " + os.environ["CARDSWITCH_NETWORK_KEY"]


class ApiError(Exception):
    """A failed request; `detail` has `code`, `message`, `param`, `errors` and `doc_url`."""

    def __init__(self, detail):
        super().__init__(detail["message"])
        self.detail = detail


def ask(method, path, body=None, authorization=TOKEN):
    headers = {"Authorization": authorization, "Content-Type": "application/json"}
    if method != "GET":
        # Repeat a request whose answer is lost with the same key: it takes effect once.
        headers["Idempotency-Key"] = str(uuid.uuid4())
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise ApiError(json.load(error)["detail"]) from None


def buy(card, amount):
    """What a card network asks at a merchant. Declines are answers, not errors."""
    merchant = {"name": "Corner Bakery", "mcc": "5812"}
    body = {"card_id": card["id"], "amount": amount, "merchant": merchant}
    answer = ask("POST", "/network/v1/authorizations", body, KEY)
    print(f"{'approved' if answer['approved'] else 'declined'}: {amount:.2f}")
    return answer


allowance = {"amount": 50, "interval": "weekly"}
card = ask("POST", "/v1/cards", {"description": "Lunches", "is_virtual": True, "allowance": allowance})
print(f"card: {card['description']}")

bought = buy(card, 24.50)
events = ask("GET", f"/v1/events?since={card['created_at']}&wait_s=20")
event = next(e for e in events["results"] if e["transaction"]["id"] == bought["transaction_id"])
transaction = ask("GET", f"/v1/transactions/{event['transaction']['id']}")
print(f"event: {event['event']}, {transaction['state']} {transaction['amount']:.2f}")

declined = buy(card, 100.00)
decision = ask("GET", f"/v1/transactions/{declined['transaction_id']}/decision")
for remedy in decision["least_change"]:
    print(f"advice: {remedy['text']}")
    if remedy["rule"] == "allowance_balance":
        ask("PUT", f"/v1/allowances/{card['allowance']['id']}", {"amount": remedy["change"]["to"]})
buy(card, 100.00)

try:
    ask("POST", "/v1/cards", {"description": "Debts", "is_virtual": True, "allowance": {"amount": -1}})
except ApiError as error:
    print(f"refused: {error.detail['code']}, see {URL}{error.detail['doc_url']}")
