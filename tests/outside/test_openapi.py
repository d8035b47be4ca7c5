"""Schemathesis over the published documents, against a real switch: whatever it sends, the answer is
one that the document knows."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
SCHEMATHESIS = pathlib.Path(sys.executable).with_name("st")


def objects(switch) -> dict:
    """Ids of things that are there, as the configuration names them."""

    def get(path):
        return json.loads(switch.get(path))

    account = switch.credentials["account_id"]
    line = get(f"/v1/accounts/{account}/statement-lines")["results"][0]
    card = get("/v1/cards?state=active&limit=1")["results"][0]
    return {
        "ACCOUNT_ID": account,
        "CARD_ID": card["id"],
        "ALLOWANCE_ID": card["allowance"]["id"],
        "TRANSACTION_ID": line["origin"]["id"],
        "STATEMENT_LINE_ID": line["id"],
    }


def widen(document: dict) -> dict:
    """The document with what `allowEmptyValue` means in words that Schemathesis knows."""
    for item in document["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", []):
                if parameter.pop("allowEmptyValue", False):
                    empty = {"type": "string", "maxLength": 0}
                    parameter["schema"] = {"anyOf": [parameter["schema"], empty]}
    return document


# All phases that Schemathesis has, in two halves of one length that may run at a time. The links that the stateful one
# follows lead to what the phases before it have made.
@pytest.mark.parametrize("phases", ["examples,coverage,stateful", "fuzzing"])
@pytest.mark.parametrize(
    "path, key",
    [("/openapi.json", "access_token"), ("/network/v1/openapi.json", "network_key")],
)
def test_nothing_is_found(switch, tmp_path, path, key, phases):
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(widen(json.loads(switch.get(path)))))
    environment = objects(switch) | {"ACCESS_TOKEN": switch.credentials[key]}
    ran = subprocess.run(
        [str(SCHEMATHESIS), "--config-file", str(HERE / "schemathesis.toml"), "run"]
        + [str(document), "--url", f"http://{switch.http}", "--phases", phases],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-20_000:]
