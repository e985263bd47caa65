"""The server's configuration: frozen values, read once at start."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engine.config import Device, EngineConfig


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What the HTTP side is told at start. Times in seconds, sizes in bytes."""

    served_model_name: str
    api_keys: tuple[str, ...] = ()  # none: every path is open
    cors_origins: tuple[str, ...] = ()  # none: no CORS headers at all
    max_body_bytes: int = 4 * 1024 * 1024
    request_timeout: float | None = None  # of one generation, from its admission
    keepalive_seconds: float = 10.0
    log_prompts: bool = False
    dashboard: bool = True
    debug_endpoints: bool = False


@dataclass(frozen=True, slots=True)
class TlsFiles:
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class ListenConfig:
    """Where clients connect: a TCP port, or a Unix socket if there is a path for one."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    unix_socket: Path | None = None
    tls: TlsFiles | None = None


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LogConfig:
    format: LogFormat = LogFormat.TEXT
    level: str = "info"


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """Everything that `octavo serve` was told.

    `http.served_model_name` is empty until the model is found, unless the user chose a name.
    """

    model: str
    listen: ListenConfig
    http: ServerConfig
    engine: EngineConfig
    device: Device
    threads: int | None  # None: every core
    grace_seconds: float  # for running requests, at shutdown
    log: LogConfig
