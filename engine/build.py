"""From a checkpoint and a configuration to a running engine."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mlx.core as mx

from engine.config import EngineConfig, KVDtype
from engine.device import allow_reserved_bytes, arrays_cost_what_is_written
from engine.draft_model_proposer import DraftLimits, DraftModelProposer
from engine.engine import Engine
from engine.engine_loop import EngineLoop, StepObserver
from engine.engine_stats import EngineLimits, LengthBound
from engine.errors import ModelError
from engine.gpu_kernels import choose_kernels, kernel_format
from engine.kv_pages import WriteRows
from engine.kv_storage import KVShape, KVStorage
from engine.model_runner import ModelRunner
from engine.models import CausalLM, ModelSpec, load_model
from engine.ngram_proposer import NgramProposer
from engine.page_pool import PagePool
from engine.proposer import Proposer
from engine.request import SamplingParams
from engine.scheduler import Scheduler
from engine.step_batch import Draw, Row, StepBatch

MOST_SLOTS = 2**31 - 1  # a token's slot is an int32
CATCH_UP_SHARE = 4  # of a step's tokens, what a draft model catches up with in one round


async def build_engine(path: Path, config: EngineConfig, observer: StepObserver) -> EngineLoop:
    """Load the checkpoint at `path`, compute one token, and start serving on the running event loop.

    Everything of the device happens on one thread of its own. Raises ModelError.
    """
    device = ThreadPoolExecutor(max_workers=1, thread_name_prefix="device")
    loop = asyncio.get_running_loop()
    engine = await loop.run_in_executor(device, load_engine, path, config)
    engine_loop = EngineLoop(engine, device, observer, time.monotonic)
    engine_loop.start()
    return engine_loop


def load_engine(path: Path, config: EngineConfig) -> Engine:
    """The same without a loop; call it and `Engine.step` from one thread. Raises ModelError."""
    draft_path = config.speculation.draft_model if config.speculation else None
    model = load_model(path).model
    return make_engine(model, config, load_model(Path(draft_path)).model if draft_path else None)


def make_engine(
    model: CausalLM, config: EngineConfig, draft_model: CausalLM | None = None
) -> Engine:
    """Wire an engine around a model and warm it up.

    The K/V budget is shared with the draft model so that each gets the same number of pages: what
    the model can hold of a text, the draft model can hold too.

    The draft model's tokens must be the model's, which only their tokenizers can tell; were they
    not, its drafts would be useless and the text the same.

    Raises ModelError where the budget holds no page or a shape is beyond the kernels.
    """
    num_pages = num_pages_of(model, config, draft_model)
    return wire_engine(model, config, num_pages, _make_proposer(config, draft_model, num_pages))


def wire_engine(
    model: CausalLM, config: EngineConfig, num_pages: int, proposer: Proposer | None
) -> Engine:
    """An engine of so many pages, warm. Raises ModelError where a shape is beyond the kernels."""
    pool = PagePool(num_pages, config.page_size)
    limits = engine_limits(model.spec, config, num_pages)
    scheduler = Scheduler(config, limits, model.spec.eos_token_ids, pool)
    runner = make_runner(model, config, num_pages)
    return Engine(scheduler, runner, proposer)


def make_runner(model: CausalLM, config: EngineConfig, num_pages: int) -> ModelRunner:
    """A runner with pages of its own, warm.

    Raises ModelError where a shape is beyond the kernels, or the pages beyond the address space.
    """
    shape = kv_shape(model.spec, config)
    kernels = choose_kernels(config.attention, kernel_format(model.spec, shape.dtype))
    storage = make_storage(shape, num_pages, kernels.write_rows)
    runner = ModelRunner(model, storage, kernels.attention)
    try:
        warm_up(runner)
    except ValueError as error:
        raise ModelError(f"the kernels cannot serve this model: {error}") from error
    except (RuntimeError, MemoryError) as error:
        raise ModelError(f"not even one token can be computed: {error}") from error
    return runner


def make_storage(shape: KVShape, num_pages: int, write_rows: WriteRows) -> KVStorage:
    """Reserved where that costs no memory. Raises ModelError where the system refuses it."""
    if not arrays_cost_what_is_written():
        return KVStorage(shape, num_pages, write_rows)
    nbytes = num_pages * shape.bytes_per_page
    try:
        storage = KVStorage(shape, num_pages, write_rows, reserved=True)
    except MemoryError as error:
        raise ModelError(
            f"the system gives no address space for {num_pages:,} pages of K/V, {nbytes:,} bytes; "
            "choose a smaller budget, or allow more (ulimit -v; vm.overcommit_memory 0 or 1)"
        ) from error
    allow_reserved_bytes(nbytes)
    return storage


def num_pages_of(model: CausalLM, config: EngineConfig, draft_model: CausalLM | None = None) -> int:
    """Pages that the budget holds, each with its twin of the draft model.

    Raises ModelError for none, and for more than the kernels can number.
    """
    bytes_per_page = kv_shape(model.spec, config).bytes_per_page
    if draft_model:
        bytes_per_page += kv_shape(draft_model.spec, config).bytes_per_page
    num_pages = config.kv_cache_bytes // bytes_per_page
    if num_pages < 1:
        raise ModelError(
            f"the K/V budget of {config.kv_cache_bytes} bytes does not hold one page "
            f"of {bytes_per_page} bytes"
        )
    if num_pages * config.page_size > MOST_SLOTS:
        raise ModelError(
            f"the K/V budget of {config.kv_cache_bytes} bytes holds more than {MOST_SLOTS} tokens, "
            "as many as the kernels can tell apart; choose a smaller one"
        )
    return num_pages


def _make_proposer(
    config: EngineConfig, draft_model: CausalLM | None, num_pages: int
) -> Proposer | None:
    if draft_model:
        runner = make_runner(draft_model, config, num_pages)
        catch_up = max(config.max_num_batched_tokens // CATCH_UP_SHARE, 1)
        spec = draft_model.spec
        limits = DraftLimits(spec.max_context, spec.vocab_size, catch_up)
        return DraftModelProposer(runner, PagePool(num_pages, config.page_size), limits)
    return NgramProposer() if config.speculation else None


def kv_shape(spec: ModelSpec, config: EngineConfig) -> KVShape:
    return KVShape(
        num_layers=spec.num_layers,
        num_kv_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        page_size=config.page_size,
        dtype=mlx_dtype(config.kv_dtype),
    )


def engine_limits(spec: ModelSpec, config: EngineConfig, num_pages: int) -> EngineLimits:
    """A request can be as long as the model, the configuration and the whole pool allow."""
    lengths = [
        (spec.max_context, LengthBound.MODEL),
        (num_pages * config.page_size, LengthBound.PAGES),
    ]
    if config.max_model_len is not None:
        lengths.append((config.max_model_len, LengthBound.SETTING))
    longest, bound = min(lengths, key=lambda length: length[0])
    return EngineLimits(longest, config.max_num_seqs, spec.vocab_size, bound)


def mlx_dtype(dtype: KVDtype) -> mx.Dtype:
    match dtype:
        case KVDtype.FLOAT32:
            return mx.float32
        case KVDtype.FLOAT16:
            return mx.float16
        case KVDtype.BFLOAT16:
            return mx.bfloat16


def warm_up(runner: ModelRunner) -> None:
    """Compute one token in page 0, which nobody holds yet, so that the first request waits for nothing."""
    draw = Draw(SamplingParams(max_tokens=1, temperature=0.0), index=0, position=1)
    row = Row("warm-up", (0,), start=0, page_ids=(0,), slots=(0,), draws=(draw,))
    runner.run(StepBatch((row,), num_pages=1))
