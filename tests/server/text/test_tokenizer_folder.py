"""The tokenizer of a Hugging Face folder is the one that transformers makes of it."""

import json
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from engine.errors import ModelError
from server.text.chat_template import render_chat
from server.text.tokenizer_loading import load_tokenizer
from tests.support.tiny_tokenizer import (
    CHAT_TEMPLATE,
    END_OF_TEXT_ID,
    TURN_END_ID,
    TURN_START_ID,
    write_tokenizer,
)
from tests.support.tokenizer_families import FAMILIES, family_json

MESSAGES = [
    {"role": "system", "content": "the page"},
    {"role": "user", "content": " hello, 12 worlds  don't "},
    {"role": "assistant", "content": "quick brown\n\nfox 日本 😀"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tokenizer(tmp_path)
    return tmp_path


def edit(folder: Path, file: str, **changes: object) -> None:
    path = folder / file
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**before, **changes}))


@pytest.mark.parametrize("add_generation_prompt", [True, False])
def test_a_chat_is_rendered_as_transformers_renders_it(
    folder: Path, add_generation_prompt: bool
) -> None:
    theirs = PreTrainedTokenizerFast.from_pretrained(folder)
    expected = theirs.apply_chat_template(
        MESSAGES, add_generation_prompt=add_generation_prompt, return_dict=False
    )
    ids = render_chat(
        load_tokenizer(folder),
        MESSAGES,
        add_generation_prompt=add_generation_prompt,
        continue_final=False,
        template_kwargs={},
    )
    assert ids == expected


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("text", ["the leading", "<s>a</s> b", "don 't ,", "日本 😀"])
def test_a_text_is_encoded_and_decoded_as_transformers_does(
    tmp_path: Path, name: str, text: str
) -> None:
    edit(tmp_path, "tokenizer.json", **family_json(name))
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer(tmp_path)
    ids = ours.encode(text, add_special=False, parse_special=True)
    assert ids == theirs.encode(text, add_special_tokens=False)
    decoded = theirs.decode(ids, clean_up_tokenization_spaces=False)
    assert ours.decode(ids, skip_special=False) == decoded


def test_spaces_are_not_cleaned_up_though_the_folder_asks_for_it(folder: Path) -> None:
    """Case B05."""
    edit(folder, "tokenizer_config.json", clean_up_tokenization_spaces=True)
    tokenizer = load_tokenizer(folder)
    ids = tokenizer.encode("don 't , x .", add_special=False, parse_special=False)
    assert tokenizer.decode(ids, skip_special=True) == "don 't , x ."


def test_all_files_together_name_the_end_tokens(folder: Path) -> None:
    edit(folder, "config.json", eos_token_id=7)
    edit(folder, "generation_config.json", eos_token_id=[8, END_OF_TEXT_ID])
    assert load_tokenizer(folder).eos_token_ids == {7, 8, END_OF_TEXT_ID, TURN_END_ID}


def test_the_begin_token_may_stand_in_the_models_configuration_alone(folder: Path) -> None:
    edit(folder, "tokenizer_config.json", bos_token=None, add_bos_token=True)
    edit(folder, "config.json", bos_token_id=END_OF_TEXT_ID)
    ids = load_tokenizer(folder).encode("", add_special=True, parse_special=False)
    assert ids == [END_OF_TEXT_ID]


def test_a_token_may_be_written_with_its_flags(folder: Path) -> None:
    edit(folder, "tokenizer_config.json", bos_token={"content": "<|im_start|>", "lstrip": False})
    tokenizer = load_tokenizer(folder)
    assert tokenizer.bos_token_id == TURN_START_ID
    assert tokenizer.named_tokens["bos_token"] == "<|im_start|>"


def template_of(folder: Path) -> str | None:
    template = load_tokenizer(folder).chat_template
    return None if template is None else template.source


def test_a_template_in_its_own_file_comes_first(folder: Path) -> None:
    assert template_of(folder) == CHAT_TEMPLATE
    edit(folder, "chat_template.json", chat_template="from json")
    assert template_of(folder) == "from json"
    (folder / "chat_template.jinja").write_text("from jinja")
    assert template_of(folder) == "from jinja"


def test_of_several_templates_the_default_counts(folder: Path) -> None:
    several = [{"name": "tools", "template": "t"}, {"name": "default", "template": "d"}]
    edit(folder, "tokenizer_config.json", chat_template=several)
    assert template_of(folder) == "d"
    edit(folder, "tokenizer_config.json", chat_template=several[:1])
    assert not load_tokenizer(folder).has_chat_template


def test_the_folder_needs_no_file_but_the_vocabulary(folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    tokenizer = load_tokenizer(folder)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_ids) == (None, frozenset())
    assert not tokenizer.has_chat_template


def test_a_folder_without_a_vocabulary_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(b"")
    with pytest.raises(ModelError, match=r"has tokenizer\.model but no tokenizer\.json"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]", b'{"eos_token_id": "x"}'])
@pytest.mark.parametrize("file", ["tokenizer.json", "generation_config.json"])
def test_a_broken_file_is_one_line_that_names_it(folder: Path, file: str, content: bytes) -> None:
    (folder / file).write_bytes(content)
    with pytest.raises(ModelError, match=file) as caught:
        load_tokenizer(folder)
    assert "\n" not in str(caught.value)
