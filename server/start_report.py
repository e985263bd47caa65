"""What the server says of itself once it can serve: the settings in force, and what fits."""

import logging
from dataclasses import asdict
from pathlib import Path

from engine.config import SpeculationConfig
from engine.device import DeviceReport
from engine.engine_stats import EngineLimits, EngineStats
from server.config import ListenConfig, ServeConfig
from server.flag_reading import NGRAM
from server.store.model_store import ModelSource
from server.version import version

log = logging.getLogger(__name__)

_SAMPLE_TOKENS = 2048  # of the request that the report counts in, where the model allows so many
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def report_start(
    config: ServeConfig,
    source: ModelSource,
    device: DeviceReport,
    limits: EngineLimits,
    stats: EngineStats,
) -> None:
    """One line on what computes, one on what fits, and one with every setting."""
    log.info(
        "octavo %s: %s on the %s (%s, %s, %s, MLX %s)",
        version(),
        source.path,
        device.device.value,
        device.name,
        device.instruction_level,
        _counted(device.threads, "thread"),
        device.mlx_version,
    )
    log.info("KV cache: %s", _room(limits, stats))
    in_force = {"threads": device.threads, "max_model_len": limits.max_model_len}
    settings = (settings_of(config) | in_force).items()
    log.info("settings: %s", " ".join(f"{name}={value}" for name, value in settings))


def warn_at_start(
    config: ServeConfig, limits: EngineLimits, stats: EngineStats, available_memory: int
) -> None:
    """Of settings that can be meant, and mostly are not.

    `available_memory` is in bytes, with the model loaded and the KV cache empty.
    """
    asked = config.engine.max_model_len
    if asked is not None and asked > limits.max_model_len:
        log.warning(
            "--max-model-len %d has no effect: a request may have %s", asked, limits.longest_and_why
        )
    budget = stats.page_budget * stats.bytes_per_page
    if budget > available_memory:
        log.warning(
            "the KV cache may grow to %s, and only %s of memory are available: "
            "choose a smaller --kv-cache-memory",
            _shown_bytes(budget),
            _shown_bytes(available_memory),
        )
    if not config.http.api_keys and _is_public(config):
        log.warning("anyone who reaches %s can use this server: no --api-key", config.listen.host)


def _room(limits: EngineLimits, stats: EngineStats) -> str:
    tokens = min(_SAMPLE_TOKENS, limits.max_model_len)
    requests = stats.page_budget // -(-tokens // stats.page_size)
    return (
        f"at most {_counted(stats.page_budget, 'page')} of {_counted(stats.page_size, 'token')}, "
        f"{stats.bytes_per_page} bytes each ({_shown_bytes(stats.page_budget * stats.bytes_per_page)}): "
        f"{_counted(requests, 'request')} of {_counted(tokens, 'token')} "
        f"{'fits' if requests == 1 else 'fit'}; "
        f"a request may have {_counted(limits.max_model_len, 'token')}"
    )


def settings_of(config: ServeConfig) -> dict[str, object]:
    """What was asked for, by name, defaults included; of keys only their number."""
    http, engine = asdict(config.http), asdict(config.engine)
    keys = http.pop("api_keys")
    del engine["speculation"]
    settings = {
        "model": config.model,
        "device": config.device,
        "threads": config.threads,
        **engine,
        **_drafting(config.engine.speculation),
        **_address(config.listen),
        "tls": config.listen.tls is not None,
        **http,
        "api_keys": len(keys),
        "grace_seconds": config.grace_seconds,
        "log_format": config.log.format,
        "log_level": config.log.level,
    }
    return {name: _plain(value) for name, value in settings.items()}


def _drafting(speculation: SpeculationConfig | None) -> dict[str, object]:
    if speculation is None:
        return {"speculative": None}
    how = speculation.draft_model or NGRAM
    return {"speculative": how, "max_draft_tokens": speculation.max_draft_tokens}


def _address(listen: ListenConfig) -> dict[str, object]:
    if listen.unix_socket is not None:
        return {"unix_socket": listen.unix_socket}
    return {"host": listen.host, "port": listen.port}


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or None
    return value


def _is_public(config: ServeConfig) -> bool:
    return config.listen.unix_socket is None and config.listen.host not in _LOOPBACK


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _shown_bytes(count: int) -> str:
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.4g} {unit}"
