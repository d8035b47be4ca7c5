"""The examples of api/examples, run as their readme says; the collection beside them is the documents'."""

import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT

EXAMPLES = ROOT / "api" / "examples"
PROGRAMS = {
    "python": [sys.executable, "python/lunch.py"],
    "javascript": ["node", "javascript/lunch.mjs"],
    "go": ["go", "run", "go/lunch.go"],
}


@pytest.mark.parametrize("language", PROGRAMS)
def test_an_example_does_what_it_says(language, switch, tmp_path):
    url = f"http://{switch.http}"
    environment = os.environ | {
        "CARDSWITCH_URL": url,
        "CARDSWITCH_ACCESS_TOKEN": switch.credentials["access_token"],
        "CARDSWITCH_NETWORK_KEY": switch.credentials["network_key"],
        "GOCACHE": str(tmp_path / "go-build"),
        "GO111MODULE": "off",
    }
    ran = subprocess.run(
        PROGRAMS[language], cwd=EXAMPLES, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    advice = lines.pop(4)
    assert advice.startswith("advice: ") and "74.5" in advice, advice
    assert lines == [
        "card: Lunches",
        "approved: 24.50",
        "event: transaction.created, pending -24.50",
        "declined: 100.00",
        "approved: 100.00",
        f"refused: negative, see {url}/docs/errors#negative",
    ]
    # What an error leads to is there.
    assert b'id="negative"' in switch.get("/docs/errors")


def test_the_collection_is_that_of_the_documents():
    ran = subprocess.run(
        [sys.executable, ROOT / "tools" / "collection.py", "--check"], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    kept = json.loads((EXAMPLES / "cardswitch.postman_collection.json").read_text())
    requests = [item for folder in kept["item"] for item in folder["item"]]
    assert len(requests) > 90, len(requests)
