"""Holds the models of this project beside transformers (extra `parity`: torch, transformers).

python tests/parity/record.py            write recorded/*.json and checkpoints/*
python tests/parity/record.py --check    compute transformers' answers again and compare
                                         them with the records and with this project's models
--smollm2 FILE                           the GGUF file; default: the model store's
"""

import argparse
import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script: the checkout's root

from engine.models import load_model
from tests.parity import hugging_face, octavo_answers
from tests.parity.compare import differences
from tests.parity.prompts import tiny_prompts
from tests.parity.records import (
    NUM_NEW_TOKENS,
    Record,
    RopeRecord,
    load_records,
    load_rope_records,
    save_records,
    save_rope_records,
)
from tests.parity.rope_configs import rope_configs
from tests.parity.tiny_models import FOLDER, tiny_models

log = logging.getLogger("parity")


def main() -> int:
    """Returns 1 if something differs."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--smollm2", type=Path, help="SmolLM2's GGUF file")
    options = parser.parse_args()
    hugging_face.prepare()
    path = options.smollm2 or _stored_smollm2()
    return _check(path) if options.check else _record(path)


def _stored_smollm2() -> Path:
    from server.store.model_store import resolve_model  # noqa: PLC0415 - only without --smollm2

    return resolve_model("smollm2").path


def _record(smollm2: Path) -> int:
    save_rope_records(_rope_answers())
    for name, model in tiny_models().items():
        hugging_face.save_tiny_checkpoint(model, FOLDER / name)
        save_records(name, _tiny_answers(name))
    save_records("smollm2", _smollm2_answers(smollm2))
    return 0


def _check(smollm2: Path) -> int:
    found = [] if _rope_answers() == load_rope_records() else ["rope: the records are out of date"]
    for name in tiny_models():
        found += _compare(name, _tiny_answers(name), FOLDER / name)
    found += _compare("smollm2", _smollm2_answers(smollm2), smollm2)
    for line in found:
        log.error("%s", line)
    log.info("%d differences", len(found))
    return 1 if found else 0


def _compare(name: str, expected: list[Record], path: Path) -> list[str]:
    model = load_model(path).model
    found = []
    for number, (live, kept) in enumerate(zip(expected, load_records(name), strict=True)):
        ours = octavo_answers.answer(model, live.prompt, NUM_NEW_TOKENS)
        lines = [f"record: {line}" for line in differences(live, kept)] + differences(live, ours)
        found += [f"{name}, prompt {number}: {line}" for line in lines]
    log.info("%s: %d prompts of %d new tokens compared", name, len(expected), NUM_NEW_TOKENS)
    return found


def _rope_answers() -> list[RopeRecord]:
    return [hugging_face.rope_record(config) for config in rope_configs()]


def _tiny_answers(name: str) -> list[Record]:
    model = hugging_face.load_folder(FOLDER / name)
    return [hugging_face.answer(model, prompt) for prompt in tiny_prompts(model.config.vocab_size)]


def _smollm2_answers(path: Path) -> list[Record]:
    model = hugging_face.load_gguf(path)
    return [hugging_face.answer(model, prompt) for prompt in hugging_face.smollm2_prompts(path)]


if __name__ == "__main__":
    sys.exit(main())
