"""What transformers answered: greedy tokens and likeliest tokens of each step, kept as JSON."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "recorded"
NUM_NEW_TOKENS = 64
NUM_TOP = 5


@dataclass(frozen=True)
class Record:
    """One prompt and its greedy continuation.

    `top[i]` holds the likeliest tokens at step i, best first, as (token id, log probability).
    """

    prompt: list[int]
    tokens: list[int]
    top: list[list[tuple[int, float]]]


@dataclass(frozen=True)
class RopeRecord:
    """Inverse frequencies and attention factor that transformers computes for a config."""

    config: dict[str, object]
    inverse_frequencies: list[float]
    attention_factor: float


def save_records(name: str, records: list[Record]) -> None:
    """Writes one line per record, so that a change reads well in a diff."""
    lines = ",\n".join(json.dumps(asdict(record), separators=(",", ":")) for record in records)
    (FOLDER / f"{name}.json").write_text(f"[\n{lines}\n]\n")


def load_records(name: str) -> list[Record]:
    return [
        Record(item["prompt"], item["tokens"], [[tuple(x) for x in step] for step in item["top"]])
        for item in json.loads((FOLDER / f"{name}.json").read_text())
    ]


def save_rope_records(records: list[RopeRecord]) -> None:
    lines = ",\n".join(json.dumps(asdict(record)) for record in records)
    (FOLDER / "rope.json").write_text(f"[\n{lines}\n]\n")


def load_rope_records() -> list[RopeRecord]:
    return [RopeRecord(**item) for item in json.loads((FOLDER / "rope.json").read_text())]
