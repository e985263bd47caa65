"""What /metrics shows, and that it keeps Prometheus' conventions."""

import re
from dataclasses import replace

import httpx
from prometheus_client.parser import text_string_to_metric_families

from engine.draft_counters import DraftStats
from engine.engine_stats import StepReport
from server.api.metrics import Metrics
from server.text.tokenizer import Tokenizer
from tests.support.http_app import App, completion, in_memory, make_app

NAMES = {
    "octavo_pages": "gauge",
    "octavo_page_budget": "gauge",
    "octavo_page_capacity": "gauge",
    "octavo_kv_fragmentation_ratio": "gauge",
    "octavo_kv_unused_tail_bytes": "gauge",
    "octavo_requests_running": "gauge",
    "octavo_requests_waiting": "gauge",
    "octavo_pool_growths": "counter",
    "octavo_kv_copied_bytes": "counter",
    "octavo_page_copies": "counter",
    "octavo_preemptions": "counter",
    "octavo_evictions": "counter",
    "octavo_prefix_query_tokens": "counter",
    "octavo_prefix_hit_tokens": "counter",
    "octavo_requests": "counter",
    "octavo_prompt_tokens": "counter",
    "octavo_generated_tokens": "counter",
    "octavo_drafted_tokens": "counter",
    "octavo_accepted_tokens": "counter",
    "octavo_rewound_tokens": "counter",
    "octavo_rewound_pages": "counter",
    "octavo_proposer_failures": "counter",
    "octavo_drafted_by_place": "counter",
    "octavo_accepted_by_place": "counter",
    "octavo_time_to_first_token_seconds": "histogram",
    "octavo_inter_token_seconds": "histogram",
    "octavo_queue_seconds": "histogram",
    "octavo_request_seconds": "histogram",
    "octavo_step_seconds": "histogram",
    "octavo_step_tokens": "histogram",
}


async def scrape(client: httpx.AsyncClient) -> dict[str, float]:
    """Every sample, by its name and labels as written."""
    response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in response.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def families(metrics: Metrics) -> dict[str, tuple[str, str]]:
    """Type and help of every family, as a scraper parses them."""
    text = metrics.render().decode()
    return {f.name: (f.type, f.documentation) for f in text_string_to_metric_families(text)}


def test_every_metric_is_there_under_its_name_and_type(app: App) -> None:
    assert {name: kind for name, (kind, _) in families(app.metrics).items()} == NAMES


def test_names_keep_to_the_conventions(app: App) -> None:
    text = app.metrics.render().decode()
    for name, (kind, documentation) in families(app.metrics).items():
        assert re.fullmatch(r"octavo_[a-z_]+", name)
        assert documentation.endswith(".")
        assert not re.search(r"_(milliseconds|ms|kilobytes|percent|count|sum|info)$", name)
        assert (f"# TYPE {name}_total counter" in text) == (kind == "counter")
        assert f"# HELP {name}" in text


async def test_pages_are_told_by_state_and_add_up(client: httpx.AsyncClient) -> None:
    found = await scrape(client)
    states = [found[f'octavo_pages{{state="{state}"}}'] for state in ("free", "used", "cached")]
    assert states == [90, 4, 6]
    assert found["octavo_page_budget"] == 100
    assert found["octavo_page_capacity"] == 32
    assert found["octavo_kv_fragmentation_ratio"] == 8 / 64
    assert found["octavo_kv_unused_tail_bytes"] == 8 * 1024 / 16


async def test_the_engines_counters_are_read_at_each_scrape(
    client: httpx.AsyncClient, app: App
) -> None:
    await client.post("/v1/completions", json=completion(max_tokens=4))
    assert (await scrape(client))["octavo_generated_tokens_total"] == 4
    await client.post("/v1/completions", json=completion(max_tokens=3))
    found = await scrape(client)
    assert found["octavo_generated_tokens_total"] == 7
    assert found["octavo_evictions_total"] == 5
    assert found["octavo_requests_running"] == len(app.engine.live) == 0


def test_drafts_are_told_by_outcome_and_place(app: App) -> None:
    drafts = DraftStats((5, 4), (3, 1), rewound_pages=2, proposer_failures=1)
    metrics = Metrics()
    metrics.watch(lambda: replace(app.engine.stats(), drafts=drafts))
    found = {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if "draft" in sample.name or "accepted" in sample.name or "rewound" in sample.name
    }
    assert found == {
        "octavo_drafted_tokens_total": 9,
        "octavo_accepted_tokens_total": 4,
        "octavo_rewound_tokens_total": 5,
        "octavo_rewound_pages_total": 2,
        "octavo_drafted_by_place_total 1": 5,
        "octavo_drafted_by_place_total 2": 4,
        "octavo_accepted_by_place_total 1": 3,
        "octavo_accepted_by_place_total 2": 1,
    }
    assert metrics.registry.get_sample_value("octavo_proposer_failures_total") == 1


async def test_copied_bytes_are_told_by_what_copied_them(client: httpx.AsyncClient) -> None:
    found = await scrape(client)
    name = "octavo_kv_copied_bytes_total"
    parts = [found[f'{name}{{part="{part}"}}'] for part in ("growth", "pages", "gather")]
    assert parts == [2048, 512, 64]


async def test_tokens_and_requests_are_timed(client: httpx.AsyncClient) -> None:
    await client.post("/v1/completions", json=completion(max_tokens=4, n=2))
    await client.post("/v1/completions", json=completion(n=0))
    found = await scrape(client)
    assert found["octavo_time_to_first_token_seconds_count"] == 1
    assert found["octavo_inter_token_seconds_count"] == 2 * 3
    assert found["octavo_request_seconds_count"] == 2
    assert found['octavo_requests_total{outcome="completed"}'] == 1
    assert found['octavo_requests_total{outcome="refused"}'] == 1
    assert found['octavo_requests_total{outcome="failed"}'] == 0


def test_steps_are_observed(app: App) -> None:
    app.metrics.step(StepReport(seconds=0.03, num_tokens=17, queue_seconds=(0.5, 1.5)))
    value = app.metrics.registry.get_sample_value
    assert value("octavo_step_seconds_sum") == 0.03
    assert value("octavo_step_tokens_sum") == 17
    assert value("octavo_queue_seconds_count") == 2
    assert value("octavo_queue_seconds_sum") == 2.0


async def test_two_apps_count_for_themselves(tokenizer: Tokenizer) -> None:
    """No state outside an app: two of them, in turns, in one process."""
    first, second = make_app(tokenizer), make_app(tokenizer)
    async with in_memory(first) as one, in_memory(second) as other:
        for _ in range(2):
            await one.post("/v1/completions", json=completion(max_tokens=1))
        await other.post("/v1/completions", json=completion(max_tokens=1))
        counts = [
            (await scrape(client))['octavo_requests_total{outcome="completed"}']
            for client in (one, other)
        ]
    assert counts == [2, 1]
