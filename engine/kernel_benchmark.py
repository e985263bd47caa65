"""The CPU kernels against what this machine can do at most, for `octavo bench kernels`."""

from dataclasses import dataclass

from engine.config import Device
from engine.device import select_device
from metal.cpu_benchmark import KernelTime, time_kernels
from metal.machine_rates import MachineRates, measure_rates


@dataclass(frozen=True, slots=True)
class KernelReport:
    """Measured in one run, so that the floors are those of the same hour and the same neighbours."""

    rates: MachineRates
    kernels: tuple[KernelTime, ...]


def benchmark_kernels(
    only: str, rounds: int, probe_bytes: int, threads: int | None = None
) -> KernelReport:
    """Times every kernel whose name contains `only`.

    `probe_bytes` is the largest buffer that the rate of reading is measured with. Raises ValueError
    for one below 64 KiB.
    """
    select_device(Device.CPU, threads)
    rates = measure_rates(probe_bytes)
    return KernelReport(rates, tuple(time_kernels(only, rounds)))
