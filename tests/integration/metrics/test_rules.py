"""deploy/prometheus and deploy/grafana, as promtool and the documents themselves see them."""

import json
import re

import pytest
import yaml

from edgelora.local_stack.layout import SERVICES
from edgelora.local_stack.ports import FIRST_METRICS_PORT, HOST
from tests.support.prometheus import (
    ALERTS,
    ROOT,
    grafana_expressions,
    needs_prometheus,
    promtool,
)

pytestmark = [pytest.mark.integration, needs_prometheus]

TESTS = ROOT / "deploy/prometheus/alerts.test.yml"
DASHBOARD = ROOT / "deploy/grafana/dashboards/edgelora.json"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("name", ["prometheus.yml", "local.yml"])
def test_the_configurations_are_valid(name):
    done = promtool("check", "config", ROOT / "deploy/prometheus" / name)
    assert done.returncode == 0, done.stderr
    assert f"{len(RULES)} rules found".encode() in done.stdout


def test_the_targets_are_where_the_services_are():
    def targets(name):
        document = yaml.safe_load((ROOT / "deploy/prometheus" / name).read_text())
        ((job,),) = [document["scrape_configs"]]
        assert job["job_name"] == "edgelora"
        return {each["labels"]["process"]: each["targets"] for each in job["static_configs"]}

    usual = enumerate(SERVICES, FIRST_METRICS_PORT)
    assert targets("local.yml") == {name: [f"{HOST}:{port}"] for port, name in usual}
    # The port that docs/metrics.md and docker-compose.yml give to all containers.
    assert targets("prometheus.yml") == {name: [f"{name}:9464"] for name in SERVICES}


def test_every_alert_fires_when_it_must_alone_and_not_before():
    done = promtool("test", "rules", TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_such_a_test_and_says_what_to_do():
    fired = re.findall(r'alertname="(\w+)"', TESTS.read_text())
    assert sorted(fired) == sorted(rule["alert"] for rule in RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: re.sub(r"^ +for: .*\n", "", text, flags=re.M),
        lambda text: text.replace("== 1", "== 2"),
        lambda text: text.replace("> 0.95", "> 0.5"),
    ],
)
def test_the_tests_of_the_alerts_can_fail(change, tmp_path):
    (tmp_path / ALERTS.name).write_text(change(ALERTS.read_text()))
    (tmp_path / TESTS.name).write_text(TESTS.read_text())
    assert promtool("test", "rules", tmp_path / TESTS.name).returncode != 0


def test_promtool_parses_every_expression_of_the_dashboard(tmp_path):
    expressions = grafana_expressions(json.loads(DASHBOARD.read_text()))
    assert len(expressions) > 100
    rules = [{"record": f"panel:{n}", "expr": each} for n, each in enumerate(expressions)]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = promtool("check", "rules", file)
    assert done.returncode == 0, done.stderr
    rules[0]["expr"] += ")"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert promtool("check", "rules", file).returncode != 0


def test_the_dashboard_is_one_grafana_takes():
    """By its published schema: what a provisioned dashboard needs."""
    document = json.loads(DASHBOARD.read_text())
    panels = document["panels"]
    assert document["uid"]
    assert document["schemaVersion"] >= 36
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & places, panel["title"]
        places |= cells
        if panel["type"] == "row":
            continue
        assert panel["datasource"]["uid"] == "${datasource}"
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) > 0
    variables = {variable["name"] for variable in document["templating"]["list"]}
    used = set(re.findall(r"\$\{?(?!__)(\w+)", DASHBOARD.read_text()))
    assert used == variables


def test_grafana_finds_prometheus_and_the_dashboard():
    provisioning = ROOT / "deploy/grafana/provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((provisioning / "dashboards/edgelora.yml").read_text())[
        "providers"
    ]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    targets = [config["target"] for config in compose["services"]["grafana"]["configs"]]
    assert f"{provider['options']['path']}/edgelora.json" in targets
