"""Prometheus reads the server, and every expression of rules and dashboard finds data."""

import json
import math
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from tests.support.live_server import PATIENCE, LiveServer, live_server
from tests.support.prometheus import FOLDER, PACKAGE, Prometheus, prometheus, write_configuration
from tests.support.real_parts import program

KEY = "a-key-of-this-test"
GRAFANA = FOLDER.parent / "grafana"
DASHBOARD = GRAFANA / "dashboards/octavo.json"
RULES = yaml.safe_load((FOLDER / "rules.yml").read_text(encoding="utf-8"))["groups"]
ALERTS = {rule["alert"]: rule["expr"] for group in RULES for rule in group["rules"]}
CASES = Path(__file__).parent / "alerts_test.yml"


def panels() -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return found


def dashboard_expressions() -> list[str]:
    """As Grafana sends them: every replica, and the window of a fast scrape."""
    targets = [target["expr"] for panel in panels() for target in panel["targets"]]  # type: ignore[attr-defined]
    return [
        expression.replace("$instance", ".*").replace("$__rate_interval", "20s")
        for expression in targets
    ]


def adapter_query() -> str:
    """What the autoscaler of deploy/kubernetes asks for, of replicas instead of pods."""
    text = (FOLDER.parent / "kubernetes/prometheus-adapter.yaml").read_text(encoding="utf-8")
    (rule,) = yaml.safe_load(text)["rules"]["custom"]
    query: str = rule["metricsQuery"]
    for placeholder, value in (
        ("<<.Series>>", rule["name"]["as"]),
        ("<<.LabelMatchers>>", 'job="octavo"'),
        ("<<.GroupBy>>", "instance"),
    ):
        assert placeholder in query
        query = query.replace(placeholder, value)
    return query


def alert_values() -> list[str]:
    """What the alerts compare: 0 or 1 where the alert itself would tell nothing."""
    comparisons = [
        part for text in ALERTS.values() for part in re.split(r" and (?:on \(\w+\) )?", text)
    ]
    return [re.sub(r"(==|!=|>|<) ([\d.]+)$", r"\1 bool \2", text) for text in comparisons]


def promtool(*arguments: str, stdin: str = "") -> str:
    command = [program("promtool", PACKAGE), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@dataclass(frozen=True)
class Watched:
    """A server, and the Prometheus that scrapes it."""

    server: LiveServer
    prometheus: Prometheus

    def work(self) -> None:
        """A request, now and then one of many tokens at once."""
        body = {"model": "tiny", "prompt": [5] * 40, "max_tokens": 40, "ignore_eos": True}
        url = f"{self.server.url}/v1/completions"
        key = {"authorization": f"Bearer {KEY}"}
        assert httpx.post(url, json=body, headers=key, timeout=PATIENCE).status_code == 200

    def numbers(self, expression: str) -> list[float]:
        """What the expression tells, with as much load as it takes until it tells a number."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = [value for value in self.prometheus.query(expression) if not math.isnan(value)]
            if found:
                return found
            self.work()
        raise AssertionError(f"no data: {expression}")


@pytest.fixture(scope="module")
def watched(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("prometheus")
    flags = ("--api-key", KEY, "--kv-cache-memory=64MiB", "--max-model-len=4096")
    with live_server(tiny_model, *flags) as server:
        target = server.url.removeprefix("http://")
        with prometheus(folder, target, KEY) as running:
            yield Watched(server, running)


def test_the_server_is_scraped_with_its_key(watched: Watched) -> None:
    assert watched.numbers('up{job="octavo"} == 1') == [1]
    assert watched.numbers("octavo_generated_tokens_total > 0")


def test_every_expression_of_dashboard_and_autoscaler_finds_data_under_load(
    watched: Watched,
) -> None:
    expressions = [*dashboard_expressions(), adapter_query()]
    assert len(expressions) > 20
    for expression in expressions:
        assert all(math.isfinite(value) for value in watched.numbers(expression)), expression


def test_every_expression_of_the_alerts_finds_data_and_none_fires(watched: Watched) -> None:
    for expression in alert_values():
        assert " bool " in expression
        assert set(watched.numbers(expression)) <= {0, 1}, expression
    assert watched.prometheus.rules() == dict.fromkeys(ALERTS, "ok inactive")


def test_promtool_likes_the_metrics(watched: Watched) -> None:
    watched.work()
    key = {"authorization": f"Bearer {KEY}"}
    text = httpx.get(f"{watched.server.url}/metrics", headers=key, timeout=PATIENCE).text
    assert promtool("check", "metrics", stdin=text) == ""


def test_promtool_likes_configuration_and_rules(tmp_path: Path) -> None:
    config = write_configuration(tmp_path, "127.0.0.1:1", KEY)
    assert f"{len(ALERTS)} rules found" in promtool("check", "config", str(config))
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", str(FOLDER / "rules.yml"))


def test_every_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    write_configuration(tmp_path, "127.0.0.1:1", KEY)
    cases = tmp_path / CASES.name
    cases.write_text(CASES.read_text(encoding="utf-8"))
    promtool("test", "rules", str(cases))
    tests = yaml.safe_load(cases.read_text(encoding="utf-8"))["tests"]
    steps = [step for test in tests for step in test["alert_rule_test"]]
    assert {step["alertname"] for step in steps if step["exp_alerts"]} == set(ALERTS)
    assert {step["alertname"] for step in steps if not step["exp_alerts"]} == set(ALERTS)


def test_the_dashboard_reads_whichever_prometheus_is_chosen_at_its_head() -> None:
    file = GRAFANA / "provisioning/datasources/prometheus.yaml"
    (source,) = yaml.safe_load(file.read_text(encoding="utf-8"))["datasources"]
    choice, *others = json.loads(DASHBOARD.read_text(encoding="utf-8"))["templating"]["list"]
    assert (choice["type"], choice["query"]) == ("datasource", source["type"])
    chosen = {"type": source["type"], "uid": f"${{{choice['name']}}}"}
    assert all(part["datasource"] == chosen for part in [*others, *panels()])
    assert others


def test_every_panel_has_a_number_of_its_own() -> None:
    assert len({panel["id"] for panel in panels()}) == len(panels())
