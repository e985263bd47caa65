"""docs/operations.md tells what is so: sizes, metrics, alerts, flags."""

import re
from pathlib import Path

import mlx.core as mx
import pytest
import yaml
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from engine.build import kv_shape
from engine.config import EngineConfig, KVDtype
from engine.kv_storage import KVShape
from engine.models.loading import load_model
from server.flags import SERVE_FLAGS
from server.text.tokenizer import Tokenizer
from tests.support.http_app import make_app

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
RULES = yaml.safe_load((ROOT / "deploy/prometheus/rules.yml").read_text(encoding="utf-8"))
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}


def table(title: str) -> list[list[str]]:
    """The rows of a section's table, without its head."""
    section = TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1:]]


def shown_name(family: Metric) -> str:
    """As the table writes it: a counter with its ending, and the labels of what has some."""
    name = f"{family.name}_total" if family.type == "counter" else family.name
    labels = {label for sample in family.samples for label in sample.labels} - {"le"}
    return f"{name}{{{','.join(sorted(labels))}}}" if labels else name


def metrics_of(tokenizer: Tokenizer) -> list[Metric]:
    text = make_app(tokenizer).metrics.render().decode()
    return list(text_string_to_metric_families(text))


def test_every_metric_is_explained_and_no_other(tokenizer: Tokenizer) -> None:
    listed = [row[0].strip("`") for row in table("Metrics")]
    families = metrics_of(tokenizer)
    without_samples = {f"{family.name}_total" for family in families if not family.samples}
    shown = {
        name.partition("{")[0] if name.partition("{")[0] in without_samples else name
        for name in listed
    }
    assert shown == {shown_name(family) for family in families}
    assert len(listed) == len(set(listed))


def test_the_alerts_of_a_metric_are_those_that_read_it() -> None:
    for name, _, alerts in table("Metrics"):
        plain = name.strip("`").partition("{")[0]
        reads = re.compile(rf"\b{plain}(_bucket|_sum|_count)?\b")
        wanted = {alert for alert, rule in ALERTS.items() if reads.search(rule["expr"])}
        assert set(filter(None, alerts.split(", "))) == wanted, name


def test_every_alert_has_advice_and_its_severity() -> None:
    rows = {row[0]: row[1] for row in table("Alerts")}
    assert rows == {name: rule["labels"]["severity"] for name, rule in ALERTS.items()}


def test_every_flag_that_is_named_exists() -> None:
    flags = {flag.name for group in SERVE_FLAGS for flag in group.flags}
    named = set(re.findall(r"`(--[a-z-]+)", TEXT.replace("`octavo bench --help`", "")))
    assert named
    assert named <= flags


@pytest.mark.parametrize("row", table("Sizing"), ids=lambda row: row[0])
def test_the_bytes_of_a_token_are_those_of_the_code(row: list[str]) -> None:
    layers, kv_heads, head_dim, float32, float16 = map(int, row[1:])
    for dtype, size in ((mx.float32, float32), (mx.float16, float16)):
        assert KVShape(layers, kv_heads, head_dim, 1, dtype).bytes_per_page == size


def test_the_worked_example_is_that_of_the_default_model(smollm2_path: Path) -> None:
    config = EngineConfig(kv_cache_bytes=2**30, page_size=16, kv_dtype=KVDtype.FLOAT32)
    shape = kv_shape(load_model(smollm2_path).model.spec, config)
    per_page = shape.bytes_per_page
    pages = config.kv_cache_bytes // per_page
    for_1000 = -(-1000 // config.page_size)
    for line in (
        f"2 * {shape.num_layers} * {shape.num_kv_heads} * {shape.head_dim} * 4 = {per_page // 16} "
        f"bytes a token,  16 tokens = {per_page} bytes a page",
        f"1 GiB = {pages} pages;  a request of 1000 tokens takes {for_1000} pages;  "
        f"{pages // for_1000} such requests fit at once",
        f"at most {pages} pages of 16 tokens, {per_page} bytes each (1024 MiB): "
        f"{pages // (2048 // 16)} requests\nof 2048 tokens fit",
    ):
        assert line in TEXT
