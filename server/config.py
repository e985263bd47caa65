"""The server's configuration: one frozen value, read once at start."""

from dataclasses import dataclass


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
    debug_endpoints: bool = False
