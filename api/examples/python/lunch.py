"""Creates a card, buys with it, receives the webhook, and handles a decline. Python 3.11, with generated clients."""

import http.server
import os
import queue
import threading
import uuid

import client_company as company_client
import client_network as network_client
from client_company.api.allowances import update_allowance
from client_company.api.cards import create_card
from client_company.api.transactions import get_decision, get_transaction
from client_company.api.webhooks import create_webhook_endpoint, delete_webhook_endpoint
from client_company.models import (
    AllowanceUpdate, Error, Interval, NewAllowance, NewCard, NewWebhookEndpoint, RuleName,
)
from client_network.api.purchases import authorize
from client_network.models import AuthorizationRequest, MerchantGiven
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

URL = os.environ["CARDSWITCH_URL"]
COMPANY = company_client.AuthenticatedClient(URL, os.environ["CARDSWITCH_ACCESS_TOKEN"])
NETWORK = network_client.AuthenticatedClient(URL, os.environ["CARDSWITCH_NETWORK_KEY"])


def taken(answer):
    """What was answered; failures have `detail` with `code`, `message`, `param`, `errors` and `doc_url`."""
    if isinstance(answer, Error):
        raise RuntimeError(answer.detail.message)
    return answer


def fresh():
    """Repeat a request whose answer is lost with the same key: it takes effect once."""
    return {"client": COMPANY, "idempotency_key": str(uuid.uuid4())}


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes webhooks whose signature is right, each an array of events."""

    events = queue.Queue()
    verifier: Webhook

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            events = self.verifier.verify(body, dict(self.headers))
        except WebhookVerificationError:
            return self.answer(400)
        for event in events:
            self.events.put(event)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


def buy(card, amount):
    """What a card network asks at a merchant. Declines are answers, not errors."""
    merchant = MerchantGiven.from_dict({"name": "Corner Bakery", "mcc": "5812"})
    body = AuthorizationRequest(card_id=card.id, amount=amount, merchant=merchant)
    answer = taken(authorize.sync(client=NETWORK, body=body))
    print(f"{'approved' if answer.approved else 'declined'}: {amount:.2f}")
    return answer


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
hooks = NewWebhookEndpoint(delivery_url=f"http://127.0.0.1:{server.server_port}/hooks")
endpoint = taken(create_webhook_endpoint.sync(body=hooks, **fresh()))
Receiver.verifier = Webhook(endpoint.secret)
threading.Thread(target=server.serve_forever, daemon=True).start()

allowance = NewAllowance(amount=50, interval=Interval.WEEKLY)
lunches = NewCard(description="Lunches", is_virtual=True, allowance=allowance)
card = taken(create_card.sync(body=lunches, **fresh()))
print(f"card: {card.description}")

bought = buy(card, 24.50)
while (event := Receiver.events.get())["transaction"]["id"] != str(bought.transaction_id):
    pass
transaction = taken(get_transaction.sync(bought.transaction_id, client=COMPANY))
print(f"webhook: {event['event']}, {transaction.state} {transaction.amount:.2f}")

declined = buy(card, 100.00)
decision = taken(get_decision.sync(declined.transaction_id, client=COMPANY))
for remedy in decision.least_change:
    print(f"advice: {remedy.text}")
    if remedy.rule == RuleName.ALLOWANCE_BALANCE:
        raised = AllowanceUpdate(amount=remedy.change.to)
        taken(update_allowance.sync(card.allowance.id, body=raised, **fresh()))
buy(card, 100.00)

debts = NewCard(description="Debts", is_virtual=True, allowance=NewAllowance(amount=-1))
refused = create_card.sync(body=debts, **fresh())
print(f"refused: {refused.detail.code}, see {URL}{refused.detail.doc_url}")

delete_webhook_endpoint.sync(endpoint.id, **fresh())
server.shutdown()
