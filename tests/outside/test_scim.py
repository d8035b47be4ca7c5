"""scim2-tester against a real switch: it reads what the switch publishes about itself, then makes, reads,
searches, replaces, patches and deletes users by it."""

import itertools
import json
import urllib.request

import httpx2
from conftest import running
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import Status, check_server

ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
DEPARTMENT = "Engineering"


class Fresh:
    """Examples of an attribute that are never the same twice, which is what a schema cannot say."""

    def __init__(self, text: str):
        self.text = text
        self.numbers = itertools.count(1)

    def __len__(self):
        return 1

    def __getitem__(self, place: int) -> str:
        if place != 0:
            raise IndexError(place)
        return self.text.format(next(self.numbers))


def add_department(switch) -> None:
    token = switch.credentials["access_token"]
    request = urllib.request.Request(
        f"http://{switch.http}/v1/departments",
        data=json.dumps({"name": DEPARTMENT}).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    urllib.request.urlopen(request).close()


def give_examples(client) -> None:
    """What a schema cannot say of text: it is an e-mail address, digits, the name of a department."""
    user = client.get_resource_model("User")
    enterprise = user.get_extension_model(ENTERPRISE)
    user.model_fields["user_name"].examples = Fresh("user{}@example.com")
    # Whoever has left is a plain member; a role given in between would not stay.
    user.model_fields["active"].examples = [True]
    enterprise.model_fields["employee_number"].examples = Fresh("{:04}")
    enterprise.model_fields["department"].examples = [DEPARTMENT]


def test_nothing_is_found(tmp_path):
    with running(tmp_path, scope="scim") as switch:
        add_department(switch)
        headers = {"Authorization": f"Bearer {switch.added_token}"}
        with httpx2.Client(base_url=f"http://{switch.http}/scim/v2", headers=headers) as http:
            client = SyncSCIMClient(http)
            client.discover()
            give_examples(client)
            results = check_server(client)
    failed = [result for result in results if result.status not in (Status.SUCCESS, Status.COMPLIANT)]
    assert not failed, "\n".join(f"{result.title}: {result.status} {result.reason}" for result in failed)
    # Every part of it ran: discovery, making, reading, searching, changing.
    titles = {result.title for result in results}
    assert {"object_creation", "search_with_attributes", "check_remove_attribute"} <= titles, titles
    assert len(results) > 40, len(results)
