"""The examples of api/examples, run as their readme says.

Each speaks through clients that are generated from the documents of the switch at hand.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

EXAMPLES = ROOT / "api" / "examples"
LANGUAGES = ["python", "javascript", "go"]


def commands(language: str) -> list[str]:
    """What the readme tells to do, in the folder of the examples."""
    text = (EXAMPLES / "README.md").read_text()
    [block] = re.findall(rf"```sh {language}\n(.*?)```", text, re.DOTALL)
    return block.replace("\\\n", " ").splitlines()


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_example_does_what_it_says(language, switch, tmp_path):
    url = f"http://{switch.http}"
    binaries = pathlib.Path(sys.executable).parent
    environment = os.environ | {
        "CARDSWITCH_URL": url,
        "CARDSWITCH_ACCESS_TOKEN": switch.credentials["access_token"],
        "CARDSWITCH_NETWORK_KEY": switch.credentials["network_key"],
        "GOCACHE": str(tmp_path / "go-build"),
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
    }
    examples = tmp_path / "examples"
    shutil.copytree(EXAMPLES, examples, ignore=shutil.ignore_patterns("node_modules", "client*"))
    # `./test` has installed the packages.
    (examples / "javascript" / "node_modules").symlink_to(EXAMPLES / "javascript" / "node_modules")
    for line in commands(language):
        if line.startswith("pip install") or line.endswith(" ci"):
            continue
        ran = subprocess.run(
            ["bash", "-ec", line], cwd=examples, env=environment, capture_output=True, text=True
        )
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
    lines = ran.stdout.splitlines()
    advice = lines.pop(4)
    assert advice.startswith("advice: ") and "74.5" in advice, advice
    assert lines == [
        "card: Lunches",
        "approved: 24.50",
        "webhook: transaction.created, pending -24.50",
        "declined: 100.00",
        "approved: 100.00",
        f"refused: negative, see {url}/docs/errors#negative",
    ]
    # The page of an error is there, and the endpoint of the webhook is gone.
    assert b'id="negative"' in switch.get("/docs/errors")
    assert json.loads(switch.get("/v1/webhook-endpoints"))["count"] == 0
