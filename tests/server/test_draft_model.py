"""Which models may draft for which: the same tokens under the same ids, or one clear line."""

import json
from pathlib import Path

import pytest

from engine.config import EngineConfig, SpeculationConfig
from engine.errors import ModelError
from server.cli import main
from server.draft_model import with_draft_model
from server.text.tokenizer_loading import load_tokenizer
from tests.support.checkpoints import tiny_llama
from tests.support.tiny_gguf import tiny_gguf


def config(draft_model: Path | str) -> EngineConfig:
    return EngineConfig(1 << 20, speculation=SpeculationConfig(4, str(draft_model)))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_llama(tmp_path / "model")


def other_tokens(folder: Path, **changes: str) -> Path:
    """A checkpoint in whose vocabulary some tokens are spelled differently."""
    tiny_llama(folder)
    file = folder / "tokenizer.json"
    definition = json.loads(file.read_text())
    vocabulary = definition["model"]["vocab"]
    for old, new in changes.items():
        vocabulary[old], vocabulary[new] = vocabulary[new], vocabulary[old]
    file.write_text(json.dumps(definition))
    return folder


def test_a_model_with_the_same_tokens_may_draft_whatever_its_format(
    model: Path, tmp_path: Path
) -> None:
    draft = tiny_gguf(tmp_path / "draft.gguf")
    found = with_draft_model(config(draft), load_tokenizer(model))
    assert found.speculation == SpeculationConfig(4, str(draft))


@pytest.mark.parametrize("speculation", [None, SpeculationConfig(4)])
def test_without_a_draft_model_nothing_changes(
    model: Path, speculation: SpeculationConfig | None
) -> None:
    plain = EngineConfig(1 << 20, speculation=speculation)
    assert with_draft_model(plain, load_tokenizer(model)) == plain


def test_a_model_with_other_tokens_is_refused_and_the_first_of_them_named(
    model: Path, tmp_path: Path
) -> None:
    draft = other_tokens(tmp_path / "draft", a="z")
    with pytest.raises(ModelError, match=r"token 100 is 'z', the model's 'a'") as caught:
        with_draft_model(config(draft), load_tokenizer(model))
    assert "\n" not in str(caught.value)


def test_a_model_with_another_number_of_tokens_is_refused(model: Path, tmp_path: Path) -> None:
    draft = tiny_llama(tmp_path / "draft")
    file = draft / "tokenizer.json"
    definition = json.loads(file.read_text())
    added = {"id": 500, "content": "<more>", "special": True, "single_word": False}
    flags = {"lstrip": False, "rstrip": False, "normalized": False}
    definition["added_tokens"].append(added | flags)
    file.write_text(json.dumps(definition))
    with pytest.raises(ModelError, match="needs the same vocabulary"):
        with_draft_model(config(draft), load_tokenizer(model))


def test_generate_ends_with_code_2_and_one_line_for_an_unfit_draft_model(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draft = other_tokens(tmp_path / "draft", a="z")
    assert main(["generate", "--model", str(model), "--speculative", str(draft), "hello"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("octavo: --speculative")
    assert error.count("\n") == 1


def test_generate_gives_the_same_answer_with_drafts(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = []
    for how in ([], ["--speculative", "ngram"], ["--speculative", str(model)]):
        assert main(["generate", "--model", str(model), "--max-tokens", "20", *how, "hello"]) == 0
        answers.append(capsys.readouterr().out)
    assert len({*answers}) == 1
    assert answers[0].strip()
