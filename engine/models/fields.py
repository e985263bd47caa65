"""Typed reading of a checkpoint's settings; every complaint is one line that names the key."""

import math
from collections.abc import Mapping

from engine.errors import ModelError


class Fields:
    """Settings by key, from config.json or GGUF metadata; `label` says where they stand.

    A key that is missing or null takes the default; without a default it is an error.
    """

    def __init__(self, values: Mapping[str, object], label: str, prefix: str = "") -> None:
        self._values = values
        self._prefix = prefix
        self.label = label

    def __contains__(self, key: str) -> bool:
        return self.raw(key) is not None

    def states(self, key: str) -> bool:
        """Whether the key stands there at all, null included."""
        return self._prefix + key in self._values

    def raw(self, key: str) -> object:
        return self._values.get(self._prefix + key)

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._present(key, default)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise self.wrong(key, "an integer")

    def size(self, key: str, default: int | None = None) -> int:
        """An integer above zero."""
        value = self.integer(key, default)
        if value > 0:
            return value
        raise self.wrong(key, "an integer above 0")

    def number(self, key: str, default: float | None = None) -> float:
        value = self._present(key, default)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise self.wrong(key, "a number")

    def number_above(self, floor: float, key: str, default: float | None = None) -> float:
        """A number above `floor`."""
        value = self.number(key, default)
        if floor < value < math.inf:
            return value
        raise self.wrong(key, f"a number above {floor:g}")

    def text(self, key: str, default: str | None = None) -> str:
        value = self._present(key, default)
        if isinstance(value, str):
            return value
        raise self.wrong(key, "a string")

    def flag(self, key: str, default: bool) -> bool:
        value = self._present(key, default)
        if isinstance(value, bool):
            return value
        raise self.wrong(key, "true or false")

    def token_ids(self, key: str) -> frozenset[int]:
        """One id, a list of ids, or none."""
        value = self.raw(key)
        ids = value if isinstance(value, list) else [] if value is None else [value]
        if all(isinstance(token_id, int) and not isinstance(token_id, bool) for token_id in ids):
            return frozenset(ids)
        raise self.wrong(key, "a token id or a list of them")

    def section(self, key: str) -> "Fields | None":
        """The nested settings under `key`, or None."""
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, dict):
            return Fields(value, f"{self.label}: {self._prefix}{key}")
        raise self.wrong(key, "an object")

    def wrong(self, key: str, expected: str) -> ModelError:
        """The error for a key whose value is not what is expected."""
        shown = repr(self.raw(key))[:80]
        return ModelError(f"{self.label}: {self._prefix}{key} must be {expected}, got {shown}")

    def _present(self, key: str, default: object) -> object:
        value = self.raw(key)
        if value is None:
            value = default
        if value is None:
            raise ModelError(f"{self.label}: {self._prefix}{key} is missing")
        return value
