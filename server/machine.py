"""What the machine offers, found without loading anything."""

import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.config import Device

_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Machine:
    """What defaults follow from."""

    default_device: Device
    available_memory: int  # bytes


def this_machine() -> Machine:
    return Machine(default_device(), available_memory())


def default_device() -> Device:
    """The GPU of a Mac with Apple silicon, the CPU of anything else."""
    is_apple_silicon = sys.platform == "darwin" and platform.machine() == "arm64"
    return Device.GPU if is_apple_silicon else Device.CPU


def available_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = _CGROUP) -> int:
    """Bytes that can be taken without swapping; where the system does not tell, all there are.

    A container's limit counts where it is tighter.
    """
    free = _meminfo_available(meminfo) or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _cgroup_available(cgroup)
    return free if limit is None else min(free, limit)


def _meminfo_available(path: Path) -> int | None:
    for line in _lines(path):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024  # "kB" in the file are KiB
    return None


def _cgroup_available(folder: Path) -> int | None:
    """What is left of a container's limit (cgroup v2)."""
    limit, used = _lines(folder / "memory.max"), _lines(folder / "memory.current")
    if not limit or not used or not limit[0].isdigit():  # "max" is no limit
        return None
    return max(int(limit[0]) - int(used[0]), 0)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
