"""Runs the sweeps of `octavo bench scaling` that the command line asks for."""

from argparse import Namespace
from dataclasses import asdict

from engine.device import select_device
from engine.models import CausalLM, load_model
from server.bench.arrival import Arrival, measure_arrival
from server.bench.footprint import (
    MAX_STEPS,
    Footprint,
    checkpoint_bytes,
    measure_footprint,
    resident_bytes,
    tells_resident_bytes,
)
from server.bench.output import Tell, telling, write_json
from server.bench.plot import check_plotting, save_figure
from server.bench.scaling import SWEEPS, Sizes, Sweep
from server.bench.scaling_plot import scaling_figure
from server.bench.scaling_text import arrivals_text, footprint_text, sweep_text
from server.bench.workbench import SPARE_TOKENS
from server.flag_reading import FlagError, device_of
from server.machine import this_machine
from server.store.model_store import resolve_model


def bench_scaling(flags: Namespace) -> int:
    """Prints each sweep as it ends. Raises ModelError, FlagError, BenchError."""
    check_plotting(flags.plot)
    path = resolve_model(flags.model).path
    select_device(device_of(flags, this_machine()), flags.threads)
    memory = _wants_memory(flags)
    before = resident_bytes() if memory else 0
    model = load_model(path).model
    sizes = _sizes(flags, model)
    with telling(to_the_end=bool(flags.json or flags.plot)) as tell:
        # First: nothing else has been held and freed yet.
        weights = checkpoint_bytes(path)
        footprint = _run_memory(tell, flags, model, weights, before) if memory else None
        sweeps = _run_sweeps(tell, flags, model, sizes)
        arrivals = _run_arrivals(tell, flags, model)
        _write_files(flags, sizes, footprint, sweeps, arrivals)
    return 0


def _write_files(
    flags: Namespace,
    sizes: Sizes,
    footprint: Footprint | None,
    sweeps: list[Sweep],
    arrivals: list[Arrival],
) -> None:
    if flags.json:
        report = {
            "model": str(flags.model),
            "sizes": asdict(sizes),
            "memory": asdict(footprint) | {"ratio": footprint.ratio} if footprint else None,
            "sweeps": [asdict(sweep) for sweep in sweeps],
            "arrivals": [asdict(arrival) for arrival in arrivals],
        }
        write_json(flags.json, report)
    if flags.plot:
        figure = scaling_figure(str(flags.model), sweeps, arrivals, footprint)
        save_figure(figure, flags.plot)


def _wants_memory(flags: Namespace) -> bool:
    """Where the system does not tell, other sweeps go on without; alone it then raises BenchError."""
    return "memory" in flags.sweeps and (tells_resident_bytes() or len(flags.sweeps) == 1)


def _sizes(flags: Namespace, model: CausalLM) -> Sizes:
    longest = max(
        flags.longest + SPARE_TOKENS + flags.steps,
        flags.long_prompt + 1,
        flags.context + MAX_STEPS,
    )
    if longest > model.spec.max_context:
        raise FlagError(
            f"--longest, --long-prompt or --context needs {longest} tokens; "
            f"the model allows {model.spec.max_context}"
        )
    return Sizes(flags.max_sequences, flags.longest, flags.steps)


def _run_memory(
    tell: Tell, flags: Namespace, model: CausalLM, weights: int, before: int
) -> Footprint:
    footprint = measure_footprint(model, weights, before, flags.context)
    tell(f"{footprint_text(footprint)}\n")
    return footprint


def _run_sweeps(tell: Tell, flags: Namespace, model: CausalLM, sizes: Sizes) -> list[Sweep]:
    sweeps = []
    for name, measure in SWEEPS:
        if name in flags.sweeps:
            sweep = measure(model, sizes)
            tell(f"{sweep_text(sweep)}\n")
            sweeps.append(sweep)
    return sweeps


def _run_arrivals(tell: Tell, flags: Namespace, model: CausalLM) -> list[Arrival]:
    if "budget" not in flags.sweeps:
        return []
    arrivals = [measure_arrival(model, flags.long_prompt, budget) for budget in flags.budgets]
    tell(arrivals_text(arrivals))
    return arrivals
