"""The tokenizer inside a GGUF file is the one that the file was made with."""

import struct
from pathlib import Path

import gguf
import pytest

from engine.errors import ModelError
from server.text.gguf_metadata import read_gguf_metadata
from server.text.tokenizer import Tokenizer
from server.text.tokenizer_loading import load_tokenizer
from tests.support.tiny_gguf import tiny_gguf
from tests.support.tiny_tokenizer import write_tokenizer
from tests.support.tokenizer_families import SPECIAL, family, family_json

TEXTS = [
    "hello, the world's 123 pages",
    "<|im_start|>user\nhi<|im_end|>",
    "  two  spaces\n\n and\ttabs \r\n",
    "日本語 😀 é don't I'LL",
    "",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("parse_special", [True, False])
def test_a_byte_level_vocabulary_gives_the_ids_of_its_folder(
    tmp_path: Path, text: str, parse_special: bool
) -> None:
    write_tokenizer(tmp_path)
    from_folder = load_tokenizer(tmp_path)
    from_file = load_tokenizer(tiny_gguf(tmp_path / "tiny.gguf"))
    ids = from_file.encode(text, add_special=True, parse_special=parse_special)
    assert ids == from_folder.encode(text, add_special=True, parse_special=parse_special)
    assert from_file.decode(ids, skip_special=False) == text


def test_named_tokens_and_template_come_along(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    from_folder = load_tokenizer(tmp_path)
    from_file = load_tokenizer(tiny_gguf(tmp_path / "tiny.gguf"))
    assert from_file.bos_token_id == from_folder.bos_token_id
    assert from_file.eos_token_ids == from_folder.eos_token_ids
    assert from_file.has_chat_template


def write_vocabulary(path: Path, kind: str, tokens: list[str], **keys: object) -> Tokenizer:
    """A GGUF file of a vocabulary alone, read back."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(kind)
    writer.add_token_list(tokens)
    types = [
        gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in tokens
    ]
    writer.add_token_types(types)
    for key, value in keys.items():
        name = f"tokenizer.ggml.{key}"
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, list):
            writer.add_array(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return load_tokenizer(path)


def sentence_pieces(path: Path, family_name: str, **keys: object) -> Tokenizer:
    """A SentencePiece family as GGUF has it: the merges are told by scores."""
    model = family_json(family_name)["model"]
    assert isinstance(model, dict)
    tokens = list(model["vocab"])
    ranks = {left + right: rank for rank, (left, right) in enumerate(model["merges"])}
    scores = [float(-ranks.get(token, 10_000)) for token in tokens]
    named = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
    return write_vocabulary(path, "llama", tokens, scores=scores, **named, **keys)


@pytest.mark.parametrize(("name", "prefix"), [("llama", True), ("gemma", False)])
@pytest.mark.parametrize("text", ["the leading", "a  b", "don 't ,", "日本 😀 é", "<s>a</s>the"])
def test_a_sentencepiece_vocabulary_gives_the_ids_of_its_folder(
    tmp_path: Path, name: str, prefix: bool, text: str
) -> None:
    ours = sentence_pieces(tmp_path / "x.gguf", name, add_space_prefix=prefix)
    ids = ours.encode(text, add_special=True, parse_special=True)
    assert ids == family(name).encode(text, add_special=True, parse_special=True)
    assert ours.decode(ids, skip_special=True) == family(name).decode(ids, skip_special=True)


def test_a_sentencepiece_vocabulary_wants_a_begin_token_unless_it_says_no(tmp_path: Path) -> None:
    assert sentence_pieces(tmp_path / "a.gguf", "llama").adds_bos
    assert not sentence_pieces(tmp_path / "b.gguf", "llama", add_bos_token=False).adds_bos


def byte_level(path: Path, pre: str) -> Tokenizer:
    model = family_json("byte_level")["model"]
    assert isinstance(model, dict)
    merges = [" ".join(pair) for pair in model["merges"]]
    named = {"bos_token_id": 1, "eos_token_id": 2, "eot_token_id": 3}
    return write_vocabulary(path, "gpt2", list(model["vocab"]), merges=merges, pre=pre, **named)


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "llama-bpe", "qwen2"])
def test_every_supported_pre_tokenizer_keeps_the_text(tmp_path: Path, pre: str) -> None:
    tokenizer = byte_level(tmp_path / "x.gguf", pre)
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special=True, parse_special=False)
        assert tokenizer.decode(ids, skip_special=True) == text


def test_an_end_of_turn_token_ends_a_text_too(tmp_path: Path) -> None:
    assert byte_level(tmp_path / "x.gguf", "gpt-2").eos_token_ids == {2, 3}


def test_an_unknown_pre_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"pre-tokenizer 'klingon'; supported are gpt-2"):
        byte_level(tmp_path / "x.gguf", "klingon")


def test_an_unknown_kind_of_vocabulary_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="tokenizer 'bert'; gpt2 and llama are supported"):
        write_vocabulary(tmp_path / "x.gguf", "bert", ["a"])


def test_a_vocabulary_without_merges_names_the_key(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no tokenizer\.ggml\.merges"):
        write_vocabulary(tmp_path / "x.gguf", "gpt2", ["a"])


def test_metadata_reads_as_the_gguf_package_reads_it(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf")
    theirs = {
        key: field.contents()
        for key, field in gguf.GGUFReader(path).fields.items()
        if not key.startswith("GGUF.")
    }
    assert read_gguf_metadata(path) == theirs


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cannot be read as GGUF"),
        (b"PK\x03\x04 and so on", "not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 9, 0, 0), "GGUF version 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1), "cut off"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62), "cut off"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<I", 77), "type 77"),
    ],
)
def test_a_file_that_is_no_gguf_is_one_line_that_names_it(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=rf"broken\.gguf: .*{words}"):
        load_tokenizer(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"absent\.gguf"):
        load_tokenizer(tmp_path / "absent.gguf")
