"""The tokenizer that belongs to a model on disk."""

from pathlib import Path

from server.text.gguf_tokenizer import tokenizer_from_gguf
from server.text.tokenizer import Tokenizer
from server.text.tokenizer_folder import tokenizer_from_folder


def load_tokenizer(model: Path) -> Tokenizer:
    """The tokenizer of a GGUF file or of a Hugging Face folder.

    Raises ModelError, in one line that names the file, where there is none that can be used.
    """
    return tokenizer_from_folder(model) if model.is_dir() else tokenizer_from_gguf(model)
