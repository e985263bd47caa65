"""Reading a JSON object from a checkpoint's folder."""

import json
from pathlib import Path

from engine.errors import ModelError


def read_json_object(path: Path) -> dict[str, object]:
    """The object in the file; raises ModelError if it is not one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: must hold a JSON object")
    return value


def read_json_object_if_present(path: Path) -> dict[str, object]:
    """As `read_json_object`, or an empty object if there is no such file."""
    return read_json_object(path) if path.is_file() else {}
