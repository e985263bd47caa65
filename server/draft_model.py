"""The draft model of --speculative: found like any model, and held to the vocabulary of the served one."""

from dataclasses import replace

from engine.config import EngineConfig
from engine.errors import ModelError
from server.store.model_store import resolve_model
from server.text.tokenizer import Tokenizer
from server.text.tokenizer_loading import load_tokenizer


def with_draft_model(config: EngineConfig, tokenizer: Tokenizer) -> EngineConfig:
    """The same configuration with the draft model's path in the place of its name.

    Raises ModelError where there is no such model, or its tokens are not those of `tokenizer`.
    """
    speculation = config.speculation
    if speculation is None or speculation.draft_model is None:
        return config
    source = resolve_model(speculation.draft_model)
    _check_vocabulary(tokenizer, load_tokenizer(source.path), speculation.draft_model)
    return replace(config, speculation=replace(speculation, draft_model=str(source.path)))


def _check_vocabulary(tokenizer: Tokenizer, drafting: Tokenizer, name: str) -> None:
    if drafting.vocab_size != tokenizer.vocab_size:
        raise ModelError(
            f"--speculative {name}: its tokenizer has {drafting.vocab_size} tokens, the model's "
            f"{tokenizer.vocab_size}; a draft model needs the same vocabulary"
        )
    for token_id in range(tokenizer.vocab_size):
        if _spelling(tokenizer, token_id) != _spelling(drafting, token_id):
            raise ModelError(
                f"--speculative {name}: its token {token_id} is "
                f"{drafting.token_text(token_id)!r}, the model's {tokenizer.token_text(token_id)!r}; "
                "a draft model needs the same vocabulary"
            )


def _spelling(tokenizer: Tokenizer, token_id: int) -> bytes:
    return tokenizer.visible_bytes(token_id, skip_special=False)
