"""Figures, rules and the dashboard as Prometheus and Grafana read them: their own parsers take all of it."""

import json
import pathlib
import re
import urllib.request

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "observability"
# The values that Grafana puts in place of its variables.
VARIABLES = {"$__rate_interval": "5m", "$instance": ".*", "$job": "cardswitch"}
SEVERITIES = {"page", "ticket"}


def rules() -> list[dict]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard_expressions() -> list[str]:
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    found = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    for variable, value in VARIABLES.items():
        found = [expression.replace(variable, value) for expression in found]
    return found


def families(switch) -> dict:
    with urllib.request.urlopen(f"http://{switch.metrics}/metrics") as answer:
        text = answer.read().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_prometheus_reads_every_figure(switch):
    switch.get("/v1/company")
    found = families(switch)
    assert {found[f"cardswitch_{name}"].type for name in ("ready", "queued_commands")} == {"gauge"}
    assert found["cardswitch_authorizations"].type == "counter"
    for family in found.values():
        assert family.documentation, f"{family.name} says what it is"
        assert family.type != "unknown", f"{family.name} says what kind it is"
        if family.type == "histogram":
            assert_histogram(family)
    stages = {sample.labels["stage"] for sample in found["cardswitch_stage_seconds"].samples}
    assert stages == {"decode", "queue", "decide", "journal", "reply"}


def assert_histogram(family):
    """Bounds rise, counts never fall, and the last bucket holds all."""
    series = {}
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        one = series.setdefault(json.dumps(labels, sort_keys=True), {"buckets": []})
        if sample.name.endswith("_bucket"):
            one["buckets"].append((float(sample.labels["le"]), sample.value))
        else:
            one[sample.name.rsplit("_", 1)[1]] = sample.value
    for labels, one in series.items():
        bounds, counts = zip(*one["buckets"])
        assert list(bounds) == sorted(set(bounds)) and bounds[-1] == float("inf"), labels
        assert list(counts) == sorted(counts) and counts[-1] == one["count"], labels
        assert one["sum"] >= 0, labels


@pytest.mark.parametrize("expression", dashboard_expressions())
def test_prometheus_understands_the_dashboard(expression):
    promql_parser.parse(expression)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_rules_are_whole(rule):
    promql_parser.parse(rule["expr"])
    assert rule["labels"]["severity"] in SEVERITIES
    assert rule["annotations"]["summary"] and rule["annotations"]["description"]
    assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))


def test_names_of_rules_are_their_own():
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 10


def test_the_dashboard_has_panels_of_their_own_places():
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
