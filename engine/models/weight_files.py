"""Which files of a folder hold the weights. Standard library only."""

import re
from pathlib import Path

from engine.errors import ModelError
from engine.models.json_file import read_json_object

INDEX = "model.safetensors.index.json"
SUPPORTED = "safetensors and GGUF weights are supported"
SHARD = re.compile(r"-(\d+)-of-(\d+)\.safetensors$")


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder; raises ModelError if one is missing or there is none."""
    if (folder / INDEX).is_file():
        return _indexed(folder)
    single = folder / "model.safetensors"
    files = [single] if single.is_file() else sorted(folder.glob("model*.safetensors"))
    if not files:
        raise ModelError(f"{folder}: {_what_is_there_instead(folder)}")
    _require_all_shards(files)
    return files


def config_file(folder: Path) -> Path:
    """config.json of a folder; raises ModelError if it is not there."""
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder}: config.json is missing{_gguf_hint(folder)}")
    return folder / "config.json"


def _indexed(folder: Path) -> list[Path]:
    weight_map = read_json_object(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(x, str) for x in weight_map.values()):
        raise ModelError(f"{folder / INDEX}: weight_map must name a file for each tensor")
    files = [folder / name for name in sorted(set(weight_map.values()))]
    for file in files:
        if not file.is_file():
            raise ModelError(f"{folder}: shard {file.name} is missing; {INDEX} names it")
    return files


def _require_all_shards(files: list[Path]) -> None:
    match = SHARD.search(files[0].name)
    if match and len(files) != int(match[2]):
        raise ModelError(f"{files[0].parent}: {len(files)} of {int(match[2])} shards are there")


def _what_is_there_instead(folder: Path) -> str:
    hint = _gguf_hint(folder)
    if hint:
        return f"no safetensors here{hint}"
    for pattern in ("*.bin", "*.pth", "*.pt", "*.npz"):
        if any(folder.glob(pattern)):
            return f"only {pattern} weights here; {SUPPORTED}"
    return f"no weights here; {SUPPORTED}"


def _gguf_hint(folder: Path) -> str:
    files = sorted(folder.glob("*.gguf"))
    return f"; give the path of the GGUF file itself: {files[0]}" if files else ""
