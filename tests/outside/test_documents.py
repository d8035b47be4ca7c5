"""The published documents as other tools read them: linters, a validator, a generator of clients."""

import importlib
import json
import os
import pathlib
import subprocess
import sys

import openapi_schema_validator
import pytest
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

HERE = pathlib.Path(__file__).resolve().parent
LINTERS = HERE / "node_modules" / ".bin"
PATHS = ["/openapi.json", "/network/v1/openapi.json"]


@pytest.fixture(params=PATHS, ids=["company", "network"])
def document(request, switch, tmp_path) -> pathlib.Path:
    file = tmp_path / "openapi.json"
    file.write_bytes(switch.get(request.param))
    return file


def run(*arguments) -> subprocess.CompletedProcess:
    environment = os.environ | {"REDOCLY_TELEMETRY": "off", "NO_COLOR": "1"}
    return subprocess.run(
        [str(argument) for argument in arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_spectral_finds_nothing(document):
    ruleset = HERE / "spectral.yaml"
    ran = run(LINTERS / "spectral", "lint", "--ruleset", ruleset, "--format", "json", "--quiet", document)
    assert json.loads(ran.stdout) == [], ran.stderr


def test_redocly_finds_nothing(document):
    config = HERE / "redocly.yaml"
    ran = run(LINTERS / "redocly", "lint", "--config", config, "--format", "json", document)
    found = json.loads(ran.stdout)
    assert found["totals"] == {"errors": 0, "warnings": 0, "ignored": 0}, json.dumps(found, indent=1)


def each_object(value, place=""):
    """Every object within a value, with where it is."""
    if isinstance(value, dict):
        yield place, value
        for key, inner in value.items():
            yield from each_object(inner, f"{place}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from each_object(inner, f"{place}/{index}")


def contents(document: dict):
    """Every content of a body or an answer: where it is, its media type, and what is said of it."""
    for place, value in each_object(document):
        content = value.get("content")
        if isinstance(content, dict) and "/properties" not in place:
            for media_type, media in content.items():
                yield f"{place}/content", media_type, media


def examples(document: dict):
    """Every example, with where its schema is."""
    for place, media_type, media in contents(document):
        place = f"{place}/{media_type.replace('/', '~1')}/schema"
        if "example" in media:
            yield place, media["example"]
        for example in media.get("examples", {}).values():
            yield place, example["value"]
    for place, value in each_object(document):
        is_schema = place.startswith("/components/schemas/") or "/schema" in place
        if is_schema and "/example" not in place and not place.endswith("/properties"):
            yield from ((place, example) for example in value.get("examples", []))
            if "example" in value:
                yield place, value["example"]
        elif "in" in value and "schema" in value and "example" in value:
            yield f"{place}/schema", value["example"]


def test_every_content_has_a_schema(document):
    read = json.loads(document.read_text())
    bare = [
        (place, media_type)
        for place, media_type, media in contents(read)
        if not media.get("schema")
    ]
    assert bare == []


def test_every_example_is_what_its_schema_allows(document):
    read = json.loads(document.read_text())
    resource = Resource(contents=read, specification=DRAFT202012)
    registry = Registry().with_resource("urn:document", resource)
    validator = openapi_schema_validator.OAS31Validator
    checker = openapi_schema_validator.oas31_format_checker
    wrong, count = [], 0
    for place, example in examples(read):
        schema = {"$ref": f"urn:document#{place}"}
        checked = validator(schema, registry=registry, format_checker=checker)
        wrong += [(place, error.message) for error in checked.iter_errors(example)]
        count += 1
    assert wrong == []
    assert count > 20, count


def generate(document: pathlib.Path, package: pathlib.Path) -> subprocess.CompletedProcess:
    """A client in Python, written to `package`."""
    return run(
        *[pathlib.Path(sys.executable).with_name("openapi-python-client"), "generate"],
        *["--path", document, "--config", HERE / "generator.yaml", "--meta", "none"],
        *["--output-path", package, "--fail-on-warning"],
    )


def test_a_generator_writes_a_client_without_a_warning(document, tmp_path):
    ran = generate(document, tmp_path / "cardswitch_client")
    assert ran.returncode == 0 and "warning" not in ran.stdout.lower(), ran.stdout + ran.stderr


def test_a_generated_client_creates_and_lists_cards(switch, tmp_path, monkeypatch):
    document = tmp_path / "openapi.json"
    document.write_bytes(switch.get("/openapi.json"))
    generate(document, tmp_path / "cardswitch_client")
    monkeypatch.syspath_prepend(tmp_path)
    library = importlib.import_module("cardswitch_client")
    cards = importlib.import_module("cardswitch_client.api.cards.create_card")
    lists = importlib.import_module("cardswitch_client.api.cards.list_cards")
    models = importlib.import_module("cardswitch_client.models")
    client = library.AuthenticatedClient(
        base_url=f"http://{switch.http}", token=switch.credentials["access_token"]
    )
    body = models.NewCard.from_dict(
        {
            "description": "Made by a generated client",
            "is_virtual": True,
            "allowance": {"amount": 25, "interval": "weekly"},
        }
    )
    card = cards.sync(client=client, body=body)
    listed = lists.sync(client=client, description="Made by a generated client")
    assert isinstance(card, models.Card)
    assert [found.id for found in listed.results] == [card.id]
