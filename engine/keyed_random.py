"""Random numbers that are a function of their key, so a draw does not depend on what else is drawn."""

_MASK = (1 << 64) - 1


def keyed_uniform(seed: int, index: int, position: int) -> float:
    """A number in [0, 1) for the token at `position` of sequence `index` under `seed`.

    Each part of the key is stirred in by the SplitMix64 finaliser (Steele, Lea and Flood, "Fast
    splittable pseudorandom number generators", 2014).
    """
    state = _stir(seed & _MASK)
    state = _stir(state ^ index)
    state = _stir(state ^ position)
    return (state >> 11) / (1 << 53)


def _stir(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
