"""GET /health, /livez and /version."""

from typing import Literal

from server.api.schemas.base import ResponseModel


class Health(ResponseModel):
    status: Literal["ready"]


class Liveness(ResponseModel):
    status: Literal["alive"]


class Version(ResponseModel):
    version: str
