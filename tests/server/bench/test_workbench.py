"""What the measured engine is before anything is measured."""

from pathlib import Path

import pytest

from engine.models import load_model
from server.bench.workbench import Workbench, prefill_steps
from tests.support.checkpoints import tiny_llama


@pytest.mark.parametrize("backed_pages", [1, 5, 40])
def test_backed_pages_have_memory_from_the_beginning(tmp_path: Path, backed_pages: int) -> None:
    model = load_model(tiny_llama(tmp_path)).model
    stats = Workbench(model, num_tokens=100, backed_pages=backed_pages).stats()
    assert stats.page_capacity >= backed_pages
    assert stats.page_budget == max(7, backed_pages)


def test_a_prompt_takes_as_many_steps_as_it_has_chunks(tmp_path: Path) -> None:
    model = load_model(tiny_llama(tmp_path)).model
    assert len(prefill_steps(model, prompt_tokens=41, tokens_per_step=4)) == 11
