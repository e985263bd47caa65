"""Errors that arise on the HTTP side. `error_response` gives each its HTTP answer.

InvalidRequest (of the engine)
+-- UnknownField         a field that this API does not have
+-- UnsupportedField     a field of OpenAI's that is not served here
ServerError
+-- Unauthorized         no API key, or a wrong one
+-- NoSuchRoute          no such path
+-- WrongMethod          the path does not answer this method
+-- PayloadTooLarge      the body is over the limit
+-- UnsupportedMedia     the body is no plain application/json
+-- RequestTimedOut      the request took longer than the server allows
+-- SlowReader           the client read its stream too slowly
+-- GenerationFailed     this request failed inside; others go on
ClientDisconnected       nobody is left to answer
"""

from engine.errors import InvalidRequest


class UnknownField(InvalidRequest):
    """The request has a field that this API does not know."""


class UnsupportedField(InvalidRequest):
    """The request uses a field of OpenAI's API that this server does not support."""


class ServerError(Exception):
    """Base of the errors of the HTTP side; the message is meant for the client."""


class Unauthorized(ServerError):
    """The request carries no API key that this server accepts."""


class NoSuchRoute(ServerError):
    """Nothing is served under this path."""


class WrongMethod(ServerError):
    """The path is served, but not with this method; `allowed` lists those that are."""

    def __init__(self, message: str, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class PayloadTooLarge(ServerError):
    """The request body is larger than the server accepts."""


class UnsupportedMedia(ServerError):
    """The request body is not plain application/json."""


class RequestTimedOut(ServerError):
    """The request was not done within the time the server gives it."""


class SlowReader(ServerError):
    """The client fell too far behind its stream."""


class GenerationFailed(ServerError):
    """An internal fault ended this request."""


class ClientDisconnected(Exception):
    """The client left before its answer was ready."""
