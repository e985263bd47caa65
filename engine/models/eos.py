"""The end tokens that a Hugging Face folder names, in any of its files. Standard library only."""

from pathlib import Path

from engine.models.fields import Fields
from engine.models.json_file import read_json_object_if_present


def folder_eos_token_ids(folder: Path) -> frozenset[int]:
    """Ids from generation_config.json united with the id of the tokenizer's eos_token."""
    path = folder / "generation_config.json"
    generation = Fields(read_json_object_if_present(path), str(path))
    return generation.token_ids("eos_token_id") | _tokenizer_eos(folder)


def _tokenizer_eos(folder: Path) -> frozenset[int]:
    ids: set[int] = set()
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        token = _token_text(read_json_object_if_present(folder / file).get("eos_token"))
        if token is not None:
            ids |= _ids_of(token, folder)
    return frozenset(ids)


def _token_text(value: object) -> str | None:
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else None


def _ids_of(token: str, folder: Path) -> set[int]:
    """The id in tokenizer.json: an added token, else a word of the vocabulary."""
    tokenizer = read_json_object_if_present(folder / "tokenizer.json")
    added, model = tokenizer.get("added_tokens"), tokenizer.get("model")
    entries = added if isinstance(added, list) else []
    found = [x.get("id") for x in entries if isinstance(x, dict) and x.get("content") == token]
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if not found and isinstance(vocab, dict):
        found = [vocab.get(token)]
    return {token_id for token_id in found if isinstance(token_id, int)}
