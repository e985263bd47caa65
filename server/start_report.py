"""What the server says of itself once it can serve: the settings in force, and what fits."""

import logging
from dataclasses import asdict
from pathlib import Path

from engine.config import SpeculationConfig
from engine.device import DeviceReport
from engine.engine_stats import EngineLimits, EngineStats
from server.config import ServeConfig
from server.flag_reading import NGRAM
from server.store.model_store import ModelSource
from server.version import version

log = logging.getLogger(__name__)

_SAMPLE_TOKENS = 2048  # of the request that the report counts in
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
        "octavo %s: %s on the %s (%s, %s, %d threads, MLX %s)",
        version(),
        source.path,
        device.device.value,
        device.name,
        device.instruction_level,
        device.threads,
        device.mlx_version,
    )
    log.info(
        "KV cache: at most %d pages of %d tokens, %d bytes each (%s): "
        "%d requests of %d tokens fit; a request may have %d tokens",
        stats.page_budget,
        stats.page_size,
        stats.bytes_per_page,
        _shown_bytes(stats.page_budget * stats.bytes_per_page),
        stats.page_budget // -(-_SAMPLE_TOKENS // stats.page_size),
        _SAMPLE_TOKENS,
        limits.max_model_len,
    )
    in_force = {"threads": device.threads, "max_model_len": limits.max_model_len}
    settings = (settings_of(config) | in_force).items()
    log.info("settings: %s", " ".join(f"{name}={value}" for name, value in settings))
    if not config.http.api_keys and _is_public(config):
        log.warning("anyone who reaches %s can use this server: no --api-key", config.listen.host)


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
        "host": config.listen.host,
        "port": config.listen.port,
        "unix_socket": config.listen.unix_socket,
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


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or None
    return value


def _is_public(config: ServeConfig) -> bool:
    return config.listen.unix_socket is None and config.listen.host not in _LOOPBACK


def _shown_bytes(count: int) -> str:
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.4g} {unit}"
