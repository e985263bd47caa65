"""GGUF's tensor names -> Hugging Face's. Standard library only."""

from collections.abc import Mapping

_TOP: Mapping[str, str] = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_LAYER: Mapping[str, str] = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def hf_name(gguf_name: str) -> str:
    """The Hugging Face name of a tensor; a name that has none stays as it is."""
    module, _, kind = gguf_name.rpartition(".")
    if module in _TOP:
        return f"{_TOP[module]}.{kind}"
    block, _, rest = module.partition(".")
    layer, _, part = rest.partition(".")
    if block == "blk" and part in _LAYER:
        return f"model.layers.{layer}.{_LAYER[part]}.{kind}"
    return gguf_name
