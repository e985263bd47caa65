"""From parsed flags to frozen configuration, and what flags contradict each other."""

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from engine.config import AttentionKind, Device, EngineConfig, KVDtype, SpeculationConfig
from server.config import (
    ListenConfig,
    LogConfig,
    LogFormat,
    ServeConfig,
    ServerConfig,
    TlsFiles,
)
from server.machine import Machine

NGRAM = "ngram"  # the value of --speculative that needs no model
API_KEY_VARIABLE = "OCTAVO_API_KEY"


class FlagError(Exception):
    """Flags that cannot be used together, or a flag whose file is wrong; the message names it."""


def serve_config(flags: Namespace, environment: Mapping[str, str], machine: Machine) -> ServeConfig:
    """Raises FlagError."""
    device = device_of(flags, machine)
    return ServeConfig(
        model=flags.model,
        listen=_listen(flags),
        http=_http(flags, environment),
        engine=engine_config(flags, device, machine),
        device=device,
        threads=flags.threads,
        grace_seconds=flags.grace,
        log=LogConfig(LogFormat(flags.log_format), flags.log_level),
    )


def device_of(flags: Namespace, machine: Machine) -> Device:
    return machine.default_device if flags.device == "auto" else Device(flags.device)


def engine_config(flags: Namespace, device: Device, machine: Machine) -> EngineConfig:
    on_gpu = device is Device.GPU
    kv_dtype = KVDtype(flags.kv_dtype or (KVDtype.FLOAT16 if on_gpu else KVDtype.FLOAT32))
    # On a CPU steps of 128 tokens compute a prompt nearly as fast as steps of 512, and hold up
    # who waits for a token less than half as long.
    usual = max(2048 if on_gpu else 128, 2 * flags.max_num_seqs)
    max_num_batched_tokens = flags.max_num_batched_tokens or usual
    if max_num_batched_tokens <= flags.max_num_seqs:
        raise FlagError(
            f"argument --max-num-batched-tokens: {max_num_batched_tokens} must be above "
            f"--max-num-seqs, {flags.max_num_seqs}: a step has a token for each sequence and "
            "some for a prompt"
        )
    return EngineConfig(
        kv_cache_bytes=flags.kv_cache_memory.of(machine.available_memory),
        page_size=flags.page_size or (32 if on_gpu else 16),
        max_num_seqs=flags.max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_queue=flags.max_queue,
        max_model_len=flags.max_model_len,
        kv_dtype=kv_dtype,
        attention=AttentionKind(flags.attention),
        prefix_cache=not flags.no_prefix_cache,
        speculation=_speculation(flags),
    )


def _speculation(flags: Namespace) -> SpeculationConfig | None:
    if flags.speculative is None:
        if flags.max_draft_tokens is not None:
            raise FlagError("argument --max-draft-tokens: needs --speculative")
        return None
    draft_model = None if flags.speculative.lower() == NGRAM else flags.speculative
    return SpeculationConfig(flags.max_draft_tokens or 8, draft_model)


def _listen(flags: Namespace) -> ListenConfig:
    if flags.uds is not None and (flags.host is not None or flags.port is not None):
        raise FlagError("argument --uds: cannot be used with --host or --port")
    return ListenConfig(
        host="127.0.0.1" if flags.host is None else flags.host,
        port=8000 if flags.port is None else flags.port,
        unix_socket=flags.uds,
        tls=_tls(flags.tls_cert, flags.tls_key),
    )


def _tls(certificate: Path | None, key: Path | None) -> TlsFiles | None:
    if certificate is None and key is None:
        return None
    if certificate is None:
        raise FlagError("argument --tls-key: needs --tls-cert")
    if key is None:
        raise FlagError("argument --tls-cert: needs --tls-key")
    return TlsFiles(certificate, key)


def _http(flags: Namespace, environment: Mapping[str, str]) -> ServerConfig:
    return ServerConfig(
        served_model_name=flags.served_model_name or "",
        api_keys=_api_keys(flags, environment),
        cors_origins=tuple(flags.cors_origin),
        max_body_bytes=flags.max_body_size,
        request_timeout=flags.request_timeout,
        keepalive_seconds=flags.keepalive,
        log_prompts=flags.log_prompts,
        dashboard=not flags.no_dashboard,
        debug_endpoints=flags.debug_endpoints,
    )


def _api_keys(flags: Namespace, environment: Mapping[str, str]) -> tuple[str, ...]:
    sources = {"--api-key": list(flags.api_key)}
    if flags.api_key_file is not None:
        sources["--api-key-file"] = _keys_in(flags.api_key_file)
    if environment.get(API_KEY_VARIABLE):
        sources[API_KEY_VARIABLE] = [environment[API_KEY_VARIABLE]]
    for source, keys in sources.items():
        for key in keys:
            _check_key(source, key)
    return tuple(dict.fromkeys(key for keys in sources.values() for key in keys))


def key_to_send(given: str | None, environment: Mapping[str, str]) -> str | None:
    """The key that a client sends: `given`, or else the environment's. Raises FlagError."""
    if given:
        _check_key("--api-key", given)
        return given
    key = environment.get(API_KEY_VARIABLE) or None
    if key:
        _check_key(API_KEY_VARIABLE, key)
    return key


def _keys_in(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FlagError(f"argument --api-key-file: {path} cannot be read as text") from error
    keys = [line.strip() for line in lines if line.strip()]
    if not keys:
        raise FlagError(f"argument --api-key-file: {path} holds no key")
    return keys


def _check_key(source: str, key: str) -> None:
    """A key travels in a header: printable ASCII without spaces. The key itself is never shown."""
    if not key.isascii() or not key.isprintable() or " " in key:
        raise FlagError(f"argument {source}: a key must be printable ASCII without spaces")
