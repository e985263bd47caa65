"""Errors of measuring a server.

BenchError          nothing can be measured: a wrong address, no model, no place to write
RequestFailed       one request failed; `kind` groups such failures in a report
"""


class BenchError(Exception):
    """Nothing can be measured; the message is one line."""


class RequestFailed(Exception):
    """One request got no whole answer.

    `kind` is one of: connect, timeout, http STATUS, error event, cut, no stream,
    bad chunk, too short.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
