"""The engine's configuration: one frozen value, read once at start."""

from dataclasses import dataclass
from enum import StrEnum


class AttentionKind(StrEnum):
    PAGED = "paged"  # the kernels read K/V in the pages
    DENSE = "dense"  # K/V is gathered from the pages, then plain attention: the oracle


class Device(StrEnum):
    CPU = "cpu"
    GPU = "gpu"


class KVDtype(StrEnum):
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"


@dataclass(frozen=True, slots=True)
class SpeculationConfig:
    """How tokens are drafted: by a second model, or by n-grams of the text itself without one."""

    max_draft_tokens: int = 8  # for one sequence in one step
    draft_model: str | None = None  # the path of its checkpoint


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Limits and choices of one engine; counts in tokens, sequences and pages.

    `kv_cache_bytes` is the budget of all layers' K and V together, a draft model's included.
    """

    kv_cache_bytes: int
    page_size: int = 16
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 512
    max_queue: int = 256
    max_model_len: int | None = None  # None: what the model allows
    kv_dtype: KVDtype = KVDtype.FLOAT32
    attention: AttentionKind = AttentionKind.PAGED
    prefix_cache: bool = True
    speculation: SpeculationConfig | None = None
