"""The errors of the engine.

EngineError
+-- InvalidRequest        the request can never be served as it stands
|   +-- PromptTooLong     its prompt does not fit the context or the page pool
+-- ModelNotFound         no such model is served here
+-- Overloaded            try again later (queue full, draining)
+-- EngineDead            the engine stopped for good
ModelError                a checkpoint that cannot be loaded; ends the process, never a request
OutOfPages, PageNotHeld   internal: never leave the scheduler
"""


class EngineError(Exception):
    """Base of every error that a client of the engine may see."""


class InvalidRequest(EngineError):
    """The request is wrong in itself; `param` names the field at fault."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class PromptTooLong(InvalidRequest):
    """The prompt fits neither the context nor the page pool, now or ever."""


class ModelNotFound(EngineError):
    """The request names a model that is not served here."""


class Overloaded(EngineError):
    """Refused for now; `retry_after` is in seconds."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EngineDead(EngineError):
    """The engine stopped after a fatal fault and serves no more."""


class ModelError(Exception):
    """A checkpoint cannot be loaded; the message is one line that names what is wrong."""


class OutOfPages(Exception):
    """`PagePool` cannot give the pages asked for; nothing was changed."""

    def __init__(self, needed: int, available: int) -> None:
        super().__init__(f"{needed} pages needed, {available} available")
        self.needed = needed
        self.available = available


class PageNotHeld(Exception):
    """A page was retained or released that its caller cannot hold; nothing was changed."""
