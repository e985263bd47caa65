"""Models: one file per family, built from layers.py; checkpoints are read by `load_model`."""

from engine.models.loading import LoadedModel, load_model
from engine.models.model import Attend, CausalLM, ModelSpec

__all__ = ["Attend", "CausalLM", "LoadedModel", "ModelSpec", "load_model"]
