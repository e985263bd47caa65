"""The three element types in NumPy: bfloat16 as the upper half of a float32."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Element:
    """`code`: the value of cpu::Element; `tolerance`: absolute and relative, of a result of this type."""

    name: str
    code: int
    tolerance: float


FLOAT = Element("float", 0, 2e-5)
HALF = Element("half", 1, 2e-3)
BFLOAT = Element("bfloat", 2, 1.6e-2)


def encode(values: Floats, element: Element) -> Array:
    """Rounded to nearest even."""
    if element is FLOAT:
        return values.astype(np.float32)
    if element is HALF:
        return values.astype(np.float16)
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def decode(array: Array, element: Element) -> Floats:
    if element is BFLOAT:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)
