#!/usr/bin/env python3
"""Makes api/examples/cardswitch.postman_collection.json from the golden documents: a folder for each tag, a
request for each operation, with its parameters and an example of its body. Postman and Bruno import it.

usage: tools/collection.py [--check]
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "api" / "src" / "openapi" / "golden"
COLLECTION = ROOT / "api" / "examples" / "cardswitch.postman_collection.json"
SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
METHODS = ["get", "post", "put", "delete"]
# (document, name of the variable that has its credential, what stands before it)
DOORS = [("company.json", "access_token", "Token"), ("network.json", "network_key", "Bearer")]


def resolved(document: dict, value: dict) -> dict:
    while "$ref" in value:
        target = document
        for part in value["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        value = target
    return value


def request(document: dict, door: tuple, path: str, method: str, operation: dict) -> dict:
    _, credential, scheme = door
    parameters = [resolved(document, each) for each in operation.get("parameters", [])]
    url = {"host": ["{{base_url}}"], "path": path.strip("/").split("/")}
    url["path"] = [part.replace("{", ":").replace("}", "") for part in url["path"]]
    ids = [each for each in parameters if each["in"] == "path"]
    if ids:
        url["variable"] = [{"key": each["name"], "value": ""} for each in ids]
    query = [each for each in parameters if each["in"] == "query"]
    if query:
        url["query"] = [
            {"key": each["name"], "value": "", "description": each.get("description", ""), "disabled": True}
            for each in query
        ]
    url["raw"] = "{{base_url}}/" + "/".join(url["path"])
    headers = []
    if operation.get("security"):
        headers.append({"key": "Authorization", "value": f"{scheme} {{{{{credential}}}}}"})
    made = {"method": method.upper(), "header": headers, "url": url}
    content = resolved(document, operation.get("requestBody", {})).get("content", {})
    body = content.get("application/json")
    if body:
        headers.append({"key": "Content-Type", "value": "application/json"})
        raw = json.dumps(body.get("example", {}), indent=2, ensure_ascii=False)
        made["body"] = {"mode": "raw", "raw": raw}
    made["description"] = operation.get("description", "")
    return {"name": operation["summary"].rstrip("."), "request": made}


def folders(door: tuple):
    document = json.loads((GOLDEN / door[0]).read_text())
    for tag in document["tags"]:
        items = [
            request(document, door, path, method, item[method])
            for path, item in document["paths"].items()
            for method in METHODS
            if method in item and item[method]["tags"][0] == tag["name"]
        ]
        yield {"name": tag["name"], "description": tag.get("description", ""), "item": items}


def collection() -> str:
    made = {
        "info": {
            "name": "cardswitch",
            "description": "Set `base_url`, `access_token` and `network_key`; `cardswitch init` prints both.",
            "schema": SCHEMA,
        },
        "variable": [
            {"key": "base_url", "value": "http://127.0.0.1:8080"},
            {"key": "access_token", "value": ""},
            {"key": "network_key", "value": ""},
        ],
        "item": [folder for door in DOORS for folder in folders(door)],
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    if sys.argv[1:] == ["--check"]:
        if COLLECTION.read_text() == collection():
            return 0
        print(f"{COLLECTION} is not what the documents say: run tools/collection.py")
        return 1
    if sys.argv[1:]:
        print(__doc__)
        return 2
    COLLECTION.write_text(collection())
    return 0


if __name__ == "__main__":
    sys.exit(main())
