"""Where prompts begin to differ from those of the last run."""

import secrets


def chosen_seed(seed: int | None) -> int:
    """`seed`, or one that no run has had: a server that keeps its prefix cache has seen the others."""
    return secrets.randbelow(10**9) if seed is None else seed
