"""The models answer as transformers does: the same greedy tokens, logprobs to 1e-3.

record.py made the records from the same weights in float32.
"""

from pathlib import Path

import pytest

from engine.models import CausalLM, load_model
from tests.parity import octavo_answers
from tests.parity.compare import differences, top_differences
from tests.parity.records import NUM_NEW_TOKENS, Record, load_records
from tests.parity.tiny_models import FOLDER, tiny_models

TINY_RECORDS = {
    f"{name}-{number}": (name, record)
    for name in tiny_models()
    for number, record in enumerate(load_records(name))
}
SMOLLM2_RECORDS = load_records("smollm2")


@pytest.fixture(scope="module")
def tiny() -> dict[str, CausalLM]:
    return {name: load_model(FOLDER / name).model for name in tiny_models()}


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> CausalLM:
    return load_model(smollm2_path).model


@pytest.mark.parametrize("case", TINY_RECORDS)
def test_a_tiny_model_answers_token_for_token(tiny: dict[str, CausalLM], case: str) -> None:
    name, record = TINY_RECORDS[case]
    answer = octavo_answers.answer(tiny[name], record.prompt, NUM_NEW_TOKENS)
    assert differences(record, answer) == []


@pytest.mark.parametrize("record", SMOLLM2_RECORDS, ids=range(len(SMOLLM2_RECORDS)))
def test_smollm2_finds_every_recorded_token_likeliest(smollm2: CausalLM, record: Record) -> None:
    assert len(record.tokens) == NUM_NEW_TOKENS
    assert top_differences(record, octavo_answers.reread(smollm2, record)) == []


@pytest.mark.parametrize("number", [4])
def test_smollm2_writes_the_recorded_tokens_itself(smollm2: CausalLM, number: int) -> None:
    record = SMOLLM2_RECORDS[number]
    answer = octavo_answers.answer(smollm2, record.prompt, 16)
    assert differences(record, answer) == []


def test_the_records_hold_ten_prompts_and_five_tokens_a_step() -> None:
    for name in [*tiny_models(), "smollm2"]:
        records = load_records(name)
        assert len(records) == 10
        assert {len(record.tokens) for record in records} == {NUM_NEW_TOKENS}
        assert {len(step) for record in records for step in record.top} == {5}
