"""The device that computes, and how many threads share the work of one CPU operation."""

from dataclasses import dataclass
from importlib.metadata import version

import mlx.core as mx

import metal
from engine.config import Device
from engine.errors import ModelError


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """What computes here, for people to read."""

    device: Device
    name: str
    mlx_version: str
    instruction_level: str  # of the CPU kernels
    threads: int


def select_device(device: Device, threads: int | None = None) -> None:
    """Compute there from now on; `threads` None keeps every core. Raises ModelError without a GPU."""
    if device is Device.GPU and not mx.metal.is_available():
        raise ModelError("no GPU that MLX can use on this machine; choose --device cpu")
    mx.set_default_device(mx.gpu if device is Device.GPU else mx.cpu)
    if threads is not None:
        metal.set_num_threads(threads)


def arrays_cost_what_is_written() -> bool:
    """Whether the parts of a large array that nobody has written take no memory.

    So where the system backs an array piece by piece. Where there is Metal every array is a
    buffer of the GPU, which may have to be resident as a whole.
    """
    return not mx.metal.is_available()


def allow_reserved_bytes(nbytes: int) -> None:
    """Let MLX hold so many bytes more before it makes steps wait for memory to be given back.

    It counts a reserved array as memory in use, written or not.
    """
    mx.set_memory_limit(mx.get_memory_limit() + nbytes)


def report_device() -> DeviceReport:
    on_gpu = mx.default_device().type == mx.DeviceType.gpu
    return DeviceReport(
        device=Device.GPU if on_gpu else Device.CPU,
        name=str(mx.device_info().get("device_name", "unknown")),
        mlx_version=version("mlx"),
        instruction_level=metal.instruction_level(),
        threads=metal.num_threads(),
    )
