"""Every error's one answer: an HTTP status and OpenAI's envelope, or the event that ends a stream."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from starlette.responses import Response

from engine import errors as engine_errors
from server import errors
from server.api.schemas.error import ErrorDetail, ErrorEnvelope

INVALID = "invalid_request_error"
SERVER = "server_error"
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """How one kind of error looks from outside."""

    status: int
    type: str
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)


# Openai's clients repeat a request after most 5xx answers: not after one that took too long.
NO_RETRY = MappingProxyType({"x-should-retry": "false"})
CLOSE = MappingProxyType({"connection": "close"})
BEARER = MappingProxyType({"www-authenticate": "Bearer"})

ANSWERS: Mapping[type[Exception], ErrorAnswer] = MappingProxyType(
    {
        engine_errors.InvalidRequest: ErrorAnswer(400, INVALID),
        engine_errors.PromptTooLong: ErrorAnswer(400, INVALID, "context_length_exceeded"),
        engine_errors.ModelNotFound: ErrorAnswer(404, INVALID, "model_not_found"),
        engine_errors.Overloaded: ErrorAnswer(503, SERVER, "overloaded"),
        engine_errors.EngineDead: ErrorAnswer(503, SERVER, "engine_dead"),
        errors.UnknownField: ErrorAnswer(400, INVALID, "unknown_parameter"),
        errors.UnsupportedField: ErrorAnswer(400, INVALID, "unsupported_parameter"),
        errors.Unauthorized: ErrorAnswer(401, INVALID, "invalid_api_key", BEARER),
        errors.NoSuchRoute: ErrorAnswer(404, INVALID, "unknown_url"),
        errors.WrongMethod: ErrorAnswer(405, INVALID, "method_not_allowed"),
        errors.PayloadTooLarge: ErrorAnswer(413, INVALID, "body_too_large", CLOSE),
        errors.UnsupportedMedia: ErrorAnswer(415, INVALID, "unsupported_media_type"),
        errors.RequestTimedOut: ErrorAnswer(504, SERVER, "timeout", NO_RETRY),
        errors.SlowReader: ErrorAnswer(503, SERVER, "slow_reader", NO_RETRY),
        errors.GenerationFailed: ErrorAnswer(500, SERVER, "generation_failed"),
    }
)
UNEXPECTED = ErrorAnswer(500, SERVER, "internal_error")
UNEXPECTED_MESSAGE = "The server had an internal error while processing this request."


def is_known(error: Exception) -> bool:
    """Whether the error was foreseen: its message is for the client, and no fault to log."""
    return any(kind in ANSWERS for kind in type(error).__mro__)


def answer_for(error: Exception) -> ErrorAnswer:
    """The answer of the error's nearest known class; any other error is an internal one."""
    return next((ANSWERS[kind] for kind in type(error).__mro__ if kind in ANSWERS), UNEXPECTED)


def envelope_for(error: Exception) -> ErrorEnvelope:
    answer = answer_for(error)
    message = str(error) if is_known(error) else UNEXPECTED_MESSAGE
    detail = ErrorDetail(message=message, type=answer.type, param=_param(error), code=answer.code)
    return ErrorEnvelope(error=detail)


def error_response(error: Exception) -> Response:
    answer = answer_for(error)
    return Response(
        envelope_for(error).model_dump_json(),
        status_code=answer.status,
        headers={**answer.headers, **_own_headers(error)},
        media_type="application/json",
    )


def _param(error: Exception) -> str | None:
    if isinstance(error, engine_errors.ModelNotFound):
        return "model"
    return error.param if isinstance(error, engine_errors.InvalidRequest) else None


def _own_headers(error: Exception) -> dict[str, str]:
    if isinstance(error, engine_errors.Overloaded):
        return {"retry-after": str(error.retry_after)}
    if isinstance(error, errors.WrongMethod):
        return {"allow": error.allowed}
    return {}


def error_event(error: Exception) -> bytes:
    """The one data event that tells of an error after the headers went out."""
    return b"data: " + envelope_for(error).model_dump_json(ensure_ascii=True).encode() + b"\n\n"
