"""OpenAI's error envelope."""

from pydantic import Field

from server.api.schemas.base import ResponseModel


class ErrorDetail(ResponseModel):
    message: str
    type: str
    param: str | None = Field(description="The request field at fault, where one is.")
    code: str | None


class ErrorEnvelope(ResponseModel):
    error: ErrorDetail
