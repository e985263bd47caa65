"""Every model type that a reader lets through has a family that builds it."""

from engine.models.gguf_config import ARCHITECTURES
from engine.models.hf_config import MODEL_TYPES
from engine.models.loading import FAMILIES


def test_every_supported_model_type_has_a_family():
    assert set(MODEL_TYPES) == set(FAMILIES)
    assert set(ARCHITECTURES) <= set(FAMILIES)
