"""The tiny checkpoints that transformers saves for the parity tests: one per family and trait."""

from pathlib import Path

from tests.support.checkpoints import TinyModel

FOLDER = Path(__file__).parent / "checkpoints"

_SMALL = {"hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 256}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}


def tiny_models() -> dict[str, TinyModel]:
    """By name. Rope scaling starts at 64 positions, which the longer prompts pass."""
    return {
        "llama": TinyModel("llama", **_SMALL, config={"rope_parameters": _LLAMA3}),
        "qwen3": TinyModel("qwen3", **_SMALL, tied=False, config={"rope_parameters": _YARN}),
        "qwen2": TinyModel("qwen2", **_SMALL, seed=3),
        "mistral": TinyModel("mistral", **_SMALL, tied=False, config={"sliding_window": 24}),
    }
