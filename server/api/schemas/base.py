"""The bases of all schemas: requests are strict and closed, responses are plain."""

from pydantic import BaseModel, ConfigDict


class RequestModel(BaseModel):
    """No coercion, no unknown field, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ResponseModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
