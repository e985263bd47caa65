"""The lines of a start: right in number and in what they say of the address."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from engine.config import Device, EngineConfig
from engine.device import DeviceReport
from engine.engine_stats import CopiedBytes, EngineLimits, EngineStats
from server.config import ListenConfig, LogConfig, ServeConfig, ServerConfig
from server.start_report import report_start, warn_at_start
from server.store.model_store import ModelSource

CONFIG = ServeConfig(
    model="tiny",
    listen=ListenConfig(port=8123),
    http=ServerConfig("tiny"),
    engine=EngineConfig(kv_cache_bytes=1 << 20),
    device=Device.CPU,
    threads=None,
    grace_seconds=30,
    log=LogConfig(),
)

AVAILABLE = 1 << 30  # bytes


def told(
    caplog: pytest.LogCaptureFixture,
    *,
    config: ServeConfig = CONFIG,
    threads: int = 4,
    pages: int = 1000,
    max_model_len: int = 8192,
) -> str:
    stats = EngineStats(
        pages_free=pages,
        pages_used=0,
        pages_cached=0,
        page_capacity=0,
        page_size=16,
        bytes_per_page=64,
        unused_tail_slots=0,
        requests_running=0,
        requests_waiting=0,
        pool_growths=0,
        kv_copied=CopiedBytes(),
        page_copies=0,
        preemptions=0,
        evictions=0,
        prefix_query_tokens=0,
        prefix_hit_tokens=0,
        prompt_tokens=0,
        generated_tokens=0,
    )
    limits = EngineLimits(max_model_len, max_num_seqs=64, vocab_size=300)
    report_start(
        config,
        ModelSource("tiny", Path("tiny")),
        DeviceReport(Device.CPU, "a CPU", "1.0", "avx2", threads),
        limits,
        stats,
    )
    warn_at_start(config, limits, stats, AVAILABLE)
    return caplog.text


@pytest.fixture(autouse=True)
def every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_one_of_a_kind_is_told_in_the_singular(caplog: pytest.LogCaptureFixture) -> None:
    text = told(caplog, threads=1, pages=128)
    assert "avx2, 1 thread, MLX" in text
    assert "1 request of 2048 tokens fits" in text


def test_several_are_told_in_the_plural(caplog: pytest.LogCaptureFixture) -> None:
    text = told(caplog)
    assert "avx2, 4 threads, MLX" in text
    assert "at most 1000 pages of 16 tokens, 64 bytes each (62.5 KiB): " in text
    assert "7 requests of 2048 tokens fit; a request may have 8192 tokens" in text


def test_no_request_is_counted_that_is_longer_than_one_may_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = told(caplog, pages=1, max_model_len=10)
    assert "at most 1 page of 16 tokens" in text
    assert "1 request of 10 tokens fits; a request may have 10 tokens" in text


def test_the_settings_name_the_address_that_is_listened_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = told(caplog)
    assert " host=127.0.0.1 port=8123 " in text
    assert "unix_socket" not in text


def test_the_settings_of_a_unix_socket_claim_no_port(caplog: pytest.LogCaptureFixture) -> None:
    listen = ListenConfig(unix_socket=Path("/run/octavo.sock"))
    text = told(caplog, config=replace(CONFIG, listen=listen))
    assert " unix_socket=/run/octavo.sock " in text
    assert "host=" not in text
    assert "port=" not in text


@pytest.mark.parametrize(("host", "warns"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_a_missing_key_is_warned_of_where_others_can_reach_the_server(
    caplog: pytest.LogCaptureFixture, host: str, warns: bool
) -> None:
    text = told(caplog, config=replace(CONFIG, listen=ListenConfig(host)))
    assert ("can use this server: no --api-key" in text) == warns


@pytest.mark.parametrize(("pages", "warns"), [(1 << 24, False), ((1 << 24) + 1, True)])
def test_a_cache_that_may_outgrow_the_memory_is_warned_of(
    caplog: pytest.LogCaptureFixture, pages: int, warns: bool
) -> None:
    text = told(caplog, pages=pages)
    warning = "the KV cache may grow to 1 GiB, and only 1 GiB of memory are available"
    assert (warning in text) == warns


@pytest.mark.parametrize(("asked", "warns"), [(None, False), (8192, False), (8193, True)])
def test_a_longest_request_that_the_model_forbids_is_warned_of(
    caplog: pytest.LogCaptureFixture, asked: int | None, warns: bool
) -> None:
    engine = replace(CONFIG.engine, max_model_len=asked)
    text = told(caplog, config=replace(CONFIG, engine=engine))
    warning = "--max-model-len 8193 has no effect: a request may have 8192, the model's context"
    assert (warning in text) == warns
