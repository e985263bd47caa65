"""`octavo doctor`: is everything here that a server needs? One line for each answer."""

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import ModelError
from server.config import ListenConfig
from server.listener import ListenError, listen
from server.machine import available_memory
from server.store.model_store import DEFAULT_MODEL, cache_folder, is_fetched
from server.version import version

_BROKEN_KERNEL = "octavo serves without this kernel, slower; please report these lines"
_SMALLEST_MEMORY = 1 << 30  # bytes; the default model in float32 and a small KV cache


@dataclass(frozen=True, slots=True)
class Finding:
    """`remedy` is empty where all is well."""

    what: str
    remedy: str = ""


def examine(findings: Sequence[Finding]) -> int:
    """Prints every finding; returns 0 if all is well, else 1."""
    for finding in findings:
        print(f"{'FAIL' if finding.remedy else 'ok  '}  {finding.what}")
        if finding.remedy:
            print(f"      {finding.remedy}")
    return int(any(finding.remedy for finding in findings))


def findings() -> list[Finding]:
    return [
        Finding(f"octavo {version()}, Python {platform.python_version()} in {sys.prefix}"),
        Finding(f"{_system()} on {platform.machine()}"),
        _kernels(),
        *_gpu_kernels(),
        _memory(),
        port_finding(ListenConfig()),
        _default_model(),
    ]


def _system() -> str:
    macos = platform.mac_ver()[0]  # empty elsewhere
    return f"macOS {macos}" if macos else f"{platform.system()} {platform.release()}"


def _kernels() -> Finding:
    """The extension is found, fits this MLX, and computes."""
    try:
        from engine.device import report_device  # noqa: PLC0415 - the finding is whether it imports

        report = report_device()
    except (ImportError, ModelError) as error:
        return Finding("the kernels do not load", str(error))
    return Finding(
        f"MLX {report.mlx_version} on the {report.device.value} ({report.name}); "
        f"kernels: {report.instruction_level}, threads: {report.threads}"
    )


def _gpu_kernels() -> list[Finding]:
    """The self-test of the GPU's kernels; with the lines before it, a report that anyone can paste."""
    try:
        from engine.gpu_kernels import self_test  # noqa: PLC0415 - needs the kernels, which may not load
    except ImportError:
        return []  # _kernels() says so
    tested = self_test()
    if tested is None:
        return [Finding("no GPU that MLX can use: the CPU computes")]
    return [Finding(check.line, "" if check.passed else _BROKEN_KERNEL) for check in tested]


def _memory() -> Finding:
    available = available_memory()
    what = f"{available / (1 << 30):.1f} GiB of memory available"
    return Finding(what, "" if available >= _SMALLEST_MEMORY else "free some: 1 GiB is the least")


def port_finding(config: ListenConfig) -> Finding:
    try:
        listen(config).close()
    except ListenError as error:
        return Finding(str(error), "stop what listens there, or choose another --port")
    return Finding(f"port {config.port} of {config.host} is free")


def _default_model() -> Finding:
    if is_fetched(DEFAULT_MODEL):
        return Finding(f"{DEFAULT_MODEL} is in {cache_folder()}")
    return Finding(f"{DEFAULT_MODEL} is not fetched yet; octavo pull or octavo serve will do it")
