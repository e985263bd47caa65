"""From the words on a command line to values; each raises ArgumentTypeError, which names the flag."""

import math
import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%|[KMGT]i?B|B)?", re.IGNORECASE)
# As browsers write them: no path, no name of a user.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
_DEFAULT_PORTS = MappingProxyType({"http": ":80", "https": ":443"})
_UNITS = ("B", "KIB", "MIB", "GIB", "TIB")

IntParser = Callable[[str], int]
FloatParser = Callable[[str], float]


@dataclass(frozen=True, slots=True)
class Memory:
    """A size in bytes, or a share of what is available."""

    size: int | None = None
    share: Fraction | None = None

    def of(self, available: int) -> int:
        """In bytes, on a machine with so many available."""
        if self.size is not None:
            return self.size
        assert self.share is not None, "one of the two is given"
        return int(self.share * available)


def whole(low: int, high: int | None = None) -> IntParser:
    """Whole numbers from `low` to `high`."""
    wanted = f"a whole number from {low} on" if high is None else f"a whole number, {low} to {high}"

    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", text.strip()):
            raise ArgumentTypeError(f"{text!r} is not {wanted}")
        value = int(text)
        if value < low or (high is not None and value > high):
            raise ArgumentTypeError(f"{text} is not {wanted}")
        return value

    return parse


def number(low: float, high: float = math.inf, *, above: bool = False) -> FloatParser:
    """Finite numbers from `low` to `high`; with `above`, `low` itself is none of them."""
    wanted = f"a number {'above' if above else 'from'} {low:g}"
    wanted += "" if high == math.inf else f" to {high:g}"

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not low <= value <= high or (above and value == low):
            raise ArgumentTypeError(f"{text!r} is not {wanted}")
        return value

    return parse


def size(text: str) -> int:
    """Bytes, as in "4MiB". "4MB" means the same: memory is counted in powers of 1024."""
    memory = memory_size(text)
    if memory.size is None:
        raise ArgumentTypeError(f"{text!r} is not a size such as 4MiB")
    return memory.size


def memory_size(text: str) -> Memory:
    """Bytes, as in "2GiB", or a share of the available memory, as in "40%"."""
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise ArgumentTypeError(f"{text!r} is not a size such as 2GiB or 40%")
    amount, unit = Fraction(found[1]), (found[2] or "B").upper()
    if unit == "%":
        if not 0 < amount <= 100:
            raise ArgumentTypeError(f"{text!r} is not a share above 0% and up to 100%")
        return Memory(share=amount / 100)
    power = _UNITS.index(unit if "I" in unit or unit == "B" else f"{unit[0]}IB")
    value = int(amount * 1024**power)
    if value < 1:
        raise ArgumentTypeError(f"{text!r} is less than one byte")
    return Memory(size=value)


def one_of(*words: str) -> Callable[[str], str]:
    """One of the words, in any case."""

    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ArgumentTypeError(f"{text!r} is none of {', '.join(words)}")
        return text.lower()

    return parse


def origin(text: str) -> str:
    """An origin as browsers send it, in lower case and without its scheme's own port; or "*"."""
    found = text.strip().lower()
    if found != "*" and not _ORIGIN.fullmatch(found):
        raise ArgumentTypeError(f"{text!r} is no origin such as https://chat.example, and not *")
    return found.removesuffix(_DEFAULT_PORTS.get(found.partition(":")[0], ""))


def not_empty(text: str) -> str:
    if not text.strip():
        raise ArgumentTypeError("must not be empty")
    return text
