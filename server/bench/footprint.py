"""Resident memory of a loaded model with full contexts, beside the sum of its parts."""

from dataclasses import dataclass
from pathlib import Path

from prometheus_client import ProcessCollector

from engine.models import CausalLM
from server.bench.errors import BenchError
from server.bench.workbench import Workbench

SEQUENCES, CONTEXT = 16, 1000
MAX_STEPS = 96  # three times what 16,000 tokens take: nobody ends before the last is computed


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes. `before` is of the process with its libraries; `weights` are those of the checkpoint."""

    before: int
    loaded: int
    full: int  # with the K/V of `tokens` tokens of prompts
    weights: int
    kv: int  # the pages in use then
    tokens: int

    @property
    def ratio(self) -> float:
        """What came on top of the libraries, over weights and K/V."""
        return (self.full - self.before) / (self.weights + self.kv)


def tells_resident_bytes() -> bool:
    """Linux does."""
    return any(ProcessCollector(registry=None).collect())


def resident_bytes() -> int:
    """Of this process now. Raises BenchError where the system does not tell."""
    for family in ProcessCollector(registry=None).collect():
        for sample in family.samples:
            if sample.name == "process_resident_memory_bytes":
                return int(sample.value)
    raise BenchError("the memory sweep needs /proc, which this system does not have")


def checkpoint_bytes(path: Path) -> int:
    """Of a GGUF file, or of the safetensors in a folder."""
    files = [path] if path.is_file() else path.glob("*.safetensors")
    return sum(file.stat().st_size for file in files)


def measure_footprint(
    model: CausalLM, weights: int, before: int, context: int = CONTEXT
) -> Footprint:
    """`before` was taken before the model was loaded; 16 prompts get `context` tokens each.

    They go on until the last one is computed, so that all of them hold their pages then.
    """
    loaded = resident_bytes()
    new_tokens = MAX_STEPS
    bench = Workbench(model, SEQUENCES * (context + new_tokens))
    for _ in range(SEQUENCES):
        bench.add(context, new_tokens)
    bench.answer_all()
    stats = bench.stats()
    return Footprint(
        before=before,
        loaded=loaded,
        full=resident_bytes(),
        weights=weights,
        kv=stats.pages_used * stats.bytes_per_page,
        tokens=SEQUENCES * context,
    )
