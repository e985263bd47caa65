"""Rope settings in every spelling that Hugging Face configs have, for a Llama of head size 64."""

_SIZES = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "head_dim": 64,
    "max_position_embeddings": 8192,
}
_LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_YARN = {"factor": 4.0, "original_max_position_embeddings": 2048}


def rope_configs() -> list[dict[str, object]]:
    scalings: list[dict[str, object]] = [
        {"rope_theta": 10000.0},
        {"rope_theta": 100000.0, "rope_scaling": None},
        {"rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_theta": 10000.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "linear", "factor": 2.0}},
        {"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", **_LLAMA3}},
        {"rope_theta": 500000.0, "rope_scaling": {"type": "llama3", **_LLAMA3, "factor": 32.0}},
        {"rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", **_LLAMA3}},
        {"rope_theta": 1000000.0, "rope_scaling": {"type": "yarn", **_YARN}},
        {"rope_theta": 1000000.0, "rope_scaling": {"rope_type": "yarn", **_YARN}},
        {"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "yarn", **_YARN}},
        {"rope_theta": 10000.0, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
        _yarn(attention_factor=1.5),
        _yarn(mscale=1.2, mscale_all_dim=0.8),
        _yarn(beta_fast=16.0, beta_slow=2.0),
        _yarn(truncate=False),
    ]
    return [_SIZES | scaling for scaling in scalings]


def _yarn(**more: object) -> dict[str, object]:
    return {"rope_theta": 10000.0, "rope_scaling": {"rope_type": "yarn", **_YARN, **more}}
