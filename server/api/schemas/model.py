"""GET /v1/models and /v1/models/{id}."""

from typing import Literal

from pydantic import Field

from server.api.schemas.base import ResponseModel


class ModelCard(ResponseModel):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int = Field(description="Tokens of prompt and answer together.")


class ModelList(ResponseModel):
    object: Literal["list"]
    data: list[ModelCard]
